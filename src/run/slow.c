/* Warns before a large job whose projections would run a reference kernel. */
#include <stdio.h>
#include <string.h>
#include "backend/optimised.h"
#include "run/run_parts.h"

/* Updates (voxels times views) of a projection direction that take a reference kernel a minute:
 * on a few CPU cores, on a GPU. */
#define LARGE_CPU 1e10
#define LARGE_GPU 3e12

static double updates(const FileRun *r)
{
	double passes = r->iterates ? (double)r->iterative.o.iterations : 1;
	return passes * (double)r->grid.n[0] * (double)r->grid.n[1] * (double)r->slices *
	       (double)r->whole->geometry->count;
}

static tomos_status warn(const FileRun *r, const Plan *plan, int kernel, Direction direction)
{
	char why[1024];
	ProjectRequest what = {
		.plan = plan, .kernel = kernel, .direction = direction, .count = plan->scan->count};
	memcpy(what.box.high, plan->grid.n, sizeof what.box.high);
	what.box.high[2] = min64(r->thickest, plan->grid.n[2]);
	if (!optimised_lacks(r->backend, &what, why, sizeof why))
		return TOMOS_OK;
	return job_warn(r->job,
		"the %s projection, %.3g G updates, runs the reference kernel, which is "
		"slow: %s",
		direction == FORWARD ? "forward" : "back", 1e-9 * updates(r), why);
}

static tomos_status warn_iterative(const FileRun *r)
{
	tomos_projector_options o = tomos_projector_defaults();
	KernelModel model = {.weight = WEIGHT_RAY};
	int forward, back;
	Plan plan;
	if (r->job->stored || (r->job->matrix && r->job->matrix[0]))
		return TOMOS_OK;
	TRY(options_take(&o, r->job->projector, "projector"));
	if (projector_pair(&o))
		return TOMOS_OK;
	TRY(projector_choose(&o, &forward, &back, &model));
	TRY(plan_make(&plan, &r->grid, r->whole->geometry, &model));
	plan.plain = o.plain != 0;
	tomos_status status = warn(r, &plan, forward, FORWARD);
	if (status == TOMOS_OK)
		status = warn(r, &plan, back, ADJOINT);
	plan_free(&plan);
	return status;
}

/* Views are back projected as they are after resampling. */
static tomos_status warn_analytic(const FileRun *r)
{
	const KernelModel model = {.weight = WEIGHT_NONE};
	tomos_analytic_options o = tomos_analytic_defaults();
	tomos_geometry *aligned;
	double *maps;
	Plan plan;
	TRY(options_take(&o, r->job->analytic, "analytic"));
	if (o.by && strcmp(o.by, "fourier") == 0)
		return TOMOS_OK;
	TRY(align_views(&aligned, &maps, r->whole->geometry));
	tomos_status status = plan_make(&plan, &r->grid, aligned, &model);
	if (status == TOMOS_OK) {
		plan.plain = o.plain != 0;
		status = warn(r, &plan, KERNEL_voxel, ADJOINT);
		plan_free(&plan);
	}
	tomos_geometry_free(aligned);
	mem_free(maps);
	return status;
}

tomos_status run_say_slow(const FileRun *r)
{
	bool cpu = strcmp(r->backend->type->name, "cpu") == 0;
	if (updates(r) < (cpu ? LARGE_CPU : LARGE_GPU))
		return TOMOS_OK;
	return r->iterates ? warn_iterative(r) : warn_analytic(r);
}
