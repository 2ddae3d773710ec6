/* Voxel-driven forward projection for any detector: every voxel is added to the four pixels around
 * its projection.
 *
 * A block has a box of voxels in registers and visits all views. It adds to a tile of the detector
 * in shared memory, and the tile to the view. Sums are integers, multiples of a small part of the
 * largest weight times the largest voxel, so that they do not depend on the order of additions. The
 * lanes of a warp are along an axis that is far from the rays, so that they rarely add to the same
 * pixel.
 */
#include "backend/cuda/kernels/arrival.h"
#include "backend/cuda/kernels/voxel_choice.h"
#include "backend/cuda/kernels/voxel_invalid.h"
#include "backend/cuda/kernels/voxel_work.h"

#define MAGIC 12582912.f /* 1.5 * 2^23: adding it rounds to an integer */

/* Weight of a voxel: constant; 1 / depth^2; distance from the source / depth^3. */
typedef enum { EVEN, DEPTH, RAY } Weighting;

/* ---- voxels ---------------------------------------------------------------------------------- */

/* A run of voxels: the first one, and the increase per voxel. `square`: of the distance from the
 * source, less the part along the run. Copies, since additions to a tile could change a Near. */
typedef struct {
	float u, v, depth, away, square, by_u, by_v, by_depth, step, weight;
} Run;

static __device__ __forceinline__ Run run_of(const Near &n, float lane, float warp)
{
	const float across = fmaf(lane, n.step[0], n.away[0]),
		    third = fmaf(warp, n.step[2], n.away[2]);
	return Run{fmaf(lane, n.u[0], fmaf(warp, n.u[2], n.u[3])),
		fmaf(lane, n.v[0], fmaf(warp, n.v[2], n.v[3])),
		fmaf(lane, n.depth[0], fmaf(warp, n.depth[2], n.depth[3])), n.away[1],
		fmaf(across, across, third * third), n.u[1], n.v[1], n.depth[1], n.step[1],
		n.weight};
}

/* A voxel: its projection (u, v) times `rate`, and its share, in quanta. */
typedef struct {
	float u, v, rate, share;
} Point;

template <Weighting W>
static __device__ __forceinline__ Point point_of(const Run &run, float k, float value)
{
	const float rate = inverse_nearly(fmaf(k, run.by_depth, run.depth)), twice = rate * rate;
	Point p = {fmaf(k, run.by_u, run.u), fmaf(k, run.by_v, run.v), rate, value * run.weight};
	if (W == DEPTH)
		p.share *= twice;
	if (W == RAY) {
		const float away = fmaf(k, run.step, run.away);
		p.share = (value * twice) * (rate * root_nearly(fmaf(away, away, run.square)));
	}
	return p;
}

/* Parts of the voxel for four pixels. They are rounded such that their sum is that of the voxel. */
typedef struct {
	int here, right, up, both;
} Parts;

static __device__ __forceinline__ Parts parts_of(float share, float right, float up)
{
	const float above = share * up;
	const int all = __float_as_int(__fadd_rn(share, MAGIC)),
		  upper = __float_as_int(__fadd_rn(above, MAGIC)),
		  righter = __float_as_int(fmaf(share, right, MAGIC)),
		  both = __float_as_int(fmaf(above, right, MAGIC));
	int right_only; /* the compiler would not subtract it as one number */
	asm("sub.s32 %0, %1, %2;" : "=r"(right_only) : "r"(righter), "r"(both));
	return Parts{
		all - upper - right_only, right_only, upper - both, both - __float_as_int(MAGIC)};
}

/* Adds a voxel to the four pixels around it. Positions are rounded as exact products with the rate,
 * which saves an instruction for each. origin: offset in shared memory of the middle of the tile,
 * for positions plus MAGIC as bits. */
template <int PITCH>
static __device__ __forceinline__ void add_to_tile(char *memory, unsigned origin, const Point &p)
{
	const float column = __fmaf_rd(p.u, p.rate, MAGIC), row = __fmaf_rd(p.v, p.rate, MAGIC);
	const Parts parts = parts_of(p.share, fmaf(p.u, p.rate, __fadd_rn(MAGIC, -column)),
		fmaf(p.v, p.rate, __fadd_rn(MAGIC, -row)));
	int *at = (int *)(memory + (__float_as_uint(row) * (PITCH * 4u) +
					   (__float_as_uint(column) * 4u + origin)));
	atomicAdd(at, parts.here);
	atomicAdd(at + 1, parts.right);
	atomicAdd(at + PITCH, parts.up);
	atomicAdd(at + PITCH + 1, parts.both);
}

static __device__ void add_pixel(const Scatter &s, int *image, int row, int column, float sum)
{
	if (row >= 0 && row < s.model.rows && column >= 0 && column < s.model.columns && sum != 0)
		atomicAdd(image + (int64_t)row * s.model.columns + column, __float2int_rn(sum));
}

static __device__ __forceinline__ void add_to_image(
	const Scatter &s, const Near &near, int *image, const Point &p)
{
	const float u = p.u * p.rate, v = p.v * p.rate;
	if (!(fabsf(u) < 1e7f && fabsf(v) < 1e7f))
		return;
	const float column = floorf(u), row = floorf(v), right = u - column, up = v - row;
	const int c = near.column + (int)column, r = near.row + (int)row;
	add_pixel(s, image, r, c, p.share * (1 - right) * (1 - up));
	add_pixel(s, image, r, c + 1, p.share * right * (1 - up));
	add_pixel(s, image, r + 1, c, p.share * (1 - right) * up);
	add_pixel(s, image, r + 1, c + 1, p.share * right * up);
}

/* ---- a block --------------------------------------------------------------------------------- */

/* The voxels of a thread: the first `count` are inside the volume, times `scale` at most 1. */
typedef struct {
	const float *from;
	int64_t stride;
	int count;
	float scale;
} Line;

static __device__ __forceinline__ Line line_of(const Scatter &s, const int at[3])
{
	const float largest = __uint_as_float(*s.largest);
	const int l = s.axis[0], r = s.axis[1], t = s.axis[2];
	const bool inside = at[l] < s.n[l] && at[t] < s.n[t];
	return Line{s.volume + at[0] * s.stride[0] + at[1] * s.stride[1] + at[2] * s.stride[2],
		s.stride[r], inside ? min((int)RUN, s.n[r] - at[r]) : 0,
		largest > 1e-37f ? 1 / largest : 0};
}

static __device__ __forceinline__ float voxel_of(const Line &line, int k)
{
	const float value = k < line.count ? line.from[k * line.stride] : 0;
	return is_finite(value) ? value * line.scale : 0;
}

static __device__ __forceinline__ Run own_run(const Near &near)
{
	return run_of(near, (float)(threadIdx.x % LANES), (float)(threadIdx.x / LANES));
}

/* Adds the tile to the image and clears it. */
template <int PITCH>
static __device__ __forceinline__ void flush(
	const Scatter &s, const Near &near, int *tile, int *image)
{
	const int width = (int)s.model.columns, height = (int)s.model.rows, rows = near.rows;
	const int row = near.row - near.below, warp = threadIdx.x / LANES;
	const float scale = near.scale;
	for (int c = threadIdx.x % LANES; c < near.columns; c += LANES) {
		const int column = near.sign * (near.column - near.left + c);
		const bool seen = (unsigned)column < (unsigned)width;
		int *from = tile + (warp * PITCH + c), to = (row + warp) * width + column;
		for (int r = warp; r < rows; r += WARPS) {
			const int sum = *from;
			*from = 0;
			if (seen && (unsigned)(row + r) < (unsigned)height && sum != 0)
				atomicAdd(image + to, __float2int_rn((float)sum * scale));
			from += WARPS * PITCH;
			to += WARPS * width;
		}
	}
}

template <int PITCH>
static __device__ __forceinline__ unsigned origin_of(
	const Near &near, const int *tile, char *memory)
{
	return (unsigned)((char *)(tile + (near.below * PITCH + near.left)) - memory) -
	       __float_as_uint(MAGIC) * (4u * PITCH + 4u);
}

/* The views to which the block adds through a tile. Of two tiles, one is added to the view and
 * cleared while some warps add to the other. Of three, warps add to the next one before they wait
 * for those that still add to the one before. */
template <Weighting W, int PITCH, int ROWS, int TILES>
static __device__ __forceinline__ void visit_tiles(const Scatter &s, const Near *near,
	const Line &line, int *tiles, Barrier *barrier, char *memory)
{
	const int64_t pixels = s.model.rows * s.model.columns;
	float value[RUN];
#pragma unroll
	for (int k = 0; k < RUN; k++)
		value[k] = voxel_of(line, k);
	int *tile = tiles, *before = tiles, last = -1;
	Arrival arrival = 0;
#pragma unroll 1
	for (int i = 0; i < s.count; i++) {
		if (near[i].kind != TO_TILE)
			continue;
		const Run run = own_run(near[i]);
		const unsigned origin = origin_of<PITCH>(near[i], tile, memory);
#pragma unroll
		for (int k = 0; k < RUN; k++)
			add_to_tile<PITCH>(memory, origin, point_of<W>(run, (float)k, value[k]));
		if constexpr (TILES == 2) {
			__syncthreads();
			flush<PITCH>(s, near[i], tile, s.sums + i * pixels);
		} else {
			if (last >= 0) {
				await(barrier, arrival);
				flush<PITCH>(s, near[last], before, s.sums + last * pixels);
			}
			arrival = arrive(barrier);
			last = i;
			before = tile;
		}
		tile = tile == tiles + (TILES - 1) * PITCH * ROWS ? tiles : tile + PITCH * ROWS;
	}
	if (last >= 0) {
		await(barrier, arrival);
		flush<PITCH>(s, near[last], before, s.sums + last * pixels);
	}
}

/* The views for which the tile is too small. */
template <Weighting W>
static __device__ __forceinline__ void visit_images(
	const Scatter &s, const Near *near, const Line &line)
{
	for (int i = 0; i < s.count; i++) {
		if (near[i].kind != TO_IMAGE)
			continue;
		const Run run = own_run(near[i]);
		int *image = s.sums + i * s.model.rows * s.model.columns;
#pragma unroll 1
		for (int k = 0; k < line.count; k++)
			add_to_image(
				s, near[i], image, point_of<W>(run, (float)k, voxel_of(line, k)));
	}
}

template <Weighting W, int PITCH, int ROWS, int TILES>
static __global__ void __launch_bounds__(THREADS, 2)
	scatter_forward(const __grid_constant__ Scatter s)
{
	extern __shared__ float4 memory[];
	__shared__ Barrier barrier;
	Near *near = (Near *)memory;
	int *tiles = (int *)(near + VIEWS);
	int at[3];
	at[s.axis[0]] = blockIdx.x * LANES;
	at[s.axis[1]] = blockIdx.y * RUN;
	at[s.axis[2]] = blockIdx.z * WARPS;
	if (threadIdx.x < s.count)
		near[threadIdx.x] = near_block<PITCH, ROWS>(&s, threadIdx.x, at);
	for (int i = threadIdx.x; i < TILES * PITCH * ROWS; i += THREADS)
		tiles[i] = 0;
	at[s.axis[0]] += threadIdx.x % LANES;
	at[s.axis[2]] += threadIdx.x / LANES;
	const Line line = line_of(s, at);
	open_barrier(&barrier, THREADS);
	__syncthreads();
	visit_tiles<W, PITCH, ROWS, TILES>(s, near, line, tiles, &barrier, (char *)memory);
	visit_images<W>(s, near, line);
}

static __global__ void add_sums(const __grid_constant__ Scatter s)
{
	const int64_t pixels = s.model.rows * s.model.columns;
	const Quantum q = s.quanta[blockIdx.y];
	const float unit = __uint_as_float(*s.largest) * q.unit;
	const int *sums = s.sums + blockIdx.y * pixels;
	float *to = s.projections + blockIdx.y * pixels;
	for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < pixels;
		i += (int64_t)gridDim.x * blockDim.x)
		to[i] = fmaf((float)sums[i], unit, to[i]);
}

/* ---- a whole request ------------------------------------------------------------------------- */

extern const CudaKernel cuda_voxel_forward_any;

bool voxel_any_is_faster(const ProjectRequest *what)
{
	CudaNotes notes;
	return cuda_voxel_forward_any.applies(what, &notes) && !upright_is_faster(what) &&
	       any_is_faster(what);
}

/* Not for a fan per row, where the depth does not divide the row. */
static bool scatter_applies(const ProjectRequest *what, CudaNotes *notes)
{
	const Plan *plan = what->plan;
	const KernelModel *model = &plan->model;
	const int source = plan->rays.source;
	int *axes = notes_of<int>(notes);
	if (model->clamp || model->nearest || model->planar || model->rows > 1 << 20 ||
		model->columns > 1 << 20 || model->rows * model->columns > 1 << 28 ||
		!(source == TOMOS_POINT || source == TOMOS_PARALLEL))
		return false;
	if (upright_is_faster(what) || voxel_any_is_faster(what))
		return false;
	*axes = 0;
	for (int a = 0; a < 3; a++)
		if (plan->grid.n[a] > 1 << 19)
			return false;
	for (int64_t i = 0; i < what->count; i++) {
		const Bounds bounds = bounds_of(plan, &plan->views[what->first + i]);
		Quantum q;
		make_quantum(plan, what->first + i, NULL, &q);
		const double size = fmax(bounds.size[0], fmax(bounds.size[1], bounds.size[2]));
		if (!(bounds.least > 1e-3) || !(size < (int)MOST) || !(bounds.block < 2e5) ||
			!isfinite(q.unit) || !(q.unit > 0))
			return false;
		*axes |= 1 << q.axis;
	}
	return true;
}

typedef void (*Kernel)(const Scatter s);

/* Of a size of tiles: the kernel, and the bytes of shared memory of a block. */
typedef struct {
	Kernel kernel;
	int bytes;
} Tiled;

template <int PITCH, int ROWS, int TILES> static Tiled tiled(const ProjectRequest *what)
{
	const int weight = what->plan->model.weight;
	const bool source = what->plan->rays.source == TOMOS_POINT;
	const int bytes =
		(int)(VIEWS * sizeof(Near) + TILES * sizeof(int) * (size_t)(PITCH * ROWS));
	return Tiled{weight == WEIGHT_RAY && source     ? scatter_forward<RAY, PITCH, ROWS, TILES>
		     : weight == WEIGHT_DEPTH && source ? scatter_forward<DEPTH, PITCH, ROWS, TILES>
							: scatter_forward<EVEN, PITCH, ROWS, TILES>,
		bytes};
}

/* Tall tiles where large ones are too small for some of the blocks. */
static Tiled tiles_for(const ProjectRequest *what)
{
	double beyond = 0;
	for (int64_t i = 0; i < what->count; i++)
		beyond += beyond_tile(what->plan, &what->plan->views[what->first + i], LARGE_ROWS);
	const Tiled large = beyond > 0.05 * (double)what->count
				    ? tiled<LARGE_PITCH, TALL_ROWS, 2>(what)
				    : tiled<LARGE_PITCH, LARGE_ROWS, 3>(what);
	return cuda_has_shared(large.bytes) ? large : tiled<PITCH, ROWS, 2>(what);
}

static tomos_status run_axis(
	tomos_backend *backend, const ProjectRequest *what, Scatter s, int axis)
{
	const Tiled tiles = tiles_for(what);
	const Kernel kernel = tiles.kernel;
	const int bytes = tiles.bytes;
	const int64_t n[3] = {s.n[0], s.n[1], s.n[2]};
	s.axis[0] = axis;
	s.axis[2] = third_axis(n, axis);
	s.axis[1] = 3 - axis - s.axis[2];
	CUDA_TRY(cudaFuncSetAttribute(
			 (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
		"taking shared memory");
	kernel<<<dim3(cuda_blocks(s.n[s.axis[0]], LANES, 1 << 30),
			 cuda_blocks(s.n[s.axis[1]], RUN, 65535),
			 cuda_blocks(s.n[s.axis[2]], WARPS, 65535)),
		THREADS, bytes, device_of(backend)->stream>>>(s);
	CUDA_LAUNCHED("projecting");
	return TOMOS_OK;
}

static tomos_status run_views(tomos_backend *backend, const ProjectRequest *what, const Scatter *s,
	const Largest *largest, int axes)
{
	const int64_t pixels = s->model.rows * s->model.columns;
	cudaStream_t stream = device_of(backend)->stream;
	CUDA_TRY(cudaMemsetAsync(s->sums, 0, (size_t)(s->count * pixels) * sizeof(int), stream),
		"projecting");
	for (int a = 0; a < 3; a++)
		if (axes & (1 << a))
			TRY(run_axis(backend, what, *s, a));
	add_sums<<<dim3(cuda_blocks(pixels, 1024, 1 << 20), (unsigned)s->count), 256, 0, stream>>>(
		*s);
	add_invalid<<<device_of(backend)->sms, 256, 0, stream>>>(*s, largest);
	CUDA_LAUNCHED("projecting");
	return TOMOS_OK;
}

static tomos_status find_largest(
	tomos_backend *backend, const ProjectRequest *what, const Scatter *s, Largest **largest)
{
	float *found;
	cudaStream_t stream = device_of(backend)->stream;
	const Transposed voxels = {.outside = what->volume,
		.slices = s->n[2],
		.nj = s->n[0],
		.nk = s->n[1],
		.si = s->stride[2],
		.sj = 1,
		.sk = s->stride[1]};
	TRY(cuda_scratch(backend, SCRATCH_LISTS, 2, &found, "the largest voxel"));
	*largest = (Largest *)found;
	CUDA_TRY(cudaMemsetAsync(found, 0, sizeof **largest, stream), "projecting");
	TRY(largest_value(backend, &voxels, NULL, &(*largest)->all));
	find_finite<<<device_of(backend)->sms, 256, 0, stream>>>(*s, *largest);
	CUDA_LAUNCHED("projecting");
	return TOMOS_OK;
}

static tomos_status scatter_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *)
{
	const Plan *plan = what->plan;
	const CudaPlan *kept;
	const void *quanta;
	Largest *largest;
	float *sums;
	TRY(cuda_plan(backend, plan, &kept));
	TRY(cuda_kept(backend, plan, KEPT_QUANTA, sizeof(Quantum), make_quantum, NULL, &quanta));
	Scatter s = {.model = plan->model, .volume = what->volume};
	for (int a = 0; a < 3; a++) {
		s.low[a] = what->box.low[a];
		s.n[a] = (int)(what->box.high[a] - what->box.low[a]);
		s.stride[a] = a == 0 ? 1 : s.stride[a - 1] * s.n[a - 1];
		s.step[a] = plan->whole.step[a];
	}
	const int64_t pixels = s.model.rows * s.model.columns;
	const int64_t most = max64(1, min64(VIEWS, device_of(backend)->scratch_most / pixels));
	TRY(find_largest(backend, what, &s, &largest));
	TRY(cuda_scratch(backend, SCRATCH_REORDERED, min64(most, what->count) * pixels, &sums,
		"sums of pixels"));
	s.largest = &largest->finite;
	s.sums = (int *)sums;
	for (int64_t first = 0; first < what->count; first += most) {
		s.views = kept->views + what->first + first;
		s.quanta = (const Quantum *)quanta + what->first + first;
		s.count = (int)min64(most, what->count - first);
		s.projections = what->projections + first * pixels;
		TRY(run_views(backend, what, &s, largest, *notes_of<int>(notes)));
	}
	return TOMOS_OK;
}

extern const CudaKernel cuda_voxel_forward_scatter;
const CudaKernel cuda_voxel_forward_scatter = {scatter_applies, scatter_run};
