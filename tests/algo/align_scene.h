/* Scans of a phantom whose views are moved at random, in closed form with noise; the errors of the
 * motions found, and the least that the noise allows. */
#ifndef TOMOS_TESTS_ALGO_ALIGN_SCENE_H
#define TOMOS_TESTS_ALGO_ALIGN_SCENE_H

#include "geom/geom.h"
#include "ops/opened.h"

/* A pixel measures the average over its area. */
enum { SCENE_SAMPLES = 6 };

typedef struct {
	int size, views, rows;     /* rows: 0: size; fewer cut the object off */
	int seed;                  /* of the phantom, 0: 1 */
	double noise, shift, roll; /* relative; rms, in pixels at the axis and in radians */
	tomos_phantom *phantom;
	tomos_geometry *scan;
	tomos_grid grid;
	float *data;
	tomos_array b;
	double *true_motions, *motions, *poses;
} Scene;

static tomos_geometry *scene_scan(const Scene *s, const char *kind)
{
	tomos_geometry *scan;
	tomos_scan_options o = tomos_scan_defaults();
	double source_axis = 4 * s->size, source_detector = 6 * s->size;
	o.geometry = kind;
	o.rows = s->rows;
	o.columns = s->size;
	o.views = s->views;
	o.arc = 2 * acos(-1);
	if (strcmp(kind, "cone") == 0) {
		o.source_axis = &source_axis, o.source_axis_count = 1;
		o.source_detector = &source_detector, o.source_detector_count = 1;
		o.pixel = 1.5;
	}
	if (strcmp(kind, "laminography") == 0)
		o.tilt = 0.5;
	OK(tomos_geometry_make(&scan, &o));
	return scan;
}

/* The unit vectors that motions are measured along. */
static void frame_of(const tomos_view *view, double frame[3][3])
{
	double u = 0, v = 0;
	for (int a = 0; a < 3; a++)
		u += view->u[a] * view->u[a], v += view->v[a] * view->v[a];
	for (int a = 0; a < 3; a++) {
		int b = (a + 1) % 3, c = (a + 2) % 3;
		frame[0][a] = view->u[a] / sqrt(u);
		frame[1][a] = view->v[a] / sqrt(v);
		frame[2][a] = (view->u[b] * view->v[c] - view->u[c] * view->v[b]) / sqrt(u * v);
	}
}

/* Projections of the phantom with the views moved by `motions`. */
static void scene_project(const Scene *s, const double *motions, float *data)
{
	double *poses = calloc((size_t)s->views, 6 * sizeof *poses), frame[3][3];
	tomos_geometry *moved;
	tomos_array b = tomos_array_of(data, s->views, s->rows, s->size);
	for (int i = 0; i < s->views; i++) {
		const double *m = motions + 3 * i;
		frame_of(&tomos_geometry_list(s->scan)[i], frame);
		for (int a = 0; a < 3; a++) {
			poses[6 * i + a] = m[0] * frame[0][a] + m[1] * frame[1][a];
			poses[6 * i + 3 + a] = m[2] * frame[2][a];
		}
	}
	OK(tomos_geometry_move(&moved, s->scan, poses));
	OK(tomos_phantom_project(s->phantom, moved, SCENE_SAMPLES, &b));
	tomos_geometry_free(moved);
	free(poses);
}

/* Uniform, with the standard deviation `rms`. */
static double scene_random(Case *c, double rms)
{
	return case_between(c, -1, 1) * sqrt(3) * rms;
}

/* size, views, noise, shift and roll are given. */
static void scene_open(Scene *s, const char *kind, const char *phantom)
{
	Case c = {.state = 77};
	tomos_phantom_options o = tomos_phantom_defaults();
	s->rows = s->rows > 0 ? s->rows : s->size;
	size_t views = (size_t)s->views, pixels = views * (size_t)(s->rows * s->size);
	o.radius = 0.38 * s->size;
	o.seed = s->seed > 0 ? s->seed : 1;
	s->scan = scene_scan(s, kind);
	OK(tomos_phantom_named(&s->phantom, phantom, &o));
	s->true_motions = calloc(3 * views, sizeof(double));
	s->motions = calloc(3 * views, sizeof(double));
	s->poses = calloc(6 * views, sizeof(double));
	for (int i = 0; i < s->views; i++) {
		s->true_motions[3 * i] = scene_random(&c, s->shift);
		s->true_motions[3 * i + 1] = scene_random(&c, s->shift);
		s->true_motions[3 * i + 2] = scene_random(&c, s->roll);
	}
	s->data = calloc(pixels, sizeof *s->data);
	s->b = tomos_array_of(s->data, s->views, s->rows, s->size);
	scene_project(s, s->true_motions, s->data);
	OK(tomos_noise_gaussian(&s->b, s->noise, 3));
	OK(tomos_grid_centred(&s->grid, s->size, s->size, s->rows, 1));
}

static void scene_free(Scene *s)
{
	tomos_phantom_free(s->phantom);
	tomos_geometry_free(s->scan);
	free(s->data), free(s->true_motions), free(s->motions), free(s->poses);
}

/* Least squares of three unknowns by Cramer's rule. */
static void fit3(double m[3][3], const double right[3], double x[3])
{
	double cross[3][3], det = 0;
	for (int i = 0; i < 3; i++)
		for (int a = 0; a < 3; a++) {
			int j = (i + 1) % 3, k = (i + 2) % 3, b = (a + 1) % 3, c = (a + 2) % 3;
			cross[i][a] = m[j][b] * m[k][c] - m[j][c] * m[k][b];
		}
	for (int a = 0; a < 3; a++)
		det += m[0][a] * cross[0][a];
	for (int a = 0; a < 3; a++)
		x[a] = (cross[0][a] * right[0] + cross[1][a] * right[1] + cross[2][a] * right[2]) /
		       det;
}

/* The vector that explains most of the errors of motions `first` to `last`: a shift of the object,
 * or its rotation. */
static void scene_common(const Scene *s, int first, int last, double common[3])
{
	double m[3][3] = {{0}}, right[3] = {0}, frame[3][3];
	for (int i = 0; i < s->views; i++) {
		frame_of(&tomos_geometry_list(s->scan)[i], frame);
		for (int n = first; n <= last; n++)
			for (int a = 0; a < 3; a++) {
				right[a] += frame[n][a] *
					    (s->motions[3 * i + n] - s->true_motions[3 * i + n]);
				for (int b = 0; b < 3; b++)
					m[a][b] += frame[n][a] * frame[n][b];
			}
	}
	m[2][2] += 1e-9; /* rolls about horizontal rays */
	fit3(m, right, common);
}

/* Errors, rms: shifts without that of the whole object, which the data do not determine; rolls; and
 * rolls without the part that varies as those of a tilted object, which is the least certain. */
static void scene_errors(const Scene *s, double error[4])
{
	double common[2][3], frame[3][3], sum[4] = {0};
	scene_common(s, 0, 1, common[0]);
	scene_common(s, 2, 2, common[1]);
	for (int i = 0; i < s->views; i++) {
		frame_of(&tomos_geometry_list(s->scan)[i], frame);
		for (int n = 0; n < 4; n++) {
			int motion = n < 3 ? n : 2;
			double d = s->motions[3 * i + motion] - s->true_motions[3 * i + motion];
			for (int a = 0; a < 3 && n != 2; a++)
				d -= frame[motion][a] * common[n / 2][a];
			sum[n] += d * d;
		}
	}
	for (int n = 0; n < 4; n++)
		error[n] = sqrt(sum[n] / s->views);
}

static void scene_align(Scene *s, const tomos_align_options *o)
{
	double error[4], degree = acos(-1) / 180;
	OK(tomos_align(backend, &s->grid, s->scan, &s->b, s->motions, s->poses, o, NULL));
	scene_errors(s, error);
	printf("  to %.4f columns, %.4f rows, roll %.4f degrees, without a tilt %.4f\n", error[0],
		error[1], error[2] / degree, error[3] / degree);
}

#endif
