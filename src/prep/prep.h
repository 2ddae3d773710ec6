/* From counts to line integrals: declarations common to the steps. Each step names its papers. */
#ifndef TOMOS_PREP_PREP_H
#define TOMOS_PREP_PREP_H

#include <math.h>
#include <string.h>
#include "base/base.h"

/* ---- parallel work on parts of the caller's array -------------------------------------------- */

typedef void (*PieceTask)(const void *job, int64_t index, float *scratch);
/* Runs task(job, 0 .. count-1) on all threads, with `floats` of scratch memory each. */
tomos_status pieces_each(int64_t count, int64_t floats, PieceTask task, const void *job);

static inline float *array_row(const tomos_array *a, int64_t view, int64_t row)
{
	return a->data + view * a->stride[0] + row * a->stride[1];
}

void row_get(const tomos_array *a, int64_t view, int64_t row, float *out);
void row_put(const tomos_array *a, int64_t view, int64_t row, const float *in);
/* One row of all views [view][column]; one view [row][column]. */
void sinogram_get(const tomos_array *a, int64_t row, float *out);
void sinogram_put(const tomos_array *a, int64_t row, const float *in);
void frame_get(const tomos_array *a, int64_t view, float *out);
void frame_put(const tomos_array *a, int64_t view, const float *in);

/* Interpolates values that are not finite from the nearest finite ones of the row, or sets them to
 * `none` if there are none; returns their number. */
int64_t row_repair(float *row, int64_t columns, float none);
/* Raises finite values below the floor to it; returns their number. */
int64_t row_raise(float *row, int64_t columns, float floor);

/* Index i of a list of `count` that is extended by its mirror images. */
static inline int64_t index_mirrored(int64_t i, int64_t count)
{
	int64_t at = i % (2 * count);
	if (at < 0)
		at += 2 * count;
	return at < count ? at : 2 * count - 1 - at;
}

/* ---- medians --------------------------------------------------------------------------------- */

/* Maps floats to integers of the same order, and back. */
static inline uint32_t key_of(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static inline float value_of(uint32_t key)
{
	uint32_t bits = key & 0x80000000u ? key & 0x7fffffffu : ~key;
	float value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

/* Reorders the values: afterwards none before values[k] is larger, none after it smaller. */
void select_kth(float *values, int64_t count, int64_t k);
/* The middle value, or the mean of the two; reorders the values. */
float median_of(float *values, int64_t count);
/* The same of a long list; faster. */
float median_many(float *values, int64_t count);
/* out[i] = median of data[line][i] and of the same position in the `size` (odd) lines around it,
 * and next[i] that of the next line; beyond the first and last line they are mirrored. False: not
 * for this size, nothing is done. */
bool median_lines(const float *data, int64_t lines, int64_t count, int64_t line, int64_t size,
	float *out, float *next);
/* out[i] = median of the `size` (odd) values around in[i]; beyond the ends the row is mirrored.
 * `window` is scratch of `size` floats. */
void median_row(const float *in, float *out, int64_t count, int64_t size, float *window);

/* ---- steps ----------------------------------------------------------------------------------- */

tomos_status prep_take(tomos_prep_options *o, const tomos_prep_options *given);
/* Adds to the caller's report, which may be NULL; found NULL: only checks it, before the work. */
tomos_status report_add(tomos_prep_report *report, const tomos_prep_report *found);
/* Options, report and array of a step that changes `data`; `what` names the data in messages. */
tomos_status prep_begin(tomos_prep_options *o, const tomos_prep_options *given,
	tomos_prep_report *report, const tomos_array *data, const char *what);
/* Rejects options that have no effect on data of that quantity with these flats. */
tomos_status prep_need(
	const tomos_prep_options *o, const tomos_fields *fields, const char *quantity);
tomos_status prep_size(const char *name, int64_t size); /* odd, at least 1 */

/* Replaces the wedge of the options by a polynomial, which is kept in `coefficients`. */
enum { WEDGE_TERMS = 3 };
tomos_status wedge_take(tomos_prep_options *o, double coefficients[WEDGE_TERMS]);
tomos_status wedge_check(const tomos_prep_options *o);
/* Rejects values that are still to be found from the scan. */
tomos_status automatic_check(const tomos_prep_options *o);

/* Checks of the options of single steps, as the steps do them. */
tomos_status zingers_check(const tomos_prep_options *o);
tomos_status shift_check(const tomos_prep_options *o, const int64_t shape[3]);
tomos_status shift_count_check(const char *name, int64_t count, int64_t views);
/* The strength z delta / mu of phase retrieval, in pixels squared. */
tomos_status phase_strength(const tomos_prep_options *o, double *strength);

/* Each method corrects one sinogram in place, with the scratch given by its ..._floats function,
 * and returns the number of stripes found. */
typedef struct {
	const tomos_prep_options *options;
	int64_t views, columns;
	void *own; /* data of the method */
} RingJob;
/* The method that sees all rows of the data, and the rows and columns around each that it needs. */
enum { RING_PIXELS_REACH = 12 };
tomos_status ring_pixels(const tomos_array *data);
/* Checks the options of the method, by its number among the values of the option. */
tomos_status rings_check(const tomos_prep_options *o, int64_t views, int64_t columns, int *method);
/* Width of the medians for small and large stripes: as given, or 1 % and 3 % of the columns within
 * limits. */
int64_t ring_vo_small(const tomos_prep_options *o, int64_t columns);
int64_t ring_vo_large(const tomos_prep_options *o, int64_t columns);
int64_t ring_vo_floats(const RingJob *job);
int64_t ring_vo(const RingJob *job, float *sinogram, float *scratch);
int64_t ring_titarenko_floats(const RingJob *job);
int64_t ring_titarenko(const RingJob *job, float *sinogram, float *scratch);
tomos_status ring_wavelet_open(RingJob *job);
void ring_wavelet_close(RingJob *job);
int64_t ring_wavelet_floats(const RingJob *job);
int64_t ring_wavelet(const RingJob *job, float *sinogram, float *scratch);

/* ---- Daubechies' wavelets -------------------------------------------------------------------- */

enum { WAVELET_TAPS = 20 };
/* The 2 `moments` coefficients of the low-pass and high-pass filters, 1 <= moments <= 10; the sum
 * of the low-pass filter is sqrt 2. */
void wavelet_make(int moments, double low[WAVELET_TAPS], double high[WAVELET_TAPS]);
/* One level of the periodic transform of an even number of values, and its inverse: averages first,
 * then details. scratch: wavelet_floats of that number, aligned for doubles. */
void wavelet_forth(const double *low, const double *high, int taps, const float *in, int64_t count,
	float *out, float *scratch);
void wavelet_back(const double *low, const double *high, int taps, const float *in, int64_t count,
	float *out, float *scratch);
int64_t wavelet_floats(int64_t count);
/* sums[c] = the sum over i of weights[i] lines[i][c]. */
void lines_sum(const double *weights, const float *const *lines, int64_t count, int64_t columns,
	double *sums);

/* The steps that run, a line each: "zingers: space, zinger-level 0.1, zinger-size 3". */
tomos_status prep_describe(
	const tomos_prep_options *given, const tomos_fields *fields, char *text, size_t size);

#endif
