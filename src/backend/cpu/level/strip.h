/* Projection of the voxels of a block onto one view: the positions of their centres, and their
 * weights.
 *
 * Voxels are projected in strips: LANES lines of voxels along x, neighbours along y, in the SIMD
 * lanes. Detector column and row are quotients of linear functions. At x voxels from the middle of
 * a span, which projects to column c + f with a whole number c, the column is c + (f + x step) / (1
 * + x bend). c, f, step and bend are computed in double precision, once per span; the small
 * distance from c is then exact enough in single precision.
 */
#ifndef TOMOS_BACKEND_CPU_LEVEL_STRIP_H
#define TOMOS_BACKEND_CPU_LEVEL_STRIP_H

#include <math.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/level/doubles.h"
#include "backend/cpu/level/quads.h"
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

/* One view, with the lines of voxels along the first axis and the SIMD lanes along the second one.
 * `swapped`: these are y and x, in everything that is given for three axes. `square`: the weight of
 * a distance is divided by depth^2 instead of depth^3. `footprints`: voxels are as large as their
 * projections, else points between pixels. */
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
	double high[2]; /* largest column and row */
	bool clipped;   /* some voxels are beside the detector */
	int64_t span;   /* voxels of a line that are computed from their middle */
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

/* Columns and rows of a block: their range, the largest change from voxel to voxel along x, the
 * least depth, and half the length of the largest footprint. */
typedef struct {
	double least[2], most[2], steepest, nearest, reach[2];
} Range;

/* See footprint_shadow; widths of the edges of a voxel. */
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

/* Extremes are at the corners, if the depth is positive in all of them: those of columns and rows,
 * and of the products of edge widths and depth^2, which are linear in the position. */
static inline Range block_range(const Look *look, const Box *block)
{
	Range range = {{HUGE_VAL, HUGE_VAL}, {-HUGE_VAL, -HUGE_VAL}, 0, HUGE_VAL, {0, 0}};
	const double *f[2] = {look->column, look->row};
	double widths[2][3] = {{0}};
	for (int i = 0; i < (block->high[2] - block->low[2] > 1 ? 8 : 4); i++) {
		const double at[3] = {(double)(i & 1 ? block->high[0] - 1 : block->low[0]),
			(double)(i & 2 ? last_lane(block) : block->low[1]),
			(double)(i & 4 ? block->high[2] - 1 : block->low[2])};
		double depth = linear(look->depth, at), nearer = 1 / depth;
		range.nearest = lesser(range.nearest, depth);
		for (int a = 0; a < 2; a++) {
			bool same = a == 1 && look->fans;
			double p = linear(f[a], at) * (same ? 1 : nearer), bend = same ? 0 : p;
			double slope = (f[a][0] - bend * look->depth[0]) * (same ? 1 : nearer);
			range.least[a] = lesser(range.least[a], p);
			range.most[a] = greater(range.most[a], p);
			range.steepest = greater(range.steepest, fabs(slope));
			for (int b = 0; b < 3 && look->footprints; b++)
				widths[a][b] = greater(widths[a][b],
					fabs(f[a][b] - bend * look->depth[b]) * (same ? 1 : depth));
		}
	}
	for (int a = 0; a < 2 && look->footprints; a++) {
		for (int b = 0; b < 3 && !(a == 1 && look->fans); b++)
			widths[a][b] /= range.nearest * range.nearest;
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
	double outside = look->footprints ? cells->pixels[a] : 1;
	double least = range->least[a] - before, most = range->most[a] + after;
	if (most <= -outside - 0.01 || least >= (double)n + 0.01)
		return false;
	cells->low[a] = (int64_t)floor(fmax(-outside, least - 0.01));
	cells->clipped |= least < 0.01 - outside || most > (double)n - 0.01;
	cells->high[a] = fmin((double)n, most + 0.01);
	cells->size[a] = (int64_t)floor(cells->high[a]) - cells->low[a] + 1;
	if (look->footprints)
		cells->high[a] = floor(cells->high[a]);
	return true;
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
	cells->span = SPAN * change <= range.nearest ? SPAN : SPAN / 2;
	while (cells->span > SPAN / 8 && (double)cells->span * range.steepest > 40)
		cells->span /= 2;
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
 * counted from the middle of the span. Cell (column, row) is at first + column unit + row width of
 * the window. `nearer`: 1 / depth in the middle. `near2`, with its first and second difference
 * along x: square of the distance to the source times the square of the weight. */
typedef struct {
	vf column, column_step, row, row_step, bend, nearer;
	vf left, right, below, above, first, unit, width;
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
 * cells, `unit` apart. */
static inline void strip_fill(const Look *look, const Cells *cells, const Lines *lines,
	int64_t width, float unit, double x, float x0, Strip *s)
{
	const double low[2] = {(double)cells->low[0], (double)cells->low[1]};
	const double high[2] = {low[0] + (double)cells->size[0], low[1] + (double)cells->size[1]};
	const double dx = look->depth[0];
	Doubles nearer, one = doubles_line(1, 0);
	for (int h = 0; h < 2; h++)
		nearer.half[h] = 1 / (lines->depth.half[h] + x * dx);
	Coordinate u =
		strip_coordinate(&lines->column, look->column, x, &nearer, dx, low[0], high[0]);
	Coordinate v = {{{{0}}}, {{{0}}}, {{{0}}}};
	if (!look->plan->model.planar)
		v = strip_coordinate(&lines->row, look->row, x, look->fans ? &one : &nearer,
			look->fans ? 0 : dx, low[1], high[1]);
	vf near = doubles_float(&nearer), c = doubles_float(&u.whole), r = doubles_float(&v.whole);
	s->column = doubles_float(&u.fraction);
	s->column_step = doubles_float(&u.step);
	s->row = doubles_float(&v.fraction);
	s->row_step = doubles_float(&v.step);
	s->bend = (float)dx * near;
	s->nearer = near;
	s->left = (float)low[0] - c;
	s->below = (float)low[1] - r;
	s->right = (float)cells->high[0] - c;
	s->above = (float)cells->high[1] - r;
	s->unit = vf_all(unit);
	s->width = vf_all(unit * (float)width);
	s->first = -(s->left * s->unit + s->below * s->width);
	s->weight = strip_weight(look, near);
	strip_distances(lines, x, x0, s);
}

/* Squares of distances from n voxels further on. */
static inline void strip_advance(Strip *s, float n)
{
	s->near2 += n * (s->near2_step + 0.5F * (n - 1) * s->near2_bend);
	s->near2_step += n * s->near2_bend;
}

/* One voxel of each line: column and row, weight, and depth in the middle / depth. */
typedef struct {
	vf column, row, weight, nearer;
} Places;

/* The voxels at x from the middle. (f + x step) / (1 + x bend) is computed as the numerator minus a
 * small part of it. Sums are used where rounding errors allow, since products are the bottleneck:
 * bend is x times that of the strip. */
INLINE Places strip_places(const Strip *s, vf x, vf bend, vf near2, const Weighing weighing,
	const int fans, const int square)
{
	Places p = {s->column + x * s->column_step, s->row + x * s->row_step, s->weight, vf_all(1)};
	if (weighing == WEIGH_PARALLEL)
		return p;
	p.nearer = 1 / (1 + bend);
	vf less = bend * p.nearer;
	p.weight = weighing == WEIGH_DISTANCE ? vf_root(near2) : s->weight;
	if (weighing >= WEIGH_DEPTH)
		p.weight *= p.nearer * p.nearer;
	if (weighing == WEIGH_DISTANCE && !square)
		p.weight *= p.nearer;
	p.column -= p.column * less;
	if (!fans)
		p.row -= p.row * less;
	return p;
}

#endif
