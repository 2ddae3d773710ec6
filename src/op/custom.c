/* Operators whose forward and adjoint are functions of the caller, on arrays in host memory. */
#include <stdio.h>
#include "op/op.h"

typedef struct {
	tomos_custom calls;
} Custom;

static tomos_array array_in(const Space *space, const float *data)
{
	const int64_t *n = space->shape;
	return tomos_array_of((float *)(uintptr_t)data, n[0], n[1], n[2]);
}

static tomos_status call_function(const tomos_op *op, tomos_custom_apply apply, const char *what,
	const tomos_array *in, const tomos_array *out)
{
	const Custom *own = op->own;
	int answer = apply(own->calls.user, in, out);
	if (answer != 0)
		TRY(cancel_check("the product")); /* it may have failed because of that */
	if (answer != 0)
		return fail(TOMOS_CALLBACK_FAILED,
			"the %s function of the operator (%s) failed: it returned %d", what,
			op->description, answer);
	return TOMOS_OK;
}

/* For vectors in device memory: copies them to the host and the result back. */
static tomos_status call_via_host(const tomos_op *op, tomos_custom_apply apply, const char *what,
	const Space *from, const float *in, const Space *to, float *out)
{
	float *x = NULL, *y = NULL;
	tomos_status status;
	TRY_OR_DONE(mem_alloc(&x, from->count, sizeof *x, "the argument of an operator"));
	TRY_OR_DONE(mem_alloc(&y, to->count, sizeof *y, "the result of an operator"));
	tomos_array source = array_in(from, x), target = array_in(to, y);
	TRY_OR_DONE(vector_download(from, in, &source));
	TRY_OR_DONE(call_function(op, apply, what, &source, &target));
	TRY_OR_DONE(vector_upload(to, out, &target));
	TRY_OR_DONE(vector_sync(to)); /* the upload may still read y */
done:
	mem_free(x);
	mem_free(y);
	return status;
}

static tomos_status apply_to(const tomos_op *op, tomos_custom_apply apply, const char *what,
	const Space *from, const float *in, const Space *to, float *out)
{
	tomos_array source = array_in(from, in), target = array_in(to, out);
	if (from->backend->device != 0)
		return call_via_host(op, apply, what, from, in, to, out);
	return call_function(op, apply, what, &source, &target);
}

static tomos_status custom_forward(const tomos_op *op, const float *x, float *y)
{
	const Custom *own = op->own;
	return apply_to(op, own->calls.forward, "forward", &op->domain, x, &op->range, y);
}

static tomos_status custom_adjoint(const tomos_op *op, const float *y, float *x)
{
	const Custom *own = op->own;
	return apply_to(op, own->calls.adjoint, "adjoint", &op->range, y, &op->domain, x);
}

static const OpType custom_type = {.forward = custom_forward, .adjoint = custom_adjoint};

tomos_status tomos_op_custom(tomos_op **op, tomos_backend *backend, const int64_t domain[3],
	const int64_t range[3], const tomos_custom *calls)
{
	tomos_custom own = {.bytes = sizeof own};
	*op = NULL;
	TRY(struct_take(&own, calls, "tomos_custom"));
	if (!backend || !domain || !range || !own.forward || !own.adjoint)
		return fail(TOMOS_BAD_VALUE, "a custom operator needs a backend, two "
					     "shapes, and functions for forward and adjoint");
	TRY(op_make(op, &custom_type, backend, domain, range, sizeof(Custom)));
	((Custom *)(*op)->own)->calls = own;
	(*op)->matched = true;
	(*op)->entries = ENTRIES_UNKNOWN;
	snprintf((*op)->description, sizeof(*op)->description, "%.100s",
		own.name ? own.name : "a custom operator");
	return TOMOS_OK;
}
