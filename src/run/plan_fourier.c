/* Memory of a run that projects by Fourier transforms. */
#include <stdio.h>
#include <string.h>
#include "backend/backend.h"
#include "op/filtered.h"
#include "run/run_parts.h"

/* Memory of --normal fourier: two volumes for each vector of projections, five of the operator. */
static double normal_work(const FileRun *r, const tomos_grid *grid, double accuracy)
{
	double volumes, projections;
	double voxels = (double)grid->n[0] * (double)grid->n[1] * (double)grid->n[2];
	if (!demand_normal(&r->iterative.demand))
		return 0;
	demand_vectors(&r->iterative.demand, &volumes, &projections);
	return fourier_normal_bytes(r->prepared->geometry, grid, accuracy) +
	       (2 * projections + 5) * voxels * sizeof(float);
}

static tomos_status read_row(void *user, int64_t row, float *data)
{
	const FileRun *r = user;
	return prepared_read_row(r->whole, row, data, r->progress);
}

tomos_status run_choose_by(FileRun *r)
{
	ByChoice choice = {.fourier = false};
	r->by = tomos_analytic_defaults();
	TRY(options_take(&r->by, r->job->analytic, "analytic"));
	if (!r->by.by || strcmp(r->by.by, "auto") != 0)
		return TOMOS_OK;
	TRY(options_need("analytic", &r->by, NULL));
	/* Ranks must not decide differently, and a plan is to be quick. */
	bool tries = comm_size(r->comm) == 1 && !r->options.dry_run && r->options.ranks == 0;
	if (!tries)
		snprintf(choice.why, sizeof choice.why,
			"direct: only a run of one process tries both ways");
	else if (strcmp(r->method, "fbp") == 0)
		TRY(fbp_choose_by(
			&choice, r->backend, &r->grid, r->whole->geometry, &r->by, read_row, r));
	r->by.by = choice.fourier ? "fourier" : "direct";
	r->by.aliases = choice.aliases;
	r->taken.analytic = &r->by;
	memcpy(r->by_why, choice.why, sizeof r->by_why);
	return TOMOS_OK;
}

/* Options that cannot be read are rejected elsewhere. */
static tomos_analytic_options analytic_of(const FileRun *r)
{
	tomos_analytic_options o = tomos_analytic_defaults();
	(void)options_take(&o, r->job->analytic, "analytic");
	return o;
}

bool run_by_fourier(const FileRun *r)
{
	const char *by = analytic_of(r).by;
	return !r->iterates && by && strcmp(by, "fourier") == 0;
}

/* Devices have batches of twice as many slices as the cpu. */
double run_fourier_bytes(const FileRun *r, int64_t count)
{
	const tomos_geometry *g = r->prepared->geometry;
	tomos_projector_options projector = tomos_projector_defaults();
	tomos_grid grid = r->grid;
	double times = r->backend->device != 0 ? 2 : 1;
	grid.n[2] = count;
	(void)options_take(&projector, r->job->projector, "projector");
	const ProjectorPair *pair = projector_pair(&projector);
	if (r->iterates && !pair)
		return 0;
	if (r->iterates)
		return times * pair->bytes(g, &grid, projector.accuracy) +
		       normal_work(r, &grid, projector.accuracy);
	if (!run_by_fourier(r))
		return 0;
	return times * fourier_bytes(g, &grid, FBP_ACCURACY) +
	       fourier_alias_bytes(g, &grid, (int)analytic_of(r).aliases);
}
