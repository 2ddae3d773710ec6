/* Alignment: random shifts of each view, put into closed-form projections with noise, are found, in
 * parallel beam, cone beam and laminography; and shifts and rolls together. */
#include "algo/align_scene.h"

static Scene scene_of(const char *kind, int size, double shift)
{
	Scene s = {.size = size, .views = 60, .noise = 0.02, .shift = shift};
	scene_open(&s, kind, "random");
	return s;
}

static void shifts_of(const char *kind)
{
	Scene s = scene_of(kind, 32, 2);
	tomos_align_options o = tomos_align_defaults();
	double error[4], limit = case_slow() ? 0.15 : 0.05;
	o.rounds = 3;
	if (case_slow()) /* sanitizers: no full resolution */
		o.finest = 2;
	scene_align(&s, &o);
	scene_errors(&s, error);
	assert_true(error[0] < limit && error[1] < limit);
	for (int i = 0; i < s.views; i++) /* roll was not asked for */
		assert_true(s.motions[3 * i + 2] == 0);
	scene_free(&s);
}

static void shifts_parallel(void **state)
{
	(void)state;
	if (case_slow())
		return;
	shifts_of("parallel");
}

static void shifts_cone(void **state)
{
	(void)state;
	shifts_of("cone");
}

static void shifts_laminography(void **state)
{
	(void)state;
	if (case_slow())
		return;
	shifts_of("laminography");
}

/* An object higher than the detector: what moves in and out of view is not taken for motion. */
static void cut_object(void **state)
{
	(void)state;
	Scene s = {.size = 32, .rows = 16, .views = 60, .noise = 0.02, .shift = 2};
	tomos_align_options o = tomos_align_defaults();
	double error[4];
	scene_open(&s, "cone", "random");
	assert_true(tomos_align_cut(&s.b));
	if (!case_slow()) {
		scene_align(&s, &o);
		scene_errors(&s, error);
		assert_true(error[0] < 0.05 && error[1] < 0.05);
	}
	scene_free(&s);
	s = scene_of("cone", 32, 2);
	assert_false(tomos_align_cut(&s.b));
	const int64_t *n = s.b.shape;
	for (int64_t i = 0; i < n[0] * n[2]; i++) /* the last row alone */
		s.b.data[i / n[2] * s.b.stride[0] + (n[1] - 1) * s.b.stride[1] + i % n[2]] = 10;
	assert_true(tomos_align_cut(&s.b));
	s.b.data[(n[0] - 1) * s.b.stride[0] + n[2]] = 1e4F; /* which is little beside this */
	assert_false(tomos_align_cut(&s.b));
	assert_false(tomos_align_cut(NULL));
	scene_free(&s);
}

/* Noise alone leaves 0.0085 degrees of such a detector where the object is known, and about 0.012
 * where only the air around it is. */
static void rolls_of(const char *kind, int seed, double limit)
{
	const double degree = acos(-1) / 180;
	Scene s = {.size = 48, .views = 60, .seed = seed, .noise = 0.02, .shift = 2};
	s.roll = 0.5 * degree;
	scene_open(&s, kind, "random");
	tomos_align_options o = tomos_align_defaults();
	double error[4];
	o.fit_roll = 1;
	scene_align(&s, &o);
	scene_errors(&s, error);
	assert_true(error[0] < 0.01 && error[1] < 0.01);
	assert_true(error[2] < limit * degree);
	scene_free(&s);
}

static void rolls_parallel(void **state)
{
	(void)state;
	if (!case_slow())
		rolls_of("parallel", 1, 0.018);
}

static void rolls_cone(void **state)
{
	(void)state;
	if (!case_slow())
		rolls_of("cone", 3, 0.02);
}

/* The poses are those that move the views by the motions. */
static void poses(void **state)
{
	(void)state;
	Scene s = scene_of("parallel", 48, 1);
	tomos_align_options o = tomos_align_defaults();
	double frame[3][3];
	o.rounds = 1, o.round_iterations = 2, o.finest = 2;
	OK(tomos_align(backend, &s.grid, s.scan, &s.b, s.motions, s.poses, &o, NULL));
	for (int i = 0; i < s.views; i++) {
		frame_of(&tomos_geometry_list(s.scan)[i], frame);
		for (int a = 0; a < 3; a++)
			assert_true(fabs(s.poses[6 * i + a] - s.motions[3 * i] * frame[0][a] -
					    s.motions[3 * i + 1] * frame[1][a]) < 1e-9);
	}
	scene_free(&s);
}

static int stop(void *user, const char *stage, int64_t done, int64_t total, double value)
{
	(void)stage, (void)value;
	*(int64_t *)user = total;
	return done == 2;
}

static void rejections(void **state)
{
	(void)state;
	Scene s = scene_of("parallel", 48, 1);
	tomos_align_options o = tomos_align_defaults();
	int64_t total = 0;
	tomos_progress progress = {stop, &total};
	tomos_array wrong = tomos_array_of(s.data, 1, s.size, s.size);
	REJECTED(tomos_align(NULL, &s.grid, s.scan, &s.b, s.motions, s.poses, &o, NULL),
		TOMOS_BAD_VALUE, "needs a backend");
	REJECTED(tomos_align(backend, &s.grid, s.scan, &wrong, s.motions, s.poses, &o, NULL),
		TOMOS_BAD_VALUE, "the projections");
	float *one = &s.b.data[s.size], kept = *one;
	*one = NAN;
	REJECTED(tomos_align(backend, &s.grid, s.scan, &s.b, s.motions, s.poses, &o, NULL),
		TOMOS_BAD_VALUE,
		"the array of projections has 1 value that is not finite, the first at [0][1][0]");
	*one = kept;
	o.rounds = 1, o.round_iterations = 1;
	REJECTED(tomos_align(backend, &s.grid, s.scan, &s.b, s.motions, s.poses, &o, &progress),
		TOMOS_CANCELLED, "2 of");
	assert_int_equal(total, 2); /* resolutions of 48 and 24 columns */
	o.finest = 49;
	REJECTED(tomos_align(backend, &s.grid, s.scan, &s.b, s.motions, s.poses, &o, NULL),
		TOMOS_BAD_VALUE, "finest is 49");
	o.finest = 0, o.rounds = 0;
	REJECTED(tomos_align(backend, &s.grid, s.scan, &s.b, s.motions, s.poses, &o, NULL),
		TOMOS_BAD_VALUE, "rounds");
	scene_free(&s);
}

#define TESTS(T) \
	T(shifts_parallel), T(shifts_cone), T(shifts_laminography), T(rolls_parallel), \
		T(rolls_cone), T(cut_object), T(poses), T(rejections)
TEST_MAIN(TESTS, open_backend, close_backend)
