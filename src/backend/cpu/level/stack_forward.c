/* Forward projection of stacks of slices (stack.h), Joseph, voxel-driven and footprints. A strip of
 * consecutive planes across the dominant axis is copied to [plane][voxel][slice]. Each task then
 * follows vectors of LANES neighbouring rays through a few planes at a time.
 *
 * Rays at similar angles and positions read the same voxels. Therefore views are sorted by slope
 * and processed a few at a time, and within these the vectors of rays are processed in the order of
 * their positions in the strip. The voxels they read stay in the L1 cache.
 */
#include <stdlib.h>
#include "backend/cpu/level/stack_fan.h"

enum {
	PLANES = 8,         /* planes per step along the rays; at most TERMS */
	STRIP_PLANES = 128, /* planes of a strip; what some rays read fits into L2 */
	VIEWS = 16,         /* views per task */
	ROWS_OF_RAYS = 16   /* vectors of rays followed through the strip together */
};

typedef struct {
	double slope;
	int64_t view;
} Order;

typedef struct {
	Stack s;
	int axis;
	int64_t first, count;  /* planes */
	int64_t width, stride; /* voxels of a plane, floats from plane to plane */
	float *strip;
	Order *order;
	int64_t views; /* number of views with this dominant axis */
} Strip;

/* Iterates over the vectors of LANES columns of a view in the order of increasing position in the
 * strip. `column`: first column of the next vector; `place`: position of its middle ray in the
 * middle plane, in voxels. */
typedef struct {
	Laying l;
	int64_t view, column, low, high; /* low, high: the columns to visit */
	double place;
	bool down; /* positions decrease with the column */
} Cursor;

/* ---- the strip ------------------------------------------------------------------------------- */

/* Copies one image row of all slices into the strip. With planes across q (axis 1) row `index` is
 * one plane; with planes across p it is voxel `index` of every plane. */
static void strip_fill(void *user, int64_t index)
{
	const Strip *t = user;
	const Stack *s = &t->s;
	int64_t x = t->axis ? 0 : t->first, y = t->axis ? t->first + index : index;
	int64_t count = t->axis ? t->width : t->count, apart = t->axis ? s->wide : t->stride;
	float *to = t->strip + s->taps * s->wide + index * (t->axis ? t->stride : s->wide);
	for (int64_t v = 0; v < s->wide; v += LANES)
		for (int64_t i = 0; i < count; i += LANES) {
			Rows rows = rows_of_volume(s, v, x + i, y);
			rows_transpose(&rows, count - i, vf_all(1), to + i * apart + v, apart);
		}
}

static void strip_pad(void *user, int64_t plane)
{
	const Strip *t = user;
	int64_t pad = t->s.taps * t->s.wide;
	float *row = t->strip + plane * t->stride;
	memset(row, 0, (size_t)pad * sizeof *row);
	memset(row + pad + t->width * t->s.wide, 0, (size_t)pad * sizeof *row);
}

/* ---- rows of rays ---------------------------------------------------------------------------- */

static void cursor_place(const Strip *t, Cursor *c)
{
	double middle = (double)c->column + 0.5 * (LANES - 1);
	double plane = (double)t->first + 0.5 * (double)t->count;
	c->place = c->l.base + middle * c->l.per_output + plane * c->l.per_plane;
	if (t->s.fans) {
		FanRays ray;
		ray.axis = t->axis;
		middle = fmin(fmax(middle, (double)c->low), (double)(c->high - 1));
		fan_ray(&ray, &t->s, c->l.fan.k, (int64_t)middle, 0);
		c->place = fan_place(&ray, 0, plane);
	}
}

static Cursor cursor_first(const Strip *t, int64_t view)
{
	Cursor c = {.l = LEVEL(stack_laying)(&t->s, view), .view = view};
	c.high = t->s.what->plan->model.columns;
	c.down = c.l.per_output <= 0;
	if (t->s.fans) {
		fan_columns(&t->s, &c.l.fan, t->axis, &c.low, &c.high);
		c.down = c.l.fan.k->column[1 - t->axis] -
				 (double)c.low * c.l.fan.k->depth[1 - t->axis] <
			 0;
	}
	c.column = (c.down ? c.high - 1 : c.low) / LANES * LANES;
	cursor_place(t, &c);
	return c;
}

/* Returns in `row` the vector of rays with the lowest position among all views, and advances the
 * cursor of that view. False: none is left. */
static bool cursor_take(const Strip *t, Cursor *cursors, int64_t views, Cursor *row)
{
	Cursor *least = NULL;
	for (Cursor *c = cursors; c < cursors + views; c++)
		if (c->column + LANES > c->low && c->column < c->high &&
			(!least || c->place < least->place))
			least = c;
	if (!least)
		return false;
	*row = *least;
	least->column += least->down ? -LANES : LANES;
	cursor_place(t, least);
	return true;
}

/* Whether any ray of the vector passes within the hat's reach of a voxel in planes [k, k +
 * count). */
static bool row_meets(
	const Strip *t, const Cursor *c, const FanRays *rays, int64_t k, int64_t count)
{
	const Laying *l = &c->l;
	if (t->s.fans)
		return fan_meets(rays, k, count, t->s.reach, t->width);
	double p = l->base + (double)c->column * l->per_output + (double)k * l->per_plane;
	double across = (LANES - 1) * l->per_output, down = (double)(count - 1) * l->per_plane;
	double low = p + fmin(across, 0) + fmin(down, 0);
	double high = p + fmax(across, 0) + fmax(down, 0);
	return high + l->reach > 0 && low - l->reach < (double)(t->width - 1);
}

/* Adds the contributions of planes [k, k + count) to LANES rays; sums: [ray][slice]. */
INLINE void walk(const Strip *t, const Cursor *c, const FanRays *rays, int64_t k, int count,
	const int taps, const bool linear, const bool footprint, float *sums)
{
	Entries e;
	const Laying *l = &c->l;
	const Stack *s = &t->s;
	for (int i = 0; i < count; i++)
		if (s->fans)
			fan_entries_rays(&e, i, s, l->fan.k, rays, k + i, (int32_t)t->width, taps,
				linear, footprint);
		else
			entries_set(&e, i, l, laying_start(l, c->column, (double)(k + i)),
				(int32_t)t->width, taps, linear, footprint, (int32_t)s->wide);
	/* Offsets assume `taps` zeros before the samples; the strip has s->taps, which may be
	 * more. */
	gather(&e, t->strip + (k - t->first) * t->stride + (s->taps - taps) * s->wide, t->stride,
		count, s->wide, taps, linear, sums);
}

static void walk_some(
	const Strip *t, const Cursor *c, const FanRays *rays, int64_t k, int count, float *sums)
{
	if (t->s.linear)
		walk(t, c, rays, k, count, 2, true, false, sums);
	else if (t->s.footprint && c->l.taps == 3)
		walk(t, c, rays, k, count, 3, false, true, sums);
	else if (t->s.footprint && c->l.taps == 4)
		walk(t, c, rays, k, count, 4, false, true, sums);
	else if (t->s.footprint)
		walk(t, c, rays, k, count, c->l.taps, false, true, sums);
	else if (c->l.taps == 2)
		walk(t, c, rays, k, count, 2, false, false, sums);
	else if (c->l.taps == 3)
		walk(t, c, rays, k, count, 3, false, false, sums);
	else
		walk(t, c, rays, k, count, c->l.taps, false, false, sums);
}

/* Adds the sums of a vector of rays, times their weight, to the projections. */
static void rays_add(const Strip *t, const Cursor *c, const FanRays *rays, const float *sums)
{
	const Stack *s = &t->s;
	vf weight = s->fans ? rays->length : vf_all(c->l.weight);
	for (int64_t v = 0; v < s->wide; v += LANES) {
		Rows rows = rows_of_view(s, v, c->view, c->column);
		rows_transpose_back(&rows, s->what->plan->model.columns - c->column, true, weight,
			sums + v, s->wide);
	}
}

/* Prefetches the pixels that rays_add will change. */
static void rays_expect(const Strip *t, const Cursor *c)
{
	for (int64_t v = 0; v < t->s.wide; v += LANES) {
		Rows rows = rows_of_view(&t->s, v, c->view, c->column);
		for (int l = 0; l < LANES; l++)
			if (rows.row[l])
				__builtin_prefetch(rows.row[l], 1, 2);
	}
}

/* Follows `count` vectors of rays through all planes of the strip. */
static void rays_walk(const Strip *t, const Cursor *rows, int count)
{
	float sums[ROWS_OF_RAYS][LANES * GROUP] = {{0}};
	FanRays rays[ROWS_OF_RAYS];
	for (int r = 0; t->s.fans && r < count; r++)
		rays[r] = fan_rays(&t->s, &rows[r].l.fan, t->axis, rows[r].column);
	for (int r = 0; r < count; r++)
		rays_expect(t, &rows[r]);
	for (int64_t k = t->first; k < t->first + t->count; k += PLANES) {
		int planes = (int)min64(PLANES, t->first + t->count - k);
		for (int r = 0; r < count; r++)
			if (row_meets(t, &rows[r], &rays[r], k, planes))
				walk_some(t, &rows[r], &rays[r], k, planes, sums[r]);
	}
	for (int r = 0; r < count; r++)
		rays_add(t, &rows[r], &rays[r], sums[r]);
}

static void strip_project(void *user, int64_t index)
{
	const Strip *t = user;
	int64_t first = index * VIEWS, views = min64(VIEWS, t->views - first);
	Cursor cursors[VIEWS], rows[ROWS_OF_RAYS];
	for (int64_t i = 0; i < views; i++)
		cursors[i] = cursor_first(t, t->order[first + i].view);
	for (int count = ROWS_OF_RAYS; count == ROWS_OF_RAYS;) {
		for (count = 0; count < ROWS_OF_RAYS; count++)
			if (!cursor_take(t, cursors, views, &rows[count]))
				break;
		rays_walk(t, rows, count);
	}
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int by_slope(const void *a, const void *b)
{
	const Order *one = a, *two = b;
	if (one->slope != two->slope)
		return one->slope < two->slope ? -1 : 1;
	return (one->view > two->view) - (one->view < two->view);
}

/* Sets per_plane to the slope of the middle one of the fan's rays that have this dominant axis;
 * false if there are none. */
static bool view_slope(const Strip *t, Laying *l)
{
	FanRays ray;
	int64_t low, high;
	ray.axis = t->axis;
	fan_columns(&t->s, &l->fan, t->axis, &low, &high);
	fan_ray(&ray, &t->s, l->fan.k, low + (high - low) / 2, 0);
	l->per_plane = ray.slope[0];
	return low < high;
}

/* Lists the views that have rays with this dominant axis, sorted by slope. */
static void strip_order(Strip *t)
{
	t->views = 0;
	for (int64_t i = 0; i < t->s.what->count; i++) {
		Laying l = LEVEL(stack_laying)(&t->s, i);
		if (t->s.fans ? view_slope(t, &l) : l.axis == t->axis)
			t->order[t->views++] = (Order){l.per_plane, i};
	}
	qsort(t->order, (size_t)t->views, sizeof *t->order, by_slope);
}

/* Number of planes per strip that fit into the scratch buffer. Computed for a full group of slices,
 * so that it does not depend on the number of slices. */
static int64_t planes_of(const Stack *s, int axis)
{
	int64_t floats = stack_stride(s, s->f.n[1 - axis]) / s->wide * GROUP;
	return limit(SCRATCH_FLOATS / floats, 1, min64(STRIP_PLANES, s->f.n[axis]));
}

static void axis_project(Strip *t)
{
	const Frame *f = &t->s.f;
	int64_t most = planes_of(&t->s, t->axis);
	t->width = f->n[1 - t->axis];
	t->stride = stack_stride(&t->s, t->width);
	strip_order(t);
	for (t->first = 0; t->views > 0 && t->first < f->n[t->axis]; t->first += t->count) {
		t->count = min64(most, f->n[t->axis] - t->first);
		parallel_for(t->count, strip_pad, t);
		parallel_for(t->axis ? t->count : t->width, strip_fill, t);
		parallel_for(parts(t->views, VIEWS), strip_project, t);
	}
}

tomos_status LEVEL(stack_forward)(const ProjectRequest *what)
{
	Strip t = {0};
	if (!LEVEL(stack_find)(what, &t.s))
		return fail(TOMOS_UNSUPPORTED, "the rays are not in slices");
	t.s.wide = GROUP;
	int64_t floats[2];
	for (int a = 0; a < 2; a++)
		floats[a] = planes_of(&t.s, a) * stack_stride(&t.s, t.s.f.n[1 - a]);
	TRY(mem_alloc(
		&t.strip, max64(floats[0], floats[1]), sizeof(float), "a strip of the slices"));
	tomos_status status = mem_alloc(&t.order, what->count, sizeof *t.order, "the views");
	while (status == TOMOS_OK && LEVEL(stack_next)(&t.s))
		for (t.axis = 0; t.axis < 2; t.axis++)
			axis_project(&t);
	mem_free(t.strip);
	mem_free(t.order);
	return status;
}
