/* Zingers, found by counting: a value exceeds the median of its neighbours by the level exactly if
 * it exceeds more than half of them by it. Medians are computed only for the few zingers. */
#include "backend/cuda/prep.h"

/* Neighbours of a pixel: `rows` lines of `columns` values, or one column of several views. */
typedef struct {
	const float *first;
	int rows, columns;
	int64_t stride; /* between lines */
} Neighbours;

static __device__ int count_below(const Neighbours &n, uint32_t limit)
{
	int below = 0;
	for (int r = 0; r < n.rows; r++)
		for (int c = 0; c < n.columns; c++)
			below += prep_key(n.first[r * n.stride + c]) < limit;
	return below;
}

static __device__ float window_median(const Neighbours &n)
{
	return prep_median(
		n.rows * n.columns, [&](uint32_t limit) { return count_below(n, limit); });
}

static __device__ bool exceeds(const Neighbours &n, float here, float level)
{
	int above = 0, half = n.rows * n.columns / 2;
	for (int r = 0; r < n.rows; r++)
		for (int c = 0; c < n.columns; c++)
			above += here > n.first[r * n.stride + c] + level;
	if (above != half || n.rows * n.columns % 2)
		return above > half;
	return here > window_median(n) + level; /* between the two values in the middle */
}

static __device__ Neighbours around(
	const PrepZingers &z, const PrepData &d, bool time, int64_t v, int64_t r, int64_t c)
{
	int64_t plane = d.rows * d.columns, h = z.half;
	const float *copy = z.copy - z.from * plane;
	if (time) {
		int64_t low = max(v - h, (int64_t)0), high = min(v + h, d.views - 1);
		return {copy + low * plane + r * d.columns + c, (int)(high - low + 1), 1, plane};
	}
	int64_t top = max(r - h, (int64_t)0), bottom = min(r + h, d.rows - 1);
	int64_t left = max(c - h, (int64_t)0), right = min(c + h, d.columns - 1);
	return {copy + v * plane + top * d.columns + left, (int)(bottom - top + 1),
		(int)(right - left + 1), d.columns};
}

static __global__ void zingers_kernel(const PrepZingers z, const PrepData d)
{
	int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	int found = 0;
	for (int64_t v = z.first + blockIdx.z; v < z.first + z.count; v += gridDim.z)
		for (int64_t r = blockIdx.y; c < d.columns && r < d.rows; r += gridDim.y) {
			int64_t at = (v * d.rows + r) * d.columns + c;
			float here = z.copy[at - z.from * d.rows * d.columns];
			Neighbours time = around(z, d, true, v, r, c);
			if (z.time && !exceeds(time, here, z.level))
				continue;
			Neighbours space = around(z, d, false, v, r, c);
			if (z.space && !exceeds(space, here, z.level))
				continue;
			d.data[at] = window_median(z.time ? time : space);
			found++;
		}
	prep_found(z.found, found);
}

tomos_status cuda_prep_zingers(tomos_backend *b, const PrepZingers *z, PrepData *d)
{
	zingers_kernel<<<prep_grid(d->columns, d->rows, z->count), PREP_THREADS, 0,
		device_of(b)->stream>>>(*z, *d);
	CUDA_LAUNCHED("removing zingers");
	return TOMOS_OK;
}
