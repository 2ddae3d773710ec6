/* Internal: the backend of vectors that are distributed over ranks. */
#ifndef TOMOS_OP_RANKED_PARTS_H
#define TOMOS_OP_RANKED_PARTS_H

#include "op/ranked.h"
#include "op/slab_group.h"

typedef struct {
	tomos_backend base; /* first: a pointer to it is one to the whole */
	BackendCopy copy;
	tomos_backend *inner;
	tomos_comm *comm;
	bool half;          /* rows are sent in half precision */
	double rounding[2]; /* squares: of its errors, and of the values that were sent */
} Ranked;

static inline const Ranked *ranked_of(const tomos_backend *b)
{
	return (const Ranked *)(const void *)b;
}

static inline Ranked *ranked_change(tomos_backend *b)
{
	return (Ranked *)(void *)b;
}

/* The first row of the band in each view, and the number of its rows. */
int64_t ranked_band(const Bands *bands, int slab, int64_t *first);
/* comm_exchange of floats, in the precision that is set. */
tomos_status ranked_exchange(Ranked *r, const CommMessage *list, int64_t count);

#endif
