/* Which kernel projects a geometry of the survey with each instruction set. Only the choice is
 * made, without data. A change of a rule shows here; whether it is a better one, `tomos bench
 * --survey` with TOMOS_KERNEL tells. */
#include "backend/cpu/cpu.h"
#include "ops/cases.h"
#include "survey.h"

enum { LEVELS = 3, MODELS = 3 };
static const char *const levels[LEVELS] = {"base", "avx2", "avx512"};
static const int models[MODELS] = {KERNEL_joseph, KERNEL_voxel, KERNEL_footprint};

#define STACK_8 "stack stack stack/8"
#define ANY_8 "footprint_any footprint_any footprint_any/8"
#define UPRIGHT_CIRCLE "footprint_upright footprint_circle footprint_circle"

/* At scale 0.5: what runs for each projector, forward and back, with all instruction sets, or with
 * each of `levels`. "NAME/8": with vectors of 8 floats, narrower than there are; "NAME/8?": only
 * where the processor does wide vectors in halves. */
static const struct {
	const char *geometry, *kernels[MODELS][2];
} choices[] = {
	{"stack-plain", {{"stack", "stack"}, {"stack", "stack"}, {"stack", "stack"}}},
	{"stack-cubes-0.7", {{"stack_heights", "stack_heights"}, {"stack_heights", "stack_heights"},
				    {"stack_heights", "stack_heights"}}},
	{"slice-plain", {{"slice", "slice"}, {"patch patch patch/8?", "slice"},
				{"footprint_any", "footprint_any"}}},
	{"slice-voxel-0.5",
		{{"slice ray ray/8?", "slice ray slice"}, {"patch patch patch/8?", "slice"},
			{"footprint_any", "footprint_any"}}},
	{"fan-2.8n", {{"ray ray ray/8?", "ray ray ray/8"}, {"patch patch patch/8?", "patch"},
			     {"footprint_any", "footprint_any"}}},
	{"fans-5", {{"stack", "stack"}, {"stack", "stack"}, {"stack", "stack"}}},
	{"cone-2.8n", {{"ray_circle", "ray_circle upright upright"},
			      {"patch_circle", "patch_circle patch_circle column"},
			      {UPRIGHT_CIRCLE, UPRIGHT_CIRCLE}}},
	{"cone-voxel-0.5", {{"ray_circle", "ray_circle ray_circle upright"},
				   {"patch_circle", "patch_circle column column"},
				   {UPRIGHT_CIRCLE, UPRIGHT_CIRCLE}}},
	{"cone-voxel-2",
		{{"ray_circle upright upright", "ray_circle"}, {"patch_circle", "patch_circle"},
			{UPRIGHT_CIRCLE, UPRIGHT_CIRCLE}}},
	{"cone-random", {{"upright", "ray upright upright"}, {"column", "column"},
				{"footprint_upright", "footprint_upright"}}},
	{"cone-few-views", {{"upright", "upright"}, {"column", "column"},
				   {"footprint_upright", UPRIGHT_CIRCLE}}},
	{"cone-thin", {{"ray_circle", "ray_circle"}, {"patch_circle", "patch_circle"},
			      {UPRIGHT_CIRCLE, UPRIGHT_CIRCLE}}},
	{"cone-small",
		{{"ray", "ray upright upright"}, {"patch patch column", "patch"},
			{"footprint_upright footprint_any footprint_any", "footprint_upright"}}},
	{"helix", {{"ray", "ray upright upright"}, {"column", "column"},
			  {"footprint_upright", "footprint_upright"}}},
	{"c-arm", {{"ray", "ray ray ray/8"}, {"patch patch patch/8?", "patch"},
			  {"footprint_any", "footprint_any"}}},
	{"laminography-30", {{"ray", "ray oblique oblique/8"}, {"patch patch column", "column"},
				    {"footprint_upright", "footprint_upright"}}},
	{"stack-roll-10", {{"ray", "ray oblique oblique/8"}, {"patch patch patch/8?", "patch"},
				  {"footprint_any", "footprint_any"}}},
	{"tall-helix", {{"ray", "ray upright upright"}, {"column", "column"},
			       {"footprint_upright", "footprint_upright"}}},
	{"thin-laminography",
		{{"ray", "ray oblique oblique/8"}, {"patch", "patch"},
			{"footprint_upright footprint_any footprint_any", "footprint_upright"}}},
	{"stack-voxel-0.25", {{"stack", "stack"}, {"stack", "stack"}, {"stack", "stack"}}},
	{"fans-voxel-0.25", {{"stack", "stack"}, {"stack", "stack"}, {"stack", "stack"}}},
	{"stack-voxel-5", {{"stack", "stack"}, {"stack", "stack"}, {"stack", "stack"}}},
	{"fans-voxel-5", {{STACK_8, STACK_8}, {STACK_8, STACK_8}, {STACK_8, STACK_8}}},
	{"few-rows", {{"ray ray ray/8", "ray ray ray/8"}, {"column", "column"},
			     {"footprint_upright", "footprint_upright"}}},
	{"cone-24", {{"ray", "ray ray ray/8"}, {"patch patch patch/8", "patch patch patch/8"},
			    {ANY_8, "footprint_upright footprint_any footprint_any/8"}}},
};

/* Geometries that are not in the survey. */
static const survey_row own_rows[] = {
	{"tall-helix", "cone", "helix", {256, 256, 1024}, 480, 96, 256, "", .source = 2.5,
		.magnification = 1.5, .arc = 2880, .pitch = 0.5},
	{"thin-laminography", "laminography", "laminography", {384, 384, 64}, 120, 384, 384, "",
		.tilt = 37},
	{"stack-voxel-0.25", "stack", "parallel", {256, 256, 64}, 120, 64, 256, "",
		.voxel = {0.25, 0.25, 1}},
	{"fans-voxel-0.25", "fans", "fan", {256, 256, 64}, 120, 64, 256, "", .source = 2.5,
		.magnification = 1.5, .voxel = {0.25, 0.25, 1}},
	{"stack-voxel-5", "stack", "parallel", {50, 50, 64}, 120, 64, 256, "", .voxel = {5, 5, 1}},
	{"fans-voxel-5", "fans", "fan", {50, 50, 64}, 120, 64, 256, "", .source = 2.5,
		.magnification = 1.5, .voxel = {5, 5, 1}},
	{"few-rows", "laminography", "laminography", {164, 164, 148}, 130, 8, 166, "",
		.voxel = {1.5, 1.5, 1.5}, .tilt = 18, .arc = 360},
	{"cone-24", "cone", "cone", {48, 48, 48}, 122, 48, 48, "", .source = 2.8,
		.magnification = 1.5},
};

/* The name of the kernel, and the number of floats if that is not the level's own. */
static void chosen(const CpuLevel *level, const ProjectRequest *what, char name[64])
{
	const CpuRow *row = cpu_find(level, what, NULL);
	const CpuLevel *own = level;
	while (row && !(row >= own->optimised && row < own->optimised + own->optimised_count))
		own = own->narrower;
	snprintf(name, 64, "%s", row ? row->name : "reference");
	if (row && own != level)
		snprintf(name + strlen(name), 64 - strlen(name), "/%d", own->lanes);
}

/* The word of a list for a level; the only word is for all of them. */
static void expected(const char *list, int level, char word[64])
{
	char words[LEVELS][64];
	int count = sscanf(list, "%63s %63s %63s", words[0], words[1], words[2]);
	assert_true(count == 1 || count == LEVELS);
	memcpy(word, words[count == 1 ? 0 : level], 64);
	char *condition = strchr(word, '?');
	if (condition)
		*(cpu_halves_vectors() ? condition : strchr(word, '/')) = '\0';
}

static int check_request(
	const Plan *plan, const CpuLevel *own, int choice, int model, Direction d, int level)
{
	ProjectRequest what = {.plan = plan,
		.kernel = models[model],
		.direction = d,
		.count = plan->scan->count,
		.overwrite = true};
	char name[64], word[64];
	memcpy(what.box.high, plan->grid.n, sizeof what.box.high);
	chosen(own, &what, name);
	expected(choices[choice].kernels[model][d], level, word);
	if (strcmp(name, word) == 0)
		return 0;
	print_error("%s, %s %s, %s: '%s' instead of '%s'\n", choices[choice].geometry,
		kernel_rows[models[model]].name, d == FORWARD ? "forward" : "back", levels[level],
		name, word);
	return 1;
}

static const survey_row *find_row(const char *name)
{
	int count;
	const survey_row *rows = survey_list(&count);
	for (int i = 0; i < COUNT(own_rows); i++)
		if (strcmp(own_rows[i].name, name) == 0)
			return &own_rows[i];
	for (int i = 0; i < count; i++)
		if (strcmp(rows[i].name, name) == 0)
			return &rows[i];
	return NULL;
}

static int check_geometry(const CpuLevel *own, int choice, int level)
{
	const KernelModel weights = {.weight = WEIGHT_RAY};
	tomos_geometry *scan;
	tomos_grid grid;
	Plan plan;
	int wrong = 0;
	const survey_row *row = find_row(choices[choice].geometry);
	assert_non_null(row);
	OK(survey_make(row, 0.5, &grid, &scan));
	OK(plan_make(&plan, &grid, scan, &weights));
	for (int m = 0; m < MODELS; m++)
		wrong += check_request(&plan, own, choice, m, FORWARD, level) +
			 check_request(&plan, own, choice, m, ADJOINT, level);
	plan_free(&plan);
	tomos_geometry_free(scan);
	return wrong;
}

static void kernels_are_as_listed(void **state)
{
	(void)state;
	int wrong = 0;
	for (int l = 0; l < LEVELS; l++) {
		tomos_backend *backend = open_level("cpu", levels[l]);
		for (int i = 0; backend && i < COUNT(choices); i++)
			wrong += check_geometry(backend->own, i, l);
		tomos_backend_close(backend);
	}
	assert_int_equal(wrong, 0);
}

#define TESTS(T) T(kernels_are_as_listed)
TEST_MAIN(TESTS, NULL, NULL)
