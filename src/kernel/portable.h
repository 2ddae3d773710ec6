/* Types of the reference kernels, and what these need of a compiler.
 *
 * Reference kernels are C11, CUDA C and OpenCL C at once; a backend may define KERNEL_FN,
 * KERNEL_GLOBAL and KERNEL_ADD before it includes them. Geometry is in voxel indices of the grid:
 * the centre of voxel (i, j, k) is at (i, j, k).
 */
#ifndef TOMOS_KERNEL_PORTABLE_H
#define TOMOS_KERNEL_PORTABLE_H

#ifdef __OPENCL_VERSION__
typedef long int64_t;
typedef int int32_t;
#else
#include <math.h>
#include <stdint.h>
#endif

#ifndef KERNEL_FN
#define KERNEL_FN static inline __attribute__((always_inline))
#define KERNEL_GLOBAL
#define KERNEL_ADD(pointer, value) (*(pointer) += (value))
#endif

/* The weight that enters sums; backends redefine it to sum powers of the matrix entries. */
#ifndef KERNEL_WEIGHT
#define KERNEL_WEIGHT(meet, weight) (weight)
#endif

/* Smaller fractions of a voxel are treated as rounding errors and dropped: which voxels a ray meets
 * must not depend on the last bits of its position, since some weights count entries. The limit is
 * above the shift of kernel_nudge and below the resolution of float. */
#define KERNEL_LEAST 1e-7

/* A grid of n voxels, of which the box [low, high) is in memory, stored [z][y][x]. */
typedef struct {
	int64_t n[3], low[3], high[3];
	double step[3]; /* voxel size */
} KernelGrid;

/* Kind of source, the value of src[3]: as tomos_source in tomos.h. */
enum { SOURCE_PARALLEL, SOURCE_POINT, SOURCE_FAN_PER_ROW };

/* One view, as GridView in geom.h: the ray of pixel (column, row) goes through first + column u +
 * row v, from src, from src + row v (a fan per row) or along src (parallel). Voxel p falls on
 * column U / D and row V / D (of fans, V), where U = column[0..2] . p + column[3], likewise V and
 * D. */
typedef struct {
	double src[4], first[3], u[3], v[3];
	double column[4], row[4], depth[4];
	double mass; /* see voxel_weight */
} KernelView;

#define KERNEL_HAS_SOURCE(view) ((view)->src[3] != (int)SOURCE_PARALLEL)
#define KERNEL_FANS(view) ((view)->src[3] == (int)SOURCE_FAN_PER_ROW)

/* Divisor of V where D is `depth`. */
KERNEL_FN double kernel_row_depth(const KernelView *view, double depth)
{
	return KERNEL_FANS(view) ? 1 : depth;
}

enum { WEIGHT_RAY, WEIGHT_DEPTH, WEIGHT_NONE };

typedef struct {
	int64_t rows, columns;
	int clamp;   /* boundary `clamp`: no weight beyond the outermost voxel centres */
	int nearest; /* voxel: nearest pixel instead of linear interpolation */
	int weight;  /* voxel: WEIGHT_... */
	int planar;  /* one slice, one detector row, all rays in the slice: z is not used */
} KernelModel;

enum { POSE_NUMBERS = 6 }; /* of a pose: shifts along x, y, z, rotations about x, y, z */

/* What a kernel does with each (index, weight) it finds. `mode` is a constant at every call, so
 * that one function compiles to the sum, its transpose and the matrix row. */
enum { MEET_SUM, MEET_SPREAD, MEET_LIST };
/* Forward, a ray sums over voxels; in the adjoint, a voxel sums over pixels. */
#define FORWARD_RAY MEET_SUM
#define ADJOINT_RAY MEET_SPREAD
#define FORWARD_VOXEL MEET_SPREAD
#define ADJOINT_VOXEL MEET_SUM

typedef struct {
	KERNEL_GLOBAL float *data;    /* read by SUM, added to by SPREAD */
	double value;                 /* the sum, or the value to spread */
	KERNEL_GLOBAL int64_t *index; /* LIST; NULL: count only */
	KERNEL_GLOBAL float *weight;
	int64_t count;
} KernelMeet;

KERNEL_FN void kernel_meet(KernelMeet *meet, const int mode, int64_t index, double weight)
{
	if (mode == MEET_SUM) {
		meet->value += KERNEL_WEIGHT(meet, weight) * meet->data[index];
	} else if (mode == MEET_SPREAD) {
		KERNEL_ADD(&meet->data[index], (float)(KERNEL_WEIGHT(meet, weight) * meet->value));
	} else {
		if (meet->index) {
			meet->index[meet->count] = index;
			meet->weight[meet->count] = (float)weight;
		}
		meet->count++;
	}
}

KERNEL_FN int kernel_in_box(const KernelGrid *grid, int axis, int64_t i)
{
	return i >= grid->low[axis] && i < grid->high[axis];
}

/* Distance in memory between neighbours along an axis. */
KERNEL_FN int64_t kernel_stride(const KernelGrid *grid, int axis)
{
	int64_t nx = grid->high[0] - grid->low[0], ny = grid->high[1] - grid->low[1];
	return axis == 0 ? 1 : axis == 1 ? nx : nx * ny;
}

#endif
