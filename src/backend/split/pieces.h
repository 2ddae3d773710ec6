/* Cutting a projection into pieces that fit into device memory; schedule.c chooses among the ways
 * to cut. */
#ifndef TOMOS_BACKEND_SPLIT_PIECES_H
#define TOMOS_BACKEND_SPLIT_PIECES_H

#include "backend/split/split.h"

typedef struct {
	Box *list;
	int64_t count;
} Slabs;

/* Detector rows [low, high) that a slab projects to in a view. */
typedef struct {
	int64_t low, high;
} RowRange;

/* Input of all functions that cut a request. */
typedef struct {
	const Split *split;
	const ProjectRequest *what;
	bool solid, rows;
	int64_t out, in;  /* capacity, in floats, for a piece of the result and for its input */
	int64_t symmetry; /* adjoint: sets of views that are rotated copies; 1: none */
	Slabs slabs;
	Window *windows; /* [view of the request]: see find_windows */
	RowRange *reach; /* [slab][view]; forward projection only, see find_reach */
} Cutting;

/* Forward projection: number of bands of detector rows and of chunks of views. */
typedef struct {
	int64_t bands, chunks;
} Blocks;

/* Divides a box into slabs of at most `most` voxels each, at least `least` of them if there are
 * enough voxel rows. A slab is a number of whole slices, or rows of one slice. */
tomos_status cut_box(Slabs *slabs, const Box *box, int64_t most, int64_t least);
tomos_status schedule_add_item(Schedule *s, const Step *piece, int64_t after);
tomos_status schedule_add_step(Schedule *s, const Step *step);
int64_t window_size(const Window *w);
Window piece_window(const Cutting *c, int64_t view, const Box *box);
bool box_spans_y(const Box *box, const Box *all);
/* For each view of the step: finds the window of pixels that the step's box projects to, and stores
 * it in c->windows. The views are [step->first, end) and, with symmetry, the same range of every
 * other set, step->stride views later. */
void find_windows(const Cutting *c, const Step *step, int64_t end);
/* Sets the views of the step: consecutive views from step->first up to `end`, and their
 * counterparts in the other sets, as many as fit if each has the union of all their windows and the
 * total is at most `most` pixels; at least one view per set. Reads c->windows. */
void take_views(const Cutting *c, Step *step, int64_t end, int64_t most);

/* Back projection: one item per slab and group of views. The results of the `groups` groups are
 * added. */
tomos_status cut_back(const Cutting *c, Schedule *s, int64_t groups);
/* Forward projection: one item per block of views and detector rows, from the slabs that project to
 * it. find_reach must be called first: it finds the detector rows of every slab and view. */
tomos_status find_reach(Cutting *c);
tomos_status cut_forward(const Cutting *c, Schedule *s, const Blocks *b);
/* Sets b->chunks to the lowest number of chunks of views for which blocks of b->bands bands fit and
 * are at least `least` in number; false: none fits. */
bool count_blocks(const Cutting *c, Blocks *b, int64_t least);
/* Forward projection slab by slab, with the projections of all slabs added in host memory. */
tomos_status cut_slabs(const Cutting *c, Schedule *s);

#endif
