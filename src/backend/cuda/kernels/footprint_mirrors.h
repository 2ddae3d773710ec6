/* Sets of views that mirror images of the grid map onto each other. Host code.
 *
 * Where a grid that is mirrored along some of its axes is the same for a view as the grid itself is
 * for another view, whose rows or columns may be in reverse order, the weights of a voxel in the
 * one view are those of its image in the other. With four such maps, of which any two make a third,
 * one weight serves four voxels in a view each. They hold for a tilted rotation axis, and for
 * detectors that are rolled or slanted, if the views are all around.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_MIRRORS_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_MIRRORS_H

#include "backend/cuda/cuda.h"

enum {
	IMAGES = 4,
	REVERSED_COLUMNS = 1 << 29,
	REVERSED_ROWS = 1 << 30,
	VIEW_BITS = REVERSED_COLUMNS - 1
};

/* The maps, bit a: axis a is mirrored; the first is none. count: 0 or 1: there are no others. halved:
 * axes along which half of the grid has images that are all of it, bit a: axis a. */
typedef struct {
	int flips[IMAGES], count, halved;
} Mirrors;

/* The view that a view is mapped to by each of the maps, and whether its rows and columns are in
 * reverse order. */
typedef struct {
	int view[IMAGES];
} MirrorView;

/* The form of the mirrored grid. */
static inline void mirror_form(const double f[4], const KernelGrid *grid, int flips, double to[4])
{
	to[3] = f[3];
	for (int a = 0; a < 3; a++) {
		const bool flip = flips >> a & 1;
		to[a] = flip ? -f[a] : f[a];
		to[3] += flip ? f[a] * (double)(grid->n[a] - 1) : 0;
	}
}

/* Whether factor f + more d = g everywhere on the grid. */
static inline bool is_form(const double f[4], double factor, const double d[4], double more,
	const double g[4], const KernelGrid *grid, double tolerance)
{
	double most = 0;
	for (int a = 0; a < 4; a++) {
		const double differ = fabs(factor * f[a] + more * d[a] - g[a]);
		most = fmax(most, differ * (a < 3 ? (double)grid->n[a] : 1));
	}
	return most <= tolerance; /* false for NaN */
}

/* `from` and REVERSED bits if the map takes view `from` to view `to`; else -1. */
static inline int mirrored_view(const Plan *plan, int flips, int64_t from, int64_t to)
{
	const KernelView *a = &plan->views[from], *b = &plan->views[to];
	const double tolerance = 5e-7, columns = (double)(plan->model.columns - 1),
		     rows = (double)(plan->model.rows - 1), size = columns + rows + 2;
	double column[4], row[4], depth[4];
	int reversed = 0;
	mirror_form(b->depth, &plan->whole, flips, depth);
	if (!is_form(a->depth, 1, a->depth, 0, depth, &plan->whole, tolerance / size) ||
		!(fabs(a->mass - b->mass) <= tolerance * fabs(a->mass)))
		return -1;
	mirror_form(b->column, &plan->whole, flips, column);
	mirror_form(b->row, &plan->whole, flips, row);
	if (!is_form(a->column, 1, a->depth, 0, column, &plan->whole, tolerance)) {
		if (!is_form(a->column, -1, a->depth, columns, column, &plan->whole, tolerance))
			return -1;
		reversed |= REVERSED_COLUMNS;
	}
	if (!is_form(a->row, 1, a->depth, 0, row, &plan->whole, tolerance)) {
		if (!is_form(a->row, -1, a->depth, rows, row, &plan->whole, tolerance))
			return -1;
		reversed |= REVERSED_ROWS;
	}
	return (int)to | reversed;
}

/* The view that a map takes a view to, as above, or -1; that of the view before is given as
 * `last`: it is mostly next to that. */
static inline int find_mirrored(const Plan *plan, int flips, int64_t view, int64_t last)
{
	const int64_t count = plan->scan->count;
	const int64_t likely[3] = {view, last - 1, last + 1};
	for (int i = 0; i < 3; i++) {
		const int64_t to = (likely[i] + count) % count;
		const int found = mirrored_view(plan, flips, view, to);
		if (found >= 0)
			return found;
	}
	for (int64_t to = 0; to < count; to++) {
		const int found = mirrored_view(plan, flips, view, to);
		if (found >= 0)
			return found;
	}
	return -1;
}

/* A number that is not like those of other views. */
static inline uint64_t mirror_hash(int64_t view)
{
	const uint64_t x = ((uint64_t)view + 1) * 0x9E3779B97F4A7C15u;
	return (x ^ x >> 29) * 0xBF58476D1CE4E5B9u;
}

/* Whether a map takes all views to views, each to another: sums of numbers of the views are the
 * same. */
static inline bool is_mirror(const Plan *plan, int flips)
{
	int last = 0;
	uint64_t differ = 0;
	for (int64_t i = 0; i < plan->scan->count; i++) {
		const int found = find_mirrored(plan, flips, i, last);
		if (found < 0)
			return false;
		last = found & VIEW_BITS;
		differ += mirror_hash(last) - mirror_hash(i);
	}
	return differ == 0;
}

/* While views are visited in their order. */
typedef struct {
	Mirrors mirrors;
	int last[IMAGES];
} MirrorSearch;

/* Of cuda_kept. */
static inline void make_mirror_view(const Plan *plan, int64_t view, const void *user, void *place)
{
	MirrorSearch *search = (MirrorSearch *)user;
	MirrorView found = {};
	for (int i = 0; i < search->mirrors.count; i++) {
		found.view[i] = i == 0 ? (int)view
				       : find_mirrored(plan, search->mirrors.flips[i], view,
						 search->last[i]);
		search->last[i] = found.view[i] & VIEW_BITS;
	}
	*(MirrorView *)place = found;
}

/* Four maps, of which one mirrors x and another y; or, if `most` is less or there are none, two. */
static inline Mirrors find_mirrors(const ProjectRequest *what, int most)
{
	static const int single[] = {4, 1, 2, 5, 6, 3, 7};
	const Plan *plan = what->plan;
	const char *off = getenv("TOMOS_MIRRORS"); /* experiment */
	if (off && atoi(off) < most)
		most = atoi(off);
	if (!request_is_whole(what) || what->box.low[2] != 0 ||
		what->box.high[2] != plan->grid.n[2] || plan->model.planar ||
		what->count > VIEW_BITS || plan->model.rows * plan->model.columns > 1 << 28 ||
		!(plan->rays.source == TOMOS_POINT || plan->rays.source == TOMOS_PARALLEL))
		return Mirrors{};
	for (int x = 1; x < 8 && most >= 4; x += 4) /* x, and x with z */
		for (int y = 2; y < 8 && is_mirror(plan, x); y += 4)
			if (is_mirror(plan, y))
				return Mirrors{{0, x, y, x ^ y}, 4, 3};
	for (int i = 0; i < 7 && most >= 2; i++)
		if (is_mirror(plan, single[i]))
			return Mirrors{{0, single[i]}, 2, single[i] & -single[i]};
	return Mirrors{};
}

#endif
