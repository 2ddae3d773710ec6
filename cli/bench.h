/* Workloads of `tomos bench`: table and measurement. */
#ifndef TOMOS_CLI_BENCH_H
#define TOMOS_CLI_BENCH_H

#include "cli.h"

typedef enum bench_scan { XY, XZ, YZ, LEBEDEV, CONE, FAN } bench_scan;
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

/* --by-view: checks before the work; the time of each view, as an image with a table. */
int directions_check(const settings *s, const workload *const *chosen, int count);
int directions_run(const settings *s, tomos_backend *backend, const workload *w);
int workload_views(const settings *s, tomos_backend *backend, const workload *w, view_time *list);
int workload_run(const settings *s, tomos_backend *backend, const workload *w, timing *t);

#endif
