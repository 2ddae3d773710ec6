/* Back projection of stacks of fans by tensor cores, with products of four warps (wgmma): compute
 * capability 9.0.
 *
 * In one view, the weights of a square of 8 x 8 pixels and 16 neighbouring detector columns are a
 * matrix of 64 x 16 in the registers of four warps, which the tensor cores multiply by the same
 * columns x 64 slices in shared memory; a square that meets more columns takes several products. A
 * block has four squares; four producer warps copy the columns that it needs, some views at a time,
 * into a ring of buffers (stages), as in slices_back_wgmma.h. Pixel p falls on column U / D, both
 * affine in p, and the ray of column c is the line g = U - c D = 0 (fan.h).
 *
 * Data and weights are sums of two halves, and three products are added: the accuracy of float,
 * provided that sums of few views are accumulated in float, since tensor cores truncate instead of
 * rounding. Halves have a narrow range: the length of a ray, or the weight at the middle of the
 * box, is a factor of the data.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FANS_BACK_WGMMA_H
#define TOMOS_BACKEND_CUDA_KERNELS_FANS_BACK_WGMMA_H

#include "backend/cuda/kernels/fan_span.h"
#include "backend/cuda/kernels/tensor.h"
#include "backend/cuda/kernels/upright.h"
#include "kernel/voxel.h"

enum {
	SIDE = 16,   /* side of a block, in pixels */
	SQUARE = 8,  /* side of the square of a product, in pixels */
	SQUARES = 4, /* of a block */
	STEP = 16,   /* columns of a product */
	MOST_VIEWS = 32 / SQUARES,
	ADDED = 8, /* views accumulated by the tensor cores */
	STAGES_OF_RING = 4,
	SLICES = 64,
	PARTS = 2,
	LINE = SLICES * (int)sizeof(__half), /* bytes of a column */
	ENTRY = 48,                          /* bytes per square and view in the table */
	SLOT = MOST_VIEWS * SQUARES * ENTRY, /* of a stage */
	FULL = STAGES_OF_RING * SLOT,        /* offset of the barriers */
	EMPTY = FULL + 8 * STAGES_OF_RING,
	RING = EMPTY + 8 * STAGES_OF_RING,
	TAKERS = SQUARES * 128,
	THREADS = TAKERS + STAGES_OF_RING * 32,
	TAKER_REGISTERS = 112,
	BRINGER_REGISTERS = 32,
	MOST_BYTES = 227 * 1024,
	MOST_STAGE = (MOST_BYTES - RING - 1024) / STAGES_OF_RING,
	MOST_WIDE = 192 /* columns of a view in a stage */
};

typedef struct {
	TensorBack of;
	KernelGrid grid;
	KernelModel model;
	const KernelView *views;
	double middle[2];    /* of the box */
	float step[2];       /* size of a pixel */
	const float *scales; /* voxel-driven: of the weights of each view */
	int wide, together;  /* columns copied per view, a multiple of STEP; views of a stage */
} Fans;

static __host__ __device__ inline int view_bytes(int wide)
{
	return PARTS * wide * LINE;
}

/* The weight of the voxel-driven projector at the middle of the box. */
static __device__ double middle_weight(const Fans *s, const KernelView *k)
{
	const double x = s->middle[0], y = s->middle[1], depth = fan_affine(k->depth, x, y);
	if (s->model.weight == WEIGHT_NONE)
		return 1;
	if (s->model.weight == WEIGHT_DEPTH)
		return 1 / (depth * depth);
	const double dx = (x - k->src[0]) * s->grid.step[0], dy = (y - k->src[1]) * s->grid.step[1];
	return k->mass * sqrt(dx * dx + dy * dy) / (depth * depth);
}

/* What the data of each [view][column] are multiplied by; voxel-driven: also what the weights of
 * each view are multiplied by. */
template <bool JOSEPH>
static __global__ void fans_factors(const __grid_constant__ Fans s, float *to, float *scales)
{
	const int column = blockIdx.x * blockDim.x + threadIdx.x;
	if (column >= s.model.columns)
		return;
	for (int view = blockIdx.y; view < s.of.count; view += gridDim.y) {
		const KernelView *k = &s.views[view];
		const int axis = JOSEPH ? path_of(&s.grid, &s.model, k, 0, column).axis : 0;
		to[(int64_t)view * s.model.columns + column] =
			JOSEPH ? step_of(&s.grid, k, 0, column, axis) : (float)middle_weight(&s, k);
		if (!JOSEPH && column == 0)
			scales[view] = (float)((s.model.weight == WEIGHT_RAY ? k->mass : 1) /
					       middle_weight(&s, k));
	}
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Shared memory addresses of the ring of stages, and of the table with the barriers. */
typedef struct {
	unsigned data, table;
	int a, b; /* first pixel of the block */
} Ring;

/* ---- producers ------------------------------------------------------------------------------- */

/* Writes the table entry of a square: U and D of its first pixel and their changes along a and b,
 * relative to the column in the middle of its products; the place of the first of its columns in
 * shared memory, and the number of products; voxel-driven: from the source to the first pixel, and
 * the factor of the weights. base: the first column in shared memory at `data`. */
template <bool JOSEPH>
static __device__ void set_up(const Fans *s, const KernelView *k, double x, double y, float scale,
	const FanSpan &span, double base, unsigned data, unsigned entry)
{
	const double low = floor(span.low - span.reach), high = floor(span.high + span.reach);
	const int steps = min(max((int)fmin(high - low, 1e6) / STEP + 1, 1), s->wide / STEP);
	const int line = max(min((int)(low - base), s->wide - STEP * steps), 0);
	const double c = base + line + STEP / 2 * steps;
	store_floats(entry,
		make_float4((float)(fan_affine(k->column, x, y) - c * fan_affine(k->depth, x, y)),
			(float)(k->column[0] - c * k->depth[0]),
			(float)(k->column[1] - c * k->depth[1]),
			(float)fan_affine(k->depth, x, y)));
	store_floats(entry + 16,
		make_float4((float)k->depth[0], (float)k->depth[1],
			__uint_as_float((unsigned)group_matrix_wide(data + line * LINE, 0, 0)),
			__int_as_float(steps)));
	if (!JOSEPH)
		store_floats(
			entry + 32, make_float4((float)((x - k->src[0]) * s->grid.step[0]),
					    (float)((y - k->src[1]) * s->grid.step[1]), scale, 0));
}

/* Fills a stage with the views from `first` on: table entries and copies; one lane for each view
 * and square. */
template <bool JOSEPH>
static __device__ void bring_stage(
	const Fans *s, const CUtensorMap *map, const Ring *ring, int slot, int first, int lane)
{
	const int square = lane % SQUARES, v = lane / SQUARES;
	const int views = min(s->together, s->of.count - first), bytes = view_bytes(s->wide);
	const KernelView *k = &s->views[first + min(v, views - 1)];
	const double x = (double)(s->of.low_a + ring->a + square % 2 * SQUARE),
		     y = (double)(s->of.low_b + ring->b + square / 2 * SQUARE);
	const FanSpan span = fan_span<JOSEPH>(k, x, y, SQUARE);
	const unsigned data = ring->data + (slot * s->together + v) * bytes,
		       full = ring->table + FULL + 8 * slot;
	const float scale = JOSEPH ? 0 : s->scales[first + min(v, views - 1)];
	double base = (double)floorf(span.low - span.reach);
	for (int step = 1; step < SQUARES; step *= 2)
		base = fmin(base, __shfl_xor_sync(0xffffffffu, base, step));
	if (v < views)
		set_up<JOSEPH>(s, k, x, y, scale, span, base, data,
			ring->table + slot * SLOT + lane * ENTRY);
	if (lane == 0)
		bulk_expect(full, (unsigned)(views * bytes));
	else
		barrier_arrive(full);
	__syncwarp();
	/* Clamped where the block projects off the detector. */
	const int column = (int)fmax(fmin(base, (double)s->of.columns), (double)-s->wide);
	if (v < views && square < PARTS)
		bulk_copy(data + square * s->wide * LINE, map, (int)blockIdx.z * SLICES, column,
			square * s->of.count + first + v, full);
}

/* Parity of the barrier phase of stage number `stage`. */
static __device__ __forceinline__ unsigned parity_of(int stage)
{
	return stage / STAGES_OF_RING & 1;
}

/* Producer warp, one per slot of the ring: refills its slot when all warps have finished with the
 * previous contents. */
template <bool JOSEPH>
static __device__ void bring(
	const Fans *s, const CUtensorMap *map, const Ring *ring, int slot, int lane)
{
	for (int stage = slot; stage * s->together < s->of.count; stage += STAGES_OF_RING) {
		if (stage >= STAGES_OF_RING)
			barrier_wait(ring->table + EMPTY + 8 * slot, parity_of(stage) ^ 1);
		bring_stage<JOSEPH>(s, map, ring, slot, stage * s->together, lane);
	}
}

/* ---- consumers ------------------------------------------------------------------------------- */

/* The two pixels of a lane in its square, (a, b) and (a, b + 2), and its first column. */
typedef struct {
	float a, b, column;
} Lane;

static __device__ __forceinline__ Lane lane_of(int thread)
{
	const int lane = thread % 32, warp = thread / 32 % 4, g = lane / 4;
	return Lane{(float)(warp % 2 * 4 + g % 4), (float)(warp / 2 * 4 + g / 4),
		(float)(lane % 4 * 2)};
}

/* A square in a view (set_up). */
typedef struct {
	float u, ua, ub, d, da, db;
	unsigned place;
	int steps;
	float4 weight;
} Seen;

template <bool JOSEPH> static __device__ __forceinline__ Seen see(unsigned entry)
{
	const float4 one = load_floats(entry), two = load_floats(entry + 16);
	return Seen{one.x, one.y, one.z, one.w, two.x, two.y, __float_as_uint(two.z),
		__float_as_int(two.w), JOSEPH ? float4{} : load_floats(entry + 32)};
}

/* Weights of a product as two halves each; in the order of the tensor cores: two columns of both
 * pixels, then those eight columns further. */
typedef struct {
	unsigned most[4], rest[4];
} Weights;

static __device__ __forceinline__ void put_weights(float one, float two, int i, Weights *to)
{
	const __half2 most = __floats2half2_rn(one, two);
	const float2 whole = __half22float2(most);
	const __half2 rest = __floats2half2_rn(one - whole.x, two - whole.y);
	to->most[i] = *(const unsigned *)&most;
	to->rest[i] = *(const unsigned *)&rest;
}

/* Joseph's method: 1 - |g| / h, where h is the change of g from pixel to pixel across the ray. */
static __device__ __forceinline__ void weigh_rays(
	const Seen &v, const Lane &lane, float first, Weights *to)
{
	const float u = fmaf(lane.a, v.ua, fmaf(lane.b, v.ub, v.u)),
		    d = fmaf(lane.a, v.da, fmaf(lane.b, v.db, v.d));
	const float u2 = fmaf(2, v.ub, u), d2 = fmaf(2, v.db, d);
	float one[4], two[4];
#pragma unroll
	for (int i = 0; i < 4; i++) {
		const float c = first + (float)(i / 2 * 8 + i % 2);
		const float rate = inverse_nearly(
			fmaxf(fabsf(fmaf(-c, v.da, v.ua)), fabsf(fmaf(-c, v.db, v.ub))));
		one[i] = fma_saturate(-fabsf(fmaf(-c, d, u)), rate, 1);
		two[i] = fma_saturate(-fabsf(fmaf(-c, d2, u2)), rate, 1);
	}
#pragma unroll
	for (int i = 0; i < 2; i++) {
		put_weights(one[2 * i], one[2 * i + 1], 2 * i, to);
		put_weights(two[2 * i], two[2 * i + 1], 2 * i + 1, to);
	}
}

/* Voxel-driven: interpolation between two columns, times the weight of the pixel. */
static __device__ __forceinline__ void weigh_voxels(
	const Fans *s, const Seen &v, const Lane &lane, float first, Weights *to)
{
#pragma unroll
	for (int p = 0; p < 2; p++) {
		const float b = lane.b + (float)(2 * p);
		const float near = inverse_nearly(fmaf(lane.a, v.da, fmaf(b, v.db, v.d)));
		const float e = fmaf(lane.a, v.ua, fmaf(b, v.ub, v.u)) * near - first;
		float w = v.weight.z;
		if (s->model.weight != WEIGHT_NONE)
			w *= near * near;
		if (s->model.weight == WEIGHT_RAY) {
			const float x = fmaf(lane.a, s->step[0], v.weight.x),
				    y = fmaf(b, s->step[1], v.weight.y);
			w *= root_nearly(fmaf(x, x, y * y));
		}
#pragma unroll
		for (int i = 0; i < 2; i++) {
			const float c = (float)(8 * i);
			put_weights(w * __saturatef(1 - fabsf(e - c)),
				w * __saturatef(1 - fabsf(e - (c + 1))), 2 * i + p, to);
		}
	}
}

/* Starts the products of a square with 16 columns, small ones first. */
static __device__ __forceinline__ void multiply(
	float (&sums)[SLICES / 2], const Weights &w, unsigned place, int part, bool add)
{
	const uint64_t matrix = group_matrix_wide(0, 0, 8 * LINE) | place;
	group_fence();
	group_multiply_add<SLICES>(sums, w.most, matrix + part / 16, add);
	group_multiply_add<SLICES>(sums, w.rest, matrix, true);
	group_multiply_add<SLICES>(sums, w.most, matrix, true);
	group_commit();
}

/* Consumer warps. A product reads the weights from registers until it has completed: only then are
 * the next ones computed, while the tensor cores multiply for other squares. */
template <bool JOSEPH> static __device__ __forceinline__ void take(const Fans *s, const Ring *ring)
{
	float sums[SLICES / 2] = {}, part[SLICES / 2] = {};
	const Lane lane = lane_of(threadIdx.x);
	const int square = threadIdx.x / 128, stages = (s->of.count - 1) / s->together + 1;
	int view = 0;
	for (int stage = 0; stage < stages; stage++) {
		const int slot = stage % STAGES_OF_RING,
			  last = min((stage + 1) * s->together, s->of.count);
		unsigned entry = ring->table + slot * SLOT + square * ENTRY;
		barrier_wait(ring->table + FULL + 8 * slot, parity_of(stage));
		for (; view < last; view++, entry += SQUARES * ENTRY) {
			Seen v = see<JOSEPH>(entry);
			for (int i = 0; i < v.steps; i++) {
				const float first =
					lane.column + (float)(STEP * i - STEP / 2 * v.steps);
				const bool fresh = view % ADDED == 0 && i == 0;
				Weights w;
				group_wait<0>();
				if (fresh)
					tensor_add(sums, part);
				asm volatile(""
					     : "+f"(v.u), "+f"(v.d)); /* weights come after this */
				if (JOSEPH)
					weigh_rays(v, lane, first, &w);
				else
					weigh_voxels(s, v, lane, first, &w);
				multiply(part, w, v.place + i * (STEP * LINE / 16), s->wide * LINE,
					!fresh);
			}
		}
		group_wait<0>();
		if (threadIdx.x % 32 == 0)
			barrier_arrive(ring->table + EMPTY + 8 * slot);
	}
	tensor_add(sums, part);
	tensor_put(&s->of, sums, ring->a + square % 2 * SQUARE + (int)lane.a,
		ring->b + square / 2 * SQUARE + (int)lane.b);
}

template <bool JOSEPH> static __device__ void work(const Fans *s, const CUtensorMap *map)
{
	extern __shared__ unsigned char shared[];
	const unsigned memory = shared_address(shared);
	const int2 place = cluster_place((s->of.na + SIDE - 1) / SIDE);
	const unsigned data = (memory + 1023) / 1024 * 1024,
		       table = data +
			       (unsigned)(STAGES_OF_RING * s->together * view_bytes(s->wide));
	const Ring ring = {.data = data, .table = table, .a = place.x * SIDE, .b = place.y * SIDE};
	if (ring.a >= s->of.na || ring.b >= s->of.nb)
		return;
	if (threadIdx.x < STAGES_OF_RING) {
		/* Arrivals: threads of the producer warp; consumer warps. */
		barrier_init(ring.table + FULL + 8 * threadIdx.x, 32);
		barrier_init(ring.table + EMPTY + 8 * threadIdx.x, TAKERS / 32);
		bulk_fence();
	}
	__syncthreads();
	if (threadIdx.x < TAKERS) {
		group_more_registers<TAKER_REGISTERS>();
		take<JOSEPH>(s, &ring);
	} else {
		group_fewer_registers<BRINGER_REGISTERS>();
		bring<JOSEPH>(s, map, &ring, threadIdx.x / 32 - TAKERS / 32, threadIdx.x % 32);
	}
}

#endif

/* Empty for other GPUs, for which it does not apply. */
template <bool JOSEPH>
static __global__ void __launch_bounds__(THREADS, 1)
	fans_back(const __grid_constant__ Fans s, const __grid_constant__ CUtensorMap map)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
	work<JOSEPH>(&s, &map);
#endif
}

#endif
