/* Views of parallel rays in planes of constant z, detector rolled, as records of each slice.
 *
 * The pixels of one slice are on a line of the detector, so that its back projection is a function
 * of the column alone, which records describe: one between two columns or for each ray.
 *
 * voxel: bilinear interpolation is a quadratic function between neighbouring columns, with one more
 * boundary where the line crosses a row.
 *
 * joseph: the rays of a column that meet the slice are replaced by one at the height of the slice,
 * with their sum and their first moment. That is exact as long as no voxel centre lies between
 * them, since weights are linear there; add_bends does the rest.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_ROLLED_RECORDS_H
#define TOMOS_BACKEND_CUDA_KERNELS_ROLLED_RECORDS_H

#include "backend/cuda/kernels/transpose.h"

enum {
	LANES = 32, /* slices of a group */
	LINES = 16, /* of a block of rolled_lines */
	HIGH = 8,   /* of a block of rolled_records */
	TILE_ROWS = 128,
	MARGIN = 2 /* records before column 0 */
};

/* Pixels of a line: of joseph with one more centre on each side as many as lanes; floats of a
 * record. */
template <bool JOSEPH> constexpr int PIXELS = JOSEPH ? 30 : 32;
template <bool JOSEPH> constexpr int RECORD = (JOSEPH ? 2 : 3) * LANES;

/* A view. Pixel i of line j in slice n is at column s = s0 + i si + j sj + n sn, si >= 0, counted
 * from the last column if mirrored; and at row r0 + rs s + rn n. */
typedef struct {
	double s0, si, sj, sn, r0, rs, rn, weight;
	int along, mirrored; /* axis of the lines */
} Course;

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
	float *records;    /* [view][group][record][RECORD] */
	float *to;         /* [b][a][group][lane] */
} Rolled;

/* Lines are along the axis on which pixels are nearer to each other on the detector; of joseph,
 * across the rays' dominant axis. */
template <bool JOSEPH>
static __host__ __device__ inline Course course_of(
	const KernelView *k, const KernelModel *model, const double step[2])
{
	const double *c = k->column, *r = k->row;
	const double largest = fmax(fabs(k->src[0]), fabs(k->src[1]));
	const int wide = fabs(c[0]) <= fabs(c[1]) ? 1 : 0;
	const int i = !JOSEPH ? 1 - wide : fabs(k->src[0]) >= fabs(k->src[1]) ? 1 : 0, j = 1 - i;
	const double slope = r[wide] / c[wide], sign = c[i] < 0 ? -1 : 1;
	const double length = hypot(k->src[0] * step[0], k->src[1] * step[1]) / largest;
	const double last = c[i] < 0 ? (double)(model->columns - 1) : 0;
	return Course{.s0 = last + sign * c[3],
		.si = fabs(c[i]),
		.sj = sign * c[j],
		.sn = sign * c[2],
		.r0 = r[3] - slope * c[3] + slope * last,
		.rs = sign * slope,
		.rn = r[2] - slope * c[2],
		.weight = JOSEPH                        ? length
			  : model->weight == WEIGHT_RAY ? k->mass
							: 1,
		.along = i,
		.mirrored = c[i] < 0};
}

template <bool JOSEPH>
static __global__ void __launch_bounds__(LANES) rolled_courses(const KernelView *views,
	int64_t count, KernelModel model, double step_x, double step_y, Course *to)
{
	const double step[2] = {step_x, step_y};
	const int64_t view = (int64_t)blockIdx.x * LANES + threadIdx.x;
	if (view < count)
		to[view] = course_of<JOSEPH>(&views[view], &model, step);
}

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
	const double low =
		row + fmin(0., v.rs * LANES) + fmin(0., v.rn * (LANES - 1)) - fmax(fabs(v.rn), 1.);
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

/* Coefficients of the interpolation between `column` and the next one, and between two rows, in
 * powers of the distance from `column`. row: there; middle: in between. Layout: linear and quadratic
 * ones of all lanes, then constants. */
static __device__ void write_record(
	const ScanTile &tile, const Course &v, int column, double row, double middle, float *record)
{
	const double below = floor(middle);
	const double in_tile = fmin(fmax(below - tile.row, -1.), (double)TILE_ROWS - 1);
	const int r = (int)in_tile, c = column - tile.column, lane = threadIdx.x;
	const bool has[2] = {r >= 0, r + 1 < TILE_ROWS};
	const float *low = tile.pixels[has[0] ? r : 0] + c,
		    *high = tile.pixels[has[1] ? r + 1 : 0] + c;
	const float p00 = has[0] ? low[0] : 0, p01 = has[0] ? low[1] : 0,
		    p10 = has[1] ? high[0] : 0, p11 = has[1] ? high[1] : 0;
	const float g = (float)(row - below), rise = p10 - p00, mixed = p11 - p01 - rise;
	const float rs = (float)v.rs, weight = (float)v.weight;
	((float2 *)record)[lane] =
		make_float2(weight * (fmaf(g, mixed, p01 - p00) + rs * rise), weight * rs * mixed);
	record[2 * LANES + lane] = weight * fmaf(g, rise, p00);
}

/* The sum of the rays of a column that meet a slice, whose height is that of `row`, and their
 * moment: they are `apart` per row, in pixels of a line. */
static __device__ void write_ray(
	const ScanTile &tile, const Course &v, int column, double row, float *record)
{
	const double reach = fabs(v.rn), apart = -v.sn / (v.si * v.rn);
	const int first = (int)fmax(floor(row - reach) + 1 - tile.row, 0.),
		  last = (int)fmin(ceil(row + reach) - 1 - tile.row, (double)TILE_ROWS - 1);
	float sum = 0, moment = 0;
	for (int r = first; r <= last; r++) {
		const double away = r + tile.row - row;
		const float y = (float)(v.weight * (1 - fabs(away) / reach)) *
				tile.pixels[r][column - tile.column];
		sum += y;
		moment = fmaf((float)(apart * away), y, moment);
	}
	((float2 *)record)[threadIdx.x] = make_float2(sum, moment);
}

template <bool JOSEPH> static __device__ void write_zeros(float *record)
{
	((float2 *)record)[threadIdx.x] = make_float2(0, 0);
	if (!JOSEPH)
		record[2 * LANES + threadIdx.x] = 0;
}

/* Writes the records of slice n between a column and the next one. */
static __device__ void write_cell(const Rolled &s, const ScanTile &tile, const Course &v,
	int column, double n, bool exists, float *records)
{
	const int one = crossings(v, s.columns, column, n),
		  two = crossings(v, s.columns, column + 1, n);
	const double row = fma(v.rs, (double)column, fma(v.rn, n, v.r0));
	const double rising = rising_row(v, column, n);
	/* Where it crosses a row, as a part of the way to the next column. */
	const double cross = two > one ? fmin((floor(rising) + 1 - rising) / fabs(v.rs), 1.) : 0.;
	for (int k = one; k <= two; k++) {
		const int64_t place = column + MARGIN + k;
		const double middle = 0.5 * (k > one || two == one ? 1 + cross : cross);
		float *to = records + place * RECORD<false>;
		if (place >= s.length)
			continue;
		if (exists && column >= -1 && column < s.columns)
			write_record(tile, v, column, row, row + middle * v.rs, to);
		else
			write_zeros<false>(to);
	}
}

/* Block: LANES records of all slices of a group. The record of a ray is that of the cell before
 * it. */
template <bool JOSEPH>
static __global__ void __launch_bounds__(LANES *HIGH)
	rolled_records(const __grid_constant__ Rolled s)
{
	__shared__ ScanTile tile;
	const int64_t view = blockIdx.y, group = view * s.groups + blockIdx.z;
	const Course v = s.views[view];
	const int first = (int)blockIdx.x * LANES - (JOSEPH ? 1 : MARGIN), lane = threadIdx.x;
	const double slice = (double)(s.low[2] + blockIdx.z * LANES), n = slice + lane;
	const bool exists = (int)blockIdx.z * LANES + lane < s.slices;
	float *records = s.records + group * s.length * RECORD<JOSEPH>;
	read_tile(s, v, view, first, slice, &tile);
	for (int c = first + threadIdx.y; c < first + LANES; c += HIGH) {
		float *to = records + (int64_t)(c + 1) * RECORD<JOSEPH>;
		if (!JOSEPH)
			write_cell(s, tile, v, c, n, exists, records);
		else if (c + 1 < s.length && exists)
			write_ray(tile, v, c, fma(v.rs, (double)c, fma(v.rn, n, v.r0)), to);
		else if (c + 1 < s.length)
			write_zeros<true>(to);
	}
}

#endif
