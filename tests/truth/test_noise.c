/* Noise: its level, its statistics, its independence of threads and layout, its rejections. */
#include "truth/truth_test.h"

enum { VIEWS = 3, ROWS = 211, COLUMNS = 331, COUNTED = VIEWS * ROWS * COLUMNS };

static float clean[COUNTED], noisy[COUNTED], again[COUNTED];

static void fill(float *data)
{
	for (int i = 0; i < COUNTED; i++)
		data[i] = (float)(1.5 + sin(i * 0.01));
}

static double norm_of_difference(const float *a, const float *b)
{
	double sum = 0;
	for (int i = 0; i < COUNTED; i++)
		sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
	return sqrt(sum);
}

static int set_up(void **state)
{
	(void)state;
	fill(clean);
	fill(noisy);
	return 0;
}

static void test_gaussian_level(void **state)
{
	(void)state;
	static const float zero[COUNTED];
	static const double levels[] = {0, 0.001, 0.05, 3};
	for (int i = 0; i < COUNT(levels); i++) {
		fill(noisy);
		tomos_array b = tomos_array_of(noisy, VIEWS, ROWS, COLUMNS);
		assert_ok(tomos_noise_gaussian(&b, levels[i], 42));
		double level = norm_of_difference(noisy, clean) / norm_of_difference(clean, zero);
		assert_near(level, levels[i], 2e-8 + 1e-7 * levels[i]);
	}
}

static void test_gaussian_is_normal(void **state)
{
	(void)state;
	double mean = 0, beyond = 0, sigma;
	tomos_array b = tomos_array_of(noisy, VIEWS, ROWS, COLUMNS);
	assert_ok(tomos_noise_gaussian(&b, 0.05, 7));
	sigma = norm_of_difference(noisy, clean) / sqrt(COUNTED);
	for (int i = 0; i < COUNTED; i++) {
		mean += (noisy[i] - clean[i]) / sigma / COUNTED;
		beyond += fabsf(noisy[i] - clean[i]) > sigma;
	}
	assert_near(mean, 0, 5 / sqrt(COUNTED));
	assert_near(beyond / COUNTED, erfc(sqrt(0.5)), 5 * sqrt(0.22 / COUNTED));
}

static void test_gaussian_of_nothing(void **state)
{
	(void)state;
	float zeros[6] = {0};
	tomos_array b = tomos_array_of(zeros, 1, 2, 3);
	assert_ok(tomos_noise_gaussian(&b, 0.1, 1));
	for (int i = 0; i < 6; i++)
		assert_near(zeros[i], 0, 0);
}

/* Counts recovered from -log(n / photons) are whole numbers of the right mean and variance. */
static void test_poisson(void **state)
{
	(void)state;
	static const double photons[] = {20, 1e4};
	for (int k = 0; k < COUNT(photons); k++) {
		double sum = 0, squares = 0;
		fill(noisy);
		tomos_array b = tomos_array_of(noisy, VIEWS, ROWS, COLUMNS);
		assert_ok(tomos_noise_poisson(&b, photons[k], 3));
		for (int i = 0; i < COUNTED; i++) {
			double count = photons[k] * exp(-(double)noisy[i]),
			       mean = photons[k] * exp(-clean[i]);
			assert_near(count, round(count), 1e-6 * photons[k]);
			assert_true(count > 0.99);
			double x = ((count < 1.5 ? mean : count) - mean) / sqrt(mean);
			sum += x;
			squares += x * x;
		}
		assert_near(sum / COUNTED, 0, k == 0 ? 0.2 : 5 / sqrt(COUNTED));
		assert_near(squares / COUNTED, 1, k == 0 ? 0.2 : 5 * sqrt(2.1 / COUNTED));
	}
}

static void test_no_photon_left(void **state)
{
	(void)state;
	float opaque[2] = {1e30f, 200};
	tomos_array b = tomos_array_of(opaque, 1, 1, 2);
	assert_ok(tomos_noise_poisson(&b, 1e4, 1));
	assert_near(opaque[0], log(1e4), 1e-6);
	assert_near(opaque[1], log(1e4), 1e-6);
}

static void make_noise(float *data, const tomos_array *layout, int threads, int kind)
{
	tomos_array b = *layout;
	assert_ok(tomos_set_threads(threads));
	b.data = data;
	assert_ok(kind ? tomos_noise_poisson(&b, 500, 9) : tomos_noise_gaussian(&b, 0.02, 9));
	assert_ok(tomos_set_threads(0));
}

static void test_threads(void **state)
{
	(void)state;
	static const int threads[] = {2, 7};
	tomos_array b = tomos_array_of(NULL, VIEWS, ROWS, COLUMNS);
	for (int kind = 0; kind < 2; kind++) {
		fill(noisy);
		make_noise(noisy, &b, 1, kind);
		for (int i = 0; i < COUNT(threads); i++) {
			fill(again);
			make_noise(again, &b, threads[i], kind);
			assert_memory_equal(again, noisy, sizeof noisy);
		}
	}
}

/* The same numbers whatever the layout; what lies between the elements is left alone. */
static void test_strides(void **state)
{
	(void)state;
	float dense[2 * 3 * 4], wide[2 * 3 * 4 * 2];
	tomos_array b = tomos_array_of(NULL, 2, 3, 4), mirrored = b;
	mirrored.stride[0] = 2;
	mirrored.stride[1] = -16;
	mirrored.stride[2] = 4;
	for (int kind = 0; kind < 2; kind++) {
		for (int i = 0; i < 24; i++)
			dense[i] = wide[2 * i] = 1, wide[2 * i + 1] = -5;
		make_noise(dense, &b, 2, kind);
		make_noise(wide + 32, &mirrored, 2, kind);
		for (int i = 0; i < 24; i++) {
			assert_near(
				wide[32 + i / 12 * 2 - i / 4 % 3 * 16 + i % 4 * 4], dense[i], 0);
			assert_near(wide[2 * i + 1], -5, 0);
		}
	}
}

static void test_rejections(void **state)
{
	(void)state;
	float data[6] = {1, 2, 3, 4, 5, 6};
	tomos_array b = tomos_array_of(data, 1, 2, 3), bad = b;
	assert_rejected(tomos_noise_gaussian(&b, -0.1, 1), TOMOS_BAD_VALUE,
		"Gaussian noise: the level is -0.1, but must be 0 to 1e6");
	assert_rejected(tomos_noise_gaussian(&b, NAN, 1), TOMOS_BAD_VALUE, "the level is nan");
	assert_rejected(tomos_noise_poisson(&b, 0, 1), TOMOS_BAD_VALUE,
		"photon noise: the number of photons is 0, but must be above 0 and at most 1e+15");
	assert_rejected(tomos_noise_poisson(&b, 2e15, 1), TOMOS_BAD_VALUE, "photons is 2e+15");
	assert_rejected(tomos_noise_gaussian(NULL, 0, 1), TOMOS_BAD_VALUE, "there is no array");
	bad.data = NULL;
	assert_rejected(tomos_noise_poisson(&bad, 1, 1), TOMOS_BAD_VALUE, "there is no array");
	bad = b;
	bad.device = 2;
	assert_rejected(tomos_noise_poisson(&bad, 1, 1), TOMOS_UNSUPPORTED,
		"lies on device 2, not in the host's memory");
	bad = b;
	bad.shape[1] = 0;
	assert_rejected(tomos_noise_poisson(&bad, 1, 1), TOMOS_BAD_VALUE, "1 x 0 x 3 is empty");
	bad = b;
	bad.stride[2] = 0;
	assert_rejected(tomos_noise_gaussian(&bad, 1, 1), TOMOS_BAD_VALUE,
		"stride 2 is 0, so its 3 elements are one and the same");
	data[4] = NAN;
	assert_rejected(tomos_noise_gaussian(&b, 1, 1), TOMOS_BAD_VALUE,
		"the array for Gaussian noise has 1 value that is not finite, the first at "
		"[0][1][1]");
	data[4] = -40;
	assert_rejected(tomos_noise_poisson(&b, 1, 1), TOMOS_BAD_VALUE,
		"photon noise: element [0][1][1] is -40, but must let through no more than 1e15 "
		"photons");
	assert_near(data[0], 1, 0);
}

static tomos_status run_one(int kind)
{
	tomos_array b = tomos_array_of(noisy, VIEWS, ROWS, COLUMNS);
	return kind ? tomos_noise_poisson(&b, 500, 9) : tomos_noise_gaussian(&b, 0.02, 9);
}

static void test_memory(void **state)
{
	(void)state;
	int64_t before = mem_live();
	for (int kind = 0; kind < 2; kind++) {
		tomos_status status;
		for (int nth = 1;; nth++) {
			fill(noisy);
			mem_fail_nth(nth);
			status = run_one(kind);
			mem_fail_nth(0);
			assert_int_equal(mem_live(), before);
			if (status == TOMOS_OK)
				break;
			assert_rejected(status, TOMOS_NO_MEMORY, "no memory for the");
			assert_memory_equal(noisy, clean, sizeof clean);
			assert_true(nth < 10);
		}
		assert_memory_not_equal(noisy, clean, sizeof clean);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_gaussian_level, set_up),
		cmocka_unit_test_setup(test_gaussian_is_normal, set_up),
		cmocka_unit_test(test_gaussian_of_nothing),
		cmocka_unit_test_setup(test_poisson, set_up),
		cmocka_unit_test(test_no_photon_left),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_strides),
		cmocka_unit_test(test_rejections),
		cmocka_unit_test_setup(test_memory, set_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
