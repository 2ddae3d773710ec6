/* Fourier transforms of any length without large prime factors, pass by pass and in order.
 *
 * T. G. Stockham, "High-speed convolution and correlation", AFIPS 28 (1966): every pass reads one array
 * and writes another, so that nothing has to be sorted at the end.
 */
#ifndef TOMOS_KERNEL_FFT_H
#define TOMOS_KERNEL_FFT_H

#include "kernel/portable.h"

#ifndef KERNEL_REAL
#define KERNEL_REAL float
#endif

enum { FFT_MOST = 7 }; /* the largest radix */

typedef struct {
	KERNEL_REAL re, im;
} KernelComplex;

/* Step j, of length / radix, of the pass that joins transforms of `span` samples, `radix` at a time;
 * turns[i] is exp(-2 pi i sqrt(-1) / length). Samples that come in are multiplied by `scale`, unless it
 * is NULL. */
KERNEL_FN void fft_step(KERNEL_GLOBAL const KernelComplex *from, KERNEL_GLOBAL KernelComplex *to,
	KERNEL_GLOBAL const KernelComplex *turns, KERNEL_GLOBAL const float *scale, int64_t length,
	int64_t span, const int radix, int64_t j)
{
	KernelComplex in[FFT_MOST];
	int64_t k = j % span, stretch = length / (span * radix), part = length / radix;
	for (int r = 0; r < radix; r++) {
		KernelComplex value = from[j + r * part], turn = turns[r * k * stretch];
		KERNEL_REAL by = scale ? scale[j + r * part] : 1;
		in[r].re = by * (value.re * turn.re - value.im * turn.im);
		in[r].im = by * (value.re * turn.im + value.im * turn.re);
	}
	for (int s = 0; s < radix; s++) {
		KernelComplex sum = in[0];
		for (int r = 1; r < radix; r++) {
			KernelComplex turn = turns[r * s % radix * part];
			sum.re += in[r].re * turn.re - in[r].im * turn.im;
			sum.im += in[r].re * turn.im + in[r].im * turn.re;
		}
		to[j / span * span * radix + k + s * span] = sum;
	}
}

/* The same for a radix that is not known before: 2, 3, 4, 5 or 7. */
KERNEL_FN void fft_step_any(KERNEL_GLOBAL const KernelComplex *from,
	KERNEL_GLOBAL KernelComplex *to, KERNEL_GLOBAL const KernelComplex *turns,
	KERNEL_GLOBAL const float *scale, int64_t length, int64_t span, int radix, int64_t j)
{
	if (radix == 4)
		fft_step(from, to, turns, scale, length, span, 4, j);
	else if (radix == 2)
		fft_step(from, to, turns, scale, length, span, 2, j);
	else if (radix == 3)
		fft_step(from, to, turns, scale, length, span, 3, j);
	else if (radix == 5)
		fft_step(from, to, turns, scale, length, span, 5, j);
	else
		fft_step(from, to, turns, scale, length, span, 7, j);
}

#endif
