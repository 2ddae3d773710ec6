/* Which requests the kernels of separable footprints for upright detectors apply to. */
#include "backend/cuda/kernels/footprint.h"

/* At one point of the box; steep: most that horizontal edges appear higher than vertical ones. If
 * that is at most 1, some kind of Boundaries has to fit too. */
static bool point_is_upright(const KernelView *k, const double at[3], double steep)
{
	enum { NEAREST = 16 }; /* voxels from the source, along the axis of the view */
	double depth = k->depth[3], v = k->row[3];
	for (int a = 0; a < 3; a++) {
		depth += k->depth[a] * at[a];
		v += k->row[a] * at[a];
	}
	const bool fans = KERNEL_FANS(k);
	v /= fans ? 1 : depth;
	const double bend = fans ? 0 : v;
	const double x = k->row[0] - bend * k->depth[0], y = k->row[1] - bend * k->depth[1];
	const double edges = hypot(x, y), lower = fans ? 1 : depth, climb = k->row[2] / lower;
	return depth > (int)NEAREST * (fabs(k->depth[0]) + fabs(k->depth[1])) && depth > 0 &&
	       edges <= steep * k->row[2] &&
	       (steep > 1 || boundary_kind((float)climb, (float)climb,
				     (float)(0.5 * edges / lower)) >= 0);
}

bool footprint_upright(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	const RayClass *rays = &plan->rays;
	const int families = rays->source == TOMOS_POINT      ? RAYS_IN_SHEET | RAYS_UPRIGHT
			     : rays->source == TOMOS_PARALLEL ? RAYS_IN_SHEET
							      : RAYS_IN_SHEET | RAYS_LEVEL;
	if (plan->model.planar || rays->source == SOURCES_MIXED || !rays_are(rays, families))
		return false;
	const int64_t *low = what->box.low, *high = what->box.high;
	for (int64_t i = 0; i < what->count * 8; i++) {
		const KernelView *k = &plan->views[what->first + i / 8];
		double at[3], middle[3];
		for (int a = 0; a < 3; a++) {
			at[a] = (double)(i >> a & 1 ? high[a] - 1 : low[a]);
			middle[a] = 0.5 * (double)(low[a] + high[a] - 1);
		}
		if (!point_is_upright(k, at, 4) || !point_is_upright(k, middle, 0.9))
			return false;
	}
	return true;
}
