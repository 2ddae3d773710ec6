/* Which requests can be done in stacks of slices, and how outputs lie among samples there. */
#include "backend/cpu/level/stack.h"

/* The column on which voxel (0, 0) of the box falls, and how it goes on along p and q. */
static void columns_of(
	const Stack *s, const KernelView *k, double *origin, double *per_p, double *per_q)
{
	*origin = k->column[3];
	for (int a = 0; a < 3; a++)
		*origin += k->column[a] * (double)s->what->box.low[a];
	*per_p = k->column[s->f.p];
	*per_q = k->column[s->f.q];
}

/* Rays among the voxels of a plane: Joseph's as they are, voxel-driven where a column's hat meets. */
static void lay_forward(const Stack *s, const KernelView *k, Laying *l)
{
	SliceRays rays = rays_of(s->what, &s->f, k);
	if (s->what->kernel == KERNEL_joseph) {
		l->axis = rays.axis;
		l->base = rays.base, l->per_output = rays.per_ray, l->per_plane = rays.slope;
		return;
	}
	double origin, per[2];
	columns_of(s, k, &origin, &per[0], &per[1]);
	l->axis = fabs(per[0]) >= fabs(per[1]) ? 1 : 0;
	double across = per[1 - l->axis];
	l->base = -origin / across, l->per_output = 1 / across;
	l->per_plane = -per[l->axis] / across;
	l->pitch = (float)fabs(across);
}

static double pitch_of(const Stack *s, const KernelView *k)
{
	if (s->linear)
		return 1;
	if (s->what->kernel == KERNEL_joseph)
		return fabs(rays_of(s->what, &s->f, k).per_ray);
	return fmax(fabs(k->column[s->f.p]), fabs(k->column[s->f.q]));
}

/* Samples strictly under a hat; those that reach under it by rounding alone do not count. */
static double taps_of(double pitch)
{
	return fmax(2, ceil(2 / pitch - 1e-7));
}

Laying LEVEL(stack_laying)(const Stack *s, int64_t view)
{
	const KernelView *k = &s->what->plan->views[s->what->first + view];
	double pitch = pitch_of(s, k);
	Laying l = {.axis = 1, .pitch = (float)pitch, .reach = (float)(1 / pitch)};
	if (s->what->direction == FORWARD)
		lay_forward(s, k, &l);
	else
		columns_of(s, k, &l.base, &l.per_output, &l.per_plane);
	l.taps = (int)taps_of(pitch);
	l.weight = (float)(s->what->kernel == KERNEL_joseph ? rays_of(s->what, &s->f, k).step
			   : s->what->plan->model.weight == WEIGHT_RAY ? k->mass
								       : 1);
	l.start = l.base + (lowest_lane(l.per_output) - (s->linear ? 0 : l.reach));
	l.step = position_of(LANES * l.per_output);
	l.lanes = lanes_of(l.per_output);
	return l;
}

static bool frame_fits(Stack *s)
{
	const Plan *plan = s->what->plan;
	if (s->f.slices < LEAST_SLICES || plan->model.columns > MOST_SAMPLES ||
		max64(s->f.n[0], s->f.n[1]) > MOST_SAMPLES)
		return false;
	s->taps = 2;
	for (int64_t i = s->what->first; i < s->what->first + s->what->count; i++) {
		const KernelView *k = &plan->views[i];
		if (!in_slices(plan, &s->f, k))
			return false;
		double taps = taps_of(pitch_of(s, k));
		if (!(taps <= MOST_TAPS))
			return false;
		s->taps = taps > s->taps ? (int)taps : s->taps;
	}
	return true;
}

bool LEVEL(stack_find)(const Projecting *what, Stack *s)
{
	for (int w = 2; w >= 0; w--) {
		*s = (Stack){.what = what, .f = frame_across(what, w)};
		s->linear = (what->kernel == KERNEL_joseph) == (what->direction == FORWARD);
		if (frame_fits(s))
			return true;
	}
	return false;
}

/* Few views are left to the kernel for one slice, where there is one. */
bool LEVEL(stack_applies)(const Projecting *what)
{
	Stack s;
	const KernelModel *model = &what->plan->model;
	if (model->clamp || model->nearest || !LEVEL(stack_find)(what, &s))
		return false;
	bool alone = what->kernel == KERNEL_voxel && what->direction == FORWARD;
	return alone || what->count > FEW_VIEWS || !LEVEL(slice_applies)(what);
}

bool LEVEL(stack_next)(Stack *s)
{
	s->first += s->count;
	s->count = min64(GROUP, s->f.slices - s->first);
	s->wide = parts(s->count, LANES) * LANES;
	return s->count > 0;
}
