/* Divides the slices of a run among ranks. */
#include "run/run_parts.h"

/* The first slice of rank `rank`, or the end of the run for rank `ranks`. */
static int64_t boundary(const ShareRule *rule, int rank, int ranks)
{
	int64_t low = rule->first + rule->shift, high = low + rule->count;
	int64_t first = low / rule->unit, end = (high + rule->unit - 1) / rule->unit;
	int64_t at = (first + (end - first) * rank / ranks) * rule->unit;
	return max64(low, min64(high, at)) - rule->shift;
}

Share share_of(const ShareRule *rule, int rank, int ranks)
{
	int64_t first = boundary(rule, rank, ranks);
	return (Share){first, boundary(rule, rank + 1, ranks) - first};
}

enum { EVEN = 8 }; /* groups per rank from which on whole ones are even enough */

/* The filter transforms pairs of rows, and sums of iterative methods run over groups of slices.
 * Kernels of stacks compute 16 slices at a time, and others with another rounding. */
ShareRule run_share_rule(const FileRun *r, int64_t ranks)
{
	ShareRule rule = {.first = r->first_slice, .count = r->slices, .unit = 1};
	if (r->iterates && r->iterative.in_groups)
		rule.unit = GROUP_SLICES;
	else if (r->iterates && r->stacked && !r->iterative.whole &&
		 r->slices >= EVEN * GROUP_SLICES * ranks) {
		rule.unit = GROUP_SLICES;
		rule.shift = (GROUP_SLICES - r->first_slice % GROUP_SLICES) % GROUP_SLICES;
	}
	if (!r->iterates && r->stacked) {
		rule.unit = 2;
		rule.shift = r->first_row;
	}
	return rule;
}
