/* The largest singular value of an operator, by Golub-Kahan-Lanczos bidiagonalisation (G. Golub and
 * W. Kahan 1965; B. N. Parlett, "The symmetric eigenvalue problem" (1998), ch. 13).
 *
 * After k steps A V = U B with B bidiagonal. The largest eigenvalue t of B'B is the best lower
 * bound that k products with A and A' give; the power method needs several times as many. A'A has
 * an eigenvalue within alpha_k beta_k |s_k| of t, where s is the eigenvector of B'B. This bound is
 * added to t when the norm is used for a step size.
 *
 * If no entry is negative, as in projectors, the largest singular vector has no negative elements,
 * so the start A'1 is never orthogonal to it. For other operators there is no such guarantee.
 */
#include <math.h>
#include "op/norm.h"

enum { MOST = 60 }; /* largest number of steps; about 12 are usual */

#define ROUGH 0.02   /* relative to the eigenvalue: tolerance for step sizes */
#define SETTLED 1e-6 /* relative change of the eigenvalue in a step at which it has converged */
#define CLOSE 1e-3   /* relative to the eigenvalue: residual required for SETTLED */

/* B'B: its diagonal and first off-diagonal. */
typedef struct {
	double diagonal[MOST], beside[MOST];
	int size;
	double eigenvalue, residual;
} Tridiagonal;

typedef struct {
	const tomos_op *op;
	NormVectors vectors;
	double alpha, beta;
} Lanczos;

/* Number of eigenvalues above `value` (Sturm sequence). */
static int above(const Tridiagonal *t, double value)
{
	int count = 0;
	double d = 1;
	for (int i = 0; i < t->size; i++) {
		double e = i > 0 ? t->beside[i - 1] : 0;
		d = t->diagonal[i] - value - (d != 0 ? e * e / d : fabs(e) * 1e300);
		count += d > 0;
	}
	return count;
}

static double largest_eigenvalue(const Tridiagonal *t)
{
	double low = 0, high = 0;
	for (int i = 0; i < t->size; i++) { /* Gershgorin */
		double left = i > 0 ? t->beside[i - 1] : 0;
		double right = i + 1 < t->size ? t->beside[i] : 0;
		high = fmax(high, t->diagonal[i] + left + right);
	}
	for (int k = 0; k < 60; k++) {
		double middle = 0.5 * (low + high);
		if (above(t, middle) > 0)
			low = middle;
		else
			high = middle;
	}
	return high;
}

/* |s_k| of the unit eigenvector, from the last component back to the first: the stable way. */
static double last_component(const Tridiagonal *t)
{
	double s = 1, after = 0, squares = 1;
	for (int i = t->size - 1; i > 0 && t->beside[i - 1] > 0; i--) {
		double right = i + 1 < t->size ? t->beside[i] * after : 0;
		double before = ((t->eigenvalue - t->diagonal[i]) * s - right) / t->beside[i - 1];
		after = s;
		s = before;
		squares += s * s;
	}
	return 1 / sqrt(squares);
}

static float scattered(int64_t i)
{
	uint64_t z = ((uint64_t)i + 1) * 0x9e3779b97f4a7c15U;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U; /* splitmix64 */
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
	return (float)(z >> 40) * 0x1p-23F - 1;
}

/* Pseudo-random numbers in -1 .. 1, the same in every run and with any number of ranks. */
static tomos_status fill_scattered(const Space *space, float *x)
{
	const SpaceRun all = {.count = space->count};
	const SpaceParts *parts = space->parts;
	float *host;
	TRY(mem_zeroed(&host, space->count, sizeof *host, "the norm of an operator"));
	for (int64_t k = 0; k < (parts ? parts->count : 1); k++) {
		const SpaceRun *run = parts ? &parts->runs[k] : &all;
		for (int64_t i = 0; i < run->count; i++)
			host[run->own + i] = scattered(run->whole + i);
	}
	const int64_t *n = space->shape;
	const tomos_array array = tomos_array_of(host, n[0], n[1], n[2]);
	tomos_status status = vector_upload(space, x, &array);
	if (status == TOMOS_OK)
		status = vector_sync(space);
	mem_free(host);
	return status;
}

static tomos_status normalise(const Space *space, float *x, double *length)
{
	TRY(vector_norm(space, x, length));
	return *length > 0 ? vector_scale(space, (float)(1 / *length), x) : TOMOS_OK;
}

/* alpha u = A v - beta u */
static tomos_status next_left(Lanczos *l)
{
	NormVectors *r = &l->vectors;
	float *u = r->left[1];
	TRY(op_forward(l->op, r->right[0], u));
	if (l->beta > 0)
		TRY(vector_axpy(&l->op->range, -(float)l->beta, r->left[0], u));
	r->left[1] = r->left[0];
	r->left[0] = u;
	return normalise(&l->op->range, u, &l->alpha);
}

/* beta v = A'u - alpha v */
static tomos_status next_right(Lanczos *l)
{
	NormVectors *r = &l->vectors;
	float *v = r->right[1];
	TRY(op_adjoint(l->op, r->left[0], v));
	TRY(vector_axpy(&l->op->domain, -(float)l->alpha, r->right[0], v));
	r->right[1] = r->right[0];
	r->right[0] = v;
	return normalise(&l->op->domain, v, &l->beta);
}

/* One Lanczos step: a product with A and one with A'. */
static tomos_status grow(Lanczos *l, Tridiagonal *t)
{
	double beta = l->beta;
	TRY(next_left(l));
	if (t->size > 0)
		t->beside[t->size - 1] *= beta;
	t->diagonal[t->size] = l->alpha * l->alpha + beta * beta;
	t->beside[t->size++] = l->alpha;
	if (l->alpha > 0)
		TRY(next_right(l));
	t->eigenvalue = largest_eigenvalue(t);
	t->residual = l->alpha > 0 ? l->alpha * l->beta * last_component(t) : 0;
	return TOMOS_OK;
}

/* The start vector is A' times ones or pseudo-random numbers, so that it is 0 outside a mask. With
 * entries of either sign, the numbers are projections of random volumes, so that they do not depend
 * on how projections are stored (op/normal.c). */
static tomos_status start(Lanczos *l)
{
	const tomos_op *op = l->op;
	NormVectors *r = &l->vectors;
	double length;
	if (op->entries == ENTRIES_SIGNED) {
		TRY(fill_scattered(&op->domain, r->right[0]));
		TRY(op_forward(op, r->right[0], r->left[0]));
	} else {
		TRY(op->entries == ENTRIES_POSITIVE ? vector_fill(&op->range, 1, r->left[0])
						    : fill_scattered(&op->range, r->left[0]));
	}
	TRY(op_adjoint(l->op, l->vectors.left[0], l->vectors.right[0]));
	return normalise(&l->op->domain, l->vectors.right[0], &length);
}

static bool good_enough(const Tridiagonal *t, double last, NormUse use)
{
	if (use == NORM_FOR_STEPS)
		return t->residual <= ROUGH * t->eigenvalue;
	return t->residual <= CLOSE * t->eigenvalue &&
	       t->eigenvalue - last <= SETTLED * t->eigenvalue;
}

static tomos_status iterate(Lanczos *l, NormUse use, const tomos_progress *progress, double *norm)
{
	Tridiagonal t = {.size = 0};
	double last = -1;
	TRY(progress_report(progress, "norm", 0, 0, 0));
	TRY(start(l));
	while (t.size < MOST && (t.size < 2 || (l->beta > 0 && !good_enough(&t, last, use)))) {
		last = t.eigenvalue;
		TRY(grow(l, &t));
		TRY(progress_report(progress, "norm", 0, 0, 0));
		if (!(l->alpha > 0))
			break;
	}
	*norm = sqrt(t.eigenvalue + (use == NORM_FOR_STEPS ? t.residual : 0));
	if (!isfinite(*norm) || !isfinite(l->alpha) || !isfinite(l->beta))
		return fail(TOMOS_BAD_VALUE, "the operator gives values that are not finite");
	return TOMOS_OK;
}

static tomos_status make_vectors(const tomos_op *op, NormVectors *vectors)
{
	for (int i = 0; i < 2; i++) {
		TRY(vector_new(&vectors->right[i], &op->domain, "the norm of an operator"));
		TRY(vector_new(&vectors->left[i], &op->range, "the norm of an operator"));
	}
	return TOMOS_OK;
}

static tomos_status find(const tomos_op *op, NormUse use, const NormVectors *vectors,
	const tomos_progress *progress, double *norm)
{
	NormVectors own = {{NULL}, {NULL}};
	tomos_status status = vectors ? TOMOS_OK : make_vectors(op, &own);
	if (status == TOMOS_OK) {
		Lanczos l = {.op = op, .vectors = vectors ? *vectors : own};
		status = iterate(&l, use, progress, norm);
	}
	for (int i = 0; i < 2; i++) {
		vector_free(own.right[i], &op->domain);
		vector_free(own.left[i], &op->range);
	}
	return status;
}

/* The uses are cached separately: the result of a method must not depend on earlier calls. */
tomos_status op_norm(const tomos_op *op, NormUse use, const NormVectors *vectors,
	const tomos_progress *progress, double *norm)
{
	_Atomic double *known = &op->norms[use];
	*norm = *known;
	if (*norm > 0)
		return TOMOS_OK;
	TRY(find(op, use, vectors, progress, norm));
	*known = *norm;
	return TOMOS_OK;
}

tomos_status tomos_op_norm(const tomos_op *op, double *norm, const tomos_progress *progress)
{
	if (!op || !norm)
		return fail(TOMOS_BAD_VALUE, "a norm needs an operator and a place for it");
	if (!op->matched)
		return fail(TOMOS_UNSUPPORTED, "a norm needs a matched pair; the operator is: %s",
			op->description);
	return op_norm(op, NORM_EXACT, NULL, progress, norm);
}
