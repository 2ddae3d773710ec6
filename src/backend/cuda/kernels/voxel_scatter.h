/* Voxel-driven forward projection by blocks of voxels that add to tiles of the detector: where a
 * block projects to in a view.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_VOXEL_SCATTER_H
#define TOMOS_BACKEND_CUDA_KERNELS_VOXEL_SCATTER_H

#include "backend/cuda/kernels/affine.h"
#include "backend/cuda/kernels/voxel_quanta.h"

enum {
	RUN = 32,   /* voxels of a thread, along the next axis */
	WARPS = 16, /* along the third axis */
	THREADS = LANES * WARPS,
	VIEWS = 64, /* of a pass */
	MOST = 5    /* pixels from voxel to voxel: positions in wider blocks are inaccurate */
};

typedef struct {
	KernelModel model;
	const KernelView *views;
	const Quantum *quanta;
	int count;
	int axis[3]; /* of the lanes, of a run, the third */
	int64_t low[3], stride[3];
	int n[3];
	double step[3];
	const float *volume;
	const unsigned *largest; /* voxel, as the bits of a float */
	int *sums;               /* [view][row][column] */
	float *projections;
} Scatter;

/* How a block adds to a view: to a tile; to the image, as the tile is too small; not at all. */
enum { TO_TILE, TO_IMAGE, UNSEEN };

/* A view relative to the first voxel of a block: the one at d along the axes of the block has depth
 * D = depth[3] + depth . d, and its projection is (u[3] + u . d, v[3] + v . d) / D, relative to
 * pixel (row, column), the middle of the tile. away, step: from the source, times the weight at
 * distance and depth 1, in units of the tile. scale: such a unit in units of the image. sign: -1 if
 * columns are counted backwards, so that rows and columns of a warp's voxels both increase or both
 * decrease: with a pitch of one more than the banks, few of them share a bank. */
typedef struct __align__(16)
{
	float u[4], v[4], depth[4];
	float away[3], weight, step[3], scale;
	int kind, column, row;
	int left, below, columns, rows; /* of the tile: first pixel from the middle, size */
	int sign;
}
Near;

/* The projection of a block, its least depth and largest ratio of distance to depth. */
typedef struct {
	double low[2], high[2], least, slant;
} Extent;

static __device__ double distance_of(const Scatter *s, const KernelView *k, const double p[3])
{
	double square = 0;
	for (int a = 0; a < 3; a++)
		square += (p[a] - k->src[a]) * (p[a] - k->src[a]) * s->step[a] * s->step[a];
	return sqrt(square);
}

/* at: the first voxel of the block. */
static __device__ Extent extent_of(const Scatter *s, const KernelView *k, const double at[3])
{
	Extent e = {{1e9, 1e9}, {-1e9, -1e9}, 1e300, 0};
	const int size[3] = {LANES - 1, RUN - 1, WARPS - 1};
	for (int corner = 0; corner < 8; corner++) {
		double p[3] = {at[0], at[1], at[2]};
		for (int i = 0; i < 3; i++)
			p[s->axis[i]] += corner >> i & 1 ? size[i] : 0;
		const double depth = affine(k->depth, p);
		const double f[2] = {affine(k->column, p) / depth, affine(k->row, p) / depth};
		e.least = fmin(e.least, depth);
		e.slant = fmax(e.slant, distance_of(s, k, p) / depth);
		for (int i = 0; i < 2; i++) {
			e.low[i] = fmin(e.low[i], f[i]);
			e.high[i] = fmax(e.high[i], f[i]);
		}
	}
	return e;
}

/* Largest weight of a block. */
static __device__ double weight_of(const Scatter *s, const KernelView *k, const Extent *e)
{
	const double weight = s->model.weight == WEIGHT_RAY ? fabs(k->mass) : 1;
	if (!KERNEL_HAS_SOURCE(k) || s->model.weight == WEIGHT_NONE)
		return weight;
	return weight * (s->model.weight == WEIGHT_RAY ? e->slant : 1) / (e->least * e->least);
}

/* unit: of the tile. */
static __device__ void set_affine(
	const Scatter *s, const KernelView *k, const double at[3], double unit, Near *near)
{
	const double mass = (s->model.weight == WEIGHT_RAY ? k->mass : 1) / unit;
	near->weight = (float)mass;
	near->u[3] =
		(float)(near->sign * affine(k->column, at) - near->column * affine(k->depth, at));
	near->v[3] = (float)(affine(k->row, at) - near->row * affine(k->depth, at));
	near->depth[3] = (float)affine(k->depth, at);
	for (int i = 0; i < 3; i++) {
		const int a = s->axis[i];
		near->u[i] = (float)(near->sign * k->column[a] - near->column * k->depth[a]);
		near->v[i] = (float)(k->row[a] - near->row * k->depth[a]);
		near->depth[i] = (float)k->depth[a];
		near->away[i] = (float)((at[a] - k->src[a]) * s->step[a] * mass);
		near->step[i] = (float)(s->step[a] * mass);
	}
}

/* A pixel near the middle of a projection, at most 2 n from the first one. */
static __device__ int middle_of(double low, double high, int64_t n)
{
	return (int)fmin(fmax(0.5 * (low + high), (double)(-2 * n)), (double)(2 * n));
}

/* Whether the row decreases with the column along the lanes. */
static __device__ bool lanes_fall(const Scatter *s, const KernelView *k, const double at[3])
{
	const double depth = affine(k->depth, at), column = affine(k->column, at) / depth,
		     row = affine(k->row, at) / depth;
	const int a = s->axis[0];
	return (k->column[a] - column * k->depth[a]) * (k->row[a] - row * k->depth[a]) < 0;
}

/* first: the first voxel of the block along the axes of the volume. */
template <int PITCH, int ROWS>
static __device__ Near near_block(const Scatter *s, int view, const int first[3])
{
	const KernelView *k = &s->views[view];
	const Quantum q = s->quanta[view];
	Near near = {};
	near.kind = UNSEEN;
	if (q.axis != s->axis[0])
		return near;
	double at[3];
	for (int a = 0; a < 3; a++)
		at[a] = (double)(s->low[a] + first[a]);
	Extent e = extent_of(s, k, at);
	const bool whole = e.least > 1e-6;
	if (whole && (e.high[0] < -1 || e.low[0] > (double)s->model.columns || e.high[1] < -1 ||
			     e.low[1] > (double)s->model.rows))
		return near;
	near.kind = TO_IMAGE;
	near.sign = 1;
	if (whole && e.high[0] - e.low[0] < PITCH - 4 && e.high[1] - e.low[1] < ROWS - 4) {
		near.kind = TO_TILE;
		if (lanes_fall(s, k, at)) {
			const double low = e.low[0];
			near.sign = -1;
			e.low[0] = -e.high[0];
			e.high[0] = -low;
		}
	}
	near.column = middle_of(e.low[0], e.high[0], s->model.columns);
	near.row = middle_of(e.low[1], e.high[1], s->model.rows);
	double unit = q.unit;
	if (near.kind == TO_TILE) {
		unit = weight_of(s, k, &e) / q.most;
		near.left = near.column - (int)floor(e.low[0] - 1e-3);
		near.below = near.row - (int)floor(e.low[1] - 1e-3);
		near.columns = near.left + (int)floor(e.high[0] + 1e-3) + 2 - near.column;
		near.rows = near.below + (int)floor(e.high[1] + 1e-3) + 2 - near.row;
	}
	near.scale = (float)(unit / q.unit);
	set_affine(s, k, at, unit, &near);
	return near;
}

#endif
