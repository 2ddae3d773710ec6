/* How many rays there are for each voxel: what the choice between kernels depends on. Kernels that
 * process columns of voxels or detector columns in SIMD lanes take some time for each column, and
 * then less for each ray than others; how much less, depends on the distance of the rays. */
#ifndef TOMOS_BACKEND_CPU_LEVEL_DENSITY_H
#define TOMOS_BACKEND_CPU_LEVEL_DENSITY_H

#include <math.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/level/simd.h"
#include "kernel/ray.h"

/* Times of kernels are in nanoseconds (one core of an AMD Zen 4, 3.4 GHz, or by ratios on a Zen 5),
 * measured with vectors of 16, 8 and 4 floats; only their ratios matter. */
#define BY_LANES(sixteen, eight, four) (LANES >= 16 ? (sixteen) : LANES >= 8 ? (eight) : (four))

/* Places of the volume, and views, at which times are added; rays of a view along each side. */
enum { PLACES = 4, SAMPLED_VIEWS = 8, SAMPLED_RAYS = 8 };

enum { BLOCK_TALL = 32 }; /* slices */

typedef struct {
	double rows, columns; /* of the detector for each voxel, along z and across the rays */
	double seen;          /* slices of a column of voxels that are in the view */
	double met;           /* rows of a detector column whose rays pass voxels of the box */
	double lean;          /* slices by which those that are seen differ between neighbours */
} Density;

/* The whole numbers in [low, high] that are between a and b. */
static inline double numbers_between(double a, double b, double low, double high)
{
	return fmax(0, fmin(fmax(a, b), high) - fmax(fmin(a, b), low) + 1);
}

/* Slices and rows, if row `first` + z `rise` is that of slice z. */
static inline void density_range(const ProjectRequest *what, double first, double rise, Density *d)
{
	const double low = (double)what->box.low[2], high = (double)what->box.high[2];
	const double rows = (double)what->plan->model.rows;
	if (!rays_are(&what->plan->rays, RAYS_IN_SHEET)) { /* unknown */
		d->seen = high - low;
		d->met = rows;
		return;
	}
	if (fabs(rise) * (high - low) < 1e-3) { /* all slices are seen by the same row */
		d->seen = first > -1 && first < rows ? high - low : 0;
		d->met = d->seen > 0;
		return;
	}
	d->seen = numbers_between((-1 - first) / rise, (rows - first) / rise, low, high - 1);
	d->met = numbers_between(first + (low - 1) * rise, first + high * rise, 0, rows - 1);
}

static inline Density density_at(const ProjectRequest *what, const KernelView *k, int place)
{
	const Plan *plan = what->plan;
	const double at[4] = {(place & 1 ? 0.75 : 0.25) * (double)plan->grid.n[0],
		(place & 2 ? 0.75 : 0.25) * (double)plan->grid.n[1], 0.5 * (double)plan->grid.n[2],
		1};
	double depth = 0, column = 0, square = 0, row = 0, lean = 0;
	for (int a = 0; a < 4; a++) {
		depth += k->depth[a] * at[a];
		column += k->column[a] * at[a];
		row += a == 2 ? 0 : k->row[a] * at[a];
	}
	for (int a = 0; a < 2; a++) {
		double change = (k->column[a] - column / depth * k->depth[a]) / depth;
		square += change * change;
	}
	row /= kernel_row_depth(k, depth);
	for (int a = 0; a < 2; a++)
		lean += fabs(k->row[a] - (KERNEL_FANS(k) ? 0 : row * k->depth[a]));
	const double rise = k->row[2] / kernel_row_depth(k, depth);
	Density d = {.rows = fabs(rise), .columns = sqrt(square), .lean = lean / fabs(k->row[2])};
	density_range(what, row, rise, &d);
	return d;
}

/* Rays of a view for each voxel, from the planes that some of them cross: detectors may be smaller
 * than the volume, and rays leave a thin one. */
static inline double rays_per_voxel(const ProjectRequest *what, int64_t number)
{
	const KernelModel *model = &what->plan->model;
	const KernelGrid grid = request_grid(what);
	double planes = 0, voxels = 1;
	for (int i = 0; i < SAMPLED_RAYS * SAMPLED_RAYS; i++) {
		const int64_t row = (2 * (i / SAMPLED_RAYS) + 1) * model->rows / (2 * SAMPLED_RAYS);
		const int64_t column =
			(2 * (i % SAMPLED_RAYS) + 1) * model->columns / (2 * SAMPLED_RAYS);
		KernelRay ray =
			kernel_ray(&grid, &what->plan->views[what->first + number], row, column);
		KernelWalk walk = kernel_walk(&grid, &ray, 0.5, 0.5);
		planes += fmax(0, walk.k_stop - walk.k_start);
	}
	for (int a = 0; a < 3; a++)
		voxels *= (double)(grid.high[a] - grid.low[a]);
	return planes / (SAMPLED_RAYS * SAMPLED_RAYS) * (double)(model->rows * model->columns) /
	       voxels;
}

/* Slices that kernels of blocks of voxels visit for those that are seen: whole blocks, as wide and
 * deep as they are tall, of which some voxels are seen. */
static inline double slices_in_blocks(const ProjectRequest *what, const Density *d)
{
	return fmin((double)(what->box.high[2] - what->box.low[2]),
		d->seen + BLOCK_TALL * (1 + d->lean));
}

/* Time of a kernel less that of the fastest other one, in one place. */
typedef double (*SlowerBy)(const ProjectRequest *what, const Density *d, bool circle);

/* The sum over some places and the views that see them: positive where the kernel is slower.
 * `circle`: whether there are kernels for circles among the others. */
static inline bool slower_in_sum(const ProjectRequest *what, bool circle, SlowerBy by)
{
	double sum = 0;
	for (int64_t i = 0; i < min64(SAMPLED_VIEWS, what->count); i++) {
		int64_t view = what->first + i * what->count / min64(SAMPLED_VIEWS, what->count);
		for (int place = 0; place < PLACES; place++) {
			Density d = density_at(what, &what->plan->views[view], place);
			sum += d.seen > 0 ? by(what, &d, circle) : 0;
		}
	}
	return sum > 0;
}

#endif
