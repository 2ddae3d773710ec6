/* Many slices at a time on the CPU: against the reference kernels on every instruction set, each
 * other's adjoint, sums in closed form, and slices that do not know of their neighbours. */
#include "backend/cpu/cpu.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"

/* nx, ny, slices of the grid; rows, columns and views of the scan. */
typedef struct {
	const char *name;
	int64_t n[3], rows, columns, views;
	double pixel;
	int across;    /* slices across z (2), y or x */
	int down;      /* z steps down while rows go up */
	double source; /* of fans, from the axis; 0: parallel rays */
} Size;

static const Size sizes[] = {
	{"eight", {19, 23, 8}, 8, 31, 5, 1, 2, 0, 0},
	{"odd", {37, 29, 33}, 33, 41, 19, 1, 2, 0, 0},
	{"fans", {37, 29, 33}, 33, 41, 19, 1.4, 2, 0, 90},
	{"more rows than slices", {16, 17, 47}, 60, 16, 17, 1.3, 2, 0, 0},
	{"fewer rows than slices", {33, 16, 41}, 30, 35, 18, 0.9, 2, 0, 0},
	{"downwards", {21, 22, 31}, 31, 33, 16, 1, 2, 1, 0},
	{"fine pixels", {23, 20, 17}, 17, 70, 9, 0.3, 2, 0, 0},
	{"coarse pixels", {43, 40, 17}, 17, 15, 9, 2.4, 2, 0, 0},
	{"one pixel", {1, 1, 64}, 64, 1, 5, 1, 2, 0, 0},
	{"one row of pixels", {40, 1, 9}, 9, 50, 7, 1, 2, 0, 0},
	{"several strips", {9, 300, 10}, 10, 301, 7, 1, 2, 0, 0},
	{"several passes", {40, 30, 9}, 9, 1999, 75, 1, 2, 0, 0},
	{"across y", {21, 22, 35}, 35, 33, 16, 1, 1, 0, 0},
	{"across x", {21, 22, 35}, 35, 33, 16, 1, 0, 0, 0},
	{"two fans, near", {23, 26, 2}, 2, 41, 16, 1.3, 2, 0, 95},
	{"fans downwards, fewer rows", {33, 16, 41}, 30, 35, 18, 1.1, 2, 1, 150},
	{"fans, fine pixels", {23, 20, 17}, 17, 70, 9, 0.55, 2, 0, 95},
	{"fans, coarse pixels", {43, 40, 17}, 17, 15, 9, 2.4, 2, 0, 120},
	{"fans, one pixel", {1, 1, 64}, 64, 1, 5, 1, 2, 0, 80},
	{"fans, several strips", {9, 300, 10}, 10, 301, 7, 1.5, 2, 0, 900},
};
enum { SIZES = sizeof sizes / sizeof sizes[0], ODD = 1, FANS, PASSES = 11 };

static const int kernels[] = {KERNEL_joseph, KERNEL_voxel};
static tomos_backend *backend;

/* Angles in no order, the axis elsewhere in each view, rows shifted by whole ones. */
static Case make_case(const Size *size)
{
	Case c = {.state = (uint64_t)size->columns};
	double angles[100], axis[100], axis_row[100];
	tomos_scan_options o = tomos_scan_defaults();
	for (int64_t i = 0; i < size->views; i++) {
		angles[i] = i == 0 ? 0 : i == 1 ? 1.5707963267948966 : case_between(&c, -4, 4);
		axis[i] = 0.5 * (double)(size->columns - 1) + case_between(&c, -2, 2);
		axis_row[i] = 0.5 * (double)(size->n[2] - 1) + (double)case_integer(&c, -2, 2);
	}
	double far = 1.4 * size->source;
	if (size->source > 0) {
		o.geometry = "fan";
		o.source_axis = &size->source, o.source_axis_count = 1;
		o.source_detector = &far, o.source_detector_count = 1;
	}
	o.rows = size->rows, o.columns = size->columns;
	o.pixel = size->pixel, o.pixel_height = 1;
	o.angles = angles, o.angles_count = size->views;
	o.axis = axis, o.axis_count = size->views;
	o.axis_row = axis_row, o.axis_row_count = size->views;
	case_place(&c, &o, size->n);
	if (size->down)
		c.grid.first[2] *= -1, c.grid.step[2] *= -1;
	if (size->across < 2)
		case_turn(&c, size->across);
	snprintf(c.name, sizeof c.name, "%s", size->name);
	return c;
}

static Plan plan_of(const Case *c, int weight, int plain)
{
	Plan plan;
	OK(plan_make(&plan, &c->grid, c->scan, &(KernelModel){.weight = weight}));
	plan.plain = plain;
	return plan;
}

static ProjectRequest request_of(const Plan *plan, int kernel, Direction direction)
{
	ProjectRequest what = {.plan = plan, .kernel = kernel, .direction = direction};
	memcpy(what.box.high, plan->grid.n, sizeof what.box.high);
	what.count = plan->scan->count;
	return what;
}

/* The request added to a fresh array of `count` floats. */
static float *result(ProjectRequest what, const float *input, int64_t count)
{
	float *sums = calloc((size_t)count, sizeof *sums);
	what.volume = what.direction == FORWARD ? (float *)input : sums;
	what.projections = what.direction == FORWARD ? sums : (float *)input;
	OK(backend->type->projector->apply(backend, &what));
	return sums;
}

/* The optimised kernel that serves a request. */
static const char *served_by(const ProjectRequest *what)
{
	const CpuLevel *level;
	OK(cpu_level_choose(&level));
	const CpuRow *row = cpu_find(level, what, NULL);
	return row ? row->name : "reference kernel";
}

static void check_case(Case *c, int kernel, int weight)
{
	Plan tuned = plan_of(c, weight, 0), plain = plan_of(c, weight, 1);
	ProjectRequest there = request_of(&tuned, kernel, FORWARD);
	ProjectRequest back = request_of(&tuned, kernel, ADJOINT);
	assert_string_equal(served_by(&there), "stack");
	assert_string_equal(served_by(&back), "stack");
	float *x = case_data(c, c->voxels), *y = case_data(c, c->pixels);
	float *Ax = result(there, x, c->pixels), *Ay = result(back, y, c->voxels);
	there.plan = back.plan = &plain;
	float *f = result(there, x, c->pixels), *g = result(back, y, c->voxels);
	double forward = case_difference(Ax, f, c->pixels);
	double adjoint = case_difference(Ay, g, c->voxels);
	double scale = sqrt(case_dot(Ax, Ax, c->pixels) * case_dot(y, y, c->pixels));
	double pair = fabs(case_dot(Ax, y, c->pixels) - case_dot(x, Ay, c->voxels)) / scale;
	if (!(forward <= 1e-6 && adjoint <= 1e-6 && pair <= 2e-7))
		fail_msg("%s %s: forward differs by %g, adjoint by %g, from each other by %g",
			kernel_rows[kernel].name, c->name, forward, adjoint, pair);
	free(x), free(y), free(Ax), free(Ay), free(f), free(g);
	plan_free(&tuned);
	plan_free(&plain);
}

static void check_sizes(int step)
{
	for (int i = 0; i < SIZES; i += step) {
		Case c = make_case(&sizes[i]);
		check_case(&c, KERNEL_joseph, WEIGHT_RAY);
		check_case(&c, KERNEL_voxel, WEIGHT_RAY);
		check_case(&c, KERNEL_voxel, WEIGHT_NONE);
		tomos_geometry_free(c.scan);
	}
}

static void every_level(void **state)
{
	(void)state;
	for (int l = 0; l < CPU_LEVELS; l++) {
		backend = open_level("cpu", cpu_levels[l]);
		if (backend)
			check_sizes(CASE_RACES ? 3 : 1);
		tomos_backend_close(backend);
	}
}

/* Along the axes of the grid a projection is the sum of its voxels, for every model. */
static void quarter_turns_are_sums(void **state)
{
	(void)state;
	enum { N = 21, SLICES = 37 };
	Case c = {.state = 3};
	OK(tomos_backend_open(&backend, "cpu"));
	OK(tomos_geometry_parallel(&c.scan, SLICES, N, 1, (double[]){0, 1.5707963267948966}, 2));
	OK(tomos_grid_centred(&c.grid, N, N, SLICES, 1));
	float *x = case_data(&c, N * N * SLICES);
	for (int k = 0; k < COUNT(kernels); k++) {
		Plan plan = plan_of(&c, WEIGHT_RAY, 0);
		float *y = result(request_of(&plan, kernels[k], FORWARD), x, 2 * N * SLICES);
		for (int z = 0; z < SLICES; z++)
			for (int i = 0; i < N; i++) {
				double down = 0, along = 0;
				for (int j = 0; j < N; j++) {
					down += x[(z * N + j) * N + i];
					along += x[(z * N + N - 1 - i) * N + j];
				}
				assert_true(fabs(y[z * N + i] - down) < 1e-5);
				assert_true(fabs(y[(SLICES + z) * N + i] - along) < 1e-5);
			}
		free(y);
		plan_free(&plan);
	}
	free(x);
	tomos_geometry_free(c.scan);
	tomos_backend_close(backend);
}

/* The voxel projector preserves the sum of a slice at every angle. */
static void mass_arrives(void **state)
{
	(void)state;
	enum { N = 30, COLUMNS = 47, SLICES = 18, VIEWS = 23 };
	Case c = {.state = 4};
	double angles[VIEWS];
	for (int i = 0; i < VIEWS; i++)
		angles[i] = 0.3 * i;
	OK(tomos_backend_open(&backend, "cpu"));
	OK(tomos_geometry_parallel(&c.scan, SLICES, COLUMNS, 1, angles, VIEWS));
	OK(tomos_grid_centred(&c.grid, N, N, SLICES, 1));
	Plan plan = plan_of(&c, WEIGHT_RAY, 0);
	float *x = case_data(&c, N * N * SLICES);
	float *y = result(request_of(&plan, KERNEL_voxel, FORWARD), x, COLUMNS * SLICES * VIEWS);
	for (int v = 0; v < VIEWS; v++)
		for (int z = 0; z < SLICES; z++) {
			double mass = 0, arrived = 0;
			for (int i = 0; i < N * N; i++)
				mass += x[z * N * N + i];
			for (int i = 0; i < COLUMNS; i++)
				arrived += y[(v * SLICES + z) * COLUMNS + i];
			if (!(fabs(arrived - mass) < 1e-5 * fabs(mass) + 1e-4))
				fail_msg("view %d, slice %d: %g of %g", v, z, arrived, mass);
		}
	free(x), free(y);
	plan_free(&plan);
	tomos_geometry_free(c.scan);
	tomos_backend_close(backend);
}

/* Some of the slices: the back projection has the same bits, even for so few slices that another
 * kernel is used; the forward projection of so few is equal to rounding. */
static void check_slices(Case *c, int kernel, int64_t low, int64_t high)
{
	const int64_t slice = c->grid.n[0] * c->grid.n[1], count = slice * (high - low);
	Plan plan = plan_of(c, WEIGHT_RAY, 0);
	ProjectRequest there = request_of(&plan, kernel, FORWARD);
	ProjectRequest back = request_of(&plan, kernel, ADJOINT);
	float *x = case_data(c, c->voxels), *y = case_data(c, c->pixels);
	float *g = result(back, y, c->voxels), *f = result(there, x, c->pixels);
	there.box.low[2] = back.box.low[2] = low;
	there.box.high[2] = back.box.high[2] = high;
	bool few_go = high - low < 8 && c->scan->views[0].src[3] == 0;
	assert_string_equal(served_by(&back), few_go ? "slice" : "stack");
	float *part = result(back, y, count), *few = result(there, x + low * slice, c->pixels);
	assert_memory_equal(part, g + low * slice, (size_t)count * sizeof *part);
	double worst = 0, largest = 0;
	for (int64_t i = 0; i < c->pixels; i++)
		if (few[i] != 0) {
			worst = fmax(worst, fabs(few[i] - f[i]));
			largest = fmax(largest, fabs(few[i]));
		}
	assert_true(largest > 0 && worst <= (few_go ? 1e-6 * largest : 0));
	free(x), free(y), free(f), free(g), free(part), free(few);
	plan_free(&plan);
}

static void neighbours_do_not_matter(void **state)
{
	(void)state;
	for (int l = 0; l < CPU_LEVELS; l++) {
		backend = open_level("cpu", cpu_levels[l]);
		if (!backend)
			continue;
		for (int k = 0; k < 4 * COUNT(kernels); k++) {
			Case c = make_case(&sizes[k % 2 ? ODD : FANS]);
			check_slices(&c, kernels[k / 4], 9, k / 2 % 2 ? 12 : 22);
			tomos_geometry_free(c.scan);
		}
		Case c = make_case(&sizes[PASSES]);
		check_slices(&c, KERNEL_voxel, 2, 5);
		tomos_geometry_free(c.scan);
		tomos_backend_close(backend);
	}
}

static void threads_do_not_matter(void **state)
{
	(void)state;
	OK(tomos_backend_open(&backend, "cpu"));
	for (int k = 0; k < 4 * COUNT(kernels); k++) {
		Case c = make_case(&sizes[k / 2 % 2 ? ODD : FANS]);
		Plan plan = plan_of(&c, WEIGHT_RAY, 0);
		ProjectRequest what = request_of(&plan, kernels[k / 4], k % 2 ? FORWARD : ADJOINT);
		int64_t count = k % 2 ? c.pixels : c.voxels;
		float *input = case_data(&c, k % 2 ? c.voxels : c.pixels);
		OK(tomos_set_threads(1));
		float *one = result(what, input, count);
		OK(tomos_set_threads(5));
		float *five = result(what, input, count);
		assert_memory_equal(one, five, (size_t)count * sizeof *one);
		free(one), free(five), free(input);
		plan_free(&plan);
		tomos_geometry_free(c.scan);
	}
	OK(tomos_set_threads(0));
	tomos_backend_close(backend);
}

static void memory_may_fail(void **state)
{
	(void)state;
	OK(tomos_backend_open(&backend, "cpu"));
	Case c = make_case(&sizes[0]);
	Plan plan = plan_of(&c, WEIGHT_RAY, 0);
	float *x = case_data(&c, c.voxels), *y = case_data(&c, c.pixels);
	for (int d = 0; d < 4; d++) {
		ProjectRequest what = request_of(
			&plan, d < 2 ? KERNEL_joseph : KERNEL_voxel, d == 0 ? FORWARD : ADJOINT);
		what.volume = x, what.projections = y;
		if (d == 3)
			what.box.high[2] = 2; /* slice by slice */
		int64_t live = mem_live();
		tomos_status status = TOMOS_NO_MEMORY;
		for (int64_t nth = 1; status != TOMOS_OK; nth++) {
			mem_fail_nth(nth);
			status = backend->type->projector->apply(backend, &what);
			mem_fail_nth(0);
			assert_int_equal(mem_live(), live);
			assert_true(nth < 10 && (nth > 2 || status == TOMOS_NO_MEMORY));
			if (status != TOMOS_OK)
				assert_non_null(strstr(tomos_message(), "memory"));
		}
	}
	free(x), free(y);
	plan_free(&plan);
	tomos_geometry_free(c.scan);
	tomos_backend_close(backend);
}

#define TESTS(T) \
	T(every_level), T(quarter_turns_are_sums), T(mass_arrives), T(neighbours_do_not_matter), \
		T(threads_do_not_matter), T(memory_may_fail)
TEST_MAIN(TESTS, NULL, NULL)
