/* Projection of the voxel centres of a block onto one view: the patch of 2 x 2 pixels around each,
 * and the weights of its pixels.
 *
 * Voxels are projected in strips: LANES lines of voxels along x, neighbours along y, in the SIMD
 * lanes. Detector column and row are quotients of linear functions. At x voxels from the middle of
 * a span, which projects to column c + f with a whole number c, the column is c + (f + x step) / (1
 * + x bend). c, f, step and bend are computed in double precision, once per span; the small
 * distance from c is then exact enough in single precision.
 */
#ifndef TOMOS_BACKEND_CPU_LEVEL_PATCH_H
#define TOMOS_BACKEND_CPU_LEVEL_PATCH_H

#include <math.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/level/doubles.h"
#include "backend/cpu/level/quads.h"

enum {
	TILE = 32,         /* voxels of a tile along each axis */
	SPAN = 16,         /* voxels of a line computed from one middle */
	MOST_CELLS = 8192, /* cells of a window */
	MOST_WIDE = 1024,  /* cells of a window in a row */
	FAR = 1 << 20,     /* columns and rows beyond this are not computed */
};

/* What the weight of a voxel depends on: nothing, the depth, or depth and distance to the source.
 * The depth itself is constant for parallel rays. */
typedef enum { WEIGH_PARALLEL, WEIGH_SAME, WEIGH_DEPTH, WEIGH_DISTANCE } Weighing;

/* One view, with the lines of voxels along the first axis and the SIMD lanes along the second one.
 * `swapped`: these are y and x, in everything that is given for three axes. `square`: the weight of
 * a distance is divided by depth^2 instead of depth^3. */
typedef struct {
	const Plan *plan;
	double depth[4], column[4], row[4], src[3], v[3], step[3], mass;
	Weighing weighing;
	bool swapped, fans, square;
} Look;

/* The patches that the voxels of a block project to, by the lower left pixel of each: columns and
 * rows [low, low + size). */
typedef struct {
	int64_t low[2], size[2];
	double high[2]; /* largest column and row */
	bool clipped;   /* some voxels are beside the detector */
	int64_t span;   /* voxels of a line that are computed from their middle */
} Cells;

typedef enum { BLOCK_OFF, BLOCK_FITS, BLOCK_SPLIT } BlockFit;

static inline Look look_at(const Plan *plan, int64_t view, bool swapped)
{
	const KernelView *k = &plan->views[view];
	const KernelModel *model = &plan->model;
	Look look = {.plan = plan, .swapped = swapped, .fans = KERNEL_FANS(k)};
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

/* Columns and rows of a block: their range, the largest change from voxel to voxel along x, and the
 * least depth. */
typedef struct {
	double least[2], most[2], steepest, nearest;
} Range;

/* Extremes are at the corners, if the depth is positive in all of them. */
static inline Range block_range(const Look *look, const Box *block)
{
	Range range = {{HUGE_VAL, HUGE_VAL}, {-HUGE_VAL, -HUGE_VAL}, 0, HUGE_VAL};
	for (int i = 0; i < 8; i++) {
		const double at[3] = {(double)(i & 1 ? block->high[0] - 1 : block->low[0]),
			(double)(i & 2 ? last_lane(block) : block->low[1]),
			(double)(i & 4 ? block->high[2] - 1 : block->low[2])};
		double depth = linear(look->depth, at);
		const double p[2] = {linear(look->column, at) / depth,
			linear(look->row, at) / (look->fans ? 1 : depth)};
		const double bend = look->depth[0] / depth;
		const double slope[2] = {look->column[0] / depth - p[0] * bend,
			look->fans ? look->row[0] : look->row[0] / depth - p[1] * bend};
		range.nearest = fmin(range.nearest, depth);
		for (int a = 0; a < 2; a++) {
			range.least[a] = fmin(range.least[a], p[a]);
			range.most[a] = fmax(range.most[a], p[a]);
			range.steepest = fmax(range.steepest, fabs(slope[a]));
		}
	}
	return range;
}

/* The cells of a block, limited to those with pixels of the detector and one on either side, to
 * which voxels beside the detector are assigned. */
static inline BlockFit block_cells(const Look *look, const Box *block, Cells *cells)
{
	const KernelModel *model = &look->plan->model;
	const int64_t n[2] = {model->columns, model->rows};
	const Range range = block_range(look, block);
	const double *least = range.least, *most = range.most;
	/* The depth changes little within a span, so that rounding errors stay small. */
	if (!(range.nearest > 0 && SPAN * fabs(look->depth[0]) <= range.nearest))
		return BLOCK_SPLIT;
	for (int a = 0; a < 2; a++)
		if (most[a] <= -1.01 || least[a] >= (double)n[a] + 0.01)
			return BLOCK_OFF;
	cells->clipped = false;
	cells->span = range.steepest < 1.5 ? SPAN : range.steepest < 3 ? SPAN / 2 : SPAN / 4;
	for (int a = 0; a < 2; a++) {
		if (!(least[a] > -FAR && most[a] < FAR))
			return BLOCK_SPLIT;
		cells->low[a] = max64(-1, (int64_t)floor(least[a] - 0.01));
		cells->clipped |= least[a] < -0.99 || most[a] > (double)n[a] - 0.01;
		cells->high[a] = fmin((double)n[a], most[a] + 0.01);
		cells->size[a] = (int64_t)floor(cells->high[a]) - cells->low[a] + 1;
	}
	return cells->size[0] <= MOST_WIDE && cells->size[0] * cells->size[1] <= MOST_CELLS
		       ? BLOCK_FITS
		       : BLOCK_SPLIT;
}

/* The whole number nearest to v in [low, high]. */
static inline vd nearest_whole(vd v, double low, double high)
{
	const double shift = 0x1.8p52; /* the sum has no fractional bits */
	v = (v + shift) - shift;
	v = vd_choose(v < low, low + (vd){0}, v);
	return vd_choose(v > high, high + (vd){0}, v);
}

/* LANES lines along x, neighbours along y: depth, column times depth, row times depth (of fans, the
 * row) at x = 0, and the square of the distance to the source as a polynomial in x - middle. */
typedef struct {
	Doubles depth, column, row;
	vf near2, near2_step, near2_bend;
	double middle;
} Lines;

static inline void lines_distances(const Look *look, const double at[3], Lines *lines)
{
	Doubles near2 = {{{0}}}, near2_step = {{{0}}};
	double height = look->fans ? linear(look->row, at) : 0, bend = 0;
	for (int a = 0; a < 3; a++) {
		double step = look->step[a], v = look->fans ? look->v[a] * step : 0;
		double along_x = (a == 0 ? step : 0) - look->row[0] * v;
		Doubles away = doubles_line((at[a] - look->src[a]) * step - height * v,
			(a == 1 ? step : 0) - look->row[1] * v);
		for (int h = 0; h < 2; h++) {
			near2.half[h] += away.half[h] * away.half[h];
			near2_step.half[h] += 2 * along_x * away.half[h];
		}
		bend += along_x * along_x;
	}
	lines->near2 = doubles_float(&near2);
	lines->near2_step = doubles_float(&near2_step);
	lines->near2_bend = vf_all((float)bend);
}

static inline void lines_fill(const Look *look, double middle, int64_t y, int64_t z, Lines *lines)
{
	const double *d = look->depth, *u = look->column, *v = look->row;
	double at[3] = {0, (double)y, (double)z};
	lines->middle = middle;
	lines->depth = doubles_line(linear(d, at), d[1]);
	lines->column = doubles_line(linear(u, at), u[1]);
	lines->row = doubles_line(linear(v, at), v[1]);
	at[0] = middle;
	lines->near2 = lines->near2_step = lines->near2_bend = vf_all(0);
	if (look->weighing == WEIGH_DISTANCE)
		lines_distances(look, at, lines);
}

/* A span of the lines. Columns and rows are relative to whole numbers, one of each per line; x is
 * counted from the middle of the span. Cell (column, row) is number first + column + row width of
 * the window. `near2`, with its first and second difference along x: square of the distance to the
 * source times the square of the weight. */
typedef struct {
	vf column, column_step, row, row_step, bend;
	vf left, right, below, above, first, width;
	vf weight, near2, near2_step, near2_bend;
} Strip;

/* One detector coordinate of a span with its middle at x. */
typedef struct {
	Doubles fraction, step, whole;
} Coordinate;

static inline Coordinate strip_coordinate(const Doubles *line, const double f[4], double x,
	const Doubles *nearer, double dx, double low, double high)
{
	Coordinate c;
	for (int h = 0; h < 2; h++) {
		vd p = (line->half[h] + x * f[0]) * nearer->half[h];
		c.whole.half[h] = nearest_whole(p, low, high);
		c.fraction.half[h] = p - c.whole.half[h];
		c.step.half[h] = (f[0] - c.whole.half[h] * dx) * nearer->half[h];
	}
	return c;
}

static inline vf strip_weight(const Look *look, vf nearer)
{
	vf weight = vf_all((float)look->mass);
	if (look->weighing >= WEIGH_DEPTH)
		weight *= nearer * nearer;
	if (look->weighing == WEIGH_DISTANCE && !look->square)
		weight *= nearer;
	return weight;
}

/* The square of the distance at x0 from the middle x, and its differences. */
static inline void strip_distances(const Lines *lines, double x, float x0, Strip *s)
{
	float from = (float)(x - lines->middle) + x0;
	vf square = s->weight * s->weight, bend = square * lines->near2_bend;
	vf step = square * lines->near2_step;
	s->near2 = square * lines->near2 + from * (step + from * bend);
	s->near2_step = step + (2 * from + 1) * bend;
	s->near2_bend = 2 * bend;
}

/* The span with its middle at voxel x, x0 from its first one, in a window with rows of `width`
 * cells. */
static inline void strip_fill(const Look *look, const Cells *cells, const Lines *lines,
	int64_t width, double x, float x0, Strip *s)
{
	const double low[2] = {(double)cells->low[0], (double)cells->low[1]};
	const double high[2] = {low[0] + (double)cells->size[0], low[1] + (double)cells->size[1]};
	const double dx = look->depth[0];
	Doubles nearer, one = doubles_line(1, 0);
	for (int h = 0; h < 2; h++)
		nearer.half[h] = 1 / (lines->depth.half[h] + x * dx);
	Coordinate u =
		strip_coordinate(&lines->column, look->column, x, &nearer, dx, low[0], high[0]);
	Coordinate v = strip_coordinate(&lines->row, look->row, x, look->fans ? &one : &nearer,
		look->fans ? 0 : dx, low[1], high[1]);
	vf near = doubles_float(&nearer), c = doubles_float(&u.whole), r = doubles_float(&v.whole);
	s->column = doubles_float(&u.fraction);
	s->column_step = doubles_float(&u.step);
	s->row = doubles_float(&v.fraction);
	s->row_step = doubles_float(&v.step);
	s->bend = (float)dx * near;
	s->left = (float)low[0] - c;
	s->below = (float)low[1] - r;
	s->right = (float)cells->high[0] - c;
	s->above = (float)cells->high[1] - r;
	s->width = vf_all((float)width);
	s->first = -(s->left + s->below * s->width);
	s->weight = strip_weight(look, near);
	strip_distances(lines, x, x0, s);
}

/* Where the voxels of a strip project to: the place of the cell in the window, the weights of its
 * right and upper pixels, and the weight of the view. */
typedef struct {
	vi cell[SPAN];
	vf right[SPAN], up[SPAN], weight[SPAN];
} Hits;

/* `clipped`: some voxels are beside the detector. Where depths are not constant, (f + x step) / (1
 * + x bend) is computed as the numerator minus a small part of it. Sums are used where rounding
 * errors allow, since products are the bottleneck. */
INLINE void strip_hits(const Strip s, int64_t count, float x0, Hits *hits, const Weighing weighing,
	const int fans, const int square, const int clipped)
{
	vf x = vf_all(x0), bend = x0 * s.bend, near2 = s.near2, near2_step = s.near2_step;
	for (int64_t i = 0; i < count; i++) {
		vf u = s.column + x * s.column_step, v = s.row + x * s.row_step;
		vf weight = s.weight, less = {0};
		if (weighing != WEIGH_PARALLEL) {
			vf nearer = 1 / (1 + bend);
			less = bend * nearer;
			weight = weighing == WEIGH_DISTANCE ? vf_root(near2) : s.weight;
			if (weighing >= WEIGH_DEPTH)
				weight *= nearer * nearer;
			if (weighing == WEIGH_DISTANCE && !square)
				weight *= nearer;
			u -= u * less;
			if (!fans)
				v -= v * less;
		}
		if (clipped) {
			u = vf_min(vf_max(u, s.left), s.right);
			v = vf_min(vf_max(v, s.below), s.above);
		}
		vf c = vf_floor(u), r = vf_floor(v);
		hits->cell[i] = vf_truncate(r * s.width + c + s.first);
		hits->right[i] = u - c;
		hits->up[i] = v - r;
		hits->weight[i] = weight;
		x += 1;
		bend += s.bend;
		near2 += near2_step;
		near2_step += s.near2_bend;
	}
}

/* The first `count` voxels of a span whose voxel 0 is at x0 from its middle. Separate from the
 * loops that use the hits, since a processor overlaps more iterations of two short loops than of
 * one long loop. */
static void strip_project(
	const Look *look, const Strip *s, bool clipped, int64_t count, float x0, Hits *hits)
{
	Weighing weighing = look->weighing;
	if (weighing == WEIGH_PARALLEL)
		strip_hits(*s, count, x0, hits, WEIGH_PARALLEL, 0, 0, 1);
	else if (look->square)
		strip_hits(*s, count, x0, hits, weighing, look->fans, 1, 1);
	else if (weighing == WEIGH_SAME)
		strip_hits(*s, count, x0, hits, WEIGH_SAME, 0, 0, 1);
	else if (weighing == WEIGH_DEPTH)
		strip_hits(*s, count, x0, hits, WEIGH_DEPTH, 0, 0, 1);
	else if (clipped)
		strip_hits(*s, count, x0, hits, WEIGH_DISTANCE, 0, 0, 1);
	else
		strip_hits(*s, count, x0, hits, WEIGH_DISTANCE, 0, 0, 0);
}

#endif
