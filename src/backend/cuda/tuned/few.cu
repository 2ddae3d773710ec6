/* Rays in slices, for a few views at a time, as SART and small blocks of views have them: arrays are used
 * where they lie, since turning the volume round would take longer than the projection.
 *
 * Bound by the volume itself: read once going forward, read and written once going back.
 */
#include "backend/cuda/tuned/turn.h"

enum { WIDE = 32, HIGH = 8, SLICES = 4, FEW_VIEWS = 8, SEGMENT = 32, WARPS = 4, LINES = 92 };

typedef struct {
	const HatView *views;
	int count, columns, na, nb, slices;
	int64_t low_a, low_b;
	int64_t va, vb, vs; /* strides of the volume */
	int64_t pv, pc, ps; /* and of the projections */
	bool lanes_in_slices; /* slices are contiguous: neighbouring threads take neighbouring slices */
	bool lines;           /* forward: lines of pixels fit into shared memory */
	float *volume, *projections;
} Few;

/* ---- forward ------------------------------------------------------------------------------ */

template <int T>
static __device__ float follow(const float *from, double p, double slope, int planes, int n,
	int64_t step, int64_t plane, float inverse)
{
	float sum = 0, rate = (float)slope;
	for (int k0 = 0; k0 < planes; k0 += SEGMENT) {
		double start = p + k0 * slope, whole = floor(fmax(fmin(start, 1e9), -1e9));
		if (fmax(start, start + SEGMENT * slope) < -2 ||
			fmin(start, start + SEGMENT * slope) > n + 1)
			continue;
		float f = (float)(start - whole);
		const float *line = from + k0 * plane;
		int base = (int)whole, end = min(SEGMENT, planes - k0);
#pragma unroll 8
		for (int k = 0; k < end; k++, line += plane) {
			float at = fmaf((float)k, rate, f), lowest = hat_first<T>(at);
			int i = base + (int)lowest;
			float away = at - lowest;
#pragma unroll
			for (int t = 0; t < T; t++)
				if ((unsigned)(i + t) < (unsigned)n)
					sum = fmaf(hat_value(away - t, inverse),
						__ldg(line + (i + t) * step), sum);
		}
	}
	return sum;
}

template <int T>
static __global__ void __launch_bounds__(WIDE *HIGH) few_forward(const __grid_constant__ Few s)
{
	int i = blockIdx.x * WIDE + threadIdx.x, j = blockIdx.y * HIGH + threadIdx.y;
	int c = s.lanes_in_slices ? j : i, slice = s.lanes_in_slices ? i : j, view = blockIdx.z;
	if (c >= s.columns || slice >= s.slices)
		return;
	const HatView hat = s.views[view];
	if (s.lines && !hat.along)
		return; /* few_along does it */
	double e0 = hat.e0 + hat.ea * (double)s.low_a + hat.eb * (double)s.low_b;
	double across = hat.along ? hat.ea : hat.eb, down = hat.along ? hat.eb : hat.ea;
	double p = (c - e0) / across, slope = -down / across;
	float inverse = (float)fabs(across) / hat.h;
	const float *from = s.volume + slice * s.vs;
	float sum = hat.along ? follow<T>(from, p, slope, s.nb, s.na, s.va, s.vb, inverse)
			      : follow<T>(from, p, slope, s.na, s.nb, s.vb, s.va, inverse);
	s.projections[view * s.pv + c * s.pc + slice * s.ps] += hat.weight * sum;
}

static __device__ float least_of_warp(float value)
{
	for (int apart = WIDE / 2; apart > 0; apart /= 2)
		value = fminf(value, __shfl_xor_sync(~0u, value, apart));
	return value;
}

/* The pixels that a warp's rays meet on SEGMENT planes, brought line by line. */
static __device__ void bring_lines(
	const Few *s, const float *slice, int k0, int line, int lines, float (*tile)[WIDE + 1])
{
	int k = k0 + threadIdx.x;
	for (int i = 0; i < lines; i++) {
		bool inside = (unsigned)(line + i) < (unsigned)s->nb && k < s->na;
		tile[i][threadIdx.x] = inside ? __ldg(slice + (line + i) * s->vb + k) : 0;
	}
	__syncwarp();
}

/* Rays that run along a, the contiguous axis: neighbouring rays are on different lines, so these are read
 * whole into shared memory first. */
template <int T>
static __global__ void __launch_bounds__(WIDE *WARPS) few_along(const __grid_constant__ Few s)
{
	__shared__ float tiles[WARPS][LINES][WIDE + 1];
	int c = blockIdx.x * WIDE + threadIdx.x, slice = blockIdx.y * WARPS + threadIdx.y;
	int view = blockIdx.z;
	const HatView hat = s.views[view];
	if (hat.along || slice >= s.slices)
		return;
	float(*tile)[WIDE + 1] = tiles[threadIdx.y];
	double e0 = hat.e0 + hat.ea * (double)s.low_a + hat.eb * (double)s.low_b;
	double p = (c - e0) / hat.eb, slope = -hat.ea / hat.eb;
	float inverse = (float)fabs(hat.eb) / hat.h, sum = 0;
	for (int k0 = 0; k0 < s.na; k0 += SEGMENT) {
		double start = p + k0 * slope, end = start + SEGMENT * slope;
		float low = least_of_warp((float)fmin(start, end)) - 3;
		float high = -least_of_warp(-(float)fmax(start, end)) + 3;
		if (high < 0 || low > (float)s.nb)
			continue;
		int line = (int)floorf(low), lines = min((int)ceilf(high) - line + 1, (int)LINES);
		bring_lines(&s, s.volume + slice * s.vs, k0, line, lines, tile);
		double whole = floor(start);
		float f = (float)(start - whole);
		int base = (int)whole - line;
#pragma unroll 8
		for (int k = 0; k < SEGMENT; k++) {
			float at = fmaf((float)k, (float)slope, f), lowest = hat_first<T>(at);
			int i = base + (int)lowest;
			float away = at - lowest;
#pragma unroll
			for (int t = 0; t < T; t++)
				sum = fmaf(hat_value(away - t, inverse), tile[i + t][k], sum);
		}
		__syncwarp();
	}
	if (c < s.columns)
		s.projections[view * s.pv + c * s.pc + slice * s.ps] += hat.weight * sum;
}

/* ---- back --------------------------------------------------------------------------------- */

/* Threads go along a, or along slices; each has SLICES slices of one pixel. */
template <int T>
static __global__ void __launch_bounds__(WIDE *HIGH) few_back(const __grid_constant__ Few s)
{
	int b = blockIdx.y, a, slice, apart;
	if (s.lanes_in_slices) {
		a = blockIdx.z * HIGH + threadIdx.y;
		slice = blockIdx.x * (WIDE * SLICES) + threadIdx.x;
		apart = WIDE;
	} else {
		a = blockIdx.x * WIDE + threadIdx.x;
		slice = (blockIdx.z * HIGH + threadIdx.y) * SLICES;
		apart = 1;
	}
	if (a >= s.na)
		return;
	float sum[SLICES] = {0};
	for (int view = 0; view < s.count; view++) {
		const HatView hat = s.views[view];
		double e = hat.e0 + hat.ea * (double)(s.low_a + a) + hat.eb * (double)(s.low_b + b);
		double whole = floor(fmax(fmin(e, 1e9), -1e9));
		float at = (float)(e - whole), lowest = hat_first<T>(at), away = at - lowest;
		int c = (int)whole + (int)lowest;
		const float *from = s.projections + view * s.pv;
#pragma unroll
		for (int t = 0; t < T; t++) {
			if ((unsigned)(c + t) >= (unsigned)s.columns)
				continue;
			float w = hat.weight * hat_value(away - t, 1 / hat.h);
#pragma unroll
			for (int k = 0; k < SLICES; k++)
				if (slice + k * apart < s.slices)
					sum[k] = fmaf(w,
						__ldg(from + (c + t) * s.pc +
							(slice + k * apart) * s.ps),
						sum[k]);
		}
	}
	float *to = s.volume + a * s.va + b * s.vb;
#pragma unroll
	for (int k = 0; k < SLICES; k++)
		if (slice + k * apart < s.slices)
			to[(slice + k * apart) * s.vs] += sum[k];
}

/* ---- a whole request ---------------------------------------------------------------------- */

static bool few_applies(const Projecting *what, CudaNotes *notes)
{
	return what->count <= FEW_VIEWS && !what->plan->model.planar &&
	       hat_slices(what, notes_of<HatSlices>(notes));
}

static dim3 blocks_for(const Few *s, Direction direction)
{
	if (direction == FORWARD)
		return dim3(cuda_blocks(s->lanes_in_slices ? s->slices : s->columns, WIDE, 1 << 30),
			cuda_blocks(s->lanes_in_slices ? s->columns : s->slices, HIGH, 65535),
			(unsigned)s->count);
	if (s->lanes_in_slices)
		return dim3(cuda_blocks(s->slices, WIDE * SLICES, 1 << 30), (unsigned)s->nb,
			cuda_blocks(s->na, HIGH, 65535));
	return dim3(cuda_blocks(s->na, WIDE, 1 << 30), (unsigned)s->nb,
		cuda_blocks(s->slices, HIGH * SLICES, 65535));
}

/* Pixels from one ray to the next, where rays run along a. */
static double widest_gap(const Projecting *what, const HatSlices *l)
{
	double most = 0;
	for (int64_t i = 0; i < what->count; i++) {
		const double *column = what->plan->views[what->first + i].column;
		if (fabs(column[l->b]) >= fabs(column[l->a]))
			most = fmax(most, 1 / fabs(column[l->b]));
	}
	return most;
}

static tomos_status few_run(tomos_backend *backend, const Projecting *what, const CudaNotes *notes)
{
	typedef void (*FewKernel)(const Few s);
	static const FewKernel kernels[2][3] = {{few_forward<2>, few_forward<3>, few_forward<4>},
		{few_back<2>, few_back<3>, few_back<4>}};
	static const FewKernel along[3] = {few_along<2>, few_along<3>, few_along<4>};
	const KernelModel *model = &what->plan->model;
	const Box *box = &what->box;
	const HatSlices l = *notes_of<HatSlices>(notes);
	const HatView *views;
	TRY(hat_views(backend, what, &l, &views));
	int64_t nx = box->high[0] - box->low[0], ny = box->high[1] - box->low[1];
	const int64_t stride[3] = {1, nx, nx * ny};
	int64_t low, high;
	turn_range(what, &l, &low, &high);
	if (low >= high)
		return TOMOS_OK;
	Few s = {.views = views,
		.count = (int)what->count,
		.columns = (int)model->columns,
		.na = (int)(box->high[l.a] - box->low[l.a]),
		.nb = (int)(box->high[l.b] - box->low[l.b]),
		.slices = (int)(high - low),
		.low_a = box->low[l.a],
		.low_b = box->low[l.b],
		.va = stride[l.a],
		.vb = stride[l.b],
		.vs = stride[l.s],
		.pv = model->rows * model->columns,
		.pc = 1,
		.ps = l.sign * model->columns,
		.lanes_in_slices = l.s == 0,
		.volume = what->volume + (low - box->low[l.s]) * stride[l.s],
		.projections = what->projections + (l.first + l.sign * low) * model->columns};
	cudaStream_t stream = device_of(backend)->stream;
	int taps = hat_taps(l.reach) - 2;
	/* Columns of a warp, what they drift in a segment, and the taps. */
	s.lines = what->direction == FORWARD && !s.lanes_in_slices &&
		  (double)WIDE * widest_gap(what, &l) < (double)(LINES - SEGMENT - 8);
	if (s.lines)
		along[taps]<<<dim3(cuda_blocks(s.columns, WIDE, 1 << 30),
				      cuda_blocks(s.slices, WARPS, 65535), (unsigned)s.count),
			dim3(WIDE, WARPS), 0, stream>>>(s);
	kernels[what->direction]
	       [taps]<<<blocks_for(&s, what->direction), dim3(WIDE, HIGH), 0, stream>>>(s);
	CUDA_LAUNCHED("projecting a few views");
	return TOMOS_OK;
}

extern const CudaTuned few_kernels[4];
const CudaTuned few_kernels[4] = {
	{"few", KERNEL_joseph, FORWARD, few_applies, few_run},
	{"few", KERNEL_joseph, ADJOINT, few_applies, few_run},
	{"few", KERNEL_voxel, FORWARD, few_applies, few_run},
	{"few", KERNEL_voxel, ADJOINT, few_applies, few_run},
};
