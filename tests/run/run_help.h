/* Helpers for tests of whole runs: messages, cancelling, hidden files, exact scans. */
#ifndef TOMOS_TESTS_RUN_RUN_HELP_H
#define TOMOS_TESTS_RUN_RUN_HELP_H

#include "base/base.h"
#include "io/io_help.h"

static inline void append_line(char *text, size_t size, tomos_level level, const char *line)
{
	static const char *const before[] = {"", "note: ", "warning: "};
	size_t length = strlen(text);
	snprintf(text + length, size - length, "%s%s\n", before[level], line);
}

/* A run that fails with a message and writes nothing. */
static inline void assert_run_rejected(const tomos_job *job, const char *output, const char *says)
{
	assert_int_not_equal(tomos_run(job, NULL), TOMOS_OK);
	assert_says(says);
	assert_int_equal(access(output, F_OK), -1);
	assert_int_equal(mem_live(), 0);
}

/* Cancels a run after a number of reports. */
typedef struct {
	int64_t left;
} Patience;

static inline int lose_patience(
	void *user, const char *stage, int64_t done, int64_t total, double value)
{
	Patience *p = user;
	(void)stage, (void)done, (void)total, (void)value;
	return --p->left < 0;
}

static inline void assert_same_file(const char *a, const char *b)
{
	size_t length, other;
	unsigned char *x = get_file(a, &length), *y = get_file(b, &other);
	assert_int_equal(length, other);
	assert_memory_equal(x, y, length);
	free(x);
	free(y);
}

/* Files that runs keep beside their outputs. */
static inline int hidden_files(void)
{
	DIR *directory = opendir(scratch);
	int count = 0;
	assert_non_null(directory);
	for (struct dirent *e; (e = readdir(directory));)
		count += e->d_name[0] == '.' && e->d_name[1] != 0 && e->d_name[1] != '.';
	closedir(directory);
	return count;
}

typedef struct {
	const tomos_ellipsoid *list;
	int64_t count;
} Solids;

/* Line integrals of a parallel scan of {views, rows, columns}. */
static inline void project_solids(
	float *data, const int64_t shape[3], double pixel, double axis, Solids solids, int samples)
{
	tomos_scan_options o = tomos_scan_defaults();
	tomos_geometry *scan;
	tomos_phantom *phantom;
	o.views = shape[0];
	o.rows = shape[1];
	o.columns = shape[2];
	o.pixel = pixel;
	o.axis = &axis;
	o.axis_count = 1;
	tomos_array array = tomos_array_of(data, shape[0], shape[1], shape[2]);
	assert_ok(tomos_geometry_make(&scan, &o));
	assert_ok(tomos_phantom_ellipsoids(&phantom, solids.list, solids.count));
	assert_ok(tomos_phantom_project(phantom, scan, samples, &array));
	tomos_phantom_free(phantom);
	tomos_geometry_free(scan);
}

#endif
