/* What kernels for the back projection of separable footprints have in common.
 *
 * A block has SIDE x SIDE columns of voxels along z and visits all views; the part of a view that
 * it needs (a tile) is copied into shared memory while the view before is processed.
 *
 * Where views are in sets that are 90 degrees apart, a Pixel is that of four views, side by side,
 * and the weights of one voxel serve it and its three rotated images, as in voxel_back_circle.cu: a
 * block visits the images once for each quarter of the circle, and moves its sums on after each.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_BACK_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_BACK_H

#include <cuda_pipeline.h>
#include "backend/cuda/kernels/footprint.h"

enum {
	SIDE = 16,
	THREADS = SIDE * SIDE,
	VIEWS = 32,    /* views that are set up at once */
	MOST_ROWS = 96 /* of a tile */
};

/* Row pitch of a tile: neighbouring rows are half of the banks apart. */
template <class Pixel> constexpr int NARROW = PARTS<Pixel> == 4 ? 36 : 48;
template <class Pixel> constexpr int WIDE = PARTS<Pixel> == 4 ? 68 : 112;
/* Pixels per copy of 16 bytes. */
template <class Pixel> constexpr int EACH = 4 / PARTS<Pixel>;

/* How a block reads a view: from the image, since the tile is too small or footprints are too
 * large; not at all, since it is not seen. Others are kinds of reading a tile. */
enum { DIRECT = -1, UNSEEN = -2 };

typedef struct {
	const KernelView *views;
	int64_t count, part; /* views of a pass; of a quarter of the circle, or all */
	int direction;       /* `quarter` of RayClass */
	int weighting;       /* WEIGHT_NONE, WEIGHT_DEPTH or WEIGHT_RAY */
	int rows, columns;
	int64_t low[3];
	float step[3];
	int n[3];
	const void *images; /* Pixel [view][row][pitch] */
	int pitch, tile_rows;
	float *volume;
	VoxelUpdate update;
} Footprints;

/* ---- views ----------------------------------------------------------------------------------- */

/* Copies the tile of a view, with zeros outside the detector. */
template <class Pixel, int PITCH, class Near>
static __device__ __forceinline__ void copy_tile(
	const Footprints &s, const Near &near, const Pixel *image, Pixel *tile)
{
	constexpr int COPIES = PITCH / EACH<Pixel>;
	for (int i = threadIdx.x; near.kind >= 0 && i < near.rows * COPIES; i += THREADS) {
		const int r = i / COPIES, c = i % COPIES * EACH<Pixel>;
		const int row = near.row + r, column = near.column + c;
		const bool inside = row >= 0 && row < s.rows && column >= 0 && column < s.pitch;
		if (c < near.columns)
			__pipeline_memcpy_async(tile + r * PITCH + c,
				inside ? image + ((int64_t)row * s.pitch + column) : image, 16,
				inside ? 0 : 16);
	}
	__pipeline_commit();
}

/* Calls set(view, &near[i]) for every view and visit(near, tile, image) for every image and quarter
 * of the circle, and move_on() after each quarter. */
template <class Pixel, int PITCH, class Near, class Set, class Visit, class Move>
static __device__ __forceinline__ void visit_views(const Footprints &s, Near *near, Pixel *memory,
	const Set &set, const Visit &visit, const Move &move_on)
{
	const int64_t image = (int64_t)s.rows * s.pitch;
	Pixel *tiles[2] = {memory, memory + s.tile_rows * PITCH};
	for (int part = 0; part < PARTS<Pixel>; part++) {
		for (int64_t first = 0; first < s.count; first += VIEWS) {
			const int views = (int)min((int64_t)VIEWS, s.count - first);
			const Pixel *images = (const Pixel *)s.images + first * image;
			__syncthreads();
			for (int i = threadIdx.x; i < views; i += THREADS)
				set(&s.views[part * s.part + first + i], &near[i]);
			__syncthreads();
			copy_tile<Pixel, PITCH>(s, near[0], images, tiles[0]);
#pragma unroll 1
			for (int i = 0; i < views; i++, images += image) {
				__pipeline_wait_prior(0);
				__syncthreads(); /* the tile is complete, and the other one free */
				if (i + 1 < views)
					copy_tile<Pixel, PITCH>(
						s, near[i + 1], images + image, tiles[(i + 1) % 2]);
				visit(near[i], tiles[i % 2], images);
			}
		}
		move_on();
	}
}

/* Column of voxels (x, y) of a thread: 8 or 16 neighbouring threads are a rectangle, a warp is
 * 8 x 4. */
static __device__ __forceinline__ int2 place_of(int thread)
{
	const int lane = thread % 32, warp = thread / 32;
	return make_int2(lane % 4 + lane / 16 * 4 + warp % 2 * 8, lane / 4 % 4 + warp / 2 * 4);
}

/* ---- sums ------------------------------------------------------------------------------------ */

static __device__ __forceinline__ void move_sum(float &)
{
}

static __device__ __forceinline__ void move_sum(float4 &sum)
{
	sum = make_float4(sum.w, sum.x, sum.y, sum.z);
}

static __device__ __forceinline__ float part_of(float sum, int)
{
	return sum;
}

static __device__ __forceinline__ float part_of(const float4 &sum, int part)
{
	return part == 0 ? sum.x : part == 1 ? sum.y : part == 2 ? sum.z : sum.w;
}

/* Number of distinct rotated images of a column: in the middle of odd grids they coincide. */
static __device__ __forceinline__ int images_of(const Footprints &s, int parts, int x, int y)
{
	if (parts == 1)
		return x < s.n[0] && y < s.n[1] ? 1 : 0;
	if (2 * x >= s.n[0] || 2 * y >= s.n[1])
		return 0;
	if (2 * y + 1 < s.n[1])
		return parts;
	return 2 * x + 1 == s.n[0] ? 1 : 0;
}

template <int COLUMN, class Pixel>
static __device__ __forceinline__ void write_sums(
	const Footprints &s, int x, int y, int z0, const Pixel sum[COLUMN])
{
	const int images = images_of(s, PARTS<Pixel>, x, y);
	const int64_t slice = (int64_t)s.n[0] * s.n[1];
#pragma unroll
	for (int i = 0; i < PARTS<Pixel>; i++) {
		const int2 at =
			i == 0 ? make_int2(x, y) : rotated(s.n[0], i * s.direction % 4, x, y);
		if (i < images)
			update_voxels<COLUMN, 4>(s.update,
				s.volume + z0 * slice + (int64_t)at.y * s.n[0] + at.x, slice,
				s.n[2] - z0, [&](int k) { return part_of(sum[k], i); });
	}
}

/* ---- images ---------------------------------------------------------------------------------- */

/* Rows padded to copies of 16 bytes, and views of all quarters side by side. */
template <class Pixel>
static __global__ void make_images(
	const __grid_constant__ Footprints s, const float *from, Pixel *to)
{
	const int c = blockIdx.x * blockDim.x + threadIdx.x;
	const int64_t apart = s.part * s.rows * s.columns;
	if (c >= s.pitch)
		return;
	for (int64_t line = blockIdx.y; line < s.count * s.rows; line += gridDim.y) {
		Pixel pixel = {};
#pragma unroll
		for (int i = 0; i < PARTS<Pixel>; i++)
			if (c < s.columns)
				((float *)&pixel)[i] = from[i * apart + line * s.columns + c];
		to[line * s.pitch + c] = pixel;
	}
}

/* ---- a whole request ------------------------------------------------------------------------- */

/* Rows and columns that blocks see of a view, at most; blocks may still see more, where the depth
 * varies within them. direction: of quarters of the circle, or 0. */
typedef struct {
	int rows, columns, direction;
} TileSize;

template <class Pixel> static int tile_bytes(const TileSize *size)
{
	const int pitch = size->columns <= NARROW<Pixel> ? NARROW<Pixel> : WIDE<Pixel>;
	return 2 * size->rows * pitch * (int)sizeof(Pixel);
}

/* Back projects the views of `s`, from number `first` of each part on. */
template <class Pixel, class Kernel>
static tomos_status run_views(tomos_backend *backend, const ProjectRequest *what,
	const Footprints *s, int64_t first, Kernel kernel, int column, int bytes)
{
	cudaStream_t stream = device_of(backend)->stream;
	make_images<Pixel><<<dim3(cuda_blocks(s->pitch, 128, 1 << 30),
				     cuda_blocks(s->count * s->rows, 1, 65535)),
		128, 0, stream>>>(
		*s, what->projections + first * s->rows * s->columns, (Pixel *)s->images);
	CUDA_LAUNCHED("putting views side by side");
	TRY(cuda_take_shared((const void *)kernel));
	const int half = PARTS<Pixel> == 4 ? 2 : 1;
	kernel<<<dim3(cuda_blocks((s->n[0] + half - 1) / half, SIDE, 1 << 30),
			 cuda_blocks((s->n[1] + half - 1) / half, SIDE, 65535),
			 cuda_blocks(s->n[2], column, 65535)),
		THREADS, bytes, stream>>>(*s);
	CUDA_LAUNCHED("back projecting");
	return TOMOS_OK;
}

/* column: voxels of a thread. */
template <class Pixel, class Kernel>
static tomos_status run_footprints(tomos_backend *backend, const ProjectRequest *what,
	const TileSize *size, const CudaEpilogue *epilogue, Kernel kernel, int column)
{
	const Plan *plan = what->plan;
	const CudaPlan *kept;
	VoxelUpdate update;
	float *images;
	Footprints s = {.part = what->count / PARTS<Pixel>,
		.direction = size->direction,
		.weighting = plan->model.weight,
		.rows = (int)plan->model.rows,
		.columns = (int)plan->model.columns,
		.pitch = (int)((plan->model.columns + EACH<Pixel> - 1) / EACH<Pixel> * EACH<Pixel>),
		.tile_rows = size->rows,
		.volume = what->volume};
	for (int a = 0; a < 3; a++) {
		s.low[a] = what->box.low[a];
		s.n[a] = (int)(what->box.high[a] - what->box.low[a]);
		s.step[a] = (float)plan->whole.step[a];
	}
	TRY(update_open(backend, what, epilogue, &update));
	const int64_t floats = (int64_t)s.rows * s.pitch * PARTS<Pixel>;
	const int64_t at_once = max64(1, min64(device_of(backend)->scratch_most / floats, s.part));
	TRY(cuda_plan(backend, plan, &kept));
	TRY(cuda_scratch(
		backend, SCRATCH_REORDERED, at_once * floats, &images, "views side by side"));
	s.images = images;
	return views_each(&update, s.part, at_once,
		[&](int64_t first, int64_t count, const VoxelUpdate &part) {
			s.views = kept->views + what->first + first;
			s.count = count;
			s.update = part;
			return run_views<Pixel>(
				backend, what, &s, first, kernel, column, tile_bytes<Pixel>(size));
		});
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

static CudaFusion footprint_fuses(
	const tomos_backend *, const ProjectRequest *, const CudaNotes *, const FusedUpdate *step)
{
	return step->average ? FUSES_NOT : FUSES;
}

#endif
