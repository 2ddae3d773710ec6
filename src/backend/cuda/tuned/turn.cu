/* Arrays turned so that slices are the fastest axis, and back; see turn.h. */
#include "backend/cuda/tuned/turn.h"

enum { TILE = 32, WIDE = 128, WARPS = 8, EACH = TILE * WIDE / (TILE * WARPS) };

/* ---- scales ------------------------------------------------------------------------------- */

/* Bits of floats that are not negative are ordered as they are. */
static __global__ void find_largest(
	const __grid_constant__ Turning t, const HatView *views, unsigned *largest)
{
	unsigned most = 0;
	for (int64_t line = blockIdx.x; line < t.slices * t.nk; line += gridDim.x) {
		int64_t i = line % t.slices, k = line / t.slices;
		const float *from = t.outside + i * t.si + k * t.sk;
		float weight = views ? views[k].weight : 1;
		for (int64_t j = threadIdx.x; j < t.nj; j += SUM_THREADS)
			most = max(most, __float_as_uint(fabsf(weight * from[j * t.sj])));
	}
	for (int step = TILE / 2; step > 0; step /= 2)
		most = max(most, __shfl_xor_sync(0xffffffffu, most, step));
	if (threadIdx.x % TILE == 0)
		atomicMax(largest, most);
}

/* ---- floats ------------------------------------------------------------------------------- */

/* A part of an array as [j][slice]: wide enough that a thread has several loads under way. */
typedef float Tile[WIDE][TILE + 1];

/* Element number r of this thread: outside, neighbouring threads are neighbours in memory. */
static __device__ __forceinline__ void find_outside(const Turning *t, int r, int *i, int *j)
{
	*i = t->si == 1 ? threadIdx.x : threadIdx.y + r % (TILE / WARPS) * WARPS;
	*j = t->si == 1 ? threadIdx.y + r * WARPS : threadIdx.x + r / (TILE / WARPS) * TILE;
}

static __device__ void read_tile(const Turning *t, int64_t i0, int64_t j0, int64_t k, Tile tile)
{
	float value[EACH];
	j0 -= t->margin;
	const float *from = t->outside + i0 * t->si + j0 * t->sj + k * t->sk;
#pragma unroll
	for (int r = 0; r < EACH; r++) {
		int i, j;
		find_outside(t, r, &i, &j);
		value[r] = i0 + i < t->slices && (uint64_t)(j0 + j) < (uint64_t)t->nj && k < t->nk
				   ? __ldcs(from + i * t->si + j * t->sj)
				   : 0;
	}
#pragma unroll
	for (int r = 0; r < EACH; r++) {
		int i, j;
		find_outside(t, r, &i, &j);
		tile[j][i] = value[r];
	}
}

static __global__ void __launch_bounds__(TILE *WARPS)
	turn_inwards(const __grid_constant__ Turning t)
{
	__shared__ Tile tile;
	int64_t i0 = (int64_t)blockIdx.x * TILE, j0 = (int64_t)blockIdx.y * WIDE;
	int64_t nj = t.nj + 2 * t.margin;
	for (int64_t k = blockIdx.z; k < t.nk; k += gridDim.z) {
		float weight = t.weights ? t.weights[k].weight : 1;
		read_tile(&t, i0, j0, k, tile);
		__syncthreads();
		for (int r = threadIdx.y; r < WIDE; r += WARPS)
			if (j0 + r < nj && i0 + threadIdx.x < t.pitch)
				t.inside[(k * nj + j0 + r) * t.pitch + i0 + threadIdx.x] =
					weight * tile[r][threadIdx.x];
		__syncthreads();
	}
}

/* ---- halves ------------------------------------------------------------------------------- */

static __device__ int64_t place_word(const TurnRows *to, int part, int64_t c, int64_t j, int64_t k)
{
	return ((part * to->nk + k) * to->nj + j) * to->chunks + c;
}

static __device__ int64_t place_word(
	const TurnSquares *to, int part, int64_t c, int64_t j, int64_t k)
{
	int jj = (int)(j % SQUARE_SIDE), kk = (int)(k % SQUARE_SIDE);
	int pixel = to->across ? kk * SQUARE_SIDE + jj : jj * SQUARE_SIDE + kk;
	int64_t square = (c / to->chunks * to->nk + k / SQUARE_SIDE) * to->nj + j / SQUARE_SIDE;
	int64_t eight = (square * to->parts + part) * (SQUARE_PIXELS / 8) + pixel / 8;
	return (eight * to->chunks + c % to->chunks) * 8 + pixel % 8;
}

/* Which slice of 16 is number i of a word, that of chunk c. */
static __device__ int slice_of_word(const TurnRows *, int c, int i)
{
	return c % 2 * CHUNK + i;
}

static __device__ int slice_of_word(const TurnSquares *, int c, int i)
{
	return i / 2 * 4 + c % 2 * 2 + i % 2;
}

/* How far the words go, which may be further than the data. */
typedef struct {
	int64_t nj, nk, chunks;
} Extent;

/* Eight floats as halves; what their rounding took away is left in them. */
static __device__ uint4 round_word(float value[CHUNK])
{
	union {
		__half half[CHUNK];
		uint4 word;
	} to;
	for (int i = 0; i < CHUNK; i++) {
		to.half[i] = __float2half_rn(value[i]);
		value[i] -= __half2float(to.half[i]);
	}
	return to.word;
}

template <class Place>
static __global__ void __launch_bounds__(TILE *WARPS)
	turn_to_halves(const __grid_constant__ Turning t, const __grid_constant__ TurnHalves to,
		const __grid_constant__ Place place, const Extent extent)
{
	__shared__ Tile tile;
	int64_t i0 = (int64_t)blockIdx.x * TILE, j0 = (int64_t)blockIdx.y * WIDE;
	float scale = power_of_two(scale_exponent(*to.largest));
	for (int64_t k = blockIdx.z; k < extent.nk; k += gridDim.z) {
		float factor = to.views ? scale * to.views[k].weight : scale;
		read_tile(&t, i0, j0, k, tile);
		__syncthreads();
		for (int word = threadIdx.y * TILE + threadIdx.x; word < WIDE * TILE / CHUNK;
			word += TILE * WARPS) {
			int r = word / (TILE / CHUNK), c = word % (TILE / CHUNK);
			int64_t j = j0 + r, chunk = i0 / CHUNK + c;
			float value[CHUNK];
			if (j >= extent.nj || chunk >= extent.chunks)
				continue;
			for (int i = 0; i < CHUNK; i++)
				value[i] =
					factor * tile[r][c / 2 * 16 + slice_of_word(&place, c, i)];
			for (int part = 0; part < to.parts; part++)
				to.data[place_word(&place, part, chunk, j, k)] = round_word(value);
		}
		__syncthreads();
	}
}

/* ---- and out ------------------------------------------------------------------------------ */

/* What a sum that goes to pixel (j, k) is multiplied by. */
static __device__ __forceinline__ float factor_at(
	const Turning *t, const CudaStep *step, const float *voxel, int64_t j, int64_t k)
{
	float factor = step->factors ? __ldg(step->factors + k * t->nj + j) : step->a;
	return step->voxels ? factor * __ldcs(step->voxels + (voxel - step->volume)) : factor;
}

template <bool STEP>
static __global__ void __launch_bounds__(TILE *WARPS)
	turn_outwards(const __grid_constant__ Turning t, const __grid_constant__ CudaStep step)
{
	__shared__ Tile tile;
	int64_t i0 = (int64_t)blockIdx.x * TILE, j0 = (int64_t)blockIdx.y * WIDE;
	float factor = t.largest ? power_of_two(-scale_exponent(*t.largest)) : 1;
	for (int64_t k = blockIdx.z; k < t.nk; k += gridDim.z) {
		float value[EACH];
		float *to = t.outside + i0 * t.si + j0 * t.sj + k * t.sk;
		const float *from = t.inside + (k * t.nj + j0) * t.pitch + i0 + threadIdx.x;
#pragma unroll
		for (int r = 0; r < EACH; r++) {
			int j = threadIdx.y + r * WARPS;
			value[r] = j0 + j < t.nj && i0 + threadIdx.x < t.pitch
					   ? __ldcs(from + j * t.pitch)
					   : 0;
		}
#pragma unroll
		for (int r = 0; r < EACH; r++)
			tile[threadIdx.y + r * WARPS][threadIdx.x] = value[r];
#pragma unroll
		for (int r = 0; r < EACH; r++) {
			int i, j;
			find_outside(&t, r, &i, &j);
			bool inside = i0 + i < t.slices && j0 + j < t.nj;
			value[r] = inside ? to[i * t.si + j * t.sj] : 0;
		}
		__syncthreads();
#pragma unroll
		for (int r = 0; r < EACH; r++) {
			int i, j;
			find_outside(&t, r, &i, &j);
			float *voxel = to + i * t.si + j * t.sj, sum = factor * tile[j][i];
			if (i0 + i >= t.slices || j0 + j >= t.nj)
				continue;
			*voxel = STEP ? cuda_stepped(step, value[r],
						factor_at(&t, &step, voxel, j0 + j, k), sum)
				      : value[r] + sum;
		}
		__syncthreads();
	}
}

static dim3 tiles_of(const Turning *t)
{
	return dim3(cuda_blocks(t->pitch, TILE, 1 << 30),
		cuda_blocks(t->nj + 2 * t->margin, WIDE, 65535), cuda_blocks(t->nk, 1, 65535));
}

tomos_status turn_in(tomos_backend *backend, const Turning *t)
{
	turn_inwards<<<tiles_of(t), dim3(TILE, WARPS), 0, device_of(backend)->stream>>>(*t);
	CUDA_LAUNCHED("turning an array");
	return TOMOS_OK;
}

/* It never leaves the card, so nobody waits for it. */
tomos_status turn_largest(
	tomos_backend *backend, const Turning *t, const HatView *weights, unsigned *largest)
{
	CudaDevice *d = device_of(backend);
	CUDA_TRY(cudaMemsetAsync(largest, 0, sizeof *largest, d->stream), "turning an array");
	find_largest<<<cuda_blocks(t->slices * t->nk, 1, 8 * d->processors), SUM_THREADS, 0,
		d->stream>>>(*t, weights, largest);
	CUDA_LAUNCHED("turning an array");
	return TOMOS_OK;
}

template <class Place>
static tomos_status turn_halves(tomos_backend *backend, const Turning *t, const TurnHalves *halves,
	Place place, Extent extent)
{
	cudaStream_t stream = device_of(backend)->stream;
	if (!halves->known)
		TRY(turn_largest(backend, t, halves->views, halves->largest));
	dim3 tiles(cuda_blocks(extent.chunks * CHUNK, TILE, 1 << 30),
		cuda_blocks(extent.nj, WIDE, 65535), cuda_blocks(extent.nk, 1, 65535));
	turn_to_halves<<<tiles, dim3(TILE, WARPS), 0, stream>>>(*t, *halves, place, extent);
	CUDA_LAUNCHED("turning an array");
	return TOMOS_OK;
}

tomos_status turn_in_rows(
	tomos_backend *backend, const Turning *t, const TurnHalves *halves, TurnRows to)
{
	return turn_halves(backend, t, halves, to, Extent{to.nj, to.nk, to.chunks});
}

tomos_status turn_in_squares(
	tomos_backend *backend, const Turning *t, const TurnHalves *halves, TurnSquares to)
{
	return turn_halves(backend, t, halves, to,
		Extent{to.nj * SQUARE_SIDE, to.nk * SQUARE_SIDE, to.groups * to.chunks});
}

tomos_status turn_out(tomos_backend *backend, const Turning *t)
{
	const CudaDevice *d = device_of(backend);
	(d->step ? turn_outwards<true>
		 : turn_outwards<false>)<<<tiles_of(t), dim3(TILE, WARPS), 0, d->stream>>>(
		*t, d->step ? *d->step : CudaStep{});
	CUDA_LAUNCHED("turning an array");
	return TOMOS_OK;
}

/* ---- of a request ------------------------------------------------------------------------- */

/* Where not even a unit fits, fewer: whole words still. */
int64_t turn_most(
	const tomos_backend *backend, const Projecting *what, const HatSlices *l, TurnKeeps keeps)
{
	Turning x = turn_volume(what, l, what->box.low[l->s], 1, 1);
	Turning y = turn_views(what, l, what->box.low[l->s], 1, 1);
	int64_t floats =
		keeps.volumes * x.nj * x.nk + keeps.views * (y.nj + 2 * keeps.margin) * y.nk;
	int64_t most = min64(device_of(backend)->turned_most / max64(floats, 1), TURN_SLICES);
	int64_t unit = most < keeps.unit ? (int64_t)CHUNK : keeps.unit;
	return max64(most / unit, 1) * unit;
}

void turn_range(const Projecting *what, const HatSlices *l, int64_t *low, int64_t *high)
{
	int64_t one = -l->first * l->sign; /* the slices of the first and the last row */
	int64_t two = (what->plan->model.rows - 1 - l->first) * l->sign;
	*low = max64(what->box.low[l->s], min64(one, two));
	*high = min64(what->box.high[l->s], max64(one, two) + 1);
}

bool turn_has_all(const Projecting *what, const HatSlices *l)
{
	int64_t low, high;
	turn_range(what, l, &low, &high);
	return low <= what->box.low[l->s] && high >= what->box.high[l->s];
}

CudaSteps turn_steps(const tomos_backend *backend, const Projecting *what, const CudaNotes *notes,
	const BackStep *step)
{
	(void)backend;
	if (!turn_has_all(what, notes_of<HatSlices>(notes)) || (step->average && step->rays))
		return STEPS_NOT;
	return step->average ? STEPS_WITH_FACTORS : STEPS;
}

static int64_t rounded_up(int64_t n, int64_t unit)
{
	return (n + unit - 1) / unit * unit;
}

Turning turn_volume(
	const Projecting *what, const HatSlices *l, int64_t slice, int64_t slices, int64_t unit)
{
	const Box *box = &what->box;
	int64_t nx = box->high[0] - box->low[0], ny = box->high[1] - box->low[1];
	const int64_t stride[3] = {1, nx, nx * ny};
	return Turning{.outside = what->volume + (slice - box->low[l->s]) * stride[l->s],
		.slices = slices,
		.pitch = rounded_up(slices, unit),
		.nj = box->high[l->a] - box->low[l->a],
		.nk = box->high[l->b] - box->low[l->b],
		.si = stride[l->s],
		.sj = stride[l->a],
		.sk = stride[l->b]};
}

Turning turn_views(
	const Projecting *what, const HatSlices *l, int64_t slice, int64_t slices, int64_t unit)
{
	int64_t rows = what->plan->model.rows, columns = what->plan->model.columns;
	return Turning{.outside = what->projections + (l->first + l->sign * slice) * columns,
		.slices = slices,
		.pitch = rounded_up(slices, unit),
		.nj = columns,
		.nk = what->count,
		.si = l->sign * columns,
		.sj = 1,
		.sk = rows * columns};
}

Turning turn_planes(float *volume, float *turned, int64_t nx, int64_t ny, int64_t nz)
{
	return Turning{.outside = volume,
		.inside = turned,
		.slices = ny,
		.pitch = ny,
		.nj = nx,
		.nk = nz,
		.si = nx,
		.sj = 1,
		.sk = nx * ny};
}
