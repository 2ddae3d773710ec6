/* Internal: the backend of vectors that are distributed over ranks. */
#ifndef TOMOS_OP_RANKED_PARTS_H
#define TOMOS_OP_RANKED_PARTS_H

#include "op/ranked.h"

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

/* comm_exchange of floats, in the precision that is set. */
tomos_status ranked_exchange(Ranked *r, const CommMessage *list, int64_t count);
/* Values between the memory of the backend and that of the host. */
tomos_status ranked_copy(const Ranked *r, float *data, float *host, int64_t count, bool down);

#endif
