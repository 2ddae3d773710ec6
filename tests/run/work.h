/* A scan of a ball as measured, and whole reconstructions of it. */
#ifndef TOMOS_TESTS_RUN_WORK_H
#define TOMOS_TESTS_RUN_WORK_H

#include "run_help.h"
#include "scan_files.h"
#include <math.h>

enum { VIEWS = 90, ROWS = 7, COLUMNS = 48, COUNT_ALL = VIEWS * ROWS * COLUMNS };

#define AXIS 24.6
#define PIXEL_UM 20.0 /* 0.02 mm: the ball's radius is 0.3 mm */

/* ---- a scan as measured: a ball of attenuation 0.8 per mm, with flats and darks ------------ */

static double theta[VIEWS];

static inline void ball_integrals(float *data)
{
	const tomos_ellipsoid ball = {{0.05, -0.03, 0}, {0.3, 0.3, INFINITY}, {0, 0, 0}, 0.8};
	project_solids(data, (int64_t[]){VIEWS, ROWS, COLUMNS}, PIXEL_UM * 1e-3, AXIS,
		(Solids){&ball, 1}, 1);
}

static double row_slope; /* how much more the object absorbs from row to row */

/* Every row has its own flat, so that rows mixed up would show. */
static inline float flat(int64_t row, int64_t column)
{
	return 1000 + 40 * (float)row + 3 * (float)(column % 5);
}

static inline void write_scan(const char *path)
{
	static float data[COUNT_ALL], flats[2 * ROWS * COLUMNS], darks[ROWS * COLUMNS];
	ball_integrals(data);
	for (int i = 0; i < COUNT_ALL; i++) {
		int64_t row = i / COLUMNS % ROWS, column = i % COLUMNS;
		float dark = 90 + (float)row;
		float absorbed = data[i] * (float)(1 + row_slope * (double)row);
		data[i] = dark + (flat(row, column) - dark) * expf(-absorbed);
		flats[i % (2 * ROWS * COLUMNS)] = flat(row, column);
		darks[i % (ROWS * COLUMNS)] = dark;
	}
	for (int i = 0; i < VIEWS; i++)
		theta[i] = 180.0 * i / VIEWS;
	hid_t file = h5_new(path);
	h5_put(file, "exchange/data", H5T_NATIVE_FLOAT, 3, (hsize_t[]){VIEWS, ROWS, COLUMNS}, data);
	h5_put(file, "exchange/data_white", H5T_NATIVE_FLOAT, 3, (hsize_t[]){2, ROWS, COLUMNS},
		flats);
	h5_put(file, "exchange/data_dark", H5T_NATIVE_FLOAT, 3, (hsize_t[]){1, ROWS, COLUMNS},
		darks);
	h5_put_list(file, "exchange/theta", theta, VIEWS);
	h5_put_scalar(
		file, "measurement/instrument/detection_system/objective/resolution", PIXEL_UM);
	H5Fclose(file);
}

static inline int make_scan(void **state)
{
	if (scratch_make(state))
		return -1;
	write_scan(at("scan.h5"));
	return 0;
}

/* ---- jobs --------------------------------------------------------------------------------- */

static double axis_column = AXIS;

typedef struct {
	tomos_job job;
	tomos_scan_options scan;
	tomos_run_options run;
	tomos_file_options file;
	tomos_prep_options prep;
	tomos_run_report report;
	char path[128], output[128], said[4096];
} Work;

static inline void hear(void *user, tomos_level level, const char *line)
{
	Work *w = user;
	append_line(w->said, sizeof w->said, level, line);
}

static inline void work_init(Work *w, const char *output)
{
	memset(w, 0, sizeof *w);
	w->report.bytes = sizeof w->report;
	w->scan = tomos_scan_defaults();
	w->scan.pixel = 0;
	w->scan.axis = &axis_column;
	w->scan.axis_count = 1;
	w->run = tomos_run_defaults();
	w->file = tomos_file_defaults();
	w->prep = tomos_prep_defaults();
	snprintf(w->path, sizeof w->path, "%s", at("scan.h5"));
	snprintf(w->output, sizeof w->output, "%s", at(output));
	w->report.bytes = sizeof w->report;
	w->job = (tomos_job){.bytes = sizeof w->job,
		.scan = w->path,
		.output = w->output,
		.backend = "cpu",
		.geometry = &w->scan,
		.run = &w->run,
		.file = &w->file,
		.prep = &w->prep,
		.command = "tomos recon scan.h5",
		.recipe = "[run]\n",
		.say = hear,
		.user = w,
		.report = &w->report};
}

/* Bytes: the program, two slices, and the work on their rows. */
static const int64_t few_at_a_time =
	(12 << 20) + 176704 + 2 * 8 * VIEWS * COLUMNS * (int64_t)sizeof(float);

/* The smallest memory that suffices, which gives the thinnest slabs. */
static inline void least_memory(Work *w)
{
	tomos_status status = TOMOS_NO_MEMORY;
	w->run.dry_run = 1;
	for (w->run.memory = 12 << 20; status == TOMOS_NO_MEMORY; w->run.memory += 4000)
		status = tomos_run(&w->job, NULL);
	w->run.memory -= 4000;
	assert_int_equal(status, TOMOS_OK);
	w->run.dry_run = 0;
}

/* Cancels the run a little later each time, and resumes it, until it is complete; the largest
 * number of slices that were there already. */
static inline int64_t run_with_breaks(Work *w)
{
	tomos_status status = TOMOS_CANCELLED;
	int64_t most = 0;
	for (int i = 1; status == TOMOS_CANCELLED; i++) {
		Patience patience = {i};
		const tomos_progress progress = {lose_patience, &patience};
		w->run.resume = i > 1;
		status = tomos_run(&w->job, &progress);
		most = max64(most, w->report.resumed);
		assert_true(i < 1000);
	}
	assert_ok(status);
	return most;
}

/* Leaves a run of several slabs at its last step. */
static inline void break_off_with(const char *output, void (*change)(Work *w))
{
	Work w;
	Patience patience = {1000000};
	const tomos_progress progress = {lose_patience, &patience};
	work_init(&w, output);
	w.run.memory = few_at_a_time;
	if (change)
		change(&w);
	w.file.overwrite = 1;
	w.run.dry_run = 0;
	assert_ok(tomos_run(&w.job, &progress));
	assert_true(w.report.slabs > 1);
	file_discard(w.output);
	patience.left = 1000000 - patience.left - 1;
	assert_int_equal(tomos_run(&w.job, &progress), TOMOS_CANCELLED);
}

static inline void break_off(const char *output)
{
	break_off_with(output, NULL);
}

/* In /dev/shm, if it exists: syncing many small files to a disk takes seconds. */
static inline int make_sloping_scan(void **state)
{
	(void)state;
	row_slope = 0.1; /* all slices differ */
	if (scratch_in(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"))
		return -1;
	write_scan(at("scan.h5"));
	return 0;
}

#endif
