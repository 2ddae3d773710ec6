/* Transfers between host arrays and the device, and the device data of plans. */
#include "backend/cuda/crop.h"
#include "backend/cuda/kernels/hat.h"

enum { STAGE_FLOATS = 4 << 20 };

/* ---- callers' arrays ------------------------------------------------------------------------- */

static __global__ void small_kernel(int words, const uint32_t *from, uint32_t *to)
{
	for (int i = (int)threadIdx.x; i < words; i += (int)blockDim.x)
		to[i] = from[i];
}

tomos_status cuda_read_small(
	CudaDevice *d, const void *device, size_t bytes, void *host, const char *what)
{
	small_kernel<<<1, 512, 0, d->stream>>>((int)(bytes / sizeof(uint32_t)),
		(const uint32_t *)device, (uint32_t *)(void *)d->total_device);
	CUDA_LAUNCHED(what);
	CUDA_TRY(cudaStreamSynchronize(d->stream), what);
	memcpy(host, d->total, bytes);
	return TOMOS_OK;
}

static tomos_status make_stages(CudaDevice *d)
{
	for (int i = 0; i < STAGES; i++)
		if (!d->stage[i]) /* an earlier call may have failed after the first */
			CUDA_TRY(
				cudaMallocHost((void **)&d->stage[i], STAGE_FLOATS * sizeof(float)),
				"taking memory for transfers");
	return TOMOS_OK;
}

static tomos_status stages_in(CudaDevice *d, float *data, const tomos_array *host, int64_t total)
{
	int i = 0;
	for (int64_t at = 0; at < total; at += STAGE_FLOATS, i = (i + 1) % STAGES) {
		int64_t count = min64(STAGE_FLOATS, total - at);
		CUDA_TRY(cudaEventSynchronize(d->staged[i]), "a transfer");
		pack_copy(host, d->stage[i], at, count, false);
		CUDA_TRY(cudaMemcpyAsync(data + at, d->stage[i], (size_t)count * sizeof(float),
				 cudaMemcpyHostToDevice, d->stream),
			"a transfer");
		CUDA_TRY(cudaEventRecord(d->staged[i], d->stream), "a transfer");
	}
	return TOMOS_OK;
}

static tomos_status stage_out(CudaDevice *d, const float *data, int64_t at, int64_t total, int i)
{
	if (at >= total)
		return TOMOS_OK;
	CUDA_TRY(cudaMemcpyAsync(d->stage[i], data + at,
			 (size_t)min64(STAGE_FLOATS, total - at) * sizeof(float),
			 cudaMemcpyDeviceToHost, d->stream),
		"a transfer");
	CUDA_TRY(cudaEventRecord(d->staged[i], d->stream), "a transfer");
	return TOMOS_OK;
}

/* Downloads through the staging buffers: while one is copied to the host array, the other is
 * filled. */
static tomos_status stages_out(
	CudaDevice *d, const float *data, const tomos_array *host, int64_t total)
{
	int i = 0;
	TRY(stage_out(d, data, 0, total, 0));
	for (int64_t at = 0; at < total; at += STAGE_FLOATS, i = (i + 1) % STAGES) {
		TRY(stage_out(d, data, at + STAGE_FLOATS, total, (i + 1) % STAGES));
		CUDA_TRY(cudaEventSynchronize(d->staged[i]), "a transfer");
		pack_copy(host, d->stage[i], at, min64(STAGE_FLOATS, total - at), true);
	}
	return TOMOS_OK;
}

static bool is_pinned(const float *data)
{
	cudaPointerAttributes about;
	bool pinned = cudaPointerGetAttributes(&about, data) == cudaSuccess &&
		      about.type == cudaMemoryTypeHost;
	cudaGetLastError(); /* an ordinary host address is no error */
	return pinned;
}

/* Whether an array can be copied directly: contiguous lines with constant strides between lines
 * and planes, in pinned memory. */
static bool is_straight(const tomos_array *a)
{
	const int64_t *n = a->shape, *stride = a->stride;
	int64_t last = (n[0] - 1) * stride[0] + (n[1] - 1) * stride[1] + n[2] - 1;
	return stride[2] == 1 && stride[1] >= n[2] && stride[0] >= n[1] * stride[1] &&
	       stride[0] % stride[1] == 0 && is_pinned(a->data) && is_pinned(a->data + last);
}

static cudaError_t copy_planes(CudaDevice *d, float *data, const tomos_array *a, bool out)
{
	const size_t size = sizeof(float), wide = (size_t)a->shape[2] * size;
	cudaPitchedPtr device = make_cudaPitchedPtr(data, wide, wide, (size_t)a->shape[1]);
	cudaPitchedPtr host = make_cudaPitchedPtr(
		a->data, (size_t)a->stride[1] * size, wide, (size_t)(a->stride[0] / a->stride[1]));
	cudaMemcpy3DParms copy = {};
	copy.srcPtr = out ? device : host;
	copy.dstPtr = out ? host : device;
	copy.extent = make_cudaExtent(wide, (size_t)a->shape[1], (size_t)a->shape[0]);
	copy.kind = out ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
	return cudaMemcpy3DAsync(&copy, d->stream);
}

/* Copies directly; false if the copy must use the staging buffers. */
static bool copy_straight(CudaDevice *d, float *data, const tomos_array *a, bool out)
{
	if (!is_straight(a))
		return false;
	size_t bytes = (size_t)(a->shape[0] * a->shape[1] * a->shape[2]) * sizeof(float);
	cudaError_t error;
	if (pack_is_contiguous(a)) {
		error = cudaMemcpyAsync(out ? a->data : data, out ? data : a->data, bytes,
			out ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, d->stream);
	} else {
		tomos_array lines = *a;
		if (a->stride[1] == a->shape[2]) /* contiguous planes: one line each */
			lines = (tomos_array){a->data, {1, a->shape[0], a->shape[1] * a->shape[2]},
				{a->shape[0] * a->stride[0], a->stride[0], 1}, a->device};
		error = copy_planes(d, data, &lines, out);
	}
	cudaGetLastError();
	return error == cudaSuccess;
}

static tomos_status move(tomos_backend *b, float *data, const tomos_array *host, bool out)
{
	CudaDevice *d = device_of(b);
	int64_t total = host->shape[0] * host->shape[1] * host->shape[2];
	d->counts.transfers++;
	if (out && total <= SMALL_BYTES / (int64_t)sizeof(float) && pack_is_contiguous(host))
		return cuda_read_small(
			d, data, (size_t)total * sizeof(float), host->data, "a transfer");
	if (copy_straight(d, data, host, out))
		return cuda_sync(b);
	TRY(make_stages(d));
	return out ? stages_out(d, data, host, total) : stages_in(d, data, host, total);
}

static tomos_status transfer(tomos_backend *b, float *data, const tomos_array *host, bool out)
{
	TRY(cuda_use(b));
	pthread_mutex_lock(&device_of(b)->lock);
	tomos_status status = move(b, data, host, out);
	pthread_mutex_unlock(&device_of(b)->lock);
	return status;
}

tomos_status cuda_upload(tomos_backend *b, float *data, const tomos_array *host)
{
	return transfer(b, data, host, false);
}

tomos_status cuda_download(tomos_backend *b, const float *data, const tomos_array *host)
{
	return transfer(b, (float *)data, host, true);
}

tomos_status cuda_upload_overlapped(tomos_backend *b, float *data, const tomos_array *host)
{
	CudaDevice *d = device_of(b);
	if (!d->ahead)
		return cuda_upload(b, data, host);
	TRY(cuda_use(b));
	pthread_mutex_lock(&d->lock);
	tomos_status status = cuda_ahead_begin(b, false);
	if (status == TOMOS_OK)
		status = move(b, data, host, false);
	tomos_status ended = cuda_ahead_end(b);
	pthread_mutex_unlock(&d->lock);
	return status == TOMOS_OK ? ended : status;
}

/* Least size for pinning, in bytes. Pinning acts on whole pages, which small arrays share with
 * other data, and a small array may be freed right after its transfer was queued; so small arrays
 * are copied. */
static const int64_t hold_least = (int64_t)32 << 20;

tomos_status cuda_pin(tomos_backend *b, float *data, int64_t count)
{
	if (count * (int64_t)sizeof *data <= hold_least)
		return fail(TOMOS_BAD_VALUE, "an array of %lld values shares its pages",
			(long long)count);
	TRY(cuda_use(b));
	CUDA_TRY(cudaHostRegister(data, (size_t)count * sizeof(float), cudaHostRegisterPortable),
		"holding an array in place");
	return TOMOS_OK;
}

void cuda_unpin(tomos_backend *b, float *data)
{
	(void)cudaSetDevice(device_of(b)->number);
	cudaHostUnregister(data);
	cudaGetLastError();
}

/* Pointer of a caller's device array, or NULL if a copy is needed. The caller may have filled it
 * in any stream, so this waits for all streams. */
float *cuda_direct_pointer(tomos_backend *b, const tomos_array *array)
{
	if (array->device != b->device || !pack_is_contiguous(array))
		return NULL;
	if (cuda_use(b) != TOMOS_OK || cudaDeviceSynchronize() != cudaSuccess)
		return NULL;
	return array->data;
}

/* ---- copies that overlap kernels ------------------------------------------------------------- */

static cudaError_t make_event(cudaEvent_t *event)
{
	return *event ? cudaSuccess : cudaEventCreateWithFlags(event, cudaEventBlockingSync);
}

static cudaError_t copy_locked(
	CudaCopies *c, CopyDirection direction, int slot, void *device, void *host, int64_t bytes)
{
	bool up = direction == COPY_UPLOAD;
	cudaError_t error = cudaSuccess;
	if (!c->stream)
		error = cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking);
	if (error == cudaSuccess)
		error = make_event(&c->begun[slot]);
	if (error == cudaSuccess)
		error = make_event(&c->ended[slot]);
	if (error == cudaSuccess)
		error = cudaEventRecord(c->begun[slot], c->stream);
	if (error == cudaSuccess)
		error = cudaMemcpyAsync(up ? device : host, up ? host : device, (size_t)bytes,
			up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, c->stream);
	if (error == cudaSuccess)
		error = cudaEventRecord(c->ended[slot], c->stream);
	return error;
}

tomos_status cuda_copy_begin(tomos_backend *b, CopyDirection direction, int slot, void *device,
	void *host, int64_t bytes)
{
	CudaCopies *c = &device_of(b)->copies[direction];
	TRY(cuda_use(b));
	pthread_mutex_lock(&c->lock);
	cudaError_t error = copy_locked(c, direction, slot, device, host, bytes);
	if (error != cudaSuccess && c->stream)
		cudaStreamSynchronize(c->stream); /* nothing may wait for this copy */
	pthread_mutex_unlock(&c->lock);
	CUDA_TRY(error, "a transfer");
	return TOMOS_OK;
}

tomos_status cuda_copy_end(tomos_backend *b, CopyDirection direction, int slot, double *seconds)
{
	CudaCopies *c = &device_of(b)->copies[direction];
	float milliseconds = 0;
	TRY(cuda_use(b));
	if (!c->ended[slot]) /* copy_begin failed */
		return TOMOS_OK;
	CUDA_TRY(cudaEventSynchronize(c->ended[slot]), "a transfer");
	/* After a copy that failed, the second event is that of an earlier one. */
	if (cudaEventElapsedTime(&milliseconds, c->begun[slot], c->ended[slot]) == cudaSuccess &&
		milliseconds > 0)
		*seconds += 1e-3 * (double)milliseconds;
	cudaGetLastError();
	return TOMOS_OK;
}

void cuda_copies_free(CudaDevice *d)
{
	for (int k = 0; k < COUNT(d->copies); k++) {
		CudaCopies *c = &d->copies[k];
		for (int i = 0; i < COPY_SLOTS; i++) {
			if (c->begun[i])
				cudaEventDestroy(c->begun[i]);
			if (c->ended[i])
				cudaEventDestroy(c->ended[i]);
		}
		if (c->stream)
			cudaStreamDestroy(c->stream);
		pthread_mutex_destroy(&c->lock);
	}
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* The data of a plan, and the part of the detector that it needs. */
typedef struct {
	CudaPlan plan;
	CudaCrop crop;
} Kept;

CudaCrop *cuda_crop_of(const CudaPlan *kept)
{
	return &((Kept *)kept)->crop;
}

static void plan_release(tomos_backend *backend, void *data)
{
	CudaPlan *kept = (CudaPlan *)data;
	cuda_crop_free(cuda_crop_of(kept));
	(void)cudaSetDevice(device_of(backend)->number);
	cudaFree(kept->views);
	for (int i = 0; i < KEPT_SLOTS; i++)
		cudaFree(kept->slots[i]);
	(void)cudaGetLastError();
	for (int i = 0; i < 4; i++)
		slices_plan_free(kept->slices[i / 2][i % 2]);
	mem_free(kept);
}

static tomos_status plan_send(tomos_backend *backend, const Plan *plan, CudaPlan *kept)
{
	size_t bytes = (size_t)plan->scan->count * sizeof *plan->views;
	device_of(backend)->counts.allocations++;
	CUDA_TRY(cudaMalloc((void **)&kept->views, bytes), "taking memory for the views");
	CUDA_TRY(cudaMemcpyAsync(kept->views, plan->views, bytes, cudaMemcpyHostToDevice,
			 device_of(backend)->stream),
		"sending the views");
	return TOMOS_OK;
}

/* Whether data in the cache are on the device of the backend. Several backends share a device when
 * a job is split, and any of them may get a piece that another one had in the previous call; to
 * free its data would wait for the whole device. */
static bool usable(const PlanCache *cache, tomos_backend *backend)
{
	return cache->release == plan_release &&
	       device_of(cache->owner)->number == device_of(backend)->number;
}

tomos_status cuda_plan(tomos_backend *backend, const Plan *plan, const CudaPlan **kept)
{
	PlanCache *cache = plan->cache;
	if (cache->data && !usable(cache, backend)) {
		cache->release(cache->owner, cache->data);
		cache->data = NULL;
	}
	cache->owner = backend;
	if (!cache->data) {
		Kept *made;
		TRY(mem_zeroed(&made, 1, sizeof *made, "the views"));
		tomos_status status = plan_send(backend, plan, &made->plan);
		if (status != TOMOS_OK) {
			plan_release(backend, made);
			return status;
		}
		*cache = (PlanCache){backend, made, plan_release};
	}
	*kept = (const CudaPlan *)cache->data;
	return TOMOS_OK;
}

static tomos_status send_slot(tomos_backend *backend, const void *host, size_t bytes, void **device)
{
	void *taken;
	device_of(backend)->counts.allocations++;
	CUDA_TRY(cudaMalloc(&taken, bytes), "taking memory for the views");
	cudaError_t error = cudaMemcpyAsync(
		taken, host, bytes, cudaMemcpyHostToDevice, device_of(backend)->stream);
	if (error != cudaSuccess) {
		cudaFree(taken);
		return cuda_failed(error, "sending the views");
	}
	*device = taken;
	return TOMOS_OK;
}

tomos_status cuda_kept(tomos_backend *backend, const Plan *plan, int slot, size_t size,
	void (*make)(const Plan *plan, int64_t view, const void *user, void *place),
	const void *user, const void **device)
{
	const CudaPlan *kept;
	TRY(cuda_plan(backend, plan, &kept));
	void **place = &((CudaPlan *)kept)->slots[slot];
	tomos_status status = TOMOS_OK;
	if (!*place) {
		char *host;
		int64_t count = plan->scan->count;
		TRY(mem_alloc(&host, count, size, "the views"));
		for (int64_t i = 0; i < count; i++)
			make(plan, i, user, host + (size_t)i * size);
		status = send_slot(backend, host, (size_t)count * size, place);
		mem_free(host);
	}
	*device = *place;
	return status;
}
