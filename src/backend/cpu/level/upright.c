/* Joseph's forward projection for upright detectors, and where it applies.
 *
 * The volume is processed in slabs across the dominant axis, transposed so that columns along z are
 * contiguous. In each plane the two voxel columns next to a detector column are interpolated and
 * accumulated onto its rows, which are the SIMD lanes: the same operation as in column.c with
 * voxels and detector rows exchanged.
 */
#include "backend/cpu/level/circle.h"
#include "backend/cpu/level/density.h"
#include "backend/cpu/level/upright.h"
#include "base/team.h"
#include "kernel/ray.h"

enum {
	ACROSS = 16,           /* detector columns per tile */
	WIDE = 64,             /* voxels of a row that are copied at once */
	TALL = 256,            /* rows of a tile */
	SLAB_FLOATS = 1 << 21, /* a slab stays in the L3 cache */
	SCRATCH_FLOATS = 11 << 20
};

/* Limits of the distance of neighbouring rays, in voxels. */
#define LEAST_CLIMB 0.03
#define MOST_CLIMB 1e4

/* Forward, this much more than fits into a window is still faster than ray.c. */
#define BEYOND_WINDOW 1.2

/* Whether column c of a view is supported: x or y must be the dominant axis of all its rays, of
 * which those of the outermost rows are the steepest, and the source not too near. */
static bool column_fits(const ProjectRequest *what, const KernelView *k, int64_t c)
{
	const Plan *plan = what->plan;
	Upright up = upright_column(k, (double)c);
	double top = (double)(plan->model.rows - 1);
	double low = up.q_k, high = up.q_k + top * up.r_k;
	double planes[2] = {0, (double)(plan->grid.n[up.axis] - 1)};
	if (fabs(low) > 1 || fabs(high) > 1)
		return false;
	kernel_clip(
		up.base, up.slope, -1, (double)plan->grid.n[1 - up.axis], &planes[0], &planes[1]);
	if (up.direction > 0)
		planes[0] = fmax(planes[0], up.source);
	if (up.direction < 0)
		planes[1] = fmin(planes[1], up.source);
	for (int end = 0; end < 2 && planes[0] <= planes[1]; end++) {
		double climb = fabs(up.r + planes[end] * up.r_k);
		if (!(climb > LEAST_CLIMB && climb < MOST_CLIMB) ||
			(what->direction == FORWARD && !lanes_fit(climb / BEYOND_WINDOW, 1)))
			return false;
	}
	return true;
}

static bool upright_applies(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	int64_t plane =
		(max64(plan->grid.n[0], plan->grid.n[1]) + 2) * column_stride(plan->grid.n[2]);
	int64_t view = (plan->model.columns + 2) * column_stride(plan->model.rows);
	if (!rays_are(&plan->rays, RAYS_UPRIGHT) || plan->model.planar || plan->model.clamp ||
		plan->model.rows > MAX_COLUMN || plan->grid.n[2] > MAX_COLUMN ||
		max64(plane, view) > SCRATCH_FLOATS)
		return false;
	for (int64_t i = what->first; i < what->first + what->count; i++) {
		const KernelView *k = &plan->views[i];
		for (int64_t c = 0; c < plan->model.columns; c++)
			if (!column_fits(what, k, c))
				return false;
	}
	return true;
}

/* Times (density.h): of a detector column in a plane; of each row (forward), or of each row and
 * each voxel within one voxel of it (back), by how samples are read; in a wide volume, which is not
 * in the L2 cache, what is added forward. Of other kernels: for a ray in a plane, of which the
 * second part is for as many rays as there are voxels. */
typedef struct {
	double column, row[READ_ANY + 1], wide, ray[2], ray_circle[2];
} Times;

static const Times times[] = {
	[FORWARD] = {24, {BY_LANES(0.2, 0.36, 1.2), BY_LANES(0.4, 0.45, 1.5), 2}, 0.6,
		{BY_LANES(0.45, 0.42, 1.5), 0.5}, {BY_LANES(0.45, 0.36, 1), 0.1}},
	[ADJOINT] = {20, {BY_LANES(0.13, 0.14, 0.6), BY_LANES(0.12, 0.15, 0.5), 0.5}, 0,
		{BY_LANES(0.8, 0.85, 1.3), LANES >= 16 ? 0.4 : 0.3},
		{BY_LANES(0.4, 0.32, 0.6), BY_LANES(0.25, 0.2, 0.4)}},
};

/* Kernels of circles also copy the volume, and set up rays for half of it. */
static const double copy_time = 4, short_time = 6;

static double others_time(const ProjectRequest *what, const Density *d, double rows, bool circle)
{
	const Times *t = &times[what->direction];
	const double wide = (double)what->plan->grid.n[0];
	if (!circle)
		return rows * (t->ray[0] + t->ray[1] / d->columns);
	return rows * (t->ray_circle[0] + t->ray_circle[1] / d->columns + short_time / wide +
			      copy_time / (d->rows * (double)what->count));
}

static double upright_slower_by(const ProjectRequest *what, const Density *d, bool circle)
{
	const Times *t = &times[what->direction];
	const double climb = 1 / d->rows, rows = d->met;
	double time;
	if (what->direction == FORWARD)
		time = rows * t->row[stretch_reading(climb)];
	else
		time = fmin(d->seen, rows * climb) * fmax(3, 2 * d->rows + 1) *
		       t->row[stretch_reading(d->rows)];
	if (stretch_reading(climb) != READ_NEAR)
		time += rows * t->wide * fmin(1, (double)what->plan->grid.n[0] / 128);
	return t->column + time - others_time(what, d, rows, circle);
}

static bool upright_slower(const ProjectRequest *what)
{
	Circle circle;
	return slower_in_sum(what, circle_of(what, &circle), upright_slower_by);
}

typedef struct {
	const ProjectRequest *what;
	int axis;             /* axis across the planes: x (0) or y (1) */
	int64_t first, count; /* first plane relative to the box, number of planes */
	int64_t across, tall; /* voxels of a plane: along the other axis, and along z */
	int64_t stride;       /* floats per voxel column; a plane has across + 2 of them */
	float *samples;
} Slab;

/* Column (x, y) of the box in the slab. */
static float *slab_column(const Slab *s, int64_t x, int64_t y)
{
	int64_t plane = (s->axis == 0 ? x : y) - s->first, b = s->axis == 0 ? y : x;
	return s->samples + (plane * (s->across + 2) + b + 1) * s->stride;
}

/* Zeros in the columns beside the box. */
static void fill_sides(const Slab *s)
{
	for (int64_t plane = 0; plane < s->count; plane++)
		for (int64_t side = 0; side < 2; side++)
			memset(s->samples + (plane * (s->across + 2) + side * (s->across + 1)) *
						    s->stride,
				0, (size_t)s->stride * sizeof *s->samples);
}

static int64_t slab_groups(const Slab *s)
{
	return parts(s->axis == 0 ? s->count : s->across, WIDE);
}

/* Copies columns of voxels (along z) to the slab, WIDE neighbours along x at a time: each row of
 * the volume that is read has voxels of all of them. */
static void fill_columns(void *user, int64_t index)
{
	const Slab *s = user;
	const Box *box = &s->what->box;
	int64_t nx = box->high[0] - box->low[0], ny = box->high[1] - box->low[1];
	int64_t low = s->axis == 0 ? s->first : 0, y = index / slab_groups(s);
	int64_t first = low + index % slab_groups(s) * WIDE;
	int64_t end = min64(first + WIDE, low + (s->axis == 0 ? s->count : s->across));
	y += s->axis == 0 ? 0 : s->first;
	for (int64_t x = first; x < end; x++) {
		float *column = slab_column(s, x, y);
		memset(column, 0, PAD * sizeof *column);
		memset(column + PAD + s->tall, 0,
			(size_t)(s->stride - PAD - s->tall) * sizeof *column);
	}
	int64_t apart = (s->axis == 0 ? s->across + 2 : 1) * s->stride;
	transpose_rows(s->what->volume + y * nx + first, nx * ny, slab_column(s, first, y) + PAD,
		apart, s->tall, end - first, nx - first);
}

/* Where the detector columns of a tile cross a plane, and the rows [from, to) that are then beside
 * voxels. */
typedef struct {
	double left[ACROSS], share[ACROSS], start[ACROSS], step[ACROSS], from[ACROSS], to[ACROSS];
} Plane;

static inline void set_plane(
	const Slab *s, const Uprights *columns, int64_t plane, const Window *tile, Plane *p)
{
	const Box *box = &s->what->box;
	const double row = (double)tile->low[1], rows = (double)(tile->high[1] - tile->low[1]);
	const vd k = (double)(box->low[s->axis] + plane) + (vd){0};
	for (int i = 0; i < ACROSS / SET; i++) {
		const Crossings c = upright_cross(&columns[i], k, box, s->axis);
		vd start = c.q + row * c.climb, rate = 1.0 / c.climb;
		vd one = (-1.0 - start) * rate, two = ((double)s->tall - start) * rate;
		vd from = vd_most(vd_least(one, two) - 1.0, (vd){0});
		vd to = vd_least(vd_most(one, two) + 2.0, rows + (vd){0});
		to = vd_choose(c.inside, to, -1.0 + (vd){0});
		memcpy(&p->left[i * SET], &c.left, sizeof c.left);
		memcpy(&p->share[i * SET], &c.share, sizeof c.share);
		memcpy(&p->start[i * SET], &start, sizeof start);
		memcpy(&p->step[i * SET], &c.climb, sizeof c.climb);
		memcpy(&p->from[i * SET], &from, sizeof from);
		memcpy(&p->to[i * SET], &to, sizeof to);
	}
}

/* Interpolates the two voxel columns between which detector column c crosses a plane, and widens
 * the range of its rows. Returns 1, or 0 if it does not cross the plane inside the box. */
static int ready_plane(const Slab *s, const Plane *p, int64_t c, int64_t plane, int64_t rows,
	Stretch *ready, Range *range)
{
	if (!(p->from[c] < p->to[c]))
		return 0;
	float share = (float)p->share[c];
	ready->start = p->start[c];
	ready->step = p->step[c];
	range->from = min64(range->from, (int64_t)p->from[c] / LANES * LANES);
	range->to = max64(range->to, (int64_t)p->to[c]);
	const float *one =
		s->samples +
		((plane - s->first) * (s->across + 2) + (int64_t)p->left[c] + 1) * s->stride;
	stretch_mix(ready, one, one + s->stride, 1 - share, share, rows, s->stride);
	return 1;
}

static void give_tile(const Slab *s, int64_t view, const Window *tile, float (*sums)[TALL])
{
	const Plan *plan = s->what->plan;
	const KernelView *k = &plan->views[s->what->first + view];
	float *image = s->what->projections + view * plan->model.rows * plan->model.columns;
	for (int64_t c = tile->low[0]; c < tile->high[0]; c++)
		upright_lengths(plan, k, c, tile->low[1], tile->high[1] - tile->low[1],
			sums[c - tile->low[0]]);
	for (int64_t first = tile->low[1]; first < tile->high[1]; first += ACROSS) {
		float rows[ACROSS][ACROSS];
		transpose_rows(&sums[0][first - tile->low[1]], TALL, rows[0], ACROSS, ACROSS,
			ACROSS, ACROSS);
		for (int64_t r = first; r < min64(first + ACROSS, tile->high[1]); r++)
			for (int64_t c = tile->low[0]; c < tile->high[0]; c++)
				image[r * plan->model.columns + c] +=
					rows[r - first][c - tile->low[0]];
	}
}

/* Adds two planes, or the last one, to the rows of detector column c. */
static void add_planes(const Slab *s, const Plane planes[2], int64_t c, int64_t plane, int64_t rows,
	float (*mixed)[MAX_COLUMN + 3 * PAD], float *sums)
{
	Stretch ready[2] = {{.mixed = mixed[0]}, {.mixed = mixed[1]}};
	Range range = {rows, 0};
	int count = ready_plane(s, &planes[0], c, plane, rows, ready, &range);
	if (plane + 1 < s->first + s->count)
		count += ready_plane(s, &planes[1], c, plane + 1, rows, ready + count, &range);
	if (count == 2)
		stretch_add(ready, 2, &range, s->tall, 0, sums);
	else if (count == 1)
		stretch_add(ready, 1, &range, s->tall, 0, sums);
}

/* The columns of a tile, those beside the detector included; returns how many cross the planes of
 * the slab. */
static int64_t tile_columns(const Slab *s, int64_t view, const Window *tile, Upright up[ACROSS],
	Uprights sets[ACROSS / SET])
{
	int64_t mine = 0;
	for (int64_t c = 0; c < ACROSS; c++) {
		up[c] = upright_column(
			&s->what->plan->views[s->what->first + view], (double)(tile->low[0] + c));
		mine += c < tile->high[0] - tile->low[0] && up[c].axis == s->axis;
	}
	for (int i = 0; i < ACROSS / SET; i++)
		sets[i] = upright_set(up + i * SET, 1);
	return mine;
}

/* Limits a tile to the rows that see the box; false: none does. */
static bool tile_clip(const Slab *s, int64_t view, Window *tile)
{
	const Plan *plan = s->what->plan;
	Window seen =
		geom_window(plan->scan, s->what->first + view, &plan->grid, &s->what->box, 1.5);
	tile->low[1] = max64(tile->low[1], seen.low[1]);
	tile->high[1] = min64(tile->high[1], seen.high[1]);
	return tile->low[1] < tile->high[1] && tile->low[0] < seen.high[0] &&
	       tile->high[0] > seen.low[0];
}

static void tile_forward(void *user, int64_t index)
{
	const Slab *s = user;
	const Plan *plan = s->what->plan;
	int64_t across = parts(plan->model.columns, ACROSS), high = parts(plan->model.rows, TALL);
	int64_t view = index / across / high;
	Window tile = {{index % across * ACROSS, index / across % high * TALL}, {0}};
	tile.high[0] = min64(tile.low[0] + ACROSS, plan->model.columns);
	tile.high[1] = min64(tile.low[1] + TALL, plan->model.rows);
	if (!tile_clip(s, view, &tile))
		return;
	Upright up[ACROSS];
	Uprights sets[ACROSS / SET];
	int64_t rows = tile.high[1] - tile.low[1], wide = tile.high[0] - tile.low[0];
	if (tile_columns(s, view, &tile, up, sets) == 0)
		return;
	float mixed[2][MAX_COLUMN + 3 * PAD], sums[ACROSS][TALL] = {{0}};
	for (int i = 0; i < 2; i++)
		memset(mixed[i], 0, (size_t)(s->stride + PAD) * sizeof **mixed);
	for (int64_t plane = s->first; plane < s->first + s->count; plane += 2) {
		Plane planes[2];
		for (int i = 0; i < 2; i++)
			set_plane(s, sets, plane + i, &tile, &planes[i]);
		for (int64_t c = 0; c < wide; c++)
			if (up[c].axis == s->axis)
				add_planes(s, planes, c, plane, rows, mixed, sums[c]);
	}
	/* The slabs across the other axis compute the other columns. */
	give_tile(s, view, &tile, sums);
}

/* Whether any detector column has its planes across `axis`: views of a small arc often have one. */
static bool axis_used(const ProjectRequest *what, int axis)
{
	for (int64_t i = what->first; i < what->first + what->count; i++)
		for (int64_t c = 0; c < what->plan->model.columns; c++)
			if (upright_column(&what->plan->views[i], (double)c).axis == axis)
				return true;
	return false;
}

static int64_t forward_floats(const ProjectRequest *what)
{
	const Box *box = &what->box;
	int64_t wide = max64(box->high[0] - box->low[0], box->high[1] - box->low[1]);
	return max64(SLAB_FLOATS, (wide + 2) * column_stride(box->high[2] - box->low[2]));
}

static tomos_status upright_forward(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	const Box *box = &what->box;
	Slab s = {.what = what, .tall = box->high[2] - box->low[2]};
	int64_t tasks =
		what->count * parts(plan->model.columns, ACROSS) * parts(plan->model.rows, TALL);
	s.stride = column_stride(s.tall);
	TRY(scratch_take(&s.samples, forward_floats(what), "a slab of the volume"));
	for (s.axis = 0; s.axis < 2; s.axis++) {
		int64_t planes = axis_used(what, s.axis) ? box->high[s.axis] - box->low[s.axis] : 0;
		s.across = box->high[1 - s.axis] - box->low[1 - s.axis];
		int64_t most = max64(1, SLAB_FLOATS / ((s.across + 2) * s.stride));
		for (s.first = 0; s.first < planes; s.first += s.count) {
			s.count = min64(most, planes - s.first);
			fill_sides(&s);
			parallel_for((s.axis == 0 ? s.across : s.count) * slab_groups(&s),
				fill_columns, &s);
			parallel_for(tasks, tile_forward, &s);
		}
	}
	scratch_give(s.samples);
	return TOMOS_OK;
}

const CpuKernel LEVEL(cpu_upright) = {
	.applies = upright_applies,
	.run = {upright_forward, LEVEL(upright_back)},
	.overwrites = true,
	.slower = upright_slower,
	.team_floats = {forward_floats, LEVEL(upright_back_floats)},
};
