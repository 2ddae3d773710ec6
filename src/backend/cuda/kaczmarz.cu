/* Kaczmarz' method (ART) on a GPU: the matrix rows of projectors and stored matrices are listed in
 * batches and used one after the other.
 *
 * One block processes a whole batch in order. Its threads keep the entries of a row and the voxels
 * in registers, sum the products and update the voxels; meanwhile the entries of the next row are
 * loaded.
 */
#include "backend/cuda/cuda.h"
#include "kernel/stored.h"

#define KERNEL_HEADERS
#include "kernel/kernels.def"
#undef KERNEL_HEADERS

enum { WARP = 32, THREADS = 128, VISITORS = 512, WARPS = VISITORS / WARP, HELD = 4 };

/* ---- listing --------------------------------------------------------------------------------- */

typedef struct {
	KernelGrid grid;
	KernelModel model;
	const KernelView *views;
	KernelBatch batch;
} Listing;

#define EACH_ROW(i, count) \
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (count); \
		i += (int64_t)gridDim.x * blockDim.x)

#define LIST_RAY(id) \
	static __global__ void __launch_bounds__(THREADS) \
		id##_list(const __grid_constant__ Listing l) \
	{ \
		int64_t pixels = l.model.rows * l.model.columns; \
		EACH_ROW(i, l.batch.count) \
		{ \
			int64_t at = l.batch.ray[i], pixel = at % pixels; \
			KernelRay ray = kernel_ray(&l.grid, &l.views[at / pixels], \
				pixel / l.model.columns, pixel % l.model.columns); \
			KernelMeet meet = {NULL, 0, l.batch.index + i * l.batch.most, \
				l.batch.weight + i * l.batch.most, 0}; \
			id##_ray(&l.grid, &l.model, &ray, MEET_LIST, &meet); \
			l.batch.entries[i] = meet.count; \
		} \
	}
#define LIST_VOXEL(id)
#define KERNEL(id, name, family, weights, help) LIST_##family(id)
#include "kernel/kernels.def"
#undef KERNEL

typedef void (*ListKernel)(const Listing l);

#define ROW_RAY(id) id##_list
#define ROW_VOXEL(id) NULL
#define KERNEL(id, name, family, weights, help) ROW_##family(id),
static const ListKernel lists[KERNEL_COUNT] = {
#include "kernel/kernels.def"
};
#undef KERNEL

static tomos_status list_locked(
	tomos_backend *backend, const Plan *plan, int kernel, const KernelBatch *batch)
{
	const CudaPlan *kept;
	TRY(cuda_use(backend));
	TRY(cuda_plan(backend, plan, &kept));
	const Listing l = {plan->whole, plan->model, kept->views, *batch};
	lists[kernel]<<<cuda_blocks(batch->count, THREADS, 1 << 20), THREADS, 0,
		device_of(backend)->stream>>>(l);
	CUDA_LAUNCHED("listing rows");
	return TOMOS_OK;
}

tomos_status cuda_list_rows(
	tomos_backend *backend, const Plan *plan, int kernel, const KernelBatch *batch)
{
	pthread_mutex_lock(&device_of(backend)->lock);
	tomos_status status = list_locked(backend, plan, kernel, batch);
	pthread_mutex_unlock(&device_of(backend)->lock);
	return status;
}

static __global__ void csr_rows(
	const __grid_constant__ KernelCsr m, const __grid_constant__ KernelBatch batch)
{
	csr_list(&m, &batch, blockIdx.x, (int)threadIdx.x, THREADS);
}

tomos_status cuda_csr_list_rows(
	tomos_backend *backend, const KernelCsr *m, const KernelBatch *batch)
{
	TRY(cuda_use(backend));
	csr_rows<<<(unsigned)batch->count, THREADS, 0, device_of(backend)->stream>>>(*m, *batch);
	CUDA_LAUNCHED("listing rows");
	return TOMOS_OK;
}

static __global__ void scsr_rows(
	const __grid_constant__ KernelScsr m, const __grid_constant__ KernelBatch batch)
{
	EACH_ROW(i, batch.count)
	scsr_list(&m, &batch, i);
}

tomos_status cuda_scsr_list_rows(
	tomos_backend *backend, const KernelScsr *m, const KernelBatch *batch)
{
	TRY(cuda_use(backend));
	scsr_rows<<<cuda_blocks(batch->count, WARP, 1 << 20), WARP, 0,
		device_of(backend)->stream>>>(*m, *batch);
	CUDA_LAUNCHED("listing rows");
	return TOMOS_OK;
}

static __global__ void weigh_rows(
	const __grid_constant__ KernelBatch batch, const float *rays, const float *voxels)
{
	for (int64_t k = threadIdx.x; k < batch.entries[blockIdx.x]; k += THREADS)
		batch_weigh(&batch, blockIdx.x, k, rays, voxels);
}

tomos_status cuda_weight_rows(
	tomos_backend *backend, const KernelBatch *batch, const float *rays, const float *voxels)
{
	TRY(cuda_use(backend));
	weigh_rows<<<(unsigned)batch->count, THREADS, 0, device_of(backend)->stream>>>(
		*batch, rays, voxels);
	CUDA_LAUNCHED("weighing rows");
	return TOMOS_OK;
}

/* ---- using ----------------------------------------------------------------------------------- */

/* The part of a row in one thread: HELD of its entries; ray: index of the row; b: its measured
 * value; square: its squared norm. */
struct Row {
	int64_t ray, count, index[HELD];
	float weight[HELD];
	float b, square;

	__device__ __forceinline__ void read(
		const KernelBatch &batch, const KernelKaczmarz &v, int64_t i)
	{
		ray = batch.ray[i];
		count = batch.entries[i];
#pragma unroll
		for (int k = 0; k < HELD; k++) {
			int64_t at = threadIdx.x + k * VISITORS;
			bool valid = at < count;
			index[k] = valid ? batch.index[i * batch.most + at] : 0;
			weight[k] = valid ? batch.weight[i * batch.most + at] : 0;
		}
		b = v.b[ray];
		square = v.squares[ray];
	}
};

/* Sum over all threads of the block, returned to all. */
static __device__ double join_block(double value)
{
	__shared__ double parts[WARPS];
	for (int half = WARP / 2; half > 0; half /= 2)
		value += __shfl_xor_sync(~0u, value, half);
	if (threadIdx.x % WARP == 0)
		parts[threadIdx.x / WARP] = value;
	__syncthreads();
	value = parts[threadIdx.x % WARPS];
	for (int half = WARPS / 2; half > 0; half /= 2)
		value += __shfl_xor_sync(~0u, value, half);
	return value;
}

static __device__ float bounded(const KernelKaczmarz &v, float value)
{
	return fminf(fmaxf(value, v.low), v.high);
}

/* Loop over entries that do not fit into registers. */
#define EACH_MORE(k, row) \
	for (int64_t k = threadIdx.x + HELD * VISITORS; k < (row).count; k += VISITORS)

static __global__ void __launch_bounds__(VISITORS) visit_rows(
	const __grid_constant__ KernelBatch batch, const __grid_constant__ KernelKaczmarz v)
{
	Row row, next;
	next.read(batch, v, 0);
	for (int64_t i = 0; i < batch.count; i++) {
		float held[HELD];
		double sum = 0;
		row = next;
#pragma unroll
		for (int k = 0; k < HELD; k++)
			held[k] = row.weight[k] != 0 ? v.x[row.index[k]] : 0;
		if (i + 1 < batch.count)
			next.read(batch, v, i + 1);
#pragma unroll
		for (int k = 0; k < HELD; k++)
			sum += (double)row.weight[k] * held[k];
		const int64_t *index = batch.index + i * batch.most;
		const float *weight = batch.weight + i * batch.most;
		EACH_MORE(k, row)
		sum += (double)weight[k] * v.x[index[k]];
		double misfit = row.b - join_block(sum);
		float step = row.square > 0 ? (float)(v.lambda * (float)misfit /
						      fmax((double)row.square, v.least))
					    : 0;
#pragma unroll
		for (int k = 0; k < HELD; k++)
			if (row.weight[k] != 0)
				v.x[row.index[k]] = bounded(v, held[k] + step * row.weight[k]);
		EACH_MORE(k, row)
		kaczmarz_update(&v, index[k], weight[k], step);
		if (threadIdx.x == 0)
			v.r[row.ray] = (float)misfit;
		__syncthreads();
	}
}

tomos_status cuda_kaczmarz_rows(
	tomos_backend *backend, const KernelBatch *batch, const KernelKaczmarz *visits)
{
	TRY(cuda_use(backend));
	visit_rows<<<1, VISITORS, 0, device_of(backend)->stream>>>(*batch, *visits);
	CUDA_LAUNCHED("visiting rows");
	return TOMOS_OK;
}

/* ---- the rays of a view, one after the other ------------------------------------------------- */

enum { PASS_RAYS = 1024 /* rays per pass over shared memory */ };

/* Terms of the step of each ray i of a view: step[i] = own[i] - sum over d of by[d][i] step[i -
 * 1 - d]. */
struct ViewSteps {
	float own[PASS_RAYS], by[STORED_NEIGHBOURS][PASS_RAYS];
	float step[(int)STORED_NEIGHBOURS +
		   (int)PASS_RAYS]; /* begins with the steps of the STORED_NEIGHBOURS rays before
		                   * the first */
};

static __device__ float factor_of(const KernelKaczmarzView &s, int64_t i)
{
	float square = s.squares[i];
	return square > 0 ? (float)(s.lambda / fmax((double)square, s.least)) : 0;
}

static __device__ float product_of(const KernelKaczmarzView &s, int64_t i, int back)
{
	int64_t j = i - back;
	return j < 0 ? 0 : s.products[j % (2 * s.near + 1) * s.rays + i];
}

/* Computes all steps in one thread, with the last NEAR steps in registers. */
template <int NEAR> static __device__ void solve_few(ViewSteps &at, int count)
{
	float last[NEAR];
#pragma unroll
	for (int d = 0; d < NEAR; d++)
		last[d] = at.step[STORED_NEIGHBOURS - 1 - d];
#pragma unroll 8
	for (int i = 0; i < count; i++) {
		float step = at.own[i];
#pragma unroll
		for (int d = NEAR - 1; d >= 0; d--)
			step -= at.by[d][i] * last[d];
#pragma unroll
		for (int d = NEAR - 1; d > 0; d--)
			last[d] = last[d - 1];
		at.step[STORED_NEIGHBOURS + i] = last[0] = step;
	}
}

static __device__ void solve_many(ViewSteps &at, int near, int count)
{
	for (int i = 0; i < count; i++) {
		float step = at.own[i];
		for (int d = near - 1; d >= 0; d--)
			step -= at.by[d][i] * at.step[STORED_NEIGHBOURS + i - 1 - d];
		at.step[STORED_NEIGHBOURS + i] = step;
	}
}

static __device__ void solve_steps(ViewSteps &at, int near, int count)
{
	switch (near) {
	case 1:
		return solve_few<1>(at, count);
	case 2:
		return solve_few<2>(at, count);
	case 3:
		return solve_few<3>(at, count);
	case 4:
		return solve_few<4>(at, count);
	default:
		return solve_many(at, near, count);
	}
}

static __global__ void __launch_bounds__(PASS_RAYS)
	find_steps(const __grid_constant__ KernelKaczmarzView s)
{
	__shared__ ViewSteps at;
	int own = (int)threadIdx.x, near = (int)s.near;
	if (own < STORED_NEIGHBOURS)
		at.step[own] = 0;
	for (int64_t first = 0; first < s.rays; first += PASS_RAYS) {
		int count = (int)(s.rays - first < PASS_RAYS ? s.rays - first : PASS_RAYS);
		float misfit = 0;
		__syncthreads();
		if (own < count) {
			float factor = factor_of(s, first + own);
			misfit = s.b[first + own] - s.r[first + own];
			at.own[own] = factor * misfit;
			for (int d = 0; d < near; d++)
				at.by[d][own] = factor * product_of(s, first + own, d + 1);
		}
		__syncthreads();
		if (own == 0)
			solve_steps(at, near, count);
		__syncthreads();
		if (own < count) {
			for (int d = 0; d < near; d++)
				misfit -= at.step[STORED_NEIGHBOURS + own - 1 - d] *
					  product_of(s, first + own, d + 1);
			s.r[first + own] = misfit;
			s.steps[first + own] = at.step[STORED_NEIGHBOURS + own];
		}
		__syncthreads();
		if (own < STORED_NEIGHBOURS)
			at.step[own] = at.step[PASS_RAYS + own];
	}
}

tomos_status cuda_kaczmarz_view(tomos_backend *backend, const KernelKaczmarzView *what)
{
	TRY(cuda_use(backend));
	find_steps<<<1, PASS_RAYS, 0, device_of(backend)->stream>>>(*what);
	CUDA_LAUNCHED("computing the steps of rays");
	return TOMOS_OK;
}
