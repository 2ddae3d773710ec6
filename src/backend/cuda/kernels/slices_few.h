/* In-slice rays, few views at a time, as in SART and small blocks of views: arrays are used in
 * their own order, since transposing the volume would take longer than the projection.
 *
 * Neighbouring threads go along x: across slices, or along them where slices are the fastest axis
 * (`sideways`); a thread has several slices, which share indices and weights.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_SLICES_FEW_H
#define TOMOS_BACKEND_CUDA_KERNELS_SLICES_FEW_H

#include "backend/cuda/kernels/transpose.h"

typedef struct {
	const HatView *views;
	int count, columns, na, nb, slices;
	int64_t low_a, low_b;
	int64_t va, vb, vs; /* strides of the volume */
	int64_t pv, pc, ps; /* and of the projections */
	int parts;          /* forward, sideways: warps per ray */
	int groups; /* back: iterations of a thread over further slices, or pixels if sideways */
	bool fused; /* back: updated as `with` says; else sums are added */
	float *volume, *projections;
	const float *rays;       /* in the order of the projections; or NULL */
	const unsigned *largest; /* weight of a ray, as bits, where rays have some */
	float least;
	CudaUpdate with;
} Few;

typedef void (*FewKernel)(const Few s);

/* Launches the forward kernel; taps as hat_taps returns them. */
void few_forward_start(
	const CudaDevice *d, const ProjectRequest *what, const HatSlices *l, Few *s, int taps);

/* Weights of T taps, the first of which is `away` below the centre. */
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
