/* Products with stored SCSR matrices whose arrays are on the device.
 *
 * A block has a slab of pixels in shared memory, all symmetric images of a pixel side by side, and teams of
 * threads process the bundles of entries that refer to the slab, each thread every fourth entry and
 * a vector of images; the next bundles are loaded meanwhile. In the adjoint, the pieces of a wave
 * share no pixel, so threads synchronise between waves and need no atomics. Blocks leave partial
 * sums of rays, or the slab, which other kernels add in a fixed order.
 */
#include "backend/cuda/cuda.h"
#include "kernel/stored.h"

enum { WARP = 32, SLAB_THREADS = 512, MOST_GRID = 1 << 20 };

/* ---- symmetric compressed rows: a thread and its lanes --------------------------------------- */

static __device__ __forceinline__ void add(float &to, float w, float from)
{
	to += w * from;
}

static __device__ __forceinline__ void add(float2 &to, float w, float2 from)
{
	to.x += w * from.x;
	to.y += w * from.y;
}

static __device__ __forceinline__ void add(float4 &to, float w, float4 from)
{
	to.x += w * from.x;
	to.y += w * from.y;
	to.z += w * from.z;
	to.w += w * from.w;
}

/* All lanes of a pixel lie in PARTS vectors, each for a thread of its own. */
template <int LANES> struct Lanes;

template <> struct Lanes<1> {
	typedef float Vector;
	enum { PARTS = 1 };
};

template <> struct Lanes<2> {
	typedef float2 Vector;
	enum { PARTS = 1 };
};

template <> struct Lanes<4> {
	typedef float4 Vector;
	enum { PARTS = 1 };
};

template <> struct Lanes<8> {
	typedef float4 Vector;
	enum { PARTS = 2 };
};

/* The sum over the threads of a team that have the same lanes. */
template <int PARTS> static __device__ __forceinline__ float join_team(float value)
{
	value += __shfl_xor_sync(~0u, value, PARTS);
	return value + __shfl_xor_sync(~0u, value, 2 * PARTS);
}

template <int PARTS> static __device__ __forceinline__ float2 join_team(float2 v)
{
	return make_float2(join_team<PARTS>(v.x), join_team<PARTS>(v.y));
}

template <int PARTS> static __device__ __forceinline__ float4 join_team(float4 v)
{
	return make_float4(join_team<PARTS>(v.x), join_team<PARTS>(v.y), join_team<PARTS>(v.z),
		join_team<PARTS>(v.w));
}

/* ---- a block and its slab -------------------------------------------------------------------- */

extern __shared__ float4 near_memory[];

/* Pixels of the slab as threads meet them: in shared memory, and under symmetry g. Threads that are
 * neighbours meet neighbours in the rows of the whole image, and several symmetries at a time,
 * since the same lane of neighbouring pixels is always in the same few banks. */
template <int LANES, typename Use>
static __device__ __forceinline__ void each_pixel(const KernelSlabs &of, Use use)
{
	enum { AT_A_TIME = LANES < 4 ? LANES : 4, RUN = WARP / AT_A_TIME };
	int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
	for (int first = 0; first < LANES; first += AT_A_TIME) {
		int g = first + lane / RUN;
		bool turned = slab_transposed(&of, g);
		int length = (int)(turned ? of.height : of.width);
		int lines = (int)(turned ? of.width : of.height);
		for (int line = warp; line < lines; line += SLAB_THREADS / WARP)
#pragma unroll 4
			for (int i = lane % RUN; i < length; i += RUN) {
				int x = turned ? line : i, y = turned ? i : line;
				use(slab_pixel(&of, x, y) * LANES + g, x, y, g);
			}
	}
}

/* What a thread has of a bundle. The indices are told apart when they are used: that waits for
 * them. */
struct Entries {
	uint2 index;
	float4 weight;

	__device__ __forceinline__ void read(const KernelScsr &m, int64_t bundle, int step)
	{
		int64_t at = bundle * (STORED_BUNDLE / 4) + step;
		index = __ldg((const uint2 *)m.index + at);
		weight = __ldg((const float4 *)m.weight + at);
	}

	__device__ __forceinline__ void clear()
	{
		index = make_uint2(0, 0);
		weight = make_float4(0, 0, 0, 0);
	}

	__device__ __forceinline__ void raise(int power)
	{
		weight.x = stored_raised(weight.x, power);
		weight.y = stored_raised(weight.y, power);
		weight.z = stored_raised(weight.z, power);
		weight.w = stored_raised(weight.w, power);
	}

	/* The vectors of the four pixels in shared memory, `own` bytes after those of the first
	 * thread. */
	template <typename Vector, int PARTS>
	__device__ __forceinline__ void find(int own, Vector *pixel[4]) const
	{
		enum { BYTES = sizeof(Vector) * PARTS };
		char *base = (char *)near_memory + own;
		pixel[0] = (Vector *)(base + (index.x & 0xffff) * BYTES);
		pixel[1] = (Vector *)(base + (index.x >> 16) * BYTES);
		pixel[2] = (Vector *)(base + (index.y & 0xffff) * BYTES);
		pixel[3] = (Vector *)(base + (index.y >> 16) * BYTES);
	}
};

static_assert(STORED_STEP == 4 && STORED_BUNDLE == 16);

/* ---- forward --------------------------------------------------------------------------------- */

/* The pieces that a team has of a unit, and their bundles one after the other. The teams of a warp
 * go on to the next piece together, when the longest is done: neighbours are of about the same
 * length. Its threads hold what they will come to: one piece each. */
template <int TEAM> struct Pieces {
	enum { TEAMS = WARP / TEAM, ALL = SLAB_THREADS / TEAM };
	const KernelScsr &m;
	int64_t at, end; /* of the pieces to be held next */
	KernelPiece held;
	int held_piece, used; /* used: turns of what is held */
	int64_t bundle;
	int left, own_left, piece; /* of all teams of the warp; of this one */

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

/* A bundle in flight. */
struct Coming {
	Entries entries;
	int piece; /* that the sum is of; -1: none */
	bool there, last;

	template <int TEAM> __device__ __forceinline__ void read(Pieces<TEAM> &from, int step)
	{
		there = from.left > 0;
		if (!there)
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

/* Sums of the pieces of a unit. */
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
	while (coming[0].there) {
#pragma unroll
		for (int i = 0; i < AHEAD; i++) { /* no copies, which would wait for what is read */
			if (!coming[i].there)
				return;
			sum.take(coming[i].entries, power);
			if (coming[i].last)
				sum.leave(m, coming[i].piece);
			coming[i].read(pieces, step);
		}
	}
}

/* Some blocks for each orbit. */
static __global__ void scsr_total_rows(const __grid_constant__ KernelScsr m, float *out)
{
	const KernelOrbit *orbit = &m.orbit[blockIdx.x];
	int lanes = (int)m.of.lanes, g = (int)threadIdx.x % lanes, each = (int)blockDim.x / lanes;
	for (int64_t column = blockIdx.y * each + threadIdx.x / lanes; column < orbit->columns;
		column += gridDim.y * each) {
		int64_t row = scsr_lane_row(&m, orbit, column, g);
		if (row >= 0)
			out[row] = scsr_total(&m, orbit->first + column, g);
	}
}

/* ---- adjoint --------------------------------------------------------------------------------- */

static __global__ void scsr_get_rows(const __grid_constant__ KernelScsr m, const float *in)
{
	const KernelOrbit *orbit = &m.orbit[blockIdx.x];
	int lanes = (int)m.of.lanes, g = (int)threadIdx.x % lanes, each = (int)blockDim.x / lanes;
	for (int64_t column = blockIdx.y * each + threadIdx.x / lanes; column < orbit->columns;
		column += gridDim.y * each) {
		int64_t row = scsr_lane_row(&m, orbit, column, g);
		m.work[(orbit->slot + column) * lanes + g] = row < 0 ? 0 : in[row];
	}
}

/* Waves at hand, whose bundles the warps share out; those of a warp are neighbours. */
template <int TEAM> struct Waves {
	enum { TEAMS = WARP / TEAM, STRIDE = SLAB_THREADS / TEAM };
	const KernelWave *table; /* in shared memory */
	int count, wave, bundle; /* bundle: the warp's first, in the wave */

	__device__ Waves(const KernelWave *at_hand, int waves)
	    : table(at_hand), count(waves), wave(0), bundle(first())
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

/* A bundle in flight, then with what its ray adds. */
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

	/* Padding names a pixel that another thread may have. */
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

/* The pixels from some waves. Every thread passes a barrier before each wave. */
template <int LANES>
static __device__ void spread_waves(
	const KernelScsr &m, const KernelWave *at_hand, int count, int power)
{
	enum { AHEAD = 4 };
	Waves<Going<LANES>::TEAM> waves(at_hand, count);
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

/* The slab from the rays of a unit, into its image. */
template <int LANES>
static __global__ void __launch_bounds__(SLAB_THREADS)
	scsr_adjoint(const __grid_constant__ KernelScsr m, int power)
{
	const KernelUnit unit = m.units[blockIdx.x];
	int floats = (int)(m.of.width * m.of.height * LANES);
	KernelWave *at_hand = (KernelWave *)((float *)near_memory + floats);
	for (int i = (int)threadIdx.x; i < floats / 4; i += SLAB_THREADS)
		near_memory[i] = make_float4(0, 0, 0, 0);
	for (int64_t first = unit.wave; first < unit.wave_end; first += CUDA_WAVES) {
		int count = (int)min((int64_t)CUDA_WAVES, unit.wave_end - first);
		__syncthreads();
		for (int i = (int)threadIdx.x; i < count; i += SLAB_THREADS)
			at_hand[i] = m.waves[first + i];
		__syncthreads();
		spread_waves<LANES>(m, at_hand, count, power);
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

static tomos_status run_forward(CudaDevice *d, const KernelScsr *m, int power, const SlabKernels *k,
	size_t bytes, const float *in, float *out)
{
	enum { THREADS = 256, PARTS = 16 };
	if (m->of.units > 0)
		k->forward<<<(unsigned)m->of.units, SLAB_THREADS, bytes, d->stream>>>(
			*m, power, in);
	scsr_total_rows<<<dim3((unsigned)m->of.used, PARTS), THREADS, 0, d->stream>>>(*m, out);
	CUDA_LAUNCHED("a product with a matrix");
	return TOMOS_OK;
}

static tomos_status run_adjoint(CudaDevice *d, const KernelScsr *m, int power, const SlabKernels *k,
	size_t bytes, const float *in, float *out)
{
	enum { THREADS = 256, PARTS = 4 };
	scsr_get_rows<<<dim3((unsigned)m->of.used, PARTS), THREADS, 0, d->stream>>>(*m, in);
	if (m->of.units > 0)
		k->adjoint<<<(unsigned)m->of.units, SLAB_THREADS, bytes, d->stream>>>(*m, power);
	scsr_collect_image<<<cuda_blocks(m->of.nx * m->of.ny, THREADS, MOST_GRID), THREADS, 0,
		d->stream>>>(*m, out);
	CUDA_LAUNCHED("a product with a matrix");
	return TOMOS_OK;
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
	return direction == FORWARD ? run_forward(d, m, power, &kernels, bytes, in, out)
				    : run_adjoint(d, m, power, &kernels, bytes, in, out);
}

/* The images between the kernels are the matrix's own: one product at a time. */
tomos_status cuda_scsr_apply(tomos_backend *backend, const KernelScsr *m, Direction direction,
	int power, const float *in, float *out)
{
	pthread_mutex_lock(&device_of(backend)->lock);
	tomos_status status = scsr_locked(backend, m, direction, power, in, out);
	pthread_mutex_unlock(&device_of(backend)->lock);
	return status;
}
