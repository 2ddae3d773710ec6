/* Products with CSR matrices in device memory: one warp per row; the adjoint adds to the voxels
 * atomically. */
#include "backend/cuda/cuda.h"
#include "kernel/stored.h"

enum { WARP = 32, ROWS = 8, MOST_GRID = 1 << 20 };

static __device__ double join_warp(double value)
{
	for (int half = WARP / 2; half > 0; half /= 2)
		value += __shfl_xor_sync(~0u, value, half);
	return value;
}

static __global__ void csr_forward(
	const __grid_constant__ KernelCsr m, int power, const float *x, float *y)
{
	for (int64_t r = (int64_t)blockIdx.x * ROWS + threadIdx.y; r < m.rows;
		r += (int64_t)gridDim.x * ROWS) {
		double sum = join_warp(csr_sum(&m, r, power, x, (int)threadIdx.x, WARP));
		if (threadIdx.x == 0)
			y[r] = (float)sum;
	}
}

static __global__ void csr_adjoint(
	const __grid_constant__ KernelCsr m, int power, const float *y, float *x)
{
	for (int64_t r = (int64_t)blockIdx.x * ROWS + threadIdx.y; r < m.rows;
		r += (int64_t)gridDim.x * ROWS)
		csr_spread(&m, r, power, y[r], x, (int)threadIdx.x, WARP);
}

tomos_status cuda_csr_apply(tomos_backend *backend, const KernelCsr *m, Direction direction,
	int power, const float *in, float *out)
{
	TRY(cuda_use(backend));
	cudaStream_t stream = device_of(backend)->stream;
	dim3 blocks(cuda_blocks(m->rows, ROWS, MOST_GRID)), threads(WARP, ROWS);
	if (direction == FORWARD) {
		csr_forward<<<blocks, threads, 0, stream>>>(*m, power, in, out);
	} else {
		TRY(backend->type->vector->fill(backend, m->columns, 0, out));
		csr_adjoint<<<blocks, threads, 0, stream>>>(*m, power, in, out);
	}
	CUDA_LAUNCHED("a product with a matrix");
	return TOMOS_OK;
}
