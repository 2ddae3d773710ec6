/* Which requests the kernels of separable footprints for upright detectors apply to. */
#include "backend/cuda/kernels/footprint.h"

/* At one corner of the box. */
static bool corner_is_upright(const KernelView *k, const double at[3])
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
	return depth > (int)NEAREST * (fabs(k->depth[0]) + fabs(k->depth[1])) && depth > 0 &&
	       hypot(x, y) <= k->row[2];
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
	for (int64_t i = 0; i < what->count * 8; i++) {
		double at[3];
		for (int a = 0; a < 3; a++)
			at[a] = (double)(i >> a & 1 ? what->box.high[a] - 1 : what->box.low[a]);
		if (!corner_is_upright(&plan->views[what->first + i / 8], at))
			return false;
	}
	return true;
}
