/* What a block of footprint_back_upright.cu sees of a view, and the copy of it (tile) in shared
 * memory. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_BACK_UPRIGHT_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_BACK_UPRIGHT_H

#include "backend/cuda/kernels/footprint_back.h"

/* Voxels of a thread. */
template <class Pixel> constexpr int COLUMN = PARTS<Pixel> == 4 ? 8 : 16;

enum { TAPS = 3 /* detector columns of a footprint whose weights are in registers */ };

/* A view relative to the first voxel (corner) of a block and the first pixel of its tile. The
 * voxel at (dx, dy) has depth D = df + da dx + db dy; it projects to column
 * (uf + ua dx + ub dy) / D and row (vf + va dx + vb dy) / D. Per voxel along z the row increases by
 * vc / D. Rows of fans are not divided by D (lower: 0). */
typedef struct __align__(16)
{
	float uf, ua, ub, vf, va, vb, vc, df, da, db;
	float flat, bent, shape; /* FootprintHalf */
	float lower, scale;
	float away[3];   /* from the source to the corner, in units of length; of fans, [2] is 0 */
	int row, column; /* of the tile's first pixel */
	int rows, columns; /* of the tile */
	int taps;          /* detector columns of a footprint, at most */
	int kind;          /* of Boundaries, DIRECT or UNSEEN */
}
Near;

/* The pixels that a block meets in a view. */
typedef struct {
	double left, right, bottom, top; /* of footprints, in edges: pixel i is from i to i + 1 */
	double slow, fast;               /* rows per voxel */
	double reach, half;              /* at most, of columns and of the narrow box of rows */
} Seen;

template <class Pixel>
static __device__ Seen seen_by(const Footprints &s, const KernelView *k, const double corner[3])
{
	Seen seen = {1e9, -1e9, 1e9, -1e9, 1e9, -1e9, 0, 0};
	const FootprintHalf half = footprint_half(k, 0);
	double nearest = 1e300, across = 0, along = 0;
	for (int i = 0; i < 4; i++) { /* extremes are at the corners */
		double at[3] = {corner[0], corner[1], corner[2] - 0.5};
		for (int a = 0; a < 2; a++)
			if (i >> a & 1)
				at[a] = fmin(corner[a] + SIDE - 1, (double)(s.low[a] + s.n[a] - 1));
		const double depth = footprint_affine(k->depth, at),
			     u = footprint_affine(k->column, at);
		const double lower = kernel_row_depth(k, depth), climb = k->row[2] / lower;
		const double v = footprint_affine(k->row, at), end = v + COLUMN<Pixel> * k->row[2];
		const double column = u / depth + 0.5;
		seen.left = fmin(seen.left, column);
		seen.right = fmax(seen.right, column);
		seen.bottom = fmin(seen.bottom, v / lower + 0.5);
		seen.top = fmax(seen.top, end / lower + 0.5);
		seen.slow = fmin(seen.slow, climb);
		seen.fast = fmax(seen.fast, climb);
		nearest = fmin(nearest, depth);
		across = fmax(across, fabs(k->column[0] * depth - u * k->depth[0]) +
					      fabs(k->column[1] * depth - u * k->depth[1]));
		along = fmax(along, fmax(fabs(half.flat * lower - half.bent * v),
					    fabs(half.flat * lower - half.bent * end)));
	}
	const double lower = kernel_row_depth(k, nearest);
	seen.reach = 0.5 * across / (nearest * nearest);
	seen.half = along / (lower * lower);
	return seen;
}

template <class Pixel>
static __device__ __noinline__ void near_block(
	const Footprints &s, const KernelView *k, int x0, int y0, int z0, int pitch, Near *to)
{
	const double at[3] = {
		(double)(s.low[0] + x0), (double)(s.low[1] + y0), (double)(s.low[2] + z0)};
	const Seen seen = seen_by<Pixel>(s, k, at);
	const double near = 1e-3; /* rounding of float */
	const double limit = 1e6, left = fmax(fmin(seen.left - seen.reach, limit), -limit) - near;
	const double bottom = fmax(fmin(seen.bottom - seen.half, limit), -limit) - near;
	/* Samples of a span begin less than two rows before its first boundary. */
	const double column = floor(left / EACH<Pixel>) * EACH<Pixel>, row = floor(bottom) - 2;
	const double depth = footprint_affine(k->depth, at), bend = KERNEL_FANS(k) ? 0 : 1;
	const FootprintHalf half = footprint_half(k, row);
	Near v = {.uf = (float)(footprint_affine(k->column, at) - column * depth),
		.ua = (float)(k->column[0] - column * k->depth[0]),
		.ub = (float)(k->column[1] - column * k->depth[1]),
		.vf = (float)(footprint_affine(k->row, at) - row * kernel_row_depth(k, depth)),
		.va = (float)(k->row[0] - bend * row * k->depth[0]),
		.vb = (float)(k->row[1] - bend * row * k->depth[1]),
		.vc = (float)k->row[2],
		.df = (float)depth,
		.da = (float)k->depth[0],
		.db = (float)k->depth[1],
		.flat = (float)half.flat,
		.bent = (float)half.bent,
		.shape = (float)half.shape,
		.lower = (float)bend,
		.scale = s.weighting == WEIGHT_RAY ? (float)k->mass : 1,
		.row = (int)row,
		.column = (int)column,
		.taps = (int)fmin(2 * seen.reach + near + 2, limit)};
	for (int a = 0; a < 3; a++)
		v.away[a] = a == 2 && KERNEL_FANS(k) ? 0 : (float)((at[a] - k->src[a]) * s.step[a]);
	v.kind = boundary_kind((float)seen.slow, (float)seen.fast, (float)seen.half);
	/* They end less than four rows after its last one. A thread reads TAPS columns or more. */
	const double rows = seen.top - row + 4, right = seen.right - seen.reach + near;
	const double columns = floor(right) - column + fmax((double)v.taps, (double)TAPS) + 1;
	const bool steep = 2 * seen.half > seen.slow; /* footprints of up to twice the half more */
	const double beyond = near + (steep ? 2 : 1) * seen.half;
	if (rows > s.tile_rows || columns > pitch || steep)
		v.kind = DIRECT;
	if (seen.right + seen.reach < -near || seen.left - seen.reach > s.columns + near ||
		seen.top + beyond < 0 || seen.bottom - beyond > s.rows)
		v.kind = UNSEEN;
	v.rows = (int)fmin(rows, (double)s.tile_rows);
	v.columns = (int)fmin(columns, (double)pitch);
	*to = v;
}

#endif
