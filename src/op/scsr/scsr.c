/* SCSR as an operator. */
#include <stdio.h>
#include "op/scsr/scsr.h"

/* Bytes of a slab for devices that do not report their shared memory. */
enum { SLAB_BYTES = 2 << 20 };

static bool on_device(const tomos_op *op)
{
	return op->domain.backend->type->matrix != NULL;
}

static tomos_status apply(
	const tomos_op *op, Direction direction, int power, const float *in, float *out)
{
	const Scsr *scsr = op->own;
	tomos_backend *backend = op->domain.backend;
	if (on_device(op))
		return backend->type->matrix->scsr_apply(
			backend, &scsr->device, direction, power, in, out);
	return direction == FORWARD ? scsr_forward(scsr, power, in, out)
				    : scsr_adjoint(scsr, power, in, out);
}

static tomos_status list(const tomos_op *op, const KernelBatch *batch)
{
	const Scsr *scsr = op->own;
	tomos_backend *backend = op->domain.backend;
	return backend->type->matrix->scsr_list_rows(backend, &scsr->device, batch);
}

static tomos_status row(
	const tomos_op *op, int64_t i, int64_t *index, float *weight, int64_t *count)
{
	int64_t columns = op->range.shape[2];
	scsr_row(op->own, i / columns, i % columns, index, weight, count);
	return TOMOS_OK;
}

static tomos_status sweeper(const tomos_op *op, RowSweeper **made)
{
	return scsr_sweeper(op->own, op->row_most, made);
}

static void release(tomos_op *op)
{
	if (on_device(op))
		scsr_recall(op->own, op->domain.backend);
	scsr_clear(op->own);
}

/* Fills scsr->lanes: for each view, the lanes whose target it is. */
tomos_status scsr_number_lanes(Scsr *scsr, int64_t views)
{
	const Symmetries *s = &scsr->symmetries;
	scsr->views = views;
	TRY(mem_alloc(&scsr->lanes, 2 * views, sizeof *scsr->lanes, "the views of a matrix"));
	for (int64_t i = 0; i < 2 * views; i++)
		scsr->lanes[i] = -1;
	for (int64_t i = 0; i < s->orbit_count; i++)
		for (int g = s->count - 1; g >= 0; g--) {
			const Orbit *orbit = &s->orbits[i];
			if (orbit->target[g] >= 0)
				scsr->lanes[2 * orbit->target[g] + orbit->flip[g]] =
					i * SYMMETRIES + g;
		}
	return TOMOS_OK;
}

/* ---- subsets of views ------------------------------------------------------------------------ */

/* Copies the orbits that contain a view of the subset, with the lanes of these views only. */
static tomos_status part_orbits(Scsr *part, const Scsr *whole, const int64_t *place)
{
	const Symmetries *from = &whole->symmetries;
	Symmetries *to = &part->symmetries;
	*to = *from;
	to->orbit_count = to->rows = 0;
	to->orbits = NULL;
	TRY(mem_alloc(&to->orbits, from->orbit_count, sizeof *to->orbits, "views of a matrix"));
	for (int64_t i = 0; i < from->orbit_count; i++) {
		Orbit orbit = from->orbits[i];
		bool used = false;
		for (int g = 0; g < from->count; g++) {
			orbit.target[g] = orbit.target[g] < 0 ? -1 : place[orbit.target[g]];
			used |= orbit.target[g] >= 0;
		}
		if (!used)
			continue;
		orbit.slot = to->rows;
		to->rows += orbit.columns;
		to->orbits[to->orbit_count++] = orbit;
	}
	return TOMOS_OK;
}

static tomos_status fill_part(
	Scsr *part, const Scsr *whole, int64_t all_views, const int64_t *views, int64_t count)
{
	int64_t *place;
	part->rows = whole->rows;
	part->borrowed = true;
	TRY(mem_alloc(&place, all_views, sizeof *place, "views of a matrix"));
	for (int64_t i = 0; i < all_views; i++)
		place[i] = -1;
	for (int64_t i = 0; i < count; i++)
		place[views[i]] = i;
	tomos_status status = part_orbits(part, whole, place);
	mem_free(place);
	return status != TOMOS_OK ? status : scsr_number_lanes(part, count);
}

static tomos_status part_of(tomos_op *part, const tomos_op *op, const int64_t *views, int64_t count)
{
	TRY(fill_part(part->own, op->own, op->range.shape[0], views, count));
	return on_device(op) ? scsr_send(part->own, op->domain.backend) : TOMOS_OK;
}

/* ---- making ---------------------------------------------------------------------------------- */

static const OpType scsr_type = {.apply = apply,
	.free = release,
	.part = part_of,
	.row = row,
	.list = list,
	.sweeper = sweeper};

static tomos_status check_plane(const Plan *plan)
{
	const int64_t *n = plan->grid.n;
	if (plan->model.planar && n[0] * n[1] <= INT32_MAX)
		return TOMOS_OK;
	if (plan->model.planar)
		return fail(TOMOS_UNSUPPORTED, "SCSR: %lld x %lld pixels; at most %d are possible",
			(long long)n[0], (long long)n[1], INT32_MAX);
	return fail(TOMOS_UNSUPPORTED,
		"SCSR is for one slice and one detector row with all rays in the slice; here are "
		"%lld slices, %lld rows",
		(long long)n[2], (long long)plan->model.rows);
}

tomos_status scsr_make(tomos_op **op, tomos_backend *backend, Lister *lister)
{
	int64_t domain[3], range[3];
	tomos_op *made;
	*op = NULL;
	TRY(check_plane(&lister->plan));
	plan_shapes(&lister->plan, domain, range);
	TRY(op_make(&made, &scsr_type, backend, domain, range, sizeof(Scsr)));
	Scsr *scsr = made->own;
	int64_t slab_bytes = !on_device(made)            ? 0
			     : backend->group_memory > 0 ? backend->group_memory
							 : SLAB_BYTES;
	tomos_status status = scsr_build(scsr, lister, slab_bytes);
	if (status == TOMOS_OK && on_device(made))
		status = scsr_send(scsr, backend);
	if (status != TOMOS_OK)
		return op_finish(op, made, status);
	made->matched = true;
	made->row_most = max64(scsr->rows->longest, 1);
	made->disjoint_columns = scsr->rows->disjoint_columns;
	snprintf(made->description, sizeof made->description,
		"%s as SCSR: %d symmetr%s, %lld of %lld rows in %.1f MB",
		kernel_rows[lister->kernel].name, scsr->symmetries.count,
		scsr->symmetries.count == 1 ? "y" : "ies", (long long)scsr->symmetries.rows,
		(long long)(range[0] * range[2]), 1e-6 * (double)scsr_bytes(scsr));
	*op = made;
	return TOMOS_OK;
}

int64_t scsr_op_bytes(const tomos_op *op)
{
	const Scsr *scsr = op->own;
	return op->type == &scsr_type && !scsr->borrowed ? scsr_bytes(scsr) : -1;
}
