/* Phase retrieval (prep/phase.c has the paper): frames padded with their edge values, transformed
 * by cuFFT in batches, damped, and transformed back. */
#include "backend/cuda/prep.h"

static tomos_status fft_failed(cufftResult result, const PrepFrame *frame)
{
	return fail(result == CUFFT_ALLOC_FAILED ? TOMOS_NO_MEMORY : TOMOS_NO_DEVICE,
		"the GPU failed at transforms of %lld x %lld (cuFFT code %d)",
		(long long)frame->rows, (long long)frame->columns, (int)result);
}

#define FFT_TRY(call) TRY_CODE(cufftResult, CUFFT_SUCCESS, call, fft_failed, &w->frame)

typedef struct {
	PrepFrame size;
	int64_t stride; /* floats of a padded row */
	float *frames;
	int64_t first, count; /* views of this batch */
	float floor;
	double strength;
} Retrieval;

static __global__ void pad_kernel(const Retrieval p, const PrepData d)
{
	int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	int64_t column = min(max(c - p.size.before[1], (int64_t)0), d.columns - 1);
	if (c >= p.size.columns)
		return;
	for (int64_t v = blockIdx.z; v < p.count; v += gridDim.z)
		for (int64_t r = blockIdx.y; r < p.size.rows; r += gridDim.y) {
			int64_t row = min(max(r - p.size.before[0], (int64_t)0), d.rows - 1);
			float value = d.data[((p.first + v) * d.rows + row) * d.columns + column];
			p.frames[(v * p.size.rows + r) * p.stride + c] = expf(-value);
		}
}

static __device__ float wave(int64_t k, int64_t count)
{
	return (float)(2 * M_PI * (double)min(k, count - k) / (double)count);
}

static __global__ void damp_kernel(const Retrieval p)
{
	int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	float share = (float)(1 / ((double)p.size.rows * (double)p.size.columns));
	if (c >= p.stride / 2)
		return;
	float x = wave(c, p.size.columns), strength = (float)p.strength;
	for (int64_t r = blockIdx.y; r < p.size.rows; r += gridDim.y) {
		float y = wave(r, p.size.rows);
		float h = share / (1 + strength * (x * x + y * y));
		for (int64_t v = blockIdx.z; v < p.count; v += gridDim.z) {
			float2 *at =
				(float2 *)p.frames + (v * p.size.rows + r) * (p.stride / 2) + c;
			*at = make_float2(at->x * h, at->y * h);
		}
	}
}

static __global__ void log_kernel(const Retrieval p, const PrepData d)
{
	int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (c >= d.columns)
		return;
	for (int64_t v = blockIdx.z; v < p.count; v += gridDim.z)
		for (int64_t r = blockIdx.y; r < d.rows; r += gridDim.y) {
			int64_t row = v * p.size.rows + r + p.size.before[0];
			float value = p.frames[row * p.stride + c + p.size.before[1]];
			d.data[((p.first + v) * d.rows + r) * d.columns + c] =
				-logf(fmaxf(value, p.floor));
		}
}

/* ---- plans ----------------------------------------------------------------------------------- */

static int64_t frame_floats(const PrepFrame *f)
{
	return f->rows * 2 * (f->columns / 2 + 1);
}

static int64_t phase_floats(const PrepWork *w, const PrepData *d)
{
	PrepFrame frame;
	if (prep_phase_frame(&frame, w->spec.phase_strength, d->rows, d->columns) != TOMOS_OK)
		return 0;
	return frame_floats(&frame) * prep_batch(frame_floats(&frame), d->views);
}

static void plans_free(CudaPrep *w)
{
	if (w->has_forth)
		cufftDestroy(w->forth);
	if (w->has_back)
		cufftDestroy(w->back);
	w->has_forth = w->has_back = false;
	w->frames = 0;
}

/* Without an area of its own: both plans use the same. */
static tomos_status plan_make(
	CudaPrep *w, cufftHandle *plan, bool *has, cufftType type, size_t *area)
{
	int n[2] = {(int)w->frame.rows, (int)w->frame.columns}, half = n[1] / 2 + 1;
	int real[2] = {n[0], 2 * half}, complex[2] = {n[0], half};
	bool forth = type == CUFFT_R2C;
	FFT_TRY(cufftCreate(plan));
	*has = true;
	FFT_TRY(cufftSetAutoAllocation(*plan, 0));
	FFT_TRY(cufftMakePlanMany(*plan, 2, n, forth ? real : complex, 1,
		n[0] * (forth ? 2 * half : half), forth ? complex : real, 1,
		n[0] * (forth ? half : 2 * half), type, (int)w->frames, area));
	return TOMOS_OK;
}

static tomos_status plans_make(tomos_backend *b, CudaPrep *w, const PrepFrame *frame, int64_t count)
{
	size_t areas[2] = {0, 0};
	if (w->frames == count && memcmp(&w->frame, frame, sizeof *frame) == 0)
		return TOMOS_OK;
	plans_free(w);
	w->frame = *frame;
	w->frames = count;
	tomos_status status = plan_make(w, &w->forth, &w->has_forth, CUFFT_R2C, &areas[0]);
	if (status == TOMOS_OK)
		status = plan_make(w, &w->back, &w->has_back, CUFFT_C2R, &areas[1]);
	cudaFree(w->area); /* waits for transforms that still use it */
	w->area = NULL;
	int64_t most = max64((int64_t)areas[0], (int64_t)areas[1]);
	if (status == TOMOS_OK)
		status = b->type->memory->alloc(
			b, (float **)&w->area, (most + 3) / 4, "phase retrieval");
	if (status != TOMOS_OK) {
		plans_free(w);
		return status;
	}
	FFT_TRY(cufftSetWorkArea(w->forth, w->area));
	FFT_TRY(cufftSetWorkArea(w->back, w->area));
	return TOMOS_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

static tomos_status run_batch(tomos_backend *b, CudaPrep *w, const Retrieval *p, PrepData *d)
{
	cudaStream_t stream = device_of(b)->stream;
	const PrepFrame *f = &p->size;
	pad_kernel<<<prep_grid(f->columns, f->rows, p->count), PREP_THREADS, 0, stream>>>(*p, *d);
	FFT_TRY(cufftSetStream(w->forth, stream));
	FFT_TRY(cufftSetStream(w->back, stream));
	FFT_TRY(cufftExecR2C(w->forth, p->frames, (cufftComplex *)p->frames));
	damp_kernel<<<prep_grid(p->stride / 2, f->rows, p->count), PREP_THREADS, 0, stream>>>(*p);
	FFT_TRY(cufftExecC2R(w->back, (cufftComplex *)p->frames, p->frames));
	log_kernel<<<prep_grid(d->columns, d->rows, p->count), PREP_THREADS, 0, stream>>>(*p, *d);
	CUDA_LAUNCHED("phase retrieval");
	return TOMOS_OK;
}

static tomos_status phase_run(tomos_backend *b, PrepWork *work, PrepData *d, float *scratch)
{
	CudaPrep *w = (CudaPrep *)work;
	const PrepSpec *s = &work->spec;
	PrepFrame frame;
	TRY(prep_phase_frame(&frame, s->phase_strength, d->rows, d->columns));
	int64_t batch = prep_batch(frame_floats(&frame), d->views);
	TRY(plans_make(b, w, &frame, batch));
	/* Transforms read the padding between rows, even if it is unused. */
	TRY(b->type->vector->fill(b, frame_floats(&frame) * batch, 0, scratch));
	Retrieval p = {.size = frame,
		.stride = 2 * (frame.columns / 2 + 1),
		.frames = scratch,
		.floor = s->floor,
		.strength = s->phase_strength};
	for (p.first = 0; p.first < d->views; p.first += batch) {
		p.count = min64(batch, d->views - p.first);
		TRY(run_batch(b, w, &p, d));
	}
	return TOMOS_OK;
}

const PrepStep cuda_prep_phase = {phase_floats, phase_run};
