/* Slices and detector rows of the Fourier projector on the GPU: padding, cropping, transforms. */
#include "backend/cuda/fourier.h"

enum { THREADS = 256, MOST = 65535 };

static __device__ __forceinline__ int64_t column_index(void)
{
	return (int64_t)blockIdx.x * THREADS + threadIdx.x;
}

/* A row of a slice; NULL: there is none. */
static __device__ float *voxels_of(const SliceBatch &b, int64_t slice, int64_t j)
{
	return slice < b.n[2] && j >= 0 ? b.volume + (slice * b.n[1] + j) * b.n[0] : NULL;
}

/* Between a pair of slices and its plane of the grid. */
template <bool PAD> static __global__ void move_slices(const __grid_constant__ SliceBatch b)
{
	const int64_t x = column_index(), i = fourier_voxel(b.n[0], b.size[0], x);
	const int64_t slice = b.slice + 2 * blockIdx.z;
	if (x >= b.size[0] || (!PAD && i < 0))
		return;
	for (int64_t y = blockIdx.y; y < b.size[1]; y += gridDim.y) {
		const int64_t j = i < 0 ? -1 : fourier_voxel(b.n[1], b.size[1], y);
		float *re = voxels_of(b, slice, j), *im = voxels_of(b, slice + 1, j);
		const float scale = j >= 0 ? b.scale[0][i] * b.scale[1][j] : 0;
		float2 *cell = &b.grid[(blockIdx.z * b.size[1] + y) * b.size[0] + x];
		if (PAD)
			*cell = make_float2(re ? scale * re[i] : 0, im ? scale * im[i] : 0);
		if (!PAD && re)
			re[i] = scale * cell->x;
		if (!PAD && im)
			im[i] = scale * cell->y;
	}
}

static __device__ SliceRows rows_of(const SliceBatch &b, int64_t view, int64_t slice)
{
	const LineView &v = b.views[view];
	return slice_rows(v.row, v.height, v.reach, b.rows, b.own_rows, slice, b.n[2]);
}

/* Between the detector rows of the slices of a pair and its padded rows. Slices without rows of
 * their own add to rows; one thread does so for all of them. */
template <bool PAD>
static __device__ void move_pair(const SliceBatch &b, int64_t view, int pair, int64_t c)
{
	float2 *value = &b.values[(pair * b.count + view) * b.period + c];
	float parts[2] = {PAD ? 0 : value->x, PAD ? 0 : value->y};
	for (int k = 0; k < 2 && c < b.columns; k++) {
		const SliceRows met = rows_of(b, view, b.slice + 2 * pair + k);
		float *rows = b.projections + view * b.rows * b.columns + c;
		for (int64_t row = met.first; row <= met.last; row++) {
			float *sample = rows + row * b.columns;
			if (PAD)
				parts[k] += b.own_rows ? *sample
						       : slice_row_weight(&met, row) * *sample;
			else if (b.own_rows)
				*sample = parts[k];
			else
				*sample += slice_row_weight(&met, row) * parts[k];
		}
	}
	if (PAD)
		*value = make_float2(parts[0], parts[1]);
}

template <bool PAD> static __global__ void move_rows(const __grid_constant__ SliceBatch b)
{
	const int64_t c = column_index();
	if (c >= (PAD ? b.period : b.columns))
		return;
	for (int64_t view = blockIdx.y; view < b.count; view += gridDim.y)
		for (int pair = (int)blockIdx.z; pair < b.pairs; pair += (int)gridDim.z)
			move_pair<PAD>(b, view, pair, c);
}

/* Threads along rows of `wide` samples, `high` rows of each of `pairs`. */
static tomos_status launch(tomos_backend *b, void (*kernel)(const SliceBatch),
	const SliceBatch *batch, int64_t wide, int64_t high, int pairs)
{
	const dim3 blocks(
		cuda_blocks(wide, THREADS, 1 << 30), (unsigned)min64(high, MOST), (unsigned)pairs);
	kernel<<<blocks, THREADS, 0, device_of(b)->stream>>>(*batch);
	CUDA_LAUNCHED("slices");
	return TOMOS_OK;
}

tomos_status slices_move(tomos_backend *b, const SliceBatch *batch, bool pad)
{
	return launch(b, pad ? move_slices<true> : move_slices<false>, batch, batch->size[0],
		batch->size[1], batch->pairs);
}

tomos_status rows_move(tomos_backend *b, const SliceBatch *batch, bool pad)
{
	return launch(b, pad ? move_rows<true> : move_rows<false>, batch, batch->period,
		batch->count, pad || batch->own_rows ? batch->pairs : 1);
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
