/* Filters of detector rows in one pass over them. */
#ifndef TOMOS_BACKEND_CUDA_FILTER_ROWS_H
#define TOMOS_BACKEND_CUDA_FILTER_ROWS_H

#include "backend/cuda/fft.h"

/* Transforms, in both orders of their passes, and the frequency response. */
typedef struct {
	int length;
	BlockFft fft, back;
	float2 *twiddles[2];
	float *response; /* at frequencies 0 .. length / 2, one over the length included */
} FilterRows;

/* Rows of a call, in device memory; the weights are those of the columns of each view. */
typedef struct {
	KernelRows rows;
	int64_t count; /* views */
	const KernelRowView *views;
	const float *weights, *fade, *in;
	float *out;
} FilterRowsCall;

/* Whether there is a kernel for rows like these; otherwise cuFFT is used. */
bool filter_rows_apply_to(const FilterSpec *spec);
tomos_status filter_rows_open(tomos_backend *backend, FilterRows *filter, const FilterSpec *spec);
void filter_rows_close(FilterRows *filter);
tomos_status filter_rows_run(
	tomos_backend *backend, const FilterRows *filter, const FilterRowsCall *call);

#endif
