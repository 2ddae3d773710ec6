/* Derivatives with respect to poses (kernel/pose.h): one thread per ray. */
#include "backend/cuda/cuda.h"
#include "kernel/pose.h"

enum { WIDE = 32, HIGH = 4, MOST = 65535 };

typedef struct {
	KernelGrid grid;
	KernelSpace space;
	KernelModel model;
	const KernelView *views; /* views of the request */
	int64_t count;
	const float *volume;
	float *derivative;
} PoseRequest;

static __device__ void pose_pixel(const PoseRequest &s, int64_t view, int64_t r, int64_t c)
{
	int64_t pixels = s.model.rows * s.model.columns;
	float *image = s.derivative + view * POSE_NUMBERS * pixels + r * s.model.columns + c;
	double found[POSE_NUMBERS];
	KernelRay ray = kernel_ray(&s.grid, &s.views[view], r, c);
	pose_ray(&s.grid, &s.space, &s.model, &ray, s.volume, found);
	for (int n = 0; n < POSE_NUMBERS; n++)
		image[n * pixels] = (float)found[n];
}

static __global__ void __launch_bounds__(WIDE *HIGH)
	pose_kernel(const __grid_constant__ PoseRequest s)
{
	int64_t c = (int64_t)blockIdx.x * WIDE + threadIdx.x;
	for (int64_t view = blockIdx.z; c < s.model.columns && view < s.count; view += gridDim.z)
		for (int64_t r = (int64_t)blockIdx.y * HIGH + threadIdx.y; r < s.model.rows;
			r += (int64_t)gridDim.y * HIGH)
			pose_pixel(s, view, r, c);
}

static tomos_status run_pose(tomos_backend *backend, const ProjectRequest *what)
{
	const CudaPlan *kept;
	TRY(cuda_plan(backend, what->plan, &kept));
	PoseRequest s = {.grid = request_grid(what),
		.model = what->plan->model,
		.views = kept->views + what->first,
		.count = what->count,
		.volume = what->volume,
		.derivative = what->projections};
	memcpy(s.space.first, what->plan->grid.first, sizeof s.space.first);
	memcpy(s.space.step, what->plan->grid.step, sizeof s.space.step);
	dim3 blocks(cuda_blocks(s.model.columns, WIDE, INT32_MAX),
		cuda_blocks(s.model.rows, HIGH, MOST), cuda_blocks(s.count, 1, MOST));
	pose_kernel<<<blocks, dim3(WIDE, HIGH), 0, device_of(backend)->stream>>>(s);
	CUDA_LAUNCHED("computing derivatives of poses");
	return TOMOS_OK;
}

tomos_status cuda_pose(tomos_backend *backend, const ProjectRequest *what)
{
	CudaDevice *d = device_of(backend);
	TRY(cuda_use(backend));
	pthread_mutex_lock(&d->lock);
	tomos_status status = run_pose(backend, what);
	pthread_mutex_unlock(&d->lock);
	return status;
}
