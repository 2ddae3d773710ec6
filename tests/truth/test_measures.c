/* Measures of difference against values made by hand and by the plainest loop. */
#include "truth/truth_test.h"

static tomos_difference compare(const tomos_array *a, const tomos_array *b)
{
	tomos_difference d = {.bytes = sizeof d};
	assert_ok(tomos_compare(a, b, &d));
	return d;
}

static void test_by_hand(void **state)
{
	(void)state;
	float p[4] = {0, 1, 2, 3}, q[4] = {0.5f, 1, 2, 2};
	tomos_array a = tomos_array_of(p, 1, 2, 2), b = tomos_array_of(q, 1, 2, 2);
	tomos_difference d = compare(&a, &b);
	assert_near(d.relative_l2, sqrt(1.25 / 14), 1e-15);
	assert_near(d.psnr, 20 * log10(3 / sqrt(1.25 / 4)), 1e-12);
	assert_near(d.largest, 1, 0);
	/* 2 x 2: windows of one pixel, so only the means count. c1 = (0.01 * 3)^2. */
	double c = 0.0009;
	assert_near(d.ssim, (c / (0.25 + c) + 1 + 1 + (12 + c) / (13 + c)) / 4, 1e-15);
}

static void test_equal(void **state)
{
	(void)state;
	float p[8 * 9];
	for (int i = 0; i < 72; i++)
		p[i] = (float)(i % 7) * 0.3f;
	tomos_array a = tomos_array_of(p, 1, 8, 9);
	tomos_difference d = compare(&a, &a);
	assert_near(d.relative_l2, 0, 0);
	assert_near(d.largest, 0, 0);
	assert_near(d.ssim, 1, 1e-15);
	assert_true(d.psnr == INFINITY);
}

static void test_constant(void **state)
{
	(void)state;
	float p[70], q[70], zero[70] = {0};
	for (int i = 0; i < 70; i++)
		p[i] = 0.1f, q[i] = 0.2f;
	tomos_array a = tomos_array_of(p, 1, 7, 10), b = tomos_array_of(q, 1, 7, 10),
		    z = tomos_array_of(zero, 1, 7, 10);
	tomos_difference d = compare(&a, &b);
	assert_near(d.relative_l2, 1, 1e-12);
	assert_near(d.ssim, 0.8, 1e-12);
	assert_true(d.psnr == -INFINITY);
	assert_true(compare(&z, &a).relative_l2 == INFINITY);
	assert_near(compare(&z, &z).relative_l2, 0, 0);
	assert_near(compare(&z, &z).ssim, 1, 0);
	assert_near(compare(&z, &a).ssim, 0, 0);
}

/* Means and unbiased variances by two passes over each window. */
static double plain_window(const float *a, const float *b, int64_t nx, int wy, int wx, double range)
{
	double n = wy * wx, ma = 0, mb = 0, va = 0, vb = 0, vab = 0;
	double c1 = pow(0.01 * range, 2), c2 = pow(0.03 * range, 2);
	for (int i = 0; i < wy * wx; i++) {
		ma += a[i / wx * nx + i % wx] / n;
		mb += b[i / wx * nx + i % wx] / n;
	}
	for (int i = 0; i < wy * wx; i++) {
		double p = a[i / wx * nx + i % wx] - ma, q = b[i / wx * nx + i % wx] - mb;
		va += p * p / (n - 1);
		vb += q * q / (n - 1);
		vab += p * q / (n - 1);
	}
	return (2 * ma * mb + c1) * (2 * vab + c2) / ((ma * ma + mb * mb + c1) * (va + vb + c2));
}

static double plain_ssim(
	const float *a, const float *b, const int64_t n[3], int wy, int wx, double range)
{
	double sum = 0, count = 0;
	for (int64_t z = 0; z < n[0]; z++)
		for (int64_t y = 0; y + wy <= n[1]; y++)
			for (int64_t x = 0; x + wx <= n[2]; x++, count++) {
				int64_t at = (z * n[1] + y) * n[2] + x;
				sum += plain_window(a + at, b + at, n[2], wy, wx, range);
			}
	return sum / count;
}

enum { MOST = 4 * 45 * 300 };
static float first[MOST], second[MOST];

static double fill(int64_t count, double offset)
{
	double low = INFINITY, high = -INFINITY;
	for (int64_t i = 0; i < count; i++) {
		first[i] = (float)(offset + random_normal(1, (uint64_t)i) + (i / 50 % 2));
		second[i] = (float)(first[i] + 0.5 * random_normal(2, (uint64_t)i));
		low = fmin(low, first[i]);
		high = fmax(high, first[i]);
	}
	return high - low;
}

static void check_ssim(int64_t nz, int64_t ny, int64_t nx, int wy, int wx, double offset)
{
	int64_t n[3] = {nz, ny, nx};
	double range = fill(nz * ny * nx, offset);
	tomos_array a = tomos_array_of(first, nz, ny, nx), b = tomos_array_of(second, nz, ny, nx);
	assert_near(compare(&a, &b).ssim, plain_ssim(first, second, n, wy, wx, range), 1e-9);
}

static void test_ssim(void **state)
{
	(void)state;
	check_ssim(1, 7, 7, 7, 7, 0);
	check_ssim(2, 9, 8, 7, 7, 0);
	check_ssim(1, 45, 300, 7, 7, 0);
	check_ssim(4, 40, 141, 7, 7, 1000);
	check_ssim(3, 6, 20, 5, 7, 0);
	check_ssim(3, 3, 4, 3, 3, 0);
	check_ssim(5, 1, 30, 1, 7, 0);
}

static void test_threads_and_strides(void **state)
{
	(void)state;
	fill(MOST, 0);
	tomos_array a = tomos_array_of(first, 4, 45, 300), b = tomos_array_of(second, 4, 45, 300);
	assert_ok(tomos_set_threads(1));
	tomos_difference one = compare(&a, &b), other;
	for (int threads = 2; threads <= 7; threads += 5) {
		assert_ok(tomos_set_threads(threads));
		other = compare(&a, &b);
		assert_memory_equal(&one, &other, sizeof one);
	}
	assert_ok(tomos_set_threads(0));
	tomos_array up = tomos_array_of(first, 4, 45, 150), vp = tomos_array_of(second, 4, 45, 150);
	static float dense_a[MOST / 2], dense_b[MOST / 2];
	for (int i = 0; i < MOST / 2; i++) {
		dense_a[i] = first[2 * i];
		dense_b[i] = second[2 * i];
	}
	for (int i = 0; i < 3; i++) {
		up.stride[i] = (int64_t[]){45 * 300, 300, 2}[i];
		vp.stride[i] = up.stride[i];
	}
	a = tomos_array_of(dense_a, 4, 45, 150);
	b = tomos_array_of(dense_b, 4, 45, 150);
	one = compare(&a, &b);
	other = compare(&up, &vp);
	assert_memory_equal(&one, &other, sizeof one);
}

static void test_rejections(void **state)
{
	(void)state;
	float p[12] = {0}, q[12] = {0};
	tomos_difference d = {.bytes = sizeof d};
	tomos_array a = tomos_array_of(p, 2, 2, 3), b = tomos_array_of(q, 2, 3, 2);
	assert_rejected(tomos_compare(&a, &b, &d), TOMOS_BAD_VALUE,
		"the shape of the second to compare is 2 x 3 x 2, expected 2 x 2 x 3");
	b = tomos_array_of(q, 2, 2, 3);
	p[11] = INFINITY;
	assert_rejected(tomos_compare(&a, &b, &d), TOMOS_BAD_VALUE,
		"the first to compare has 1 value that is not finite, the first at [1][1][2]");
	p[11] = 0;
	q[4] = q[7] = NAN;
	assert_rejected(tomos_compare(&a, &b, &d), TOMOS_BAD_VALUE,
		"the second to compare has 2 values that are not finite, the first at [0][1][1]");
	assert_rejected(tomos_compare(NULL, &b, &d), TOMOS_BAD_VALUE, "there is no array");
}

static void test_memory(void **state)
{
	(void)state;
	float p[6] = {1, 2, 3, 4, 5, 6};
	tomos_array a = tomos_array_of(p, 1, 2, 3);
	tomos_difference d = {.bytes = sizeof d};
	int64_t before = mem_live();
	int failures = 0;
	for (;; failures++) {
		mem_fail_nth(failures + 1);
		tomos_status status = tomos_compare(&a, &a, &d);
		mem_fail_nth(0);
		assert_int_equal(mem_live(), before);
		if (status == TOMOS_OK)
			break;
		assert_rejected(status, TOMOS_NO_MEMORY, "no memory for the");
	}
	assert_int_equal(failures, 2);
}

#define TESTS(T) \
	T(test_by_hand), T(test_equal), T(test_constant), T(test_ssim), \
		T(test_threads_and_strides), T(test_rejections), T(test_memory)
TEST_MAIN(TESTS, NULL, NULL)
