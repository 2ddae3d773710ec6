/* The axis of laminography scans: objects within the field of view, plates that go on beyond all
 * edges of the detector, rolled and mirrored detectors, parts of a turn. */
#include "prep/orbit.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"
#include "truth/truth.h"

enum { COLUMNS = 96, ROWS = 80, VIEWS = 120 };

typedef struct {
	const char *name;
	bool plate;
	double tilt, arc, roll, mirror, axis, noise; /* angles in degrees */
	double most;                                 /* error allowed, in columns */
} Scene;

static const Scene cases[] = {
	{"within the detector", false, 30, 360, 0, 1, 50.3, 0.02, 0.05},
	{"steep", false, 60, 360, 0, 1, 41.7, 0.02, 0.05},
	{"half a turn", false, 35, 180, 0, 1, 45.2, 0.02, 0.1},
	{"rolled", false, 35, 360, 2, 1, 52.6, 0.02, 0.05},
	{"rolled and mirrored", false, 35, 360, 2, -1, 52.6, 0.02, 0.05},
	{"plate", true, 30, 360, 0, 1, 51.3, 0.02, 0.15},
	{"steep plate", true, 55, 360, 0, 1, 44.6, 0.02, 0.15},
};

static tomos_ellipsoid drawn(uint64_t i, bool plate)
{
	double u[8], reach = plate ? 90 : 24;
	for (uint64_t k = 0; k < 8; k++)
		u[k] = random_uniform(3, 8 * i + k);
	double high = plate ? 3 : 20, size = plate ? 4 : 6;
	return (tomos_ellipsoid){{reach * (2 * u[0] - 1), reach * (2 * u[1] - 1),
					 high * (2 * u[2] - 1) + (plate ? 0 : 8)},
		{1 + size * u[3], 1 + size * u[4], plate ? 1 + 2 * u[5] : 1 + size * u[5]},
		{3 * u[6], plate ? 0 : 2 * u[7], 0}, 0.2 + u[7]};
}

static tomos_array project(const Scene *c, tomos_geometry **scan)
{
	enum { MOST = 160 };
	double angles[VIEWS], degree = M_PI / 180;
	int64_t count = c->plate ? MOST : 24;
	tomos_ellipsoid list[MOST];
	tomos_phantom *phantom;
	for (int64_t i = 0; i < VIEWS; i++)
		angles[i] = 0.4 + c->arc * degree * (double)i / VIEWS;
	for (int64_t i = 0; i < count; i++)
		list[i] = drawn((uint64_t)i, c->plate);
	Orbit orbit = {.views = VIEWS,
		.rows = ROWS,
		.columns = COLUMNS,
		.angles = angles,
		.tilt = c->tilt * degree,
		.width = 1,
		.height = 1,
		.mirror = c->mirror,
		.upright = 1,
		.kind = TOMOS_PARALLEL};
	double pose[POSE_COUNT] = {c->axis, 0.5 * (ROWS - 1), c->roll * degree, 0, 0, 1};
	OK(orbit_geometry(scan, &orbit, pose, false));
	tomos_array data = tomos_array_of(
		malloc(sizeof(float) * VIEWS * ROWS * COLUMNS), VIEWS, ROWS, COLUMNS);
	OK(tomos_phantom_ellipsoids(&phantom, list, count));
	OK(tomos_phantom_project(phantom, *scan, 1, &data));
	OK(tomos_noise_gaussian(&data, c->noise, 5));
	tomos_phantom_free(phantom);
	return data;
}

static void test_axis(void **state)
{
	(void)state;
	for (int i = 0; i < COUNT(cases); i++) {
		const Scene *c = &cases[i];
		tomos_geometry *scan;
		tomos_axis axis = {.bytes = sizeof axis};
		if (CASE_SLOW && i != 4 && i != 5)
			continue;
		tomos_array data = project(c, &scan);
		OK(tomos_axis_find_scan(&axis, NULL, &data, scan, NULL, NULL));
		printf("  %-20s %7.3f (%+.3f), standard error %.3f, confidence %.2f\n", c->name,
			axis.column, axis.column - c->axis, axis.error, axis.confidence);
		assert_true(fabs(axis.column - c->axis) < c->most);
		assert_true(fabs(axis.column - c->axis) < 4 * axis.error);
		assert_true(axis.error < 0.3 && axis.confidence > 0.05);
		assert_int_equal(axis.full_turn, c->arc == 360);
		free(data.data);
		tomos_geometry_free(scan);
	}
}

#define TESTS(T) T(test_axis)
TEST_MAIN(TESTS, NULL, NULL)
