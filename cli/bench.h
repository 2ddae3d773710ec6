/* Workloads and survey of `tomos bench`: tables and measurement. */
#ifndef TOMOS_CLI_BENCH_H
#define TOMOS_CLI_BENCH_H

#include <stdio.h>
#include "cli.h"
#include "survey.h"

/* Distance of the source: CONE 2.8 n, CONE_4N and FAN 4 n. */
typedef enum bench_scan { XY, XZ, YZ, LEBEDEV, CONE, CONE_4N, FAN } bench_scan;
/* ..._HOST: input and output in host memory; otherwise the arrays are on the device. CSR_...,
 * SCSR_...: with a stored matrix. From SIRT on, one iteration is measured. */
typedef enum bench_task {
	FORWARD,
	ADJOINT,
	FBP,
	FBP_HOST,
	FDK,
	FDK_HOST,
	CSR_FORWARD,
	CSR_ADJOINT,
	SCSR_FORWARD,
	SCSR_ADJOINT,
	SIRT,
	SART,
	BLOCK,
	ART
} bench_task;

typedef struct workload {
	const char *name;
	int quick;
	bench_scan scan;
	int64_t n, slices, views, rows, columns;
	bench_task task;
	const char *forward, *back;
	int64_t iterations;
	double samples, sums, volumes, scans; /* lower bounds of the work, see workloads.def */
	const char *about;
} workload;

typedef struct timing {
	double median, least, most; /* seconds */
	double rate;     /* 1e9 voxel updates per second (voxels times views), at the median */
	double bound;    /* upper bound of the rate; 0: unknown */
	tomos_rate part; /* part of the machine that sets the bound */
	char kernel[32]; /* of the last projection; "": unknown */
} timing;

enum { BENCH_BLOCKS = 10 }; /* blocks of views per iteration */

const workload *workload_list(int *count);
/* Updates of one run: an iteration projects twice. */
double workload_updates(const workload *w);
void workload_bound(const tomos_machine *machine, const workload *w, int half, timing *t);
/* A view of parallel rays: its direction, and the time to project it alone. */
typedef struct view_time {
	double direction[3];
	double seconds;
} view_time;

/* --by-view: the check of the options; the time of each view, as an image and as a table. */
int directions_check(const settings *s, const workload *const *chosen, int count);
int directions_run(const settings *s, tomos_backend *backend, const workload *w);
int workload_views(const settings *s, tomos_backend *backend, const workload *w, view_time *list);
int workload_run(const settings *s, tomos_backend *backend, const workload *w, timing *t);

/* Pseudo-random numbers, so that caches and branch prediction have no advantage. */
void bench_fill(const tomos_array *array);
/* Sorts the times; sets all but bound and kernel. */
void timing_of(double *times, int count, double updates, timing *t);
/* --json: version, backend and threads, followed by what `print` adds. */
int bench_json(const settings *s, const char *backend, void (*print)(FILE *file, const void *user),
	const void *user);

/* The geometries of the survey named by the operands, or all; the list is to be freed. */
int survey_choose(const settings *s, const survey_row ***rows, int *count);
/* An error if the name is that of a geometry or family, where --survey is not given. */
int survey_missing(const char *name);
int survey_check_scale(double scale);
/* 0: the one that suits the backend. */
double survey_scale(double asked, const tomos_backend *backend);
int survey_get(const survey_row *row, double scale, tomos_grid *grid, tomos_geometry **scan);
int survey_print(void);
/* --geometries: files with the views, and one with the grids. */
int survey_save(const settings *s);
int bench_survey(const settings *s);

#endif
