/* Fourier transforms on the CPU, several sequences at once: each is one lane of the SIMD vectors.
 *
 * Complex sequences are stored as data[length][2][fft_lanes()], real before imaginary parts,
 * aligned to 64 bytes, and transformed in place. Neither direction is scaled. Real sequences share
 * a transform in pairs: one is the real part and one the imaginary part. */
#ifndef TOMOS_BACKEND_FFT_H
#define TOMOS_BACKEND_FFT_H

#include "base/base.h"

typedef struct Fft Fft;

enum { FFT_MOST_LANES = 16 };

/* Any length; those of fft_length are fastest. */
tomos_status fft_open(Fft **fft, int64_t length);
void fft_close(Fft *fft);

/* Number of sequences in a transform: that of the processor's vectors. */
int fft_lanes(const Fft *fft);
/* Floats of the data; more than the sequences, which are at their beginning, for some lengths. */
int64_t fft_floats(const Fft *fft);
/* Frequency k is at position fft_position(fft, k) of the transformed data. */
int64_t fft_position(const Fft *fft, int64_t k);

void fft_forward(const Fft *fft, float *data);
void fft_inverse(const Fft *fft, float *data);

/* Copies samples from .. to - 1 of fft_lanes() rows into the real (part 0) or imaginary (part 1)
 * parts of the sequences, and back. */
void fft_gather(
	const Fft *fft, const float *const *rows, int64_t from, int64_t to, int part, float *data);
void fft_scatter(
	const Fft *fft, const float *data, int64_t from, int64_t to, int part, float *const *rows);

/* Transform of an even sequence of even length, both given by their first length / 2 + 1 values. */
tomos_status fft_even(double *values, int64_t length);

#endif
