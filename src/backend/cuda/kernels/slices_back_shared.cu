/* Host side of slices_back_shared.h: conditions, scratch memory and launches. */
#include "backend/cuda/kernels/slices_back_shared.h"

enum { QUAD = 4, LEAST_SLICES = 16 };

/* Whether, in every view, a square of 2 x 2 pixels meets at most four columns, and two
 * neighbouring pixels are at most one column apart. */
static bool is_shallow(const ProjectRequest *what, const HatSlices *l)
{
	for (int64_t i = 0; i < what->count; i++) {
		const double *column = what->plan->views[what->first + i].column;
		double a = fabs(column[l->a]), b = fabs(column[l->b]);
		if (!(a + b <= ROWS_SLOPE && fmax(a, b) <= 1 + 1e-6))
			return false;
	}
	return true;
}

bool rows_fit(const ProjectRequest *what, HatSlices *l, int bytes)
{
	return !what->plan->model.planar && cuda_has_shared(bytes) && hat_slices(what, l) &&
	       l->reach <= 1 && is_shallow(what, l);
}

tomos_status rows_fill(tomos_backend *backend, const ProjectRequest *what, const HatSlices *l,
	const HatView *views, int64_t slice, int64_t slices, int group, Rows *s, Transposed *x)
{
	float *from;
	int64_t columns = what->plan->model.columns;
	int64_t lines = what->count * (columns + 2 * ROWS_MARGIN);
	*x = transposed_volume(what, l, slice, slices, QUAD);
	TRY(cuda_scratch(
		backend, SCRATCH_REORDERED, x->pitch * x->nj * x->nk, &x->inside, "slices"));
	TRY(cuda_scratch(backend, SCRATCH_ROWS, x->pitch * lines, &from, "rows of slices"));
	for (int64_t at = 0; at < slices; at += group) {
		Transposed y =
			transposed_views(what, l, slice + at, min64(group, slices - at), QUAD);
		y.inside = from + at * lines;
		y.weights = views;
		y.margin = ROWS_MARGIN;
		TRY(transpose_in(backend, &y));
	}
	*s = Rows{.views = views,
		.count = (int)what->count,
		.columns = columns,
		.na = (int)x->nj,
		.nb = (int)x->nk,
		.low_a = what->box.low[l->a],
		.low_b = what->box.low[l->b],
		.quads = (int)(x->pitch / QUAD),
		.from = (const float4 *)from,
		.to = (float4 *)x->inside};
	return TOMOS_OK;
}

template <int QUADS, bool NARROW>
static __global__ void __launch_bounds__(ROWS_THREADS, QUADS == 4 ? 1 : 2)
	rows_back(const __grid_constant__ Rows s)
{
	extern __shared__ float4 memory[];
	rows_sum<QUADS, NARROW>(
		&s, memory, blockIdx.x * ROWS_SIDE, blockIdx.y * ROWS_SIDE, blockIdx.z);
}

template <int QUADS>
static tomos_status run_slices(tomos_backend *backend, const ProjectRequest *what,
	const HatSlices *l, const HatView *views, int64_t slice, int64_t slices,
	const CudaEpilogue *epilogue)
{
	typedef RowsLayout<QUADS> L;
	Rows s;
	Transposed x;
	TRY(rows_fill(backend, what, l, views, slice, slices, L::SLICES, &s, &x));
	bool narrow = what->kernel != KERNEL_voxel || what->plan->every > 1;
	auto kernel = narrow ? rows_back<QUADS, true> : rows_back<QUADS, false>;
	CUDA_TRY(cudaFuncSetAttribute((const void *)kernel,
			 cudaFuncAttributeMaxDynamicSharedMemorySize, L::BYTES),
		"asking for shared memory");
	dim3 blocks(cuda_blocks(s.na, ROWS_SIDE, 1 << 30), cuda_blocks(s.nb, ROWS_SIDE, 65535),
		cuda_blocks(s.quads, L::LINE, 65535));
	kernel<<<blocks, ROWS_THREADS, L::BYTES, device_of(backend)->stream>>>(s);
	CUDA_LAUNCHED("projecting slices");
	return transpose_out(backend, &x, epilogue);
}

/* Chooses the largest number of slices per block (32, 64 or 128) that leaves the fewest slices
 * of a block unused. */
static tomos_status run_fitting(tomos_backend *backend, const ProjectRequest *what,
	const HatSlices *l, const HatView *views, int64_t slice, int64_t slices,
	const CudaEpilogue *epilogue)
{
	int quarters = (int)((slices + 31) / 32);
	bool all = quarters == 4 && cuda_has_shared(RowsLayout<4>::BYTES);
	return (all ? run_slices<4>
		: quarters % 2 == 0
			? run_slices<2>
			: run_slices<1>)(backend, what, l, views, slice, slices, epilogue);
}

/* QUADS: see RowsLayout; 0: chosen by the number of slices. */
template <int QUADS>
static tomos_status rows_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	return slices_each(backend, what, notes, epilogue,
		SlicesScratch{RowsLayout<1>::SLICES, 1, 1, ROWS_MARGIN},
		QUADS == 0                ? run_fitting
		: run_slices < QUADS == 0 ? 1
					  : QUADS >);
}

template <int QUADS> static bool named_applies(const ProjectRequest *what, CudaNotes *notes)
{
	return rows_fit(what, notes_of<HatSlices>(notes), RowsLayout<QUADS>::BYTES);
}

/* At least half of the 32 slices of the smallest block must be used. */
static bool rows_applies(const ProjectRequest *what, CudaNotes *notes)
{
	int64_t low, high;
	if (!named_applies<1>(what, notes))
		return false;
	slices_range(what, notes_of<HatSlices>(notes), &low, &high);
	return high - low >= LEAST_SLICES;
}

#define ROW(id, applies, quads) \
	extern const CudaKernel cuda_##id; \
	const CudaKernel cuda_##id = { \
		applies, rows_run<quads>, transpose_fuses, transpose_overwrites};
ROW(slices_back_shared, rows_applies, 0)
ROW(slices_back_shared_32, named_applies<1>, 1)
ROW(slices_back_shared_64, named_applies<2>, 2)
ROW(slices_back_shared_128, named_applies<4>, 4)
