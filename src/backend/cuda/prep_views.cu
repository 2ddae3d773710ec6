/* Preparation of whole views: bad ones, shifts, binning, and the copy without margins and omitted
 * views. */
#include "backend/cuda/prep.h"

/* ---- bad views ------------------------------------------------------------------------------- */

static __global__ void bridge_kernel(const PrepBridge *bridges, int64_t count, const PrepData d)
{
	int64_t plane = d.rows * d.columns, i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= plane)
		return;
	for (int64_t k = blockIdx.y; k < count; k += gridDim.y) {
		const PrepBridge at = bridges[k];
		float before = d.data[at.from * plane + i], after = d.data[at.to * plane + i];
		d.data[at.view * plane + i] = before + at.share * (after - before);
	}
}

static tomos_status bad_views_run(tomos_backend *b, PrepWork *w, PrepData *d, float *scratch)
{
	(void)scratch;
	if (w->spec.bad_count == 0)
		return TOMOS_OK;
	bridge_kernel<<<prep_grid(d->rows * d->columns, w->spec.bad_count, 1), PREP_THREADS, 0,
		device_of(b)->stream>>>(w->bridges, w->spec.bad_count, *d);
	CUDA_LAUNCHED("interpolating bad views");
	return TOMOS_OK;
}

static int64_t no_floats(const PrepWork *w, const PrepData *d)
{
	(void)w, (void)d;
	return 0;
}

const CudaPrepStep cuda_prep_bad_views = {no_floats, bad_views_run};

/* ---- shifts ---------------------------------------------------------------------------------- */

static __device__ int clamped(int i, int count)
{
	return min(max(i, 0), count - 1);
}

/* Views first .. first + count - 1 of d, from their copy. */
static __global__ void shift_kernel(
	const PrepShift *shifts, const float *copy, int64_t first, int64_t count, const PrepData d)
{
	int columns = (int)d.columns, rows = (int)d.rows;
	int c = (int)(blockIdx.x * blockDim.x + threadIdx.x);
	if (c >= columns)
		return;
	for (int64_t v = blockIdx.z; v < count; v += gridDim.z) {
		const PrepShift s = shifts[first + v];
		const float *in = copy + v * d.rows * d.columns;
		float *out = d.data + (first + v) * d.rows * d.columns;
		for (int r = (int)blockIdx.y; s.moved && r < rows; r += gridDim.y) {
			float sum = 0;
			for (int j = 0; j < SHIFT_TAPS; j++) {
				const float *row = in + clamped(r + s.row + j, rows) * d.columns;
				float line = 0;
				for (int i = 0; i < SHIFT_TAPS; i++)
					line += s.across[i] *
						row[clamped(c + s.column + i, columns)];
				sum += s.along[j] * line;
			}
			out[(int64_t)r * columns + c] = sum;
		}
	}
}

static int64_t shift_batch(const PrepData *d)
{
	return prep_batch(d->rows * d->columns, d->views);
}

static int64_t shift_floats(const PrepWork *w, const PrepData *d)
{
	(void)w;
	return shift_batch(d) * d->rows * d->columns;
}

static tomos_status shift_run(tomos_backend *b, PrepWork *w, PrepData *d, float *scratch)
{
	const int64_t plane = d->rows * d->columns, batch = shift_batch(d);
	for (int64_t first = 0; w->shifts && first < d->views; first += batch) {
		int64_t count = min64(batch, d->views - first);
		TRY(b->type->vector->copy(b, count * plane, d->data + first * plane, scratch));
		shift_kernel<<<prep_grid(d->columns, d->rows, count), PREP_THREADS, 0,
			device_of(b)->stream>>>(w->shifts, scratch, first, count, *d);
		CUDA_LAUNCHED("shifting views");
	}
	return TOMOS_OK;
}

const CudaPrepStep cuda_prep_shift = {shift_floats, shift_run};

/* ---- binning --------------------------------------------------------------------------------- */

static __global__ void bin_kernel(int64_t bin, const PrepData in, const PrepData out)
{
	int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	double share = 1 / ((double)bin * (double)bin);
	if (c >= out.columns)
		return;
	for (int64_t v = blockIdx.z; v < out.views; v += gridDim.z)
		for (int64_t r = blockIdx.y; r < out.rows; r += gridDim.y) {
			const float *corner =
				in.data + (v * in.rows + r * bin) * in.columns + c * bin;
			double sum = 0;
			for (int64_t j = 0; j < bin; j++)
				for (int64_t i = 0; i < bin; i++)
					sum += (double)corner[j * in.columns + i];
			out.data[(v * out.rows + r) * out.columns + c] = (float)(sum * share);
		}
}

tomos_status prep_bin(tomos_backend *b, int64_t bin, const PrepData *in, PrepData *out)
{
	bin_kernel<<<prep_grid(out->columns, out->rows, out->views), PREP_THREADS, 0,
		device_of(b)->stream>>>(bin, *in, *out);
	CUDA_LAUNCHED("binning");
	return TOMOS_OK;
}

/* ---- the result ------------------------------------------------------------------------------ */

typedef struct {
	const int32_t *kept;
	int64_t views, before, rows, padded;
	float *out;
} Copying;

static __global__ void copy_kernel(const Copying to, const PrepData in)
{
	int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (c >= in.columns)
		return;
	for (int64_t v = blockIdx.z; v < to.views; v += gridDim.z) {
		int64_t from = to.kept ? to.kept[v] : v;
		for (int64_t r = blockIdx.y; r < to.padded; r += gridDim.y)
			to.out[(v * to.padded + r) * in.columns + c] =
				r < to.rows
					? in.data[(from * in.rows + to.before + r) * in.columns + c]
					: 0;
	}
}

tomos_status prep_hand_over(
	tomos_backend *b, const PrepWork *w, const PrepData *in, const PrepSlab *slab)
{
	const Copying to = {w->kept, in->views - (w->kept ? w->spec.bad_count : 0), slab->before,
		slab->rows, slab->padded, slab->out};
	copy_kernel<<<prep_grid(in->columns, slab->padded, to.views), PREP_THREADS, 0,
		device_of(b)->stream>>>(to, *in);
	CUDA_LAUNCHED("copying prepared views");
	return TOMOS_OK;
}
