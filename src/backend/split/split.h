/* A backend of several devices: vectors are in host memory; projections and filters run in pieces
 * that fit into the devices, each with two streams so that transfers and kernels overlap. */
#ifndef TOMOS_BACKEND_SPLIT_SPLIT_H
#define TOMOS_BACKEND_SPLIT_SPLIT_H

#include <pthread.h>
#include "backend/backend.h"

/* What is distributed over the devices (Okitsu et al., section 5.1): voxels, so that a back
 * projection is downloaded once but views are uploaded several times, or views, with the opposite
 * effect. */
typedef enum { SHARE_AUTO, SHARE_VIEWS, SHARE_VOXELS } SplitShare;

typedef struct {
	int64_t memory; /* bytes on each device; 0: the free memory */
	SplitShare share;
} SplitOptions;

/* A lane: a backend on one device (the child) and its memory, used by one thread at a time. */
typedef struct {
	tomos_backend *child;
	float *block;    /* device memory, which contains: */
	float *out, *in; /* a piece of the result, and the input of a step */
	int64_t capacity;
	float *sum; /* host memory for a piece that is added to the result */
	bool sum_pinned;
	FilterView *views;
	float *weights; /* column weights of the views */
	int64_t sum_capacity, view_capacity, weight_capacity;
	int64_t sent; /* step whose input is in device memory; -1: none */
} Lane;

/* A host array registered by split_pin. */
typedef struct {
	float *data; /* NULL: none */
	int64_t count;
	int users, uses;
	bool pinned; /* by the device driver: transfers need no copy */
} PinnedArray;

enum { MAX_PINNED = 64 }; /* further arrays are copied */

typedef struct {
	BackendCopy tables; /* those of the CPU backend, except for operations done in pieces */
	Lane *lanes;
	int count;
	int64_t memory;        /* bytes on each device, */
	bool limited;          /* which the caller has chosen */
	int64_t capacity;      /* floats of device memory per lane for pieces */
	int64_t in[2];         /* the part of them for the input, by direction */
	int64_t in_rows;       /* likewise when views are filtered: unfiltered and filtered rows */
	int64_t own, own_rows; /* floats of scratch memory of kernels per lane; 0: not limited */
	SplitShare share;
	pthread_mutex_t lock; /* the lanes are used by one call at a time */
	PinnedArray arrays[MAX_PINNED];
	int64_t pinned_floats; /* pinned */
	pthread_mutex_t pin_lock;
} Split;

enum { STREAMS = 2 }; /* lanes per device */

static inline Split *split_of(const tomos_backend *backend)
{
	return backend->own;
}

/* A backend of the devices that the arguments name, possibly several times. */
tomos_status split_open(tomos_backend **backend, const BackendType *type,
	const char *const *arguments, int count, const SplitOptions *options);
/* Likewise for a list such as "0,1". */
tomos_status split_open_list(tomos_backend **backend, const BackendType *type, const char *list,
	const SplitOptions *options);

/* Reserves memory for pieces of these sizes in floats, at most `most` in all; the contents are
 * lost. */
tomos_status lane_reserve(Lane *lane, int64_t out, int64_t in, int64_t most);
/* Limits the scratch memory of kernels of all lanes, in floats. */
void split_limit(const Split *split, int64_t own);
/* Reserves host memory for `count` floats, or for `count` views of `columns` columns. */
tomos_status lane_sum(Split *split, Lane *lane, int64_t count);
tomos_status lane_views(Lane *lane, int64_t count, int64_t columns);

/* See backend.h. */
tomos_status split_pin(tomos_backend *backend, float *data, int64_t count);
void split_unpin(tomos_backend *backend, float *data);
void split_unpin_all(Split *s);
/* Pins an array for transfers of a child if memory allows. Returns whether it is pinned. */
bool child_pin(Split *s, tomos_backend *child, float *data, int64_t count);
void child_unpin(Split *s, tomos_backend *child, float *data, int64_t count);
/* To be called before each transfer of an array; pins it at its second one. Returns whether it is
 * pinned. */
bool split_use(Split *split, const float *data);

typedef struct {
	FilterSpec spec;
	Filter *filters[]; /* one per lane */
} SplitFilter;

/* ---- items of work, distributed over the lanes ----------------------------------------------- */

typedef struct LaneRun LaneRun;
typedef tomos_status LaneTask(LaneRun *run, void *user, Lane *lane, int64_t item);

/* Executes all items; an idle lane takes the next one. The first failure stops all. */
tomos_status split_run(Split *split, int64_t items, LaneTask *task, void *user);
/* For use inside tasks. run_stopped: whether another task has failed. run_wait: waits until an item
 * of lower index is done; false if it failed. */
bool run_stopped(LaneRun *run);
bool run_wait(LaneRun *run, int64_t item);

/* ---- pieces of a projection ----------------------------------------------------------------- */

/* A step: one projection on a child. Its views are `sets` ranges of count / sets consecutive views;
 * the first one begins at view `first`, each further one `stride` views later. */
typedef struct {
	Box box;
	int64_t first, count;
	int64_t sets, stride;
	Window window; /* pixels of each of these views */
	int64_t plan;  /* index in the list of plans */
} Step;

/* An item: a piece of the result and the steps that compute it, all on one lane. */
typedef struct {
	Step piece; /* voxels of the piece (adjoint), or its views and pixels (forward) */
	int64_t first, steps;
	int64_t after; /* item that must be added to the same piece before this one; -1: none */
} Item;

typedef struct Schedule Schedule;

struct Schedule {
	Schedule *next;
	/* The request. */
	Direction direction;
	int kernel;
	bool solid; /* views must not be cropped: kernels would lose contributions at the borders */
	bool rows;  /* views are filtered before back projection, so windows have whole rows */
	Box box;
	int64_t first, count;
	/* The pieces. */
	Step *steps;
	Item *items;
	Plan *plans; /* made at first use */
	int64_t step_count, step_capacity, item_count, item_capacity, plan_count;
	bool adds;       /* all pieces overlap and are added in host memory */
	bool sums;       /* some or all pieces are added in host memory */
	bool keeps;      /* plans are cached between calls */
	int64_t cost;    /* floats uploaded, downloaded and added */
	int64_t out, in; /* floats of the largest piece of the result, and of the largest input */
};

/* The cheapest way to cut the request, within the options of the split. */
tomos_status schedule_make(
	Schedule **schedule, const Split *split, const ProjectRequest *what, bool rows);
void schedule_free(Schedule *schedule);
int64_t step_voxels(const Step *step);
int64_t step_pixels(const Step *step);
/* The index in the scan of view i of the step. */
int64_t step_view(const Step *step, int64_t i);
/* Whether two steps have the same input. */
bool step_same_input(const Step *a, const Step *b, Direction direction);

tomos_status split_project(tomos_backend *backend, const ProjectRequest *what);
tomos_status split_power(tomos_backend *backend, const ProjectRequest *what, int power);
tomos_status split_back_update(
	tomos_backend *backend, const ProjectRequest *what, const FusedUpdate *step, bool *done);
tomos_status split_filter_open(tomos_backend *backend, Filter **filter, const FilterSpec *spec);
void split_filter_close(tomos_backend *backend, Filter *filter);
tomos_status split_filter(tomos_backend *backend, const Filter *filter, int64_t count, int64_t rows,
	const FilterView *views, const float *in, float *out);
tomos_status split_filter_back_project(tomos_backend *backend, const Filter *filter,
	const FilterView *views, const float *in, const ProjectRequest *what);

extern const BackendFourier split_fourier;

static inline int64_t parts_of(int64_t n, int64_t size)
{
	return (n + max64(size, 1) - 1) / max64(size, 1);
}

#endif
