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

/* The same for some of the views: a sum may come in parts, and bounds are kept after the last one. */
static inline PairStep pair_part(const PairStep *whole, bool last)
{
	PairStep part = *whole;
	part.step.low = last ? part.step.low : -INFINITY;
	part.step.high = last ? part.step.high : INFINITY;
	return part;
}

/* Views at a time, where each takes so many floats of scratch. */
int64_t pair_views(const tomos_backend *backend, const Projecting *what, int64_t floats);

/* For averages all views have to be there at once. */
template <int64_t (*floats)(const KernelModel *model, bool pairs)>
static CudaSteps pair_steps(const tomos_backend *backend, const Projecting *what,
	const CudaNotes *notes, const BackStep *step)
{
	(void)notes;
	int64_t most = pair_views(backend, what, floats(&what->plan->model, step->average));
	return !step->average || most == what->count ? STEPS : STEPS_NOT;
}

/* right (two - one) + one */
static __device__ __forceinline__ float pair_mix(float right, float one, float two)
{
	return fmaf(right, two - one, one);
}

static __device__ __forceinline__ float2 pair_mix(float right, float2 one, float2 two)
{
	return make_float2(pair_mix(right, one.x, two.x), pair_mix(right, one.y, two.y));
}

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

/* A voxel of that weight after the update, or with the sum added. */
static __device__ __forceinline__ float pair_changed(
	const PairStep &s, float x, float weight, float sum)
{
	return s.update ? cuda_stepped(s.step, x, s.step.a * weight, sum) : x + sum;
}

static __device__ __forceinline__ float pair_changed(
	const PairStep &s, float x, float weight, float2 sum)
{
	float most = s.largest ? __uint_as_float(__ldg(s.largest)) : 1;
	float factor = cuda_average(s.step.a, sum.y, s.least * most);
	return cuda_stepped(s.step, x, factor * weight, sum.x);
}

/* Changes `count` of N voxels, so far apart, by sum_of(0), sum_of(1), .. SOME are read before the first of
 * them is written, so that nobody waits for each, as many as registers are left for. */
template <int N, int SOME, class Sum>
static __device__ __forceinline__ void pair_change(
	const PairStep &s, float *to, int64_t apart, int count, const Sum &sum_of)
{
	const float *from = to,
		    *weights = s.step.voxels ? s.step.voxels + (to - s.step.volume) : to;
#pragma unroll
	for (int first = 0; first < N; first += SOME) {
		float x[SOME], w[SOME];
#pragma unroll
		for (int k = 0; k < SOME; k++, from += apart, weights += apart) {
			x[k] = first + k < count ? *from : 0;
			w[k] = first + k < count && s.step.voxels ? *weights : 1;
		}
#pragma unroll
		for (int k = 0; k < SOME; k++, to += apart)
			if (first + k < count)
				*to = pair_changed(s, x[k], w[k], sum_of(first + k));
	}
}

#endif
