/* Projection of the voxels of a block onto one view: the positions of their centres, and their
 * weights.
 *
 * Voxels are projected in strips: LANES lines of voxels along x, neighbours along y, in the SIMD
 * lanes. Detector column and row are quotients of linear functions. The middle of a span of the
 * lines projects to column c + f with a whole number c; x and y voxels from it, the column is c +
 * (f + x step + y slope) / (1 + x bend + y lean). The numbers are computed in double precision,
 * once per span; the small distance from c is then exact enough in single precision. Where columns
 * or the depth change much from line to line, each line has its own numbers.
 */
#ifndef TOMOS_BACKEND_CPU_LEVEL_STRIP_H
#define TOMOS_BACKEND_CPU_LEVEL_STRIP_H

#include "backend/cpu/level/block.h"
#include "backend/cpu/level/doubles.h"
#include "backend/cpu/level/quads.h"

/* Added to a small number, this rounds it to a whole number, which the last bits then contain. */
#define ROUND 0x1.8p23

/* 1 / v, by an approximation and a step of Newton's method where that is faster. */
static inline vf vf_inverse(vf v)
{
#if defined TOMOS_LEVEL_avx512
	vf inverse = (vf)_mm512_rcp14_ps((__m512)v);
	return inverse + inverse * (1 - v * inverse);
#else
	return 1 / v;
#endif
}

/* A span of LANES lines along x, neighbours along y; x is counted from its middle. Columns and
 * rows are relative to whole numbers, or to the middles between two of them (no footprints):
 * column + x column_step, divided by the depth in units of 1 / nearer, 1 + lean + x bend. Cell
 * (column, row) is at first + column unit + row width of the window (no footprints: plus ROUND,
 * with a unit of 1). `weight`: a polynomial in x, or a factor (0) and the square of the distance to
 * the source in units of that in the middle, a polynomial in x (1 to 3). */
typedef struct {
	vf column, column_step, row, row_step, lean, bend, nearer, weight[5];
	vf left, right, below, above, first;
	float unit, width;
} Strip;

/* A window with rows of `width` cells, `unit` apart, for strips relative to columns c, rows r. */
static inline void strip_window(
	const Look *look, const Cells *cells, int64_t width, float unit, vf c, vf r, Strip *s)
{
	const float middle = look->footprints ? 0 : 0.5F;
	s->left = (float)cells->least[0] - c;
	s->below = (float)cells->least[1] - r;
	s->right = (float)cells->most[0] - c;
	s->above = (float)cells->most[1] - r;
	s->unit = unit;
	s->width = unit * (float)width;
	s->first = (c - (middle + (float)cells->low[0])) * unit +
		   (r - (middle + (float)cells->low[1])) * s->width;
	if (!look->footprints)
		s->first += (float)ROUND;
}

/* The power of 1 / depth in the weight. */
static inline int weight_power(const Look *look)
{
	if (look->weighing < WEIGH_DEPTH)
		return 0;
	return look->weighing == WEIGH_DEPTH || look->square ? 2 : 3;
}

/* weight near2^1/2 (1 + lean + x bend)^-power as a series in x up to x^5, the last term of which is
 * replaced by lower ones that differ least in |x| <= half. */
static inline void strip_series(Strip *s, int power, float half)
{
	vf nearer = 1 / (1 + s->lean), b = -s->bend * nearer, far = 1 / s->weight[1];
	vf root[6], depth[6], w[6], scale = s->weight[0] * vf_root(s->weight[1]);
	root[0] = depth[0] = vf_all(1);
	root[1] = 0.5F * s->weight[2] * far;
	root[2] = 0.5F * (s->weight[3] * far - root[1] * root[1]);
	root[3] = -root[1] * root[2];
	root[4] = -root[1] * root[3] - 0.5F * root[2] * root[2];
	root[5] = -root[1] * root[4] - root[2] * root[3];
	for (int k = 0; k < power; k++)
		scale *= nearer;
	for (int k = 1; k < 6; k++)
		depth[k] = depth[k - 1] * b * ((float)(power + k - 1) / (float)k);
	for (int k = 0; k < 6; k++) {
		w[k] = depth[k];
		for (int j = 1; j <= k; j++)
			w[k] += root[j] * depth[k - j];
	}
	w[3] += 1.25F * half * half * w[5];
	w[1] -= 0.3125F * half * half * half * half * w[5];
	for (int k = 0; k < 5; k++)
		s->weight[k] = scale * w[k];
}

/* ---- each line for itself, in double precision ----------------------------------------------- */

/* One detector coordinate of a span with its middle at x. */
typedef struct {
	Doubles fraction, step, whole;
} Coordinate;

static inline Coordinate strip_coordinate(const Look *look, const Cells *cells, const int c,
	const double at[3], const Doubles *nearer, bool same)
{
	const double *f = c ? look->row : look->column, middle = look->footprints ? 0 : 0.5;
	const double low = (double)cells->low[c], high = low + (double)cells->size[c];
	const Doubles line = doubles_line(linear(f, at), f[1]);
	Coordinate to;
	for (int h = 0; h < 2; h++) {
		const double shift = 0x1.8p52; /* the sum has no fractional bits */
		vd p = line.half[h] * nearer->half[h], whole = (p - middle + shift) - shift;
		if (cells->clipped) {
			whole = vd_choose(whole < low, low + (vd){0}, whole);
			whole = vd_choose(whole > high, high + (vd){0}, whole);
		}
		whole += middle;
		to.whole.half[h] = whole;
		to.fraction.half[h] = p - whole;
		to.step.half[h] = (f[0] - whole * (same ? 0 : look->depth[0])) * nearer->half[h];
	}
	return to;
}

/* The distances to the source in the middle of the lines, and the squares of others. */
static inline vf strip_distances(const Look *look, const double at[3], Strip *s)
{
	const double height = look->fans ? linear(look->row, at) : 0;
	vf square = {0}, step = {0}, lane = vf_lane();
	float bend = 0;
	for (int a = 0; a < 3; a++) {
		const double size = look->step[a], v = look->fans ? look->v[a] * size : 0;
		const float along = (float)((a == 0 ? size : 0) - look->row[0] * v);
		const float beside = (float)((a == 1 ? size : 0) - look->row[1] * v);
		vf away = (float)((at[a] - look->src[a]) * size - height * v) + lane * beside;
		square += away * away;
		step += 2 * along * away;
		bend += along * along;
	}
	vf unit = 1 / square;
	s->weight[1] = vf_all(1);
	s->weight[2] = step * unit;
	s->weight[3] = bend * unit;
	return vf_root(square);
}

static inline void strip_weights(const Look *look, const Cells *cells, const double at[3], Strip *s)
{
	const int power = weight_power(look);
	vf weight = vf_all((float)look->mass);
	for (int k = 0; k < power; k++)
		weight *= s->nearer;
	memset(s->weight, 0, sizeof s->weight);
	s->weight[1] = vf_all(1);
	if (look->weighing == WEIGH_DISTANCE)
		weight *= strip_distances(look, at, s);
	s->weight[0] = weight;
	if (cells->smooth)
		strip_series(s, power, 0.5F * (float)cells->span);
}

/* The span of lines with their middle at `at`, that of the first line. */
static inline void strip_fill(const Look *look, const Cells *cells, int64_t width, float unit,
	const double at[3], Strip *s)
{
	const Doubles one = doubles_line(1, 0);
	Doubles nearer = doubles_line(linear(look->depth, at), look->depth[1]);
	for (int h = 0; h < 2; h++)
		nearer.half[h] = 1 / nearer.half[h];
	Coordinate u = strip_coordinate(look, cells, 0, at, &nearer, false);
	Coordinate v = {{{{0}}}, {{{0}}}, {{{0}}}};
	if (!look->plan->model.planar)
		v = strip_coordinate(look, cells, 1, at, look->fans ? &one : &nearer, look->fans);
	s->nearer = doubles_float(&nearer);
	s->column = doubles_float(&u.fraction);
	s->column_step = doubles_float(&u.step);
	s->row = doubles_float(&v.fraction);
	s->row_step = doubles_float(&v.step);
	s->lean = vf_all(0);
	s->bend = (float)look->depth[0] * s->nearer;
	strip_window(look, cells, width, unit, doubles_float(&u.whole), doubles_float(&v.whole), s);
	strip_weights(look, cells, at, s);
}

/* ---- neighbouring lines together, for LANES strips at once ----------------------------------- */

/* LANES strips, each at a distance of `pace` voxels along each axis from the one before. What all
 * lines of a strip have in common: coordinates in the middle, the numbers they are relative to, and
 * their slopes; weight; square of the distance as a polynomial in x and y: coefficients of x, x^2,
 * y, y^2 and x y. */
typedef struct {
	vf at[2], whole[2], slope[2][2], nearer, weight, near2[5];
} StripRow;

/* A linear function in the middle of the strips, the first of which is at `at`. */
static inline Doubles row_line(const double f[4], const double at[3], const int64_t pace[3])
{
	return doubles_line(linear(f, at), f[1] * (double)pace[1] + f[2] * (double)pace[2]);
}

static inline void row_coordinate(const Look *look, const Cells *cells, const int c,
	const Doubles *line, const Doubles *nearer, bool same, StripRow *r)
{
	const double *f = c ? look->row : look->column, middle = look->footprints ? 0 : 0.5;
	const double low = (double)cells->low[c], high = low + (double)cells->size[c];
	Doubles rest, whole, slope[2];
	for (int h = 0; h < 2; h++) {
		const double shift = 0x1.8p52; /* the sum has no fractional bits */
		vd p = line->half[h] * nearer->half[h], w = (p - middle + shift) - shift;
		w = vd_choose(w < low, low + (vd){0}, w);
		w = vd_choose(w > high, high + (vd){0}, w) + middle;
		whole.half[h] = w;
		rest.half[h] = p - w;
		for (int b = 0; b < 2; b++)
			slope[b].half[h] =
				(f[b] - w * (same ? 0 : look->depth[b])) * nearer->half[h];
	}
	r->whole[c] = doubles_float(&whole);
	r->at[c] = doubles_float(&rest);
	for (int b = 0; b < 2; b++)
		r->slope[c][b] = doubles_float(&slope[b]);
}

/* The distance to the source in the middle of each strip, and near2. */
static inline vf row_distances(
	const Look *look, const double at[3], const int64_t pace[3], StripRow *r)
{
	const double height = look->fans ? linear(look->row, at) : 0;
	vf square = {0}, sums[5] = {{0}}, lane = vf_lane();
	for (int a = 0; a < 3; a++) {
		const double step = look->step[a], v = look->fans ? look->v[a] * step : 0;
		float along[3];
		for (int b = 0; b < 3; b++)
			along[b] = (float)((a == b ? step : 0) - look->row[b] * v);
		vf away = (float)((at[a] - look->src[a]) * step - height * v) +
			  lane * (along[1] * (float)pace[1] + along[2] * (float)pace[2]);
		square += away * away;
		sums[0] += 2 * away * along[0];
		sums[1] += along[0] * along[0];
		sums[2] += 2 * away * along[1];
		sums[3] += along[1] * along[1];
		sums[4] += 2 * along[0] * along[1];
	}
	vf unit = 1 / square;
	for (int k = 0; k < 5; k++)
		r->near2[k] = sums[k] * unit;
	return vf_sqrt(square);
}

/* The first strip has its middle at x and its first line at (y, z). */
static inline void row_fill(const Look *look, const Cells *cells, double x, int64_t y, int64_t z,
	const int64_t pace[3], StripRow *r)
{
	const double at[3] = {x, (double)y + 0.5 * (LANES - 1), (double)z};
	const Doubles one = doubles_line(1, 0);
	Doubles nearer = row_line(look->depth, at, pace);
	Doubles column = row_line(look->column, at, pace), line = row_line(look->row, at, pace);
	memset(r, 0, sizeof *r);
	for (int h = 0; h < 2; h++)
		nearer.half[h] = 1 / nearer.half[h];
	row_coordinate(look, cells, 0, &column, &nearer, false, r);
	if (!look->plan->model.planar)
		row_coordinate(look, cells, 1, &line, look->fans ? &one : &nearer, look->fans, r);
	r->nearer = doubles_float(&nearer);
	r->weight = vf_all((float)look->mass);
	for (int k = 0; k < weight_power(look); k++)
		r->weight *= r->nearer;
	if (look->weighing == WEIGH_DISTANCE)
		r->weight *= row_distances(look, at, pace, r);
}

static inline float lane_of(const vf *v, int64_t i)
{
	return ((const float *)v)[i];
}

/* Strip i of a row. */
static inline void row_strip(const Look *look, const Cells *cells, const StripRow *r, int64_t i,
	int64_t width, float unit, Strip *s)
{
	const vf y = vf_lane() - 0.5F * (LANES - 1);
	const float nearer = lane_of(&r->nearer, i);
	s->nearer = vf_all(nearer);
	s->column = lane_of(&r->at[0], i) + y * lane_of(&r->slope[0][1], i);
	s->row = lane_of(&r->at[1], i) + y * lane_of(&r->slope[1][1], i);
	s->column_step = vf_all(lane_of(&r->slope[0][0], i));
	s->row_step = vf_all(lane_of(&r->slope[1][0], i));
	s->lean = y * ((float)look->depth[1] * nearer);
	s->bend = vf_all((float)look->depth[0] * nearer);
	strip_window(look, cells, width, unit, vf_all(lane_of(&r->whole[0], i)),
		vf_all(lane_of(&r->whole[1], i)), s);
	s->weight[0] = vf_all(lane_of(&r->weight, i));
	s->weight[1] = 1 + y * (lane_of(&r->near2[2], i) + y * lane_of(&r->near2[3], i));
	s->weight[2] = lane_of(&r->near2[0], i) + y * lane_of(&r->near2[4], i);
	s->weight[3] = vf_all(lane_of(&r->near2[1], i));
	if (cells->smooth)
		strip_series(s, weight_power(look), 0.5F * (float)cells->span);
}

/* ---- places ---------------------------------------------------------------------------------- */

/* One voxel of each line: column and row, weight, and depth in the middle / depth. */
typedef struct {
	vf column, row, weight, nearer;
} Places;

/* How the places of a strip are computed: parallel rays; weights by the polynomial; by distance and
 * depth^3; others. */
typedef enum { PLACES_PARALLEL, PLACES_SMOOTH, PLACES_NEAR, PLACES_ANY } PlaceKind;

static inline PlaceKind place_kind(const Look *look, const Cells *cells)
{
	if (look->weighing == WEIGH_PARALLEL)
		return PLACES_PARALLEL;
	if (cells->smooth && !look->fans)
		return PLACES_SMOOTH;
	return weight_power(look) == 3 && !cells->smooth ? PLACES_NEAR : PLACES_ANY;
}

/* The voxels at x from the middle. A quotient by 1 + bend is computed as the numerator minus a
 * small part of it, for the sake of rounding errors. */
INLINE Places strip_places(
	const Strip *s, const Look *look, const Cells *cells, vf x, const PlaceKind kind)
{
	const vf *w = s->weight;
	Places p = {s->column + x * s->column_step, s->row + x * s->row_step, w[0], vf_all(1)};
	if (kind == PLACES_PARALLEL)
		return p;
	vf bend = s->lean + x * s->bend;
	p.nearer = vf_inverse(1 + bend);
	vf less = bend * p.nearer;
	p.column -= p.column * less;
	if (kind != PLACES_ANY || !look->fans)
		p.row -= p.row * less;
	if (kind == PLACES_SMOOTH || (kind == PLACES_ANY && cells->smooth)) {
		p.weight = w[0] + x * (w[1] + x * (w[2] + x * (w[3] + x * w[4])));
	} else {
		p.weight *= vf_root(w[1] + x * (w[2] + x * w[3]));
		if (kind == PLACES_NEAR)
			p.weight *= p.nearer * p.nearer * p.nearer;
		for (int k = 0; kind == PLACES_ANY && k < weight_power(look); k++)
			p.weight *= p.nearer;
	}
	return p;
}

#endif
