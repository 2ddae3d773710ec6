/* Which requests the kernels of separable footprints for upright detectors apply to. */
#include "backend/cuda/kernels/footprint.h"

/* A voxel somewhere: rows that its vertical edges appear high, and half of what its horizontal ones
 * add to that; voxels from the source, along the axis of the view. */
typedef struct {
	double climb, half, away;
} Upright;

static Upright upright_at(const KernelView *k, const double at[3])
{
	const bool fans = KERNEL_FANS(k);
	const double depth = affine(k->depth, at), lower = fans ? 1 : depth,
		     bend = fans ? 0 : affine(k->row, at) / depth;
	const double x = k->row[0] - bend * k->depth[0], y = k->row[1] - bend * k->depth[1];
	return Upright{k->row[2] / lower, 0.5 * hypot(x, y) / lower,
		depth > 0 ? depth / fmax(fabs(k->depth[0]) + fabs(k->depth[1]), 1e-300) : 0};
}

/* Whether a column of voxels is projected in spans there. */
static bool has_spans(const Upright &u)
{
	return 2 * u.half <= u.climb &&
	       boundary_kind((float)u.climb, (float)u.climb, (float)u.half) >= 0;
}

/* The part of the box that is. Forward, large voxels count too where rays are flat: kernels for any
 * detector are not faster there. */
static double part_in_spans(const ProjectRequest *what)
{
	int64_t all = 0, spans = 0;
	sample_box(what, [&](const KernelView *k, const double at[3]) {
		all++;
		const Upright u = upright_at(k, at);
		spans += has_spans(u) ||
			 (what->direction == FORWARD && u.climb > 1.5 && 4 * u.half <= u.climb);
	});
	return (double)spans / (double)all;
}

static bool corners_apply(const ProjectRequest *what)
{
	const double nearest = 16, steepest = 4;
	for (int64_t i = 0; i < what->count * 8; i++) {
		double at[3];
		for (int a = 0; a < 3; a++)
			at[a] = (double)(i >> a & 1 ? what->box.high[a] - 1 : what->box.low[a]);
		const Upright u = upright_at(&what->plan->views[what->first + i / 8], at);
		if (!(u.away > nearest) || !(2 * u.half <= steepest * u.climb))
			return false;
	}
	return true;
}

bool footprint_upright(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	const RayClass *rays = &plan->rays;
	const int families = rays->source == TOMOS_POINT      ? RAYS_IN_SHEET | RAYS_UPRIGHT
			     : rays->source == TOMOS_PARALLEL ? RAYS_IN_SHEET
							      : RAYS_IN_SHEET | RAYS_LEVEL;
	if (plan->model.planar || rays->source == SOURCES_MIXED || !rays_are(rays, families) ||
		!corners_apply(what))
		return false;
	return part_in_spans(what) >= (what->direction == FORWARD ? 0.65 : 0.8);
}
