/* Voxel-driven forward projection of parallel rays in planes of constant z, detector rolled.
 *
 * The pixels of one slice fall on a line of the detector: the row is an affine function of the
 * column. A pixel at column c + x, 0 <= x < 1, adds to the columns c and c + 1 only, so that sums
 * of the values, times 1, x and x^2, of all pixels between two columns are what a slice adds to
 * both (cell_sums). The sums at the positions of eight slices follow from those at one, but
 * for kinks: pixels that are between other columns in some of the eight (rolled.h). slice_rows adds
 * sums to rows, as if the row of the pixels of a column stayed between the same two rows;
 * crossed_rows adds what is missing where it does not.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_VOXEL_FORWARD_ROLLED_H
#define TOMOS_BACKEND_CUDA_KERNELS_VOXEL_FORWARD_ROLLED_H

#include "backend/cuda/kernels/rolled.h"
#include "backend/cuda/kernels/voxel_rolled.h"

/* What a line between cells adds to its own column and to those on both sides: sums, and sums
 * times the distance from the column. */
enum { OWN, RIGHT, LEFT, OWN_FAR, RIGHT_FAR, LEFT_FAR, WORDS };

enum { HIGH = 8 };

typedef struct {
	const Course *views;
	int64_t count, columns, rows;
	RolledVolume volume;
	int most;     /* rows that a slice crosses at most */
	float4 *sums; /* [word][view][line][quad]; line: columns -1 to `columns` */
	float *to;
} Rolled;

/* ---- between columns ------------------------------------------------------------------------- */

/* In plane 0 of the box, line q is at pixel base + q step in the lowest of eight slices; rate: per
 * plane. offset: of the slices. */
typedef struct {
	double base, step, rate;
	float offset[SLICES];
} Track;

static __device__ Track track_of(const Rolled &s, const Course &v, double slice)
{
	const double low_i = (double)(v.along ? s.volume.low_b : s.volume.low_a),
		     low_j = (double)(v.along ? s.volume.low_a : s.volume.low_b);
	const double step = 1 / v.si, more = -v.sn * step, least = fmin(0., (SLICES - 1) * more);
	Track t = {(-1 - v.s0 - v.sj * low_j - v.sn * slice) * step - low_i + least, step,
		-v.sj * step, {0}};
	for (int j = 0; j < SLICES; j++)
		t.offset[j] = (float)(j * more - least);
	return t;
}

/* A line in plane 0: the same operations for all, so that threads agree which pixels are between
 * theirs. */
static __device__ __forceinline__ double line_at(const Track &t, int64_t line)
{
	return fma((double)line, t.step, t.base);
}

/* Sums of eight slices at the positions of the lowest. */
typedef struct {
	float a[SLICES], b[SLICES], c[SLICES];
} Moments;

static __device__ __forceinline__ void add_value(Moments *to, float m, float x, Pixel v)
{
	const float mx = m * x, mxx = mx * x;
#pragma unroll
	for (int j = 0; j < SLICES; j++) {
		to->a[j] = fmaf(m, v.x[j], to->a[j]);
		to->b[j] = fmaf(mx, v.x[j], to->b[j]);
		to->c[j] = fmaf(mxx, v.x[j], to->c[j]);
	}
}

/* The next line: at base + more + f in the first plane of a segment. */
typedef struct {
	float more, f;
} Next;

/* There are no, one or two pixels between the lines; wide: columns per pixel. */
static __device__ __forceinline__ void cell_inside(
	const Lines &s, const Segment &g, Next next, float wide, Moments *to)
{
	const float whole = 1.5f * (1 << 23); /* floats of this size are integers */
	unsigned plane = 1u - __float_as_uint(whole);
	float at_plane = 0;
#pragma unroll 4
	for (int k = 0; k < g.end; k++, plane += (unsigned)s.plane, at_plane += 1) {
		const float at = fmaf(at_plane, g.rate, g.f), lowest = __fadd_rd(at, whole);
		const float pixels =
			__fadd_rd(fmaf(at_plane, g.rate, next.f), whole) - lowest + next.more;
		const float x = fmaf(wide, (lowest - whole) - at, wide);
		const float4 *from = g.line + (int)(__float_as_uint(lowest) + plane);
		add_value(to, fminf(pixels, 1.f), x, pixel_at(from, s.half));
		add_value(to, fmaxf(pixels - 1, 0.f), x + wide, pixel_at(from + 1, s.half));
	}
}

static __device__ __forceinline__ void cell_edge(
	const Lines &s, const Segment &g, Next next, float wide, Moments *to)
{
	const float4 *line = g.line - g.base;
	for (int k = 0; k < g.end; k++, line += s.plane) {
		const float at = fmaf((float)k, g.rate, g.f), lowest = floorf(at);
		const float pixels = floorf(fmaf((float)k, g.rate, next.f)) - lowest + next.more;
		const float x = fmaf(wide, lowest - at, wide);
		const int i = g.base + (int)lowest + 1;
		add_value(to, fminf(pixels, 1.f), x, pixel_of(s, line, i));
		add_value(to, fmaxf(pixels - 1, 0.f), x + wide, pixel_of(s, line, i + 1));
	}
}

/* Distances past the line, and their squares, times the pixels that only the lines of some slices
 * have passed; in pixels. */
typedef struct {
	float far[SLICES], square[SLICES];
} Passed;

static __device__ __forceinline__ void add_passed(
	const Lines &s, const KinkPlane &k, const float offset[SLICES], Passed *to)
{
	const Pixel v = pixel_of(s, k.line, k.i);
#pragma unroll
	for (int j = 0; j < SLICES; j++) {
		const float d = __saturatef(k.f + offset[j]), dv = d * v.x[j];
		to->far[j] += dv;
		to->square[j] = fmaf(d, dv, to->square[j]);
	}
}

/* Sums of the cell between two lines, and of the pixels that pass the first. */
static __device__ __forceinline__ void follow_cell(const Lines &s, const Kinks &kinks,
	const Track &t, int64_t q, float wide, int planes, Moments *sums, Passed *passed)
{
	const double p = line_at(t, q);
	for (int k0 = 0; k0 < planes; k0 += SEGMENT) {
		const double start = segment_start(p, t.rate, k0),
			     two = segment_start(line_at(t, q + 1), t.rate, k0),
			     whole = floor(start);
		const double change = SEGMENT * t.rate, least = start + fmin(0., change),
			     most = two + fmax(0., change);
		const Segment g = {s.from + (int64_t)k0 * s.plane + (int64_t)whole,
			(float)(start - whole), (float)t.rate, (int)whole,
			min((int)SEGMENT, planes - k0)};
		const Next next = {(float)(floor(two) - whole), (float)(two - floor(two))};
		if (least > 0.01 && most < s.n - 2.01)
			cell_inside(s, g, next, wide, sums);
		else if (most > -2 && least < s.n)
			cell_edge(s, g, next, wide, sums);
	}
	for (Kink k = first_kink(kinks, p, planes); k.plane < planes; k = next_kink(kinks, k))
		add_passed(s, kink_plane(s, p, t.rate, k.plane), t.offset, passed);
}

/* What slice j adds to three columns. */
static __device__ __forceinline__ void words_of(
	const Moments &m, const Passed &passed, int j, float shift, float wide, float words[WORDS])
{
	const float b = fmaf(-shift, m.a[j], m.b[j]),
		    c = fmaf(-shift, m.b[j] + b, m.c[j]); /* at the position of this slice */
	const float far = wide * passed.far[j], square = wide * wide * passed.square[j];
	words[OWN] = m.a[j] - b - 2 * far;
	words[RIGHT] = b + far;
	words[LEFT] = far;
	words[OWN_FAR] = b - c + 2 * square;
	words[RIGHT_FAR] = c - b - far - square;
	words[LEFT_FAR] = far - square;
}

/* Whether pixels of eight slices around a line may fall on the detector. */
static __device__ bool meets_rows(const Rolled &s, const Course &v, int64_t q, double slice)
{
	enum { MARGIN = 3 }; /* columns, and more than a row */
	const double row = fma(v.rs, (double)(q - 1), fma(v.rn, slice, v.r0)),
		     last = row + (SLICES - 1) * v.rn, more = MARGIN * fabs(v.rs) + 2;
	return fmin(row, last) - more < (double)s.rows && fmax(row, last) + more > 0;
}

static __global__ void __launch_bounds__(TILE *GROUP *ROWS, 2)
	cell_sums(const __grid_constant__ Rolled s)
{
	__shared__ Steps steps[GROUP];
	__shared__ Kinks kinks[GROUP];
	const RolledThread t = rolled_thread();
	const int64_t lines = s.columns + 2;
	const Course v = s.views[t.view < s.count ? t.view : 0];
	const double slice = (double)(s.volume.low + blockIdx.z * SLICES);
	const int planes = v.along ? s.volume.na : s.volume.nb;
	const Track track = track_of(s, v, slice);
	find_kinks(
		track.rate, planes, fmaxf(track.offset[0], track.offset[SLICES - 1]), steps, kinks);
	if (t.line >= lines || t.view >= s.count || !meets_rows(s, v, t.line, slice))
		return;
	Moments sums = {};
	Passed passed = {};
	const float wide = (float)v.si, weight = (float)v.weight;
	follow_cell(rolled_lines(s.volume, blockIdx.z, !v.along), kinks[threadIdx.y % GROUP], track,
		t.line, wide, planes, &sums, &passed);
	float words[SLICES][WORDS];
#pragma unroll
	for (int j = 0; j < SLICES; j++)
		words_of(sums, passed, j, track.offset[j] * wide, wide, words[j]);
	float4 *to = s.sums + (t.view * lines + t.line) * s.volume.eights * 2 + blockIdx.z * 2;
#pragma unroll
	for (int w = 0; w < WORDS; w++)
#pragma unroll
		for (int h = 0; h < SLICES; h += QUAD)
			to[w * s.count * lines * s.volume.eights * 2 + h / QUAD] =
				make_float4(weight * words[h][w], weight * words[h + 1][w],
					weight * words[h + 2][w], weight * words[h + 3][w]);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Row of slice n at a column; the same operations wherever its integer part decides. */
static __device__ __forceinline__ double row_at(const Course &v, double column, double n)
{
	return fma(v.rs, column, fma(v.rn, n, v.r0));
}

static __device__ __forceinline__ int64_t place_of(
	const Rolled &s, const Course &v, int64_t view, int64_t row, int64_t column)
{
	return (view * s.rows + row) * s.columns + (v.mirrored ? s.columns - 1 - column : column);
}

typedef struct {
	float sum, far;
} ColumnSum;

/* Sums of all lines for slice n of the pass and a column. */
static __device__ ColumnSum column_sum(const Rolled &s, int64_t view, int64_t column, int n)
{
	const int64_t lines = s.columns + 2, pitch = s.volume.eights * SLICES,
		      word = s.count * lines * pitch;
	const float *own = (const float *)s.sums + (view * lines + column + 1) * pitch + n;
	const float *left = own - pitch, *right = own + pitch;
	return ColumnSum{own[OWN * word] + left[RIGHT * word] + right[LEFT * word],
		own[OWN_FAR * word] + left[RIGHT_FAR * word] + right[LEFT_FAR * word]};
}

/* Adds to a row what the slices around it have in a column. */
static __device__ float row_sum(
	const Rolled &s, const Course &v, const ColumnSum *of, int64_t column, int64_t row)
{
	const double middle =
		((double)row - row_at(v, (double)column, (double)s.volume.low)) / v.rn;
	const double reach = 1 / fabs(v.rn), last = (double)(s.volume.slices - 1);
	const int first = (int)fmin(fmax(floor(middle - reach), 0.), last + 1),
		  end = (int)fmin(fmax(ceil(middle + reach), -1.), last);
	float sum = 0;
	for (int n = first; n <= end; n++) {
		const double at = row_at(v, (double)column, (double)(s.volume.low + n)),
			     below = floor(at), far = (double)row - below;
		const float g = (float)(at - below), rs = (float)v.rs;
		if (far == 0)
			sum += (1 - g) * of[n].sum - rs * of[n].far;
		else if (far == 1)
			sum += g * of[n].sum + rs * of[n].far;
	}
	return sum;
}

/* Block: TILE columns of one view. Shared memory: [column][slice]. */
static __global__ void __launch_bounds__(TILE *HIGH) slice_rows(const __grid_constant__ Rolled s)
{
	extern __shared__ ColumnSum tile[];
	const int64_t first = (int64_t)blockIdx.x * TILE, column = first + threadIdx.x;
	const int slices = (int)s.volume.slices, pitch = slices | 1;
	const int thread = threadIdx.y * TILE + threadIdx.x;
	const int64_t view = blockIdx.y;
	const Course v = s.views[view];
	for (int i = thread; i < TILE * slices; i += TILE * HIGH)
		if (first + i / slices < s.columns)
			tile[i / slices * pitch + i % slices] =
				column_sum(s, view, first + i / slices, i % slices);
	__syncthreads();
	const double one = row_at(v, (double)first, (double)s.volume.low),
		     across = v.rs * (TILE - 1), along = v.rn * (slices - 1);
	const double low = one + fmin(across, 0.) + fmin(along, 0.),
		     high = one + fmax(across, 0.) + fmax(along, 0.);
	const int64_t begin = (int64_t)fmax(floor(low) - 1, 0.),
		      end = (int64_t)fmin(floor(high) + 2, (double)(s.rows - 1));
	if (column < s.columns)
		for (int64_t row = begin + threadIdx.y; row <= end; row += HIGH)
			s.to[place_of(s, v, view, row, column)] +=
				row_sum(s, v, tile + threadIdx.x * pitch, column, row);
}

/* ---- where rows are crossed ------------------------------------------------------------------ */

/* Slice n crosses `row` between a column and the next, at the part `at` of the way. */
typedef struct {
	int64_t column, row;
	double at;
} Crossing;

/* The i-th crossing from column -1 on; false if there is none on the detector. */
static __device__ bool find_crossing(
	const Rolled &s, const Course &v, double n, int64_t i, Crossing *to)
{
	const double start = floor(row_at(v, -1, n)), rises = v.rs > 0 ? 1 : -1;
	const double row = v.rs > 0 ? start + 1 + (double)i : start - (double)i;
	const double guess = (row - row_at(v, 0, n)) / v.rs;
	if (!(guess > -3 && guess < (double)s.columns + 2))
		return false;
	double column = floor(guess) - 1; /* the last with fewer crossings than i + 1 */
	while (rises * (floor(row_at(v, column + 1, n)) - start) < (double)(i + 1))
		column++;
	if (!(column >= -1 && column < (double)s.columns))
		return false;
	*to = Crossing{(int64_t)column, (int64_t)row, (row - row_at(v, column, n)) / v.rs};
	return true;
}

/* Sums over every HIGH-th plane of the pixels of slice n between the columns, times the part of a
 * row past the crossing: of those after it for the first column, of those before it for the
 * second. */
typedef struct {
	float first, second;
} CrossedSums;

static __device__ CrossedSums crossed_sums(
	const Rolled &s, const Course &v, const Crossing &x, int64_t n)
{
	const Track t = track_of(s, v, (double)n);
	const double least = fmin(0., (SLICES - 1) * -v.sn * t.step);
	const int place = (int)(n - s.volume.low);
	const Lines lines = rolled_lines(s.volume, place / SLICES, !v.along);
	const float *from =
		(const float *)(lines.from + place / QUAD % 2 * lines.half) + place % QUAD;
	const int planes = v.along ? s.volume.na : s.volume.nb;
	const float wide = (float)v.si, at = (float)x.at;
	CrossedSums sums = {0, 0};
	for (int k = threadIdx.y; k < planes; k += HIGH) {
		const double p = segment_start(line_at(t, x.column + 1) - least, t.rate, k),
			     whole = floor(p);
		if (!(whole > -4 && whole < (double)lines.n))
			continue;
		for (int i = 1; i <= 2; i++) {
			const float y = (float)(whole - p + i) * wide;
			const int pixel = (int)whole + i;
			if (y >= 1 || pixel < 0 || pixel >= lines.n)
				continue;
			const float value = from[((int64_t)k * lines.plane + pixel) * QUAD];
			sums.first += (1 - y) * fmaxf(y - at, 0.f) * value;
			sums.second += y * fmaxf(at - y, 0.f) * value;
		}
	}
	const float scale = (float)(v.weight * fabs(v.rs));
	return CrossedSums{scale * sums.first, scale * sums.second};
}

static __device__ void add_crossed(
	const Rolled &s, const Course &v, int64_t view, int64_t row, int64_t column, float sum)
{
	if (column < 0 || column >= s.columns)
		return;
	for (int i = -1; i <= 1; i++)
		if (row + i >= 0 && row + i < s.rows)
			atomicAdd(s.to + place_of(s, v, view, row + i, column),
				i == 0 ? -2 * sum : sum);
}

/* A thread has one slice and every HIGH-th plane. */
static __global__ void __launch_bounds__(TILE *HIGH) crossed_rows(const __grid_constant__ Rolled s)
{
	const int64_t n = (int64_t)blockIdx.z * TILE + threadIdx.x, i = blockIdx.x;
	const Course v = s.views[blockIdx.y];
	Crossing x;
	if (n >= s.volume.slices || fabs(v.rs) < 1e-12 ||
		!find_crossing(s, v, (double)(s.volume.low + n), i, &x) || x.row < -1 ||
		x.row > s.rows)
		return;
	const CrossedSums sums = crossed_sums(s, v, x, s.volume.low + n);
	add_crossed(s, v, blockIdx.y, x.row, x.column, sums.first);
	add_crossed(s, v, blockIdx.y, x.row, x.column + 1, sums.second);
}

#endif
