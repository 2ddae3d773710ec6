/* Finds the symmetries of the grid under which a set of views is invariant, and which rays are
 * images of each other. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "op/scsr/scsr.h"

/* Views with the same key have directions that differ by less than SAME_KEY (radians). Two rays are
 * the same if their distance is nowhere above RAY_TOLERANCE voxels. */
#define SAME_KEY 1e-8

static const double pi = 3.14159265358979323846;

/* A view, in voxels from the centre of the grid: its source or ray direction, and its first and
 * last pixel. */
typedef struct {
	bool point;
	double source[2], ends[2][2];
} Shape;

typedef struct {
	double key; /* angle of the source, or of the rays modulo 180 degrees */
	int64_t view;
} Keyed;

typedef struct {
	const Lister *lister;
	Shape *shapes;
	Keyed *keyed; /* sorted by key */
	int64_t count;
} Views;

static Symmetry make_symmetry(int number, int64_t nx, int64_t ny)
{
	Symmetry s = {.swap = number >> 2 & 1, .flip = {number & 1, number >> 1 & 1}};
	/* x' = +-x or +-y, y' likewise; x and y are exchanged only in square grids. */
	int64_t step_x = s.flip[0] ? -1 : 1, step_y = s.flip[1] ? -nx : nx;
	s.origin = (s.flip[0] ? nx - 1 : 0) + (s.flip[1] ? (ny - 1) * nx : 0);
	s.along_x = s.swap ? step_y : step_x;
	s.along_y = s.swap ? step_x : step_y;
	return s;
}

static void apply(const Symmetry *s, const double from[2], double to[2])
{
	double x = s->swap ? from[1] : from[0], y = s->swap ? from[0] : from[1];
	to[0] = s->flip[0] ? -x : x;
	to[1] = s->flip[1] ? -y : y;
}

static bool are_inverse(const Symmetry *a, const Symmetry *b)
{
	const double point[2] = {1, 2};
	double there[2], back[2];
	apply(a, point, there);
	apply(b, there, back);
	return back[0] == point[0] && back[1] == point[1];
}

static Shape make_shape(const Plan *plan, int64_t view)
{
	const KernelView *k = &plan->views[view];
	Shape shape = {.point = KERNEL_HAS_SOURCE(k)};
	for (int a = 0; a < 2; a++) {
		double middle = 0.5 * (double)(plan->grid.n[a] - 1);
		shape.source[a] = shape.point ? k->src[a] - middle : k->src[a];
		shape.ends[0][a] = k->first[a] - middle;
		shape.ends[1][a] = shape.ends[0][a] + (double)(plan->model.columns - 1) * k->u[a];
	}
	double length = shape.point ? 1 : hypot(shape.source[0], shape.source[1]);
	shape.source[0] /= length;
	shape.source[1] /= length;
	return shape;
}

static Shape image_of(const Symmetry *s, const Shape *shape)
{
	Shape image = {.point = shape->point};
	apply(s, shape->source, image.source);
	for (int i = 0; i < 2; i++)
		apply(s, shape->ends[i], image.ends[i]);
	return image;
}

static double shape_key(const Shape *shape)
{
	double angle = atan2(shape->source[1], shape->source[0]);
	return shape->point ? angle : angle < 0 ? angle + pi : angle;
}

/* Whether ray i of a is ray j of b. Parallel rays of opposite direction are the same. */
static bool same_ray(const Shape *a, int i, const Shape *b, int j)
{
	double x = a->ends[i][0] - b->ends[j][0], y = a->ends[i][1] - b->ends[j][1];
	if (a->point)
		return hypot(x, y) <= RAY_TOLERANCE;
	return fabs(x * a->source[1] - y * a->source[0]) <= RAY_TOLERANCE;
}

static bool same_view(const Shape *a, const Shape *b, bool flip)
{
	if (a->point != b->point)
		return false;
	if (a->point &&
		hypot(a->source[0] - b->source[0], a->source[1] - b->source[1]) > RAY_TOLERANCE)
		return false;
	return same_ray(a, 0, b, flip) && same_ray(a, 1, b, !flip);
}

static int compare_keys(const void *a, const void *b)
{
	const Keyed *one = a, *two = b;
	return one->key < two->key ? -1 : one->key > two->key;
}

static tomos_status views_open(Views *v, const Lister *lister)
{
	*v = (Views){.lister = lister, .count = lister->plan.scan->count};
	TRY(mem_alloc(&v->shapes, v->count, sizeof *v->shapes, "the views of a matrix"));
	tomos_status status =
		mem_alloc(&v->keyed, v->count, sizeof *v->keyed, "the views of a matrix");
	if (status != TOMOS_OK) {
		mem_free(v->shapes);
		return status;
	}
	for (int64_t i = 0; i < v->count; i++) {
		v->shapes[i] = make_shape(&lister->plan, i);
		v->keyed[i] = (Keyed){shape_key(&v->shapes[i]), i};
	}
	qsort(v->keyed, (size_t)v->count, sizeof *v->keyed, compare_keys);
	return TOMOS_OK;
}

static void views_close(Views *v)
{
	mem_free(v->shapes);
	mem_free(v->keyed);
}

/* Index of the first view with a key not below `key`. */
static int64_t find_key(const Views *v, double key)
{
	int64_t low = 0, high = v->count;
	while (low < high) {
		int64_t middle = (low + high) / 2;
		if (v->keyed[middle].key < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Calls `take` for every view that equals the image, with its columns in order or reversed (flip),
 * until it returns true. Angles are periodic, so keys are also searched for one period away. */
static bool each_match(const Views *v, const Shape *image, bool flip,
	bool (*take)(void *user, int64_t view, bool flip), void *user)
{
	double turn = image->point ? 2 * pi : pi, key = shape_key(image);
	for (int round = -1; round <= 1; round++) {
		double wanted = key + round * turn;
		int64_t i = find_key(v, wanted - SAME_KEY);
		for (; i < v->count && v->keyed[i].key <= wanted + SAME_KEY; i++) {
			int64_t view = v->keyed[i].view;
			if (same_view(&v->shapes[view], image, flip) && take(user, view, flip))
				return true;
		}
	}
	return false;
}

static bool take_any(void *user, int64_t view, bool flip)
{
	(void)user;
	(void)view;
	(void)flip;
	return true;
}

static bool is_closed(const Views *v, const Symmetry *s)
{
	for (int64_t i = 0; i < v->count; i++) {
		Shape image = image_of(s, &v->shapes[i]);
		if (!each_match(v, &image, false, take_any, NULL) &&
			!each_match(v, &image, true, take_any, NULL))
			return false;
	}
	return true;
}

/* Whether a tie rule of the kernel affects a ray, so that the mirror image of its matrix row is not
 * a row of the matrix: rays along the faces between voxels and, if Joseph's method stops at the
 * outermost voxels, rays along the diagonal. */
static bool ray_has_ties(const Plan *plan, bool line, const Shape *shape, const double pixel[2])
{
	double d[2] = {shape->source[0], shape->source[1]};
	for (int a = 0; a < 2 && shape->point; a++)
		d[a] = pixel[a] - shape->source[a];
	double x = fabs(d[0]), y = fabs(d[1]), tiny = SAME_KEY * (x + y);
	if (!line)
		return plan->model.clamp && fabs(x - y) < tiny;
	if (fmin(x, y) > tiny)
		return false;
	int across = x < y ? 0 : 1;
	double face = pixel[across] + 0.5 * (double)plan->grid.n[across];
	return fabs(face - floor(face + 0.5)) < 1e-6;
}

static bool has_ties(const Views *v, int64_t view)
{
	const Plan *plan = &v->lister->plan;
	const KernelRow *row = &kernel_rows[v->lister->kernel];
	const Shape *shape = &v->shapes[view];
	int64_t last = plan->model.columns - 1;
	if (row->family == FAMILY_VOXEL)
		return false;
	for (int64_t c = 0; c <= last; c++) {
		double part = last ? (double)c / (double)last : 0, pixel[2];
		for (int a = 0; a < 2; a++)
			pixel[a] =
				shape->ends[0][a] + part * (shape->ends[1][a] - shape->ends[0][a]);
		if (ray_has_ties(plan, strcmp(row->weights, "line") == 0, shape, pixel))
			return true;
	}
	return false;
}

/* Selects the symmetries: eight for square grids, four for others. With nearest-neighbour
 * interpolation, points halfway between two pixels have no mirror image. */
static void choose_symmetries(Symmetries *found, const Views *v)
{
	const int64_t *n = v->lister->plan.grid.n;
	const double *step = v->lister->plan.whole.step;
	bool square = n[0] == n[1] && fabs(step[0] - step[1]) <= 1e-12 * step[0];
	bool nearest = kernel_rows[v->lister->kernel].family == FAMILY_VOXEL &&
		       v->lister->plan.model.nearest;
	for (int i = 0; i < SYMMETRIES; i++) {
		Symmetry s = make_symmetry(i, n[0], n[1]);
		if (i == 0 || (!nearest && (square || !s.swap) && is_closed(v, &s)))
			found->list[found->count++] = s;
	}
	for (int i = 0; i < found->count; i++)
		for (int j = 0; j < found->count; j++)
			if (are_inverse(&found->list[i], &found->list[j]))
				found->inverse[i] = j;
}

/* ---- orbits ---------------------------------------------------------------------------------- */

typedef struct {
	bool *covered; /* [view] */
	Orbit *orbit;
	int lane;
	bool old; /* match views that are in this orbit already, else views in no orbit */
} Claim;

/* Assigns a view to the lane unless it is taken: by any orbit, or (old) by another lane of this
 * orbit with the same order of columns. */
static bool claim(void *user, int64_t view, bool flip)
{
	Claim *c = user;
	bool member = false, taken = false;
	for (int i = 0; i < c->lane; i++) {
		member |= c->orbit->target[i] == view;
		taken |= c->orbit->target[i] == view && c->orbit->flip[i] == flip;
	}
	if (taken || (c->old ? !member : member || c->covered[view]))
		return false;
	c->orbit->target[c->lane] = view;
	c->orbit->flip[c->lane] = flip;
	return true;
}

static bool has_both(const Orbit *orbit, int count, int lane)
{
	for (int i = 0; i < count; i++)
		if (orbit->target[i] == orbit->target[lane] && orbit->flip[i] != orbit->flip[lane])
			return true;
	return false;
}

/* If every view of the orbit occurs with its columns in both orders, half of the columns are
 * stored; otherwise only one of the two orders is used for each view. */
static void halve_columns(Orbit *orbit, int count, int64_t columns)
{
	bool half = true;
	for (int i = 0; i < count; i++)
		half &= orbit->target[i] < 0 || has_both(orbit, count, i);
	orbit->columns = half ? (columns + 1) / 2 : columns;
	for (int i = count - 1; i > 0; i--) {
		orbit->again[i] = orbit->target[i] >= 0 && has_both(orbit, i, i);
		if (!half && orbit->again[i])
			orbit->target[i] = -1;
	}
}

static void fill_orbit(Orbit *orbit, const Views *v, const Symmetries *s, bool *covered)
{
	bool ties = has_ties(v, orbit->view);
	orbit->target[0] = orbit->view;
	for (int i = 1; i < s->count; i++) {
		Shape image = image_of(&s->list[i], &v->shapes[orbit->view]);
		Claim c = {covered, orbit, i, false};
		orbit->target[i] = -1;
		for (int way = 0; !ties && way < 4 && orbit->target[i] < 0; way++) {
			c.old = way >= 2;
			each_match(v, &image, way & 1, claim, &c);
		}
	}
	halve_columns(orbit, s->count, v->lister->plan.model.columns);
	for (int i = 0; i < s->count; i++)
		if (orbit->target[i] >= 0)
			covered[orbit->target[i]] = true;
}

static tomos_status make_orbits(Symmetries *found, const Views *v)
{
	bool *covered;
	TRY(mem_alloc(&found->orbits, v->count, sizeof *found->orbits, "the views of a matrix"));
	TRY(mem_zeroed(&covered, v->count, sizeof *covered, "the views of a matrix"));
	for (int64_t i = 0; i < v->count; i++) {
		if (covered[i])
			continue;
		Orbit *orbit = &found->orbits[found->orbit_count++];
		*orbit = (Orbit){.number = orbit - found->orbits,
			.view = i,
			.first = found->rows,
			.slot = found->rows};
		fill_orbit(orbit, v, found, covered);
		found->rows += orbit->columns;
	}
	mem_free(covered);
	return TOMOS_OK;
}

tomos_status symmetries_find(Symmetries *found, const Lister *lister)
{
	Views v;
	*found = (Symmetries){0};
	TRY(views_open(&v, lister));
	choose_symmetries(found, &v);
	tomos_status status = make_orbits(found, &v);
	views_close(&v);
	if (status != TOMOS_OK)
		symmetries_free(found);
	return status;
}

void symmetries_free(Symmetries *found)
{
	mem_free(found->orbits);
	found->orbits = NULL;
}
