/* Back projection of separable footprints for any detector: rolled, slanted, C-arms, free vectors.
 *
 * A block has SIDE x SIDE columns of COLUMN voxels along z and visits all views; the part of a view
 * that it needs (a tile) is copied into shared memory while the view before is processed. Every
 * voxel has its own footprint, whose shares in both coordinates are evaluated at the edges between
 * the few pixels that it meets (footprint_shares.h).
 *
 * Where views are in sets that are 90 degrees apart, pixels of four views are stored side by side,
 * and the shares of one voxel serve it and its three rotated images, as in voxel_back_circle.cu.
 */
#include "backend/cuda/kernels/footprint_back_any.h"

/* ---- voxels ---------------------------------------------------------------------------------- */

/* A column of voxels in a view: U, V and D of the first one, square of the distance from the
 * source without its part along z. */
typedef struct {
	float u, v, d, square, rise;
} Column;

static __device__ __forceinline__ Column column_of(
	const Voxels &s, const Near &near, float dx, float dy)
{
	const float ax = fmaf(dx, (float)s.step[0], near.away[0]),
		    ay = fmaf(dy, (float)s.step[1], near.away[1]);
	return Column{fmaf(near.u.x, dx, fmaf(near.u.y, dy, near.u.w)),
		fmaf(near.v.x, dx, fmaf(near.v.y, dy, near.v.w)),
		fmaf(near.d.x, dx, fmaf(near.d.y, dy, near.d.w)), fmaf(ax, ax, ay * ay),
		near.away[2]};
}

/* The weight of a voxel, divided by the product of the two boxes. */
template <bool RAYS>
static __device__ __forceinline__ float weight_of(const Voxels &s, const Near &near,
	const Column &c, float k, float rate, float product)
{
	float weight = near.scale * inverse_nearly(product);
	if (RAYS) {
		const float rise = fmaf(k, (float)s.step[2], c.rise),
			    square = fmaf(rise, rise, c.square);
		return weight * rate * (rate * rate) * (square * inverse_root(square));
	}
	return s.weighting == WEIGHT_DEPTH ? weight * (rate * rate) : weight;
}

template <class Pixel, int PITCH, bool RAYS, int NC, int NR>
static __device__ __forceinline__ void visit_column(const Voxels &s, const Near &near,
	const Column &c, const Pixel *tile, Pixel sum[COLUMN])
{
	constexpr unsigned magic = 0x4b400000u; /* the bits of MAGIC */
#pragma unroll
	for (int k = 0; k < COLUMN; k++) {
		const float depth = fmaf((float)k, near.d.z, c.d), rate = inverse_nearly(depth);
		const float U = fmaf((float)k, near.u.z, c.u), V = fmaf((float)k, near.v.z, c.v);
		const float u = U * rate, v = V * rate;
		const Shape across = shape_of(near.u, near.d, u),
			    along = shape_of(near.v, near.d, v);
		const float left = first_pixel(across, u, rate), low = first_pixel(along, v, rate);
		float a[NC], b[NR];
		shares_of<NC>(across, __fadd_rn(left, -MAGIC), U, depth, a);
		shares_of<NR>(along, __fadd_rn(low, -MAGIC), V, depth, b);
		const unsigned place = __float_as_uint(low) * PITCH + __float_as_uint(left) -
				       magic * (PITCH + 1);
		const Pixel *at = tile + (int)place;
		Pixel all = {};
#pragma unroll
		for (int r = 0; r < NR; r++) {
			Pixel line = scaled(a[0], at[r * PITCH]);
#pragma unroll
			for (int i = 1; i < NC; i++)
				add_scaled(line, a[i], at[r * PITCH + i]);
			add_scaled(all, b[r], line);
		}
		add_scaled(sum[k],
			weight_of<RAYS>(
				s, near, c, (float)k, rate, across.wide * along.wide),
			all);
	}
}

/* One voxel straight from the image, for blocks that see more than a tile. */
template <class Pixel>
static __device__ __noinline__ void voxel_direct(const Voxels &s, const Near &near,
	const Pixel *image, float U, float V, float depth, float weight, Pixel *sum)
{
	const float rate = inverse_nearly(depth), u = U * rate, v = V * rate;
	const Shape across = shape_of(near.u, near.d, u), along = shape_of(near.v, near.d, v);
	const float wide = (across.flat + across.narrow) * rate,
		    high = (along.flat + along.narrow) * rate;
	const int c0 = max((int)rintf(fmaxf(u - wide, -1e6f)), -near.column),
		  c1 = min((int)rintf(fminf(u + wide, 1e6f)), s.columns - 1 - near.column);
	const int r0 = max((int)rintf(fmaxf(v - high, -1e6f)), -near.row),
		  r1 = min((int)rintf(fminf(v + high, 1e6f)), s.rows - 1 - near.row);
	Pixel all = {};
	for (int r = r0; r <= r1; r++) {
		const float low = fmaf((float)r - 0.5f, depth, -V);
		const float share =
			shape_integral(along, low + depth) - shape_integral(along, low);
		for (int c = c0; c <= c1; c++) {
			const float left = fmaf((float)c - 0.5f, depth, -U);
			add_scaled(all,
				share * (shape_integral(across, left + depth) -
						shape_integral(across, left)),
				image[(int64_t)(near.row + r) * s.pitch + near.column + c]);
		}
	}
	add_scaled(*sum, weight * inverse_nearly(across.wide * along.wide), all);
}

template <class Pixel, bool RAYS>
static __device__ __forceinline__ void visit_direct(const Voxels &s, const Near &near,
	const Column &c, const Pixel *image, Pixel sum[COLUMN])
{
#pragma unroll
	for (int k = 0; k < COLUMN; k++) {
		const float depth = fmaf((float)k, near.d.z, c.d);
		const float weight =
			weight_of<RAYS>(s, near, c, (float)k, inverse_nearly(depth), 1);
		Pixel here = sum[k];
		voxel_direct(s, near, image, fmaf((float)k, near.u.z, c.u),
			fmaf((float)k, near.v.z, c.v), depth, weight, &here);
		sum[k] = here;
	}
}

/* The kind is the same for all threads of a block. */
template <class Pixel, int PITCH, bool RAYS>
static __device__ __forceinline__ void visit_view(const Voxels &s, const Near &near,
	const Pixel *tile, const Pixel *image, float dx, float dy, Pixel sum[COLUMN])
{
	if (near.kind == UNSEEN)
		return;
	const Column c = column_of(s, near, dx, dy);
	switch (near.kind) {
#define KIND(number, NC, NR) \
	case number: \
		visit_column<Pixel, PITCH, RAYS, NC, NR>(s, near, c, tile, sum); \
		break;
		SHARE_KINDS(KIND)
#undef KIND
	default:
		visit_direct<Pixel, RAYS>(s, near, c, image, sum);
	}
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* After the views of a quarter of the circle, each sum is that of the next rotated voxel. */
static __device__ __forceinline__ void move_on(float &)
{
}

static __device__ __forceinline__ void move_on(float4 &sum)
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
static __device__ __forceinline__ int images_of(const Voxels &s, int parts, int x, int y)
{
	if (parts == 1)
		return x < s.n[0] && y < s.n[1] ? 1 : 0;
	if (2 * x > s.n[0] || 2 * y >= s.n[1])
		return 0;
	if (2 * y + 1 < s.n[1])
		return 2 * x < s.n[0] ? parts : 0;
	return 2 * x + 1 == s.n[0] ? 1 : 0;
}

template <class Pixel>
static __device__ __forceinline__ void write_sums(
	const Voxels &s, int x, int y, int z0, const Pixel sum[COLUMN])
{
	const int images = images_of(s, PARTS<Pixel>, x, y);
	const int64_t slice = (int64_t)s.n[0] * s.n[1];
#pragma unroll
	for (int i = 0; i < PARTS<Pixel>; i++) {
		const int2 at = PARTS<Pixel> == 1 ? make_int2(x, y)
						  : rotated(s.n[0], i * s.direction % 4, x, y);
		if (i < images)
			update_voxels<COLUMN, 4>(s.update,
				s.volume + z0 * slice + (int64_t)at.y * s.n[0] + at.x, slice,
				s.n[2] - z0, [&](int k) { return part_of(sum[k], i); });
	}
}

/* Column of voxels (x, y) of a thread: 8 or 16 neighbouring threads are a rectangle, a warp is
 * 8 x 4. */
static __device__ __forceinline__ int2 place_of(int thread)
{
	const int lane = thread % 32, warp = thread / 32;
	return make_int2(lane % 4 + lane / 16 * 4 + warp % 2 * 8, lane / 4 % 4 + warp / 2 * 4);
}

template <class Pixel, int PITCH, bool RAYS>
static __global__ void __launch_bounds__(THREADS, 2)
	footprint_back(const __grid_constant__ Voxels s)
{
	extern __shared__ float4 tile_memory[];
	__shared__ Near near[VIEWS];
	const int x0 = blockIdx.x * SIDE, y0 = blockIdx.y * SIDE, z0 = blockIdx.z * COLUMN;
	const int2 place = place_of(threadIdx.x);
	/* Threads outside the box repeat its last column. */
	const float dx = (float)min(place.x, s.n[0] - 1 - x0),
		    dy = (float)min(place.y, s.n[1] - 1 - y0);
	const int64_t image = (int64_t)s.rows * s.pitch;
	Pixel *tiles[2] = {(Pixel *)tile_memory, (Pixel *)tile_memory + s.tile_rows * PITCH};
	Pixel sum[COLUMN] = {};
	for (int part = 0; part < PARTS<Pixel>; part++) {
		for (int64_t first = 0; first < s.count; first += VIEWS) {
			const int views = (int)min((int64_t)VIEWS, s.count - first);
			const Pixel *images = (const Pixel *)s.images + first * image;
			__syncthreads();
			for (int i = threadIdx.x; i < views; i += THREADS)
				near_block<Pixel>(s, &s.views[part * s.part + first + i], x0, y0,
					z0, PITCH, &near[i]);
			__syncthreads();
			copy_tile<Pixel, PITCH>(s, near[0], images, tiles[0]);
#pragma unroll 1
			for (int i = 0; i < views; i++, images += image) {
				__pipeline_wait_prior(0);
				__syncthreads(); /* the tile is complete, and the other one free */
				if (i + 1 < views)
					copy_tile<Pixel, PITCH>(s, near[i + 1], images + image,
						tiles[(i + 1) % 2]);
				visit_view<Pixel, PITCH, RAYS>(
					s, near[i], tiles[i % 2], images, dx, dy, sum);
			}
		}
#pragma unroll
		for (int k = 0; k < COLUMN; k++)
			move_on(sum[k]);
	}
	write_sums(s, x0 + place.x, y0 + place.y, z0, sum);
}

/* ---- images ---------------------------------------------------------------------------------- */

/* Rows padded to copies of 16 bytes, and views of all parts side by side. */
template <class Pixel>
static __global__ void make_images(const __grid_constant__ Voxels s, const float *from, Pixel *to)
{
	const int c = blockIdx.x * blockDim.x + threadIdx.x;
	const int64_t apart = s.part * s.rows * s.columns;
	if (c >= s.pitch)
		return;
	for (int64_t line = blockIdx.y; line < s.count * s.rows; line += gridDim.y) {
		Pixel pixel = {};
		for (int i = 0; c < s.columns && i < PARTS<Pixel>; i++)
			((float *)&pixel)[i] = from[i * apart + line * s.columns + c];
		to[line * s.pitch + c] = pixel;
	}
}

/* ---- a whole request ------------------------------------------------------------------------- */

/* Rows and columns that blocks see of a view, at most; blocks may still see more, where the depth
 * varies within them. */
typedef struct {
	int rows, columns, direction;
} Notes;

static bool measure_view(const ProjectRequest *what, const KernelView *k, double size[2])
{
	static const int block[3] = {SIDE, SIDE, COLUMN};
	for (int i = 0; i < 8; i++) {
		double at[3], voxel = 0;
		for (int a = 0; a < 3; a++) {
			at[a] = (double)(i >> a & 1 ? what->box.high[a] - 1 : what->box.low[a]);
			voxel += fabs(k->depth[a]);
		}
		const double depth = k->depth[0] * at[0] + k->depth[1] * at[1] +
				     k->depth[2] * at[2] + k->depth[3];
		if (!(depth > 4 * voxel) || !(depth > 0))
			return false;
		for (int c = 0; c < 2; c++) {
			const double *f = c ? k->row : k->column;
			const double p =
				(f[0] * at[0] + f[1] * at[1] + f[2] * at[2] + f[3]) / depth;
			double wide = 0;
			for (int a = 0; a < 3; a++)
				wide += (block[a] + 1) * fabs(f[a] - p * k->depth[a]) / depth;
			size[c] = fmax(size[c], wide * 1.05 + 10);
		}
	}
	return true;
}

static bool any_applies(const ProjectRequest *what, CudaNotes *notes)
{
	const Plan *plan = what->plan;
	const int source = plan->rays.source;
	if (plan->model.planar || !(source == TOMOS_POINT || source == TOMOS_PARALLEL) ||
		plan->model.rows > 1 << 16 || plan->model.columns > 1 << 16)
		return false;
	double size[2] = {0, 0};
	for (int64_t i = 0; i < what->count; i++)
		if (!measure_view(what, &plan->views[what->first + i], size))
			return false;
	Notes *found = notes_of<Notes>(notes);
	found->columns = (int)fmin(size[0], 1e6);
	found->rows = (int)fmin(size[1], (int)MOST_ROWS);
	found->direction = quarter_direction(what);
	return true;
}

static CudaFusion any_fuses(
	const tomos_backend *, const ProjectRequest *, const CudaNotes *, const FusedUpdate *step)
{
	return step->average ? FUSES_NOT : FUSES;
}

template <class Pixel, int PITCH>
static tomos_status run_views(
	tomos_backend *backend, const ProjectRequest *what, const Voxels *s, int64_t first)
{
	cudaStream_t stream = device_of(backend)->stream;
	make_images<Pixel><<<dim3(cuda_blocks(s->pitch, 128, 1 << 30),
				     cuda_blocks(s->count * s->rows, 1, 65535)),
		128, 0, stream>>>(
		*s, what->projections + first * s->rows * s->columns, (Pixel *)s->images);
	CUDA_LAUNCHED("putting views side by side");
	const bool rays = s->weighting == WEIGHT_RAY && what->plan->rays.source != TOMOS_PARALLEL;
	auto kernel =
		rays ? footprint_back<Pixel, PITCH, true> : footprint_back<Pixel, PITCH, false>;
	TRY(cuda_take_shared((const void *)kernel));
	const int half = PARTS<Pixel> == 4 ? 2 : 1;
	kernel<<<dim3(cuda_blocks((s->n[0] + half - 1) / half, SIDE, 1 << 30),
			 cuda_blocks((s->n[1] + half - 1) / half, SIDE, 65535),
			 cuda_blocks(s->n[2], COLUMN, 65535)),
		THREADS, 2 * s->tile_rows * PITCH * (int)sizeof(Pixel), stream>>>(*s);
	CUDA_LAUNCHED("back projecting");
	return TOMOS_OK;
}

template <class Pixel>
static tomos_status run(tomos_backend *backend, const ProjectRequest *what, const CudaNotes *notes,
	const CudaEpilogue *epilogue)
{
	const Plan *plan = what->plan;
	const Notes *found = notes_of<Notes>(notes);
	const CudaPlan *kept;
	VoxelUpdate update;
	float *images;
	Voxels s = {.part = what->count / PARTS<Pixel>,
		.direction = found->direction,
		.weighting = plan->model.weight,
		.rows = (int)plan->model.rows,
		.columns = (int)plan->model.columns,
		.pitch = (int)((plan->model.columns + CHUNKS<Pixel> - 1) / CHUNKS<Pixel> *
			       CHUNKS<Pixel>),
		.tile_rows = found->rows,
		.volume = what->volume};
	for (int a = 0; a < 3; a++) {
		s.low[a] = what->box.low[a];
		s.n[a] = (int)(what->box.high[a] - what->box.low[a]);
		s.step[a] = plan->whole.step[a];
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
			return (found->columns <= NARROW<Pixel>
					? run_views<Pixel, NARROW<Pixel>>
					: run_views<Pixel, WIDE<Pixel>>)(backend, what, &s, first);
		});
}

static tomos_status any_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	return (notes_of<Notes>(notes)->direction ? run<float4> : run<float>)(
		backend, what, notes, epilogue);
}

extern const CudaKernel cuda_footprint_back_any;
const CudaKernel cuda_footprint_back_any = {any_applies, any_run, any_fuses};
