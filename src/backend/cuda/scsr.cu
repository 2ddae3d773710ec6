/* Products with SCSR matrices (stored with their symmetries, kernel/stored.h) in device memory.
 *
 * A block has a slab of pixels in shared memory, with all symmetric images of a pixel (lanes)
 * contiguous. The entries of a ray in a slab are a piece, stored in bundles. Teams of threads
 * process bundles: each thread has every fourth entry and a vector of lanes, and loads the next
 * bundles meanwhile. In the adjoint, the pieces of a wave have no pixel in common, so that threads
 * only synchronise between waves and need no atomics. Blocks write partial sums of rays, or the
 * slab; other kernels add these in a fixed order.
 */
#include "backend/cuda/scsr.h"

/* ---- forward --------------------------------------------------------------------------------- */

/* The pieces of a unit (the work of a block) that a team processes, and their bundles in order.
 * The teams of a warp advance to the next piece together, when the longest is complete:
 * neighbouring pieces have about the same length. Each thread prefetches one piece. */
template <int TEAM> struct Pieces {
	enum { TEAMS = WARP / TEAM, ALL = SLAB_THREADS / TEAM };
	const KernelScsr &m;
	int64_t at, end; /* range of the pieces still to prefetch */
	KernelPiece held;
	int held_piece, used; /* used: prefetched pieces already processed */
	int64_t bundle;
	int left, own_left, piece; /* remaining bundles: most of any team in the warp; of this
	                            * team */

	__device__ Pieces(const KernelScsr &matrix, const KernelUnit &unit)
	    : m(matrix), at(unit.piece + threadIdx.x / WARP * TEAMS), end(unit.piece_end)
	{
		hold();
		take();
	}

	__device__ void hold()
	{
		int lane = (int)threadIdx.x % WARP;
		int64_t here = at + lane / TEAMS * ALL + lane % TEAMS;
		at += TEAM * ALL;
		used = 0;
		held_piece = here < end ? __ldg(m.used_pieces + here) : -1;
		held = (KernelPiece){};
		if (held_piece >= 0) {
			int4 read = __ldg((const int4 *)(m.pieces + held_piece));
			held.bundle = (int64_t)(uint32_t)read.x | (int64_t)read.y << 32;
			held.bundles = read.z;
		}
	}

	__device__ __forceinline__ void take()
	{
		if (used == TEAM)
			hold();
		int from = used++ * TEAMS + (int)threadIdx.x % WARP / TEAM;
		piece = __shfl_sync(~0u, held_piece, from);
		bundle = __shfl_sync(~0u, held.bundle, from);
		left = own_left = __shfl_sync(~0u, held.bundles, from);
		for (int other = TEAM; other < WARP; other *= 2)
			left = max(left, __shfl_xor_sync(~0u, left, other));
	}
};

/* A bundle being loaded. */
struct Coming {
	Entries entries;
	int piece; /* piece that its sum belongs to; -1: none */
	bool valid, last;

	template <int TEAM> __device__ __forceinline__ void read(Pieces<TEAM> &from, int step)
	{
		valid = from.left > 0;
		if (!valid)
			return;
		piece = from.piece;
		last = from.left == 1;
		if (from.own_left > 0)
			entries.read(from.m, from.bundle, step);
		else
			entries.clear();
		from.bundle++;
		from.own_left--;
		if (--from.left == 0)
			from.take();
	}
};

template <int LANES> struct Sum {
	typedef typename Lanes<LANES>::Vector Vector;
	enum { PARTS = Lanes<LANES>::PARTS, TEAM = STORED_STEP * PARTS };
	Vector sum;

	__device__ __forceinline__ void take(Entries e, int power)
	{
		Vector *pixel[4];
		if (power != 1)
			e.raise(power);
		e.find<Vector, PARTS>((int)threadIdx.x % PARTS * (int)sizeof(Vector), pixel);
		add(sum, e.weight.x, *pixel[0]);
		add(sum, e.weight.y, *pixel[1]);
		add(sum, e.weight.z, *pixel[2]);
		add(sum, e.weight.w, *pixel[3]);
	}

	__device__ __forceinline__ void leave(const KernelScsr &m, int piece)
	{
		sum = join_team<PARTS>(sum);
		if (threadIdx.x % TEAM < PARTS && piece >= 0)
			((Vector *)m.work)[(int64_t)piece * PARTS + threadIdx.x % PARTS] = sum;
		sum = (Vector){};
	}
};

/* Forward: writes the sums of the pieces of a unit. */
template <int LANES>
static __global__ void __launch_bounds__(SLAB_THREADS)
	scsr_forward(const __grid_constant__ KernelScsr m, int power, const float *in)
{
	enum { TEAM = Sum<LANES>::TEAM, AHEAD = 6 };
	const KernelUnit unit = m.units[blockIdx.x];
	int step = (int)threadIdx.x % TEAM / Lanes<LANES>::PARTS;
	Pieces<TEAM> pieces(m, unit);
	Coming coming[AHEAD];
#pragma unroll
	for (int i = 0; i < AHEAD; i++)
		coming[i].read(pieces, step);
	each_pixel<LANES>(m.of, [&](int at, int x, int y, int g) {
		int64_t target = slab_target(&m.of, unit.slab, x, y, g);
		((float *)near_memory)[at] = target < 0 ? 0 : __ldg(in + target);
	});
	__syncthreads();
	Sum<LANES> sum = {};
	while (coming[0].valid) {
#pragma unroll
		for (int i = 0; i < AHEAD;
			i++) { /* no copies of structs: they would wait for the loads */
			if (!coming[i].valid)
				return;
			sum.take(coming[i].entries, power);
			if (coming[i].last)
				sum.leave(m, coming[i].piece);
			coming[i].read(pieces, step);
		}
	}
}

/* Calls use(orbit, column, g, row) for the rays of an orbit, a set of views that are symmetric
 * images of each other; g: lane; row: of the matrix. Several blocks per orbit. */
template <typename Use> static __device__ void each_row(const KernelScsr &m, const Use &use)
{
	const KernelOrbit *orbit = &m.orbit[blockIdx.x];
	int lanes = (int)m.of.lanes, g = (int)threadIdx.x % lanes, each = (int)blockDim.x / lanes;
	for (int64_t column = blockIdx.y * each + threadIdx.x / lanes; column < orbit->columns;
		column += gridDim.y * each)
		use(orbit, column, g, scsr_lane_row(&m, orbit, column, g));
}

static __global__ void scsr_total_rows(const __grid_constant__ KernelScsr m, float *out)
{
	each_row(m, [&](const KernelOrbit *orbit, int64_t column, int g, int64_t row) {
		if (row >= 0)
			out[row] = scsr_total(&m, orbit->first + column, g);
	});
}

/* ---- adjoint --------------------------------------------------------------------------------- */

static __global__ void scsr_get_rows(const __grid_constant__ KernelScsr m, const float *in)
{
	each_row(m, [&](const KernelOrbit *orbit, int64_t column, int g, int64_t row) {
		m.work[(orbit->slot + column) * m.of.lanes + g] = row < 0 ? 0 : in[row];
	});
}

/* A table of waves. The bundles of a wave are distributed over the warps; those of a warp are
 * neighbours. */
template <int TEAM> struct Waves {
	enum { TEAMS = WARP / TEAM, STRIDE = SLAB_THREADS / TEAM };
	const KernelWave *table; /* in shared memory */
	int count, wave, bundle; /* bundle: first of the warp in the wave */

	__device__ Waves(const KernelWave *table, int waves)
	    : table(table), count(waves), wave(0), bundle(first())
	{
		find();
	}

	static __device__ __forceinline__ int first()
	{
		return (int)threadIdx.x / WARP * TEAMS;
	}

	__device__ __forceinline__ void find()
	{
		while (wave < count && bundle >= table[wave].bundles) {
			wave++;
			bundle = first();
		}
	}
};

/* A bundle being loaded, and the value of its ray. */
template <int LANES> struct Going {
	typedef typename Lanes<LANES>::Vector Vector;
	enum { PARTS = Lanes<LANES>::PARTS, TEAM = STORED_STEP * PARTS };
	Entries entries;
	int wave, slot, column;
	Vector value;

	__device__ __forceinline__ void read(const KernelScsr &m, Waves<TEAM> &from)
	{
		wave = from.wave;
		if (wave >= from.count)
			return;
		const KernelWave &all = from.table[wave];
		int own = from.bundle + (int)threadIdx.x % WARP / TEAM;
		slot = all.slot;
		column = -1;
		entries.clear();
		if (own < all.bundles) {
			column = __ldg(m.column + all.bundle + own);
			entries.read(m, all.bundle + own, (int)threadIdx.x % TEAM / PARTS);
		}
		from.bundle += Waves<TEAM>::STRIDE;
		from.find();
	}

	__device__ __forceinline__ void read_value(const KernelScsr &m, int waves)
	{
		if (wave < waves && column >= 0)
			value = __ldg((const Vector *)m.work + (int64_t)(slot + column) * PARTS +
				      threadIdx.x % PARTS);
	}

	/* Adds the ray's value to the pixels. Entries that are padding have weight 0 and are not
	 * written: another thread may update their pixel. */
	__device__ __forceinline__ void use(int power)
	{
		Vector *pixel[4], sum[4];
		if (power != 1)
			entries.raise(power);
		const float weight[] = {
			entries.weight.x, entries.weight.y, entries.weight.z, entries.weight.w};
		entries.find<Vector, PARTS>((int)threadIdx.x % PARTS * (int)sizeof(Vector), pixel);
#pragma unroll
		for (int k = 0; k < 4; k++)
			sum[k] = *pixel[k];
#pragma unroll
		for (int k = 0; k < 4; k++) {
			add(sum[k], weight[k], value);
			if (weight[k] != 0)
				*pixel[k] = sum[k];
		}
	}
};

/* Adds some waves to the pixels of the slab. All threads synchronise before each wave. */
template <int LANES>
static __device__ void spread_waves(
	const KernelScsr &m, const KernelWave *table, int count, int power)
{
	enum { AHEAD = 4 };
	Waves<Going<LANES>::TEAM> waves(table, count);
	Going<LANES> going[AHEAD];
	int passed = 0;
#pragma unroll
	for (int i = 0; i < AHEAD; i++)
		going[i].read(m, waves);
	going[0].read_value(m, count);
	while (true) {
#pragma unroll
		for (int i = 0; i < AHEAD; i++) {
			for (; passed < count && passed <= going[i].wave; passed++)
				__syncthreads();
			if (going[i].wave >= count)
				return;
			going[(i + 1) % AHEAD].read_value(m, count);
			going[i].use(power);
			going[i].read(m, waves);
		}
	}
}

/* Back projects the rays of a unit onto the slab and writes its image. */
template <int LANES>
static __global__ void __launch_bounds__(SLAB_THREADS)
	scsr_adjoint(const __grid_constant__ KernelScsr m, int power)
{
	const KernelUnit unit = m.units[blockIdx.x];
	int floats = (int)(m.of.width * m.of.height * LANES);
	KernelWave *table = (KernelWave *)((float *)near_memory + floats);
	for (int i = (int)threadIdx.x; i < floats / 4; i += SLAB_THREADS)
		near_memory[i] = make_float4(0, 0, 0, 0);
	for (int64_t first = unit.wave; first < unit.wave_end; first += CUDA_WAVES) {
		int count = (int)min((int64_t)CUDA_WAVES, unit.wave_end - first);
		__syncthreads();
		for (int i = (int)threadIdx.x; i < count; i += SLAB_THREADS)
			table[i] = m.waves[first + i];
		__syncthreads();
		spread_waves<LANES>(m, table, count, power);
	}
	__syncthreads();
	float *image = m.image + unit.image * floats;
	each_pixel<LANES>(m.of, [&](int at, int x, int y, int g) {
		image[slab_plane(&m.of, x, y, g)] = ((const float *)near_memory)[at];
	});
}

static __global__ void scsr_collect_image(const __grid_constant__ KernelScsr m, float *out)
{
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < m.of.nx * m.of.ny;
		i += (int64_t)gridDim.x * blockDim.x)
		out[i] = scsr_collect(
			&m, (unsigned)i % (unsigned)m.of.nx, (unsigned)i / (unsigned)m.of.nx);
}

/* ---- running --------------------------------------------------------------------------------- */

typedef struct {
	void (*forward)(const KernelScsr m, int power, const float *in);
	void (*adjoint)(const KernelScsr m, int power);
} SlabKernels;

static SlabKernels choose_kernels(int64_t lanes)
{
	return lanes == 8   ? (SlabKernels){scsr_forward<8>, scsr_adjoint<8>}
	       : lanes == 4 ? (SlabKernels){scsr_forward<4>, scsr_adjoint<4>}
	       : lanes == 2 ? (SlabKernels){scsr_forward<2>, scsr_adjoint<2>}
			    : (SlabKernels){scsr_forward<1>, scsr_adjoint<1>};
}

enum { THREADS = 256 };

static void run_forward(CudaDevice *d, const KernelScsr *m, int power, const SlabKernels *k,
	size_t bytes, const float *in, float *out)
{
	enum { PARTS = 16 };
	if (m->of.units > 0)
		k->forward<<<(unsigned)m->of.units, SLAB_THREADS, bytes, d->stream>>>(
			*m, power, in);
	scsr_total_rows<<<dim3((unsigned)m->of.used, PARTS), THREADS, 0, d->stream>>>(*m, out);
}

static void run_adjoint(CudaDevice *d, const KernelScsr *m, int power, const SlabKernels *k,
	size_t bytes, const float *in, float *out)
{
	enum { PARTS = 4 };
	scsr_get_rows<<<dim3((unsigned)m->of.used, PARTS), THREADS, 0, d->stream>>>(*m, in);
	if (m->of.units > 0)
		k->adjoint<<<(unsigned)m->of.units, SLAB_THREADS, bytes, d->stream>>>(*m, power);
	scsr_collect_image<<<cuda_blocks(m->of.nx * m->of.ny, THREADS, MOST_GRID), THREADS, 0,
		d->stream>>>(*m, out);
}

static tomos_status scsr_locked(tomos_backend *backend, const KernelScsr *m, Direction direction,
	int power, const float *in, float *out)
{
	CudaDevice *d = device_of(backend);
	const SlabKernels kernels = choose_kernels(m->of.lanes);
	const void *kernel = direction == FORWARD ? (const void *)kernels.forward
						  : (const void *)kernels.adjoint;
	size_t bytes = (size_t)(m->of.width * m->of.height * m->of.lanes) * sizeof(float) +
		       (direction == ADJOINT ? CUDA_WAVES * sizeof(KernelWave) : 0);
	TRY(cuda_use(backend));
	TRY(cuda_take_shared(kernel));
	(direction == FORWARD ? run_forward : run_adjoint)(d, m, power, &kernels, bytes, in, out);
	CUDA_LAUNCHED("a product with a matrix");
	return TOMOS_OK;
}

/* Intermediate results are stored with the matrix, so that only one product runs at a time. */
tomos_status cuda_scsr_apply(tomos_backend *backend, const KernelScsr *m, Direction direction,
	int power, const float *in, float *out)
{
	pthread_mutex_lock(&device_of(backend)->lock);
	tomos_status status = scsr_locked(backend, m, direction, power, in, out);
	pthread_mutex_unlock(&device_of(backend)->lock);
	return status;
}
