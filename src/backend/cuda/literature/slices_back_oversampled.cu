/* Back projection from detector rows in shared memory that are resampled four times as finely. The
 * nearest sample is taken, so that an update is one addition. Weights are coarse: positions are
 * rounded to a quarter of a column.
 *
 * S. Chilingaryan et al., Reviewing GPU architectures to build efficient back projection for
 * parallel geometries, J. Real-Time Image Process. 17 (2020), section 7.2.
 */
#include "backend/cuda/kernels/slices_back_shared.h"

enum {
	FINE = 4,
	LINES = FINE * ROWS_COLUMNS, /* samples copied for a block, per view */
	SLICES = 4 * ROWS_LANES,
	VIEWS = 4, /* views per stage */
	VIEW = LINES * ROWS_LANES,
	BYTES = 2 * VIEWS * VIEW * (int)sizeof(float4)
};

/* Writes FINE samples of four slices: column `one`, and values interpolated between it and
 * `two`. */
static __device__ void refine(float4 *to, float4 one, float4 two)
{
#pragma unroll
	for (int i = 0; i < FINE; i++) {
		float w = (float)i / FINE;
		to[i * ROWS_LANES] =
			make_float4(fmaf(w, two.x - one.x, one.x), fmaf(w, two.y - one.y, one.y),
				fmaf(w, two.z - one.z, one.z), fmaf(w, two.w - one.w, one.w));
	}
}

static __device__ void bring(
	const Rows *s, float4 *data, RowsView *table, int a0, int b0, int group, int first)
{
	constexpr int EACH = ROWS_THREADS / VIEWS;
	int v = threadIdx.x / EACH, i = threadIdx.x % EACH, view = first + v, quads;
	if (view >= s->count)
		return;
	int64_t column;
	const RowsView seen = rows_view(s, &s->views[view], a0, b0, &column);
	const float4 *from = rows_from(s, view, column, group, ROWS_LANES, &quads);
	if (i == 0)
		table[v] = seen;
	for (; i < ROWS_COLUMNS * ROWS_LANES; i += EACH) {
		int c = i / ROWS_LANES, lane = i % ROWS_LANES;
		if (lane < quads)
			refine(data + v * VIEW + c * FINE * ROWS_LANES + lane,
				__ldg(from + c * quads + lane),
				__ldg(from + (c + 1) * quads + lane));
	}
}

static __device__ __forceinline__ void add_view(
	float4 sums[4][1], const RowsView *table, const float4 *data, float da, float db)
{
	const RowsView v = *table;
	float first = v.e - fminf(0.f, v.ea) - fminf(0.f, v.eb) + ROWS_MIDDLE;
	float e = FINE * fmaf(da, v.ea, fmaf(db, v.eb, first)), ea = FINE * v.ea, eb = FINE * v.eb;
	const float at[4] = {e, e + ea, e + eb, e + ea + eb};
#pragma unroll
	for (int p = 0; p < 4; p++) {
		int line = (int)fminf(fmaxf(at[p] + 0.5f, 0.f), (float)(LINES - 1));
		add_scaled(sums[p][0], 1, data[line * ROWS_LANES]);
	}
}

static __global__ void __launch_bounds__(ROWS_THREADS, 2)
	oversampled_back(const __grid_constant__ Rows s)
{
	extern __shared__ float4 memory[];
	__shared__ RowsView tables[2][VIEWS];
	int a0 = blockIdx.x * ROWS_SIDE, b0 = blockIdx.y * ROWS_SIDE, stage = 0;
	int lane = threadIdx.x % ROWS_LANES, square = threadIdx.x / ROWS_LANES;
	int da = square % (ROWS_SIDE / 2) * 2, db = square / (ROWS_SIDE / 2) * 2;
	float4 sums[4][1] = {};
	bring(&s, memory, tables[0], a0, b0, blockIdx.z, 0);
	for (int first = 0; first < s.count; first += VIEWS, stage ^= 1) {
		__syncthreads();
		bring(&s, memory + (stage ^ 1) * VIEWS * VIEW, tables[stage ^ 1], a0, b0,
			blockIdx.z, first + VIEWS);
		const float4 *data = memory + stage * VIEWS * VIEW + lane;
		int views = min(VIEWS, s.count - first);
		for (int v = 0; v < views; v++, data += VIEW)
			add_view(sums, &tables[stage][v], data, (float)da, (float)db);
	}
	rows_write<1>(&s, sums, a0 + da, b0 + db, blockIdx.z * ROWS_LANES + lane);
}

static bool oversampled_applies(const ProjectRequest *what, CudaNotes *notes)
{
	return rows_fit(what, notes_of<HatSlices>(notes), BYTES);
}

static tomos_status run_slices(tomos_backend *backend, const ProjectRequest *what,
	const HatSlices *l, const HatView *views, int64_t slice, int64_t slices,
	const CudaEpilogue *epilogue)
{
	Rows s;
	Transposed x;
	TRY(rows_fill(backend, what, l, views, slice, slices, SLICES, &s, &x));
	CUDA_TRY(cudaFuncSetAttribute((const void *)oversampled_back,
			 cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES),
		"asking for shared memory");
	dim3 blocks(cuda_blocks(s.na, ROWS_SIDE, 1 << 30), cuda_blocks(s.nb, ROWS_SIDE, 65535),
		cuda_blocks(s.quads, ROWS_LANES, 65535));
	oversampled_back<<<blocks, ROWS_THREADS, BYTES, device_of(backend)->stream>>>(s);
	CUDA_LAUNCHED("projecting slices");
	return transpose_out(backend, &x, epilogue);
}

static tomos_status oversampled_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	return slices_each(backend, what, notes, epilogue, SlicesScratch{SLICES, 1, 1, ROWS_MARGIN},
		run_slices);
}

extern const CudaKernel cuda_slices_back_oversampled;
const CudaKernel cuda_slices_back_oversampled = {oversampled_applies, oversampled_run};
