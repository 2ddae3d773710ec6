/* Phantoms on a grid: every line of samples along x intersects an ellipsoid in one interval. */
#include <math.h>
#include "truth/truth.h"

enum { WIDTH = 512 }; /* voxels of a row per step */

typedef struct {
	const tomos_phantom *phantom;
	const tomos_grid *grid;
	int64_t samples;
	const tomos_array *volume;
} Volume;

/* Position of sample `index` along an axis. */
static double sample_position(const Volume *o, int axis, int64_t index)
{
	const tomos_grid *g = o->grid;
	return g->first[axis] + g->step[axis] * (((double)index + 0.5) / (double)o->samples - 0.5);
}

/* The samples [low, high) strictly between two positions along x. */
static void samples_between(const Volume *o, double from, double to, int64_t *low, int64_t *high)
{
	double s = (double)o->samples, end = (double)(o->grid->n[0] * o->samples);
	*low = (int64_t)fmin(fmax(floor((from + 0.5) * s - 0.5) + 1, 0), end);
	*high = (int64_t)fmin(fmax(ceil((to + 0.5) * s - 0.5), 0), end);
}

/* Adds value times the number of samples [low, high) to the voxels x0 .. x0 + n - 1. */
static void add_interval(const Volume *o, int64_t low, int64_t high, double value, int64_t x0,
	int64_t n, double *sum)
{
	int64_t s = o->samples;
	low = max64(low, x0 * s);
	high = min64(high, (x0 + n) * s);
	for (int64_t x = low / s; x * s < high; x++)
		sum[x - x0] += value * (double)(min64(high, (x + 1) * s) - max64(low, x * s));
}

/* One line of samples along x through (y, z). */
static void add_line(const Volume *o, double y, double z, int64_t x0, int64_t n, double *sum)
{
	const tomos_grid *g = o->grid;
	double point[3] = {g->first[0], y, z}, along[3] = {g->step[0] < 0 ? -1 : 1, 0, 0};
	double step = fabs(g->step[0]);
	for (int64_t i = 0; i < o->phantom->count; i++) {
		const Solid *solid = &o->phantom->solids[i];
		double from, to;
		if (!solid_chord(solid, point, along, &from, &to))
			continue;
		int64_t low, high;
		samples_between(o, from / step, to / step, &low, &high);
		add_interval(o, low, high, solid->value, x0, n, sum);
	}
}

static void fill_row(const Volume *o, int64_t z, int64_t y, int64_t x0, int64_t n)
{
	const tomos_array *a = o->volume;
	int64_t s = o->samples;
	double sum[WIDTH] = {0}, scale = 1 / ((double)s * (double)s * (double)s);
	for (int64_t i = 0; i < s * s; i++)
		add_line(o, sample_position(o, 1, y * s + i % s),
			sample_position(o, 2, z * s + i / s), x0, n, sum);
	float *row = a->data + (z * a->stride[0] + y * a->stride[1] + x0 * a->stride[2]);
	for (int64_t x = 0; x < n; x++)
		row[x * a->stride[2]] = (float)(sum[x] * scale);
}

static void fill_slice(void *user, int64_t z)
{
	const Volume *o = user;
	for (int64_t y = 0; y < o->grid->n[1] && !cancel_seen(); y++)
		for (int64_t x = 0; x < o->grid->n[0]; x += WIDTH)
			fill_row(o, z, y, x, min64(WIDTH, o->grid->n[0] - x));
}

tomos_status tomos_phantom_volume(const tomos_phantom *phantom, const tomos_grid *grid,
	int64_t samples, const tomos_array *volume)
{
	TRY(phantom_check(phantom, samples));
	TRY(tomos_grid_check(grid));
	TRY(array_check(volume, "the phantom's volume",
		(int64_t[]){grid->n[2], grid->n[1], grid->n[0]}, ARRAY_WRITTEN));
	Volume o = {.phantom = phantom, .grid = grid, .samples = samples, .volume = volume};
	return parallel_try(grid->n[2], fill_slice, &o, "the volume of a phantom");
}
