/* Arrays of callers: construction, checks, and search for values that are not finite. */
#include <stdatomic.h>
#include <string.h>
#include "base/base.h"

enum { TASK_VALUES = 65536 }; /* values checked per task */

tomos_array tomos_array_of(float *data, int64_t n0, int64_t n1, int64_t n2)
{
	tomos_array array = {.data = data, .shape = {n0, n1, n2}, .stride = {n1 * n2, n2, 1}};
	return array;
}

static tomos_status check_shape(const tomos_array *a, const char *what, const int64_t shape[3])
{
	const int64_t *n = a->shape;
	int64_t count;
	if (shape && memcmp(n, shape, sizeof a->shape) != 0)
		return fail(TOMOS_BAD_VALUE,
			"the shape of %s is %lld x %lld x %lld, expected %lld x %lld x %lld", what,
			(long long)n[0], (long long)n[1], (long long)n[2], (long long)shape[0],
			(long long)shape[1], (long long)shape[2]);
	return shape_count(n, &count);
}

static tomos_status check_device(int device, const tomos_array *a, const char *what)
{
	if (a->device == 0)
		return TOMOS_OK;
	if (a->device != device)
		return fail(TOMOS_UNSUPPORTED,
			"the array for %s lies on device %d, not in the host's memory%s", what,
			a->device, device > 0 ? " or on the backend's device" : "");
	if (a->stride[2] != 1 || a->stride[1] != a->shape[2] ||
		a->stride[0] != a->shape[1] * a->shape[2])
		return fail(TOMOS_UNSUPPORTED,
			"the array for %s lies on device %d and is not contiguous", what, device);
	return TOMOS_OK;
}

tomos_status array_check_on(
	int device, const tomos_array *a, const char *what, const int64_t shape[3], ArrayUse use)
{
	if (!a || !a->data)
		return fail(TOMOS_BAD_VALUE, "there is no array for %s", what);
	TRY(check_shape(a, what, shape));
	TRY(check_device(device, a, what));
	for (int i = 0; i < 3; i++)
		if (use == ARRAY_WRITTEN && a->shape[i] > 1 && a->stride[i] == 0)
			return fail(TOMOS_BAD_VALUE,
				"the array for %s: stride %d is 0, so its %lld elements are one "
				"and "
				"the same",
				what, i, (long long)a->shape[i]);
	return TOMOS_OK;
}

tomos_status array_check(
	const tomos_array *a, const char *what, const int64_t shape[3], ArrayUse use)
{
	return array_check_on(0, a, what, shape, use);
}

tomos_status arrays_apart(
	const tomos_array *in, const char *in_what, const tomos_array *out, const char *out_what)
{
	if (in->data != out->data)
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE, "%s and %s are the same memory (%p)", in_what, out_what,
		(void *)in->data);
}

/* Counts values with all exponent bits set (NaN, infinity). Integer arithmetic: compilers may
 * optimise away floating-point tests for NaN. */
static int64_t count_bad(const float *row, int64_t count, int64_t stride)
{
	int64_t bad = 0;
	for (int64_t i = 0; i < count; i++) {
		uint32_t bits;
		memcpy(&bits, row + i * stride, sizeof bits);
		bad += (bits & 0x7f800000u) == 0x7f800000u;
	}
	return bad;
}

typedef struct {
	const tomos_array *array;
	int64_t rows, each;         /* all rows, and rows per task */
	_Atomic int64_t bad, first; /* number of such values; first row with one */
} Search;

static const float *row_of(const tomos_array *a, int64_t row)
{
	return a->data + row / a->shape[1] * a->stride[0] + row % a->shape[1] * a->stride[1];
}

static void search_rows(void *user, int64_t task)
{
	Search *s = user;
	const tomos_array *a = s->array;
	int64_t end = min64((task + 1) * s->each, s->rows);
	for (int64_t row = task * s->each; row < end; row++) {
		int64_t bad = count_bad(row_of(a, row), a->shape[2], a->stride[2]);
		int64_t first = atomic_load(&s->first);
		if (bad == 0)
			continue;
		atomic_fetch_add(&s->bad, bad);
		while (row < first && !atomic_compare_exchange_weak(&s->first, &first, row))
			;
	}
}

/* Number of values that are not finite, and position of the first one. */
static tomos_status find_bad(const tomos_array *a, int64_t at[3], int64_t *bad)
{
	Search s = {.array = a, .rows = a->shape[0] * a->shape[1]};
	s.each = max64(1, TASK_VALUES / a->shape[2]);
	s.first = s.rows;
	TRY(parallel_try((s.rows + s.each - 1) / s.each, search_rows, &s, "the check of an array"));
	int64_t row = s.first;
	*bad = s.bad;
	if (*bad == 0)
		return TOMOS_OK;
	at[0] = row / a->shape[1];
	at[1] = row % a->shape[1];
	at[2] = 0;
	while (!count_bad(row_of(a, row) + at[2] * a->stride[2], 1, 1))
		at[2]++;
	return TOMOS_OK;
}

tomos_status array_finite(const tomos_array *a, const char *what, const char *quote)
{
	int64_t at[3], bad;
	TRY(find_bad(a, at, &bad));
	if (bad == 0)
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE,
		"%s%s%s has %lld value%s that %s not finite, the first at [%lld][%lld][%lld]",
		quote, what, quote, (long long)bad, bad == 1 ? "" : "s", bad == 1 ? "is" : "are",
		(long long)at[0], (long long)at[1], (long long)at[2]);
}

tomos_status tomos_result_check(const tomos_array *result, int64_t first, const char *name)
{
	int64_t at[3], bad;
	TRY(array_check(result, name, NULL, ARRAY_READ));
	TRY(find_bad(result, at, &bad));
	if (bad == 0)
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE,
		"%s: %lld value%s not finite, the first at [%lld][%lld][%lld], so nothing is "
		"written; the data, or lengths and factors among the options, are too large or "
		"too small for 32-bit floats",
		name, (long long)bad, bad == 1 ? " is" : "s are", (long long)(first + at[0]),
		(long long)at[1], (long long)at[2]);
}

tomos_status tomos_array_check(const tomos_array *array, const char *name)
{
	name = name ? name : "an array";
	TRY(array_check(array, name, NULL, ARRAY_READ));
	return array_finite(array, name, "'");
}
