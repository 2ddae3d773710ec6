/* Cutting a projection into pieces; see schedule.c for the choice among the ways to cut. */
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

/* What every way of cutting reads. */
typedef struct {
	const Split *split;
	const ProjectRequest *what;
	bool solid, rows;
	int64_t out, in;  /* floats of a piece of the result, and of an upload */
	int64_t symmetry; /* back projection: sets of views rotated against each other; 1: none */
	Slabs slabs;
	Window *windows; /* of the slab being cut, by view; see find_windows */
	RowRange *reach; /* [slab][view]; forward projection only */
} Cutting;

/* Forward projection: number of bands of detector rows and of chunks of views. */
typedef struct {
	int64_t bands, chunks;
} Blocks;

/* At least `least` boxes (fewer if there are fewer voxel rows) of at most `most` voxels: whole
 * slices, or rows of one slice. */
tomos_status cut_box(Slabs *slabs, const Box *box, int64_t most, int64_t least);
tomos_status schedule_add_item(Schedule *s, const Step *piece, int64_t after);
tomos_status schedule_add_step(Schedule *s, const Step *step);
int64_t window_size(const Window *w);
Window piece_window(const Cutting *c, int64_t view, const Box *box);
bool box_spans_y(const Box *box, const Box *all);
/* Windows of the views that see the step's box, up to `end` of the first set and the same of the
 * other sets. */
void find_windows(const Cutting *c, const Step *step, int64_t end);
/* Extends the step by views from step->first on, up to `end` of the first set, while the pixels
 * that they need together do not exceed `most`; at least by one view of each set. */
void take_views(const Cutting *c, Step *step, int64_t end, int64_t most);

/* Back projection: slabs in `groups` groups of views, whose results are added. */
tomos_status cut_back(const Cutting *c, Schedule *s, int64_t groups);
/* Forward projection: blocks of views and rows, each from the slabs that project to it. */
tomos_status find_reach(Cutting *c);
tomos_status cut_forward(const Cutting *c, Schedule *s, const Blocks *b);
/* The fewest chunks of views for b->bands bands, at least `least` blocks in all; false: none
 * fits. */
bool count_blocks(const Cutting *c, Blocks *b, int64_t least);
/* Forward projection: slab by slab, with the projections of all slabs added up. */
tomos_status cut_slabs(const Cutting *c, Schedule *s);

#endif
