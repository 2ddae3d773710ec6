/* The most that a machine could do of a workload: what no part of it can pass, caches and arithmetic used
 * without a gap and memory met as seldom as can be. */
#include "bench.h"

/* Slices that share their weights, on matrix units: pixels of a square share the columns of a view that any of
 * them meets, at least eight, which are read as halves and multiplied into all of them. Floats are sums of two
 * halves, of which three products count. */
enum { TENSOR_SLICES = 16, TENSOR_SUMS = 8 };
#define TENSOR_BYTES 0.5

static double volume_updates(const workload *w)
{
	if (w->task == SART)
		return (double)w->views;
	return w->task == BLOCK ? BENCH_BLOCKS : 1;
}

/* By the way that is chosen here: all of them are bounds, so that of the best holds. */
static void keep_bound(const tomos_machine *machine, const double *work, double updates, timing *t)
{
	tomos_rate part;
	double least = tomos_machine_bound(machine, work, &part);
	double bound = least > 0 ? 1e-9 * updates / least : 0;
	if (bound > t->bound) {
		t->bound = bound;
		t->part = part;
	}
}

void workload_bound(const tomos_machine *machine, const workload *w, int half, timing *t)
{
	const double bytes = sizeof(float), updates = workload_updates(w);
	const double voxels = (double)w->n * (double)w->n * (double)w->slices;
	const double pixels = (double)w->views * (double)w->rows * (double)w->columns;
	double work[TOMOS_RATES] = {
		[TOMOS_RATE_MEMORY] =
			bytes * (w->volumes * voxels * volume_updates(w) + w->scans * pixels),
		[TOMOS_RATE_CACHE] = bytes * w->samples * updates,
		[TOMOS_RATE_SUMS] = w->sums * updates};
	if (w->task == FDK_HOST || w->task == FBP_HOST) /* both ways at once */
		work[TOMOS_RATE_LINK] = bytes * (voxels > pixels ? voxels : pixels);
	t->bound = 0;
	keep_bound(machine, work, updates, t);
	if (w->scan <= YZ && w->slices >= TENSOR_SLICES && machine->rates[TOMOS_RATE_TENSOR] > 0) {
		work[TOMOS_RATE_CACHE] = (half ? 1 : 2) * TENSOR_BYTES * updates;
		work[TOMOS_RATE_SUMS] = 0;
		work[TOMOS_RATE_TENSOR] = (half ? 1 : 3) * TENSOR_SUMS * updates;
		keep_bound(machine, work, updates, t);
	}
}
