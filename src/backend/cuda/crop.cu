/* A part of the detector instead of all of it; see crop.h. Kernels read or write every pixel, which
 * takes longer than the voxels of a small volume. */
#include "backend/cuda/crop.h"

extern "C" {
#include "backend/device/hat.h"
#include "backend/device/window_plan.h"
}

enum { WIDE = 128 };

void cuda_crop_free(CudaCrop *crop)
{
	slices_plan_free(crop->part);
	(void)cudaFree(crop->corners);
	*crop = CudaCrop{};
}

static tomos_status make_crop(tomos_backend *backend, const Plan *plan, CudaCrop *crop)
{
	int *corners;
	tomos_status status = TOMOS_OK;
	TRY(window_plan(&crop->part, plan, &corners));
	if (crop->part) {
		const size_t bytes = (size_t)plan->scan->count * sizeof *crop->corners;
		device_of(backend)->counts.allocations++;
		cudaError_t error = cudaMalloc((void **)&crop->corners, bytes);
		if (error == cudaSuccess)
			error = cudaMemcpyAsync(crop->corners, corners, bytes,
				cudaMemcpyHostToDevice, device_of(backend)->stream);
		status = error == cudaSuccess ? TOMOS_OK : cuda_failed(error, "the views");
	}
	mem_free(corners);
	if (status != TOMOS_OK)
		cuda_crop_free(crop);
	crop->known = status == TOMOS_OK;
	return status;
}

tomos_status cuda_crop(tomos_backend *backend, const ProjectRequest *what, ProjectRequest *inner,
	const CudaCrop **crop)
{
	const CudaPlan *kept;
	*inner = *what;
	*crop = NULL;
	if (what->plan->plain)
		return TOMOS_OK;
	TRY(cuda_plan(backend, what->plan, &kept));
	CudaCrop *own = cuda_crop_of(kept);
	if (!own->known)
		TRY(make_crop(backend, what->plan, own));
	if (!own->part)
		return TOMOS_OK;
	const KernelModel *model = &own->part->model;
	const int64_t pixels = what->count * model->rows * model->columns;
	if (pixels > device_of(backend)->scratch_most)
		return TOMOS_OK;
	inner->plan = own->part;
	*crop = own;
	return cuda_scratch(
		backend, SCRATCH_WINDOWS, pixels, &inner->projections, "a part of the projections");
}

/* Pixels of windows in an array of views, and the same in an array of their own. */
typedef struct {
	const int2 *corners;
	float *all, *part;
	int64_t views, rows, columns, pitch, view; /* pitch, view: strides of `all` */
} Move;

/* Copies windows, or adds to them. */
template <bool IN> static __global__ void move_window(const __grid_constant__ Move m)
{
	const int64_t column = (int64_t)blockIdx.x * WIDE + threadIdx.x, row = blockIdx.y;
	for (int64_t view = blockIdx.z; column < m.columns && view < m.views; view += gridDim.z) {
		const int2 corner = m.corners[view];
		float *all = m.all + view * m.view + (corner.y + row) * m.pitch + corner.x + column,
		      *part = m.part + (view * m.rows + row) * m.columns + column;
		if (IN)
			*part = *all;
		else
			*all += *part;
	}
}

static tomos_status move(tomos_backend *backend, const ProjectRequest *what,
	const ProjectRequest *inner, const CudaCrop *crop, bool in)
{
	const KernelModel *all = &what->plan->model, *part = &inner->plan->model;
	const Move m = {.corners = crop->corners + what->first,
		.all = what->projections,
		.part = inner->projections,
		.views = what->count,
		.rows = part->rows,
		.columns = part->columns,
		.pitch = all->columns,
		.view = all->rows * all->columns};
	const dim3 blocks(cuda_blocks(m.columns, WIDE, 1 << 30), (unsigned)m.rows,
		cuda_blocks(m.views, 1, 65535));
	(in ? move_window<true>
	    : move_window<false>)<<<blocks, WIDE, 0, device_of(backend)->stream>>>(m);
	CUDA_LAUNCHED("copying a part of the projections");
	return TOMOS_OK;
}

tomos_status cuda_crop_begin(tomos_backend *backend, const ProjectRequest *what,
	const ProjectRequest *inner, const CudaCrop *crop)
{
	const KernelModel *model = &inner->plan->model;
	if (what->direction != FORWARD)
		return move(backend, what, inner, crop, true);
	CUDA_TRY(cudaMemsetAsync(inner->projections, 0,
			 (size_t)(inner->count * model->rows * model->columns) * sizeof(float),
			 device_of(backend)->stream),
		"projecting");
	return TOMOS_OK;
}

tomos_status cuda_crop_end(tomos_backend *backend, const ProjectRequest *what,
	const ProjectRequest *inner, const CudaCrop *crop)
{
	return what->direction == FORWARD ? move(backend, what, inner, crop, false) : TOMOS_OK;
}
