/* Pixels of views, or pairs of a value and what it counts, for updates that divide by the sum of the weights:
 * positions and weights are found once for both. */
#ifndef CUDA_PAIR_H
#define CUDA_PAIR_H

#include "backend/cuda/tuned/turn.h"

/* What is done with the sum of a voxel. */
typedef struct {
	bool update; /* as the step has it; else sums are added */
	float least;
	const unsigned *largest; /* weight of a ray, as bits; NULL: 1 */
	CudaStep step;
} PairStep;

/* Of the request that is under way. */
tomos_status pair_step(tomos_backend *backend, const Projecting *what, PairStep *s);

static __device__ __forceinline__ void pair_add(float &sum, float weight, float pixel)
{
	sum = fmaf(weight, pixel, sum);
}

static __device__ __forceinline__ void pair_add(float2 &sum, float weight, float2 pixel)
{
	sum.x = fmaf(weight, pixel.x, sum.x);
	sum.y = fmaf(weight, pixel.y, sum.y);
}

/* `counts` is that of the ray, NULL: 1. */
static __device__ __forceinline__ void pair_set(
	float &pixel, float step, const float *value, const float *)
{
	pixel = step * *value;
}

static __device__ __forceinline__ void pair_set(
	float2 &pixel, float step, const float *value, const float *counts)
{
	pixel = make_float2(step * *value, counts ? step * *counts : step);
}

static __device__ __forceinline__ float pair_stepped(
	const PairStep &s, const float *voxel, float sum, float factor)
{
	const CudaStep &step = s.step;
	if (!s.update)
		return *voxel + sum;
	return cuda_stepped(step, *voxel,
		step.voxels ? factor * step.voxels[voxel - step.volume] : factor, sum);
}

/* A voxel after the update, or with the sum added. */
static __device__ __forceinline__ float pair_changed(
	const PairStep &s, const float *voxel, float sum)
{
	return pair_stepped(s, voxel, sum, s.step.a);
}

static __device__ __forceinline__ float pair_changed(
	const PairStep &s, const float *voxel, float2 sum)
{
	float most = s.largest ? __uint_as_float(__ldg(s.largest)) : 1;
	return pair_stepped(s, voxel, sum.x, cuda_average(s.step.a, sum.y, s.least * most));
}

#endif
