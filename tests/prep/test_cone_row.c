/* The row of the midplane of an offset detector, from pairs of opposite rays in many rows. */
#include "prep/cone_scenes.h"
#include "prep/pose_search.h"

enum { SIZE = 128, ROWS = 40 };

/* By how much the likely row and, in it, the axis are off, and the row as given; NAN: no row. */
static void row_of(ConeScene *s, bool reversed, double off[3])
{
	Orbit o;
	Coarse none;
	double residual;
	cone_scene(s);
	tomos_geometry *nominal = cone_nominal(s, 1, reversed);
	OK(orbit_take(&o, nominal));
	PoseProblem p = {.orbit = &o, .band = &s->array, .coarse = &none, .unknown = POSE_ALL};
	Search search = {.problem = &p, .reversed = reversed, .likely = NAN};
	memcpy(search.pose, o.pose, sizeof search.pose);
	for (int k = 0; k < POSE_COUNT; k++)
		search.error[k] = NAN;
	search.pose[POSE_AXIS] = s->pose[POSE_AXIS] + 0.2;
	OK(likely_row(&search));
	OK(fit_midplane(&search, 1u << PAIR_AXIS, &residual));
	off[0] = search.likely - s->pose[POSE_ROW];
	off[1] = search.pose[POSE_AXIS] - s->pose[POSE_AXIS];
	off[2] = o.pose[POSE_ROW] - s->pose[POSE_ROW];
	printf("  object %d: likely row off by %.2f, as given %.2f; axis off by %.3f\n",
		(int)s->object, off[0], off[2], off[1]);
	orbit_free(&o);
	tomos_geometry_free(nominal);
	cone_scene_free(s);
}

static ConeScene scene_of(uint64_t seed, ConeObject object, double noise)
{
	return (ConeScene){.seed = seed,
		.size = SIZE,
		.rows = ROWS,
		.views = 180,
		.arc = ARC_OFFSET,
		.object = object,
		.noise = noise,
		.tilted = 0.7,
		.offset = 10};
}

static void test_row(void **state)
{
	(void)state;
	static const ConeObject objects[] = {OBJECT_BALLS, OBJECT_PLATE, OBJECT_WIDE, OBJECT_PLATE};
	static const uint64_t seeds[] = {102, 108, 124, 118};
	for (int i = 0; i < 4; i++) {
		double off[3];
		ConeScene s = scene_of(seeds[i], objects[i], 0.02);
		row_of(&s, i == 1, off);
		assert_true(fabs(off[0]) < LOOSE_ROW && fabs(off[1]) < 0.1);
	}
}

/* In noise no row is more likely than another. */
static void test_noise(void **state)
{
	(void)state;
	double off[3];
	ConeScene s = scene_of(102, OBJECT_BALLS, 20);
	row_of(&s, false, off);
	assert_true(isnan(off[0]));
}

#define TESTS(T) T(test_row), T(test_noise)
TEST_MAIN(TESTS, NULL, NULL)
