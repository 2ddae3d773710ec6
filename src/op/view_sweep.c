/* Sweeps of Kaczmarz's method on backends, a view at a time and yet one ray after the other.
 *
 * With all products a_i'x of a view taken before its first ray is used, that of ray i is later off
 * by what the rays before it have added: the sum of step_j a_i'a_j. Only near neighbours share
 * voxels, so few a_i'a_j are not 0; they are found once, by the operator: it sees the back
 * projection of every mth ray of a view, where m is so large that no ray shares voxels with two of
 * these. /
 */
#include <math.h>
#include "op/sweep.h"

bool view_sweep_can(const tomos_op *op)
{
	return op->domain.backend->type->matrix && op->type->part && op->matched && op->apart > 0 &&
	       op->apart <= STORED_NEIGHBOURS + 1;
}

/* Rays k, k + m, ... of a view are 1, the others 0: into `steps`, which has room for one of these.
 * */
static tomos_status mark_rays(const ViewSweep *s, int64_t k, float *marked)
{
	const Space *view = &s->views->ops[0]->range;
	for (int64_t i = 0; i < view->count; i++)
		marked[i] = i % (2 * s->near + 1) == k ? 1 : 0;
	tomos_array array = tomos_array_of(marked, 1, 1, view->count);
	return vector_upload(view, s->steps, &array);
}

static tomos_status find_products(const ViewSweep *s)
{
	const Space *view = &s->views->ops[0]->range;
	int64_t marks = 2 * s->near + 1;
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
	*s = (ViewSweep){.views = views, .near = op->apart - 1};
	all.count *= (2 * s->near + 1) * views->count;
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
		const KernelKaczmarzView rays_of_view = {rays, s->near, v->b + at, v->squares + at,
			s->products + i * rays * (2 * s->near + 1), v->r + at, s->steps, v->lambda,
			v->least};
		TRY(op_forward(view, v->x, v->r + at));
		TRY(backend->type->matrix->kaczmarz_view(backend, &rays_of_view));
		TRY(update(s, view, v->x));
	}
	return TOMOS_OK;
}
