/* Arrays turned so that slices are the fastest axis, and back; see turn.h. */
#include "backend/cuda/tuned/turn.h"

enum { TILE = 32, WARPS = 8 };

/* ---- scales ------------------------------------------------------------------------------- */

/* Bits of floats that are not negative are ordered as they are. */
static __global__ void find_largest(
	const __grid_constant__ Turning t, const HatView *views, unsigned *largest)
{
	unsigned most = 0;
	for (int64_t line = blockIdx.x; line < t.slices * t.nk; line += gridDim.x) {
		int64_t i = line % t.slices, k = line / t.slices;
		const float *from = t.outside + i * t.si + k * t.sk;
		float weight = views[k].weight;
		for (int64_t j = threadIdx.x; j < t.nj; j += SUM_THREADS)
			most = max(most, __float_as_uint(fabsf(weight * from[j * t.sj])));
	}
	for (int step = TILE / 2; step > 0; step /= 2)
		most = max(most, __shfl_xor_sync(0xffffffffu, most, step));
	if (threadIdx.x % TILE == 0)
		atomicMax(largest, most);
}

/* ---- turning ------------------------------------------------------------------------------ */

struct StoreFloats {
	float *to;
	const HatView *weights;
	__device__ void put(int64_t k, int64_t at, float value) const
	{
		to[at] = weights ? weights[k].weight * value : value;
	}
};

struct StoreHalves {
	TurnHalves to;
	int64_t part; /* halves of one */
	__device__ void put(int64_t k, int64_t at, float value) const
	{
		float scale = power_of_two(scale_exponent(*to.largest));
		float scaled = to.views[k].weight * value * scale;
		__half rounded = __float2half_rn(scaled);
		to.data[at] = rounded;
		if (to.parts == 2)
			to.data[part + at] = __float2half_rn(scaled - __half2float(rounded));
	}
};

/* Reads along the axis that is contiguous outside, writes along slices. */
template <class Store>
static __global__ void turn_inwards(const __grid_constant__ Turning t, const Store store)
{
	__shared__ float tile[TILE][TILE + 1];
	int64_t i0 = (int64_t)blockIdx.x * TILE, j0 = (int64_t)blockIdx.y * TILE;
	int64_t nj = t.nj + 2 * t.margin;
	for (int64_t k = blockIdx.z; k < t.nk; k += gridDim.z) {
		for (int r = threadIdx.y; r < TILE; r += WARPS) {
			int64_t i = t.si == 1 ? i0 + threadIdx.x : i0 + r;
			int64_t j = t.si == 1 ? j0 + r : j0 + threadIdx.x, from = j - t.margin;
			float value = i < t.slices && from >= 0 && from < t.nj
					      ? t.outside[i * t.si + from * t.sj + k * t.sk]
					      : 0;
			tile[j - j0][i - i0] = value;
		}
		__syncthreads();
		for (int r = threadIdx.y; r < TILE; r += WARPS)
			if (j0 + r < nj && i0 + threadIdx.x < t.pitch)
				store.put(k, (k * nj + j0 + r) * t.pitch + i0 + threadIdx.x,
					tile[r][threadIdx.x]);
		__syncthreads();
	}
}

static __global__ void turn_outwards(const __grid_constant__ Turning t)
{
	__shared__ float tile[TILE][TILE + 1];
	int64_t i0 = (int64_t)blockIdx.x * TILE, j0 = (int64_t)blockIdx.y * TILE;
	float factor = t.largest ? power_of_two(-scale_exponent(*t.largest)) : 1;
	for (int64_t k = blockIdx.z; k < t.nk; k += gridDim.z) {
		for (int r = threadIdx.y; r < TILE; r += WARPS)
			if (j0 + r < t.nj && i0 + threadIdx.x < t.pitch)
				tile[r][threadIdx.x] =
					t.inside[(k * t.nj + j0 + r) * t.pitch + i0 + threadIdx.x];
		__syncthreads();
		for (int r = threadIdx.y; r < TILE; r += WARPS) {
			int64_t i = t.si == 1 ? i0 + threadIdx.x : i0 + r;
			int64_t j = t.si == 1 ? j0 + r : j0 + threadIdx.x;
			if (i < t.slices && j < t.nj)
				t.outside[i * t.si + j * t.sj + k * t.sk] +=
					factor * tile[j - j0][i - i0];
		}
		__syncthreads();
	}
}

static dim3 tiles_of(const Turning *t)
{
	return dim3(cuda_blocks(t->pitch, TILE, 1 << 30),
		cuda_blocks(t->nj + 2 * t->margin, TILE, 65535), cuda_blocks(t->nk, 1, 65535));
}

tomos_status turn_in(tomos_backend *backend, const Turning *t)
{
	turn_inwards<<<tiles_of(t), dim3(TILE, WARPS), 0, device_of(backend)->stream>>>(
		*t, StoreFloats{t->inside, t->weights});
	CUDA_LAUNCHED("turning an array");
	return TOMOS_OK;
}

tomos_status turn_largest(
	tomos_backend *backend, const Turning *t, const HatView *weights, unsigned *largest)
{
	CudaDevice *d = device_of(backend);
	CUDA_TRY(cudaMemsetAsync(largest, 0, sizeof *largest, d->stream), "turning an array");
	find_largest<<<cuda_blocks(t->slices * t->nk, 1, 8 * d->processors), SUM_THREADS, 0,
		d->stream>>>(*t, weights, largest);
	CUDA_LAUNCHED("turning an array");
	return TOMOS_OK;
}

/* The largest value never leaves the card, so nobody waits for it. */
tomos_status turn_in_halves(tomos_backend *backend, const Turning *t, const TurnHalves *halves)
{
	TRY(turn_largest(backend, t, halves->views, halves->largest));
	turn_inwards<<<tiles_of(t), dim3(TILE, WARPS), 0, device_of(backend)->stream>>>(
		*t, StoreHalves{*halves, t->nk * t->nj * t->pitch});
	CUDA_LAUNCHED("turning an array");
	return TOMOS_OK;
}

tomos_status turn_out(tomos_backend *backend, const Turning *t)
{
	turn_outwards<<<tiles_of(t), dim3(TILE, WARPS), 0, device_of(backend)->stream>>>(*t);
	CUDA_LAUNCHED("turning an array");
	return TOMOS_OK;
}

/* ---- of a request ------------------------------------------------------------------------- */

void turn_range(const Projecting *what, const HatSlices *l, int64_t *low, int64_t *high)
{
	int64_t one = -l->first * l->sign; /* the slices of the first and the last row */
	int64_t two = (what->plan->model.rows - 1 - l->first) * l->sign;
	*low = max64(what->box.low[l->s], min64(one, two));
	*high = min64(what->box.high[l->s], max64(one, two) + 1);
}

static int64_t rounded_up(int64_t n, int64_t unit)
{
	return (n + unit - 1) / unit * unit;
}

Turning turn_volume(
	const Projecting *what, const HatSlices *l, int64_t slice, int64_t slices, int64_t unit)
{
	const Box *box = &what->box;
	int64_t nx = box->high[0] - box->low[0], ny = box->high[1] - box->low[1];
	const int64_t stride[3] = {1, nx, nx * ny};
	return Turning{.outside = what->volume + (slice - box->low[l->s]) * stride[l->s],
		.slices = slices,
		.pitch = rounded_up(slices, unit),
		.nj = box->high[l->a] - box->low[l->a],
		.nk = box->high[l->b] - box->low[l->b],
		.si = stride[l->s],
		.sj = stride[l->a],
		.sk = stride[l->b]};
}

Turning turn_views(
	const Projecting *what, const HatSlices *l, int64_t slice, int64_t slices, int64_t unit)
{
	int64_t rows = what->plan->model.rows, columns = what->plan->model.columns;
	return Turning{.outside = what->projections + (l->first + l->sign * slice) * columns,
		.slices = slices,
		.pitch = rounded_up(slices, unit),
		.nj = columns,
		.nk = what->count,
		.si = l->sign * columns,
		.sj = 1,
		.sk = rows * columns};
}

Turning turn_planes(float *volume, float *turned, int64_t nx, int64_t ny, int64_t nz)
{
	return Turning{.outside = volume,
		.inside = turned,
		.slices = ny,
		.pitch = ny,
		.nj = nx,
		.nk = nz,
		.si = nx,
		.sj = 1,
		.sk = nx * ny};
}
