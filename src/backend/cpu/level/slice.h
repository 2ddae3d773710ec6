/* In-slice parallel rays: geometry for the kernels of single slices and of stacks of slices. */
#ifndef TOMOS_BACKEND_CPU_LEVEL_SLICE_H
#define TOMOS_BACKEND_CPU_LEVEL_SLICE_H

#include <math.h>
#include "backend/cpu/cpu.h"

/* Number of consecutive vectors of pixels whose positions are computed from that of the first by
 * adding fixed-point steps. */
enum { BLOCKS = 4 };

/* Slices perpendicular to axis w, spanned by axes p and q. `n` and `stride` are for p and q;
 * `per_slice`: floats from slice to slice. */
typedef struct {
	int p, q, w;
	int64_t n[2], stride[2], slices, per_slice;
} Frame;

static inline Frame frame_across(const ProjectRequest *what, int w)
{
	Frame f = {.p = w == 0 ? 1 : 0, .q = w == 2 ? 1 : 2, .w = w};
	int64_t n[3], stride[3] = {1, 0, 0};
	for (int a = 0; a < 3; a++)
		n[a] = what->box.high[a] - what->box.low[a];
	stride[1] = n[0];
	stride[2] = n[0] * n[1];
	f.n[0] = n[f.p], f.stride[0] = stride[f.p];
	f.n[1] = n[f.q], f.stride[1] = stride[f.q];
	f.slices = n[w], f.per_slice = stride[w];
	return f;
}

/* The detector row to which a slice projects; false if it is off the detector. */
static inline bool row_of_slice(
	const Plan *plan, const Frame *f, const KernelView *k, int64_t slice, int64_t *row)
{
	double r = plan->model.planar ? 0 : k->row[f->w] * (double)slice + k->row[3];
	*row = (int64_t)floor(r + 0.5);
	return *row >= 0 && *row < plan->model.rows;
}

/* Whether all rays are parallel and in slices; sets the frame of these slices. */
static inline bool find_slices(const ProjectRequest *what, Frame *f)
{
	const RayClass *rays = &what->plan->rays;
	*f = frame_across(what, rays->all.axis);
	return rays->source == TOMOS_PARALLEL && rays_are(rays, RAYS_IN_SLICE);
}

/* Detector column to which voxel (0, 0) of the box projects, and its change per voxel along p and
 * q. */
static inline void columns_of(const ProjectRequest *what, const Frame *f, const KernelView *k,
	double *origin, double *per_p, double *per_q)
{
	*origin = k->column[3];
	for (int a = 0; a < 3; a++)
		*origin += k->column[a] * (double)what->box.low[a];
	*per_p = k->column[f->p];
	*per_q = k->column[f->q];
}

/* The rays of a view for Joseph's method. The ray of column c crosses image row k at pixel base + c
 * per_ray + k slope. Image rows are along p and numbered by q (axis 1), or the reverse (axis 0).
 * `step`: length of a ray between two image rows. */
typedef struct {
	int axis;
	double base, per_ray, slope, step;
} SliceRays;

/* Weights by intersection lengths. A ray that crosses the centre line of an image row at fraction f
 * between two pixels has the part clamp((f - 1/2 + nudge) steep + 1/2, 0, 1) of its length in the
 * second pixel. A ray parallel to an axis is in one pixel only; if it is exactly on the border,
 * `nudge` assigns it to the second one. */
typedef struct {
	float steep, nudge;
} SliceLengths;

static inline SliceLengths lengths_of(const SliceRays *rays)
{
	const float steepest = 1e6F, nudge = 1e-5F;
	double slope = fabs(rays->slope);
	return slope < 1e-12 ? (SliceLengths){steepest, nudge}
			     : (SliceLengths){(float)fmin(1 / slope, steepest), 0};
}

static inline SliceRays rays_of(const ProjectRequest *what, const Frame *f, const KernelView *k)
{
	SliceRays rays = {.axis = fabs(k->src[f->p]) >= fabs(k->src[f->q]) ? 0 : 1};
	int a = rays.axis == 0 ? f->p : f->q, b = rays.axis == 0 ? f->q : f->p;
	const double *step = what->plan->whole.step;
	rays.slope = k->src[b] / k->src[a];
	rays.base = k->first[b] - (double)what->box.low[b] -
		    (k->first[a] - (double)what->box.low[a]) * rays.slope;
	rays.per_ray = k->u[b] - k->u[a] * rays.slope;
	rays.step = hypot(k->src[a] * step[a], k->src[b] * step[b]) / fabs(k->src[a]);
	return rays;
}

bool LEVEL(slice_applies)(const ProjectRequest *what);
tomos_status LEVEL(slice_back)(const ProjectRequest *what);
tomos_status LEVEL(slice_step)(const ProjectRequest *what, const FusedUpdate *step);

#endif
