/* One backend made of several: vectors in the host's memory, projections and filters in pieces that
 * fit into the devices, each device with two streams so that transfers run beside the work. */
#ifndef TOMOS_BACKEND_SPLIT_SPLIT_H
#define TOMOS_BACKEND_SPLIT_SPLIT_H

#include <pthread.h>
#include "backend/backend.h"

/* What is shared out among the devices (Okitsu et al., section 5.1): voxels, so that a back projection
 * is fetched once but views are sent more often, or views, the other way round. */
typedef enum { SHARE_AUTO, SHARE_VIEWS, SHARE_VOXELS } SplitShare;

typedef struct {
	int64_t memory; /* bytes on each device; 0: what is free */
	SplitShare share;
} SplitOptions;

/* One child and its memory, driven by one thread at a time. */
typedef struct {
	tomos_backend *child;
	float *block;    /* on the device: */
	float *out, *in; /* a piece of the result, and one of what it is made of */
	int64_t room;
	float *sum; /* in the host's memory: a piece that is added to another */
	bool sum_held;
	FilterView *views;
	float *weights; /* of their columns */
	int64_t sum_room, view_room, weight_room;
	int64_t sent; /* the step whose input is there; -1: none */
} Lane;

/* An array that somebody will use until it is let go. */
typedef struct {
	float *data; /* NULL: none */
	int64_t count;
	int holders, uses;
	bool in_place; /* transfers go straight to it */
} Held;

enum { MOST_HELD = 64 }; /* others are copied */

typedef struct {
	BackendCopy tables; /* those of the CPU, except for what is done in pieces */
	Lane *lanes;
	int count;
	int64_t memory;  /* bytes on each device */
	int64_t room;    /* floats of a lane's pieces */
	int64_t in[2];   /* of these for what is sent, by the direction of a projection */
	int64_t in_rows; /* instead, for rows that are filtered on the way, before and after */
	int64_t own,
		own_rows; /* floats that kernels of a lane may keep; 0: they keep next to nothing */
	SplitShare share;
	pthread_mutex_t lock; /* of the lanes: one call at a time */
	Held held[MOST_HELD];
	int64_t held_floats; /* in place */
	pthread_mutex_t held_lock;
} Split;

enum { STREAMS = 2 }; /* lanes per device */

static inline Split *split_of(const tomos_backend *backend)
{
	return backend->own;
}

/* A backend of the devices that the arguments of `type` stand for, which may name one twice. */
tomos_status split_open(tomos_backend **backend, const BackendType *type,
	const char *const *arguments, int count, const SplitOptions *options);
/* The same for a list, "0,1". */
tomos_status split_open_list(tomos_backend **backend, const BackendType *type, const char *list,
	const SplitOptions *options);

/* Room for pieces of that many floats, and not more than `most` in all; what was there is lost. */
tomos_status lane_take(Lane *lane, int64_t out, int64_t in, int64_t most);
/* Lets kernels of all lanes keep so many floats. */
void split_limit(const Split *split, int64_t own);
/* Room for `count` floats, or views with so many columns, in the host's memory. */
tomos_status lane_sum(Split *split, Lane *lane, int64_t count);
tomos_status lane_views(Lane *lane, int64_t count, int64_t columns);

/* See backend.h. */
tomos_status split_pin(tomos_backend *backend, float *data, int64_t count);
void split_unpin(tomos_backend *backend, float *data);
void split_let_all_go(Split *s);
/* Holds an array for transfers of a child, as far as memory allows; whether that was possible. */
bool child_pin(Split *s, tomos_backend *child, float *data, int64_t count);
void child_unpin(Split *s, tomos_backend *child, float *data, int64_t count);
/* An array is about to be sent or fetched: whether that needs no copy. */
bool split_use(Split *split, const float *data);

/* Each lane has a filter of its own. */
typedef struct {
	FilterSpec spec;
	Filter *filters[]; /* one per lane */
} SplitFilter;

/* ---- items of work, shared out among the lanes ---------------------------------------------- */

typedef struct Run Run;
typedef tomos_status LaneTask(Run *run, void *user, Lane *lane, int64_t item);

/* Does all items; a lane that is free takes the next one. The first failure stops all. */
tomos_status split_run(Split *split, int64_t items, LaneTask *task, void *user);
/* For tasks: whether another one failed; waits for an item below one's own, false if it failed. */
bool run_stopped(Run *run);
bool run_wait(Run *run, int64_t item);

/* ---- pieces of a projection ----------------------------------------------------------------- */

/* One projection of a child. */
typedef struct {
	Box box;
	int64_t first, count; /* views: */
	int64_t runs,
		apart; /* so many equal runs of neighbours, each so far after the one before */
	Window window; /* pixels of them */
	int64_t plan;  /* in the list of plans */
} Step;

/* A piece of the result and the steps that make it, all on one lane. */
typedef struct {
	Step piece; /* its voxels, or its views and their pixels */
	int64_t first, steps;
	int64_t after; /* the item that makes a part of the same piece before; -1: none */
} Item;

typedef struct Schedule Schedule;

struct Schedule {
	Schedule *next;
	/* What it is for. */
	Direction direction;
	int kernel;
	bool solid; /* views must not be cut: what falls between two parts would be lost */
	bool rows;  /* whole rows of views, which are filtered on the way */
	Box box;
	int64_t first, count;
	/* How it is done. */
	Step *steps;
	Item *items;
	Plan *plans; /* made when first used */
	int64_t step_count, step_room, item_count, item_room, plan_count;
	bool adds;       /* pieces overlap: all of them are added up in the host's memory */
	bool sums;       /* so are some, or all */
	bool keeps;      /* the plans from one call to the next */
	int64_t cost;    /* floats sent, fetched and added */
	int64_t out, in; /* floats of the largest pieces */
};

/* The cheapest way, or the one that the split was told to take. */
tomos_status schedule_make(
	Schedule **schedule, const Split *split, const ProjectRequest *what, bool rows);
void schedule_free(Schedule *schedule);
int64_t step_voxels(const Step *step);
int64_t step_pixels(const Step *step);
/* The number of its view i in the scan. */
int64_t step_view(const Step *step, int64_t i);
/* Whether two steps take the same input. */
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

static inline int64_t parts_of(int64_t n, int64_t size)
{
	return (n + size - 1) / size;
}

#endif
