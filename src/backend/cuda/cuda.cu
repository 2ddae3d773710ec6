/* CUDA backend: opening a GPU, its memory and streams, and transfers from and to host arrays. */
#include <stdlib.h>
#include "backend/cuda/cuda.h"

extern "C" {
#include "backend/device/prepare.h"
#include "backend/device_module.h"
}

enum { SCRATCH_FLOATS = 512 << 20, FILTER_FLOATS = 128 << 20, DEVICES = 64 };

static int sharers[DEVICES]; /* processes that use a GPU, this one included; 0: this one alone */

tomos_status cuda_failed(cudaError_t error, const char *doing)
{
	tomos_status status =
		error == cudaErrorMemoryAllocation ? TOMOS_NO_MEMORY : TOMOS_NO_DEVICE;
	cudaGetLastError(); /* clears the error, which must not be reported again */
	return fail(status, "the GPU failed at %s: %s", doing, cudaGetErrorString(error));
}

tomos_status cuda_use(const tomos_backend *backend)
{
	CUDA_TRY(cudaSetDevice(device_of(backend)->number), "choosing it");
	return TOMOS_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static tomos_status parse_number(const char *argument, int count, int *number)
{
	enum { LONGEST_NUMBER = 9 };
	size_t digits = strspn(argument, "0123456789");
	*number = 0;
	if (argument[digits] || digits > LONGEST_NUMBER)
		return fail(TOMOS_BAD_VALUE, "cuda:%s: a GPU is named by its number, as cuda:0",
			argument);
	for (size_t i = 0; i < digits; i++)
		*number = 10 * *number + (argument[i] - '0');
	if (*number >= count)
		return fail(TOMOS_NO_DEVICE,
			"there is no GPU %d: the driver has %d, counted from 0", *number, count);
	return TOMOS_OK;
}

static tomos_status make_parts(CudaDevice *d)
{
	CUDA_TRY(cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking), "making a stream");
	CUDA_TRY(cudaMalloc((void **)&d->partial, sizeof(double) * VECTORS_LISTED * SUM_BLOCKS),
		"opening it");
	CUDA_TRY(cudaHostAlloc((void **)&d->total, SMALL_BYTES, cudaHostAllocMapped), "opening it");
	CUDA_TRY(cudaHostGetDevicePointer((void **)&d->total_device, d->total, 0), "opening it");
	CUDA_TRY(cudaEventCreateWithFlags(&d->entered, cudaEventDisableTiming), "making an event");
	CUDA_TRY(cudaEventCreateWithFlags(&d->taken, cudaEventDisableTiming), "making an event");
	CUDA_TRY(cudaEventCreateWithFlags(&d->arrived, cudaEventDisableTiming), "making an event");
	CUDA_TRY(cudaEventCreateWithFlags(&d->queue.last, cudaEventDisableTiming),
		"making an event");
	for (int i = 0; i < STAGES; i++)
		CUDA_TRY(cudaEventCreateWithFlags(&d->staged[i], cudaEventDisableTiming),
			"making an event");
	return TOMOS_OK;
}

static void cuda_close(tomos_backend *backend)
{
	CudaDevice *d = device_of(backend);
	(void)cudaSetDevice(d->number); /* memory is freed in any case */
	for (int i = 0; i < STAGES; i++) {
		cudaFreeHost(d->stage[i]);
		if (d->staged[i])
			cudaEventDestroy(d->staged[i]);
	}
	cuda_copies_free(d);
	for (int i = 0; i < d->textures.count; i++)
		cudaDestroyTextureObject(d->textures.of[i]);
	for (int i = 0; i < SCRATCHES; i++)
		cudaFree(d->scratch[i].data);
	cudaFree(d->partial);
	cudaFreeHost(d->total);
	cudaEvent_t events[] = {d->entered, d->taken, d->arrived, d->queue.last};
	cudaStream_t streams[] = {d->stream, d->behind, d->ahead};
	for (int i = 0; i < COUNT(events); i++)
		if (events[i])
			cudaEventDestroy(events[i]);
	for (int i = 0; i < COUNT(streams); i++)
		if (streams[i])
			cudaStreamDestroy(streams[i]);
	cudaGetLastError();
	pthread_mutex_destroy(&d->lock);
	pthread_mutex_destroy(&d->queue.lock);
	mem_free(d);
}

static tomos_status cuda_open(tomos_backend *backend, const char *argument)
{
	int count = 0, number;
	cudaError_t error = cudaGetDeviceCount(&count);
	if (error != cudaSuccess || count == 0)
		return fail(TOMOS_NO_DEVICE, "there is no NVIDIA GPU to use: %s",
			error != cudaSuccess ? cudaGetErrorString(error) : "the driver has none");
	TRY(parse_number(argument, count, &number));
	cudaDeviceProp about;
	CUDA_TRY(cudaSetDevice(number), "choosing it");
	CUDA_TRY(cudaGetDeviceProperties(&about, number), "asking it");
	CudaDevice *d;
	TRY(mem_zeroed(&d, 1, sizeof *d, "a GPU"));
	d->number = number;
	d->sms = about.multiProcessorCount;
	const int64_t floats =
		(int64_t)(about.totalGlobalMem / sizeof(float)); /* limits of scratch memory: */
	d->scratch_most = min64(SCRATCH_FLOATS, floats / 8);
	d->filter_most = min64(FILTER_FLOATS, floats / 32);
	d->slices_most = INT64_MAX;
	pthread_mutex_init(&d->lock, NULL);
	pthread_mutex_init(&d->queue.lock, NULL);
	for (int k = 0; k < COUNT(d->copies); k++)
		pthread_mutex_init(&d->copies[k].lock, NULL);
	backend->own = d;
	backend->device = number + 1;
	backend->group_memory =
		(int64_t)about.sharedMemPerBlockOptin - CUDA_WAVES * (int64_t)sizeof(KernelWave);
	snprintf(backend->description, sizeof backend->description,
		"cuda:%d (%.60s, %d SMs, %.0f GiB)", number, about.name, d->sms,
		(double)about.totalGlobalMem / (1 << 30));
	snprintf(backend->model, sizeof backend->model, "%.60s, %d SMs", about.name, d->sms);
	cuda_driver(backend->driver, sizeof backend->driver);
	tomos_status status = make_parts(d);
	if (status != TOMOS_OK)
		cuda_close(backend);
	return status;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static tomos_status take(CudaDevice *d, float **data, int64_t count, const char *what)
{
	cudaError_t error =
		cudaMalloc((void **)data, (size_t)(count > 0 ? count : 1) * sizeof(float));
	d->counts.allocations++;
	d->counts.bytes += count * (int64_t)sizeof(float);
	if (error == cudaErrorMemoryAllocation) {
		size_t free_bytes = 0, all = 0;
		cudaGetLastError();
		cudaMemGetInfo(&free_bytes, &all);
		return fail(TOMOS_NO_MEMORY,
			"no memory on the GPU for %s: %.2f GiB wanted, %.2f of %.2f GiB are free; "
			"with a limit (--memory) it works in pieces",
			what, (double)count * sizeof(float) / (1 << 30),
			(double)free_bytes / (1 << 30), (double)all / (1 << 30));
	}
	return error == cudaSuccess ? TOMOS_OK : cuda_failed(error, "taking memory");
}

static tomos_status cuda_free_bytes(tomos_backend *b, int64_t *bytes)
{
	size_t free_bytes = 0, all = 0;
	TRY(cuda_use(b));
	CUDA_TRY(cudaMemGetInfo(&free_bytes, &all), "asking for its memory");
	*bytes = (int64_t)free_bytes / max64(1, sharers[device_of(b)->number % DEVICES]);
	return TOMOS_OK;
}

static int cuda_count(void)
{
	int count = 0;
	if (cudaGetDeviceCount(&count) == cudaSuccess)
		return count;
	(void)cudaGetLastError(); /* else the next launch would report it */
	return 0;
}

/* Numbers depend on what a process may see (CUDA_VISIBLE_DEVICES), addresses on the bus do not. */
static void cuda_place(const tomos_backend *b, char *name, size_t size)
{
	if (cudaDeviceGetPCIBusId(name, (int)size, device_of(b)->number) == cudaSuccess)
		return;
	(void)cudaGetLastError();
	snprintf(name, size, "cuda:%d", device_of(b)->number);
}

static void cuda_share(const tomos_backend *b, int processes)
{
	CudaDevice *d = device_of(b);
	size_t free_bytes, all;
	sharers[d->number % DEVICES] = processes;
	if (cuda_use(b) != TOMOS_OK || cudaMemGetInfo(&free_bytes, &all) != cudaSuccess) {
		(void)cudaGetLastError();
		return;
	}
	const int64_t floats = (int64_t)(all / sizeof(float)) / processes;
	d->scratch_most = min64(d->scratch_most, floats / 8);
	d->filter_most = min64(d->filter_most, floats / 32);
}

static bool make_stream(cudaStream_t *stream, int priority)
{
	return cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, priority) == cudaSuccess;
}

/* Creates the streams of low priority for projections and of high priority for other work. If
 * the GPU has no priorities, all work stays in one stream. */
static void make_queue(CudaDevice *d, CudaQueue *queue)
{
	int least, greatest;
	cudaStream_t stream;
	if (!d->behind && cudaSetDevice(d->number) == cudaSuccess &&
		cudaDeviceGetStreamPriorityRange(&least, &greatest) == cudaSuccess &&
		make_stream(&stream, greatest)) {
		cudaStreamDestroy(d->stream);
		d->stream = stream;
		if (!make_stream(&d->behind, least))
			d->behind = NULL;
		if (!d->behind || !make_stream(&d->ahead, greatest))
			d->ahead = NULL;
	}
	d->queued = queue;
	cudaGetLastError();
}

static void swap_streams(CudaDevice *d)
{
	cudaStream_t stream = d->stream;
	d->stream = d->behind;
	d->behind = stream;
}

tomos_status cuda_enter(const tomos_backend *backend)
{
	CudaDevice *d = device_of(backend);
	if (!d->behind)
		return TOMOS_OK;
	pthread_mutex_lock(&d->queued->lock);
	swap_streams(d);
	d->has_taken = false;
	CUDA_TRY(cudaEventRecord(d->entered, d->behind), "its streams");
	CUDA_TRY(cudaStreamWaitEvent(d->stream, d->entered, 0), "its streams");
	CUDA_TRY(cudaStreamWaitEvent(d->stream, d->queued->last, 0), "its streams");
	return TOMOS_OK;
}

tomos_status cuda_leave(const tomos_backend *backend)
{
	CudaDevice *d = device_of(backend);
	if (!d->behind)
		return TOMOS_OK;
	cudaError_t error = cudaEventRecord(d->queued->last, d->stream);
	if (error == cudaSuccess && !d->has_taken)
		error = cudaEventRecord(d->taken, d->stream);
	swap_streams(d);
	if (error == cudaSuccess)
		error = cudaStreamWaitEvent(d->stream, d->queued->last, 0);
	pthread_mutex_unlock(&d->queued->lock);
	return error == cudaSuccess ? TOMOS_OK : cuda_failed(error, "its streams");
}

tomos_status cuda_taken(const tomos_backend *backend)
{
	CudaDevice *d = device_of(backend);
	d->has_taken = true;
	CUDA_TRY(cudaEventRecord(d->taken, d->stream), "its streams");
	return TOMOS_OK;
}

static void swap_ahead(CudaDevice *d)
{
	cudaStream_t stream = d->stream;
	d->stream = d->ahead;
	d->ahead = stream;
}

tomos_status cuda_ahead_begin(const tomos_backend *backend, bool taken)
{
	CudaDevice *d = device_of(backend);
	swap_ahead(d);
	if (taken)
		CUDA_TRY(cudaStreamWaitEvent(d->stream, d->taken, 0), "its streams");
	return TOMOS_OK;
}

tomos_status cuda_ahead_end(const tomos_backend *backend)
{
	CudaDevice *d = device_of(backend);
	cudaError_t error = cudaEventRecord(d->arrived, d->stream);
	swap_ahead(d);
	if (error == cudaSuccess)
		error = cudaStreamWaitEvent(d->stream, d->arrived, 0);
	return error == cudaSuccess ? TOMOS_OK : cuda_failed(error, "its streams");
}

/* Frees scratch that exceeds the limit. */
static void give_back(tomos_backend *b)
{
	CudaDevice *d = device_of(b);
	int64_t kept = 0;
	for (int i = 0; i < SCRATCHES; i++)
		kept += d->scratch[i].count;
	if (kept <= d->slices_most || cuda_use(b) != TOMOS_OK)
		return;
	for (int i = 0; i < SCRATCHES; i++) {
		cudaFree(d->scratch[i].data);
		d->scratch[i] = (CudaScratch){NULL, 0};
	}
}

static void cuda_limit_scratch(tomos_backend *b, int64_t floats, tomos_backend *first)
{
	CudaDevice *d = device_of(b);
	d->filter_most = min64(floats / 6, FILTER_FLOATS);
	d->slices_most = floats - d->filter_most;
	d->scratch_most = min64(d->slices_most, SCRATCH_FLOATS);
	make_queue(d, first ? &device_of(first)->queue : &d->queue);
	give_back(b);
}

static tomos_status cuda_alloc(tomos_backend *b, float **data, int64_t count, const char *what)
{
	*data = NULL;
	TRY(cuda_use(b));
	return take(device_of(b), data, count, what);
}

static void cuda_release(tomos_backend *b, float *data)
{
	(void)cudaSetDevice(device_of(b)->number);
	(void)cudaFree(data);
	(void)cudaGetLastError(); /* or the next launch would report this error */
}

/* An attribute of the current GPU; `otherwise` where there is none, so that the choice of kernels
 * can be tested. */
static int attribute(cudaDeviceAttr what, int otherwise)
{
	int device, value = 0;
	if (cudaGetDevice(&device) != cudaSuccess)
		return otherwise;
	return cudaDeviceGetAttribute(&value, what, device) == cudaSuccess ? value : 0;
}

int cuda_level(void)
{
	const char *wanted = getenv("TOMOS_CUDA");
	int level = 10 * attribute(cudaDevAttrComputeCapabilityMajor, 9) +
		    attribute(cudaDevAttrComputeCapabilityMinor, 0);
	return wanted && *wanted ? (int)min64(level, atoi(wanted)) : level;
}

/* Shared memory of a block, in KiB, of compute capabilities (table of the CUDA C++ Programming
 * Guide). */
static int shared_of(int level)
{
	return level >= 90 ? 227 : level == 80 || level == 87 ? 163 : level >= 80 ? 99 : 64;
}

int cuda_most_shared(void)
{
	const int most = shared_of(cuda_level()) << 10;
	return (int)min64(most, attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, most));
}

bool cuda_has_shared(int bytes)
{
	return bytes <= cuda_most_shared();
}

tomos_status cuda_take_shared(const void *kernel)
{
	cudaFuncAttributes about;
	CUDA_TRY(cudaFuncGetAttributes(&about, kernel), "taking shared memory");
	CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
			 cuda_most_shared() - (int)about.sharedSizeBytes),
		"taking shared memory");
	return TOMOS_OK;
}

tomos_status cuda_scratch(
	tomos_backend *backend, int which, int64_t count, float **data, const char *what)
{
	CudaScratch *s = &device_of(backend)->scratch[which];
	if (s->count < count) {
		cudaFree(s->data); /* waits for kernels that still use it */
		*s = (CudaScratch){NULL, 0};
		TRY(take(device_of(backend), &s->data, count, what));
		s->count = count;
	}
	*data = s->data;
	return TOMOS_OK;
}

tomos_status cuda_sync(tomos_backend *b)
{
	TRY(cuda_use(b));
	device_of(b)->counts.waits++;
	CUDA_TRY(cudaStreamSynchronize(device_of(b)->stream), "its work");
	return TOMOS_OK;
}

static BackendCounts cuda_counts(const tomos_backend *backend)
{
	return device_of(backend)->counts;
}

extern "C" {
static const BackendMemory cuda_memory = {
	BACKEND_MEMORY(cuda),
	.upload_overlapped = cuda_upload_overlapped,
	.pin = cuda_pin,
	.unpin = cuda_unpin,
	.copy_begin = cuda_copy_begin,
	.copy_end = cuda_copy_end,
	.limit_scratch = cuda_limit_scratch,
	.free_bytes = cuda_free_bytes,
	.counts = cuda_counts,
};

static const BackendMatrix cuda_matrix = {BACKEND_MATRIX(cuda)};

extern const BackendType module_backend;
extern const BackendFourier cuda_fourier;
TOMOS_API extern const ModuleSharing tomos_module_sharing;
const ModuleSharing tomos_module_sharing = {cuda_count, cuda_place, cuda_share};
const BackendType module_backend = {BACKEND_PARTS(cuda, (int64_t)2 << 30), .matrix = &cuda_matrix,
	.prepare = &device_prepare, .fourier = &cuda_fourier, .machine = cuda_machine};
}
