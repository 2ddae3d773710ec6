/* Enumerates the devices of all platforms. */
#include "backend/opencl/opencl.h"

/* Device types in the order of numbering. */
static const cl_device_type kinds[] = {
	CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ACCELERATOR, CL_DEVICE_TYPE_CPU, CL_DEVICE_TYPE_CUSTOM};

/* Device `number` of one type on one platform; otherwise subtracts the number of devices found. */
static tomos_status find_on(
	cl_platform_id platform, cl_device_type kind, int64_t *number, cl_device_id *id)
{
	cl_uint count = 0;
	cl_device_id *list;
	if (clGetDeviceIDs(platform, kind, 0, NULL, &count) != CL_SUCCESS || count == 0)
		return TOMOS_OK; /* platforms report an error if they have none */
	if (*number >= (int64_t)count) {
		*number -= count;
		return TOMOS_OK;
	}
	TRY(mem_alloc(&list, count, sizeof(cl_device_id), "OpenCL devices"));
	cl_int code = clGetDeviceIDs(platform, kind, count, list, NULL);
	if (code == CL_SUCCESS)
		*id = list[*number];
	mem_free(list);
	OPENCL_TRY(code, "asking for its devices");
	return TOMOS_OK;
}

static tomos_status find_among(
	const cl_platform_id *platforms, cl_uint count, int64_t number, cl_device_id *id)
{
	int64_t rest = number;
	for (int kind = 0; kind < COUNT(kinds) && !*id; kind++)
		for (cl_uint i = 0; i < count && !*id; i++)
			TRY(find_on(platforms[i], kinds[kind], &rest, id));
	if (*id)
		return TOMOS_OK;
	if (rest == number)
		return fail(TOMOS_NO_DEVICE, "the OpenCL drivers of this machine have no device");
	return fail(TOMOS_NO_DEVICE,
		"there is no OpenCL device %lld: the drivers have %lld, counted from 0",
		(long long)number, (long long)(number - rest));
}

tomos_status opencl_find(int64_t number, cl_device_id *id)
{
	cl_uint count = 0;
	cl_platform_id *platforms;
	*id = NULL;
	cl_int code = clGetPlatformIDs(0, NULL, &count);
	if (code != CL_SUCCESS || count == 0)
		return fail(TOMOS_NO_DEVICE,
			"there is no OpenCL platform: no driver is installed for it");
	TRY(mem_alloc(&platforms, count, sizeof(cl_platform_id), "OpenCL platforms"));
	code = clGetPlatformIDs(count, platforms, NULL);
	tomos_status status = code == CL_SUCCESS ? find_among(platforms, count, number, id)
						 : opencl_failed(code, "asking for its platforms");
	mem_free(platforms);
	return status;
}
