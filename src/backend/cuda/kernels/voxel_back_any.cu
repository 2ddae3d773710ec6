/* Voxel-driven back projection for any detector: rolled, slanted, laminography, free vectors.
 *
 * A thread has COLUMN voxels along z in registers and visits all views. Each pixel of an image is
 * stored with the differences to its neighbours, so that the four pixels around the projection of a
 * voxel are one load and three FMAs.
 */
#include "backend/cuda/kernels/update.h"

enum { WIDE = 16, HIGH = 8, COLUMN = 16, VIEWS = 64, BORDER = 2 };

#define MAGIC 12582912.f /* 1.5 * 2^23: adding it rounds to the nearest integer */

/* The value between four pixels is here + x right + y (up + x both). */
template <typename Pixel> struct alignas(4 * sizeof(Pixel)) Quad {
	Pixel here, right, up, both;
};

/* Weight of the voxels of a column: constant, a parabola through three exact weights where that
 * has float accuracy, or exact for each voxel. */
typedef enum { CONSTANT, PARABOLA, EXACT } Weighting;

typedef struct {
	const KernelView *views;
	int64_t count;
	KernelModel model;
	int64_t low[3];
	double step[3];
	int n[3];
	const void *images; /* Quad<Pixel> [view][lines][pitch], with a border of zeros */
	int pitch, lines;
	float *volume;
	VoxelUpdate update;
} Voxels;

/* What of a block's projection is inside the image. */
typedef enum { OUTSIDE, PARTLY, INSIDE } Where;

/* A view relative to the first voxel (corner) of a block. The voxel at d from the corner has depth
 * D = depth[3] + depth . d; its projection, relative to the centre of four pixels, is (u[3] + u .
 * d, v[3] + v . d) / D. */
typedef struct {
	float u[4], v[4], depth[4];
	float low_u, high_u, low_v, high_v; /* limits of the image with its border */
	float src[3];                       /* from the source to the corner, in units of length */
	float mass;
	unsigned place; /* index of the first of the four pixels, less that of MAGIC, MAGIC */
	Where where;
	bool source;
} Near;

/* ---- images ---------------------------------------------------------------------------------- */

template <typename Pixel>
static __device__ Pixel pixel_at(const Voxels &s, const float *from, const float *rays,
	int64_t view, int64_t row, int64_t column)
{
	Pixel pixel = {};
	const int64_t at = (view * s.model.rows + row) * s.model.columns + column;
	if (row >= 0 && row < s.model.rows && column >= 0 && column < s.model.columns)
		set_pixel(pixel, 1, from + at, rays ? rays + at : NULL);
	return pixel;
}

static __device__ float minus(float one, float two)
{
	return one - two;
}

static __device__ float2 minus(float2 one, float2 two)
{
	return make_float2(one.x - two.x, one.y - two.y);
}

template <typename Pixel>
static __global__ void make_quads(
	const __grid_constant__ Voxels s, const float *from, const float *rays, Quad<Pixel> *to)
{
	const int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, column = c - BORDER;
	if (c >= s.pitch)
		return;
	for (int64_t line = blockIdx.y; line < s.count * s.lines; line += gridDim.y) {
		int64_t view = line / s.lines, row = line % s.lines - BORDER;
		const Pixel here = pixel_at<Pixel>(s, from, rays, view, row, column);
		const Pixel next = pixel_at<Pixel>(s, from, rays, view, row, column + 1);
		const Pixel above = pixel_at<Pixel>(s, from, rays, view, row + 1, column);
		const Pixel last = pixel_at<Pixel>(s, from, rays, view, row + 1, column + 1);
		const Pixel right = minus(next, here);
		to[line * s.pitch + c] = {
			here, right, minus(above, here), minus(minus(last, above), right)};
	}
}

/* ---- back ------------------------------------------------------------------------------------ */

static __device__ double affine(const double f[4], const double at[3])
{
	return f[0] * at[0] + f[1] * at[1] + f[2] * at[2] + f[3];
}

/* Reference column or row of a block, near the projection f / depth of its corner: positions
 * relative to it are small, so that float is accurate. n: columns or rows of the detector. */
static __device__ double origin(double f, double depth, int64_t n)
{
	double at = depth > 0 ? floor(f / depth) : 0;
	return fmax(fmin(at, (double)n), -1.0);
}

/* From the projections of the corners of a block at `at`, all of them at positive depth. */
static __device__ Where where_of(const Voxels *s, const KernelView *k, const double at[3])
{
	const double last[2] = {(double)(s->model.columns - 1), (double)(s->model.rows - 1)};
	double low[2] = {1e300, 1e300}, high[2] = {-1e300, -1e300};
	for (int corner = 0; corner < 8; corner++) {
		const double p[3] = {at[0] + (corner & 1 ? WIDE - 1 : 0),
			at[1] + (corner & 2 ? HIGH - 1 : 0), at[2] + (corner & 4 ? COLUMN - 1 : 0)};
		const double depth = affine(k->depth, p);
		const double f[2] = {affine(k->column, p) / depth, affine(k->row, p) / depth};
		for (int i = 0; i < 2; i++) {
			low[i] = fmin(low[i], depth > 1e-6 ? f[i] : -1e300);
			high[i] = fmax(high[i], depth > 1e-6 ? f[i] : 1e300);
		}
	}
	bool inside = true, outside = false;
	for (int i = 0; i < 2; i++) {
		inside = inside && low[i] >= -1 && high[i] <= last[i];
		outside = outside || high[i] < -1.01 || low[i] > last[i] + 1.01;
	}
	return outside ? OUTSIDE : inside ? INSIDE : PARTLY;
}

static __device__ Near near_corner(const Voxels *s, const KernelView *k, const double at[3])
{
	double depth = affine(k->depth, at), u = affine(k->column, at), v = affine(k->row, at);
	double column = origin(u, depth, s->model.columns), row = origin(v, depth, s->model.rows);
	const double column_half = column + 0.5, row_half = row + 0.5;
	const unsigned magic = __float_as_uint(MAGIC);
	Near near = {.u = {0, 0, 0, (float)(u - column_half * depth)},
		.v = {0, 0, 0, (float)(v - row_half * depth)},
		.depth = {0, 0, 0, (float)depth},
		.low_u = (float)(-1 - column_half),
		.high_u = (float)((double)s->model.columns - column_half),
		.low_v = (float)(-1 - row_half),
		.high_v = (float)((double)s->model.rows - row_half),
		.mass = s->model.weight == WEIGHT_RAY ? (float)k->mass : 1,
		.place = ((unsigned)((int)row + BORDER) - magic) * (unsigned)s->pitch +
			 ((unsigned)((int)column + BORDER) - magic),
		.where = where_of(s, k, at),
		.source = KERNEL_HAS_SOURCE(k)};
	for (int a = 0; a < 3; a++) {
		near.u[a] = (float)(k->column[a] - column_half * k->depth[a]);
		near.v[a] = (float)(k->row[a] - row_half * k->depth[a]);
		near.depth[a] = (float)k->depth[a];
		near.src[a] = (float)((at[a] - k->src[a]) * s->step[a]);
	}
	return near;
}

/* A column of voxels relative to a view: numerators u, v and depth of its first voxel, square of
 * its horizontal distance from the source. */
typedef struct {
	float u, v, depth, square;
} Column;

/* Weight of a voxel at depth 1 / rate. */
template <Weighting W>
static __device__ __forceinline__ float weight_of(
	const Voxels &s, const Near &near, const Column &column, float k, float rate)
{
	if (W == CONSTANT)
		return s.model.weight == WEIGHT_DEPTH ? rate * rate : near.mass;
	const float z = fmaf(k, (float)s.step[2], near.src[2]);
	const float away = root_nearly(fmaf(z, z, column.square)) * rate * rate * rate;
	return near.source ? near.mass * away : near.mass;
}

/* w0 + k w1 + k^2 w2. */
typedef struct {
	float w0, w1, w2;
} Parabola;

static __device__ __forceinline__ Parabola parabola_of(
	const Voxels &s, const Near &near, const Column &column)
{
	const float half = (COLUMN - 1) * 0.5f;
	float w[3];
#pragma unroll
	for (int i = 0; i < 3; i++) {
		const float k = half * (float)i;
		w[i] = weight_of<EXACT>(
			s, near, column, k, inverse_nearly(fmaf(k, near.depth[2], column.depth)));
	}
	return Parabola{w[0], (4 * w[1] - 3 * w[0] - w[2]) * (0.5f / half),
		(w[2] - 2 * w[1] + w[0]) * (0.5f / (half * half))};
}

/* LEVEL: the depth of a voxel does not depend on z. */
template <Weighting W, bool LEVEL, bool CLAMP, typename Pixel>
static __device__ __forceinline__ void visit_column(const Voxels &s, const Near &near,
	const Column &column, const Quad<Pixel> *image, Pixel sum[COLUMN])
{
	const float level = inverse_nearly(column.depth);
	const float u0 = LEVEL ? column.u * level : column.u,
		    v0 = LEVEL ? column.v * level : column.v;
	const float du = LEVEL ? near.u[2] * level : near.u[2];
	const float dv = LEVEL ? near.v[2] * level : near.v[2];
	const Parabola w = W == PARABOLA ? parabola_of(s, near, column) : Parabola{};
#pragma unroll
	for (int k = 0; k < COLUMN; k++) {
		const float z = (float)k, d = fmaf(z, near.depth[2], column.depth);
		const float rate = LEVEL ? level : inverse_nearly(d);
		float u = fmaf(z, du, u0) * (LEVEL ? 1 : rate),
		      v = fmaf(z, dv, v0) * (LEVEL ? 1 : rate);
		u = CLAMP ? fminf(fmaxf(u, near.low_u), near.high_u) : u;
		v = CLAMP ? fminf(fmaxf(v, near.low_v), near.high_v) : v;
		const float near_u = __fadd_rn(u, MAGIC), near_v = __fadd_rn(v, MAGIC);
		const Quad<Pixel> quad = image[(int)(__float_as_uint(near_v) * (unsigned)s.pitch +
						     __float_as_uint(near_u) + near.place)];
		/* Positions are relative to the centre of the four pixels. */
		const float x = u - (__fadd_rn(near_u, -MAGIC) - 0.5f);
		const float y = v - (__fadd_rn(near_v, -MAGIC) - 0.5f);
		float weight = W == PARABOLA ? fmaf(z, fmaf(z, w.w2, w.w1), w.w0)
					     : weight_of<W>(s, near, column, z, rate);
		weight = CLAMP && !(d > 0) ? 0 : weight;
		Pixel value = quad.here, slope = quad.up;
		accumulate(value, x, quad.right);
		accumulate(slope, x, quad.both);
		accumulate(value, y, slope);
		accumulate(sum[k], weight, value);
	}
}

template <Weighting W, bool LEVEL, typename Pixel>
static __device__ __forceinline__ void visit(const Voxels &s, const Near &near,
	const Quad<Pixel> *image, float dx, float dy, Pixel sum[COLUMN])
{
	Column column = {fmaf(near.u[0], dx, fmaf(near.u[1], dy, near.u[3])),
		fmaf(near.v[0], dx, fmaf(near.v[1], dy, near.v[3])),
		fmaf(near.depth[0], dx, fmaf(near.depth[1], dy, near.depth[3])), 0};
	if (W != CONSTANT) {
		float x = fmaf(dx, (float)s.step[0], near.src[0]),
		      y = fmaf(dy, (float)s.step[1], near.src[1]);
		column.square = fmaf(x, x, y * y);
	}
	if (near.where == INSIDE)
		visit_column<W, LEVEL, false>(s, near, column, image, sum);
	else if (near.where == PARTLY)
		visit_column<W, LEVEL, true>(s, near, column, image, sum);
}

template <Weighting W, bool LEVEL, typename Pixel>
static __global__ void __launch_bounds__(WIDE *HIGH, 4) any_back(const __grid_constant__ Voxels s)
{
	__shared__ Near near[VIEWS];
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32; /* a warp has 8 x 4 columns */
	const int dx = lane % 8 + warp % 2 * 8, dy = lane / 8 + warp / 2 * 4;
	const int x0 = blockIdx.x * WIDE, y0 = blockIdx.y * HIGH, z0 = blockIdx.z * COLUMN;
	const int x = x0 + dx, y = y0 + dy;
	const double corner[3] = {
		(double)(s.low[0] + x0), (double)(s.low[1] + y0), (double)(s.low[2] + z0)};
	const Quad<Pixel> *image = (const Quad<Pixel> *)s.images;
	Pixel sum[COLUMN] = {};
	for (int64_t first = 0; first < s.count; first += VIEWS) {
		int views = (int)min((int64_t)VIEWS, s.count - first);
		__syncthreads();
		for (int i = threadIdx.x; i < views; i += WIDE * HIGH)
			near[i] = near_corner(&s, &s.views[first + i], corner);
		__syncthreads();
		for (int i = 0; i < views; i++, image += (int64_t)s.pitch * s.lines)
			visit<W, LEVEL>(s, near[i], image, (float)dx, (float)dy, sum);
	}
	if (x >= s.n[0] || y >= s.n[1])
		return;
	float *to = s.volume + ((int64_t)z0 * s.n[1] + y) * s.n[0] + x;
	update_voxels<COLUMN, 4>(
		s.update, to, (int64_t)s.n[0] * s.n[1], s.n[2] - z0, [&](int k) { return sum[k]; });
}

/* ---- a whole request ------------------------------------------------------------------------- */

static int64_t row_pixels(const KernelModel *model)
{
	return model->columns + 2 * BORDER;
}

/* Floats of scratch memory per view; pairs: with ray weights. */
static int64_t view_floats(const KernelModel *model, bool pairs)
{
	return row_pixels(model) * (model->rows + 2 * BORDER) * (pairs ? 8 : 4);
}

typedef struct {
	bool level; /* the depth of a voxel does not depend on z */
	bool far;   /* a parabola through three weights of a column has float accuracy */
} Notes;

/* Both hold for all views. */
static void find_notes(const ProjectRequest *what, Notes *found)
{
	const Plan *plan = what->plan;
	const double size = (double)(plan->model.rows + plan->model.columns);
	*found = Notes{true, true};
	for (int64_t i = 0; i < what->count; i++) {
		const KernelView *k = &plan->views[what->first + i];
		double least = 1e300;
		for (int corner = 0; corner < 4; corner++) {
			double x = (double)(corner & 1 ? what->box.high[0] : what->box.low[0]);
			double y = (double)(corner & 2 ? what->box.high[1] : what->box.low[1]);
			for (int a = 0; a < 2; a++) {
				double z = (double)(a ? what->box.high[2] : what->box.low[2]);
				least = fmin(least, k->depth[0] * x + k->depth[1] * y +
							    k->depth[2] * z + k->depth[3]);
			}
		}
		const double tilt = fabs(k->depth[2]) / fmax(least, 1e-6);
		found->level =
			found->level && tilt * (double)plan->grid.n[2] * size < RAY_TOLERANCE;
		found->far = found->far && least > 0 && source_distance(what, k) > 200 &&
			     tilt * (int)COLUMN < 0.02;
	}
}

/* Not for a fan per row, where the depth does not divide the row. */
static bool any_applies(const ProjectRequest *what, CudaNotes *notes)
{
	const KernelModel *model = &what->plan->model;
	const int source = what->plan->rays.source;
	if (model->clamp || model->nearest || model->planar || view_floats(model, true) > 1 << 30 ||
		!(source == TOMOS_POINT || source == TOMOS_PARALLEL))
		return false;
	find_notes(what, notes_of<Notes>(notes));
	return true;
}

template <bool LEVEL, typename Pixel> static auto kernel_of(const Voxels *s, bool far)
{
	return s->model.weight != WEIGHT_RAY ? any_back<CONSTANT, LEVEL, Pixel>
	       : far                         ? any_back<PARABOLA, LEVEL, Pixel>
					     : any_back<EXACT, LEVEL, Pixel>;
}

/* Back projects the views from `first` on. */
template <typename Pixel>
static tomos_status run_views(tomos_backend *backend, const ProjectRequest *what, const Voxels *s,
	int64_t first, const Notes *found)
{
	const KernelModel *model = &s->model;
	cudaStream_t stream = device_of(backend)->stream;
	const int64_t at = first * model->rows * model->columns;
	const float *rays = s->update.with.rays;
	make_quads<Pixel><<<dim3(cuda_blocks(s->pitch, 128, 1 << 30),
				    cuda_blocks(s->count * s->lines, 1, 65535)),
		128, 0, stream>>>(
		*s, what->projections + at, rays ? rays + at : NULL, (Quad<Pixel> *)s->images);
	dim3 blocks(cuda_blocks(s->n[0], WIDE, 1 << 30), cuda_blocks(s->n[1], HIGH, 65535),
		cuda_blocks(s->n[2], COLUMN, 65535));
	(found->level ? kernel_of<true, Pixel>(s, found->far)
		      : kernel_of<false, Pixel>(s, found->far))<<<blocks, WIDE * HIGH, 0, stream>>>(
		*s);
	CUDA_LAUNCHED("back projecting");
	return TOMOS_OK;
}

static tomos_status any_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	const Plan *plan = what->plan;
	const CudaPlan *kept;
	VoxelUpdate update;
	float *images;
	Voxels s = {.model = plan->model,
		.pitch = (int)row_pixels(&plan->model),
		.lines = (int)plan->model.rows + 2 * BORDER,
		.volume = what->volume};
	for (int a = 0; a < 3; a++) {
		s.low[a] = what->box.low[a];
		s.n[a] = (int)(what->box.high[a] - what->box.low[a]);
		s.step[a] = plan->whole.step[a];
	}
	TRY(update_open(backend, what, epilogue, &update));
	int64_t floats = view_floats(&plan->model, update.with.average);
	int64_t at_once = views_at_once(backend, what, floats);
	TRY(cuda_plan(backend, plan, &kept));
	TRY(cuda_scratch(
		backend, SCRATCH_REORDERED, at_once * floats, &images, "pixels with differences"));
	s.images = images;
	return views_each(&update, what->count, at_once,
		[&](int64_t first, int64_t count, const VoxelUpdate &part) {
			s.views = kept->views + what->first + first;
			s.count = count;
			s.update = part;
			return (part.with.average ? run_views<float2> : run_views<float>)(backend,
				what, &s, first, notes_of<Notes>(notes));
		});
}

extern const CudaKernel cuda_voxel_back_any;
const CudaKernel cuda_voxel_back_any = {any_applies, any_run, update_fuses<view_floats>};
