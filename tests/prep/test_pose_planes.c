/* The pose from planes that two views have in common: how far a step leads away from the true one,
 * of objects wider than the detector, of which few planes count, and in short scans, where small
 * errors of interpolation move row and distance most. */
#include "prep/cone_scenes.h"
#include "prep/plane_lines.h"
#include "prep/pose.h"

enum { SIZE = 256, VIEWS = 360 };

/* The step at the true pose, all values free. */
static void step_of(ConeScene *s, PoseStep *step)
{
	Orbit o;
	Coarse scans[COARSE_COUNT];
	double pose[POSE_COUNT];
	cone_scene(s);
	OK(orbit_take(&o, s->geometry));
	OK(coarse_scans_begin(scans, &o));
	OK(coarse_scans_add(scans, &s->array, 0));
	OK(coarse_scans_finish(scans));
	const Coarse *c = &scans[COARSE_FINE];
	coarse_pose(c, s->pose, pose);
	pose[POSE_SCALE] = 1;
	OK(epipolar_step(c, pose, false, POSE_ALL, step));
	coarse_scans_free(scans);
	orbit_free(&o);
	cone_scene_free(s);
}

static void check_step(ConeScene *s, const double limits[POSE_COUNT])
{
	PoseStep step;
	step_of(s, &step);
	assert_true(step.solved);
	for (int k = 0; k < POSE_COUNT; k++) {
		printf("  value %d: %.5f, standard error %.5f\n", k, step.step[k],
			sqrt(step.covariance[k][k]));
		assert_true(step.covariance[k][k] > 0); /* else it was left out */
		assert_true(fabs(step.step[k]) < limits[k]);
	}
}

static ConeScene scene(uint64_t seed, ConeArc arc, ConeObject object)
{
	return (ConeScene){.seed = seed,
		.size = SIZE,
		.rows = SIZE,
		.views = VIEWS,
		.arc = arc,
		.object = object,
		.noise = 0.02,
		.tilted = true,
		.offset = 20};
}

/* Where all differences count alike, the distance is off by 1.2 %. */
static void test_wide(void **state)
{
	static const double limits[POSE_COUNT] = {0.02, 0.2, 0.0003, 0.005, 0.002, 0.002};
	ConeScene s = scene(119, ARC_FULL, OBJECT_WIDE);
	(void)state;
	check_step(&s, limits);
}

/* With linear interpolation between pixels, the row is off by 0.21 and the distance by 0.35 %. */
static void test_short(void **state)
{
	static const double limits[POSE_COUNT] = {0.02, 0.1, 0.0003, 0.002, 0.003, 0.0015};
	ConeScene s = scene(300, ARC_SHORT, OBJECT_SOLIDS);
	(void)state;
	check_step(&s, limits);
}

/* Of few rows of wide pixels, lines between others may miss all pixels as well. No line has a value
 * where the object reaches all edges. */
static void check_cut(int64_t rows, double height)
{
	enum { COLUMNS = 33, MOST_ROWS = 4 };
	float data[1 + MOST_ROWS * COLUMNS] = {0}; /* 0 before the first pixel */
	Coarse c = {.bin = 1,
		.orbit = {.views = 1,
			.rows = rows,
			.columns = COLUMNS,
			.width = 1,
			.height = height},
		.data = data + 1};
	Lines l = {.detector = {.foot = {16, 0.5 * (double)(rows - 1)}, .far = 100}, .sense = 1};
	for (int64_t i = 0; i < rows * COLUMNS; i++)
		c.data[i] = 1;
	OK(lines_take(&l, &c));
	for (int64_t i = 0; i < l.angles * l.offsets; i++)
		assert_true(isnan(l.lines[i]));
	lines_free(&l);
}

static void test_few_rows(void **state)
{
	(void)state;
	check_cut(1, 1);
	check_cut(2, 1);
	check_cut(4, 0.2);
}

#define TESTS(T) T(test_wide), T(test_short), T(test_few_rows)
TEST_MAIN(TESTS, NULL, NULL)
