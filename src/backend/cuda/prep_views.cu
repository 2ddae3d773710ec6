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

tomos_status cuda_prep_bridge(tomos_backend *b, const PrepWork *w, PrepData *d)
{
	bridge_kernel<<<prep_grid(d->rows * d->columns, w->spec.bad_count, 1), PREP_THREADS, 0,
		device_of(b)->stream>>>(w->bridges, w->spec.bad_count, *d);
	CUDA_LAUNCHED("interpolating bad views");
	return TOMOS_OK;
}

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

tomos_status cuda_prep_shift(tomos_backend *b, const PrepWork *w, const float *copy, int64_t first,
	int64_t count, PrepData *d)
{
	shift_kernel<<<prep_grid(d->columns, d->rows, count), PREP_THREADS, 0,
		device_of(b)->stream>>>(w->shifts, copy, first, count, *d);
	CUDA_LAUNCHED("shifting views");
	return TOMOS_OK;
}

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

tomos_status cuda_prep_bin(tomos_backend *b, int64_t bin, const PrepData *in, PrepData *out)
{
	bin_kernel<<<prep_grid(out->columns, out->rows, out->views), PREP_THREADS, 0,
		device_of(b)->stream>>>(bin, *in, *out);
	CUDA_LAUNCHED("binning");
	return TOMOS_OK;
}

/* ---- the result ------------------------------------------------------------------------------ */

static __global__ void copy_kernel(const PrepCopy to, const PrepData in)
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

tomos_status cuda_prep_copy(tomos_backend *b, const PrepCopy *to, const PrepData *in)
{
	copy_kernel<<<prep_grid(in->columns, to->padded, to->views), PREP_THREADS, 0,
		device_of(b)->stream>>>(*to, *in);
	CUDA_LAUNCHED("copying prepared views");
	return TOMOS_OK;
}
