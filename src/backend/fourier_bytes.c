/* Memory and time of the Fourier projector. */
#include <math.h>
#include <string.h>
#include "backend/backend.h"
#include "backend/fourier.h"
#include "geom/geom.h"

static double pixel_width(const tomos_geometry *scan)
{
	const double *u = scan->views[0].u;
	return sqrt(u[0] * u[0] + u[1] * u[1] + u[2] * u[2]);
}

/* Points of a view: columns of the detector and of a slice beside it. */
static double points_of(const tomos_geometry *scan, const tomos_grid *grid)
{
	double wide = 0;
	for (int a = 0; a < 2; a++)
		wide += fabs((double)grid->n[a] * grid->step[a]);
	return (double)scan->columns + wide / pixel_width(scan);
}

double fourier_bytes(const tomos_geometry *scan, const tomos_grid *grid, double accuracy)
{
	double over = fourier_oversampling(accuracy), points = points_of(scan, grid);
	double cell = 8 * (grid->n[2] > 2 ? 4 : 1);
	double cells = over * over * (double)grid->n[0] * (double)grid->n[1];
	double buffers =
		64 * tomos_threads() * (points + over * (double)grid->n[0]) * sizeof(float);
	return 1.1 * (cell * (cells + points * (double)scan->count) + 2 * buffers);
}

/* The points of each view in the tiles of an axis, for every period of the grid that they extend
 * over: the wider a voxel, the more periods a band has (cpu/fourier_plan.c). */
double fourier_alias_bytes(const tomos_geometry *scan, const tomos_grid *grid, int aliases)
{
	double ranges = 0;
	for (int a = 0; a < 2 && aliases > 0; a++) {
		double tiles = 2 + fourier_oversampling(FOURIER_FINEST) * (double)grid->n[a] / 64;
		double columns = fabs(grid->step[a]) / pixel_width(scan);
		ranges += tiles * 2 * (1 + ceil((0.5 + aliases) * columns));
	}
	return ranges * (double)scan->count * 2 * sizeof(int32_t);
}

/* A point of a view and a voxel of the slices take as long as that many updates (voxels times
 * views) of direct back projection; doc/performance.md has the times that this fits. CUDA's direct
 * kernels have tensor cores; those of OpenCL compare with transforms as the CPU's do. */
double fourier_gain(const tomos_backend *backend, const tomos_grid *grid,
	const tomos_geometry *scan, int aliases)
{
	bool tensor_cores = strcmp(backend->type->name, "cuda") == 0;
	double voxels = (double)grid->n[0] * (double)grid->n[1], views = (double)scan->count;
	double point = tensor_cores ? 520 : 75, voxel = tensor_cores ? 180 : 65;
	point += 26 * aliases; /* only CPUs have them */
	voxel += aliases > 0 ? 50 : 0;
	return voxels * views / (point * points_of(scan, grid) * views + voxel * voxels);
}

/* The kernel is back projected onto a slice of twice the size and transformed; data are back
 * projected as accurately as possible. */
double fourier_normal_bytes(const tomos_geometry *scan, const tomos_grid *grid, double accuracy)
{
	tomos_grid twice = *grid;
	twice.n[0] *= 2;
	twice.n[1] *= 2;
	twice.n[2] = 1;
	double padded = 4 * (double)grid->n[0] * (double)grid->n[1];
	double cell = 8 * (grid->n[2] > 2 ? 4 : 1);
	double before = fmax(
		fourier_bytes(scan, &twice, accuracy), fourier_bytes(scan, grid, FOURIER_FINEST));
	return before + 1.3 * padded * (16 + 0.5 * cell);
}
