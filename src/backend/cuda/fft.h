/* Fourier transforms of sequences that fit into the shared memory of a block, for kernels that load
 * samples from anywhere, work on the transform, and store them.
 *
 * T. G. Stockham, "High-speed convolution and correlation", AFIPS 28 (1966). A thread has up to
 * FFT_EACH samples in registers, which threads exchange through shared memory between passes.
 */
#ifndef TOMOS_BACKEND_CUDA_FFT_H
#define TOMOS_BACKEND_CUDA_FFT_H

#include "backend/cuda/cuda.h"

enum { FFT_EACH = 16, FFT_PASSES = 16, FFT_THREADS = 1024 };

/* Threads: of one sequence. Twiddle factors exp(-2 pi sqrt(-1) r k / (span R)) of the passes after
 * the first, [pass][r - 1][k]. */
typedef struct {
	int length, threads, passes, radix[FFT_PASSES];
	const float2 *twiddles;
} BlockFft;

/* The sequence of this thread in shared memory: sample i is at (i + i / 16) stride. The gaps keep
 * threads that are 16 samples apart in different banks. */
typedef struct {
	float2 *data;
	int stride, lane; /* lane: number of the thread among those of the sequence */
} FftShare;

static inline int fft_padded(int length)
{
	return length + length / 16 + 1;
}

/* The plan of transforms of a length, `backwards` with its passes in the opposite order. The caller
 * frees the twiddle factors in device memory, also after a failure. */
tomos_status fft_plan(
	tomos_backend *backend, BlockFft *fft, int length, bool backwards, float2 **twiddles);
/* Device memory (*device) with the contents of host memory. */
tomos_status fft_send(tomos_backend *backend, void *device, const void *host, int64_t bytes);

static __device__ __forceinline__ float2 complex_times(float2 a, float2 b)
{
	return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

static __device__ __forceinline__ float2 complex_plus(float2 a, float2 b)
{
	return make_float2(a.x + b.x, a.y + b.y);
}

static __device__ __forceinline__ float2 complex_minus(float2 a, float2 b)
{
	return make_float2(a.x - b.x, a.y - b.y);
}

/* ---- short transforms, in place -------------------------------------------------------------- */

static __device__ __forceinline__ void dft4(float2 &a, float2 &b, float2 &c, float2 &d)
{
	const float2 s = complex_plus(a, c), t = complex_minus(a, c);
	const float2 u = complex_plus(b, d), v = complex_minus(b, d);
	a = complex_plus(s, u);
	c = complex_minus(s, u);
	b = make_float2(t.x + v.y, t.y - v.x);
	d = make_float2(t.x - v.y, t.y + v.x);
}

/* exp(-2 pi sqrt(-1) i / 16) */
static __device__ __forceinline__ float2 sixteenth(int i)
{
	constexpr float c[] = {1, 0.92387953251F, 0.70710678119F, 0.38268343236F, 0};
	const int k = i % 4;
	const float2 w = make_float2(c[k], -c[4 - k]);
	return i / 4 == 0   ? w
	       : i / 4 == 1 ? make_float2(w.y, -w.x)
	       : i / 4 == 2 ? make_float2(-w.x, -w.y)
			    : make_float2(-w.y, w.x);
}

/* cos(2 pi i / R) and sin for the odd radices. */
template <int R> static __device__ __forceinline__ float2 root_of(int i)
{
	constexpr float c3[] = {1, -0.5F, -0.5F}, s3[] = {0, 0.86602540378F, -0.86602540378F};
	constexpr float c5[] = {
		1, 0.30901699437F, -0.80901699437F, -0.80901699437F, 0.30901699437F};
	constexpr float s5[] = {
		0, 0.95105651630F, 0.58778525229F, -0.58778525229F, -0.95105651630F};
	constexpr float c7[] = {1, 0.62348980186F, -0.22252093396F, -0.90096886790F,
		-0.90096886790F, -0.22252093396F, 0.62348980186F};
	constexpr float s7[] = {0, 0.78183148247F, 0.97492791218F, 0.43388373912F, -0.43388373912F,
		-0.97492791218F, -0.78183148247F};
	return R == 3   ? make_float2(c3[i % 3], s3[i % 3])
	       : R == 5 ? make_float2(c5[i % 5], s5[i % 5])
			: make_float2(c7[i % 7], s7[i % 7]);
}

template <int R> static __device__ __forceinline__ void dft_odd(float2 *v)
{
	float2 sum[R / 2], difference[R / 2], first = v[0];
#pragma unroll
	for (int r = 1; r <= R / 2; r++) {
		sum[r - 1] = complex_plus(v[r], v[R - r]);
		difference[r - 1] = complex_minus(v[r], v[R - r]);
		v[0] = complex_plus(v[0], sum[r - 1]);
	}
#pragma unroll
	for (int k = 1; k <= R / 2; k++) {
		float2 even = first, odd = {};
#pragma unroll
		for (int r = 1; r <= R / 2; r++) {
			const float2 w = root_of<R>(r * k);
			even.x = fmaf(w.x, sum[r - 1].x, even.x);
			even.y = fmaf(w.x, sum[r - 1].y, even.y);
			odd.x = fmaf(w.y, difference[r - 1].x, odd.x);
			odd.y = fmaf(w.y, difference[r - 1].y, odd.y);
		}
		v[k] = make_float2(even.x + odd.y, even.y - odd.x);
		v[R - k] = make_float2(even.x - odd.y, even.y + odd.x);
	}
}

/* Columns of a matrix of A rows and 4 columns, then its rows. */
template <int A> static __device__ __forceinline__ void dft_rows(float2 *v)
{
	float2 w[4 * A];
#pragma unroll
	for (int b = 0; b < 4; b++) {
		if (A == 4) {
			dft4(v[b], v[b + 4], v[b + 8 % (4 * A)], v[b + 12 % (4 * A)]);
		} else {
			const float2 a = v[b];
			v[b] = complex_plus(a, v[b + 4]);
			v[b + 4] = complex_minus(a, v[b + 4]);
		}
	}
#pragma unroll
	for (int c = 0; c < A; c++) {
#pragma unroll
		for (int b = 1; b < 4; b++)
			if (b * c * 4 / A == 4)
				v[4 * c + b] = make_float2(v[4 * c + b].y, -v[4 * c + b].x);
			else if (c > 0)
				v[4 * c + b] =
					complex_times(v[4 * c + b], sixteenth(b * c * 4 / A));
		dft4(v[4 * c], v[4 * c + 1], v[4 * c + 2], v[4 * c + 3]);
#pragma unroll
		for (int d = 0; d < 4; d++)
			w[c + A * d] = v[4 * c + d];
	}
#pragma unroll
	for (int i = 0; i < 4 * A; i++)
		v[i] = w[i];
}

template <int R> static __device__ __forceinline__ void dft(float2 *v)
{
	if constexpr (R == 16) {
		dft_rows<4>(v);
	} else if constexpr (R == 8) {
		dft_rows<2>(v);
	} else if constexpr (R == 4) {
		dft4(v[0], v[1], v[2], v[3]);
	} else if constexpr (R == 2) {
		const float2 a = v[0];
		v[0] = complex_plus(a, v[1]);
		v[1] = complex_minus(a, v[1]);
	} else {
		dft_odd<R>(v);
	}
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* A number that the compiler must take as new: it would otherwise compute the addresses of all
 * radices before the loop over passes, and run out of registers. */
static __device__ __forceinline__ int fft_new(int value)
{
	asm volatile("" : "+r"(value));
	return value;
}

/* Length and threads of a sequence: L, if the length is known when the code is compiled, or those
 * of the plan. */
template <int L> static __device__ __forceinline__ int fft_length_of(const BlockFft &f)
{
	return L > 0 ? L : fft_new(f.length);
}

template <int L> static __device__ __forceinline__ int fft_threads_of(const BlockFft &f)
{
	return L > 0 ? L / FFT_EACH : fft_new(f.threads);
}

static __device__ __forceinline__ int fft_rest(int j, int span)
{
	return (span & (span - 1)) == 0 ? j & (span - 1) : j % span;
}

/* Calls butterfly(j, v) with the number j of each butterfly of radix R of this thread and its
 * samples. */
template <int R, int L, typename Butterfly>
static __device__ __forceinline__ void fft_each(
	const BlockFft &f, int lane, float2 *v, Butterfly butterfly)
{
	const int part = fft_length_of<L>(f) / R, threads = fft_threads_of<L>(f);
#pragma unroll
	for (int q = 0; q < FFT_EACH / R; q++) {
		const int j = lane + q * threads;
		if (j < part)
			butterfly(j, v + q * R);
	}
}

/* Calls visit(v, i) with samples j + r length / R of the butterflies j of this thread: those of the
 * first pass, if R is its radix, or of the transform, if R is that of the last one. */
template <int R, int L, typename Visit>
static __device__ __forceinline__ void fft_samples(
	const BlockFft &f, int lane, float2 *v, Visit visit)
{
	const int part = fft_length_of<L>(f) / R;
	fft_each<R, L>(f, lane, v, [&](int j, float2 *of) {
#pragma unroll
		for (int r = 0; r < R; r++)
			visit(of[r], j + r * part);
	});
}

template <int R, int L>
static __device__ __forceinline__ void fft_work(
	const BlockFft &f, const float2 *twiddles, int span, int lane, float2 *v)
{
	fft_each<R, L>(f, lane, v, [&](int j, float2 *of) {
		if (span > 1) {
			const float2 *w = twiddles + fft_rest(j, span);
#pragma unroll
			for (int r = 1; r < R; r++)
				of[r] = complex_times(of[r], w[(r - 1) * span]);
		}
		dft<R>(of);
	});
}

/* Calls move(r, place) with the places in shared memory of R samples that are `apart` from each
 * other, from `first` on. Gaps are at multiples of 16, so that mostly the places are equally far
 * apart (`even`). */
template <int R, typename Move>
static __device__ __forceinline__ void fft_places(
	const FftShare &share, int first, int apart, bool even, Move move)
{
	if (even) {
		float2 *place = share.data + (first + first / 16) * share.stride;
		const int step = (apart + apart / 16) * share.stride;
#pragma unroll
		for (int r = 0; r < R; r++)
			move(r, place[r * step]);
	} else {
#pragma unroll
		for (int r = 0; r < R; r++) {
			const int i = first + r * apart;
			move(r, share.data[(i + i / 16) * share.stride]);
		}
	}
}

/* Stores the samples of a pass. */
template <int R, int L>
static __device__ __forceinline__ void fft_put(
	const BlockFft &f, int span, const FftShare &share, float2 *v)
{
	const bool even = span % 16 == 0 || (span == 1 && 16 % R == 0);
	fft_each<R, L>(f, share.lane, v, [&](int j, const float2 *of) {
		const int k = fft_rest(j, span);
		fft_places<R>(share, (j - k) * R + k, span, even,
			[&](int r, float2 &place) { place = of[r]; });
	});
}

/* Loads the samples of the next pass. */
template <int R, int L>
static __device__ __forceinline__ void fft_get(const BlockFft &f, const FftShare &share, float2 *v)
{
	const int part = fft_length_of<L>(f) / R;
	fft_each<R, L>(f, share.lane, v, [&](int j, float2 *of) {
		fft_places<R>(share, j, part, part % 16 == 0,
			[&](int r, const float2 &place) { of[r] = place; });
	});
}

#define FFT_RADIX(R, CALL) \
	case R: \
		CALL(R); \
		break;
#define FFT_EVERY_RADIX(radix, CALL) \
	switch (radix) { \
		FFT_RADIX(16, CALL) \
		FFT_RADIX(8, CALL) \
		FFT_RADIX(7, CALL) \
		FFT_RADIX(5, CALL) \
		FFT_RADIX(4, CALL) \
		FFT_RADIX(3, CALL) \
		FFT_RADIX(2, CALL) \
	}

/* Radices of a power of two: 16, and in the last pass the rest; `backwards` in the first. */
template <int L> static __host__ __device__ constexpr int fft_passes_of(void)
{
	int passes = 0;
	for (int rest = L; rest > 1; rest = rest > 16 ? rest / 16 : 1)
		passes++;
	return passes;
}

template <int L> static __host__ __device__ constexpr int fft_radix_of(int pass, bool backwards)
{
	int rest = L;
	if (backwards)
		pass = fft_passes_of<L>() - 1 - pass;
	for (; pass > 0; pass--)
		rest /= 16;
	return rest < 16 ? rest : 16;
}

/* The samples of this thread in the first pass (`first`), or those of the transform. */
template <int L, typename Visit>
static __device__ __forceinline__ void fft_visit(
	const BlockFft &f, bool first, int lane, float2 *v, Visit visit)
{
	if constexpr (L > 0) {
		constexpr int begin = fft_radix_of<L>(0, false);
		constexpr int end = fft_radix_of<L>(0, true);
		if (first)
			fft_samples<begin, L>(f, lane, v, visit);
		else
			fft_samples<end, L>(f, lane, v, visit);
	} else {
#define FFT_CALL(R) fft_samples<R, 0>(f, lane, v, visit)
		FFT_EVERY_RADIX(f.radix[first ? 0 : f.passes - 1], FFT_CALL)
#undef FFT_CALL
	}
}

/* Passes from PASS on, after transforms of SPAN samples. */
template <int L, bool BACKWARDS, int PASS, int SPAN>
static __device__ __forceinline__ void fft_fixed(
	const BlockFft &f, const float2 *twiddles, const FftShare &share, float2 *v)
{
	constexpr int R = fft_radix_of<L>(PASS, BACKWARDS);
	fft_work<R, L>(f, twiddles, SPAN, share.lane, v);
	if constexpr (PASS + 1 < fft_passes_of<L>()) {
		__syncthreads(); /* samples of the pass before have been read */
		fft_put<R, L>(f, SPAN, share, v);
		__syncthreads();
		fft_get<fft_radix_of<L>(PASS + 1, BACKWARDS), L>(f, share, v);
		fft_fixed<L, BACKWARDS, PASS + 1, SPAN * R>(
			f, SPAN > 1 ? twiddles + (R - 1) * SPAN : twiddles, share, v);
	}
}

/* Forward transform of all sequences of a block, not scaled. L: their length, a power of two, or 0
 * for any; BACKWARDS: whether the plan has the passes in the opposite order. */
template <int L, bool BACKWARDS>
static __device__ __forceinline__ void fft_run(const BlockFft &f, const FftShare &share, float2 *v)
{
	if constexpr (L > 0) {
		fft_fixed<L, BACKWARDS, 0, 1>(f, f.twiddles, share, v);
		return;
	}
	const float2 *twiddles = f.twiddles;
	int span = 1;
	for (int pass = 0; L == 0 && pass < f.passes; pass++) {
		const int radix = f.radix[pass];
#define FFT_CALL(R) fft_work<R, 0>(f, twiddles, span, share.lane, v)
		FFT_EVERY_RADIX(radix, FFT_CALL)
#undef FFT_CALL
		if (pass + 1 == f.passes)
			return;
		__syncthreads();
#define FFT_CALL(R) fft_put<R, 0>(f, span, share, v)
		FFT_EVERY_RADIX(radix, FFT_CALL)
#undef FFT_CALL
		__syncthreads();
		twiddles += span > 1 ? (radix - 1) * span : 0;
		span *= radix;
#define FFT_CALL(R) fft_get<R, 0>(f, share, v)
		FFT_EVERY_RADIX(f.radix[pass + 1], FFT_CALL)
#undef FFT_CALL
	}
}

#endif
