/* Vectors that are distributed over ranks: sums over all of them, and differences between slabs. */
#include <math.h>
#include "op/ranked.h"
#include "op/ranked_parts.h"

/* ---- sums ----------------------------------------------------------------------------------- */

static tomos_status ranked_dot(
	tomos_backend *b, int64_t n, const float *x, const float *y, double *result)
{
	const Ranked *r = ranked_of(b);
	TRY(r->inner->type->vector->dot(r->inner, n, x, y, result));
	return comm_sum(r->comm, result, 1);
}

static tomos_status ranked_distance(
	tomos_backend *b, int64_t n, const float *x, const float *y, double *result)
{
	const Ranked *r = ranked_of(b);
	TRY(r->inner->type->vector->distance(r->inner, n, x, y, result));
	double square = *result * *result;
	TRY(comm_sum(r->comm, &square, 1));
	*result = sqrt(square);
	return TOMOS_OK;
}

static tomos_status ranked_max_abs(tomos_backend *b, int64_t n, const float *x, double *result)
{
	const Ranked *r = ranked_of(b);
	TRY(r->inner->type->vector->max_abs(r->inner, n, x, result));
	return comm_largest(r->comm, result, 1);
}

/* ---- differences between slabs -------------------------------------------------------------- */

/* Sends a slice to the rank above or below, and receives the one from the other side, which is then
 * in `got` on the device; *there false: there is no rank on that side. */
static tomos_status shift_slice(
	const Ranked *r, int to, const float *slice, int64_t size, float *got, bool *there)
{
	int above = r->comm->rank + to, from = r->comm->rank - to;
	float *host;
	int64_t bytes = size * (int64_t)sizeof *host, count = 0;
	CommMessage list[2];
	*there = from >= 0 && from < r->comm->size;
	TRY(mem_alloc(&host, 2 * size, sizeof *host, "slices of neighbouring ranks"));
	tomos_status status = host_copy(r->inner, (float *)(uintptr_t)slice, host, size, true);
	if (above >= 0 && above < r->comm->size)
		list[count++] = (CommMessage){above, true, host, bytes};
	if (*there)
		list[count++] = (CommMessage){from, false, host + size, bytes};
	if (status == TOMOS_OK)
		status = comm_exchange(r->comm, list, count);
	if (status == TOMOS_OK && *there)
		status = host_copy(r->inner, got, host + size, size, false);
	mem_free(host);
	return status;
}

/* The difference of the last slice to the first one of the rank above. */
static tomos_status ranked_gradient(
	tomos_backend *b, const int64_t shape[3], int parts, const float *x, float *field)
{
	const Ranked *r = ranked_of(b);
	const BackendVector *vector = r->inner->type->vector;
	int64_t size = shape[1] * shape[2], last = (shape[0] - 1) * size;
	bool above;
	TRY(vector->gradient(r->inner, shape, parts, x, field));
	if (parts < 3)
		return TOMOS_OK;
	float *z = field + 2 * shape[0] * size + last;
	TRY(shift_slice(r, -1, x, size, z, &above));
	return above ? vector->axpy(r->inner, size, -1, x + last, z) : TOMOS_OK;
}

/* The same difference in the transpose: minus its value here, plus its value in the rank above. */
static tomos_status ranked_gradient_adjoint(
	tomos_backend *b, const int64_t shape[3], int parts, const float *field, float *x)
{
	const Ranked *r = ranked_of(b);
	const BackendVector *vector = r->inner->type->vector;
	int64_t size = shape[1] * shape[2], last = (shape[0] - 1) * size;
	float *got;
	bool below;
	TRY(vector->gradient_adjoint(r->inner, shape, parts, field, x));
	if (parts < 3)
		return TOMOS_OK;
	const float *z = field + 2 * shape[0] * size + last;
	TRY(r->inner->type->memory->alloc(r->inner, &got, size, "a slice of another rank"));
	tomos_status status = shift_slice(r, 1, z, size, got, &below);
	if (status == TOMOS_OK && below)
		status = vector->axpy(r->inner, size, 1, got, x);
	if (status == TOMOS_OK && r->comm->rank + 1 < r->comm->size)
		status = vector->axpy(r->inner, size, -1, z, x + last);
	r->inner->type->memory->release(r->inner, got);
	return status;
}

/* ---- the backend ---------------------------------------------------------------------------- */

tomos_status ranked_open(tomos_backend **ranked, tomos_backend *inner, tomos_comm *comm)
{
	Ranked *r;
	*ranked = NULL;
	TRY(mem_zeroed(&r, 1, sizeof *r, "a backend of ranks"));
	r->base = *inner;
	r->inner = inner;
	r->comm = comm;
	r->waits = comm->one_thread;
	r->chunk_views = CHUNK_VIEWS;
	backend_copy(&r->copy, inner->type);
	r->base.type = &r->copy.type;
	r->copy.vector.dot = ranked_dot;
	r->copy.vector.distance = ranked_distance;
	r->copy.vector.max_abs = ranked_max_abs;
	r->copy.vector.dots = NULL;
	r->copy.vector.gradient = ranked_gradient;
	r->copy.vector.gradient_adjoint = ranked_gradient_adjoint;
	*ranked = &r->base;
	return TOMOS_OK;
}

void ranked_close(tomos_backend *ranked)
{
	mem_free(ranked);
}
