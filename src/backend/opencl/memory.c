/* Device memory: placeholder addresses, and transfers to and from host arrays. */
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include "backend/device/pack.h"
#include "backend/opencl/opencl.h"

/* ---- buffers ------------------------------------------------------------------------------ */

static double gib(int64_t bytes)
{
	return (double)bytes / (1 << 30);
}

static tomos_status check_room(const OpenclDevice *d, size_t bytes, const char *what)
{
	if (bytes > (size_t)d->most)
		return fail(TOMOS_NO_MEMORY,
			"no memory on the OpenCL device for %s: %.2f GiB wanted, it gives at most "
			"%.2f GiB in one piece",
			what, gib((int64_t)bytes), gib(d->most));
	if (bytes > (size_t)(d->all - d->held))
		return fail(TOMOS_NO_MEMORY,
			"no memory on the OpenCL device for %s: %.2f GiB wanted, %.2f of %.2f GiB "
			"are free",
			what, gib((int64_t)bytes), gib(d->all - d->held), gib(d->all));
	return TOMOS_OK;
}

/* Drivers allocate at first use; migrating to the device allocates at once, or fails. */
static cl_int take(const OpenclDevice *d, size_t bytes, cl_mem *memory)
{
	cl_int code;
	*memory = clCreateBuffer(d->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
	if (code != CL_SUCCESS)
		return code;
	code = clEnqueueMigrateMemObjects(
		d->queue, 1, memory, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, NULL, NULL);
	if (code != CL_SUCCESS) {
		clReleaseMemObject(*memory);
		*memory = NULL;
	}
	return code;
}

static size_t bytes_of(cl_mem memory)
{
	size_t bytes = 0;
	clGetMemObjectInfo(memory, CL_MEM_SIZE, sizeof bytes, &bytes, NULL);
	return bytes;
}

static tomos_status buffer_locked(OpenclDevice *d, size_t bytes, cl_mem *memory, const char *what)
{
	TRY(check_room(d, bytes, what));
	d->counts.allocations++;
	d->counts.bytes += (int64_t)bytes;
	OPENCL_TRY(take(d, bytes, memory), "taking memory");
	d->held += (int64_t)bytes;
	return TOMOS_OK;
}

tomos_status opencl_buffer(OpenclDevice *d, size_t bytes, cl_mem *memory, const char *what)
{
	*memory = NULL;
	pthread_mutex_lock(&d->lock);
	tomos_status status = buffer_locked(d, bytes, memory, what);
	pthread_mutex_unlock(&d->lock);
	return status;
}

/* The driver keeps the memory until tasks that use it have ended. */
static void buffer_release_locked(OpenclDevice *d, cl_mem memory)
{
	if (!memory)
		return;
	d->held -= (int64_t)bytes_of(memory);
	clReleaseMemObject(memory);
}

void opencl_buffer_release(OpenclDevice *d, cl_mem memory)
{
	pthread_mutex_lock(&d->lock);
	buffer_release_locked(d, memory);
	pthread_mutex_unlock(&d->lock);
}

/* ---- addresses ---------------------------------------------------------------------------- */

/* The first block that does not end before the address. */
static int64_t block_at(const OpenclDevice *d, const char *address)
{
	int64_t low = 0, high = d->count;
	while (low < high) {
		int64_t middle = (low + high) / 2;
		const OpenclBlock *block = &d->blocks[middle];
		if (address >= block->start + block->bytes)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static tomos_status make_room(OpenclDevice *d)
{
	OpenclBlock *more;
	if (d->count < d->capacity)
		return TOMOS_OK;
	TRY(mem_alloc(&more, 2 * d->capacity, sizeof *more, "vectors on an OpenCL device"));
	memcpy(more, d->blocks, (size_t)d->count * sizeof *more);
	mem_free(d->blocks);
	d->blocks = more;
	d->capacity *= 2;
	return TOMOS_OK;
}

static tomos_status reserve(OpenclBlock *block, const char *what)
{
	void *start = mmap(
		NULL, block->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (start == MAP_FAILED)
		return fail(TOMOS_NO_MEMORY, "no addresses for %s: %.2f GiB wanted", what,
			gib((int64_t)block->bytes));
	block->start = start;
	return TOMOS_OK;
}

static tomos_status alloc_locked(OpenclDevice *d, OpenclBlock *block, const char *what)
{
	TRY(make_room(d));
	TRY(buffer_locked(d, block->bytes, &block->memory, what));
	tomos_status status = reserve(block, what);
	if (status != TOMOS_OK) {
		buffer_release_locked(d, block->memory);
		return status;
	}
	int64_t at = block_at(d, block->start);
	memmove(d->blocks + at + 1, d->blocks + at, (size_t)(d->count - at) * sizeof *d->blocks);
	d->blocks[at] = *block;
	d->count++;
	return TOMOS_OK;
}

static tomos_status opencl_alloc(tomos_backend *b, float **data, int64_t count, const char *what)
{
	OpenclDevice *d = device_of(b);
	OpenclBlock block = {NULL, (size_t)max64(count, 1) * sizeof(float), NULL};
	*data = NULL;
	pthread_mutex_lock(&d->lock);
	tomos_status status = alloc_locked(d, &block, what);
	pthread_mutex_unlock(&d->lock);
	if (status == TOMOS_OK)
		*data = (float *)(uintptr_t)block.start;
	return status;
}

void opencl_release(tomos_backend *b, float *data)
{
	OpenclDevice *d = device_of(b);
	if (!data)
		return;
	pthread_mutex_lock(&d->lock);
	int64_t at = block_at(d, (const char *)data);
	if (at < d->count && d->blocks[at].start == (const char *)data) {
		munmap(data, d->blocks[at].bytes);
		buffer_release_locked(d, d->blocks[at].memory);
		d->count--;
		memmove(d->blocks + at, d->blocks + at + 1,
			(size_t)(d->count - at) * sizeof *d->blocks);
	}
	pthread_mutex_unlock(&d->lock);
}

tomos_status opencl_place(tomos_backend *backend, const float *data, OpenclPlace *place)
{
	OpenclDevice *d = device_of(backend);
	const char *address = (const char *)data;
	*place = (OpenclPlace){NULL, 0};
	if (!data)
		return TOMOS_OK;
	pthread_mutex_lock(&d->lock);
	int64_t at = block_at(d, address);
	bool known = at < d->count && address >= d->blocks[at].start;
	if (known)
		*place = (OpenclPlace){d->blocks[at].memory,
			(address - d->blocks[at].start) / (int64_t)sizeof(float)};
	pthread_mutex_unlock(&d->lock);
	return known ? TOMOS_OK : fail(TOMOS_BAD_VALUE, "a vector is not on the OpenCL device");
}

/* ---- transfers ---------------------------------------------------------------------------- */

static tomos_status move(
	OpenclDevice *d, const OpenclPlace *place, int64_t at, void *host, size_t bytes, bool out)
{
	size_t from = (size_t)(place->at + at) * sizeof(float);
	OPENCL_TRY(out ? clEnqueueReadBuffer(
				 d->queue, place->memory, CL_TRUE, from, bytes, host, 0, NULL, NULL)
		       : clEnqueueWriteBuffer(d->queue, place->memory, CL_TRUE, from, bytes, host,
				 0, NULL, NULL),
		"a transfer");
	return TOMOS_OK;
}

tomos_status opencl_send(tomos_backend *backend, float *device, const void *host, size_t bytes)
{
	OpenclPlace place;
	TRY(opencl_place(backend, device, &place));
	device_of(backend)->counts.transfers++;
	return move(device_of(backend), &place, 0, (void *)(uintptr_t)host, bytes, false);
}

tomos_status opencl_receive(tomos_backend *backend, const float *device, void *host, size_t bytes)
{
	OpenclPlace place;
	TRY(opencl_place(backend, device, &place));
	device_of(backend)->counts.transfers++;
	return move(device_of(backend), &place, 0, host, bytes, true);
}

static tomos_status move_stage(OpenclDevice *d, const OpenclPlace *place, const tomos_array *host,
	int64_t at, int64_t count, bool out)
{
	if (!out)
		pack_copy(host, d->stage, at, count, false);
	TRY(move(d, place, at, d->stage, (size_t)count * sizeof(float), out));
	if (out)
		pack_copy(host, d->stage, at, count, true);
	return TOMOS_OK;
}

static tomos_status move_stages(
	OpenclDevice *d, const OpenclPlace *place, const tomos_array *host, bool out)
{
	int64_t total = host->shape[0] * host->shape[1] * host->shape[2];
	tomos_status status = TOMOS_OK;
	pthread_mutex_lock(&d->lock); /* of the staging buffer */
	for (int64_t at = 0; at < total && status == TOMOS_OK; at += STAGE_FLOATS)
		status = move_stage(d, place, host, at, min64(STAGE_FLOATS, total - at), out);
	pthread_mutex_unlock(&d->lock);
	return status;
}

static tomos_status transfer(tomos_backend *b, const float *data, const tomos_array *host, bool out)
{
	OpenclDevice *d = device_of(b);
	OpenclPlace place;
	int64_t total = host->shape[0] * host->shape[1] * host->shape[2];
	TRY(opencl_place(b, data, &place));
	d->counts.transfers++;
	return pack_is_contiguous(host)
		       ? move(d, &place, 0, host->data, (size_t)total * sizeof(float), out)
		       : move_stages(d, &place, host, out);
}

static tomos_status opencl_upload(tomos_backend *b, float *data, const tomos_array *host)
{
	return transfer(b, data, host, false);
}

static tomos_status opencl_download(tomos_backend *b, const float *data, const tomos_array *host)
{
	return transfer(b, data, host, true);
}

/* There is one queue, so a copy is complete when it returns. */
static tomos_status opencl_copy_begin(tomos_backend *b, CopyDirection direction, int slot,
	void *device, void *host, int64_t bytes)
{
	OpenclDevice *d = device_of(b);
	OpenclPlace place;
	struct timespec start, end;
	TRY(opencl_place(b, device, &place));
	clock_gettime(CLOCK_MONOTONIC, &start);
	TRY(move(d, &place, 0, host, (size_t)bytes, direction == COPY_DOWNLOAD));
	clock_gettime(CLOCK_MONOTONIC, &end);
	d->copied[direction][slot] =
		(double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
	return TOMOS_OK;
}

static tomos_status opencl_copy_end(
	tomos_backend *b, CopyDirection direction, int slot, double *seconds)
{
	*seconds += device_of(b)->copied[direction][slot];
	return TOMOS_OK;
}

/* Arrays of this backend; those of another one may have the same device number, but not its
 * addresses. */
static float *opencl_direct_pointer(tomos_backend *b, const tomos_array *array)
{
	OpenclPlace place;
	if (array->device != b->device || !pack_is_contiguous(array))
		return NULL;
	return opencl_place(b, array->data, &place) == TOMOS_OK ? array->data : NULL;
}

static tomos_status opencl_sync(tomos_backend *b)
{
	device_of(b)->counts.waits++;
	OPENCL_TRY(clFinish(device_of(b)->queue), "its work");
	return TOMOS_OK;
}

/* Runs plan with 0.8 of it, most of which may be the scratch memory of the preparation, in one
 * allocation. */
static tomos_status opencl_free_bytes(tomos_backend *b, int64_t *bytes)
{
	OpenclDevice *d = device_of(b);
	pthread_mutex_lock(&d->lock);
	*bytes = max64(0, min64(d->all / max64(1, d->sharers) - d->held, d->most + d->most / 4));
	pthread_mutex_unlock(&d->lock);
	return TOMOS_OK;
}

static BackendCounts opencl_counts(const tomos_backend *backend)
{
	return device_of(backend)->counts;
}

const BackendMemory opencl_memory = {BACKEND_MEMORY(opencl), .copy_begin = opencl_copy_begin,
	.copy_end = opencl_copy_end, .free_bytes = opencl_free_bytes, .counts = opencl_counts};
