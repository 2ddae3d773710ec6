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

void opencl_release(tomos_backend *b, float *data);

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

extern const BackendProjector opencl_projector;
extern const BackendVector opencl_vector;
extern const BackendMatrix opencl_matrix;
extern const BackendFilter opencl_filter;
extern const BackendMemory opencl_memory;
tomos_status opencl_fill(tomos_backend *b, int64_t n, float value, float *x);

#endif
