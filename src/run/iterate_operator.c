/* The operator of a slab of an iterative method. */
#include "run/run_parts.h"

static bool names(const char *path)
{
	return path && path[0];
}

/* All slabs of a stack are the same problem at different heights, so each is centred at z = 0. */
static tomos_status iterative_geometry(
	const FileRun *r, const Slab *slab, tomos_geometry **scan, tomos_grid *grid)
{
	const tomos_geometry *g = r->prepared->geometry;
	*grid = r->grid;
	TRY(tomos_geometry_views(scan, g->rows, g->columns, g->views, g->count));
	if (!r->stacked)
		return TOMOS_OK;
	grid->n[2] = slab->count;
	grid->first[2] = -0.5 * grid->step[2] * (double)(slab->count - 1);
	(*scan)->rows = slab->count;
	for (int64_t i = 0; i < g->count; i++) {
		(*scan)->views[i].det[2] = 0;
		(*scan)->views[i].src[2] = 0;
	}
	return TOMOS_OK;
}

static tomos_status make_operator(
	const FileRun *r, const tomos_geometry *scan, const tomos_grid *grid, tomos_op **op)
{
	const tomos_job *job = r->job;
	tomos_backend *backend = r->together ? r->ranked : r->backend;
	const int64_t domain[3] = {grid->n[2], grid->n[1], grid->n[0]};
	const int64_t range[3] = {scan->count, scan->rows, scan->columns};
	if (names(job->matrix))
		return tomos_op_matrix_read(op, backend, job->matrix, domain, range);
	if (job->stored)
		return tomos_op_matrix(op, backend, grid, scan, job->projector, job->stored);
	if (r->together && !r->stacked)
		return op_ranked(op, backend, &r->bands, job->projector);
	return tomos_op_projector(op, backend, grid, scan, job->projector);
}

/* Ranks that iterate together on slices with rows of their own: the place of those of this rank
 * among all, and the operator that one process would have. */
static tomos_status divide_stack(const FileRun *r, const Slab *slab, tomos_op *op)
{
	const Slab all = {.first = r->first_slice, .count = r->slices};
	const int64_t *n = op->domain.shape, *m = op->range.shape;
	const int64_t volume[3] = {r->slices, n[1], n[2]}, rays[3] = {m[0], r->slices, m[2]};
	int64_t before = slab->first - r->first_slice;
	tomos_projector_options o = tomos_projector_defaults();
	KernelModel model = {.weight = WEIGHT_RAY};
	tomos_geometry *scan;
	tomos_grid grid;
	int forward, back;
	TRY(space_divide(&op->domain, &op->parts[0], r->comm, volume, 1));
	op->parts[0].runs[0] = (SpaceRun){0, before * n[1] * n[2], op->domain.count};
	TRY(space_divide(&op->range, &op->parts[1], r->comm, rays, m[0]));
	for (int64_t i = 0; i < m[0]; i++)
		op->parts[1].runs[i] =
			(SpaceRun){i * m[1] * m[2], (i * r->slices + before) * m[2], m[1] * m[2]};
	TRY(options_take(&o, r->job->projector, "projector"));
	if (!projector_pair(&o))
		TRY(projector_choose(&o, &forward, &back, &model));
	TRY(iterative_geometry(r, &all, &scan, &grid));
	op_place(op, &grid, scan, &model);
	tomos_geometry_free(scan);
	return TOMOS_OK;
}

tomos_status iterative_operator(FileRun *r, const Slab *slab)
{
	Iterative *it = &r->iterative;
	tomos_geometry *scan = NULL;
	tomos_grid grid;
	if (it->op && it->op_slices == slab->count)
		return TOMOS_OK;
	tomos_op_free(it->op);
	it->op = NULL;
	tomos_status status = iterative_geometry(r, slab, &scan, &grid);
	if (status == TOMOS_OK)
		status = make_operator(r, scan, &grid, &it->op);
	if (status == TOMOS_OK && r->together && r->stacked)
		status = divide_stack(r, slab, it->op);
	tomos_geometry_free(scan);
	it->op_slices = slab->count;
	if (status == TOMOS_OK && (r->job->stored || names(r->job->matrix)))
		TRY(job_say(r->job, "matrix    %s", tomos_op_describe(it->op)));
	return status;
}
