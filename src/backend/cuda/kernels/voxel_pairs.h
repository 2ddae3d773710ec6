/* Voxel-driven forward projection for any detector: the ray between the pixels of a thread, and how
 * far from it voxels contribute.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_VOXEL_PAIRS_H
#define TOMOS_BACKEND_CUDA_KERNELS_VOXEL_PAIRS_H

#include "backend/cuda/kernels/lanes.h"

enum { PIXELS = 2 /* of a thread */ };

/* Derivatives along b and c of the distances of a voxel from the middle of the pixels, in pixels
 * across (u) and along (v) the pair, both times the depth; of the depth; and of the distance from
 * the source. `step`: voxel size along a, b, c. */
typedef struct {
	float u[2], v[2], depth[2], length[2];
	float slope[2], step[3];
	float deeper, longer; /* change of depth and distance along the ray, from plane to plane */
} Rates;

/* The ray between the pixels: in plane k, it is at base + k slope along b and c. Voxels that
 * project to within one pixel are less than reach + k widen voxels from it. start .. stop: planes
 * in which such voxels are in the box. */
typedef struct {
	Rates rates;
	double base[2], slope[2];
	double reach[2], widen[2];
	double depth[2]; /* depth[0] + k depth[1] */
	double source;   /* plane of the source */
	int start, stop;
} Path;

/* The pixels of a thread: row, column of their middle; a pixel across and along the pair. */
typedef struct {
	double at[2], across[2], along[2];
} Pair;

static __device__ Pair pair_of(int lanes, int64_t row, int64_t column)
{
	const double half = 0.5 * (PIXELS - 1);
	if (lanes & LANES_ROWS)
		return Pair{{(double)row, (double)column + half}, {1, 0}, {0, 1}};
	return Pair{{(double)row + half, (double)column}, {0, 1}, {1, 0}};
}

/* As kernel_ray, for a point between pixels: `across` and `along` pixels from the middle. */
static __device__ KernelRay ray_of(
	const KernelGrid *grid, const KernelView *k, const Pair *pair, double across, double along)
{
	const double row = pair->at[0] + across * pair->across[0] + along * pair->along[0];
	const double column = pair->at[1] + across * pair->across[1] + along * pair->along[1];
	KernelRay ray = {.has_source = KERNEL_HAS_SOURCE(k)};
	double square = 0;
	for (int a = 0; a < 3; a++) {
		const double pixel = k->first[a] + column * k->u[a] + row * k->v[a];
		ray.start[a] = ray.has_source ? k->src[a] : pixel;
		ray.direction[a] = ray.has_source ? pixel - k->src[a] : k->src[a];
		const double d = ray.direction[a] * grid->step[a];
		square += d * d;
	}
	ray.length = sqrt(square);
	return ray;
}

/* From the rays of the diagonal neighbours. They meet in the source or are parallel. */
static __device__ void set_reach(
	const AxisRays *s, const KernelView *k, const Pair *pair, const KernelRay *ray, Path *path)
{
	const double rate = 1 / ray->direction[s->a], far = 0.5 * (PIXELS + 1);
	double most[2] = {0, 0};
	for (int corner = 0; corner < 4; corner++) {
		const KernelRay other =
			ray_of(&s->grid, k, pair, corner & 1 ? 1 : -1, corner & 2 ? far : -far);
		const double other_rate = 1 / other.direction[s->a];
		for (int i = 0; i < 2; i++) {
			const int b = i ? s->c : s->b;
			const double slope = other.direction[b] * other_rate;
			double apart = slope - ray->direction[b] * rate;
			if (!ray->has_source)
				apart = other.start[b] - ray->start[b] -
					(other.start[s->a] - ray->start[s->a]) * slope;
			most[i] = fmax(most[i], fabs(apart));
		}
	}
	for (int i = 0; i < 2; i++) {
		path->widen[i] = !ray->has_source ? 0 : rate > 0 ? most[i] : -most[i];
		path->reach[i] = ray->has_source ? -path->widen[i] * ray->start[s->a] : most[i];
	}
}

static __device__ void set_planes(const AxisRays *s, const KernelRay *ray, Path *path)
{
	const double rate = 1 / ray->direction[s->a], low = (double)s->grid.low[s->a],
		     high = (double)(s->grid.high[s->a] - 1);
	double start = low, stop = high;
	for (int i = 0; i < 2; i++) {
		const int b = i ? s->c : s->b;
		const double margin =
			path->reach[i] + fmax(low * path->widen[i], high * path->widen[i]);
		path->slope[i] = ray->direction[b] * rate;
		path->base[i] = ray->start[b] - ray->start[s->a] * path->slope[i];
		kernel_clip(path->base[i], path->slope[i], (double)s->grid.low[b] - margin,
			(double)(s->grid.high[b] - 1) + margin, &start, &stop);
	}
	path->source = ray->start[s->a];
	if (ray->has_source && rate > 0)
		start = fmax(start, path->source);
	if (ray->has_source && rate < 0)
		stop = fmin(stop, path->source);
	if (start <= stop) {
		path->start = (int)ceil(start);
		path->stop = (int)floor(stop);
	}
}

/* In double: u and v are differences of large terms. */
static __device__ void set_rates(
	const AxisRays *s, const KernelView *k, const Pair *pair, const KernelRay *ray, Path *path)
{
	const double longer = ray->length / ray->direction[s->a]; /* signed */
	Rates *r = &path->rates;
	path->depth[0] = k->depth[3];
	path->depth[1] = k->depth[s->a];
	r->step[0] = (float)s->grid.step[s->a];
	for (int i = 0; i < 2; i++) {
		const int b = i ? s->c : s->b;
		const double step = s->grid.step[b];
		const double row = k->row[b] - pair->at[0] * k->depth[b],
			     column = k->column[b] - pair->at[1] * k->depth[b];
		r->u[i] = (float)(pair->across[0] * row + pair->across[1] * column);
		r->v[i] = (float)(pair->along[0] * row + pair->along[1] * column);
		r->depth[i] = (float)k->depth[b];
		r->length[i] = (float)(path->slope[i] * step * step / longer);
		r->slope[i] = (float)path->slope[i];
		r->step[i + 1] = (float)step;
		path->depth[0] += k->depth[b] * path->base[i];
		path->depth[1] += k->depth[b] * path->slope[i];
	}
	r->deeper = (float)path->depth[1];
	r->longer = (float)longer;
}

/* Whether the dominant axis of the ray of the first pixel is s->a. */
static __device__ bool set_path(
	const AxisRays *s, const KernelView *k, int lanes, int64_t row, int64_t column, Path *path)
{
	const KernelRay first = kernel_ray(&s->grid, k, row, column);
	if (kernel_dominant(&first) != s->a)
		return false;
	const Pair pair = pair_of(lanes, row, column);
	const KernelRay ray = ray_of(&s->grid, k, &pair, 0, 0);
	set_reach(s, k, &pair, &ray, path);
	set_planes(s, &ray, path);
	set_rates(s, k, &pair, &ray, path);
	return true;
}

#endif
