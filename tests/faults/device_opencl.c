/* The OpenCL calls of the module, each of which can be made to fail. Every line that begins with
 * WRAP names a function that the linker replaces. */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include "device_calls.h"

#define WRAP_CODE(name, list, arguments, made) \
	WRAP_RESULT(cl_int, name, list, arguments, made, CL_SUCCESS, CL_OUT_OF_RESOURCES)
/* Calls that return what they made, with the code in `code`. */
#define WRAP_MADE(type, name, list, arguments) \
	type __real_##name list; \
	type __wrap_##name list; \
	type __wrap_##name list \
	{ \
		if (device_due(#name)) { \
			*code = CL_OUT_OF_HOST_MEMORY; \
			return NULL; \
		} \
		type made = __real_##name arguments; \
		device_count(made != NULL); \
		return made; \
	}

WRAP_CODE(clGetPlatformIDs, (cl_uint n, cl_platform_id *list, cl_uint *count), (n, list, count), 0)
WRAP_CODE(clGetDeviceIDs,
	(cl_platform_id platform, cl_device_type type, cl_uint n, cl_device_id *list,
		cl_uint *count),
	(platform, type, n, list, count), 0)
WRAP_CODE(clGetDeviceInfo,
	(cl_device_id device, cl_device_info what, size_t room, void *value, size_t *size),
	(device, what, room, value, size), 0)
WRAP_CODE(clGetMemObjectInfo,
	(cl_mem memory, cl_mem_info what, size_t room, void *value, size_t *size),
	(memory, what, room, value, size), 0)
WRAP_CODE(clBuildProgram,
	(cl_program program, cl_uint n, const cl_device_id *list, const char *options,
		void(CL_CALLBACK *told)(cl_program, void *), void *user),
	(program, n, list, options, told, user), 0)
WRAP_CODE(clSetKernelArg, (cl_kernel kernel, cl_uint index, size_t size, const void *value),
	(kernel, index, size, value), 0)
WRAP_CODE(clEnqueueNDRangeKernel,
	(cl_command_queue queue, cl_kernel kernel, cl_uint rank, const size_t *first,
		const size_t *global, const size_t *local, cl_uint n, const cl_event *list,
		cl_event *event),
	(queue, kernel, rank, first, global, local, n, list, event), 0)
WRAP_CODE(clEnqueueWriteBuffer,
	(cl_command_queue queue, cl_mem memory, cl_bool wait, size_t at, size_t size,
		const void *data, cl_uint n, const cl_event *list, cl_event *event),
	(queue, memory, wait, at, size, data, n, list, event), 0)
WRAP_CODE(clEnqueueReadBuffer,
	(cl_command_queue queue, cl_mem memory, cl_bool wait, size_t at, size_t size, void *data,
		cl_uint n, const cl_event *list, cl_event *event),
	(queue, memory, wait, at, size, data, n, list, event), 0)
WRAP_CODE(clEnqueueMigrateMemObjects,
	(cl_command_queue queue, cl_uint count, const cl_mem *memories,
		cl_mem_migration_flags flags, cl_uint n, const cl_event *list, cl_event *event),
	(queue, count, memories, flags, n, list, event), 0)
WRAP_CODE(clFinish, (cl_command_queue queue), (queue), 0)
WRAP_CODE(clReleaseMemObject, (cl_mem memory), (memory), -1)
WRAP_CODE(clReleaseProgram, (cl_program program), (program), -1)
WRAP_CODE(clReleaseKernel, (cl_kernel kernel), (kernel), -1)
WRAP_CODE(clReleaseContext, (cl_context context), (context), -1)
WRAP_CODE(clReleaseCommandQueue, (cl_command_queue queue), (queue), -1)

WRAP_MADE(cl_context, clCreateContext,
	(const cl_context_properties *properties, cl_uint n, const cl_device_id *list,
		void(CL_CALLBACK *told)(const char *, const void *, size_t, void *), void *user,
		cl_int *code),
	(properties, n, list, told, user, code))
WRAP_MADE(cl_command_queue, clCreateCommandQueue,
	(cl_context context, cl_device_id device, cl_command_queue_properties properties,
		cl_int *code),
	(context, device, properties, code))
WRAP_MADE(cl_program, clCreateProgramWithSource,
	(cl_context context, cl_uint n, const char **texts, const size_t *lengths, cl_int *code),
	(context, n, texts, lengths, code))
WRAP_MADE(cl_kernel, clCreateKernel, (cl_program program, const char *name, cl_int *code),
	(program, name, code))
WRAP_MADE(cl_mem, clCreateBuffer,
	(cl_context context, cl_mem_flags flags, size_t size, void *data, cl_int *code),
	(context, flags, size, data, code))
