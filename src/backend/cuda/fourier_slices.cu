/* Slices and detector rows of the Fourier projector on the GPU: padding, cropping, transforms. */
#include "backend/cuda/fourier.h"

enum { THREADS = 256, MOST = 65535 };

/* The voxel at a position of the transform, which begins with voxel n / 2; -1: none. */
static __device__ __forceinline__ int64_t voxel_of(int64_t n, int64_t size, int64_t position)
{
	const int64_t half = n / 2;
	if (position < n - half)
		return position + half;
	return position >= size - half ? position - size + half : -1;
}

static __device__ __forceinline__ int64_t place_of(int64_t n, int64_t size, int64_t voxel)
{
	const int64_t half = n / 2;
	return voxel < half ? voxel - half + size : voxel - half;
}

static __device__ __forceinline__ int64_t column_index(void)
{
	return (int64_t)blockIdx.x * THREADS + threadIdx.x;
}

static __global__ void pad_slices(const __grid_constant__ SliceBatch b)
{
	const int64_t x = column_index(), i = voxel_of(b.n[0], b.size[0], x);
	const int64_t slice = b.slice + 2 * blockIdx.z, plane = b.n[0] * b.n[1];
	if (x >= b.size[0])
		return;
	for (int64_t y = blockIdx.y; y < b.size[1]; y += gridDim.y) {
		const int64_t j = voxel_of(b.n[1], b.size[1], y), at = j * b.n[0] + i;
		float2 value = {};
		if (i >= 0 && j >= 0) {
			const float scale = b.scale[0][i] * b.scale[1][j];
			if (slice < b.n[2])
				value.x = scale * b.volume[slice * plane + at];
			if (slice + 1 < b.n[2])
				value.y = scale * b.volume[(slice + 1) * plane + at];
		}
		b.grid[(blockIdx.z * b.size[1] + y) * b.size[0] + x] = value;
	}
}

static __global__ void crop_slices(const __grid_constant__ SliceBatch b)
{
	const int64_t i = column_index(), x = place_of(b.n[0], b.size[0], i);
	const int64_t slice = b.slice + 2 * blockIdx.z, plane = b.n[0] * b.n[1];
	if (i >= b.n[0])
		return;
	for (int64_t j = blockIdx.y; j < b.n[1]; j += gridDim.y) {
		const int64_t y = place_of(b.n[1], b.size[1], j), at = j * b.n[0] + i;
		const float2 value = b.grid[(blockIdx.z * b.size[1] + y) * b.size[0] + x];
		const float scale = b.scale[0][i] * b.scale[1][j];
		if (slice < b.n[2])
			b.volume[slice * plane + at] = scale * value.x;
		if (slice + 1 < b.n[2])
			b.volume[(slice + 1) * plane + at] = scale * value.y;
	}
}

/* The detector row of a slice; NULL: it has none. */
static __device__ float *row_of(const SliceBatch &b, int64_t view, int64_t slice)
{
	const int64_t row = b.views[view].row + b.views[view].sign * slice;
	if (slice >= b.n[2] || row < 0 || row >= b.rows)
		return NULL;
	return b.projections + (view * b.rows + row) * b.columns;
}

static __global__ void pad_rows(const __grid_constant__ SliceBatch b)
{
	const int64_t c = column_index(), slice = b.slice + 2 * blockIdx.z;
	if (c >= b.period)
		return;
	for (int64_t view = blockIdx.y; view < b.count; view += gridDim.y) {
		const float *re = row_of(b, view, slice), *im = row_of(b, view, slice + 1);
		const bool within = c < b.columns;
		b.values[(blockIdx.z * b.count + view) * b.period + c] =
			make_float2(re && within ? re[c] : 0, im && within ? im[c] : 0);
	}
}

static __global__ void crop_rows(const __grid_constant__ SliceBatch b)
{
	const int64_t c = column_index(), slice = b.slice + 2 * blockIdx.z;
	if (c >= b.columns)
		return;
	for (int64_t view = blockIdx.y; view < b.count; view += gridDim.y) {
		float *re = row_of(b, view, slice), *im = row_of(b, view, slice + 1);
		const float2 value = b.values[(blockIdx.z * b.count + view) * b.period + c];
		if (re)
			re[c] = value.x;
		if (im)
			im[c] = value.y;
	}
}

/* Threads along rows of `wide` samples, `high` rows of each pair. */
static tomos_status launch(tomos_backend *b, void (*kernel)(const SliceBatch),
	const SliceBatch *batch, int64_t wide, int64_t high)
{
	const dim3 blocks(cuda_blocks(wide, THREADS, 1 << 30), (unsigned)min64(high, MOST),
		(unsigned)batch->pairs);
	kernel<<<blocks, THREADS, 0, device_of(b)->stream>>>(*batch);
	CUDA_LAUNCHED("slices");
	return TOMOS_OK;
}

tomos_status slices_pad(tomos_backend *b, const SliceBatch *batch)
{
	return launch(b, pad_slices, batch, batch->size[0], batch->size[1]);
}

tomos_status slices_crop(tomos_backend *b, const SliceBatch *batch)
{
	return launch(b, crop_slices, batch, batch->n[0], batch->n[1]);
}

tomos_status rows_pad(tomos_backend *b, const SliceBatch *batch)
{
	return launch(b, pad_rows, batch, batch->period, batch->count);
}

tomos_status rows_crop(tomos_backend *b, const SliceBatch *batch)
{
	return launch(b, crop_rows, batch, batch->columns, batch->count);
}

/* ---- transforms ------------------------------------------------------------------------------ */

tomos_status cufft_failed(cufftResult result, int64_t length)
{
	return fail(result == CUFFT_ALLOC_FAILED ? TOMOS_NO_MEMORY : TOMOS_NO_DEVICE,
		"the GPU failed at transforms of length %lld (cuFFT code %d)", (long long)length,
		(int)result);
}

/* n: the slowest dimension first. */
tomos_status fourier_plan(cufftHandle *plan, bool *has, int rank, const int64_t *n, int64_t batch)
{
	int size[2] = {(int)n[0], rank > 1 ? (int)n[1] : 1}, distance = size[0] * size[1];
	CUFFT_TRY(cufftPlanMany(plan, rank, size, NULL, 1, distance, NULL, 1, distance, CUFFT_C2C,
			  (int)batch),
		n[0]);
	*has = true;
	return TOMOS_OK;
}

tomos_status fourier_transform(
	tomos_backend *b, cufftHandle plan, float2 *data, int direction, int64_t length)
{
	CUFFT_TRY(cufftSetStream(plan, device_of(b)->stream), length);
	CUFFT_TRY(cufftExecC2C(plan, data, data, direction), length);
	return TOMOS_OK;
}
