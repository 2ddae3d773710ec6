/* Simulated fan and cone beam scans of unlike objects, with the pose of the detector known. */
#ifndef TOMOS_TESTS_PREP_CONE_SCENES_H
#define TOMOS_TESTS_PREP_CONE_SCENES_H

#include "prep/orbit.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"
#include "truth/truth.h"

typedef enum { ARC_FULL, ARC_SHORT, ARC_OFFSET } ConeArc;
typedef enum { OBJECT_SOLIDS, OBJECT_RODS, OBJECT_BALLS, OBJECT_PLATE, OBJECT_WIDE } ConeObject;

typedef struct {
	/* Set before cone_scene: */
	uint64_t seed;
	int64_t size, rows, views; /* columns, rows */
	ConeArc arc;
	ConeObject object;
	double noise;   /* relative to the norm of the projections */
	double tilted;  /* factor of rotations of the detector, and of how far its row is off */
	double offset;  /* most columns of the axis from the middle */
	double degrees; /* of the arc; 0: what ARC_SHORT or a full turn needs */
	double fan;     /* degrees on either side; 0: drawn */
	int64_t solids; /* small ones; 0: 14, rods 6 */
	int64_t rays;   /* averaged in a pixel, along each side; 0: one */
	/* Results: */
	double pose[POSE_COUNT], source, detector;
	tomos_geometry *geometry; /* the true one */
	tomos_array array;
	uint64_t drawn;
} ConeScene;

static inline double draw(ConeScene *s, double low, double high)
{
	return low + (high - low) * random_uniform(s->seed, s->drawn++);
}

static inline tomos_ellipsoid drawn_solid(ConeScene *s, double radius)
{
	double r = 0.7 * radius * sqrt(draw(s, 0, 1)), angle = draw(s, 0, 6.28);
	double small = s->object == OBJECT_BALLS ? 0.02 : 0.04;
	double large = s->object == OBJECT_BALLS ? 0.06 : 0.25;
	tomos_ellipsoid e = {{r * cos(angle), r * sin(angle), draw(s, -0.7, 0.7) * radius},
		{draw(s, small, large) * radius, draw(s, small, large) * radius,
			draw(s, small, large) * radius},
		{draw(s, 0, 3), draw(s, 0, 3), draw(s, 0, 3)}, draw(s, -0.3, 1)};
	if (s->object == OBJECT_RODS) {
		e.centre[2] = 0;
		e.axes[2] = 5 * radius;
		e.euler[1] = draw(s, 0, 0.15);
		e.value = draw(s, 0.3, 1);
	}
	if (s->object == OBJECT_PLATE) { /* in a plane through the axis */
		double x = draw(s, -0.7, 0.7) * radius;
		e.centre[0] = x * cos(0.4);
		e.centre[1] = x * sin(0.4);
		e.axes[0] = e.axes[1] = e.axes[2] = draw(s, 0.03, 0.08) * radius;
	}
	return e;
}

static inline tomos_phantom *drawn_object(ConeScene *s, double radius)
{
	tomos_ellipsoid list[24];
	int64_t count = 0, solids = s->object == OBJECT_RODS ? 6 : 14;
	solids = s->solids > 0 ? s->solids : solids;
	if (s->object == OBJECT_SOLIDS || s->object == OBJECT_WIDE)
		list[count++] = (tomos_ellipsoid){{0.05 * radius, -0.03 * radius, 0.02 * radius},
			{0.9 * radius, 0.8 * radius, 0.85 * radius}, {0.3, 0.2, 0.1}, 0.3};
	if (s->object == OBJECT_PLATE)
		list[count++] = (tomos_ellipsoid){{0.1 * radius, 0, 0},
			{0.9 * radius, 0.08 * radius, 0.8 * radius}, {0.4, 0.1, 0}, 1};
	for (int64_t i = 0; i < solids; i++)
		list[count++] = drawn_solid(s, radius);
	tomos_phantom *phantom;
	OK(tomos_phantom_ellipsoids(&phantom, list, count));
	return phantom;
}

/* Distances in pixels: fans of 5 to 11 degrees on either side, magnified 1.3 to 5 times. */
static inline void drawn_pose(ConeScene *s, double *reach)
{
	double n = (double)s->size, middle = 0.5 * (n - 1);
	s->detector = n * draw(s, 2.5, 6);
	if (s->fan > 0)
		s->detector = 0.5 * n / tan(s->fan * M_PI / 180);
	s->source = s->detector / draw(s, 1.3, 5);
	double offset = draw(s, -1, 1) * s->offset, degree = s->tilted * M_PI / 180;
	if (s->arc == ARC_OFFSET)
		offset = (draw(s, -1, 1) < 0 ? -0.32 : 0.32) * n + 0.5 * offset;
	const double pose[POSE_COUNT] = {middle + offset,
		0.5 * (double)(s->rows - 1) + (s->rows > 1 ? 8 * draw(s, -1, 1) * degree * 57 : 0),
		s->rows > 1 ? draw(s, -1, 1) * degree : 0,
		s->rows > 1 ? draw(s, -2, 2) * degree : 0, draw(s, -2, 2) * degree, 1};
	memcpy(s->pose, pose, sizeof pose);
	*reach = s->arc == ARC_OFFSET ? middle + fabs(offset) : middle - fabs(offset);
}

static inline double *drawn_angles(ConeScene *s, double reach)
{
	double *angles = malloc((size_t)s->views * sizeof *angles), arc = 2 * M_PI;
	double wide = fmax(s->pose[POSE_AXIS], (double)(s->size - 1) - s->pose[POSE_AXIS]);
	(void)reach;
	if (s->arc == ARC_SHORT)
		arc = M_PI + 2 * atan(wide / s->detector) + draw(s, 2, 20) * M_PI / 180;
	if (s->degrees > 0)
		arc = s->degrees * M_PI / 180;
	double start = draw(s, 0, 6);
	for (int64_t i = 0; i < s->views; i++)
		angles[i] = start + arc * (double)i / (double)s->views;
	return angles;
}

/* Exact projections with noise; free with cone_scene_free. */
static inline void cone_scene(ConeScene *s)
{
	double reach;
	s->drawn = 1;
	drawn_pose(s, &reach);
	double radius = 0.9 * reach * s->source / hypot(s->detector, reach);
	double *angles = drawn_angles(s, reach);
	tomos_phantom *phantom = drawn_object(s, s->object == OBJECT_WIDE ? 1.4 * radius : radius);
	Orbit orbit = {.views = s->views,
		.rows = s->rows,
		.columns = s->size,
		.angles = angles,
		.source = s->source,
		.detector = s->detector,
		.width = 1,
		.height = 1,
		.mirror = 1,
		.upright = 1,
		.kind = TOMOS_POINT};
	OK(orbit_geometry(&s->geometry, &orbit, s->pose, false));
	s->array = tomos_array_of(malloc((size_t)(s->views * s->rows * s->size) * sizeof(float)),
		s->views, s->rows, s->size);
	OK(tomos_phantom_project(phantom, s->geometry, s->rays > 0 ? s->rays : 1, &s->array));
	if (s->noise > 0)
		OK(tomos_noise_gaussian(&s->array, s->noise, s->seed + 7));
	tomos_phantom_free(phantom);
	free(angles);
}

/* The scan with another pose. */
static inline tomos_geometry *cone_posed(
	const ConeScene *s, const double pose[POSE_COUNT], bool reversed)
{
	Orbit orbit;
	tomos_geometry *made;
	OK(orbit_take(&orbit, s->geometry));
	OK(orbit_geometry(&made, &orbit, pose, reversed));
	orbit_free(&orbit);
	return made;
}

/* What a user knows: distances (off by a factor) and angles, an upright detector in the middle. */
static inline tomos_geometry *cone_nominal(const ConeScene *s, double factor, bool reversed)
{
	const double pose[POSE_COUNT] = {
		0.5 * (double)(s->size - 1), 0.5 * (double)(s->rows - 1), 0, 0, 0, factor};
	return cone_posed(s, pose, reversed);
}

static inline void cone_scene_free(ConeScene *s)
{
	free(s->array.data);
	tomos_geometry_free(s->geometry);
}

#endif
