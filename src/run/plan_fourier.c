/* Memory of a run that projects by Fourier transforms. */
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

bool run_by_fourier(const FileRun *r)
{
	tomos_analytic_options o = tomos_analytic_defaults();
	/* Options that cannot be read are rejected elsewhere. */
	(void)options_take(&o, r->job->analytic, "analytic");
	return !r->iterates && o.by && strcmp(o.by, "fourier") == 0;
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
	if (r->iterates && !projector_is_fourier(&projector))
		return 0;
	if (r->iterates)
		return times * fourier_bytes(g, &grid, projector.accuracy) +
		       normal_work(r, &grid, projector.accuracy);
	return run_by_fourier(r) ? times * fourier_bytes(g, &grid, FBP_ACCURACY) : 0;
}
