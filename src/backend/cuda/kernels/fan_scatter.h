/* A fan in one slice, or parallel rays, voxel-driven, forward: pixels add to the two columns around
 * their projection.
 *
 * A block has a tile of pixels and some views, of which each warp takes one at a time. Its lanes
 * are along the axis on which pixels are farther apart on the detector, so that few of them add to
 * the same column at once. Sums are integers in shared memory, in units of the largest share of a
 * pixel: floats cannot be added there in one instruction. Pixels that are infinite or NaN set no
 * unit and are added one by one.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FAN_SCATTER_H
#define TOMOS_BACKEND_CUDA_KERNELS_FAN_SCATTER_H

#include "backend/cuda/kernels/fan.h"

enum {
	TILE = 32, /* side of a tile, in pixels */
	TILE_THREADS = 256,
	TILE_WARPS = TILE_THREADS / TILE,
	TILE_VIEWS = 128, /* most views of a block */
	TILE_BLOCKS = 6,  /* of an SM */
	WINDOW = 256      /* columns of the sums of a view, the middle of the tile in the middle */
};

/* Largest share of a pixel in units: less than 2^22, and that of all pixels less than 2^31. */
#define TILE_QUANTA 2e6f

/* Floats of this size are integers, held in their last bits. */
static constexpr float WHOLE = 1.5f * (1 << 23);
static constexpr int WHOLE_BITS = 0x4b400000;

/* A view relative to the middle of a tile: pixel (da, db) from there has U - c D = u . (da, db, 1)
 * and D = d . (da, db, 1), where c is `column`. away: from the source; square: that along z. */
typedef struct __align__(16)
{
	float u[3], d[3], away[2], square;
	float gain, unit;  /* factors of weights; of sums, if the largest pixel is 1 */
	int column, lanes; /* lanes: their axis */
	int reach;         /* columns of the tile on each side of `column` */
}
TileView;

template <bool RAYS>
static __device__ __noinline__ TileView tile_view(const Fan &s, int64_t view, int a0, int b0)
{
	const KernelView *k = &s.views[view];
	const double half = TILE / 2, at[2] = {(double)(s.grid.low[0] + a0) + half,
					      (double)(s.grid.low[1] + b0) + half};
	const double z = (double)s.grid.low[2], depth = fan_affine(k->depth, at[0], at[1], z),
		     u = fan_affine(k->column, at[0], at[1], z) / depth,
		     c = fmin(fmax(rint(u), -1e9), 1e9);
	const double least = depth - half * (fabs(k->depth[0]) + fabs(k->depth[1]));
	const double rise = KERNEL_FANS(k) ? 0 : (z - k->src[2]) * s.grid.step[2];
	double away[2], square = rise * rise, change = 0;
	TileView v;
	for (int a = 0; a < 2; a++) {
		v.u[a] = (float)(k->column[a] - c * k->depth[a]);
		v.d[a] = (float)k->depth[a];
		away[a] = (at[a] - k->src[a]) * s.grid.step[a];
		change += half * (fabs(k->column[a] - u * k->depth[a]));
		square += pow(fabs(away[a]) + half * s.grid.step[a], 2);
	}
	const bool parallel = !KERNEL_HAS_SOURCE(k);
	const double mass = s.model.weight == WEIGHT_RAY ? k->mass : 1,
		     most = RAYS       ? fabs(mass) * sqrt(square) / (least * least)
			    : parallel ? fabs(mass)
			    : s.model.weight == WEIGHT_DEPTH ? 1 / (least * least)
							     : 1;
	v.u[2] = (float)((u - c) * depth);
	v.d[2] = (float)depth;
	v.away[0] = (float)away[0];
	v.away[1] = (float)away[1];
	v.square = (float)(rise * rise);
	v.gain = (float)(mass / most);
	v.unit = (float)(most / (double)TILE_QUANTA);
	v.column = (int)c;
	v.reach = min((int)(change / least) + 3, WINDOW / 2 - 1);
	v.lanes = fabsf(v.u[0]) >= fabsf(v.u[1]) ? 0 : 1;
	return v;
}

/* Position of a pixel, in columns from the view's, and its weight. */
typedef struct {
	float e, weight;
} Projected;

/* u, d: U - c D and D of the pixel; square: of its distance from the source. */
template <bool RAYS>
static __device__ __forceinline__ Projected project_pixel(
	const Fan &s, float u, float d, float square, float gain)
{
	const float near = inverse_nearly(d);
	if (RAYS)
		return Projected{u * near, gain * near * near * root_nearly(square)};
	return Projected{u * near, s.model.weight == WEIGHT_DEPTH ? gain * near * near : gain};
}

/* Adds all pixels of the tile to the sums of a view. */
template <bool RAYS>
static __device__ __forceinline__ void add_tile(
	const Fan &s, const TileView &v, const float tile[TILE][TILE + 1], int *sums)
{
	const int lane = threadIdx.x % TILE, half = TILE / 2, along = v.lanes, other = 1 - along;
	const float l = (float)(lane - half), m = (float)-half;
	const float step = (float)s.grid.step[other],
		    x = fmaf(l, (float)s.grid.step[along], v.away[along]),
		    y0 = fmaf(m, step, v.away[other]), xx = fmaf(x, x, v.square);
	const float ul = v.u[other], dl = v.d[other], gain = v.gain,
		    u0 = fmaf(l, v.u[along], fmaf(m, ul, v.u[2])),
		    d0 = fmaf(l, v.d[along], fmaf(m, dl, v.d[2]));
	const float *from = along == 0 ? &tile[0][lane] : &tile[lane][0];
	const int next = along == 0 ? TILE + 1 : 1;
#pragma unroll 16
	for (int j = 0; j < TILE; j++) {
		const float n = (float)j, y = fmaf(n, step, y0);
		const Projected p = project_pixel<RAYS>(
			s, fmaf(n, ul, u0), fmaf(n, dl, d0), fmaf(y, y, xx), gain);
		const float low = __fadd_rd(p.e, WHOLE), t = p.e - (low - WHOLE);
		const float share = p.weight * from[j * next];
		int *to = sums + (__float_as_int(low) - (WHOLE_BITS - WINDOW / 2));
		atomicAdd(to, __float_as_int(fmaf(share, 1 - t, WHOLE)) - WHOLE_BITS);
		atomicAdd(to + 1, __float_as_int(fmaf(share, t, WHOLE)) - WHOLE_BITS);
	}
}

/* Adds the sums of a view, in units, to its columns, and clears them. */
static __device__ __forceinline__ void add_sums(
	const Fan &s, int64_t view, const TileView &v, float most, int *sums)
{
	const float unit = v.unit * most;
	for (int i = threadIdx.x % TILE - v.reach; i <= v.reach; i += TILE) {
		const int sum = sums[WINDOW / 2 + i], c = v.column + i;
		sums[WINDOW / 2 + i] = 0;
		if (sum != 0 && c >= 0 && c < s.model.columns)
			atomicAdd(s.to + view * s.stride + c, (float)sum * unit);
	}
}

/* Adds a pixel that is not finite, da and db from the middle of the tile, to a view. */
template <bool RAYS>
static __device__ void add_invalid(
	const Fan &s, const TileView &v, int64_t view, float da, float db, float value)
{
	const float x = fmaf(da, (float)s.grid.step[0], v.away[0]),
		    y = fmaf(db, (float)s.grid.step[1], v.away[1]);
	const Projected p = project_pixel<RAYS>(s, fmaf(da, v.u[0], fmaf(db, v.u[1], v.u[2])),
		fmaf(da, v.d[0], fmaf(db, v.d[1], v.d[2])), fmaf(x, x, fmaf(y, y, v.square)),
		v.gain);
	const float low = floorf(p.e), t = p.e - low;
	for (int i = 0; i < 2; i++) {
		const float part = p.weight * (i ? t : 1 - t);
		const int c = v.column + (int)low + i;
		if (part != 0 && c >= 0 && c < s.model.columns)
			atomicAdd(s.to + view * s.stride + c, part * value);
	}
}

/* Reads the tile, zeros outside of the slice and for pixels that are not finite; returns this
 * thread's largest pixel. */
static __device__ __forceinline__ float read_tile(
	const Fan &s, int a0, int b0, float tile[TILE][TILE + 1])
{
	const int lane = threadIdx.x % TILE, a = a0 + lane;
	float most = 0;
	for (int j = threadIdx.x / TILE; j < TILE; j += TILE_WARPS) {
		const int b = b0 + j;
		const float value = a < s.na && b < s.nb ? s.samples[(int64_t)b * s.na + a] : 0;
		tile[j][lane] = fabsf(value) < INFINITY ? value : 0;
		most = fmaxf(most, fabsf(tile[j][lane]));
	}
	return most;
}

/* The pixels that are not finite, to all views of the block. */
template <bool RAYS>
static __device__ __noinline__ void add_all_invalid(
	const Fan &s, const TileView *views, int64_t first, int count, int a0, int b0)
{
	const int lane = threadIdx.x % TILE, a = a0 + lane, half = TILE / 2;
	for (int j = threadIdx.x / TILE; j < TILE; j += TILE_WARPS) {
		const int b = b0 + j;
		const float value = a < s.na && b < s.nb ? s.samples[(int64_t)b * s.na + a] : 0;
		for (int i = 0; i < count && !(fabsf(value) < INFINITY); i++)
			add_invalid<RAYS>(s, views[i], first + i, (float)(lane - half),
				(float)(j - half), value);
	}
}

/* Block: a tile, and `views` views. */
template <bool RAYS>
static __global__ void __launch_bounds__(TILE_THREADS, TILE_BLOCKS)
	fan_scatter(const __grid_constant__ Fan s, int views)
{
	__shared__ float tile[TILE][TILE + 1];
	__shared__ int sums[TILE_WARPS][WINDOW];
	__shared__ TileView near[TILE_VIEWS];
	__shared__ unsigned largest;
	const int a0 = blockIdx.x * TILE, b0 = blockIdx.y * TILE, warp = threadIdx.x / TILE;
	const int64_t first = (int64_t)blockIdx.z * views;
	const int count = (int)min((int64_t)views, s.count - first);
	if (threadIdx.x == 0)
		largest = 0;
	for (int i = threadIdx.x; i < TILE_WARPS * WINDOW; i += TILE_THREADS)
		sums[0][i] = 0;
	for (int i = threadIdx.x; i < count; i += TILE_THREADS)
		near[i] = tile_view<RAYS>(s, first + i, a0, b0);
	const float own = read_tile(s, a0, b0, tile);
	__syncthreads();
	atomicMax(&largest, __float_as_uint(own));
	__syncthreads();
	const float most = fmaxf(__uint_as_float(largest), 1e-30f);
	for (int i = threadIdx.x; i < TILE * TILE; i += TILE_THREADS)
		tile[i / TILE][i % TILE] *= TILE_QUANTA / most;
	add_all_invalid<RAYS>(s, near, first, count, a0, b0);
	__syncthreads();
	for (int i = warp; i < count && largest != 0; i += TILE_WARPS) {
		add_tile<RAYS>(s, near[i], tile, sums[warp]);
		__syncwarp();
		add_sums(s, first + i, near[i], most, sums[warp]);
		__syncwarp();
	}
}

#endif
