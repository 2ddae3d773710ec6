/* Views with parallel rays in planes of constant z, as voxel_back_rolled.h and
 * voxel_forward_rolled.h see them. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_VOXEL_ROLLED_H
#define TOMOS_BACKEND_CUDA_KERNELS_VOXEL_ROLLED_H

#include "backend/cuda/kernels/transpose.h"

/* A view. Pixel i along one axis, j along the other, in slice n is at column s = s0 + i si + j sj +
 * n sn, si >= 0, counted from the last column if mirrored; and at row r0 + rs s + rn n. */
typedef struct {
	double s0, si, sj, sn, r0, rs, rn, weight;
	int along, mirrored; /* along: axis of i */
} Course;

/* near: i is along the axis on which pixels are nearer to each other on the detector. */
static __host__ __device__ inline Course course_of(
	const KernelView *k, const KernelModel *model, bool near)
{
	const double *c = k->column, *r = k->row;
	const int steep = fabs(c[0]) <= fabs(c[1]) ? 1 : 0, i = near ? 1 - steep : steep;
	const double slope = r[steep] / c[steep], sign = c[i] < 0 ? -1 : 1;
	const double last = c[i] < 0 ? (double)(model->columns - 1) : 0;
	return Course{.s0 = last + sign * c[3],
		.si = fabs(c[i]),
		.sj = sign * c[1 - i],
		.sn = sign * c[2],
		.r0 = r[3] - slope * c[3] + slope * last,
		.rs = sign * slope,
		.rn = r[2] - slope * c[2],
		.weight = model->weight == WEIGHT_RAY ? k->mass : 1,
		.along = i,
		.mirrored = c[i] < 0};
}

/* Sets *views to device memory: one for each view of the request. */
tomos_status rolled_courses(
	tomos_backend *backend, const ProjectRequest *what, bool near, const Course **views);

/* Whether the rays of a view are such. */
static inline bool view_in_planes(const Plan *plan, const KernelView *k)
{
	const double most = fmax(fabs(k->src[0]), fabs(k->src[1]));
	const double way =
		(double)(plan->grid.n[0] + plan->grid.n[1]) + fabs(k->first[0]) + fabs(k->first[1]);
	return fabs(k->src[2]) * way <= RAY_TOLERANCE * most &&
	       fmax(fabs(k->column[0]), fabs(k->column[1])) > 1e-6;
}

#endif
