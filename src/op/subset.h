/* Blocks of views of an operator, and orders of views. */
#ifndef TOMOS_OP_SUBSET_H
#define TOMOS_OP_SUBSET_H

#include "op/op.h"

#define VIEW_ORDERS "sequential|random|golden|multilevel"
typedef enum { ORDER_SEQUENTIAL, ORDER_RANDOM, ORDER_GOLDEN, ORDER_MULTILEVEL } ViewOrder;

/* list[0 .. count-1]: all indices below count, in that order. */
tomos_status order_list(ViewOrder order, int64_t count, uint64_t seed, int64_t *list);
/* Shuffles the list; the same order for the same seed and sweep. */
void order_shuffle(int64_t *list, int64_t count, uint64_t seed, int64_t sweep);

typedef struct {
	int64_t count, pixels; /* blocks; of one view */
	ViewOrder order;
	uint64_t seed;
	int64_t *views;  /* all of them, block by block */
	int64_t *first;  /* block i has the views first[i] .. first[i + 1] - 1 of that list */
	int64_t *visits; /* the blocks in the order of the present sweep */
	const tomos_op **ops;
	bool whole; /* the one block is the operator itself */
} Subsets;

/* Where block i of `count` begins: sizes differ by one at most, the larger ones first. */
int64_t subset_first(int64_t views, int64_t count, int64_t i);
tomos_status subsets_make(
	Subsets *subsets, const tomos_op *op, int64_t count, ViewOrder order, uint64_t seed);
void subsets_free(Subsets *subsets);
void subsets_sweep(Subsets *subsets, int64_t sweep);
/* Projections in the order of the blocks; block i begins at subset_offset. */
tomos_status subsets_arrange(
	const Subsets *subsets, const tomos_op *op, const float *projections, float *arranged);
int64_t subset_offset(const Subsets *subsets, int64_t i);

#endif
