/* The OpenCL backend: one device, one queue in which everything happens in order.
 *
 * Memory of a device has no addresses here, only handles. Vectors have addresses all the same, of memory
 * that is reserved and never touched, so that offsets are added to them as everywhere else; what they
 * stand for is looked up when they are used.
 */
#ifndef TOMOS_BACKEND_OPENCL_OPENCL_H
#define TOMOS_BACKEND_OPENCL_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <pthread.h>
#include "backend/backend.h"

/* Items per work-group, in a line or in a plane, as device.cl has them; groups of a sum. */
enum { GROUP = 128, WIDE = 32, HIGH = 4, SUM_GROUPS = 256 };
enum { STAGE_FLOATS = 4 << 20 };
enum { FIRST_DEVICE = 1001 }; /* as arrays on them are numbered; those below are CUDA's */

enum {
	PROGRAM_vector,
	PROGRAM_project,
	PROGRAM_power,
	PROGRAM_matrix,
	PROGRAM_filter,
	PROGRAM_slices,
	PROGRAM_COUNT
};

#define TASK(program, name) TASK_##program##_##name,
enum {
#include "backend/opencl/tasks.def"
	TASK_COUNT
};
#undef TASK

/* A piece of the device's memory and the addresses that stand for it. */
typedef struct {
	const char *start;
	size_t bytes;
	cl_mem memory;
} OpenclBlock;

typedef struct {
	cl_device_id id;
	cl_context context;
	cl_command_queue queue;
	int64_t most, all, held; /* bytes: in one piece, in all, in use */
	OpenclBlock *blocks;     /* in the order of their addresses */
	int64_t count, room;
	cl_program programs[PROGRAM_COUNT]; /* made when first used */
	cl_kernel kernels[TASK_COUNT];
	cl_mem partial;        /* sums of groups */
	float *stage;          /* between callers' scattered arrays and the device */
	pthread_mutex_t lock;  /* of all of this; calls hold it as briefly as they can */
	pthread_mutex_t plans; /* of what plans keep */
	BackendCounts counts;
} OpenclDevice;

static inline OpenclDevice *device_of(const tomos_backend *backend)
{
	return backend->own;
}

/* A failed call as a status and a sentence. */
tomos_status opencl_failed(cl_int code, const char *doing);

#define OPENCL_TRY(call, doing) \
	do { \
		cl_int opencl_try = (call); \
		if (opencl_try != CL_SUCCESS) \
			return opencl_failed(opencl_try, doing); \
	} while (0)

/* Device `number` of all platforms, graphics cards first. */
tomos_status opencl_find(int64_t number, cl_device_id *id);

/* Where a vector lies: floats from the start of a buffer. NULL lies in no buffer. */
typedef struct {
	cl_mem memory;
	int64_t at;
} OpenclPlace;

tomos_status opencl_place(tomos_backend *backend, const float *data, OpenclPlace *place);
/* Memory without an address. */
tomos_status opencl_buffer(OpenclDevice *d, size_t bytes, cl_mem *memory, const char *what);
void opencl_buffer_release(OpenclDevice *d, cl_mem memory);
/* From the host's memory to a vector's, whatever it holds. */
tomos_status opencl_send(tomos_backend *backend, float *there, const void *here, size_t bytes);

tomos_status opencl_alloc(tomos_backend *b, float **data, int64_t count, const char *what);
void opencl_release(tomos_backend *b, float *data);
tomos_status opencl_upload(tomos_backend *b, float *data, const tomos_array *host);
tomos_status opencl_download(tomos_backend *b, const float *data, const tomos_array *host);
float *opencl_direct_pointer(tomos_backend *b, const tomos_array *array);
tomos_status opencl_sync(tomos_backend *b);
tomos_status opencl_free_bytes(tomos_backend *b, int64_t *bytes);

/* Arguments of a task, in its order. */
typedef struct {
	size_t size;
	const void *value;
} OpenclArg;

#define ARG(variable) \
	{ \
		sizeof(variable), &(variable) \
	}
#define ARG_PLACE(place) ARG((place).memory), ARG((place).at)

/* Runs a task on n elements in a line, or on n[0] x n[1] x n[2] in planes. */
tomos_status opencl_line(
	tomos_backend *backend, int task, int64_t n, const OpenclArg *args, int count);
tomos_status opencl_planes(
	tomos_backend *backend, int task, const int64_t n[3], const OpenclArg *args, int count);
/* The same with a fixed number of groups, whose results are read from d->partial. */
tomos_status opencl_sums(tomos_backend *backend, int task, const OpenclArg *args, int count,
	double partial[SUM_GROUPS]);

tomos_status opencl_project(tomos_backend *backend, const ProjectRequest *what);
tomos_status opencl_power(tomos_backend *backend, const ProjectRequest *what, int power);
tomos_status opencl_csr_apply(tomos_backend *backend, const KernelCsr *m, Direction direction,
	int power, const float *in, float *out);
tomos_status opencl_scsr_apply(tomos_backend *backend, const KernelScsr *m, Direction direction,
	int power, const float *in, float *out);
tomos_status opencl_list_rows(
	tomos_backend *backend, const Plan *plan, int kernel, const KernelBatch *batch);
tomos_status opencl_csr_list_rows(
	tomos_backend *backend, const KernelCsr *m, const KernelBatch *batch);
tomos_status opencl_scsr_list_rows(
	tomos_backend *backend, const KernelScsr *m, const KernelBatch *batch);
tomos_status opencl_weight_rows(
	tomos_backend *backend, const KernelBatch *batch, const float *rays, const float *voxels);
tomos_status opencl_kaczmarz_view(tomos_backend *backend, const KernelKaczmarzView *what);
tomos_status opencl_kaczmarz_rows(
	tomos_backend *backend, const KernelBatch *batch, const KernelKaczmarz *visits);
tomos_status opencl_filter_open(tomos_backend *backend, Filter **filter, const FilterSpec *spec);
void opencl_filter_close(tomos_backend *backend, Filter *filter);
tomos_status opencl_filter(tomos_backend *backend, const Filter *filter, int64_t count,
	int64_t rows, const FilterView *views, const float *in, float *out);

/* The vector operations of BackendType. */
tomos_status opencl_fill(tomos_backend *b, int64_t n, float value, float *x);
tomos_status opencl_axpy(tomos_backend *b, int64_t n, float a, const float *x, float *y);
tomos_status opencl_xpay(tomos_backend *b, int64_t n, const float *x, float a, float *y);
tomos_status opencl_mul(tomos_backend *b, int64_t n, const float *w, float *y);
tomos_status opencl_mul_axpy(
	tomos_backend *b, int64_t n, float a, const float *w, const float *x, float *y);
tomos_status opencl_invert(tomos_backend *b, int64_t n, float least, float *x);
tomos_status opencl_clamp(tomos_backend *b, int64_t n, float low, float high, float *x);
tomos_status opencl_dot(
	tomos_backend *b, int64_t n, const float *x, const float *y, double *result);
tomos_status opencl_copy(tomos_backend *b, int64_t n, const float *x, float *y);
tomos_status opencl_scale(tomos_backend *b, int64_t n, float a, float *y);
tomos_status opencl_sqrt(tomos_backend *b, int64_t n, float *y);
tomos_status opencl_indicator(tomos_backend *b, int64_t n, float *y);
tomos_status opencl_ratio(tomos_backend *b, int64_t n, const float *x, float least, float *y);
tomos_status opencl_soft_threshold(tomos_backend *b, int64_t n, float a, float *y);
tomos_status opencl_axpy_clamp(tomos_backend *b, int64_t n, float a, const float *w, const float *x,
	float low, float high, float *y);
tomos_status opencl_distance(
	tomos_backend *b, int64_t n, const float *x, const float *y, double *result);
tomos_status opencl_max_abs(tomos_backend *b, int64_t n, const float *x, double *result);
tomos_status opencl_clip_norm(tomos_backend *b, int64_t n, int parts, float longest, float *y);
tomos_status opencl_normalise(tomos_backend *b, int64_t n, int parts, float least, float *y);
tomos_status opencl_gradient(
	tomos_backend *b, const int64_t shape[3], const float *x, float *field);
tomos_status opencl_gradient_adjoint(
	tomos_backend *b, const int64_t shape[3], const float *field, float *x);

#endif
