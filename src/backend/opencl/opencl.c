/* OpenCL backend: opening a device, error messages, and its function tables. */
#include <stdio.h>
#include <stdlib.h>
#include "backend/device/prepare.h"
#include "backend/device_module.h"
#include "backend/opencl/opencl.h"

enum { FIRST_ROOM = 64, LONGEST_NUMBER = 9 };

static const struct {
	cl_int code;
	tomos_status status;
	const char *words;
} failures[] = {
	{CL_DEVICE_NOT_AVAILABLE, TOMOS_NO_DEVICE, "it is not available"},
	{CL_MEM_OBJECT_ALLOCATION_FAILURE, TOMOS_NO_MEMORY, "it has no memory left"},
	{CL_OUT_OF_RESOURCES, TOMOS_NO_MEMORY, "it is out of resources"},
	{CL_OUT_OF_HOST_MEMORY, TOMOS_NO_MEMORY, "its driver has no memory left"},
	{CL_INVALID_COMMAND_QUEUE, TOMOS_NO_DEVICE, "it is lost"},
};

tomos_status opencl_failed(cl_int code, const char *doing)
{
	for (int i = 0; i < COUNT(failures); i++)
		if (failures[i].code == code)
			return fail(failures[i].status, "the OpenCL device failed at %s: %s", doing,
				failures[i].words);
	return fail(TOMOS_NO_DEVICE, "the OpenCL device failed at %s: its driver's code is %d",
		doing, (int)code);
}

static tomos_status parse_number(const char *argument, int64_t *number)
{
	*number = 0;
	int digits = 0;
	for (; argument[digits] >= '0' && argument[digits] <= '9'; digits++)
		*number =
			digits < LONGEST_NUMBER ? 10 * *number + (argument[digits] - '0') : *number;
	if (argument[digits] || digits > LONGEST_NUMBER)
		return fail(TOMOS_BAD_VALUE,
			"opencl:%s: a device is named by its number, as opencl:0", argument);
	return TOMOS_OK;
}

typedef struct {
	char name[64];
	cl_ulong most, all;
	cl_uint units;
	size_t group;
	cl_device_fp_config precision;
} About;

/* A name that is too long gives an error and is left empty. */
static tomos_status ask(cl_device_id id, About *about)
{
	char name[256] = "";
	clGetDeviceInfo(id, CL_DEVICE_NAME, sizeof name, name, NULL);
	snprintf(about->name, sizeof about->name, "%.63s", name);
	const struct {
		cl_device_info what;
		size_t size;
		void *to;
	} list[] = {
		{CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof about->most, &about->most},
		{CL_DEVICE_GLOBAL_MEM_SIZE, sizeof about->all, &about->all},
		{CL_DEVICE_MAX_COMPUTE_UNITS, sizeof about->units, &about->units},
		{CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof about->group, &about->group},
		{CL_DEVICE_DOUBLE_FP_CONFIG, sizeof about->precision, &about->precision},
	};
	for (int i = 0; i < COUNT(list); i++)
		OPENCL_TRY(clGetDeviceInfo(id, list[i].what, list[i].size, list[i].to, NULL),
			"being asked what it is");
	return TOMOS_OK;
}

static tomos_status check(const About *about)
{
	if (about->precision == 0)
		return fail(TOMOS_UNSUPPORTED,
			"the OpenCL device (%s) has no double precision, which geometry needs",
			about->name);
	if (about->group < GROUP)
		return fail(TOMOS_UNSUPPORTED,
			"the OpenCL device (%s) takes %zu items per group, %d are needed",
			about->name, about->group, GROUP);
	return TOMOS_OK;
}

static tomos_status make_parts(OpenclDevice *d)
{
	cl_int code;
	d->context = clCreateContext(NULL, 1, &d->id, NULL, NULL, &code);
	OPENCL_TRY(code, "being opened");
	d->queue = clCreateCommandQueue(d->context, d->id, 0, &code);
	OPENCL_TRY(code, "making a queue");
	d->capacity = FIRST_ROOM;
	TRY(mem_alloc(&d->blocks, d->capacity, sizeof *d->blocks, "an OpenCL device"));
	TRY(mem_alloc(&d->stage, STAGE_FLOATS, sizeof *d->stage, "transfers"));
	return opencl_buffer(d, SUM_GROUPS * sizeof(double), &d->partial, "sums");
}

static void opencl_close(tomos_backend *backend)
{
	OpenclDevice *d = device_of(backend);
	opencl_buffer_release(d, d->partial);
	for (int i = 0; i < TASK_COUNT; i++)
		if (d->kernels[i])
			clReleaseKernel(d->kernels[i]);
	for (int i = 0; i < PROGRAM_COUNT; i++)
		if (d->programs[i])
			clReleaseProgram(d->programs[i]);
	if (d->queue)
		clReleaseCommandQueue(d->queue);
	if (d->context)
		clReleaseContext(d->context);
	pthread_mutex_destroy(&d->lock);
	pthread_mutex_destroy(&d->plans);
	mem_free(d->blocks);
	mem_free(d->stage);
	mem_free(d);
}

static tomos_status opencl_open(tomos_backend *backend, const char *argument)
{
	int64_t number;
	cl_device_id id;
	About about = {.name = ""};
	OpenclDevice *d;
	TRY(parse_number(argument, &number));
	TRY(opencl_find(number, &id));
	TRY(ask(id, &about));
	TRY(check(&about));
	TRY(mem_zeroed(&d, 1, sizeof *d, "an OpenCL device"));
	d->id = id;
	d->most = (int64_t)about.most;
	d->all = (int64_t)about.all;
	pthread_mutex_init(&d->lock, NULL);
	pthread_mutex_init(&d->plans, NULL);
	backend->own = d;
	backend->device = FIRST_DEVICE + (int)number;
	snprintf(backend->description, sizeof backend->description,
		"opencl:%lld (%s, %u units, %.0f GiB)", (long long)number, about.name,
		(unsigned)about.units, (double)about.all / (1 << 30));
	snprintf(backend->model, sizeof backend->model, "%s, %u units", about.name,
		(unsigned)about.units);
	clGetDeviceInfo(id, CL_DRIVER_VERSION, sizeof backend->driver - 1, backend->driver, NULL);
	tomos_status status = make_parts(d);
	if (status != TOMOS_OK)
		opencl_close(backend);
	return status;
}

static int opencl_count(void)
{
	int count = 0;
	cl_device_id id;
	while (opencl_find(count, &id) == TOMOS_OK)
		count++;
	return count;
}

static void place_name(const tomos_backend *b, char *name, size_t size)
{
	snprintf(name, size, "opencl:%d", b->device - FIRST_DEVICE);
}

static void opencl_share(const tomos_backend *b, int processes)
{
	device_of(b)->sharers = processes;
}

TOMOS_API extern const ModuleSharing tomos_module_sharing;
const ModuleSharing tomos_module_sharing = {opencl_count, place_name, opencl_share};

extern const BackendType module_backend;
const BackendType module_backend = {BACKEND_PARTS(opencl, 64 << 20), .matrix = &opencl_matrix,
	.prepare = &device_prepare, .fourier = &opencl_fourier};
