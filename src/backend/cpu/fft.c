/* Plans of Fourier transforms, for the instruction set of the processor.
 *
 * Lengths with larger prime factors are convolutions: L. I. Bluestein, A linear filtering approach
 * to the computation of the discrete Fourier transform, IEEE Trans. Audio Electroacoustics 18
 * (1970) 451-455.
 */
#include "backend/fft.h"
#include <math.h>
#include <string.h>
#include "backend/cpu/cpu.h"
#include "base/fft.h"
#define KERNEL_REAL double
#include "kernel/fft.h"

struct Fft {
	int64_t length;
	FftKernels kernels;
	int lanes;
	FftPasses passes;
	int64_t *positions;
	float *chirp;    /* Bluestein's: exp(-pi sqrt(-1) i^2 / length); NULL: not needed */
	float *spectrum; /* of its convolution, at each position of `passes` */
};

/* ---- plans ----------------------------------------------------------------------------------- */

/* Radices of a length without prime factors above 7: odd ones first, then eights and fours. */
static void factorise(FftPasses *f)
{
	int64_t rest = f->length;
	int twos = 0;
	for (int prime = 7; prime > 2; prime -= 2)
		for (; rest % prime == 0; rest /= prime)
			f->radix[f->count++] = prime;
	for (; rest > 1; rest /= 2)
		twos++;
	for (; twos > 4 || twos == 3; twos -= 3)
		f->radix[f->count++] = 8;
	for (; twos > 1; twos -= 2)
		f->radix[f->count++] = 4;
	if (twos == 1)
		f->radix[f->count++] = 2;
}

static void fill_twiddles(float *to, int64_t block, int radix)
{
	for (int64_t j = 0; j < block / radix; j++)
		for (int64_t i = 1; i < radix; i++, to += 2) {
			double angle = -2 * M_PI * (double)(i * j) / (double)block;
			to[0] = (float)cos(angle);
			to[1] = (float)sin(angle);
		}
}

static tomos_status make_twiddles(FftPasses *f)
{
	int64_t block = f->length;
	for (int p = 0; p + 1 < f->count; block /= f->radix[p], p++) {
		int64_t count = block / f->radix[p] * (f->radix[p] - 1) * 2;
		TRY(mem_alloc(&f->twiddles[p], count, sizeof(float), "the twiddles"));
		fill_twiddles(f->twiddles[p], block, f->radix[p]);
	}
	return TOMOS_OK;
}

/* The digits of a position, from the largest, are those of its frequency from the smallest. */
static tomos_status make_positions(Fft *fft)
{
	const FftPasses *f = &fft->passes;
	TRY(mem_alloc(&fft->positions, f->length, sizeof *fft->positions, "the frequencies"));
	for (int64_t i = 0; i < f->length; i++) {
		int64_t k = 0, unit = 1, block = f->length, rest = i;
		for (int p = 0; p < f->count; p++) {
			block /= f->radix[p];
			k += rest / block * unit;
			rest %= block;
			unit *= f->radix[p];
		}
		fft->positions[k] = i;
	}
	return TOMOS_OK;
}

static void multiply_lanes(float *sample, int lanes, const float factor[2])
{
	const float c = factor[0], s = factor[1];
	for (int l = 0; l < lanes; l++) {
		float a = sample[l], b = sample[lanes + l];
		sample[l] = a * c - b * s;
		sample[lanes + l] = a * s + b * c;
	}
}

/* The spectrum of the conjugate chirp, which is periodic and even, by a transform of one lane. */
static tomos_status make_spectrum(Fft *fft)
{
	int64_t n = fft->length, m = fft->passes.length, step = 2 * (int64_t)fft->lanes;
	float *data;
	TRY(mem_zeroed(&data, m * step, sizeof *data, "a chirp"));
	for (int64_t i = 0; i < n; i++)
		for (int k = 0; k < 2; k++) {
			float *sample = data + (k && i > 0 ? m - i : i) * step;
			sample[0] = fft->chirp[2 * i] / (float)m;
			sample[fft->lanes] = -fft->chirp[2 * i + 1] / (float)m;
		}
	fft->kernels.forward(&fft->passes, data);
	for (int64_t i = 0; i < m; i++) {
		fft->spectrum[2 * i] = data[i * step];
		fft->spectrum[2 * i + 1] = data[i * step + fft->lanes];
	}
	mem_free(data);
	return TOMOS_OK;
}

static tomos_status make_chirp(Fft *fft)
{
	int64_t n = fft->length;
	TRY(mem_alloc(&fft->chirp, 2 * n, sizeof *fft->chirp, "a chirp"));
	TRY(mem_alloc(&fft->spectrum, 2 * fft->passes.length, sizeof(float), "a chirp"));
	for (int64_t i = 0, square = 0; i < n; square = (square + 2 * i + 1) % (2 * n), i++) {
		double angle = M_PI * (double)square / (double)n;
		fft->chirp[2 * i] = (float)cos(angle);
		fft->chirp[2 * i + 1] = (float)-sin(angle);
	}
	return make_spectrum(fft);
}

static bool is_smooth(int64_t length)
{
	for (int prime = 2; prime <= 7; prime++)
		while (length % prime == 0)
			length /= prime;
	return length == 1;
}

static tomos_status fill(Fft *fft, int64_t length)
{
	const CpuLevel *level;
	TRY(cpu_level_choose(&level));
	fft->length = length;
	fft->kernels = *level->fft;
	fft->lanes = level->lanes;
#ifdef TOMOS_FFTW
	fft->passes.length = length;
	return fftw_use(&fft->kernels, &fft->passes, level->lanes);
#endif
	fft->passes.length = is_smooth(length) ? length : fft_length(2 * length - 1);
	factorise(&fft->passes);
	TRY(make_twiddles(&fft->passes));
	return is_smooth(length) ? make_positions(fft) : make_chirp(fft);
}

tomos_status fft_open(Fft **fft, int64_t length)
{
	if (length < 1 || length > (int64_t)1 << 31)
		return fail(TOMOS_BAD_VALUE, "a transform of %lld samples: the limit is 2^31",
			(long long)length);
	TRY(mem_zeroed(fft, 1, sizeof **fft, "a transform"));
	tomos_status status = fill(*fft, length);
	if (status != TOMOS_OK) {
		fft_close(*fft);
		*fft = NULL;
	}
	return status;
}

void fft_close(Fft *fft)
{
	if (!fft)
		return;
#ifdef TOMOS_FFTW
	fftw_forget(&fft->passes);
#endif
	for (int p = 0; p < fft->passes.count; p++)
		mem_free(fft->passes.twiddles[p]);
	mem_free(fft->positions);
	mem_free(fft->chirp);
	mem_free(fft->spectrum);
	mem_free(fft);
}

/* ---- transforms ------------------------------------------------------------------------------ */

int fft_lanes(const Fft *fft)
{
	return fft->lanes;
}

int64_t fft_floats(const Fft *fft)
{
	return fft->passes.length * 2 * fft->lanes;
}

int64_t fft_position(const Fft *fft, int64_t k)
{
	return fft->positions ? fft->positions[k] : k;
}

/* X(k) = chirp(k) sum over i of x(i) chirp(i) conj(chirp(k - i)) */
static void convolve(const Fft *fft, float *data)
{
	int64_t n = fft->length, m = fft->passes.length, step = 2 * (int64_t)fft->lanes;
	for (int64_t i = 0; i < n; i++)
		multiply_lanes(data + i * step, fft->lanes, fft->chirp + 2 * i);
	memset(data + n * step, 0, (size_t)((m - n) * step) * sizeof *data);
	fft->kernels.forward(&fft->passes, data);
	for (int64_t i = 0; i < m; i++)
		multiply_lanes(data + i * step, fft->lanes, fft->spectrum + 2 * i);
	fft->kernels.inverse(&fft->passes, data);
	for (int64_t i = 0; i < n; i++)
		multiply_lanes(data + i * step, fft->lanes, fft->chirp + 2 * i);
}

static void conjugate(const Fft *fft, float *data)
{
	for (int64_t i = 0; i < fft->length; i++)
		for (int l = 0; l < fft->lanes; l++)
			data[(2 * i + 1) * fft->lanes + l] *= -1;
}

void fft_forward(const Fft *fft, float *data)
{
	if (fft->chirp)
		convolve(fft, data);
	else
		fft->kernels.forward(&fft->passes, data);
}

void fft_inverse(const Fft *fft, float *data)
{
	if (!fft->chirp) {
		fft->kernels.inverse(&fft->passes, data);
		return;
	}
	conjugate(fft, data);
	convolve(fft, data);
	conjugate(fft, data);
}

void fft_gather(
	const Fft *fft, const float *const *rows, int64_t from, int64_t to, int part, float *data)
{
	fft->kernels.gather(rows, from, to, part, data);
}

void fft_scatter(
	const Fft *fft, const float *data, int64_t from, int64_t to, int part, float *const *rows)
{
	fft->kernels.scatter(data, from, to, part, rows);
}

/* ---- double precision ------------------------------------------------------------------------ */

/* Transforms one sequence of a length without prime factors above 7; work is as long as two. */
static const KernelComplex *transform_double(
	KernelComplex *data, KernelComplex *work, int64_t length)
{
	KernelComplex *from = data, *to = work, *twiddles = work + length;
	FftPasses f = {.length = length};
	factorise(&f);
	for (int64_t i = 0; i < length; i++) {
		double angle = -2 * M_PI * (double)i / (double)length;
		twiddles[i] = (KernelComplex){cos(angle), sin(angle)};
	}
	int64_t span = 1;
	for (int p = 0; p < f.count; p++) {
		int radix = f.radix[p];
		for (int64_t j = 0; j < length / radix; j++)
			fft_step(from, to, twiddles, NULL, length, span, radix, j);
		span *= radix;
		KernelComplex *swapped = from;
		from = to;
		to = swapped;
	}
	return from;
}

tomos_status fft_even(double *values, int64_t length)
{
	KernelComplex *data;
	TRY(mem_zeroed(&data, 3 * length, sizeof *data, "a transform"));
	for (int64_t i = 0; i < length; i++)
		data[i].re = values[min64(i, length - i)];
	const KernelComplex *result = transform_double(data, data + length, length);
	for (int64_t k = 0; k <= length / 2; k++)
		values[k] = result[k].re;
	mem_free(data);
	return TOMOS_OK;
}
