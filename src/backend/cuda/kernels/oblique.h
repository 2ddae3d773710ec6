/* Parallel rays in any direction, described by where they cross the planes of their dominant
 * axis. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_OBLIQUE_H
#define TOMOS_BACKEND_CUDA_KERNELS_OBLIQUE_H

#include "backend/cuda/cuda.h"

/* A view. a is the dominant axis, b and c are the others. In plane k of axis a, the ray of the
 * pixel in column m and row n is at from[i] + m column[i] + n row[i] + k slope[i], along b for i =
 * 0 and along c for i = 1; in voxels. */
typedef struct {
	int a, b, c;
	double from[2], column[2], row[2], slope[2];
	double step; /* length of a ray from one plane to the next */
} ObliqueView;

/* Computes the view of parallel rays; directions are rounded as in kernel_ray and kernel_walk.
 * False if the detector is edge on, so that it has no area along the rays. */
static inline bool oblique_view(const Plan *plan, const KernelView *k, ObliqueView *view)
{
	double d[3], largest = 0, square = 0;
	for (int a = 0; a < 3; a++) {
		largest = fmax(largest, fabs(k->src[a]));
		square += pow(k->src[a] * plan->whole.step[a], 2);
	}
	for (int a = 0; a < 3; a++)
		d[a] = fabs(k->src[a]) < 1e-12 * largest ? 0 : k->src[a];
	int a = fabs(d[0]) >= fabs(d[1]) ? (fabs(d[0]) >= fabs(d[2]) ? 0 : 2)
					 : (fabs(d[1]) >= fabs(d[2]) ? 1 : 2);
	view->a = a;
	view->b = a == 0 ? 1 : 0;
	view->c = a == 2 ? 1 : 2;
	for (int i = 0; i < 2; i++) {
		int axis = i == 0 ? view->b : view->c;
		double slope = d[axis] / d[a];
		view->slope[i] = slope;
		view->from[i] = k->first[axis] - k->first[a] * slope;
		view->column[i] = k->u[axis] - k->u[a] * slope;
		view->row[i] = k->v[axis] - k->v[a] * slope;
	}
	view->step = sqrt(square) / fabs(d[a]);
	return fabs(view->column[0] * view->row[1] - view->row[0] * view->column[1]) > 0;
}

#endif
