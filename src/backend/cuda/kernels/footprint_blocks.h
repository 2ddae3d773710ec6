/* What kernels of separable footprints for blocks of voxels have in common, in both directions.
 *
 * A block has columns of voxels along one axis, one per thread, and visits all views; the part of a
 * view that it meets (a tile) is in shared memory.
 *
 * Where views are in sets that are 90 degrees apart, a Pixel or voxel is that of four views:
 * rotating a voxel and a view by the same angle about the rotation axis leaves position and weight
 * unchanged, so that the weights of one voxel serve it and its three rotated images. Likewise of
 * two or four views that are mirror images (footprint_mirrors.h).
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_BLOCKS_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_BLOCKS_H

#include "backend/cuda/kernels/footprint.h"
#include "backend/cuda/kernels/mirror_images.h"
#include "backend/cuda/kernels/voxel_quanta.h"

enum {
	THREADS = 256,
	MOST_ROWS = 96 /* of a tile */
};

/* Pixels per copy of 16 bytes. */
template <class Pixel> constexpr int EACH = 4 / PARTS<Pixel>;

/* How a block meets a view: by the image itself, since it would need too large a tile; not at all,
 * since it is not seen. Others are kinds of tiles. */
enum { DIRECT = -1, UNSEEN = -2 };

/* Footprints that are larger than those that kernels are compiled for: rows one by one, this many
 * columns at a time. */
enum { GROUP = 4 };

typedef struct {
	const KernelView *views;
	int64_t count, part;        /* views of a pass; of a quarter of the circle, or all */
	int direction;              /* `quarter` of RayClass */
	Mirrors mirrors;            /* where views are mirror images, not quarters */
	const MirrorView *mirrored; /* of all views */
	int domain[3]; /* voxels along x, y and z that are visited; the others are their images */
	int weighting; /* WEIGHT_NONE, WEIGHT_DEPTH or WEIGHT_RAY */
	int rows, columns;
	int64_t low[3];
	int axis[3], size[3]; /* axes of a block's lanes, warps and columns; voxels along these */
	float step[3];        /* along these axes */
	int n[3];             /* along x, y and z */
	float *volume;
	int pitch, tile_rows;
	int tile_area,
		pool; /* forward, else 0: pixels of the largest tile, of one view; memory of a
	                      * block for tiles, in int */
	/* Back projection. */
	const void *images; /* Pixel [view][row][pitch] */
	int together;       /* views between two barriers */
	VoxelUpdate update;
	/* Forward projection. */
	bool large; /* has_large_footprints */
	const Quantum *quanta;
	const unsigned *largest; /* voxel, as the bits of a float */
	int *sums;               /* [part][view][row][column] */
	float *projections;
} Footprints;

/* Rows and columns that blocks see of a view, and both together at most; blocks may still see more,
 * where the depth varies within them. padded: `area` with rows of whole banks. usual: columns, rows
 * and area that nearly all blocks do not exceed. direction: of quarters of the circle, or 0. axes:
 * of lanes, a bit mask. blocks: forward, per SM, which share its memory. column: voxels of a
 * thread. */
typedef struct {
	int rows, columns, area, padded, usual[3], direction, axes, blocks, column;
	Mirrors mirrors;
} TileSize;

static inline int quarter_direction(const ProjectRequest *what)
{
	return what->plan->rays.source == TOMOS_POINT ? request_rotation(what, 4) : 0;
}

/* Sets the axes of a block; size: voxels along them. */
static inline void set_axes(const Plan *plan, const int axis[3], const int size[3], Footprints *s)
{
	for (int i = 0; i < 3; i++) {
		s->axis[i] = axis[i];
		s->size[i] = size[i];
		s->step[i] = (float)plan->whole.step[axis[i]];
	}
}

static inline Footprints footprints_of(
	const ProjectRequest *what, const TileSize *size, int64_t parts)
{
	const Plan *plan = what->plan;
	Footprints s = {.part = what->count / parts,
		.direction = size->direction,
		.mirrors = size->mirrors,
		.weighting = plan->model.weight,
		.rows = (int)plan->model.rows,
		.columns = (int)plan->model.columns,
		.volume = what->volume,
		.tile_rows = size->rows};
	for (int a = 0; a < 3; a++) {
		s.low[a] = what->box.low[a];
		s.n[a] = (int)(what->box.high[a] - what->box.low[a]);
		s.domain[a] = (s.n[a] + (s.mirrors.halved >> a & 1)) >> (s.mirrors.halved >> a & 1);
	}
	return s;
}

/* Whether the request's box is some voxels in front of the source: positions are in float. */
static inline bool is_in_front(const ProjectRequest *what, const KernelView *k, double voxels)
{
	double least = k->depth[3], voxel = 0;
	for (int a = 0; a < 3; a++) {
		least += fmin(k->depth[a] * (double)what->box.low[a],
			k->depth[a] * (double)(what->box.high[a] - 1));
		voxel += fabs(k->depth[a]);
	}
	return least > 0 && least > voxels * voxel;
}

/* Whether weights depend on the distance from the source. */
static inline bool has_rays(const ProjectRequest *what)
{
	return what->plan->model.weight == WEIGHT_RAY && what->plan->rays.source != TOMOS_PARALLEL;
}

/* A position on the detector, limited to where blocks are seen. */
static __host__ __device__ inline double seen_position(double at, int64_t pixels)
{
	const double beyond = 32;
	return fmin(fmax(at, -beyond), (double)pixels + beyond);
}

/* Columns and rows that a block sees, with those of the footprints at its sides. */
static inline double with_margin(double pixels, double margin)
{
	return fmin(pixels * 1.05 + margin, 1e4);
}

/* Enlarges the size of tiles by that of a block somewhere. */
static inline void enlarge(double columns, double rows, TileSize *size)
{
	const double c = with_margin(columns, 8), r = with_margin(rows, 10);
	size->columns = max(size->columns, (int)c);
	size->rows = max(size->rows, min((int)r, (int)MOST_ROWS));
	size->area = max(size->area, (int)(c * r));
	size->padded = max(size->padded, ((int)c / 32 + 1) * 32 * (int)r + (int)r);
}

/* Columns, rows and areas that blocks all over the box see: how many are below powers of
 * 2^(1/32). */
enum { TILE_CLASSES = 900 };

typedef struct {
	int all, of[3][TILE_CLASSES];
} TileCounts;

/* each: columns of the area are multiples of this. */
static inline void count_tile(double columns, double rows, int each, TileCounts *counts)
{
	const double c = with_margin(columns, 8), r = with_margin(rows, 10);
	const double size[3] = {c, r, ceil(c / each) * each * r};
	for (int i = 0; i < 3; i++)
		counts->of[i][min((int)(32 * log2(fmax(size[i], 1))), TILE_CLASSES - 1)]++;
	counts->all++;
}

/* Sets `usual`. */
static inline void set_usual(const TileCounts *counts, TileSize *size)
{
	for (int i = 0; i < 3; i++) {
		int below = 0, k = 0;
		while (k < TILE_CLASSES && (below += counts->of[i][k]) * 50 < counts->all * 49)
			k++;
		size->usual[i] = (int)exp2((k + 1) / 32.0);
	}
}

/* Voxels along z of whole columns. */
template <class Mine> static int64_t whole_columns(int64_t n)
{
	return (n + Mine::COUNT - 1) / Mine::COUNT * Mine::COUNT;
}

/* Voxel (x, y) rotated i times: a quarter moves it to (n - 1 - y, x). */
static __device__ __forceinline__ int2 rotated(int n, int i, int x, int y)
{
	return i == 0   ? make_int2(x, y)
	       : i == 1 ? make_int2(n - 1 - y, x)
	       : i == 2 ? make_int2(n - 1 - x, n - 1 - y)
			: make_int2(y, n - 1 - x);
}

/* Whether views are in sets, so that a Pixel or voxel is that of several views. */
static __device__ __forceinline__ bool has_images(const Footprints &s)
{
	return s.direction != 0 || s.mirrors.count > 1;
}

/* Moves N values in registers by M, the first ones to the end. */
template <int N, int M, class Value>
static __device__ __forceinline__ void rotate_values(Value value[N])
{
	static_assert(N % M == 0, "all values are back in their places at the end");
	Value moved[N];
#pragma unroll
	for (int k = 0; k < N; k++)
		moved[k] = value[(k + M) % N];
#pragma unroll
	for (int k = 0; k < N; k++)
		value[k] = moved[k];
}

/* The voxels or sums of a thread, of several views or of one: N of them in registers. */
template <class Value_, int N> struct RegisterValues {
	typedef Value_ Value;
	static constexpr int COUNT = N;
	static constexpr int BYTES = 0; /* of a block in shared memory */
	Value value[N];

	__device__ __forceinline__ explicit RegisterValues(void *)
	{
	}

	__device__ __forceinline__ Value &at(int k)
	{
		return value[k];
	}

	__device__ __forceinline__ const Value &at(int k) const
	{
		return value[k];
	}

	/* Moves the values by M, the first ones to the end: loops over them that are not unrolled
	 * take the first M. */
	template <int M> __device__ __forceinline__ void rotate()
	{
		rotate_values<N, M>(value);
	}
};

/* Of one view, in shared memory: loops over them need not be unrolled and fit into the instruction
 * cache, and there are registers for three blocks per SM. */
template <int N> struct SharedValues {
	typedef float Value;
	static constexpr int COUNT = N;
	static constexpr int BYTES = N * (int)THREADS * (int)sizeof(float);
	float *first;

	__device__ __forceinline__ explicit SharedValues(void *memory)
	    : first((float *)memory + threadIdx.x)
	{
	}

	__device__ __forceinline__ float &at(int k)
	{
		return first[k * (int)THREADS];
	}

	__device__ __forceinline__ float at(int k) const
	{
		return first[k * (int)THREADS];
	}
};

/* Voxels of a block along its axis i after the first one, which is `first` of the grid. */
static __device__ __forceinline__ double more_of(const Footprints &s, int i, double first)
{
	const int a = s.axis[i];
	return fmin((double)(s.size[i] - 1), (double)(s.low[a] + s.n[a] - 1) - first);
}

#endif
