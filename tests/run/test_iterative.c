/* Iterative methods from file to file: the same volume in slabs as in one piece, for every method
 * of the table, and what they read and report besides. */
#include "stack.h"
#include "algo/demands.h"

static float sinogram[STACK_RAYS], one[STACK_VOXELS], two[STACK_VOXELS];

static int make_scans(void **state)
{
	if (scratch_make(state))
		return -1;
	stack_scan("fan.h5", "fan", sinogram);
	stack_scan("parallel.h5", "parallel", sinogram);
	return 0;
}

/* Options that the method requires. */
static void complete(StackJob *j)
{
	if (strcmp(j->job.method, "asd-pocs") == 0)
		j->algebraic.noise_level = 0.01;
}

static Coupling coupling_of(const StackJob *j)
{
	const Demand d = {.method = j->job.method,
		.o = &j->algebraic,
		.mask = j->job.mask != NULL,
		.rays = j->job.ray_weights != NULL};
	return demand_coupling(&d);
}

/* ---- slabs --------------------------------------------------------------------------------- */

/* Runs the job with ample memory and with the least that suffices, and compares the volumes. */
static void both_ways(StackJob *j)
{
	StackJob thin = *j;
	thin.job.algebraic = &thin.algebraic, thin.job.run = &thin.run, thin.job.file = &thin.file;
	thin.job.projector = &thin.projector, thin.job.grid = &thin.grid;
	thin.job.user = &thin, thin.job.report = &thin.report;
	thin.algebraic.history = &thin.history;
	thin.history.residual = thin.residual, thin.history.error = thin.error;
	thin.run.memory = stack_least(&thin);
	assert_ok(tomos_run(&j->job, NULL));
	stack_read(j->output, one, STACK_ROWS);
	assert_ok(tomos_run(&thin.job, NULL));
	stack_read(j->output, two, STACK_ROWS);
	double distance = stack_distance(one, two, STACK_VOXELS);
	if (!(distance < 1e-6))
		print_message("%s: %g apart\n", j->job.method, distance);
	assert_true(distance < 1e-6);
	assert_int_equal(thin.report.iterations, j->report.iterations);
	assert_true(fabs(thin.report.residual - j->report.residual) < 1e-5);
	Coupling c = coupling_of(j);
	int64_t slabs = c == COUPLING_DIFFERENCES ? 1 : c == COUPLING_SUMS ? 3 : STACK_ROWS;
	assert_int_equal(thin.report.slabs, slabs);
	assert_int_equal(j->report.slabs, c == COUPLING_DIFFERENCES ? 1 : 3);
	assert_int_equal(mem_live(), 0);
}

/* Every row of methods.def, of parallel rays and of fans. */
static void every_method(void **state)
{
	(void)state;
	for (const char *at_name = tomos_method_names(); *at_name;) {
		char name[32];
		size_t length = strcspn(at_name, "|");
		snprintf(name, sizeof name, "%.*s", (int)length, at_name);
		for (int fan = CASE_RACES; fan < 2; fan++) {
			StackJob j;
			stack_job(&j, name, fan ? "fan.h5" : "parallel.h5", "v.npy");
			complete(&j);
			both_ways(&j);
		}
		at_name += length + (at_name[length] == '|');
	}
}

/* Options that couple slices, which without them are independent. */
static void every_coupling(void **state)
{
	(void)state;
	StackJob j;
	const int64_t shape[3] = {STACK_ROWS, STACK_COLUMNS, STACK_COLUMNS};
	for (int64_t i = 0; i < STACK_VOXELS; i++)
		one[i] = i % STACK_SLICE % 7 != 0;
	stack_write("mask.npy", TOMOS_VOLUME, shape, NULL, one);
	static const char *const rules[] = {"change", "discrepancy", "ncp", "monotone"};
	for (int i = 0; i < COUNT(rules); i++) {
		stack_job(&j, "sirt", "parallel.h5", "v.npy");
		j.algebraic.stop = rules[i];
		if (i % 2 == 1)
			j.algebraic.noise_level = 0.05;
		assert_int_equal(coupling_of(&j), COUPLING_SUMS);
		both_ways(&j);
	}
	stack_job(&j, "sirt", "parallel.h5", "v.npy");
	j.algebraic.weights = "landweber";
	both_ways(&j);
	stack_job(&j, "art", "parallel.h5", "v.npy");
	j.algebraic.order = "random";
	both_ways(&j);
	stack_job(&j, "sirt", "parallel.h5", "v.npy");
	j.job.mask = at("mask.npy");
	both_ways(&j);
	assert_true(one[0] == 0 && one[1] != 0);
	stack_job(&j, "pdhg", "parallel.h5", "v.npy");
	j.algebraic.strength = 0.1;
	assert_int_equal(coupling_of(&j), COUPLING_DIFFERENCES);
	both_ways(&j);
	stack_job(&j, "fista", "parallel.h5", "v.npy");
	j.algebraic.strength = 0.1;
	j.algebraic.regulariser = "l1";
	assert_int_equal(coupling_of(&j), COUPLING_SUMS);
	both_ways(&j);
}

static const char *const penalised[] = {"fista", "pdhg", "asd-pocs"};

static void penalise_slices(StackJob *j, const char *method, const char *scan)
{
	bool asd = strcmp(method, "asd-pocs") == 0;
	stack_job(j, method, scan, "v.npy");
	complete(j);
	j->algebraic.strength = asd ? 0 : 0.5;
	j->algebraic.penalty_within = "slices";
}

/* Penalties within slices do not couple groups: the same volume in ample memory and in little. */
static void penalties_in_slices(void **state)
{
	(void)state;
	for (int i = 0; i < 2 * COUNT(penalised); i++) {
		StackJob j;
		penalise_slices(&j, penalised[i / 2], i % 2 ? "fan.h5" : "parallel.h5");
		if (i % 2)
			j.algebraic.regulariser = i / 2 < 2 ? "huber" : "tv";
		assert_int_equal(coupling_of(&j), COUPLING_SUMS);
		both_ways(&j);
	}
}

/* Ray weights, a start and a truth, each read slab by slab. */
static void files_of_slabs(void **state)
{
	(void)state;
	const int64_t volume[3] = {STACK_ROWS, STACK_COLUMNS, STACK_COLUMNS};
	const int64_t rays[3] = {STACK_VIEWS, STACK_ROWS, STACK_COLUMNS};
	static float weights[STACK_RAYS];
	StackJob j;
	for (int64_t i = 0; i < STACK_RAYS; i++)
		weights[i] = (float)(1 + i % 3);
	for (int64_t i = 0; i < STACK_VOXELS; i++)
		two[i] = i < 5 * STACK_SLICE ? 0
					     : (float)(i / STACK_SLICE) * 0.01F; /* empty slices */
	stack_write("rays.npy", TOMOS_PROJECTIONS, rays, NULL, weights);
	stack_write("truth.npy", TOMOS_VOLUME, volume, NULL, two);
	stack_job(&j, "cgls", "parallel.h5", "v.npy");
	j.job.ray_weights = at("rays.npy");
	j.job.start = at("truth.npy");
	j.job.truth = j.job.compare = j.job.start;
	both_ways(&j);
	assert_true(j.report.compared);
	assert_true(fabs(j.report.error - j.report.difference.relative_l2) < 1e-6);
	assert_true(j.report.best > 0 && !isnan(j.error[0]));
	stack_read(at("truth.npy"), two, STACK_ROWS);
	assert_true(fabs(stack_distance(two, one, STACK_VOXELS) - j.report.error) < 1e-6);
}

/* ---- against the methods themselves --------------------------------------------------------- */

/* x of some slices by tomos_reconstruct, the rest of `one` is left. */
static void by_hand(const StackJob *j, int64_t first, int64_t count)
{
	static float b[STACK_RAYS];
	tomos_algebraic_options o = j->algebraic;
	tomos_geometry *scan;
	tomos_backend *backend;
	tomos_grid grid;
	tomos_op *op;
	o.history = NULL;
	for (int64_t v = 0; v < STACK_VIEWS; v++)
		memcpy(b + v * count * STACK_COLUMNS,
			sinogram + (v * STACK_ROWS + first) * STACK_COLUMNS,
			(size_t)(count * STACK_COLUMNS) * sizeof *b);
	stack_geometry(&scan, "parallel", count);
	assert_ok(tomos_grid_for(&grid, scan, NULL));
	assert_ok(tomos_backend_open(&backend, "cpu"));
	assert_ok(tomos_op_projector(&op, backend, &grid, scan, NULL));
	memset(one + first * STACK_SLICE, 0, (size_t)(count * STACK_SLICE) * sizeof *one);
	const tomos_array data = tomos_array_of(b, STACK_VIEWS, count, STACK_COLUMNS);
	const tomos_array x =
		tomos_array_of(one + first * STACK_SLICE, count, STACK_COLUMNS, STACK_COLUMNS);
	assert_ok(tomos_reconstruct(op, j->job.method, &data, &x, &o, NULL));
	tomos_op_free(op);
	tomos_backend_close(backend);
	tomos_geometry_free(scan);
}

/* Runs a method from file to file; the slices are in `two`. */
static void run_into_two(StackJob *j, const char *method)
{
	stack_job(j, method, "parallel.h5", "v.npy");
	assert_ok(tomos_run(&j->job, NULL));
	stack_read(j->output, two, STACK_ROWS);
}

static void as_in_memory(void **state)
{
	(void)state;
	StackJob j;
	run_into_two(&j, "sirt");
	by_hand(&j, 0, STACK_ROWS);
	assert_true(stack_distance(one, two, STACK_VOXELS) < 1e-6);
	run_into_two(&j, "cgls");
	for (int64_t first = 0; first < STACK_ROWS; first += 16)
		by_hand(&j, first, min64(16, STACK_ROWS - first));
	assert_true(stack_distance(one, two, STACK_VOXELS) < 1e-6);
}

/* A method on all slices, with a step that does not depend on them, and on each slice alone: what a
 * slice becomes does not depend on its neighbours. In a run, a group of slices is such a volume. */
static void slices_of_a_penalty(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		StackJob j;
		penalise_slices(&j, penalised[i], "parallel.h5");
		j.algebraic.norm = 40;
		by_hand(&j, 0, STACK_ROWS);
		memcpy(two, one, sizeof one);
		for (int64_t k = 0; k < STACK_ROWS; k++)
			by_hand(&j, k, 1);
		assert_true(stack_distance(one, two, STACK_VOXELS) < 1e-6);
		j.algebraic.penalty_within = "volume";
		by_hand(&j, 0, STACK_ROWS);
		assert_true(stack_distance(one, two, STACK_VOXELS) > 1e-4);
		j.algebraic.penalty_within = "slices";
		assert_ok(tomos_run(&j.job, NULL));
		stack_read(j.output, one, STACK_ROWS);
		assert_true(stack_distance(one, two, STACK_VOXELS) < 1e-6);
	}
}

/* Groups are counted from slice 0: 16 to 31 are the same without those above and below. */
static void slices_alone(void **state)
{
	(void)state;
	StackJob j;
	run_into_two(&j, "cgls");
	j.run.rows = "8:32";
	assert_ok(tomos_run(&j.job, NULL));
	stack_read(j.output, one, 24);
	assert_memory_equal(
		one + 8 * STACK_SLICE, two + 16 * STACK_SLICE, 16 * STACK_SLICE * sizeof *one);
}

/* ---- reports ------------------------------------------------------------------------------- */

/* The integers of sirt in ample memory and in the least that suffices. Thicker slabs may use other
 * kernels, whose rounding differs; the window must not depend on it, nor on the slabs. */
static void same_integers(const char *rows, bool plain)
{
	StackJob ample, thin;
	int64_t slices = rows[0] ? 12 : STACK_ROWS;
	double low, high;
	stack_job(&ample, "sirt", "parallel.h5", "ample.h5");
	stack_job(&thin, "sirt", "parallel.h5", "thin.h5");
	ample.file.type = thin.file.type = "uint16";
	ample.run.rows = thin.run.rows = rows;
	ample.projector.plain = thin.projector.plain = plain;
	thin.run.memory = stack_least(&thin);
	assert_ok(tomos_run(&ample.job, NULL));
	assert_ok(tomos_run(&thin.job, NULL));
	assert_true(thin.report.slabs > ample.report.slabs);
	const char *window = strstr(ample.said, "window");
	assert_int_equal(sscanf(window, "window %lf to %lf, from 5 slices", &low, &high), 2);
	assert_memory_equal(window, strstr(thin.said, "window"), strcspn(window, "\n") + 1);
	stack_read(ample.output, one, slices);
	stack_read(thin.output, two, slices);
	double step = plain ? 0 : 1.01 * (high - low) / 65535;
	for (int64_t i = 0; i < slices * STACK_SLICE; i++)
		assert_true(fabs((double)one[i] - (double)two[i]) <= step);
}

static void window_of_integers(void **state)
{
	(void)state;
	StackJob j;
	stack_job(&j, "cgls", "parallel.h5", "v.h5");
	j.file.type = "uint16";
	j.run.rows = "0:9"; /* one group, whatever the memory: the range of all values */
	assert_ok(tomos_run(&j.job, NULL));
	assert_non_null(strstr(j.said, "the range of the values"));
	assert_int_equal(j.report.cut, 0);
	j.run.rows = "";
	assert_ok(tomos_run(&j.job, NULL));
	assert_non_null(strstr(j.said, "from 5 slices"));
	stack_read(j.output, one, STACK_ROWS);
	j.file.type = "float32";
	assert_ok(tomos_run(&j.job, NULL));
	stack_read(j.output, two, STACK_ROWS);
	assert_true(stack_distance(two, one, STACK_VOXELS) < 1e-3);
	for (int plain = 0; plain < 2; plain++) {
		same_integers("", plain);
		same_integers("0:12", plain);
	}
}

static void rejected(StackJob *j, const char *says)
{
	j->file.overwrite = 0;
	unlink(j->output);
	assert_run_rejected(&j->job, j->output, says);
}

static void rejections(void **state)
{
	(void)state;
	static const int64_t small[3] = {2, 3, 4};
	StackJob j;
	stack_write("small.npy", TOMOS_VOLUME, small, NULL, one);
	stack_job(&j, "sirt", "parallel.h5", "no.npy");
	j.job.mask = at("small.npy");
	rejected(&j, "small.npy' is 2 x 3 x 4 (z y x), but the reconstruction is 36 x 24 x 24");
	stack_job(&j, "sirt", "parallel.h5", "no.npy");
	j.job.ray_weights = at("small.npy");
	rejected(&j, "but the projections are 20 x 36 x 24 (view row column)");
	stack_job(&j, "sirt", "parallel.h5", "no.npy");
	j.job.compare = at("small.npy");
	rejected(&j, "but the reconstruction is 36 x 24 x 24");
	stack_job(&j, "cgls", "parallel.h5", "no.npy");
	j.run.memory = 20 << 20;
	rejected(&j, "cgls of 16 slices together needs");
	stack_job(&j, "fista", "parallel.h5", "no.npy");
	j.run.memory = 20 << 20;
	j.algebraic.strength = 1;
	rejected(&j,
		"as its penalty couples neighbouring slices; set the option 'penalty_within' to "
		"'slices'");
	const tomos_array array = tomos_array_of(one, STACK_ROWS, STACK_COLUMNS, STACK_COLUMNS);
	stack_job(&j, "sirt", "parallel.h5", "no.npy");
	j.algebraic.mask = &array;
	rejected(&j, "mask is an array; a run takes the name of a file instead");
	stack_job(&j, "sirt", "parallel.h5", "no.npy");
	j.algebraic.relaxation = 3;
	rejected(&j, "relaxation 3: it must be between 0 and 2");
	assert_int_equal(hidden_files(), 0);
}

/* Structs of other versions: shorter ones work, longer ones only where the rest is 0. */
static void sizes(void **state)
{
	(void)state;
	StackJob j;
	struct {
		tomos_job job;
		int64_t more[2];
	} longer;
	stack_job(&j, "fbp", "parallel.h5", "v.npy");
	j.job.algebraic = NULL;
	j.job.bytes = offsetof(tomos_job, algebraic);
	j.report.bytes = offsetof(tomos_run_report, iterations);
	j.report.iterations = 77;
	assert_ok(tomos_run(&j.job, NULL));
	assert_int_equal(j.report.slices, STACK_ROWS);
	assert_int_equal(j.report.iterations, 77);
	longer.job = j.job;
	longer.job.bytes = sizeof longer;
	memset(longer.more, 0, sizeof longer.more);
	assert_ok(tomos_run(&longer.job, NULL));
	longer.more[1] = 1;
	assert_int_equal(tomos_run(&longer.job, NULL), TOMOS_UNSUPPORTED);
	assert_says("the program needs a newer library");
	j.report.bytes = 0;
	assert_int_equal(tomos_run(&j.job, NULL), TOMOS_BAD_VALUE);
	assert_says("the member bytes of a tomos_run_report is 0");
}

static void allocation_failures(void **state)
{
	(void)state;
	tomos_status status = TOMOS_NO_MEMORY;
	for (int64_t nth = 1; status != TOMOS_OK; nth += CASE_RACES ? 17 : 1) {
		StackJob j;
		stack_job(&j, "cgls", "parallel.h5", "v.npy");
		j.algebraic.iterations = 1;
		j.job.mask = j.job.truth = j.job.compare = at("truth.npy");
		mem_fail_nth(nth);
		status = tomos_run(&j.job, NULL);
		mem_fail_nth(0);
		assert_true(status == TOMOS_OK || status == TOMOS_NO_MEMORY);
		assert_int_equal(mem_live(), 0);
	}
}

#define TESTS(T) \
	T(every_method), T(every_coupling), T(penalties_in_slices), T(slices_of_a_penalty), \
		T(files_of_slabs), T(as_in_memory), T(slices_alone), T(window_of_integers), \
		T(rejections), T(sizes), T(allocation_failures)
TEST_MAIN(TESTS, make_scans, scratch_remove)
