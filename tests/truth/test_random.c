/* The generators: known answers, moments, distributions. */
#include "truth/truth_test.h"

enum { N = 100000 };

/* The answers that come with Random123, the authors' own implementation. */
static void test_known_answers(void **state)
{
	(void)state;
	uint32_t w[RANDOM_WORDS];
	random_words(0, 0, 0, w);
	assert_memory_equal(w, ((uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}), 16);
	random_words(UINT64_MAX, UINT64_MAX, UINT64_MAX, w);
	assert_memory_equal(w, ((uint32_t[]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}), 16);
	random_words(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e, w);
	assert_memory_equal(w, ((uint32_t[]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}), 16);
}

typedef struct {
	double mean, variance;
} Moments;

static Moments moments(double (*draw)(uint64_t index, double parameter), double parameter)
{
	double sum = 0, squares = 0, first = draw(0, parameter);
	for (uint64_t i = 0; i < N; i++) {
		double x = draw(i, parameter) - first;
		sum += x;
		squares += x * x;
	}
	double mean = sum / N;
	return (Moments){first + mean, (squares - sum * mean) / (N - 1)};
}

static double draw_uniform(uint64_t index, double seed)
{
	double x = random_uniform((uint64_t)seed, index);
	assert_true(x > 0 && x < 1);
	return x;
}

static double draw_normal(uint64_t index, double seed)
{
	return random_normal((uint64_t)seed, index);
}

static double draw_poisson(uint64_t index, double mean)
{
	double k = random_poisson(11, index, mean);
	assert_true(k >= 0 && k == floor(k));
	return k;
}

static void test_uniform(void **state)
{
	(void)state;
	for (int seed = 0; seed < 3; seed++) {
		Moments m = moments(draw_uniform, seed);
		assert_near(m.mean, 0.5, 5 * sqrt(1 / 12.0 / N));
		assert_near(m.variance, 1 / 12.0, 5 * sqrt(1 / 180.0 / N));
	}
}

static void test_normal(void **state)
{
	(void)state;
	Moments m = moments(draw_normal, 5);
	assert_near(m.mean, 0, 5 / sqrt(N));
	assert_near(m.variance, 1, 5 * sqrt(2.0 / N));
	int beyond[4] = {0};
	for (uint64_t i = 0; i < N; i++)
		for (int k = 0; k < 4; k++)
			beyond[k] += random_normal(5, i) > k;
	for (int k = 0; k < 4; k++) {
		double p = 0.5 * erfc(k / sqrt(2));
		assert_near(beyond[k], N * p, 5 * sqrt(N * p));
	}
}

/* Neighbours in index and in seed, and the kinds of one seed, know nothing of each other. */
static void test_independent(void **state)
{
	(void)state;
	double next = 0, seed = 0, kind = 0;
	for (uint64_t i = 0; i < N; i++) {
		double x = random_normal(1, i);
		next += x * random_normal(1, i + 1);
		seed += x * random_normal(2, i);
		kind += x * (random_uniform(1, i) - 0.5) * sqrt(12);
	}
	assert_near(next / N, 0, 5 / sqrt(N));
	assert_near(seed / N, 0, 5 / sqrt(N));
	assert_near(kind / N, 0, 5 / sqrt(N));
}

static void test_poisson_moments(void **state)
{
	(void)state;
	static const double means[] = {0.1, 3, 9.99, 10, 30, 1e5, 1e10, 1e15};
	for (int i = 0; i < COUNT(means); i++) {
		double m = means[i];
		Moments found = moments(draw_poisson, m);
		assert_near(found.mean, m, 5 * sqrt(m / N));
		assert_near(found.variance, m, 5 * sqrt((m + 2 * m * m) / N));
	}
	assert_near(random_poisson(1, 1, 0), 0, 0);
	assert_near(random_poisson(1, 1, -3), 0, 0);
	assert_near(random_poisson(1, 1, NAN), 0, 0);
}

/* Chi-square against the probabilities themselves. */
static void check_poisson(double mean)
{
	enum { BINS = 80 };
	int64_t seen[BINS] = {0};
	double chi2 = 0, tail = N, tail_seen = N, p = exp(-mean);
	int bins = 0;
	for (uint64_t i = 0; i < N; i++)
		seen[(int)fmin(random_poisson(3, i, mean), BINS - 1)]++;
	for (int k = 0; k < BINS && tail - N * p > 20; p *= mean / ++k) {
		if (N * p < 20)
			continue;
		tail -= N * p;
		tail_seen -= (double)seen[k];
		chi2 += ((double)seen[k] - N * p) * ((double)seen[k] - N * p) / (N * p);
		bins++;
	}
	chi2 += (tail_seen - tail) * (tail_seen - tail) / tail;
	assert_true(bins > 1);
	assert_near(chi2, bins, 5 * sqrt(2 * bins));
}

static void test_poisson_distribution(void **state)
{
	(void)state;
	static const double means[] = {0.5, 3, 9, 10, 12.5, 17, 40};
	for (int i = 0; i < COUNT(means); i++)
		check_poisson(means[i]);
}

#define TESTS(T) \
	T(test_known_answers), T(test_uniform), T(test_normal), T(test_independent), \
		T(test_poisson_moments), T(test_poisson_distribution)
TEST_MAIN(TESTS, NULL, NULL)
