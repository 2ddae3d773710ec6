/* Upper bound of the speed of a workload on a machine: the smallest of the limits set by
 * arithmetic, cache, memory and link, each at full throughput with the least possible memory
 * traffic. */
#include "bench.h"

/* Tensor cores, for slices with equal weights: the pixels of a tile use the same detector columns
 * of a view, at least eight, which are read as halves and multiplied into all of them. A float is
 * the sum of two halves, which takes three products. */
enum { TENSOR_SLICES = 16, TENSOR_SUMS = 8 };
#define TENSOR_BYTES 0.5

static double volume_updates(const workload *w)
{
	if (w->task == SART)
		return (double)w->views;
	return w->task == BLOCK ? BENCH_BLOCKS : 1;
}

/* The bound for one choice of arithmetic: each is a bound of its kind, so the largest one holds. */
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
	if (w->task == FDK_HOST || w->task == FBP_HOST) /* both directions at once */
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
