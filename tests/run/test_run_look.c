/* What a run shows when it is complete: planes of its result, prepared projections, the search for
 * the axis; the same for any slabs, types and after an interruption. */
#include "work.h"

typedef struct {
	Work *work;
	int calls;
	float *planes[3];
	int64_t sizes[3][2];
	tomos_axis axis;
	int searched;
	double lowest, highest; /* of the prepared row */
	double seconds;
	char method[16];
} Seen;

static void see_row(Seen *seen, const tomos_run_look *look)
{
	const tomos_geometry *g = tomos_prepared_geometry(look->prepared);
	int64_t count = tomos_geometry_count(g) * tomos_geometry_columns(g);
	float *row = malloc((size_t)count * sizeof *row);
	assert_ok(tomos_prepared_read(look->prepared, look->row, 1, row, NULL, NULL));
	seen->lowest = seen->highest = (double)row[0];
	for (int64_t i = 0; i < count; i++) {
		seen->lowest = fmin(seen->lowest, (double)row[i]);
		seen->highest = fmax(seen->highest, (double)row[i]);
	}
	free(row);
}

static void see(void *user, const tomos_run_look *look)
{
	Seen *seen = user;
	assert_int_equal(look->bytes, sizeof *look);
	seen->calls++;
	snprintf(seen->method, sizeof seen->method, "%s", look->method);
	seen->searched = tomos_prepared_searched(look->prepared, &seen->axis);
	seen->seconds = seen->work->report.seconds;
	assert_string_equal(look->output, seen->work->output);
	assert_true(look->scan_row >= 0 && look->scan_row < ROWS);
	assert_true(look->bin == 1 && look->first_column == 0);
	assert_int_equal(access(look->output, F_OK), 0); /* it is in its place */
	for (int i = 0; i < 3; i++) {
		size_t bytes = (size_t)(look->widths[i] * look->heights[i]) * sizeof(float);
		seen->sizes[i][0] = look->widths[i];
		seen->sizes[i][1] = look->heights[i];
		seen->planes[i] = malloc(bytes);
		assert_non_null(look->planes[i]);
		memcpy(seen->planes[i], look->planes[i], bytes);
	}
	see_row(seen, look);
}

static void seen_init(Seen *seen, Work *w)
{
	*seen = (Seen){.work = w, .axis = {.bytes = sizeof seen->axis}};
	w->job.look = see;
	w->job.user = seen;
	w->job.say = NULL;
}

static void seen_free(Seen *seen)
{
	for (int i = 0; i < 3; i++)
		free(seen->planes[i]);
}

/* Planes as in the file, z upwards; `close`: integers are rounded. */
static void check_planes(const Seen *seen, double close)
{
	int64_t n[3] = {0};
	float *data = NULL;
	assert_int_equal(seen->calls, 1);
	assert_ok(read_all(seen->work->output, n, &data));
	const int64_t sizes[3][2] = {{n[2], n[1]}, {n[2], n[0]}, {n[1], n[0]}};
	assert_memory_equal(seen->sizes, sizes, sizeof sizes);
	for (int axis = 0; data && axis < 3; axis++)
		for (int64_t i = 0; i < sizes[axis][0] * sizes[axis][1]; i++) {
			int64_t x = i % sizes[axis][0], y = i / sizes[axis][0], z = n[0] - 1 - y;
			int64_t from = axis == 0   ? (n[0] / 2 * n[1] + y) * n[2] + x
				       : axis == 1 ? (z * n[1] + n[1] / 2) * n[2] + x
						   : (z * n[1] + x) * n[2] + n[2] / 2;
			assert_true(fabs((double)(seen->planes[axis][i] - data[from])) <= close);
		}
	free(data);
}

static void shows_planes(void **state)
{
	(void)state;
	static const char *const types[] = {"float32", "uint8"};
	for (int k = 0; k < 4; k++) { /* one slab or many, floats or integers */
		Work w;
		Seen seen;
		work_init(&w, "shown.h5");
		w.file.overwrite = 1;
		w.file.type = types[k / 2];
		seen_init(&seen, &w);
		if (k % 2)
			least_memory(&w);
		assert_ok(tomos_run(&w.job, NULL));
		check_planes(&seen, k / 2 ? 0.02 : 0);
		assert_string_equal(seen.method, "fbp");
		assert_true(seen.highest > 0.2 && seen.lowest > -0.2);
		assert_true(seen.seconds > 0 && w.report.seconds >= seen.seconds);
		seen_free(&seen);
	}
	assert_int_equal(mem_live(), 0);
}

/* Slices of the run before are in the file only. */
static void after_an_interruption(void **state)
{
	(void)state;
	Work w;
	Seen seen;
	Patience patience = {1000000};
	const tomos_progress progress = {lose_patience, &patience};
	work_init(&w, "resumed.npy");
	w.file.overwrite = 1;
	seen_init(&seen, &w);
	least_memory(&w);
	assert_ok(tomos_run(&w.job, &progress));
	seen_free(&seen);
	patience.left = 1000000 - patience.left - 1;
	seen_init(&seen, &w);
	assert_int_equal(tomos_run(&w.job, &progress), TOMOS_CANCELLED);
	assert_int_equal(seen.calls, 0); /* there is nothing to see */
	w.run.resume = 1;
	assert_ok(tomos_run(&w.job, NULL));
	assert_true(w.report.resumed > 0);
	check_planes(&seen, 0);
	seen_free(&seen);
	assert_int_equal(mem_live(), 0);
}

/* The scores are largest where the axis is. */
static void shows_the_search(void **state)
{
	(void)state;
	Work w;
	Seen seen;
	work_init(&w, "searched.npy");
	w.scan.axis = NULL;
	w.scan.axis_count = 0;
	seen_init(&seen, &w);
	assert_ok(tomos_run(&w.job, NULL));
	assert_int_equal(seen.searched, 1);
	assert_true(seen.axis.scores > 8 && seen.axis.scores <= TOMOS_AXIS_SCORES);
	int64_t best = 0;
	for (int64_t i = 0; i < seen.axis.scores; i++)
		best = seen.axis.score[i] > seen.axis.score[best] ? i : best;
	double column = seen.axis.score_first + (double)best * seen.axis.score_step;
	assert_true(fabs(column - seen.axis.column) <= seen.axis.score_step + 1e-9);
	assert_true(seen.axis.score_first >= seen.axis.low - 1);
	seen_free(&seen);
	assert_int_equal(mem_live(), 0);
}

#define TESTS(T) T(shows_planes), T(after_an_interruption), T(shows_the_search)
TEST_MAIN(TESTS, make_scan, scratch_remove)
