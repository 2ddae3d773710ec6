/* Back projection of stacks of fans from detector rows in shared memory: all slices have the same
 * positions and weights.
 *
 * A block has 16 x 16 pixels and 32 or 64 slices. It copies the columns that its pixels need, a
 * few views at a time, into one of two stages while the other is in use. A thread has a square of
 * 2 x 2 pixels and 8 or 16 slices (QUADS float4), and visits the columns within reach of any of the
 * four pixels: a sample is read once for all of them, and a weight serves all slices. Pixel p falls
 * on column U / D, both affine in p, and the ray of column c is the line g = U - c D = 0 (fan.h).
 */
#include <cuda_pipeline.h>
#include "backend/cuda/kernels/transpose.h"
#include "backend/cuda/kernels/upright.h"

enum {
	SIDE = 16,
	LANES = 4,
	SLICES = 64, /* most slices of a block */
	THREADS = SIDE * SIDE / 4 * LANES,
	LEAST_SLICES = 16,
	STAGE_LINES =
		200, /* columns of all views of a stage, such that two blocks fit into an SM */
	MOST_VIEWS = 8,
	NEAR = 128, /* views whose FansView is in shared memory */
	BUFFERS = 2,
	USUAL = 4 /* columns that every square visits; more of them in a loop */
};

typedef struct {
	HatSlices slices;
	int wide; /* most columns that a block needs of a view */
} Notes;

typedef struct {
	KernelGrid grid;
	KernelModel model;
	const KernelView *views;
	int count, na, nb, quads;
	int line;           /* float4 of slices per block and column: 8 or 16 */
	int64_t low[2];     /* first pixel of the box */
	int wide, together; /* columns copied per view; views per stage */
	const float4 *from; /* [group][view][margin, columns, margin][quad of the group] */
	const float2
		*rays; /* Joseph's method: 1 / h and length of the step of each [view][column] */
	float4 *to;    /* [b][a][quad] */
} Fans;

/* A view relative to the pixel in the middle of a block and column c0: pixel (da, db) has U - c0 D
 * = u . (da, db, 1) and D = d . (da, db, 1). off: first column copied, from c0 on; reach: of a ray,
 * in columns. */
typedef struct __align__(16)
{
	float u[3], reach, d[3], off;
	float away[2], mass; /* from the source */
	int first;           /* the first column copied */
}
FansView;

/* Zero columns on both sides of a view, so that a block may copy beyond the detector. */
static __host__ __device__ int margin_of(int wide)
{
	return wide + 1;
}

static __device__ double affine(const double f[4], double x, double y)
{
	return f[0] * x + f[1] * y + f[3];
}

/* ---- a block --------------------------------------------------------------------------------- */

/* Range of columns of a block's corners, and how far a ray of these columns reaches. */
template <bool JOSEPH>
static __device__ void find_extent(
	const KernelView *k, double x, double y, double *low, double *high, double *reach)
{
	double near = 1e300, h = 0;
	*low = 1e300;
	*high = -1e300;
	for (int corner = 0; corner < 4; corner++) {
		const double cx = x + (corner & 1) * (SIDE - 1),
			     cy = y + (corner >> 1) * (SIDE - 1);
		const double depth = fmax(affine(k->depth, cx, cy), 1e-12);
		const double c = affine(k->column, cx, cy) / depth;
		near = fmin(near, depth);
		*low = fmin(*low, c);
		*high = fmax(*high, c);
		h = fmax(h, fmax(fabs(k->column[0] - c * k->depth[0]),
				    fabs(k->column[1] - c * k->depth[1])));
	}
	const double slack = fmax(fabs(k->depth[0]), fabs(k->depth[1]));
	*reach = JOSEPH ? h / (near - slack > 0 ? near - slack : near) : 1;
}

/* Sets up a view for the block at pixel (a0, b0). The first column to copy is clamped to the
 * margins. */
template <bool JOSEPH>
static __device__ __noinline__ FansView fans_view(
	const Fans &s, const KernelView *k, int a0, int b0)
{
	const double x = (double)(s.low[0] + a0), y = (double)(s.low[1] + b0), half = SIDE / 2;
	const double depth = affine(k->depth, x + half, y + half);
	const double c = affine(k->column, x + half, y + half) / depth, c0 = rint(c);
	double low, high, reach;
	FansView v;
	find_extent<JOSEPH>(k, x, y, &low, &high, &reach);
	const double start =
		fmin(fmax(floor(low - reach), (double)-s.wide), (double)s.model.columns);
	for (int a = 0; a < 2; a++) {
		v.u[a] = (float)(k->column[a] - c0 * k->depth[a]);
		v.d[a] = (float)k->depth[a];
		v.away[a] = (float)(((a ? y : x) + half - k->src[a]) * s.grid.step[a]);
	}
	v.u[2] = (float)((c - c0) * depth);
	v.d[2] = (float)depth;
	v.mass = (float)k->mass;
	v.reach = (float)reach;
	v.off = (float)fmin(fmax(start - c0, -1e9), 1e9);
	v.first = (int)start;
	return v;
}

/* Starts the copies of `views` views from `view` on, whose FansView are in `table`. */
template <bool JOSEPH, int QUADS>
static __device__ void bring(const Fans &s, float4 *data, float2 *rays, const FansView *table,
	int group, int view, int views)
{
	constexpr int LINE = QUADS * LANES;
	const int64_t lines = s.model.columns + 2 * margin_of(s.wide);
	const int quads = min(LINE, s.quads - group * LINE);
	for (int i = 0; i < views; i++, data += s.wide * LINE, rays += s.wide) {
		const int first = table[i].first;
		const float4 *from = s.from + (int64_t)group * s.count * lines * LINE +
				     ((view + i) * lines + margin_of(s.wide) + first) * quads;
		for (int j = threadIdx.x; j < s.wide * LINE && quads == LINE; j += THREADS)
			__pipeline_memcpy_async(data + j, from + j, sizeof(float4));
		for (int j = threadIdx.x; j < s.wide * LINE && quads < LINE; j += THREADS)
			if (j % LINE < quads)
				__pipeline_memcpy_async(data + j,
					from + j / LINE * quads + j % LINE, sizeof(float4));
		for (int j = threadIdx.x; JOSEPH && j < s.wide; j += THREADS) {
			const int column = min(max(first + j, 0), (int)s.model.columns - 1);
			rays[j] = s.rays[(int64_t)(view + i) * s.model.columns + column];
		}
	}
	__pipeline_commit();
}

static __device__ __forceinline__ void add_quad(float4 *sum, float w, float4 x)
{
	sum->x = fmaf(w, x.x, sum->x);
	sum->y = fmaf(w, x.y, sum->y);
	sum->z = fmaf(w, x.z, sum->z);
	sum->w = fmaf(w, x.w, sum->w);
}

/* Weight of a voxel at (x, y) from the middle of the block. near: 1 / D. */
static __device__ __forceinline__ float voxel_weight_of(
	const Fans &s, const FansView &v, float x, float y, float near)
{
	if (s.model.weight == WEIGHT_NONE)
		return 1;
	if (s.model.weight == WEIGHT_DEPTH)
		return near * near;
	const float dx = fmaf(x, (float)s.grid.step[0], v.away[0]),
		    dy = fmaf(y, (float)s.grid.step[1], v.away[1]);
	return v.mass * near * near * root_nearly(fmaf(dx, dx, dy * dy));
}

/* Adds a view to the square whose first pixel is (x, y) from the middle of the block. */
template <bool JOSEPH, int QUADS>
static __device__ __forceinline__ void add_view(const Fans &s, const FansView &v,
	const float4 *data, const float2 *rays, float x, float y, float4 sums[4][QUADS])
{
	constexpr int LINE = QUADS * LANES;
	float u[4], d[4], e[4], w[4];
#pragma unroll
	for (int p = 0; p < 4; p++) {
		const float px = x + (float)(p % 2), py = y + (float)(p / 2);
		u[p] = fmaf(px, v.u[0], fmaf(py, v.u[1], v.u[2]));
		d[p] = fmaf(px, v.d[0], fmaf(py, v.d[1], v.d[2]));
		const float near = inverse_nearly(d[p]);
		e[p] = u[p] * near;
		if (!JOSEPH)
			w[p] = voxel_weight_of(s, v, px, py, near);
	}
	const float low = fminf(fminf(e[0], e[1]), fminf(e[2], e[3])),
		    high = fmaxf(fmaxf(e[0], e[1]), fmaxf(e[2], e[3]));
	const float start = fminf(
			    fmaxf(ceilf(low - v.reach), v.off), v.off + (float)(s.wide - USUAL)),
		    stop = fminf(high + v.reach, v.off + (float)(s.wide - 1));
	data += (int)(start - v.off) * LINE;
	rays += (int)(start - v.off);
	auto add_column = [&](int i, float c) {
		float4 sample[QUADS];
#pragma unroll
		for (int q = 0; q < QUADS; q++)
			sample[q] = data[i * LINE + q * LANES];
		const float2 ray = JOSEPH ? rays[i] : make_float2(0, 0);
#pragma unroll
		for (int p = 0; p < 4; p++) {
			const float share =
				JOSEPH ? ray.y * fma_saturate(
							 -fabsf(fmaf(-c, d[p], u[p])), ray.x, 1)
				       : w[p] * __saturatef(1 - fabsf(e[p] - c));
#pragma unroll
			for (int q = 0; q < QUADS; q++)
				add_quad(&sums[p][q], share, sample[q]);
		}
	};
#pragma unroll
	for (int i = 0; i < USUAL; i++)
		add_column(i, start + (float)i);
	for (float c = start + (float)USUAL; c <= stop; c++, data += LINE, rays++)
		add_column(USUAL, c);
}

template <int QUADS>
static __device__ void write_sums(
	const Fans &s, const float4 sums[4][QUADS], int a, int b, int quad)
{
#pragma unroll
	for (int p = 0; p < 4; p++) {
		if (a + p % 2 >= s.na || b + p / 2 >= s.nb)
			continue;
		float4 *to = s.to + ((int64_t)(b + p / 2) * s.na + a + p % 2) * s.quads;
#pragma unroll
		for (int q = 0; q < QUADS; q++)
			if (quad + q * LANES < s.quads)
				to[quad + q * LANES] = sums[p][q];
	}
}

/* Bytes of shared memory for stages of `lines` columns of `line` float4. */
static int bytes_of(int lines, int line)
{
	return BUFFERS * lines * (int)(line * sizeof(float4) + sizeof(float2)) +
	       NEAR * (int)sizeof(FansView);
}

static __host__ __device__ int stage_lines(const Fans *s)
{
	return s->together * s->wide;
}

/* Adds up to NEAR views from `first` on. */
template <bool JOSEPH, int QUADS>
static __device__ __forceinline__ void add_views(const Fans &s, float4 *memory, int a0, int b0,
	int group, int first, float x, float y, float4 sums[4][QUADS])
{
	constexpr int LINE = QUADS * LANES;
	const int lines = stage_lines(&s), count = min((int)NEAR, s.count - first);
	FansView *table = (FansView *)(memory + BUFFERS * lines * LINE);
	float2 *rays = (float2 *)(table + NEAR);
	__syncthreads(); /* the table and the stages are free */
	for (int i = threadIdx.x; i < count; i += THREADS)
		table[i] = fans_view<JOSEPH>(s, &s.views[first + i], a0, b0);
	__syncthreads();
	bring<JOSEPH, QUADS>(s, memory, rays, table, group, first, min(s.together, count));
	for (int i = 0, stage = 0; i < count; i += s.together, stage ^= 1) {
		const int next = i + s.together, other = stage ^ 1;
		__pipeline_wait_prior(0);
		__syncthreads(); /* this stage is complete, and the other one is free */
		bring<JOSEPH, QUADS>(s, memory + other * lines * LINE, rays + other * lines,
			table + next, group, first + next, min(s.together, count - next));
		for (int v = 0; v < min(s.together, count - i); v++)
			add_view<JOSEPH, QUADS>(s, table[i + v],
				memory + (stage * lines + v * s.wide) * LINE + threadIdx.x % LANES,
				rays + stage * lines + v * s.wide, x, y, sums);
	}
}

template <bool JOSEPH, int QUADS>
static __global__ void __launch_bounds__(THREADS, 2) fans_back(const __grid_constant__ Fans s)
{
	extern __shared__ float4 memory[];
	const int a0 = blockIdx.x * SIDE, b0 = blockIdx.y * SIDE, square = threadIdx.x / LANES;
	const int da = square % (SIDE / 2) * 2, db = square / (SIDE / 2) * 2;
	float4 sums[4][QUADS] = {};
	for (int first = 0; first < s.count; first += NEAR)
		add_views<JOSEPH, QUADS>(s, memory, a0, b0, blockIdx.z, first,
			(float)(da - SIDE / 2), (float)(db - SIDE / 2), sums);
	write_sums<QUADS>(
		s, sums, a0 + da, b0 + db, blockIdx.z * (QUADS * LANES) + threadIdx.x % LANES);
}

/* 1 / h and the length of a step of every ray. */
static __global__ void fans_rays(const __grid_constant__ Fans s, float2 *to)
{
	const int column = blockIdx.x * blockDim.x + threadIdx.x;
	if (column >= s.model.columns)
		return;
	for (int view = blockIdx.y; view < s.count; view += gridDim.y) {
		const KernelView *k = &s.views[view];
		const double gx = k->column[0] - column * k->depth[0],
			     gy = k->column[1] - column * k->depth[1];
		const int axis = path_of(&s.grid, &s.model, k, 0, column).axis;
		to[(int64_t)view * s.model.columns + column] =
			make_float2((float)(1 / fmax(fabs(gx), fabs(gy))),
				step_of(&s.grid, k, 0, column, axis));
	}
}

/* ---- a whole request ------------------------------------------------------------------------- */

/* Most columns that a block of 16 x 16 pixels needs of a view: the change of U / D per pixel is
 * largest at a corner of the box; 0: the source is not outside. */
static double view_columns(const ProjectRequest *what, const KernelView *k)
{
	double near = 1e300, far = 0, change = 0, h = 0;
	for (int corner = 0; corner < 4; corner++) {
		double x = (double)(corner & 1 ? what->box.high[0] + SIDE : what->box.low[0] - 1);
		double y = (double)(corner & 2 ? what->box.high[1] + SIDE : what->box.low[1] - 1);
		double depth = k->depth[0] * x + k->depth[1] * y + k->depth[3];
		double c = (k->column[0] * x + k->column[1] * y + k->column[3]) / depth;
		double gx = fabs(k->column[0] - c * k->depth[0]);
		double gy = fabs(k->column[1] - c * k->depth[1]);
		near = fmin(near, depth);
		far = fmax(far, depth);
		change = fmax(change, gx + gy);
		h = fmax(h, fmax(gx, gy));
	}
	double slack = fmax(fabs(k->depth[0]), fabs(k->depth[1]));
	if (!(near - slack > 1e-3 * far))
		return 0;
	double reach = what->kernel == KERNEL_joseph ? h / (near - slack) : 1;
	return (SIDE - 1) * change / near + 2 * reach + 3 + (double)USUAL;
}

static bool fans_applies(const ProjectRequest *what, CudaNotes *notes)
{
	const Plan *plan = what->plan;
	const RayClass *rays = &plan->rays;
	Notes *n = notes_of<Notes>(notes);
	double most = 0;
	int64_t low, high;
	if (plan->model.clamp || plan->model.nearest || plan->model.planar ||
		rays->source != TOMOS_FAN_PER_ROW || !rays->same_rows || rays->all.axis != 2 ||
		what->count > 65535 || plan->model.columns > 1 << 22 ||
		!cuda_has_shared(bytes_of(STAGE_LINES, SLICES / 4)))
		return false;
	n->slices =
		HatSlices{.s = 2, .a = 0, .b = 1, .first = rays->all.row, .sign = rays->all.sign};
	slices_range(what, &n->slices, &low, &high);
	for (int64_t i = 0; i < what->count; i++) {
		double columns = view_columns(what, &plan->views[what->first + i]);
		if (!(columns > 0 && columns <= (double)STAGE_LINES))
			return false;
		most = fmax(most, columns);
	}
	n->wide = (int)ceil(most);
	return high - low >= LEAST_SLICES;
}

/* The rows of `slices` slices from `slice` on, in groups of SLICES. */
static tomos_status bring_rows(tomos_backend *backend, const ProjectRequest *what, const Notes *n,
	int64_t slice, int64_t slices, Fans *s, Transposed *x)
{
	const int64_t columns = what->plan->model.columns, group = 4 * s->line;
	const int64_t lines = what->count * (columns + 2 * margin_of(n->wide));
	float *from;
	*x = transposed_volume(what, &n->slices, slice, slices, 4);
	TRY(cuda_scratch(
		backend, SCRATCH_REORDERED, x->pitch * x->nj * x->nk, &x->inside, "slices"));
	TRY(cuda_scratch(backend, SCRATCH_ROWS, x->pitch * lines, &from, "rows of slices"));
	for (int64_t at = 0; at < slices; at += group) {
		Transposed y = transposed_views(
			what, &n->slices, slice + at, min64(group, slices - at), 4);
		y.inside = from + at * lines;
		y.margin = margin_of(n->wide);
		TRY(transpose_in(backend, &y));
	}
	s->quads = (int)(x->pitch / 4);
	s->from = (const float4 *)from;
	s->to = (float4 *)x->inside;
	return TOMOS_OK;
}

static tomos_status run_slices(tomos_backend *backend, const ProjectRequest *what, const Notes *n,
	Fans s, int64_t slice, int64_t slices, const CudaEpilogue *epilogue)
{
	const bool joseph = what->kernel == KERNEL_joseph;
	const int quads = slices <= SLICES / 2 ? 2 : 4;
	auto kernel = quads == 2 ? (joseph ? fans_back<true, 2> : fans_back<false, 2>)
				 : (joseph ? fans_back<true, 4> : fans_back<false, 4>);
	Transposed x;
	s.line = quads * LANES;
	TRY(bring_rows(backend, what, n, slice, slices, &s, &x));
	TRY(cuda_take_shared((const void *)kernel));
	dim3 blocks(cuda_blocks(s.na, SIDE, 1 << 30), cuda_blocks(s.nb, SIDE, 65535),
		cuda_blocks(s.quads, s.line, 65535));
	kernel<<<blocks, THREADS, (size_t)bytes_of(stage_lines(&s), s.line),
		device_of(backend)->stream>>>(s);
	CUDA_LAUNCHED("back projecting fans");
	return transpose_out(backend, &x, epilogue);
}

static tomos_status make_rays(tomos_backend *backend, Fans *s)
{
	float *rays;
	TRY(cuda_scratch(
		backend, SCRATCH_LISTS, 2 * s->count * s->model.columns, &rays, "lengths of rays"));
	fans_rays<<<dim3(cuda_blocks(s->model.columns, 128, 1 << 30),
			    cuda_blocks(s->count, 1, 65535)),
		128, 0, device_of(backend)->stream>>>(*s, (float2 *)rays);
	CUDA_LAUNCHED("back projecting fans");
	s->rays = (const float2 *)rays;
	return TOMOS_OK;
}

static tomos_status fans_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	const Notes *n = notes_of<Notes>(notes);
	const Plan *plan = what->plan;
	const CudaPlan *kept;
	int64_t low, high;
	TRY(cuda_plan(backend, plan, &kept));
	Fans s = {.grid = plan->whole,
		.model = plan->model,
		.views = kept->views + what->first,
		.count = (int)what->count,
		.na = (int)(what->box.high[0] - what->box.low[0]),
		.nb = (int)(what->box.high[1] - what->box.low[1]),
		.low = {what->box.low[0], what->box.low[1]},
		.wide = n->wide,
		.together = (int)min64(STAGE_LINES / n->wide, MOST_VIEWS)};
	if (what->kernel == KERNEL_joseph)
		TRY(make_rays(backend, &s));
	const int64_t most = slices_at_once(
		backend, what, &n->slices, SlicesScratch{SLICES, 1, 1, margin_of(n->wide)});
	slices_range(what, &n->slices, &low, &high);
	for (int64_t at = low; at < high; at += most)
		TRY(run_slices(backend, what, n, s, at, min64(most, high - at), epilogue));
	return TOMOS_OK;
}

/* Averages are left to the kernel for upright detectors. */
static CudaFusion fans_fuses(const tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const FusedUpdate *step)
{
	return step->average ? FUSES_NEXT : transpose_fuses(backend, what, notes, step);
}

extern const CudaKernel cuda_fans_back_shared;
const CudaKernel cuda_fans_back_shared = {fans_applies, fans_run, fans_fuses, transpose_overwrites};
