/* Stages of a run: what is published while they work. */
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

#define TESTS(T) T(times_while_running)
TEST_MAIN(TESTS, make_scan, scratch_remove)
