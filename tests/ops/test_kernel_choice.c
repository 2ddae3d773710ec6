/* Which kernel projects a geometry of the survey with each instruction set. Only the choice is
 * made, without data. A change of a rule shows here; whether it is a better one, `tomos bench
 * --survey` with TOMOS_KERNEL tells. */
#include "backend/cpu/cpu.h"
#include "ops/cases.h"
#include "survey.h"

enum { LEVELS = 3, MODELS = 3 };
static const char *const levels[LEVELS] = {"base", "avx2", "avx512"};
static const int models[MODELS] = {KERNEL_joseph, KERNEL_voxel, KERNEL_footprint};

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
	{"cone-random", {{"upright", "upright"}, {"column", "column"},
				{"footprint_upright", "footprint_upright"}}},
	{"cone-few-views", {{"upright", "upright"}, {"column", "column"},
				   {"footprint_upright", UPRIGHT_CIRCLE}}},
	{"cone-thin", {{"ray_circle", "ray_circle"}, {"patch_circle", "patch_circle"},
			      {UPRIGHT_CIRCLE, UPRIGHT_CIRCLE}}},
	{"cone-small",
		{{"ray", "upright"}, {"column", "patch"},
			{"footprint_upright footprint_any footprint_any", "footprint_upright"}}},
	{"helix", {{"ray upright upright/8", "upright"}, {"column", "column"},
			  {"footprint_upright", "footprint_upright"}}},
	{"c-arm", {{"ray", "ray ray ray/8"}, {"patch patch patch/8?", "patch"},
			  {"footprint_any", "footprint_any"}}},
	{"laminography-30", {{"oblique", "oblique oblique oblique/8"}, {"column", "column"},
				    {"footprint_upright", "footprint_upright"}}},
	{"stack-roll-10", {{"ray", "oblique oblique oblique/8"}, {"patch patch patch/8?", "patch"},
				  {"footprint_any", "footprint_any"}}},
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

static int check_geometry(const CpuLevel *own, int choice, int level)
{
	const KernelModel weights = {.weight = WEIGHT_RAY};
	tomos_geometry *scan;
	tomos_grid grid;
	Plan plan;
	int count, i = 0, wrong = 0;
	const survey_row *rows = survey_list(&count);
	while (i < count && strcmp(rows[i].name, choices[choice].geometry) != 0)
		i++;
	assert_true(i < count);
	OK(survey_make(&rows[i], 0.5, &grid, &scan));
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
