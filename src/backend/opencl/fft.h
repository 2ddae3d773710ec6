/* Fourier transforms of many complex rows at once, pass by pass. */
#ifndef TOMOS_BACKEND_OPENCL_FFT_H
#define TOMOS_BACKEND_OPENCL_FFT_H

#include "backend/opencl/opencl.h"

enum { FFT_PASSES = 32 };

typedef struct {
	int64_t length;
	int radix[FFT_PASSES], passes;
	float *twiddles; /* in device memory */
} OpenclFft;

/* A length with prime factors up to 7; to be closed after a failure as well. */
tomos_status opencl_fft_open(tomos_backend *b, OpenclFft *fft, int64_t length);
void opencl_fft_close(tomos_backend *b, OpenclFft *fft);
/* Forward transform from data[*at], which becomes the index of the result; the other array is
 * overwritten. scale: of each sample of a row before the transform; no memory: 1. */
tomos_status opencl_fft_run(tomos_backend *b, const OpenclFft *fft, int64_t rows, OpenclPlace scale,
	const OpenclPlace data[2], int *at);

#endif
