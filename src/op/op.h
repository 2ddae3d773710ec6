/* Linear operators between spaces of float arrays in the memory of a backend. */
#ifndef TOMOS_OP_OP_H
#define TOMOS_OP_OP_H

#include "backend/backend.h"

/* Floats that follow each other in the part of a rank and in the whole vector. */
typedef struct {
	int64_t own, whole, count;
} SpaceRun;

/* Vectors of which every rank has a part: each float of the whole is in one run of one rank. */
typedef struct {
	tomos_comm *comm;
	int64_t shape[3]; /* of the whole */
	SpaceRun *runs;
	int64_t count;
} SpaceParts;

/* Vectors of one shape in the memory of a backend. */
typedef struct {
	tomos_backend *backend;
	int64_t shape[3], count;
	const SpaceParts *parts; /* NULL: a vector is whole */
} Space;

/* A request for the normal operator A'A on volumes that are 0 where `mask` is 0 (NULL: no mask).
 * `automatic`: only if it makes iterations faster, and changes them no more than the accuracy of
 * the operator. */
typedef struct {
	const float *mask;
	const float *rays; /* square roots of the weights of rays; NULL: none */
	bool automatic;
	char why[256]; /* result: why there is none */
} NormalRequest;

/* Shape and number of floats of the whole vectors. */
void space_whole(const Space *space, int64_t shape[3]);
int64_t space_whole_count(const Space *space);
/* True on one rank: the one that does what only one is to do. */
bool space_leads(const Space *space);
/* The status of the first rank that failed, on every rank. */
tomos_status space_agree(const Space *space, tomos_status status);
/* Declares that vectors are parts; `parts` is filled in, but for the runs, which are 0. */
tomos_status space_divide(Space *space, SpaceParts *parts, tomos_comm *comm, const int64_t whole[3],
	int64_t run_count);
/* Likewise of vectors that consist of several copies of divided ones. */
tomos_status space_repeat(Space *space, SpaceParts *parts, const SpaceParts *one, int copies);

/* A sweep of Kaczmarz's method: x += factor_i (b_i - a_i'x) a_i, with the rays of some views, one
 * after the other. */
typedef struct {
	const int64_t *views;
	int64_t count;
	const float *b, *factor; /* of each ray of the operator */
	float *r;                /* the residual of each ray before its update */
} RowSweep;

/* The data of an operator for such sweeps. */
typedef struct RowSweeper RowSweeper;
struct RowSweeper {
	void (*sweep)(RowSweeper *sweeper, const RowSweep *rows, float *x);
	void (*free)(RowSweeper *sweeper);
};

typedef struct {
	/* y = A x and x = A' y, on backend memory. NULL where `apply` is there. */
	tomos_status (*forward)(const tomos_op *op, const float *x, float *y);
	tomos_status (*adjoint)(const tomos_op *op, const float *y, float *x);
	/* A (FORWARD) or A' (ADJOINT) with the entries to the power 0, 1 or 2. */
	tomos_status (*apply)(
		const tomos_op *op, Direction direction, int power, const float *in, float *out);
	/* Functions below may be NULL. */
	void (*free)(tomos_op *op);
	/* Makes `part`, whose memory is zeroed, a subset of the views, in the given order. */
	tomos_status (*part)(
		tomos_op *part, const tomos_op *op, const int64_t *views, int64_t count);
	/* Row i, of at most op->row_most entries. */
	tomos_status (*row)(
		const tomos_op *op, int64_t i, int64_t *index, float *weight, int64_t *count);
	/* Updates x by A'y in one pass; *done false: not supported, nothing was computed. */
	tomos_status (*adjoint_update)(
		const tomos_op *op, const float *y, const FusedUpdate *step, float *x, bool *done);
	/* r = b - A x and y = w r in one pass; *done likewise. */
	tomos_status (*residual)(const tomos_op *op, const float *x, const FusedResidual *fused,
		float *r, bool *done);
	/* y = A x, where x is 1 everywhere. */
	tomos_status (*row_sums)(const tomos_op *op, const float *x, float *y);
	/* Rows listed in device memory. */
	tomos_status (*list)(const tomos_op *op, const KernelBatch *batch);
	/* Sweeps that are faster than row by row; *sweeper NULL: none. */
	tomos_status (*sweeper)(const tomos_op *op, RowSweeper **sweeper);
	/* Derivatives of A x with respect to the poses of some views: [view][6][row][column]. */
	tomos_status (*pose)(
		const tomos_op *op, const float *x, int64_t first, int64_t count, float *out);
	/* A'A as an operator that needs no projections; *normal NULL: there is none. */
	tomos_status (*normal)(const tomos_op *op, NormalRequest *request, tomos_op **normal);
	/* Where there is one: the adjoint with weights as accurate as floats allow. */
	tomos_status (*adjoint_accurate)(const tomos_op *op, const float *y, float *x);
} OpType;

/* Signs of the entries: none negative, not known, some negative. */
typedef enum { ENTRIES_POSITIVE, ENTRIES_UNKNOWN, ENTRIES_SIGNED } Entries;

struct tomos_op {
	const OpType *type;
	Space domain, range;
	SpaceParts parts[2]; /* of these, where they are divided */
	bool matched;
	Entries entries;
	int64_t row_most; /* upper bound of the entries of a row; 0: rows are not available */
	/* Rays of a view at least this many columns apart share no voxel; 0: not known. */
	int64_t disjoint_columns;
	char description[128];
	char place[256]; /* grid, views and model it was made for; "": not known */
	_Atomic double norm_values[2], *norms; /* by NormUse; 0: not computed */
	void *own;
	int64_t own_size;
};

tomos_status op_make(tomos_op **op, const OpType *type, tomos_backend *backend,
	const int64_t domain[3], const int64_t range[3], int64_t own_size);
/* Hands a new operator to *op, or frees it where making it failed. */
tomos_status op_finish(tomos_op **op, tomos_op *made, tomos_status status);
/* Records grid, views and model in op->place. */
void op_place(
	tomos_op *op, const tomos_grid *grid, const tomos_geometry *scan, const KernelModel *model);
/* Copies the properties that parts and weighted operators have in common with the original. */
void op_resemble(tomos_op *op, const tomos_op *like);
tomos_status op_forward(const tomos_op *op, const float *x, float *y);
tomos_status op_adjoint(const tomos_op *op, const float *y, float *x);
/* Updates x by A'y in one pass if the operator supports it; else *done is false and x unchanged. */
tomos_status op_adjoint_update(
	const tomos_op *op, const float *y, const FusedUpdate *step, float *x, bool *done);
/* The residual r = b - A x, and y = w r; w NULL: r alone. */
tomos_status op_residual(
	const tomos_op *op, const float *x, const float *b, const float *w, float *r, float *y);
/* y = A x, where the caller knows that x is 1 everywhere. */
tomos_status op_row_sums(const tomos_op *op, const float *x, float *y);
tomos_status op_part(const tomos_op *op, tomos_op **part, const int64_t *views, int64_t count);
tomos_status op_row(const tomos_op *op, int64_t i, int64_t *index, float *weight, int64_t *count);
/* Rows listed in device memory, if op_lists is true. */
bool op_lists(const tomos_op *op);
tomos_status op_list(const tomos_op *op, const KernelBatch *batch);
tomos_status op_sweeper(const tomos_op *op, RowSweeper **sweeper);
/* Rejects an operator whose row or column sums show negative entries, or which is known to have
 * them; `who` needs entries of 0 and above. */
tomos_status op_check_sums(
	const tomos_op *op, const Space *space, const float *sums, const char *who);
tomos_status op_power(const tomos_op *op, int power, const float *x, float *y);
tomos_status op_power_adjoint(const tomos_op *op, int power, const float *y, float *x);

/* Derivatives of A x with respect to the poses of views first .. first + count - 1, as
 * [view][6][row][column], and, for all views, along `count` directions of each view's pose
 * ([view][6][count]), as [view][count][row][column]. */
tomos_status op_pose(
	const tomos_op *op, const float *x, int64_t first, int64_t count, float *derivative);
tomos_status op_pose_along(
	const tomos_op *op, const float *x, const double *directions, int count, float *images);

/* An operator with the inner products of A, but without projections: see op/normal.c. A is
 * `projector` with the mask and the weights of the request, which b has, too. `data` is b in its
 * range, borrowed from it; *made NULL: there is no normal operator. */
tomos_status op_normal(tomos_op **made, const float **data, const tomos_op *A,
	const tomos_op *projector, const float *b, NormalRequest *request);

/* A projector of both directions that is no row of kernels.def. */
typedef struct {
	const char *name;
	tomos_status (*open)(tomos_op **op, tomos_backend *backend, const tomos_grid *grid,
		const tomos_geometry *scan, const tomos_projector_options *options);
	/* Upper bound on its memory. */
	double (*bytes)(const tomos_geometry *scan, const tomos_grid *grid, double accuracy);
} ProjectorPair;

/* The one that the options select; NULL: none. */
const ProjectorPair *projector_pair(const tomos_projector_options *options);

/* The projector 'fourier'. */
tomos_status op_fourier(tomos_op **op, tomos_backend *backend, const tomos_grid *grid,
	const tomos_geometry *scan, const tomos_projector_options *options);
/* Why a backend has no such projector for these rays; NULL: it has. */
const char *fourier_rejects(const tomos_backend *backend, const RayClass *rays, bool planar);
/* Whether a backend has the aliases of linear interpolation (FourierSpec). */
bool fourier_has_aliases(const tomos_backend *backend);
/* The backend's part of it, for another response. */
tomos_status fourier_of_plan(Fourier **fourier, tomos_backend *backend, const Plan *plan,
	FourierResponse response, double accuracy, int aliases);

/* Its normal operator as a convolution; *normal NULL: it is none, and the request says why. */
tomos_status op_convolution(
	tomos_op **normal, const Space *domain, const FourierSpec *spec, NormalRequest *request);

/* The rows of kernels.def and the model that the options of a projector select. */
tomos_status projector_choose(
	const tomos_projector_options *options, int *forward, int *back, KernelModel *model);
/* Projects with the entries to a power of 0, 1 or 2. */
tomos_status project_power(tomos_backend *backend, const ProjectRequest *what, int power);

/* diag(rays) A diag(voxels), with weights of rays and a mask of voxels (0 or 1); NULL: ones. The
 * vectors are borrowed. */
tomos_status op_weighted(
	tomos_op **op, const tomos_op *inner, const float *rays, const float *voxels);
/* Forward differences along x and y (2 parts), or x, y and z (3): a field [part][z][y][x]. */
tomos_status op_gradient(tomos_op **op, const Space *space, int parts);
/* (1, 4, 6, 4, 1) / 16 along each axis, of volumes that end in air. */
tomos_status op_smooth(tomos_op **op, const Space *space);

/* An array of the caller as a vector of the space: used directly if the backend can, else copied to
 * its memory, and back by vector_return. The array is checked; messages call it `name`. */
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
tomos_status vector_soft_threshold(const Space *space, float a, float *y); /* soft threshold a */
tomos_status vector_axpy_clamp(const Space *space, float a, const float *w, const float *x,
	float low, float high, float *y); /* y += a w x, between low and high; w NULL: 1 */
tomos_status vector_residual(const Space *space, const float *x, const float *w, float *r,
	float *y); /* r = x - r, y = w r */
/* y = sum of a[i] x[i] of up to VECTORS_LISTED vectors; removes from y its parts along vectors of
 * length 1 that are orthogonal to each other. */
tomos_status vector_combine(
	const Space *space, int count, const float *a, const float *const *x, float *y);
tomos_status vector_remove(const Space *space, int count, const float *const *units, float *y);
/* Fields of `parts` vectors of the space: norms limited to `longest`; field / |(field, least)|. */
tomos_status vector_clip_norm(const Space *space, int parts, float longest, float *field);
tomos_status vector_normalise(const Space *space, int parts, float least, float *field);
/* Checksum of the values, of the whole vector; collective where it is divided. */
tomos_status vector_checksum(const Space *space, const float *x, uint32_t *sum);
tomos_status vector_max_abs(const Space *space, const float *x, double *result); /* of |x| */
/* With an index list of n entries: the sum of w x, and y += a w, between low and high. */
tomos_status vector_gather(const Space *space, int64_t n, const int64_t *index, const float *w,
	const float *x, double *result);
tomos_status vector_scatter(const Space *space, int64_t n, const int64_t *index, const float *w,
	float a, float low, float high, float *y);

#endif
