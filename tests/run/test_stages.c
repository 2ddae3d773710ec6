/* Stages of a run: what is published while they work, and slabs that follow their times. */
#include "work.h"

/* ---- busy times ---------------------------------------------------------------------------- */

typedef struct {
	const tomos_run_report *report;
	double busy[TOMOS_STAGES]; /* as last seen */
	int grown;                 /* reports after which the reconstruction was longer */
} Watch;

/* Times are there before the first slab is complete, never decrease, and `limiting` is the stage
 * with the longest. */
static int watch_times(void *user, const char *stage, int64_t done, int64_t total, double value)
{
	Watch *w = user;
	const double *now = w->report->stage_seconds;
	(void)total, (void)value;
	if (strcmp(stage, "fbp") != 0 || done == 0)
		return 0;
	assert_true(now[TOMOS_STAGE_READ] > 0 && now[TOMOS_STAGE_PREPARE] > 0);
	assert_true(now[TOMOS_STAGE_RECONSTRUCT] > 0);
	w->grown += now[TOMOS_STAGE_RECONSTRUCT] > w->busy[TOMOS_STAGE_RECONSTRUCT];
	for (int i = 0; i < TOMOS_STAGES; i++) {
		assert_true(now[i] >= w->busy[i] && now[i] <= now[w->report->limiting]);
		w->busy[i] = now[i];
	}
	return 0;
}

static void times_while_running(void **state)
{
	(void)state;
	for (int thin = 0; thin < 2; thin++) {
		Work w;
		Watch watch = {.report = &w.report};
		const tomos_progress progress = {watch_times, &watch};
		work_init(&w, "times.h5");
		w.file.overwrite = 1;
		if (thin)
			w.run.memory = few_at_a_time;
		assert_ok(tomos_run(&w.job, &progress));
		assert_true(watch.grown >= w.report.slabs && w.report.slabs > thin);
		double sum = 0;
		for (int i = 0; i < TOMOS_STAGES; i++) {
			assert_true(w.report.stage_seconds[i] >= watch.busy[i]);
			sum += w.report.stage_seconds[i];
		}
		assert_true(w.report.stage_seconds[TOMOS_STAGE_RECONSTRUCT] <= w.report.seconds);
		assert_true(sum < 3 * w.report.seconds); /* three threads */
	}
}

/* ---- slabs of different thickness ----------------------------------------------------------- */

enum { TALL = 301, TALL_VIEWS = 12, TALL_COLUMNS = 16 };

/* Rows differ, also by zingers. With chunks of whole frames, or contiguous. */
static void write_tall(const char *path, bool chunks)
{
	hid_t list = H5Pcreate(H5P_DATASET_CREATE);
	static float data[TALL_VIEWS * TALL * TALL_COLUMNS];
	double angles[TALL_VIEWS];
	for (int i = 0; i < COUNT(data); i++)
		data[i] = (float)(0.5 + 0.4 * sin(0.37 * i) + 0.001 * (i / TALL_COLUMNS % TALL) +
				  (i % 997 == 0));
	for (int i = 0; i < TALL_VIEWS; i++)
		angles[i] = 180.0 * i / TALL_VIEWS;
	hid_t file = h5_new(path);
	if (chunks) {
		H5Pset_chunk(list, 3, (hsize_t[]){1, TALL, TALL_COLUMNS});
		H5Pset_deflate(list, 1);
	}
	h5_put_as(file, "exchange/data", H5T_NATIVE_FLOAT, 3,
		(hsize_t[]){TALL_VIEWS, TALL, TALL_COLUMNS}, list, data);
	H5Pclose(list);
	h5_put_list(file, "exchange/theta", angles, TALL_VIEWS);
	H5Fclose(file);
}

static void tall_job(Work *w, const char *output, const char *rows)
{
	static const double axis = 7.6;
	work_init(w, output);
	snprintf(w->path, sizeof w->path, "%s", at("tall.h5"));
	w->scan.axis = &axis;
	w->scan.pixel = 0.02;
	w->run.rows = rows;
	w->prep.quantity = "transmission";
	w->prep.zingers = "both";
	w->prep.zinger_level = 0.01;
	w->file.overwrite = 1;
}

/* The same bytes as of slabs that are as thin as possible, also where a run goes on after it was
 * interrupted. */
static void slabs_of_any_thickness(void **state)
{
	(void)state;
	static const char *const rows[] = {"", "3:300", "1:298", "0:150"};
	write_tall(at("tall.h5"), false);
	for (int i = 0; i < COUNT(rows); i++) {
		Work thin, thick;
		Patience patience = {3 + 2 * i};
		const tomos_progress progress = {lose_patience, &patience};
		tall_job(&thin, "thin.npy", rows[i]);
		least_memory(&thin);
		assert_ok(tomos_run(&thin.job, NULL));
		tall_job(&thick, "thick.npy", rows[i]);
		assert_ok(tomos_run(&thick.job, NULL));
		assert_true(thick.report.slabs >= 6 && thin.report.slabs > 2 * thick.report.slabs);
		assert_int_equal(thick.report.slices, thin.report.slices);
		assert_same_file(thin.output, thick.output);
		tall_job(&thick, "broken.npy", rows[i]);
		assert_int_equal(tomos_run(&thick.job, &progress), TOMOS_CANCELLED);
		thick.run.resume = 1;
		assert_ok(tomos_run(&thick.job, NULL));
		assert_same_file(thin.output, thick.output);
	}
}

/* Chunks of whole frames are kept for all slabs where memory allows that; otherwise slabs are as
 * thick as possible. */
static void slabs_of_packed_frames(void **state)
{
	(void)state;
	const double scan = 4.0 * TALL_VIEWS * TALL * TALL_COLUMNS;
	Work plain, kept, again;
	write_tall(at("tall.h5"), false);
	tall_job(&plain, "plain.npy", "");
	assert_ok(tomos_run(&plain.job, NULL));
	write_tall(at("tall.h5"), true);
	tall_job(&kept, "kept.npy", "");
	assert_ok(tomos_run(&kept.job, NULL));
	assert_true(fabs(kept.report.planned_bytes - plain.report.planned_bytes - scan) < 1);
	assert_non_null(strstr(kept.said, "plan      at least 7 slabs of up to 48"));
	assert_same_file(plain.output, kept.output);
	tall_job(&again, "again.npy", "");
	again.run.memory = (int64_t)plain.report.planned_bytes - 200000;
	assert_ok(tomos_run(&again.job, NULL));
	assert_true(again.report.planned_bytes <= (double)again.run.memory);
	assert_null(strstr(again.said, "plan      at least"));
	assert_same_file(plain.output, again.output);
}

#define TESTS(T) T(slabs_of_packed_frames), T(times_while_running), T(slabs_of_any_thickness)
TEST_MAIN(TESTS, make_scan, scratch_remove)
