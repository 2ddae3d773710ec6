/* Joseph's back projection for any detector whose rays run along x or y rather than z: rolled and
 * slanted detectors, cone beam or parallel.
 *
 * A thread has a column of voxels along z, and gathers from the rays that pass each of them within
 * one voxel on the plane of the dominant axis a. There the ray of pixel (c, r) is at
 *
 *     b = L / A,  z = Z / A,  L = L0 + c Lu + r Lv,  Z = Z0 + c Zu + r Zv,  A = 1 + c Au + r Av
 *
 * from the column's first voxel, in voxels, with c and r counted from a pixel near the block's
 * projection and A the ray's direction along a, relative to that pixel's. A thread goes over the
 * columns of pixels near its own projection; for each of them a span of voxels reads the rows that
 * it meets once.
 */
#include "backend/cuda/kernels/points.h"
#include "kernel/ray.h"

enum {
	WIDE = 16, /* a block's columns of voxels; of a warp 8 x 4 */
	HIGH = 8,
	THREADS = WIDE * HIGH,
	COLUMN = 16,
	VIEWS = 32, /* seen from a block at a time */
	STRIP = 32, /* adjacent columns of an image; all images have the same row pitch */
	BORDER = ROWS_BORDER
};

#define MAGIC 12582912.f /* 1.5 * 2^23: adding it rounds to the nearest integer */

typedef struct {
	KernelGrid grid;
	KernelModel model;
	const KernelView *views;
	int64_t count;
	int n[3], lines, strips;
	const void *images; /* [view][axis][strip][line][column], times the steps of the rays */
	float *volume;
	VoxelUpdate update;
} Gathers;

/* Rays of one dominant axis seen from the corner of a block, and how that changes along a and b. */
typedef struct __align__(16)
{
	float l[3], z[3], a[3]; /* constant, per column, per row */
	float l_a[3], z_a[3];   /* more for each voxel along a */
	bool used;
}
Sheets;

typedef struct __align__(16)
{
	Sheets axis[2];
	float low, high;  /* rows between which something may be met, from `row` on */
	int column, line; /* the pixel from which is counted; with the border */
}
Seen;

/* ---- images ---------------------------------------------------------------------------------- */

/* Of each dominant axis its own: zeros where the ray has another. */
template <typename Pixel>
static __global__ void make_images(
	const __grid_constant__ Gathers s, const float *from, const float *rays, Pixel *to)
{
	const int64_t column = (int64_t)blockIdx.x * STRIP + threadIdx.x;
	const int64_t lines = s.count * s.lines, size = (int64_t)s.strips * s.lines * STRIP;
	for (int64_t i = (int64_t)blockIdx.y * blockDim.y + threadIdx.y; i < lines;
		i += (int64_t)gridDim.y * blockDim.y) {
		int64_t view = i / s.lines, line = i % s.lines, row = line - BORDER;
		int64_t at = (view * s.model.rows + row) * s.model.columns + column;
		Pixel pixel[2] = {};
		if (column < s.model.columns && row >= 0 && row < s.model.rows) {
			KernelRay ray = kernel_ray(&s.grid, &s.views[view], row, column);
			int axis = kernel_dominant(&ray);
			if (axis < 2)
				set_pixel(pixel[axis],
					(float)(ray.length / fabs(ray.direction[axis])), from + at,
					rays ? rays + at : NULL);
		}
		for (int axis = 0; axis < 2; axis++)
			to[(view * 2 + axis) * size +
				((int64_t)blockIdx.x * s.lines + line) * STRIP + threadIdx.x] =
				pixel[axis];
	}
}

/* ---- back ------------------------------------------------------------------------------------ */

static __device__ double affine(const double f[4], const double at[3])
{
	return f[0] * at[0] + f[1] * at[1] + f[2] * at[2] + f[3];
}

/* The direction of the ray of a pixel, and how it changes by column and row. */
typedef struct {
	double start[3], along[3][3];
} Rays;

static __device__ Rays rays_of(const KernelView *k, double row, double column)
{
	Rays rays;
	for (int i = 0; i < 3; i++) {
		double pixel = k->first[i] + column * k->u[i] + row * k->v[i];
		bool source = KERNEL_HAS_SOURCE(k);
		rays.start[i] = source ? k->src[i] : pixel;
		rays.along[0][i] = source ? pixel - k->src[i] : k->src[i];
		rays.along[1][i] = source ? k->u[i] : 0;
		rays.along[2][i] = source ? k->v[i] : 0;
	}
	return rays;
}

/* With parallel rays the pixel moves, with a source the direction does. */
static __device__ Sheets sheets_of(const KernelView *k, const Rays *rays, const double at[3], int a)
{
	const int b = 1 - a;
	const double inverse = 1 / rays->along[0][a];
	const double ahead = at[a] - rays->start[a];
	Sheets s;
	for (int i = 0; i < 3; i++) {
		const double *d = rays->along[i];
		double l = (rays->start[b] - at[b]) * d[a] + ahead * d[b];
		double z = (rays->start[2] - at[2]) * d[a] + ahead * d[2];
		if (!KERNEL_HAS_SOURCE(k) && i > 0) {
			const double *step = i == 1 ? k->u : k->v, *ray = rays->along[0];
			l = step[b] * ray[a] - step[a] * ray[b];
			z = step[2] * ray[a] - step[a] * ray[2];
		}
		s.l[i] = (float)(l * inverse);
		s.z[i] = (float)(z * inverse);
		s.a[i] = (float)(d[a] * inverse);
		s.l_a[i] = (float)(d[b] * inverse);
		s.z_a[i] = (float)(d[2] * inverse);
	}
	return s;
}

/* Which axes are dominant for rays that may meet the block. */
static __device__ void find_axes(const Gathers *s, const KernelView *k, const double low[2],
	const double high[2], Seen *seen)
{
	bool used[2] = {false, false};
	double least[2] = {1e300, 1e300}, most[2] = {-1e300, -1e300};
	for (int corner = 0; corner < 4; corner++) {
		Rays rays =
			rays_of(k, corner & 1 ? high[1] : low[1], corner & 2 ? high[0] : low[0]);
		for (int i = 0; i < 2; i++) {
			/* |x| - |y| is positive where both x - y and x + y have the sign of x. */
			double x = rays.along[0][0], y = rays.along[0][1];
			double f = i == 0 ? x - y : x + y;
			least[i] = fmin(least[i], f);
			most[i] = fmax(most[i], f);
		}
	}
	bool x_only = least[0] * most[0] > 0 && least[1] * most[1] > 0 &&
		      (least[0] > 0) == (least[1] > 0);
	bool y_only = least[0] * most[0] > 0 && least[1] * most[1] > 0 &&
		      (least[0] > 0) != (least[1] > 0);
	used[0] = !y_only;
	used[1] = !x_only;
	seen->axis[0].used = used[0];
	seen->axis[1].used = used[1];
}

static __device__ Seen see(const Gathers *s, const KernelView *k, const int first[3])
{
	double at[3], low[2] = {1e300, 1e300}, high[2] = {-1e300, -1e300};
	for (int corner = 0; corner < 8; corner++) {
		const int size[3] = {WIDE, HIGH, COLUMN};
		for (int i = 0; i < 3; i++)
			at[i] = (double)(s->grid.low[i] + first[i]) +
				(corner >> i & 1 ? size[i] + 1 : -1);
		double depth = affine(k->depth, at),
		       f[2] = {affine(k->column, at) / depth, affine(k->row, at) / depth};
		for (int i = 0; i < 2; i++) {
			low[i] = fmin(low[i], f[i]);
			high[i] = fmax(high[i], f[i]);
		}
	}
	for (int i = 0; i < 3; i++)
		at[i] = (double)(s->grid.low[i] + first[i]);
	const double last[2] = {(double)(s->model.columns - 1), (double)(s->model.rows - 1)};
	double place[2];
	bool outside = false;
	for (int i = 0; i < 2; i++) {
		outside = outside || high[i] < 0 || low[i] > last[i];
		low[i] = fmin(fmax(floor(low[i]), 0.0), last[i]);
		high[i] = fmin(fmax(ceil(high[i]), 0.0), last[i]);
		place[i] = rint(0.5 * (low[i] + high[i]));
	}
	Seen seen;
	const Rays rays = rays_of(k, place[1], place[0]);
	for (int a = 0; a < 2; a++)
		seen.axis[a] = sheets_of(k, &rays, at, a);
	find_axes(s, k, low, high, &seen);
	for (int a = 0; a < 2; a++)
		seen.axis[a].used = seen.axis[a].used && !outside;
	seen.column = (int)place[0];
	seen.line = (int)place[1] + BORDER;
	seen.low = (float)(ROWS_SIDE - BORDER - place[1]);
	seen.high = (float)(last[1] + 1 + ROWS_SIDE - place[1]);
	return seen;
}

/* L, Z and A for a column of voxels. */
typedef struct {
	float l[3], z[3], a[3];
} Column;

/* Where voxel k of the column is projected to: the column and row of pixels. */
static __device__ __forceinline__ float2 foot_of(const Column &v, float k)
{
	float z0 = v.z[0] - k * v.a[0], zu = fmaf(-k, v.a[1], v.z[1]),
	      zv = fmaf(-k, v.a[2], v.z[2]);
	float inverse = inverse_nearly(v.l[1] * zv - v.l[2] * zu);
	return make_float2(
		(v.l[2] * z0 - v.l[0] * zv) * inverse, (v.l[0] * zu - v.l[1] * z0) * inverse);
}

/* Row in column c of pixels at which voxel k is. */
static __device__ __forceinline__ float row_of(const Column &v, float c, float k)
{
	const float z0 = fmaf(c, v.z[1], v.z[0]), a0 = fmaf(c, v.a[1], 1.f);
	return fmaf(-k, a0, z0) * -inverse_nearly(fmaf(-k, v.a[2], v.z[2]));
}

/* One column of pixels, c from the origin, and the voxels from `first` on. */
template <class R, typename Pixel>
static __device__ __forceinline__ void gather(
	const Column &v, const Seen &seen, const Pixel *line, float c, float first, Pixel *sum)
{
	const float l0 = fmaf(c, v.l[1], v.l[0]), z0 = fmaf(c, v.z[1], v.z[0]);
	const float a0 = fmaf(c, v.a[1], 1.f);
	/* The rows on which the first and the last voxel are. */
	const float last = first + (float)(R::SPAN - 1);
	const float middle = 0.5f * (row_of(v, c, first) + row_of(v, c, last) - (float)R::LAST);
	const float rounded = __fadd_rn(fminf(fmaxf(middle, seen.low), seen.high), MAGIC);
	const float row0 = __fadd_rn(rounded, -MAGIC) - R::SIDE;
	const Pixel *at =
		line + (__float_as_int(rounded) - __float_as_int(MAGIC) - R::SIDE) * STRIP;
	enum { ROWS = R::LAST + 2 * R::SIDE + 1 };
	Pixel q[ROWS];
	float z[ROWS];
#pragma unroll
	for (int i = 0; i < ROWS; i++) {
		const float row = row0 + (float)i;
		const float rate = inverse_nearly(fmaf(row, v.a[2], a0));
		const float share = fma_saturate(-fabsf(fmaf(row, v.l[2], l0)), rate, 1.f);
		const Pixel pixel = __ldg(at + i * STRIP);
		q[i] = Pixel{};
		accumulate(q[i], share, pixel);
		z[i] = fmaf(fmaf(row, v.z[2], z0), rate, -first);
	}
#pragma unroll
	for (int k = 0; k < R::SPAN; k++) {
		const int m = R::of(k) + R::SIDE;
		accumulate(sum[k], __saturatef(1 - fabsf(z[m] - (float)k)), q[m]);
#pragma unroll
		for (int side = 1; side <= R::SIDE; side++) {
			accumulate(sum[k], __saturatef(1 - fabsf(z[m - side] - (float)k)),
				q[m - side]);
			accumulate(sum[k], __saturatef(1 - fabsf(z[m + side] - (float)k)),
				q[m + side]);
		}
	}
}

/* Voxels of many rows, one by one. */
template <typename Pixel>
static __device__ __forceinline__ void gather_one(const Column &v, const Seen &seen,
	const Pixel *line, float c, float k, float rate, Pixel *sum)
{
	const float l0 = fmaf(c, v.l[1], v.l[0]), z0 = fmaf(c, v.z[1], v.z[0]);
	const float a0 = fmaf(c, v.a[1], 1.f);
	const float t = row_of(v, c, k);
	int low = (int)fmaxf(floorf(t - rate), seen.low),
	    high = (int)fminf(ceilf(t + rate), seen.high);
	for (int row = low; row <= high; row++) {
		const float inverse = inverse_nearly(fmaf((float)row, v.a[2], a0));
		const float share =
			fma_saturate(-fabsf(fmaf((float)row, v.l[2], l0)), inverse, 1.f);
		const float z = fmaf(fmaf((float)row, v.z[2], z0), inverse, -k);
		accumulate(*sum, share * __saturatef(1 - fabsf(z)), __ldg(line + row * STRIP));
	}
}

static __device__ __forceinline__ float least_of_warp(float value)
{
	for (int apart = 16; apart > 0; apart /= 2)
		value = fminf(value, __shfl_xor_sync(~0u, value, apart));
	return value;
}

template <typename Pixel>
static __device__ __forceinline__ void visit(const Gathers &s, const Seen &seen,
	const Sheets &sheets, const Pixel *image, float along, float across, Pixel sum[COLUMN])
{
	Column v;
#pragma unroll
	for (int i = 0; i < 3; i++) {
		v.a[i] = sheets.a[i];
		v.l[i] = fmaf(along, sheets.l_a[i], fmaf(-across, sheets.a[i], sheets.l[i]));
		v.z[i] = fmaf(along, sheets.z_a[i], sheets.z[i]);
	}
	const float2 one = foot_of(v, 0.f), two = foot_of(v, (float)(COLUMN - 1));
	/* Rows per voxel in one column of pixels, the middle one. */
	const float half = 0.5f * (COLUMN - 1), here = foot_of(v, half).x;
	const float low_row = row_of(v, here, 0.f), high_row = row_of(v, here, (float)(COLUMN - 1));
	const float middle = row_of(v, here, half);
	const float rate = fabsf(high_row - low_row) * (1.f / (COLUMN - 1));
	/* How much the rate differs along the column, and from one column of pixels to the next. */
	const float uneven = fabsf(high_row + low_row - 2 * middle) * (2.f / (COLUMN - 1)) +
			     rate * 3 * fabsf(v.a[1]);
	const float drift = (two.x - one.x) * (1.f / (COLUMN - 1));
	/* Rays of pixel columns further away are more than one voxel away, whatever the row. */
	const float ahead =
		fmaxf(fmaf(one.x, v.a[1], one.y * v.a[2]), fmaf(two.x, v.a[1], two.y * v.a[2]));
	const float side =
		1.02f * fabsf(inverse_nearly(v.l[1])) * fmaf(fabsf(v.l[2]), rate + 1, 1 + ahead);
	const Pixel *lines = image + seen.line * STRIP;
	const auto columns = [&](float first, int span, const auto &use) {
		const float from = fmaf(first, drift, one.x),
			    to = fmaf(first + (float)(span - 1), drift, one.x);
		const int low = max((int)ceilf(fminf(from, to) - side) + seen.column, 0);
		const int high = min((int)floorf(fmaxf(from, to) + side) + seen.column,
			(int)s.model.columns - 1);
		for (int c = low; c <= high; c++)
			use((float)(c - seen.column),
				lines + (c + c / STRIP * (s.lines - 1) * STRIP));
	};
	/* One variant for all threads of a warp, so that they do not diverge. */
	const bool up = __all_sync(~0u, two.y > one.y);
	const int kind = up ? rows_kind(least_of_warp(fmaxf(rate - uneven, 0.f)),
				      -least_of_warp(-(rate + uneven)))
			    : -1;
	rows_visit(kind, [&](auto rows) {
		typedef decltype(rows) R;
#pragma unroll
		for (int first = 0; first < COLUMN; first += R::SPAN)
			columns((float)first, R::SPAN, [&](float c, const Pixel *line) {
				gather<R>(v, seen, line, c, (float)first, sum + first);
			});
	});
	if (kind >= 0)
		return;
#pragma unroll
	for (int k = 0; k < COLUMN; k++)
		columns((float)k, 1, [&](float c, const Pixel *line) {
			gather_one(v, seen, line, c, (float)k, fmaf(1.02f, rate, 1e-3f), sum + k);
		});
}

template <typename Pixel>
static __global__ void __launch_bounds__(THREADS) any_back(const __grid_constant__ Gathers s)
{
	__shared__ Seen seen[VIEWS];
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	const int dx = lane % 8 + warp % 2 * 8, dy = lane / 8 + warp / 2 * 4;
	const int first[3] = {
		(int)blockIdx.x * WIDE, (int)blockIdx.y * HIGH, (int)blockIdx.z * COLUMN};
	const int64_t size = (int64_t)s.strips * s.lines * STRIP;
	const Pixel *image = (const Pixel *)s.images;
	Pixel sum[COLUMN] = {};
	for (int64_t done = 0; done < s.count; done += VIEWS) {
		int count = (int)min((int64_t)VIEWS, s.count - done);
		__syncthreads();
		if (threadIdx.x < count)
			seen[threadIdx.x] = see(&s, &s.views[done + threadIdx.x], first);
		__syncthreads();
		for (int i = 0; i < 2 * count; i++, image += size) {
			const Sheets &sheets = seen[i / 2].axis[i % 2];
			if (sheets.used)
				visit(s, seen[i / 2], sheets, image, (float)(i % 2 ? dy : dx),
					(float)(i % 2 ? dx : dy), sum);
		}
	}
	const int x = first[0] + dx, y = first[1] + dy;
	if (x >= s.n[0] || y >= s.n[1])
		return;
	float *to = s.volume + ((int64_t)first[2] * s.n[1] + y) * s.n[0] + x;
	update_voxels<COLUMN, 4>(s.update, to, (int64_t)s.n[0] * s.n[1], s.n[2] - first[2],
		[&](int k) { return sum[k]; });
}

/* ---- a whole request ------------------------------------------------------------------------- */

/* Floats that a view takes of scratch. */
static int64_t view_floats(const KernelModel *model, bool pairs)
{
	int64_t columns = (model->columns + STRIP - 1) / STRIP * STRIP;
	return (model->rows + 2 * BORDER) * columns * (pairs ? 4 : 2);
}

/* Rays must not run along z rather than x or y, nor begin near the box; detector rows must follow
 * each other along z rather than across it. */
static bool view_applies(const ProjectRequest *what, const KernelView *k)
{
	const KernelModel *model = &what->plan->model;
	if (KERNEL_FANS(k) || fabs(k->v[2]) < fmax(fabs(k->v[0]), fabs(k->v[1])))
		return false;
	double least = 1e300, most = 0, last[2] = {0, 0};
	for (int corner = 0; corner < 4; corner++) {
		double d[3], c = corner & 1 ? (double)(model->columns - 1) : 0,
			     r = corner & 2 ? (double)(model->rows - 1) : 0;
		for (int a = 0; a < 3; a++)
			d[a] = !KERNEL_HAS_SOURCE(k)
				       ? k->src[a]
				       : k->first[a] + c * k->u[a] + r * k->v[a] - k->src[a];
		most = fmax(most, fabs(d[2]));
		least = fmin(least, hypot(d[0], d[1]));
		/* Seen within 90 degrees: along rows, and from one row to the other. */
		if (corner > 0 && !(d[0] * last[0] + d[1] * last[1] > 0))
			return false;
		memcpy(last, d, sizeof last);
	}
	/* Between the corners rays are shorter than at them, by less than a third. */
	if (most * sqrt(2) * 1.5 >= least)
		return false;
	for (int corner = 0; corner < 8; corner++) {
		double depth = k->depth[3];
		for (int a = 0; a < 3; a++)
			depth += k->depth[a] * (double)(corner >> a & 1 ? what->box.high[a] + WIDE
									: what->box.low[a] - 1);
		/* Nor may the depth change much within a column. */
		if (!(depth > 1e-2) || fabs(k->depth[2]) * (int)COLUMN > 0.2 * depth)
			return false;
	}
	return true;
}

static bool any_applies(const ProjectRequest *what, CudaNotes *notes)
{
	(void)notes;
	const KernelModel *model = &what->plan->model;
	if (model->planar || model->clamp || view_floats(model, true) > INT32_MAX / 2)
		return false;
	for (int64_t i = 0; i < what->count; i++)
		if (!view_applies(what, &what->plan->views[what->first + i]))
			return false;
	return true;
}

template <typename Pixel>
static tomos_status run_views(
	tomos_backend *backend, const ProjectRequest *what, const Gathers *s, int64_t first)
{
	enum { LINES = 8 };
	const float *rays = s->update.with.rays;
	const int64_t at = first * s->model.rows * s->model.columns;
	cudaStream_t stream = device_of(backend)->stream;
	make_images<Pixel>
		<<<dim3((unsigned)s->strips, cuda_blocks(s->count * s->lines, LINES, 65535)),
			dim3(STRIP, LINES), 0, stream>>>(
			*s, what->projections + at, rays ? rays + at : NULL, (Pixel *)s->images);
	CUDA_LAUNCHED("back projecting");
	any_back<Pixel>
		<<<dim3(cuda_blocks(s->n[0], WIDE, 1 << 30), cuda_blocks(s->n[1], HIGH, 65535),
			   cuda_blocks(s->n[2], COLUMN, 65535)),
			THREADS, 0, stream>>>(*s);
	CUDA_LAUNCHED("back projecting");
	return TOMOS_OK;
}

static tomos_status any_run(tomos_backend *backend, const ProjectRequest *what, const CudaNotes *,
	const CudaEpilogue *epilogue)
{
	const Plan *plan = what->plan;
	const CudaPlan *kept;
	float *images;
	VoxelUpdate update;
	Gathers s = {.grid = plan->whole,
		.model = plan->model,
		.lines = (int)plan->model.rows + 2 * BORDER,
		.strips = (int)cuda_blocks(plan->model.columns, STRIP, 1 << 30),
		.volume = what->volume};
	memcpy(s.grid.low, what->box.low, sizeof s.grid.low);
	for (int a = 0; a < 3; a++)
		s.n[a] = (int)(what->box.high[a] - what->box.low[a]);
	TRY(update_open(backend, what, epilogue, &update));
	const int64_t floats = view_floats(&plan->model, update.with.average);
	const int64_t at_once = views_at_once(backend, what, floats);
	TRY(cuda_plan(backend, plan, &kept));
	TRY(cuda_scratch(
		backend, SCRATCH_REORDERED, at_once * floats, &images, "images with a border"));
	s.images = images;
	return views_each(&update, what->count, at_once,
		[&](int64_t first, int64_t count, const VoxelUpdate &part) {
			s.views = kept->views + what->first + first;
			s.count = count;
			s.update = part;
			return (part.with.average ? run_views<float2> : run_views<float>)(backend,
				what, &s, first);
		});
}

extern const CudaKernel cuda_joseph_back_any;
const CudaKernel cuda_joseph_back_any = {any_applies, any_run, update_fuses<view_floats>};
