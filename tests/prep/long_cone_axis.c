/* Campaign on simulated fan and cone beam scans: axis and direction of rotation of 30 scans of each
 * kind, full and short and with an offset detector, of unlike objects and magnifications. */
#include "prep/cone_scenes.h"

enum { SCANS = 30, SIZE = 256, VIEWS = 360, ROWS = 17 };

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static tomos_axis find_axis(const ConeScene *s, bool reversed)
{
	tomos_axis axis = {.bytes = sizeof axis};
	tomos_geometry *nominal = cone_nominal(s, 1, reversed);
	OK(tomos_axis_find_scan(&axis, NULL, &s->array, nominal, NULL, NULL));
	tomos_geometry_free(nominal);
	return axis;
}

/* Balls leave a single row empty. */
static ConeObject object_of(int i, int64_t rows)
{
	ConeObject object = (ConeObject)(i % 5);
	return rows == 1 && object == OBJECT_BALLS ? OBJECT_RODS : object;
}

static void campaign(ConeArc arc, bool tilted, int64_t rows, double median, double worst)
{
	double errors[SCANS], scaled = 0;
	int wrong = 0, leaning = 0;
	for (int i = 0; i < SCANS; i++) {
		ConeScene s = {.seed = (uint64_t)(100 + i),
			.size = SIZE,
			.rows = rows,
			.views = VIEWS,
			.arc = arc,
			.object = object_of(i, rows),
			.noise = 0.02,
			.tilted = tilted,
			.offset = 20};
		cone_scene(&s);
		tomos_axis axis = find_axis(&s, i % 2);
		errors[i] = fabs(axis.column - s.pose[POSE_AXIS]);
		wrong += axis.reversed != i % 2;
		leaning += axis.tilted != 0;
		scaled += errors[i] * errors[i] / (axis.error * axis.error);
		printf("  arc %d scan %2d object %d: axis %8.3f (%+.3f, standard error %.3f), "
		       "confidence %.2f%s\n",
			(int)arc, i, (int)s.object, axis.column, axis.column - s.pose[POSE_AXIS],
			axis.error, axis.confidence, axis.reversed != i % 2 ? ", DIRECTION" : "");
		fflush(stdout);
		cone_scene_free(&s);
	}
	qsort(errors, SCANS, sizeof *errors, by_value);
	printf("arc %d: median %.3f worst %.3f, errors / standard errors %.2f, %d directions "
	       "wrong, %d said to be tilted\n",
		(int)arc, errors[SCANS / 2], errors[SCANS - 1], sqrt(scaled / SCANS), wrong,
		leaning);
	assert_true(errors[SCANS / 2] < median && errors[SCANS - 1] < worst);
	assert_int_equal(wrong, 0);
	assert_true(tilted || leaning == 0);
}

static void test_full(void **state)
{
	(void)state;
	campaign(ARC_FULL, false, ROWS, 0.1, 0.25);
}

static void test_short(void **state)
{
	(void)state;
	campaign(ARC_SHORT, false, ROWS, 0.1, 0.25);
}

static void test_offset(void **state)
{
	(void)state;
	campaign(ARC_OFFSET, false, ROWS, 0.1, 0.25);
}

static void test_fan(void **state)
{
	(void)state;
	campaign(ARC_FULL, false, 1, 0.1, 0.25);
}

#define TESTS(T) T(test_full), T(test_short), T(test_offset), T(test_fan)
TEST_MAIN(TESTS, NULL, NULL)
