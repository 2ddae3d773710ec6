/* The normal operator A'A of the Fourier projector on the GPU, as a convolution (see
 * cpu/fourier_normal.c).
 *
 * Slices are padded to twice their size. Three kernels for a batch of pairs of slices: transforms
 * along x of the rows with voxels; transforms along y, product with the spectrum of the kernel, and
 * back, of which only rows with voxels are stored; transforms along x back. Zeros are neither
 * stored nor loaded, and each number moves once per kernel.
 */
#include "backend/cuda/fft.h"
#include "backend/cuda/fourier.h"

extern "C" {
#include "base/fft.h"
}

/* Transforms along x, along y, and along y with the passes in the opposite order, which begins with
 * the samples of a thread at the end of the other one. */
enum { FFT_X, FFT_Y, FFT_Y_BACK, FFTS };

/* Sequences and threads of a block that are aimed at: four columns are 32 bytes of a row. */
enum { COLUMNS = 4, ROW_THREADS = 256 };

struct Convolution {
	BlockFft fft[FFTS];
	float2 *twiddles[FFTS];
	int across, columns; /* sequences of a block: rows, columns */
	int pairs;
	float *spectrum; /* [group of columns][frequency][column], one over the cells included */
	float2 *rows;    /* [pair][y][frequency along x] */
};

typedef struct {
	BlockFft fft, back;
	int64_t n[3], slice;
	int wide;      /* frequencies of a row */
	int sequences; /* of a block */
	const float *in, *spectrum;
	float *out;
	float2 *rows;
} ConvolutionJob;

/* ---- kernels --------------------------------------------------------------------------------- */

static __device__ FftShare row_share(const ConvolutionJob &job, float2 *shared, int64_t *row)
{
	const int sequence = (int)threadIdx.x / job.fft.threads;
	*row = (int64_t)blockIdx.x * job.sequences + sequence;
	return (FftShare){shared + sequence * (job.fft.length + job.fft.length / 16 + 1), 1,
		(int)threadIdx.x % job.fft.threads};
}

/* The first of the two slices in a row of this pair, and whether it has the second. */
static __device__ int64_t row_place(const ConvolutionJob &job, int64_t row, bool part[2])
{
	const int64_t slice = job.slice + 2 * blockIdx.y;
	part[0] = slice < job.n[2] && row < job.n[1];
	part[1] = slice + 1 < job.n[2] && row < job.n[1];
	return (slice * job.n[1] + row) * job.n[0];
}

/* Between slices and their transforms along x. The inverse transform is the forward one with real
 * and imaginary parts exchanged. */
template <int L, bool INVERSE>
static __global__ void __launch_bounds__(FFT_THREADS)
	transform_rows(const __grid_constant__ ConvolutionJob job)
{
	extern __shared__ float2 samples[];
	float2 v[FFT_EACH];
	int64_t row;
	bool part[2];
	const FftShare share = row_share(job, samples, &row);
	const int64_t at = row_place(job, row, part), plane = job.n[0] * job.n[1];
	const int voxels = (int)job.n[0];
	float2 *transform = job.rows + (blockIdx.y * job.n[1] + row) * job.wide;
	fft_visit<L>(job.fft, true, share.lane, v, [&](float2 &value, int i) {
		if (INVERSE) {
			const float2 given = row < job.n[1] ? transform[i] : make_float2(0, 0);
			value = make_float2(given.y, given.x);
		} else {
			value.x = part[0] && i < voxels ? job.in[at + i] : 0;
			value.y = part[1] && i < voxels ? job.in[at + plane + i] : 0;
		}
	});
	fft_run<L, false>(job.fft, share, v);
	fft_visit<L>(job.fft, false, share.lane, v, [&](float2 &value, int i) {
		if (!INVERSE && row < job.n[1])
			transform[i] = value;
		if (INVERSE && part[0] && i < voxels)
			job.out[at + i] = value.y;
		if (INVERSE && part[1] && i < voxels)
			job.out[at + plane + i] = value.x;
	});
}

/* Columns of a block with transforms of length L. */
static __host__ __device__ constexpr int fixed_columns(int L)
{
	return L * COLUMNS <= FFT_THREADS * FFT_EACH ? COLUMNS : FFT_THREADS * FFT_EACH / L;
}

/* Pairs are neighbours in the grid of blocks, so that they find the spectrum in L2 cache. */
template <int L>
static __global__ void __launch_bounds__(FFT_THREADS)
	convolve_columns(const __grid_constant__ ConvolutionJob job)
{
	extern __shared__ float2 samples[];
	float2 v[FFT_EACH];
	const int sequences = L > 0 ? fixed_columns(L) : job.sequences;
	const int sequence = (int)threadIdx.x % sequences;
	const FftShare share = {samples + sequence, sequences, (int)threadIdx.x / sequences};
	const int column = (int)blockIdx.y * sequences + sequence;
	const float *spectrum =
		job.spectrum + (int64_t)blockIdx.y * sequences * job.fft.length + sequence;
	float2 *rows = job.rows + blockIdx.x * job.n[1] * job.wide + column;
	/* Rows to load and store; columns beyond the last one have none. */
	const int voxels = column < job.wide ? (int)job.n[1] : 0;
	fft_visit<L>(job.fft, true, share.lane, v, [&](float2 &value, int i) {
		value = i < voxels ? rows[i * job.wide] : make_float2(0, 0);
	});
	fft_run<L, false>(job.fft, share, v);
	fft_visit<L>(job.fft, false, share.lane, v, [&](float2 &value, int i) {
		const float factor = spectrum[i * sequences];
		value = make_float2(factor * value.y, factor * value.x);
	});
	fft_run<L, true>(job.back, share, v);
	fft_visit<L>(job.fft, true, share.lane, v, [&](float2 &value, int i) {
		if (i < voxels)
			rows[i * job.wide] = make_float2(value.y, value.x);
	});
}

/* From the transformed kernel, which is real as the kernel is even. */
static __global__ void fill_spectrum(
	int64_t wide, int64_t high, int columns, float unit, const float2 *plane, float *spectrum)
{
	const int64_t x = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (x >= wide)
		return;
	for (int64_t y = blockIdx.y; y < high; y += gridDim.y)
		spectrum[(x / columns * high + y) * columns + x % columns] =
			unit * plane[y * wide + x].x;
}

/* ---- plans of transforms --------------------------------------------------------------------- */

/* The least even length with few odd factors. */
static int64_t block_length(int64_t least)
{
	for (int64_t n = fft_length(least);; n = fft_length(n + 1)) {
		int64_t odd = n;
		while (odd % 2 == 0)
			odd /= 2;
		if (odd <= 15)
			return n;
	}
}

static tomos_status make_ffts(tomos_backend *b, struct Convolution *c, const int64_t n[3])
{
	const int64_t x = block_length(2 * n[0] - 1), y = block_length(2 * n[1] - 1);
	TRY(fft_plan(b, &c->fft[FFT_X], (int)x, false, &c->twiddles[FFT_X]));
	TRY(fft_plan(b, &c->fft[FFT_Y], (int)y, false, &c->twiddles[FFT_Y]));
	TRY(fft_plan(b, &c->fft[FFT_Y_BACK], (int)y, true, &c->twiddles[FFT_Y_BACK]));
	return TOMOS_OK;
}

/* Sequences of a block: `wanted`, or as many as threads and shared memory allow; 0: none. */
static int sequences_of(const BlockFft *f, int wanted)
{
	int64_t bytes = (int64_t)fft_padded(f->length) * (int64_t)sizeof(float2);
	int64_t most = min64(FFT_THREADS / f->threads, cuda_most_shared() / bytes);
	return (int)min64(wanted, most);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* The kernel for all distances of two voxels of a slice, in device memory. */
static tomos_status make_kernel(tomos_backend *b, const FourierSpec *spec, float *kernel)
{
	Fourier *f;
	TRY(cuda_fourier_open(b, &f, spec));
	SliceBatch batch = fourier_batch(f, 0);
	batch.volume = kernel;
	tomos_status status = fourier_spread(b, f, true);
	if (status == TOMOS_OK)
		status = fourier_transform(
			b, f->plane_fft, f->grid, CUFFT_INVERSE, f->lines.size[0]);
	if (status == TOMOS_OK)
		status = slices_move(b, &batch, false);
	cuda_fourier_close(b, f);
	return status;
}

/* The transform of the kernel, in a plane of the padded size. */
static tomos_status transform_kernel(tomos_backend *b, const struct Convolution *c,
	const int64_t n[3], float *kernel, const float *ones, float2 *plane)
{
	const int64_t size[2] = {c->fft[FFT_Y].length, c->fft[FFT_X].length};
	cufftHandle fft;
	bool has = false;
	const SliceBatch batch = {.n = {n[0], n[1], 1},
		.size = {size[1], size[0]},
		.pairs = 1,
		.scale = {ones, ones},
		.volume = kernel,
		.grid = plane};
	TRY(slices_move(b, &batch, true));
	TRY(fourier_plan(&fft, &has, 2, size, 1));
	tomos_status status = fourier_transform(b, fft, plane, CUFFT_FORWARD, size[0]);
	tomos_status complete = b->type->memory->sync(b); /* the plan is in use until then */
	cufftDestroy(fft);
	return status == TOMOS_OK ? complete : status;
}

static tomos_status copy_spectrum(tomos_backend *b, struct Convolution *c, const float2 *plane)
{
	const int64_t wide = c->fft[FFT_X].length, high = c->fft[FFT_Y].length;
	const int64_t groups = (wide + c->columns - 1) / c->columns;
	TRY(b->type->memory->alloc(
		b, &c->spectrum, groups * c->columns * high, "the spectrum of A'A"));
	TRY(b->type->vector->fill(b, groups * c->columns * high, 0, c->spectrum));
	fill_spectrum<<<dim3(cuda_blocks(wide, 256, 1 << 30), (unsigned)min64(high, 65535)), 256, 0,
		device_of(b)->stream>>>(
		wide, high, c->columns, 1 / ((float)wide * (float)high), plane, c->spectrum);
	CUDA_LAUNCHED("the spectrum of A'A");
	return TOMOS_OK;
}

static tomos_status make_spectrum(tomos_backend *b, struct Convolution *c, const FourierSpec *spec)
{
	const BackendMemory *memory = b->type->memory;
	const int64_t cells = (int64_t)c->fft[FFT_X].length * c->fft[FFT_Y].length;
	const FourierSpec twice = fourier_twice(spec);
	float *kernel = NULL, *ones = NULL, *plane = NULL;
	tomos_status status;
	const int64_t longest = max64(twice.n[0], twice.n[1]);
	TRY_OR_DONE(memory->alloc(b, &kernel, twice.n[0] * twice.n[1], "A'A"));
	TRY_OR_DONE(make_kernel(b, &twice, kernel));
	TRY_OR_DONE(memory->alloc(b, &ones, longest, "A'A"));
	TRY_OR_DONE(b->type->vector->fill(b, longest, 1, ones));
	TRY_OR_DONE(memory->alloc(b, &plane, 2 * cells, "the spectrum of A'A"));
	TRY_OR_DONE(transform_kernel(b, c, twice.n, kernel, ones, (float2 *)plane));
	TRY_OR_DONE(copy_spectrum(b, c, (const float2 *)plane));
	TRY_OR_DONE(memory->sync(b));
done:
	if (kernel)
		memory->release(b, kernel);
	if (ones)
		memory->release(b, ones);
	if (plane)
		memory->release(b, plane);
	return status;
}

/* As many pairs of slices as memory allows. */
static tomos_status take_rows(tomos_backend *b, struct Convolution *c, const int64_t n[3])
{
	const int64_t floats = 2 * n[1] * c->fft[FFT_X].length, all = (n[2] + 1) / 2;
	int64_t free_bytes;
	TRY(b->type->memory->free_bytes(b, &free_bytes));
	int64_t limit = min64(device_of(b)->scratch_most, free_bytes / 2 / (int64_t)sizeof(float));
	c->pairs = (int)min64(FOURIER_PAIRS, min64(all, max64(1, limit / floats)));
	return b->type->memory->alloc(b, (float **)&c->rows, c->pairs * floats, "padded slices");
}

static tomos_status normal_fill(tomos_backend *b, Fourier *f, const FourierSpec *spec)
{
	TRY(mem_zeroed(&f->normal, 1, sizeof *f->normal, "a normal operator"));
	struct Convolution *c = f->normal;
	TRY(make_ffts(b, c, spec->n));
	c->across = sequences_of(
		&c->fft[FFT_X], (int)max64(1, ROW_THREADS / max64(1, c->fft[FFT_X].threads)));
	c->columns = sequences_of(&c->fft[FFT_Y], COLUMNS);
	if (c->across < 1 || c->columns < 1)
		return fail(TOMOS_UNSUPPORTED,
			"slices of %lld x %lld voxels are too large for the normal operator on "
			"this GPU",
			(long long)spec->n[0], (long long)spec->n[1]);
	TRY(make_spectrum(b, c, spec));
	return take_rows(b, c, spec->n);
}

void convolution_free(struct Convolution *c)
{
	if (!c)
		return;
	void *held[] = {c->twiddles[0], c->twiddles[1], c->twiddles[2], c->spectrum, c->rows};
	for (int i = 0; i < COUNT(held); i++)
		cudaFree(held[i]);
	mem_free(c);
}

tomos_status cuda_normal_open(tomos_backend *backend, Fourier **fourier, const FourierSpec *spec)
{
	return fourier_open(backend, fourier, spec, normal_fill);
}

/* ---- running --------------------------------------------------------------------------------- */

static tomos_status launch(tomos_backend *b, void (*kernel)(const ConvolutionJob), dim3 blocks,
	const ConvolutionJob &job)
{
	const size_t shared =
		(size_t)job.sequences * (size_t)fft_padded(job.fft.length) * sizeof(float2);
	TRY(cuda_take_shared((const void *)kernel));
	kernel<<<blocks, (unsigned)(job.sequences * job.fft.threads), shared,
		device_of(b)->stream>>>(job);
	CUDA_LAUNCHED("a convolution");
	return TOMOS_OK;
}

/* Kernels for lengths that many slices have, and for all others. */
typedef struct {
	int length;
	void (*transform)(const ConvolutionJob);
	void (*convolve)(const ConvolutionJob);
	void (*invert)(const ConvolutionJob);
} ConvolutionKernels;

#define KERNELS(L) \
	{ \
		L, transform_rows<L, false>, convolve_columns<L>, transform_rows<L, true> \
	}
static const ConvolutionKernels kernels[] = {
	KERNELS(1024), KERNELS(2048), KERNELS(4096), KERNELS(8192), KERNELS(0)};

static const ConvolutionKernels *kernels_of(int length)
{
	const ConvolutionKernels *k = kernels;
	while (k->length != length && k->length > 0)
		k++;
	return k;
}

static tomos_status convolve_batch(
	tomos_backend *b, const Fourier *f, const float *in, float *out, int64_t slice)
{
	const struct Convolution *c = f->normal;
	const int64_t *n = f->spec.n;
	const unsigned pairs = (unsigned)min64(c->pairs, (n[2] - slice + 1) / 2);
	const int64_t groups = (c->fft[FFT_X].length + c->columns - 1) / c->columns;
	const dim3 rows((unsigned)((n[1] + c->across - 1) / c->across), pairs);
	ConvolutionJob job = {.fft = c->fft[FFT_X],
		.n = {n[0], n[1], n[2]},
		.slice = slice,
		.wide = c->fft[FFT_X].length,
		.sequences = c->across,
		.in = in,
		.spectrum = c->spectrum,
		.out = out,
		.rows = c->rows};
	ConvolutionJob along_y = job;
	along_y.fft = c->fft[FFT_Y];
	along_y.back = c->fft[FFT_Y_BACK];
	along_y.sequences = c->columns;
	const ConvolutionKernels *x = kernels_of(c->fft[FFT_X].length);
	const ConvolutionKernels *y = kernels_of(c->fft[FFT_Y].length);
	if (c->columns != fixed_columns(c->fft[FFT_Y].length)) /* little shared memory */
		y = kernels_of(0);
	TRY(launch(b, x->transform, rows, job));
	TRY(launch(b, y->convolve, dim3(pairs, (unsigned)groups), along_y));
	return launch(b, x->invert, rows, job);
}

static tomos_status convolve(tomos_backend *b, const Fourier *f, const float *in, float *out)
{
	for (int64_t z = 0; z < f->spec.n[2]; z += 2 * f->normal->pairs)
		TRY(convolve_batch(b, f, in, out, z));
	return TOMOS_OK;
}

tomos_status cuda_normal_apply(
	tomos_backend *backend, Fourier *f, const float *volume, float *result)
{
	TRY(cuda_use(backend));
	tomos_status status = cuda_enter(backend);
	if (status == TOMOS_OK)
		status = convolve(backend, f, volume, result);
	tomos_status left = cuda_leave(backend);
	return status == TOMOS_OK ? left : status;
}
