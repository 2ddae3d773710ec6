/* Separable footprints for every geometry, in both directions: tilted detectors, sources near the
 * volume, rows that decrease with z, single slices.
 *
 * A thread has COLUMN voxels along z and visits all views. Positions are in float, relative to the
 * first voxel of a block and a pixel near its projection.
 */
#include "backend/cuda/kernels/footprint.h"

enum { WIDE = 16, HIGH = 8, THREADS = WIDE * HIGH, COLUMN = 8, VIEWS = 32, GROUP = 4 };

typedef struct {
	const KernelView *views;
	int64_t count;
	KernelModel model;
	int64_t low[3];
	double step[3];
	int n[3];
	float *volume, *projections;
	VoxelUpdate update;
} Voxels;

/* A view relative to the first voxel (corner) of a block. For the voxel at d from the corner, depth
 * D = depth[3] + depth . d. It projects to column (column[3] + column . d) / D, from pixel `place`
 * on, and likewise for the row; away: from the source to the voxel, in units of length. */
typedef struct {
	float column[4], row[4], depth[4], away[3][4];
	float scale;
	int first_column, last_column, first_row, last_row; /* of the detector */
	int64_t place;
	bool source, fans;
} Near;

static __device__ double nearest_pixel(double f, double depth, int64_t n)
{
	const double at = depth > 0 ? rint(f / depth) : 0;
	return fmax(fmin(at, (double)n), -1.0);
}

static __device__ __noinline__ void near_corner(
	const Voxels &s, const KernelView *k, const double at[3], Near *to)
{
	const bool fans = KERNEL_FANS(k), planar = s.model.planar;
	const double depth = affine(k->depth, at), u = affine(k->column, at),
		     v = planar ? 0 : affine(k->row, at), bend = fans ? 0 : 1;
	const double c = nearest_pixel(u, depth, s.model.columns),
		     r = planar ? 0 : nearest_pixel(v, fans ? 1 : depth, s.model.rows);
	Near near = {.column = {0, 0, 0, (float)(u - c * depth)},
		.row = {0, 0, 0, (float)(v - r * (fans ? 1 : depth))},
		.depth = {0, 0, 0, (float)depth},
		.scale = s.model.weight == WEIGHT_RAY ? (float)k->mass : 1,
		.first_column = -(int)c,
		.last_column = (int)(s.model.columns - 1) - (int)c,
		.first_row = -(int)r,
		.last_row = (int)(s.model.rows - 1) - (int)r,
		.place = (int64_t)r * s.model.columns + (int64_t)c,
		.source = KERNEL_HAS_SOURCE(k),
		.fans = fans};
	for (int a = 0; a < 3; a++) {
		near.column[a] = (float)(k->column[a] - c * k->depth[a]);
		near.row[a] = planar ? 0 : (float)(k->row[a] - bend * r * k->depth[a]);
		near.depth[a] = (float)k->depth[a];
		/* The source of a fan is that of its row. */
		const double v_a = fans ? k->v[a] : 0;
		for (int b = 0; b < 3; b++)
			near.away[a][b] = (float)(((a == b) - v_a * k->row[b]) * s.step[a]);
		near.away[a][3] =
			(float)((at[a] - k->src[a] - v_a * affine(k->row, at)) * s.step[a]);
	}
	*to = near;
}

static __device__ __forceinline__ float at_voxel(const float f[4], float dx, float dy, float dz)
{
	return fmaf(f[0], dx, fmaf(f[1], dy, fmaf(f[2], dz, f[3])));
}

/* The footprint of a voxel whose projected edges are x, y and z wide. */
static __device__ __forceinline__ Trapezoid trapezoid_of(float x, float y, float z)
{
	const float larger = fmaxf(x, y), one = fminf(x, y), two = fminf(larger, z);
	return trapezoid(fmaxf(larger, z), root_nearly(fmaf(one, one, two * two)));
}

/* A voxel in a view: its footprints, centres, and the weight of all of it. */
typedef struct {
	Trapezoid across, along;
	float u, v, weight;
} VoxelFootprint;

static __device__ __forceinline__ Trapezoid profile_of(
	const float f[4], const float depth[4], float at, float rate)
{
	return trapezoid_of(fabsf(fmaf(-at, depth[0], f[0])) * rate,
		fabsf(fmaf(-at, depth[1], f[1])) * rate, fabsf(fmaf(-at, depth[2], f[2])) * rate);
}

static __device__ __forceinline__ VoxelFootprint footprint_of(
	const Voxels &s, const Near &near, float d, float dx, float dy, float dz)
{
	const float rate = inverse_nearly(d), lower = near.fans ? 1 : rate;
	VoxelFootprint w;
	w.u = at_voxel(near.column, dx, dy, dz) * rate;
	w.v = at_voxel(near.row, dx, dy, dz) * lower;
	w.across = profile_of(near.column, near.depth, w.u, rate);
	w.along = profile_of(near.row, near.depth, near.fans ? 0 : w.v, lower);
	w.weight = near.scale;
	if (s.model.weight == WEIGHT_DEPTH) {
		w.weight = rate * rate;
	} else if (s.model.weight == WEIGHT_RAY && near.source) {
		float square = 0;
#pragma unroll
		for (int a = 0; a < 3; a++) {
			const float away = at_voxel(near.away[a], dx, dy, dz);
			square = fmaf(away, away, square);
		}
		w.weight *= root_nearly(square) * rate * rate * (s.model.planar ? 1 : lower);
	}
	return w;
}

/* The pixels first .. last of n whose share of a footprint is not 0. */
static __device__ __forceinline__ int2 pixels_of(
	const Trapezoid &t, float centre, int first, int last)
{
	const float low = fmaxf(centre - t.reach + 0.5f, (float)first),
		    high = fminf(centre + t.reach + 0.5f, (float)last + 0.5f);
	return make_int2((int)floorf(low), (int)floorf(high));
}

/* Adds `value` times the shares of the pixels to the image, or returns the sum of the pixels times
 * their shares. */
template <bool FORWARD>
static __device__ __forceinline__ float meet_pixels(
	const Voxels &s, const Near &near, const VoxelFootprint &w, float *image, float value)
{
	const int2 columns = pixels_of(w.across, w.u, near.first_column, near.last_column);
	int2 rows = make_int2(0, 0);
	if (!s.model.planar)
		rows = pixels_of(w.along, w.v, near.first_row, near.last_row);
	float sum = 0;
	for (int c = columns.x; c <= columns.y; c += GROUP) {
		float share[GROUP], left = trapezoid_below(w.across, (float)c - 0.5f - w.u);
#pragma unroll
		for (int i = 0; i < GROUP; i++) {
			const float right = trapezoid_below(w.across, (float)(c + i) + 0.5f - w.u);
			share[i] = right - left;
			left = right;
		}
		float below =
			s.model.planar ? 0 : trapezoid_below(w.along, (float)rows.x - 0.5f - w.v);
		for (int r = rows.x; r <= rows.y; r++) {
			const float above =
				s.model.planar ? 1
					       : trapezoid_below(w.along, (float)r + 0.5f - w.v);
			float *at = image + ((int64_t)r * s.model.columns + c), line = 0;
#pragma unroll
			for (int i = 0; i < GROUP; i++) {
				if (c + i > columns.y)
					continue;
				if (FORWARD)
					atomicAdd(at + i, value * (above - below) * share[i]);
				else
					line = fmaf(share[i], __ldg(at + i), line);
			}
			sum = fmaf(above - below, line, sum);
			below = above;
		}
	}
	return sum;
}

template <bool FORWARD>
static __device__ __forceinline__ void visit(
	const Voxels &s, const Near &near, float *image, float dx, float dy, float sum[COLUMN])
{
#pragma unroll 2
	for (int k = 0; k < COLUMN; k++) {
		const float d = at_voxel(near.depth, dx, dy, (float)k);
		if (!(d > 0))
			continue;
		const VoxelFootprint w = footprint_of(s, near, d, dx, dy, (float)k);
		if (FORWARD)
			meet_pixels<true>(s, near, w, image, w.weight * sum[k]);
		else
			sum[k] = fmaf(w.weight, meet_pixels<false>(s, near, w, image, 0), sum[k]);
	}
}

template <bool FORWARD>
static __global__ void __launch_bounds__(THREADS) footprint_any(const __grid_constant__ Voxels s)
{
	__shared__ Near near[VIEWS];
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32; /* a warp has 8 x 4 columns */
	const int dx = lane % 8 + warp % 2 * 8, dy = lane / 8 + warp / 2 * 4;
	const int x0 = blockIdx.x * WIDE, y0 = blockIdx.y * HIGH, z0 = blockIdx.z * COLUMN;
	const int x = x0 + dx, y = y0 + dy, count = min((int)COLUMN, s.n[2] - z0);
	const bool mine = x < s.n[0] && y < s.n[1];
	const double corner[3] = {
		(double)(s.low[0] + x0), (double)(s.low[1] + y0), (double)(s.low[2] + z0)};
	const int64_t slice = (int64_t)s.n[0] * s.n[1], image = s.model.rows * s.model.columns;
	float *volume = s.volume + ((int64_t)z0 * s.n[1] + y) * s.n[0] + x;
	float sum[COLUMN] = {0};
	for (int k = 0; FORWARD && mine && k < count; k++)
		sum[k] = volume[k * slice];
	for (int64_t first = 0; first < s.count; first += VIEWS) {
		const int views = (int)min((int64_t)VIEWS, s.count - first);
		__syncthreads();
		for (int i = threadIdx.x; i < views; i += THREADS)
			near_corner(s, &s.views[first + i], corner, &near[i]);
		__syncthreads();
		for (int i = 0; mine && i < views; i++)
			visit<FORWARD>(s, near[i],
				s.projections + (first + i) * image + near[i].place, (float)dx,
				(float)dy, sum);
	}
	if (!FORWARD && mine)
		update_voxels<COLUMN, 4>(
			s.update, volume, slice, count, [&](int k) { return sum[k]; });
}

/* ---- a whole request ------------------------------------------------------------------------- */

/* Whether all of the box is two voxels or more in front of the source: depths are in float. */
static bool is_in_front(const ProjectRequest *what, const KernelView *k)
{
	double least = k->depth[3], voxel = 0;
	for (int a = 0; a < 3; a++) {
		least += fmin(k->depth[a] * (double)what->box.low[a],
			k->depth[a] * (double)(what->box.high[a] - 1));
		voxel += fabs(k->depth[a]);
	}
	return !KERNEL_HAS_SOURCE(k) || least > 2 * voxel;
}

static bool any_applies(const ProjectRequest *what, CudaNotes *)
{
	for (int64_t i = 0; i < what->count; i++)
		if (!is_in_front(what, &what->plan->views[what->first + i]))
			return false;
	return what->plan->model.rows < 1 << 20 && what->plan->model.columns < 1 << 20;
}

static tomos_status any_run(tomos_backend *backend, const ProjectRequest *what, const CudaNotes *,
	const CudaEpilogue *epilogue)
{
	const Plan *plan = what->plan;
	const CudaPlan *kept;
	TRY(cuda_plan(backend, plan, &kept));
	Voxels s = {.views = kept->views + what->first,
		.count = what->count,
		.model = plan->model,
		.volume = what->volume,
		.projections = what->projections};
	for (int a = 0; a < 3; a++) {
		s.low[a] = what->box.low[a];
		s.n[a] = (int)(what->box.high[a] - what->box.low[a]);
		s.step[a] = plan->whole.step[a];
	}
	if (what->direction == ADJOINT)
		TRY(update_open(backend, what, epilogue, &s.update));
	auto kernel = what->direction == FORWARD ? footprint_any<true> : footprint_any<false>;
	kernel<<<dim3(cuda_blocks(s.n[0], WIDE, 1 << 30), cuda_blocks(s.n[1], HIGH, 65535),
			 cuda_blocks(s.n[2], COLUMN, 65535)),
		THREADS, 0, device_of(backend)->stream>>>(s);
	CUDA_LAUNCHED("projecting");
	return TOMOS_OK;
}

extern const CudaKernel cuda_footprint_any;
const CudaKernel cuda_footprint_any = {any_applies, any_run, fuses_sums};
