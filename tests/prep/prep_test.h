/* What the tests of this room share: simulated scans with known line integrals. */
#ifndef TOMOS_TESTS_PREP_PREP_TEST_H
#define TOMOS_TESTS_PREP_PREP_TEST_H

#include "prep/prep.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"

/* Views of a phantom of ellipses, none of them about the axis. */
typedef struct {
	int64_t views, rows, columns, count;
	double axis, arc;
	double *angles;
	float *data;
	tomos_array array;
} Scene;

static inline double noise_of(uint64_t *state)
{
	double sum = 0; /* of twelve: near enough to a Gaussian of width 1 */
	for (int i = 0; i < 12; i++) {
		*state = *state * 6364136223846793005u + 1442695040888963407u;
		sum += (double)(*state >> 11) / 9007199254740992.0;
	}
	return sum - 6;
}

/* Ellipsoids within `reach` of the axis, in pixels. */
static inline tomos_phantom *scene_phantom(double reach)
{
	const tomos_ellipsoid list[] = {
		{{0.08 * reach, -0.05 * reach, 0}, {0.78 * reach, 0.66 * reach, 2 * reach},
			{0.3, 0, 0}, 0.8 / reach},
		{{0.35 * reach, 0.2 * reach, 0}, {0.12 * reach, 0.2 * reach, reach}, {0.9, 0, 0},
			1.2 / reach},
		{{-0.4 * reach, 0.15 * reach, 0.1 * reach}, {0.15 * reach, 0.08 * reach, reach},
			{2, 0, 0}, -0.6 / reach},
		{{-0.1 * reach, -0.42 * reach, 0}, {0.1 * reach, 0.09 * reach, reach}, {0, 0, 0},
			2.5 / reach},
		{{0.2 * reach, -0.3 * reach, 0}, {0.03 * reach, 0.03 * reach, reach}, {0, 0, 0},
			4 / reach},
		{{-0.55 * reach, -0.3 * reach, 0}, {0.04 * reach, 0.02 * reach, reach}, {1, 0, 0},
			4 / reach},
	};
	tomos_phantom *phantom;
	OK(tomos_phantom_ellipsoids(&phantom, list, COUNT(list)));
	return phantom;
}

/* The scan from views at given angles, which it takes. */
static inline Scene scene_at(double *angles, int64_t views, int64_t rows, int64_t columns,
	double axis, double degrees, double reach)
{
	Scene s = {views, rows, columns, views * rows * columns, axis, degrees, angles, NULL, {0}};
	tomos_phantom *phantom = scene_phantom(reach);
	tomos_scan_options o = tomos_scan_defaults();
	tomos_geometry *scan;
	s.data = malloc((size_t)s.count * sizeof *s.data);
	s.array = tomos_array_of(s.data, views, rows, columns);
	o.rows = rows, o.columns = columns;
	o.angles = s.angles, o.angles_count = views;
	o.axis = &s.axis, o.axis_count = 1;
	OK(tomos_geometry_make(&scan, &o));
	OK(tomos_phantom_project(phantom, scan, 2, &s.array));
	tomos_geometry_free(scan);
	tomos_phantom_free(phantom);
	return s;
}

static inline Scene scene_make(
	int64_t views, int64_t rows, int64_t columns, double axis, double degrees, double reach)
{
	double *angles = malloc((size_t)views * sizeof *angles);
	for (int64_t i = 0; i < views; i++)
		angles[i] = degrees * M_PI / 180 * (double)i / (double)views;
	return scene_at(angles, views, rows, columns, axis, degrees, reach);
}

static inline void scene_free(Scene *s)
{
	free(s->angles);
	free(s->data);
}

static inline float *copy_of(const float *data, int64_t count)
{
	float *copy = malloc((size_t)count * sizeof *copy);
	memcpy(copy, data, (size_t)count * sizeof *copy);
	return copy;
}

/* The root of the mean square of a - b. */
static inline double rms(const float *a, const float *b, int64_t count)
{
	double sum = 0;
	for (int64_t i = 0; i < count; i++)
		sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
	return sqrt(sum / (double)count);
}

/* Transmissions exp(-p) as counts with flats and darks. */
typedef struct {
	float *flats, *darks;
	int64_t flat_count, dark_count;
	double *flat_views;
	tomos_array flat_array, dark_array;
	tomos_fields fields;
} Light;

/* Flats before and after, which are brighter by `drift`; each pixel has its own response. */
static inline Light light_make(Scene *s, double drift, double noise, uint64_t *random)
{
	enum { EACH = 10, DARKS = 5 };
	int64_t plane = s->rows * s->columns;
	Light l = {.flat_count = 2 * EACH, .dark_count = DARKS};
	l.flats = malloc((size_t)(l.flat_count * plane) * sizeof *l.flats);
	l.darks = malloc((size_t)(l.dark_count * plane) * sizeof *l.darks);
	l.flat_views = malloc((size_t)l.flat_count * sizeof *l.flat_views);
	float *response = calloc((size_t)plane, sizeof *response);
	for (int64_t i = 0; i < plane; i++)
		response[i] = (float)(20000 * (1 + 0.1 * noise_of(random)));
	for (int64_t i = 0; i < l.dark_count * plane; i++)
		l.darks[i] = (float)(100 + (double)(i % plane % 7) + noise * noise_of(random));
	for (int64_t i = 0; i < l.flat_count * plane; i++)
		l.flats[i] = (float)(100 + (double)(i % plane % 7) +
				     response[i % plane] * (i / plane < EACH ? 1 : 1 + drift) +
				     noise * noise_of(random));
	for (int64_t i = 0; i < l.flat_count; i++)
		l.flat_views[i] = i < EACH ? 0 : (double)s->views;
	for (int64_t i = 0; i < s->count; i++) {
		double now = 1 + drift * (double)(i / plane) / (double)s->views;
		s->data[i] = (float)(100 + (double)(i % plane % 7) +
				     response[i % plane] * now * exp(-(double)s->data[i]) +
				     noise * noise_of(random));
	}
	free(response);
	l.flat_array = tomos_array_of(l.flats, l.flat_count, s->rows, s->columns);
	l.dark_array = tomos_array_of(l.darks, l.dark_count, s->rows, s->columns);
	return l;
}

/* After the copy has come to its place. */
static inline const tomos_fields *light_fields(Light *l)
{
	l->fields = (tomos_fields){
		sizeof(tomos_fields), &l->flat_array, &l->dark_array, l->flat_views, 0};
	return &l->fields;
}

static inline void light_free(Light *l)
{
	free(l->flats);
	free(l->darks);
	free(l->flat_views);
}

#endif
