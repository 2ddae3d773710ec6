/* What the filters of all backends compute alike; device modules contain it, too. */
#include "backend/filter.h"
#include <math.h>
#include "base/fft.h"

tomos_status filter_length(const FilterSpec *spec, int64_t *length)
{
	int64_t wide = spec->columns + spec->margin;
	*length = filter_transforms(spec) ? fft_length(2 * wide) : wide + spec->margin;
	if (*length > 1 << 28)
		return fail(TOMOS_BAD_VALUE, "%lld columns are too many to filter",
			(long long)spec->columns);
	return TOMOS_OK;
}

KernelRows filter_packing(const FilterSpec *spec, int64_t length, int64_t rows)
{
	return (KernelRows){
		.rows = rows,
		.columns = spec->columns,
		.seen = spec->seen,
		.before = spec->before,
		.margin = spec->margin,
		.length = length,
		.taps = spec->taps,
		.hold = spec->padding != PADDING_ZERO,
		.oversample = spec->oversample,
		.fit = spec->padding == PADDING_ELLIPSE,
	};
}

void filter_fade(const FilterSpec *spec, float *fade)
{
	int64_t m = spec->margin;
	for (int64_t i = 0; i < m; i++) {
		double smooth = 0.5 * (1 + cos(M_PI * ((double)i + 1) / (double)(m + 1)));
		fade[i] = spec->padding == PADDING_EDGE     ? 1
			  : spec->padding == PADDING_SMOOTH ? (float)smooth
							    : 0;
	}
	fade[m] = 0;
}
