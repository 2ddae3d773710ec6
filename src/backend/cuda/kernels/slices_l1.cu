/* In-slice rays, several slices: index and weight are computed once for the four slices of a
 * thread. Volume and projections are transposed so that slices are the fastest axis.
 *
 * Forward, a thread follows one ray through the pixels of the plane; back, it computes one pixel
 * and visits all views. Both are bound by L1 cache: 2 to 4 samples of 4 bytes per update.
 */
#include "backend/cuda/kernels/transpose.h"

enum {
	TILE = 32,
	QUAD = 4,
	WARPS = 8,
	GROUP = 4,
	ROWS = 4,
	VIEWS = 128,
	SEGMENT = 32,
	LEAST_SLICES = 8
};

typedef struct {
	const HatView *views;
	int64_t count, columns;
	int na, nb;           /* pixels of the box */
	int64_t low_a, low_b; /* first pixel of the box */
	int quads;            /* number of float4, four slices each */
	int lanes;            /* quads per warp */
	const float4 *from;
	float4 *to;
} Stack;

/* ---- forward --------------------------------------------------------------------------------- */

/* Sum of a ray over the planes of its axis. p: position in plane 0; slope: change per plane; n:
 * pixels per plane; step, plane: strides across and along the ray, in float4. Positions are
 * recomputed every SEGMENT planes, which keeps them accurate to 1e-6. */
template <int T>
static __device__ float4 follow(const float4 *from, double p, double slope, int planes, int n,
	int64_t step, int64_t plane, float inverse)
{
	float4 sum = {0, 0, 0, 0};
	float rate = (float)slope;
	for (int k0 = 0; k0 < planes; k0 += SEGMENT) {
		double start = p + k0 * slope, whole = floor(start);
		float f = (float)(start - whole);
		int base = (int)fmax(fmin(whole, 1e9), -1e9);
		const float4 *line = from + k0 * plane;
		int end = min(SEGMENT, planes - k0);
#pragma unroll 4
		for (int k = 0; k < end; k++, line += plane) {
			float at = fmaf((float)k, rate, f), lowest = hat_first<T>(at);
			int i = base + (int)lowest;
			float away = at - lowest;
#pragma unroll
			for (int t = 0; t < T; t++)
				if ((unsigned)(i + t) < (unsigned)n)
					add_scaled(sum, hat_value(away - t, inverse),
						__ldg(line + (i + t) * step));
		}
	}
	return sum;
}

/* A block has ROWS columns of GROUP neighbouring views, whose rays meet nearly the same pixels. */
template <int T>
static __global__ void __launch_bounds__(TILE *GROUP *ROWS, 3)
	stack_forward(const __grid_constant__ Stack s)
{
	int lane = threadIdx.x % s.lanes, rays = TILE / s.lanes;
	int quad = blockIdx.z * s.lanes + lane;
	int64_t c =
		((int64_t)blockIdx.x * ROWS + threadIdx.y / GROUP) * rays + threadIdx.x / s.lanes;
	int64_t view = (int64_t)blockIdx.y * GROUP + threadIdx.y % GROUP;
	if (quad >= s.quads || c >= s.columns || view >= s.count)
		return;
	const HatView hat = s.views[view];
	double e0 = hat.e0 + hat.ea * (double)s.low_a + hat.eb * (double)s.low_b;
	double across = hat.along ? hat.ea : hat.eb, down = hat.along ? hat.eb : hat.ea;
	double p = ((double)c - e0) / across, slope = -down / across;
	float inverse = (float)fabs(across) / hat.h;
	int64_t row = (int64_t)s.na * s.quads;
	float4 sum =
		hat.along ? follow<T>(s.from + quad, p, slope, s.nb, s.na, s.quads, row, inverse)
			  : follow<T>(s.from + quad, p, slope, s.na, s.nb, row, s.quads, inverse);
	float4 *to = &s.to[(view * s.columns + c) * s.quads + quad];
	*to = make_float4(
		hat.weight * sum.x, hat.weight * sum.y, hat.weight * sum.z, hat.weight * sum.w);
}

/* ---- back ------------------------------------------------------------------------------------ */

/* A view relative to the corner of a block: pixel (da, db) projects to column + f + ea da + eb
 * db. */
typedef struct {
	int column;
	float f, ea, eb, inverse, weight;
} Near;

static __device__ Near near_corner(const HatView *hat, double a, double b)
{
	double e = hat->e0 + hat->ea * a + hat->eb * b, whole = floor(e);
	return Near{(int)fmax(fmin(whole, 1e9), -1e9), (float)(e - whole), (float)hat->ea,
		(float)hat->eb, 1 / hat->h, hat->weight};
}

/* Blocks are 4 x 2 pixels or, with fewer than 128 slices, wider along a. */
template <int T>
static __global__ void __launch_bounds__(TILE *WARPS) stack_back(const __grid_constant__ Stack s)
{
	__shared__ Near near[VIEWS];
	int lane = threadIdx.x % s.lanes, wide = TILE / s.lanes;
	int quad = blockIdx.z * s.lanes + lane;
	int a0 = blockIdx.x * (4 * wide), b0 = blockIdx.y * 2;
	int da = threadIdx.x / s.lanes + wide * (threadIdx.y % 4), db = threadIdx.y / 4;
	bool inside = quad < s.quads && a0 + da < s.na && b0 + db < s.nb;
	float4 sum = {0, 0, 0, 0};
	for (int64_t first = 0; first < s.count; first += VIEWS) {
		int views = (int)min((int64_t)VIEWS, s.count - first);
		__syncthreads();
		for (int i = threadIdx.y * TILE + threadIdx.x; i < views; i += TILE * WARPS)
			near[i] = near_corner(&s.views[first + i], (double)(s.low_a + a0),
				(double)(s.low_b + b0));
		__syncthreads();
		const float4 *from = s.from + first * s.columns * s.quads + quad;
		if (inside)
#pragma unroll 4
			for (int i = 0; i < views; i++, from += s.columns * s.quads) {
				const Near v = near[i];
				float at = fmaf(v.ea, (float)da, fmaf(v.eb, (float)db, v.f));
				float lowest = hat_first<T>(at), away = at - lowest;
				int c = v.column + (int)lowest;
#pragma unroll
				for (int t = 0; t < T; t++)
					if ((unsigned)(c + t) < (unsigned)s.columns)
						add_scaled(sum,
							v.weight * hat_value(away - t, v.inverse),
							__ldg(from + (c + t) * s.quads));
			}
	}
	if (inside)
		s.to[((int64_t)(b0 + db) * s.na + a0 + da) * s.quads + quad] = sum;
}

/* ---- a whole request ------------------------------------------------------------------------- */

static bool stack_applies(const ProjectRequest *what, CudaNotes *notes)
{
	HatSlices *slices = notes_of<HatSlices>(notes);
	if (what->plan->model.planar || !hat_slices(what, slices))
		return false;
	return what->plan->model.rows >= LEAST_SLICES &&
	       what->box.high[slices->s] - what->box.low[slices->s] >= LEAST_SLICES;
}

typedef void (*StackKernel)(const Stack s);

static tomos_status run_kernel(
	tomos_backend *backend, const ProjectRequest *what, const HatSlices *slices, const Stack *s)
{
	static const StackKernel kernels[2][3] = {
		{stack_forward<2>, stack_forward<3>, stack_forward<4>},
		{stack_back<2>, stack_back<3>, stack_back<4>}};
	int taps = hat_taps(slices->reach), wide = TILE / s->lanes;
	unsigned groups = cuda_blocks(s->quads, s->lanes, 65535);
	bool forward = what->direction == FORWARD;
	dim3 blocks = forward ? dim3(cuda_blocks(s->columns, wide * ROWS, 1 << 30),
					cuda_blocks(s->count, GROUP, 65535), groups)
			      : dim3(cuda_blocks(s->na, 4 * wide, 1 << 30),
					cuda_blocks(s->nb, 2, 65535), groups);
	kernels[what->direction][taps - 2]<<<blocks, dim3(TILE, forward ? GROUP * ROWS : WARPS), 0,
		device_of(backend)->stream>>>(*s);
	CUDA_LAUNCHED("projecting slices");
	return TOMOS_OK;
}

static tomos_status run_part(tomos_backend *backend, const ProjectRequest *what, const HatSlices *l,
	const HatView *views, int64_t slice, int64_t slices, const CudaEpilogue *epilogue)
{
	bool forward = what->direction == FORWARD;
	Transposed x = transposed_volume(what, l, slice, slices, QUAD);
	Transposed y = transposed_views(what, l, slice, slices, QUAD);
	TRY(cuda_scratch(backend, SCRATCH_REORDERED, x.pitch * x.nj * x.nk, &x.inside, "slices"));
	TRY(cuda_scratch(
		backend, SCRATCH_ROWS, y.pitch * y.nj * y.nk, &y.inside, "rows of slices"));
	int quads = (int)(x.pitch / QUAD), lanes = 1;
	while (lanes < quads && lanes < TILE)
		lanes *= 2;
	Stack s = {.views = views,
		.count = what->count,
		.columns = y.nj,
		.na = (int)x.nj,
		.nb = (int)x.nk,
		.low_a = what->box.low[l->a],
		.low_b = what->box.low[l->b],
		.quads = quads,
		.lanes = lanes,
		.from = (const float4 *)(forward ? x.inside : y.inside),
		.to = (float4 *)(forward ? y.inside : x.inside)};
	TRY(transpose_in(backend, forward ? &x : &y));
	TRY(run_kernel(backend, what, l, &s));
	return transpose_out(backend, forward ? &y : &x, epilogue);
}

static tomos_status stack_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	return slices_each(backend, what, notes, epilogue, SlicesScratch{QUAD, 1, 1, 0}, run_part);
}

extern const CudaKernel cuda_slices_forward_l1, cuda_slices_back_l1;
const CudaKernel cuda_slices_forward_l1 = {stack_applies, stack_run, NULL, transpose_overwrites};
const CudaKernel cuda_slices_back_l1 = {
	stack_applies, stack_run, transpose_fuses, transpose_overwrites};
