/* Converts filters of the library to those of devices. */
#include "backend/device/rows.h"
#include <math.h>
#include <string.h>

KernelRows rows_of(const FilterSpec *spec, int64_t length, int64_t rows)
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
	};
}

KernelRowView rows_view(const FilterView *view)
{
	KernelRowView made = {
		.distance = view->distance,
		.foot_column = view->foot_column,
		.foot_row = view->foot_row,
		.du = view->du,
		.dv = view->dv,
		.mapped = view->mapped,
		.fans = view->fans,
	};
	memcpy(made.map, view->map, sizeof made.map);
	return made;
}

void rows_fade(const FilterSpec *spec, float *fade)
{
	int64_t m = spec->margin;
	for (int64_t i = 0; i < m; i++) {
		double smooth = 0.5 * (1 + cos(M_PI * ((double)i + 1) / (double)(m + 1)));
		fade[i] = spec->padding == PADDING_EDGE ? 1 : (float)smooth;
	}
	fade[m] = 0;
}
