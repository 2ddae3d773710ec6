/* The most that a machine could do of a workload: what no part of it can pass, caches and arithmetic used
 * without a gap and memory met as seldom as can be. */
#include "bench.h"

/* With half data on matrix units: 16 pixels of a square of four by four share eight columns of a view,
 * which are read as halves and multiplied into all sixteen. */
enum { TENSOR_SUMS = 8, TENSOR_BYTES = 1 };

static double volume_updates(const workload *w)
{
	if (w->task == SART)
		return (double)w->views;
	return w->task == BLOCK ? BENCH_BLOCKS : 1;
}

void workload_bound(const tomos_machine *machine, const workload *w, timing *t)
{
	const double bytes = sizeof(float), updates = workload_updates(w);
	const double voxels = (double)w->n * (double)w->n * (double)w->slices;
	const double pixels = (double)w->views * (double)w->rows * (double)w->columns;
	const bool half = w->task == ADJOINT_HALF || w->task == FBP_HALF;
	double work[TOMOS_RATES] = {
		[TOMOS_RATE_MEMORY] =
			bytes * (w->volumes * voxels * volume_updates(w) + w->scans * pixels),
		[TOMOS_RATE_CACHE] = bytes * w->samples * updates,
		[TOMOS_RATE_SUMS] = w->sums * updates};
	if (half && machine->rates[TOMOS_RATE_TENSOR] > 0) {
		work[TOMOS_RATE_CACHE] = TENSOR_BYTES * updates;
		work[TOMOS_RATE_SUMS] = 0;
		work[TOMOS_RATE_TENSOR] = TENSOR_SUMS * updates;
	}
	if (w->task == FDK_HOST) /* both ways at once */
		work[TOMOS_RATE_LINK] = bytes * (voxels > pixels ? voxels : pixels);
	double least = tomos_machine_bound(machine, work, &t->part);
	t->bound = least > 0 ? 1e-9 * updates / least : 0;
}
