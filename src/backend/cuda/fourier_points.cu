/* Interpolation of the Fourier projector on the GPU: values of points from the grid cells around
 * them, and the transpose, which adds values of points to cells.
 *
 * A block has the cells of a tile in shared memory, for all pairs of slices. It processes the
 * points of a chunk in batches; weights are computed once for all pairs. In the transpose, a
 * thread owns the cells that have the same remainder, in each direction, modulo the width of the
 * window. The window of a point contains exactly one of them, so sums need no atomic operations
 * and have a fixed order. The list of a tile also has the points outside it whose windows reach
 * into it: every cell is complete, and written once.
 */
#include "backend/cuda/fourier.h"

enum { BATCH = 64, WEIGHT_PITCH = SPREAD_MOST + 1, LEAST_THREADS = 2 * BATCH };

typedef struct {
	const PointSegment *segments;
	const PointChunk *chunks;
	const PartTile *tiles;
	const LineView *views;
	SpreadWindow window;
	int size[2];
	int64_t count, period, top;
	int pairs;
	bool line, squares; /* response of line integrals; values are the squares of responses */
	float2 *grid, *values, *parts;
} PointJob;

/* Points of a batch: place among the values, factor; for each axis the first cell in the tile and
 * the weights of its taps. */
typedef struct {
	int64_t source[BATCH];
	float2 factor[BATCH];
	int cell[2][BATCH];
	float weights[2][BATCH][WEIGHT_PITCH];
} PointBatch;

/* The cell with a given remainder in the window of a point: its weight, 0 if it is outside the
 * tile, and its offset in the tile. */
typedef struct {
	float weight;
	int offset;
} PointCell;

typedef PointCell PointCells[2][BATCH][WEIGHT_PITCH];

/* One or two pairs of slices. */
static __device__ __forceinline__ void add_times(float2 &sum, float w, float2 v)
{
	sum.x = fmaf(w, v.x, sum.x);
	sum.y = fmaf(w, v.y, sum.y);
}

static __device__ __forceinline__ void add_times(float4 &sum, float w, float4 v)
{
	sum.x = fmaf(w, v.x, sum.x);
	sum.y = fmaf(w, v.y, sum.y);
	sum.z = fmaf(w, v.z, sum.z);
	sum.w = fmaf(w, v.w, sum.w);
}

static __device__ __forceinline__ float2 times(float2 a, float2 b)
{
	return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

/* ---- points ---------------------------------------------------------------------------------- */

static __device__ float sinc_of(float x)
{
	return fabsf(x) < 1e-4F ? 1 : sinpif(x) / ((float)M_PI * x);
}

/* As view_factors on the CPU. */
static __device__ float2 factor_of(const PointJob &job, const LineView &view, int m)
{
	const double turn = m * view.turn, from = 0.4, to = 0.5;
	double cycles = fabs((double)m) / (double)job.period;
	float size = view.unit * sinc_of((float)(m * view.width[0])) *
		     sinc_of((float)(m * view.width[1]));
	if (job.line && cycles > from) {
		float c = cospif((float)(0.5 * (cycles - from) / (to - from)));
		size *= c * c;
	}
	float2 phase;
	sincospif((float)(2 * (turn - rint(turn))), &phase.y, &phase.x);
	return make_float2(size * phase.x, size * phase.y);
}

/* The weights of all taps along one axis. */
static __device__ void weigh(const SpreadWindow &w, float fraction, float *weights)
{
	const float t = 2 * fraction - 1;
	float sum[SPREAD_MOST] = {};
	for (int power = w.degree; power >= 0; power--) {
#pragma unroll
		for (int i = 0; i < SPREAD_MOST; i++)
			if (i < w.taps)
				sum[i] = fmaf(sum[i], t, w.polynomials[power][i]);
	}
#pragma unroll
	for (int i = 0; i < SPREAD_MOST; i++)
		if (i < w.taps)
			weights[i] = sum[i];
}

/* Points from `first` on, a thread for each axis of a point. */
static __device__ void place_points(
	const PointJob &job, const PointChunk &chunk, int first, int count, PointBatch *batch)
{
	for (int i = (int)threadIdx.x; i < 2 * count; i += (int)blockDim.x) {
		const int at = i / 2, axis = i % 2;
		const PointSegment g = fourier_segment(job.segments, &chunk, first + at);
		const LineView &view = job.views[g.view];
		const int m = g.from + first + at - g.begin;
		/* Rounded as on the host. */
		const double position = __dmul_rn((double)m, view.step[axis]);
		const double edge = __dadd_rn(position, -0.5 * job.window.taps), begin = ceil(edge);
		batch->cell[axis][at] = (int)begin - g.origin[axis];
		weigh(job.window, (float)(begin - edge), batch->weights[axis][at]);
		if (axis == 0) {
			batch->factor[at] = factor_of(job, view, m);
			batch->source[at] = g.view * job.period + (m < 0 ? m + job.period : m);
		}
	}
}

/* ---- from cells to points -------------------------------------------------------------------- */

static __host__ __device__ int collect_pitch(int taps)
{
	return (FOURIER_TILE + taps - 1) | 1;
}

/* The cells of a tile and those beyond it that its points reach. */
template <typename Cell>
static __device__ void load_tile(const PointJob &job, const PointChunk &chunk, Cell *tile)
{
	enum { EACH = sizeof(Cell) / sizeof(float2) };
	const int wide = FOURIER_TILE + job.window.taps - 1, pitch = collect_pitch(job.window.taps);
	const int64_t plane = (int64_t)job.size[0] * job.size[1];
	for (int i = (int)threadIdx.x; i < job.pairs * wide * wide; i += (int)blockDim.x) {
		int pair = i / (wide * wide), y = i / wide % wide, x = i % wide;
		int column = (chunk.tile[0] * FOURIER_TILE + x) % job.size[0];
		int row = (chunk.tile[1] * FOURIER_TILE + y) % job.size[1];
		float2 *to = (float2 *)(tile + (pair / EACH * wide + y) * pitch + x) + pair % EACH;
		*to = job.grid[pair * plane + (int64_t)row * job.size[0] + column];
	}
}

template <typename Cell>
static __device__ Cell collect_point(
	const PointJob &job, const PointBatch *batch, const Cell *tile, int at)
{
	const int taps = job.window.taps, pitch = collect_pitch(taps);
	const Cell *row = tile + batch->cell[1][at] * pitch + batch->cell[0][at];
	float across[SPREAD_MOST];
	Cell sum = {};
#pragma unroll
	for (int i = 0; i < SPREAD_MOST; i++)
		across[i] = i < taps ? batch->weights[0][at][i] : 0;
	for (int j = 0; j < taps; j++, row += pitch) {
		Cell part = {};
#pragma unroll
		for (int i = 0; i < SPREAD_MOST; i++)
			if (i < taps)
				add_times(part, across[i], row[i]);
		add_times(sum, batch->weights[1][at][j], part);
	}
	return sum;
}

/* The frequency of half a cycle per column, which has no point, is 0. */
static __device__ void store_value(
	const PointJob &job, const PointBatch *batch, int at, int pair, float2 value)
{
	const int64_t source = batch->source[at];
	const float2 factor = batch->factor[at];
	float2 *to = job.values + pair * job.count * job.period + source;
	*to = times(value, make_float2(factor.x, -factor.y));
	if (source % job.period == job.top)
		to[1] = make_float2(0, 0);
}

template <typename Cell>
static __global__ void __launch_bounds__(512) collect_kernel(const __grid_constant__ PointJob job)
{
	enum { EACH = sizeof(Cell) / sizeof(float2) };
	extern __shared__ float4 shared[];
	__shared__ PointBatch batch;
	Cell *tile = (Cell *)shared;
	const PointChunk chunk = job.chunks[blockIdx.x];
	const int wide = FOURIER_TILE + job.window.taps - 1;
	const int group = (int)threadIdx.x / BATCH, at = (int)threadIdx.x % BATCH;
	load_tile(job, chunk, tile);
	for (int first = 0; first < chunk.points; first += BATCH) {
		const int count = min(BATCH, chunk.points - first);
		__syncthreads();
		place_points(job, chunk, first, count, &batch);
		__syncthreads();
		if (at >= count || group * EACH >= job.pairs)
			continue;
		const Cell sum = collect_point(
			job, &batch, tile + group * wide * collect_pitch(job.window.taps), at);
		const float2 *values = (const float2 *)&sum;
#pragma unroll
		for (int i = 0; i < EACH; i++)
			store_value(job, &batch, at, group * EACH + i, values[i]);
	}
}

/* ---- from points to cells -------------------------------------------------------------------- */

/* An even number of cells, such that two rows of eight cells are in different banks. */
enum { PITCH = FOURIER_TILE + 8 };

static __device__ void load_values(
	const PointJob &job, const PointBatch *batch, int count, float2 *values)
{
	for (int i = (int)threadIdx.x; i < job.pairs * count; i += (int)blockDim.x) {
		const int pair = i / count, at = i % count;
		const float2 factor = batch->factor[at];
		float2 value;
		if (job.squares)
			value = make_float2(
				(float)job.period * (factor.x * factor.x + factor.y * factor.y), 0);
		else
			value = times(factor,
				job.values[pair * job.count * job.period + batch->source[at]]);
		values[at * FOURIER_PAIRS + pair] = value;
	}
}

/* The cells of points by their remainders. Those that are not in the tile get a weight of 0 and the
 * place of another cell with that remainder, so that threads need no branches. */
static __device__ void sort_cells(
	const PointJob &job, const PointBatch *batch, int count, PointCells cells)
{
	const int taps = job.window.taps;
	for (int i = (int)threadIdx.x; i < 2 * count; i += (int)blockDim.x) {
		const int at = i / 2, axis = i % 2, first = batch->cell[axis][at];
		int rest = (first + taps) % taps;
		for (int tap = 0; tap < taps; tap++) {
			const bool within = (unsigned)(first + tap) < FOURIER_TILE;
			const int place = within ? first + tap : rest;
			cells[axis][at][rest] =
				(PointCell){within ? batch->weights[axis][at][tap] : 0,
					axis == 0 ? place : place * PITCH};
			rest = rest + 1 < taps ? rest + 1 : 0;
		}
	}
}

template <typename Cell>
static __device__ void add_points(
	const PointJob &job, const PointCells cells, int count, const Cell *values, Cell *tile)
{
	enum { EACH = sizeof(Cell) / sizeof(float2), GROUPS = FOURIER_PAIRS / EACH };
	const int taps = job.window.taps, group = (int)threadIdx.x / (taps * taps);
	const PointCell *column = cells[0][0] + (int)threadIdx.x % taps;
	const PointCell *row = cells[1][0] + (int)threadIdx.x / taps % taps;
	if (group * EACH >= job.pairs)
		return;
	tile += group * FOURIER_TILE * PITCH;
	values += group;
#pragma unroll 4
	for (int at = 0; at < count; at++) {
		const PointCell x = column[at * WEIGHT_PITCH], y = row[at * WEIGHT_PITCH];
		add_times(tile[x.offset + y.offset], x.weight * y.weight, values[at * GROUPS]);
	}
}

template <typename Cell>
static __device__ void store_tile(const PointJob &job, const PointChunk &chunk, const Cell *tile)
{
	enum { EACH = sizeof(Cell) / sizeof(float2) };
	const int64_t plane = (int64_t)job.size[0] * job.size[1];
	for (int i = (int)threadIdx.x; i < job.pairs * FOURIER_CELLS; i += (int)blockDim.x) {
		const int pair = i / FOURIER_CELLS, y = i / FOURIER_TILE % FOURIER_TILE,
			  x = i % FOURIER_TILE;
		const int column = chunk.tile[0] * FOURIER_TILE + x;
		const int row = chunk.tile[1] * FOURIER_TILE + y;
		const Cell *cell = tile + (pair / EACH * FOURIER_TILE + y) * PITCH + x;
		const float2 value = ((const float2 *)cell)[pair % EACH];
		if (chunk.part >= 0)
			job.parts[((int64_t)chunk.part * job.pairs + pair) * FOURIER_CELLS +
				  y * FOURIER_TILE + x] = value;
		else if (column < job.size[0] && row < job.size[1])
			job.grid[pair * plane + (int64_t)row * job.size[0] + column] = value;
	}
}

template <typename Cell>
static __global__ void __launch_bounds__(1024) spread_kernel(const __grid_constant__ PointJob job)
{
	enum { EACH = sizeof(Cell) / sizeof(float2) };
	extern __shared__ float4 shared[];
	__shared__ PointBatch batch;
	__shared__ PointCells cells;
	__shared__ float4 values[BATCH * FOURIER_PAIRS / 2];
	Cell *tile = (Cell *)shared;
	const PointChunk chunk = job.chunks[blockIdx.x];
	const int all = job.pairs / EACH * FOURIER_TILE * PITCH;
	for (int i = (int)threadIdx.x; i < all; i += (int)blockDim.x)
		tile[i] = {};
	for (int first = 0; first < chunk.points; first += BATCH) {
		const int count = min(BATCH, chunk.points - first);
		place_points(job, chunk, first, count, &batch);
		__syncthreads();
		load_values(job, &batch, count, (float2 *)values);
		sort_cells(job, &batch, count, cells);
		__syncthreads();
		add_points(job, cells, count, (const Cell *)values, tile);
		__syncthreads();
	}
	if (chunk.points == 0)
		__syncthreads();
	store_tile(job, chunk, tile);
}

/* Sums the parts of a tile. */
static __global__ void add_parts(const __grid_constant__ PointJob job)
{
	const PartTile tile = job.tiles[blockIdx.x];
	const int pair = (int)blockIdx.y;
	const int64_t plane = (int64_t)job.size[0] * job.size[1];
	for (int i = (int)threadIdx.x; i < FOURIER_CELLS; i += (int)blockDim.x) {
		const int column = tile.tile[0] * FOURIER_TILE + i % FOURIER_TILE;
		const int row = tile.tile[1] * FOURIER_TILE + i / FOURIER_TILE;
		float2 sum = {};
		for (int part = 0; part < tile.parts; part++)
			add_times(sum, 1,
				job.parts[((int64_t)(tile.part + part) * job.pairs + pair) *
						  FOURIER_CELLS +
					  i]);
		if (column < job.size[0] && row < job.size[1])
			job.grid[pair * plane + (int64_t)row * job.size[0] + column] = sum;
	}
}

/* ---- launches -------------------------------------------------------------------------------- */

static PointJob job_of(const Fourier *f, Direction direction)
{
	const PointLists *lists = &f->lists[direction];
	return (PointJob){.segments = lists->segments,
		.chunks = lists->chunks,
		.tiles = lists->tiles,
		.views = f->views,
		.window = f->lines.window,
		.size = {(int)f->lines.size[0], (int)f->lines.size[1]},
		.count = f->spec.count,
		.period = f->lines.period,
		.top = f->lines.top,
		.pairs = f->pairs,
		.line = f->spec.response == RESPONSE_LINE,
		.grid = f->grid,
		.values = f->values,
		.parts = f->parts};
}

static tomos_status launch(tomos_backend *b, void (*kernel)(const PointJob), int threads,
	int64_t shared, int blocks, const PointJob &job)
{
	if (blocks == 0)
		return TOMOS_OK;
	TRY(cuda_take_shared((const void *)kernel));
	kernel<<<(unsigned)blocks, (unsigned)threads, (size_t)shared, device_of(b)->stream>>>(job);
	CUDA_LAUNCHED("interpolation");
	return TOMOS_OK;
}

static int64_t collect_cells(const Fourier *f)
{
	return (int64_t)(FOURIER_TILE + f->lines.window.taps - 1) *
	       collect_pitch(f->lines.window.taps);
}

int64_t fourier_most_pairs(const Fourier *f)
{
	const int64_t fixed = sizeof(PointBatch) + sizeof(PointCells) +
			      (int)BATCH * FOURIER_PAIRS / 2 * sizeof(float4);
	const int64_t cells = max64(collect_cells(f), (int)FOURIER_TILE * PITCH);
	return (cuda_most_shared() - fixed) / (cells * (int64_t)sizeof(float2));
}

tomos_status fourier_collect(tomos_backend *b, const Fourier *f)
{
	const PointJob job = job_of(f, FORWARD);
	const bool two = f->pairs % 2 == 0;
	const int groups = two ? f->pairs / 2 : f->pairs;
	return launch(b, two ? collect_kernel<float4> : collect_kernel<float2>,
		(int)max64(LEAST_THREADS, BATCH * groups),
		collect_cells(f) * f->pairs * (int64_t)sizeof(float2),
		f->lists[FORWARD].chunk_count, job);
}

tomos_status fourier_spread(tomos_backend *b, const Fourier *f, bool squares)
{
	PointJob job = job_of(f, ADJOINT);
	const PointLists *lists = &f->lists[ADJOINT];
	const bool two = f->pairs % 2 == 0;
	const int taps = f->lines.window.taps, groups = two ? f->pairs / 2 : f->pairs;
	job.squares = squares;
	TRY(launch(b, two ? spread_kernel<float4> : spread_kernel<float2>,
		(int)max64(LEAST_THREADS, (taps * taps * groups + 31) / 32 * 32),
		(int64_t)FOURIER_TILE * PITCH * f->pairs * (int64_t)sizeof(float2),
		lists->chunk_count, job));
	if (lists->tile_count == 0)
		return TOMOS_OK;
	add_parts<<<dim3((unsigned)lists->tile_count, (unsigned)f->pairs), 256, 0,
		device_of(b)->stream>>>(job);
	CUDA_LAUNCHED("interpolation");
	return TOMOS_OK;
}
