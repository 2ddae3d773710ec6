/* Objects whose projections are known in closed form, noise, and measures of difference. */
#ifndef TRUTH_H
#define TRUTH_H

#include "geom/geom.h"

/* Random numbers that depend on the seed and the index alone, so on no thread and no order. */
double random_uniform(uint64_t seed, uint64_t index);           /* in (0, 1) */
double random_normal(uint64_t seed, uint64_t index);            /* mean 0, variance 1 */
double random_poisson(uint64_t seed, uint64_t index, double mean);

#endif
