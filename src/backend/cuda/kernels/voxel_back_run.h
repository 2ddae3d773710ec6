/* Voxel-driven back projection by blocks of voxel columns, one view at a time: copies of the views
 * and a whole request.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_VOXEL_BACK_RUN_H
#define TOMOS_BACKEND_CUDA_KERNELS_VOXEL_BACK_RUN_H

#include "backend/cuda/kernels/mirror_images.h"
#include "backend/cuda/kernels/voxel_back_cone.h"

/* Floats that are summed for a voxel: of the data and, for updates that divide by the sum of the
 * weights, of the ray weights. */
template <typename Value> constexpr int LANES = (int)(sizeof(Value) / sizeof(float));

static __device__ __forceinline__ void add_to(float *sum, int k, float weight, float value)
{
	sum[k] = fmaf(weight, value, sum[k]);
}

static __device__ __forceinline__ void add_to(float *sum, int k, float weight, float2 value)
{
	add_to(sum, k, weight, value.x);
	add_to(sum, COLUMN + k, weight, value.y);
}

/* Mirrored views have the sums of two voxels: those of the other one are next in line after each
 * part of the views. */
static __device__ __forceinline__ void swap_sums(float *sum)
{
#pragma unroll
	for (int k = 0; k < COLUMN; k++) {
		const float other = sum[COLUMN + k];
		sum[COLUMN + k] = sum[k];
		sum[k] = other;
	}
}

/* Updates the voxels of the column at (x, y, z). PARTS: 2 if sum[COLUMN ...] are those of the
 * mirrored column, which is the same one in the middle of odd grids. */
template <typename Value, int PARTS>
static __device__ __forceinline__ void change(const Tiles &s, int x, int y, int z, const float *sum)
{
	const int64_t slice = (int64_t)s.n[0] * s.n[1];
	float *to = s.volume + z * slice + (int64_t)y * s.n[0] + x;
	if (x >= s.n[0] || y >= (PARTS == 2 ? (s.n[1] + 1) / 2 : s.n[1]))
		return;
	if constexpr (LANES<Value> == 1 || PARTS == 2)
		update_voxels<COLUMN, 4>(
			s.update, to, slice, s.n[2] - z, [&](int k) { return sum[k]; });
	else
		update_voxels<COLUMN, COLUMN>(s.update, to, slice, s.n[2] - z,
			[&](int k) { return make_float2(sum[k], sum[COLUMN + k]); });
	float *other = s.volume + (slice * s.n[2] - 1) - (to - s.volume);
	if (PARTS == 2 && 2 * y + 1 != s.n[1])
		update_voxels<COLUMN, 4>(s.update, other, -slice, s.n[2] - z,
			[&](int k) { return sum[COLUMN + k]; });
}

/* Back projection by one block: visit(near, tile, image, dx, dy, sum) adds a view to the sums of
 * the column at (dx, dy). */
template <class Pixel, typename Value, int SIZE, bool TILTED, int PARTS, class Visit>
static __device__ __forceinline__ void back_block(const Tiles &s, const Visit &visit)
{
	constexpr int SUMS = LANES<Value> * COLUMN;
	const int x0 = blockIdx.x * SIDE, y0 = blockIdx.y * SIDE, z0 = blockIdx.z * COLUMN;
	const int2 place = place_of(threadIdx.x);
	float sum[SUMS] = {0};
	const Visited list = {s.views, s.part, (int)s.count};
	visit_views<Pixel, SIZE, SUMS, PARTS, TILTED>(
		s, list, x0, y0, z0, sum,
		[&](const Near &near, const Pixel *tile, const Pixel *image) {
			visit(near, tile, image, (float)place.x, (float)place.y, sum);
		},
		[&] {
			if constexpr (PARTS == 2)
				swap_sums(sum);
		});
	change<Value, PARTS>(s, x0 + place.x, y0 + place.y, z0, sum);
}

/* The views of a pass. rays: weights of the rays; NULL: 1. apart: pixels to the mirrored views,
 * which take the place of the weights; 0: none. */
typedef struct {
	const float *from, *rays;
	int64_t apart;
	int rows, columns;
} Views;

/* A pixel and its ray weight; 0 outside the detector. */
static __device__ __forceinline__ float2 pixel_at(
	const Views &v, int64_t view, int64_t row, int column)
{
	const int64_t at = (view * v.rows + row) * v.columns + column;
	if (row < 0 || row >= v.rows || column < 0 || column >= v.columns)
		return float2{0, 0};
	if (v.apart > 0)
		return float2{
			v.from[at], v.from[at + v.apart + (v.rows - 1 - 2 * row) * v.columns]};
	return float2{v.from[at], v.rays ? v.rays[at] : 1};
}

/* Copies the views to images with a border of zeros, by set_image(pixel, views, view, row,
 * column). */
template <class Pixel>
static __global__ void make_images(const __grid_constant__ Tiles s, const __grid_constant__ Views v)
{
	const int c = blockIdx.x * blockDim.x + threadIdx.x;
	if (c >= s.pitch)
		return;
	for (int64_t line = blockIdx.y; line < s.count * s.lines; line += gridDim.y)
		set_image(((Pixel *)s.images)[line * s.pitch + c], v, line / s.lines,
			line % s.lines - BORDER, c - BORDER);
}

/* ---- bank conflicts -------------------------------------------------------------------------- */

/* Pixels from voxel to voxel along x and y, in the middle of the box. */
typedef struct {
	float u[2], v[2];
} Steps;

static __device__ Steps steps_of(const Tiles &s, const KernelView *k)
{
	double at[3];
	for (int a = 0; a < 3; a++)
		at[a] = (double)s.low[a] + 0.5 * s.n[a];
	const double rate = 1 / affine(k->depth, at[0], at[1], at[2]),
		     u = affine(k->column, at[0], at[1], at[2]) * rate,
		     v = affine(k->row, at[0], at[1], at[2]) * rate;
	Steps steps;
	for (int a = 0; a < 2; a++) {
		steps.u[a] = (float)((k->column[a] - u * k->depth[a]) * rate);
		steps.v[a] = (float)((k->row[a] - v * k->depth[a]) * rate);
	}
	return steps;
}

/* Reads of shared memory for N threads from `first` on; fraction: where in a pixel the first
 * column is. Pixels in the same bank need one read each. */
template <int N>
static __device__ int reads_of(const Steps &steps, int first, float fraction, int pitch)
{
	int at[N], most = 0;
	for (int i = 0; i < N; i++) {
		const int2 place = place_of(first + i);
		const float x = (float)place.x, y = (float)place.y;
		const float u = fmaf(steps.u[0], x, fmaf(steps.u[1], y, fraction)),
			    v = fmaf(steps.v[0], x, fmaf(steps.v[1], y, 1 - fraction));
		int reads = 1;
		at[i] = (int)floorf(v) * pitch + (int)floorf(u);
		for (int j = 0; j < i; j++) {
			const bool same = at[j] == at[i];
			reads = same ? -N : reads + ((at[j] - at[i]) % N == 0);
		}
		most = max(most, reads);
	}
	return most;
}

/* A warp per view: its threads try all residues of the row pitch for all groups of threads that
 * read at once. */
template <class Pixel> static __global__ void find_residues(const __grid_constant__ Tiles s)
{
	constexpr int N = BANKS<Pixel>, GROUPS = 32 / N;
	const int residue = threadIdx.x / GROUPS, group = threadIdx.x % GROUPS;
	const Steps steps = steps_of(s, &s.views[blockIdx.x]);
	int reads = 0;
	for (int i = 0; i < 3; i++)
		reads += reads_of<N>(steps, group * N, 0.2f + 0.3f * (float)i, 64 + residue);
	for (int i = 1; i < GROUPS; i *= 2)
		reads += __shfl_xor_sync(~0u, reads, i);
	int best = reads * 32 + residue;
	for (int i = 1; i < 32; i *= 2)
		best = min(best, __shfl_xor_sync(~0u, best, i));
	if (threadIdx.x == 0)
		s.residues[blockIdx.x] = best % 32;
}

/* ---- a whole request ------------------------------------------------------------------------- */

typedef void (*TileKernel)(const Tiles s);

/* Runs kernels[0], or kernels[1] if weights depend on the distance from a point source, after the
 * views from `first` on have been copied to images. */
template <class Pixel, int SIZE, bool TILTED>
static tomos_status tile_views(tomos_backend *backend, const ProjectRequest *what, const Tiles *s,
	int64_t first, const TileKernel kernels[2])
{
	const KernelModel *model = &what->plan->model;
	cudaStream_t stream = device_of(backend)->stream;
	const int64_t at = first * model->rows * model->columns;
	const float *rays = s->update.with.rays;
	const Views views = {what->projections + at, rays ? rays + at : NULL,
		s->part * model->rows * model->columns, (int)model->rows, (int)model->columns};
	make_images<Pixel><<<dim3(cuda_blocks(s->pitch, 128, 1 << 30),
				     cuda_blocks(s->count * s->lines, 1, 65535)),
		128, 0, stream>>>(*s, views);
	if (s->part + first + s->count == what->count)
		TRY(cuda_taken(backend));
	if constexpr (TILTED)
		find_residues<Pixel><<<(unsigned)(s->part + s->count), 32, 0, stream>>>(*s);
	const bool source = what->plan->rays.source == TOMOS_POINT;
	const auto kernel = kernels[model->weight == WEIGHT_RAY && source];
	const int bytes = tile_bytes<Pixel, SIZE>();
	TRY(tile_take(kernel, bytes));
	const int rows = s->part > 0 ? (s->n[1] + 1) / 2 : s->n[1];
	kernel<<<dim3(cuda_blocks(s->n[0], SIDE, 1 << 30), cuda_blocks(rows, SIDE, 65535),
			 cuda_blocks(s->n[2], COLUMN, 65535)),
		THREADS, bytes, stream>>>(*s);
	CUDA_LAUNCHED("back projecting");
	return TOMOS_OK;
}

/* Flips the rows of the second half of the views, which mirror those of the first half
 * (mirrors_opposite): a point and its mirror image about the centre project to the same column of
 * two such views, and then to the same row, so that one position and weight serve two voxels.
 * last: the last row. */
static __global__ void flip_views(
	const KernelView *from, KernelView *to, int64_t count, double last)
{
	const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= count)
		return;
	KernelView view = from[i];
	for (int a = 0; a < 4 && i >= count / 2; a++)
		view.row[a] = last * view.depth[a] - view.row[a];
	to[i] = view;
}

/* The memory of a pass: images, residues of all views, the views if half of them are flipped. */
static tomos_status tile_memory_of(tomos_backend *backend, const ProjectRequest *what,
	int64_t images, bool mirrored, Tiles *s, KernelView **views)
{
	const CudaPlan *kept;
	float *memory;
	const int64_t aligned = (images + what->count + 1) / 2 * 2,
		      view = (int64_t)(sizeof(KernelView) / sizeof(float));
	TRY(cuda_plan(backend, what->plan, &kept));
	TRY(cuda_scratch(backend, SCRATCH_REORDERED, aligned + (mirrored ? what->count * view : 0),
		&memory, "images with a border"));
	s->images = memory;
	s->residues = (int *)(memory + images);
	*views = kept->views + what->first;
	if (mirrored) {
		s->part = what->count / 2;
		*views = (KernelView *)(memory + aligned);
		flip_views<<<cuda_blocks(what->count, 128, 1 << 30), 128, 0,
			device_of(backend)->stream>>>(kept->views + what->first, *views,
			what->count, (double)(what->plan->model.rows - 1));
		CUDA_LAUNCHED("back projecting");
	}
	return TOMOS_OK;
}

/* A whole request: calls run_views(s, first, average) for the views of each pass. floats: of
 * scratch memory per view. mirrored: see mirrors_opposite; not for updates that need two sums. */
template <class Run>
static tomos_status tile_passes(tomos_backend *backend, const ProjectRequest *what,
	const CudaEpilogue *epilogue, int64_t (*floats)(const KernelModel *model, bool pairs),
	bool mirrored, const Run &run_views)
{
	KernelView *views;
	VoxelUpdate update;
	Tiles s = tile_request(what);
	TRY(update_open(backend, what, epilogue, &update));
	mirrored = mirrored && !update.with.average;
	const int64_t image = floats(&what->plan->model, update.with.average || mirrored);
	const int64_t count = mirrored ? what->count / 2 : what->count;
	const int64_t at_once = min64(views_at_once(backend, what, image), count);
	TRY(tile_memory_of(backend, what, at_once * image, mirrored, &s, &views));
	return views_each(
		&update, count, at_once, [&](int64_t first, int64_t some, const VoxelUpdate &part) {
			s.views = views + first;
			s.count = some;
			s.update = part;
			return run_views(&s, first, part.with.average);
		});
}

#endif
