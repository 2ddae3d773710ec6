/* Kernels chosen by measuring: on a fake device, and on the device of the tests. */
#include "ops/tune_fake.h"

/* ---- choosing -------------------------------------------------------------------------------- */

static void test_chooses_the_fastest(void **state)
{
	(void)state;
	tomos_backend *backend = fake_backend();
	tomos_tuned *rows;
	int64_t count;
	tune_fake(backend, 0, &rows, &count);
	assert_int_equal(count, 2);
	assert_string_equal(rows[0].kernel, "slow");
	assert_string_equal(rows[1].kernel, "quick");
	assert_true(rows[1].chosen && !rows[0].chosen);
	assert_true(rows[1].rate > rows[0].rate);
	/* 8 x 8 x 4 voxels and 6 views in 8 ms or somewhat more. */
	assert_true(rows[1].rate < 8 * 8 * 4 * 6 / 0.008);
	assert_string_equal(rows[0].rays, "slices");
	assert_int_equal(rows[0].size, 8);
	assert_int_equal(rows[0].slices, 4);
	assert_int_equal(rows[0].views, 6);
	assert_int_equal(rows[0].columns, 8);
	tomos_tuned_free(rows);
	tomos_backend_close(backend);
}

static void test_coarse_if_allowed(void **state)
{
	(void)state;
	tomos_backend *backend = fake_backend();
	tomos_tuned *rows;
	int64_t count;
	tune_fake(backend, 1, &rows, &count);
	assert_int_equal(count, 3);
	assert_string_equal(rows[2].kernel, "rough");
	assert_true(rows[2].chosen && rows[2].coarse);
	tomos_tuned_free(rows);
	tomos_backend_close(backend);
}

/* The back projection of a cone beam with 8 columns at the axis. */
static ProjectRequest cone_request(Plan *plan, double source, double voxel, double roll)
{
	const double distances[2] = {source * 8, source * 16};
	const KernelModel model = {.weight = WEIGHT_RAY};
	tomos_scan_options o = tomos_scan_defaults();
	tomos_geometry *scan;
	tomos_grid grid;
	o.geometry = "cone";
	o.rows = o.columns = 8;
	o.views = 6;
	o.pixel = 2;
	o.roll = roll;
	o.source_axis = &distances[0];
	o.source_detector = &distances[1];
	o.source_axis_count = o.source_detector_count = 1;
	OK(tomos_geometry_make(&scan, &o));
	OK(tomos_grid_centred(&grid, 8, 8, 8, voxel));
	OK(plan_make(plan, &grid, scan, &model));
	tomos_geometry_free(scan);
	return (ProjectRequest){.plan = plan,
		.kernel = KERNEL_voxel,
		.direction = ADJOINT,
		.count = 6,
		.box = {{0, 0, 0}, {8, 8, 8}}};
}

static tomos_tuned cone_row(double source, double voxel, double roll)
{
	Plan plan;
	tomos_tuned row;
	const ProjectRequest what = cone_request(&plan, source, voxel, roll);
	tune_describe(&what, &row);
	plan_free(&plan);
	return row;
}

static bool is_wanted(const tomos_backend *backend, double source, double voxel, double roll)
{
	Plan plan;
	const ProjectRequest what = cone_request(&plan, source, voxel, roll);
	const char *wanted = tune_wanted(backend, &what);
	plan_free(&plan);
	return wanted && strcmp(wanted, "quick") == 0;
}

static void test_used_for_geometries_near(void **state)
{
	(void)state;
	tomos_backend *backend = fake_backend();
	tomos_tuned row = cone_row(3, 1, 0);
	assert_string_equal(row.rays, "cone");
	assert_float_equal(row.voxel, 1, 1e-9);
	assert_float_equal(row.source, 3, 1e-9);
	snprintf(row.kernel, sizeof row.kernel, "quick");
	row.rate = row.chosen = 1;
	OK(tune_add(backend, &row, 1));
	assert_true(is_wanted(backend, 3, 1, 0));
	assert_true(is_wanted(backend, 5, 1, 0));
	assert_false(is_wanted(backend, 7, 1, 0));
	assert_true(is_wanted(backend, 3, 0.6, 0));
	assert_false(is_wanted(backend, 3, 0.4, 0));
	assert_false(is_wanted(backend, 3, 1, 0.1)); /* "tilted" */
	const tomos_tuned others[] = {
		cone_row(3, 1, 0), cone_row(5, 1, 0), cone_row(3, 0.6, 0), cone_row(3, 1, 0.1)};
	for (int i = 0; i < COUNT(others); i++)
		assert_int_equal(tune_same(&row, &others[i]), i == 0);
	tomos_backend_close(backend);
}

static void test_used_for_sizes_near(void **state)
{
	(void)state;
	tomos_backend *backend = fake_backend();
	tomos_tuned *rows, other;
	int64_t count;
	assert_string_equal(ran(backend, 8, 4, 6), "slow");
	tune_fake(backend, 0, &rows, &count);
	assert_string_equal(ran(backend, 8, 4, 6), "quick");
	assert_string_equal(ran(backend, 16, 8, 12), "quick");
	assert_string_equal(ran(backend, 4, 2, 3), "quick");
	assert_string_equal(ran(backend, 8, 9, 6), "slow"); /* more than twice the slices */
	assert_string_equal(ran(backend, 8, 4, 13), "slow");
	/* The nearest of several. */
	other = rows[0];
	other.slices = 8;
	other.chosen = 1;
	OK(tune_add(backend, &other, 1));
	assert_string_equal(ran(backend, 8, 7, 6), "slow");
	assert_string_equal(ran(backend, 8, 5, 6), "quick");
	/* A kernel that no longer exists. */
	snprintf(other.kernel, sizeof other.kernel, "gone");
	OK(tune_add(backend, &other, 1));
	OK(tomos_tuned_list(&rows, &count, (tomos_tuned_free(rows), backend)));
	assert_int_equal(count, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(rows[i].unknown, strcmp(rows[i].kernel, "gone") == 0);
	assert_string_equal(ran(backend, 8, 7, 6), "quick"); /* the next nearest */
	tomos_tuned_free(rows);
	tomos_backend_close(backend);
}

static int stop(void *user, const char *stage, int64_t done, int64_t total, double value)
{
	(void)stage, (void)total, (void)value;
	return done == *(int64_t *)user;
}

static void test_rejections(void **state)
{
	(void)state;
	tomos_backend *backend = fake_backend(), *pair;
	Problem p = problem(8, 4, 6);
	tomos_tuned *rows;
	int64_t count, second = 1;
	tomos_tune_options o = tomos_tune_defaults();
	const tomos_progress progress = {stop, &second};
	o.seconds = 0;
	REJECTED(tomos_tune(&rows, &count, backend, &p.grid, p.scan, &o, NULL), TOMOS_BAD_VALUE,
		"0 seconds to measure in");
	o.seconds = 0.1;
	REJECTED(tomos_tune(&rows, &count, NULL, &p.grid, p.scan, &o, NULL), TOMOS_BAD_VALUE,
		"needs a backend, a grid and a geometry");
	REJECTED(tomos_tune(&rows, &count, backend, &p.grid, p.scan, &o, &progress),
		TOMOS_CANCELLED, "quick was cancelled after step 1 of 2");
	assert_null(rows);
	assert_null(tune_wanted(backend, &(ProjectRequest){.count = 0}));
	setenv("TOMOS_KERNEL", "quick", 1);
	REJECTED(tomos_tune(&rows, &count, backend, &p.grid, p.scan, &o, NULL), TOMOS_BAD_VALUE,
		"TOMOS_KERNEL is 'quick', which leaves nothing to choose");
	unsetenv("TOMOS_KERNEL");
	fake.projector.candidates = NULL;
	REJECTED(tomos_tune(&rows, &count, backend, &p.grid, p.scan, &o, NULL), TOMOS_UNSUPPORTED,
		"fake has no kernels to choose among");
	OK(split_open(&pair, &cpu_backend, (const char *const[]){"", ""}, 2,
		&(SplitOptions){1 << 20, SHARE_AUTO}));
	REJECTED(tomos_tune(&rows, &count, pair, &p.grid, p.scan, &o, NULL), TOMOS_UNSUPPORTED,
		"has no kernels to choose among; the CPU and single CUDA GPUs have");
	tomos_backend_close(pair);
	tomos_backend_close(backend);
	tomos_geometry_free(p.scan);
}

static int no_candidates(tomos_backend *backend, const ProjectRequest *what, KernelCandidate *list)
{
	(void)backend, (void)what, (void)list;
	return 0;
}

static void test_nothing_applies(void **state)
{
	(void)state;
	tomos_backend *backend = fake_backend();
	Problem p = problem(8, 4, 6);
	tomos_tuned *rows;
	int64_t count;
	fake.projector.candidates = no_candidates;
	REJECTED(tomos_tune(&rows, &count, backend, &p.grid, p.scan, NULL, NULL), TOMOS_UNSUPPORTED,
		"no optimised kernel of the fake backend projects between this grid and this scan");
	tomos_geometry_free(p.scan);
	tomos_backend_close(backend);
}

/* ---- kernels of the backend at hand ---------------------------------------------------------- */

typedef struct {
	tomos_backend *backend;
	Plan plan;
	float *volume, *projections; /* of the backend */
	int64_t voxels, pixels;
	float *in, *wanted, *got; /* here */
} Bench;

static void run_on(Bench *b, int kernel, Direction direction, float *out)
{
	const BackendType *type = b->backend->type;
	bool forward = direction == FORWARD;
	int64_t in = forward ? b->voxels : b->pixels, count = forward ? b->pixels : b->voxels;
	float *from = forward ? b->volume : b->projections,
	      *to = forward ? b->projections : b->volume;
	tomos_array a = tomos_array_of(b->in, 1, 1, in), o = tomos_array_of(out, 1, 1, count);
	ProjectRequest what = {.plan = &b->plan,
		.kernel = kernel,
		.direction = direction,
		.count = b->plan.scan->count,
		.volume = b->volume,
		.projections = b->projections};
	memcpy(what.box.high, b->plan.grid.n, sizeof what.box.high);
	OK(type->memory->upload(b->backend, from, &a));
	OK(type->vector->fill(b->backend, count, 0, to));
	OK(type->projector->apply(b->backend, &what));
	OK(type->memory->download(b->backend, to, &o));
}

static double difference(const float *a, const float *b, int64_t count)
{
	double sum = 0, norm = 0;
	for (int64_t i = 0; i < count; i++) {
		sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
		norm += (double)a[i] * a[i];
	}
	return sqrt(sum / (norm > 0 ? norm : 1));
}

/* Coarse kernels take a place between two columns to the nearest of some steps per column, and so
 * are off by half a step at most. */
static double coarse_step(const char *name)
{
	return strcmp(name, "slices_back_oversampled") == 0 ? 1.0 / 4 : 1.0 / 256;
}

/* The error of a sample is this fraction of the difference between neighbours; for random data, the
 * squares of the errors add up. */
static double coarse_bound(const Bench *b, const char *name)
{
	const tomos_geometry *scan = b->plan.scan;
	double differences = 0, norm = 0;
	for (int64_t i = 0; i + 1 < b->pixels; i++)
		differences += pow((double)b->in[i + 1] - b->in[i], 2);
	for (int64_t i = 0; i < b->voxels; i++)
		norm += (double)b->wanted[i] * b->wanted[i];
	double each = (double)scan->count * differences / (double)b->pixels;
	return coarse_step(name) / 2 * sqrt(each * (double)b->voxels / norm);
}

/* Every kernel that measuring may choose, forced, against the reference kernels. */
static void check_choices(Bench *b, int kernel, Direction direction)
{
	KernelCandidate list[MAX_CANDIDATES];
	ProjectRequest what = {.plan = &b->plan,
		.kernel = kernel,
		.direction = direction,
		.count = b->plan.scan->count};
	int64_t count = direction == FORWARD ? b->pixels : b->voxels;
	memcpy(what.box.high, b->plan.grid.n, sizeof what.box.high);
	int found = b->backend->type->projector->candidates(b->backend, &what, list);
	b->plan.plain = true;
	run_on(b, kernel, direction, b->wanted);
	b->plan.plain = false;
	for (int i = 0; i < found; i++) {
		/* Data cached in a plan may depend on the kernel chosen before. */
		if (b->plan.cache->data)
			b->plan.cache->release(b->plan.cache->owner, b->plan.cache->data);
		b->plan.cache->data = NULL;
		b->backend->tuning.forced = list[i].name;
		run_on(b, kernel, direction, b->got);
		b->backend->tuning.forced = NULL;
		double apart = difference(b->wanted, b->got, count);
		double bound = list[i].coarse ? coarse_bound(b, list[i].name) : 1e-5;
		if (!(apart < bound))
			fail_msg("%s of %s: %g from the reference kernels, the bound is %g",
				list[i].name, kernel_rows[kernel].name, apart, bound);
	}
}

static void bench_open(Bench *b, const tomos_grid *grid, const tomos_geometry *scan)
{
	const KernelModel model = {.weight = WEIGHT_RAY};
	uint32_t state = 7;
	b->voxels = grid->n[0] * grid->n[1] * grid->n[2];
	b->pixels = scan->count * scan->rows * scan->columns;
	int64_t most = max64(b->voxels, b->pixels);
	OK(plan_make(&b->plan, grid, scan, &model));
	OK(b->backend->type->memory->alloc(b->backend, &b->volume, b->voxels, "x"));
	OK(b->backend->type->memory->alloc(b->backend, &b->projections, b->pixels, "y"));
	OK(mem_alloc(&b->in, most, sizeof(float), "in"));
	OK(mem_alloc(&b->wanted, most, sizeof(float), "out"));
	OK(mem_alloc(&b->got, most, sizeof(float), "out"));
	for (int64_t i = 0; i < most; i++) {
		state = state * 1664525u + 1013904223u;
		b->in[i] = (float)(state >> 8) * 0x1p-24f;
	}
}

static void bench_close(Bench *b)
{
	plan_free(&b->plan);
	b->backend->type->memory->release(b->backend, b->volume);
	b->backend->type->memory->release(b->backend, b->projections);
	mem_free(b->in);
	mem_free(b->wanted);
	mem_free(b->got);
}

static void test_every_choice_is_right(void **state)
{
	(void)state;
	Bench b = {.voxels = 0};
	const int n = case_slow() ? 20 : 40;
	const double angles[] = {
		0, 0.3, 0.9, 1.4, 1.6, 2.2, 2.8, 3.1, 0.1, 0.5, 1.1, 1.9, 2.5, 3.0, 0.7, 1.2};
	OK(tomos_backend_open(&b.backend, test_backend()));
	if (!b.backend->type->projector->candidates) {
		tomos_backend_close(b.backend);
		print_message("the %s backend has nothing to choose\n", test_backend());
		skip();
	}
	for (int kind = 0; kind < 3; kind++) {
		tomos_grid grid;
		tomos_geometry *scan;
		const int slices = kind == 1 ? 1 : 24;
		OK(tomos_grid_centred(&grid, n, n, slices, 1));
		if (kind == 2)
			OK(tomos_geometry_cone(
				&scan, slices, n, 1.5, 4 * n, 6 * n, angles, COUNT(angles)));
		else
			OK(tomos_geometry_parallel(&scan, slices, n, 1, angles, COUNT(angles)));
		bench_open(&b, &grid, scan);
		for (int k = 0; k < 4; k++)
			check_choices(&b, k < 2 ? KERNEL_joseph : KERNEL_voxel,
				k % 2 ? ADJOINT : FORWARD);
		bench_close(&b);
		tomos_geometry_free(scan);
	}
	tomos_backend_close(b.backend);
}

/* Measuring on the backend at hand: a choice for each projection, with a bound where there is
 * one. */
static void test_measuring(void **state)
{
	(void)state;
	tomos_backend *backend;
	tomos_tuned *rows;
	tomos_machine machine = {.bytes = sizeof machine};
	int64_t count, chosen = 0;
	Problem p = problem(48, 16, 32);
	tomos_tune_options o = tomos_tune_defaults();
	o.seconds = 0.5;
	OK(tomos_backend_open(&backend, test_backend()));
	OK(tomos_backend_machine(backend, &machine));
	if (!backend->type->projector->candidates) {
		REJECTED(tomos_tune(&rows, &count, backend, &p.grid, p.scan, &o, NULL),
			TOMOS_UNSUPPORTED, "has no kernels to choose among");
	} else {
		OK(tomos_tune(&rows, &count, backend, &p.grid, p.scan, &o, NULL));
		for (int64_t i = 0; i < count; i++) {
			double bound = tomos_tuned_bound(&rows[i], &machine, NULL);
			assert_true(rows[i].rate > 0 && bound >= 0);
			assert_false(rows[i].coarse); /* not allowed */
			chosen += rows[i].chosen;
		}
		assert_true(chosen >= 3 && chosen <= count);
		tomos_tuned_free(rows);
	}
	tomos_geometry_free(p.scan);
	tomos_backend_close(backend);
}

static void test_bound(void **state)
{
	(void)state;
	tomos_tuned row = {.bytes = sizeof row,
		.kernel = "stack",
		.size = 100,
		.slices = 1,
		.views = 50,
		.columns = 100};
	tomos_machine machine = {.bytes = sizeof machine,
		.rates = {[TOMOS_RATE_CACHE] = 8e9, [TOMOS_RATE_SUMS] = 6e9}};
	tomos_rate part = TOMOS_RATES;
	assert_float_equal(tomos_tuned_bound(&row, &machine, &part), 1e9, 1);
	assert_int_equal(part, TOMOS_RATE_CACHE);
	/* 4 bytes for each 50th update, and for each column and 10,000 pixels. */
	machine.rates[TOMOS_RATE_MEMORY] = 0.12e9 / 2;
	assert_float_equal(tomos_tuned_bound(&row, &machine, &part), 0.5e9, 1);
	assert_int_equal(part, TOMOS_RATE_MEMORY);
	snprintf(row.kernel, sizeof row.kernel, "stackless");
	assert_true(tomos_tuned_bound(&row, &machine, &part) == 0);
	snprintf(row.kernel, sizeof row.kernel, "an unknown kernel");
	assert_true(tomos_tuned_bound(&row, &machine, &part) == 0);
}

#define TESTS(T) \
	T(test_chooses_the_fastest), T(test_coarse_if_allowed), T(test_used_for_sizes_near), \
		T(test_used_for_geometries_near), T(test_rejections), T(test_nothing_applies), \
		T(test_every_choice_is_right), T(test_measuring), T(test_bound)
TEST_MAIN(TESTS, begin, end)
