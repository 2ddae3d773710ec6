/* Values that are shown: their range, their unit, and the unit of lengths. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "cli.h"

#define TAIL 0.001 /* fraction of the values beyond the range, at each end */

/* ---- range -------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return (x > y) - (x < y);
}

int64_t sort_finite(float *values, int64_t count)
{
	int64_t kept = 0;
	for (int64_t i = 0; i < count; i++)
		if (isfinite(values[i]))
			values[kept++] = values[i];
	qsort(values, (size_t)kept, sizeof *values, by_value);
	return kept;
}

void sorted_range(const float *sorted, int64_t count, double *low, double *high)
{
	int64_t last = count - 1;
	*low = count ? (double)sorted[(int64_t)(TAIL * (double)last)] : 0;
	*high = count ? (double)sorted[(int64_t)ceil((1 - TAIL) * (double)last)] : 0;
	if (count && *low == *high) {
		*low = (double)sorted[0];
		*high = (double)sorted[last];
	}
	if (*low == *high) /* a single value: any range that contains it */
		*high += 1;
}

int range_of(const float *values, int64_t count, double *low, double *high)
{
	float *sorted = malloc((size_t)count * sizeof *sorted);
	if (!sorted)
		return failed("no memory for %lld pixels", (long long)count);
	memcpy(sorted, values, (size_t)count * sizeof *sorted);
	sorted_range(sorted, sort_finite(sorted, count), low, high);
	free(sorted);
	return DONE;
}

/* ---- units -------------------------------------------------------------------------------- */

bool size_known(const tomos_file_info *info)
{
	return info->has_grid && info->length_unit[0] && strcmp(info->length_unit, "pixel") != 0;
}

const char *length_unit(const tomos_file_info *info, const double step[3])
{
	bool ones = fabs(step[0]) == 1 && fabs(step[1]) == 1 && fabs(step[2]) == 1;
	if (!info->has_grid || (ones && !info->length_unit[0]))
		return "voxels";
	return strcmp(info->length_unit, "pixel") == 0 ? "pixels" : info->length_unit;
}
