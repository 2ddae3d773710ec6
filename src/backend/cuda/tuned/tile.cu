/* Voxel-driven back projection where columns of voxels along z fall on one detector column, and climb
 * from detector row to detector row with every voxel: circular cone beam and parallel beam.
 *
 * A block holds SIDE x SIDE columns of COLUMN voxels in registers and visits all views. The part of a view
 * that the block meets is copied into shared memory while earlier views are worked on. Each detector row is
 * interpolated across columns once for a thread, and no position is ever rounded to an integer: voxel k
 * lies within rows k .. k + S of the thread's first one, and the interpolation along them is
 *
 *     q[k] + sum over s < S of saturate(t - s) (q[k + s + 1] - q[k + s]),  t = t0 + k (climb - 1),
 *
 * which is the linear one, in two multiply-adds for each s. S = 2 .. 5 by how far the block's magnification
 * is from one row for a voxel.
 */
#include "backend/cuda/cuda.h"
#include <cuda_pipeline.h>

enum {
	SIDE = 16,
	COLUMN = 16,
	VIEWS = 64,        /* whose coefficients are held at a time */
	STAGES_AHEAD = 4,  /* copies under way and in use */
	TILE_COLUMNS = 32, /* pairs that a block can hold of a view */
	TILE_PITCH = 34,   /* odd times two, so that rows lie on other banks */
	TILE_ROWS = 32,
	BORDER = 2,
	THREADS = SIDE * SIDE,
	SCRATCH_FLOATS = 512 << 20
};

/* A view seen from a block: (column, row) = (uf + ua dx + ub dy, vf + va dx + vb dy) / D counted from the
 * tile's first, D = df + da dx + db dy, and rows climb by vc / D. */
typedef struct {
	float uf, ua, ub, vf, va, vb, vc, df, da, db, weight;
	short segments;  /* S */
	int column, row; /* of the tile's first pair */
	float away[3];   /* from the source to the corner, in units */
} Near;

typedef struct {
	const KernelView *views;
	int64_t count;
	int rows, weighting; /* weighting: a WEIGHT_... */
	int64_t low[3];
	float step[3];
	int n[3];
	const float2 *pairs; /* [view][row][pitch]: a pixel, and how much the next one is more */
	int pitch;
	float *volume;
} Tiles;

/* ---- pairs -------------------------------------------------------------------------------- */

static __global__ void make_pairs(
	const float *from, float2 *to, int64_t lines, int columns, int pitch)
{
	int c = blockIdx.x * blockDim.x + threadIdx.x, column = c - BORDER;
	if (c >= pitch)
		return;
	for (int64_t line = blockIdx.y; line < lines; line += gridDim.y) {
		const float *row = from + line * columns;
		float here = column >= 0 && column < columns ? row[column] : 0;
		float next = column >= -1 && column < columns - 1 ? row[column + 1] : 0;
		to[line * pitch + c] = make_float2(here, next - here);
	}
}

/* ---- back --------------------------------------------------------------------------------- */

static __device__ double affine(const double f[4], double x, double y, double z)
{
	return f[0] * x + f[1] * y + f[2] * z + f[3];
}

static __device__ Near near_block(const Tiles *s, const KernelView *k, int x0, int y0, int z0)
{
	double x = (double)(s->low[0] + x0), y = (double)(s->low[1] + y0),
	       z = (double)(s->low[2] + z0);
	double column = 1e9, row = 1e9, differ = 0;
	for (int corner = 0; corner < 4; corner++) { /* the extremes are there */
		double cx = x + (corner & 1 ? SIDE - 1 : 0), cy = y + (corner & 2 ? SIDE - 1 : 0);
		double rate = 1 / affine(k->depth, cx, cy, z);
		double first = affine(k->row, cx, cy, z) * rate;
		column = fmin(column, affine(k->column, cx, cy, z) * rate);
		row = fmin(row, first + fmin((COLUMN - 1) * (k->row[2] * rate - 1), 0.0));
		differ = fmax(differ, fabs((COLUMN - 1) * (k->row[2] * rate - 1)));
	}
	column = floor(fmax(fmin(column, 1e6), -1e6) / 2 - 1e-3) * 2; /* 16 bytes are two pairs */
	row = floor(fmax(fmin(row, 1e6), -1e6) - 1e-3);
	double depth = affine(k->depth, x, y, z);
	Near near = {.uf = (float)(affine(k->column, x, y, z) - column * depth),
		.ua = (float)(k->column[0] - column * k->depth[0]),
		.ub = (float)(k->column[1] - column * k->depth[1]),
		.vf = (float)(affine(k->row, x, y, z) - row * depth),
		.va = (float)(k->row[0] - row * k->depth[0]),
		.vb = (float)(k->row[1] - row * k->depth[1]),
		.vc = (float)k->row[2],
		.df = (float)depth,
		.da = (float)k->depth[0],
		.db = (float)k->depth[1],
		.weight = s->weighting == WEIGHT_RAY ? (float)k->mass : 1,
		.segments = (short)fmin(2 + floor(differ + 0.01), 5.0),
		.column = (int)column + BORDER,
		.row = (int)row};
	near.away[0] = (float)((x - k->src[0]) * s->step[0]);
	near.away[1] = (float)((y - k->src[1]) * s->step[1]);
	near.away[2] = (float)((z - k->src[2]) * s->step[2]);
	return near;
}

/* Two pairs at a time, always the same ones for a thread; what lies beyond the image is zero. */
static __device__ __forceinline__ void copy_tile(
	const Tiles *s, const Near *near, const float2 *image, float2 *tile, int thread)
{
	const int chunks = TILE_COLUMNS / 2, down = THREADS / chunks;
	const int r = thread / chunks, c = thread % chunks * 2, column = near->column + c;
	const int first = near->row + r;
	bool across = (unsigned)column < (unsigned)s->pitch;
#pragma unroll
	for (int j = 0; j < TILE_ROWS / down; j++) {
		int row = first + j * down;
		bool inside = across && (unsigned)row < (unsigned)s->rows;
		const float2 *from = image + (inside ? row * s->pitch + column : 0);
		__pipeline_memcpy_async(
			tile + (r + j * down) * TILE_PITCH + c, from, 16, inside ? 0 : 16);
	}
}

/* Weights along a column of voxels: constant, or for rays of a point source the parabola through three of
 * them, which is exact to float where the source is far from a column. */
typedef struct {
	float w0, w1, w2;
} Weights;

template <bool RAYS>
static __device__ __forceinline__ Weights weights_of(
	const Tiles *s, const Near *v, float rate, float dx, float dy)
{
	if (!RAYS)
		return Weights{s->weighting == WEIGHT_DEPTH ? rate * rate : v->weight, 0, 0};
	const float half = (COLUMN - 1) * 0.5f, scale = v->weight * rate * rate * rate;
	float x = fmaf(dx, s->step[0], v->away[0]), y = fmaf(dy, s->step[1], v->away[1]);
	float z = v->away[2], square = fmaf(x, x, y * y), d = s->step[2] * half;
	float a = root_nearly(fmaf(z, z, square)), b = root_nearly(fmaf(z + d, z + d, square)),
	      c = root_nearly(fmaf(z + 2 * d, z + 2 * d, square));
	float slope = (4 * b - 3 * a - c) * (0.5f / half),
	      bend = (c - 2 * b + a) * (0.5f / (half * half));
	return Weights{scale * a, scale * slope, scale * bend};
}

template <int S, bool RAYS>
static __device__ __forceinline__ void visit(
	const Tiles *s, const Near *near, const float2 *tile, float dx, float dy, float sum[COLUMN])
{
	const Near v = *near;
	float rate = __fdividef(1.f, fmaf(v.da, dx, fmaf(v.db, dy, v.df)));
	float u = fmaf(v.ua, dx, fmaf(v.ub, dy, v.uf)) * rate, left = floorf(u), right = u - left;
	float row = fmaf(v.va, dx, fmaf(v.vb, dy, v.vf)) * rate, more = fmaf(v.vc, rate, -1.f);
	float first = floorf(fminf(row, fmaf((float)(COLUMN - 1), more, row))), t0 = row - first;
	const float2 *at = tile + (int)first * TILE_PITCH + (int)left;
	const Weights w = weights_of<RAYS>(s, near, rate, dx, dy);
	float q[COLUMN + S + 1];
#pragma unroll
	for (int k = 0; k <= S; k++)
		q[k] = fmaf(right, at[k * TILE_PITCH].y, at[k * TILE_PITCH].x);
#pragma unroll
	for (int k = 0; k < COLUMN; k++) {
		float value = q[k];
#pragma unroll
		for (int i = 0; i < S; i++)
			value = fmaf(fma_saturate((float)k, more, t0 - (float)i),
				q[k + i + 1] - q[k + i], value);
		float weight = RAYS ? fmaf((float)k, fmaf((float)k, w.w2, w.w1), w.w0) : w.w0;
		sum[k] = fmaf(weight, value, sum[k]);
		if (k + 1 < COLUMN)
			q[k + S + 1] = fmaf(right, at[(k + S + 1) * TILE_PITCH].y,
				at[(k + S + 1) * TILE_PITCH].x);
	}
}

/* S is the same for all threads of a block. */
template <bool RAYS>
static __device__ __forceinline__ void visit_view(
	const Tiles *s, const Near *near, const float2 *tile, float dx, float dy, float sum[COLUMN])
{
	if (near->segments == 2)
		visit<2, RAYS>(s, near, tile, dx, dy, sum);
	else if (near->segments == 3)
		visit<3, RAYS>(s, near, tile, dx, dy, sum);
	else if (near->segments == 4)
		visit<4, RAYS>(s, near, tile, dx, dy, sum);
	else
		visit<5, RAYS>(s, near, tile, dx, dy, sum);
}

template <bool RAYS>
static __global__ void __launch_bounds__(THREADS, 4) tile_back(const __grid_constant__ Tiles s)
{
	extern __shared__ float4 shared[];
	Near *near = (Near *)shared;
	float2 *tiles = (float2 *)(near + VIEWS);
	const int x0 = blockIdx.x * SIDE, y0 = blockIdx.y * SIDE, z0 = blockIdx.z * COLUMN;
	const int dx = threadIdx.x % SIDE, dy = threadIdx.x / SIDE;
	const int64_t image = (int64_t)s.rows * s.pitch;
	float sum[COLUMN] = {0};
	for (int64_t first = 0; first < s.count; first += VIEWS) {
		const int views = (int)min((int64_t)VIEWS, s.count - first);
		__syncthreads();
		for (int i = threadIdx.x; i < views; i += THREADS)
			near[i] = near_block(&s, &s.views[first + i], x0, y0, z0);
		__syncthreads();
		const float2 *images = s.pairs + first * image;
		for (int i = 0; i < STAGES_AHEAD - 1; i++) {
			if (i < views)
				copy_tile(&s, &near[i], images + i * image,
					tiles + i * TILE_ROWS * TILE_PITCH, threadIdx.x);
			__pipeline_commit();
		}
		for (int i = 0; i < views; i++) {
			int next = i + STAGES_AHEAD - 1;
			__pipeline_wait_prior(STAGES_AHEAD - 2);
			__syncthreads();
			if (next < views)
				copy_tile(&s, &near[next], images + next * image,
					tiles + next % STAGES_AHEAD * TILE_ROWS * TILE_PITCH,
					threadIdx.x);
			__pipeline_commit();
			visit_view<RAYS>(&s, &near[i],
				tiles + i % STAGES_AHEAD * TILE_ROWS * TILE_PITCH, (float)dx,
				(float)dy, sum);
		}
		__pipeline_wait_prior(0);
	}
	if (x0 + dx >= s.n[0] || y0 + dy >= s.n[1])
		return;
	float *to = s.volume + ((int64_t)z0 * s.n[1] + y0 + dy) * s.n[0] + x0 + dx;
#pragma unroll
	for (int k = 0; k < COLUMN; k++, to += (int64_t)s.n[0] * s.n[1])
		if (z0 + k < s.n[2])
			*to += sum[k];
}

/* ---- a whole request ---------------------------------------------------------------------- */

/* How far the views spread: columns and rows by which a block's
 * columns of voxels differ, steps that a column can differ from one
 * row for each voxel, and how near the source comes. */
typedef struct {
	double columns, rows, low, high, nearest;
} Spread;

static void spread_corner(const Plan *plan, const KernelView *k, const double at[3], Spread *spread)
{
	double depth = k->depth[3], u = k->column[3], v = k->row[3], away = 0;
	for (int a = 0; a < 3; a++) {
		depth += k->depth[a] * at[a];
		u += k->column[a] * at[a];
		v += k->row[a] * at[a];
	}
	if (!(depth > 1e-3)) {
		spread->columns = 1e9;
		return;
	}
	u /= depth;
	v /= depth;
	if (fabs(u) > 9e5 || fabs(v) > 9e5) /* near_block counts no further */
		spread->columns = 1e9;
	double climb = k->row[2] / depth;
	double columns =
		(fabs(k->column[0] - u * k->depth[0]) + fabs(k->column[1] - u * k->depth[1])) /
		depth;
	double rows =
		(fabs(k->row[0] - v * k->depth[0]) + fabs(k->row[1] - v * k->depth[1])) / depth;
	for (int a = 0; a < 2; a++)
		away += pow((at[a] - k->src[a]) * plan->whole.step[a], 2);
	spread->columns = fmax(spread->columns, columns * (SIDE - 1));
	spread->low = fmin(spread->low, climb);
	spread->high = fmax(spread->high, climb);
	spread->rows = fmax(spread->rows, rows * (SIDE - 1));
	spread->nearest = fmin(spread->nearest, sqrt(away) / plan->whole.step[2]);
}

/* Blocks may reach beyond the box by their own size. */
static bool tile_applies(const Projecting *what, CudaNotes *notes)
{
	(void)notes;
	const Plan *plan = what->plan;
	Spread spread = {.low = 1e9, .nearest = 1e9};
	if (plan->model.clamp || plan->model.nearest || plan->model.planar ||
		plan->model.rows * (plan->model.columns + 8) > 1 << 30)
		return false;
	bool source = plan->views[what->first].src[3] != 0;
	for (int64_t i = 0; i < what->count; i++) {
		const KernelView *k = &plan->views[what->first + i];
		double scale = fabs(k->column[0]) + fabs(k->column[1]),
		       height = (double)plan->grid.n[2];
		if (fabs(k->column[2]) * height > 1e-7 * scale || (k->src[3] != 0) != source ||
			fabs(k->depth[2]) * height > 1e-9 * fabs(k->depth[3]))
			return false;
		for (int corner = 0; corner < 8; corner++) {
			double at[3];
			for (int a = 0; a < 3; a++)
				at[a] = corner >> a & 1 ? (double)(what->box.high[a] + SIDE)
							: (double)what->box.low[a];
			spread_corner(plan, k, at, &spread);
		}
	}
	double differ = fmax(spread.high - 1, 1 - spread.low) * (COLUMN - 1);
	/* Threads begin on rows that differ by spread.rows, and read COLUMN + S + 1 from there. */
	bool fits = differ < 3.98 && spread.columns < (double)(TILE_COLUMNS - 4) &&
		    spread.rows + floor(differ) < (double)(TILE_ROWS - COLUMN - 6);
	return fits && (!source || plan->model.weight != WEIGHT_RAY || spread.nearest > 200);
}

static tomos_status run_views(
	tomos_backend *backend, const Projecting *what, Tiles *s, int64_t first, int64_t count)
{
	typedef void (*TileKernel)(const Tiles s);
	const KernelModel *model = &what->plan->model;
	const CudaPlan *kept;
	cudaStream_t stream = device_of(backend)->stream;
	float *pairs;
	TRY(cuda_plan(backend, what->plan, &kept));
	TRY(cuda_scratch(
		backend, 0, 2 * count * model->rows * s->pitch, &pairs, "pairs of pixels"));
	make_pairs<<<dim3(cuda_blocks(s->pitch, 128, 1 << 30),
			     cuda_blocks(count * model->rows, 1, 65535)),
		128, 0, stream>>>(what->projections + first * model->rows * model->columns,
		(float2 *)pairs, count * model->rows, (int)model->columns, s->pitch);
	s->views = kept->views + what->first + first;
	s->count = count;
	s->pairs = (const float2 *)pairs;
	bool rays = model->weight == WEIGHT_RAY && what->plan->views[what->first].src[3] != 0;
	TileKernel kernel = rays ? tile_back<true> : tile_back<false>;
	int bytes = VIEWS * (int)sizeof(Near) +
		    STAGES_AHEAD * TILE_ROWS * TILE_PITCH * (int)sizeof(float2);
	CUDA_TRY(cudaFuncSetAttribute(
			 (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
		"taking shared memory");
	kernel<<<dim3(cuda_blocks(s->n[0], SIDE, 1 << 30), cuda_blocks(s->n[1], SIDE, 65535),
			 cuda_blocks(s->n[2], COLUMN, 65535)),
		THREADS, bytes, stream>>>(*s);
	CUDA_LAUNCHED("back projecting");
	return TOMOS_OK;
}

static tomos_status tile_run(tomos_backend *backend, const Projecting *what, const CudaNotes *notes)
{
	(void)notes;
	const Plan *plan = what->plan;
	Tiles s = {.rows = (int)plan->model.rows,
		.weighting = plan->model.weight,
		.pitch = (int)(plan->model.columns + 2 * BORDER + 1) / 2 * 2,
		.volume = what->volume};
	for (int a = 0; a < 3; a++) {
		s.low[a] = what->box.low[a];
		s.n[a] = (int)(what->box.high[a] - what->box.low[a]);
		s.step[a] = (float)plan->whole.step[a];
	}
	int64_t image = 2 * plan->model.rows * s.pitch;
	int64_t chunk = max64(1, min64(SCRATCH_FLOATS / image, what->count));
	for (int64_t at = 0; at < what->count; at += chunk)
		TRY(run_views(backend, what, &s, at, min64(chunk, what->count - at)));
	return TOMOS_OK;
}

extern const CudaTuned tile_kernels[1];
const CudaTuned tile_kernels[1] = {{"tile", KERNEL_voxel, ADJOINT, tile_applies, tile_run}};
