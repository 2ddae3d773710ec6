/* Joseph's back projection in cone beams with upright detectors (upright.h): each voxel gathers
 * from the rays around its own projection, so results are reproducible.
 *
 * Each thread computes a column of voxels along z. In a view this column projects onto detector
 * column u, which need not be an integer. All rays of detector column c are in one plane parallel
 * to z, the sheet of c. Let
 *   - s = c - u;
 *   - A: distance from the source to the voxels along the sheet's dominant axis (x or y);
 *   - D: depth of the voxels, 0 at the source and 1 at the detector;
 *   - u_a: step from one detector column to the next along the dominant axis;
 *   - m: number of columns by which the projection moves per voxel along the minor axis;
 *   - e = s u_a D / A: along the dominant axis, detector column c is 1 + e times as far from the
 *     source as column u.
 *
 * The sheet passes the voxels at distance s / (m (1 + e)), in voxels, which gives the weight across
 * the sheet. In the sheet, the row of a voxel is 1 + e times as far from the row of the source as
 * in its own projection. So each sheet costs a few float instructions.
 *
 * Along z, voxels are processed in spans. The row is rounded to an integer only for the first voxel
 * of a span: voxel k of the span is within one row of the k-th row after it, and reads that row and
 * its two neighbours with weights of one addition each.
 */
#include "backend/cuda/kernels/update.h"
#include "backend/cuda/kernels/upright.h"

/* Voxels per thread: TALL or LOW, by the height of the box. Voxels per span: LONG, or SHORT
 * where the distance of rows differs more from one voxel. */
enum { TALL = 32, LOW = 16, LONG = 8, SHORT = 2 };
#define SHORT_GAP 0.755 /* least distance of rows, in voxels, for SHORT spans */

enum {
	WIDE = 16, /* columns of voxels per block: WIDE x HIGH; per warp 8 x 4 */
	HIGH = 8,
	VIEWS = 64,        /* views set up by a block at once */
	STRIP = 32,        /* adjacent columns of an image; all images have the same row pitch */
	BORDER = LONG + 2, /* rows of zeros above and below an image: a span and its neighbours */
	THREADS = WIDE * HIGH,
	MIXED = 2 /* value of Seen.axis: neither x nor y is the dominant axis of all sheets */
};

#define MAGIC 12582912.f /* 1.5 * 2^23: adding it rounds to the nearest integer */

/* A view relative to the first voxel (corner) of a block. The voxel at (dx, dy) from the corner
 * has depth D = df + da dx + db dy. Its projection, relative to the integers `column` and `row`, is
 * (uf + ua dx + ub dy, vf + va dx + vb dy) / D; per voxel along z the row increases by vc / D. gap:
 * distance of rows at D = 1, in voxels. */
typedef struct __align__(16)
{
	float uf, ua, ub, df, da, db, vf, va, vb, vc, gap;
	float away[2];            /* x and y from the source to the corner */
	float step[2];            /* x and y from one detector column to the next */
	float horizon, low, high; /* relative to `row`: row of the source; range of rows to read */
	int column, line;         /* line: `row` counted with the border */
	int axis;
}
Seen;

typedef struct {
	KernelGrid grid;
	KernelModel model;
	const KernelView *views;
	int64_t count;
	float reach, margin; /* most columns to either side; upper bound of 1 + |e| */
	int n[3], lines, strips;
	const void *images; /* [view][strip][line][column]; each pixel times its ray's step
	                     * length */
	float *volume;
	VoxelUpdate update;
} Shadow;

static __device__ int axis_of(const Shadow *s, const KernelView *k, int64_t column)
{
	return path_of(&s->grid, &s->model, k, 0, column).axis;
}

/* ---- images ---------------------------------------------------------------------------------- */

template <typename Pixel>
static __global__ void make_images(
	const __grid_constant__ Shadow s, const float *from, const float *rays, Pixel *to)
{
	const int64_t column = (int64_t)blockIdx.x * STRIP + threadIdx.x;
	const int64_t lines = s.count * s.lines;
	for (int64_t i = (int64_t)blockIdx.y * blockDim.y + threadIdx.y; i < lines;
		i += (int64_t)gridDim.y * blockDim.y) {
		int64_t view = i / s.lines, line = i % s.lines, row = line - BORDER;
		int64_t at = (view * s.model.rows + row) * s.model.columns + column;
		const KernelView *k = &s.views[view];
		Pixel pixel = {};
		if (column < s.model.columns && row >= 0 && row < s.model.rows)
			set_pixel(pixel, step_of(&s.grid, k, row, column, axis_of(&s, k, column)),
				from + at, rays ? rays + at : NULL);
		to[((view * s.strips + blockIdx.x) * s.lines + line) * STRIP + threadIdx.x] = pixel;
	}
}

/* ---- back ------------------------------------------------------------------------------------ */

static __device__ double affine(const double f[4], double x, double y, double z)
{
	return f[0] * x + f[1] * y + f[2] * z + f[3];
}

/* Dominant axis of all sheets that voxels of the block can meet, or MIXED. If the first and the
 * last sheet have the same axis and are less than 90 degrees apart, all between them have it. */
static __device__ int block_axis(const Shadow *s, const KernelView *k, double left, double right)
{
	const double end = (double)(s->model.columns - 1);
	int64_t first = (int64_t)fmin(fmax(floor(left - s->reach), 0.0), end);
	int64_t last = (int64_t)fmin(fmax(ceil(right + s->reach), 0.0), end);
	int one = axis_of(s, k, first), other = axis_of(s, k, last);
	return one == other ? one : MIXED;
}

static __device__ Seen see(const Shadow *s, const KernelView *k, int x0, int y0, int z0)
{
	double x = (double)(s->grid.low[0] + x0), y = (double)(s->grid.low[1] + y0),
	       z = (double)(s->grid.low[2] + z0), left = 1e9, right = -1e9;
	for (int corner = 0; corner < 4; corner++) {
		double cx = x + (corner & 1 ? WIDE - 1 : 0), cy = y + (corner & 2 ? HIGH - 1 : 0);
		double u = affine(k->column, cx, cy, z) / affine(k->depth, cx, cy, z);
		left = fmin(left, u);
		right = fmax(right, u);
	}
	double depth = affine(k->depth, x, y, z), row = rint(affine(k->row, x, y, z) / depth);
	double column = rint(left);
	Seen seen = {.uf = (float)(affine(k->column, x, y, z) - column * depth),
		.ua = (float)(k->column[0] - column * k->depth[0]),
		.ub = (float)(k->column[1] - column * k->depth[1]),
		.df = (float)depth,
		.da = (float)k->depth[0],
		.db = (float)k->depth[1],
		.vf = (float)(affine(k->row, x, y, z) - row * depth),
		.va = (float)(k->row[0] - row * k->depth[0]),
		.vb = (float)(k->row[1] - row * k->depth[1]),
		.vc = (float)k->row[2],
		.gap = (float)k->v[2],
		.away = {(float)(x - k->src[0]), (float)(y - k->src[1])},
		.step = {(float)k->u[0], (float)k->u[1]},
		.horizon = (float)((k->src[2] - k->first[2]) / k->v[2] - row),
		.low = (float)(1 - BORDER - row),
		.high = (float)((double)s->model.rows + 1 - row),
		.column = (int)column,
		.line = (int)row + BORDER,
		.axis = block_axis(s, k, left, right)};
	return seen;
}

/* A sheet relative to a column of voxels: voxel j projects to row `row` + j `rate`; rows are
 * `gap` voxels apart at the voxels; weight: across the sheet. */
typedef struct {
	float row, rate, gap, weight;
} Sheet;

/* Whether every voxel k of a span is within one row of the k-th row after the first, so that
 * only that row and its neighbours have weights above zero. */
template <int SPAN> static __device__ __forceinline__ bool fits(float rate)
{
	const float half = (SPAN - 1) * 0.5f;
	return rate > 1 - 0.49f / half && rate < (1.49f + half) / (1 + half);
}

template <int SPAN, int N, typename Pixel>
static __device__ __forceinline__ void climb(
	const Seen &seen, const Sheet &sheet, const Pixel *line, Pixel sum[N])
{
	const float more = 1 - sheet.gap, half = (SPAN - 1) * 0.5f * (sheet.rate - 1);
#pragma unroll
	for (int first = 0; first < N; first += SPAN) {
		float t = fmaf((float)first, sheet.rate, sheet.row);
		float rounded = __fadd_rn(fminf(fmaxf(t + half, seen.low), seen.high), MAGIC);
		float e = sheet.gap * (t - __fadd_rn(rounded, -MAGIC));
		const Pixel *at = line + (__float_as_int(rounded) - __float_as_int(MAGIC)) * STRIP;
		Pixel q[SPAN + 2];
#pragma unroll
		for (int k = 0; k < SPAN + 2; k++)
			q[k] = __ldg(at + (k - 1) * STRIP);
#pragma unroll
		for (int k = 0; k < SPAN; k++) {
			Pixel value = {};
			accumulate(
				value, __saturatef(1 - fabsf(fmaf((float)k, more, e))), q[k + 1]);
			accumulate(value, fma_saturate((float)(1 - k), more, -e), q[k]);
			accumulate(value, fma_saturate((float)(1 + k), more, e), q[k + 2]);
			accumulate(sum[first + k], sheet.weight, value);
		}
	}
}

/* Projection of the lowest voxel of a column: depth, column u and row; change of u per voxel
 * along x, y. */
typedef struct {
	float depth, u, row, move[2];
} Foot;

/* Terms common to all sheets of one dominant axis, relative to a column of voxels. */
typedef struct {
	float farther, away; /* per detector column: e, and the distance in voxels (1 / m) */
} Slant;

static __device__ __forceinline__ Slant slant_of(
	const Seen &seen, const Foot &foot, int axis, float dx, float dy)
{
	float step = axis == 0 ? seen.step[0] : seen.step[1];
	float plane = axis == 0 ? seen.away[0] + dx : seen.away[1] + dy;
	float move = axis == 0 ? foot.move[1] : foot.move[0];
	return Slant{step * foot.depth * inverse_nearly(plane), inverse_nearly(move)};
}

template <int N, typename Pixel>
static __device__ __forceinline__ void visit(const Shadow &s, const Seen &seen, const KernelView *k,
	const Pixel *image, float dx, float dy, Pixel sum[N])
{
	const float depth = fmaf(seen.da, dx, fmaf(seen.db, dy, seen.df));
	const float rate = inverse_nearly(depth);
	const float u = fmaf(seen.ua, dx, fmaf(seen.ub, dy, seen.uf)) * rate;
	const Foot foot = {depth, u, fmaf(seen.va, dx, fmaf(seen.vb, dy, seen.vf)) * rate,
		{fmaf(-u, seen.da, seen.ua) * rate, fmaf(-u, seen.db, seen.ub) * rate}};
	const float reach = fmaxf(fabsf(foot.move[0]), fabsf(foot.move[1]));
	const int first = max((int)ceilf(fmaf(reach, -s.margin, u)) + seen.column, 0);
	const int last =
		min((int)floorf(fmaf(reach, s.margin, u)) + seen.column, (int)s.model.columns - 1);
	const float rise = foot.row - seen.horizon, climbs = seen.vc * rate, gap = seen.gap * depth;
	Slant slant = slant_of(seen, foot, seen.axis, dx, dy);
	image += seen.line * STRIP;
	for (int c = first; c <= last; c++) {
		if (seen.axis == MIXED)
			slant = slant_of(seen, foot, axis_of(&s, k, c), dx, dy);
		const float aside = (float)(c - seen.column) - u, e = aside * slant.farther;
		const float nearer = inverse_nearly(1 + e);
		const Sheet sheet = {fmaf(rise, e, foot.row), fmaf(climbs, e, climbs), gap * nearer,
			fmaf(-fabsf(aside * slant.away), nearer, 1.f)};
		if (!(sheet.weight > 0))
			continue;
		const Pixel *line = image + (c + c / STRIP * (s.lines - 1) * STRIP);
		if (fits<LONG>(sheet.rate))
			climb<LONG, N>(seen, sheet, line, sum);
		else
			climb<SHORT, N>(seen, sheet, line, sum);
	}
}

template <int N, typename Pixel>
static __global__ void __launch_bounds__(THREADS) shadow_back(const __grid_constant__ Shadow s)
{
	__shared__ Seen seen[VIEWS];
	const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	const int dx = lane % 8 + warp % 2 * 8, dy = lane / 8 + warp / 2 * 4;
	const int x0 = blockIdx.x * WIDE, y0 = blockIdx.y * HIGH, z0 = blockIdx.z * N;
	const int64_t size = (int64_t)s.strips * s.lines * STRIP;
	const Pixel *image = (const Pixel *)s.images;
	Pixel sum[N] = {};
	for (int64_t first = 0; first < s.count; first += VIEWS) {
		int count = (int)min((int64_t)VIEWS, s.count - first);
		__syncthreads();
		if (threadIdx.x < count)
			seen[threadIdx.x] = see(&s, &s.views[first + threadIdx.x], x0, y0, z0);
		__syncthreads();
		for (int i = 0; i < count; i++, image += size)
			visit<N>(s, seen[i], &s.views[first + i], image, (float)dx, (float)dy, sum);
	}
	const int x = x0 + dx, y = y0 + dy;
	if (x >= s.n[0] || y >= s.n[1])
		return;
	float *to = s.volume + ((int64_t)z0 * s.n[1] + y) * s.n[0] + x;
	update_voxels<N, 4>(
		s.update, to, (int64_t)s.n[0] * s.n[1], s.n[2] - z0, [&](int k) { return sum[k]; });
}

/* ---- a whole request ------------------------------------------------------------------------- */

typedef struct {
	double reach, margin;
} Notes;

/* Upper bound, in radians, of the angle between neighbouring detector columns seen from the
 * source, times sqrt(2) since sheets may be at 45 degrees to their dominant axis. */
static double pixel_angle(const ProjectRequest *what)
{
	const KernelModel *model = &what->plan->model;
	double most = 0;
	for (int64_t i = 0; i < what->count; i++) {
		const KernelView *k = &what->plan->views[what->first + i];
		double step = hypot(k->u[0], k->u[1]), away = 0;
		double line =
			k->u[1] * (k->first[0] - k->src[0]) - k->u[0] * (k->first[1] - k->src[1]);
		away = fabs(line) / step; /* distance of the source from the line of the detector */
		most = fmax(most, sqrt(2) * step / away);
	}
	return model->columns > 0 ? most : 0;
}

/* Floats of scratch memory per view; pairs: each pixel is a float2 of value and weight. */
static int64_t view_floats(const KernelModel *model, bool pairs)
{
	int64_t columns = (model->columns + STRIP - 1) / STRIP * STRIP;
	return (model->rows + 2 * BORDER) * columns * (pairs ? 2 : 1);
}

/* The limits ensure that the sheets of a block are less than 90 degrees apart (block_axis) and
 * that offsets within a view fit into an int. */
static bool shadow_applies(const ProjectRequest *what, CudaNotes *notes)
{
	const double most_reach = 2, most_angle = 0.03;
	const KernelModel *model = &what->plan->model;
	Notes *found = notes_of<Notes>(notes);
	double gap, angle;
	if (model->planar || view_floats(model, false) > INT32_MAX / 2 ||
		what->plan->rays.source != TOMOS_POINT)
		return false;
	found->reach = sheet_reach(what, &gap);
	angle = pixel_angle(what);
	found->margin = 1 + 2 * found->reach * angle;
	return found->reach > 0 && found->reach <= most_reach && angle <= most_angle &&
	       gap >= SHORT_GAP * found->margin;
}

template <int N, typename Pixel>
static tomos_status run_views(
	tomos_backend *backend, const ProjectRequest *what, Shadow s, int64_t first, int64_t count)
{
	enum { LINES = 8 };
	const CudaPlan *kept;
	const float *rays = s.update.with.rays;
	const int64_t at = first * s.model.rows * s.model.columns;
	cudaStream_t stream = device_of(backend)->stream;
	float *images;
	TRY(cuda_plan(backend, what->plan, &kept));
	TRY(cuda_scratch(backend, SCRATCH_REORDERED,
		count * view_floats(&s.model, s.update.with.average), &images,
		"images with a border"));
	s.views = kept->views + what->first + first;
	s.count = count;
	s.images = images;
	make_images<Pixel><<<dim3((unsigned)s.strips, cuda_blocks(count * s.lines, LINES, 65535)),
		dim3(STRIP, LINES), 0, stream>>>(
		s, what->projections + at, rays ? rays + at : NULL, (Pixel *)images);
	CUDA_LAUNCHED("back projecting");
	shadow_back<N, Pixel>
		<<<dim3(cuda_blocks(s.n[0], WIDE, 1 << 30), cuda_blocks(s.n[1], HIGH, 65535),
			   cuda_blocks(s.n[2], N, 65535)),
			THREADS, 0, stream>>>(s);
	CUDA_LAUNCHED("back projecting");
	return TOMOS_OK;
}

/* Tall columns are faster, unless many of their voxels would be outside the box. */
template <typename Pixel>
static tomos_status run_height(tomos_backend *backend, const ProjectRequest *what, const Shadow &s,
	int64_t first, int64_t count)
{
	const int64_t tall = ((s.n[2] + TALL - 1) / TALL) * TALL,
		      low = ((s.n[2] + LOW - 1) / LOW) * LOW;
	return (15 * tall <= 16 * low ? run_views<TALL, Pixel> : run_views<LOW, Pixel>)(backend,
		what, s, first, count);
}

static tomos_status shadow_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	const Plan *plan = what->plan;
	const Notes *found = notes_of<Notes>(notes);
	Shadow s = {.grid = plan->whole,
		.model = plan->model,
		.reach = (float)found->reach,
		.margin = (float)found->margin,
		.lines = (int)plan->model.rows + 2 * BORDER,
		.strips = (int)cuda_blocks(plan->model.columns, STRIP, 1 << 30),
		.volume = what->volume};
	memcpy(s.grid.low, what->box.low, sizeof s.grid.low);
	for (int a = 0; a < 3; a++)
		s.n[a] = (int)(what->box.high[a] - what->box.low[a]);
	return update_each<view_floats>(backend, what, epilogue,
		[&](int64_t first, int64_t count, const VoxelUpdate &part) {
			s.update = part;
			return (part.with.average ? run_height<float2> : run_height<float>)(backend,
				what, s, first, count);
		});
}

extern const CudaKernel cuda_joseph_back_cone;
const CudaKernel cuda_joseph_back_cone = {shadow_applies, shadow_run, update_fuses<view_floats>};
