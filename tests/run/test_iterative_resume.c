/* Iterative runs that are cancelled: slabs that are done are kept and continued, a run of one slab
 * writes its last whole iterate, and each slab has its checkpoint. */
#include <math.h>
#include "run/run_parts.h"
#include "stack.h"

static float sinogram[STACK_RAYS], one[STACK_VOXELS], two[STACK_VOXELS];

static int make_scans(void **state)
{
	if (scratch_make(state))
		return -1;
	stack_scan("parallel.h5", "parallel", sinogram);
	return 0;
}

static int64_t reports(StackJob *j)
{
	Patience patience = {1 << 30};
	const tomos_progress progress = {lose_patience, &patience};
	assert_ok(tomos_run(&j->job, &progress));
	return (1 << 30) - patience.left;
}

static const char *slice_path(const char *folder, int slice)
{
	char name[64];
	snprintf(name, sizeof name, "%s/recon_%05d.tiff", folder, slice);
	return at(name);
}

/* Cancelled at every report but the last ones, and continued in other slabs: as if in one go. */
static void cancelled(const char *method, const char *whole, const char *part, int64_t step)
{
	StackJob j;
	stack_job(&j, method, "parallel.h5", whole);
	int64_t all = reports(&j), kept = 0;
	double residual = j.report.residual;
	for (int64_t at_report = 1; at_report < all; at_report += step) {
		Patience patience = {at_report};
		const tomos_progress progress = {lose_patience, &patience};
		stack_job(&j, method, "parallel.h5", part);
		file_discard(j.output);
		assert_int_equal(tomos_run(&j.job, &progress), TOMOS_CANCELLED);
		assert_int_equal(j.report.complete, 0);
		j.run.resume = 1;
		j.run.memory = stack_least(&j);
		assert_ok(tomos_run(&j.job, NULL));
		kept += j.report.resumed > 0;
		assert_true(fabs(j.report.residual - residual) < 1e-6); /* of all slabs */
		assert_int_equal(j.report.iterations, 4);
		assert_int_equal(hidden_files(), 0);
		assert_int_equal(mem_live(), 0);
	}
	assert_true(kept > 0);
}

static void hdf5_resumed(void **state)
{
	(void)state;
	cancelled("cgls", "a.h5", "b.h5", 3);
	stack_read(at("a.h5"), one, STACK_ROWS);
	stack_read(at("b.h5"), two, STACK_ROWS);
	assert_memory_equal(one, two, sizeof one); /* groups do not depend on the memory */
	cancelled("sirt", "a.h5", "b.h5", 3);
	stack_read(at("a.h5"), one, STACK_ROWS);
	stack_read(at("b.h5"), two, STACK_ROWS);
	assert_true(stack_distance(one, two, STACK_VOXELS) < 1e-6);
}

static void tiff_resumed(void **state)
{
	(void)state;
	cancelled("pdhg", "c/", "d/", 5);
	for (int i = 0; i < STACK_ROWS; i++)
		assert_same_file(slice_path("c", i), slice_path("d", i));
}

/* Other options, or another start, are another run. */
static void another_run(void **state)
{
	(void)state;
	const int64_t shape[3] = {STACK_ROWS, STACK_COLUMNS, STACK_COLUMNS};
	StackJob j;
	stack_job(&j, "cgls", "parallel.h5", "e.npy");
	Patience patience = {reports(&j) - 2};
	const tomos_progress progress = {lose_patience, &patience};
	assert_int_equal(tomos_run(&j.job, &progress), TOMOS_CANCELLED);
	j.run.resume = 1;
	j.algebraic.iterations = 5;
	assert_int_equal(tomos_run(&j.job, NULL), TOMOS_BAD_VALUE);
	assert_says("was begun with other options");
	j.algebraic.iterations = 4;
	stack_write("start.npy", TOMOS_VOLUME, shape, NULL, one);
	j.job.start = at("start.npy");
	assert_int_equal(tomos_run(&j.job, NULL), TOMOS_BAD_VALUE);
	j.job.start = NULL;
	assert_ok(tomos_run(&j.job, NULL));
	assert_true(j.report.resumed > 0);
}

/* One slab: the output is the last whole iterate, that of a run of as many iterations. */
static void last_iterate(void **state)
{
	(void)state;
	StackJob j;
	Patience patience = {9};
	const tomos_progress progress = {lose_patience, &patience};
	stack_job(&j, "sirt", "parallel.h5", "f.npy");
	j.run.rows = "3:9";
	j.algebraic.iterations = 50;
	assert_int_equal(tomos_run(&j.job, &progress), TOMOS_CANCELLED);
	assert_says("is the last one");
	assert_int_equal(j.report.complete, 1);
	assert_string_equal(j.report.ended, "cancelled");
	int64_t done = j.report.iterations;
	assert_true(done > 0 && done < 50 && done == j.history.count);
	stack_read(j.output, one, 6);
	j.algebraic.iterations = done;
	assert_ok(tomos_run(&j.job, NULL));
	stack_read(j.output, two, 6);
	assert_memory_equal(one, two, 6 * STACK_SLICE * sizeof *one);
	assert_int_equal(hidden_files(), 0);
}

/* Numbers that are not finite make a bad file; a check that is cancelled does not. */
static void checks(void **state)
{
	(void)state;
	static float numbers[1 << 20];
	static tomos_cancel stop;
	const tomos_array array = tomos_array_of(numbers, 1, 1 << 10, 1 << 10);
	assert_ok(run_check_numbers(&array, "scan.h5"));
	tomos_cancel_on(&stop);
	tomos_cancel_raise(&stop);
	assert_int_equal(run_check_numbers(&array, "scan.h5"), TOMOS_CANCELLED);
	tomos_cancel_on(NULL);
	numbers[5] = NAN;
	assert_int_equal(run_check_numbers(&array, "scan.h5"), TOMOS_BAD_FILE);
	assert_says("'scan.h5' has 1 value that is not finite");
}

/* More iterations of every slab, from checkpoints of their own. */
static void checkpoints(void **state)
{
	(void)state;
	StackJob j;
	char path[128];
	stack_job(&j, "cgls", "parallel.h5", "g.npy");
	snprintf(path, sizeof path, "%s", at("state"));
	j.algebraic.checkpoint = path;
	j.algebraic.iterations = 3;
	assert_ok(tomos_run(&j.job, NULL));
	assert_int_equal(access(at("state.16-31"), F_OK), 0);
	assert_int_equal(access(at("state.32-35"), F_OK), 0);
	j.file.overwrite = 0;
	snprintf(j.output, sizeof j.output, "%s", at("h.npy"));
	assert_int_equal(tomos_run(&j.job, NULL), TOMOS_IO);
	assert_says("state.0-15' is the checkpoint of an earlier run: the option 'resume' goes on");
	j.run.resume = 1;
	j.algebraic.iterations = 7;
	assert_ok(tomos_run(&j.job, NULL));
	assert_int_equal(j.report.before, 3);
	assert_int_equal(j.report.iterations, 7);
	stack_read(j.output, one, STACK_ROWS);
	stack_job(&j, "cgls", "parallel.h5", "g.npy");
	j.algebraic.iterations = 7;
	assert_ok(tomos_run(&j.job, NULL));
	stack_read(j.output, two, STACK_ROWS);
	assert_memory_equal(one, two, sizeof one);
}

#define TESTS(T) \
	T(hdf5_resumed), T(tiff_resumed), T(another_run), T(last_iterate), T(checks), T(checkpoints)
TEST_MAIN(TESTS, make_scans, scratch_remove)
