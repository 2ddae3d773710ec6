/* Compiles programs and kernels at first use, and launches them. */
#include <string.h>
#include "backend/opencl/opencl.h"

/* Generated from the .cl files. */
extern const char text_vector[], text_project[], text_matrix[], text_filter[], text_slices[],
	text_prep[], text_rings[], text_waves[], text_fourier[];

static const struct {
	const char *name, *text, *options;
} programs[PROGRAM_COUNT] = {
	[PROGRAM_vector] = {"vector", text_vector, "-cl-std=CL1.2"},
	[PROGRAM_project] = {"project", text_project, "-cl-std=CL1.2"},
	[PROGRAM_power] = {"power", text_project, "-cl-std=CL1.2 -DPOWERS"},
	[PROGRAM_matrix] = {"matrix", text_matrix, "-cl-std=CL1.2"},
	[PROGRAM_filter] = {"filter", text_filter, "-cl-std=CL1.2"},
	[PROGRAM_slices] = {"slices", text_slices, "-cl-std=CL1.2"},
	[PROGRAM_prep] = {"prep", text_prep, "-cl-std=CL1.2"},
	[PROGRAM_rings] = {"rings", text_rings, "-cl-std=CL1.2"},
	[PROGRAM_waves] = {"waves", text_waves, "-cl-std=CL1.2"},
	[PROGRAM_fourier] = {"fourier", text_fourier, "-cl-std=CL1.2"},
};

#define TASK(program, name) {PROGRAM_##program, "do_" #name},
static const struct {
	int program;
	const char *kernel;
} tasks[TASK_COUNT] = {
#include "backend/opencl/tasks.def"
};
#undef TASK

/* ---- making ------------------------------------------------------------------------------- */

/* The first lines of the compiler's log, joined. */
static tomos_status build_failed(const OpenclDevice *d, cl_program program, const char *name)
{
	enum { LINES = 4, LONGEST = 600 };
	char *log;
	size_t size = 0;
	clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
	TRY(mem_zeroed(&log, (int64_t)size + 1, 1, "the log of the compiler"));
	clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, size, log, NULL);
	int lines = 0;
	for (char *c = log; *c; c++)
		if (*c == '\n' || *c == '\r') {
			*c = ' ';
			if (++lines == LINES)
				c[1] = '\0';
		}
	tomos_status status = fail(TOMOS_NO_DEVICE,
		"the OpenCL device's compiler rejects the %s kernels: %.*s", name, LONGEST, log);
	mem_free(log);
	return status;
}

static tomos_status build(OpenclDevice *d, int index)
{
	cl_int code;
	const char *text = programs[index].text;
	cl_program program = clCreateProgramWithSource(d->context, 1, &text, NULL, &code);
	OPENCL_TRY(code, "reading a program");
	code = clBuildProgram(program, 1, &d->id, programs[index].options, NULL, NULL);
	if (code == CL_SUCCESS) {
		d->programs[index] = program;
		return TOMOS_OK;
	}
	tomos_status status = code == CL_BUILD_PROGRAM_FAILURE
				      ? build_failed(d, program, programs[index].name)
				      : opencl_failed(code, "compiling a program");
	clReleaseProgram(program);
	return status;
}

static tomos_status find_kernel(OpenclDevice *d, int task, cl_kernel *kernel)
{
	int program = tasks[task].program;
	if (!d->programs[program])
		TRY(build(d, program));
	if (!d->kernels[task]) {
		cl_int code;
		d->kernels[task] = clCreateKernel(d->programs[program], tasks[task].kernel, &code);
		OPENCL_TRY(code, "making a kernel");
	}
	*kernel = d->kernels[task];
	return TOMOS_OK;
}

/* ---- running ------------------------------------------------------------------------------ */

typedef struct {
	size_t items[3], group[3];
} Range;

static tomos_status launch_locked(
	OpenclDevice *d, int task, const Range *range, const OpenclArg *args, int count)
{
	cl_kernel kernel = NULL;
	TRY(find_kernel(d, task, &kernel));
	for (int i = 0; i < count; i++)
		OPENCL_TRY(clSetKernelArg(kernel, (cl_uint)i, args[i].size, args[i].value),
			"preparing a task");
	OPENCL_TRY(clEnqueueNDRangeKernel(
			   d->queue, kernel, 3, NULL, range->items, range->group, 0, NULL, NULL),
		"a task");
	return TOMOS_OK;
}

/* Arguments are state of the kernel object, so one thread at a time may set and launch. */
static tomos_status launch(
	OpenclDevice *d, int task, const Range *range, const OpenclArg *args, int count)
{
	pthread_mutex_lock(&d->lock);
	tomos_status status = launch_locked(d, task, range, args, count);
	pthread_mutex_unlock(&d->lock);
	return status;
}

/* Work-items for n elements in whole groups, up to the limit of a launch. */
static size_t items_for(int64_t n, int group)
{
	enum { MOST_GROUPS = 65535 };
	return (size_t)(min64((n + group - 1) / group, MOST_GROUPS) * group);
}

tomos_status opencl_line(
	tomos_backend *backend, int task, int64_t n, const OpenclArg *args, int count)
{
	Range range = {{items_for(n, GROUP), 1, 1}, {GROUP, 1, 1}};
	return n > 0 ? launch(device_of(backend), task, &range, args, count) : TOMOS_OK;
}

tomos_status opencl_planes(
	tomos_backend *backend, int task, const int64_t n[3], const OpenclArg *args, int count)
{
	Range range = {{items_for(n[0], WIDE), items_for(n[1], HIGH), items_for(n[2], 1)},
		{WIDE, HIGH, 1}};
	if (n[0] <= 0 || n[1] <= 0 || n[2] <= 0)
		return TOMOS_OK;
	return launch(device_of(backend), task, &range, args, count);
}

tomos_status opencl_sums(tomos_backend *backend, int task, const OpenclArg *args, int count,
	double partial[SUM_GROUPS])
{
	OpenclDevice *d = device_of(backend);
	Range range = {{(size_t)SUM_GROUPS * GROUP, 1, 1}, {GROUP, 1, 1}};
	pthread_mutex_lock(&d->lock); /* until d->partial has been read */
	tomos_status status = launch_locked(d, task, &range, args, count);
	if (status == TOMOS_OK) {
		d->counts.waits++;
		cl_int code = clEnqueueReadBuffer(d->queue, d->partial, CL_TRUE, 0,
			SUM_GROUPS * sizeof(double), partial, 0, NULL, NULL);
		if (code != CL_SUCCESS)
			status = opencl_failed(code, "a sum");
	}
	pthread_mutex_unlock(&d->lock);
	return status;
}
