/* Sweeps of Kaczmarz's method on devices, one view at a time, with the result of one ray after the
 * other.
 *
 * The products a_i'x of all rays of a view are computed before the first ray is used. The product
 * of ray i is then corrected for the rays before it, by the sum of step_j a_i'a_j. Only
 * neighbouring rays share voxels, so few a_i'a_j are not 0. They are computed once, from the back
 * projection of every mth ray of a view, with m so large that no ray shares voxels with two of
 * these.
 */
#include <math.h>
#include "op/sweep.h"

bool view_sweep_can(const tomos_op *op)
{
	return op->domain.backend->type->matrix && op->type->part && op->matched &&
	       op->disjoint_columns > 0 && op->disjoint_columns <= STORED_NEIGHBOURS + 1;
}

/* Sets rays k, k + m, ... of a view to 1 and the others to 0, in `steps`. */
static tomos_status mark_rays(const ViewSweep *s, int64_t k, float *marked)
{
	const Space *view = &s->views->ops[0]->range;
	for (int64_t i = 0; i < view->count; i++)
		marked[i] = i % (2 * s->neighbours + 1) == k ? 1 : 0;
	tomos_array array = tomos_array_of(marked, 1, 1, view->count);
	return vector_upload(view, s->steps, &array);
}

static tomos_status find_products(const ViewSweep *s)
{
	const Space *view = &s->views->ops[0]->range;
	int64_t marks = 2 * s->neighbours + 1;
	float *marked;
	TRY(mem_alloc(&marked, view->count, sizeof *marked, "rays of a view"));
	tomos_status status = TOMOS_OK;
	for (int64_t k = 0; k < marks && status == TOMOS_OK; k++) {
		status = mark_rays(s, k, marked);
		for (int64_t i = 0; i < s->views->count && status == TOMOS_OK; i++) {
			status = op_adjoint(s->views->ops[i], s->steps, s->update);
			if (status == TOMOS_OK)
				status = op_forward(s->views->ops[i], s->update,
					s->products + (i * marks + k) * view->count);
		}
	}
	mem_free(marked);
	return status;
}

tomos_status view_sweep_open(ViewSweep *s, const Subsets *views)
{
	const tomos_op *op = views->ops[0];
	Space all = op->range;
	*s = (ViewSweep){.views = views, .neighbours = op->disjoint_columns - 1};
	all.count *= (2 * s->neighbours + 1) * views->count;
	TRY(vector_new(&s->products, &all, "products of neighbouring rays"));
	TRY(vector_new(&s->steps, &op->range, "steps of the rays"));
	TRY(vector_new(&s->update, &op->domain, "the update"));
	return find_products(s);
}

void view_sweep_close(ViewSweep *s)
{
	if (!s->views)
		return;
	const tomos_op *op = s->views->ops[0];
	vector_free(s->products, &op->range);
	vector_free(s->steps, &op->range);
	vector_free(s->update, &op->domain);
}

/* x += A'steps */
static tomos_status update(const ViewSweep *s, const tomos_op *view, float *x)
{
	const FusedUpdate step = {.a = 1, .low = -INFINITY, .high = INFINITY};
	bool done;
	TRY(op_adjoint_update(view, s->steps, &step, x, &done));
	if (done)
		return TOMOS_OK;
	TRY(op_adjoint(view, s->steps, s->update));
	return vector_axpy(&view->domain, 1, s->update, x);
}

tomos_status view_sweep_run(const ViewSweep *s, const KernelKaczmarz *v)
{
	for (int64_t i = 0; i < s->views->count; i++) {
		const tomos_op *view = s->views->ops[i];
		tomos_backend *backend = view->domain.backend;
		int64_t rays = view->range.count, at = s->views->views[i] * rays;
		const KernelKaczmarzView view_rays = {rays, s->neighbours, v->b + at,
			v->squares + at, s->products + i * rays * (2 * s->neighbours + 1),
			v->r + at, s->steps, v->lambda, v->least};
		TRY(op_forward(view, v->x, v->r + at));
		TRY(backend->type->matrix->kaczmarz_view(backend, &view_rays));
		TRY(update(s, view, v->x));
	}
	return TOMOS_OK;
}
