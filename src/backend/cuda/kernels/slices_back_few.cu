/* Back projection of few views of in-slice rays (slices_few.h). Bound by reading and writing the
 * volume once; an update and its bounds are applied in the same pass. */
#include "backend/cuda/kernels/slices_few.h"

enum {
	WIDE = 32,
	HIGH = 8,
	FEW_VIEWS = 8,
	MOST_GROUPS = 4,
	BLOCKS_EACH = 16 /* blocks wanted per SM, before threads process several groups */
};

/* Slices per thread. */
static __host__ __device__ constexpr int slices_of(bool sideways)
{
	return sideways ? 4 : 8;
}

/* ---- back ------------------------------------------------------------------------------------ */

/* A view relative to the corner of a block: pixel (da, db) projects to column + f + ea da + eb
 * db; inverse: reciprocal of the hat's half width. */
typedef struct {
	int column;
	float f, ea, eb, inverse, weight;
} Near;

static __device__ Near near_corner(const Few *s, const HatView *hat, int a, int b)
{
	double e = hat->e0 + hat->ea * (double)(s->low_a + a) + hat->eb * (double)(s->low_b + b);
	double whole = floor(fmax(fmin(e, 1e9), -1e9));
	return Near{(int)whole, (float)(e - whole), (float)hat->ea, (float)hat->eb, 1 / hat->h,
		hat->weight};
}

/* The work of a thread: a pixel of the block, and slices from `slice` on. */
typedef struct {
	int a, b;         /* the pixel, of the box */
	float da, db;     /* the same, relative to the block */
	int slice, count; /* number of its N slices inside the box */
} Part;

/* Strides between columns and between the slices of a thread in the projections, and between
 * its slices in the volume. Known at compile time where neighbouring threads are neighbours in
 * memory. */
template <bool SIDEWAYS> static __device__ __forceinline__ int64_t next_column(const Few &s)
{
	return SIDEWAYS ? s.pc : 1;
}

template <bool SIDEWAYS> static __device__ __forceinline__ int64_t next_row(const Few &s)
{
	return SIDEWAYS ? WIDE : s.ps;
}

template <bool SIDEWAYS> static __device__ __forceinline__ int64_t next_slice(const Few &s)
{
	return SIDEWAYS ? WIDE : s.vs;
}

/* Adds T taps with weights w, from `from` on, to the sums of all slices of the thread. FULL: all
 * N slices are inside the box. */
template <int T, int N, bool SIDEWAYS, bool FULL>
static __device__ __forceinline__ void take_taps(
	const Few &s, const float *from, const float w[T], int count, float sum[N])
{
	float value[N][T];
#pragma unroll
	for (int k = 0; k < N; k++, from += next_row<SIDEWAYS>(s))
#pragma unroll
		for (int t = 0; t < T; t++)
			value[k][t] =
				FULL || k < count ? __ldg(from + t * next_column<SIDEWAYS>(s)) : 0;
#pragma unroll
	for (int k = 0; k < N; k++)
#pragma unroll
		for (int t = 0; t < T; t++)
			sum[k] = fmaf(w[t], value[k][t], sum[k]);
}

/* Adds taps c .. c + T - 1 of a view to the sums, and their weights to the divisors `under`: one
 * for all slices or, with RAYS (weights of rays), one per slice. */
template <int T, int N, bool SIDEWAYS, bool RAYS, bool FULL>
static __device__ __forceinline__ void take_columns(const Few &s, int view, int c, const float w[T],
	const Part &part, float sum[N], float under[N])
{
	int64_t from =
		view * s.pv + part.slice * (SIDEWAYS ? 1 : s.ps) + c * next_column<SIDEWAYS>(s);
	take_taps<T, N, SIDEWAYS, FULL>(s, s.projections + from, w, part.count, sum);
	if (RAYS)
		take_taps<T, N, SIDEWAYS, FULL>(s, s.rays + from, w, part.count, under);
#pragma unroll
	for (int t = 0; t < T && !RAYS; t++)
		under[0] += w[t];
}

template <int T, int N, bool SIDEWAYS, bool RAYS, bool FULL>
static __device__ __forceinline__ void take_view(
	const Few &s, const Near &v, int view, const Part &part, float sum[N], float under[N])
{
	float at = fmaf(v.ea, part.da, fmaf(v.eb, part.db, v.f)), lowest = hat_first<T>(at), w[T];
	int c = v.column + (int)lowest;
	weights_of<T>(at - lowest, v.inverse, w);
#pragma unroll
	for (int t = 0; t < T; t++)
		w[t] *= v.weight;
	if (c >= 0 && c + T <= s.columns) {
		take_columns<T, N, SIDEWAYS, RAYS, FULL>(s, view, c, w, part, sum, under);
		return;
	}
	for (int t = 0; t < T; t++)
		if ((unsigned)(c + t) < (unsigned)s.columns)
			take_columns<1, N, SIDEWAYS, RAYS, FULL>(
				s, view, c + t, &w[t], part, sum, under);
}

/* Writes the voxels from `to` on: fused update, or old value x plus sum. */
template <int N, bool SIDEWAYS, bool RAYS, bool FULL>
static __device__ __forceinline__ void change(const Few &s, float *to, int count, const float x[N],
	const float sum[N], const float under[N])
{
	const CudaUpdate &step = s.with;
	const float *voxels = step.voxels ? step.voxels + (to - step.volume) : NULL;
	float least = RAYS ? s.least * __uint_as_float(*s.largest) : s.least;
	float factor = step.average && !RAYS ? cuda_average(step.a, under[0], least) : step.a;
#pragma unroll
	for (int k = 0; k < N; k++, to += next_slice<SIDEWAYS>(s)) {
		if (!FULL && k >= count)
			continue;
		if (RAYS)
			factor = cuda_average(step.a, under[k], least);
		float w = voxels ? factor * __ldcs(voxels + k * next_slice<SIDEWAYS>(s)) : factor;
		*to = s.fused ? cuda_updated(step, x[k], w, sum[k]) : x[k] + sum[k];
	}
}

template <int T, int N, bool SIDEWAYS, bool RAYS, bool FULL>
static __device__ __forceinline__ void back(const Few &s, const Near *near, const Part &part)
{
	float *to = s.volume + part.a * (SIDEWAYS ? s.va : 1) + part.b * s.vb +
		    part.slice * (SIDEWAYS ? 1 : s.vs);
	const float *from = to;
	float x[N] = {0}, sum[N] = {0}, under[N] = {0};
#pragma unroll
	for (int k = 0; k < N; k++, from += next_slice<SIDEWAYS>(s))
		if (FULL || k < part.count)
			x[k] = *from;
	for (int view = 0; view < s.count; view++)
		take_view<T, N, SIDEWAYS, RAYS, FULL>(s, near[view], view, part, sum, under);
	change<N, SIDEWAYS, RAYS, FULL>(s, to, part.count, x, sum, under);
}

template <int T, bool SIDEWAYS, bool RAYS>
static __global__ void __launch_bounds__(WIDE *HIGH) few_back(const __grid_constant__ Few s)
{
	constexpr int N = slices_of(SIDEWAYS), APART = SIDEWAYS ? WIDE : 1;
	__shared__ Near near[FEW_VIEWS];
	int a0 = SIDEWAYS ? blockIdx.y * (HIGH * s.groups) : blockIdx.x * WIDE;
	int b0 = SIDEWAYS ? blockIdx.z : blockIdx.y * HIGH;
	int da = SIDEWAYS ? threadIdx.y : threadIdx.x, db = SIDEWAYS ? 0 : threadIdx.y;
	int slice = SIDEWAYS ? blockIdx.x * (WIDE * N) + threadIdx.x : blockIdx.z * (N * s.groups);
	int thread = threadIdx.y * WIDE + threadIdx.x;
	if (thread < s.count)
		near[thread] = near_corner(&s, &s.views[thread], a0, b0);
	__syncthreads();
	for (int g = 0; g < s.groups; g++) {
		int count = (s.slices - slice + APART - 1) / APART;
		const Part part = {a0 + da, b0 + db, (float)da, (float)db, slice, count};
		if (part.a >= s.na || part.b >= s.nb || count <= 0)
			return;
		if (count >= N)
			back<T, N, SIDEWAYS, RAYS, true>(s, near, part);
		else
			back<T, N, SIDEWAYS, RAYS, false>(s, near, part);
		da += SIDEWAYS ? HIGH : 0;
		slice += SIDEWAYS ? 0 : N;
	}
}

/* ---- a whole request ------------------------------------------------------------------------- */

static bool few_applies(const ProjectRequest *what, CudaNotes *notes)
{
	return what->count <= FEW_VIEWS && !what->plan->model.planar &&
	       hat_slices(what, notes_of<HatSlices>(notes));
}

static CudaFusion few_fuses(const tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const FusedUpdate *step)
{
	(void)backend;
	(void)step;
	return slices_have_rows(what, notes_of<HatSlices>(notes)) ? FUSES : FUSES_NOT;
}

/* Transposes detector rows so that neighbouring slices are neighbours in memory. */
static tomos_status transpose_rows(
	tomos_backend *backend, Transposed rows, int scratch, Few *s, const float **transposed)
{
	TRY(cuda_scratch(
		backend, scratch, rows.pitch * rows.nj * rows.nk, &rows.inside, "rows of slices"));
	*transposed = rows.inside;
	s->pv = rows.pitch * rows.nj;
	s->pc = rows.pitch;
	s->ps = 1;
	return transpose_in(backend, &rows);
}

/* Sets the projections, and the weights of rays if any, in the order in which threads read them:
 * transposed if `sideways`. */
static tomos_status take_rows(
	tomos_backend *backend, const ProjectRequest *what, const HatSlices *l, Few *s)
{
	int64_t low, high;
	slices_range(what, l, &low, &high);
	Transposed rows = transposed_views(what, l, low, high - low, 1), rays = rows;
	const bool sideways = l->s == 0;
	const float *transposed;
	if (s->with.average && s->with.rays) {
		float *largest;
		rays.outside = (float *)s->with.rays + (rows.outside - what->projections);
		TRY(cuda_scratch(backend, SCRATCH_LISTS, 1, &largest, "the largest weight"));
		TRY(largest_value(backend, &rays, s->views, (unsigned *)largest));
		s->largest = (const unsigned *)largest;
		s->rays = rays.outside;
		if (sideways)
			TRY(transpose_rows(backend, rays, SCRATCH_ROWS, s, &s->rays));
	}
	if (!sideways)
		return TOMOS_OK;
	TRY(transpose_rows(backend, rows, SCRATCH_REORDERED, s, &transposed));
	s->projections = (float *)transposed;
	return TOMOS_OK;
}

template <bool SIDEWAYS, bool RAYS> static FewKernel back_of(int taps)
{
	static const FewKernel kernels[3] = {few_back<2, SIDEWAYS, RAYS>,
		few_back<3, SIDEWAYS, RAYS>, few_back<4, SIDEWAYS, RAYS>};
	return kernels[taps - 2];
}

static tomos_status run_back(tomos_backend *backend, const ProjectRequest *what, const HatSlices *l,
	Few *s, int taps, const CudaEpilogue *epilogue)
{
	const CudaDevice *d = device_of(backend);
	const bool sideways = l->s == 0;
	const int64_t n = slices_of(sideways);
	s->fused = epilogue->kind == EPILOGUE_UPDATE;
	s->with = epilogue->update;
	TRY(take_rows(backend, what, l, s));
	s->least = s->with.least * (s->rays ? 1 : l->weight);
	FewKernel kernel =
		sideways  ? s->rays ? back_of<true, true>(taps) : back_of<true, false>(taps)
		 : s->rays ? back_of<false, true>(taps)
			  : back_of<false, false>(taps);
	int64_t ones = (int64_t)s->na * s->nb * s->slices / (WIDE * HIGH * n);
	s->groups = (int)max64(1, min64(MOST_GROUPS, ones / (BLOCKS_EACH * d->sms)));
	dim3 blocks =
		sideways ? dim3(cuda_blocks(s->slices, WIDE * n, 1 << 30),
				   cuda_blocks(s->na, HIGH * s->groups, 65535), (unsigned)s->nb)
			 : dim3(cuda_blocks(s->na, WIDE, 1 << 30), cuda_blocks(s->nb, HIGH, 65535),
				   cuda_blocks(s->slices, n * s->groups, 65535));
	kernel<<<blocks, dim3(WIDE, HIGH), 0, d->stream>>>(*s);
	return TOMOS_OK;
}

static tomos_status few_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	const KernelModel *model = &what->plan->model;
	const Box *box = &what->box;
	const HatSlices l = *notes_of<HatSlices>(notes);
	const HatView *views;
	TRY(hat_views(backend, what, &l, &views));
	int64_t nx = box->high[0] - box->low[0], ny = box->high[1] - box->low[1];
	const int64_t stride[3] = {1, nx, nx * ny};
	int64_t low, high;
	slices_range(what, &l, &low, &high);
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
		.volume = what->volume + (low - box->low[l.s]) * stride[l.s],
		.projections = what->projections + (l.first + l.sign * low) * model->columns};
	int taps = hat_taps(l.reach);
	if (what->direction == FORWARD)
		few_forward_start(device_of(backend), what, &l, &s, taps);
	else
		TRY(run_back(backend, what, &l, &s, taps, epilogue));
	CUDA_LAUNCHED("projecting a few views");
	return TOMOS_OK;
}

extern const CudaKernel cuda_slices_forward_few, cuda_slices_back_few;
const CudaKernel cuda_slices_forward_few = {few_applies, few_run};
const CudaKernel cuda_slices_back_few = {few_applies, few_run, few_fuses};
