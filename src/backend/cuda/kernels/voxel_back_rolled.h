/* Voxel-driven back projection of parallel rays in planes of constant z, detector rolled.
 *
 * The rows and columns of the pixels of one slice are on a line of the detector, so that bilinear
 * interpolation is a function of the column alone: a quadratic function between neighbouring
 * columns, with one more boundary where the line crosses a row. rolled_records computes its
 * coefficients for each slice. In rolled_lines, a thread has one slice and a line of pixels, along
 * the axis on which pixels are nearer to each other on the detector; it keeps the coefficients from
 * pixel to pixel until it passes a boundary.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_VOXEL_BACK_ROLLED_H
#define TOMOS_BACKEND_CUDA_KERNELS_VOXEL_BACK_ROLLED_H

#include <cuda_pipeline.h>
#include "backend/cuda/kernels/voxel_rolled.h"
#include "backend/cuda/kernels/warp.h"

enum {
	LANES = 32, /* slices of a group */
	LINES = 16, /* of a block */
	PIXELS = 32,
	WORDS = 3,              /* coefficients of a record */
	RECORD = WORDS * LANES, /* floats */
	MOST_BATCH = 4,         /* views in shared memory */
	HIGH = 8,               /* of a block of rolled_records */
	TILE_ROWS = 128,
	MARGIN = 2 /* records before column 0 */
};

typedef struct {
	const Course *views;
	int64_t count, rows, columns;
	int n[2];                   /* pixels of the box */
	int64_t low[3];             /* first voxel; low[2]: first slice of this pass */
	int slices, groups, length; /* length: number of records of a view and slice */
	int window, batch;          /* most records that a block meets; views at a time */
	int along;                  /* of this launch */
	bool add;
	const float *scan; /* [view][row][column] */
	float *records;    /* [view][group][record][word][lane] */
	float *to;         /* [b][a][group][lane] */
} Rolled;

/* ---- records --------------------------------------------------------------------------------- */

/* The row of slice n in the direction in which it increases with s. */
static __device__ __forceinline__ double rising_row(const Course &v, double s, double n)
{
	const double row = fma(v.rs, s, fma(v.rn, n, v.r0));
	return v.rs < 0 ? -row : row;
}

/* Number of rows that slice n crosses between columns -1 and s. */
static __device__ __forceinline__ int crossings(
	const Course &v, int64_t columns, double s, double n)
{
	const double at = fmin(fmax(s, -1.), (double)columns);
	return (int)(floor(rising_row(v, at, n)) - floor(rising_row(v, -1, n)));
}

/* The part of the scan that a block of rolled_records needs, zeros outside. */
typedef struct {
	float pixels[TILE_ROWS][LANES + 2];
	int row, column; /* first ones */
} ScanTile;

static __device__ void read_tile(
	const Rolled &s, const Course &v, int64_t view, int column, double slice, ScanTile *tile)
{
	const double row = fma(v.rs, (double)column, fma(v.rn, slice, v.r0));
	const double low = row + fmin(0., v.rs * LANES) + fmin(0., v.rn * (LANES - 1));
	const int first = (int)fmin(fmax(floor(low) - 1, -4.), (double)s.rows);
	for (int i = threadIdx.y; i < TILE_ROWS; i += HIGH)
		for (int j = threadIdx.x; j < LANES + 2; j += LANES) {
			const int64_t r = first + i, at = column + j,
				      c = v.mirrored ? s.columns - 1 - at : at;
			const bool inside = r >= 0 && r < s.rows && at >= 0 && at < s.columns;
			tile->pixels[i][j] =
				inside ? s.scan[(view * s.rows + r) * s.columns + c] : 0;
		}
	tile->row = first;
	tile->column = column;
	__syncthreads();
}

/* Coefficients of the interpolation between `column` and the next one, and between two rows; in
 * powers of the distance from the next column. row: at the next column; middle: in between. */
static __device__ void write_record(
	const ScanTile &tile, const Course &v, int column, double row, double middle, float *to)
{
	const double below = floor(middle);
	const double in_tile = fmin(fmax(below - tile.row, -1.), (double)TILE_ROWS - 1);
	const int r = (int)in_tile, c = column - tile.column;
	const bool has[2] = {r >= 0, r + 1 < TILE_ROWS};
	const float *low = tile.pixels[has[0] ? r : 0] + c,
		    *high = tile.pixels[has[1] ? r + 1 : 0] + c;
	const float p00 = has[0] ? low[0] : 0, p01 = has[0] ? low[1] : 0,
		    p10 = has[1] ? high[0] : 0, p11 = has[1] ? high[1] : 0;
	const float g = (float)(row - below), rise = p11 - p01, mixed = rise - (p10 - p00);
	const float rs = (float)v.rs, weight = (float)v.weight;
	to[0] = weight * fmaf(g, rise, p01);
	to[LANES] = -weight * (fmaf(g, mixed, p01 - p00) + rs * rise);
	to[2 * LANES] = weight * rs * mixed;
}

/* Block: LANES records of all slices of a group. */
static __global__ void __launch_bounds__(LANES *HIGH)
	rolled_records(const __grid_constant__ Rolled s)
{
	__shared__ ScanTile tile;
	const int64_t view = blockIdx.y, group = view * s.groups + blockIdx.z;
	const Course v = s.views[view];
	const int first = (int)blockIdx.x * LANES - MARGIN, lane = threadIdx.x;
	const double slice = (double)(s.low[2] + blockIdx.z * LANES), n = slice + lane;
	float *records = s.records + group * s.length * RECORD + lane;
	const bool exists = (int)blockIdx.z * LANES + lane < s.slices;
	read_tile(s, v, view, first, slice, &tile);
	for (int c = first + threadIdx.y; c < first + LANES; c += HIGH) {
		const int one = crossings(v, s.columns, c, n),
			  two = crossings(v, s.columns, c + 1, n);
		const double row = fma(v.rs, (double)c, fma(v.rn, n, v.r0)), next = row + v.rs;
		const double rising = rising_row(v, c, n);
		/* Where it crosses a row, as a part of the way to the next column. */
		const double cross =
			two > one ? fmin((floor(rising) + 1 - rising) / fabs(v.rs), 1.) : 0.;
		for (int k = one; k <= two; k++) {
			const int64_t place = c + MARGIN + k;
			if (place >= s.length)
				continue;
			float *to = records + place * RECORD;
			const double middle =
				two > one ? (k > one ? 0.5 + 0.5 * cross : 0.5 * cross) : 0.5;
			if (exists && c >= -1 && c < s.columns)
				write_record(tile, v, c, next, row + middle * v.rs, to);
			else
				to[0] = to[LANES] = to[2 * LANES] = 0;
		}
	}
}

/* ---- lines of pixels ------------------------------------------------------------------------- */

typedef enum { SEEN_NOT, SEEN_PLAIN, SEEN_CROSSED } SeenKind;

/* A view as a block sees it, by slice: its first pixel is at column s, counted from a column of the
 * block, and its record is `more` further on, for rows that are crossed before. SEEN_CROSSED: rows
 * are crossed within the block, and `more` is the rising row at column s = 0 instead. Records are
 * found with doubles there: columns and rows may be crossed at nearly the same point. */
typedef struct {
	double s[LANES], more[LANES], sj, rs, start; /* start: column -1 */
	float si;
	SeenKind kind;
} Seen;

/* Finds which records a block needs of a view, and starts to copy them. One warp, a slice each. */
static __device__ void find_view(const Rolled &s, int64_t view, Seen *to, float *records)
{
	const int lane = threadIdx.x % LANES;
	if (view >= s.count || s.views[view].along != s.along) {
		to->kind = SEEN_NOT;
		return;
	}
	const Course v = s.views[view];
	const int i = s.along, j = 1 - i;
	const double n = (double)(s.low[2] + blockIdx.z * LANES + lane),
		     pixel = (double)(s.low[i] + (int64_t)blockIdx.x * PIXELS),
		     line = (double)(s.low[j] + (int64_t)blockIdx.y * LINES);
	const double at = fma(v.si, pixel, fma(v.sj, line, fma(v.sn, n, v.s0)));
	const double low = at + fmin(0., v.sj * (LINES - 1)),
		     high = at + v.si * (PIXELS - 1) + fmax(0., v.sj * (LINES - 1));
	const double end = (double)s.columns, bounded = fmin(fmax(low, -(double)MARGIN), end);
	const double rows[2] = {
		fma(v.rs, low, fma(v.rn, n, v.r0)), fma(v.rs, high, fma(v.rn, n, v.r0))};
	const bool meets = high > -1 && low < end && fmax(rows[0], rows[1]) > -1 &&
			   fmin(rows[0], rows[1]) < (double)s.rows;
	if (!__any_sync(~0u, meets)) {
		to->kind = SEEN_NOT;
		return;
	}
	const int before = crossings(v, s.columns, low, n),
		  after = crossings(v, s.columns, high, n);
	const int base = warp_min((int)floor(bounded)), /* column of s = 0 */
		first = warp_min((int)floor(bounded) + MARGIN + before),
		  shift = first - MARGIN - base;
	const bool crossed = __any_sync(~0u, before != after);
	to->s[lane] = at - base;
	to->more[lane] = crossed ? rising_row(v, base, n) - floor(rising_row(v, -1, n)) - shift
				 : (double)(before - shift);
	const int64_t group = view * s.groups + blockIdx.z;
	if (lane == 0) {
		to->si = (float)v.si;
		to->sj = v.sj;
		to->rs = fabs(v.rs);
		to->start = -1 - base;
		to->kind = crossed ? SEEN_CROSSED : SEEN_PLAIN;
	}
	const float4 *from = (const float4 *)(s.records + (group * s.length + first) * RECORD);
	for (int k = lane; k < s.window * RECORD / 4; k += LANES)
		__pipeline_memcpy_async((float4 *)records + k, from + k, sizeof(float4));
}

/* The coefficients of a record and its address in shared memory; distances of the pixel from the
 * next column and, where rows are crossed, from the next row. */
typedef struct {
	float a, b, c, e, row;
	unsigned at;
} Record;

/* Goes on to the next record if the pixel is past a column. Predicated: a branch would cost more
 * than what it skips. */
static __device__ __forceinline__ void pass_column(Record *r)
{
	asm volatile("{\n\t"
		     ".reg .pred p;\n\t"
		     "setp.le.f32 p, %3, 0f00000000;\n\t"
		     "@p add.f32 %3, %3, 0f3f800000;\n\t"
		     "@p add.u32 %4, %4, %5;\n\t"
		     "@p ld.shared.f32 %0, [%4];\n\t"
		     "@p ld.shared.f32 %1, [%4 + %6];\n\t"
		     "@p ld.shared.f32 %2, [%4 + %7];\n\t"
		     "}"
		     : "+f"(r->a), "+f"(r->b), "+f"(r->c), "+f"(r->e), "+r"(r->at)
		     : "n"(RECORD * 4), "n"(LANES * 4), "n"(LANES * 8));
}

/* The same past a column, a row, or both; rows are `wide` apart. */
static __device__ __forceinline__ void pass_row(Record *r, float wide)
{
	asm volatile("{\n\t"
		     ".reg .pred p, q, any;\n\t"
		     "setp.le.f32 p, %3, 0f00000000;\n\t"
		     "setp.le.f32 q, %4, 0f00000000;\n\t"
		     "setp.le.or.f32 any, %4, 0f00000000, p;\n\t"
		     "@p add.f32 %3, %3, 0f3f800000;\n\t"
		     "@q add.f32 %4, %4, %6;\n\t"
		     "@p add.u32 %5, %5, %7;\n\t"
		     "@q add.u32 %5, %5, %7;\n\t"
		     "@any ld.shared.f32 %0, [%5];\n\t"
		     "@any ld.shared.f32 %1, [%5 + %8];\n\t"
		     "@any ld.shared.f32 %2, [%5 + %9];\n\t"
		     "}"
		     : "+f"(r->a), "+f"(r->b), "+f"(r->c), "+f"(r->e), "+f"(r->row), "+r"(r->at)
		     : "f"(wide), "n"(RECORD * 4), "n"(LANES * 4), "n"(LANES * 8));
}

static __device__ __forceinline__ Record record_at(const float *at, float e, float row)
{
	return Record{
		at[0], at[LANES], at[2 * LANES], e, row, (unsigned)__cvta_generic_to_shared(at)};
}

static __device__ __forceinline__ float add_pixel(float sum, const Record &r)
{
	return fmaf(fmaf(r.c, r.e, r.b), r.e, sum) + r.a;
}

static __device__ __forceinline__ void add_plain(
	const Seen &v, const float *records, int line, float sums[PIXELS])
{
	const int lane = threadIdx.x % LANES;
	const float s = fmaf((float)line, (float)v.sj, (float)v.s[lane]),
		    whole = fmaxf(floorf(s), 0.f), si = v.si;
	const int place = (int)whole + (int)v.more[lane];
	Record r = record_at(records + place * RECORD + lane, whole + 1 - s, 0);
#pragma unroll
	for (int i = 0; i < PIXELS; i++) {
		sums[i] = add_pixel(sums[i], r);
		r.e -= si;
		pass_column(&r);
	}
}

/* The same where rows are crossed. */
static __device__ __forceinline__ void add_crossed(
	const Seen &v, const float *records, int line, float sums[PIXELS])
{
	const int lane = threadIdx.x % LANES;
	const double s = fma((double)line, v.sj, v.s[lane]), whole = fmax(floor(s), 0.);
	const double row = fma(v.rs, s, v.more[lane]), crossed = s < v.start ? 0 : floor(row);
	const int place = max((int)(whole + crossed), 0);
	const float si = v.si, wide = (float)(1 / v.rs);
	Record r = record_at(records + place * RECORD + lane, (float)(whole + 1 - s),
		(float)((crossed + 1 - row) / v.rs));
#pragma unroll
	for (int i = 0; i < PIXELS; i++) {
		sums[i] = add_pixel(sums[i], r);
		r.e -= si;
		r.row -= si;
		pass_row(&r, wide);
	}
}

static __device__ void find_batch(const Rolled &s, int batch, Seen *seen, float *records)
{
	const int warp = threadIdx.x / LANES;
	if (warp < s.batch)
		find_view(s, (int64_t)batch * s.batch + warp, seen + warp,
			records + warp * s.window * RECORD);
	__pipeline_commit();
}

static __global__ void __launch_bounds__(LANES *LINES, 2)
	rolled_lines(const __grid_constant__ Rolled s)
{
	extern __shared__ float4 space[];
	__shared__ Seen seen[2][MOST_BATCH];
	const int lane = threadIdx.x % LANES, line = threadIdx.x / LANES;
	const int64_t size = (int64_t)s.window * RECORD;
	float *records[2] = {(float *)space, (float *)space + s.batch * size};
	const int batches = (int)((s.count - 1) / s.batch + 1);
	float sums[PIXELS] = {0};
	find_batch(s, 0, seen[0], records[0]);
	for (int batch = 0; batch < batches; batch++) {
		const int own = batch % 2;
		__pipeline_wait_prior(0);
		__syncthreads();
		if (batch + 1 < batches)
			find_batch(s, batch + 1, seen[1 - own], records[1 - own]);
#pragma unroll 1
		for (int k = 0; k < s.batch; k++) {
			const Seen &v = seen[own][k];
			if (v.kind == SEEN_PLAIN)
				add_plain(v, records[own] + k * size, line, sums);
			else if (v.kind == SEEN_CROSSED)
				add_crossed(v, records[own] + k * size, line, sums);
		}
	}
	const int i0 = (int)blockIdx.x * PIXELS, j = (int)blockIdx.y * LINES + line;
	const int64_t pitch = (int64_t)s.groups * LANES,
		      step = s.along == 0 ? pitch : pitch * s.n[0];
	float *to = s.to + i0 * step + j * (s.along == 0 ? pitch * s.n[0] : pitch) +
		    blockIdx.z * LANES + lane;
	if (j < s.n[1 - s.along])
#pragma unroll
		for (int i = 0; i < PIXELS; i++)
			if (i0 + i < s.n[s.along])
				to[i * step] = s.add ? to[i * step] + sums[i] : sums[i];
}

#endif
