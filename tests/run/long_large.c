/* A scan of 2048 columns, 64 rows and 1500 views, 800 MB, within 1 GiB: peak resident size, and
 * reading and writing hidden behind the work. */
#include "base/base.h"
#include "io/io_help.h"
#include <math.h>
#include <sys/resource.h>

enum { VIEWS = 1500, ROWS = 64, COLUMNS = 2048 };

#define RADIUS 700.0 /* pixels, of a cylinder 200 pixels from the rotation axis */
#define TURN 3.14159265358979323846

static double chord(double s)
{
	return fabs(s) < RADIUS ? 2 * sqrt(RADIUS * RADIUS - s * s) : 0;
}

/* One view at a time, so that the test itself needs little memory; rows differ by a factor. */
static void put_scan(const char *path)
{
	static float view[ROWS * COLUMNS];
	double angles[VIEWS];
	const int64_t shape[3] = {VIEWS, ROWS, COLUMNS};
	tomos_geometry *scan;
	tomos_file *file;
	for (int i = 0; i < VIEWS; i++)
		angles[i] = TURN * i / VIEWS;
	assert_ok(tomos_geometry_parallel(&scan, ROWS, COLUMNS, 1, angles, VIEWS));
	assert_ok(tomos_file_create(&file, path, TOMOS_PROJECTIONS, shape, NULL));
	assert_ok(tomos_file_set_geometry(file, scan));
	for (int i = 0; i < VIEWS; i++) {
		for (int k = 0; k < ROWS * COLUMNS; k++)
			view[k] = (float)(1e-3 * (1 + k / COLUMNS) *
					  chord(k % COLUMNS - 1023.5 - 200 * cos(angles[i])));
		assert_ok(tomos_file_write(file, i, 1, view));
	}
	assert_ok(tomos_file_commit(file));
	tomos_file_close(file);
	tomos_geometry_free(scan);
}

static void large(void **state)
{
	(void)state;
	char path[160], output[160];
	static float slice[COLUMNS * COLUMNS];
	tomos_run_options run = tomos_run_defaults();
	tomos_run_report t = {.bytes = sizeof t};
	struct rusage usage;
	tomos_file *file;
	snprintf(path, sizeof path, "%s", at("large.h5"));
	snprintf(output, sizeof output, "%s", at("volume.h5"));
	put_scan(path);
	run.memory = (int64_t)900 << 20;
	const tomos_job job = {.bytes = sizeof job,
		.scan = path,
		.output = output,
		.backend = "cpu",
		.run = &run,
		.report = &t};
	assert_ok(tomos_run(&job, NULL));
	getrusage(RUSAGE_SELF, &usage);
	double slowest = fmax(t.compute_seconds, fmax(t.read_seconds, t.write_seconds));
	print_message("%lld slabs, peak %ld MiB; read %.1f s, compute %.1f s, write %.1f s, all "
		      "%.1f s\n",
		(long long)t.slabs, usage.ru_maxrss >> 10, t.read_seconds, t.compute_seconds,
		t.write_seconds, t.seconds);
	assert_true(usage.ru_maxrss < 1 << 20); /* KiB */
	assert_true(t.seconds <= 1.25 * slowest);
	assert_ok(tomos_file_open(&file, output, NULL));
	for (int z = 0; z < ROWS; z += 21) {
		assert_ok(tomos_file_read(file, z, 1, slice));
		double middle = (double)slice[1024 * COLUMNS + 1224];
		assert_true(fabs(middle / (1e-3 * (1 + z)) - 1) < 0.005);
	}
	tomos_file_close(file);
	assert_int_equal(mem_live(), 0);
}

#define TESTS(T) T(large)
TEST_MAIN(TESTS, scratch_make, scratch_remove)
