/* Classifies rays by the displacement that each special case would neglect. */
#include <string.h>
#include "base/vector3.h"
#include "geom/rays.h"

/* Depths are bounded below by this: nearer to the source, pixel positions are not exact. */
#define LEAST_DEPTH 1e-3

typedef struct {
	const tomos_geometry *scan;
	const tomos_grid *grid;
	double n[3], rows, columns;
} Scene;

static Scene scene_of(const tomos_geometry *scan, const tomos_grid *grid)
{
	return (Scene){scan, grid, {(double)grid->n[0], (double)grid->n[1], (double)grid->n[2]},
		(double)scan->rows, (double)scan->columns};
}

static bool is_tiny(double displacement)
{
	return fabs(displacement) <= RAY_TOLERANCE;
}

/* ---- one view -------------------------------------------------------------------------------- */

/* Height of the first row's rays at the corners of the slice z = 0, in voxels. */
static bool is_flat(const Scene *s, const GridView *k)
{
	double way[3], m[3], most = 0;
	bool source = k->src[3] != (int)TOMOS_PARALLEL;
	for (int a = 0; a < 3; a++)
		way[a] = source ? k->first[a] - k->src[a] : k->src[a];
	cross3(m, way, k->u);
	for (int corner = 0; corner < 4; corner++) {
		double x = (corner & 1 ? s->n[0] - 0.5 : -0.5) - k->first[0];
		double y = (corner & 2 ? s->n[1] - 0.5 : -0.5) - k->first[1];
		most = fmax(most, fabs(m[2] * k->first[2] - m[0] * x - m[1] * y));
	}
	return most <= RAY_TOLERANCE * fabs(m[2]);
}

/* Smallest depth in the middle slice. */
static double least_depth(const Scene *s, const GridView *k)
{
	double least = HUGE_VAL;
	for (int corner = 0; corner < 4; corner++)
		least = fmin(least, k->depth[0] * (corner & 1 ? s->n[0] - 1 : 0) +
					    k->depth[1] * (corner & 2 ? s->n[1] - 1 : 0) +
					    k->depth[2] * 0.5 * (s->n[2] - 1) + k->depth[3]);
	return fmax(least, LEAST_DEPTH);
}

/* Extent of the projection of a line of voxels along an axis, in pixels. */
static double spread_along(const Scene *s, const GridView *k, int axis)
{
	double size = s->columns + s->rows;
	return (fabs(k->column[axis]) + size * fabs(k->depth[axis])) * s->n[axis] /
	       least_depth(s, k);
}

static bool is_in_slice(const Scene *s, const GridView *k, RayView *view)
{
	const double *f = k->row;
	int axis = 2;
	for (int a = 1; a >= 0; a--)
		axis = fabs(f[a]) > fabs(f[axis]) ? a : axis;
	if (k->src[3] == (int)TOMOS_POINT || !(fabs(f[3]) < 1e15))
		return false;
	if (k->src[3] == (int)TOMOS_FAN_PER_ROW && axis != 2)
		return false;
	double apart = (fabs(f[axis]) - 1) * s->n[axis], off = f[3] - rint(f[3]), tilt = 0;
	for (int a = 0; a < 3; a++)
		tilt += a == axis ? 0 : fabs(f[a]) * s->n[a];
	view->axis = axis;
	view->sign = f[axis] > 0 ? 1 : -1;
	view->row = (int64_t)rint(f[3]);
	return is_tiny(fabs(off) + tilt + fabs(apart)) && is_tiny(spread_along(s, k, axis));
}

/* From the detector through the volume, in pixels and in voxels, since rows and voxels may differ
 * in height. */
static bool is_level(const Scene *s, const GridView *k)
{
	double tilt = 0;
	for (int a = 0; a < 2; a++)
		tilt += fabs(k->row[a]) * (s->n[a] + fabs(k->first[a]));
	return k->src[3] != (int)TOMOS_POINT && is_tiny(tilt) &&
	       tilt <= RAY_TOLERANCE * fabs(k->row[2]);
}

static bool is_upright(const Scene *s, const GridView *k)
{
	return is_tiny(fabs(k->u[2]) * s->columns + (fabs(k->v[0]) + fabs(k->v[1])) * s->rows);
}

static RayView classify(const Scene *s, const GridView *k)
{
	RayView view = {.axis = 2, .sign = 1};
	RayView slice = view;
	if (is_in_slice(s, k, &slice)) {
		view = slice;
		view.families |= RAYS_IN_SLICE;
	}
	view.families |= is_level(s, k) ? RAYS_LEVEL : 0;
	view.families |= is_tiny(spread_along(s, k, 2)) ? RAYS_IN_SHEET : 0;
	view.families |= is_upright(s, k) ? RAYS_UPRIGHT : 0;
	return view;
}

/* ---- symmetric sets of views ----------------------------------------------------------------- */

/* Whether f(p) = g(q) where q is p rotated: by a quarter, (x, y) becomes (n - 1 - y, x). */
static bool form_rotated(
	const double f[4], const double g[4], int parts, const Scene *s, double scale)
{
	double x = s->n[0] - 1, y = s->n[1] - 1, most = fabs(g[2] - f[2]) * s->n[2];
	double back[3] = {g[1], -g[0], g[3] + g[0] * x};
	if (parts == 2)
		back[0] = -g[0], back[1] = -g[1], back[2] = g[3] + g[0] * x + g[1] * y;
	most = fmax(most, fmax(fabs(back[0] - f[0]) * x, fabs(back[1] - f[1]) * y));
	return fmax(most, fabs(back[2] - f[3])) <= RAY_TOLERANCE * scale;
}

/* Depths are about 1 and divide positions of up to `size` pixels. */
static bool view_rotated(const Scene *s, int parts, int64_t from, int64_t to)
{
	const GridView a = grid_view(s->scan, from, s->grid), b = grid_view(s->scan, to, s->grid);
	double size = s->columns + s->rows;
	return form_rotated(a.column, b.column, parts, s, 1) &&
	       form_rotated(a.row, b.row, parts, s, 1) &&
	       form_rotated(a.depth, b.depth, parts, s, 1 / size);
}

static int find_rotation(const Scene *s, int parts)
{
	const double *step = s->grid->step;
	int64_t count = s->scan->count, part = count / parts;
	bool square =
		s->grid->n[0] == s->grid->n[1] && is_tiny((fabs(step[0] / step[1]) - 1) * s->n[0]);
	if (!(square || parts == 2) || count % parts != 0)
		return 0;
	for (int direction = 1; direction < parts; direction += 2) {
		int64_t i = 0;
		while (i < count && view_rotated(s, parts, i, (i + direction * part) % count))
			i++;
		if (i == count)
			return direction;
	}
	return 0;
}

/* ---- all views ------------------------------------------------------------------------------- */

static bool all_flat(const Scene *s)
{
	bool flat = s->grid->n[2] == 1 && s->scan->rows == 1;
	for (int64_t i = 0; i < s->scan->count && flat; i++) {
		const GridView k = grid_view(s->scan, i, s->grid);
		flat = is_flat(s, &k);
	}
	return flat;
}

static RayView classify_view(const Scene *s, bool planar, int64_t i)
{
	if (planar)
		return (RayView){.axis = 2,
			.sign = 1,
			.families = RAYS_LEVEL | RAYS_IN_SLICE | RAYS_IN_SHEET | RAYS_UPRIGHT};
	const GridView k = grid_view(s->scan, i, s->grid);
	return classify(s, &k);
}

static void add_view(RayClass *rays, const Scene *s, int64_t i, const RayView *view)
{
	RayView *all = &rays->all;
	int source = (int)s->scan->views[i].src[3];
	if (i == 0) {
		*all = *view;
		rays->source = source;
		rays->same_rows = true;
	}
	rays->source = source == rays->source ? source : SOURCES_MIXED;
	rays->same_rows &= view->row == all->row && view->sign == all->sign;
	all->families &= view->families & (view->axis == all->axis ? ~0 : ~RAYS_IN_SLICE);
}

static void add_symmetry(RayClass *rays, const Scene *s)
{
	bool same = rays->source == TOMOS_POINT || rays->source == TOMOS_PARALLEL;
	rays->same_rows &= rays_are(rays, RAYS_IN_SLICE);
	rays->half = same ? find_rotation(s, 2) : 0;
	rays->quarter = rays->half != 0 ? find_rotation(s, 4) : 0;
}

RayClass rays_summary(const tomos_geometry *scan, const tomos_grid *grid)
{
	const Scene s = scene_of(scan, grid);
	RayClass rays = {.count = scan->count, .planar = all_flat(&s)};
	for (int64_t i = 0; i < scan->count; i++) {
		const RayView view = classify_view(&s, rays.planar, i);
		add_view(&rays, &s, i, &view);
	}
	add_symmetry(&rays, &s);
	return rays;
}

static tomos_status rays_new(RayClass *rays, int64_t count, bool planar)
{
	*rays = (RayClass){.count = count, .planar = planar};
	return mem_alloc(&rays->views, count, sizeof *rays->views, "the views");
}

tomos_status rays_make(RayClass *rays, const tomos_geometry *scan, const tomos_grid *grid)
{
	const Scene s = scene_of(scan, grid);
	TRY(rays_new(rays, scan->count, all_flat(&s)));
	for (int64_t i = 0; i < scan->count; i++) {
		rays->views[i] = classify_view(&s, rays->planar, i);
		add_view(rays, &s, i, &rays->views[i]);
	}
	add_symmetry(rays, &s);
	return TOMOS_OK;
}

tomos_status rays_part(RayClass *part, const RayClass *whole, const int64_t *views, int64_t row,
	const tomos_geometry *scan, const tomos_grid *grid)
{
	const Scene s = scene_of(scan, grid);
	TRY(rays_new(part, scan->count, whole->planar));
	for (int64_t i = 0; i < scan->count; i++) {
		part->views[i] = whole->views[views[i]];
		part->views[i].row -= row;
		add_view(part, &s, i, &part->views[i]);
	}
	add_symmetry(part, &s);
	return TOMOS_OK;
}

void rays_free(RayClass *rays)
{
	mem_free(rays->views);
	rays->views = NULL;
}

/* ---- without a grid -------------------------------------------------------------------------- */

bool view_is_upright(const tomos_geometry *scan, const tomos_view *view)
{
	return is_tiny(view->u[2] * (double)scan->columns / norm3(view->v)) &&
	       is_tiny(hypot(view->v[0], view->v[1]) * (double)scan->rows / norm3(view->u));
}

bool view_is_level(const tomos_geometry *scan, const tomos_view *view)
{
	double columns = (double)scan->columns, row = norm3(view->v), slope;
	if (view->src[3] == (int)TOMOS_POINT)
		return false;
	if (view_has_source(view))
		return is_tiny((view->det[2] - view->src[2]) / row) &&
		       is_tiny(view->u[2] * columns / row);
	slope = view->src[2] / hypot(view->src[0], view->src[1]);
	return is_tiny(slope * columns * norm3(view->u) / row);
}
