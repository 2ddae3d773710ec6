/* Arguments of the kernels of the Fourier projector, for the host and the device. */
#ifndef TOMOS_BACKEND_OPENCL_FOURIER_ARGS_H
#define TOMOS_BACKEND_OPENCL_FOURIER_ARGS_H

#include "kernel/fourier.h"

/* A batch of `pairs` pairs of slices, from `slice` on. */
typedef struct {
	int64_t n[3], size[2], rows, columns, count, period, slice;
	int32_t pairs, taps, degree;
	int32_t own_rows; /* every slice has a row of its own */
	int32_t line;     /* response of line integrals */
	int32_t squares;  /* values are the squares of responses */
} FourierBatch;

#endif
