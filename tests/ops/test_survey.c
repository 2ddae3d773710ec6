/* Every geometry of the survey has an optimised kernel, on every instruction set of this processor
 * and on GPUs, and some a certain one. Only the choice of the kernel is made, without data; that of
 * CUDA kernels needs no GPU either. */
#include "backend/device_module.h"
#include "ops/cases.h"
#include "survey.h"

/* Geometries without an optimised kernel: where ("cpu/avx2", "cuda/90", or "cpu", "cuda" for all of
 * them), projector, direction, names; "*": some. The list is exact: an entry without such cases
 * must be removed. */
typedef struct {
	const char *where, *projector, *direction, *names;
} Missing;

static const Missing missing[] = {
	{"none", "", "", ""},
};

static const struct {
	const char *name;
	int kernel;
} projectors[] = {
	{"joseph", KERNEL_joseph}, {"voxel", KERNEL_voxel}, {"footprint", KERNEL_footprint}};

static const char *const directions[] = {[FORWARD] = "forward", [ADJOINT] = "back"};

enum { MOST_NAMES = 8192 };

/* One projector in one direction on one device, and the geometries it has no kernel for. */
typedef struct {
	int projector;
	Direction direction;
	char names[MOST_NAMES];
} Cell;

static const char *listed(const char *where, const Cell *cell)
{
	for (int i = 0; i < COUNT(missing); i++) {
		size_t length = strlen(missing[i].where);
		if (strncmp(missing[i].where, where, length) == 0 &&
			(where[length] == '/' || !where[length]) &&
			strcmp(missing[i].projector, projectors[cell->projector].name) == 0 &&
			strcmp(missing[i].direction, directions[cell->direction]) == 0)
			return missing[i].names;
	}
	return "";
}

static bool is_as_listed(const char *where, const Cell *cell)
{
	const char *known = listed(where, cell);
	return strcmp(known, "*") == 0 ? cell->names[0] != 0 : strcmp(known, cell->names) == 0;
}

/* The kernel that runs unless tuning or TOMOS_KERNEL names another; NULL: the reference kernel. */
static const char *chosen_kernel(tomos_backend *backend, const Plan *plan, int kernel, Direction d)
{
	KernelCandidate list[MAX_CANDIDATES];
	ProjectRequest what = {.plan = plan,
		.kernel = kernel,
		.direction = d,
		.count = plan->scan->count,
		.overwrite = true};
	memcpy(what.box.high, plan->grid.n, sizeof what.box.high);
	int count = backend->type->projector->candidates(backend, &what, list);
	for (int i = 0; i < count; i++)
		if (list[i].automatic)
			return list[i].name;
	return NULL;
}

static void add_name(Cell *cell, const char *name)
{
	size_t length = strlen(cell->names);
	snprintf(cell->names + length, MOST_NAMES - length, "%s%s", length ? " " : "", name);
}

/* At the scale of a GPU, and at one where tiles of kernels are larger than the data. */
static bool has_kernel(tomos_backend *backend, const survey_row *row, const Cell *cell)
{
	static const double scales[] = {1, 0.1};
	const KernelModel model = {.weight = WEIGHT_RAY};
	bool has = true;
	for (int i = 0; i < COUNT(scales); i++) {
		tomos_geometry *scan;
		tomos_grid grid;
		Plan plan;
		OK(survey_make(row, scales[i], &grid, &scan));
		OK(plan_make(&plan, &grid, scan, &model));
		has &= chosen_kernel(backend, &plan, projectors[cell->projector].kernel,
			       cell->direction) != NULL;
		plan_free(&plan);
		tomos_geometry_free(scan);
	}
	return has;
}

/* Returns the number of projectors and directions that are not as the list says. */
static int check_all(tomos_backend *backend, const char *where)
{
	int count, wrong = 0;
	const survey_row *rows = survey_list(&count);
	for (int k = 0; k < 2 * COUNT(projectors); k++) {
		Cell cell = {.projector = k / 2, .direction = k % 2 ? ADJOINT : FORWARD};
		for (int i = 0; i < count; i++)
			if (!has_kernel(backend, &rows[i], &cell))
				add_name(&cell, rows[i].name);
		if (cell.names[0] || listed(where, &cell)[0])
			printf("%s %s %s: no optimised kernel for '%s', listed: '%s'\n", where,
				projectors[cell.projector].name, directions[cell.direction],
				cell.names, listed(where, &cell));
		wrong += !is_as_listed(where, &cell);
	}
	return wrong;
}

static void none_wrong(int wrong)
{
	if (wrong > 0)
		fail_msg("%d lines are not as the list of missing kernels says", wrong);
}

static void test_cpu(void **state)
{
	(void)state;
	int wrong = 0;
	for (int i = 0; i < CPU_LEVELS; i++) {
		tomos_backend *backend = open_level("cpu", cpu_levels[i]);
		char where[32];
		if (!backend)
			continue;
		snprintf(where, sizeof where, "cpu/%s", cpu_levels[i]);
		wrong += check_all(backend, where);
		tomos_backend_close(backend);
	}
	none_wrong(wrong);
}

/* ---- CUDA without a GPU ---------------------------------------------------------------------- */

static void test_cuda(void **state)
{
	(void)state;
	static const char *const capabilities[] = {"75", "80", "86", "90"};
	tomos_backend backend = {.type = NULL};
	int wrong = 0;
	if (module_load("cuda", &backend.type) != TOMOS_OK) {
		print_message("skipped: there is no CUDA backend in this build\n");
		skip();
	}
	for (int i = 0; i < COUNT(capabilities); i++) {
		char where[32];
		setenv("TOMOS_CUDA", capabilities[i], 1);
		snprintf(where, sizeof where, "cuda/%s", capabilities[i]);
		wrong += check_all(&backend, where);
	}
	unsetenv("TOMOS_CUDA");
	none_wrong(wrong);
}

/* Geometries next to conditions of kernels, at which speed once dropped to a tenth: the kernel that
 * a GPU of compute capability 9.0 runs. */
typedef struct {
	const char *geometry;
	int projector;
	Direction direction;
	const char *kernel;
} Chosen;

static const Chosen chosen[] = {
	{"stack-9-between-rows", KERNEL_joseph, FORWARD, "slices_forward_resampled"},
	{"stack-9-between-rows", KERNEL_joseph, ADJOINT, "slices_back_resampled"},
	{"stack-9-between-rows", KERNEL_voxel, FORWARD, "slices_forward_resampled"},
	{"stack-9-between-rows", KERNEL_voxel, ADJOINT, "slices_back_resampled"},
	{"stack-5-high-slices", KERNEL_joseph, FORWARD, "slices_forward_resampled"},
	{"stack-5-high-slices", KERNEL_joseph, ADJOINT, "slices_back_resampled"},
	{"stack-5-high-slices", KERNEL_voxel, FORWARD, "slices_forward_resampled"},
	{"stack-5-high-slices", KERNEL_voxel, ADJOINT, "slices_back_resampled"},
	{"slice-voxel-3", KERNEL_joseph, ADJOINT, "slices_back_resampled"},
	{"fan-voxel-12", KERNEL_joseph, ADJOINT, "slices_back_resampled"},
	{"slice-voxel-0.5", KERNEL_voxel, FORWARD, "fan_forward"},
	{"fans-high-slices", KERNEL_joseph, FORWARD, "slices_forward_resampled"},
	{"fans-high-slices", KERNEL_joseph, ADJOINT, "slices_back_resampled"},
	{"fans-high-slices", KERNEL_voxel, ADJOINT, "slices_back_resampled"},
	{"fans-11", KERNEL_joseph, FORWARD, "fan_forward"},
	{"fans-11", KERNEL_joseph, ADJOINT, "fan_back"},
	{"fans-11", KERNEL_voxel, ADJOINT, "fan_back"},
	{"cone-voxel-3", KERNEL_joseph, ADJOINT, "joseph_back_circle_2"},
	{"cone-voxel-4", KERNEL_joseph, ADJOINT, "joseph_back_circle_2"},
	{"cone-voxel-2", KERNEL_voxel, FORWARD, "voxel_forward_scatter"},
	{"cone-tilted-voxel-4", KERNEL_voxel, ADJOINT, "voxel_back_few"},
	{"cone-5-slices", KERNEL_footprint, ADJOINT, "footprint_back_upright"},
	{"cone-random", KERNEL_footprint, ADJOINT, "footprint_back_upright"},
};

static const survey_row *row_of(const char *name)
{
	int count;
	const survey_row *rows = survey_list(&count);
	for (int i = 0; i < count; i++)
		if (strcmp(rows[i].name, name) == 0)
			return &rows[i];
	fail_msg("the survey has no geometry '%s'", name);
	return NULL;
}

static void check_choice(tomos_backend *backend, const Chosen *c)
{
	const KernelModel model = {.weight = WEIGHT_RAY};
	tomos_geometry *scan;
	tomos_grid grid;
	Plan plan;
	OK(survey_make(row_of(c->geometry), 1, &grid, &scan));
	OK(plan_make(&plan, &grid, scan, &model));
	const char *kernel = chosen_kernel(backend, &plan, c->projector, c->direction);
	if (!kernel || strcmp(kernel, c->kernel) != 0)
		fail_msg("%s, %s: %s instead of %s", c->geometry, directions[c->direction],
			kernel ? kernel : "the reference kernel", c->kernel);
	plan_free(&plan);
	tomos_geometry_free(scan);
}

static void test_cuda_choices(void **state)
{
	(void)state;
	tomos_backend backend = {.type = NULL};
	if (module_load("cuda", &backend.type) != TOMOS_OK) {
		print_message("skipped: there is no CUDA backend in this build\n");
		skip();
	}
	setenv("TOMOS_CUDA", "90", 1);
	for (int i = 0; i < COUNT(chosen); i++)
		check_choice(&backend, &chosen[i]);
	unsetenv("TOMOS_CUDA");
}

#define TESTS(T) T(test_cpu), T(test_cuda), T(test_cuda_choices)
TEST_MAIN(TESTS, NULL, NULL)
