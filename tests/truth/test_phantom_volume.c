/* Phantoms on grids: the values, the averages, the orientation, the layout, the rejections. */
#include "truth/truth_test.h"

enum { MOST = 64 * 64 * 64 };
static float volume[MOST], other[MOST];

static tomos_phantom *random_phantom(int64_t seed, int64_t count)
{
	tomos_phantom_options o = tomos_phantom_defaults();
	tomos_phantom *phantom;
	o.seed = seed;
	o.count = count;
	assert_ok(tomos_phantom_named(&phantom, "random", &o));
	return phantom;
}

/* The average of s^3 points; NaN where one of them is too near a surface to tell. */
static double plain_value(
	const tomos_phantom *phantom, const tomos_grid *g, const int64_t at[3], int s)
{
	int64_t count;
	const tomos_ellipsoid *list = tomos_phantom_list(phantom, &count);
	double sum = 0;
	for (int i = 0; i < s * s * s; i++) {
		int sub[3] = {i % s, i / s % s, i / s / s};
		double p[3];
		for (int k = 0; k < 3; k++)
			p[k] = g->first[k] +
			       g->step[k] * ((double)at[k] + (sub[k] + 0.5) / s - 0.5);
		for (int64_t e = 0; e < count; e++) {
			double level = level_at(&list[e], p);
			if (fabs(level - 1) < 1e-9)
				return NAN;
			sum += level < 1 ? list[e].value : 0;
		}
	}
	return sum / (s * s * s);
}

static void check_volume(const tomos_phantom *phantom, const tomos_grid *g, int s)
{
	tomos_array a = tomos_array_of(volume, g->n[2], g->n[1], g->n[0]);
	int64_t filled = 0, n = g->n[0] * g->n[1] * g->n[2];
	assert_ok(tomos_phantom_volume(phantom, g, s, &a));
	for (int64_t i = 0; i < n; i++) {
		int64_t at[3] = {i % g->n[0], i / g->n[0] % g->n[1], i / g->n[0] / g->n[1]};
		double expected = plain_value(phantom, g, at, s);
		if (!isnan(expected))
			assert_near(volume[i], expected, 1e-6 * (1 + fabs(expected)));
		filled += volume[i] != 0;
	}
	assert_true(filled > n / 50 && filled < n);
}

static void test_values(void **state)
{
	(void)state;
	static const tomos_grid grids[] = {
		{{20, 20, 20}, {-0.95, 0.95, -0.95}, {0.1, -0.1, 0.1}},
		{{13, 31, 7}, {0.9, -0.8, 0.7}, {-0.13, 0.05, -0.21}},
		{{600, 3, 2}, {-1.1, 0.1, 0.02}, {0.0035, 0.1, 0.3}},
	};
	for (int i = 0; i < COUNT(grids); i++) {
		tomos_phantom *phantom = random_phantom(i, 12);
		check_volume(phantom, &grids[i], 1);
		check_volume(phantom, &grids[i], 3);
		tomos_phantom_free(phantom);
	}
}

static double total(int64_t count)
{
	double sum = 0;
	for (int64_t i = 0; i < count; i++)
		sum += volume[i];
	return sum;
}

static double ball_error(int64_t samples)
{
	tomos_phantom *ball;
	tomos_grid g = {{16, 16, 16}, {-1.4, -1.41, -1.39}, {0.19, 0.18, 0.185}};
	tomos_array a = tomos_array_of(volume, 16, 16, 16);
	assert_ok(tomos_phantom_named(&ball, "ball", NULL));
	assert_ok(tomos_phantom_volume(ball, &g, samples, &a));
	tomos_phantom_free(ball);
	double mass = total(16 * 16 * 16) * 0.19 * 0.18 * 0.185;
	return fabs(mass / (4 * PI / 3) - 1);
}

static void test_averages_converge(void **state)
{
	(void)state;
	assert_true(ball_error(4) < 2e-3);
	assert_true(ball_error(16) < 2e-4);
	assert_true(ball_error(16) < ball_error(1));
}

static void test_cylinders(void **state)
{
	(void)state;
	tomos_ellipsoid list[3] = {
		{.centre = {0.1, 0.2, 0}, .axes = {INFINITY, 0.3, 0.5}, .value = 1},
		{.axes = {0.4, 0.2, INFINITY}, .euler = {0.3, 0.9, 0.2}, .value = 2},
		{.centre = {0, 0, 0.11}, .axes = {INFINITY, INFINITY, 0.2}, .value = -3},
	};
	tomos_grid g = {{15, 14, 13}, {-0.9, 0.85, -0.8}, {0.12, -0.13, 0.14}};
	tomos_phantom *phantom;
	assert_ok(tomos_phantom_ellipsoids(&phantom, list, 3));
	check_volume(phantom, &g, 1);
	check_volume(phantom, &g, 2);
	tomos_phantom_free(phantom);
}

/* The volume of n x n pixels in `slices` slices. */
static void fill_named(const char *name, int64_t n, int64_t slices, double step)
{
	tomos_phantom *phantom;
	tomos_grid g;
	tomos_array a = tomos_array_of(volume, slices, n, n);
	assert_ok(tomos_phantom_named(&phantom, name, NULL));
	assert_ok(tomos_grid_centred(&g, n, n, slices, step));
	assert_ok(tomos_phantom_volume(phantom, &g, 1, &a));
	tomos_phantom_free(phantom);
}

/* A voxel on the surface is outside, on either side. */
static void test_surface(void **state)
{
	(void)state;
	fill_named("ball", 3, 3, 1);
	assert_near(total(27), 1, 0);
	assert_near(volume[13], 1, 0);
}

/* The bright ellipse above the ventricles is on top of the picture, the smaller one on the
 * right. */
static void test_orientation(void **state)
{
	(void)state;
	fill_named("shepp-logan-2d-modified", 64, 1, 2.0 / 64);
	assert_near(volume[64 * 20 + 32], 0.3, 1e-6);
	assert_near(volume[64 * 43 + 32], 0.2, 1e-6);
	assert_near(volume[64 * 32 + 20], 0, 1e-6);
	assert_near(volume[64 * 32 + 43], 0.2, 1e-6);
}

static void test_threads_and_strides(void **state)
{
	(void)state;
	tomos_phantom *phantom = random_phantom(4, 20);
	tomos_grid g;
	tomos_array a = tomos_array_of(volume, 11, 10, 9), b = a;
	assert_ok(tomos_grid_centred(&g, 9, 10, 11, 0.2));
	assert_ok(tomos_set_threads(1));
	assert_ok(tomos_phantom_volume(phantom, &g, 2, &a));
	for (int threads = 2; threads <= 7; threads += 5) {
		memset(other, 1, sizeof other);
		b.data = other;
		assert_ok(tomos_set_threads(threads));
		assert_ok(tomos_phantom_volume(phantom, &g, 2, &b));
		assert_memory_equal(other, volume, 990 * sizeof *volume);
	}
	assert_ok(tomos_set_threads(0));
	b = (tomos_array){other + 990 * 2 - 2, {11, 10, 9}, {-2, -22, -220}, 0};
	for (int i = 0; i < 990 * 2; i++)
		other[i] = -7;
	assert_ok(tomos_phantom_volume(phantom, &g, 2, &b));
	for (int i = 0; i < 990; i++) {
		assert_near(b.data[i / 90 * -2 + i / 9 % 10 * -22 + i % 9 * -220], volume[i], 0);
		assert_near(other[2 * i + 1], -7, 0);
	}
	tomos_phantom_free(phantom);
}

static void test_rejections(void **state)
{
	(void)state;
	tomos_phantom *ball;
	tomos_grid g, flat;
	tomos_array a = tomos_array_of(volume, 3, 4, 5);
	assert_ok(tomos_phantom_named(&ball, "ball", NULL));
	assert_ok(tomos_grid_centred(&g, 5, 4, 3, 1));
	assert_rejected(
		tomos_phantom_volume(NULL, &g, 1, &a), TOMOS_BAD_VALUE, "there is no phantom");
	assert_rejected(tomos_phantom_volume(ball, &g, 0, &a), TOMOS_BAD_VALUE,
		"phantom: 0 samples per direction, but must be 1 to 1000");
	flat = g;
	flat.step[1] = 0;
	assert_rejected(
		tomos_phantom_volume(ball, &flat, 1, &a), TOMOS_BAD_VALUE, "step along y is 0");
	a.shape[0] = 5;
	assert_rejected(tomos_phantom_volume(ball, &g, 1, &a), TOMOS_BAD_VALUE,
		"the shape of the phantom's volume is 5 x 4 x 5, expected 3 x 4 x 5");
	a.shape[0] = 3;
	a.stride[0] = 0;
	assert_rejected(tomos_phantom_volume(ball, &g, 1, &a), TOMOS_BAD_VALUE, "stride 0 is 0");
	tomos_phantom_free(ball);
}

#define TESTS(T) \
	T(test_values), T(test_averages_converge), T(test_cylinders), T(test_surface), \
		T(test_orientation), T(test_threads_and_strides), T(test_rejections)
TEST_MAIN(TESTS, NULL, NULL)
