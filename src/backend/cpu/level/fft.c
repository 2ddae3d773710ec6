/* Fourier transforms of one sequence per lane, in place.
 *
 * W. M. Gentleman, G. Sande, Fast Fourier transforms for fun and profit, AFIPS 29 (1966):
 * decimation in frequency, which leaves frequencies in the order of reversed digits. The inverse
 * undoes the passes in reverse order, so data are never reordered. A pass over a block is followed
 * by all passes over its first part, then those over its second, so that most of them work in
 * the L1 cache.
 */
#include "backend/cpu/cpu.h"
#include "backend/cpu/level/simd.h"

enum { SAMPLE = 2 * LANES }; /* floats */

typedef struct {
	vf re, im;
} vc;

INLINE vc vc_load(const float *p)
{
	return (vc){vf_load(p), vf_load(p + LANES)};
}

INLINE void vc_store(float *p, vc v)
{
	vf_store(p, v.re);
	vf_store(p + LANES, v.im);
}

INLINE vc vc_add(vc a, vc b)
{
	return (vc){a.re + b.re, a.im + b.im};
}

INLINE vc vc_sub(vc a, vc b)
{
	return (vc){a.re - b.re, a.im - b.im};
}

/* a times the twiddle, or (`inverse`) its conjugate */
INLINE vc vc_mul(vc a, const float twiddle[2], const bool inverse)
{
	vf c = vf_all(twiddle[0]), s = vf_all(inverse ? -twiddle[1] : twiddle[1]);
	return (vc){a.re * c - a.im * s, a.re * s + a.im * c};
}

/* ---- transforms of one radix ----------------------------------------------------------------- */

/* a times -sqrt(-1), or sqrt(-1) for the inverse */
INLINE vc quarter(vc a, const bool inverse)
{
	return inverse ? (vc){-a.im, a.re} : (vc){a.im, -a.re};
}

INLINE void transform_2(vc a[2])
{
	vc sum = vc_add(a[0], a[1]);
	a[1] = vc_sub(a[0], a[1]);
	a[0] = sum;
}

INLINE void transform_4(vc a[4], const bool inverse)
{
	vc even[2] = {vc_add(a[0], a[2]), vc_sub(a[0], a[2])};
	vc odd[2] = {vc_add(a[1], a[3]), quarter(vc_sub(a[1], a[3]), inverse)};
	for (int i = 0; i < 2; i++) {
		a[i] = vc_add(even[i], odd[i]);
		a[i + 2] = vc_sub(even[i], odd[i]);
	}
}

INLINE void transform_8(vc a[8], const bool inverse)
{
	vc even[4] = {a[0], a[2], a[4], a[6]}, odd[4] = {a[1], a[3], a[5], a[7]};
	const vf half = vf_all(0.70710678118654752F);
	transform_4(even, inverse);
	transform_4(odd, inverse);
	vc rotated[2] = {quarter(odd[1], inverse), quarter(odd[3], inverse)};
	odd[1] = (vc){half * (odd[1].re + rotated[0].re), half * (odd[1].im + rotated[0].im)};
	odd[2] = quarter(odd[2], inverse);
	odd[3] = (vc){half * (rotated[1].re - odd[3].re), half * (rotated[1].im - odd[3].im)};
	for (int i = 0; i < 4; i++) {
		a[i] = vc_add(even[i], odd[i]);
		a[i + 4] = vc_sub(even[i], odd[i]);
	}
}

/* Cosines and sines of multiples of 2 pi / radix. */
static const float turns[FFT_RADIX][2][7] = {
	[3] = {{1, -0.5F, -0.5F}, {0, 0.866025403784438647F, -0.866025403784438647F}},
	[5] = {{1, 0.309016994374947424F, -0.809016994374947424F, -0.809016994374947424F,
		       0.309016994374947424F},
		{0, 0.951056516295153572F, 0.587785252292473129F, -0.587785252292473129F,
			-0.951056516295153572F}},
	[7] = {{1, 0.623489801858733531F, -0.222520933956314404F, -0.900968867902419126F,
		       -0.900968867902419126F, -0.222520933956314404F, 0.623489801858733531F},
		{0, 0.781831482468029809F, 0.974927912181823607F, 0.433883739117558120F,
			-0.433883739117558120F, -0.974927912181823607F, -0.781831482468029809F}},
};

/* Samples i and radix - i have the same cosine and opposite sines. */
INLINE void transform_odd(vc a[], const int radix, const bool inverse)
{
	const int half = radix / 2;
	vc first = a[0], sums[FFT_RADIX / 2], differences[FFT_RADIX / 2];
	for (int i = 0; i < half; i++) {
		sums[i] = vc_add(a[i + 1], a[radix - 1 - i]);
		differences[i] = vc_sub(a[i + 1], a[radix - 1 - i]);
	}
	for (int i = 0; i < half; i++)
		a[0] = vc_add(a[0], sums[i]);
	for (int k = 1; k <= half; k++) {
		vc even = first, odd = {{0}, {0}};
		for (int i = 0; i < half; i++) {
			const int turn = (i + 1) * k % radix;
			vf c = vf_all(turns[radix][0][turn]), s = vf_all(turns[radix][1][turn]);
			even = (vc){even.re + c * sums[i].re, even.im + c * sums[i].im};
			odd = (vc){odd.re + s * differences[i].re, odd.im + s * differences[i].im};
		}
		odd = quarter(odd, inverse);
		a[k] = vc_add(even, odd);
		a[radix - k] = vc_sub(even, odd);
	}
}

INLINE void transform(vc a[], const int radix, const bool inverse)
{
	if (radix == 2)
		transform_2(a);
	else if (radix == 4)
		transform_4(a, inverse);
	else if (radix == 8)
		transform_8(a, inverse);
	else
		transform_odd(a, radix, inverse);
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* One pass over a block of `radix` parts, of `part` samples each. */
INLINE void pass(
	float *data, int64_t part, const float *twiddles, const int radix, const bool inverse)
{
	for (int64_t j = 0; j < part; j++, data += SAMPLE, twiddles += 2 * (radix - 1)) {
		vc a[FFT_RADIX];
		for (int i = 0; i < radix; i++)
			a[i] = vc_load(data + i * part * SAMPLE);
		for (int i = 1; i < radix && inverse; i++)
			a[i] = vc_mul(a[i], twiddles + 2 * i - 2, true);
		transform(a, radix, inverse);
		for (int i = 1; i < radix && !inverse; i++)
			a[i] = vc_mul(a[i], twiddles + 2 * i - 2, false);
		for (int i = 0; i < radix; i++)
			vc_store(data + i * part * SAMPLE, a[i]);
	}
}

/* The last pass over `count` blocks of `radix` samples: all twiddles are 1. */
INLINE void last_pass(float *data, int64_t count, const int radix, const bool inverse)
{
	for (int64_t j = 0; j < count; j++, data += radix * SAMPLE) {
		vc a[FFT_RADIX];
		for (int i = 0; i < radix; i++)
			a[i] = vc_load(data + i * SAMPLE);
		transform(a, radix, inverse);
		for (int i = 0; i < radix; i++)
			vc_store(data + i * SAMPLE, a[i]);
	}
}

/* Calls with the radix as a constant. */
#define RADIX_CASE(number, call, ...) \
	case number: \
		call(__VA_ARGS__, number, inverse); \
		break;
#define WITH_RADIX(call, radix, ...) \
	switch (radix) { \
		RADIX_CASE(2, call, __VA_ARGS__) \
		RADIX_CASE(3, call, __VA_ARGS__) \
		RADIX_CASE(4, call, __VA_ARGS__) \
		RADIX_CASE(5, call, __VA_ARGS__) \
		RADIX_CASE(7, call, __VA_ARGS__) \
		RADIX_CASE(8, call, __VA_ARGS__) \
	}

INLINE void any_pass(float *data, int64_t part, const float *twiddles, int radix, bool inverse){
	WITH_RADIX(pass, radix, data, part, twiddles)}

INLINE void any_last(float *data, int64_t count, int radix, bool inverse)
{
	WITH_RADIX(last_pass, radix, data, count)
}

static void forward_block(const FftPasses *f, float *data, int64_t length, int number)
{
	int radix = f->radix[number];
	int64_t part = length / radix;
	any_pass(data, part, f->twiddles[number], radix, false);
	if (number + 2 == f->count)
		any_last(data, radix, (int)part, false);
	for (int i = 0; i < radix && number + 2 < f->count; i++)
		forward_block(f, data + i * part * SAMPLE, part, number + 1);
}

static void inverse_block(const FftPasses *f, float *data, int64_t length, int number)
{
	int radix = f->radix[number];
	int64_t part = length / radix;
	if (number + 2 == f->count)
		any_last(data, radix, (int)part, true);
	for (int i = 0; i < radix && number + 2 < f->count; i++)
		inverse_block(f, data + i * part * SAMPLE, part, number + 1);
	any_pass(data, part, f->twiddles[number], radix, true);
}

static void forward(const FftPasses *f, float *data)
{
	if (f->count == 1)
		any_last(data, 1, f->radix[0], false);
	else if (f->count > 1)
		forward_block(f, data, f->length, 0);
}

static void inverse(const FftPasses *f, float *data)
{
	if (f->count == 1)
		any_last(data, 1, f->radix[0], true);
	else if (f->count > 1)
		inverse_block(f, data, f->length, 0);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void gather(const float *const *rows, int64_t from, int64_t to, int part, float *data)
{
	float *out = data + part * LANES;
	int64_t i = from;
	for (; i + LANES <= to; i += LANES) {
		vf m[LANES];
		for (int l = 0; l < LANES; l++)
			m[l] = vf_load(rows[l] + i);
		vf_transpose(m);
		for (int l = 0; l < LANES; l++)
			vf_store(out + (i + l) * SAMPLE, m[l]);
	}
	for (; i < to; i++)
		for (int l = 0; l < LANES; l++)
			out[i * SAMPLE + l] = rows[l][i];
}

static void scatter(const float *data, int64_t from, int64_t to, int part, float *const *rows)
{
	const float *in = data + part * LANES;
	int64_t i = from;
	for (; i + LANES <= to; i += LANES) {
		vf m[LANES];
		for (int l = 0; l < LANES; l++)
			m[l] = vf_load(in + (i + l) * SAMPLE);
		vf_transpose(m);
		for (int l = 0; l < LANES; l++)
			vf_store(rows[l] + i, m[l]);
	}
	for (; i < to; i++)
		for (int l = 0; l < LANES; l++)
			rows[l][i] = in[i * SAMPLE + l];
}

const FftKernels LEVEL(fft_kernels) = {forward, inverse, gather, scatter};
