/* A block of voxels in one view: the pixels that it projects to, and which approximations its
 * positions and weights allow. */
#ifndef TOMOS_BACKEND_CPU_LEVEL_BLOCK_H
#define TOMOS_BACKEND_CPU_LEVEL_BLOCK_H

#include <math.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/level/trapezoid.h"

enum {
	TILE = 32,         /* voxels of a tile along each axis */
	SPAN = 32,         /* voxels of a line computed from one middle */
	MOST_CELLS = 8192, /* cells of a window */
	MOST_WIDE = 1024,  /* cells of a window in a row */
	FAR = 1 << 20,     /* columns and rows beyond this are not computed */
};

/* What the weight of a voxel depends on: nothing, the depth, or depth and distance to the source.
 * The depth itself is constant for parallel rays. */
typedef enum { WEIGH_PARALLEL, WEIGH_SAME, WEIGH_DEPTH, WEIGH_DISTANCE } Weighing;

/* One view. Lines of voxels are along the first axis, the SIMD lanes along the second one: x and y
 * or, if `swapped`, y and x, in all members with three or four elements. `square`: weights that
 * depend on the distance to the source are divided by depth^2 instead of depth^3. `footprints`:
 * a voxel covers all pixels of its projection; otherwise it is a point between four pixels. */
typedef struct {
	const Plan *plan;
	double depth[4], column[4], row[4], src[3], v[3], step[3], mass;
	Weighing weighing;
	bool swapped, fans, square, footprints;
} Look;

/* The patches of pixels that the voxels of a block project to, by the lower left pixel of each:
 * columns and rows [low, low + size). A patch has pixels[0] columns and pixels[1] rows. */
typedef struct {
	int64_t low[2], size[2];
	int pixels[2];
	double least[2], most[2]; /* columns and rows that voxels beside the detector get */
	bool clipped;             /* some voxels are beside the detector */
	bool smooth;              /* weights along a span are polynomials */
	bool mild;    /* floats suffice for the differences between neighbouring lines */
	int64_t span; /* voxels of a line that are computed from their middle */
	int64_t near; /* neighbours of a line whose columns are at most 2 apart, or 1 */
} Cells;

typedef enum { BLOCK_OFF, BLOCK_FITS, BLOCK_SPLIT } BlockFit;

static inline Look look_at(const Plan *plan, int64_t view, bool swapped, bool footprints)
{
	const KernelView *k = &plan->views[view];
	const KernelModel *model = &plan->model;
	Look look = {
		.plan = plan, .swapped = swapped, .fans = KERNEL_FANS(k), .footprints = footprints};
	for (int a = 0; a < 4; a++) {
		int b = swapped && a < 2 ? 1 - a : a;
		look.depth[a] = k->depth[b];
		look.column[a] = k->column[b];
		look.row[a] = model->planar ? 0 : k->row[b];
		if (a == 3)
			continue;
		look.src[a] = k->src[b];
		look.v[a] = k->v[b];
		look.step[a] = plan->whole.step[b];
	}
	look.mass = model->weight == WEIGHT_RAY ? k->mass : 1;
	look.square = look.fans || model->planar;
	look.weighing = !KERNEL_HAS_SOURCE(k)           ? WEIGH_PARALLEL
			: model->weight == WEIGHT_NONE  ? WEIGH_SAME
			: model->weight == WEIGHT_DEPTH ? WEIGH_DEPTH
							: WEIGH_DISTANCE;
	return look;
}

static inline double linear(const double f[4], const double at[3])
{
	return f[0] * at[0] + f[1] * at[1] + f[2] * at[2] + f[3];
}

/* Last voxel along y of the vectors that cover a block. */
static inline int64_t last_lane(const Box *block)
{
	return block->low[1] + parts(block->high[1] - block->low[1], LANES) * LANES - 1;
}

/* Columns and rows of a block: their range, the largest changes from voxel to voxel along x and y
 * at its corners and how many times as much they may be elsewhere, the least depth, and half the
 * length of the largest footprint. */
typedef struct {
	double least[2], most[2], steepest[2], within, nearest, reach[2];
} Range;

/* See footprint_profile; widths of the edges of a voxel. */
static inline double widest_reach(const double widths[3])
{
	double wide = fmax(fmax(widths[0], widths[1]), widths[2]), square = -wide * wide;
	for (int b = 0; b < 3; b++)
		square += widths[b] * widths[b];
	return 0.5001 * (wide + fmin(sqrt(fmax(square, 0)), wide)) + 1e-4;
}

/* As fmin and fmax for numbers, without a call. */
static inline double lesser(double a, double b)
{
	return b < a ? b : a;
}

static inline double greater(double a, double b)
{
	return b > a ? b : a;
}

/* Columns and rows have their extremes at corners of the block, provided that the depth is positive
 * at all of them. Widths of edges are linear functions divided by depth^2. Where w is the largest
 * one at the corners, the linear function is at most w times the mean of depth^2 over corners,
 * weighted by the position in the block, and the depth is the mean of depth: the width is at most
 * w (near + far)^2 / (4 near far), by Kantorovich's inequality. */
static inline Range block_range(const Look *look, const Box *block)
{
	Range range = {{HUGE_VAL, HUGE_VAL}, {-HUGE_VAL, -HUGE_VAL}, {0, 0}, 1, HUGE_VAL, {0, 0}};
	const double *f[2] = {look->column, look->row};
	double widths[2][3] = {{0}}, farthest = 0;
	for (int i = 0; i < (block->high[2] - block->low[2] > 1 ? 8 : 4); i++) {
		const double at[3] = {(double)(i & 1 ? block->high[0] - 1 : block->low[0]),
			(double)(i & 2 ? last_lane(block) : block->low[1]),
			(double)(i & 4 ? block->high[2] - 1 : block->low[2])};
		double depth = linear(look->depth, at), nearer = 1 / depth;
		range.nearest = lesser(range.nearest, depth);
		farthest = greater(farthest, depth);
		for (int a = 0; a < 2; a++) {
			bool same = a == 1 && look->fans;
			double p = linear(f[a], at) * (same ? 1 : nearer), bend = same ? 0 : p;
			range.least[a] = lesser(range.least[a], p);
			range.most[a] = greater(range.most[a], p);
			for (int b = 0; b < 2; b++)
				range.steepest[b] = greater(
					range.steepest[b], fabs(f[a][b] - bend * look->depth[b]) *
								   (same ? 1 : nearer));
			for (int b = 0; b < 3 && look->footprints; b++)
				widths[a][b] = greater(
					widths[a][b], fabs(f[a][b] - bend * look->depth[b]) *
							      (same ? 1 : nearer));
		}
	}
	const double both = range.nearest + farthest;
	range.within = both * both / (4 * range.nearest * farthest);
	for (int a = 0; a < 2 && look->footprints; a++) {
		for (int b = 0; b < 3; b++)
			widths[a][b] *= range.within;
		range.reach[a] = widest_reach(widths[a]);
	}
	return range;
}

/* Columns or rows (a) of the patches of a block, limited to those with one of the n pixels of the
 * detector, and those next to them, to which voxels beside the detector are assigned. Returns false
 * if there are no others. */
static inline bool block_pixels(
	const Look *look, const Range *range, int a, int64_t n, Cells *cells)
{
	bool one = a == 1 && look->plan->model.planar; /* footprints with a single row */
	double before = 0, after = 0;
	if (look->footprints && !one) {
		before = range->reach[a] - 0.5;
		after = 0.5;
	}
	cells->pixels[a] = !look->footprints ? 2
			   : one             ? 1
				 : (int)fmin(fmax(ceil(2 * range->reach[a]), 2), FAR) + 1;
	double outside = look->footprints ? cells->pixels[a] : 1.5, end = (double)n;
	double least = range->least[a] - before, most = range->most[a] + after;
	if (most <= -outside - 0.01 || least >= (double)n + 0.01)
		return false;
	if (!look->footprints)
		end += 0.5; /* the middle of a cell without pixels, as is -outside */
	cells->least[a] = fmax(-outside, least - 0.01);
	cells->low[a] = (int64_t)floor(cells->least[a]);
	cells->clipped |= least < 0.01 - outside || most > end - 0.01;
	cells->most[a] = fmin(end, most + 0.01);
	cells->size[a] = (int64_t)floor(cells->most[a]) - cells->low[a] + 1;
	if (look->footprints) {
		cells->least[a] = floor(cells->least[a]);
		cells->most[a] = floor(cells->most[a]);
	}
	return true;
}

/* Differences of columns, rows and depth between LANES lines, up to which floats suffice. */
#define MILD_SLOPE 24
#define MILD_LEAN 0.16

/* The longest span along which weights are polynomials (strip_series), but for 8e-7 at its ends.
 * `bend`: the largest change of depth per voxel, relative to it. */
static inline double smooth_span(const Look *look, const Box *block, double bend)
{
	double square = 0, half = 0;
	for (int a = 0; a < 3 && look->weighing == WEIGH_DISTANCE; a++) {
		double middle = 0.5 * (double)(block->low[a] + block->high[a] - 1);
		double away = (middle - look->src[a]) * look->step[a];
		square += away * away;
		half += 0.5 * (double)(block->high[a] - block->low[a] + LANES) * look->step[a];
	}
	if (look->weighing == WEIGH_DISTANCE)
		bend = look->fans ? HUGE_VAL
				  : greater(bend, look->step[0] / greater(sqrt(square) - half, 0));
	return bend > 0 ? 0.1 / bend : HUGE_VAL;
}

/* The cells of a block. */
static inline BlockFit block_cells(const Look *look, const Box *block, Cells *cells)
{
	const int64_t n[2] = {look->plan->model.columns, look->plan->model.rows};
	const Range range = block_range(look, block);
	cells->clipped = false;
	/* The depth changes little within a span, and columns and rows are at most 20 from those of
	 * its middle, so that rounding errors stay small. */
	double change = fabs(look->depth[0]);
	if (!(range.nearest > 0 && SPAN / 2 * change <= range.nearest))
		return BLOCK_SPLIT;
	double smooth = smooth_span(look, block, change / range.nearest);
	cells->span = SPAN * change <= range.nearest ? SPAN : SPAN / 2;
	if ((double)cells->span > smooth && smooth >= SPAN / 2) /* shorter ones are not faster */
		cells->span = SPAN / 2;
	while (cells->span > SPAN / 8 && (double)cells->span * range.steepest[0] > 40)
		cells->span /= 2;
	cells->smooth = (double)cells->span <= smooth;
	cells->near = 1 + (int64_t)lesser(SPAN - 1, 2 / (range.steepest[0] * range.within));
	cells->mild = LANES * range.steepest[1] < MILD_SLOPE &&
		      LANES * fabs(look->depth[1]) < MILD_LEAN * range.nearest;
	for (int a = 0; a < 2; a++)
		if (!block_pixels(look, &range, a, n[a], cells))
			return BLOCK_OFF;
	for (int a = 0; a < 2; a++)
		if (!(range.least[a] > -FAR && range.most[a] < FAR) ||
			cells->pixels[a] > MOST_PIXELS)
			return BLOCK_SPLIT;
	int64_t wide = cells->size[0] + parts(cells->pixels[0], 4) * 4;
	return wide <= MOST_WIDE && wide * (cells->size[1] + cells->pixels[1]) <= MOST_CELLS
		       ? BLOCK_FITS
		       : BLOCK_SPLIT;
}

#endif
