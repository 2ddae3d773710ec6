/* Linear operators between spaces of float arrays that live on a backend. */
#ifndef TOMOS_OP_OP_H
#define TOMOS_OP_OP_H

#include "backend/backend.h"

/* Where vectors of one shape live; the verbs and the inner product belong to it. */
typedef struct {
	tomos_backend *backend;
	int64_t shape[3], count;
} Space;

/* A sweep of Kaczmarz's method: x += factor_i (b_i - a_i'x) a_i, with the rays of some views, one
 * after the other. */
typedef struct {
	const int64_t *views;
	int64_t count;
	const float *b, *factor; /* of each ray of the operator */
	float *r;                /* what was left of each when it was met */
} RowSweep;

/* What an operator keeps for such sweeps. */
typedef struct RowSweeper RowSweeper;
struct RowSweeper {
	void (*sweep)(RowSweeper *sweeper, const RowSweep *rows, float *x);
	void (*free)(RowSweeper *sweeper);
};

typedef struct {
	/* y = A x and x = A' y, on backend memory. */
	tomos_status (*forward)(const tomos_op *op, const float *x, float *y);
	tomos_status (*adjoint)(const tomos_op *op, const float *y, float *x);
	void (*free)(tomos_op *op);
	/* What some operators cannot (NULL). Some of the first axis of the range, in that order; */
	tomos_status (*part)(
		const tomos_op *op, tomos_op **part, const int64_t *views, int64_t count);
	/* row i as at most op->row_most entries; */
	tomos_status (*row)(
		const tomos_op *op, int64_t i, int64_t *index, float *weight, int64_t *count);
	/* and forward and adjoint with powers of the entries, 0 or 2, instead of the entries. */
	tomos_status (*power)(const tomos_op *op, int power, const float *x, float *y);
	tomos_status (*power_adjoint)(const tomos_op *op, int power, const float *y, float *x);
	/* x updated by A'y in one pass, or *done false and nothing has happened. */
	tomos_status (*adjoint_update)(
		const tomos_op *op, const float *y, const FusedUpdate *step, float *x, bool *done);
	/* r = b - A x and y = w r in one pass, likewise. */
	tomos_status (*compare)(const tomos_op *op, const float *x, const FusedResidual *compare,
		float *r, bool *done);
	/* Rows on backends that list them in memory of their own. */
	tomos_status (*list)(const tomos_op *op, const KernelBatch *batch);
	/* Sweeps that are quicker than by rows; *sweeper is NULL where there are none. */
	tomos_status (*sweeper)(const tomos_op *op, RowSweeper **sweeper);
} OpType;

/* What is known of the signs of the entries: none negative, nothing, some negative. */
typedef enum { ENTRIES_POSITIVE, ENTRIES_UNKNOWN, ENTRIES_SIGNED } Entries;

struct tomos_op {
	const OpType *type;
	Space domain, range;
	bool matched;
	Entries entries;
	int64_t row_most; /* entries of the longest row, at most; 0: rows cannot be had */
	int64_t apart; /* rays of a view so many columns apart meet no voxel in common; 0: nobody knows */
	char description[128];
	char place
		[256]; /* grid and views, "voxels of ...;...", that it was made for; "": not known */
	_Atomic double norm_values[2], *norms; /* by NormUse, once they are known; else 0 */
	void *own;
};

tomos_status op_make(tomos_op **op, const OpType *type, tomos_backend *backend,
	const int64_t domain[3], const int64_t range[3], int64_t own_size);
/* Says what the operator was made for. */
void op_place(
	tomos_op *op, const tomos_grid *grid, const tomos_geometry *scan, const KernelModel *model);
/* What parts and dressed operators take from the one they are made of. */
void op_resemble(tomos_op *op, const tomos_op *like);
tomos_status op_forward(const tomos_op *op, const float *x, float *y);
tomos_status op_adjoint(const tomos_op *op, const float *y, float *x);
/* The update that the step says, where the operator has it in one pass; else *done is false and x
 * as it was. */
tomos_status op_adjoint_update(
	const tomos_op *op, const float *y, const FusedUpdate *step, float *x, bool *done);
/* What is left of b, r = b - A x, and y = w r. */
tomos_status op_residual(
	const tomos_op *op, const float *x, const float *b, const float *w, float *r, float *y);
tomos_status op_part(const tomos_op *op, tomos_op **part, const int64_t *views, int64_t count);
tomos_status op_row(const tomos_op *op, int64_t i, int64_t *index, float *weight, int64_t *count);
/* Rows on backends that list them in memory of their own, for which op_lists is true. */
bool op_lists(const tomos_op *op);
tomos_status op_list(const tomos_op *op, const KernelBatch *batch);
tomos_status op_sweeper(const tomos_op *op, RowSweeper **sweeper);
/* Rejects an operator of which `sums`, the sums of its rows or columns, show negative entries, or
 * which is known to have them; `who` has no use for such entries. */
tomos_status op_check_sums(
	const tomos_op *op, const Space *space, const float *sums, const char *who);
tomos_status op_power(const tomos_op *op, int power, const float *x, float *y);
tomos_status op_power_adjoint(const tomos_op *op, int power, const float *y, float *x);

/* The rows of kernels.def and the model that options of a projector stand for. */
tomos_status projector_choose(
	const tomos_projector_options *options, int *forward, int *back, KernelModel *model);

/* diag(rays) A diag(voxels): rays and voxels that do not count, or count more; NULL: all the same.
 * The vectors are borrowed, those of voxels 0 or 1. */
tomos_status op_weighted(
	tomos_op **op, const tomos_op *inner, const float *rays, const float *voxels);
/* Forward differences along each axis of more than one voxel: a field [axis][z][y][x]. */
tomos_status op_gradient(tomos_op **op, const Space *space);
/* Axes that the gradient has, x first. */
int gradient_parts(const Space *space);

/* A caller's array as a vector of the space: used in place where the backend can, else copied
 * there, and back by vector_return. The array is checked; `name` stands for it in the sentence. */
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
tomos_status vector_upload(const Space *space, float *x, const tomos_array *host);
tomos_status vector_download(const Space *space, const float *x, const tomos_array *host);
tomos_status vector_sync(const Space *space); /* waits for all operations of the backend */

tomos_status vector_fill(const Space *space, float value, float *x);
tomos_status vector_axpy(const Space *space, float a, const float *x, float *y); /* y += a x */
tomos_status vector_xpay(const Space *space, const float *x, float a, float *y); /* y = x + a y */
tomos_status vector_mul(const Space *space, const float *w, float *y);           /* y *= w */
tomos_status vector_mul_axpy(
	const Space *space, float a, const float *w, const float *x, float *y); /* y += a w x */
tomos_status vector_invert(const Space *space, float least, float *x);          /* 1/x or 0 */
tomos_status vector_clamp(const Space *space, float low, float high, float *x);
tomos_status vector_dot(const Space *space, const float *x, const float *y, double *result);
tomos_status vector_norm(const Space *space, const float *x, double *result);
tomos_status vector_distance(const Space *space, const float *x, const float *y, double *result);
tomos_status vector_copy(const Space *space, const float *x, float *y);
tomos_status vector_scale(const Space *space, float a, float *y);
tomos_status vector_sqrt(const Space *space, float *y);
tomos_status vector_indicator(const Space *space, float *y); /* 1 where y is not 0 */
tomos_status vector_ratio(
	const Space *space, const float *x, float least, float *y); /* y = max(x, 0) / y or 0 */
tomos_status vector_soft_threshold(const Space *space, float a, float *y); /* nearer to 0 by a */
tomos_status vector_axpy_clamp(const Space *space, float a, const float *w, const float *x,
	float low, float high, float *y); /* y += a w x, between low and high; w NULL: 1 */
tomos_status vector_residual(const Space *space, const float *x, const float *w, float *r,
	float *y); /* r = x - r, y = w r */
/* Of a field of `parts` vectors of the space: lengths cut to `longest`; field / |(field, least)|.
 * */
tomos_status vector_clip_norm(const Space *space, int parts, float longest, float *field);
tomos_status vector_normalise(const Space *space, int parts, float least, float *field);
/* Of the values, as they are in the host's memory. */
tomos_status vector_checksum(const Space *space, const float *x, uint32_t *sum);
tomos_status vector_max_abs(const Space *space, const float *x, double *result); /* of |x| */
/* With an index list of n entries: the sum of w x, and y += a w, between low and high. */
tomos_status vector_gather(const Space *space, int64_t n, const int64_t *index, const float *w,
	const float *x, double *result);
tomos_status vector_scatter(const Space *space, int64_t n, const int64_t *index, const float *w,
	float a, float low, float high, float *y);

#endif
