/* Finds out whether rays stay in slices, and turns views into hats; see hat.h. */
#include <math.h>
#include "backend/device/hat.h"

#define EXACT 1e-7 /* of a voxel, over a whole detector */

#define MOST_REACH 2.0

enum { MOST_VIEWS = 65535 };

static bool is_whole(double value, double scale)
{
	return fabs(value - rint(value)) <= EXACT * fmax(scale, 1);
}

/* Slices across axis s: rays and columns have no part along it, rows go from slice to slice. */
static bool view_lies(const Plan *plan, const KernelView *k, int s, HatSlices *slices, bool first)
{
	double rows = (double)plan->model.rows, columns = (double)plan->model.columns;
	double length = fabs(k->src[0]) + fabs(k->src[1]) + fabs(k->src[2]);
	if (k->src[3] != 0 || fabs(k->src[s]) > 1e-12 * length || fabs(k->u[s]) * columns > EXACT)
		return false;
	if (plan->model.planar)
		return s == 2;
	for (int a = 0; a < 3; a++)
		if (fabs(k->v[a] - (a == s ? copysign(1, k->v[a]) : 0)) * rows > EXACT)
			return false;
	if (!is_whole(k->first[s], 1))
		return false;
	int sign = k->v[s] > 0 ? 1 : -1;
	int64_t at = -sign * (int64_t)rint(k->first[s]);
	if (first) {
		slices->sign = sign;
		slices->first = at;
	}
	return slices->sign == sign && slices->first == at;
}

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
		hat.h = 1;
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
	const double rounding = 1 - 1e-6; /* 1 but for that is 1 */
	slices->width = width * rounding;
	return most * rounding;
}

bool hat_slices(const ProjectRequest *what, HatSlices *slices)
{
	const Plan *plan = what->plan;
	if (plan->model.clamp || plan->model.nearest || plan->scan->count > MOST_VIEWS)
		return false;
	for (int s = 2; s >= 0; s--) {
		*slices = (HatSlices){.s = s, .a = s == 0 ? 1 : 0, .b = s == 2 ? 1 : 2, .sign = 1};
		int64_t i = 0, count = plan->scan->count; /* all, since what is kept is for all */
		while (i < count && view_lies(plan, &plan->views[i], s, slices, i == 0))
			i++;
		if (i == count)
			return (slices->reach = hat_reach(what, slices)) <= MOST_REACH;
	}
	return false;
}
