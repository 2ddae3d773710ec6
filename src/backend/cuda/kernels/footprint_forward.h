/* Forward projection of separable footprints: what kernels have in common.
 *
 * A block has LANES x WARPS columns of voxels. It adds them to a tile of each view in shared memory
 * and the tile to the view. Voxels of one view are in shared memory too, so that loops are short
 * enough for the instruction cache; those of several views are in registers, since tiles need the
 * memory. Sums are integers (voxel_quanta.h) and do not depend on the order of additions. Lanes are
 * along an axis far from the rays, so that they rarely add to the same pixel.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_FORWARD_H
#define TOMOS_BACKEND_CUDA_KERNELS_FOOTPRINT_FORWARD_H

#include "backend/cuda/kernels/footprint_forward_tiles.h"
#include "backend/cuda/kernels/footprint_forward_voxels.h"
#include "backend/cuda/kernels/footprint_quanta.h"

enum {
	BANKS = 32, /* of shared memory */
	WARPS = THREADS / (int)LANES,
	VIEWS = 96,     /* of a pass: a quarter of the circle, mostly */
	MOST_SIDE = 512 /* of a tile: positions on it are floats */
};

/* ---- tiles ----------------------------------------------------------------------------------- */

/* Adds a x to a pixel. */
static __device__ __forceinline__ void add_quanta(int *at, float a, float x)
{
	atomicAdd(at, __float_as_int(fmaf(a, x, MAGIC)) - __float_as_int(MAGIC));
}

/* The same of every part of x, to the image itself; apart: from one part to the next. */
template <class Value>
static __device__ __forceinline__ void add_rounded(int *at, int64_t apart, float a, const Value &x)
{
#pragma unroll
	for (int part = 0; part < PARTS<Value>; part++)
		atomicAdd(at + part * apart, __float2int_rn(a * part_of(x, part)));
}

/* Adds x to global memory; a condition instead of a branch. */
static __device__ __forceinline__ void add_if(bool condition, int *to, int x)
{
	asm volatile("{ .reg .pred p; setp.ne.s32 p, %0, 0; @p red.global.add.s32 [%1], %2; }"
		     :
		     : "r"((int)condition), "l"(__cvta_generic_to_global(to)), "r"(x)
		     : "memory");
}

/* Pixels of the tile of one view. */
template <class Near> static __device__ __forceinline__ int tile_pixels(const Near &near)
{
	return near.rows * near.pitch;
}

/* Place of column c in a row of the tile: columns of the same number modulo 2^shift are side by
 * side. */
static __device__ __forceinline__ int place_of_column(int shift, int pitch, int c)
{
	return (c >> shift) + (c & ((1 << shift) - 1)) * (pitch >> shift);
}

/* From one row of a tile to the next, and from one view of N to the next: one tile after the other,
 * or rows of all views side by side. */
template <int N, class Near> static __device__ __forceinline__ int2 tile_steps(const Near &near)
{
	return is_side_by_side(near) ? make_int2(N * near.pitch, near.pitch)
				     : make_int2(near.pitch, tile_pixels(near));
}

/* Adds the tiles of N views to their images and clears them; image: of the first view, from which
 * the next is `image_apart` away. */
template <int N, bool SHIFTED, class Near>
static __device__ __forceinline__ void flush_tiles(
	const Footprints &s, const Near &near, int *tile, int *image, int64_t image_apart)
{
	const int2 steps = tile_steps<N>(near);
	const int pitch = steps.x, apart = steps.y, columns = near.columns,
		  end = near.rows * columns;
	const int row = near.row, column = near.column, shift = SHIFTED ? near.shift : 0;
	const float scale = near.flush, rate = 1 / (float)columns;
	for (int i = threadIdx.x; i < end; i += THREADS) {
		const int r = (int)(((float)i + 0.5f) * rate), c = i - r * columns, y = row + r,
			  x = column + c, place = r * pitch + place_of_column(shift, near.pitch, c);
		const bool seen =
			(unsigned)x < (unsigned)s.columns && (unsigned)y < (unsigned)s.rows;
		int *to = image + (y * s.columns + x);
#pragma unroll
		for (int part = 0; part < N; part++) {
			const int sum = tile[part * apart + place];
			tile[part * apart + place] = 0;
			add_if(seen && sum != 0, to + part * image_apart,
				__float2int_rn((float)sum * scale));
		}
	}
}

/* ---- voxels ---------------------------------------------------------------------------------- */

enum { LOOP_SHIFT = 2 /* of footprints of any size */ };

/* Adds x times `share` times the weights of a group of columns, which are at `place`, to a row of
 * the tiles of all views, `apart` from each other. */
template <class Value>
static __device__ __forceinline__ void add_group(int *row, const int place[GROUP], int apart,
	const float a[GROUP], float share, const Value &x)
{
#pragma unroll
	for (int part = 0; part < PARTS<Value>; part++) {
		const float line = share * part_of(x, part);
#pragma unroll
		for (int i = 0; i < GROUP; i++)
			add_quanta(row + (part * apart + place[i]), a[i], line);
	}
}

/* ---- views ----------------------------------------------------------------------------------- */

/* Largest weight of a voxel of a block, apart from its factor `mass`. In float: units have a margin
 * of some percent. */
static __device__ float largest_weight(
	const Footprints &s, const KernelView *k, const double first[3])
{
	const bool fans = KERNEL_FANS(k);
	const float d0 = (float)affine(k->depth, first),
		    r0 = fans ? (float)affine(k->row, first) : 0;
	float least = 3e38f, slant = 0;
#pragma unroll
	for (int corner = 0; corner < 8; corner++) {
		float more[3], depth = d0, row = r0, square = 0;
#pragma unroll
		for (int i = 0; i < 3; i++) {
			const int a = s.axis[i];
			more[i] = corner >> i & 1 ? (float)more_of(s, i, first[a]) : 0;
			depth = fmaf(more[i], (float)k->depth[a], depth);
			row = fans ? fmaf(more[i], (float)k->row[a], row) : 0;
		}
#pragma unroll
		for (int i = 0; i < 3; i++) {
			const int a = s.axis[i];
			const float away =
				((float)(first[a] - k->src[a]) + more[i] - row * (float)k->v[a]) *
				s.step[i];
			square = fmaf(away, away, square);
		}
		least = fminf(least, depth);
		slant = fmaxf(slant, root_nearly(square) / depth);
	}
	if (s.weighting == WEIGHT_DEPTH)
		return 1 / (least * least);
	return s.weighting == WEIGHT_RAY && KERNEL_HAS_SOURCE(k)
		       ? slant / (fans ? least : least * least)
		       : 1;
}

/* The pitch of a tile's rows: such that lanes, which are u columns and v rows apart, are about one
 * bank apart, if there is memory. shift: if not 0, lanes that are 1, 2, ... or 2^shift columns
 * apart are in different banks. */
template <class Near>
static __device__ void set_pitch(const Footprints &s, float u, float v, int shift, Near *near)
{
	const float none = fabsf(fabsf(u) - 1), more = fabsf(fabsf(u + v) - 1),
		    less = fabsf(fabsf(u - v) - 1);
	const int rest = none <= fminf(more, less) ? 0 : more < less ? 1 : BANKS - 1;
	const int most = s.tile_area / max(near->rows, 1);
	const int part = (near->columns + (1 << shift) - 1) >> shift, apart = BANKS >> shift;
	near->shift = shift;
	near->pitch = shift ? (part + ((apart - part) & (2 * apart - 1))) << shift
			    : part + ((rest - part) & (BANKS - 1));
	if (near->pitch > most)
		near->pitch = shift ? part << shift : part | 1;
	if (near->kind >= 0 && near->pitch > most)
		near->kind = DIRECT;
}

/* Whether weights differ much within a block: depth of its first voxel, and how that changes along
 * its edges. */
static __device__ __forceinline__ bool is_deep(float depth, float a, float b, float c)
{
	const float low = depth + fminf(a, 0) + fminf(b, 0) + fminf(c, 0),
		    high = depth + fmaxf(a, 0) + fmaxf(b, 0) + fmaxf(c, 0);
	return !(high < 1.3f * low);
}

/* Puts the weights of a block in units of its tile, or of the image where it has none. more:
 * largest sum that is added at once, in voxels; if less than 1, that of a voxel, of which less than
 * 16 in a plane meet a pixel. */
template <class Near>
static __device__ void set_units(const Footprints &s, const KernelView *k, const Quantum &q,
	const int first[3], float more, Near *near)
{
	const double at[3] = {(double)(s.low[0] + first[0]), (double)(s.low[1] + first[1]),
		(double)(s.low[2] + first[2])};
	const float mass = s.weighting == WEIGHT_RAY ? (float)fabs(k->mass) : 1;
	const float part = fmaxf(more / (float)QUANTA, fmaxf(more, fminf(16 * more, 1.f)) / q.most);
	const float unit = near->kind >= 0 ? largest_weight(s, k, at) * mass * part : q.unit;
	near->scale /= unit;
	near->flush = unit / q.unit;
}

/* Calls visit(near, tile) for every view with a tile, and direct(near, image) for the others. Tiles
 * are at the start and at the end of the pool alternately: where two have room, one is added to
 * while the other is read. */
template <class Value, class Near, class Visit, class Direct>
static __device__ __forceinline__ void visit_views(
	const Footprints &s, const Near *near, int *tiles, const Visit &visit, const Direct &direct)
{
	constexpr int N = PARTS<Value>;
	const int64_t image = (int64_t)s.rows * s.columns;
	int before = 0;
	bool end = false;
#pragma unroll 1
	for (int i = 0; i < s.count; i++) {
		if (near[i].kind < 0)
			continue;
		const int size = N * tile_pixels(near[i]);
		int *tile = end ? tiles + (s.pool - size) : tiles;
		if (before + size > s.pool)
			__syncthreads();
		visit(near[i], tile);
		__syncthreads(); /* the tile is complete, and the one before is clear */
		if (near[i].shift)
			flush_tiles<N, true>(s, near[i], tile, s.sums + i * image, s.count * image);
		else
			flush_tiles<N, false>(
				s, near[i], tile, s.sums + i * image, s.count * image);
		before = size;
		end = !end;
	}
	for (int i = 0; i < s.count; i++)
		if (near[i].kind == DIRECT)
			direct(near[i], s.sums + i * image);
}

/* A whole block, whose threads have the voxels of Mine each: calls set(view, first voxel of the
 * block, &near) for every view, visit(near, tile, dx, dy, voxels) and direct(near, image, line, dx,
 * dy). */
template <class Mine, class Near, class Set, class Visit, class Direct>
static __device__ __forceinline__ void visit_block(const Footprints &s, Near *near, int *tiles,
	const Set &set, const Visit &visit, const Direct &direct)
{
	typedef typename Mine::Value Value;
	const int a = s.axis[0], b = s.axis[1];
	int first[3];
	first[a] = blockIdx.x * LANES;
	first[b] = blockIdx.y * WARPS;
	first[s.axis[2]] = blockIdx.z * Mine::COUNT;
	const Line line = line_of(s, first);
	Mine voxels(tiles + s.pool);
	bool some = false;
#pragma unroll
	for (int i = 0; i < PARTS<Value>; i++) {
		const ImageLine image = image_of_line(s, line, i);
#pragma unroll
		for (int k = 0; k < Mine::COUNT; k++) {
			const float value = voxel_of(image, k);
			((float *)&voxels.at(k))[i] = value;
			some = some || value != 0;
		}
	}
	if (!__syncthreads_or(some))
		return; /* around an object there are many zeros */
	for (int i = threadIdx.x; i < s.count; i += THREADS)
		set(i, first, &near[i]);
	for (int i = threadIdx.x; i < s.pool; i += THREADS)
		tiles[i] = 0;
	/* Threads outside the box repeat its last column, with zeros. */
	const float dx = (float)min((int)threadIdx.x % LANES, s.n[a] - 1 - first[a]),
		    dy = (float)min((int)threadIdx.x / LANES, s.n[b] - 1 - first[b]);
	__syncthreads();
	visit_views<Value>(
		s, near, tiles, [&](const Near &v, int *tile) { visit(v, tile, dx, dy, voxels); },
		[&](const Near &v, int *image) { direct(v, image, line, dx, dy); });
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* blockIdx.y: view of a quarter of the circle; z: quarter. */
static __global__ void add_sums(const __grid_constant__ Footprints s)
{
	const int64_t pixels = (int64_t)s.rows * s.columns;
	const int64_t view = blockIdx.z * s.direction % 4 * s.part + blockIdx.y;
	const float unit = __uint_as_float(*s.largest) * s.quanta[blockIdx.y].unit;
	const int *sums = s.sums + (blockIdx.z * s.count + blockIdx.y) * pixels;
	float *to = s.projections + view * pixels;
	for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < pixels;
		i += (int64_t)gridDim.x * blockDim.x)
		to[i] = fmaf((float)sums[i], unit, to[i]);
}

/* The same for sets of views that are mirror images: image `part` of each view. */
static __global__ void add_mirrored_sums(const __grid_constant__ Footprints s, int part)
{
	const int64_t pixels = (int64_t)s.rows * s.columns;
	const int seen = s.mirrored[blockIdx.y].view[part];
	const float unit = __uint_as_float(*s.largest) * s.quanta[blockIdx.y].unit;
	const int *sums = s.sums + (part * s.count + blockIdx.y) * pixels;
	float *to = s.projections + (seen & MIRROR_BITS) * pixels;
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < pixels;
		i += gridDim.x * blockDim.x) {
		float *at =
			to + mirrored_pixel(seen, s.rows, s.columns, i / s.columns, i % s.columns);
		*at = fmaf((float)sums[i], unit, *at);
	}
}

/* ---- a whole request ------------------------------------------------------------------------- */

static inline tomos_status find_largest(
	tomos_backend *backend, const Footprints *s, const unsigned **largest)
{
	float *memory;
	const Transposed voxels = {.outside = s->volume,
		.slices = s->n[2],
		.nj = s->n[0],
		.nk = s->n[1],
		.si = (int64_t)s->n[0] * s->n[1],
		.sj = 1,
		.sk = s->n[0]};
	TRY(cuda_scratch(backend, SCRATCH_LISTS, 1, &memory, "the largest voxel"));
	*largest = (const unsigned *)memory;
	return largest_value(backend, &voxels, NULL, (unsigned *)memory);
}

/* Projects the views of `s`; order(axis of lanes, axes): all axes of a block. */
template <class Mine, class Kernel, class Order>
static tomos_status run_views(tomos_backend *backend, const ProjectRequest *what, Footprints s,
	const TileSize *size, Kernel kernel, const Order &order)
{
	constexpr int column = Mine::COUNT, parts = PARTS<typename Mine::Value>;
	cudaStream_t stream = device_of(backend)->stream;
	const int64_t pixels = (int64_t)s.rows * s.columns;
	const int shape[3] = {LANES, WARPS, column};
	CUDA_TRY(cudaMemsetAsync(
			 s.sums, 0, (size_t)(s.count * parts * pixels) * sizeof(int), stream),
		"projecting");
	TRY(cuda_take_shared((const void *)kernel));
	for (int a = 0; a < 3; a++) {
		int axis[3];
		if (!(size->axes & 1 << a))
			continue;
		order(a, axis);
		set_axes(what->plan, axis, shape, &s);
		kernel<<<dim3(cuda_blocks(s.domain[axis[0]], LANES, 1 << 30),
				 cuda_blocks(s.domain[axis[1]], WARPS, 65535),
				 cuda_blocks(s.domain[axis[2]], column, 65535)),
			THREADS, s.pool *(int)sizeof(int) + Mine::BYTES, stream>>>(s);
		CUDA_LAUNCHED("projecting");
	}
	const unsigned blocks = cuda_blocks(pixels, 1024, 1 << 20), count = (unsigned)s.count;
	if (s.mirrors.count > 1) /* one by one: several views may have the same image */
		for (int part = 0; part < parts; part++)
			add_mirrored_sums<<<dim3(blocks, count), 256, 0, stream>>>(s, part);
	else
		add_sums<<<dim3(blocks, count, parts), 256, 0, stream>>>(s);
	CUDA_LAUNCHED("projecting");
	return TOMOS_OK;
}

/* Mine: the voxels of a thread; near: bytes of a block for what is known about views. */
template <class Mine, class Kernel, class Order>
static tomos_status run_footprints(tomos_backend *backend, const ProjectRequest *what,
	const TileSize *size, int near, Kernel kernel, const Order &order)
{
	typedef typename Mine::Value Value;
	const CudaPlan *kept;
	const void *quanta;
	float *sums;
	Footprints s = footprints_of(what, size, PARTS<Value>);
	s.large = has_large_footprints(what);
	s.tile_rows = MOST_SIDE;
	s.tile_area = size->area;
	s.pool = pool_bytes<Value>(near + Mine::BYTES, size) / (int)sizeof(int);
	const int64_t pixels = (int64_t)s.rows * s.columns, floats = pixels * PARTS<Value>;
	const int64_t most = max64(1, min64(VIEWS, device_of(backend)->scratch_most / floats));
	TRY(cuda_plan(backend, what->plan, &kept));
	TRY(cuda_kept(backend, what->plan, KEPT_QUANTA, sizeof(Quantum), footprint_quantum, NULL,
		&quanta));
	TRY(find_largest(backend, &s, &s.largest));
	TRY(cuda_mirrors(backend, what->plan, &s));
	const MirrorView *mirrored = s.mirrored;
	TRY(cuda_scratch(
		backend, SCRATCH_REORDERED, min64(most, s.part) * floats, &sums, "sums of pixels"));
	s.sums = (int *)sums;
	for (int64_t first = 0; first < s.part; first += most) {
		s.views = kept->views + what->first + first;
		s.quanta = (const Quantum *)quanta + what->first + first;
		s.count = min64(most, s.part - first);
		s.mirrored = mirrored ? mirrored + first : NULL;
		s.projections = what->projections + (mirrored ? 0 : first) * pixels;
		TRY(run_views<Mine>(backend, what, s, size, kernel, order));
	}
	return TOMOS_OK;
}

#endif
