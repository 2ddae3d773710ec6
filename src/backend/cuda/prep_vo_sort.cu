/* Ring removal of Vo et al. on the GPU: small stripes. Columns are sorted along the views, medians
 * across columns replace the values, and these go back to their views. */
#include <cub/block/block_radix_sort.cuh>
#include "backend/cuda/prep_vo.h"

/* ---- sorting --------------------------------------------------------------------------------- */

enum { RADIX = 4 };

/* The smallest and the largest key of a block. */
template <int THREADS> static __device__ void key_range(uint32_t *least, uint32_t *most)
{
	__shared__ uint32_t low[THREADS / 32], high[THREADS / 32];
	for (int lane = 16; lane > 0; lane /= 2) {
		*least = min(*least, __shfl_xor_sync(~0u, *least, lane));
		*most = max(*most, __shfl_xor_sync(~0u, *most, lane));
	}
	low[threadIdx.x / 32] = *least;
	high[threadIdx.x / 32] = *most;
	__syncthreads();
	for (int i = 0; i < THREADS / 32; i++) {
		*least = min(*least, low[i]);
		*most = max(*most, high[i]);
	}
}

/* A block sorts one column; stable, so that equal values stay in the order of their views. Only the
 * bits in which keys differ are sorted by. */
template <int THREADS, int ITEMS>
static __global__ __launch_bounds__(THREADS) void sort_columns(const VoBatch v)
{
	typedef cub::BlockRadixSort<uint32_t, THREADS, ITEMS, uint16_t, RADIX> Sort;
	__shared__ typename Sort::TempStorage space;
	const int c = (int)blockIdx.x, s = (int)blockIdx.y, first = (int)threadIdx.x * ITEMS;
	const int64_t at = ((int64_t)s * v.columns + c) * v.views;
	const float height = v.height[(int64_t)s * v.columns + c];
	uint32_t keys[ITEMS], least = ~0u, most = 0;
	uint16_t from[ITEMS];
#pragma unroll
	for (int i = 0; i < ITEMS; i++) {
		from[i] = (uint16_t)(first + i);
		keys[i] = prep_key(*vo_at(v, s, min(first + i, v.views - 1), c) - height);
		least = min(least, keys[i]);
		most = max(most, keys[i]);
	}
	key_range<THREADS>(&least, &most);
#pragma unroll
	for (int i = 0; i < ITEMS; i++) /* what is after the last view goes behind the largest */
		keys[i] = first + i < v.views ? keys[i] - least : most - least;
	Sort(space).SortBlockedToStriped(keys, from, 0, max(1, 32 - __clz(most - least)));
#pragma unroll
	for (int i = 0; i < ITEMS; i++) {
		int rank = i * THREADS + (int)threadIdx.x;
		if (rank < v.views) {
			v.sorted[at + rank] = prep_value(keys[i] + least);
			v.from[at + rank] = from[i];
		}
	}
}

template <int THREADS, int ITEMS> static void sort_with(cudaStream_t stream, const VoBatch *v)
{
	sort_columns<THREADS, ITEMS>
		<<<dim3((unsigned)v->columns, (unsigned)v->count), THREADS, 0, stream>>>(*v);
}

static void sort(cudaStream_t stream, const VoBatch *v)
{
	if (v->views <= 256)
		sort_with<64, 4>(stream, v);
	else if (v->views <= 1024)
		sort_with<128, 8>(stream, v);
	else if (v->views <= 1536)
		sort_with<128, 12>(stream, v);
	else if (v->views <= 2048)
		sort_with<128, 16>(stream, v);
	else if (v->views <= 4096)
		sort_with<256, 16>(stream, v);
	else
		sort_with<512, 16>(stream, v);
}

/* ---- medians across columns ------------------------------------------------------------------ */

static __device__ __forceinline__ void order(float &low, float &high)
{
	float least = fminf(low, high);
	high = fmaxf(low, high);
	low = least;
}

/* The smallest value goes to the front, the largest to the end. */
template <int COUNT> static __device__ __forceinline__ void extremes(float *values)
{
#pragma unroll
	for (int i = 0; i < COUNT / 2; i++)
		order(values[i], values[COUNT - 1 - i]);
#pragma unroll
	for (int i = 1; i < (COUNT + 1) / 2; i++)
		order(values[0], values[i]);
#pragma unroll
	for (int i = COUNT / 2; i < COUNT - 1; i++)
		order(values[i], values[COUNT - 1]);
}

/* Forgetful selection of the two values in the middle: of COUNT values neither the smallest nor the
 * largest can be one of them; they are replaced by the next one. */
template <int COUNT, typename Next>
static __device__ __forceinline__ void select_middle(float *values, Next next)
{
	extremes<COUNT>(values);
	if constexpr (COUNT > 4) {
		values[0] = next();
		select_middle<COUNT - 1>(values, next);
	}
}

/* Medians of value(0) .. value(SIZE - 1) and of value(1) .. value(SIZE). They are the values in the
 * middle of what both have in common, or the remaining value if it is between these. */
template <int SIZE, typename Value>
static __device__ __forceinline__ float2 two_medians(Value value)
{
	constexpr int COUNT = SIZE > 3 ? SIZE / 2 + 2 : 2;
	float values[COUNT];
	int at = COUNT + 1;
#pragma unroll
	for (int i = 0; i < COUNT; i++)
		values[i] = value(1 + i);
	if constexpr (SIZE > 3)
		select_middle<COUNT>(values, [&]() { return value(at++); });
	float low = values[SIZE > 3 ? 1 : 0], high = values[SIZE > 3 ? 2 : 1];
	order(low, high);
	return make_float2(fmaxf(low, fminf(high, value(0))), fmaxf(low, fminf(high, value(SIZE))));
}

/* Any size, one after the other. */
template <typename Value> static __device__ float2 any_medians(int size, Value value)
{
	auto median = [&](int first) {
		return prep_median(size, [&](uint32_t limit) {
			int below = 0;
			for (int i = first; i < first + size; i++)
				below += prep_key(value(i)) < limit;
			return below;
		});
	};
	float here = median(0);
	return make_float2(here, median(1));
}

/* SIZE 0: any. A block has some neighbouring columns, whose values it puts to their views in shared
 * memory. */
template <int SIZE> static __global__ void smooth_columns(const VoBatch v, int across)
{
	extern __shared__ float views[];
	const int s = (int)blockIdx.y, first = (int)blockIdx.x * across, half = v.small / 2;
	const int64_t sinogram = (int64_t)s * v.columns * v.views;
	const float *sorted = v.sorted + sinogram;
	const uint16_t *from = v.from + sinogram;
	const int stride = v.views | 1, end = min(across, v.columns - first);
	for (int k = 0; k < end; k += 2) {
		int64_t c = first + k;
		for (int rank = (int)threadIdx.x; rank < v.views; rank += PREP_THREADS) {
			auto value = [&](int i) {
				int column = prep_mirrored(first + k - half + i, v.columns);
				return sorted[(int64_t)column * v.views + rank];
			};
			float2 medians;
			if constexpr (SIZE > 0)
				medians = two_medians<SIZE>(value);
			else
				medians = any_medians(v.small, value);
			views[k * stride + from[c * v.views + rank]] = medians.x;
			if (k + 1 < end)
				views[(k + 1) * stride + from[(c + 1) * v.views + rank]] =
					medians.y;
		}
	}
	__syncthreads();
	for (int i = (int)threadIdx.x; i < across * v.views; i += PREP_THREADS)
		if (i % across < end)
			*vo_at(v, s, i / across, first + i % across) =
				views[i % across * stride + i / across];
}

template <int SIZE> static tomos_status smooth_with(tomos_backend *b, const VoBatch *v)
{
	int across = vo_columns(v->views);
	size_t bytes = (size_t)across * (size_t)(v->views | 1) * 4;
	TRY(cuda_take_shared((const void *)smooth_columns<SIZE>));
	smooth_columns<SIZE><<<dim3(cuda_blocks(v->columns, across, 1 << 30), (unsigned)v->count),
		PREP_THREADS, bytes, device_of(b)->stream>>>(*v, across);
	return TOMOS_OK;
}

static tomos_status smooth(tomos_backend *b, const VoBatch *v)
{
	switch (v->small) {
	case 3:
		return smooth_with<3>(b, v);
	case 5:
		return smooth_with<5>(b, v);
	case 7:
		return smooth_with<7>(b, v);
	case 9:
		return smooth_with<9>(b, v);
	case 11:
		return smooth_with<11>(b, v);
	case 13:
		return smooth_with<13>(b, v);
	case 15:
		return smooth_with<15>(b, v);
	case 17:
		return smooth_with<17>(b, v);
	case 19:
		return smooth_with<19>(b, v);
	case 21:
		return smooth_with<21>(b, v);
	default:
		return smooth_with<0>(b, v);
	}
}

tomos_status vo_smooth(tomos_backend *b, const VoBatch *v)
{
	sort(device_of(b)->stream, v);
	CUDA_LAUNCHED("sorting columns");
	TRY(smooth(b, v));
	CUDA_LAUNCHED("ring removal");
	return TOMOS_OK;
}
