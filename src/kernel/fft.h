/* Fourier transforms of lengths with prime factors up to 7.
 *
 * T. G. Stockham, "High-speed convolution and correlation", AFIPS 28 (1966): every pass reads one
 * array and writes another, so the result needs no reordering.
 */
#ifndef TOMOS_KERNEL_FFT_H
#define TOMOS_KERNEL_FFT_H

#include "kernel/portable.h"

#ifndef KERNEL_REAL
#define KERNEL_REAL float
#endif

enum { FFT_MOST = 8 }; /* the largest radix */

typedef struct {
	KERNEL_REAL re, im;
} KernelComplex;

/* Butterfly j of length / radix in the pass that combines `radix` transforms of `span` samples
 * each. twiddles[i] is exp(-2 pi sqrt(-1) i / length). Input samples are multiplied by `scale`,
 * unless it is NULL. */
KERNEL_FN void fft_step(KERNEL_GLOBAL const KernelComplex *from, KERNEL_GLOBAL KernelComplex *to,
	KERNEL_GLOBAL const KernelComplex *twiddles, KERNEL_GLOBAL const float *scale,
	int64_t length, int64_t span, const int radix, int64_t j)
{
	KernelComplex in[FFT_MOST];
	int64_t k = j % span, stretch = length / (span * radix), part = length / radix;
	for (int r = 0; r < radix; r++) {
		KernelComplex value = from[j + r * part], twiddle = twiddles[r * k * stretch];
		KERNEL_REAL by = scale ? scale[j + r * part] : 1;
		in[r].re = by * (value.re * twiddle.re - value.im * twiddle.im);
		in[r].im = by * (value.re * twiddle.im + value.im * twiddle.re);
	}
	for (int s = 0; s < radix; s++) {
		KernelComplex sum = in[0];
		for (int r = 1; r < radix; r++) {
			KernelComplex twiddle = twiddles[r * s % radix * part];
			sum.re += in[r].re * twiddle.re - in[r].im * twiddle.im;
			sum.im += in[r].re * twiddle.im + in[r].im * twiddle.re;
		}
		to[j / span * span * radix + k + s * span] = sum;
	}
}

/* The same for a radix known at run time only: 2, 3, 4, 5 or 7. */
KERNEL_FN void fft_step_any(KERNEL_GLOBAL const KernelComplex *from,
	KERNEL_GLOBAL KernelComplex *to, KERNEL_GLOBAL const KernelComplex *twiddles,
	KERNEL_GLOBAL const float *scale, int64_t length, int64_t span, int radix, int64_t j)
{
	if (radix == 4)
		fft_step(from, to, twiddles, scale, length, span, 4, j);
	else if (radix == 2)
		fft_step(from, to, twiddles, scale, length, span, 2, j);
	else if (radix == 3)
		fft_step(from, to, twiddles, scale, length, span, 3, j);
	else if (radix == 5)
		fft_step(from, to, twiddles, scale, length, span, 5, j);
	else
		fft_step(from, to, twiddles, scale, length, span, 7, j);
}

#endif
