/* What the preparation of all backends computes alike; device modules contain it, too. */
#include "backend/prepare.h"
#include <math.h>
#include "base/fft.h"

#define REACH 12.0 /* decay lengths after which the kernel of phase retrieval is negligible */

tomos_status prep_phase_frame(PrepFrame *frame, double strength, int64_t rows, int64_t columns)
{
	double reach = ceil(REACH * sqrt(strength)) + 1;
	int64_t most = max64(rows, columns), margin = reach < (double)most ? (int64_t)reach : most;
	if (most > 1 << 24)
		return fail(TOMOS_BAD_VALUE,
			"a view of %lld x %lld pixels is too large to transform", (long long)rows,
			(long long)columns);
	/* One row: the object is taken as constant along the axis. */
	frame->before[0] = rows > 1 ? margin : 0;
	frame->before[1] = margin;
	frame->rows = rows > 1 ? fft_length(rows + 2 * margin) : 1;
	frame->columns = fft_length(columns + 2 * margin);
	return TOMOS_OK;
}
