/* Projections of phantoms in closed form: the sum over ellipsoids of chord length times value.
 *
 * A ray of a parallel view is an infinite line; a ray of a point source begins at the source and
 * continues beyond the detector, as in the projectors.
 */
#include <math.h>
#include <stdatomic.h>
#include "truth/truth.h"

typedef struct {
	const tomos_phantom *phantom;
	const tomos_geometry *scan;
	int64_t samples;
	const tomos_array *projections;
	_Atomic int64_t endless; /* first view with a ray along a cylinder */
} Project;

typedef struct {
	double point[3], direction[3]; /* unit length */
	double start;                  /* position of the source on the line */
} Ray;

static Ray ray_at(const tomos_geometry *scan, int64_t view, double row, double column)
{
	Ray ray;
	const double *d = ray.direction;
	view_pixel(scan, view, row, column, ray.point, ray.direction);
	double length = sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
	for (int i = 0; i < 3; i++)
		ray.direction[i] /= length;
	/* For a point source the direction reaches from the source to the pixel. */
	ray.start = scan->views[view].src[3] != 0 ? -length : -INFINITY;
	return ray;
}

static double ray_integral(const tomos_phantom *phantom, const Ray *ray)
{
	double sum = 0;
	for (int64_t i = 0; i < phantom->count; i++) {
		const Solid *solid = &phantom->solids[i];
		double from, to;
		if (solid_chord(solid, ray->point, ray->direction, &from, &to) && to > ray->start)
			sum += solid->value * (to - fmax(from, ray->start));
	}
	return sum;
}

static double pixel_value(const Project *o, int64_t view, int64_t row, int64_t column)
{
	double sum = 0, s = (double)o->samples;
	for (int64_t i = 0; i < o->samples; i++)
		for (int64_t k = 0; k < o->samples; k++) {
			Ray ray = ray_at(o->scan, view, (double)row + ((double)i + 0.5) / s - 0.5,
				(double)column + ((double)k + 0.5) / s - 0.5);
			sum += ray_integral(o->phantom, &ray);
		}
	return sum / (s * s);
}

static void note_endless(Project *o, int64_t view)
{
	int64_t seen = o->endless;
	while (view < seen && !atomic_compare_exchange_weak(&o->endless, &seen, view))
		;
}

static void project_row(Project *o, int64_t view, int64_t row)
{
	const tomos_array *a = o->projections;
	float *out = a->data + (view * a->stride[0] + row * a->stride[1]);
	for (int64_t c = 0; c < o->scan->columns && !cancel_seen(); c++) {
		double value = pixel_value(o, view, row, c);
		if (!isfinite(value))
			note_endless(o, view);
		out[c * a->stride[2]] = (float)value;
	}
}

/* Threads divide rows, not views, so that a single view uses all cores. */
static void project_task(void *user, int64_t index)
{
	Project *o = user;
	project_row(o, index / o->scan->rows, index % o->scan->rows);
}

tomos_status tomos_phantom_project(const tomos_phantom *phantom, const tomos_geometry *scan,
	int64_t samples, const tomos_array *projections)
{
	TRY(phantom_check(phantom, samples));
	if (!scan)
		return fail(TOMOS_BAD_VALUE, "phantom projections: there is no scan");
	TRY(array_check(projections, "the phantom's projections",
		(int64_t[]){scan->count, scan->rows, scan->columns}, ARRAY_WRITTEN));
	Project o = {
		.phantom = phantom, .scan = scan, .samples = samples, .projections = projections};
	o.endless = scan->count;
	TRY(parallel_try(scan->count * scan->rows, project_task, &o, "projecting a phantom"));
	if (o.endless < scan->count)
		return fail(TOMOS_BAD_VALUE,
			"phantom projections: a ray of view %lld runs along a cylinder of the "
			"phantom, which "
			"has no end",
			(long long)o.endless);
	return TOMOS_OK;
}
