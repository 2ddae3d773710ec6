/* The Fourier projector (backend/fourier.h).
 *
 * Two slices are the real and imaginary parts of complex numbers, and two such pairs share the
 * weights of the interpolation. Planes of voxels are [pair][y][x], those of frequencies
 * [pair][x][y]; values of points are [pair][view][m], with m modulo the period. All transforms are
 * forward ones: where an inverse is meant, samples are read in the opposite order.
 */
#include "backend/opencl/device.cl"
/* Cells of points are found on the host as well, and must be the same. */
#pragma OPENCL FP_CONTRACT OFF
#define KERNEL_ADD(pointer, value) (*(pointer) += (value))
#include "backend/opencl/fourier_args.h"

typedef global const float2 *Complexes;

static inline float2 times(float2 a, float2 b)
{
	return (float2)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

/* Where a second forward transform leaves voxel i of n. */
static inline long inverse_place(long i, long n, long size)
{
	return (n / 2 - i + size) % size;
}

/* ---- slices ---------------------------------------------------------------------------------- */

static inline float scale_of(const FourierBatch *b, global const float *scale, long x, long y)
{
	return scale ? scale[x] * scale[b->n[0] + y] : 1;
}

/* Voxels times the scales (none: 1), as rows [pair][y][size[0]]. */
PLANE do_load_slices(FourierBatch b, global const float *scale, long scale0,
	global const float *volume, long volume0, global float *rows, long rows0)
{
	global const float *scales = scale ? scale + scale0 : 0;
	const long plane = b.n[0] * b.n[1];
	EACH(pair, 2, b.pairs)
	EACH(y, 1, b.n[1])
	EACH(p, 0, b.size[0]) {
		const long x = fourier_voxel(b.n[0], b.size[0], p), z = b.slice + 2 * pair;
		const long voxel = volume0 + z * plane + y * b.n[0] + x;
		float2 value = 0;
		if (x >= 0 && z < b.n[2])
			value.x = volume[voxel] * scale_of(&b, scales, x, y);
		if (x >= 0 && z + 1 < b.n[2])
			value.y = volume[voxel + plane] * scale_of(&b, scales, x, y);
		vstore2(value, (pair * b.n[1] + y) * b.size[0] + p, rows + rows0);
	}
}

PLANE do_store_slices(FourierBatch b, global const float *scale, long scale0,
	global const float *rows, long rows0, global float *volume, long volume0)
{
	global const float *scales = scale ? scale + scale0 : 0;
	const long plane = b.n[0] * b.n[1];
	EACH(pair, 2, b.pairs)
	EACH(y, 1, b.n[1])
	EACH(x, 0, b.n[0]) {
		const long p = inverse_place(x, b.n[0], b.size[0]), z = b.slice + 2 * pair;
		const long voxel = volume0 + z * plane + y * b.n[0] + x;
		const float2 value = scale_of(&b, scales, x, y) *
				     vload2((pair * b.n[1] + y) * b.size[0] + p, rows + rows0);
		if (z < b.n[2])
			volume[voxel] = value.x;
		if (z + 1 < b.n[2])
			volume[voxel + plane] = value.y;
	}
}

/* Transformed rows with voxels become columns, with zeros elsewhere, and back. */
PLANE do_rows_to_columns(FourierBatch b, global const float *rows, long rows0,
	global float *columns, long columns0)
{
	EACH(pair, 2, b.pairs)
	EACH(x, 1, b.size[0])
	EACH(p, 0, b.size[1]) {
		const long y = fourier_voxel(b.n[1], b.size[1], p);
		float2 value = 0;
		if (y >= 0)
			value = vload2((pair * b.n[1] + y) * b.size[0] + x, rows + rows0);
		vstore2(value, (pair * b.size[0] + x) * b.size[1] + p, columns + columns0);
	}
}

PLANE do_columns_to_rows(FourierBatch b, global const float *columns, long columns0,
	global float *rows, long rows0)
{
	EACH(pair, 2, b.pairs)
	EACH(y, 1, b.n[1])
	EACH(x, 0, b.size[0]) {
		const long p = inverse_place(y, b.n[1], b.size[1]);
		vstore2(vload2((pair * b.size[0] + x) * b.size[1] + p, columns + columns0),
			(pair * b.n[1] + y) * b.size[0] + x, rows + rows0);
	}
}

/* ---- detector rows --------------------------------------------------------------------------- */

static inline SliceRows rows_of(const FourierBatch *b, global const LineView *v, long slice)
{
	return slice_rows(v->row, v->height, v->reach, b->rows, b->own_rows, slice, b->n[2]);
}

/* The sum of the rows that a slice meets, at column c. */
static inline float load_row(
	const FourierBatch *b, global const LineView *view, long slice, global const float *image)
{
	const SliceRows met = rows_of(b, view, slice);
	float sum = 0;
	for (long row = met.first; row <= met.last; row++)
		sum += (b->own_rows ? 1 : slice_row_weight(&met, row)) * image[row * b->columns];
	return sum;
}

static inline void store_row(const FourierBatch *b, global const LineView *view, long slice,
	float value, global float *image)
{
	const SliceRows met = rows_of(b, view, slice);
	for (long row = met.first; row <= met.last; row++)
		if (b->own_rows)
			image[row * b->columns] = value;
		else
			image[row * b->columns] += slice_row_weight(&met, row) * value;
}

PLANE do_load_rows(FourierBatch b, global const LineView *views,
	global const float *projections, long projections0, global float *values, long values0)
{
	EACH(pair, 2, b.pairs)
	EACH(i, 1, b.count)
	EACH(c, 0, b.period) {
		global const float *image =
			projections + projections0 + i * b.rows * b.columns + c;
		float2 value = 0;
		if (c < b.columns) {
			value.x = load_row(&b, views + i, b.slice + 2 * pair, image);
			value.y = load_row(&b, views + i, b.slice + 2 * pair + 1, image);
		}
		vstore2(value, (pair * b.count + i) * b.period + c, values + values0);
	}
}

/* Slices without rows of their own add to rows, all of them by one work-item. */
PLANE do_store_rows(FourierBatch b, global const LineView *views, global const float *values,
	long values0, global float *projections, long projections0)
{
	EACH(pair, 2, b.pairs)
	EACH(i, 1, b.count)
	EACH(c, 0, b.columns) {
		global float *image = projections + projections0 + i * b.rows * b.columns + c;
		const long at = (pair * b.count + i) * b.period + (b.period - c) % b.period;
		const float2 value = vload2(at, values + values0);
		store_row(&b, views + i, b.slice + 2 * pair, value.x, image);
		store_row(&b, views + i, b.slice + 2 * pair + 1, value.y, image);
	}
}

/* ---- points ---------------------------------------------------------------------------------- */

static inline float sinc_of(float x)
{
	return fabs(x) < 1e-4f ? 1 : sinpi(x) / (M_PI_F * x);
}

/* weight / period * response e^(2 pi i m offset / period). */
static inline float2 factor_of(const FourierBatch *b, global const LineView *view, int m)
{
	const double turn = m * view->turn, from = 0.4, to = 0.5;
	const double cycles = fabs((double)m) / (double)b->period;
	float size = view->unit * sinc_of((float)(m * view->width[0])) *
		     sinc_of((float)(m * view->width[1]));
	if (b->line && cycles > from) {
		const float c = cospi((float)(0.5 * (cycles - from) / (to - from)));
		size *= c * c;
	}
	const float phase = (float)(2 * (turn - rint(turn)));
	return (float2)(size * cospi(phase), size * sinpi(phase));
}

/* The first cell of point m along an axis, and the weights of its taps. */
static inline int weigh(const FourierBatch *b, global const float *polynomials, double step,
	int m, float *weights)
{
	const double position = m * step, edge = position - 0.5 * b->taps, first = ceil(edge);
	const float t = 2 * (float)(first - edge) - 1;
	for (int i = 0; i < b->taps; i++) {
		float sum = 0;
		for (int power = b->degree; power >= 0; power--)
			sum = fma(sum, t, polynomials[power * SPREAD_PITCH + i]);
		weights[i] = sum;
	}
	return (int)first;
}

/* The values of two pairs of slices, of which the second may not exist, at one place. */
static inline float4 load_pairs(Complexes from, long place, long plane, int two)
{
	return (float4)(from[place], two ? from[place + plane] : (float2)0);
}

/* The sum of the cells around a point, for two pairs. */
static inline float4 collect_point(const FourierBatch *b, global const float *polynomials,
	global const LineView *view, int m, Complexes cells, int two)
{
	float across[SPREAD_MOST], down[SPREAD_MOST];
	const long wide = b->size[0], high = b->size[1];
	const long x = weigh(b, polynomials, view->step[0], m, across) % wide + wide;
	const long y = weigh(b, polynomials, view->step[1], m, down) % high + high;
	float4 sum = 0;
	for (int i = 0; i < b->taps; i++) {
		const long column = (x + i) % wide * high;
		float4 part = 0;
		for (int j = 0; j < b->taps; j++)
			part += down[j] *
				load_pairs(cells, column + (y + j) % high, wide * high, two);
		sum += across[i] * part;
	}
	return sum;
}

/* Values of points; the frequency of half a cycle per column has none. */
PLANE do_collect(FourierBatch b, global const LineView *views, global const float *polynomials,
	long polynomials0, global const float *grid, long grid0, global float *values,
	long values0)
{
	const long plane = b.size[0] * b.size[1], each = b.count * b.period;
	EACH(pair, 2, (b.pairs + 1) / 2)
	EACH(i, 1, b.count)
	EACH(p, 0, b.period) {
		const int two = 2 * pair + 1 < b.pairs;
		const int m = (int)(p < b.period / 2 ? p : p - b.period);
		const long at = 2 * pair * each + i * b.period + p;
		float4 sum = 0;
		if (p != b.period / 2) {
			const float2 f = factor_of(&b, views + i, m) * (float2)(1, -1);
			sum = collect_point(&b, polynomials + polynomials0, views + i, m,
				(Complexes)(grid + grid0) + 2 * pair * plane, two);
			sum = (float4)(times(sum.xy, f), times(sum.zw, f));
		}
		vstore2(sum.xy, at, values + values0);
		if (two)
			vstore2(sum.zw, at + each, values + values0);
	}
}

enum { BATCH = 32, WEIGHTS = SPREAD_MOST + 1 };

/* A cell of a point in the tile: its weight, 0 if it is not in the tile, and its offset there. */
typedef struct {
	float weight;
	int offset;
} PointCell;

/* Puts the cells of a point in the order of their remainders modulo the number of taps. Those that
 * are not in the tile get the place of another cell with that remainder. */
static inline void sort_cells(
	int taps, int first, const float *weights, int stride, local PointCell *cells)
{
	for (int i = 0; i < taps; i++) {
		const int rest = (first + taps + i) % taps, at = first + i;
		const int within = at >= 0 && at < FOURIER_TILE;
		cells[rest].weight = within ? weights[i] : 0;
		cells[rest].offset = (within ? at : rest) * stride;
	}
}

/* Points of a batch: their cells along x and y, and what they add to these, for two pairs. */
typedef struct {
	PointCell cells[2][BATCH][WEIGHTS];
	float4 added[BATCH];
} PointBatch;

typedef struct {
	global const PointSegment *segments;
	global const LineView *views;
	global const float *polynomials;
	Complexes values; /* of the first pair */
	int two;          /* pairs */
} PointSource;

static inline float4 point_value(
	const FourierBatch *b, const PointSource *from, const PointSegment *s, int m)
{
	const float2 f = factor_of(b, from->views + s->view, m);
	const long place = s->view * b->period + (m < 0 ? m + b->period : m);
	if (b->squares)
		return (float4)(b->period * dot(f, f), 0, 0, 0);
	const float4 value = load_pairs(from->values, place, b->count * b->period, from->two);
	return (float4)(times(f, value.xy), times(f, value.zw));
}

/* Points from `first` on of a chunk, a work-item for each axis of a point. */
static inline void place_points(const FourierBatch *b, const PointSource *from,
	const PointChunk *chunk, int first, int count, local PointBatch *batch)
{
	const int at = (int)get_local_id(0) / 2, axis = get_local_id(0) % 2;
	float weights[SPREAD_MOST];
	if (at >= count)
		return;
	const PointSegment s = fourier_segment(from->segments, chunk, first + at);
	const int m = s.from + first + at - s.begin;
	const int cell =
		weigh(b, from->polynomials, from->views[s.view].step[axis], m, weights);
	sort_cells(b->taps, cell - s.origin[axis], weights, axis == 0 ? FOURIER_TILE : 1,
		batch->cells[axis][at]);
	if (axis == 0)
		batch->added[at] = point_value(b, from, &s, m);
}

/* A work-item has the cells of one remainder modulo the number of taps in each direction, of which
 * every point meets exactly one: sums need no atomic operations and have a fixed order. */
static inline void add_points(
	int taps, int count, local const PointBatch *batch, local float4 *tile)
{
	for (int r = (int)get_local_id(0); r < taps * taps; r += GROUP)
		for (int at = 0; at < count; at++) {
			const PointCell x = batch->cells[0][at][r / taps];
			const PointCell y = batch->cells[1][at][r % taps];
			tile[x.offset + y.offset] += x.weight * y.weight * batch->added[at];
		}
}

/* The place of cell i of a tile in a plane [x][y]; -1: beyond it. */
static inline long cell_place(const FourierBatch *b, const int *tile, long i)
{
	const long x = tile[0] * FOURIER_TILE + i / FOURIER_TILE;
	const long y = tile[1] * FOURIER_TILE + i % FOURIER_TILE;
	return x < b->size[0] && y < b->size[1] ? x * b->size[1] + y : -1;
}

static inline void store_tile(const FourierBatch *b, const PointChunk *chunk, long pair, int two,
	local const float4 *tile, global float *grid, global float *parts)
{
	for (int i = (int)get_local_id(0); i < FOURIER_CELLS; i += GROUP) {
		const long place = cell_place(b, chunk->tile, i);
		for (int k = 0; k <= two; k++) {
			const float2 sum = k ? tile[i].zw : tile[i].xy;
			const long part = chunk->part * (long)b->pairs + pair + k;
			if (chunk->part >= 0)
				vstore2(sum, part * FOURIER_CELLS + i, parts);
			else if (place >= 0)
				vstore2(sum, (pair + k) * b->size[0] * b->size[1] + place, grid);
		}
	}
}

/* Sums of points in the cells of tiles: a work-group for a chunk and two pairs of slices. */
LINE do_spread(FourierBatch b, long chunk_count, global const PointChunk *chunks,
	global const PointSegment *segments, global const LineView *views,
	global const float *polynomials, long polynomials0, global const float *values,
	long values0, global float *grid, long grid0, global float *parts, long parts0)
{
	local float4 tile[FOURIER_CELLS];
	local PointBatch batch;
	const long groups = (b.pairs + 1) / 2 * chunk_count;
	for (long g = get_group_id(0); g < groups; g += get_num_groups(0)) {
		const PointChunk chunk = chunks[g % chunk_count];
		const long pair = g / chunk_count * 2;
		const PointSource from = {segments, views, polynomials + polynomials0,
			(Complexes)(values + values0) + pair * b.count * b.period,
			pair + 1 < b.pairs};
		for (int i = (int)get_local_id(0); i < FOURIER_CELLS; i += GROUP)
			tile[i] = 0;
		for (int first = 0; first < chunk.points; first += BATCH) {
			const int count = min((int)BATCH, chunk.points - first);
			place_points(&b, &from, &chunk, first, count, &batch);
			barrier(CLK_LOCAL_MEM_FENCE);
			add_points(b.taps, count, &batch, tile);
			barrier(CLK_LOCAL_MEM_FENCE);
		}
		store_tile(&b, &chunk, pair, from.two, tile, grid + grid0, parts + parts0);
		barrier(CLK_LOCAL_MEM_FENCE);
	}
}

/* Tiles of several chunks. */
PLANE do_add_parts(FourierBatch b, long tile_count, global const PartTile *tiles,
	global const float *parts, long parts0, global float *grid, long grid0)
{
	EACH(pair, 2, b.pairs)
	EACH(t, 1, tile_count)
	EACH(i, 0, FOURIER_CELLS) {
		const PartTile tile = tiles[t];
		const long place = cell_place(&b, tile.tile, i);
		float2 sum = 0;
		for (long part = tile.part; part < tile.part + tile.parts; part++)
			sum += vload2((part * b.pairs + pair) * FOURIER_CELLS + i, parts + parts0);
		if (place >= 0)
			vstore2(sum, pair * b.size[0] * b.size[1] + place, grid + grid0);
	}
}

/* ---- normal operator ------------------------------------------------------------------------- */

/* The spectrum of the kernel is real, as the kernel is even. */
PLANE do_take_spectrum(FourierBatch b, global const float *grid, long grid0,
	global float *spectrum, long spectrum0)
{
	const float unit = 1 / ((float)b.size[0] * (float)b.size[1]);
	EACH(x, 1, b.size[0])
	EACH(y, 0, b.size[1]) {
		const long at = x * b.size[1] + y;
		spectrum[spectrum0 + at] = unit * grid[grid0 + 2 * at];
	}
}

PLANE do_multiply(FourierBatch b, global const float *spectrum, long spectrum0,
	global float *grid, long grid0)
{
	EACH(pair, 2, b.pairs)
	EACH(x, 1, b.size[0])
	EACH(y, 0, b.size[1]) {
		const long at = x * b.size[1] + y, place = pair * b.size[0] * b.size[1] + at;
		vstore2(spectrum[spectrum0 + at] * vload2(place, grid + grid0), place,
			grid + grid0);
	}
}
