/* Composite operators: a A + b B, A B and A'. The operators they consist of are borrowed. */
#include <float.h>
#include <stdio.h>
#include "op/op.h"

typedef struct {
	const tomos_op *A, *B; /* B NULL: a A only */
	float a, b;
} Composite;

/* ---- a A + b B ---------------------------------------------------------------------------- */

typedef tomos_status (*Apply)(const tomos_op *op, const float *in, float *out);

static tomos_status add_up(
	const Composite *own, Apply apply, const Space *to, const float *in, float *out)
{
	float *second = NULL;
	tomos_status status;
	TRY(apply(own->A, in, out));
	TRY(vector_scale(to, own->a, out));
	if (!own->B)
		return TOMOS_OK;
	TRY_OR_DONE(vector_new(&second, to, "the second term of a sum of operators"));
	TRY_OR_DONE(apply(own->B, in, second));
	TRY_OR_DONE(vector_axpy(to, own->b, second, out));
done:
	vector_free(second, to);
	return status;
}

static tomos_status sum_forward(const tomos_op *op, const float *x, float *y)
{
	return add_up(op->own, op_forward, &op->range, x, y);
}

static tomos_status sum_adjoint(const tomos_op *op, const float *y, float *x)
{
	return add_up(op->own, op_adjoint, &op->domain, y, x);
}

/* ---- A B ----------------------------------------------------------------------------------- */

/* out = second first in. */
static tomos_status chain(const tomos_op *op, Apply apply, const tomos_op *first,
	const tomos_op *second, const float *in, float *out)
{
	const Space *between = &((const Composite *)op->own)->B->range;
	float *middle = NULL;
	tomos_status status;
	TRY_OR_DONE(vector_new(&middle, between, "a product of operators"));
	TRY_OR_DONE(apply(first, in, middle));
	TRY_OR_DONE(apply(second, middle, out));
done:
	vector_free(middle, between);
	return status;
}

static tomos_status product_forward(const tomos_op *op, const float *x, float *y)
{
	const Composite *own = op->own;
	return chain(op, op_forward, own->B, own->A, x, y);
}

static tomos_status product_adjoint(const tomos_op *op, const float *y, float *x)
{
	const Composite *own = op->own;
	return chain(op, op_adjoint, own->A, own->B, y, x);
}

/* ---- A' ------------------------------------------------------------------------------------ */

static tomos_status transpose_forward(const tomos_op *op, const float *x, float *y)
{
	return op_adjoint(((const Composite *)op->own)->A, x, y);
}

static tomos_status transpose_adjoint(const tomos_op *op, const float *y, float *x)
{
	return op_forward(((const Composite *)op->own)->A, y, x);
}

/* ---- making -------------------------------------------------------------------------------- */

static const OpType sum_type = {.forward = sum_forward, .adjoint = sum_adjoint};
static const OpType product_type = {.forward = product_forward, .adjoint = product_adjoint};
static const OpType transpose_type = {.forward = transpose_forward, .adjoint = transpose_adjoint};

static Entries entries_of(const tomos_op *op, double factor)
{
	return factor < 0 || op->entries == ENTRIES_SIGNED ? ENTRIES_UNKNOWN : op->entries;
}

static tomos_status compose(tomos_op **op, const OpType *type, const Composite *parts,
	const Space *domain, const Space *range)
{
	TRY(op_make(op, type, parts->A->domain.backend, domain->shape, range->shape,
		sizeof(Composite)));
	Entries first = entries_of(parts->A, parts->a);
	Entries second = parts->B ? entries_of(parts->B, parts->b) : first;
	*(Composite *)(*op)->own = *parts;
	(*op)->matched = parts->A->matched && (!parts->B || parts->B->matched);
	(*op)->entries = first != ENTRIES_POSITIVE ? first : second;
	return TOMOS_OK;
}

static tomos_status check_pair(const tomos_op *A, const tomos_op *B, const char *what)
{
	if (A->domain.backend != B->domain.backend)
		return fail(TOMOS_BAD_VALUE,
			"a %s of operators on two backends, '%s' and '%s': they must be on one",
			what, A->domain.backend->description, B->domain.backend->description);
	return TOMOS_OK;
}

static tomos_status check_factor(double factor)
{
	if (!(factor >= -FLT_MAX && factor <= FLT_MAX))
		return fail(TOMOS_BAD_VALUE,
			"an operator times %g: the factor must be a finite float", factor);
	return TOMOS_OK;
}

static tomos_status check_terms(const tomos_op *A, const tomos_op *B)
{
	TRY(check_pair(A, B, "sum"));
	if (A->domain.count == B->domain.count && A->range.count == B->range.count)
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE,
		"a sum of operators of %lld x %lld and %lld x %lld: they must be of one size",
		(long long)A->range.count, (long long)A->domain.count, (long long)B->range.count,
		(long long)B->domain.count);
}

tomos_status tomos_op_sum(tomos_op **op, double a, const tomos_op *A, double b, const tomos_op *B)
{
	*op = NULL;
	if (!A)
		return fail(TOMOS_BAD_VALUE, "a sum of operators needs at least one");
	TRY(check_factor(a));
	TRY(check_factor(b));
	if (B)
		TRY(check_terms(A, B));
	TRY(compose(op, &sum_type, &(Composite){A, B, (float)a, (float)b}, &A->domain, &A->range));
	char *text = (*op)->description;
	size_t size = sizeof(*op)->description;
	if (B)
		snprintf(text, size, "%g (%.40s) + %g (%.40s)", a, A->description, b,
			B->description);
	else
		snprintf(text, size, "%g (%.100s)", a, A->description);
	return TOMOS_OK;
}

tomos_status tomos_op_product(tomos_op **op, const tomos_op *A, const tomos_op *B)
{
	*op = NULL;
	if (!A || !B)
		return fail(TOMOS_BAD_VALUE, "a product of operators needs two");
	TRY(check_pair(A, B, "product"));
	if (A->domain.count != B->range.count)
		return fail(TOMOS_BAD_VALUE,
			"a product of operators of %lld x %lld and %lld x %lld: the inner sizes "
			"must be the same",
			(long long)A->range.count, (long long)A->domain.count,
			(long long)B->range.count, (long long)B->domain.count);
	TRY(compose(op, &product_type, &(Composite){A, B, 1, 1}, &B->domain, &A->range));
	snprintf((*op)->description, sizeof(*op)->description, "(%.50s) (%.50s)", A->description,
		B->description);
	return TOMOS_OK;
}

tomos_status tomos_op_transpose(tomos_op **op, const tomos_op *A)
{
	*op = NULL;
	if (!A)
		return fail(TOMOS_BAD_VALUE, "a transpose needs an operator");
	TRY(compose(op, &transpose_type, &(Composite){A, NULL, 1, 1}, &A->range, &A->domain));
	snprintf((*op)->description, sizeof(*op)->description, "transpose of (%.100s)",
		A->description);
	return TOMOS_OK;
}
