/* Rays of any scan, one per thread, by their dominant axis a: which axes occur, which threads have
 * neighbouring rays, and a volume in which neighbouring rays read neighbouring voxels.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_LANES_H
#define TOMOS_BACKEND_CUDA_KERNELS_LANES_H

#include "backend/cuda/kernels/transpose.h"
#include "backend/cuda/kernels/warp.h"
#include "kernel/ray.h"

enum { WARP = 32, WARPS = 8, SQUARE = 32 };

/* How the rays of a view are assigned to threads, and which dominant axes occur. */
enum { LANES_ROWS = 1, LANES_PATCH = 2, LANES_AXIS = 4 /* times 1, 2, 4 for x, y, z */ };

/* Views, and the volume that their rays with dominant axis a sample. */
typedef struct {
	KernelGrid grid;
	KernelModel model;
	const KernelView *views;
	const unsigned char *lanes; /* of each view: LANES_... bits */
	int64_t count;
	const float *volume; /* b contiguous */
	int64_t stride[2];   /* along a, c */
	int a, b, c, nb, nc; /* axes and sizes, where the kernel is not compiled for one axis */
	float *projections;
} AxisRays;

/* First pixel of a thread, which has LINES neighbouring ones: of a column or, if its warp is along
 * rows, of a row. Blocks are 32 x 8 LINES or 8 LINES x 32 pixels; warps are along columns or rows,
 * or patches of 8 x 4 LINES. Bands of rows are the slowest index, so that blocks that run
 * concurrently read the same slab. */
template <int LINES> static __device__ void pixel_of(int lanes, int64_t *row, int64_t *column)
{
	int warp = threadIdx.y, lane = threadIdx.x, along = lane, line = warp;
	if (lanes & LANES_PATCH) {
		along = warp % 4 * 8 + lane % 8;
		line = warp / 4 * 4 + lane / 8;
	}
	const int bands = 4 / LINES;
	line = ((int)blockIdx.z % bands * 8 + line) * LINES;
	bool rows = lanes & LANES_ROWS;
	*column = (int64_t)blockIdx.x * SQUARE + (rows ? line : along);
	*row = (int64_t)(blockIdx.z / bands) * SQUARE + (rows ? along : line);
}

/* Direction of the ray of pixel (row, column). */
static inline void direction_of(const KernelView *k, double row, double column, double d[3])
{
	row = KERNEL_FANS(k) ? 0 : row; /* each row has its own source */
	for (int a = 0; a < 3; a++)
		d[a] = !KERNEL_HAS_SOURCE(k)
			       ? k->src[a]
			       : k->first[a] + column * k->u[a] + row * k->v[a] - k->src[a];
}

/* Bit mask of the axes that may be dominant somewhere on the detector. Directions are affine in
 * the pixel: an axis is excluded if another one is larger at every corner than it is at any. */
static inline int axes_of(const KernelModel *model, const KernelView *k)
{
	double least[3], most[3];
	for (int corner = 0; corner < 4; corner++) {
		double d[3];
		direction_of(k, corner & 2 ? (double)(model->rows - 1) : 0,
			corner & 1 ? (double)(model->columns - 1) : 0, d);
		for (int a = 0; a < 3; a++) {
			least[a] = corner ? fmin(least[a], d[a]) : d[a];
			most[a] = corner ? fmax(most[a], d[a]) : d[a];
		}
	}
	double floor_of_largest = 0;
	for (int a = 0; a < 3; a++)
		if (least[a] * most[a] > 0)
			floor_of_largest =
				fmax(floor_of_largest, fmin(fabs(least[a]), fabs(most[a])));
	int axes = 0;
	for (int a = 0; a < 3; a++)
		if (fmax(fabs(least[a]), fabs(most[a])) >= floor_of_largest)
			axes |= 1 << a;
	return axes;
}

/* Neighbouring threads are along the detector direction that is closest to the contiguous axis. */
static inline unsigned char lanes_of(const KernelModel *model, const KernelView *k)
{
	int axes = axes_of(model, k), b = axes & 1 ? 1 : 0;
	double u = fabs(k->u[b]), v = fabs(k->v[b]);
	double length_u = fabs(k->u[0]) + fabs(k->u[1]) + fabs(k->u[2]);
	double length_v = fabs(k->v[0]) + fabs(k->v[1]) + fabs(k->v[2]);
	bool rows = v / length_v > u / length_u;
	bool patch = (rows ? v / length_v : u / length_u) < 0.55;
	return (unsigned char)(LANES_AXIS * axes | (rows ? LANES_ROWS : 0) |
			       (patch ? LANES_PATCH : 0));
}

static inline void make_lanes(const Plan *plan, int64_t view, const void *user, void *place)
{
	(void)user;
	*(unsigned char *)place = lanes_of(&plan->model, &plan->views[view]);
}

/* All but what depends on the axis. */
static inline tomos_status axis_rays(
	tomos_backend *backend, const ProjectRequest *what, AxisRays *s)
{
	const Plan *plan = what->plan;
	const CudaPlan *kept;
	const void *lanes;
	TRY(cuda_plan(backend, plan, &kept));
	TRY(cuda_kept(backend, plan, KEPT_LANES, 1, make_lanes, NULL, &lanes));
	*s = {.grid = request_grid(what),
		.model = plan->model,
		.views = kept->views + what->first,
		.lanes = (const unsigned char *)lanes + what->first,
		.count = what->count,
		.projections = what->projections};
	return TOMOS_OK;
}

/* The volume for rays along `axis` and its strides along a and c; b is contiguous: x or, for rays
 * along x, y of a transposed copy. */
static inline tomos_status axis_volume(tomos_backend *backend, const ProjectRequest *what, int axis,
	const float **volume, int64_t stride[2])
{
	const Box *box = &what->box;
	int64_t n[3];
	for (int a = 0; a < 3; a++)
		n[a] = box->high[a] - box->low[a];
	*volume = what->volume;
	stride[0] = axis == 2 ? n[0] * n[1] : axis == 1 ? n[0] : n[1];
	stride[1] = axis == 2 ? n[0] : n[0] * n[1];
	if (axis != 0)
		return TOMOS_OK;
	float *transposed;
	TRY(cuda_scratch(backend, SCRATCH_REORDERED, n[0] * n[1] * n[2], &transposed,
		"a transposed volume"));
	const Transposed transposition =
		transposed_planes(what->volume, transposed, n[0], n[1], n[2]);
	*volume = transposed;
	return transpose_in(backend, &transposition);
}

/* Blocks of WARP x WARPS threads, for pixel_of<LINES>. */
template <int LINES> static inline dim3 pixel_blocks(const ProjectRequest *what)
{
	const KernelModel *model = &what->plan->model;
	return dim3(cuda_blocks(model->columns, SQUARE, 1 << 30), (unsigned)what->count,
		4 / LINES * cuda_blocks(model->rows, SQUARE, 16383));
}

#endif
