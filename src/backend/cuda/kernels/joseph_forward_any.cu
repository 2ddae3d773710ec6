/* Joseph's forward projection of rays in any direction, through tiles of voxels (joseph_tiles.h).
 *
 * A block copies its tile into shared memory and adds what each ray has of it to the ray's pixel.
 * These sums are integers, multiples of a small part of the largest voxel times the longest ray, so
 * that they do not depend on the order of additions. In their last two bits they have the dominant
 * axis of the ray.
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
		const KernelView *k = &s.views[view];
		const bool plain = lines_are_rows(k);
		const int64_t image = view * rows * columns;
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
				use(kernel_ray(&s.grid, k, row, column), at,
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
		const KernelView *k = &s.views[view];
		const bool plain = lines_are_rows(k);
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

/* Copies the voxels, each with its difference to the next one along E. */
template <class Tile>
static __device__ __forceinline__ void load_tile(const Gather &g, const Own &own, float2 *tile)
{
	constexpr int X = Tile::size(0), Y = Tile::size(1), Z = Tile::size(2);
	const int *n = g.tiles.n;
	for (int i = threadIdx.x; i < Tile::SIZE; i += Tile::THREADS)
		tile[i] = float2{};
	__syncthreads();
#pragma unroll 4
	for (int i = threadIdx.x; i < X * Y * Z; i += Tile::THREADS) {
		const int x = i % X, y = i / X % Y, z = i / (X * Y);
		if (x < own.size[0] && y < own.size[1] && z < own.size[2])
			tile[Tile::at(x, y, z)].x =
				g.volume[((int64_t)(own.first[2] + z) * n[1] + own.first[1] + y) *
						 n[0] +
					 own.first[0] + x];
	}
	__syncthreads();
	for (int i = threadIdx.x; i < Tile::SIZE - 1; i += Tile::THREADS)
		tile[i].y = tile[i + 1].x - tile[i].x;
}

template <int OFFSET> static __device__ __forceinline__ float2 load_pair(unsigned at)
{
	float2 pair;
	asm("ld.shared.v2.f32 {%0, %1}, [%2+%3];"
		: "=f"(pair.x), "=f"(pair.y)
		: "r"(at), "n"(OFFSET));
	return pair;
}

/* The ray of pixel i of those that may meet the tile. */
template <class Tile, int A>
static __device__ __forceinline__ void sum_ray(
	const Seen &seen, int i, const int size[3], int *sums, float scale, unsigned memory)
{
	constexpr int SB = (int)Tile::BYTES * Tile::stride(across_of(A));
	const Place place = place_of(seen, i);
	int *to = sums + place.at;
	const int mark = place.at < 0 ? 3 : __ldcg(to);
	Path path = path_of<Tile, A>(seen, place, size, memory);
	path.n = (mark & 3) == A ? path.n : 0;
	float sum = 0;
	each_sample<Tile, A>(path, [&](const Sample &sample, auto ahead) {
		constexpr int AHEAD = decltype(ahead)::VALUE;
		const float2 one = load_pair<AHEAD>(sample.at),
			     two = load_pair<AHEAD + SB>(sample.at);
		const float left = fmaf(sample.up, one.y, one.x),
			    right = fmaf(sample.up, two.y, two.x);
		sum += fmaf(sample.right, right - left, left);
	});
	const int whole = __float2int_rn(sum * scale);
	if (whole != 0)
		atomicAdd(to, 4 * whole);
}

template <class Tile>
static __global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS)
	any_forward(const __grid_constant__ Gather g)
{
	extern __shared__ float4 memory[];
	const Own own = own_tile(&g.tiles);
	const float unit = __uint_as_float(*g.largest) * g.tiles.unit,
		    scale = unit > 0 ? 1 / unit : 0;
	load_tile<Tile>(g, own, (float2 *)memory);
	each_view<Tile>(
		&g.tiles, own, memory, [](unsigned) {},
		[&](auto axis, const Seen &seen, int i) {
			sum_ray<Tile, decltype(axis)::VALUE>(seen, i, own.size, g.sums, scale,
				(unsigned)__cvta_generic_to_shared(memory));
		},
		[](bool) {});
}

/* ---- a whole request ------------------------------------------------------------------------- */

/* Not for few views, where one thread per ray is faster, nor for parallel rays of all axes, whose
 * tiles would be copied twice. */
static bool any_applies(const ProjectRequest *what, CudaNotes *notes)
{
	enum { FEW_VIEWS = 4 };
	int *axes = notes_of<int>(notes);
	return what->count > FEW_VIEWS && tiles_apply(what, axes) &&
	       !(what->plan->rays.source == TOMOS_PARALLEL && *axes == (LEVEL | UPRIGHT));
}

template <class Tile> static tomos_status run_tiles(tomos_backend *backend, Gather g)
{
	const dim3 blocks = tile_blocks<Tile>(&g.tiles);
	TRY(cuda_take_shared((const void *)any_forward<Tile>));
	any_forward<Tile>
		<<<blocks, Tile::THREADS, tile_bytes<Tile>(), device_of(backend)->stream>>>(g);
	CUDA_LAUNCHED("projecting");
	return TOMOS_OK;
}

template <int AXES> static tomos_status run_axes(tomos_backend *backend, const Gather *g)
{
	typedef Tile<24, 30, 32, 1, 8, AXES> Large;
	typedef Tile<16, 14, 8, 3, 8, AXES> Small;
	return (tiles_are_large<Large>(backend, g->tiles) ? run_tiles<Large>
							  : run_tiles<Small>)(backend, *g);
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
		TRY(run_axes<LEVEL>(backend, g));
	if (axes & UPRIGHT)
		TRY(run_axes<UPRIGHT>(backend, g));
	add_sums<<<dim3(cuda_blocks(model->columns, SQUARE, 1 << 30),
			   cuda_blocks(model->rows, SQUARE, 65535), views),
		dim3(SQUARE, LINES), 0, stream>>>(*g);
	CUDA_LAUNCHED("projecting");
	return TOMOS_OK;
}

static tomos_status any_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *)
{
	const int64_t pixels = what->plan->model.rows * what->plan->model.columns;
	const int64_t most = views_at_once(backend, what, pixels);
	const CudaPlan *kept;
	float *largest, *sums;
	Gather g = {.tiles = tiles_of(what), .volume = what->volume};
	TRY(cuda_plan(backend, what->plan, &kept));
	TRY(find_largest(backend, what, &g.tiles, &largest));
	TRY(cuda_scratch(backend, SCRATCH_REORDERED, most * pixels, &sums, "sums of pixels"));
	g.sums = (int *)sums;
	g.largest = (const unsigned *)largest;
	g.tiles.unit = (float)(max(g.tiles.n[0], max(g.tiles.n[1], g.tiles.n[2])) / LARGEST);
	for (int64_t first = 0; first < what->count; first += most) {
		g.tiles.views = kept->views + what->first + first;
		g.tiles.count = min64(most, what->count - first);
		g.projections = what->projections + first * pixels;
		TRY(run_views(backend, &g, *notes_of<int>(notes)));
	}
	return TOMOS_OK;
}

extern const CudaKernel cuda_joseph_forward_any;
const CudaKernel cuda_joseph_forward_any = {any_applies, any_run};
