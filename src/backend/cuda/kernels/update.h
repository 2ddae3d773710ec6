/* Epilogue of kernels that gather the sum of a voxel in one thread: the sum is added to the
 * voxel, or used for a fused update. For updates that divide by the sum of the weights, a pixel is
 * a pair (float2) of value and weight of its ray, so that positions and weights are computed once
 * for both. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_UPDATE_H
#define TOMOS_BACKEND_CUDA_KERNELS_UPDATE_H

#include "backend/cuda/kernels/transpose.h"

/* What is done with the sum of a voxel. */
typedef struct {
	bool fused; /* voxels are updated by `with`; else sums are added */
	float least;
	const unsigned *largest; /* largest ray weight, as the bits of a float; NULL: 1 */
	CudaUpdate with;
} VoxelUpdate;

tomos_status update_open(tomos_backend *backend, const ProjectRequest *what,
	const CudaEpilogue *epilogue, VoxelUpdate *s);

/* Number of views per pass, each of which needs `floats` floats of scratch memory. */
int64_t views_at_once(const tomos_backend *backend, const ProjectRequest *what, int64_t floats);

/* Processes the views in passes of at_once: calls run_views(first, count, update). Bounds are
 * applied only in the last pass, when the sum of a voxel is complete. */
template <class Part>
static inline tomos_status views_each(
	const VoxelUpdate *update, int64_t count, int64_t at_once, Part run_views)
{
	for (int64_t first = 0; first < count; first += at_once) {
		VoxelUpdate part = *update;
		if (first + at_once < count) {
			part.with.low = -INFINITY;
			part.with.high = INFINITY;
		}
		TRY(run_views(first, min64(at_once, count - first), part));
	}
	return TOMOS_OK;
}

/* The same for a request whose views need floats(model, average) floats of scratch memory each. */
template <int64_t (*floats)(const KernelModel *model, bool pairs), class Part>
static inline tomos_status update_each(tomos_backend *backend, const ProjectRequest *what,
	const CudaEpilogue *epilogue, Part run_views)
{
	VoxelUpdate update;
	TRY(update_open(backend, what, epilogue, &update));
	int64_t each = floats(&what->plan->model, update.with.average);
	return views_each(&update, what->count, views_at_once(backend, what, each), run_views);
}

/* For kernels without such pairs: no division by the sum of the weights. */
static inline CudaFusion fuses_sums(
	const tomos_backend *, const ProjectRequest *, const CudaNotes *, const FusedUpdate *step)
{
	return step->average ? FUSES_NOT : FUSES;
}

/* Division by the sum of the weights needs all views in one pass. */
template <int64_t (*floats)(const KernelModel *model, bool pairs)>
static CudaFusion update_fuses(const tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const FusedUpdate *step)
{
	(void)notes;
	int64_t most = views_at_once(backend, what, floats(&what->plan->model, step->average));
	return !step->average || most == what->count ? FUSES : FUSES_NOT;
}

/* Least distance of the box of a request from the source of a view, in heights of a voxel. Host
 * code. */
double source_distance(const ProjectRequest *what, const KernelView *k);

/* Linear interpolation. */
static __device__ __forceinline__ float interpolate(float right, float one, float two)
{
	return fmaf(right, two - one, one);
}

static __device__ __forceinline__ float2 interpolate(float right, float2 one, float2 two)
{
	return make_float2(interpolate(right, one.x, two.x), interpolate(right, one.y, two.y));
}

static __device__ __forceinline__ void accumulate(float &sum, float weight, float pixel)
{
	sum = fmaf(weight, pixel, sum);
}

static __device__ __forceinline__ void accumulate(float2 &sum, float weight, float2 pixel)
{
	sum.x = fmaf(weight, pixel.x, sum.x);
	sum.y = fmaf(weight, pixel.y, sum.y);
}

/* Sets a pixel to value times step length, and its weight to that of the ray (NULL: 1) times
 * step length. */
static __device__ __forceinline__ void set_pixel(
	float &pixel, float step, const float *value, const float *)
{
	pixel = step * *value;
}

static __device__ __forceinline__ void set_pixel(
	float2 &pixel, float step, const float *value, const float *weight)
{
	pixel = make_float2(step * *value, weight ? step * *weight : step);
}

/* Value of a voxel after the fused update, or with the sum added. weight: W of the voxel; sum.y:
 * sum of the ray weights. */
static __device__ __forceinline__ float updated_voxel(
	const VoxelUpdate &s, float x, float weight, float sum)
{
	return s.fused ? cuda_updated(s.with, x, s.with.a * weight, sum) : x + sum;
}

static __device__ __forceinline__ float updated_voxel(
	const VoxelUpdate &s, float x, float weight, float2 sum)
{
	float most = s.largest ? __uint_as_float(__ldg(s.largest)) : 1;
	float factor = cuda_average(s.with.a, sum.y, s.least * most);
	return cuda_updated(s.with, x, factor * weight, sum.x);
}

/* Updates the first `count` of N voxels by sum_of(0), sum_of(1), ...; apart: their stride. SOME
 * loads are issued before the first store, as many as registers allow. */
template <int N, int SOME, class Sum>
static __device__ __forceinline__ void update_voxels(
	const VoxelUpdate &s, float *to, int64_t apart, int count, const Sum &sum_of)
{
	const float *from = to,
		    *weights = s.with.voxels ? s.with.voxels + (to - s.with.volume) : to;
#pragma unroll
	for (int first = 0; first < N; first += SOME) {
		float x[SOME], w[SOME];
#pragma unroll
		for (int k = 0; k < SOME; k++, from += apart, weights += apart) {
			x[k] = first + k < count ? *from : 0;
			w[k] = first + k < count && s.with.voxels ? *weights : 1;
		}
#pragma unroll
		for (int k = 0; k < SOME; k++, to += apart)
			if (first + k < count)
				*to = updated_voxel(s, x[k], w[k], sum_of(first + k));
	}
}

#endif
