/* Campaign on simulated cone beam scans: the whole pose of the detector, for unlike objects. Values
 * that are reported have to be as near to the truth as their standard errors say; the axis within
 * the limits in every scan, the others where two standard errors are within them: elsewhere a value
 * counts as not determined to that accuracy. Once with all values unknown, once with pixels that
 * are means of 3 x 3 rays, as on a detector, instead of one ray each, and once with the distance
 * and the row known, which then have to stay exactly as given. */
#include "prep/cone_scenes.h"
#include <time.h>

enum { SCANS = 30, SIZE = 256, VIEWS = 360, MEANS = 3 };

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

/* Values that are known are those given, exactly but for the way through the views. */
static void check_known(const ConeScene *s, const tomos_pose *pose)
{
	assert_true(pose->error[POSE_ROW] == 0 && pose->error[POSE_SCALE] == 0);
	assert_true(fabs(pose->value[POSE_ROW] - s->pose[POSE_ROW]) < 1e-9);
	assert_true(fabs(pose->value[POSE_SCALE] - s->detector) < 1e-9 * s->detector);
}

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
		if (isnan(allowed) || allowed == 0)
			continue;
		t->worst[k] = fmax(t->worst[k], error / allowed);
		if (k != POSE_AXIS && 2 * allowed > limits[k])
			continue;
		t->found[k]++;
		t->within[k] += error <= limits[k];
	}
	t->scans++;
}

/* TOMOS_TEST_SEED: scans that nothing was chosen on. */
static int first_seed(void)
{
	const char *asked = getenv("TOMOS_TEST_SEED");
	return asked ? atoi(asked) : 100;
}

/* The pose as given: an upright detector in the middle, in the row and at the distance of the truth
 * where these are known. */
static tomos_geometry *given(const ConeScene *s, int i, bool known)
{
	const double pose[POSE_COUNT] = {[POSE_AXIS] = 0.5 * (double)(s->size - 1),
		[POSE_ROW] = s->pose[POSE_ROW],
		[POSE_SCALE] = 1};
	return known ? cone_posed(s, pose, i % 2) : cone_nominal(s, 1 + 0.03 * cos(5.0 * i), i % 2);
}

static void one_scan(Tally *t, ConeArc arc, int i, int rays, bool known)
{
	ConeScene s = {.seed = (uint64_t)(first_seed() + i),
		.size = SIZE,
		.rows = SIZE,
		.views = VIEWS,
		.arc = arc,
		.object = (ConeObject)(i % 5),
		.noise = 0.02,
		.tilted = true,
		.offset = 20,
		.rays = rays};
	cone_scene(&s);
	tomos_pose pose = {.bytes = sizeof pose};
	tomos_geometry *nominal = given(&s, i, known);
	tomos_axis_options options = tomos_axis_defaults();
	options.unknown = known ? "roll,slant,swivel" : "";
	double begin = seconds();
	OK(tomos_pose_find(&pose, NULL, NULL, &s.array, nominal, &options, NULL));
	double now = seconds() - begin;
	if (arc != ARC_SHORT && i < TIMED) { /* FDK rejects short scans with an offset */
		t->took += now;
		t->fdk += fdk_seconds(&s);
	}
	bool wrong = pose.reversed != i % 2;
	t->wrong += wrong;
	printf("arc %d scan %2d object %d D %.1f M %.1f:", (int)arc, i, (int)s.object,
		s.detector / SIZE, s.detector / s.source);
	if (known)
		check_known(&s, &pose);
	compare(t, &s, &pose);
	printf(" %.4f to %.4f, %.2f s%s\n", pose.before, pose.after, now,
		wrong ? " DIRECTION" : "");
	fflush(stdout);
	tomos_geometry_free(nominal);
	cone_scene_free(&s);
}

/* TOMOS_TEST_SCANS: of each arc; TOMOS_TEST_ARC: of this one only; TOMOS_TEST_KNOWN: 1 or 0, with
 * the known values or without only. */
static int scans_asked(ConeArc arc, bool known)
{
	const char *asked = getenv("TOMOS_TEST_SCANS"), *arcs = getenv("TOMOS_TEST_ARC"),
		   *only = getenv("TOMOS_TEST_KNOWN");
	int scans = asked ? atoi(asked) : SCANS;
	if ((arcs && atoi(arcs) != (int)arc) || (only && atoi(only) != (int)known))
		return 0;
	return scans < SCANS ? scans : SCANS;
}

static void campaign(ConeArc arc, int rays, bool known)
{
	Tally t = {.scans = 0};
	int scans = scans_asked(arc, known);
	if (scans == 0)
		return;
	for (int i = 0; i < scans; i++)
		one_scan(&t, arc, i, rays, known);
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
	if (arc == ARC_FULL && scans == SCANS && !known && !getenv("TOMOS_TEST_SEED")) {
		assert_true(t.found[POSE_SLANT] >= (rays > 1 ? 16 : 13));
		assert_true(t.found[POSE_SCALE] >= (rays > 1 ? 20 : 16));
	}
	assert_true(t.took <= t.fdk);
	assert_int_equal(t.wrong, 0);
}

static void test_full(void **state)
{
	(void)state;
	campaign(ARC_FULL, 1, false);
}

static void test_full_means(void **state)
{
	(void)state;
	campaign(ARC_FULL, MEANS, false);
}

static void test_full_known(void **state)
{
	(void)state;
	campaign(ARC_FULL, 1, true);
}

static void test_short(void **state)
{
	(void)state;
	campaign(ARC_SHORT, 1, false);
}

static void test_short_means(void **state)
{
	(void)state;
	campaign(ARC_SHORT, MEANS, false);
}

static void test_short_known(void **state)
{
	(void)state;
	campaign(ARC_SHORT, 1, true);
}

static void test_offset(void **state)
{
	(void)state;
	campaign(ARC_OFFSET, 1, false);
}

static void test_offset_known(void **state)
{
	(void)state;
	campaign(ARC_OFFSET, 1, true);
}

#define TESTS(T) \
	T(test_full), T(test_short), T(test_offset), T(test_full_means), T(test_short_means), \
		T(test_full_known), T(test_short_known), T(test_offset_known)
TEST_MAIN(TESTS, NULL, NULL)
