/* Passes of a Fourier transform of a length without prime factors above 7. */
#ifndef TOMOS_BACKEND_CPU_LEVEL_FFT_H
#define TOMOS_BACKEND_CPU_LEVEL_FFT_H

#include <stdint.h>

enum { FFT_PASSES = 40, FFT_RADIX = 8 }; /* most of them, and the largest radix */

/* Pass p combines `radix[p]` samples of blocks whose length is that of the transform divided by
 * all radices before. twiddles[p][j][i - 1] is exp(-2 pi sqrt(-1) i j / block), real and imaginary
 * part, for sample j of part i of a block. */
typedef struct {
	int64_t length;
	int count;
	int radix[FFT_PASSES];
	float *twiddles[FFT_PASSES];
	void *plans[2]; /* of FFTW, forward and inverse, in builds with it, and their lanes */
	int lanes;
} FftPasses;

/* Of one instruction set; see backend/fft.h. */
typedef struct {
	void (*forward)(const FftPasses *passes, float *data);
	void (*inverse)(const FftPasses *passes, float *data);
	void (*gather)(const float *const *rows, int64_t from, int64_t to, int part, float *data);
	void (*scatter)(const float *data, int64_t from, int64_t to, int part, float *const *rows);
} FftKernels;

#endif
