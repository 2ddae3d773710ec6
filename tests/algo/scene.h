/* A scan of one ellipsoid and the slice through its middle: what tests of analytic methods
 * share. */
#ifndef TOMOS_TESTS_ALGO_SCENE_H
#define TOMOS_TESTS_ALGO_SCENE_H

#include "ops/cases.h"

typedef struct {
	tomos_backend *backend;
	tomos_geometry *scan;
	tomos_ellipsoid body;
	tomos_grid grid; /* one slice in the mid-plane */
	tomos_array data, image;
} Scene;

/* Point sources stand 3 widths from the axis and 4.5 widths from the detector. */
typedef struct {
	double source_axis, source_detector;
} Distances;

static inline tomos_scan_options scene_scan(
	const char *geometry, int64_t n, double pixel, Distances *distances)
{
	tomos_scan_options o = tomos_scan_defaults();
	o.geometry = geometry;
	o.columns = n;
	o.rows = strcmp(geometry, "cone") == 0 ? n / 2 : 1;
	o.pixel = pixel;
	o.views = 2 * n;
	*distances = (Distances){3 * pixel * (double)n, 4.5 * pixel * (double)n};
	if (strcmp(geometry, "parallel") != 0) {
		o.source_axis = &distances->source_axis, o.source_axis_count = 1;
		o.source_detector = &distances->source_detector, o.source_detector_count = 1;
	}
	return o;
}

/* How far from the axis the detector sees, on the better side. */
static inline double scene_reach(const tomos_scan_options *o)
{
	double middle = 0.5 * (double)(o->columns - 1);
	double off = o->axis ? fabs(o->axis[0] - middle) : 0;
	double magnification = strcmp(o->geometry, "parallel") == 0 ? 1 : 1.5;
	return o->pixel * (0.5 * (double)o->columns + off) / magnification;
}

/* An ellipse: of a disc all views are alike, and wrong weights of views would not show. */
static inline Scene scene_make(const tomos_scan_options *o)
{
	Scene s;
	OK(tomos_backend_open(&s.backend, test_backend()));
	OK(tomos_geometry_make(&s.scan, o));
	double radius = 0.7 * scene_reach(o);
	s.body = (tomos_ellipsoid){.centre = {0.1 * radius, -0.06 * radius, 0},
		.axes = {radius, 0.6 * radius, o->rows > 1 ? 0.5 * radius : INFINITY},
		.value = 0.02 / o->pixel};
	OK(tomos_grid_centred(
		&s.grid, o->columns, o->columns, 1, 2.2 * radius / (double)o->columns));
	int64_t views = tomos_geometry_count(s.scan), pixels = views * o->rows * o->columns;
	float *data = malloc((size_t)pixels * sizeof *data);
	float *image = malloc((size_t)(o->columns * o->columns) * sizeof *image);
	s.data = tomos_array_of(data, views, o->rows, o->columns);
	s.image = tomos_array_of(image, 1, o->columns, o->columns);
	tomos_phantom *phantom;
	OK(tomos_phantom_ellipsoids(&phantom, &s.body, 1));
	OK(tomos_phantom_project(phantom, s.scan, 2, &s.data));
	tomos_phantom_free(phantom);
	return s;
}

static inline void scene_reconstruct(Scene *s, const tomos_analytic_options *o)
{
	OK(tomos_fbp(s->backend, &s->grid, s->scan, &s->data, &s->image, o, NULL));
}

/* The mean inside the body, relative to the truth and less 1, and the deviation from the truth. */
static inline double scene_error(const Scene *s, double *spread)
{
	double sum = 0, square = 0;
	int64_t count = 0, n = s->grid.n[0];
	for (int64_t j = 0; j < n; j++)
		for (int64_t i = 0; i < n; i++) {
			double dx =
				s->grid.first[0] + (double)i * s->grid.step[0] - s->body.centre[0];
			double dy =
				s->grid.first[1] + (double)j * s->grid.step[1] - s->body.centre[1];
			if (hypot(dx / s->body.axes[0], dy / s->body.axes[1]) > 0.85)
				continue;
			double e = s->image.data[j * n + i] / s->body.value - 1;
			sum += e, square += e * e, count++;
		}
	*spread = sqrt(square / (double)count);
	return sum / (double)count;
}

static inline void scene_free(Scene *s)
{
	free(s->data.data);
	free(s->image.data);
	tomos_geometry_free(s->scan);
	tomos_backend_close(s->backend);
}

#endif
