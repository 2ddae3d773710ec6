/* Filters detector rows in one pass: two rows are weighted and padded as they are loaded, as one
 * complex sequence in shared memory, transformed, multiplied by the frequency response, transformed
 * back and stored. Rows that are too long, oversampled or continued by an ellipse go through cuFFT
 * (filter.cu). */
#include "backend/cuda/filter_rows.h"

/* Least threads of a block, and lengths of transforms. */
enum { BLOCK_THREADS = 256, SHORTEST = 256, LONGEST = 16384 };

typedef struct {
	FilterRowsCall of;
	BlockFft fft, back;
	const float *response;
	int64_t pairs; /* of rows, in a view: the last one of an odd number has a single row */
} RowsJob;

static __host__ __device__ constexpr int block_threads(int length)
{
	return length / FFT_EACH > BLOCK_THREADS ? length / FFT_EACH : BLOCK_THREADS;
}

static __host__ __device__ constexpr int block_sequences(int length)
{
	return block_threads(length) / (length / FFT_EACH);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

/* Sample i of a row; 0 for rows that do not exist. */
static __device__ __forceinline__ float load_sample(
	const FilterRowsCall &of, int64_t view, int64_t row, int i)
{
	const KernelRows &rows = of.rows;
	if (view >= of.count || row >= rows.rows)
		return 0;
	return rows_packed(&rows, &of.views[view], of.in + view * rows.rows * rows.seen,
		of.weights + view * rows.columns, of.fade, row, i);
}

/* The inverse transform is the forward one with real and imaginary parts exchanged. */
template <int L>
static __global__ void __launch_bounds__(block_threads(L), 1024 / block_threads(L))
	filter_pairs(const __grid_constant__ RowsJob job)
{
	extern __shared__ float2 samples[];
	float2 v[FFT_EACH];
	constexpr int threads = L / FFT_EACH;
	const int sequence = (int)threadIdx.x / threads;
	const int64_t pair = (int64_t)blockIdx.x * block_sequences(L) + sequence;
	const int64_t view = pair / job.pairs, row = 2 * (pair - view * job.pairs);
	const FilterRowsCall &of = job.of;
	const FftShare share = {
		samples + sequence * (L + L / 16 + 1), 1, (int)threadIdx.x % threads};
	fft_visit<L>(job.fft, true, share.lane, v, [&](float2 &value, int i) {
		value = make_float2(
			load_sample(of, view, row, i), load_sample(of, view, row + 1, i));
	});
	fft_run<L, false>(job.fft, share, v);
	fft_visit<L>(job.fft, false, share.lane, v, [&](float2 &value, int i) {
		const float factor = job.response[i <= L / 2 ? i : L - i];
		value = make_float2(factor * value.y, factor * value.x);
	});
	fft_run<L, true>(job.back, share, v);
	const int columns = (int)of.rows.columns;
	float *to = of.out + (view * of.rows.rows + row) * columns;
	const bool first = view < of.count, second = first && row + 1 < of.rows.rows;
	fft_visit<L>(job.fft, true, share.lane, v, [&](float2 &value, int i) {
		if (first && i < columns)
			to[i] = value.y;
		if (second && i < columns)
			to[columns + i] = value.x;
	});
}

/* ---- opening --------------------------------------------------------------------------------- */

/* The least power of two that the convolution is linear with. */
static int64_t length_of(const FilterSpec *spec)
{
	int64_t length = SHORTEST;
	while (length < 2 * (spec->columns + spec->margin))
		length *= 2;
	return length;
}

static size_t shared_bytes(int64_t length)
{
	return (size_t)block_sequences((int)length) * (size_t)fft_padded((int)length) *
	       sizeof(float2);
}

bool filter_rows_apply_to(const FilterSpec *spec)
{
	int64_t length = length_of(spec);
	return filter_transforms(spec) && spec->oversample == 1 &&
	       spec->padding != PADDING_ELLIPSE && length <= LONGEST &&
	       cuda_has_shared((int)shared_bytes(length));
}

/* In place, by radix 2 and in double precision: this is done once for a filter. */
static void transform(int n, double2 *x)
{
	for (int i = 1, j = 0; i < n; i++) {
		int bit = n >> 1;
		for (; j & bit; bit >>= 1)
			j ^= bit;
		j ^= bit;
		if (i < j) {
			const double2 kept = x[i];
			x[i] = x[j];
			x[j] = kept;
		}
	}
	for (int span = 1; span < n; span *= 2)
		for (int k = 0; k < span; k++) {
			const double angle = -M_PI * k / span, c = cos(angle), s = sin(angle);
			for (int i = k; i < n; i += 2 * span) {
				double2 &a = x[i], &b = x[i + span];
				const double2 t = {c * b.x - s * b.y, c * b.y + s * b.x};
				b = {a.x - t.x, a.y - t.y};
				a = {a.x + t.x, a.y + t.y};
			}
		}
}

/* The kernel is even, so that its transform is real. */
static tomos_status make_response(tomos_backend *b, FilterRows *f, const FilterSpec *spec)
{
	const int n = f->length;
	double2 *even;
	float *real = NULL;
	tomos_status status;
	TRY(mem_zeroed(&even, n, sizeof *even, "the filter's kernel"));
	for (int64_t i = 0; i < min64(spec->taps, n / 2 + 1); i++)
		even[i].x = even[(n - i) % n].x = spec->kernel[i];
	transform(n, even);
	TRY_OR_DONE(mem_alloc(&real, n / 2 + 1, sizeof *real, "the filter's kernel"));
	for (int k = 0; k <= n / 2; k++)
		real[k] = (float)(even[k].x / n);
	TRY_OR_DONE(fft_send(b, &f->response, real, (n / 2 + 1) * (int64_t)sizeof *real));
done:
	mem_free(real);
	mem_free(even);
	return status;
}

tomos_status filter_rows_open(tomos_backend *b, FilterRows *f, const FilterSpec *spec)
{
	f->length = (int)length_of(spec);
	TRY(fft_plan(b, &f->fft, f->length, false, &f->twiddles[0]));
	TRY(fft_plan(b, &f->back, f->length, true, &f->twiddles[1]));
	return make_response(b, f, spec);
}

void filter_rows_close(FilterRows *f)
{
	cudaFree(f->twiddles[0]);
	cudaFree(f->twiddles[1]);
	cudaFree(f->response);
}

/* ---- running --------------------------------------------------------------------------------- */

template <int L> static tomos_status launch(tomos_backend *b, const RowsJob &job)
{
	const int64_t all = job.pairs * job.of.count, sequences = block_sequences(L);
	TRY(cuda_take_shared((const void *)filter_pairs<L>));
	filter_pairs<L><<<(unsigned)((all + sequences - 1) / sequences), block_threads(L),
		shared_bytes(L), device_of(b)->stream>>>(job);
	CUDA_LAUNCHED("filtering");
	return TOMOS_OK;
}

tomos_status filter_rows_run(tomos_backend *b, const FilterRows *f, const FilterRowsCall *call)
{
	const RowsJob job = {*call, f->fft, f->back, f->response, (call->rows.rows + 1) / 2};
	switch (f->length) {
	case 256:
		return launch<256>(b, job);
	case 512:
		return launch<512>(b, job);
	case 1024:
		return launch<1024>(b, job);
	case 2048:
		return launch<2048>(b, job);
	case 4096:
		return launch<4096>(b, job);
	case 8192:
		return launch<8192>(b, job);
	default:
		return launch<LONGEST>(b, job);
	}
}
