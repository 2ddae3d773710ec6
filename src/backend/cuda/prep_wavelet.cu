/* Ring removal by wavelets (prep/ring_wavelet.c has the paper), on batches of sinograms. A level of
 * the transform goes along the columns from the image to a copy, and along the views back. */
#include "backend/cuda/prep.h"

enum { TILE = 32, SLICES = 8, WAVES = 8 };
#define REACH 4.0 /* widths after which the damping is negligible, as in prep/ring_wavelet.c */

/* Sinograms [sinogram][view][column], padded. */
typedef struct {
	int64_t views, columns, margin; /* padded size; columns before the first */
	int64_t first, count;           /* detector rows of this batch */
	float *image, *copy;
	float2 *sums;   /* of the damping: [sinogram][wave][column] */
	float2 *circle; /* cosine and sine of a view of the band, for one wave per scan */
} Images;

typedef struct {
	float low[PREP_TAPS], high[PREP_TAPS];
	int taps;
} Taps;

static __global__ void pad_kernel(const Images m, const PrepData d)
{
	int c = (int)(blockIdx.x * blockDim.x + threadIdx.x);
	if (c >= m.columns)
		return;
	int column = prep_mirrored(c - (int)m.margin, (int)d.columns);
	for (int64_t s = blockIdx.z; s < m.count; s += gridDim.z)
		for (int64_t v = blockIdx.y; v < m.views; v += gridDim.y) {
			int64_t view = prep_mirrored((int)v, (int)d.views);
			m.image[(s * m.views + v) * m.columns + c] =
				d.data[(view * d.rows + m.first + s) * d.columns + column];
		}
}

static __global__ void crop_kernel(const Images m, const PrepData d)
{
	int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (c >= d.columns)
		return;
	for (int64_t s = blockIdx.z; s < m.count; s += gridDim.z)
		for (int64_t v = blockIdx.y; v < d.views; v += gridDim.y)
			d.data[(v * d.rows + m.first + s) * d.columns + c] =
				m.image[(s * m.views + v) * m.columns + c + m.margin];
}

/* ---- one level ------------------------------------------------------------------------------- */

/* A line of `count` values with that stride: pair i of averages and details, and back. */
static __device__ void forth(
	const Taps &t, const float *in, float *out, int count, int64_t stride, int i)
{
	float average = 0, detail = 0;
	int at = 2 * i;
	for (int k = 0; k < t.taps; k++) {
		float value = in[at * stride];
		average += t.low[k] * value;
		detail += t.high[k] * value;
		at = at + 1 < count ? at + 1 : 0;
	}
	out[i * stride] = average;
	out[(count / 2 + i) * stride] = detail;
}

/* Values 2 i and 2 i + 1. */
static __device__ void back(
	const Taps &t, const float *in, float *out, int count, int64_t stride, int i)
{
	float even = 0, odd = 0;
	int half = count / 2, at = i;
	for (int k = 0; k < t.taps; k += 2) {
		float average = in[at * stride], detail = in[(half + at) * stride];
		even += t.low[k] * average + t.high[k] * detail;
		odd += t.low[k + 1] * average + t.high[k + 1] * detail;
		at = at > 0 ? at - 1 : half - 1;
	}
	out[2 * i * stride] = even;
	out[(2 * i + 1) * stride] = odd;
}

template <bool FORTH>
static __global__ void along_columns(const Taps t, const Images m, int views, int columns)
{
	int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
	if (i >= columns / 2)
		return;
	for (int64_t s = blockIdx.z; s < m.count; s += gridDim.z)
		for (int64_t v = blockIdx.y; v < views; v += gridDim.y) {
			int64_t row = (s * m.views + v) * m.columns;
			if (FORTH)
				forth(t, m.image + row, m.copy + row, columns, 1, i);
			else
				back(t, m.copy + row, m.image + row, columns, 1, i);
		}
}

template <bool FORTH>
static __global__ void along_views(const Taps t, const Images m, int views, int columns)
{
	int c = (int)(blockIdx.x * blockDim.x + threadIdx.x);
	if (c >= columns)
		return;
	for (int64_t s = blockIdx.z; s < m.count; s += gridDim.z) {
		int64_t at = s * m.views * m.columns + c;
		for (int i = (int)blockIdx.y; i < views / 2; i += gridDim.y)
			if (FORTH)
				forth(t, m.copy + at, m.image + at, views, m.columns, i);
			else
				back(t, m.image + at, m.copy + at, views, m.columns, i);
	}
}

/* ---- damping --------------------------------------------------------------------------------- */

static __global__ void circle_kernel(float2 *circle, int count)
{
	int v = (int)(blockIdx.x * blockDim.x + threadIdx.x);
	double sine, cosine;
	sincospi(2.0 * v / count, &sine, &cosine);
	if (v < count)
		circle[v] = make_float2((float)cosine, (float)sine);
}

/* The band has `views` rows and `columns` columns from column `columns` on; waves per scan first ..
 * first + WAVES - 1. */
typedef struct {
	int views, columns, first, count;
	float factor[WAVES];
} Band;

/* Views on the circle of each wave: they go on by `step` views. */
static __device__ void circle_begin(const Band &band, int v, int step, int at[WAVES], int by[WAVES])
{
	for (int k = 0; k < WAVES; k++) {
		at[k] = (int)((int64_t)(band.first + k) * v % band.views);
		by[k] = (int)((int64_t)(band.first + k) * step % band.views);
	}
}

static __device__ __forceinline__ float2 circle_next(
	const Images &m, const Band &band, int *at, int by)
{
	float2 w = m.circle[*at];
	*at += by;
	*at -= *at >= band.views ? band.views : 0;
	return w;
}

/* Fourier sums over the views; a block has TILE columns and SLICES threads for each. */
static __global__ void wave_sums(const Images m, const Band band)
{
	__shared__ float2 parts[SLICES][WAVES][TILE];
	int c = (int)(blockIdx.x * TILE + threadIdx.x), y = (int)threadIdx.y;
	const float *in = m.image + blockIdx.y * m.views * m.columns + band.columns + c;
	float2 sum[WAVES] = {};
	int at[WAVES], by[WAVES];
	circle_begin(band, y, SLICES, at, by);
	for (int v = y; c < band.columns && v < band.views; v += SLICES) {
		float value = in[v * m.columns];
#pragma unroll
		for (int k = 0; k < WAVES; k++) {
			if (k >= band.count)
				break;
			float2 w = circle_next(m, band, &at[k], by[k]);
			sum[k].x += value * w.x;
			sum[k].y += value * w.y;
		}
	}
	for (int k = 0; k < WAVES; k++)
		parts[y][k][threadIdx.x] = sum[k];
	__syncthreads();
	float2 total = {0, 0};
	for (int j = 0; j < SLICES; j++) { /* wave y: there are as many as slices */
		total.x += parts[j][y][threadIdx.x].x;
		total.y += parts[j][y][threadIdx.x].y;
	}
	if (c < band.columns)
		m.sums[(blockIdx.y * WAVES + y) * m.columns + c] =
			make_float2(band.factor[y] * total.x, band.factor[y] * total.y);
}

static __global__ void subtract_waves(const Images m, const Band band)
{
	int c = (int)(blockIdx.x * TILE + threadIdx.x);
	float *out = m.image + blockIdx.y * m.views * m.columns + band.columns + c;
	float2 sum[WAVES];
	int first = (int)(blockIdx.z * SLICES + threadIdx.y), step = (int)(SLICES * gridDim.z);
	int at[WAVES], by[WAVES];
	if (c >= band.columns)
		return;
	for (int k = 0; k < WAVES; k++)
		sum[k] = m.sums[(blockIdx.y * WAVES + k) * m.columns + c];
	circle_begin(band, first, step, at, by);
	for (int v = first; v < band.views; v += step) {
		float value = out[v * m.columns];
#pragma unroll
		for (int k = 0; k < WAVES; k++) {
			if (k >= band.count)
				break;
			float2 w = circle_next(m, band, &at[k], by[k]);
			value -= sum[k].x * w.x + sum[k].y * w.y;
		}
		out[v * m.columns] = value;
	}
}

static void damp(cudaStream_t stream, const PrepSpec *s, const Images *m, int views, int columns)
{
	double sigma = s->ring_sigma;
	int64_t most = min64(views / 2, (int64_t)fmin(REACH * sigma, (double)views));
	const dim3 threads(TILE, SLICES);
	const unsigned across = cuda_blocks(columns, TILE, 1 << 30), count = (unsigned)m->count;
	circle_kernel<<<cuda_blocks(views, PREP_THREADS, 1 << 30), PREP_THREADS, 0, stream>>>(
		m->circle, views);
	for (int64_t f = 0; f <= most; f += WAVES) {
		Band band = {views, columns, (int)f, (int)min64(WAVES, most + 1 - f), {0}};
		for (int64_t k = f; k < f + band.count; k++)
			band.factor[k - f] = (float)(exp(-0.5 * (double)(k * k) / (sigma * sigma)) *
						     (k == 0 || 2 * k == views ? 1 : 2) / views);
		wave_sums<<<dim3(across, count), threads, 0, stream>>>(*m, band);
		subtract_waves<<<dim3(across, count, 16), threads, 0, stream>>>(*m, band);
	}
}

/* ---- running --------------------------------------------------------------------------------- */

static PrepPadded padded(const PrepSpec *s, const PrepData *d)
{
	return prep_padded(s, d, PREP_BATCH, 65535);
}

static int64_t wavelet_floats(const PrepWork *w, const PrepData *d)
{
	return prep_padded_floats(padded(&w->spec, d), WAVES);
}

static void run_batch(cudaStream_t stream, const PrepSpec *s, const Images *m, PrepData *d)
{
	Taps t = {.taps = s->ring_taps};
	prep_taps(s, t.low, t.high);
	auto grid = [&](int64_t x, int64_t y) { return prep_grid(x, y, m->count); };
	pad_kernel<<<grid(m->columns, m->views), PREP_THREADS, 0, stream>>>(*m, *d);
	for (int k = 0; k < s->ring_levels; k++) {
		int views = (int)(m->views >> k), columns = (int)(m->columns >> k);
		along_columns<true><<<grid(columns / 2, views), PREP_THREADS, 0, stream>>>(
			t, *m, views, columns);
		along_views<true><<<grid(columns, views / 2), PREP_THREADS, 0, stream>>>(
			t, *m, views, columns);
		damp(stream, s, m, views / 2, columns / 2);
	}
	for (int k = s->ring_levels - 1; k >= 0; k--) {
		int views = (int)(m->views >> k), columns = (int)(m->columns >> k);
		along_views<false><<<grid(columns, views / 2), PREP_THREADS, 0, stream>>>(
			t, *m, views, columns);
		along_columns<false><<<grid(columns / 2, views), PREP_THREADS, 0, stream>>>(
			t, *m, views, columns);
	}
	crop_kernel<<<grid(d->columns, d->views), PREP_THREADS, 0, stream>>>(*m, *d);
}

static tomos_status wavelet_run(tomos_backend *b, PrepWork *w, PrepData *d, float *scratch)
{
	const PrepPadded room = padded(&w->spec, d);
	Images m = {.views = room.views, .columns = room.columns, .margin = room.margin};
	const int64_t batch = room.count, size = batch * m.views * m.columns;
	m.image = scratch;
	m.copy = scratch + size;
	m.sums = (float2 *)(m.copy + size);
	m.circle = m.sums + batch * WAVES * m.columns;
	for (m.first = 0; m.first < d->rows; m.first += batch) {
		m.count = min64(batch, d->rows - m.first);
		run_batch(device_of(b)->stream, &w->spec, &m, d);
		CUDA_LAUNCHED("ring removal");
	}
	return TOMOS_OK;
}

const PrepStep cuda_prep_wavelet = {wavelet_floats, wavelet_run};
