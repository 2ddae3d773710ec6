/* Voxel-driven back projection for tilted detectors: rolled, slanted, tilted axis, free vectors.
 *
 * Blocks of voxel columns and tiles as in voxel_back_cone.cu. Each pixel is stored with the
 * differences to its neighbours, so that the four pixels around the projection of a voxel are one
 * load and three FMAs.
 */
#include "backend/cuda/kernels/voxel_back_cone.h"

/* The value at (x, y) from the centre of four pixels is middle + x right + y (up + x both). */
struct alignas(16) Quad {
	float middle, right, up, both;
};

enum { SIZE = 34, BLOCKS = 4 /* per SM */ };

template <> constexpr int VIEWS<Quad> = 64;
template <> constexpr int AT_ONCE<Quad> = 1;

/* ---- images ---------------------------------------------------------------------------------- */

typedef struct {
	const float *from;
	int rows, columns;
} Views;

static __device__ __forceinline__ float pixel_at(
	const Views &v, int64_t view, int64_t row, int column)
{
	const bool inside = row >= 0 && row < v.rows && column >= 0 && column < v.columns;
	return inside ? v.from[(view * v.rows + row) * v.columns + column] : 0;
}

/* Copies the views to images with a border of zeros. */
static __global__ void make_quads(const __grid_constant__ Tiles s, const __grid_constant__ Views v)
{
	const int c = blockIdx.x * blockDim.x + threadIdx.x, column = c - BORDER;
	if (c >= s.pitch)
		return;
	for (int64_t line = blockIdx.y; line < s.count * s.lines; line += gridDim.y) {
		const int64_t view = line / s.lines, row = line % s.lines - BORDER;
		const float here = pixel_at(v, view, row, column),
			    next = pixel_at(v, view, row, column + 1),
			    above = pixel_at(v, view, row + 1, column),
			    last = pixel_at(v, view, row + 1, column + 1);
		const float low = next - here, high = last - above;
		((Quad *)s.images)[line * s.pitch + c] =
			Quad{0.25f * ((here + next) + (above + last)), 0.5f * (low + high),
				0.5f * ((above - here) + (last - next)), high - low};
	}
}

/* ---- back ------------------------------------------------------------------------------------ */

/* By an address of 32 bits, whose terms the compiler leaves in their order. */
static __device__ __forceinline__ Quad load_shared(unsigned address)
{
	Quad quad;
	asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
		     : "=f"(quad.middle), "=f"(quad.right), "=f"(quad.up), "=f"(quad.both)
		     : "r"(address));
	return quad;
}

static __device__ __forceinline__ float value_at(const Quad &quad, float x, float y)
{
	return fmaf(y, fmaf(x, quad.both, quad.up), fmaf(x, quad.right, quad.middle));
}

/* Positions and weights of a column of voxels, as parabolas about its middle. */
typedef struct {
	float u[3], v[3], w[3];
} Bent;

/* Taylor series of distance / depth^3 or 1 / depth^2; slope: change of the depth per voxel divided
 * by the depth. Other terms are below 1e-6 for a source that is more than 450 voxels away. */
template <bool RAYS>
static __device__ __forceinline__ void bent_weights(
	const Tiles &s, const Near &n, float rate, float slope, float dx, float dy, float w[3])
{
	const float half = (COLUMN - 1) * 0.5f;
	if (!RAYS) {
		const bool deep = s.weighting == WEIGHT_DEPTH;
		w[0] = deep ? rate * rate : n.weight;
		w[1] = deep ? -2 * slope * w[0] : 0;
		w[2] = deep ? 3 * slope * slope * w[0] : 0;
		return;
	}
	const float z = fmaf(half, s.step[2], n.away[2]),
		    square = fmaf(z, z, square_of(s, n, dx, dy));
	const float inverse = s.step[2] * inverse_nearly(square), first = z * inverse;
	w[0] = root_nearly(square) * (n.weight * rate * rate * rate);
	w[1] = w[0] * fmaf(-3.f, slope, first);
	w[2] = w[0] * fmaf(3 * slope, fmaf(2.f, slope, -first),
			      0.5f * fmaf(s.step[2], inverse, -first * first));
}

/* With depth D (1 + e z) at z from the middle, a position is u + u' z / (1 + e z), where the term
 * of third order is replaced by the closest linear one. */
template <bool LEVEL_DEPTH, bool RAYS>
static __device__ __forceinline__ Bent bent_of(const Tiles &s, const Near &n, float dx, float dy)
{
	const float half = (COLUMN - 1) * 0.5f;
	const float depth = fmaf(n.da, dx, fmaf(n.db, dy, fmaf(half, n.dc, n.df)));
	const float rate = inverse_nearly(depth), slope = LEVEL_DEPTH ? 0 : n.dc * rate;
	const float u = fmaf(n.ua, dx, fmaf(n.ub, dy, fmaf(half, n.uc, n.uf))) * rate,
		    v = fmaf(n.va, dx, fmaf(n.vb, dy, fmaf(half, n.vc, n.vf))) * rate;
	const float more =
		LEVEL_DEPTH ? rate : rate * fmaf(0.75f * half * half * slope, slope, 1.f);
	Bent b = {{u - 0.5f, fmaf(-u, n.dc, n.uc) * more, 0},
		{v - 0.5f, fmaf(-v, n.dc, n.vc) * more, 0}, {}};
	if (!LEVEL_DEPTH) {
		b.u[2] = -b.u[1] * slope;
		b.v[2] = -b.v[1] * slope;
	}
	bent_weights<RAYS>(s, n, rate, slope, dx, dy, b.w);
	return b;
}

/* At z from the middle of the column. */
static __device__ __forceinline__ float parabola_at(const float p[3], float z)
{
	return fmaf(z, fmaf(z, p[2], p[1]), p[0]);
}

/* A tile by addresses of shared memory: row pitch in bytes, and the place of pixel (0, 0) for sums
 * of positions and MAGIC, as bits. */
typedef struct {
	unsigned row, origin;
} Pixels;

static __device__ __forceinline__ Pixels pixels_of(const Near &n, const Quad *tile)
{
	const unsigned row = (unsigned)n.pitch * (unsigned)sizeof(Quad);
	return Pixels{row, (unsigned)__cvta_generic_to_shared(tile + n.origin) -
				   __float_as_uint(MAGIC) * (row + (unsigned)sizeof(Quad))};
}

/* Value at (u, v), relative to the centre of four pixels. */
static __device__ __forceinline__ float sample(const Pixels &pixels, float u, float v)
{
	const float near_u = __fadd_rn(u, MAGIC), near_v = __fadd_rn(v, MAGIC);
	const Quad quad =
		load_shared(__float_as_uint(near_v) * pixels.row +
			    (__float_as_uint(near_u) * (unsigned)sizeof(Quad) + pixels.origin));
	return value_at(quad, u - __fadd_rn(near_u, -MAGIC), v - __fadd_rn(near_v, -MAGIC));
}

template <bool LEVEL_DEPTH, bool RAYS>
static __device__ __forceinline__ void visit_bent(
	const Tiles &s, const Near &n, const Quad *tile, float dx, float dy, float *sum)
{
	const Bent b = bent_of<LEVEL_DEPTH, RAYS>(s, n, dx, dy);
	const Pixels pixels = pixels_of(n, tile);
#pragma unroll
	for (int k = 0; k < COLUMN; k++) {
		const float z = (float)k - (COLUMN - 1) * 0.5f;
		const float u = LEVEL_DEPTH ? fmaf(z, b.u[1], b.u[0]) : parabola_at(b.u, z),
			    v = LEVEL_DEPTH ? fmaf(z, b.v[1], b.v[0]) : parabola_at(b.v, z);
		const float weight = LEVEL_DEPTH && !RAYS ? b.w[0] : parabola_at(b.w, z);
		sum[k] = fmaf(weight, sample(pixels, u, v), sum[k]);
	}
}

/* KIND: SLOPED or CLOSE. */
template <int KIND, bool RAYS>
static __device__ __forceinline__ void visit_sloped(
	const Tiles &s, const Near &n, const Quad *tile, float dx, float dy, float *sum)
{
	const Drift c = drift_of<KIND>(n, dx, dy);
	const Weights w = drift_weights<KIND, RAYS>(s, n, c, dx, dy);
	const Pixels pixels = pixels_of(n, tile);
#pragma unroll
	for (int k = 0; k < COLUMN; k++) {
		const float rate = inverse_nearly(fmaf((float)k, c.dd, c.depth));
		const float value = sample(
			pixels, fmaf((float)k, c.du, c.u) * rate, fmaf((float)k, c.dv, c.v) * rate);
		sum[k] = fmaf(drift_weight<KIND, RAYS>(s, n, w, k, rate), value, sum[k]);
	}
}

/* near.kind is the same for all threads of a block. */
template <bool RAYS>
static __device__ __forceinline__ void visit_view(const Tiles &s, const Near &near,
	const Quad *tile, const Quad *image, float dx, float dy, float *sum)
{
	if (near.kind == LEVEL)
		visit_bent<true, RAYS>(s, near, tile, dx, dy, sum);
	else if (near.kind == BENT)
		visit_bent<false, RAYS>(s, near, tile, dx, dy, sum);
	else if (near.kind == SLOPED)
		visit_sloped<SLOPED, RAYS>(s, near, tile, dx, dy, sum);
	else if (near.kind == CLOSE)
		visit_sloped<CLOSE, RAYS>(s, near, tile, dx, dy, sum);
	else if (near.kind == FROM_IMAGE)
		visit_points<RAYS, false>(s, near, tile, image, dx, dy,
			[&](int k, const Quad *at, int, float x, float y, float weight) {
				sum[k] = fmaf(weight, value_at(*at, x, y), sum[k]);
			});
}

template <bool RAYS>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
	tilted_back(const __grid_constant__ Tiles s)
{
	const int x0 = blockIdx.x * SIDE, y0 = blockIdx.y * SIDE, z0 = blockIdx.z * COLUMN;
	const int2 place = place_of(threadIdx.x);
	const int x = x0 + place.x, y = y0 + place.y;
	float sum[COLUMN] = {0};
	const Visited list = {s.views, 0, (int)s.count};
	visit_views<Quad, SIZE, COLUMN, 1, true>(
		s, list, x0, y0, z0, sum,
		[&](const Near &near, const Quad *tile, const Quad *image) {
			visit_view<RAYS>(s, near, tile, image, (float)place.x, (float)place.y, sum);
		},
		[] {});
	if (x >= s.n[0] || y >= s.n[1])
		return;
	float *to = s.volume + ((int64_t)z0 * s.n[1] + y) * s.n[0] + x;
	update_voxels<COLUMN, 4>(
		s.update, to, (int64_t)s.n[0] * s.n[1], s.n[2] - z0, [&](int k) { return sum[k]; });
}

/* ---- a whole request ------------------------------------------------------------------------- */

static bool tilted_applies(const ProjectRequest *what, CudaNotes *)
{
	return tile_size(what) == TILTED_TILES && cuda_has_shared(tile_bytes<Quad, SIZE>());
}

/* Division by the sum of the weights needs twice the tiles: voxel_back_any fuses these updates. */
static CudaFusion tilted_fuses(
	const tomos_backend *, const ProjectRequest *, const CudaNotes *, const FusedUpdate *step)
{
	return step->average ? FUSES_NEXT : FUSES;
}

/* Back projects the views from `first` on. */
static tomos_status run_views(
	tomos_backend *backend, const ProjectRequest *what, const Tiles *s, int64_t first)
{
	const KernelModel *model = &what->plan->model;
	cudaStream_t stream = device_of(backend)->stream;
	const Views views = {what->projections + first * model->rows * model->columns,
		(int)model->rows, (int)model->columns};
	make_quads<<<dim3(cuda_blocks(s->pitch, 128, 1 << 30),
			     cuda_blocks(s->count * s->lines, 1, 65535)),
		128, 0, stream>>>(*s, views);
	if (first + s->count == what->count)
		TRY(cuda_taken(backend));
	const bool rays = model->weight == WEIGHT_RAY && what->plan->rays.source == TOMOS_POINT;
	auto kernel = rays ? tilted_back<true> : tilted_back<false>;
	const int bytes = tile_bytes<Quad, SIZE>();
	TRY(tile_take(kernel, bytes));
	kernel<<<dim3(cuda_blocks(s->n[0], SIDE, 1 << 30), cuda_blocks(s->n[1], SIDE, 65535),
			 cuda_blocks(s->n[2], COLUMN, 65535)),
		THREADS, bytes, stream>>>(*s);
	CUDA_LAUNCHED("back projecting");
	return TOMOS_OK;
}

static tomos_status tilted_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *, const CudaEpilogue *epilogue)
{
	const CudaPlan *kept;
	float *images;
	VoxelUpdate update;
	Tiles s = tile_request(what);
	TRY(update_open(backend, what, epilogue, &update));
	const int64_t image = (int64_t)s.lines * s.pitch * (int64_t)(sizeof(Quad) / sizeof(float));
	const int64_t at_once = views_at_once(backend, what, image);
	TRY(cuda_plan(backend, what->plan, &kept));
	TRY(cuda_scratch(
		backend, SCRATCH_REORDERED, at_once * image, &images, "pixels with differences"));
	s.images = images;
	return views_each(&update, what->count, at_once,
		[&](int64_t first, int64_t count, const VoxelUpdate &part) {
			s.views = kept->views + what->first + first;
			s.count = count;
			s.update = part;
			return run_views(backend, what, &s, first);
		});
}

extern const CudaKernel cuda_voxel_back_tilted;
const CudaKernel cuda_voxel_back_tilted = {tilted_applies, tilted_run, tilted_fuses};
