/* Voxel-driven back projection with half data on full circles whose views come in quarter turns.
 *
 * Voxel p falls on view a where the voxel that is k quarter turns on falls on the view that is: one position
 * serves four views, whose pixels lie side by side as four halves. A thread has columns of voxels in one
 * quarter of the volume and their three images under turns; the rest is that of tile.cu, in floats.
 */
#define TILE_COLUMN 8 /* four of them are a thread's sums */
#include "backend/cuda/tuned/tile.h"
#include "backend/cuda/tuned/turn.h"

enum { TURNS = 4 };

/* ---- images ------------------------------------------------------------------------------- */

typedef struct {
	const float *from;
	Pixel *to;
	int64_t quarter, rows; /* views of a quarter turn */
	int columns, pitch;
	int direction; /* of the views: the next quarter turn is so many quarters on */
	const unsigned *largest;
} Quads;

static __global__ void find_largest(const float *from, int64_t count, unsigned *largest)
{
	unsigned most = 0;
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
		i += (int64_t)gridDim.x * blockDim.x)
		most = max(most, __float_as_uint(fabsf(from[i])));
	for (int step = 16; step > 0; step /= 2)
		most = max(most, __shfl_xor_sync(~0u, most, step));
	if (threadIdx.x % 32 == 0)
		atomicMax(largest, most);
}

/* Pixels of a view and of those that are quarter turns on from it. */
static __global__ void make_quads(const __grid_constant__ Quads q)
{
	int c = blockIdx.x * blockDim.x + threadIdx.x, column = c - BORDER;
	if (c >= q.pitch)
		return;
	const int64_t lines = TURNS * q.quarter * q.rows;
	const float scale = power_of_two(scale_exponent(*q.largest));
	for (int64_t line = blockIdx.y; line < lines; line += gridDim.y) {
		int64_t view = line / q.rows, row = line % q.rows;
		__half value[TURNS];
		for (int k = 0; k < TURNS; k++) {
			int64_t other =
				(view + (int64_t)k * q.direction * q.quarter) % (TURNS * q.quarter);
			bool inside = column >= 0 && column < q.columns;
			value[k] = __float2half_rn(
				inside ? scale * q.from[(other * q.rows + row) * q.columns + column]
				       : 0);
		}
		__half2 low = __halves2half2(value[0], value[1]);
		__half2 high = __halves2half2(value[2], value[3]);
		q.to[line * q.pitch + c] = make_uint2(*(unsigned *)&low, *(unsigned *)&high);
	}
}

/* ---- back --------------------------------------------------------------------------------- */

/* A row of the tile between two columns, of all four views. */
static __device__ __forceinline__ void mix(const Pixel *at, float right, float q[TURNS])
{
	const Pixel one = at[0], two = at[1];
	const float2 a = __half22float2(*(const __half2 *)&one.x);
	const float2 b = __half22float2(*(const __half2 *)&one.y);
	const float2 c = __half22float2(*(const __half2 *)&two.x);
	const float2 d = __half22float2(*(const __half2 *)&two.y);
	q[0] = fmaf(right, c.x - a.x, a.x);
	q[1] = fmaf(right, c.y - a.y, a.y);
	q[2] = fmaf(right, d.x - b.x, b.x);
	q[3] = fmaf(right, d.y - b.y, b.y);
}

/* Row k + i of voxel k counts share[i], which is the same for all four. */
template <int S, bool RAYS>
static __device__ __forceinline__ void visit(const Tiles *s, const Near &v, const Pixel *tile,
	float dx, float dy, float sum[TURNS][COLUMN])
{
	const Foot foot = foot_of(v, tile, dx, dy);
	const Weights w = weights_of<RAYS>(s, &v, foot.rate, dx, dy);
	float q[COLUMN + S + 1][TURNS];
#pragma unroll
	for (int k = 0; k <= S; k++)
		mix(foot.at + k * TILE_PITCH, foot.right, q[k]);
#pragma unroll
	for (int k = 0; k < COLUMN; k++) {
		float share[S + 1],
			rest = RAYS ? fmaf((float)k, fmaf((float)k, w.w2, w.w1), w.w0) : w.w0;
		const float weight = rest;
#pragma unroll
		for (int i = 0; i < S; i++) {
			float more = weight * fma_saturate((float)k, foot.more, foot.t0 - (float)i);
			share[i] = rest - more;
			rest = more;
		}
		share[S] = rest;
#pragma unroll
		for (int turn = 0; turn < TURNS; turn++)
#pragma unroll
			for (int i = 0; i <= S; i++)
				sum[turn][k] = fmaf(share[i], q[k + i][turn], sum[turn][k]);
		if (k + 1 < COLUMN)
			mix(foot.at + (k + S + 1) * TILE_PITCH, foot.right, q[k + S + 1]);
	}
}

/* S is the same for all threads of a block. */
template <bool RAYS>
static __device__ __forceinline__ void visit_view(const Tiles *s, const Near &near,
	const Pixel *tile, float dx, float dy, float sum[TURNS][COLUMN])
{
	if (near.segments == 2)
		visit<2, RAYS>(s, near, tile, dx, dy, sum);
	else if (near.segments == 3)
		visit<3, RAYS>(s, near, tile, dx, dy, sum);
	else
		visit<5, RAYS>(s, near, tile, dx, dy, sum);
}

template <bool RAYS>
static __global__ void __launch_bounds__(THREADS, 3)
	quarter_back(const __grid_constant__ Tiles s, const unsigned *largest)
{
	const int x0 = blockIdx.x * SIDE, y0 = blockIdx.y * SIDE, z0 = blockIdx.z * COLUMN;
	const int dx = threadIdx.x % SIDE, dy = threadIdx.x / SIDE, n = s.n[0];
	float sum[TURNS][COLUMN] = {};
	visit_views(s, x0, y0, z0, [&](const Near &near, const Pixel *tile) {
		visit_view<RAYS>(&s, near, tile, (float)dx, (float)dy, sum);
	});
	if (x0 + dx >= n / 2 || y0 + dy >= n / 2)
		return;
	const float factor = power_of_two(-scale_exponent(*largest));
	int x = x0 + dx, y = y0 + dy;
#pragma unroll
	for (int turn = 0; turn < TURNS; turn++) {
		float *to = s.volume + ((int64_t)z0 * n + y) * n + x;
#pragma unroll
		for (int k = 0; k < COLUMN; k++, to += (int64_t)n * n)
			if (z0 + k < s.n[2])
				*to += factor * sum[turn][k];
		int turned = n - 1 - y;
		y = x;
		x = turned;
	}
}

/* ---- a whole request ---------------------------------------------------------------------- */

/* Whether f(p) = g(p turned): (x, y) goes to (n - 1 - y, x). */
static bool is_turned(const double f[4], const double g[4], double n, double scale)
{
	double most = fmax(fabs(g[1] - f[0]), fabs(-g[0] - f[1])) * n;
	most = fmax(most, fabs(g[2] - f[2]) * n);
	return fmax(most, fabs(g[3] + g[0] * (n - 1) - f[3])) <= 1e-7 * scale;
}

static bool view_is_turned(const Projecting *what, int64_t one, int64_t two)
{
	const KernelView *a = &what->plan->views[one], *b = &what->plan->views[two];
	double n = (double)what->plan->grid.n[0];
	return is_turned(a->column, b->column, n, 1) && is_turned(a->row, b->row, n, 1) &&
	       is_turned(a->depth, b->depth, n, 1e-3) && a->src[3] == b->src[3] &&
	       fabs(a->mass - b->mass) <= 1e-9 * fabs(a->mass);
}

/* 1 or 3 where all views have one a quarter turn on, so many quarters of the list on; else 0. */
static int quarter_direction(const Projecting *what)
{
	int64_t count = what->count, quarter = count / TURNS;
	for (int direction = 1; direction < TURNS; direction += 2) {
		int64_t i = 0;
		while (i < count && view_is_turned(what, i, (i + direction * quarter) % count))
			i++;
		if (i == count)
			return direction;
	}
	return 0;
}

static bool quarter_applies(const Projecting *what, CudaNotes *notes)
{
	int *direction = notes_of<int>(notes);
	const Plan *plan = what->plan;
	const Box *box = &what->box;
	int64_t n = plan->grid.n[0], pixels = plan->model.rows * (plan->model.columns + 8);
	bool whole = n == plan->grid.n[1] && n % 2 == 0 && box->low[0] == 0 && box->low[1] == 0 &&
		     box->high[0] == n && box->high[1] == n;
	if (plan->data != DATA_HALF || !whole || what->first != 0 || what->count % TURNS != 0 ||
		what->count != plan->scan->count || plan->views[0].src[3] == 0 ||
		fabs(plan->whole.step[0] - plan->whole.step[1]) > 1e-9 * plan->whole.step[0] ||
		2 * pixels * what->count > SCRATCH_FLOATS || !tile_views(what))
		return false;
	*direction = quarter_direction(what);
	return *direction != 0;
}

static tomos_status send_quads(
	tomos_backend *backend, const Projecting *what, Tiles *s, int direction, unsigned **largest)
{
	const KernelModel *model = &what->plan->model;
	cudaStream_t stream = device_of(backend)->stream;
	int64_t lines = what->count * model->rows;
	float *images, *most;
	TRY(cuda_scratch(backend, 0, 2 * lines * s->pitch, &images, "four views at a time"));
	TRY(cuda_scratch(backend, 1, 1, &most, "the largest value"));
	*largest = (unsigned *)most;
	CUDA_TRY(cudaMemsetAsync(most, 0, sizeof *most, stream), "scaling views");
	find_largest<<<4 * device_of(backend)->processors, SUM_THREADS, 0, stream>>>(
		what->projections, lines * model->columns, *largest);
	const Quads q = {.from = what->projections,
		.to = (Pixel *)images,
		.quarter = what->count / TURNS,
		.rows = model->rows,
		.columns = (int)model->columns,
		.pitch = s->pitch,
		.direction = direction,
		.largest = *largest};
	make_quads<<<dim3(cuda_blocks(s->pitch, 128, 1 << 30), cuda_blocks(lines, 1, 65535)), 128,
		0, stream>>>(q);
	s->images = (const Pixel *)images;
	CUDA_LAUNCHED("scaling views");
	return TOMOS_OK;
}

static tomos_status quarter_run(
	tomos_backend *backend, const Projecting *what, const CudaNotes *notes)
{
	const CudaPlan *kept;
	unsigned *largest;
	Tiles s = tile_request(what);
	TRY(cuda_plan(backend, what->plan, &kept));
	TRY(send_quads(backend, what, &s, *notes_of<int>(notes), &largest));
	s.views = kept->views;
	s.count = what->count;
	auto kernel =
		what->plan->model.weight == WEIGHT_RAY ? quarter_back<true> : quarter_back<false>;
	CUDA_TRY(cudaFuncSetAttribute((const void *)kernel,
			 cudaFuncAttributeMaxDynamicSharedMemorySize, tile_bytes()),
		"taking shared memory");
	unsigned side = cuda_blocks(s.n[0] / 2, SIDE, 65535);
	kernel<<<dim3(side, side, cuda_blocks(s.n[2], COLUMN, 65535)), THREADS, tile_bytes(),
		device_of(backend)->stream>>>(s, largest);
	CUDA_LAUNCHED("back projecting");
	return TOMOS_OK;
}

extern const CudaTuned quarter_kernels[1];
const CudaTuned quarter_kernels[1] = {
	{"quarter", KERNEL_voxel, ADJOINT, quarter_applies, quarter_run}};
