/* The largest singular value of an operator. */
#ifndef TOMOS_OP_NORM_H
#define TOMOS_OP_NORM_H

#include "op/op.h"

typedef enum {
	NORM_FOR_STEPS, /* a few products; at most 1 % above the norm, hardly ever below it */
	NORM_EXACT,     /* within about 1e-5 of it */
	NORM_USES
} NormUse;

/* Work vectors, which are overwritten: two of the domain and two of the range. */
typedef struct {
	float *right[2], *left[2];
} NormVectors;

/* Cached with the operator. `vectors` NULL: they are allocated. */
tomos_status op_norm(const tomos_op *op, NormUse use, const NormVectors *vectors,
	const tomos_progress *progress, double *norm);

#endif
