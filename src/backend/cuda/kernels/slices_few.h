/* In-slice rays, few views at a time, as in SART and small blocks of views. Arrays are read in the
 * caller's order, since transposing the volume would take longer than the projection.
 *
 * Neighbouring threads are along x: across the slices or, where x is the axis of the slices
 * (`sideways`), along them. A thread has several slices with common indices and weights.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_SLICES_FEW_H
#define TOMOS_BACKEND_CUDA_KERNELS_SLICES_FEW_H

#include "backend/cuda/kernels/transpose.h"

typedef struct {
	const HatView *views;
	int count, columns, na, nb, slices;
	int64_t low_a, low_b;
	int64_t va, vb, vs; /* strides of the volume: along a, b, and between slices */
	int64_t pv, pc, ps; /* strides of the projections: views, columns, slices */
	int parts;          /* forward and sideways: warps per ray */
	int groups;         /* back: groups of slices (sideways: pixels) per thread */
	bool fused;         /* back: voxels are updated by `with`; else sums are added */
	float *volume, *projections;
	const float *rays;       /* weights of rays, in the order of the projections; or NULL */
	const unsigned *largest; /* largest weight of a ray, as the bits of a float; or NULL */
	float least;
	CudaUpdate with;
} Few;

typedef void (*FewKernel)(const Few s);

/* Launches the forward kernel; taps: the result of hat_taps. */
void few_forward_start(
	const CudaDevice *d, const ProjectRequest *what, const HatSlices *l, Few *s, int taps);

/* Weights of T taps. away: distance from the first tap to the centre of the hat; inverse:
 * reciprocal of its half width. */
template <int T>
static __device__ __forceinline__ void weights_of(float away, float inverse, float w[T])
{
	if (T == 2) {
		w[0] = fma_saturate(-away, inverse, 1);
		w[1] = fma_saturate(away, inverse, 1 - inverse);
	} else {
#pragma unroll
		for (int t = 0; t < T; t++)
			w[t] = hat_value(away - t, inverse);
	}
}

#endif
