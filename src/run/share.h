/* The share of a rank in a run: which slices it reconstructs and writes. */
#ifndef TOMOS_RUN_SHARE_H
#define TOMOS_RUN_SHARE_H

#include <stdint.h>

/* Slices of the whole grid; count 0: more ranks than parts, and this one only waits. */
typedef struct {
	int64_t first, count;
} Share;

/* What the boundaries between shares depend on. Shares consist of whole units, which are counted so
 * that slice -shift begins one: a result then has the same bits for any number of ranks. */
typedef struct {
	int64_t first, count; /* slices of the run */
	int64_t unit, shift;
} ShareRule;

/* The share of rank `rank` of `ranks`; sizes differ by one unit at most. */
Share share_of(const ShareRule *rule, int rank, int ranks);

#endif
