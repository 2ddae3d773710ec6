/* Phantoms with projections in closed form, noise, and error measures. */
#ifndef TOMOS_TRUTH_TRUTH_H
#define TOMOS_TRUTH_TRUTH_H

#include "geom/geom.h"

/* Random numbers that depend on the seed and the index only, not on threads or order. */
double random_uniform(uint64_t seed, uint64_t index); /* in (0, 1) */
double random_normal(uint64_t seed, uint64_t index);  /* mean 0, variance 1 */
double random_poisson(uint64_t seed, uint64_t index, double mean);
enum { RANDOM_WORDS = 4 };
void random_words(uint64_t seed, uint64_t index, uint64_t stream, uint32_t words[RANDOM_WORDS]);
#define RANDOM_POISSON_LARGEST 1e15 /* larger doubles are not exact integers */

/* A prepared ellipsoid: x is inside if |to_unit (x - centre)| < 1. The row of an infinite half axis
 * is zero, which makes the ellipsoid a cylinder. */
typedef struct {
	double centre[3];
	double to_unit[3][3];
	double radius; /* of the bounding sphere */
	double value;
} Solid;

struct tomos_phantom {
	int64_t count;
	tomos_ellipsoid *list;
	Solid *solids;
};

/* Rejects a NULL phantom, and a number of samples per direction out of range. */
tomos_status phantom_check(const tomos_phantom *phantom, int64_t samples);

/* The interval of t in which point + t direction (a unit vector) is inside; false if empty. */
bool solid_chord(const Solid *solid, const double point[3], const double direction[3], double *from,
	double *to);

/* tomos_compare of arrays that come in parts along the first axis: all sums first, then SSIM, whose
 * constants depend on the range of all values. */
typedef struct {
	double squares, error_squares, largest, low, high, count;
	double ssim, slices;
} Comparison;
void comparison_begin(Comparison *comparison);
tomos_status comparison_sum(Comparison *comparison, const tomos_array *a, const tomos_array *b);
tomos_status comparison_ssim(Comparison *comparison, const tomos_array *a, const tomos_array *b);
void comparison_end(const Comparison *comparison, tomos_difference *difference);

int64_t array_count(const tomos_array *array);
/* Elements from `index` to the end of the row in C order, before `end`; returns their number. */
int64_t array_run(const tomos_array *array, int64_t index, int64_t end, float **start);

/* Arrays are summed in blocks of this many elements, added in order: the result is the same bits
 * for any number of threads. */
enum { BLOCK = 65536 };
int64_t array_blocks(const tomos_array *array);
void array_visit(const tomos_array *array, int64_t block,
	void (*visit)(void *user, int64_t index, float *element), void *user);

/* Rejects the first wrong element, with its indices and `why` ("must be positive"). */
tomos_status array_reject(const tomos_array *array, const char *what, const char *why,
	bool (*wrong)(const void *user, float value), const void *user);

#endif
