/* Host side common to the tensor core kernels; see tensor.h. */
#include <cudaTypedefs.h>
#include "backend/cuda/kernels/tensor.h"

enum {
	PASS = 2048, /* views per pass: tensor cores truncate sums instead of rounding */
	MANY = 256   /* views over which the rounding of weights averages out */
};

/* ---- what the GPU can do --------------------------------------------------------------------- */

/* Driver function that describes arrays to the bulk copy engine (TMA); NULL: not available. */
static PFN_cuTensorMapEncodeTiled_v12000 find_encode(void)
{
	void *found = NULL;
	cudaDriverEntryPointQueryResult result;
	if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
		    cudaEnableDefault, &result) != cudaSuccess ||
		result != cudaDriverEntryPointSuccess) {
		cudaGetLastError();
		return NULL;
	}
	return (PFN_cuTensorMapEncodeTiled_v12000)found;
}

bool tensor_describes(void)
{
	return find_encode() != NULL;
}

bool tensor_describe(void *map, const void *data, const int64_t size[3], const int box[3])
{
	PFN_cuTensorMapEncodeTiled_v12000 encode = find_encode();
	cuuint64_t sizes[3], strides[2];
	cuuint32_t boxes[3];
	const cuuint32_t every[3] = {1, 1, 1};
	for (int i = 0; i < 3; i++) {
		sizes[i] = (cuuint64_t)size[i];
		boxes[i] = (cuuint32_t)box[i];
	}
	strides[0] = sizes[0] * sizeof(__half);
	strides[1] = sizes[1] * strides[0];
	return encode &&
	       encode((CUtensorMap *)map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, (void *)data, sizes,
		       strides, boxes, every, CU_TENSOR_MAP_INTERLEAVE_NONE,
		       CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
		       CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

/* ---- what is asked --------------------------------------------------------------------------- */

int tensor_parts(const Plan *plan)
{
	return plan->data == DATA_HALF ? 1 : 2;
}

static int weight_parts(const Plan *plan)
{
	return tensor_parts(plan) == 2 || plan->scan->count < MANY ? 2 : 1;
}

bool tensor_slices(const ProjectRequest *what, HatSlices *slices)
{
	const Plan *plan = what->plan;
	int64_t low, high;
	if (plan->model.planar || plan->model.columns > INT32_MAX / 2 / CHUNK ||
		!(what->direction == FORWARD ? hat_find : hat_slices)(what, slices))
		return false;
	slices_range(what, slices, &low, &high);
	return high - low >= TENSOR_LEAST_SLICES;
}

double tensor_span(const ProjectRequest *what, const HatSlices *l, int side_a, int side_b)
{
	double most = 0;
	for (int64_t i = 0; i < what->count; i++) {
		const double *column = what->plan->views[what->first + i].column;
		most = fmax(most,
			(side_a - 1) * fabs(column[l->a]) + (side_b - 1) * fabs(column[l->b]));
	}
	return most + 2 * fmax(l->width, 1);
}

/* ---- back projections ------------------------------------------------------------------------ */

/* Back projects some of the views into some of the slices. x, y: the volume and the projections
 * to transpose. */
static tomos_status run_views(tomos_backend *backend, const ProjectRequest *what,
	const HatSlices *l, TensorScale scale, Transposed x, Transposed y,
	const CudaEpilogue *epilogue, TensorLaunch launch)
{
	const int parts = scale.parts;
	float *head;
	TRY(cuda_scratch(backend, SCRATCH_REORDERED, x.pitch * x.nj * x.nk, &x.inside, "slices"));
	TRY(cuda_scratch(backend, SCRATCH_ROWS, TENSOR_HEAD + parts * y.nk * y.nj * y.pitch / 2,
		&head, "rows of slices"));
	Halves to = {.data = (uint4 *)(head + TENSOR_HEAD),
		.parts = parts,
		.views = scale.views,
		.rays = scale.rays,
		.largest = (unsigned *)head};
	TensorBack request = {.views = scale.views,
		.count = (int)y.nk,
		.columns = (int)y.nj,
		.na = (int)x.nj,
		.nb = (int)x.nk,
		.low_a = what->box.low[l->a],
		.low_b = what->box.low[l->b],
		.pitch = (int)x.pitch,
		.parts = parts,
		.fine = weight_parts(what->plan),
		.data = to.data,
		.to = x.inside};
	TRY(transpose_in_rows(backend, &y, &to, HalfRows{y.nj, y.nk, y.pitch / CHUNK}));
	TRY(launch(backend, what, l, &request));
	x.largest = to.largest;
	return transpose_out(backend, &x, epilogue);
}

CudaFusion tensor_fuses(const tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const FusedUpdate *step)
{
	return what->count <= PASS ? transpose_fuses(backend, what, notes, step) : FUSES_NOT;
}

tomos_status tensor_back_slices(tomos_backend *backend, const ProjectRequest *what,
	const HatSlices *l, TensorScale scale, int64_t slice, int64_t slices,
	const CudaEpilogue *epilogue, TensorLaunch launch)
{
	static const CudaEpilogue accumulate = {.kind = EPILOGUE_ACCUMULATE};
	Transposed x = transposed_volume(what, l, slice, slices, CHUNK);
	int64_t view = transposed_views(what, l, slice, slices, CHUNK).sk;
	for (int64_t first = 0; first < what->count; first += PASS) {
		ProjectRequest pass = *what;
		pass.first += first;
		pass.count = min64(PASS, what->count - first);
		pass.projections += first * view;
		Transposed y = transposed_views(&pass, l, slice, slices, CHUNK);
		TRY(run_views(backend, &pass, l, scale, x, y, first == 0 ? epilogue : &accumulate,
			launch));
		scale.views += scale.views ? pass.count : 0;
		scale.rays += scale.rays ? pass.count * y.nj : 0;
	}
	return TOMOS_OK;
}

tomos_status tensor_back_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue, TensorLaunch launch)
{
	auto run_part = [launch](tomos_backend *b, const ProjectRequest *w, const HatSlices *l,
				const HatView *views, int64_t slice, int64_t slices,
				const CudaEpilogue *end) {
		return tensor_back_slices(b, w, l, TensorScale{tensor_parts(w->plan), views, NULL},
			slice, slices, end, launch);
	};
	return slices_each(backend, what, notes, epilogue, SlicesScratch{CHUNK, 1, 1, 0}, run_part);
}
