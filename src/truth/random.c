/* Counter-based random numbers: Philox 4x32-10, with uniform, normal and Poisson distributions.
 *
 * J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, Parallel random numbers: as easy as 1, 2, 3,
 * SC11, 2011. G. E. P. Box, M. E. Muller, A note on the generation of random normal deviates, Ann.
 * Math. Stat. 29, 1958. W. Hörmann, The transformed rejection method for generating Poisson random
 * variables, Insurance: Mathematics and Economics 12, 1993 (PTRS). C. Loader, Fast and accurate
 * computation of binomial probabilities, 2000 (deviance that is accurate for large means).
 */
#include <math.h>
#include "truth/truth.h"

#define TWO_PI 6.283185307179586476925

/* Each distribution has a stream of its own, so that one seed serves all of them. */
enum { UNIFORM_STREAM = 0, NORMAL_STREAM = 1, POISSON_STREAM = 2 };

void random_words(uint64_t seed, uint64_t index, uint64_t stream, uint32_t w[RANDOM_WORDS])
{
	uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
	w[0] = (uint32_t)index;
	w[1] = (uint32_t)(index >> 32);
	w[2] = (uint32_t)stream;
	w[3] = (uint32_t)(stream >> 32);
	for (int round = 0; round < 10; round++) {
		uint64_t a = (uint64_t)w[0] * 0xD2511F53u, b = (uint64_t)w[2] * 0xCD9E8D57u;
		w[0] = (uint32_t)(b >> 32) ^ w[1] ^ key0;
		w[1] = (uint32_t)b;
		w[2] = (uint32_t)(a >> 32) ^ w[3] ^ key1;
		w[3] = (uint32_t)a;
		key0 += 0x9E3779B9u;
		key1 += 0xBB67AE85u;
	}
}

/* 52 bits plus one half: never 0, never 1. */
static double to_uniform(uint32_t high, uint32_t low)
{
	uint64_t bits = (uint64_t)high << 32 | low;
	return ((double)(bits >> 12) + 0.5) * 0x1p-52;
}

/* Draw number `draw` of a stream: two uniform numbers. */
static void uniform_pair(
	uint64_t seed, uint64_t index, uint32_t stream, uint32_t draw, double pair[2])
{
	uint32_t w[RANDOM_WORDS];
	random_words(seed, index, (uint64_t)stream << 32 | draw, w);
	pair[0] = to_uniform(w[0], w[1]);
	pair[1] = to_uniform(w[2], w[3]);
}

double random_uniform(uint64_t seed, uint64_t index)
{
	double pair[2];
	uniform_pair(seed, index, UNIFORM_STREAM, 0, pair);
	return pair[0];
}

double random_normal(uint64_t seed, uint64_t index)
{
	double pair[2];
	uniform_pair(seed, index, NORMAL_STREAM, 0, pair);
	return sqrt(-2 * log(pair[0])) * cos(TWO_PI * pair[1]);
}

/* Number of arrivals before time `mean`, with exponential waiting times. */
static double poisson_small(uint64_t seed, uint64_t index, double mean)
{
	double limit = exp(-mean), product = 1, pair[2] = {1, 1};
	for (uint32_t k = 0;; k++) {
		if (k % 2 == 0)
			uniform_pair(seed, index, POISSON_STREAM, k / 2, pair);
		product *= pair[k % 2];
		if (product <= limit)
			return k;
	}
}

/* Log of the probability of k, without differences of large numbers. */
static double poisson_log(double k, double mean)
{
	if (k < 16)
		return k * log(mean) - mean - log(tgamma(k + 1));
	double excess = (mean - k) / k, q = 1 / (k * k);
	double stirling = (1.0 / 12 - q * (1.0 / 360 - q / 1260)) / k;
	return k * (log1p(excess) - excess) - 0.5 * log(TWO_PI * k) - stirling;
}

static double poisson_large(uint64_t seed, uint64_t index, double mean)
{
	double b = 0.931 + 2.53 * sqrt(mean), a = -0.059 + 0.02483 * b;
	double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), squeeze = 0.9277 - 3.6224 / (b - 2);
	for (uint32_t draw = 0;; draw++) {
		double pair[2];
		uniform_pair(seed, index, POISSON_STREAM, draw, pair);
		double u = pair[0] - 0.5, v = pair[1], edge = 0.5 - fabs(u);
		double k = floor((2 * a / edge + b) * u + mean + 0.43);
		if (edge >= 0.07 && v <= squeeze)
			return k;
		if (k < 0 || (edge < 0.013 && v > edge))
			continue;
		if (log(v * inverse_alpha / (a / (edge * edge) + b)) <= poisson_log(k, mean))
			return k;
	}
}

double random_poisson(uint64_t seed, uint64_t index, double mean)
{
	if (!(mean > 0))
		return 0;
	return mean < 10 ? poisson_small(seed, index, mean) : poisson_large(seed, index, mean);
}
