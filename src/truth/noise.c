/* Gaussian noise of a given relative level and photon noise, both from a seed. */
#include <math.h>
#include "truth/truth.h"

typedef struct {
	double data, noise; /* sums of squares */
} Squares;

typedef struct {
	const tomos_array *b;
	uint64_t seed;
	double amount; /* factor of the normal numbers, or photons */
	void (*change)(void *user, int64_t index, float *element);
	Squares *sums; /* one per block */
} Noise;

static void add_squares(void *user, int64_t index, float *element)
{
	Noise *o = user;
	double b = *element, e = random_normal(o->seed, (uint64_t)index);
	o->sums[index / BLOCK].data += b * b;
	o->sums[index / BLOCK].noise += e * e;
}

static void add_normal(void *user, int64_t index, float *element)
{
	const Noise *o = user;
	*element = (float)(*element + o->amount * random_normal(o->seed, (uint64_t)index));
}

static void count_photons(void *user, int64_t index, float *element)
{
	const Noise *o = user;
	double mean = o->amount * exp(-(double)*element);
	double count = random_poisson(o->seed, (uint64_t)index, mean);
	*element = (float)log(o->amount / fmax(count, 1));
}

static void change_block(void *user, int64_t block)
{
	Noise *o = user;
	array_visit(o->b, block, o->change, o);
}

static tomos_status sum_squares(Noise *o, Squares *sum)
{
	int64_t blocks = array_blocks(o->b);
	TRY(mem_zeroed(&o->sums, blocks, sizeof *o->sums, "the sums of the noise"));
	o->change = add_squares;
	tomos_status status = parallel_try(blocks, change_block, o, "the noise");
	for (int64_t i = 0; i < blocks; i++) {
		sum->data += o->sums[i].data;
		sum->noise += o->sums[i].noise;
	}
	mem_free(o->sums);
	return status;
}

tomos_status tomos_noise_gaussian(const tomos_array *b, double level, uint64_t seed)
{
	TRY(array_check(b, "Gaussian noise", NULL, ARRAY_WRITTEN));
	if (!(level >= 0 && level <= 1e6))
		return fail(TOMOS_BAD_VALUE,
			"Gaussian noise: the level is %g, but must be 0 to 1e6", level);
	TRY(array_finite(b, "the array for Gaussian noise", ""));
	Noise o = {.b = b, .seed = seed};
	Squares sum = {0, 0};
	TRY(sum_squares(&o, &sum));
	o.amount = level * sqrt(sum.data / sum.noise);
	o.change = add_normal;
	return parallel_try(array_blocks(b), change_block, &o, "the noise");
}

static bool too_bright(const void *user, float value)
{
	const double *photons = user;
	return *photons * exp(-(double)value) > RANDOM_POISSON_LARGEST;
}

tomos_status tomos_noise_poisson(const tomos_array *b, double photons, uint64_t seed)
{
	TRY(array_check(b, "photon noise", NULL, ARRAY_WRITTEN));
	if (!(photons > 0 && photons <= RANDOM_POISSON_LARGEST))
		return fail(TOMOS_BAD_VALUE,
			"photon noise: the number of photons is %g, but must be above 0 and at "
			"most %g",
			photons, RANDOM_POISSON_LARGEST);
	TRY(array_finite(b, "the array for photon noise", ""));
	TRY(array_reject(b, "photon noise", "must let through no more than 1e15 photons",
		too_bright, &photons));
	Noise o = {.b = b, .seed = seed, .amount = photons, .change = count_photons};
	return parallel_try(array_blocks(b), change_block, &o, "the noise");
}
