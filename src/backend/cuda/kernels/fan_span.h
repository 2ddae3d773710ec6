/* Detector columns that a square of pixels meets in a slice of fans: pixel p falls on column U / D,
 * both affine in p (fan.h). */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FAN_SPAN_H
#define TOMOS_BACKEND_CUDA_KERNELS_FAN_SPAN_H

#include "backend/cuda/cuda.h"

static __host__ __device__ inline double fan_affine(const double f[4], double x, double y)
{
	return f[0] * x + f[1] * y + f[3];
}

/* Columns on which the corners of a square fall, and how far from its column a ray reaches. */
typedef struct {
	float low, high, reach;
} FanSpan;

/* The square has side x side pixels from (x, y) on. In float, with a margin for rounding. */
template <bool JOSEPH>
static __device__ FanSpan fan_span(const KernelView *k, double x, double y, int side)
{
	float low = 1e30f, high = -1e30f, near = 1e30f, h = 0;
#pragma unroll
	for (int corner = 0; corner < 4; corner++) {
		const double cx = x + (corner & 1) * (side - 1),
			     cy = y + (corner >> 1) * (side - 1);
		const float depth = fmaxf((float)fan_affine(k->depth, cx, cy), 1e-12f);
		const float c = (float)fan_affine(k->column, cx, cy) / depth;
		near = fminf(near, depth);
		low = fminf(low, c);
		high = fmaxf(high, c);
		h = fmaxf(h, fmaxf(fabsf((float)(k->column[0] - c * k->depth[0])),
				     fabsf((float)(k->column[1] - c * k->depth[1]))));
	}
	const float slack = (float)fmax(fabs(k->depth[0]), fabs(k->depth[1])),
		    margin = 0.001f + 1e-6f * fmaxf(fabsf(low), fabsf(high));
	const float reach = JOSEPH ? h / (near - slack > 0 ? near - slack : near) : 1;
	return FanSpan{low - margin, high + margin, reach};
}

/* Most columns that a square of `side` pixels of the box meets in a view: the change of U / D per
 * pixel is largest at a corner of the box, or of a square that begins inside; 0: the source is not
 * outside. */
static inline double fan_columns(const ProjectRequest *what, const KernelView *k, int side)
{
	double near = 1e300, far = 0, change = 0, h = 0;
	for (int corner = 0; corner < 4; corner++) {
		double x = (double)(corner & 1 ? what->box.high[0] + side : what->box.low[0] - 1);
		double y = (double)(corner & 2 ? what->box.high[1] + side : what->box.low[1] - 1);
		double depth = fan_affine(k->depth, x, y);
		double c = fan_affine(k->column, x, y) / depth;
		double gx = fabs(k->column[0] - c * k->depth[0]);
		double gy = fabs(k->column[1] - c * k->depth[1]);
		near = fmin(near, depth);
		far = fmax(far, depth);
		change = fmax(change, gx + gy);
		h = fmax(h, fmax(gx, gy));
	}
	double slack = fmax(fabs(k->depth[0]), fabs(k->depth[1]));
	if (!(near - slack > 1e-3 * far))
		return 0;
	double reach = what->kernel == KERNEL_joseph ? h / (near - slack) : 1;
	return (side - 1) * change / near + 2 * reach + 3;
}

#endif
