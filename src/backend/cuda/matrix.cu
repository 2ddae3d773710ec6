/* Products with stored matrices whose arrays lie on the card.
 *
 * CSR: a warp for each row; back, its entries are added to the image by atomic operations. SCSR: a block
 * has a slab of pixels in shared memory, all images of a pixel side by side, and teams of threads walk
 * the groups that meet it, each thread one pair and a vector of images. Back, what a wave of groups adds
 * shares no pixel, so that threads wait for one another between waves and need no atomic operations.
 * Blocks leave sums of the rays' pieces, or the slab, which other kernels add in a fixed order.
 */
#include "backend/cuda/cuda.h"
#include "kernel/stored.h"

enum { WARP = 32, ROWS = 8, SLAB_THREADS = 1024, AHEAD = 4, PHASES = 4, MOST_GRID = 1 << 20 };

/* ---- compressed rows ---------------------------------------------------------------------------- */

static __device__ double join_warp(double value)
{
	for (int half = WARP / 2; half > 0; half /= 2)
		value += __shfl_xor_sync(~0u, value, half);
	return value;
}

static __global__ void csr_forward(
	const __grid_constant__ KernelCsr m, int power, const float *x, float *y)
{
	for (int64_t r = (int64_t)blockIdx.x * ROWS + threadIdx.y; r < m.rows;
		r += (int64_t)gridDim.x * ROWS) {
		double sum = join_warp(csr_sum(&m, r, power, x, (int)threadIdx.x, WARP));
		if (threadIdx.x == 0)
			y[r] = (float)sum;
	}
}

static __global__ void csr_adjoint(
	const __grid_constant__ KernelCsr m, int power, const float *y, float *x)
{
	for (int64_t r = (int64_t)blockIdx.x * ROWS + threadIdx.y; r < m.rows;
		r += (int64_t)gridDim.x * ROWS)
		csr_spread(&m, r, power, y[r], x, (int)threadIdx.x, WARP);
}

tomos_status cuda_csr(tomos_backend *backend, const KernelCsr *m, Direction direction, int power,
	const float *in, float *out)
{
	TRY(cuda_use(backend));
	cudaStream_t stream = device_of(backend)->stream;
	dim3 blocks(cuda_blocks(m->rows, ROWS, MOST_GRID)), threads(WARP, ROWS);
	if (direction == FORWARD) {
		csr_forward<<<blocks, threads, 0, stream>>>(*m, power, in, out);
	} else {
		TRY(cuda_fill(backend, m->columns, 0, out));
		csr_adjoint<<<blocks, threads, 0, stream>>>(*m, power, in, out);
	}
	CUDA_LAUNCHED("a product with a matrix");
	return TOMOS_OK;
}

/* ---- symmetric compressed rows: a thread and its lanes ------------------------------------------------ */

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

enum { PAIRS = 8 }; /* of a group, at most */

/* The slab of a block: its pixels, and where they are while it works. */
typedef struct {
	int64_t first, pixels; /* of the image */
	float *data;           /* [pixel][lane], as if it began with the image's first */
} Slab;

extern __shared__ float4 near_memory[];

template <bool NEAR> static __device__ Slab slab_of(const KernelScsr &m, float *image)
{
	int64_t low = blockIdx.x * m.of.slab_size, high = low + m.of.slab_size;
	high = high < m.of.ny ? high : m.of.ny;
	Slab slab = {low * m.of.nx, (high - low) * m.of.nx, image};
	if (NEAR)
		slab.data = (float *)near_memory - slab.first * m.of.lanes;
	return slab;
}

/* What a thread does with its pair of a group: entries t = phase, phase + step, ... */
typedef struct {
	const int *index;
	const float *weight;
	int pairs, width;
} Run;

template <int LANES>
static __device__ Run run_of(const KernelScsr &m, const KernelGroup &group, int p)
{
	return (Run){m.index + group.at + p, m.weight + group.at + p, group.pairs, group.width};
}

template <int LANES>
static __device__ __forceinline__ void sum_run(const Run &run, int from, int to, int power,
	const typename Lanes<LANES>::Vector *data, typename Lanes<LANES>::Vector &sum)
{
#pragma unroll 4
	for (int t = from; t < to; t++) {
		int64_t at = (int64_t)t * run.pairs;
		float w = stored_raised(__ldg(run.weight + at), power);
		add(sum, w, data[(int64_t)__ldg(run.index + at) * Lanes<LANES>::PARTS]);
	}
}

/* ---- forward ------------------------------------------------------------------------------------------ */

/* Sums of the pieces of rays in one slab, of the orbits [first, end), of which a share is a block's. */
template <int LANES, bool NEAR>
static __global__ void __launch_bounds__(SLAB_THREADS)
	scsr_forward(const __grid_constant__ KernelScsr m, int power, int64_t first, int64_t end)
{
	typedef typename Lanes<LANES>::Vector Vector;
	enum { PARTS = Lanes<LANES>::PARTS, TEAM = PAIRS * PARTS, TEAMS = SLAB_THREADS / TEAM };
	const Slab slab = slab_of<NEAR>(m, m.image);
	int team = (int)threadIdx.x / TEAM, p = (int)threadIdx.x % TEAM / PARTS;
	int part = (int)threadIdx.x % PARTS;
	int64_t rows = scsr_rows_between(&m, first, end), done = 0;
	if (NEAR) {
		const Vector *from = (const Vector *)(m.image + slab.first * LANES);
		for (int64_t i = threadIdx.x; i < slab.pixels * PARTS; i += SLAB_THREADS)
			((Vector *)near_memory)[i] = from[i];
		__syncthreads();
	}
	const Vector *data = (const Vector *)slab.data + part;
	for (int64_t i = first + blockIdx.y; i < end; i += gridDim.y) {
		const KernelOrbit &orbit = m.orbit[i];
		const int64_t *wave = m.first_wave + blockIdx.x * m.of.orbits + orbit.number;
		int64_t low = m.waves[wave[0]], high = m.waves[wave[1]];
		Vector *sums = (Vector *)m.work +
			       (blockIdx.x * rows + orbit.slot - m.orbit[first].slot) * PARTS +
			       part;
		for (int64_t g = low + (team + TEAMS - done % TEAMS) % TEAMS; g < high;
			g += TEAMS) {
			const KernelGroup group = m.groups[g];
			if (p >= group.pairs)
				continue;
			const KernelPair pair = m.pairs[group.pair + p];
			const Run run = run_of<LANES>(m, group, p);
			Vector longer = {}, shorter = {};
			sum_run<LANES>(run, 0, pair.turn, power, data, longer);
			sum_run<LANES>(run, pair.turn, group.width, power, data, shorter);
			sums[pair.column[0] * PARTS] = longer;
			if (pair.column[1] >= 0)
				sums[pair.column[1] * PARTS] = shorter;
		}
		done += high - low;
	}
}

static __global__ void scsr_spread_image(const __grid_constant__ KernelScsr m, const float *in)
{
	int64_t count = m.of.nx * m.of.ny * m.of.lanes;
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
		i += (int64_t)gridDim.x * blockDim.x)
		m.image[i] = in[scsr_pixel(&m, i / m.of.lanes, i % m.of.lanes)];
}

/* A block for each orbit of the chunk. */
static __global__ void scsr_total_rows(
	const __grid_constant__ KernelScsr m, int64_t first, int64_t end, float *out)
{
	const KernelOrbit *orbit = &m.orbit[first + blockIdx.x];
	int64_t rows = scsr_rows_between(&m, first, end);
	for (int64_t i = (int64_t)blockIdx.y * blockDim.x + threadIdx.x;
		i < orbit->columns * m.of.lanes; i += (int64_t)gridDim.y * blockDim.x) {
		int64_t column = i / m.of.lanes, row;
		int g = (int)(i % m.of.lanes);
		row = scsr_lane_row(&m, orbit, column, g);
		if (row >= 0)
			out[row] = scsr_total(&m, first, rows, orbit, column, g);
	}
}

/* ---- adjoint ------------------------------------------------------------------------------------------- */

static __global__ void scsr_get_rows(const __grid_constant__ KernelScsr m, const float *in)
{
	const KernelOrbit *orbit = &m.orbit[blockIdx.x];
	for (int64_t i = threadIdx.x; i < orbit->columns * m.of.lanes; i += blockDim.x) {
		int64_t row = scsr_lane_row(&m, orbit, i / m.of.lanes, (int)(i % m.of.lanes));
		m.work[orbit->slot * m.of.lanes + i] = row < 0 ? 0 : in[row];
	}
}

/* Entries of a thread, read before those it waits for are done with their pixels. */
template <int LANES> struct Ahead {
	int index[AHEAD];
	float weight[AHEAD];
	int start;

	__device__ __forceinline__ void read(const Run &run, int from, int power)
	{
		start = from;
#pragma unroll
		for (int k = 0; k < AHEAD; k++) {
			int t = from + k * PHASES;
			bool there = t < run.width;
			int64_t at = (int64_t)(there ? t : 0) * run.pairs;
			index[k] = there ? __ldg(run.index + at) : 0;
			weight[k] = there ? stored_raised(__ldg(run.weight + at), power) : 0;
		}
	}

	/* Padding names a pixel that another thread may have. */
	__device__ __forceinline__ void use(typename Lanes<LANES>::Vector *data, int turn,
		const typename Lanes<LANES>::Vector values[2]) const
	{
		typename Lanes<LANES>::Vector pixel[AHEAD];
#pragma unroll
		for (int k = 0; k < AHEAD; k++)
			if (weight[k] != 0)
				pixel[k] = data[(int64_t)index[k] * Lanes<LANES>::PARTS];
#pragma unroll
		for (int k = 0; k < AHEAD; k++)
			if (weight[k] != 0) {
				add(pixel[k], weight[k], values[start + k * PHASES >= turn]);
				data[(int64_t)index[k] * Lanes<LANES>::PARTS] = pixel[k];
			}
	}
};

/* A slab from the rays of a share of the orbits, into that share's image. A wave's groups are cut into
 * phases, since they alone are too few for the block. */
template <int LANES, bool NEAR>
static __global__ void __launch_bounds__(SLAB_THREADS)
	scsr_adjoint(const __grid_constant__ KernelScsr m, int power)
{
	typedef typename Lanes<LANES>::Vector Vector;
	enum { PARTS = Lanes<LANES>::PARTS, TEAM = PAIRS * PARTS, TEAMS = SLAB_THREADS / TEAM };
	float *image = m.image + blockIdx.y * m.of.nx * m.of.ny * LANES;
	const Slab slab = slab_of<NEAR>(m, image);
	int team = (int)threadIdx.x / TEAM, p = (int)threadIdx.x % TEAM / PARTS;
	int part = (int)threadIdx.x % PARTS;
	Vector *data = (Vector *)slab.data + part, *own = (Vector *)slab.data + slab.first * PARTS;
	for (int64_t i = threadIdx.x; i < slab.pixels * PARTS; i += SLAB_THREADS)
		own[i] = (Vector){};
	for (int64_t i = blockIdx.y; i < m.of.used; i += gridDim.y) {
		const KernelOrbit &orbit = m.orbit[i];
		const int64_t *range = m.first_wave + blockIdx.x * m.of.orbits + orbit.number;
		const Vector *rows = (const Vector *)m.work + orbit.slot * PARTS + part;
		for (int64_t w = range[0]; w < range[1]; w++) {
			int64_t low = m.waves[w], units = (m.waves[w + 1] - low) * PHASES;
			for (int64_t u = team; u < units || u == team; u += TEAMS) {
				KernelPair pair = {};
				Run run = {};
				Vector values[2] = {};
				Ahead<LANES> ahead;
				int phase = (int)(u % PHASES);
				const KernelGroup group =
					m.groups[u < units ? low + u / PHASES : low];
				bool works = u < units && p < group.pairs;
				if (works) {
					pair = m.pairs[group.pair + p];
					run = run_of<LANES>(m, group, p);
					ahead.read(run, phase, power);
					values[0] = rows[pair.column[0] * PARTS];
					if (pair.column[1] >= 0)
						values[1] = rows[pair.column[1] * PARTS];
				}
				if (u == team)
					__syncthreads(); /* the wave before is done */
				while (works) {
					ahead.use(data, pair.turn, values);
					int next = ahead.start + AHEAD * PHASES;
					works = next < run.width;
					if (works)
						ahead.read(run, next, power);
				}
			}
		}
	}
	if (!NEAR)
		return;
	__syncthreads();
	for (int64_t i = threadIdx.x; i < slab.pixels * PARTS; i += SLAB_THREADS)
		((Vector *)image)[slab.first * PARTS + i] = own[i];
}

static __global__ void scsr_collect_image(const __grid_constant__ KernelScsr m, float *out)
{
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < m.of.nx * m.of.ny;
		i += (int64_t)gridDim.x * blockDim.x)
		out[i] = scsr_collect(&m, i);
}

/* ---- running -------------------------------------------------------------------------------------------- */

typedef struct {
	void (*forward)(const KernelScsr m, int power, int64_t first, int64_t end);
	void (*adjoint)(const KernelScsr m, int power);
} SlabKernels;

template <int LANES> static SlabKernels slab_kernels(bool near)
{
	return near ? (SlabKernels){scsr_forward<LANES, true>, scsr_adjoint<LANES, true>}
		    : (SlabKernels){scsr_forward<LANES, false>, scsr_adjoint<LANES, false>};
}

static SlabKernels choose_kernels(int lanes, bool near)
{
	return lanes == 8   ? slab_kernels<8>(near)
	       : lanes == 4 ? slab_kernels<4>(near)
	       : lanes == 2 ? slab_kernels<2>(near)
			    : slab_kernels<1>(near);
}

static tomos_status run_forward(CudaDevice *d, const KernelScsr *m, int power, const SlabKernels *k,
	size_t bytes, const float *in, float *out)
{
	enum { THREADS = 256, PARTS = 16 };
	scsr_spread_image<<<cuda_blocks(m->of.nx * m->of.ny * m->of.lanes, THREADS, MOST_GRID),
		THREADS, 0, d->stream>>>(*m, in);
	for (int64_t first = 0; first < m->of.used; first += m->of.chunk) {
		int64_t end = min64(first + m->of.chunk, m->of.used);
		dim3 grid((unsigned)m->of.slabs, (unsigned)min64(m->of.shares, end - first));
		k->forward<<<grid, SLAB_THREADS, bytes, d->stream>>>(*m, power, first, end);
		scsr_total_rows<<<dim3((unsigned)(end - first), PARTS), THREADS, 0, d->stream>>>(
			*m, first, end, out);
	}
	CUDA_LAUNCHED("a product with a matrix");
	return TOMOS_OK;
}

static tomos_status run_adjoint(CudaDevice *d, const KernelScsr *m, int power, const SlabKernels *k,
	size_t bytes, const float *in, float *out)
{
	enum { THREADS = 256 };
	scsr_get_rows<<<(unsigned)m->of.used, THREADS, 0, d->stream>>>(*m, in);
	k->adjoint<<<dim3((unsigned)m->of.slabs, (unsigned)m->of.shares), SLAB_THREADS, bytes,
		d->stream>>>(*m, power);
	scsr_collect_image<<<cuda_blocks(m->of.nx * m->of.ny, THREADS, MOST_GRID), THREADS, 0,
		d->stream>>>(*m, out);
	CUDA_LAUNCHED("a product with a matrix");
	return TOMOS_OK;
}

static tomos_status scsr_locked(tomos_backend *backend, const KernelScsr *m, Direction direction,
	int power, const float *in, float *out)
{
	CudaDevice *d = device_of(backend);
	int64_t slab = m->of.slab_size * m->of.nx * m->of.lanes * (int64_t)sizeof(float);
	bool near = slab <= backend->near;
	const SlabKernels kernels = choose_kernels(m->of.lanes, near);
	size_t bytes = near ? (size_t)slab : 0;
	TRY(cuda_use(backend));
	if (near) {
		const void *kernel = direction == FORWARD ? (const void *)kernels.forward
							  : (const void *)kernels.adjoint;
		CUDA_TRY(cudaFuncSetAttribute(
				 kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
			"taking shared memory");
	}
	return direction == FORWARD ? run_forward(d, m, power, &kernels, bytes, in, out)
				    : run_adjoint(d, m, power, &kernels, bytes, in, out);
}

/* The images between the kernels are the matrix's own: one product at a time. */
tomos_status cuda_scsr(tomos_backend *backend, const KernelScsr *m, Direction direction, int power,
	const float *in, float *out)
{
	pthread_mutex_lock(&device_of(backend)->lock);
	tomos_status status = scsr_locked(backend, m, direction, power, in, out);
	pthread_mutex_unlock(&device_of(backend)->lock);
	return status;
}
