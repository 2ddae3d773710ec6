/* Linear operators between spaces of float arrays that live on a backend. */
#ifndef OP_H
#define OP_H

#include "backend/backend.h"

/* Where vectors of one shape live; the verbs and the inner product belong to it. */
typedef struct {
	tomos_backend *backend;
	int64_t shape[3], count;
} Space;

typedef struct {
	/* y = A x and x = A' y, on backend memory. */
	tomos_status (*forward)(const tomos_op *op, const float *x, float *y);
	tomos_status (*adjoint)(const tomos_op *op, const float *y, float *x);
	void (*free)(tomos_op *op);
} OpType;

struct tomos_op {
	const OpType *type;
	Space domain, range;
	bool matched;
	char description[128];
	void *own;
};

tomos_status op_make(tomos_op **op, const OpType *type, tomos_backend *backend,
	const int64_t domain[3], const int64_t range[3], int64_t own_size);
tomos_status op_forward(const tomos_op *op, const float *x, float *y);
tomos_status op_adjoint(const tomos_op *op, const float *y, float *x);

/* A caller's array as a vector of the space: used in place where the backend can, else copied there,
 * and back by vector_return. The array's shape is checked; `name` stands for it in the sentence. */
typedef struct {
	float *data;
	const tomos_array *array;
	bool owned;
} Vector;

typedef enum { VECTOR_IN, VECTOR_OUT, VECTOR_IN_OUT } VectorUse;

tomos_status vector_borrow(Vector *vector, const Space *space, const tomos_array *array,
	VectorUse use, const char *name);
tomos_status vector_return(Vector *vector, const Space *space, VectorUse use);
tomos_status vector_new(float **data, const Space *space, const char *what);
void vector_free(float *data, const Space *space);

tomos_status vector_fill(const Space *space, float value, float *x);
tomos_status vector_axpy(const Space *space, float a, const float *x, float *y);     /* y += a x */
tomos_status vector_xpay(const Space *space, const float *x, float a, float *y);     /* y = x + a y */
tomos_status vector_mul(const Space *space, const float *w, float *y);               /* y *= w */
tomos_status vector_mul_axpy(
	const Space *space, float a, const float *w, const float *x, float *y);      /* y += a w x */
tomos_status vector_invert(const Space *space, float least, float *x);               /* 1/x or 0 */
tomos_status vector_clamp(const Space *space, float low, float high, float *x);
tomos_status vector_dot(const Space *space, const float *x, const float *y, double *result);
tomos_status vector_norm(const Space *space, const float *x, double *result);

#endif
