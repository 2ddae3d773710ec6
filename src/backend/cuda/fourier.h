/* Data of the Fourier projector on the GPU.
 *
 * Slices are transformed in pairs, as real and imaginary parts, `pairs` of them in a batch. Arrays
 * of a batch are grid[pair][y][x] and values[pair][view][m], with m modulo the period. */
#ifndef TOMOS_BACKEND_CUDA_FOURIER_H
#define TOMOS_BACKEND_CUDA_FOURIER_H

#include <cufft.h>
#include "backend/cuda/cuda.h"

extern "C" {
#include "backend/device/fourier.h"
}

enum { FOURIER_PAIRS = 8 }; /* most pairs of a batch */

struct Fourier {
	FourierSpec spec; /* without views */
	PointLines lines;
	LineView *views;
	float *scale[2];
	PointLists lists[2]; /* of each Direction, in device memory */
	int pairs;
	int planes; /* of one transform */
	cufftHandle plane_fft, row_fft;
	bool has_plane_fft, has_row_fft;
	float2 *grid, *values, *parts;
	struct Convolution *normal; /* instead of all these but `spec` */
};

/* One batch of slices, from `slice` on. */
typedef struct {
	int64_t n[3], size[2], rows, columns, count, period, slice;
	int pairs;
	bool own_rows;
	const LineView *views;
	const float *scale[2];
	float *volume, *projections;
	float2 *grid, *values;
} SliceBatch;

tomos_status cufft_failed(cufftResult result, int64_t length);

#define CUFFT_TRY(call, length) TRY_CODE(cufftResult, CUFFT_SUCCESS, call, cufft_failed, length)

/* Device memory with the contents of host memory. */
tomos_status fourier_send(
	tomos_backend *b, void *device, const void *host, int64_t bytes, const char *what);

/* A plan of in-place complex transforms. */
tomos_status fourier_plan(cufftHandle *plan, bool *has, int rank, const int64_t *n, int64_t batch);
tomos_status fourier_transform(
	tomos_backend *b, cufftHandle plan, float2 *data, int direction, int64_t length);

/* Between the grid and the values of all points. squares: instead of values, the squares of the
 * responses. */
int64_t fourier_most_pairs(const Fourier *f); /* that fit into the shared memory of a block */
tomos_status fourier_collect(tomos_backend *b, const Fourier *f);
tomos_status fourier_spread(tomos_backend *b, const Fourier *f, bool squares);

/* Slices to the padded grid (`pad`) or back, detector rows to padded rows or back. */
tomos_status slices_move(tomos_backend *b, const SliceBatch *batch, bool pad);
tomos_status rows_move(tomos_backend *b, const SliceBatch *batch, bool pad);

/* A Fourier with the spec, which `fill` completes. */
tomos_status fourier_open(tomos_backend *b, Fourier **fourier, const FourierSpec *spec,
	tomos_status (*fill)(tomos_backend *b, Fourier *f, const FourierSpec *spec));
tomos_status cuda_fourier_open(tomos_backend *backend, Fourier **fourier, const FourierSpec *spec);
void cuda_fourier_close(tomos_backend *backend, Fourier *fourier);
SliceBatch fourier_batch(const Fourier *f, int64_t slice);

tomos_status cuda_normal_open(tomos_backend *backend, Fourier **fourier, const FourierSpec *spec);
tomos_status cuda_normal_apply(
	tomos_backend *backend, Fourier *f, const float *volume, float *result);
void convolution_free(struct Convolution *normal);

#endif
