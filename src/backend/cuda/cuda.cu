/* A card as a backend: opening it, its memory, and the way between callers' arrays and it. */
#include "backend/cuda/cuda.h"

enum { STAGE_FLOATS = 8 << 20, SCRATCH_FLOATS = 512 << 20, FILTER_FLOATS = 128 << 20 };

tomos_status cuda_failed(cudaError_t error, const char *doing)
{
	tomos_status status =
		error == cudaErrorMemoryAllocation ? TOMOS_NO_MEMORY : TOMOS_NO_DEVICE;
	cudaGetLastError(); /* a failure that is not final must not be met again */
	return fail(status, "the card failed at %s: %s", doing, cudaGetErrorString(error));
}

tomos_status cuda_use(const tomos_backend *backend)
{
	CUDA_TRY(cudaSetDevice(device_of(backend)->number), "choosing it");
	return TOMOS_OK;
}

/* ---- opening ------------------------------------------------------------------------------ */

static tomos_status parse_number(const char *argument, int count, int *number)
{
	enum { LONGEST_NUMBER = 9 };
	size_t digits = strspn(argument, "0123456789");
	*number = 0;
	if (argument[digits] || digits > LONGEST_NUMBER)
		return fail(TOMOS_BAD_VALUE, "cuda:%s: a card is named by its number, as cuda:0",
			argument);
	for (size_t i = 0; i < digits; i++)
		*number = 10 * *number + (argument[i] - '0');
	if (*number >= count)
		return fail(TOMOS_NO_DEVICE,
			"there is no card %d: the driver has %d, counted from 0", *number, count);
	return TOMOS_OK;
}

static tomos_status make_parts(CudaDevice *d)
{
	CUDA_TRY(cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking), "making a stream");
	CUDA_TRY(cudaMalloc((void **)&d->partial, SUM_BLOCKS * sizeof(double)), "opening it");
	CUDA_TRY(cudaHostAlloc((void **)&d->total, sizeof(double), cudaHostAllocMapped),
		"opening it");
	CUDA_TRY(cudaHostGetDevicePointer((void **)&d->total_there, d->total, 0), "opening it");
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
	if (cudaSetDevice(d->number) == cudaSuccess) {
		for (int i = 0; i < STAGES; i++) {
			cudaFreeHost(d->stage[i]);
			if (d->staged[i])
				cudaEventDestroy(d->staged[i]);
		}
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
	}
	pthread_mutex_destroy(&d->lock);
	pthread_mutex_destroy(&d->queue.lock);
	mem_free(d);
}

static tomos_status cuda_open(tomos_backend *backend, const char *argument)
{
	int count = 0, number;
	cudaError_t error = cudaGetDeviceCount(&count);
	if (error != cudaSuccess || count == 0)
		return fail(TOMOS_NO_DEVICE, "there is no NVIDIA card to use: %s",
			error != cudaSuccess ? cudaGetErrorString(error) : "the driver has none");
	TRY(parse_number(argument, count, &number));
	cudaDeviceProp about;
	CUDA_TRY(cudaSetDevice(number), "choosing it");
	CUDA_TRY(cudaGetDeviceProperties(&about, number), "asking it");
	CudaDevice *d;
	TRY(mem_zeroed(&d, 1, sizeof *d, "a card"));
	d->number = number;
	d->processors = about.multiProcessorCount;
	const int64_t floats =
		(int64_t)(about.totalGlobalMem / sizeof(float)); /* beside the data: */
	d->scratch_most = min64(SCRATCH_FLOATS, floats / 8);
	d->filter_most = min64(FILTER_FLOATS, floats / 32);
	d->turned_most = INT64_MAX;
	pthread_mutex_init(&d->lock, NULL);
	pthread_mutex_init(&d->queue.lock, NULL);
	backend->own = d;
	backend->device = number + 1;
	backend->near =
		(int64_t)about.sharedMemPerBlockOptin - CUDA_WAVES * (int64_t)sizeof(KernelWave);
	snprintf(backend->description, sizeof backend->description,
		"cuda:%d (%.60s, %d processors, %.0f GiB)", number, about.name, d->processors,
		(double)about.totalGlobalMem / (1 << 30));
	snprintf(backend->model, sizeof backend->model, "%.60s, %d processors", about.name,
		d->processors);
	cuda_driver(backend->driver, sizeof backend->driver);
	tomos_status status = make_parts(d);
	if (status != TOMOS_OK)
		cuda_close(backend);
	return status;
}

/* ---- memory ------------------------------------------------------------------------------- */

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
			"no memory on the card for %s: %.2f GiB wanted, %.2f of %.2f GiB are free; "
			"with a limit (--memory) it works in pieces",
			what, (double)count * sizeof(float) / (1 << 30),
			(double)free_bytes / (1 << 30), (double)all / (1 << 30));
	}
	return error == cudaSuccess ? TOMOS_OK : cuda_failed(error, "taking memory");
}

static tomos_status cuda_room(tomos_backend *b, int64_t *bytes)
{
	size_t free_bytes = 0, all = 0;
	TRY(cuda_use(b));
	CUDA_TRY(cudaMemGetInfo(&free_bytes, &all), "asking for its memory");
	*bytes = (int64_t)free_bytes;
	return TOMOS_OK;
}

static bool make_stream(cudaStream_t *stream, int priority)
{
	return cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, priority) == cudaSuccess;
}

/* It works without. */
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

/* What kernels keep, where it is more than they may. */
static void give_back(tomos_backend *b)
{
	CudaDevice *d = device_of(b);
	int64_t kept = 0;
	for (int i = 0; i < SCRATCHES; i++)
		kept += d->scratch[i].count;
	if (kept <= d->turned_most || cuda_use(b) != TOMOS_OK)
		return;
	for (int i = 0; i < SCRATCHES; i++) {
		cudaFree(d->scratch[i].data);
		d->scratch[i] = (CudaScratch){NULL, 0};
	}
}

static void cuda_limit(tomos_backend *b, int64_t floats, tomos_backend *first)
{
	CudaDevice *d = device_of(b);
	d->filter_most = min64(floats / 6, FILTER_FLOATS);
	d->turned_most = floats - d->filter_most;
	d->scratch_most = min64(d->turned_most, SCRATCH_FLOATS);
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
	if (cuda_use(b) == TOMOS_OK)
		cudaFree(data);
}

/* That a block may have on the current card. */
static int most_shared(void)
{
	int card, most = 0;
	return cudaGetDevice(&card) == cudaSuccess &&
			       cudaDeviceGetAttribute(&most,
				       cudaDevAttrMaxSharedMemoryPerBlockOptin, card) == cudaSuccess
		       ? most
		       : 0;
}

bool cuda_has_shared(int bytes)
{
	return bytes <= most_shared();
}

tomos_status cuda_take_shared(const void *kernel)
{
	cudaFuncAttributes about;
	CUDA_TRY(cudaFuncGetAttributes(&about, kernel), "taking shared memory");
	CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
			 most_shared() - (int)about.sharedSizeBytes),
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

static tomos_status cuda_sync(tomos_backend *b)
{
	TRY(cuda_use(b));
	device_of(b)->counts.waits++;
	CUDA_TRY(cudaStreamSynchronize(device_of(b)->stream), "its work");
	return TOMOS_OK;
}

/* ---- callers' arrays ---------------------------------------------------------------------- */

static tomos_status make_stages(CudaDevice *d)
{
	for (int i = 0; i < STAGES; i++)
		if (!d->stage[i]) /* the first may be there from a call that had no second */
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

/* While one stage is copied on, the other is being filled. */
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
	cudaGetLastError(); /* memory that the card does not know is no failure */
	return pinned;
}

/* Planes of lines at equal distances, all of them in pinned memory. */
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
	cudaPitchedPtr there = make_cudaPitchedPtr(data, wide, wide, (size_t)a->shape[1]);
	cudaPitchedPtr here = make_cudaPitchedPtr(
		a->data, (size_t)a->stride[1] * size, wide, (size_t)(a->stride[0] / a->stride[1]));
	cudaMemcpy3DParms copy = {};
	copy.srcPtr = out ? there : here;
	copy.dstPtr = out ? here : there;
	copy.extent = make_cudaExtent(wide, (size_t)a->shape[1], (size_t)a->shape[0]);
	copy.kind = out ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
	return cudaMemcpy3DAsync(&copy, d->stream);
}

/* Without stages; false: it must go through them. */
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
		if (a->stride[1] == a->shape[2]) /* whole lines, many in one */
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

static tomos_status cuda_put(tomos_backend *b, float *data, const tomos_array *host)
{
	return transfer(b, data, host, false);
}

static tomos_status cuda_get(tomos_backend *b, const float *data, const tomos_array *host)
{
	return transfer(b, (float *)data, host, true);
}

static tomos_status cuda_put_ahead(tomos_backend *b, float *data, const tomos_array *host)
{
	CudaDevice *d = device_of(b);
	if (!d->ahead)
		return cuda_put(b, data, host);
	TRY(cuda_use(b));
	pthread_mutex_lock(&d->lock);
	tomos_status status = cuda_ahead_begin(b, false);
	if (status == TOMOS_OK)
		status = move(b, data, host, false);
	tomos_status ended = cuda_ahead_end(b);
	pthread_mutex_unlock(&d->lock);
	return status == TOMOS_OK ? ended : status;
}

/* Memory is held by pages, which allocators share out among small arrays: who sends one of those and frees it
 * at once relies on its being copied. */
static const int64_t hold_least = (int64_t)32 << 20;

static tomos_status cuda_hold(tomos_backend *b, float *data, int64_t count)
{
	if (count * (int64_t)sizeof *data <= hold_least)
		return fail(TOMOS_BAD_VALUE, "an array of %lld values shares its pages",
			(long long)count);
	TRY(cuda_use(b));
	CUDA_TRY(cudaHostRegister(data, (size_t)count * sizeof(float), cudaHostRegisterPortable),
		"holding an array in place");
	return TOMOS_OK;
}

static void cuda_let_go(tomos_backend *b, float *data)
{
	if (cuda_use(b) == TOMOS_OK)
		cudaHostUnregister(data);
	cudaGetLastError();
}

/* Whoever fills an array on the card does so in a stream of its own: all of them are waited for. */
static float *cuda_in_place(tomos_backend *b, const tomos_array *array)
{
	if (array->device != b->device || !pack_is_contiguous(array))
		return NULL;
	if (cuda_use(b) != TOMOS_OK || cudaDeviceSynchronize() != cudaSuccess)
		return NULL;
	return array->data;
}

/* ---- plans -------------------------------------------------------------------------------- */

static void plan_release(tomos_backend *backend, void *data)
{
	CudaPlan *kept = (CudaPlan *)data;
	if (cuda_use(backend) == TOMOS_OK) {
		cudaFree(kept->views);
		for (int i = 0; i < KEPT_SLOTS; i++)
			cudaFree(kept->slots[i]);
	}
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

tomos_status cuda_plan(tomos_backend *backend, const Plan *plan, const CudaPlan **kept)
{
	PlanKeep *keep = plan->keep;
	if (keep->data && keep->owner != backend) {
		keep->release(keep->owner, keep->data);
		keep->data = NULL;
	}
	if (!keep->data) {
		CudaPlan *made;
		TRY(mem_zeroed(&made, 1, sizeof *made, "the views"));
		tomos_status status = plan_send(backend, plan, made);
		if (status != TOMOS_OK) {
			plan_release(backend, made);
			return status;
		}
		*keep = (PlanKeep){backend, made, plan_release};
	}
	*kept = (const CudaPlan *)keep->data;
	return TOMOS_OK;
}

static BackendCounts cuda_counts(const tomos_backend *backend)
{
	return device_of(backend)->counts;
}

static tomos_status send_slot(tomos_backend *backend, const void *here, size_t bytes, void **there)
{
	void *taken;
	device_of(backend)->counts.allocations++;
	CUDA_TRY(cudaMalloc(&taken, bytes), "taking memory for the views");
	cudaError_t error = cudaMemcpyAsync(
		taken, here, bytes, cudaMemcpyHostToDevice, device_of(backend)->stream);
	if (error != cudaSuccess) {
		cudaFree(taken);
		return cuda_failed(error, "sending the views");
	}
	*there = taken;
	return TOMOS_OK;
}

tomos_status cuda_kept(tomos_backend *backend, const Plan *plan, int slot, size_t size,
	void (*make)(const Plan *plan, int64_t view, const void *user, void *place),
	const void *user, const void **there)
{
	const CudaPlan *kept;
	TRY(cuda_plan(backend, plan, &kept));
	void **place = &((CudaPlan *)kept)->slots[slot];
	tomos_status status = TOMOS_OK;
	if (!*place) {
		char *here;
		int64_t count = plan->scan->count;
		TRY(mem_alloc(&here, count, size, "the views"));
		for (int64_t i = 0; i < count; i++)
			make(plan, i, user, here + (size_t)i * size);
		status = send_slot(backend, here, (size_t)count * size, place);
		mem_free(here);
	}
	*there = *place;
	return status;
}

extern "C" {
extern const BackendType module_backend;
const BackendType module_backend = {
	.name = "cuda",
	.chunk = 512 << 20,
	.open = cuda_open,
	.close = cuda_close,
	.alloc = cuda_alloc,
	.release = cuda_release,
	.put = cuda_put,
	.put_ahead = cuda_put_ahead,
	.get = cuda_get,
	.in_place = cuda_in_place,
	.hold = cuda_hold,
	.let_go = cuda_let_go,
	.project = cuda_project,
	.filter_open = cuda_filter_open,
	.filter_close = cuda_filter_close,
	.filter = cuda_filter,
	.filter_ahead = cuda_filter_ahead,
	.sync = cuda_sync,
	.limit = cuda_limit,
	.room = cuda_room,
	.row = NULL,
	.power = cuda_power,
	.back_step = cuda_back_step,
	.compare = cuda_compare,
	.fill = cuda_fill,
	.axpy = cuda_axpy,
	.xpay = cuda_xpay,
	.mul = cuda_mul,
	.mul_axpy = cuda_mul_axpy,
	.invert = cuda_invert,
	.clamp = cuda_clamp,
	.dot = cuda_dot,
	.copy = cuda_copy,
	.scale = cuda_scale,
	.root = cuda_root,
	.inside = cuda_inside,
	.ratio = cuda_ratio,
	.soft = cuda_soft,
	.step = cuda_step,
	.residual = cuda_residual,
	.distance = cuda_distance,
	.shorten = cuda_shorten,
	.unit = cuda_unit,
	.largest = cuda_largest,
	.gather = NULL,
	.scatter = NULL,
	.gradient = cuda_gradient,
	.gradient_adjoint = cuda_gradient_adjoint,
	.csr = cuda_csr,
	.scsr = cuda_scsr,
	.list = cuda_list,
	.csr_list = cuda_csr_list,
	.scsr_list = cuda_scsr_list,
	.weigh = cuda_weigh,
	.visit = cuda_visit,
	.settle = cuda_settle,
	.counts = cuda_counts,
	.machine = cuda_machine,
	.choices = cuda_choices,
	.knows = cuda_knows,
};
}
