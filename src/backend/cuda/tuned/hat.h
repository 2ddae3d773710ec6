/* Parallel rays that stay in slices: in each slice, a pixel (a, b) and a detector column c meet with the
 * weight w (1 - |c - e| / h), where e = e0 + ea a + eb b and the weight is not below zero.
 *
 * That is the voxel-driven projector (h = 1) and Joseph's (h = the columns that one voxel across the
 * dominant axis spans), forward and back, so one pair of kernels serves both.
 */
#ifndef CUDA_HAT_H
#define CUDA_HAT_H

#include "backend/cuda/cuda.h"

typedef struct {
	double e0, ea, eb;
	float h, weight;
	int along; /* forward: 1 if rays are followed along b, pixel by pixel, 0 along a */
} HatView;

/* How the slices lie: the axis across them, the two in them (b the slower in memory), and which detector
 * row belongs to a slice: row = first + sign * slice. */
typedef struct {
	int s, a, b;
	int64_t first;
	int sign;
	double reach; /* the widest of the request's views, in pixels (forward) or columns */
} HatSlices;

/* True if the views of the request are such, with weights that reach at most two pixels or columns. */
bool hat_slices(const Projecting *what, HatSlices *slices);
/* The views on the card, all of the plan. */
tomos_status hat_views(tomos_backend *backend, const Projecting *what, const HatSlices *slices,
	const HatView **views);

/* Taps that a hat of half width `reach` can touch: 2, 3 or 4. */
static inline int hat_taps(double reach)
{
	return reach <= 1 ? 2 : reach <= 1.5 ? 3 : 4;
}

/* The first of T taps around p, and the hat's value there as a function of the distance. */
template <int T> static __device__ __forceinline__ float hat_first(float p)
{
	return T == 2 ? floorf(p) : T == 3 ? rintf(p) - 1 : floorf(p) - 1;
}

static __device__ __forceinline__ float hat_value(float distance, float slope)
{
	return fmaxf(1 - fabsf(distance) * slope, 0.f);
}

#endif
