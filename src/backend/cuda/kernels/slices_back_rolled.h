/* Back projection of rolled views from their records (rolled_records.h). A thread has one slice and a
 * line of pixels; it keeps a record from pixel to pixel until it passes the end of it. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_SLICES_BACK_ROLLED_H
#define TOMOS_BACKEND_CUDA_KERNELS_SLICES_BACK_ROLLED_H

#include <cuda_pipeline.h>
#include "backend/cuda/kernels/rolled_records.h"

enum {
	MOST_BATCH = 4, /* views in shared memory */
	CENTRES = LANES,
	BENDS = LINES * CENTRES + 1, /* of a slice; odd, for different banks */
	QUANTA = 1 << 22             /* of a pixel: exact in floats less than four */
};

typedef enum { SEEN_NOT, SEEN_PLAIN, SEEN_CROSSED } SeenKind;

/* A view as a block sees it, by slice: its first pixel is at column s, counted from a column of the
 * block, and its record is `more` further on, for rows that are crossed before. SEEN_CROSSED: rows
 * are crossed within the block, and `more` is the rising row at column s = 0 instead. Records are
 * found with doubles there: columns and rows may be crossed at nearly the same point. */
typedef struct {
	double s[LANES], more[LANES], si, sj, rs, start; /* start: column -1 */
	int base, first;                                 /* column of s = 0; first record */
	SeenKind kind;
} Seen;

static __device__ __forceinline__ int least_of_warp(int value)
{
	for (int apart = LANES / 2; apart > 0; apart /= 2)
		value = min(value, __shfl_xor_sync(~0u, value, apart));
	return value;
}

/* First pixel of the lines of a block: of joseph the one before those it has. */
template <bool JOSEPH> static __device__ __forceinline__ int first_pixel(void)
{
	return (int)blockIdx.x * PIXELS<JOSEPH> - (JOSEPH ? 1 : 0);
}

/* Finds which records a block needs of a view. One warp, a slice each. */
template <bool JOSEPH> static __device__ void find_view(const Rolled &s, int64_t view, Seen *to)
{
	const int lane = threadIdx.x % LANES;
	if (view >= s.count || s.views[view].along != s.along) {
		to->kind = SEEN_NOT;
		return;
	}
	const Course v = s.views[view];
	const int i = s.along, j = 1 - i;
	const double n = (double)(s.low[2] + blockIdx.z * LANES + lane),
		     pixel = (double)(s.low[i] + first_pixel<JOSEPH>()),
		     line = (double)(s.low[j] + (int64_t)blockIdx.y * LINES);
	const double at = fma(v.si, pixel, fma(v.sj, line, fma(v.sn, n, v.s0)));
	const double low = at + fmin(0., v.sj * (LINES - 1)),
		     high = at + v.si * (LANES - 1) + fmax(0., v.sj * (LINES - 1));
	const double end = (double)s.columns, bounded = fmin(fmax(low, -(double)MARGIN), end);
	const double rows[2] = {
		fma(v.rs, low, fma(v.rn, n, v.r0)), fma(v.rs, high, fma(v.rn, n, v.r0))};
	const double reach = JOSEPH ? fabs(v.rn) : 1;
	const bool meets = high > -1 && low < end && fmax(rows[0], rows[1]) > -reach &&
			   fmin(rows[0], rows[1]) < (double)s.rows - 1 + reach;
	if (!__any_sync(~0u, meets)) {
		to->kind = SEEN_NOT;
		return;
	}
	const int before = JOSEPH ? 0 : crossings(v, s.columns, low, n),
		  after = JOSEPH ? 0 : crossings(v, s.columns, high, n);
	const int base = least_of_warp((int)floor(bounded)), /* column of s = 0 */
		first = least_of_warp((int)floor(bounded) + MARGIN + before),
		  shift = first - MARGIN - base;
	const bool crossed = __any_sync(~0u, before != after);
	to->s[lane] = at - base;
	to->more[lane] = crossed ? rising_row(v, base, n) - floor(rising_row(v, -1, n)) - shift
				 : (double)(before - shift);
	if (lane == 0) {
		to->si = v.si;
		to->sj = v.sj;
		to->rs = fabs(v.rs);
		to->start = -1 - base;
		to->base = base;
		to->first = first;
		to->kind = crossed ? SEEN_CROSSED : SEEN_PLAIN;
	}
}

/* A record: a + f b + f^2 c, f from its column; distance of the pixel from the next row, where rows
 * are crossed; addresses in shared memory of b and c, and of a. */
typedef struct {
	float a, b, c, f, row;
	unsigned at, constant;
} Record;

/* Goes on to the next record if the pixel is past a column: the value there is the constant of the
 * next one. Predicated: a branch would cost more than what it skips. */
static __device__ __forceinline__ void pass_column(Record *r)
{
	asm volatile("{\n\t"
		     ".reg .pred p;\n\t"
		     "setp.ge.f32 p, %3, 0f3f800000;\n\t"
		     "@p add.f32 %3, %3, 0fbf800000;\n\t"
		     "@p add.u32 %4, %4, %5;\n\t"
		     "@p add.f32 %0, %0, %1;\n\t"
		     "@p add.f32 %0, %0, %2;\n\t"
		     "@p ld.shared.v2.f32 {%1, %2}, [%4];\n\t"
		     "}"
		     : "+f"(r->a), "+f"(r->b), "+f"(r->c), "+f"(r->f), "+r"(r->at)
		     : "n"(RECORD<false> * 4));
}

/* The same past a column, a row, or both; rows are `wide` apart. */
static __device__ __forceinline__ void pass_row(Record *r, float wide)
{
	asm volatile("{\n\t"
		     ".reg .pred p, q, any;\n\t"
		     "setp.ge.f32 p, %3, 0f3f800000;\n\t"
		     "setp.le.f32 q, %4, 0f00000000;\n\t"
		     "setp.le.or.f32 any, %4, 0f00000000, p;\n\t"
		     "@p add.f32 %3, %3, 0fbf800000;\n\t"
		     "@q add.f32 %4, %4, %7;\n\t"
		     "@p add.u32 %5, %5, %8;\n\t"
		     "@q add.u32 %5, %5, %8;\n\t"
		     "@p add.u32 %6, %6, %8;\n\t"
		     "@q add.u32 %6, %6, %8;\n\t"
		     "@any ld.shared.v2.f32 {%1, %2}, [%5];\n\t"
		     "@any ld.shared.f32 %0, [%6];\n\t"
		     "}"
		     : "+f"(r->a), "+f"(r->b), "+f"(r->c), "+f"(r->f), "+f"(r->row), "+r"(r->at),
		     "+r"(r->constant)
		     : "f"(wide), "n"(RECORD<false> * 4));
}

static __device__ __forceinline__ Record record_at(const float *record, float f, float row)
{
	const int lane = threadIdx.x % LANES;
	const float2 *at = (const float2 *)record + lane;
	const float *constant = record + 2 * LANES + lane;
	return Record{*constant, at->x, at->y, f, row, (unsigned)__cvta_generic_to_shared(at),
		(unsigned)__cvta_generic_to_shared(constant)};
}

static __device__ __forceinline__ float add_pixel(float sum, const Record &r)
{
	return fmaf(fmaf(r.c, r.f, r.b), r.f, sum) + r.a;
}

static __device__ __forceinline__ void add_plain(
	const Seen &v, const float *records, int line, float sums[PIXELS<false>])
{
	const int lane = threadIdx.x % LANES;
	const float s = fmaf((float)line, (float)v.sj, (float)v.s[lane]),
		    whole = fmaxf(floorf(s), 0.f), si = (float)v.si;
	const int place = (int)whole + (int)v.more[lane];
	Record r = record_at(records + place * RECORD<false>, s - whole, 0);
#pragma unroll
	for (int i = 0; i < PIXELS<false>; i++) {
		sums[i] = add_pixel(sums[i], r);
		r.f += si;
		pass_column(&r);
	}
}

/* The same where rows are crossed. */
static __device__ __forceinline__ void add_crossed(
	const Seen &v, const float *records, int line, float sums[PIXELS<false>])
{
	const int lane = threadIdx.x % LANES;
	const double s = fma((double)line, v.sj, v.s[lane]), whole = fmax(floor(s), 0.);
	const double row = fma(v.rs, s, v.more[lane]), crossed = s < v.start ? 0 : floor(row);
	const int place = max((int)(whole + crossed), 0);
	const float si = (float)v.si, wide = (float)(1 / v.rs);
	Record r = record_at(records + place * RECORD<false>, (float)(s - whole),
		(float)((crossed + 1 - row) / v.rs));
#pragma unroll
	for (int i = 0; i < PIXELS<false>; i++) {
		sums[i] = add_pixel(sums[i], r);
		r.f += si;
		r.row -= si;
		pass_row(&r, wide);
	}
}

/* ---- joseph ---------------------------------------------------------------------------------- */

/* A ray: sum and moment, and how far it is from the next pixel. */
typedef struct {
	float sum, moment, e;
	unsigned at;
} Ray;

/* Adds a ray that is less than a pixel from `left` to the pixels around it, and goes on to the next
 * one, `apart` pixels on. */
static __device__ __forceinline__ void meet_ray(Ray *r, float apart, float *left, float *right)
{
	asm volatile(
		"{\n\t"
		".reg .pred p;\n\t"
		".reg .f32 share, rest;\n\t"
		"setp.lt.f32 p, %2, 0f3f800000;\n\t"
		"fma.rn.f32 share, %0, %2, %1;\n\t"
		"@p add.f32 %5, %5, share;\n\t"
		"sub.f32 rest, %0, share;\n\t"
		"@p add.f32 %4, %4, rest;\n\t"
		"@p add.f32 %2, %2, %6;\n\t"
		"@p add.u32 %3, %3, %7;\n\t"
		"@p ld.shared.v2.f32 {%0, %1}, [%3];\n\t"
		"}"
		: "+f"(r->sum), "+f"(r->moment), "+f"(r->e), "+r"(r->at), "+f"(*left), "+f"(*right)
		: "f"(apart), "n"(RECORD<true> * 4));
}

/* Where the rays of a line are, exactly: that of column c, counted as Seen.s, is first + c apart
 * quanta from pixel 0. whole: column before pixel 0. */
typedef struct {
	int first, apart, whole;
} Positions;

/* Distances are rounded; the ray in the middle of the line is where it should be. */
static __device__ __forceinline__ Positions positions_of(const Seen &v, int line)
{
	const double s = fma((double)line, v.sj, v.s[threadIdx.x % LANES]);
	const double exact = (double)QUANTA / v.si, middle = 0.5 * PIXELS<true>;
	const int apart = __double2int_rn(exact), whole = (int)fmax(floor(s), 0.);
	const double first = middle * (exact - apart) - s * exact;
	return Positions{
		__double2int_rn(first + (whole + 1) * exact) - (whole + 1) * apart, apart, whole};
}

static __device__ __forceinline__ void add_rays(
	const Seen &v, const float *records, int line, float sums[PIXELS<true>])
{
	const Positions p = positions_of(v, line);
	const float far = (float)p.apart / QUANTA;
	const float2 *at = (const float2 *)(records + p.whole * RECORD<true>)+threadIdx.x % LANES;
	Ray r = {at->x, at->y, (float)(p.first + (p.whole + 1) * p.apart) / QUANTA,
		(unsigned)__cvta_generic_to_shared(at)};
	float left = 0, right = 0; /* of the line */
	meet_ray(&r, far, &left, &sums[0]);
#pragma unroll
	for (int i = 1; i < PIXELS<true>; i++) {
		r.e -= 1;
		meet_ray(&r, far, &sums[i - 1], &sums[i]);
	}
	r.e -= 1;
	meet_ray(&r, far, &sums[PIXELS<true> - 1], &right);
}

/* How far ray c is past centre k in slice n, in quanta; of slices next to the group as good as
 * needed. */
static __device__ __forceinline__ int ray_past(const Positions &p, int c, int k, int n)
{
	const int near = min(max(n, 0), LANES - 1), other = n < near ? 1 : LANES - 2;
	const int one = __shfl_sync(~0u, p.first, near), two = __shfl_sync(~0u, p.first, other);
	return one + (n == near ? 0 : one - two) + c * p.apart - k * QUANTA;
}

/* Adds to the slices n and n + 1 the rays of column c between them that a centre separates from
 * their own slice; it is at the height n + part. */
static __device__ __forceinline__ void add_between(
	const Rolled &s, const Course &v, int64_t view, int c, int n, float part, float *bends)
{
	const double row = fma(v.rs, (double)c, fma(v.rn, (double)(s.low[2] + n), v.r0));
	const double low = fmin(row, row + v.rn), high = fmax(row, row + v.rn);
	const int64_t column = v.mirrored ? s.columns - 1 - c : c;
	const float scale = (float)(v.weight * fabs(v.sn) / v.si);
	const int own = n - (int)blockIdx.z * LANES;
	if (c < 0 || c >= s.columns)
		return;
	for (double r = fmax(floor(low) + 1, 0.); r < high && r < (double)s.rows; r++) {
		const float y = __ldg(s.scan + (view * s.rows + (int64_t)r) * s.columns + column),
			    at = (float)((r - row) / v.rn);
		const int to = at < part ? own + 1 : own;
		const float weight = at < part ? at : 1 - at;
		if (to >= 0 && to < LANES)
			bends[to * BENDS] += scale * fabsf(at - part) * weight * y;
	}
}

/* The second differences that rays on the other side of a centre than that of their slice add to
 * the pixels around it. A lane has a centre. */
static __device__ __forceinline__ void add_bends(
	const Rolled &s, const Seen &v, int64_t view, int line, float *bends)
{
	const Positions p = positions_of(v, line);
	const Course &course = s.views[view];
	const int k = threadIdx.x % LANES, low = (int)blockIdx.z * LANES;
	const float sn = (float)course.sn,
		    at = fmaf((float)k, (float)v.si, fmaf((float)line, (float)v.sj, (float)v.s[0]));
	const float one = at - sn, two = at + sn * LANES;
	if (!(fabsf(sn) > 1e-6f)) /* the rays of a slice are at the same place */
		return;
	int c = (int)ceilf(fminf(one, two) - 1e-4f);
	const int last = (int)floorf(fmaxf(one, two) + 1e-4f);
	for (; __any_sync(~0u, c <= last); c++) {
		const float height = fminf(fmaxf(((float)c - at) / sn, -1.f), LANES - 0.5f);
		int n = (int)floorf(height);
		int below = ray_past(p, c, k, n), above = ray_past(p, c, k, n + 1);
		if (__any_sync(~0u, (below < 0) == (above < 0))) {
			/* Rounding: the centre may be next to a slice, or outside the group. */
			const int shift = (below < 0) != (above < 0) ? 0
					  : height - (float)n < 0.5f ? -1
								     : 1;
			n += shift;
			below = ray_past(p, c, k, n), above = ray_past(p, c, k, n + 1);
		}
		if (c <= last && (below < 0) != (above < 0) && n >= -1 && n < LANES &&
			n + low < s.slices)
			add_between(s, course, view, c + v.base, n + low,
				(float)below / (float)(below - above), bends + k);
	}
}

/* ---- all views ------------------------------------------------------------------------------- */

/* Starts to copy the records that a block needs of some views; a warp each. */
template <bool JOSEPH>
static __device__ void find_batch(const Rolled &s, int batch, Seen *seen, float *records)
{
	const int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
	const int64_t view = (int64_t)batch * s.batch + warp, group = view * s.groups + blockIdx.z;
	if (warp < s.batch) {
		find_view<JOSEPH>(s, view, &seen[warp]);
		__syncwarp();
		const int64_t first = group * s.length + seen[warp].first;
		const float4 *from = (const float4 *)(s.records + first * RECORD<JOSEPH>);
		float4 *to = (float4 *)(records + warp * s.window * RECORD<JOSEPH>);
		if (seen[warp].kind != SEEN_NOT)
			for (int k = lane; k < s.window * RECORD<JOSEPH> / 4; k += LANES)
				__pipeline_memcpy_async(to + k, from + k, sizeof(float4));
	}
	__pipeline_commit();
}

template <bool JOSEPH>
static __device__ __forceinline__ void write_line(
	const Rolled &s, bool add, int line, const float *sums)
{
	const int i0 = (int)blockIdx.x * PIXELS<JOSEPH>, j = (int)blockIdx.y * LINES + line;
	const int64_t pitch = (int64_t)s.groups * LANES,
		      step = s.along == 0 ? pitch : pitch * s.n[0];
	float *to = s.to + i0 * step + j * (s.along == 0 ? pitch * s.n[0] : pitch) +
		    blockIdx.z * LANES + threadIdx.x % LANES;
	if (j < s.n[1 - s.along])
#pragma unroll
		for (int i = 0; i < PIXELS<JOSEPH>; i++)
			if (i0 + i < s.n[s.along])
				to[i * step] = add ? to[i * step] + sums[i] : sums[i];
}

template <bool JOSEPH>
static __global__ void __launch_bounds__(LANES *LINES, 2)
	rolled_lines(const __grid_constant__ Rolled s)
{
	extern __shared__ float4 space[];
	__shared__ Seen seen[2][MOST_BATCH];
	const int line = threadIdx.x / LANES, size = s.window * RECORD<JOSEPH>,
		  batches = (int)((s.count - 1) / s.batch + 1);
	float *records = (float *)space, sums[PIXELS<JOSEPH>] = {0};
	find_batch<JOSEPH>(s, 0, seen[0], records);
	for (int batch = 0; batch < batches; batch++) {
		const int own = batch % 2;
		__pipeline_wait_prior(0);
		__syncthreads();
		if (batch + 1 < batches)
			find_batch<JOSEPH>(
				s, batch + 1, seen[1 - own], records + (1 - own) * s.batch * size);
#pragma unroll 1
		for (int k = 0; k < s.batch; k++) {
			const Seen &v = seen[own][k];
			const float *from = records + (own * s.batch + k) * size;
			if (v.kind == SEEN_NOT)
				continue;
			if constexpr (JOSEPH)
				add_rays(v, from, line, sums);
			else if (v.kind == SEEN_PLAIN)
				add_plain(v, from, line, sums);
			else
				add_crossed(v, from, line, sums);
		}
	}
	write_line<JOSEPH>(s, s.add, line, sums);
}

/* Adds the bends of all views. */
static __global__ void __launch_bounds__(LANES *LINES, 2)
	rolled_bends(const __grid_constant__ Rolled s)
{
	extern __shared__ float4 space[];
	__shared__ Seen seen[LINES];
	const int lane = threadIdx.x % LANES, line = threadIdx.x / LANES;
	float *all = (float *)space, *bends = all + line * CENTRES, sums[PIXELS<true>];
	for (int i = threadIdx.x; i < LANES * BENDS; i += LANES * LINES)
		all[i] = 0;
	for (int64_t first = 0; first < s.count; first += LINES) {
		__syncthreads();
		find_view<true>(s, first + line, &seen[line]);
		__syncthreads();
#pragma unroll 1
		for (int k = 0; k < LINES; k++)
			if (seen[k].kind != SEEN_NOT)
				add_bends(s, seen[k], first + k, line, bends);
	}
	__syncwarp();
#pragma unroll
	for (int i = 0; i < PIXELS<true>; i++) {
		const float *at = bends + lane * BENDS + i;
		sums[i] = at[0] - 2 * at[1] + at[2];
	}
	write_line<true>(s, true, line, sums);
}

#endif
