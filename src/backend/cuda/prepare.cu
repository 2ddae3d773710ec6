/* Preparation on the GPU: lists, report, and the table of its kernels. */
#include "backend/cuda/prep.h"

static tomos_status send(tomos_backend *b, void *device, const void *host, int64_t bytes)
{
	CUDA_TRY(cudaMemcpyAsync(
			 device, host, (size_t)bytes, cudaMemcpyHostToDevice, device_of(b)->stream),
		"sending lists of the preparation");
	return TOMOS_OK;
}

static tomos_status collect(tomos_backend *b, PrepWork *w, unsigned long long found[FOUND_KINDS])
{
	const size_t bytes = FOUND_KINDS * sizeof *found;
	CudaDevice *d = device_of(b);
	pthread_mutex_lock(&d->lock);
	d->counts.waits++;
	tomos_status status = cuda_read_small(d, w->found, bytes, found, "the preparation");
	pthread_mutex_unlock(&d->lock);
	TRY(status);
	CUDA_TRY(cudaMemsetAsync(w->found, 0, bytes, d->stream), "clearing a list");
	return TOMOS_OK;
}

static void release(tomos_backend *b, PrepWork *work, void *const *held, int count)
{
	CudaPrep *w = (CudaPrep *)work;
	(void)cudaSetDevice(device_of(b)->number);
	for (int i = 0; i < count; i++)
		cudaFree(held[i]);
	cudaFree(w->area);
	if (w->has_forth)
		cufftDestroy(w->forth);
	if (w->has_back)
		cufftDestroy(w->back);
	(void)cudaGetLastError();
}

const PrepDevice module_prepare = {
	.bytes = sizeof(CudaPrep),
	.batch = PREP_BATCH,
	.most_sorted = 1 << 13,
	.phase_area = true, /* cuFFT's */
	.phase = &cuda_prep_phase,
	.rings = {NULL, &cuda_prep_vo, &cuda_prep_wavelet, &cuda_prep_titarenko},
	.use = cuda_use,
	.send = send,
	.collect = collect,
	.release = release,
	.rows_floats = cuda_prep_rows_floats,
	.convert = cuda_prep_convert,
	.average = cuda_prep_average,
	.normalize = cuda_prep_normalize,
	.repair = cuda_prep_repair,
	.points = cuda_prep_points,
	.bridge = cuda_prep_bridge,
	.zingers = cuda_prep_zingers,
	.shift = cuda_prep_shift,
	.bin = cuda_prep_bin,
	.copy = cuda_prep_copy,
};
