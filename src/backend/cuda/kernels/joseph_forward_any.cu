/* Joseph's forward projection of rays in any direction, through tiles of voxels (joseph_tiles.h).
 *
 * A block copies its tile into shared memory and adds what each ray has of it to the ray's pixel.
 * These sums are integers, multiples of a small part of the largest voxel times the longest ray, so
 * that they do not depend on the order of additions. In their last two bits they have the dominant
 * axis of the ray.
 *
 * On full circles, rays of two or four views that are rotations of each other are followed
 * together: voxels of the rotated tiles are side by side, so that one position, weight and load
 * serves all.
 */
#include "backend/cuda/kernels/joseph_tiles.h"

#define LARGEST 5e8 /* largest sum, less than 2^29 */

typedef struct {
	Tiles tiles;
	const float *volume;
	const unsigned *largest; /* voxel, as the bits of a float */
	int *sums;               /* [view][line][place] */
	float *projections;
} Gather;

/* ---- pixels ---------------------------------------------------------------------------------- */

/* Calls use(ray, at, sum) for all pixels, `at` in projections and `sum` in sums. Squares of them
 * are transposed if the lines of sums are columns. */
template <class Use>
static __device__ __forceinline__ void each_pixel(const Gather &g, const Use &use)
{
	__shared__ int square[SQUARE][SQUARE + 1];
	const Tiles &s = g.tiles;
	const int64_t rows = s.model.rows, columns = s.model.columns;
	for (int64_t view = blockIdx.z; view < s.count; view += gridDim.z) {
		const int64_t number = view_number(&s, view);
		const KernelView *k = &s.views[number];
		const bool plain = lines_are_rows(&s, view);
		const int64_t image = view * rows * columns,
			      moved = (number - view) * rows * columns;
		for (int j = threadIdx.y; j < SQUARE && !plain; j += LINES) {
			const int64_t line = (int64_t)blockIdx.x * SQUARE + j,
				      place = (int64_t)blockIdx.y * SQUARE + threadIdx.x;
			if (line < columns && place < rows)
				square[threadIdx.x][j] = g.sums[image + line * rows + place];
		}
		__syncthreads();
		for (int j = threadIdx.y; j < SQUARE; j += LINES) {
			const int64_t row = (int64_t)blockIdx.y * SQUARE + j,
				      column = (int64_t)blockIdx.x * SQUARE + threadIdx.x;
			const int64_t at = image + row * columns + column;
			if (row < rows && column < columns)
				use(kernel_ray(&s.grid, k, row, column), at + moved,
					plain ? g.sums[at] : square[j][threadIdx.x]);
		}
		__syncthreads();
	}
}

/* Sets the sums to the dominant axes, without a transposition: pixels in the order of sums. */
static __global__ void mark_pixels(const __grid_constant__ Gather g)
{
	const Tiles &s = g.tiles;
	const int64_t pixels = s.model.rows * s.model.columns;
	for (int64_t view = blockIdx.y; view < s.count; view += gridDim.y) {
		const KernelView *k = &s.views[view_number(&s, view)];
		const bool plain = lines_are_rows(&s, view);
		const unsigned pitch = (unsigned)(plain ? s.model.columns : s.model.rows);
		for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < pixels;
			i += (int64_t)gridDim.x * blockDim.x) {
			const unsigned line = (unsigned)i / pitch, place = (unsigned)i % pitch;
			const KernelRay ray =
				kernel_ray(&s.grid, k, plain ? line : place, plain ? place : line);
			g.sums[view * pixels + i] = kernel_dominant(&ray);
		}
	}
}

static __global__ void add_sums(const __grid_constant__ Gather g)
{
	const float unit = __uint_as_float(*g.largest) * g.tiles.unit;
	each_pixel(g, [&](const KernelRay &ray, int64_t at, int sum) {
		const float step = (float)(ray.length / fabs(ray.direction[sum & 3]));
		g.projections[at] = fmaf((float)(sum >> 2) * unit, step, g.projections[at]);
	});
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* The voxels of a tile in the order in which threads copy them: eight lanes along axis C, along
 * which voxels follow each other in memory, and four along E, which are in different banks. */
template <class Tile, int C> struct Cells {
	static constexpr int E = Tile::E != C ? Tile::E : 1 - C, D = 3 - C - E, WIDE = LANES / 4,
			     ACROSS = (Tile::size(C) + WIDE - 1) / WIDE,
			     UP = (Tile::size(E) + 3) / 4,
			     COUNT = ACROSS * UP * Tile::size(D) * LANES;

	static __device__ __forceinline__ int3 at(int i)
	{
		const int lane = i % LANES, group = i / LANES;
		int cell[3];
		cell[C] = group % ACROSS * WIDE + lane % WIDE;
		cell[E] = group / ACROSS % UP * 4 + lane / WIDE;
		cell[D] = group / (ACROSS * UP);
		return make_int3(cell[0], cell[1], cell[2]);
	}
};

/* Copies the voxels of the tile rotated i times, next to those of the tile itself. */
template <class Tile, int C>
static __device__ __forceinline__ void load_voxels(
	const Gather &g, const Own &own, int i, float *tile)
{
	constexpr int FLOATS = Tile::BYTES / sizeof(float);
	const Tiles &s = g.tiles;
#pragma unroll 4
	for (int j = threadIdx.x; j < Cells<Tile, C>::COUNT; j += Tile::THREADS) {
		const int3 of = Cells<Tile, C>::at(j);
		const int x = own.first[0] + of.x, y = own.first[1] + of.y;
		const int2 at = rotated(&s, i, x, y);
		if (of.x < own.size[0] && of.y < own.size[1] && of.z < own.size[2] &&
			is_own<Tile::PARTS>(&s, i, x, y))
			tile[FLOATS * Tile::at(of.x, of.y, of.z) + i] =
				g.volume[((int64_t)(own.first[2] + of.z) * s.n[1] + at.y) * s.n[0] +
					 at.x];
	}
}

/* Copies the voxels. Single ones become lines through them and the next ones along E: the value in
 * the middle of the tile, and the slope. */
template <class Tile>
static __device__ __forceinline__ void load_tile(const Gather &g, const Own &own, float4 *memory)
{
	for (int i = threadIdx.x; i < (int)(Tile::SIZE * Tile::BYTES / sizeof *memory);
		i += Tile::THREADS)
		memory[i] = float4{};
	__syncthreads();
#pragma unroll
	for (int i = 0; i < Tile::PARTS; i++)
		if (i * g.tiles.quarters % 2 != 0)
			load_voxels<Tile, 1>(g, own, i, (float *)memory);
		else
			load_voxels<Tile, 0>(g, own, i, (float *)memory);
	if (Tile::PARTS > 1)
		return;
	__syncthreads();
	float2 *pairs = (float2 *)memory;
	for (int i = threadIdx.x; i < Tile::SIZE - 1; i += Tile::THREADS)
		pairs[i].y = pairs[i + 1].x - pairs[i].x;
	__syncthreads();
	for (int i = threadIdx.x; i < Tile::SIZE - 1; i += Tile::THREADS) {
		const int e = i % Tile::PLANE % Tile::LINE - 1 - Tile::S / 2;
		pairs[i].x = fmaf((float)-e, pairs[i].y, pairs[i].x);
	}
}

/* A voxel of two or four rotated tiles. */
template <int OFFSET>
static __device__ __forceinline__ void load_shared(unsigned at, float (&voxel)[2])
{
	asm("ld.shared.v2.f32 {%0, %1}, [%2+%3];"
		: "=f"(voxel[0]), "=f"(voxel[1])
		: "r"(at), "n"(OFFSET));
}

template <int OFFSET>
static __device__ __forceinline__ void load_shared(unsigned at, float (&voxel)[4])
{
	asm("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4+%5];"
		: "=f"(voxel[0]), "=f"(voxel[1]), "=f"(voxel[2]), "=f"(voxel[3])
		: "r"(at), "n"(OFFSET));
}

/* The sums of rays that are rotations of each other. SA, SB, SE: from a voxel to the next one along
 * a, b and e. */
template <int PARTS, int SA, int SB, int SE> struct Sums {
	float sum[PARTS] = {};

	template <int PLANE>
	__device__ __forceinline__ void add(const Sample &sample, Constant<PLANE>, unsigned has)
	{
		constexpr int AT = PLANE * SA;
		float here[PARTS], right[PARTS], up[PARTS], both[PARTS];
		if (!has)
			return;
		load_shared<AT>(sample.at, here);
		load_shared<AT + SB>(sample.at, right);
		load_shared<AT + SE>(sample.at, up);
		load_shared<AT + SB + SE>(sample.at, both);
		const float w_both = sample.right * sample.up, w_right = sample.right - w_both,
			    w_up = sample.up - w_both, w_here = 1 - sample.right - w_up;
#pragma unroll
		for (int i = 0; i < PARTS; i++)
			sum[i] += fmaf(w_both, both[i],
				fmaf(w_up, up[i], fmaf(w_right, right[i], w_here * here[i])));
	}
};

/* Of one ray: interpolates on two lines along e, and between them along b. One predicate serves the
 * loads and the sum; where it is false, lines are those of a sample before. They have registers
 * from the beginning, since else these would be taken from the loops around. */
template <int SA, int SB, int SE> struct Sums<1, SA, SB, SE> {
	float sum[1] = {}, lines[4][4] = {};

	template <int PLANE>
	__device__ __forceinline__ void add(const Sample &sample, Constant<PLANE>, unsigned has)
	{
		float(&line)[4] = lines[PLANE];
		asm("{\n\t"
		    ".reg .pred p;\n\t"
		    ".reg .f32 one, two;\n\t"
		    "setp.ne.u32 p, %5, 0;\n\t"
		    "@p ld.shared.v2.f32 {%1, %2}, [%6+%9];\n\t"
		    "@p ld.shared.v2.f32 {%3, %4}, [%6+%10];\n\t"
		    "fma.rn.f32 one, %7, %2, %1;\n\t"
		    "fma.rn.f32 two, %7, %4, %3;\n\t"
		    "sub.f32 two, two, one;\n\t"
		    "fma.rn.f32 one, %8, two, one;\n\t"
		    "@p add.f32 %0, %0, one;\n\t"
		    "}"
			: "+f"(sum[0]), "+f"(line[0]), "+f"(line[1]), "+f"(line[2]), "+f"(line[3])
			: "r"(has), "r"(sample.at), "f"(sample.e), "f"(sample.right),
			"n"(PLANE * SA), "n"(PLANE * SA + SB));
	}
};

/* The ray of a pixel of those that may meet the tile. */
template <class Tile, int A>
static __device__ __forceinline__ void sum_ray(const Gather &g, const Seen &seen, const Cursor &at,
	const int size[3], float scale, unsigned memory)
{
	constexpr int PARTS = Tile::PARTS, BYTES = (int)Tile::BYTES;
	const Place place = place_of<Tile>(seen, at);
	int *to = g.sums + seen.first + place.at;
	int own = 0; /* rays whose dominant axis is A, as bits */
#pragma unroll
	for (int k = 0; k < PARTS; k++)
		if (place.exists &&
			(seen.certain || (__ldcg(to + rotated_view<PARTS>(&g.tiles, seen, k)) &
						 3) == rotated_axis<PARTS>(A, k)))
			own |= 1 << k;
	Path path = path_of<Tile, A>(seen, place, size);
	path.planes = own ? path.planes : 0;
	Sums<PARTS, BYTES * Tile::stride(A), BYTES * Tile::stride(across_of(A)),
		BYTES * Tile::stride(along_of(A))>
		sums;
	each_sample<Tile, A>(path, memory, [&](const Sample &sample, auto plane, unsigned has) {
		sums.add(sample, plane, has);
	});
#pragma unroll
	for (int k = 0; k < PARTS; k++) {
		const int whole = __float2int_rn(sums.sum[k] * scale);
		if (own >> k & 1 && whole != 0)
			atomicAdd(to + rotated_view<PARTS>(&g.tiles, seen, k), 4 * whole);
	}
}

template <class Tile>
static __global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS)
	any_forward(const __grid_constant__ Gather g)
{
	extern __shared__ float4 memory[];
	const Own own = own_tile(&g.tiles);
	const float unit = __uint_as_float(*g.largest) * g.tiles.unit,
		    scale = unit > 0 ? 1 / unit : 0;
	load_tile<Tile>(g, own, memory);
	each_view<Tile>(
		&g.tiles, own, memory, [](unsigned) {},
		[&](auto axis, const Seen &seen, const Cursor &at) {
			sum_ray<Tile, decltype(axis)::VALUE>(g, seen, at, own.size, scale,
				(unsigned)__cvta_generic_to_shared(memory));
		},
		[](bool) {});
}

/* ---- a whole request ------------------------------------------------------------------------- */

enum { FEW_VIEWS = 4 }; /* for which one thread per ray is faster */

template <class Tile> static tomos_status run_tiles(tomos_backend *backend, Gather g)
{
	const dim3 blocks = tile_blocks<Tile>(&g.tiles);
	TRY(cuda_take_shared((const void *)any_forward<Tile>));
	any_forward<Tile>
		<<<blocks, Tile::THREADS, tile_bytes<Tile>(), device_of(backend)->stream>>>(g);
	CUDA_LAUNCHED("projecting");
	return TOMOS_OK;
}

/* Tiles of rays of one view, and of two and four views that are rotations of each other. */
template <int AXES, int PARTS> struct Sizes {
	typedef Tile<24, 30, 32, 1, 8, AXES, PARTS> Large;
	typedef Tile<16, 14, 8, 3, 8, AXES, PARTS> Small;
};

template <int AXES> struct Sizes<AXES, 4> {
	typedef Tile<16, 30, 32, 1, 16, AXES, 4> Large;
	typedef Tile<8, 14, 8, 3, 16, AXES, 4> Small;
};

enum { FIXED_BYTES = 64 }; /* of shared memory, beside a tile */

extern const CudaKernel cuda_joseph_forward_upright;

/* Not for parallel rays of all axes, whose tiles would be copied twice. */
static bool any_applies(const ProjectRequest *what, CudaNotes *notes)
{
	int *axes = notes_of<int>(notes);
	return what->count > FEW_VIEWS &&
	       !sheets_are_faster<Sizes<LEVEL, 1>::Large>(what, &cuda_joseph_forward_upright,
		       Rows{0.3, 3, INFINITY, 0, 0, {0, 0}, 0}) &&
	       tiles_apply(what, axes) &&
	       cuda_has_shared(tile_bytes<Sizes<LEVEL, 1>::Small>() + FIXED_BYTES) &&
	       cuda_has_shared(tile_bytes<Sizes<UPRIGHT, 1>::Small>() + FIXED_BYTES) &&
	       !(what->plan->rays.source == TOMOS_PARALLEL && *axes == (LEVEL | UPRIGHT));
}

template <int AXES, int PARTS> static tomos_status run_axes(tomos_backend *backend, const Gather *g)
{
	typedef Sizes<AXES, PARTS> Size;
	return (tiles_are_large<typename Size::Large>(backend, g->tiles)
			? run_tiles<typename Size::Large>
			: run_tiles<typename Size::Small>)(backend, *g);
}

static tomos_status find_largest(
	tomos_backend *backend, const ProjectRequest *what, const Tiles *s, float **largest)
{
	const int64_t nx = s->n[0], ny = s->n[1];
	const Transposed voxels = {.outside = what->volume,
		.slices = s->n[2],
		.nj = nx,
		.nk = ny,
		.si = nx * ny,
		.sj = 1,
		.sk = nx};
	TRY(cuda_scratch(backend, SCRATCH_LISTS, 1, largest, "the largest voxel"));
	return largest_value(backend, &voxels, NULL, (unsigned *)*largest);
}

template <int PARTS>
static tomos_status run_views(tomos_backend *backend, const Gather *g, int axes)
{
	enum { THREADS = 256 };
	const KernelModel *model = &g->tiles.model;
	cudaStream_t stream = device_of(backend)->stream;
	const unsigned views = cuda_blocks(g->tiles.count, 1, 65535);
	mark_pixels<<<dim3(cuda_blocks(model->rows * model->columns, THREADS, 1 << 30), views),
		THREADS, 0, stream>>>(*g);
	CUDA_LAUNCHED("projecting");
	if (axes & LEVEL)
		TRY((run_axes<LEVEL, PARTS>(backend, g)));
	if (axes & UPRIGHT)
		TRY((run_axes<UPRIGHT, PARTS>(backend, g)));
	add_sums<<<dim3(cuda_blocks(model->columns, SQUARE, 1 << 30),
			   cuda_blocks(model->rows, SQUARE, 65535), views),
		dim3(SQUARE, LINES), 0, stream>>>(*g);
	CUDA_LAUNCHED("projecting");
	return TOMOS_OK;
}

template <int PARTS>
static tomos_status run(tomos_backend *backend, const ProjectRequest *what, const CudaNotes *notes,
	const CudaEpilogue *)
{
	const int64_t pixels = what->plan->model.rows * what->plan->model.columns,
		      all = what->count / PARTS;
	const int64_t most = min64(views_at_once(backend, what, PARTS * pixels), all);
	const CudaPlan *kept;
	float *largest, *sums;
	Gather g = {.tiles = tiles_of(what), .volume = what->volume};
	rotate_tiles<PARTS>(what, &g.tiles);
	TRY(cuda_plan(backend, what->plan, &kept));
	TRY(find_largest(backend, what, &g.tiles, &largest));
	TRY(cuda_scratch(
		backend, SCRATCH_REORDERED, PARTS * most * pixels, &sums, "sums of pixels"));
	g.sums = (int *)sums;
	g.largest = (const unsigned *)largest;
	g.tiles.unit = (float)(max(g.tiles.n[0], max(g.tiles.n[1], g.tiles.n[2])) / LARGEST);
	for (int64_t first = 0; first < all; first += most) {
		take_views<PARTS>(
			kept->views + what->first, first, min64(most, all - first), &g.tiles);
		g.projections = what->projections + first * pixels;
		TRY(run_views<PARTS>(backend, &g, *notes_of<int>(notes)));
	}
	return TOMOS_OK;
}

/* Views that are rotations of each other. */
template <int PARTS> static bool circle_applies(const ProjectRequest *what, CudaNotes *notes)
{
	typedef typename Sizes<LEVEL, PARTS>::Large Large;
	return what->count > FEW_VIEWS && request_rotation(what, PARTS) != 0 &&
	       tiles_apply(what, notes_of<int>(notes)) && cuda_has_shared(tile_bytes<Large>()) &&
	       !sheets_are_faster<Large>(what, &cuda_joseph_forward_upright,
		       Rows{0.3, PARTS == 4 ? 1.6 : 2.5, 2.2, 0, 0, {0, 0}, 0,
			       PARTS == 4 ? 4. : 16.});
}

extern const CudaKernel cuda_joseph_forward_any, cuda_joseph_forward_circle_4,
	cuda_joseph_forward_circle_2;
const CudaKernel cuda_joseph_forward_any = {any_applies, run<1>};
const CudaKernel cuda_joseph_forward_circle_4 = {circle_applies<4>, run<4>};
const CudaKernel cuda_joseph_forward_circle_2 = {circle_applies<2>, run<2>};
