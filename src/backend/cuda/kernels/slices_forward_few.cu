/* Forward projection of few views of in-slice rays (slices_few.h), bound by reading the volume
 * once. */
#include <cuda_pipeline.h>
#include "backend/cuda/kernels/slices_few.h"

enum {
	WIDE = 32,
	HIGH = 8,
	SEGMENT = 32,
	SLICES = 2,      /* slices per thread */
	WARPS_EACH = 24, /* warps wanted per SM */
	BATCH = 8,       /* planes loaded together */
	WARPS = 2,
	LINES = 64,       /* lines (or pixels) of a buffer: a power of two */
	BAND = 56,        /* most lines that a warp's rays meet in one plane */
	SLICES_ALONG = 2, /* slices per warp */
	WARPS_ACROSS = 4,
	SLICES_ACROSS = 2,
	AHEAD = 3, /* number of stages, one of them in use */
	STAGE_PLANES = 8
};

/* The pixels that a thread's ray crosses: `planes` lines of n pixels, in `slices` slices. */
typedef struct {
	const float *from;
	int planes, n, slices;
	int64_t step, plane, apart; /* strides of pixels, lines and slices */
} Way;

/* Adds one plane in which taps may be outside. at: position of the ray relative to pixel `base`. */
template <int T, int N>
static __device__ void cross_edge(
	const Way &way, const float *line, int base, float at, float inverse, float sum[N])
{
	float lowest = hat_first<T>(at), w[T];
	int i = base + (int)lowest;
	weights_of<T>(at - lowest, inverse, w);
#pragma unroll
	for (int t = 0; t < T; t++)
		if ((unsigned)(i + t) < (unsigned)way.n)
#pragma unroll
			for (int k = 0; k < N; k++)
				if (k < way.slices)
					sum[k] = fmaf(w[t],
						__ldg(line + (i + t) * way.step + k * way.apart),
						sum[k]);
}

/* Adds BATCH planes from plane k of the segment on; all loads are issued before the first is
 * used. */
template <int T, int N>
static __device__ __forceinline__ void cross(
	const Way &way, const float *line, float f, float rate, int k, float inverse, float sum[N])
{
	float value[BATCH][T][N], away[BATCH];
#pragma unroll
	for (int j = 0; j < BATCH; j++, line += way.plane) {
		float at = fmaf((float)(k + j), rate, f), lowest = hat_first<T>(at);
		const float *here = line + (int)lowest * way.step;
		away[j] = at - lowest;
#pragma unroll
		for (int i = 0; i < N; i++)
#pragma unroll
			for (int t = 0; t < T; t++)
				value[j][t][i] = __ldg(here + i * way.apart + t * way.step);
	}
#pragma unroll
	for (int j = 0; j < BATCH; j++) {
		float w[T];
		weights_of<T>(away[j], inverse, w);
#pragma unroll
		for (int t = 0; t < T; t++)
#pragma unroll
			for (int i = 0; i < N; i++)
				sum[i] = fmaf(w[t], value[j][t][i], sum[i]);
	}
}

template <int T, int N>
static __device__ void follow(const Way &way, double p, double slope, float inverse, float sum[N])
{
	float rate = (float)slope;
	for (int k0 = 0; k0 < way.planes; k0 += SEGMENT) {
		double start = p + k0 * slope, last = start + SEGMENT * slope;
		double low = fmin(start, last), high = fmax(start, last);
		if (high < -2 || low > way.n + 1)
			continue;
		double whole = floor(start);
		float f = (float)(start - whole);
		const float *line = way.from + k0 * way.plane;
		int base = (int)whole, end = min(SEGMENT, way.planes - k0);
		if (end == SEGMENT && low >= 2 && high <= way.n - 3 && way.slices >= N) {
			line += base * way.step;
			for (int k = 0; k < SEGMENT; k += BATCH, line += BATCH * way.plane)
				cross<T, N>(way, line, f, rate, k, inverse, sum);
			continue;
		}
		for (int k = 0; k < end; k++, line += way.plane)
			cross_edge<T, N>(way, line, base, fmaf((float)k, rate, f), inverse, sum);
	}
}

/* SIDEWAYS: s.parts warps process parts of one ray and add their sums. */
template <int T, bool SIDEWAYS>
static __global__ void __launch_bounds__(WIDE *HIGH) few_forward(const __grid_constant__ Few s)
{
	constexpr int N = SLICES, APART = SIDEWAYS ? WIDE : 1;
	__shared__ float sums[HIGH][N][WIDE];
	const int parts = SIDEWAYS ? s.parts : 1, part = threadIdx.y % parts, view = blockIdx.z;
	int i = (SIDEWAYS ? blockIdx.y : blockIdx.x) * WIDE;
	int j = (SIDEWAYS ? blockIdx.x : blockIdx.y) * (HIGH / parts) + threadIdx.y / parts;
	int c = SIDEWAYS ? j : i + (int)threadIdx.x;
	int slice = SIDEWAYS ? i * N + (int)threadIdx.x : j * N;
	const HatView hat = s.views[view];
	double e0 = hat.e0 + hat.ea * (double)s.low_a + hat.eb * (double)s.low_b;
	double across = hat.along ? hat.ea : hat.eb, down = hat.along ? hat.eb : hat.ea;
	int planes = hat.along ? s.nb : s.na;
	int begin = part * planes / parts, end = (part + 1) * planes / parts;
	int64_t plane = hat.along ? s.vb : s.va;
	const Way way = {.from = s.volume + slice * s.vs + begin * plane,
		.planes = end - begin,
		.n = hat.along ? s.na : s.nb,
		.slices = c < s.columns ? (s.slices - slice + APART - 1) / APART : 0,
		.step = hat.along ? (SIDEWAYS ? s.va : 1) : s.vb,
		.plane = plane,
		.apart = SIDEWAYS ? WIDE : s.vs};
	float sum[N] = {0};
	if (way.slices > 0)
		follow<T, N>(way, (c - e0 - down * begin) / across, -down / across,
			(float)fabs(across) / hat.h, sum);
#pragma unroll
	for (int k = 0; k < N; k++)
		sums[threadIdx.y][k][threadIdx.x] = sum[k];
	__syncthreads();
	float *to = s.projections + view * s.pv + c * s.pc + slice * s.ps;
	for (int k = 0; k < N && k < way.slices && part == 0; k++) {
		float all = 0;
		for (int q = 0; q < parts; q++)
			all += sums[threadIdx.y + q][k][threadIdx.x];
		to[k * APART * s.ps] += hat.weight * all;
	}
}

/* Adds the sums of a warp to the projections: N slices, one column per thread. */
template <int N>
static __device__ __forceinline__ void add_sums(
	const Few &s, int view, int slice, float weight, const float sum[N])
{
	int c = blockIdx.x * WIDE + threadIdx.x;
	float *to = s.projections + view * s.pv + c + slice * s.ps;
#pragma unroll
	for (int n = 0; n < N; n++)
		if (c < s.columns && slice + n < s.slices)
			to[n * s.ps] += weight * sum[n];
}

/* Rays along b: in each plane, the pixels that the parallel rays of a warp meet are neighbours
 * in memory. They are copied to shared memory in stages of STAGE_PLANES planes, AHEAD - 1 stages
 * ahead. */
typedef float Row[LINES]; /* pixel a is element a modulo LINES */
typedef Row Stage[STAGE_PLANES][SLICES_ACROSS];

/* Pixels that a warp reads: in plane k, `wanted` pixels from floor(least + k slope) - 2 on. */
typedef struct {
	const float *slice;
	int64_t plane, apart; /* strides of planes and slices */
	int planes, n, wanted;
	double least, slope;
} Strip;

/* Copies pixels a .. a + COPIED - 1 of plane k, in all slices of the warp. */
template <int COPIED>
static __device__ __forceinline__ void copy_pixels(
	const Strip &strip, int k, int first, int a, Row *rows)
{
	bool inside = (unsigned)a < (unsigned)strip.n && k < strip.planes;
	const float *from = strip.slice + (inside ? k * strip.plane + a : 0);
	if (a - first >= strip.wanted)
		return;
#pragma unroll
	for (int n = 0; n < SLICES_ACROSS; n++)
		__pipeline_memcpy_async(&rows[n][a & (LINES - 1)],
			from + (inside ? n * strip.apart : 0), COPIED * sizeof(float),
			inside ? 0 : COPIED * sizeof(float));
}

/* Starts the copies of STAGE_PLANES planes from k on; COPIED: pixels per copy, 4 where aligned,
 * else 1. */
template <int COPIED>
static __device__ __forceinline__ void bring_stage(const Strip &strip, int k, Stage &stage)
{
	constexpr int LANES = LINES / COPIED, ROWS = LANES < WIDE ? WIDE / LANES : 1;
	double start = strip.least + k * strip.slope, whole = floor(start);
	float f = (float)(start - whole), rate = (float)strip.slope;
	int lane = threadIdx.x % LANES, row = threadIdx.x / LANES % ROWS;
#pragma unroll
	for (int j = 0; j < STAGE_PLANES; j += ROWS) {
		int first = (int)whole - 2 + (int)floorf(fmaf((float)(j + row), rate, f));
		int a = (COPIED == 4 ? first & ~3 : first) + lane * COPIED;
#pragma unroll
		for (int i = 0; i < LANES; i += WIDE)
			copy_pixels<COPIED>(
				strip, k + j + row, first, a + i * COPIED, stage[j + row]);
	}
}

/* The planes *begin .. *end - 1, in whole stages, in which the strip can meet the box. */
static __device__ void planes_of(const Strip &strip, double spread, int *begin, int *end)
{
	double one = (-2 - spread - strip.least) / strip.slope;
	double two = (strip.n + 1 - strip.least) / strip.slope;
	bool level = fabs(strip.slope) < 1e-6;
	double low = level ? 0 : fmax(fmin(one, two), 0.);
	double high = level ? strip.planes : fmin(fmax(one, two) + 1, (double)strip.planes);
	*begin = (int)fmin(low, 1e9) / STAGE_PLANES * STAGE_PLANES;
	*end = (int)fmax(ceil(high), 0.);
}

template <int T>
static __device__ __forceinline__ void cross_stage(
	const Stage &stage, double start, float rate, float inverse, float sum[SLICES_ACROSS])
{
	double whole = floor(start);
	float f = (float)(start - whole);
#pragma unroll
	for (int j = 0; j < STAGE_PLANES; j++) {
		float at = fmaf((float)j, rate, f), lowest = hat_first<T>(at), w[T];
		int a = (int)whole + (int)lowest;
		weights_of<T>(at - lowest, inverse, w);
#pragma unroll
		for (int t = 0; t < T; t++)
#pragma unroll
			for (int n = 0; n < SLICES_ACROSS; n++)
				sum[n] = fmaf(w[t], stage[j][n][(a + t) & (LINES - 1)], sum[n]);
	}
}

template <int T, int COPIED>
static __global__ void __launch_bounds__(WIDE *WARPS_ACROSS)
	few_across(const __grid_constant__ Few s)
{
	__shared__ __align__(16) Stage memory[WARPS_ACROSS][AHEAD];
	Stage *stages = memory[threadIdx.y];
	int c0 = blockIdx.x * WIDE, c = c0 + threadIdx.x, view = blockIdx.z, begin, end, at = 0;
	int slice = (blockIdx.y * WARPS_ACROSS + threadIdx.y) * SLICES_ACROSS;
	const HatView hat = s.views[view];
	if (!hat.along || slice >= s.slices)
		return;
	bool single = slice + 1 == s.slices; /* which is then met twice */
	double e0 = hat.e0 + hat.ea * (double)s.low_a + hat.eb * (double)s.low_b;
	double p = (c - e0) / hat.ea, spread = (WIDE - 1) / fabs(hat.ea);
	const Strip strip = {.slice = s.volume + slice * s.vs,
		.plane = s.vb,
		.apart = single ? 0 : s.vs,
		.planes = s.nb,
		.n = s.na,
		.wanted = (int)spread + 7,
		.least = (c0 + (hat.ea > 0 ? 0 : WIDE - 1) - e0) / hat.ea,
		.slope = -hat.eb / hat.ea};
	float sum[SLICES_ACROSS] = {0};
	planes_of(strip, spread, &begin, &end);
	for (int i = 0; i < AHEAD - 1; i++) {
		if (begin + i * STAGE_PLANES < end)
			bring_stage<COPIED>(strip, begin + i * STAGE_PLANES, stages[i]);
		__pipeline_commit();
	}
	for (int k = begin; k < end; k += STAGE_PLANES, at = (at + 1) % AHEAD) {
		int next = k + (AHEAD - 1) * STAGE_PLANES;
		__pipeline_wait_prior(AHEAD - 2);
		__syncwarp(); /* the stage is complete, the one before is free */
		if (next < end)
			bring_stage<COPIED>(strip, next, stages[(at + AHEAD - 1) % AHEAD]);
		__pipeline_commit();
		cross_stage<T>(stages[at], p + k * strip.slope, (float)strip.slope,
			(float)fabs(hat.ea) / hat.h, sum);
	}
	add_sums<SLICES_ACROSS>(s, view, slice, hat.weight, sum);
}

/* Lines that the parallel rays of a warp meet in SEGMENT planes: in plane k, `high` lines from
 * first + shift_of(k) on. */
typedef struct {
	int first, high;
	float f, rate;
} Band;

static __device__ __forceinline__ int shift_of(const Band &band, int k)
{
	return (int)floorf(fmaf((float)k, band.rate, band.f));
}

/* tile[line modulo LINES][k]: pixel of plane k. */
typedef float Tile[LINES][WIDE + 1];

/* Copies the band in SLICES_ALONG slices, line by line: one plane per thread. */
static __device__ void bring_band(
	const Few *s, const float *slice, int64_t apart, int k0, const Band &band, Tile *tiles)
{
	int lane = threadIdx.x, mine = shift_of(band, lane), end = shift_of(band, WIDE - 1);
	int low = min(end, 0), high = max(end, 0) + band.high;
	const float *from = slice + (band.first + low) * s->vb + k0 + lane;
	mine -= low;
#pragma unroll 4
	for (int i = 0; i < high - low; i++, from += s->vb) {
		int line = band.first + low + i;
		bool inside = (unsigned)line < (unsigned)s->nb && k0 + lane < s->na;
		if ((unsigned)(i - mine) < (unsigned)band.high)
#pragma unroll
			for (int n = 0; n < SLICES_ALONG; n++)
				__pipeline_memcpy_async(&tiles[n][line & (LINES - 1)][lane],
					inside ? from + n * apart : slice, sizeof(float),
					inside ? 0 : sizeof(float));
	}
	__pipeline_commit();
	__pipeline_wait_prior(0);
	__syncwarp();
}

/* Adds SEGMENT planes of a ray that starts at f above line `base`. */
template <int T>
static __device__ __forceinline__ void cross_band(
	const Tile *tiles, float f, int base, float rate, float inverse, float sum[SLICES_ALONG])
{
#pragma unroll 8
	for (int k = 0; k < SEGMENT; k++) {
		float at = fmaf((float)k, rate, f), lowest = hat_first<T>(at), w[T];
		int line = base + (int)lowest;
		weights_of<T>(at - lowest, inverse, w);
#pragma unroll
		for (int t = 0; t < T; t++)
#pragma unroll
			for (int n = 0; n < SLICES_ALONG; n++)
				sum[n] = fmaf(w[t], tiles[n][(line + t) & (LINES - 1)][k], sum[n]);
	}
}

/* Rays along a, the contiguous axis: neighbouring rays are on different lines, so that lines are
 * first copied to shared memory for coalesced reads. */
template <int T>
static __global__ void __launch_bounds__(WIDE *WARPS) few_along(const __grid_constant__ Few s)
{
	__shared__ Tile memory[WARPS][SLICES_ALONG];
	Tile *tiles = memory[threadIdx.y];
	int c0 = blockIdx.x * WIDE, c = c0 + threadIdx.x, view = blockIdx.z;
	int slice = (blockIdx.y * WARPS + threadIdx.y) * SLICES_ALONG;
	const HatView hat = s.views[view];
	if (hat.along || slice >= s.slices)
		return;
	bool single = slice + 1 == s.slices; /* which is then met twice */
	double e0 = hat.e0 + hat.ea * (double)s.low_a + hat.eb * (double)s.low_b;
	double p = (c - e0) / hat.eb, slope = -hat.ea / hat.eb, spread = (WIDE - 1) / fabs(hat.eb);
	double least = (c0 + (hat.eb > 0 ? 0 : WIDE - 1) - e0) / hat.eb;
	float inverse = (float)fabs(hat.eb) / hat.h, sum[SLICES_ALONG] = {0};
	Band band = {.high = (int)spread + 6, .rate = (float)slope};
	for (int k0 = 0; k0 < s.na; k0 += SEGMENT) {
		double start = least + k0 * slope, last = start + SEGMENT * slope;
		if (fmax(start, last) + spread < -2 || fmin(start, last) > s.nb + 1)
			continue;
		double whole = floor(start), mine = p + k0 * slope, base = floor(mine);
		band.first = (int)whole - 2;
		band.f = (float)(start - whole);
		bring_band(&s, s.volume + slice * s.vs, single ? 0 : s.vs, k0, band, tiles);
		cross_band<T>(tiles, (float)(mine - base), (int)base, band.rate, inverse, sum);
		__syncwarp();
	}
	add_sums<SLICES_ALONG>(s, view, slice, hat.weight, sum);
}

/* ---- a whole request ------------------------------------------------------------------------- */

/* Whether there are rays along a and along b; gap: most pixels between neighbouring rays. */
typedef struct {
	bool along_a, along_b;
	double gap;
} Runs;

static Runs runs_of(const ProjectRequest *what, const HatSlices *l)
{
	Runs runs = {0};
	for (int64_t i = 0; i < what->count; i++) {
		const HatView hat = hat_view(what->plan, what->first + i, l, what->kernel);
		runs.along_a = runs.along_a || !hat.along;
		runs.along_b = runs.along_b || hat.along;
		runs.gap = fmax(runs.gap, 1 / fabs(hat.along ? hat.ea : hat.eb));
	}
	return runs;
}

static bool is_aligned(const Few *s)
{
	return s->na % 4 == 0 && s->vb % 4 == 0 && s->vs % 4 == 0 && (uintptr_t)s->volume % 16 == 0;
}

/* Launches the kernels that use shared memory. */
static void start_strips(cudaStream_t stream, const Runs *runs, const Few *s, int taps)
{
	static const FewKernel along[3] = {few_along<2>, few_along<3>, few_along<4>};
	static const FewKernel across[2][3] = {
		{few_across<2, 1>, few_across<3, 1>, few_across<4, 1>},
		{few_across<2, 4>, few_across<3, 4>, few_across<4, 4>}};
	unsigned wide = cuda_blocks(s->columns, WIDE, 1 << 30), views = (unsigned)s->count;
	if (runs->along_a)
		along[taps -
			2]<<<dim3(wide, cuda_blocks(s->slices, WARPS * SLICES_ALONG, 65535), views),
			dim3(WIDE, WARPS), 0, stream>>>(*s);
	if (runs->along_b)
		across[is_aligned(s)][taps - 2]<<<
			dim3(wide, cuda_blocks(s->slices, WARPS_ACROSS * SLICES_ACROSS, 65535),
				views),
			dim3(WIDE, WARPS_ACROSS), 0, stream>>>(*s);
}

/* Warps per ray, chosen to have enough warps for the GPU. */
static int parts_of(const CudaDevice *d, const Few *s)
{
	int64_t groups = (s->slices + WIDE * SLICES - 1) / (WIDE * SLICES);
	int64_t warps = groups * s->columns * s->count;
	int parts = 1;
	while (parts < HIGH && parts * warps < WARPS_EACH * (int64_t)d->sms)
		parts *= 2;
	return parts;
}

void few_forward_start(
	const CudaDevice *d, const ProjectRequest *what, const HatSlices *l, Few *s, int taps)
{
	static const FewKernel kernels[2][3] = {
		{few_forward<2, false>, few_forward<3, false>, few_forward<4, false>},
		{few_forward<2, true>, few_forward<3, true>, few_forward<4, true>}};
	const bool sideways = l->s == 0;
	const Runs runs = runs_of(what, l);
	unsigned views = (unsigned)s->count;
	s->parts = parts_of(d, s);
	if (!sideways && (WIDE - 1) * runs.gap + 7 < (double)BAND) {
		start_strips(d->stream, &runs, s, taps);
		return;
	}
	dim3 blocks = sideways ? dim3(cuda_blocks(s->columns, HIGH / s->parts, 1 << 30),
					 cuda_blocks(s->slices, WIDE * SLICES, 65535), views)
			       : dim3(cuda_blocks(s->columns, WIDE, 1 << 30),
					 cuda_blocks(s->slices, HIGH * SLICES, 65535), views);
	kernels[sideways][taps - 2]<<<blocks, dim3(WIDE, HIGH), 0, d->stream>>>(*s);
}
