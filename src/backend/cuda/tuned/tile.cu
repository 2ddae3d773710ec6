/* Voxel-driven back projection where columns of voxels along z fall on one detector column, and climb
 * from detector row to detector row with every voxel: circular cone beam and parallel beam.
 *
 * A block holds SIDE x SIDE columns of COLUMN voxels in registers and visits all views. The part of a view
 * that the block meets is copied into shared memory while earlier views are worked on. Each detector row is
 * interpolated across columns once for a thread and a span of SPAN voxels, and only where a span begins is
 * rounded to an integer: voxel k of it lies within rows k .. k + S, and the interpolation along them is
 *
 *     q[k] + sum over s < S of saturate(t - s) (q[k + s + 1] - q[k + s]),  t = t0 + k (climb - 1),
 *
 * which is the linear one, in two multiply-adds for each s. S is 2 or 3 by how far the block's magnification
 * is from one row for a voxel.
 */
#include "backend/cuda/tuned/tile.h"

/* ---- pairs -------------------------------------------------------------------------------- */

static __global__ void make_pairs(
	const float *from, float2 *to, const __grid_constant__ Tiles s, int rows, int columns)
{
	int c = blockIdx.x * blockDim.x + threadIdx.x, column = c - BORDER;
	if (c >= s.pitch)
		return;
	for (int64_t line = blockIdx.y; line < s.count * s.lines; line += gridDim.y) {
		int64_t view = line / s.lines, row = line % s.lines - TILE_ROWS;
		const float *at = from + (view * rows + row) * columns + column;
		bool inside = row >= 0 && row < rows;
		float here = inside && column >= 0 && column < columns ? at[0] : 0;
		float next = inside && column >= -1 && column < columns - 1 ? at[1] : 0;
		to[line * s.pitch + c] = make_float2(here, next - here);
	}
}

/* ---- back --------------------------------------------------------------------------------- */

/* The span of voxels from `first` on. */
template <int S, bool RAYS>
static __device__ __forceinline__ void visit_span(
	const Foot &foot, const Weights &w, const float2 *tile, int first, float sum[COLUMN])
{
	const Span span = span_of(foot, first);
	const float2 *at = tile + span.row * PITCH<float2> + foot.column;
	float q[SPAN + S];
#pragma unroll
	for (int k = 0; k < SPAN + S; k++)
		q[k] = fmaf(foot.right, at[k * PITCH<float2>].y, at[k * PITCH<float2>].x);
#pragma unroll
	for (int k = 0; k < SPAN; k++) {
		float value = q[k];
#pragma unroll
		for (int i = 0; i < S; i++)
			value = fmaf(fma_saturate((float)k, foot.more, span.t0 - (float)i),
				q[k + i + 1] - q[k + i], value);
		const float z = (float)(first + k);
		float weight = RAYS ? fmaf(z, fmaf(z, w.w2, w.w1), w.w0) : w.w0;
		sum[first + k] = fmaf(weight, value, sum[first + k]);
	}
}

/* S is the same for all threads of a block. */
template <bool RAYS>
static __device__ __forceinline__ void visit_view(
	const Tiles *s, const Near &near, const float2 *tile, float dx, float dy, float sum[COLUMN])
{
	const Foot foot = foot_of(near, dx, dy);
	const Weights w = weights_of<RAYS>(s, &near, foot.rate, dx, dy);
	if (near.segments == 2) {
#pragma unroll
		for (int first = 0; first < COLUMN; first += SPAN)
			visit_span<2, RAYS>(foot, w, tile, first, sum);
	} else {
#pragma unroll
		for (int first = 0; first < COLUMN; first += SPAN)
			visit_span<3, RAYS>(foot, w, tile, first, sum);
	}
}

template <bool RAYS>
static __global__ void __launch_bounds__(THREADS, 4) tile_back(const __grid_constant__ Tiles s)
{
	const int x0 = blockIdx.x * SIDE, y0 = blockIdx.y * SIDE, z0 = blockIdx.z * COLUMN;
	const int2 place = place_of(threadIdx.x);
	const int dx = place.x, dy = place.y;
	float sum[COLUMN] = {0};
	visit_views<float2, COLUMN>(
		s, s.views, x0, y0, z0, sum, [&](const Near &near, const float2 *tile) {
			visit_view<RAYS>(&s, near, tile, (float)dx, (float)dy, sum);
		});
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
bool tile_views(const Projecting *what)
{
	const Plan *plan = what->plan;
	Spread spread = {.low = 1e9, .nearest = 1e9};
	if (plan->model.clamp || plan->model.nearest || plan->model.planar ||
		(plan->model.rows + 80) * (plan->model.columns + 80) > 1 << 30)
		return false;
	bool source = plan->views[what->first].src[3] != 0;
	for (int64_t i = 0; i < what->count; i++) {
		const KernelView *k = &plan->views[what->first + i];
		double scale = fabs(k->column[0]) + fabs(k->column[1]),
		       height = (double)plan->grid.n[2];
		if (fabs(k->column[2]) * height > 1e-7 * scale || (k->src[3] != 0) != source ||
			KERNEL_FANS(k) || fabs(k->depth[2]) * height > 1e-9 * fabs(k->depth[3]))
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
	/* Threads begin on rows that differ by spread.rows, and read to COLUMN + S + 1 from there. */
	bool fits = differ < 3.98 && spread.columns < (double)(TILE_COLUMNS - 4) &&
		    spread.rows + floor(differ) < (double)(TILE_ROWS - COLUMN - 6);
	return fits && (!source || plan->model.weight != WEIGHT_RAY || spread.nearest > 200);
}

static bool tile_applies(const Projecting *what, CudaNotes *notes)
{
	(void)notes;
	return tile_views(what);
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
	TRY(cuda_scratch(backend, 0, 2 * count * s->lines * s->pitch, &pairs, "pairs of pixels"));
	s->views = kept->views + what->first + first;
	s->count = count;
	s->images = pairs;
	make_pairs<<<dim3(cuda_blocks(s->pitch, 128, 1 << 30),
			     cuda_blocks(count * s->lines, 1, 65535)),
		128, 0, stream>>>(what->projections + first * model->rows * model->columns,
		(float2 *)pairs, *s, (int)model->rows, (int)model->columns);
	bool rays = model->weight == WEIGHT_RAY && what->plan->views[what->first].src[3] != 0;
	TileKernel kernel = rays ? tile_back<true> : tile_back<false>;
	const int bytes = tile_bytes<float2>();
	TRY(tile_take(kernel, bytes));
	kernel<<<dim3(cuda_blocks(s->n[0], SIDE, 1 << 30), cuda_blocks(s->n[1], SIDE, 65535),
			 cuda_blocks(s->n[2], COLUMN, 65535)),
		THREADS, bytes, stream>>>(*s);
	CUDA_LAUNCHED("back projecting");
	return TOMOS_OK;
}

static tomos_status tile_run(tomos_backend *backend, const Projecting *what, const CudaNotes *notes)
{
	(void)notes;
	Tiles s = tile_request(what);
	int64_t image = 2 * (int64_t)s.lines * s.pitch;
	int64_t chunk = max64(1, min64(device_of(backend)->scratch_most / image, what->count));
	for (int64_t at = 0; at < what->count; at += chunk)
		TRY(run_views(backend, what, &s, at, min64(chunk, what->count - at)));
	return TOMOS_OK;
}

extern const CudaTuned tile_kernels[1];
const CudaTuned tile_kernels[1] = {{"tile", KERNEL_voxel, ADJOINT, tile_applies, tile_run}};
