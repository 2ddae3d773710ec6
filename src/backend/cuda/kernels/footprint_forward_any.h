/* How footprint_forward_any.cu divides the voxels of a plane among the threads of a block. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_FORWARD_ANY_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_FORWARD_ANY_H

#include "backend/cuda/kernels/footprint_shares.h"
#include "backend/cuda/kernels/lanes.h"

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
	int axes, axis;     /* of the planes: bit mask of all; that of a launch */
	int64_t stride[3];  /* of the volume, along x, y and z */
	int cell;           /* pixels along the side of a cell */
	float voxels;       /* along the side of a cell, at most */
	int kind;           /* of shares, for the longest footprint */
	double reach[2];    /* half the longest footprint, columns and rows */
	double drift[2];    /* of voxels from a cell, which is divided by the rays of its middle */
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

/* Changes along the axis a of the planes and the other axes b and c, and the constant at the first
 * voxel of the box. */
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
	int x, y; /* first cell of the block */
	bool across;
	float scale;
} Beam;

/* How the voxels of a view are divided; the same for all of its blocks. */
typedef struct {
	int c;       /* an axis that is not close to its rays */
	bool across; /* c follows detector columns, not rows */
	int axes;    /* bit mask: those that may be closest to rays */
} Division;

/* Direction of the ray through a point of the detector, in voxels. */
static __host__ __device__ inline void ray_direction(
	const KernelView *k, double column, double row, double d[3])
{
	for (int a = 0; a < 3; a++)
		d[a] = KERNEL_HAS_SOURCE(k)
			       ? k->first[a] + column * k->u[a] + row * k->v[a] - k->src[a]
			       : k->src[a];
}

/* Changes of U - column D or V - row D along an axis. */
static __host__ __device__ inline double change_of(
	const double f[4], const KernelView *k, int a, double pixel)
{
	return f[a] - pixel * k->depth[a];
}

/* Directions are affine in the pixel: extremes are at the corners. */
static __host__ __device__ inline Division divide_view(const KernelView *k, int columns, int rows)
{
	double least[3] = {1e300, 1e300, 1e300}, most[3] = {-1e300, -1e300, -1e300};
	for (int corner = 0; corner < 4; corner++) {
		double d[3];
		ray_direction(k, corner & 1 ? columns - 1 : 0, corner & 2 ? rows - 1 : 0, d);
		for (int a = 0; a < 3; a++) {
			least[a] = fmin(least[a], d[a]);
			most[a] = fmax(most[a], d[a]);
		}
	}
	for (int a = 0; a < 3; a++) { /* of absolute values */
		const double large = fmax(fabs(least[a]), fabs(most[a]));
		least[a] = least[a] * most[a] > 0 ? fmin(fabs(least[a]), fabs(most[a])) : 0;
		most[a] = large;
	}
	/* If possible z, else y: neighbouring threads then read neighbouring voxels. */
	Division v = {.c = most[2] <= 0.9 * fmax(most[0], most[1])   ? 2
			   : most[1] <= 0.9 * fmax(most[0], most[2]) ? 1
								     : 0};
	const int one = v.c == 0 ? 1 : 0, two = v.c == 2 ? 1 : 2;
	v.axes =
		(most[one] >= least[two] ? 1 << one : 0) | (most[two] >= least[one] ? 1 << two : 0);
	v.across = fabs(change_of(k->column, k, v.c, 0.5 * (columns - 1))) >
		   fabs(change_of(k->row, k, v.c, 0.5 * (rows - 1)));
	return v;
}

/* Of the axes other than c, the one that is closest to the ray through a point of the detector. */
static __host__ __device__ inline int closest_axis(
	const KernelView *k, int c, double column, double row)
{
	const int one = c == 0 ? 1 : 0, two = c == 2 ? 1 : 2;
	double d[3];
	ray_direction(k, column, row, d);
	return fabs(d[one]) >= fabs(d[two]) ? one : two;
}

/* ---- cells ----------------------------------------------------------------------------------- */

/* The voxels of a plane are divided into strips along b by the lines onto which the edges between
 * the cells' rows (or columns, if c follows these) project, and each strip into cells where the
 * rays through the middle of the other edges pass. Every voxel is in one cell: neighbouring
 * threads, of any block, compute the limit that they share by the same operations. Cells at the
 * border of the detector extend beyond it. */
typedef struct {
	double base[2], by_plane[2]; /* limits along c at b = 0 */
	float by_b[2];
	double start[2], slope[2]; /* limits along b */
} Cell;

static __device__ __forceinline__ double at_pixel(double f, double d, double pixel)
{
	return fma(-pixel, d, f);
}

/* The lower or upper edge of a cell; at the border of the detector, `far` beyond it. */
static __device__ __forceinline__ double edge_of(
	const Sheets &s, int c, int number, int upper, double far)
{
	const int n = c ? s.rows : s.columns, first = (number + upper) * s.cell;
	const double edge = (double)first - 0.5;
	if (first == 0)
		return edge - far;
	return upper && first >= n ? edge + far : edge;
}

/* x, y: number of the cell in the view. */
static __device__ __forceinline__ void set_cell(
	const Sheets &s, const Beam &beam, int x, int y, Cell *cell)
{
	const bool swapped = beam.across;
	const Plane &u = swapped ? beam.v : beam.u, &v = swapped ? beam.u : beam.v, &d = beam.d;
	const int i = swapped ? y : x, j = swapped ? x : y;
	const double middle = (j + 0.5) * s.cell - 0.5;
	const double mb = at_pixel(v.b, d.b, middle), mc = at_pixel(v.c, d.c, middle),
		     ma = at_pixel(v.a, d.a, middle), mw = at_pixel(v.w, d.w, middle);
#pragma unroll
	for (int side = 0; side < 2; side++) {
		const double edge = edge_of(s, !swapped, j, side, s.reach[!swapped]),
			     rate = -1 / at_pixel(v.c, d.c, edge);
		cell->base[side] = __dmul_rn(at_pixel(v.w, d.w, edge), rate);
		cell->by_plane[side] = __dmul_rn(at_pixel(v.a, d.a, edge), rate);
		cell->by_b[side] = (float)__dmul_rn(at_pixel(v.b, d.b, edge), rate);
		const double left =
			edge_of(s, swapped, i, side, s.reach[swapped] + s.drift[swapped]);
		const double b = at_pixel(u.b, d.b, left), c = at_pixel(u.c, d.c, left),
			     a = at_pixel(u.a, d.a, left), w = at_pixel(u.w, d.w, left);
		const double other = 1 / fma(mc, b, -__dmul_rn(mb, c));
		cell->start[side] = __dmul_rn(fma(c, mw, -__dmul_rn(mc, w)), other);
		cell->slope[side] = __dmul_rn(fma(c, ma, -__dmul_rn(mc, a)), other);
	}
}

/* Limits of a cell along c in a plane, half a voxel up. */
typedef struct {
	float base[2], by_b[2];
	float n;
} Limits;

static __device__ __forceinline__ Limits limits_of(const Cell &cell, double plane, int n)
{
	Limits l = {.n = (float)n};
#pragma unroll
	for (int i = 0; i < 2; i++) {
		l.base[i] = (float)fma(cell.by_plane[i], plane, cell.base[i]) + 0.5f;
		l.by_b[i] = cell.by_b[i];
	}
	return l;
}

/* Whole numbers: voxels from .x to .y - 1 along c at b. */
static __device__ __forceinline__ float2 row_of(const Limits &l, float b)
{
	const float one = fmaf(l.by_b[0], b, l.base[0]), two = fmaf(l.by_b[1], b, l.base[1]);
	const float low = fmaxf(fminf(one, two), 0.f), high = fminf(fmaxf(one, two), l.n);
	return make_float2(__fadd_rn(__fadd_rn(low, MAGIC), -MAGIC),
		__fadd_rn(__fadd_rn(high, MAGIC), -MAGIC));
}

/* Voxels from .x to .y - 1 along b. */
static __device__ __forceinline__ int2 cell_columns(const Cell &cell, double plane, int n)
{
	const int i = __double2int_ru(fma(cell.slope[0], plane, cell.start[0])),
		  j = __double2int_ru(fma(cell.slope[1], plane, cell.start[1]));
	return make_int2(max(min(i, j), 0), min(max(i, j), n));
}

/* ---- a block --------------------------------------------------------------------------------- */

static __device__ __forceinline__ Plane plane_of(
	const double f[4], const int axes[3], const int64_t low[3], double rate)
{
	const double w =
		f[3] + f[0] * (double)low[0] + f[1] * (double)low[1] + f[2] * (double)low[2];
	return Plane{f[axes[0]] * rate, f[axes[1]] * rate, f[axes[2]] * rate, w * rate};
}

/* Returns whether the planes of s.axis are those of the block. */
static __device__ __noinline__ bool set_beam(
	const Sheets &s, const KernelView *k, int tile_x, int tile_y, Beam *beam)
{
	const double column = fmin((tile_x + 0.5) * (s.cell * CELLS_X), s.columns - 1.0),
		     row = fmin((tile_y + 0.5) * (s.cell * CELLS_Y), s.rows - 1.0);
	const Division division = divide_view(k, s.columns, s.rows);
	if (closest_axis(k, division.c, column, row) != s.axis)
		return false;
	const int axes[3] = {s.axis, 3 - s.axis - division.c, division.c};
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
	beam->across = division.across;
	beam->x = tile_x * CELLS_X;
	beam->y = tile_y * CELLS_Y;
	beam->scale = (float)(s.weighting == WEIGHT_DEPTH ? rate * rate
			      : s.weighting != WEIGHT_RAY ? 1
			      : KERNEL_HAS_SOURCE(k)      ? k->mass * rate * rate * rate
							  : k->mass);
	return true;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* What all views have in common. */
typedef struct {
	double longest[2], shortest; /* footprints, in pixels: columns and rows; either */
	double shear[2];             /* pixels across per pixel along c: columns and rows */
	int axes, direction;
} Notes;

enum {
	CELL = 4,      /* pixels along the side of a cell, at most */
	LEAST_CELL = 2 /* at least */
};

#define MOST_SHEAR 2.0
#define MOST_SLOPE 3.0 /* of rays, in voxels per plane */

/* Lengths of footprints, at the corners of the box. */
static inline bool measure_box(const ProjectRequest *what, const KernelView *k, Notes *found)
{
	for (int i = 0; i < 8; i++) {
		double at[3], depth = k->depth[3], voxel = 0;
		for (int a = 0; a < 3; a++) {
			at[a] = (double)(i >> a & 1 ? what->box.high[a] - 1 : what->box.low[a]);
			depth += k->depth[a] * at[a];
			voxel += fabs(k->depth[a]);
		}
		if (!(depth > 4 * voxel) || !(depth > 0))
			return false;
		for (int c = 0; c < 2; c++) {
			const double *f = c ? k->row : k->column;
			const double p =
				(f[0] * at[0] + f[1] * at[1] + f[2] * at[2] + f[3]) / depth;
			const double length = footprint_length(f, k->depth, p, depth);
			found->longest[c] = fmax(found->longest[c], length);
			found->shortest = fmin(found->shortest, length);
		}
	}
	return true;
}

/* Whether the planes across axis a serve all rays of a block around a point of the detector. */
static inline bool serves_block(const KernelView *k, int a, double column, double row)
{
	const double wide = 0.5 * ((int)CELLS_X + 2) * (int)CELL + (int)SHARES_MOST,
		     high = 0.5 * ((int)CELLS_Y + 2) * (int)CELL + (int)SHARES_MOST;
	double sign = 0;
	for (int corner = 0; corner < 4; corner++) {
		double d[3];
		ray_direction(k, column + (corner & 1 ? wide : -wide),
			row + (corner & 2 ? high : -high), d);
		const double most = fmax(fabs(d[0]), fmax(fabs(d[1]), fabs(d[2])));
		if (!(fabs(d[a]) * MOST_SLOPE >= most) || d[a] * sign < 0)
			return false;
		sign = d[a];
	}
	return true;
}

/* Axes and shear, at points all over the detector. */
static inline bool measure_detector(const KernelModel *model, const KernelView *k, Notes *found)
{
	const Division division = divide_view(k, (int)model->columns, (int)model->rows);
	const int c = division.c;
	const double *f = division.across ? k->column : k->row;
	/* The coordinate that c follows increases or decreases with it everywhere. */
	const double first = change_of(f, k, c, -(int)SHARES_MOST),
		     last = change_of(f, k, c,
			     (double)(division.across ? model->columns : model->rows) +
				     (int)SHARES_MOST);
	if (!(first * last > 0) ||
		fmin(fabs(first), fabs(last)) < 0.1 * fmax(fabs(first), fabs(last)))
		return false;
	found->axes |= division.axes;
	for (int i = 0; i < 25; i++) {
		const double column = 0.25 * (i % 5) * (double)(model->columns - 1),
			     row = 0.25 * (i / 5) * (double)(model->rows - 1);
		const double u = fabs(change_of(k->column, k, c, column)),
			     v = fabs(change_of(k->row, k, c, row));
		const double across = division.across ? v : u, along = division.across ? u : v;
		if (!(across < MOST_SHEAR * along) ||
			!serves_block(k, closest_axis(k, c, column, row), column, row))
			return false;
		found->shear[division.across] = fmax(found->shear[division.across], across / along);
	}
	return true;
}

/* Pixels of a patch before and after the cell. */
static inline void set_patch(const Notes *found, Sheets *s)
{
	s->voxels = (float)(2 * s->cell / found->shortest);
	s->kind = share_kind((float)found->longest[0], (float)found->longest[1]);
	for (int c = 0; c < 2; c++)
		s->reach[c] = 0.5 * found->longest[c] + 0.002;
	for (int c = 0; c < 2; c++) {
		/* From the ray through the middle of a cell. */
		s->drift[c] = 1.03 * found->shear[c] * (0.5 * s->cell + s->reach[1 - c]);
		s->before[c] = (int)ceil(s->reach[c] + s->drift[c]);
		s->size[c] = max(s->cell + 2 * s->before[c], share_pixels(s->kind, c));
	}
}

template <class Value> static inline int patch_bytes(const Sheets &s)
{
	return s.size[0] * s.size[1] * THREADS * (int)sizeof(Value);
}

/* Cells as large as some blocks per SM allow. Returns whether one block has enough memory. */
template <class Value> static inline bool set_cells(const Notes *found, Sheets *s)
{
	const int blocks = PARTS<Value> == 4 ? 3 : 6;
	for (s->cell = CELL; s->cell >= LEAST_CELL; s->cell--) {
		set_patch(found, s);
		if (cuda_has_shared(blocks * (patch_bytes<Value>(*s) + 2048)))
			break;
	}
	s->cell = max(s->cell, (int)LEAST_CELL);
	s->tiles[0] = (s->columns + s->cell * CELLS_X - 1) / (s->cell * CELLS_X);
	s->tiles[1] = (s->rows + s->cell * CELLS_Y - 1) / (s->cell * CELLS_Y);
	return cuda_has_shared(patch_bytes<Value>(*s) + 2048);
}

#endif
