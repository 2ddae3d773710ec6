#include "backend/device/mirror.h"
#include <math.h>
#include <stdlib.h>
#include "geom/rays.h"

/* The form of the mirrored grid. */
static void mirror_form(const double f[4], const KernelGrid *grid, int flips, double to[4])
{
	to[3] = f[3];
	for (int a = 0; a < 3; a++) {
		const bool flip = flips >> a & 1;
		to[a] = flip ? -f[a] : f[a];
		to[3] += flip ? f[a] * (double)(grid->n[a] - 1) : 0;
	}
}

/* Whether f + more d = g everywhere on the grid, or -f + more d = g. */
static bool is_form(const double f[4], double sign, const double d[4], double more,
	const double g[4], const KernelGrid *grid, double tolerance)
{
	double most = 0;
	for (int a = 0; a < 4; a++) {
		const double differ = fabs(sign * f[a] + more * d[a] - g[a]);
		if (!(differ <= tolerance)) /* NaN too */
			return false;
		most = fmax(most, differ * (a < 3 ? (double)grid->n[a] : 1));
	}
	return most <= tolerance;
}

/* 0 if the columns or rows of both views are in the same order, 1 if they are in reverse order;
 * else -1. */
static int order_of(const Plan *plan, const double from[4], const double depth[4],
	const double to[4], int flips, int64_t pixels)
{
	double form[4];
	mirror_form(to, &plan->whole, flips, form);
	if (is_form(from, 1, depth, 0, form, &plan->whole, RAY_TOLERANCE))
		return 0;
	return is_form(from, -1, depth, (double)(pixels - 1), form, &plan->whole, RAY_TOLERANCE)
		       ? 1
		       : -1;
}

/* `to` and REVERSED bits if the map takes view `from` to view `to`; else -1. Depths are about 1 and
 * divide positions of up to `size` pixels. */
static int mirrored(const Plan *plan, int flips, int64_t from, int64_t to)
{
	const KernelView *a = &plan->views[from], *b = &plan->views[to];
	const double size = (double)(plan->model.columns + plan->model.rows);
	double depth[4];
	mirror_form(b->depth, &plan->whole, flips, depth);
	if (!is_form(a->depth, 1, a->depth, 0, depth, &plan->whole, RAY_TOLERANCE / size) ||
		!(fabs(a->mass - b->mass) <= RAY_TOLERANCE * fabs(a->mass)))
		return -1;
	const int columns =
		order_of(plan, a->column, a->depth, b->column, flips, plan->model.columns);
	if (columns < 0)
		return -1;
	const int rows = order_of(plan, a->row, a->depth, b->row, flips, plan->model.rows);
	if (rows < 0)
		return -1;
	return (int)to | (columns ? REVERSED_COLUMNS : 0) | (rows ? REVERSED_ROWS : 0);
}

/* ---- searching ------------------------------------------------------------------------------- */

/* A view with a number that no map changes. */
typedef struct {
	double key;
	int view;
} KeyedView;

typedef struct {
	const Plan *plan;
	KeyedView *views; /* sorted; NULL as long as they were not needed */
} Search;

/* Maps and reversals change no more than signs of forms that are centred on the detector. */
static double key_of(const Plan *plan, int64_t view)
{
	const KernelView *k = &plan->views[view];
	const double columns = (double)(plan->model.columns - 1),
		     rows = (double)(plan->model.rows - 1);
	double key = 0;
	for (int a = 0; a < 3; a++)
		key += (a + 1) * (fabs(2 * k->column[a] - columns * k->depth[a]) +
					 fabs(2 * k->row[a] - rows * k->depth[a]));
	return key;
}

/* More than what the tolerances of forms change a key by. */
enum { KEY_TOLERANCES = 64 };

static int by_key(const void *a, const void *b)
{
	const double x = ((const KeyedView *)a)->key, y = ((const KeyedView *)b)->key;
	return (x > y) - (x < y);
}

/* Without memory for it there is no list, and all views are compared. */
static void sort_views(Search *search)
{
	const int64_t count = search->plan->scan->count;
	if (mem_alloc(&search->views, count, sizeof *search->views, "mirror images") != TOMOS_OK)
		return;
	for (int64_t v = 0; v < count; v++)
		search->views[v] = (KeyedView){key_of(search->plan, v), (int)v};
	qsort(search->views, (size_t)count, sizeof *search->views, by_key);
}

/* The place of the first sorted view whose key is not less. */
static int64_t place_of_key(const Search *search, double key)
{
	int64_t low = 0, high = search->plan->scan->count;
	while (low < high) {
		const int64_t middle = (low + high) / 2;
		if (search->views[middle].key < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The view that a map takes a view to, among all of them. */
static int search_mirrored(Search *search, int flips, int64_t view)
{
	const Plan *plan = search->plan;
	const double key = key_of(plan, view), tolerance = KEY_TOLERANCES * RAY_TOLERANCE;
	int found = -1;
	if (!search->views)
		sort_views(search);
	const KeyedView *views = search->views;
	for (int64_t i = views ? place_of_key(search, key - tolerance) : 0;
		i < plan->scan->count && found < 0 && !(views && views[i].key > key + tolerance);
		i++)
		found = mirrored(plan, flips, view, views ? views[i].view : i);
	return found;
}

/* The view that a map takes a view to, as above. It is mostly the view itself or next to `last`,
 * that of the view before. */
static int find_mirrored(Search *search, int flips, int64_t view, int64_t last)
{
	const int64_t count = search->plan->scan->count;
	const int64_t likely[3] = {view, (last + count - 1) % count, (last + 1) % count};
	int found = -1;
	for (int i = 0; i < COUNT(likely) && found < 0; i++)
		found = mirrored(search->plan, flips, view, likely[i]);
	return found < 0 ? search_mirrored(search, flips, view) : found;
}

/* A number unlike those of other views. */
static uint64_t number_of(int64_t view)
{
	const uint64_t x = ((uint64_t)view + 1) * 0x9E3779B97F4A7C15u;
	return (x ^ x >> 29) * 0xBF58476D1CE4E5B9u;
}

/* Whether a map takes all views to views, no two of them to the same, of views that are in the list
 * twice: the sum of their numbers would be another. */
static bool is_map(Search *search, int flips)
{
	int last = 0;
	uint64_t differ = 0;
	for (int64_t i = 0; i < search->plan->scan->count; i++) {
		const int found = find_mirrored(search, flips, i, last);
		if (found < 0)
			return false;
		last = found & MIRROR_BITS;
		differ += number_of(last) - number_of(i);
	}
	return differ == 0;
}

/* Whether a request is for all voxels and views of a plan that maps may be looked for. */
static bool is_whole(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	const int source = plan->rays.source;
	return request_is_whole(what) && what->box.low[2] == 0 &&
	       what->box.high[2] == plan->grid.n[2] && !plan->model.planar &&
	       (source == TOMOS_POINT || source == TOMOS_PARALLEL) && what->count <= MIRROR_BITS &&
	       plan->model.rows * plan->model.columns <= 1 << 28;
}

static Mirrors find_maps(Search *search, int most)
{
	static const int single[] = {4, 1, 2, 5, 6, 3, 7};
	/* Alone, or with z. Where two maps are just within the tolerance, the third one, which is
	 * both of them, may be beyond it. */
	for (int x = 1; x < 8 && most >= 4; x += 4)
		for (int y = 2; y < 8 && is_map(search, x); y += 4)
			if (is_map(search, y) && is_map(search, x ^ y))
				return (Mirrors){{0, x, y, x ^ y}, 4, 3};
	for (int i = 0; i < COUNT(single); i++)
		if (is_map(search, single[i]))
			return (Mirrors){{0, single[i]}, 2, single[i] & -single[i]};
	return (Mirrors){.count = 0};
}

Mirrors mirrors_find(const ProjectRequest *what, int most)
{
	if (!is_whole(what))
		return (Mirrors){.count = 0};
	Search search = {.plan = what->plan};
	const Mirrors mirrors = find_maps(&search, most);
	mem_free(search.views);
	return mirrors;
}

bool mirrors_opposite(const ProjectRequest *what)
{
	enum { ALL = 7 };
	const int64_t half = what->count / 2;
	bool found = is_whole(what) && what->count % 2 == 0;
	for (int64_t i = 0; i < half && found; i++)
		found = mirrored(what->plan, ALL, i, i + half) == ((int)(i + half) | REVERSED_ROWS);
	return found;
}

void mirror_views(const Plan *plan, const Mirrors *mirrors, MirrorView *views)
{
	Search search = {.plan = plan};
	int last[MIRROR_IMAGES] = {0};
	for (int64_t v = 0; v < plan->scan->count; v++) {
		views[v] = (MirrorView){{(int)v}};
		for (int i = 1; i < mirrors->count; i++) {
			views[v].view[i] = find_mirrored(&search, mirrors->flips[i], v, last[i]);
			last[i] = views[v].view[i] & MIRROR_BITS;
		}
	}
	mem_free(search.views);
}
