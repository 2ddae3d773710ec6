/* Forward projection of views in sets that are 90 degrees apart.
 *
 * Rotating a voxel and a view by the same angle about the rotation axis leaves detector position
 * and weight unchanged. So one position and one weight serve four views, if the values of a voxel
 * and of its three rotated images are stored side by side.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_QUARTERS_H
#define TOMOS_BACKEND_CUDA_KERNELS_QUARTERS_H

#include "backend/cuda/cuda.h"

static __device__ __forceinline__ void add_scaled(float &sum, float scale, float value)
{
	sum = fmaf(scale, value, sum);
}

static __device__ __forceinline__ void add_scaled(float4 &sum, float scale, const float4 &value)
{
	sum.x = fmaf(scale, value.x, sum.x);
	sum.y = fmaf(scale, value.y, sum.y);
	sum.z = fmaf(scale, value.z, sum.z);
	sum.w = fmaf(scale, value.w, sum.w);
}

/* ---- the volume ------------------------------------------------------------------------------ */

enum { QUARTER = 32, QUARTER_LINES = 8 };

/* Slices of n x n voxels. across: y of the result is contiguous, else x. */
typedef struct {
	const float *from;
	float4 *to;
	int n, slices;
	bool across;
} Quarters;

/* Voxel (x, y) rotated i times: a quarter moves it to (n - 1 - y, x). */
static __device__ int2 rotated(int n, int i, int x, int y)
{
	return i == 0   ? make_int2(x, y)
	       : i == 1 ? make_int2(n - 1 - y, x)
	       : i == 2 ? make_int2(n - 1 - x, n - 1 - y)
			: make_int2(y, n - 1 - x);
}

/* A block has QUARTER x QUARTER voxels of some slices. They are read along x in each rotation. */
static __global__ void make_quarters(const __grid_constant__ Quarters q)
{
	__shared__ float tile[4][QUARTER][QUARTER + 1];
	const int x0 = blockIdx.x * QUARTER, y0 = blockIdx.y * QUARTER, lane = threadIdx.x;
	for (int z = blockIdx.z; z < q.slices; z += gridDim.z) {
		const float *slice = q.from + (int64_t)z * q.n * q.n;
		__syncthreads();
		for (int i = 0; i < 4; i++)
			for (int line = threadIdx.y; line < QUARTER; line += QUARTER_LINES) {
				const int x = i % 2 ? line : lane, y = i % 2 ? lane : line;
				const int2 at = rotated(q.n, i, x0 + x, y0 + y);
				if (x0 + x < q.n && y0 + y < q.n)
					tile[i][y][x] = slice[(int64_t)at.y * q.n + at.x];
			}
		__syncthreads();
		for (int line = threadIdx.y; line < QUARTER; line += QUARTER_LINES) {
			const int x = q.across ? line : lane, y = q.across ? lane : line;
			const int64_t major = q.across ? x0 + x : y0 + y,
				      minor = q.across ? y0 + y : x0 + x;
			if (x0 + x < q.n && y0 + y < q.n)
				q.to[((int64_t)z * q.n + major) * q.n + minor] = make_float4(
					tile[0][y][x], tile[1][y][x], tile[2][y][x], tile[3][y][x]);
		}
	}
}

/* `quarter` of RayClass, if all views and all of x and y are requested; else 0. */
static inline int quarter_direction(const ProjectRequest *what)
{
	const Plan *plan = what->plan;
	const Box *box = &what->box;
	bool whole = what->first == 0 && what->count == plan->scan->count;
	for (int a = 0; a < 2; a++)
		whole = whole && box->low[a] == 0 && box->high[a] == plan->grid.n[a];
	return whole ? plan->rays.quarter : 0;
}

/* Slices whose quarters fit into scratch memory. */
static inline int64_t quarter_slices(const tomos_backend *backend, const ProjectRequest *what)
{
	const int64_t *n = what->plan->grid.n;
	return max64(1, device_of(backend)->scratch_most / (4 * n[0] * n[1]));
}

/* As axis_volume, of the slices of the grid. */
static inline tomos_status quarter_volume(tomos_backend *backend, const ProjectRequest *what,
	int axis, const KernelGrid *grid, const float **volume, int64_t stride[2])
{
	const int64_t n = grid->n[0], slices = grid->high[2] - grid->low[2];
	float *quarters;
	TRY(cuda_scratch(backend, SCRATCH_REORDERED, 4 * n * n * slices, &quarters,
		"a volume and its rotated images"));
	const Quarters q = {.from = what->volume + (grid->low[2] - what->box.low[2]) * n * n,
		.to = (float4 *)quarters,
		.n = (int)n,
		.slices = (int)slices,
		.across = axis == 0};
	const unsigned wide = cuda_blocks(n, QUARTER, 65535);
	make_quarters<<<dim3(wide, wide, cuda_blocks(slices, 4, 65535)),
		dim3(QUARTER, QUARTER_LINES), 0, device_of(backend)->stream>>>(q);
	CUDA_LAUNCHED("putting rotated voxels side by side");
	*volume = quarters;
	stride[0] = axis == 2 ? n * n : n;
	stride[1] = axis == 2 ? n : n * n;
	return TOMOS_OK;
}

#endif
