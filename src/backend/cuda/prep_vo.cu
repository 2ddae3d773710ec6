/* Ring removal of Vo et al. on the GPU: broken columns and large stripes. Each kernel does what the
 * function of the same name in prep/ring_vo.c does, for all sinograms of a batch. */
#include "backend/cuda/prep_vo.h"

#define AIR 0.1f
#define USUAL 3.0f

/* ---- medians over the views ------------------------------------------------------------------ */

/* Difference between a value and the mean of its neighbours in time. */
struct Fluctuation {
	static __device__ float of(const VoBatch &v, int s, int view, int c)
	{
		float before = *vo_at(v, s, max(view - 1, 0), c);
		float after = *vo_at(v, s, min(view + 1, v.views - 1), c);
		return fabsf(*vo_at(v, s, view, c) - 0.5f * (before + after));
	}
};

/* Jump at column c. */
struct Step {
	static __device__ float of(const VoBatch &v, int s, int view, int c)
	{
		return *vo_at(v, s, view, min(c + 1, v.columns - 1)) -
		       *vo_at(v, s, view, max(c - 2, 0));
	}
};

static __device__ __forceinline__ int warp_sum(int value)
{
#if __CUDA_ARCH__ >= 800
	return __reduce_add_sync(~0u, value);
#else
	for (int lane = 16; lane > 0; lane /= 2)
		value += __shfl_xor_sync(~0u, value, lane);
	return value;
#endif
}

static __device__ uint32_t warp_max(uint32_t value)
{
	for (int lane = 16; lane > 0; lane /= 2)
		value = max(value, __shfl_xor_sync(~0u, value, lane));
	return value;
}

/* Number of keys below the limit. */
static __device__ __forceinline__ int warp_below(const uint32_t *keys, int count, uint32_t limit)
{
	int below = 0;
#pragma unroll 8
	for (int i = (int)threadIdx.x % 32; i < count; i += 32)
		below += keys[i] < limit;
	return warp_sum(below);
}

/* Moves the keys from low to high to the front; their number. Also the number of keys below them,
 * and the largest of these, or 0. */
static __device__ int warp_compact(
	uint32_t *keys, int count, uint32_t low, uint32_t high, int *before, uint32_t *largest)
{
	const unsigned lane = threadIdx.x % 32, others = (1u << lane) - 1;
	int used = 0, below = 0;
	uint32_t most = 0;
	for (int i = (int)lane; i - (int)lane < count; i += 32) {
		uint32_t key = i < count ? keys[i] : ~0u;
		bool kept = i < count && key >= low && key <= high;
		unsigned all = __ballot_sync(~0u, kept);
		most = key < low ? max(most, key) : most;
		below += key < low;
		if (kept) /* not beyond the keys that were read */
			keys[used + __popc(all & others)] = key;
		used += __popc(all);
	}
	__syncwarp();
	*before = warp_sum(below);
	*largest = warp_max(most);
	return used;
}

/* Median of a warp's keys, which it reorders. As prep_select; after the leading bits only the keys
 * that share these are left. */
static __device__ float warp_median(uint32_t *keys, int count)
{
	const uint32_t last = 1u << 21;
	uint32_t found = 0, bit = 0x80000000u, largest;
	int rank = count / 2, before;
	for (; bit >= last; bit >>= 1)
		if (warp_below(keys, count, found | bit) <= rank)
			found |= bit;
	int used = warp_compact(keys, count, found, found | (last - 1), &before, &largest);
	for (; bit; bit >>= 1)
		if (warp_below(keys, used, found | bit) <= rank - before)
			found |= bit;
	if (count % 2 || before + warp_below(keys, used, found) < rank)
		return prep_value(found);
	for (int i = (int)threadIdx.x % 32; i < used; i += 32)
		largest = keys[i] < found ? max(largest, keys[i]) : largest;
	return 0.5f * (prep_value(warp_max(largest)) + prep_value(found));
}

/* One warp per column; its keys are in shared memory, apart by an odd number of words. Neighbouring
 * threads load neighbouring columns. */
template <typename Value> static __global__ void view_medians(const VoBatch v, float *level)
{
	extern __shared__ uint32_t keys[];
	const int across = (int)blockDim.x / 32, first = (int)blockIdx.x * across;
	const int s = (int)blockIdx.y, stride = v.views | 1;
	const int k = (int)threadIdx.x % across, from = min(first + k, v.columns - 1);
#pragma unroll 4
	for (int view = (int)threadIdx.x / across; view < v.views; view += 32)
		keys[k * stride + view] = prep_key(Value::of(v, s, view, from));
	__syncthreads();
	const int c = first + (int)threadIdx.x / 32;
	float median = warp_median(keys + threadIdx.x / 32 * stride, v.views);
	if (threadIdx.x % 32 == 0 && c < v.columns)
		level[(int64_t)s * v.columns + c] = median;
}

template <typename Value> static tomos_status run_view_medians(tomos_backend *b, const VoBatch *v)
{
	int across = vo_columns(v->views);
	size_t bytes = (size_t)across * (size_t)(v->views | 1) * 4;
	TRY(cuda_take_shared((const void *)view_medians<Value>));
	view_medians<Value><<<dim3(cuda_blocks(v->columns, across, 1 << 30), (unsigned)v->count),
		(unsigned)(32 * across), bytes, device_of(b)->stream>>>(*v, v->level);
	CUDA_LAUNCHED("ring removal");
	return TOMOS_OK;
}

/* ---- medians across columns ------------------------------------------------------------------ */

static __global__ void column_medians(const VoBatch v, const float *in, float *out)
{
	int c = (int)(blockIdx.x * blockDim.x + threadIdx.x), half = v.large / 2;
	const float *row = in + (int64_t)blockIdx.y * v.columns;
	if (c >= v.columns)
		return;
	out[(int64_t)blockIdx.y * v.columns + c] = prep_median(v.large, [&](uint32_t limit) {
		int below = 0;
		for (int i = c - half; i <= c + half; i++)
			below += prep_key(row[prep_mirrored(i, v.columns)]) < limit;
		return below;
	});
}

static dim3 list_grid(const VoBatch *v)
{
	return dim3(cuda_blocks(v->columns, PREP_THREADS, 1 << 30), (unsigned)v->count);
}

/* ---- broken columns -------------------------------------------------------------------------- */

static __device__ bool suspicious(const VoBatch &v, int64_t list, int c)
{
	float level = v.level[list + c], smooth = v.smooth[list + c];
	return level > v.snr * smooth || v.snr * level < smooth;
}

static __device__ double warp_add(double value)
{
	for (int lane = 16; lane > 0; lane /= 2)
		value += __shfl_xor_sync(~0u, value, lane);
	return value;
}

/* One warp per column that begins a run. */
static __device__ bool is_broken(const VoBatch &v, int s, int from, int to, float noise)
{
	double far = 0, near = 0;
	for (int view = (int)threadIdx.x % 32; view < v.views; view += 32) {
		const float *row = vo_at(v, s, view, 0);
		double left = row[from - 2], right = row[to + 1];
		for (int c = from; c < to; c++)
			far += fabs((double)row[c] - 0.5 * (left + right)) / (to - from);
		near += 0.5 * fabs(left - right);
	}
	far = warp_add(far);
	near = warp_add(near);
	return far > 2 * near + (double)v.snr * (double)noise * v.views;
}

static __global__ void keep_broken(const VoBatch v)
{
	int from = (int)((blockIdx.x * blockDim.x + threadIdx.x) / 32), s = (int)blockIdx.y;
	int64_t list = (int64_t)s * v.columns;
	int to = from;
	if (from < 2 || from >= v.columns || suspicious(v, list, from - 1))
		return;
	while (to < v.columns && suspicious(v, list, to))
		to++;
	if (to == from || to + 2 > v.columns || !is_broken(v, s, from, to, v.smooth[list + from]))
		return;
	for (int c = from - 1 + (int)threadIdx.x % 32; c <= to; c += 32)
		v.kept[list + c] = 1;
	if (threadIdx.x % 32 == 0) {
		atomicAdd(v.broken + s, to - from);
		atomicAdd(v.found, (unsigned long long)(to - from));
	}
}

/* The nearest column in that direction that is kept out of the interpolation and finite. */
static __device__ int next_good(const VoBatch &v, int64_t list, const float *row, int c, int step)
{
	while (c >= 0 && c < v.columns && (v.kept[list + c] > 0 || !isfinite(row[c])))
		c += step;
	return c;
}

/* As row_repair with the broken columns left out; good values are read and bad ones written. */
static __global__ void repair_broken(const VoBatch v)
{
	int c = (int)(blockIdx.x * blockDim.x + threadIdx.x), s = (int)blockIdx.y;
	int64_t list = (int64_t)s * v.columns;
	if (c >= v.columns || v.broken[s] == 0)
		return;
	for (int view = (int)blockIdx.z; view < v.views; view += (int)gridDim.z) {
		float *row = vo_at(v, s, view, 0);
		if (v.kept[list + c] == 0 && isfinite(row[c]))
			continue;
		int before = next_good(v, list, row, c, -1), after = next_good(v, list, row, c, 1);
		float left = before >= 0 ? row[before] : after < v.columns ? row[after] : 0;
		float right = after < v.columns ? row[after] : left;
		row[c] = left + (right - left) * (float)(c - before) / (float)(after - before);
	}
}

static tomos_status run_broken(tomos_backend *b, const VoBatch *v)
{
	cudaStream_t stream = device_of(b)->stream;
	const size_t lists = (size_t)v->count * (size_t)v->columns * sizeof(float);
	CUDA_TRY(cudaMemsetAsync(v->kept, 0, lists, stream), "clearing a list");
	CUDA_TRY(cudaMemsetAsync(v->broken, 0, (size_t)v->count * sizeof(int), stream),
		"clearing a list");
	TRY(run_view_medians<Fluctuation>(b, v));
	column_medians<<<list_grid(v), PREP_THREADS, 0, stream>>>(*v, v->level, v->smooth);
	keep_broken<<<dim3(cuda_blocks(32LL * v->columns, PREP_THREADS, 1 << 30),
			      (unsigned)v->count),
		PREP_THREADS, 0, stream>>>(*v);
	dim3 grid = list_grid(v);
	grid.z = 16;
	repair_broken<<<grid, PREP_THREADS, 0, stream>>>(*v);
	CUDA_LAUNCHED("ring removal");
	return TOMOS_OK;
}

/* ---- large stripes --------------------------------------------------------------------------- */

/* The mean of each column over the views. */
static __global__ void find_signal(const VoBatch v)
{
	int c = (int)(blockIdx.x * blockDim.x + threadIdx.x), s = (int)blockIdx.y;
	float sum = 0;
	if (c >= v.columns)
		return;
#pragma unroll 8
	for (int view = 0; view < v.views; view++)
		sum += *vo_at(v, s, view, c) / (float)v.views;
	v.signal[(int64_t)s * v.columns + c] = sum;
}

static __device__ float block_max(float value)
{
	__shared__ float values[PREP_THREADS];
	values[threadIdx.x] = value;
	for (int half = PREP_THREADS / 2; half > 0; half /= 2) {
		__syncthreads();
		if ((int)threadIdx.x < half)
			values[threadIdx.x] =
				fmaxf(values[threadIdx.x], values[threadIdx.x + half]);
	}
	__syncthreads();
	return values[0];
}

static __device__ int block_sum(int value)
{
	__shared__ int sum;
	__syncthreads();
	if (threadIdx.x == 0)
		sum = 0;
	__syncthreads();
	atomicAdd(&sum, value);
	__syncthreads();
	return sum;
}

/* Typical jump within the object, by one block. */
static __device__ float usual_step(const VoBatch &v, const float *level, const float *signal)
{
	float most = 0;
	int used = 0;
	for (int c = (int)threadIdx.x; c < v.columns; c += PREP_THREADS)
		most = fmaxf(most, signal[c]);
	most = block_max(most);
	for (int c = (int)threadIdx.x; c < v.columns; c += PREP_THREADS)
		used += signal[c] >= AIR * most;
	used = block_sum(used);
	if (used == 0)
		return 0;
	return prep_median(used, [&](uint32_t limit) {
		int below = 0;
		for (int c = (int)threadIdx.x; c < v.columns; c += PREP_THREADS)
			below += signal[c] >= AIR * most && prep_key(fabsf(level[c])) < limit;
		return block_sum(below);
	});
}

static __device__ bool is_pair(const VoBatch &v, float first, float second, int width)
{
	float ratio = -second / first;
	return width >= max(v.small / 2 + 1, 4) && width <= v.large / 2 && ratio > 0.5f &&
	       ratio < 2;
}

/* Height of the stripe in columns from .. to-1. */
static __device__ int level_run(float *height, int from, int to, float first, float second)
{
	for (int c = from; c < to; c++) {
		float share = ((float)(c - from) + 0.5f) / (float)(to - from);
		height[c] = first + share * (-second - first);
	}
	return to - from;
}

/* Pairs of jumps, by one thread. */
static __device__ int find_pairs(const VoBatch &v, const float *level, float least, float *heights)
{
	int n = v.columns, found = 0, last = 0;
	float height = 0;
	for (int c = 0, end; c < n; c = max(end, c + 1)) {
		float most = 0;
		for (end = c; end < n && fabsf(level[end]) > least && most * level[end] >= 0; end++)
			most = fabsf(level[end]) > fabsf(most) ? level[end] : most;
		if (end == c)
			continue;
		int at = (c + end) / 2;
		if (height != 0 && is_pair(v, height, most, at - last))
			found += level_run(heights, last, at, height, most);
		height = most;
		last = at;
	}
	return found;
}

/* One block per sinogram: the jumps without the slopes of the object, and from these the stripes'
 * heights. */
static __global__ void find_stripes(const VoBatch v)
{
	int64_t list = (int64_t)blockIdx.x * v.columns;
	float *level = v.level + list, *heights = v.height + list;
	for (int c = (int)threadIdx.x; c < v.columns; c += PREP_THREADS) {
		level[c] -= v.smooth[list + c];
		heights[c] = 0;
	}
	__syncthreads();
	float least = v.snr * USUAL * usual_step(v, level, v.signal + list);
	__syncthreads();
	if (threadIdx.x == 0)
		atomicAdd(v.found, (unsigned long long)find_pairs(v, level, least, heights));
}

static tomos_status run_large(tomos_backend *b, const VoBatch *v)
{
	cudaStream_t stream = device_of(b)->stream;
	find_signal<<<list_grid(v), PREP_THREADS, 0, stream>>>(*v);
	TRY(run_view_medians<Step>(b, v));
	column_medians<<<list_grid(v), PREP_THREADS, 0, stream>>>(*v, v->level, v->smooth);
	find_stripes<<<(unsigned)v->count, PREP_THREADS, 0, stream>>>(*v);
	CUDA_LAUNCHED("ring removal");
	return TOMOS_OK;
}

static __global__ void subtract_heights(const VoBatch v)
{
	int c = (int)(blockIdx.x * blockDim.x + threadIdx.x), s = (int)blockIdx.y;
	float height = c < v.columns ? v.height[(int64_t)s * v.columns + c] : 0;
	for (int view = (int)blockIdx.z; height != 0 && view < v.views; view += (int)gridDim.z)
		*vo_at(v, s, view, c) -= height;
}

/* ---- running --------------------------------------------------------------------------------- */

enum { LISTS = 5 };

/* Floats per sinogram: keys, view indices of half the size, and lists. */
static int64_t sinogram_floats(const PrepData *d)
{
	return d->views * d->columns * 3 / 2 + 2 + LISTS * d->columns + 1;
}

static int64_t vo_batch(const PrepData *d)
{
	return prep_batch(sinogram_floats(d), min64(d->rows, 65535));
}

static int64_t vo_floats(const PrepWork *w, const PrepData *d)
{
	(void)w;
	return vo_batch(d) * sinogram_floats(d);
}

static VoBatch batch_of(const PrepWork *w, const PrepData *d, float *scratch)
{
	const PrepSpec *s = &w->spec;
	int64_t batch = vo_batch(d), list = batch * d->columns, all = list * d->views;
	VoBatch v = {.view = d->rows * d->columns,
		.views = (int)d->views,
		.columns = (int)d->columns,
		.large = (int)s->ring_large,
		.small = (int)s->ring_small,
		.snr = (float)s->ring_snr,
		.found = w->found + FOUND_STRIPES};
	float *lists = scratch + all;
	v.sorted = scratch;
	v.level = lists;
	v.smooth = lists + list;
	v.kept = lists + 2 * list;
	v.signal = lists + 3 * list;
	v.height = lists + 4 * list;
	v.broken = (int *)(lists + LISTS * list);
	v.from = (uint16_t *)(v.broken + batch);
	return v;
}

static tomos_status run_batch(tomos_backend *b, const VoBatch *v)
{
	cudaStream_t stream = device_of(b)->stream;
	const size_t lists = (size_t)v->count * (size_t)v->columns * sizeof(float);
	CUDA_TRY(cudaMemsetAsync(v->height, 0, lists, stream), "clearing a list");
	if (v->large > 1) {
		TRY(run_broken(b, v));
		TRY(run_large(b, v));
	}
	if (v->small > 1)
		return vo_smooth(b, v);
	dim3 grid = list_grid(v);
	grid.z = 16;
	subtract_heights<<<grid, PREP_THREADS, 0, stream>>>(*v);
	CUDA_LAUNCHED("ring removal");
	return TOMOS_OK;
}

static tomos_status vo_run(tomos_backend *b, PrepWork *w, PrepData *d, float *scratch)
{
	int64_t batch = vo_batch(d);
	VoBatch v = batch_of(w, d, scratch);
	for (int64_t row = 0; row < d->rows; row += batch) {
		v.data = d->data + row * d->columns;
		v.count = (int)min64(batch, d->rows - row);
		TRY(run_batch(b, &v));
	}
	return TOMOS_OK;
}

const PrepStep cuda_prep_vo = {vo_floats, vo_run};
