/* Rows of the projections of ranks: those that a slab owns, and the band that it reaches. */
#include <string.h>
#include "op/ranked_parts.h"

int64_t ranked_rows(const Bands *b, int slab, RowBand *all)
{
	int64_t most = 0;
	*all = (RowBand){b->scan->rows, 0};
	for (int64_t i = 0; i < b->scan->count; i++) {
		const RowBand own = bands_own(b, slab, i);
		most = max64(most, own.high - own.low);
		if (own.low < own.high)
			*all = (RowBand){min64(all->low, own.low), max64(all->high, own.high)};
	}
	if (all->low >= all->high)
		*all = (RowBand){0, 1};
	return max64(most, 1);
}

void ranked_pack(const Bands *b, int slab, RowBand all, float *rows)
{
	RowBand whole;
	int64_t most = ranked_rows(b, slab, &whole), columns = b->scan->columns;
	for (int64_t i = 0; i < b->scan->count; i++) {
		const RowBand own = bands_own(b, slab, i);
		int64_t count = own.high - own.low;
		float *to = rows + i * most * columns;
		const float *from = rows + (i * (all.high - all.low) + own.low - all.low) * columns;
		if (count > 0)
			memmove(to, from, (size_t)(count * columns) * sizeof *to);
		memset(to + count * columns, 0, (size_t)((most - count) * columns) * sizeof *to);
	}
}

/* The same rows in all views, unless these are many more than the largest view needs, as with a
 * helix. */
int64_t ranked_band(const Bands *b, int slab, int64_t *first)
{
	int64_t most = 1, low = b->scan->rows, high = 0, rows;
	for (int64_t i = 0; i < b->scan->count; i++) {
		const RowBand reach = bands_reach(b, slab, i);
		first[i] = reach.low;
		most = max64(most, reach.high - reach.low);
		if (reach.low < reach.high)
			low = min64(low, reach.low), high = max64(high, reach.high);
	}
	low = low < high ? low : 0;
	rows = max64(1, high - low);
	bool same = 3 * rows <= 4 * most;
	for (int64_t i = 0; i < b->scan->count; i++)
		first[i] = same ? low : min64(first[i], b->scan->rows - most);
	return same ? rows : most;
}
