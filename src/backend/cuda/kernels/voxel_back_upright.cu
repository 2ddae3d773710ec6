/* Voxel-driven back projection for upright detectors: a column of voxels along z projects onto one
 * detector column. Circular cone beam, stacks of fans and parallel beam, with any angles, offsets
 * and distances.
 *
 * A thread has COLUMN voxels along z in registers and visits all views. Each detector row is
 * interpolated across columns once and used for the voxels on both sides of it: about two loads per
 * update instead of four, with the arithmetic of the reference kernel in float. Okitsu et al. 2010
 * keep several views in registers; this kernel keeps the rows of one view.
 */
#include "backend/cuda/kernels/affine.h"
#include "backend/cuda/kernels/points.h"

enum { WIDE = 16, HIGH = 8, COLUMN = 16, LOW = 8, LOWEST = 4, VIEWS = 64, BORDER = 2 };

/* Template arguments. N: voxels per column, COLUMN or, for few slices, LOW, LOWEST or 1. RAYS:
 * weights depend on the distance from a point source and differ between voxels. SLICES: in-slice
 * fans, so that voxel k of a column is on the k-th row after that of the first voxel. */

typedef struct {
	const KernelView *views;
	int64_t count;
	KernelModel model;
	int64_t low[3];
	double step[3];
	int n[3];
	const void *images; /* [view][row][pitch], with a border of zeros */
	int64_t pitch, image;
	float *volume;
	VoxelUpdate update;
} Columns;

/* A view relative to the first voxel (corner) of a block. The voxel at (dx, dy) from the corner
 * has depth D = df + da dx + db dy and projects to column u0 + (uf + ua dx + ub dy) / D and row v0
 * + (vf + va dx + vb dy) / D; per voxel along z the row increases by vc / D. */
typedef struct {
	int u0, v0;
	float uf, ua, ub, vf, va, vb, vc, df, da, db;
	float weight;
	bool close;   /* to the source: depths vary too much within the block for floats */
	bool fans;    /* the row is not divided by D, and rays are level */
	float src[3]; /* from the source to the corner, in units of length */
} Near;

/* ---- the border ------------------------------------------------------------------------------ */

template <typename Pixel>
static __global__ void frame_images(
	const __grid_constant__ Columns s, const float *from, const float *rays, Pixel *to)
{
	int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, column = c - BORDER;
	const int64_t high = s.model.rows + 2 * BORDER;
	if (c >= s.pitch)
		return;
	for (int64_t line = blockIdx.y; line < s.count * high; line += gridDim.y) {
		int64_t view = line / high, row = line % high - BORDER;
		int64_t at = (view * s.model.rows + row) * s.model.columns + column;
		bool inside =
			column >= 0 && column < s.model.columns && row >= 0 && row < s.model.rows;
		Pixel pixel = {};
		if (inside)
			set_pixel(pixel, 1, from + at, rays ? rays + at : NULL);
		to[line * s.pitch + c] = pixel;
	}
}

/* ---- back ------------------------------------------------------------------------------------ */

static __device__ Near near_corner(const Columns *s, const KernelView *k, const double at[3])
{
	double depth = affine(k->depth, at), u = affine(k->column, at), v = affine(k->row, at);
	bool planar = s->model.planar; /* one row only */
	v = planar ? 0 : v;
	double u0 = fmax(fmin(floor(u / depth), 1e6), -1e6);
	bool fans = KERNEL_FANS(k);
	double lower = fans ? 1 : depth, bend = fans ? 0 : 1;
	/* For fans, rows are integers up to rounding. */
	double v0 = fmax(fmin(floor(v / lower + (fans ? 1e-5 : 0)), 1e6), -1e6);
	Near near = {.u0 = (int)u0,
		.v0 = (int)v0,
		.uf = (float)(u - u0 * depth),
		.ua = (float)(k->column[0] - u0 * k->depth[0]),
		.ub = (float)(k->column[1] - u0 * k->depth[1]),
		.vf = (float)(v - v0 * lower),
		.va = planar ? 0 : (float)(k->row[0] - bend * v0 * k->depth[0]),
		.vb = planar ? 0 : (float)(k->row[1] - bend * v0 * k->depth[1]),
		.vc = planar ? 0 : (float)k->row[2],
		.df = (float)depth,
		.da = (float)k->depth[0],
		.db = (float)k->depth[1],
		.weight = s->model.weight == WEIGHT_RAY ? (float)k->mass : 1,
		.fans = fans};
	const double across = WIDE * fabs(k->depth[0]) + HIGH * fabs(k->depth[1]);
	near.close = depth < 2 * across;
	for (int a = 0; a < 3; a++)
		near.src[a] = (float)((at[a] - k->src[a]) * s->step[a]);
	return near;
}

/* A voxel in a view: its depth, its column u0 + u and the square of its horizontal distance from
 * the source. */
typedef struct {
	float depth, u, square;
	int u0;
} Place;

static __device__ __noinline__ Place place_exactly(
	const Columns *s, const KernelView *k, const double at[3])
{
	const double depth = affine(k->depth, at), u = affine(k->column, at) / depth;
	const double x = (at[0] - k->src[0]) * s->step[0], y = (at[1] - k->src[1]) * s->step[1];
	const double u0 = fmax(fmin(floor(u), 1e6), -1e6);
	return Place{(float)depth, (float)(u - u0), (float)(x * x + y * y), (int)u0};
}

static __device__ __forceinline__ Place place_voxel(const Columns *s, const KernelView *k,
	const Near &v, const double corner[3], float dx, float dy)
{
	const float depth = fmaf(v.da, dx, fmaf(v.db, dy, v.df));
	const float x = fmaf(dx, (float)s->step[0], v.src[0]),
		    y = fmaf(dy, (float)s->step[1], v.src[1]);
	const double at[3] = {corner[0] + (double)dx, corner[1] + (double)dy, corner[2]};
	if (v.close)
		return place_exactly(s, k, at);
	return Place{depth, fmaf(v.ua, dx, fmaf(v.ub, dy, v.uf)) * __frcp_rn(depth),
		fmaf(x, x, y * y), v.u0};
}

/* Value between two neighbouring columns of a row; right: fraction of the second. */
template <typename Pixel> static __device__ __forceinline__ Pixel mix(const Pixel *at, float right)
{
	return interpolate(right, __ldg(at), __ldg(at + 1));
}

/* In-slice fans: one interpolated row per voxel. */
template <int N, typename Pixel>
static __device__ __forceinline__ void visit_slices(const Columns *s, const Pixel *column, int row,
	int sign, float right, float weight, Pixel sum[N])
{
	int last = row + sign * (N - 1), rows = (int)s->model.rows;
	if (min(row, last) >= 0 && max(row, last) < rows) {
		const Pixel *line = column + row * s->pitch;
#pragma unroll
		for (int k = 0; k < N; k++, line += sign * s->pitch)
			accumulate(sum[k], weight, mix(line, right));
		return;
	}
#pragma unroll
	for (int k = 0; k < N; k++) {
		int r = row + k * sign;
		if (r >= 0 && r < rows)
			accumulate(sum[k], weight, mix(column + r * s->pitch, right));
	}
}

/* Weight of the voxels of a column: weight times the length of the ray. square, rise: horizontal
 * (squared) and vertical distance of voxel 0 from the source; step: height of a voxel. */
typedef struct {
	float weight, square, rise, step;
} Weight;

template <bool RAYS> static __device__ __forceinline__ float weight_of(const Weight &w, int k)
{
	float z = fmaf((float)k, w.step, w.rise);
	return RAYS ? w.weight * root_nearly(fmaf(z, z, w.square)) : w.weight;
}

/* One voxel at a time, for columns that leave the detector and rates that no variant of Points
 * fits. */
template <bool RAYS, int N, typename Pixel>
static __device__ __forceinline__ void visit_rows(const Pixel *column, int64_t pitch, float row,
	float climb, float lowest, float highest, float right, const Weight &w, Pixel sum[N])
{
#pragma unroll
	for (int k = 0; k < N; k++) {
		float at = fminf(fmaxf(fmaf((float)k, climb, row), lowest), highest);
		float below = floorf(at);
		const Pixel *line = column + (int)below * pitch;
		accumulate(sum[k], weight_of<RAYS>(w, k),
			interpolate(at - below, mix(line, right), mix(line + pitch, right)));
	}
}

template <bool RAYS, bool SLICES, int N, typename Pixel>
static __device__ __forceinline__ void visit(const Columns *s, const KernelView *k,
	const Near *near, const double corner[3], const Pixel *image, float dx, float dy,
	Pixel sum[N])
{
	const Near v = *near;
	const Place place = place_voxel(s, k, v, corner, dx, dy);
	if (!(place.depth > 0))
		return;
	const float rate = __frcp_rn(place.depth), rise = RAYS ? v.src[2] : 0;
	/* Positions beyond the border of zeros are clamped to it. */
	const float u = fminf(
		fmaxf(place.u, (float)(-BORDER - place.u0)), (float)(s->model.columns - place.u0));
	float left = floorf(u), right = u - left;
	float lower = v.fans ? 1 : rate; /* 1 / divisor of rows */
	float row = fmaf(v.va, dx, fmaf(v.vb, dy, v.vf)) * lower, climb = v.vc * lower;
	const Pixel *column = image + (place.u0 + (int)left + BORDER) + (v.v0 + BORDER) * s->pitch;
	float lowest = (float)(-BORDER - v.v0), highest = (float)(s->model.rows - v.v0);
	float weight = v.weight;
	if (RAYS) {
		weight *= rate * rate * (s->model.planar ? 1 : lower);
	} else if (s->model.weight == WEIGHT_DEPTH) {
		weight = rate * rate;
	}
	if (SLICES) {
		visit_slices<N>(s, image + (place.u0 + (int)left + BORDER) + BORDER * s->pitch,
			v.v0, v.vc > 0 ? 1 : -1, right,
			RAYS ? weight * root_nearly(place.square) : weight, sum);
		return;
	}
	const Weight w = {weight, place.square, v.fans ? 0 : rise, v.fans ? 0 : (float)s->step[2]};
	const float end = fmaf((float)(N - 1), climb, row);
	if (fmaxf(row, end) < lowest || fminf(row, end) > highest)
		return;
	/* Samples are from three rows below the first voxel to four above the last. */
	bool inside = N >= LOW && fminf(row, end) >= lowest + 3 && fmaxf(row, end) < highest - 3;
	const int kind = inside ? points_kind(climb, climb) : -1;
	if constexpr (N >= LOW)
		points_visit(kind, [&](auto points) {
			typedef decltype(points) P;
#pragma unroll
			for (int first = 0; first < N; first += P::N) {
				const float t = fmaf((float)first, climb, row),
					    whole = P::first(t, climb - 0.5f * P::G);
				const Pixel *line = column + (int)whole * s->pitch;
				Pixel q[P::SAMPLES];
#pragma unroll
				for (int i = 0; i < P::SAMPLES; i++)
					q[i] = mix(line + i * s->pitch, right);
				P::interpolate(q, t - whole, climb - 0.5f * P::G,
					[&](int k, const Pixel &value) {
						accumulate(sum[first + k],
							weight_of<RAYS>(w, first + k), value);
					});
			}
		});
	if (kind < 0)
		visit_rows<RAYS, N>(column, s->pitch, row, climb, lowest, highest, right, w, sum);
}

template <bool RAYS, bool SLICES, int N, typename Pixel>
static __global__ void __launch_bounds__(WIDE *HIGH) column_back(const __grid_constant__ Columns s)
{
	__shared__ Near near[VIEWS];
	const int x0 = blockIdx.x * WIDE, y0 = blockIdx.y * HIGH, z0 = blockIdx.z * N;
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32; /* a warp has 8 x 4 columns */
	const int dx = lane % 8 + warp % 2 * 8, dy = lane / 8 + warp / 2 * 4;
	const int x = x0 + dx, y = y0 + dy;
	const double corner[3] = {
		(double)(s.low[0] + x0), (double)(s.low[1] + y0), (double)(s.low[2] + z0)};
	const Pixel *images = (const Pixel *)s.images;
	Pixel sum[N] = {};
	for (int64_t first = 0; first < s.count; first += VIEWS) {
		int views = (int)min((int64_t)VIEWS, s.count - first);
		__syncthreads();
		for (int i = threadIdx.x; i < views; i += WIDE * HIGH)
			near[i] = near_corner(&s, &s.views[first + i], corner);
		__syncthreads();
		for (int i = 0; i < views; i++)
			visit<RAYS, SLICES, N>(&s, &s.views[first + i], &near[i], corner,
				images + (first + i) * s.image, (float)dx, (float)dy, sum);
	}
	if (x >= s.n[0] || y >= s.n[1])
		return;
	float *to = s.volume + ((int64_t)z0 * s.n[1] + y) * s.n[0] + x;
	constexpr int UNROLLED = N < 4 ? N : 4;
	update_voxels<N, UNROLLED>(
		s.update, to, (int64_t)s.n[0] * s.n[1], s.n[2] - z0, [&](int k) { return sum[k]; });
}

/* ---- a whole request ------------------------------------------------------------------------- */

static bool column_applies(const ProjectRequest *what, CudaNotes *notes)
{
	bool *in_slices = notes_of<bool>(notes);
	const Plan *plan = what->plan;
	const RayClass *rays = &plan->rays;
	bool fans = rays->source == TOMOS_FAN_PER_ROW;
	*in_slices = !plan->model.planar && fans && rays_are(rays, RAYS_IN_SLICE);
	if (plan->model.clamp || plan->model.nearest || rays->source == SOURCES_MIXED)
		return false;
	/* For tilted fans, each voxel of a column has another source. */
	return rays_are(rays, fans ? RAYS_IN_SHEET | RAYS_LEVEL : RAYS_IN_SHEET);
}

/* Row pitch of a view with its border, in pixels. */
static int64_t row_pixels(const KernelModel *model)
{
	return (model->columns + 2 * BORDER + 3) / 4 * 4;
}

/* Floats of scratch memory per view; pairs: each pixel is a float2 of value and weight. */
static int64_t view_floats(const KernelModel *model, bool pairs)
{
	return row_pixels(model) * (model->rows + 2 * BORDER) * (pairs ? 2 : 1);
}

typedef void (*ColumnKernel)(const Columns s);

/* Voxels per column for n slices. */
static int column_size(int n, bool in_slices)
{
	return n == 1 ? 1 : in_slices || n > (int)LOW ? COLUMN : n <= (int)LOWEST ? LOWEST : LOW;
}

template <int N, typename Pixel> static ColumnKernel column_kernel(bool rays)
{
	return rays ? column_back<true, false, N, Pixel> : column_back<false, false, N, Pixel>;
}

template <typename Pixel> static ColumnKernel kernel_of(bool in_slices, int size, bool rays)
{
	if (in_slices && size == COLUMN)
		return rays ? column_back<true, true, COLUMN, Pixel>
			    : column_back<false, true, COLUMN, Pixel>;
	return (size == 1        ? column_kernel<1, Pixel>
		: size == LOWEST ? column_kernel<LOWEST, Pixel>
		: size == LOW    ? column_kernel<LOW, Pixel>
				 : column_kernel<COLUMN, Pixel>)(rays);
}

/* Back projects the views from `first` on. */
template <typename Pixel>
static tomos_status run_views(tomos_backend *backend, const ProjectRequest *what, const Columns *s,
	int64_t first, bool in_slices)
{
	const KernelModel *model = &s->model;
	cudaStream_t stream = device_of(backend)->stream;
	const int64_t at = first * model->rows * model->columns;
	const float *rays = s->update.with.rays;
	frame_images<Pixel><<<dim3(cuda_blocks(s->pitch, 128, 1 << 30),
				      cuda_blocks(s->count * (model->rows + 2 * BORDER), 1, 65535)),
		128, 0, stream>>>(
		*s, what->projections + at, rays ? rays + at : NULL, (Pixel *)s->images);
	const bool source = what->plan->rays.source != TOMOS_PARALLEL;
	const int size = column_size(s->n[2], in_slices);
	dim3 blocks(cuda_blocks(s->n[0], WIDE, 1 << 30), cuda_blocks(s->n[1], HIGH, 65535),
		cuda_blocks(s->n[2], size, 65535));
	kernel_of<Pixel>(in_slices, size,
		model->weight == WEIGHT_RAY && source)<<<blocks, WIDE * HIGH, 0, stream>>>(*s);
	CUDA_LAUNCHED("back projecting");
	return TOMOS_OK;
}

static tomos_status column_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	const Plan *plan = what->plan;
	const CudaPlan *kept;
	VoxelUpdate update;
	float *framed;
	Columns s = {.model = plan->model, .volume = what->volume};
	for (int a = 0; a < 3; a++) {
		s.low[a] = what->box.low[a];
		s.n[a] = (int)(what->box.high[a] - what->box.low[a]);
		s.step[a] = plan->whole.step[a];
	}
	TRY(update_open(backend, what, epilogue, &update));
	int64_t floats = view_floats(&plan->model, update.with.average);
	int64_t at_once = views_at_once(backend, what, floats);
	s.pitch = row_pixels(&plan->model);
	s.image = view_floats(&plan->model, false);
	TRY(cuda_plan(backend, plan, &kept));
	TRY(cuda_scratch(
		backend, SCRATCH_REORDERED, at_once * floats, &framed, "images with a border"));
	s.images = framed;
	return views_each(&update, what->count, at_once,
		[&](int64_t first, int64_t count, const VoxelUpdate &part) {
			s.views = kept->views + what->first + first;
			s.count = count;
			s.update = part;
			return (part.with.average ? run_views<float2> : run_views<float>)(backend,
				what, &s, first, *notes_of<bool>(notes));
		});
}

extern const CudaKernel cuda_voxel_back_upright;
const CudaKernel cuda_voxel_back_upright = {column_applies, column_run, update_fuses<view_floats>};
