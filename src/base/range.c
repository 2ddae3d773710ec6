/* Ranges of numeric options: the table TOMOS_OPTION_RANGES, checked by every function that takes
 * options. */
#include <math.h>
#include <string.h>
#include "base/base.h"

typedef struct {
	const char *group, *name;
	tomos_option_kind kind;
	size_t offset, count_offset;
	double low, high;
	bool automatic; /* NAN, alone, is allowed */
} Range;

#define RANGE_INT(group, name, low, high) \
	{#group, #name, TOMOS_INT, offsetof(tomos_##group##_options, name), 0, low, high, false},
#define RANGE_ONE(group, name, low, high, automatic) \
	{#group, #name, TOMOS_REAL, offsetof(tomos_##group##_options, name), 0, low, high, \
		automatic},
#define RANGE_LIST(group, name, low, high, automatic) \
	{#group, #name, TOMOS_REALS, offsetof(tomos_##group##_options, name), \
		offsetof(tomos_##group##_options, name##_count), low, high, automatic},
#define RANGE_REAL(group, name, low, high) RANGE_ONE(group, name, low, high, false)
#define RANGE_REAL_AUTO(group, name, low, high) RANGE_ONE(group, name, low, high, true)
#define RANGE_REALS(group, name, low, high) RANGE_LIST(group, name, low, high, false)
#define RANGE_REALS_AUTO(group, name, low, high) RANGE_LIST(group, name, low, high, true)
#define RANGE(kind, group, name, low, high) RANGE_##kind(group, name, low, high)

static const Range ranges[] = {TOMOS_OPTION_RANGES(RANGE)};

static tomos_status check_whole(const Range *range, const char *field)
{
	int64_t value;
	memcpy(&value, field, sizeof value);
	if (value >= (int64_t)range->low && value <= (int64_t)range->high)
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE, "%s %lld: it must be from %.10g to %.10g", range->name,
		(long long)value, range->low, range->high);
}

static tomos_status check_reals(const Range *range, const double *values, int64_t count)
{
	if (range->automatic && count == 1 && isnan(values[0]))
		return TOMOS_OK;
	for (int64_t i = 0; i < count; i++)
		if (!(values[i] >= range->low && values[i] <= range->high))
			return fail(TOMOS_BAD_VALUE, "%s %g: it must be from %g to %g", range->name,
				values[i], range->low, range->high);
	return TOMOS_OK;
}

static tomos_status check(const Range *range, const char *options)
{
	const double *list;
	double value;
	int64_t count;
	if (range->kind == TOMOS_INT)
		return check_whole(range, options + range->offset);
	if (range->kind == TOMOS_REAL) {
		memcpy(&value, options + range->offset, sizeof value);
		return check_reals(range, &value, 1);
	}
	memcpy(&list, options + range->offset, sizeof list);
	memcpy(&count, options + range->count_offset, sizeof count);
	return check_reals(range, list, list ? count : 0);
}

tomos_status tomos_options_check(const char *group, const void *options)
{
	for (int i = 0; group && options && i < COUNT(ranges); i++)
		if (strcmp(ranges[i].group, group) == 0)
			TRY(check(&ranges[i], options));
	return TOMOS_OK;
}
