/* Which requests have in-slice parallel rays, and their views as hat functions; see hat.h. */
#include <math.h>
#include "backend/device/hat.h"

#define MOST_REACH 2.0

enum { MOST_VIEWS = 65535 };

HatView hat_view(const Plan *plan, int64_t view, const HatSlices *slices, int kernel)
{
	const KernelView *k = &plan->views[view];
	int a = slices->a, b = slices->b;
	HatView hat = {.e0 = k->column[3], .ea = k->column[a], .eb = k->column[b]};
	double da = k->src[a], db = k->src[b], largest = fmax(fabs(da), fabs(db));
	da = fabs(da) < 1e-12 * largest ? 0 : da;
	db = fabs(db) < 1e-12 * largest ? 0 : db;
	bool along_b = fabs(db) > fabs(da);
	hat.along = along_b;
	if (kernel == KERNEL_voxel) {
		hat.h = 1 / (float)(plan->every > 1 ? plan->every : 1);
		hat.weight = plan->model.weight == WEIGHT_RAY ? (float)k->mass : 1;
	} else {
		double length = hypot(da * plan->whole.step[a], db * plan->whole.step[b]);
		hat.h = (float)fabs(along_b ? hat.ea : hat.eb);
		hat.weight = (float)(length / largest);
	}
	return hat;
}

static double hat_reach(const ProjectRequest *what, HatSlices *slices)
{
	double most = 0, width = 0;
	for (int64_t i = 0; i < what->count; i++) {
		HatView hat = hat_view(what->plan, what->first + i, slices, what->kernel);
		double across = fabs(hat.along ? hat.ea : hat.eb);
		most = fmax(most, what->direction == FORWARD ? hat.h / across : hat.h);
		width = fmax(width, hat.h);
		slices->weight = fmaxf(slices->weight, hat.weight);
	}
	const double rounding = 1 - 1e-6; /* widths of 1 to rounding count as 1 */
	slices->width = width * rounding;
	return most * rounding;
}

bool hat_find(const ProjectRequest *what, HatSlices *slices)
{
	const Plan *plan = what->plan;
	const RayClass *rays = &plan->rays;
	int s = rays->all.axis, sign = rays->all.sign;
	if (plan->model.clamp || plan->model.nearest || plan->scan->count > MOST_VIEWS ||
		rays->source != TOMOS_PARALLEL || !rays->same_rows)
		return false;
	*slices = (HatSlices){.s = s,
		.a = s == 0 ? 1 : 0,
		.b = s == 2 ? 1 : 2,
		.first = rays->all.row,
		.sign = sign};
	slices->reach = hat_reach(what, slices);
	return true;
}

bool hat_slices(const ProjectRequest *what, HatSlices *slices)
{
	return hat_find(what, slices) && slices->reach <= MOST_REACH;
}
