/* Back projection of separable footprints: what kernels have in common.
 *
 * A block has SIDE x SIDE columns of voxels along z; the tile of a view is copied into shared
 * memory while views before it are processed.
 *
 * Where views are in sets that are 90 degrees apart, a block visits the images once for each
 * quarter of the circle, and moves its sums on after each; where they are mirror images, once.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_BACK_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_BACK_H

#include <cuda_pipeline.h>
#include "backend/cuda/kernels/footprint_mirrors.h"

enum {
	SIDE = 16,
	VIEWS = 48 /* views that are set up at once */
};

static_assert(THREADS == SIDE * SIDE);

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
	const int tile = s.tile_rows * PITCH;
	const int parts = PARTS<Pixel> < 4 || s.mirrors.count > 1 ? 1 : PARTS<Pixel>;
	for (int part = 0; part < parts; part++) {
		for (int64_t first = 0; first < s.count; first += VIEWS) {
			const int views = (int)min((int64_t)VIEWS, s.count - first);
			const Pixel *images = (const Pixel *)s.images + first * image;
			__syncthreads();
			for (int i = threadIdx.x; i < views; i += THREADS)
				set(&s.views[part * s.part + first + i], &near[i]);
			__syncthreads();
			const auto copy = [&](int i) {
				copy_tile<Pixel, PITCH>(s, near[i], images + i * image,
					memory + i % (2 * s.together) * tile);
			};
			for (int i = 0; i < min(views, s.together); i++)
				copy(i);
#pragma unroll 1
			for (int i = 0; i < views; i++) {
				if (i % s.together == 0) {
					__pipeline_wait_prior(0);
					/* Half of the tiles are complete, the others free. */
					__syncthreads();
					for (int k = 0; k < s.together; k++)
						if (i + s.together + k < views)
							copy(i + s.together + k);
				}
				visit(near[i], memory + i % (2 * s.together) * tile,
					images + i * image);
			}
		}
		if (parts > 1)
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

/* Row pitches of tiles: neighbouring rows are half of the banks apart. Those of one view and few
 * voxels of a thread are for voxels that appear large. */
template <class Sums>
constexpr int NARROW = PARTS<typename Sums::Value> == 4   ? 36
		       : PARTS<typename Sums::Value> == 2 ? 40
		       : Sums::COUNT > 8                  ? 48
							  : 112;
template <class Sums>
constexpr int WIDE = PARTS<typename Sums::Value> == 4   ? 68
		     : PARTS<typename Sums::Value> == 2 ? 72
		     : Sums::COUNT > 8                  ? 112
							: 176;

/* Calls visit(k, sum) for `count` sums, in a loop that is not unrolled. */
template <class Pixel, int N, class Visit>
static __device__ __forceinline__ void sums_each(
	RegisterValues<Pixel, N> &sum, int count, const Visit &visit)
{
#pragma unroll 1
	for (int k = 0; k < N; k++) {
		if (k < count)
			visit(k, sum.at(0));
		sum.template rotate<1>();
	}
}

template <int N, class Visit>
static __device__ __forceinline__ void sums_each(
	SharedValues<N> &sum, int count, const Visit &visit)
{
#pragma unroll 1
	for (int k = 0; k < min(N, count); k++)
		visit(k, sum.at(k));
}

/* Adds `share` times a group of pixels, times their weights. */
template <class Pixel>
static __device__ __forceinline__ void add_group(
	Pixel &sum, const Pixel *at, const float a[GROUP], float share)
{
	Pixel line = scaled(a[0], at[0]);
#pragma unroll
	for (int i = 1; i < GROUP; i++)
		add_scaled(line, a[i], at[i]);
	add_scaled(sum, share, line);
}

/* Moves the sums of quarters of the circle on by one. */
template <class Pixel> static __device__ __forceinline__ void move_sum(Pixel &sum)
{
	if constexpr (PARTS<Pixel> == 4)
		sum = make_float4(sum.w, sum.x, sum.y, sum.z);
}

/* Number of distinct rotated images of a column: in the middle of odd grids they coincide. */
static __device__ __forceinline__ int images_of(const Footprints &s, int parts, int x, int y)
{
	if (parts == 1)
		return x < s.n[0] && y < s.n[1] ? 1 : 0;
	if (s.mirrors.count > 1)
		return x < s.domain[0] && y < s.domain[1] ? parts : 0;
	if (2 * x >= s.n[0] || 2 * y >= s.n[1])
		return 0;
	if (2 * y + 1 < s.n[1])
		return parts;
	return 2 * x + 1 == s.n[0] ? 1 : 0;
}

template <class Sums>
static __device__ __forceinline__ void write_sums(
	const Footprints &s, int x, int y, int z0, Sums &sum)
{
	typedef typename Sums::Value Pixel;
	const int images = images_of(s, PARTS<Pixel>, x, y);
	const int64_t slice = (int64_t)s.n[0] * s.n[1];
#pragma unroll
	for (int i = 0; i < PARTS<Pixel>; i++) {
		const int3 at = image_of(s, i, i * s.direction % 4, x, y, z0);
		const bool below = PARTS<Pixel> != 1 && is_flipped(s.mirrors, i, 2);
		const int count = below && s.domain[2] < s.n[2] ? s.n[2] / 2 : s.domain[2];
		if (i < images && x != middle_of(s, i, 0) && y != middle_of(s, i, 1))
			update_voxels<Sums::COUNT, 4>(s.update,
				s.volume + at.z * slice + (int64_t)at.y * s.n[0] + at.x,
				below ? -slice : slice, count - z0,
				[&](int k) { return part_of(sum.at(k), i); });
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

/* The same of sets of views that are mirror images: image i of a view is that which map i takes it
 * to. first: view of the first line. */
template <class Pixel>
static __global__ void make_mirrored_images(
	const __grid_constant__ Footprints s, int64_t first, const float *from, Pixel *to)
{
	const int c = blockIdx.x * blockDim.x + threadIdx.x;
	const int64_t pixels = (int64_t)s.rows * s.columns;
	if (c >= s.pitch)
		return;
	for (int64_t line = blockIdx.y; line < s.count * s.rows; line += gridDim.y) {
		const int64_t view = line / s.rows;
		const int row = (int)(line - view * s.rows);
		Pixel pixel = {};
#pragma unroll
		for (int i = 0; i < PARTS<Pixel>; i++)
			if (c < s.columns) {
				const int seen = s.mirrored[first + view].view[i];
				const int place = mirrored_pixel(seen, s.rows, s.columns, row, c);
				((float *)&pixel)[i] = from[(seen & MIRROR_BITS) * pixels + place];
			}
		to[line * s.pitch + c] = pixel;
	}
}

/* Back projects the views into the voxels of a block. Calls visit(near, tile,
 * image, dx, dy, voxels that are left along z, sums) for every image; near_block is that of the
 * type of view. */
template <class Sums, int PITCH, class Near, class Visit>
static __device__ __forceinline__ void back_block(
	const Footprints &s, Near *near, const Visit &visit)
{
	typedef typename Sums::Value Pixel;
	constexpr int N = Sums::COUNT;
	extern __shared__ float4 tile_memory[];
	const int first[3] = {(int)blockIdx.x * SIDE, (int)blockIdx.y * SIDE, (int)blockIdx.z * N};
	const int2 place = place_of(threadIdx.x);
	/* Threads outside the box repeat its last column. */
	const float dx = (float)min(place.x, s.n[0] - 1 - first[0]),
		    dy = (float)min(place.y, s.n[1] - 1 - first[1]);
	Sums sum((Pixel *)tile_memory + 2 * s.together * s.tile_rows * PITCH);
#pragma unroll
	for (int k = 0; k < N; k++)
		sum.at(k) = Pixel{};
	visit_views<Pixel, PITCH>(
		s, near, (Pixel *)tile_memory,
		[&](const KernelView *k, Near *to) {
			near_block(s, k, first, PITCH, EACH<Pixel>, to);
		},
		[&](const Near &v, const Pixel *tile, const Pixel *image) {
			visit(v, tile, image, dx, dy, s.n[2] - first[2], sum);
		},
		[&] {
#pragma unroll
			for (int k = 0; k < N; k++)
				move_sum(sum.at(k));
		});
	write_sums(s, first[0] + place.x, first[1] + place.y, first[2], sum);
}

/* ---- a whole request ------------------------------------------------------------------------- */

typedef void (*BackKernel)(const Footprints s);

/* Whether narrow tiles are enough, for all blocks or, where voxels appear large, nearly all. */
template <class Sums> static bool is_narrow(const TileSize *size)
{
	return (PARTS<typename Sums::Value> == 1 && Sums::COUNT <= 8
			       ? size->usual[0]
			       : size->columns) <= NARROW<Sums>;
}

/* Bytes of two rows of tiles. */
template <class Sums> static int row_bytes(const TileSize *size)
{
	return 2 * (is_narrow<Sums>(size) ? NARROW<Sums> : WIDE<Sums>)*(int)sizeof(
			   typename Sums::Value);
}

template <class Sums> static int tile_bytes(const TileSize *size)
{
	return size->rows * row_bytes<Sums>(size);
}

/* Rows of tiles, if this many blocks share the memory of an SM. fixed: bytes for what is known
 * about views. */
template <class Sums> static int most_rows(int fixed, int blocks, const TileSize *size)
{
	return (cuda_most_shared() / blocks - fixed - Sums::BYTES - 1024) / row_bytes<Sums>(size);
}

/* Gives this many blocks per SM as much memory as they have each, if that is enough for nearly all
 * tiles: the few blocks that see more of a view read it directly. */
template <class Sums> static bool share_memory(int fixed, int blocks, TileSize *size)
{
	const int most = most_rows<Sums>(fixed, blocks, size);
	if (size->usual[0] > WIDE<Sums> || size->usual[1] > (int)MOST_ROWS ||
		most < min(size->usual[1], size->rows * 2 / 3))
		return false;
	size->rows = min(size->rows, most);
	return true;
}

/* All of the memory for one block, however many blocks see more. */
template <class Sums> static void take_memory(int fixed, TileSize *size)
{
	size->rows = min(size->rows, most_rows<Sums>(fixed, 1, size));
}

/* A kind of sums as an argument. */
template <class Sums_> struct SumsOf {
	typedef Sums_ Sums;
};

/* Tiles of four views, of two or of one; of fewer voxels, where these appear large or more of
 * longer columns would be outside the box. fixed: see most_rows. has(SumsOf, blocks): sets the size
 * of tiles; whether there is memory for them in this number of blocks per SM. */
template <class Four, class Two, class One, class Large, class Has>
static void choose_tiles(const ProjectRequest *what, int fixed, TileSize *size, const Has &has)
{
	const int64_t n = what->box.high[2] - what->box.low[2];
	const bool few = 4 * whole_columns<One>(n) > 5 * whole_columns<Large>(n);
	const auto has_some = [&](auto sums) { return has(sums, 2) || has(sums, 1); };
	if (choose_images(
		    what, size, [&] { return has_some(SumsOf<Four>()); },
		    [&] { return has_some(SumsOf<Two>()); }))
		return;
	if ((few || !has(SumsOf<One>(), 2)) && !has(SumsOf<Large>(), 3) && !has(SumsOf<Large>(), 2))
		take_memory<Large>(fixed, size);
	forget_images(size);
}

/* Views between two barriers: two where this leaves enough memory for other blocks. */
template <class Sums> static int together_of(const TileSize *size)
{
	return 2 * tile_bytes<Sums>(size) < cuda_most_shared() * 3 / 10 ? 2 : 1;
}

/* Back projects the views of `s`, from number `first` of each part on. */
template <class Pixel, class Kernel>
static tomos_status run_views(tomos_backend *backend, const ProjectRequest *what,
	const Footprints *s, int64_t first, Kernel kernel, int column, int bytes)
{
	cudaStream_t stream = device_of(backend)->stream;
	const dim3 blocks(
		cuda_blocks(s->pitch, 128, 1 << 30), cuda_blocks(s->count * s->rows, 1, 65535));
	if (s->mirrors.count > 1)
		make_mirrored_images<Pixel><<<blocks, 128, 0, stream>>>(
			*s, first, what->projections, (Pixel *)s->images);
	else
		make_images<Pixel><<<blocks, 128, 0, stream>>>(
			*s, what->projections + first * s->rows * s->columns, (Pixel *)s->images);
	CUDA_LAUNCHED("putting views side by side");
	TRY(cuda_take_shared((const void *)kernel));
	kernel<<<dim3(cuda_blocks(s->domain[0], SIDE, 1 << 30),
			 cuda_blocks(s->domain[1], SIDE, 65535),
			 cuda_blocks(s->domain[2], column, 65535)),
		THREADS, bytes, stream>>>(*s);
	CUDA_LAUNCHED("back projecting");
	return TOMOS_OK;
}

template <class Sums, class Kernel>
static tomos_status run_footprints(tomos_backend *backend, const ProjectRequest *what,
	const TileSize *size, const CudaEpilogue *epilogue, Kernel kernel)
{
	typedef typename Sums::Value Pixel;
	const Plan *plan = what->plan;
	const CudaPlan *kept;
	VoxelUpdate update;
	float *images;
	const int axis[3] = {0, 1, 2}, shape[3] = {SIDE, SIDE, Sums::COUNT};
	Footprints s = footprints_of(what, size, PARTS<Pixel>);
	set_axes(plan, axis, shape, &s);
	s.pitch = (s.columns + EACH<Pixel> - 1) / EACH<Pixel> * EACH<Pixel>;
	s.together = together_of<Sums>(size);
	TRY(update_open(backend, what, epilogue, &update));
	const int64_t floats = (int64_t)s.rows * s.pitch * PARTS<Pixel>;
	TRY(cuda_mirrors(backend, plan, &s));
	for (int a = 0; a < 2 && size->direction != 0; a++)
		s.domain[a] = (s.n[a] + 1) / 2; /* its rotated images are all */
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
			return run_views<Pixel>(backend, what, &s, first, kernel, Sums::COUNT,
				s.together * tile_bytes<Sums>(size) + Sums::BYTES);
		});
}

#endif
