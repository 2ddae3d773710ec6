/* Scans that are almost special: tilts and offsets from far below the tolerance of geom/rays.h to
 * far above it. Whatever kernel is chosen, it must agree with the reference kernel as well as it
 * does on the exact scan, but for 1e-6. */
#include "geom/rays.h"
#include "ops/cases.h"

typedef struct {
	const char *name, *geometry;
	int64_t slices;
	double tilt;
	int axis; /* exchanged with z; 2: none */
} Base;

/* Enough slices for kernels that take many at a time, and one slice alone. */
static const Base bases[] = {
	{"slices", "parallel", 10, 0, 2},
	{"slices across y", "parallel", 10, 0, 1},
	{"one slice", "parallel", 1, 0, 2},
	{"fans", "fan", 10, 0, 2},
	{"fan", "fan", 1, 0, 2},
	{"cone", "cone", 10, 0, 2},
	{"laminography", "laminography", 10, 0.4, 2},
};
enum { BASES = sizeof bases / sizeof bases[0] };

static void roll(tomos_view *w, double by)
{
	for (int a = 0; a < 2; a++)
		w->v[a] -= by * w->u[a];
	w->u[2] += by;
}

static void slant(tomos_view *w, double by)
{
	w->v[0] += by * w->u[1];
	w->v[1] -= by * w->u[0];
}

static void climb(tomos_view *w, double by)
{
	bool parallel = w->src[3] == (int)TOMOS_PARALLEL;
	w->src[2] += parallel ? by : 60 * by;
}

static void offset(tomos_view *w, double by)
{
	w->det[2] += by;
	w->src[2] += w->src[3] == (int)TOMOS_PARALLEL ? 0 : by;
}

static void height(tomos_view *w, double by)
{
	for (int a = 0; a < 3; a++)
		w->v[a] *= 1 + by;
}

static void swivel(tomos_view *w, double by)
{
	double x = w->u[0];
	w->u[0] -= by * w->u[1];
	w->u[1] += by * x;
}

static const struct {
	const char *name;
	void (*apply)(tomos_view *view, double by);
} changes[] = {{"roll", roll}, {"slant", slant}, {"climb", climb}, {"offset", offset},
	{"height", height}, {"swivel", swivel}};
enum { CHANGES = sizeof changes / sizeof changes[0] };

static const double amounts[] = {0, 1e-9, 1e-8, 1e-7, -2e-7, 4e-7, -1e-6, 1e-5, 1e-2};
enum { AMOUNTS = sizeof amounts / sizeof amounts[0] };

static void exact_scan(Case *c, const Base *base)
{
	tomos_scan_options o = tomos_scan_defaults();
	double source_axis = 60, source_detector = 75, pixel = 1;
	o.geometry = base->geometry;
	o.views = 4;
	o.rows = base->slices, o.columns = 25;
	o.start = 0.3;
	o.arc = 5;
	o.tilt = base->tilt;
	if (base->geometry[0] != 'p' && base->geometry[0] != 'l') {
		o.source_axis = &source_axis, o.source_axis_count = 1;
		o.source_detector = &source_detector, o.source_detector_count = 1;
		pixel = 1.25;
	}
	o.pixel = pixel;
	o.pixel_height = base->geometry[0] == 'f' ? 1 : pixel;
	OK(tomos_geometry_make(&c->scan, &o));
	OK(tomos_grid_centred(&c->grid, 18, 15, base->slices, 1));
}

static Case borderline(const Base *base, int change, double by)
{
	Case c = {.state = 11};
	exact_scan(&c, base);
	int64_t count = tomos_geometry_count(c.scan), rows = tomos_geometry_rows(c.scan);
	int64_t columns = tomos_geometry_columns(c.scan);
	tomos_view views[8];
	memcpy(views, tomos_geometry_list(c.scan), (size_t)count * sizeof *views);
	for (int64_t i = 0; i < count; i++)
		changes[change].apply(&views[i], by);
	tomos_geometry_free(c.scan);
	OK(tomos_geometry_views(&c.scan, rows, columns, views, count));
	if (base->axis != 2)
		case_turn(&c, base->axis);
	case_count(&c);
	snprintf(c.name, sizeof c.name, "%s, %s by %g", base->name, changes[change].name, by);
	return c;
}

/* Forward and adjoint of the chosen kernel against the reference. */
static void differences(Case *c, tomos_backend *backend, const char *projector, double found[2])
{
	tomos_projector_options chosen = tomos_projector_defaults(), plain;
	chosen.forward = projector;
	plain = chosen;
	plain.plain = 1;
	float *x = case_data(c, c->voxels), *y = case_data(c, c->pixels);
	float *a = case_data(c, c->pixels), *b = case_data(c, c->pixels);
	float *p = case_data(c, c->voxels), *q = case_data(c, c->voxels);
	case_forward(backend, &c->grid, c->scan, &chosen, x, a);
	case_forward(backend, &c->grid, c->scan, &plain, x, b);
	case_adjoint(backend, &c->grid, c->scan, &chosen, y, p);
	case_adjoint(backend, &c->grid, c->scan, &plain, y, q);
	found[0] = case_difference(a, b, c->pixels);
	found[1] = case_difference(p, q, c->voxels);
	free(x), free(y), free(a), free(b), free(p), free(q);
}

static void sweep(const Base *base, int change, tomos_backend *backend, const char *projector)
{
	double exact[2] = {0}, found[2] = {0};
	for (int i = 0; i < AMOUNTS; i++) {
		Case c = borderline(base, change, amounts[i]);
		differences(&c, backend, projector, i == 0 ? exact : found);
		for (int d = 0; d < 2 && i > 0; d++)
			if (!(found[d] <= exact[d] + (test_repeats() ? 1e-6 : 3e-6)))
				fail_msg("%s, %s %s: differs by %g from the reference, the exact "
					 "scan by %g",
					projector, c.name, d ? "adjoint" : "forward", found[d],
					exact[d]);
		tomos_geometry_free(c.scan);
	}
}

/* The instruction sets of the CPU in turn, from one change to the next. */
static void almost_special(void **state)
{
	(void)state;
	tomos_backend *backends[CPU_LEVELS];
	int count = 0;
	for (int l = 0; l < CPU_LEVELS; l++) {
		backends[count] = open_level(test_backend(), cpu_levels[l]);
		count += backends[count] != NULL;
	}
	assert_true(count > 0);
	for (int b = 0; b < BASES; b++)
		for (int change = 0; change < CHANGES; change++)
			for (int m = 0; m < (case_slow() ? 1 : CASE_MODELS); m++)
				sweep(&bases[b], change, backends[(b + change) % count],
					case_models[m]);
	for (int l = 0; l < count; l++)
		tomos_backend_close(backends[l]);
}

/* ---- rays on the diagonal ------------------------------------------------------------------- */

/* Views at odd multiples of 45 degrees, whose ray through column `axis` meets the axis. Not a full
 * circle, which other kernels compute; five of them rolled, since tiles are for more than four. */
static Case diagonal(double axis, int64_t views)
{
	double source_axis = 80.4, source_detector = 120.6;
	tomos_scan_options o = tomos_scan_defaults();
	Case c = {.state = 3};
	o.geometry = "cone";
	o.views = views;
	o.rows = 3, o.columns = 15;
	o.start = M_PI / 4, o.arc = 0.5 * M_PI * (double)views;
	o.roll = views > 4 ? 0.3 : 0;
	o.axis = &axis, o.axis_count = 1;
	o.source_axis = &source_axis, o.source_axis_count = 1;
	o.source_detector = &source_detector, o.source_detector_count = 1;
	o.pixel = o.pixel_height = 1.5;
	OK(tomos_geometry_make(&c.scan, &o));
	OK(tomos_grid_centred(&c.grid, 54, 54, 9, 1));
	case_count(&c);
	return c;
}

static double total(const float *x, int64_t count)
{
	double sum = 0;
	for (int64_t i = 0; i < count; i++)
		sum += (double)x[i];
	return sum;
}

/* Kernels divide the volume into parts: a ray that has two dominant axes must have the same one in
 * all of them. Through a uniform volume both give the same sum, but for its ends. */
static void check_diagonal(tomos_backend *backend, int64_t axis, int64_t views)
{
	Case c = diagonal((double)axis, views);
	tomos_projector_options chosen = tomos_projector_defaults(), plain = chosen;
	float *x = case_data(&c, c.voxels), *a = case_data(&c, c.pixels);
	float *b = case_data(&c, c.pixels), *back = case_data(&c, c.voxels);
	plain.plain = 1;
	for (int64_t i = 0; i < c.voxels; i++)
		x[i] = 1;
	case_forward(backend, &c.grid, c.scan, &chosen, x, a);
	case_forward(backend, &c.grid, c.scan, &plain, x, b);
	for (int64_t i = 0; i < c.pixels; i++) {
		if (!(fabsf(a[i] - b[i]) <= 0.02F * b[i]))
			fail_msg("axis %lld, ray %lld of %lld views: %g, with the reference "
				 "kernel %g",
				(long long)axis, (long long)i, (long long)views, (double)a[i],
				(double)b[i]);
		a[i] = i % 15 == axis;
		b[i] *= a[i];
	}
	case_adjoint(backend, &c.grid, c.scan, &chosen, a, back);
	assert_float_equal(total(back, c.voxels) / total(b, c.pixels), 1, 0.02);
	free(x), free(a), free(b), free(back);
	tomos_geometry_free(c.scan);
}

static void diagonal_rays(void **state)
{
	(void)state;
	for (int l = 0; l < CPU_LEVELS; l++) {
		tomos_backend *backend = open_level(test_backend(), cpu_levels[l]);
		for (int64_t axis = 0; backend && axis < 15; axis++) {
			check_diagonal(backend, axis, 3);
			check_diagonal(backend, axis, 5);
		}
		tomos_backend_close(backend);
	}
}

#define TESTS(T) T(almost_special), T(diagonal_rays)
TEST_MAIN(TESTS, NULL, NULL)
