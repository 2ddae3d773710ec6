/* Kernels and launches of transpose.h: arrays are transposed so that slices are the fastest
 * axis, and back. */
#include "backend/cuda/kernels/transpose.h"
#include "backend/cuda/kernels/epilogue.h"

/* A thread has EACH elements; BLOCKS per SM keep enough loads in flight. */
enum { TILE = 32, WIDE = 64, WARPS = 8, EACH = WIDE / WARPS, BLOCKS = 4 };

/* ---- scales ---------------------------------------------------------------------------------- */

/* Largest absolute value, times the weights of the views and the factors of rays. Comparing bits is
 * valid: non-negative floats are ordered like their bit patterns. */
static __global__ void find_largest(const __grid_constant__ Transposed t, const HatView *views,
	const float *rays, unsigned *largest)
{
	unsigned most = 0;
	for (int64_t line = blockIdx.x; line < t.slices * t.nk; line += gridDim.x) {
		int64_t i = line % t.slices, k = line / t.slices;
		const float *from = t.outside + i * t.si + k * t.sk;
		float weight = views ? views[k].weight : 1;
#pragma unroll 4
		for (int64_t j = threadIdx.x; j < t.nj; j += SUM_THREADS)
			most = max(most,
				__float_as_uint(fabsf(
					(rays ? rays[k * t.nj + j] : weight) * from[j * t.sj])));
	}
	for (int step = TILE / 2; step > 0; step /= 2)
		most = max(most, __shfl_xor_sync(0xffffffffu, most, step));
	if (threadIdx.x % TILE == 0)
		atomicMax(largest, most);
}

/* ---- floats ---------------------------------------------------------------------------------- */

/* A part of an array in shared memory as [j][slice]; wide enough that a thread has several loads
 * in flight. */
typedef float Tile[WIDE][TILE + 1];

/* The elements of a tile that a thread accesses in the caller's array, where neighbouring
 * threads are neighbours in memory: from (i, j) of the tile, ROUND steps of (di, dj), repeated with
 * TILE added to j each time. */
enum { ROUND = TILE / WARPS };

typedef struct {
	int i, j, di, dj;
	int64_t first, step, jump; /* offset of the first element; strides of a step and of TILE
	                            * along j */
	int low_j, high_i, high_j; /* range of i and j inside the array, relative to the tile */
} Walk;

static __device__ __forceinline__ Walk walk_of(const Transposed *t, int64_t i0, int64_t j0)
{
	bool along = t->si == 1;
	int x = threadIdx.x, y = threadIdx.y;
	Walk w = {.i = along ? x : y,
		.j = along ? y : x,
		.di = along ? 0 : WARPS,
		.dj = along ? WARPS : 0,
		.step = WARPS * (along ? t->sj : t->si),
		.jump = TILE * t->sj,
		.low_j = (int)max(-j0, (int64_t)0),
		.high_i = (int)min(t->slices - i0, (int64_t)TILE),
		.high_j = (int)min(t->nj - j0, (int64_t)WIDE)};
	w.first = (i0 + w.i) * t->si + (j0 + w.j) * t->sj;
	return w;
}

/* Position of element r, in the tile and in memory. */
static __device__ __forceinline__ int i_of(const Walk *w, int r)
{
	return w->i + r % ROUND * w->di;
}

static __device__ __forceinline__ int j_of(const Walk *w, int r)
{
	return w->j + r % ROUND * w->dj + r / ROUND * TILE;
}

static __device__ __forceinline__ int64_t place_of(const Walk *w, int r)
{
	return w->first + r % ROUND * w->step + r / ROUND * w->jump;
}

static __device__ __forceinline__ bool is_inside(const Walk *w, int r)
{
	int j = j_of(w, r);
	return i_of(w, r) < w->high_i && j >= w->low_j && j < w->high_j;
}

static __device__ void read_tile(const Transposed *t, int64_t i0, int64_t j0, int64_t k, Tile tile)
{
	float value[EACH];
	const Walk w = walk_of(t, i0, j0 - t->margin);
	const float *from = t->outside + k * t->sk;
#pragma unroll
	for (int r = 0; r < EACH; r++)
		value[r] = k < t->nk && is_inside(&w, r) ? __ldcs(from + place_of(&w, r)) : 0;
#pragma unroll
	for (int r = 0; r < EACH; r++)
		tile[j_of(&w, r)][i_of(&w, r)] = value[r];
}

static __global__ void __launch_bounds__(TILE *WARPS, BLOCKS)
	floats_in(const __grid_constant__ Transposed t)
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

/* ---- halves ---------------------------------------------------------------------------------- */

/* Rounds eight floats to halves, and replaces the floats by their rounding errors. */
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

static __global__ void __launch_bounds__(TILE *WARPS, BLOCKS)
	halves_to_rows(const __grid_constant__ Transposed t, const __grid_constant__ Halves to,
		const HalfRows rows)
{
	__shared__ Tile tile;
	int64_t i0 = (int64_t)blockIdx.x * TILE, j0 = (int64_t)blockIdx.y * WIDE;
	float scale = power_of_two(scale_exponent(*to.largest));
	for (int64_t k = blockIdx.z; k < rows.nk; k += gridDim.z) {
		float factor = to.views ? scale * to.views[k].weight : scale;
		read_tile(&t, i0, j0, k, tile);
		__syncthreads();
		for (int word = threadIdx.y * TILE + threadIdx.x; word < WIDE * TILE / CHUNK;
			word += TILE * WARPS) {
			int r = word / (TILE / CHUNK), c = word % (TILE / CHUNK);
			int64_t j = j0 + r, chunk = i0 / CHUNK + c;
			float value[CHUNK];
			if (j >= rows.nj || chunk >= rows.chunks)
				continue;
			const float ray = to.rays ? scale * to.rays[k * rows.nj + j] : factor;
			for (int i = 0; i < CHUNK; i++)
				value[i] = ray * tile[r][c * CHUNK + i];
			for (int part = 0; part < to.parts; part++)
				to.data[((part * rows.nk + k) * rows.nj + j) * rows.chunks +
					chunk] = round_word(value);
		}
		__syncthreads();
	}
}

/* SQUARE_SIDE tiles, of neighbouring k, padded so that the pixels of a square are in different
 * banks. */
typedef float Rows[SQUARE_SIDE][WIDE * (TILE + 1) + SQUARE_SIDE];

/* Writes 16 bytes (eight slices in half precision) per lane. A warp writes two parts of a square
 * of pixels, 16 slices apart, so that whole cache lines are written whether rows or squares are
 * contiguous. (row, j): position of the square. */
static __device__ __forceinline__ void put_words(const Rows rows, const Halves *to,
	const HalfSquares *squares, float scale, int64_t row, int64_t j, int64_t chunk, int c)
{
	unsigned pixel = threadIdx.x % SQUARE_PIXELS, jj = pixel % SQUARE_SIDE;
	unsigned kk = pixel / SQUARE_SIDE, chunks = (unsigned)squares->chunks;
	unsigned other = jj * SQUARE_SIDE + kk, group = (unsigned)chunk / chunks;
	const float *from = rows[kk] + ((j * SQUARE_SIDE + jj) % WIDE) * (TILE + 1) + c / 2 * 16;
	float value[CHUNK];
	for (int i = 0; i < CHUNK; i++)
		value[i] = scale * from[i / 2 * 4 + c % 2 * 2 + i % 2];
	int64_t square = (group * squares->nk + row) * squares->nj + j;
	int64_t at = square * to->parts * SQUARE_PIXELS * chunks + (unsigned)chunk % chunks * 8;
	for (int part = 0; part < to->parts; part++, at += SQUARE_PIXELS * chunks) {
		const uint4 word = round_word(value);
		if (squares->along_j)
			squares->along_j[at + pixel / 8 * chunks * 8 + pixel % 8] = word;
		if (squares->along_k)
			squares->along_k[at + other / 8 * chunks * 8 + other % 8] = word;
	}
}

/* Writes both orders of HalfSquares from one read of the array. */
static __global__ void __launch_bounds__(TILE *WARPS, BLOCKS)
	halves_to_squares(const __grid_constant__ Transposed t, const __grid_constant__ Halves to,
		const __grid_constant__ HalfSquares squares)
{
	__shared__ Rows rows;
	int64_t i0 = (int64_t)blockIdx.x * TILE, j0 = (int64_t)blockIdx.y * WIDE;
	float scale = power_of_two(scale_exponent(*to.largest));
	for (int64_t row = blockIdx.z; row < squares.nk; row += gridDim.z) {
#pragma unroll
		for (int kk = 0; kk < SQUARE_SIDE; kk++)
			read_tile(
				&t, i0, j0, row * SQUARE_SIDE + kk, (float(*)[TILE + 1]) rows[kk]);
		__syncthreads();
		for (int unit = threadIdx.y; unit < WIDE / SQUARE_SIDE * 2; unit += WARPS) {
			int c = unit % 2 + threadIdx.x / SQUARE_PIXELS * 2;
			int64_t j = j0 / SQUARE_SIDE + unit / 2, chunk = i0 / CHUNK + c;
			if (j < squares.nj && chunk < squares.groups * squares.chunks)
				put_words(rows, &to, &squares, scale, row, j, chunk, c);
		}
		__syncthreads();
	}
}

/* ---- and out --------------------------------------------------------------------------------- */

/* Transposes back and applies the epilogue. All loads are issued before the first is used. */
template <EpilogueKind EPILOGUE>
static __global__ void __launch_bounds__(TILE *WARPS, BLOCKS)
	floats_out(const __grid_constant__ Transposed t, const __grid_constant__ CudaUpdate update,
		const __grid_constant__ CudaResidual residual)
{
	__shared__ Tile tile;
	int64_t i0 = (int64_t)blockIdx.x * TILE, j0 = (int64_t)blockIdx.y * WIDE;
	float scale = t.largest ? power_of_two(-scale_exponent(*t.largest)) : 1;
	const Walk w = walk_of(&t, i0, j0);
	for (int64_t k = blockIdx.z; k < t.nk; k += gridDim.z) {
		float sum[EACH], value[EACH], factor[EACH];
		float *to = t.outside + k * t.sk;
		int64_t row = k * t.nj + j0;
		const float *from = t.inside + (row + threadIdx.y) * t.pitch + i0 + threadIdx.x;
#pragma unroll
		for (int r = 0; r < EACH; r++) {
			bool inside = (int)threadIdx.y + r * WARPS < w.high_j &&
				      i0 + threadIdx.x < t.pitch;
			sum[r] = inside ? __ldcs(from + r * WARPS * t.pitch) : 0;
		}
#pragma unroll
		for (int r = 0; r < EACH; r++)
			if (is_inside(&w, r))
				load_operands<EPILOGUE>(update, residual, to + place_of(&w, r),
					&value[r], &factor[r]);
#pragma unroll
		for (int r = 0; r < EACH; r++)
			tile[threadIdx.y + r * WARPS][threadIdx.x] = sum[r];
		__syncthreads();
#pragma unroll
		for (int r = 0; r < EACH; r++) {
			float result = scale * tile[j_of(&w, r)][i_of(&w, r)];
			if (is_inside(&w, r))
				store_result<EPILOGUE>(update, residual, to + place_of(&w, r),
					row + j_of(&w, r), value[r], factor[r], result);
		}
		__syncthreads();
	}
}

static dim3 tiles_of(const Transposed *t)
{
	return dim3(cuda_blocks(t->pitch, TILE, 1 << 30),
		cuda_blocks(t->nj + 2 * t->margin, WIDE, 65535), cuda_blocks(t->nk, 1, 65535));
}

tomos_status transpose_in(tomos_backend *backend, const Transposed *t)
{
	floats_in<<<tiles_of(t), dim3(TILE, WARPS), 0, device_of(backend)->stream>>>(*t);
	CUDA_LAUNCHED("transposing an array");
	return TOMOS_OK;
}

/* The value remains on the GPU, without synchronisation. */
static tomos_status largest_of(tomos_backend *backend, const Transposed *t, const HatView *weights,
	const float *rays, unsigned *largest)
{
	CudaDevice *d = device_of(backend);
	CUDA_TRY(cudaMemsetAsync(largest, 0, sizeof *largest, d->stream), "transposing an array");
	find_largest<<<cuda_blocks(t->slices * t->nk, 1, 8 * d->sms), SUM_THREADS, 0, d->stream>>>(
		*t, weights, rays, largest);
	CUDA_LAUNCHED("transposing an array");
	return TOMOS_OK;
}

tomos_status largest_value(
	tomos_backend *backend, const Transposed *t, const HatView *weights, unsigned *largest)
{
	return largest_of(backend, t, weights, NULL, largest);
}

static dim3 tiles_over(int64_t chunks, int64_t nj, int64_t nk)
{
	return dim3(cuda_blocks(chunks * CHUNK, TILE, 1 << 30), cuda_blocks(nj, WIDE, 65535),
		cuda_blocks(nk, 1, 65535));
}

tomos_status transpose_in_rows(
	tomos_backend *backend, const Transposed *t, const Halves *halves, HalfRows to)
{
	TRY(largest_of(backend, t, halves->views, halves->rays, halves->largest));
	halves_to_rows<<<tiles_over(to.chunks, to.nj, to.nk), dim3(TILE, WARPS), 0,
		device_of(backend)->stream>>>(*t, *halves, to);
	CUDA_LAUNCHED("transposing an array");
	return TOMOS_OK;
}

tomos_status transpose_in_squares(
	tomos_backend *backend, const Transposed *t, const Halves *halves, HalfSquares to)
{
	TRY(largest_of(backend, t, halves->views, halves->rays, halves->largest));
	halves_to_squares<<<tiles_over(to.groups * to.chunks, to.nj * SQUARE_SIDE, to.nk),
		dim3(TILE, WARPS), 0, device_of(backend)->stream>>>(*t, *halves, to);
	CUDA_LAUNCHED("transposing an array");
	return TOMOS_OK;
}

tomos_status transpose_out(
	tomos_backend *backend, const Transposed *t, const CudaEpilogue *epilogue)
{
	static void (*const kernels[])(Transposed, CudaUpdate, CudaResidual) = {
		floats_out<EPILOGUE_ACCUMULATE>, floats_out<EPILOGUE_OVERWRITE>,
		floats_out<EPILOGUE_UPDATE>, floats_out<EPILOGUE_RESIDUAL>};
	kernels[epilogue->kind]<<<tiles_of(t), dim3(TILE, WARPS), 0, device_of(backend)->stream>>>(
		*t, epilogue->update, epilogue->residual);
	CUDA_LAUNCHED("transposing an array");
	return TOMOS_OK;
}

/* ---- of a request ---------------------------------------------------------------------------- */

/* If not even one unit fits, fewer slices: multiples of CHUNK. */
int64_t slices_at_once(const tomos_backend *backend, const ProjectRequest *what, const HatSlices *l,
	SlicesScratch keeps)
{
	Transposed x = transposed_volume(what, l, what->box.low[l->s], 1, 1);
	Transposed y = transposed_views(what, l, what->box.low[l->s], 1, 1);
	int64_t floats =
		keeps.volumes * x.nj * x.nk + keeps.views * (y.nj + 2 * keeps.margin) * y.nk;
	int64_t most = min64(device_of(backend)->slices_most / max64(floats, 1), SLICES_AT_ONCE);
	int64_t unit = most < keeps.unit ? (int64_t)CHUNK : keeps.unit;
	return max64(most / unit, 1) * unit;
}

void slices_range(const ProjectRequest *what, const HatSlices *l, int64_t *low, int64_t *high)
{
	int64_t one = -l->first * l->sign; /* slices of the first and of the last detector row */
	int64_t two = (what->plan->model.rows - 1 - l->first) * l->sign;
	*low = max64(what->box.low[l->s], min64(one, two));
	*high = min64(what->box.high[l->s], max64(one, two) + 1);
}

bool slices_have_rows(const ProjectRequest *what, const HatSlices *l)
{
	int64_t low, high;
	slices_range(what, l, &low, &high);
	return low <= what->box.low[l->s] && high >= what->box.high[l->s];
}

bool transpose_overwrites(const ProjectRequest *what, const CudaNotes *notes)
{
	const HatSlices *l = notes_of<HatSlices>(notes);
	int64_t low, high;
	slices_range(what, l, &low, &high);
	return what->direction == FORWARD ? high - low == what->plan->model.rows
					  : slices_have_rows(what, l);
}

CudaFusion transpose_fuses(const tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const FusedUpdate *step)
{
	(void)backend;
	if (!slices_have_rows(what, notes_of<HatSlices>(notes)) || (step->average && step->rays))
		return FUSES_NOT;
	return step->average ? FUSES_WITH_FACTORS : FUSES;
}

static int64_t rounded_up(int64_t n, int64_t unit)
{
	return (n + unit - 1) / unit * unit;
}

Transposed transposed_volume(
	const ProjectRequest *what, const HatSlices *l, int64_t slice, int64_t slices, int64_t unit)
{
	const Box *box = &what->box;
	int64_t nx = box->high[0] - box->low[0], ny = box->high[1] - box->low[1];
	const int64_t stride[3] = {1, nx, nx * ny};
	return Transposed{.outside = what->volume + (slice - box->low[l->s]) * stride[l->s],
		.slices = slices,
		.pitch = rounded_up(slices, unit),
		.nj = box->high[l->a] - box->low[l->a],
		.nk = box->high[l->b] - box->low[l->b],
		.si = stride[l->s],
		.sj = stride[l->a],
		.sk = stride[l->b]};
}

Transposed transposed_views(
	const ProjectRequest *what, const HatSlices *l, int64_t slice, int64_t slices, int64_t unit)
{
	int64_t rows = what->plan->model.rows, columns = what->plan->model.columns;
	return Transposed{.outside = what->projections + (l->first + l->sign * slice) * columns,
		.slices = slices,
		.pitch = rounded_up(slices, unit),
		.nj = columns,
		.nk = what->count,
		.si = l->sign * columns,
		.sj = 1,
		.sk = rows * columns};
}

Transposed transposed_planes(float *volume, float *transposed, int64_t nx, int64_t ny, int64_t nz)
{
	return Transposed{.outside = volume,
		.inside = transposed,
		.slices = ny,
		.pitch = ny,
		.nj = nx,
		.nk = nz,
		.si = nx,
		.sj = 1,
		.sk = nx * ny};
}
