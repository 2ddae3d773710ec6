/* Voxels by their values: air, the object, what is denser. */
#ifndef TOMOS_ALGO_CLASSES_H
#define TOMOS_ALGO_CLASSES_H

#include "base/base.h"

/* The attenuation of the object: half of the sum of all positive values comes from smaller ones.
 * Neither air and streaks, which are many but small, nor a little metal change it much. */
double classes_level(const float *values, int64_t count);
/* The threshold that separates two classes of values > `above` best (N. Otsu 1979). */
double classes_threshold(const float *values, int64_t count, double above);
/* Mean of the values in (low, high], and their number. */
double classes_mean(const float *values, int64_t count, double low, double high, int64_t *found);

#endif
