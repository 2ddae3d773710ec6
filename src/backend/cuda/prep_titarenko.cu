/* Ring removal by one offset per column (prep/ring_titarenko.c has the paper): the mean of each
 * column, a tridiagonal system per sinogram, and the subtraction. */
#include "backend/cuda/prep.h"

enum { VIEWS = 64, SOLVERS = 32 };

/* Mean over the views of each pixel, [column][row] so that the solvers read consecutive values. */
static __global__ void mean_kernel(const PrepData d, double *mean)
{
	int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, plane = d.rows * d.columns;
	if (c >= d.columns)
		return;
	for (int64_t r = blockIdx.y; r < d.rows; r += gridDim.y) {
		const float *at = d.data + r * d.columns + c;
		double sum = 0;
#pragma unroll 8
		for (int64_t v = 0; v < d.views; v++)
			sum += (double)at[v * plane];
		mean[c * d.rows + r] = sum / (double)d.views;
	}
}

/* (D'D + alpha) q = D'D m by the Thomas algorithm, one sinogram per thread. The matrix is
 * factorised: pivots has the upper diagonal and the inverse pivots. */
static __global__ void solve_kernel(
	int64_t rows, int64_t n, const double *pivots, const double *mean, double *offset)
{
	int64_t r = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	double before = 0, left = 0, here = r < rows ? mean[r] : 0;
	if (r >= rows)
		return;
#pragma unroll 8
	for (int64_t c = 0; c < n; c++) {
		double right = c + 1 < n ? mean[(c + 1) * rows + r] : here;
		left = c > 0 ? left : here;
		before = ((here - left) + (here - right) + before) * pivots[n + c];
		offset[c * rows + r] = before;
		left = here;
		here = right;
	}
#pragma unroll 8
	for (int64_t c = n - 2; c >= 0; c--) {
		before = offset[c * rows + r] - pivots[c] * before;
		offset[c * rows + r] = before;
	}
}

static __global__ void subtract_kernel(const double *offset, const PrepData d)
{
	int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, plane = d.rows * d.columns;
	int64_t first = (int64_t)blockIdx.z * VIEWS, end = min(first + VIEWS, d.views);
	if (c >= d.columns)
		return;
	for (int64_t r = blockIdx.y; r < d.rows; r += gridDim.y) {
		float *at = d.data + r * d.columns + c, height = (float)offset[c * d.rows + r];
#pragma unroll 8
		for (int64_t v = first; v < end; v++)
			at[v * plane] -= height;
	}
}

/* Means and offsets, in doubles. */
static int64_t titarenko_floats(const PrepWork *w, const PrepData *d)
{
	(void)w;
	return 4 * d->rows * d->columns;
}

static tomos_status titarenko_run(tomos_backend *b, PrepWork *w, PrepData *d, float *scratch)
{
	cudaStream_t stream = device_of(b)->stream;
	double *mean = (double *)scratch, *offset = mean + d->rows * d->columns;
	mean_kernel<<<prep_grid(d->columns, d->rows, 1), PREP_THREADS, 0, stream>>>(*d, mean);
	solve_kernel<<<cuda_blocks(d->rows, SOLVERS, 1 << 30), SOLVERS, 0, stream>>>(
		d->rows, d->columns, w->pivots, mean, offset);
	subtract_kernel<<<prep_grid(d->columns, d->rows, (d->views + VIEWS - 1) / VIEWS),
		PREP_THREADS, 0, stream>>>(offset, *d);
	CUDA_LAUNCHED("ring removal");
	return TOMOS_OK;
}

const PrepStep cuda_prep_titarenko = {titarenko_floats, titarenko_run};
