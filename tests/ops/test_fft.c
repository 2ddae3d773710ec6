/* Fourier transforms on the CPU against sums in double precision. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "backend/cpu/cpu.h"
#include "backend/fft.h"
#include "base/test_main.h"

static const char *const levels[] = {"base", "avx2", "avx512", "neon"};
enum { LEVELS = sizeof levels / sizeof levels[0], MOST_LENGTH = 16384 };

static const int64_t lengths[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 30, 31,
	32, 49, 64, 97, 105, 121, 128, 210, 243, 251, 256, 343, 500, 625, 1001, 1024, 1440, 2048,
	2310, 3000, 4096, 5001, 6000, 8192, MOST_LENGTH};
enum { COUNT_LENGTHS = sizeof lengths / sizeof lengths[0] };

static uint64_t state = 1;

static float noise(void)
{
	state = state * 6364136223846793005U + 1442695040888963407U;
	return (float)(int32_t)(state >> 32) * 0x1p-31F;
}

/* Frequency k of the sequence in a lane of the data. */
static void sum_directly(
	const float *data, int64_t length, int lanes, int lane, int64_t k, double sum[2])
{
	sum[0] = sum[1] = 0;
	for (int64_t i = 0; i < length; i++) {
		double angle = -2 * M_PI * (double)(i * k % length) / (double)length;
		double re = data[2 * i * lanes + lane], im = data[(2 * i + 1) * lanes + lane];
		sum[0] += re * cos(angle) - im * sin(angle);
		sum[1] += re * sin(angle) + im * cos(angle);
	}
}

/* Relative error of some frequencies in all lanes. */
static double forward_error(const Fft *fft, const float *in, const float *out, int64_t length)
{
	int lanes = fft_lanes(fft);
	double error = 0, all = 0;
	int64_t every = length / 40 + 1;
	for (int64_t k = 0; k < length; k += every) {
		int lane = (int)(k % lanes);
		const float *at = out + 2 * fft_position(fft, k) * lanes + lane;
		double sum[2];
		sum_directly(in, length, lanes, lane, k, sum);
		error += pow(sum[0] - at[0], 2) + pow(sum[1] - at[lanes], 2);
		all += sum[0] * sum[0] + sum[1] * sum[1];
	}
	return sqrt(error / all);
}

static void check_length(int64_t length)
{
	Fft *fft;
	assert_int_equal(fft_open(&fft, length), TOMOS_OK);
	int64_t floats = fft_floats(fft), count = length * 2 * fft_lanes(fft);
	float *in = malloc((size_t)floats * sizeof *in), *data;
	assert_int_equal(mem_alloc(&data, floats, sizeof *data, "data"), TOMOS_OK);
	for (int64_t i = 0; i < floats; i++)
		data[i] = in[i] = noise();
	fft_forward(fft, data);
	double error = forward_error(fft, in, data, length), back = 0, all = 0;
	if (error > 5e-7)
		fail_msg("length %lld: error %g", (long long)length, error);
	fft_inverse(fft, data);
	for (int64_t i = 0; i < count; i++) {
		back += pow(data[i] / (double)length - in[i], 2);
		all += pow(in[i], 2);
	}
	if (sqrt(back / all) > 8e-7)
		fail_msg("length %lld: back %g", (long long)length, sqrt(back / all));
	free(in);
	mem_free(data);
	fft_close(fft);
}

static bool choose_level(const char *name)
{
	const CpuLevel *level;
	setenv("TOMOS_CPU", name, 1);
	bool has = cpu_level_choose(&level) == TOMOS_OK;
	if (!has)
		printf("%s: not on this processor, skipped\n", name);
	return has;
}

static void test_lengths(void **unused)
{
	(void)unused;
	for (int l = 0; l < LEVELS; l++)
		for (int i = 0; i < COUNT_LENGTHS && (i > 0 || choose_level(levels[l])); i++)
			check_length(lengths[i]);
	unsetenv("TOMOS_CPU");
}

/* Rows that are not aligned, in parts that are not multiples of the lanes. */
static void test_rows(void **unused)
{
	(void)unused;
	enum { LENGTH = 61, STRIDE = 67, MOST = 16, FROM = 3, TO = 54 };
	static float in[MOST * STRIDE], out[MOST * STRIDE];
	const float *from[MOST];
	float *to[MOST], *data;
	for (int l = 0; l < LEVELS; l++) {
		Fft *fft;
		if (!choose_level(levels[l]))
			continue;
		assert_int_equal(fft_open(&fft, LENGTH), TOMOS_OK);
		assert_int_equal(mem_zeroed(&data, fft_floats(fft), sizeof *data, "d"), TOMOS_OK);
		int lanes = fft_lanes(fft);
		for (int i = 0; i < MOST * STRIDE; i++)
			in[i] = noise(), out[i] = -7;
		for (int i = 0; i < lanes; i++)
			from[i] = in + i * STRIDE, to[i] = out + i * STRIDE;
		for (int part = 0; part < 2; part++) {
			fft_gather(fft, from, FROM, TO, part, data);
			for (int i = 0; i < LENGTH; i++)
				for (int k = 0; k < lanes; k++) {
					float is = data[(2 * i + part) * lanes + k];
					bool copied = i >= FROM && i < TO;
					assert_true(is == (copied ? from[k][i] : 0));
				}
			fft_scatter(fft, data, FROM, TO, part, to);
			for (int i = 0; i < lanes * STRIDE; i++) {
				bool copied = i % STRIDE >= FROM && i % STRIDE < TO;
				assert_true(out[i] == (copied ? in[i] : -7));
			}
			assert_true(part == 1 || data[lanes] == 0);
		}
		mem_free(data);
		fft_close(fft);
	}
	unsetenv("TOMOS_CPU");
}

static void test_even(void **unused)
{
	(void)unused;
	static const int64_t even[] = {2, 4, 6, 14, 40, 64, 1008};
	for (int l = 0; l < 7; l++) {
		int64_t n = even[l];
		double values[505], wanted[505];
		for (int64_t i = 0; i <= n / 2; i++)
			values[i] = (double)noise();
		for (int64_t k = 0; k <= n / 2; k++) {
			wanted[k] = 0;
			for (int64_t i = 0; i < n; i++)
				wanted[k] += values[i < n - i ? i : n - i] *
					     cos(2 * M_PI * (double)(i * k % n) / (double)n);
		}
		assert_int_equal(fft_even(values, n), TOMOS_OK);
		for (int64_t k = 0; k <= n / 2; k++)
			assert_true(fabs(values[k] - wanted[k]) < 1e-11);
	}
}

static void test_rejected(void **unused)
{
	(void)unused;
	Fft *fft;
	assert_int_equal(fft_open(&fft, 0), TOMOS_BAD_VALUE);
	assert_int_equal(fft_open(&fft, -5), TOMOS_BAD_VALUE);
}

#define TESTS(T) T(test_lengths), T(test_rows), T(test_even), T(test_rejected)
TEST_MAIN(TESTS, NULL, NULL)
