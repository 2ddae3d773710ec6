/* A scan of 36 rows, each with a fan or parallel rays of its own, and iterative jobs on it. */
#ifndef TOMOS_TESTS_RUN_STACK_H
#define TOMOS_TESTS_RUN_STACK_H

#include <math.h>
#include "geom/orbit.h"
#include "run_help.h"

enum {
	STACK_VIEWS = 20,
	STACK_ROWS = 36,
	STACK_COLUMNS = 24,
	STACK_SLICE = STACK_COLUMNS * STACK_COLUMNS,
	STACK_VOXELS = STACK_ROWS * STACK_SLICE,
	STACK_RAYS = STACK_VIEWS * STACK_ROWS * STACK_COLUMNS
};

typedef struct {
	tomos_job job;
	tomos_algebraic_options algebraic;
	tomos_projector_options projector;
	tomos_run_options run;
	tomos_file_options file;
	tomos_grid_options grid;
	tomos_run_report report;
	tomos_history history;
	double residual[64], error[64];
	char scan[128], output[128], said[4096];
} StackJob;

static inline void stack_hear(void *user, tomos_level level, const char *line)
{
	StackJob *j = user;
	append_line(j->said, sizeof j->said, level, line);
}

/* The output is replaced. */
static inline void stack_job(StackJob *j, const char *method, const char *scan, const char *output)
{
	memset(j, 0, sizeof *j);
	j->algebraic = tomos_algebraic_defaults();
	j->algebraic.iterations = 4;
	j->projector = tomos_projector_defaults();
	j->run = tomos_run_defaults();
	j->file = tomos_file_defaults();
	j->file.overwrite = 1;
	j->grid = tomos_grid_defaults();
	j->history = (tomos_history){.bytes = sizeof j->history,
		.residual = j->residual,
		.error = j->error,
		.capacity = 64};
	j->algebraic.history = &j->history;
	j->report.bytes = sizeof j->report;
	snprintf(j->scan, sizeof j->scan, "%s", at(scan));
	snprintf(j->output, sizeof j->output, "%s", at(output));
	j->job = (tomos_job){.bytes = sizeof j->job,
		.scan = j->scan,
		.output = j->output,
		.method = method,
		.backend = "cpu",
		.algebraic = &j->algebraic,
		.projector = &j->projector,
		.run = &j->run,
		.file = &j->file,
		.grid = &j->grid,
		.say = stack_hear,
		.user = j,
		.report = &j->report};
}

/* The smallest memory limit, to 4 KiB, that a dry run accepts. */
static inline int64_t stack_least(StackJob *j)
{
	int64_t low = 1 << 20, high = (int64_t)1 << 30, given = j->run.memory;
	j->run.dry_run = 1;
	while (high - low > 4096) {
		j->run.memory = (low + high) / 2;
		if (tomos_run(&j->job, NULL) == TOMOS_OK)
			high = j->run.memory;
		else
			low = j->run.memory;
	}
	j->run.dry_run = 0;
	j->run.memory = given;
	j->said[0] = 0;
	return high;
}

static inline void stack_geometry(tomos_geometry **scan, const char *kind, int64_t rows)
{
	static const double distances[2] = {80, 120};
	const int64_t size[3] = {STACK_VIEWS, rows, STACK_COLUMNS};
	tomos_scan_options o = orbit_options(kind, size, distances);
	assert_ok(tomos_geometry_make(scan, &o));
}

static inline void stack_write(const char *name, tomos_content content, const int64_t shape[3],
	const tomos_geometry *scan, const float *data)
{
	tomos_file_options o = tomos_file_defaults();
	tomos_file *file;
	o.overwrite = 1;
	assert_ok(tomos_file_create(&file, at(name), content, shape, &o));
	if (scan)
		assert_ok(tomos_file_set_geometry(file, scan));
	assert_ok(tomos_file_write(file, 0, shape[0], data));
	assert_ok(tomos_file_commit(file));
	tomos_file_close(file);
}

/* All slices differ; the data are above 0 and have some noise. */
static inline void stack_scan(const char *name, const char *kind, float *data)
{
	const int64_t shape[3] = {STACK_VIEWS, STACK_ROWS, STACK_COLUMNS};
	tomos_geometry *scan;
	stack_geometry(&scan, kind, STACK_ROWS);
	for (int64_t i = 0; i < STACK_RAYS; i++) {
		double u = (double)(i % STACK_COLUMNS) - 11.5,
		       row = (double)(i / STACK_COLUMNS % 36);
		data[i] = (float)(1 + 0.05 * row + sqrt(fmax(0, 100 - u * u)) * (1 + 0.03 * row) +
				  0.1 * sin(1.7 * (double)i));
	}
	stack_write(name, TOMOS_PROJECTIONS, shape, scan, data);
	tomos_geometry_free(scan);
}

static inline void stack_read(const char *path, float *data, int64_t slices)
{
	tomos_file *file;
	assert_ok(tomos_file_open(&file, path, NULL));
	assert_ok(tomos_file_read(file, 0, slices, data));
	tomos_file_close(file);
}

static inline double stack_distance(const float *a, const float *b, int64_t count)
{
	double squares = 0, errors = 0;
	for (int64_t i = 0; i < count; i++) {
		squares += (double)a[i] * (double)a[i];
		errors += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
	}
	return sqrt(errors / squares);
}

#endif
