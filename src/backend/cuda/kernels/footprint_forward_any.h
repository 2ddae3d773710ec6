/* How footprint_forward_any.cu divides the voxels of a plane among the threads of a block. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_FORWARD_ANY_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_FORWARD_ANY_H

#include "backend/cuda/kernels/footprint_shares.h"

enum {
	CELLS_X = 16, /* cells of a block, one per thread: columns, rows */
	CELLS_Y = 8,
	THREADS = CELLS_X * CELLS_Y
};

typedef struct {
	const KernelView *views;
	int64_t count, part; /* views of a pass; of a quarter of the circle */
	int direction;       /* `quarter` of RayClass */
	int weighting;       /* WEIGHT_NONE, WEIGHT_DEPTH or WEIGHT_RAY */
	int rows, columns;
	int64_t low[3];
	double step[3];
	int n[3];
	const void *volume; /* Value */
	int axis;           /* of the planes */
	int64_t stride[3];  /* of the volume, along x, y and z */
	int cell;           /* pixels along the side of a cell */
	int before[2];      /* patch: pixels before the cell, columns and rows */
	int size[2];        /* columns and rows of a patch */
	int tiles[2];       /* blocks per view along columns and rows */
	float *patches;     /* Value [view][tile][row][column] */
	float *projections;
} Sheets;

/* Columns or rows of the patches of a block together. */
static __host__ __device__ __forceinline__ int tile_size(const Sheets &s, int c)
{
	return s.cell * ((c ? (int)CELLS_Y : (int)CELLS_X) - 1) + s.size[c];
}

/* Changes along the axis a of the planes, the axis b that follows detector columns and the axis c
 * that follows rows, and the constant at the first voxel of the box. */
typedef struct {
	double a, b, c, w;
} Plane;

/* A view as a block sees it. */
typedef struct {
	Plane u, v, d;  /* U, V, D, divided by the depth at the centre of the box */
	double away[3]; /* from the source to the first voxel, in voxels, along a, b, c */
	float step[3];
	int n[3];
	int64_t stride[3];
	int column, row; /* first pixel of the block */
	float scale;
} Beam;

/* The axis that is closest to the ray through a point of the detector. */
static __host__ __device__ inline int closest_axis(const KernelView *k, double column, double row)
{
	double most = -1;
	int closest = 0;
	for (int a = 0; a < 3; a++) {
		const double d = KERNEL_HAS_SOURCE(k)
					 ? k->first[a] + column * k->u[a] + row * k->v[a] - k->src[a]
					 : k->src[a];
		if (fabs(d) > most) {
			most = fabs(d);
			closest = a;
		}
	}
	return closest;
}

/* Changes of U - column D and V - row D along an axis. */
static __host__ __device__ inline double across_of(const KernelView *k, int a, double column)
{
	return k->column[a] - column * k->depth[a];
}

static __host__ __device__ inline double along_of(const KernelView *k, int a, double row)
{
	return k->row[a] - row * k->depth[a];
}

/* Which of the two axes other than a follows detector columns. */
static __host__ __device__ inline int column_axis(
	const KernelView *k, int a, double column, double row)
{
	const int one = a == 0 ? 1 : 0, two = a == 2 ? 1 : 2;
	return fabs(across_of(k, one, column) * along_of(k, two, row)) >=
			       fabs(across_of(k, two, column) * along_of(k, one, row))
		       ? one
		       : two;
}

/* ---- cells ----------------------------------------------------------------------------------- */

/* The voxels of a plane are divided into strips by the lines onto which the edges of the cells'
 * columns project, and each strip into cells where the rays through the middle of its edges along
 * rows pass. Every voxel is in one cell: neighbouring threads, of any block, compute the limit that
 * they share by the same operations. */
typedef struct {
	double base[2], by_plane[2], by_c[2]; /* limits along b */
	double start[2], slope[2];            /* limits along c */
} Cell;

static __device__ __forceinline__ double at_pixel(double f, double d, double pixel)
{
	return fma(-pixel, d, f);
}

static __device__ __forceinline__ void set_cell(
	const Sheets &s, const Beam &beam, int x, int y, Cell *cell)
{
	const Plane &u = beam.u, &v = beam.v, &d = beam.d;
	const double middle = beam.column + (x + 0.5) * s.cell - 0.5;
	const double mb = at_pixel(u.b, d.b, middle), mc = at_pixel(u.c, d.c, middle),
		     ma = at_pixel(u.a, d.a, middle), mw = at_pixel(u.w, d.w, middle);
#pragma unroll
	for (int i = 0; i < 2; i++) {
		const double edge = beam.column + (x + i) * s.cell - 0.5;
		const double rate = -1 / at_pixel(u.b, d.b, edge);
		cell->base[i] = __dmul_rn(at_pixel(u.w, d.w, edge), rate);
		cell->by_plane[i] = __dmul_rn(at_pixel(u.a, d.a, edge), rate);
		cell->by_c[i] = __dmul_rn(at_pixel(u.c, d.c, edge), rate);
		const double low = beam.row + (y + i) * s.cell - 0.5;
		const double b = at_pixel(v.b, d.b, low), c = at_pixel(v.c, d.c, low),
			     a = at_pixel(v.a, d.a, low), w = at_pixel(v.w, d.w, low);
		const double other = 1 / fma(mb, c, -__dmul_rn(mc, b));
		cell->start[i] = __dmul_rn(fma(b, mw, -__dmul_rn(mb, w)), other);
		cell->slope[i] = __dmul_rn(fma(b, ma, -__dmul_rn(mb, a)), other);
	}
}

/* Voxels from .x to .y - 1 between two limits, of n. */
static __device__ __forceinline__ int2 between(double one, double two, int n)
{
	const int i = __double2int_ru(one), j = __double2int_ru(two);
	return make_int2(max(min(i, j), 0), min(max(i, j), n));
}

static __device__ __forceinline__ int2 cell_rows(const Cell &cell, double plane, int n)
{
	return between(fma(cell.slope[0], plane, cell.start[0]),
		fma(cell.slope[1], plane, cell.start[1]), n);
}

/* ---- a block --------------------------------------------------------------------------------- */

static __device__ __forceinline__ Plane plane_of(
	const double f[4], const int axes[3], const int64_t low[3], double rate)
{
	const double w = f[3] + f[0] * (double)low[0] + f[1] * (double)low[1] +
			 f[2] * (double)low[2];
	return Plane{f[axes[0]] * rate, f[axes[1]] * rate, f[axes[2]] * rate, w * rate};
}

/* Returns whether the planes of s.axis are those of the block. */
static __device__ __noinline__ bool set_beam(
	const Sheets &s, const KernelView *k, int tile_x, int tile_y, Beam *beam)
{
	const double column = fmin((tile_x + 0.5) * (s.cell * CELLS_X), s.columns - 1.0),
		     row = fmin((tile_y + 0.5) * (s.cell * CELLS_Y), s.rows - 1.0);
	if (closest_axis(k, column, row) != s.axis)
		return false;
	const int b = column_axis(k, s.axis, column, row);
	const int axes[3] = {s.axis, b, 3 - s.axis - b};
	double centre[3];
	for (int a = 0; a < 3; a++)
		centre[a] = (double)s.low[a] + 0.5 * (s.n[a] - 1);
	const double rate = 1 / footprint_affine(k->depth, centre);
	beam->u = plane_of(k->column, axes, s.low, rate);
	beam->v = plane_of(k->row, axes, s.low, rate);
	beam->d = plane_of(k->depth, axes, s.low, rate);
	for (int i = 0; i < 3; i++) {
		const int a = axes[i];
		beam->away[i] = (double)s.low[a] - k->src[a];
		beam->step[i] = (float)s.step[a];
		beam->n[i] = s.n[a];
		beam->stride[i] = s.stride[a];
	}
	beam->column = tile_x * s.cell * CELLS_X;
	beam->row = tile_y * s.cell * CELLS_Y;
	beam->scale = (float)(s.weighting == WEIGHT_DEPTH ? rate * rate
			      : s.weighting != WEIGHT_RAY ? 1
			      : KERNEL_HAS_SOURCE(k)      ? k->mass * rate * rate * rate
							  : k->mass);
	return true;
}

#endif
