/* Joseph's back projection of rays in any direction.
 *
 * A block has a tile of voxels in shared memory and goes over all views. Its threads follow the
 * rays that meet the tile from plane to plane of their dominant axis, and add each to the four
 * voxels around it. The sums are integers, multiples of a small part of the largest pixel, so that
 * they do not depend on the order of additions.
 *
 * On full circles, rays of two views that are rotations of each other are followed together: a
 * block has the rotated tile as well, and each voxel of the volume in one of the two.
 */
#include "backend/cuda/kernels/joseph_tiles.h"

#define QUANTA 4.1e6  /* largest pixel in units of the sums, less than 2^22 */
#define LARGEST 2e9   /* largest sum, less than 2^31 */
#define MOST_SUM 1000 /* of the weights of a voxel, for units that are small enough */

typedef struct {
	int axes;
	double most; /* bound of the sum of the weights of a voxel in a view, in steps */
} Notes;

typedef struct {
	Tiles tiles;
	const float *images; /* [view][line][place], times the steps of the rays */
	float *volume;
	VoxelUpdate update;
} Scatter;

/* ---- images ---------------------------------------------------------------------------------- */

/* A pixel times the step of its ray, with the dominant axis in its last two bits. */
static __device__ float marked_pixel(
	const Tiles *s, const KernelView *k, int64_t row, int64_t column, float value)
{
	const KernelRay ray = kernel_ray(&s->grid, k, row, column);
	const int a = kernel_dominant(&ray);
	const float step = (float)(ray.length / fabs(ray.direction[a]));
	return __uint_as_float(((__float_as_uint(step * value) + 2) & ~3u) | (unsigned)a);
}

static __global__ void make_images(
	const __grid_constant__ Tiles s, const float *from, float *to, unsigned *maxima)
{
	__shared__ float square[SQUARE][SQUARE + 1];
	const int64_t rows = s.model.rows, columns = s.model.columns;
	const int64_t column = (int64_t)blockIdx.x * SQUARE + threadIdx.x;
	for (int64_t view = blockIdx.z; view < s.count; view += gridDim.z) {
		const int64_t number = view_number(&s, view);
		const KernelView *k = &s.views[number];
		const bool plain = lines_are_rows(&s, view);
		const int64_t image = view * rows * columns,
			      moved = (number - view) * rows * columns;
		unsigned most = 0;
		__syncthreads();
		for (int j = threadIdx.y; j < SQUARE; j += LINES) {
			const int64_t row = (int64_t)blockIdx.y * SQUARE + j;
			const int64_t at = image + row * columns + column;
			if (row >= rows || column >= columns)
				continue;
			const float pixel = marked_pixel(&s, k, row, column, from[at + moved]);
			most = max(most, __float_as_uint(pixel) & 0x7fffffffu);
			square[j][threadIdx.x] = pixel;
			if (plain)
				to[at] = pixel;
		}
		__syncthreads();
		const int64_t place = (int64_t)blockIdx.y * SQUARE + threadIdx.x;
		for (int j = threadIdx.y; j < SQUARE && !plain; j += LINES) {
			const int64_t line = (int64_t)blockIdx.x * SQUARE + j;
			if (line < columns && place < rows)
				to[image + line * rows + place] = square[threadIdx.x][j];
		}
		for (int away = LANES / 2; away; away /= 2)
			most = max(most, __shfl_xor_sync(~0u, most, away));
		if (threadIdx.x == 0)
			atomicMax(&maxima[(view % s.part * gridDim.y + blockIdx.y) * gridDim.x +
					  blockIdx.x],
				most);
	}
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* What a pixel adds to the four voxels around its ray, rounded such that their sum is the pixel. */
typedef struct {
	int here, right, up, both;
} Parts;

static __device__ __forceinline__ Parts parts_of(int all, float value, float right, float up)
{
	const float above = value * up;
	const int upper = __float_as_int(__fadd_rn(above, MAGIC)),
		  righter = __float_as_int(fmaf(value, right, MAGIC)),
		  both = __float_as_int(fmaf(above, right, MAGIC));
	return Parts{all - upper - (righter - both), righter - both, upper - both,
		both - __float_as_int(MAGIC)};
}

template <int OFFSET> static __device__ __forceinline__ void add_shared(unsigned at, int value)
{
	asm volatile("red.shared.add.u32 [%0+%1], %2;" ::"r"(at), "n"(OFFSET), "r"(value));
}

/* A sample of a ray adds to a tile, rays that are rotations of it to the rotated tiles. */
template <class Tile, int A, int PLANE, int PARTS>
static __device__ __forceinline__ void add_sample(
	const Sample &sample, const float (&plain)[PARTS], const float (&value)[PARTS])
{
	constexpr int AT = 4 * PLANE * Tile::stride(A), SB = 4 * Tile::stride(across_of(A)),
		      SE = 4 * Tile::stride(along_of(A));
	static_assert(PARTS == 1 || PARTS == 2);
	const auto add = [&](auto part) {
		constexpr int K = decltype(part)::VALUE, TO = AT + 4 * K * Tile::SIZE;
		if constexpr (K < PARTS) {
			const Parts parts = parts_of(
				__float_as_int(plain[K]), value[K], sample.right, sample.up);
			add_shared<TO>(sample.at, parts.here);
			add_shared<TO + SB>(sample.at, parts.right);
			add_shared<TO + SE>(sample.at, parts.up);
			add_shared<TO + SB + SE>(sample.at, parts.both);
		}
	};
	add(Constant<0>());
	add(Constant<1>());
}

/* The ray of a pixel of those that may meet the tile. */
template <class Tile, int A>
static __device__ __forceinline__ void add_ray(const Scatter &s, const Seen &seen, const Cursor &at,
	const int size[3], float scale, unsigned memory)
{
	constexpr int PARTS = Tile::PARTS;
	const Place place = place_of<Tile>(seen, at);
	const float *from = s.images + seen.first + place.at;
	float plain[PARTS], value[PARTS];
	bool any = false;
#pragma unroll
	for (int k = 0; k < PARTS; k++) {
		const unsigned marked =
			!place.exists ? 3
				      : __float_as_uint(__ldg(
						from + rotated_view<PARTS>(&s.tiles, seen, k)));
		const bool along = (marked & 3) == rotated_axis<PARTS>(A, k);
		plain[k] = __fmaf_rn(__uint_as_float(along ? marked & ~3u : 0), scale, MAGIC);
		value[k] = __fadd_rn(plain[k], -MAGIC);
		any = any || along;
	}
	Path path = path_of<Tile, A>(seen, place, size);
	path.planes = any ? path.planes : 0;
	each_sample<Tile, A>(path, memory, [&](const Sample &sample, auto plane, unsigned has) {
		if (has)
			add_sample<Tile, A, decltype(plane)::VALUE>(sample, plain, value);
	});
}

/* Voxels along z of a thread: eight lanes are along x, four along E, so that few share a bank. */
template <class Tile> struct Run {
	static constexpr int E = Tile::E, WIDE = LANES / 4, ACROSS = Tile::size(0) / WIDE,
			     DOWN = E == 1 ? (Tile::size(1) + 3) / 4 : Tile::size(1),
			     LENGTH = E == 1 ? Tile::size(2) : (Tile::size(2) + 3) / 4,
			     COUNT = Tile::PARTS * DOWN * ACROSS * LANES;
	static_assert(Tile::size(0) % WIDE == 0);
	int x, y, z, part;

	__device__ __forceinline__ Run(int i)
	{
		const int lane = i % LANES, group = i / LANES, row = group / ACROSS % DOWN;
		x = group % ACROSS * WIDE + lane % WIDE;
		y = E == 1 ? row * 4 + lane / WIDE : row;
		z = E == 1 ? 0 : lane / WIDE * LENGTH;
		part = group / ACROSS / DOWN;
	}
};

/* Adds the sums to the volume and clears them. Bounds are applied when all views are added. */
template <class Tile>
static __device__ __forceinline__ void flush(
	const Scatter &s, int *tile, const Own &own, float unit, bool last)
{
	const Tiles &t = s.tiles;
	VoxelUpdate update = s.update;
	update.with.low = last ? update.with.low : -INFINITY;
	update.with.high = last ? update.with.high : INFINITY;
	for (int i = threadIdx.x; i < Run<Tile>::COUNT; i += Tile::THREADS) {
		const Run<Tile> run(i);
		if (run.x >= own.size[0] || run.y >= own.size[1])
			continue;
		const int x = own.first[0] + run.x, y = own.first[1] + run.y;
		const int2 at = rotated(&t, run.part, x, y);
		const bool owns = is_own<Tile::PARTS>(&t, run.part, x, y);
		int *sums = tile + run.part * Tile::SIZE + Tile::at(run.x, run.y, run.z);
		float *to = s.volume + ((int64_t)(own.first[2] + run.z) * t.n[1] + at.y) * t.n[0] +
			    at.x;
		const int length = min((int)Run<Tile>::LENGTH, own.size[2] - run.z);
		update_voxels<Run<Tile>::LENGTH, 2>(
			update, to, (int64_t)t.n[0] * t.n[1], owns ? length : 0, [&](int k) {
				const int sum = sums[k * Tile::stride(2)];
				sums[k * Tile::stride(2)] = 0;
				return (float)sum * unit;
			});
	}
}

template <class Tile>
static __global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS)
	any_back(const __grid_constant__ Scatter s)
{
	extern __shared__ float4 memory[];
	int *tile = (int *)memory;
	const Own own = own_tile(&s.tiles);
	float unit = 0, scale = 0;
	for (int i = threadIdx.x; i < Tile::COPIES * Tile::SIZE; i += Tile::THREADS)
		tile[i] = 0;
	each_view<Tile>(
		&s.tiles, own, memory,
		[&](unsigned largest) {
			unit = __uint_as_float(largest) * s.tiles.unit;
			scale = unit > 0 ? 1 / unit : 0;
		},
		[&](auto axis, const Seen &seen, const Cursor &at) {
			add_ray<Tile, decltype(axis)::VALUE>(s, seen, at, own.size, scale,
				(unsigned)__cvta_generic_to_shared(memory));
		},
		[&](bool last) { flush<Tile>(s, tile, own, unit, last); });
}

/* ---- which views ----------------------------------------------------------------------------- */

/* Of a voxel in a view, for rays along a: pixels per voxel along b and e, and their product as an
 * area; the depth; the distance from the source along a; whether a may be its ray's axis. */
typedef struct {
	double b, e, area, depth, ahead;
	bool along;
} Density;

static Density density_at(const KernelView *k, const double at[3], int a)
{
	const int b = across_of(a), e = along_of(a);
	const double depth = affine(k->depth, at), column = affine(k->column, at) / depth,
		     row = affine(k->row, at) / depth;
	double u[3], v[3], d[3];
	for (int i = 0; i < 3; i++) {
		u[i] = (k->column[i] - column * k->depth[i]) / depth;
		v[i] = (k->row[i] - row * k->depth[i]) / depth;
		d[i] = fabs(KERNEL_HAS_SOURCE(k) ? at[i] - k->src[i] : k->src[i]);
	}
	return Density{fabs(u[b]) + fabs(v[b]), fabs(u[e]) + fabs(v[e]),
		fabs(u[b] * v[e] - u[e] * v[b]), depth, d[a], d[a] > 0.7 * fmax(d[b], d[e])};
}

/* Bound of the sum of the weights of a voxel's rays along a: the integral of its hat function,
 * widened by half of the distance of neighbouring rays, which is (area + b) (area + e) / area. The
 * area is a constant times ahead / depth^3; ahead / depth, b depth and e depth are largest in
 * corners of the box, b e / area varies little among rays along a. */
static double most_weights(const ProjectRequest *what, const KernelView *k, int a)
{
	double near = 1e300, slope = 0, b = 0, e = 0, shape = 6, constant = 0, far = 0;
	for (int corner = 0; corner < 9; corner++) { /* the last one: the middle */
		double at[3];
		for (int i = 0; i < 3; i++) {
			const double low = (double)what->box.low[i],
				     high = (double)(what->box.high[i] - 1);
			at[i] = corner == 8 ? 0.5 * (low + high) : corner >> i & 1 ? high : low;
		}
		const Density d = density_at(k, at, a);
		near = fmin(near, d.depth);
		slope = fmax(slope, d.ahead / d.depth);
		b = fmax(b, d.b * d.depth);
		e = fmax(e, d.e * d.depth);
		if (d.along)
			shape = fmax(shape, 1.5 * d.b * d.e / d.area);
		if (d.ahead > far)
			constant = d.area * pow(d.depth, 3) / d.ahead;
		far = fmax(far, d.ahead);
	}
	return constant * slope / (near * near) + (b + e) / near + shape;
}

static bool any_applies(const ProjectRequest *what, CudaNotes *notes)
{
	Notes *found = notes_of<Notes>(notes);
	*found = Notes{};
	if (!tiles_apply(what, &found->axes))
		return false;
	for (int64_t i = 0; i < what->count; i++) {
		const KernelView *k = &what->plan->views[what->first + i];
		const int own = axes_of(&what->plan->model, k);
		for (int a = 0; a < 3; a++)
			if (own >> a & 1)
				found->most = fmax(found->most, most_weights(what, k, a));
	}
	return found->most < 1e5;
}

/* ---- a whole request ------------------------------------------------------------------------- */

template <class Tile> static tomos_status run_tiles(tomos_backend *backend, Scatter s)
{
	const dim3 blocks = tile_blocks<Tile>(&s.tiles);
	TRY(cuda_take_shared((const void *)any_back<Tile>));
	any_back<Tile>
		<<<blocks, Tile::THREADS, tile_bytes<Tile>(), device_of(backend)->stream>>>(s);
	CUDA_LAUNCHED("back projecting");
	return TOMOS_OK;
}

/* Tiles of rays of one view, and of two views that are rotations of each other. */
template <int AXES, int PARTS> struct Sizes {
	static constexpr int T = PARTS == 1 ? 32 : 24, S = AXES != ALL || PARTS == 1 ? 30 : 26;
	typedef Tile<T, S, 32, 1, 4, AXES, PARTS, PARTS> Large;
	typedef Tile<16, AXES == ALL ? 16 : 14, 8, PARTS == 1 ? 4 : 2, 4, AXES, PARTS, PARTS> Small;
};

template <int AXES, int PARTS>
static tomos_status run_axes(tomos_backend *backend, const Scatter *s)
{
	typedef Sizes<AXES, PARTS> Size;
	return (tiles_are_large<typename Size::Large>(backend, s->tiles)
			? run_tiles<typename Size::Large>
			: run_tiles<typename Size::Small>)(backend, *s);
}

template <int PARTS>
static tomos_status run_views(
	tomos_backend *backend, const ProjectRequest *what, Scatter s, int64_t first, int axes)
{
	Tiles *t = &s.tiles;
	const int64_t pixels = t->model.rows * t->model.columns;
	const dim3 squares(cuda_blocks(t->model.columns, SQUARE, 1 << 30),
		cuda_blocks(t->model.rows, SQUARE, 65535), cuda_blocks(t->count, 1, 65535));
	const int64_t all = t->part * squares.x * squares.y;
	cudaStream_t stream = device_of(backend)->stream;
	float *images, *maxima;
	TRY(cuda_scratch(backend, SCRATCH_LISTS, all, &maxima, "the largest pixels"));
	TRY(cuda_scratch(backend, SCRATCH_REORDERED, t->count * pixels, &images, "images"));
	CUDA_TRY(cudaMemsetAsync(maxima, 0, (size_t)all * sizeof *maxima, stream),
		"back projecting");
	make_images<<<squares, dim3(SQUARE, LINES), 0, stream>>>(
		*t, what->projections + first * pixels, images, (unsigned *)maxima);
	CUDA_LAUNCHED("back projecting");
	s.images = images;
	t->maxima = (const unsigned *)maxima;
	return (!(axes & UPRIGHT) ? run_axes<LEVEL, PARTS>
		: !(axes & LEVEL) ? run_axes<UPRIGHT, PARTS>
				  : run_axes<ALL, PARTS>)(backend, &s);
}

template <int PARTS>
static tomos_status run(tomos_backend *backend, const ProjectRequest *what, const CudaNotes *notes,
	const CudaEpilogue *epilogue)
{
	const Plan *plan = what->plan;
	const Notes *found = notes_of<Notes>(notes);
	const double most = found->most;
	const int64_t pixels = plan->model.rows * plan->model.columns, all = what->count / PARTS;
	const CudaPlan *kept;
	VoxelUpdate update;
	TRY(update_open(backend, what, epilogue, &update));
	TRY(cuda_plan(backend, plan, &kept));
	Scatter s = {.tiles = tiles_of(what), .volume = what->volume};
	rotate_tiles<PARTS>(what, &s.tiles);
	s.tiles.at_once = (int)fmax(1, fmin(VIEWS, MOST_SUM / most));
	s.tiles.unit = (float)fmax(1 / QUANTA, most * s.tiles.at_once / LARGEST);
	return views_each(&update, all, min64(views_at_once(backend, what, PARTS * pixels), all),
		[&](int64_t first, int64_t count, const VoxelUpdate &part) {
			take_views<PARTS>(kept->views + what->first, first, count, &s.tiles);
			s.update = part;
			return run_views<PARTS>(backend, what, s, first, found->axes);
		});
}

extern const CudaKernel cuda_joseph_back_cone;

/* PARTS: views that are rotations of each other. joseph_back_cone has spans of voxels for rows that
 * are as far apart as voxels or half as far, and visits rows one by one where they are nearer. */
template <int PARTS> static bool tiles_are_faster(const ProjectRequest *what, CudaNotes *notes)
{
	typedef typename Sizes<ALL, PARTS>::Large Large;
	return (PARTS == 1 || (request_rotation(what, PARTS) != 0 &&
				      cuda_has_shared(tile_bytes<Large>()))) &&
	       any_applies(what, notes) &&
	       !sheets_are_faster<Large>(what, &cuda_joseph_back_cone,
		       Rows{0, 2, 2.6, PARTS == 1 ? 0.75 : 0, 0.38, {0.57, 0.78}, 0.5});
}

static CudaFusion tiles_fuse(
	const tomos_backend *, const ProjectRequest *, const CudaNotes *, const FusedUpdate *step)
{
	return step->average ? FUSES_NEXT : FUSES;
}

extern const CudaKernel cuda_joseph_back_any, cuda_joseph_back_circle_2;
const CudaKernel cuda_joseph_back_any = {tiles_are_faster<1>, run<1>, tiles_fuse};
const CudaKernel cuda_joseph_back_circle_2 = {tiles_are_faster<2>, run<2>, tiles_fuse};
