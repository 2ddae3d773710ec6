/* Which rays of a view cross a part of the volume, and have axes[0] of the part as dominant axis.
 */
#ifndef TOMOS_BACKEND_CPU_LEVEL_RAY_PARTS_H
#define TOMOS_BACKEND_CPU_LEVEL_RAY_PARTS_H

#include "backend/cpu/level/ray.h"

enum {
	TOGETHER = 16, /* vectors of rays that are set up at once */
	BAND = 16,     /* detector rows of a task (forward) */
};

/* Whether rays of a window of pixels may have axes[0] as dominant axis, with a direction of the
 * sign `side`. That is four linear conditions on the pixel; none does if all corners violate the
 * same. */
static inline bool window_has(
	const RayPart *part, const KernelView *k, const Window *window, int side)
{
	int violated[4] = {0};
	for (int corner = 0; corner < 4; corner++) {
		double d[3];
		for (int i = 0; i < 3; i++) {
			int a = part->axes[i];
			double column = (double)(corner & 1 ? window->high[0] - 1 : window->low[0]);
			double row = (double)(corner & 2 ? window->high[1] - 1 : window->low[1]);
			d[i] = !KERNEL_HAS_SOURCE(k) ? k->src[a]
						     : k->first[a] + column * k->u[a] - k->src[a];
			if (KERNEL_HAS_SOURCE(k) && !KERNEL_FANS(k))
				d[i] += row * k->v[a];
		}
		double slack = 1e-9 * fabs(d[0]);
		for (int i = 0; i < 4; i++)
			violated[i] += side * d[0] + slack < (i & 1 ? d[1 + i / 2] : -d[1 + i / 2]);
	}
	for (int i = 0; i < 4; i++)
		if (violated[i] == 4)
			return false;
	return window->low[0] < window->high[0] && window->low[1] < window->high[1];
}

static inline Window part_window(const RayPart *part, int64_t view)
{
	const ProjectRequest *what = part->what;
	return geom_window(
		what->plan->scan, what->first + view, &what->plan->grid, &part->box, 0.5 + 1e-6);
}

/* Sets up to TOGETHER vectors of neighbouring columns, from *from on and before `end`. This is not
 * done in the loops over planes, since a processor overlaps the set-up of several vectors. */
static inline int rays_some(
	const RayPart *part, const RayRow *row, int64_t *from, int64_t end, Rays rays[TOGETHER])
{
	int many = 0;
	bool alike = rays_alike(row, *from, end - 1);
	for (; *from < end && many < TOGETHER; *from += LANES)
		if (alike || rays_alike(row, *from, min64(*from + LANES, end) - 1))
			many += rays_at(part, row, *from, 1, end, 1, &rays[many]);
		else
			many += rays_at(part, row, *from, 1, end, 0, &rays[many]);
	return many;
}

/* Whether any view of the request has rays with this dominant axis. */
static inline bool axis_used(const ProjectRequest *what, int axis)
{
	const Plan *plan = what->plan;
	RayPart part = ray_part(what, axis, &what->box, false);
	Window all = {{0, 0}, {plan->model.columns, plan->model.rows}};
	for (int64_t i = what->first; i < what->first + what->count; i++)
		if (window_has(&part, &plan->views[i], &all, 1) ||
			window_has(&part, &plan->views[i], &all, -1))
			return true;
	return false;
}

#endif
