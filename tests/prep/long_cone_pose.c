/* Campaign on simulated cone beam scans: the whole pose of the detector, for unlike objects. Values
 * that are reported have to be as near to the truth as their standard errors say; the axis within
 * the limits in every scan, the others where two standard errors are within them: elsewhere a value
 * counts as not determined to that accuracy. */
#include "prep/cone_scenes.h"
#include <time.h>

enum { SCANS = 30, SIZE = 256, VIEWS = 360 };

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Processor time of the reconstruction that the search is compared with. */
static double fdk_seconds(const ConeScene *s)
{
	tomos_backend *cpu;
	tomos_grid grid;
	OK(tomos_backend_open(&cpu, "cpu"));
	OK(tomos_grid_for(&grid, s->geometry, NULL));
	float *volume = malloc((size_t)(grid.n[0] * grid.n[1] * grid.n[2]) * sizeof *volume);
	tomos_array v = tomos_array_of(volume, grid.n[2], grid.n[1], grid.n[0]);
	double begin = seconds();
	OK(tomos_fdk(cpu, &grid, s->geometry, &s->array, &v, NULL, NULL));
	double took = seconds() - begin;
	free(volume);
	tomos_backend_close(cpu);
	return took;
}

enum { MOST_ERRORS = 5 }; /* standard errors that a value may be off */
enum { TIMED = 5 };       /* scans whose time is compared with that of FDK */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

typedef struct {
	int scans, wrong, within[POSE_COUNT], found[POSE_COUNT];
	double worst[POSE_COUNT]; /* standard errors */
	double axis[SCANS], took, fdk;
} Tally;

static const double limits[POSE_COUNT] = {0.25, 2, 0.05, 0.3, 0.3, 0.2};

static void compare(Tally *t, const ConeScene *s, const tomos_pose *pose)
{
	static const double unit[POSE_COUNT] = {1, 1, 180 / M_PI, 180 / M_PI, 180 / M_PI, 100};
	for (int k = 0; k < POSE_COUNT; k++) {
		double scale = k == POSE_SCALE ? 1 / s->detector : 1;
		double value = pose->value[k] * scale, error;
		if (k == POSE_AXIS) /* where the projected axis meets the row of the truth */
			value += (s->pose[POSE_ROW] - pose->value[POSE_ROW]) *
				 tan(pose->value[POSE_ROLL]);
		error = fabs(value - s->pose[k]) * unit[k];
		double allowed = pose->error[k] * scale * unit[k];
		printf(" %.3f(%.3f)", error, allowed);
		if (k == POSE_AXIS)
			t->axis[t->scans] = error;
		if (isnan(allowed))
			continue;
		t->worst[k] = fmax(t->worst[k], error / allowed);
		if (k != POSE_AXIS && 2 * allowed > limits[k])
			continue;
		t->found[k]++;
		t->within[k] += error <= limits[k];
	}
	t->scans++;
}

static void one_scan(Tally *t, ConeArc arc, int i)
{
	ConeScene s = {.seed = (uint64_t)(100 + i),
		.size = SIZE,
		.rows = SIZE,
		.views = VIEWS,
		.arc = arc,
		.object = (ConeObject)(i % 5),
		.noise = 0.02,
		.tilted = true,
		.offset = 20};
	cone_scene(&s);
	tomos_pose pose = {.bytes = sizeof pose};
	tomos_geometry *nominal = cone_nominal(&s, 1 + 0.03 * cos(5.0 * i), i % 2);
	double begin = seconds();
	OK(tomos_pose_find(&pose, NULL, NULL, &s.array, nominal, NULL, NULL));
	double now = seconds() - begin;
	if (arc != ARC_SHORT && i < TIMED) { /* FDK rejects short scans with an offset */
		t->took += now;
		t->fdk += fdk_seconds(&s);
	}
	bool wrong = pose.reversed != i % 2;
	t->wrong += wrong;
	printf("arc %d scan %2d object %d D %.1f M %.1f:", (int)arc, i, (int)s.object,
		s.detector / SIZE, s.detector / s.source);
	compare(t, &s, &pose);
	printf(" %.4f to %.4f, %.2f s%s\n", pose.before, pose.after, now,
		wrong ? " DIRECTION" : "");
	fflush(stdout);
	tomos_geometry_free(nominal);
	cone_scene_free(&s);
}

static void campaign(ConeArc arc, int scans)
{
	Tally t = {.scans = 0};
	if (scans == 0)
		return;
	for (int i = 0; i < scans; i++)
		one_scan(&t, arc, i);
	qsort(t.axis, (size_t)scans, sizeof *t.axis, by_value);
	printf("  axis: median %.3f, worst %.3f\n", t.axis[scans / 2], t.axis[scans - 1]);
	for (int k = 0; k < POSE_COUNT; k++)
		printf("  value %d: found in %d of %d scans, %d within %g, off by at most %.1f "
		       "standard errors\n",
			k, t.found[k], scans, t.within[k], limits[k], t.worst[k]);
	printf("  first scans: %.2f s of processor time, FDK %.2f s\n", t.took, t.fdk);
	assert_true(t.axis[scans / 2] < 0.1);
	assert_int_equal(t.found[POSE_AXIS], scans);
	for (int k = 0; k < POSE_COUNT; k++) {
		assert_true(t.worst[k] <= MOST_ERRORS);
		assert_int_equal(t.within[k], t.found[k]);
	}
	assert_true(t.took <= t.fdk);
	assert_int_equal(t.wrong, 0);
}

/* TOMOS_TEST_SCANS: of each arc; TOMOS_TEST_ARC: of this one only. */
static int scans_asked(ConeArc arc)
{
	const char *asked = getenv("TOMOS_TEST_SCANS"), *only = getenv("TOMOS_TEST_ARC");
	int scans = asked ? atoi(asked) : SCANS;
	if (only && atoi(only) != (int)arc)
		return 0;
	return scans < SCANS ? scans : SCANS;
}

static void test_full(void **state)
{
	(void)state;
	campaign(ARC_FULL, scans_asked(ARC_FULL));
}

static void test_short(void **state)
{
	(void)state;
	campaign(ARC_SHORT, scans_asked(ARC_SHORT));
}

static void test_offset(void **state)
{
	(void)state;
	campaign(ARC_OFFSET, scans_asked(ARC_OFFSET));
}

#define TESTS(T) T(test_full), T(test_short), T(test_offset)
TEST_MAIN(TESTS, NULL, NULL)
