/* Back projection of separable footprints for any detector: rolled, slanted, C-arms, free vectors.
 *
 * Every voxel has its own footprint, whose shares in both coordinates are evaluated at the edges
 * between the few pixels that it meets (footprint_shares.h). footprint_back.h says how blocks visit
 * the views.
 */
#include "backend/cuda/kernels/footprint_back_any.h"

/* ---- voxels ---------------------------------------------------------------------------------- */

/* A column of voxels in a view: U, V and D of the first one, square of the distance from the
 * source without its part along z. */
typedef struct {
	float u, v, d, square, rise;
	float last; /* voxel of the box: beyond, it is repeated */
} Column;

static __device__ __forceinline__ Column column_of(
	const Footprints &s, const Near &near, float dx, float dy)
{
	const float ax = fmaf(dx, s.step[0], near.away[0]), ay = fmaf(dy, s.step[1], near.away[1]);
	return Column{fmaf(near.u.x, dx, fmaf(near.u.y, dy, near.u.w)),
		fmaf(near.v.x, dx, fmaf(near.v.y, dy, near.v.w)),
		fmaf(near.d.x, dx, fmaf(near.d.y, dy, near.d.w)), fmaf(ax, ax, ay * ay),
		near.away[2], near.last};
}

/* The weight of a voxel, divided by the product of the two boxes. */
template <bool RAYS>
static __device__ __forceinline__ float weight_of(
	const Footprints &s, const Near &near, const Column &c, float k, float rate, float product)
{
	float weight = near.scale * inverse_nearly(product);
	if (RAYS) {
		const float rise = fmaf(k, s.step[2], c.rise), square = fmaf(rise, rise, c.square);
		return weight * rate * (rate * rate) * (square * inverse_root(square));
	}
	return s.weighting == WEIGHT_DEPTH ? weight * (rate * rate) : weight;
}

template <class Pixel, int PITCH, bool RAYS, int NC, int NR>
static __device__ __forceinline__ void visit_column(const Footprints &s, const Near &near,
	const Column &c, const Pixel *tile, Pixel sum[COLUMN])
{
	constexpr unsigned magic = 0x4b400000u; /* the bits of MAGIC */
#pragma unroll
	for (int k = 0; k < COLUMN; k++) {
		const float at_k = fminf((float)k, c.last);
		const float depth = fmaf(at_k, near.d.z, c.d), rate = inverse_nearly(depth);
		const float U = fmaf(at_k, near.u.z, c.u), V = fmaf(at_k, near.v.z, c.v);
		const float u = U * rate, v = V * rate;
		const Shape across = shape_of(near.u, near.d, u),
			    along = shape_of(near.v, near.d, v);
		const float left = first_pixel(across, u, rate), low = first_pixel(along, v, rate);
		float a[NC], b[NR];
		shares_of<NC>(across, __fadd_rn(left, -MAGIC), U, depth, a);
		shares_of<NR>(along, __fadd_rn(low, -MAGIC), V, depth, b);
		const unsigned place =
			__float_as_uint(low) * PITCH + __float_as_uint(left) - magic * (PITCH + 1);
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
			weight_of<RAYS>(s, near, c, at_k, rate, across.wide * along.wide), all);
	}
}

/* One voxel straight from the image, for blocks that see more than a tile. */
template <class Pixel>
static __device__ __noinline__ void voxel_direct(const Footprints &s, const Near &near,
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
		const float share = shape_integral(along, low + depth) - shape_integral(along, low);
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
static __device__ __forceinline__ void visit_direct(const Footprints &s, const Near &near,
	const Column &c, const Pixel *image, Pixel sum[COLUMN])
{
#pragma unroll
	for (int k = 0; k < COLUMN; k++) {
		const float at_k = fminf((float)k, c.last);
		const float depth = fmaf(at_k, near.d.z, c.d);
		const float weight = weight_of<RAYS>(s, near, c, at_k, inverse_nearly(depth), 1);
		Pixel here = sum[k];
		voxel_direct(s, near, image, fmaf(at_k, near.u.z, c.u), fmaf(at_k, near.v.z, c.v),
			depth, weight, &here);
		sum[k] = here;
	}
}

/* The kind is the same for all threads of a block. */
template <class Pixel, int PITCH, bool RAYS>
static __device__ __forceinline__ void visit_view(const Footprints &s, const Near &near,
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

/* ---- a whole request ------------------------------------------------------------------------- */

template <class Pixel, int PITCH, bool RAYS>
static __global__ void __launch_bounds__(THREADS, 2)
	footprint_back(const __grid_constant__ Footprints s)
{
	extern __shared__ float4 tile_memory[];
	__shared__ Near near[VIEWS];
	const int x0 = blockIdx.x * SIDE, y0 = blockIdx.y * SIDE, z0 = blockIdx.z * COLUMN;
	const int2 place = place_of(threadIdx.x);
	/* Threads outside the box repeat its last column. */
	const float dx = (float)min(place.x, s.n[0] - 1 - x0),
		    dy = (float)min(place.y, s.n[1] - 1 - y0);
	Pixel sum[COLUMN] = {};
	visit_views<Pixel, PITCH>(
		s, near, (Pixel *)tile_memory,
		[&](const KernelView *k, Near *to) {
			near_block<Pixel>(s, k, x0, y0, z0, PITCH, to);
		},
		[&](const Near &v, const Pixel *tile, const Pixel *image) {
			visit_view<Pixel, PITCH, RAYS>(s, v, tile, image, dx, dy, sum);
		},
		[&] {
#pragma unroll
			for (int k = 0; k < COLUMN; k++)
				move_sum(sum[k]);
		});
	write_sums<COLUMN>(s, x0 + place.x, y0 + place.y, z0, sum);
}

/* Rows and columns that a block sees at a corner of the box. */
static void measure_corner(
	const ProjectRequest *what, const KernelView *k, int corner, double size[2])
{
	static const int block[3] = {SIDE, SIDE, COLUMN};
	double at[3], depth = k->depth[3];
	for (int a = 0; a < 3; a++) {
		at[a] = (double)(corner >> a & 1 ? what->box.high[a] - 1 : what->box.low[a]);
		depth += k->depth[a] * at[a];
	}
	for (int c = 0; c < 2; c++) {
		const double *f = c ? k->row : k->column;
		const double p = (f[0] * at[0] + f[1] * at[1] + f[2] * at[2] + f[3]) / depth;
		double wide = 0;
		for (int a = 0; a < 3; a++)
			wide += (block[a] + 1) * fabs(f[a] - p * k->depth[a]) / depth;
		size[c] = fmax(size[c], wide * 1.05 + 10);
	}
}

static bool any_applies(const ProjectRequest *what, CudaNotes *notes)
{
	const Plan *plan = what->plan;
	const int source = plan->rays.source;
	if (plan->model.planar || !(source == TOMOS_POINT || source == TOMOS_PARALLEL) ||
		plan->model.rows > 1 << 16 || plan->model.columns > 1 << 16)
		return false;
	double size[2] = {0, 0};
	for (int64_t i = 0; i < what->count; i++) {
		const KernelView *k = &plan->views[what->first + i];
		if (!is_in_front(what, k, 4))
			return false;
		for (int corner = 0; corner < 8; corner++)
			measure_corner(what, k, corner, size);
	}
	TileSize *found = notes_of<TileSize>(notes);
	*found = TileSize{(int)fmin(size[1], (int)MOST_ROWS), (int)fmin(size[0], 1e6),
		quarter_direction(what)};
	if (!cuda_has_shared(tile_bytes<float4>(found) + VIEWS * (int)sizeof(Near)))
		found->direction = 0;
	return cuda_has_shared(tile_bytes<float>(found) + VIEWS * (int)sizeof(Near));
}

template <class Pixel> static auto kernel_of(const ProjectRequest *what, const TileSize *size)
{
	const bool rays =
		what->plan->model.weight == WEIGHT_RAY && what->plan->rays.source != TOMOS_PARALLEL;
	if (size->columns <= NARROW<Pixel>)
		return rays ? footprint_back<Pixel, NARROW<Pixel>, true>
			    : footprint_back<Pixel, NARROW<Pixel>, false>;
	return rays ? footprint_back<Pixel, WIDE<Pixel>, true>
		    : footprint_back<Pixel, WIDE<Pixel>, false>;
}

static tomos_status any_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	const TileSize *size = notes_of<TileSize>(notes);
	return size->direction ? run_footprints<float4>(backend, what, size, epilogue,
					 kernel_of<float4>(what, size), COLUMN)
			       : run_footprints<float>(backend, what, size, epilogue,
					 kernel_of<float>(what, size), COLUMN);
}

extern const CudaKernel cuda_footprint_back_any;
const CudaKernel cuda_footprint_back_any = {any_applies, any_run, footprint_fuses};
