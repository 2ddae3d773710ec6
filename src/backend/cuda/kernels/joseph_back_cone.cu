/* Joseph's back projection of rays in sheets (upright.h): each voxel gathers
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
 * Parallel beams with rays in sheets (laminography too) have e = 0; there the row changes by
 * `rise` per detector column instead. Along z, voxels are processed in spans (Rows in points.h).
 */
#include "backend/cuda/kernels/affine.h"
#include "backend/cuda/kernels/points.h"
#include "backend/cuda/kernels/upright.h"

/* Voxels per thread, by the height of the box. */
enum { TALL = 32, LOW = 16, LOWEST = 8 };

enum {
	WIDE = 16, /* columns of voxels per block: WIDE x HIGH; per warp 8 x 4 */
	HIGH = 8,
	VIEWS = 64,           /* views set up by a block at once */
	FEW_VIEWS = 8,        /* up to these, all blocks are set up before */
	STRIP = 32,           /* adjacent columns of an image; all images have the same row pitch */
	BORDER = ROWS_BORDER, /* rows of zeros above and below an image */
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
	float away[2];            /* x and y from the source to the corner; parallel: 1 */
	float step[2];            /* x and y from one detector column to the next; parallel: 0 */
	float rise[2];            /* parallel: change of the row per voxel along x, y */
	float horizon, low, high; /* relative to `row`: row of the source; range of rows to read */
	int column, line;         /* line: `row` counted with the border */
	int axis;
	int kind; /* of Rows (points.h), for all voxels of the block; -1: none fits */
}
Seen;

typedef struct {
	KernelGrid grid;
	KernelModel model;
	const KernelView *views;
	int64_t count;
	float reach, margin; /* most columns to either side; upper bound of 1 + |e| */
	bool near_one;       /* about one row per voxel: variants of Rows in points.h */
	int n[3], lines, strips;
	const void *images; /* [view][strip][line][column]; each pixel times its ray's step
	                     * length */
	Seen *seen;         /* views of each block, if they are few; NULL: set up by the block */
	float *volume;
	VoxelUpdate update;
} Gather;

static __device__ int axis_of(const Gather *s, const KernelView *k, int64_t column)
{
	return path_of(&s->grid, &s->model, k, 0, column).axis;
}

/* ---- images ---------------------------------------------------------------------------------- */

template <typename Pixel>
static __global__ void make_images(
	const __grid_constant__ Gather s, const float *from, const float *rays, Pixel *to)
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

/* Dominant axis of all sheets that voxels of the block can meet, or MIXED. If the first and the
 * last sheet have the same axis and are less than 90 degrees apart, all between them have it. */
static __device__ int block_axis(const Gather *s, const KernelView *k, double left, double right)
{
	const double end = (double)(s->model.columns - 1);
	int64_t first = (int64_t)fmin(fmax(floor(left - s->reach), 0.0), end);
	int64_t last = (int64_t)fmin(fmax(ceil(right + s->reach), 0.0), end);
	int one = axis_of(s, k, first), other = axis_of(s, k, last);
	return one == other ? one : MIXED;
}

template <bool NEAR_ONE>
static __device__ Seen see(const Gather *s, const KernelView *k, int x0, int y0, int z0)
{
	double x = (double)(s->grid.low[0] + x0), y = (double)(s->grid.low[1] + y0),
	       z = (double)(s->grid.low[2] + z0), left = 1e9, right = -1e9, slow = 1e9, fast = 0;
	for (int corner = 0; corner < 4; corner++) {
		/* Not beyond the box, where no variant of Rows may fit. */
		double cx = x + (corner & 1 ? min(WIDE, s->n[0] - x0) - 1 : 0);
		double cy = y + (corner & 2 ? min(HIGH, s->n[1] - y0) - 1 : 0);
		double near = 1 / affine(k->depth, cx, cy, z),
		       u = affine(k->column, cx, cy, z) * near;
		left = fmin(left, u);
		right = fmax(right, u);
		slow = fmin(slow, near * k->row[2]);
		fast = fmax(fast, near * k->row[2]);
	}
	const bool source = KERNEL_HAS_SOURCE(k);
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
		.gap = (float)(1 / k->row[2]),
		.away = {source ? (float)(x - k->src[0]) : 1, source ? (float)(y - k->src[1]) : 1},
		.step = {source ? (float)k->u[0] : 0, source ? (float)k->u[1] : 0},
		.rise = {source ? 0 : (float)k->row[0], source ? 0 : (float)k->row[1]},
		.horizon = (float)((k->src[2] - k->first[2]) / k->v[2] - row),
		.low = (float)(ROWS_SIDE - BORDER - row),
		.high = (float)((double)s->model.rows + ROWS_SIDE - row),
		.column = (int)column,
		.line = (int)row + BORDER,
		.axis = block_axis(s, k, left, right),
		.kind = rows_kind<NEAR_ONE>((float)slow / s->margin, (float)fast * s->margin)};
	return seen;
}

static __device__ __forceinline__ int64_t block_number(void)
{
	return ((int64_t)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
}

/* Sets up all blocks of N voxels along z, one thread for each view: a block with few views would
 * wait for a few threads. */
template <int N, bool NEAR_ONE>
static __global__ void see_all(const __grid_constant__ Gather s, dim3 blocks)
{
	const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, block = i / s.count;
	if (block >= (int64_t)blocks.x * blocks.y * blocks.z)
		return;
	const int x = (int)(block % blocks.x), y = (int)(block / blocks.x % blocks.y),
		  z = (int)(block / blocks.x / blocks.y);
	s.seen[i] = see<NEAR_ONE>(&s, &s.views[i % s.count], x * WIDE, y * HIGH, z * N);
}

/* A sheet relative to a column of voxels: voxel j projects to row `row` + j `rate`; rows are
 * `gap` = 1 / rate voxels apart at the voxels; weight: across the sheet. */
typedef struct {
	float row, rate, gap, weight;
} Sheet;

template <class R, int N, typename Pixel>
static __device__ __forceinline__ void climb(
	const Seen &seen, const Sheet &sheet, const Pixel *line, Pixel sum[N])
{
	const float centre = R::centre(sheet.rate);
#pragma unroll
	for (int first = 0; first < N; first += R::SPAN) {
		float t = fmaf((float)first, sheet.rate, sheet.row);
		float rounded = __fadd_rn(fminf(fmaxf(t + centre, seen.low), seen.high), MAGIC);
		float e = sheet.gap * (t - __fadd_rn(rounded, -MAGIC));
		const Pixel *at = line + (__float_as_int(rounded) - __float_as_int(MAGIC)) * STRIP;
		Pixel q[R::COUNT];
#pragma unroll
		for (int k = 0; k < R::COUNT; k++)
			q[k] = __ldg(at + (k - R::SIDE) * STRIP);
		rows_gather<R>(q, e, sheet.gap, [&](int k, const Pixel &value) {
			accumulate(sum[first + k], sheet.weight, value);
		});
	}
}

/* One voxel at a time, for rates that no variant of Rows fits. */
template <int N, typename Pixel>
static __device__ __forceinline__ void climb_any(
	const Seen &seen, const Sheet &sheet, const Pixel *line, Pixel sum[N])
{
#pragma unroll
	for (int k = 0; k < N; k++) {
		float t = fmaf((float)k, sheet.rate, sheet.row);
		int low = (int)fmaxf(ceilf(t - sheet.rate), seen.low);
		int high = (int)fminf(floorf(t + sheet.rate), seen.high);
		Pixel value = {};
		for (int row = low; row <= high; row++)
			accumulate(value, __saturatef(1 - fabsf(sheet.gap * (t - (float)row))),
				__ldg(line + row * STRIP));
		accumulate(sum[k], sheet.weight, value);
	}
}

template <int N, bool NEAR_ONE, typename Pixel>
static __device__ __forceinline__ void climb_all(
	const Seen &seen, const Sheet &sheet, const Pixel *line, Pixel sum[N])
{
	rows_visit<NEAR_ONE>(
		seen.kind, [&](auto rows) { climb<decltype(rows), N>(seen, sheet, line, sum); });
	if (!NEAR_ONE && seen.kind < 0)
		climb_any<N>(seen, sheet, line, sum);
}

/* Projection of the lowest voxel of a column: depth, column u and row; change of u per voxel
 * along x, y. */
typedef struct {
	float depth, u, row, move[2];
} Foot;

/* Terms common to all sheets of one dominant axis, relative to a column of voxels. */
typedef struct {
	float farther, away; /* per detector column: e, and the distance in voxels (1 / m) */
	float rise;          /* parallel: change of the row per detector column */
} Slant;

static __device__ __forceinline__ Slant slant_of(
	const Seen &seen, const Foot &foot, int axis, float dx, float dy)
{
	float step = axis == 0 ? seen.step[0] : seen.step[1];
	float plane = axis == 0 ? seen.away[0] + dx : seen.away[1] + dy;
	float move = inverse_nearly(axis == 0 ? foot.move[1] : foot.move[0]);
	return Slant{step * foot.depth * inverse_nearly(plane), move,
		move * (axis == 0 ? seen.rise[1] : seen.rise[0])};
}

template <int N, bool PARALLEL, bool NEAR_ONE, typename Pixel>
static __device__ __forceinline__ void visit(const Gather &s, const Seen &seen, const KernelView *k,
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
		const float aside = (float)(c - seen.column) - u;
		const float e = PARALLEL ? 0 : aside * slant.farther;
		const float nearer = PARALLEL ? 1 : inverse_nearly(1 + e);
		const float row =
			PARALLEL ? fmaf(aside, slant.rise, foot.row) : fmaf(rise, e, foot.row);
		const Sheet sheet = {row, fmaf(climbs, e, climbs), gap * nearer,
			fmaf(-fabsf(aside * slant.away), nearer, 1.f)};
		if (!(sheet.weight > 0))
			continue;
		const Pixel *line = image + (c + c / STRIP * (s.lines - 1) * STRIP);
		climb_all<N, NEAR_ONE>(seen, sheet, line, sum);
	}
}

template <int N, bool PARALLEL, bool NEAR_ONE, typename Pixel>
static __global__ void __launch_bounds__(THREADS, sizeof(Pixel) == 8 && N == TALL ? 3 : 4)
	cone_back(const __grid_constant__ Gather s)
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
			seen[threadIdx.x] =
				s.seen ? s.seen[block_number() * s.count + threadIdx.x]
				       : see<NEAR_ONE>(
						 &s, &s.views[first + threadIdx.x], x0, y0, z0);
		__syncthreads();
		for (int i = 0; i < count; i++, image += size)
			visit<N, PARALLEL, NEAR_ONE>(
				s, seen[i], &s.views[first + i], image, (float)dx, (float)dy, sum);
	}
	const int x = x0 + dx, y = y0 + dy;
	if (x >= s.n[0] || y >= s.n[1])
		return;
	float *to = s.volume + ((int64_t)z0 * s.n[1] + y) * s.n[0] + x;
	update_voxels<N, N <= LOW ? N : 4>(
		s.update, to, (int64_t)s.n[0] * s.n[1], s.n[2] - z0, [&](int k) { return sum[k]; });
}

/* ---- a whole request ------------------------------------------------------------------------- */

typedef struct {
	double reach, margin;
	bool near_one;
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
static bool cone_applies(const ProjectRequest *what, CudaNotes *notes)
{
	const double most_angle = 0.03;
	const KernelModel *model = &what->plan->model;
	Notes *found = notes_of<Notes>(notes);
	double gap, most, angle;
	const int source = what->plan->rays.source;
	if (model->planar || view_floats(model, false) > INT32_MAX / 2 ||
		!(source == TOMOS_POINT || source == TOMOS_PARALLEL))
		return false;
	found->reach = sheet_reach(what, &gap, &most);
	angle = source == TOMOS_POINT ? pixel_angle(what) : 0;
	found->margin = 1 + 2 * found->reach * angle;
	/* Rows<2, 2, 1> fits all rates of the box. */
	found->near_one = found->margin / gap + 0.5 * (1 - 1 / (found->margin * most)) < 1.48 &&
			  found->margin / gap < 1.3;
	return found->reach > 0 && angle <= most_angle;
}

template <int N, typename Pixel>
static tomos_status run_views(
	tomos_backend *backend, const ProjectRequest *what, Gather s, int64_t first, int64_t count)
{
	enum { LINES = 8 };
	const dim3 blocks(cuda_blocks(s.n[0], WIDE, 1 << 30), cuda_blocks(s.n[1], HIGH, 65535),
		cuda_blocks(s.n[2], N, 65535));
	const int64_t all = (int64_t)blocks.x * blocks.y * blocks.z * count,
		      floats = count * view_floats(&s.model, s.update.with.average),
		      more = all * (int64_t)(sizeof(Seen) / sizeof(float));
	const bool few = count <= FEW_VIEWS && floats + more <= device_of(backend)->scratch_most;
	const CudaPlan *kept;
	const float *rays = s.update.with.rays;
	const int64_t at = first * s.model.rows * s.model.columns;
	cudaStream_t stream = device_of(backend)->stream;
	float *images;
	TRY(cuda_plan(backend, what->plan, &kept));
	TRY(cuda_scratch(backend, SCRATCH_REORDERED, floats + (few ? more : 0), &images,
		"images with a border"));
	s.views = kept->views + what->first + first;
	s.count = count;
	s.images = images;
	s.seen = few ? (Seen *)(images + floats) : NULL;
	make_images<Pixel><<<dim3((unsigned)s.strips, cuda_blocks(count * s.lines, LINES, 65535)),
		dim3(STRIP, LINES), 0, stream>>>(
		s, what->projections + at, rays ? rays + at : NULL, (Pixel *)images);
	CUDA_LAUNCHED("back projecting");
	if (s.seen) {
		const auto see_blocks = s.near_one ? see_all<N, true> : see_all<N, false>;
		see_blocks<<<cuda_blocks(all, 128, 1 << 30), 128, 0, stream>>>(s, blocks);
	}
	typedef void (*BackKernel)(const Gather s);
	static const BackKernel kernels[2][2] = {
		{cone_back<N, false, false, Pixel>, cone_back<N, false, true, Pixel>},
		{cone_back<N, true, false, Pixel>, cone_back<N, true, true, Pixel>}};
	const BackKernel kernel = kernels[what->plan->rays.source == TOMOS_PARALLEL][s.near_one];
	kernel<<<blocks, THREADS, 0, stream>>>(s);
	CUDA_LAUNCHED("back projecting");
	return TOMOS_OK;
}

/* Tall columns are faster, unless many of their voxels would be outside the box, or few views leave
 * reading and writing voxels the longest part. */
template <typename Pixel>
static tomos_status run_height(tomos_backend *backend, const ProjectRequest *what, const Gather &s,
	int64_t first, int64_t count)
{
	const int64_t tall = ((s.n[2] + TALL - 1) / TALL) * TALL,
		      low = ((s.n[2] + LOW - 1) / LOW) * LOW;
	return (s.n[2] <= LOWEST ? run_views<LOWEST, Pixel>
		: 15 * tall <= 16 * low && count > FEW_VIEWS
			? run_views<TALL, Pixel>
			: run_views<LOW, Pixel>)(backend, what, s, first, count);
}

static tomos_status cone_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	const Plan *plan = what->plan;
	const Notes *found = notes_of<Notes>(notes);
	Gather s = {.grid = plan->whole,
		.model = plan->model,
		.reach = (float)found->reach,
		.margin = (float)found->margin,
		.near_one = found->near_one,
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
const CudaKernel cuda_joseph_back_cone = {cone_applies, cone_run, update_fuses<view_floats>};
