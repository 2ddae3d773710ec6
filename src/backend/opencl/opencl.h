/* OpenCL backend: one device with one in-order queue.
 *
 * OpenCL memory has handles, not addresses. Vectors have addresses nevertheless, in reserved memory
 * that is never accessed, so that offsets can be added to them as in other backends; the buffer of
 * an address is looked up when it is used.
 */
#ifndef TOMOS_BACKEND_OPENCL_OPENCL_H
#define TOMOS_BACKEND_OPENCL_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <pthread.h>
#include "backend/backend.h"

/* Work-items per work-group, linear or planar, as in device.cl; groups of a reduction. */
enum { GROUP = 128, WIDE = 32, HIGH = 4, SUM_GROUPS = 256 };
enum { STAGE_FLOATS = 4 << 20 };
enum { FIRST_DEVICE = 1001 }; /* device numbers of arrays; smaller ones are CUDA's */

enum {
	PROGRAM_vector,
	PROGRAM_project,
	PROGRAM_power,
	PROGRAM_matrix,
	PROGRAM_filter,
	PROGRAM_slices,
	PROGRAM_prep,
	PROGRAM_rings,
	PROGRAM_waves,
	PROGRAM_fourier,
	PROGRAM_COUNT
};

#define TASK(program, name) TASK_##program##_##name,
enum {
#include "backend/opencl/tasks.def"
	TASK_COUNT
};
#undef TASK

/* A buffer and its placeholder addresses. */
typedef struct {
	const char *start;
	size_t bytes;
	cl_mem memory;
} OpenclBlock;

typedef struct {
	cl_device_id id;
	cl_context context;
	cl_command_queue queue;
	int64_t most, all, held; /* bytes: per allocation, in total, in use */
	int sharers;             /* processes that use the device; 0: this one alone */
	OpenclBlock *blocks;     /* in the order of their addresses */
	int64_t count, capacity;
	cl_program programs[PROGRAM_COUNT]; /* compiled at first use */
	cl_kernel kernels[TASK_COUNT];
	cl_mem partial;               /* partial sums of work-groups */
	float *stage;                 /* staging buffer for strided arrays */
	pthread_mutex_t lock;         /* protects all of this */
	pthread_mutex_t plans;        /* protects the caches of plans */
	double copied[2][COPY_SLOTS]; /* seconds of the copies in each direction */
	BackendCounts counts;
} OpenclDevice;

static inline OpenclDevice *device_of(const tomos_backend *backend)
{
	return backend->own;
}

/* Status and message of a failed call. */
tomos_status opencl_failed(cl_int code, const char *doing);

#define OPENCL_TRY(call, doing) TRY_CODE(cl_int, CL_SUCCESS, call, opencl_failed, doing)

/* Device `number` of all platforms, GPUs first. */
tomos_status opencl_find(int64_t number, cl_device_id *id);

/* Buffer of a vector and its offset in floats. NULL has no buffer. */
typedef struct {
	cl_mem memory;
	int64_t at;
} OpenclPlace;

tomos_status opencl_place(tomos_backend *backend, const float *data, OpenclPlace *place);
/* A buffer without placeholder addresses. */
tomos_status opencl_buffer(OpenclDevice *d, size_t bytes, cl_mem *memory, const char *what);
void opencl_buffer_release(OpenclDevice *d, cl_mem memory);
/* Copies from the host to a vector. */
tomos_status opencl_send(tomos_backend *backend, float *device, const void *host, size_t bytes);
/* The other direction, after the work queued before. */
tomos_status opencl_receive(tomos_backend *backend, const float *device, void *host, size_t bytes);

void opencl_release(tomos_backend *b, float *data);

/* Argument of a task, in order. */
typedef struct {
	size_t size;
	const void *value;
} OpenclArg;

#define ARG(variable) \
	{ \
		sizeof(variable), &(variable) \
	}
#define ARG_PLACE(place) ARG((place).memory), ARG((place).at)

/* Runs a task on n elements, or on n[0] x n[1] x n[2]. */
tomos_status opencl_line(
	tomos_backend *backend, int task, int64_t n, const OpenclArg *args, int count);
tomos_status opencl_planes(
	tomos_backend *backend, int task, const int64_t n[3], const OpenclArg *args, int count);
/* The same with a fixed number of groups; their results are in d->partial. */
tomos_status opencl_sums(tomos_backend *backend, int task, const OpenclArg *args, int count,
	double partial[SUM_GROUPS]);

extern const BackendProjector opencl_projector;
extern const BackendVector opencl_vector;
extern const BackendMatrix opencl_matrix;
extern const BackendFilter opencl_filter;
extern const BackendFourier opencl_fourier;
extern const BackendMemory opencl_memory;

#endif
