/* Decides which requests the kernel for stacks of slices supports, and computes the positions of
 * outputs among samples. */
#include "backend/cpu/level/stack_fan.h"

/* Positions of rays among the voxels of a plane. Joseph: where the ray crosses the plane.
 * Voxel-driven: the voxels that fall within one column of the ray; along the plane the hat of half
 * width one column is 1 / pitch voxels wide on either side. */
static void lay_forward(const Stack *s, const KernelView *k, Laying *l)
{
	SliceRays rays = rays_of(s->what, &s->f, k);
	if (s->what->kernel == KERNEL_joseph) {
		l->axis = rays.axis;
		l->base = rays.base, l->per_output = rays.per_ray, l->per_plane = rays.slope;
		return;
	}
	double origin, per[2];
	columns_of(s->what, &s->f, k, &origin, &per[0], &per[1]);
	l->axis = fabs(per[0]) >= fabs(per[1]) ? 1 : 0;
	double across = per[1 - l->axis];
	l->base = -origin / across, l->per_output = 1 / across;
	l->per_plane = -per[l->axis] / across;
	l->columns = (float)fabs(across);
}

/* One over the half width of the hat function or footprint, in samples. */
static double pitch_of(const Stack *s, const KernelView *k)
{
	if (s->linear)
		return 1;
	if (s->what->kernel == KERNEL_joseph)
		return fabs(rays_of(s->what, &s->f, k).per_ray);
	double p = fabs(k->column[s->f.p]), q = fabs(k->column[s->f.q]);
	double columns = s->what->direction == FORWARD ? fmax(p, q) : 1;
	return s->footprint ? 2 * columns / (p + q + 1) : columns;
}

static Trapezoid trapezoid_in(const Stack *s, const KernelView *k)
{
	const vf edges[3] = {
		vf_all((float)k->column[s->f.p]), vf_all((float)k->column[s->f.q]), vf_all(0)};
	return trapezoid_of(edges);
}

/* Number of samples strictly inside a hat of half width 1 / pitch, at least 2. The tolerance
 * excludes samples that are inside by rounding only. */
static double taps_of(double pitch)
{
	return fmax(2, ceil(2 / pitch - 1e-7));
}

Laying LEVEL(stack_laying)(const Stack *s, int64_t view)
{
	const KernelView *k = &s->what->plan->views[s->what->first + view];
	if (s->fans)
		return (Laying){.fan = fan_of(s, view), .taps = s->taps};
	double pitch = pitch_of(s, k);
	Laying l = {.axis = 1, .pitch = (float)pitch, .reach = (float)(1 / pitch), .columns = 1};
	if (s->footprint)
		l.trapezoid = trapezoid_in(s, k);
	if (s->what->direction == FORWARD)
		lay_forward(s, k, &l);
	else
		columns_of(s->what, &s->f, k, &l.base, &l.per_output, &l.per_plane);
	l.taps = (int)taps_of(pitch);
	l.weight = (float)(s->what->kernel == KERNEL_joseph ? rays_of(s->what, &s->f, k).step
			   : s->what->plan->model.weight == WEIGHT_RAY ? k->mass
								       : 1);
	l.start = l.base + (lowest_lane(l.per_output) - (s->linear ? 0 : l.reach));
	l.step = position_of(LANES * l.per_output);
	l.lanes = lanes_of(l.per_output);
	return l;
}

/* For the adjoint of Joseph's method: bound, over all pixels of the grid, on the distance in
 * columns between the projection of a pixel and the columns whose rays pass within one pixel of it
 * along x or y. It is the number of columns per pixel along an axis, a quotient: the numerator
 * depends on the coordinate along the other axis only, the denominator is the square of the depth.
 * Both are bounded separately in PARTS strips of the grid. */
static double fan_back_reach(const Plan *plan, const KernelView *k)
{
	enum { PARTS = 8 };
	double most = 0;
	for (int a = 0; a < 2; a++)
		for (int i = 0; i < PARTS; i++) {
			double depth = HUGE_VAL, rate = 0;
			for (int corner = 0; corner < 4; corner++) {
				double at[2];
				at[a] = corner & 1 ? (double)(plan->grid.n[a] - 1) : 0;
				at[1 - a] = (double)(plan->grid.n[1 - a] - 1) *
					    (i + (corner >> 1)) / PARTS;
				Look look = look_from(k, at[0], at[1]);
				depth = fmin(depth, look.depth);
				rate = fmax(rate, fabs(k->column[a] - look.column * k->depth[a]) *
							  look.depth);
			}
			double near = depth - fabs(k->depth[a]); /* one voxel further */
			most = near > 0 ? fmax(most, rate / (depth * near)) : HUGE_VAL;
		}
	return most;
}

/* The same for footprints: half their largest length, and that of a column. The changes of U - c D
 * per pixel are affine in the column c, so that they are largest at an end of its range. */
static double fan_back_half(const Plan *plan, const KernelView *k)
{
	double depth = HUGE_VAL, most = 0;
	for (int corner = 0; corner < 4; corner++) {
		Look look = look_from(k, corner & 1 ? (double)(plan->grid.n[0] - 1) : 0,
			corner & 2 ? (double)(plan->grid.n[1] - 1) : 0);
		depth = fmin(depth, look.depth);
		most = fmax(most, fabs(k->column[0] - look.column * k->depth[0]) +
					  fabs(k->column[1] - look.column * k->depth[1]));
	}
	return depth > 0 ? 0.5 * (most / depth + 1) : HUGE_VAL;
}

/* For voxel-driven forward projection: bound on the distance from a ray, in voxels along its minor
 * axis, of voxels that project to within one column of it. */
static double fan_forward_reach(const Stack *s, const Fan *fan)
{
	const Plan *plan = s->what->plan;
	const KernelView *k = fan->k;
	double least = HUGE_VAL, depth = 0, most = 0;
	for (int corner = 0; corner < 4; corner++) {
		Look look = look_from(k, corner & 1 ? (double)(plan->grid.n[0] - 1) : 0,
			corner & 2 ? (double)(plan->grid.n[1] - 1) : 0);
		least = fmin(least, look.depth);
		depth = fmax(depth, look.depth);
	}
	for (int a = 0; a < 2; a++) {
		int64_t low, high;
		fan_columns(s, fan, a, &low, &high);
		double one = k->column[1 - a] - (double)low * k->depth[1 - a];
		double two = k->column[1 - a] - (double)(high - 1) * k->depth[1 - a];
		double rate = one * two > 0 ? fmin(fabs(one), fabs(two)) : 0;
		double step = rate / depth - fabs(k->depth[1 - a]) / least;
		if (low < high)
			most = fmax(most, step > 0 ? 1 / step : HUGE_VAL);
	}
	return most;
}

/* The same for footprints, of which a voxel is at most as far along the ray's major axis as along
 * the minor one. */
static double fan_forward_half(const Stack *s, const Fan *fan)
{
	return 1.05 * (1 + 0.5 * fan_forward_reach(s, fan));
}

/* Whether the outermost rays of a fan are less than 90 degrees apart. */
static bool fan_is_narrow(const Plan *plan, const KernelView *k)
{
	double last = (double)(plan->model.columns - 1), product = 0;
	for (int a = 0; a < 2; a++)
		product += (k->first[a] - k->src[a]) * (k->first[a] + last * k->u[a] - k->src[a]);
	return product > 0;
}

/* Whether a request of fans is supported; sets reach, taps and linear. */
static bool fans_fit(Stack *s)
{
	const Plan *plan = s->what->plan;
	bool voxel = s->what->kernel == KERNEL_voxel, forward = s->what->direction == FORWARD;
	s->reach = 1;
	for (int64_t i = 0; i < s->what->count; i++) {
		const KernelView *k = &plan->views[s->what->first + i];
		double step;
		if (!fan_is_narrow(plan, k) || !(fan_curve(plan, k, &step) < MOST_CURVE - 1))
			return false;
		Fan fan = fan_of(s, i);
		if (s->footprint)
			s->reach = fmax(s->reach,
				forward ? fan_forward_half(s, &fan) : fan_back_half(plan, k));
		else if (voxel == forward)
			s->reach = fmax(s->reach,
				voxel ? fan_forward_reach(s, &fan) : fan_back_reach(plan, k));
	}
	s->linear = forward && !voxel && !s->footprint;
	double taps = taps_of(1 / s->reach);
	s->taps = taps <= MOST_TAPS ? (int)taps : 0;
	return s->taps > 0;
}

static bool frame_fits(Stack *s)
{
	const Plan *plan = s->what->plan;
	const RayClass *rays = &plan->rays;
	if (!rays_are(rays, RAYS_IN_SLICE) || plan->model.columns > MOST_SAMPLES ||
		max64(s->f.n[0], s->f.n[1]) > MOST_SAMPLES)
		return false;
	s->taps = 2;
	s->fans = rays->source == TOMOS_FAN_PER_ROW;
	if (s->fans) /* for any number of slices: no other kernel gives the same bits */
		return !plan->model.planar && fans_fit(s);
	if (s->f.slices < LEAST_SLICES || rays->source != TOMOS_PARALLEL)
		return false;
	for (int64_t i = s->what->first; i < s->what->first + s->what->count; i++) {
		const KernelView *k = &plan->views[i];
		double taps = taps_of(pitch_of(s, k));
		if (!(taps <= MOST_TAPS))
			return false;
		s->taps = taps > s->taps ? (int)taps : s->taps;
	}
	return true;
}

bool LEVEL(stack_find)(const ProjectRequest *what, Stack *s)
{
	*s = (Stack){.what = what,
		.f = frame_across(what, what->plan->rays.all.axis),
		.footprint = what->kernel == KERNEL_footprint};
	s->linear =
		!s->footprint && (what->kernel == KERNEL_joseph) == (what->direction == FORWARD);
	return frame_fits(s);
}

/* With few views the kernel for single slices is faster, if it applies: this one must copy the
 * volume. */
static bool stack_applies(const ProjectRequest *what)
{
	Stack s;
	const KernelModel *model = &what->plan->model;
	if (model->clamp || model->nearest || !LEVEL(stack_find)(what, &s))
		return false;
	return s.footprint || what->count > FEW_VIEWS || !LEVEL(slice_applies)(what);
}

bool LEVEL(stack_next)(Stack *s)
{
	s->first += s->count;
	s->count = min64(GROUP, s->f.slices - s->first);
	s->wide = parts(s->count, LANES) * LANES;
	return s->count > 0;
}

const CpuKernel LEVEL(cpu_stack) = {
	.applies = stack_applies,
	.run = {LEVEL(stack_forward), LEVEL(stack_back)},
};
