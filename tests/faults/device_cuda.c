/* The CUDA and cuFFT calls of the module, each of which can be made to fail. Every line that begins
 * with WRAP names a function that the linker replaces. A failed launch shows in cudaGetLastError
 * alone, as it does on a device. */
#include <cuda_runtime_api.h>
#include <cufft.h>
#include "device_calls.h"

static _Thread_local int last; /* as the library keeps it: for each thread */

static cudaError_t lose(cudaError_t error)
{
	last = (int)error;
	return error;
}

#define WRAP_CALL(name, list, arguments, made) \
	WRAP_RESULT(cudaError_t, name, list, arguments, made, cudaSuccess, \
		lose((made) > 0 ? cudaErrorMemoryAllocation : cudaErrorLaunchFailure))

WRAP_CALL(cudaMalloc, (void **data, size_t bytes), (data, bytes), 1)
WRAP_CALL(cudaMallocHost, (void **data, size_t bytes), (data, bytes), 1)
WRAP_CALL(cudaHostAlloc, (void **data, size_t bytes, unsigned flags), (data, bytes, flags), 1)
WRAP_CALL(cudaFree, (void *data), (data), data ? -1 : 0)
WRAP_CALL(cudaFreeHost, (void *data), (data), data ? -1 : 0)
WRAP_CALL(cudaHostRegister, (void *data, size_t bytes, unsigned flags), (data, bytes, flags), 1)
WRAP_CALL(cudaHostUnregister, (void *data), (data), -1)
WRAP_CALL(cudaHostGetDevicePointer, (void **there, void *data, unsigned flags),
	(there, data, flags), 0)
WRAP_CALL(cudaMemGetInfo, (size_t * free, size_t *all), (free, all), 0)
WRAP_CALL(cudaMemcpyAsync,
	(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream),
	(to, from, bytes, kind, stream), 0)
WRAP_CALL(cudaMemcpy3DAsync, (const struct cudaMemcpy3DParms *copy, cudaStream_t stream),
	(copy, stream), 0)
WRAP_CALL(cudaMemsetAsync, (void *data, int value, size_t bytes, cudaStream_t stream),
	(data, value, bytes, stream), 0)
WRAP_CALL(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags), (stream, flags), 1)
WRAP_CALL(cudaStreamCreateWithPriority, (cudaStream_t * stream, unsigned flags, int priority),
	(stream, flags, priority), 1)
WRAP_CALL(cudaStreamDestroy, (cudaStream_t stream), (stream), -1)
WRAP_CALL(cudaStreamSynchronize, (cudaStream_t stream), (stream), 0)
WRAP_CALL(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
	(stream, event, flags), 0)
WRAP_CALL(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags), (event, flags), 1)
WRAP_CALL(cudaEventDestroy, (cudaEvent_t event), (event), -1)
WRAP_CALL(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, stream), 0)
WRAP_CALL(cudaEventSynchronize, (cudaEvent_t event), (event), 0)
WRAP_CALL(cudaEventElapsedTime, (float *milliseconds, cudaEvent_t begin, cudaEvent_t end),
	(milliseconds, begin, end), 0)
WRAP_CALL(cudaDeviceSynchronize, (void), (), 0)
WRAP_CALL(cudaDeviceGetAttribute, (int *value, enum cudaDeviceAttr what, int device),
	(value, what, device), 0)
WRAP_CALL(cudaDeviceGetStreamPriorityRange, (int *least, int *greatest), (least, greatest), 0)
WRAP_CALL(cudaDeviceGetPCIBusId, (char *name, int room, int device), (name, room, device), 0)
WRAP_CALL(cudaDriverGetVersion, (int *version), (version), 0)
WRAP_CALL(cudaSetDevice, (int device), (device), 0)
WRAP_CALL(cudaGetDevice, (int *device), (device), 0)
WRAP_CALL(cudaGetDeviceCount, (int *count), (count), 0)
WRAP_CALL(cudaGetDeviceProperties, (struct cudaDeviceProp * about, int device), (about, device), 0)
WRAP_CALL(cudaPointerGetAttributes, (struct cudaPointerAttributes * about, const void *data),
	(about, data), 0)
WRAP_CALL(cudaFuncGetAttributes, (struct cudaFuncAttributes * about, const void *kernel),
	(about, kernel), 0)
WRAP_CALL(cudaFuncSetAttribute, (const void *kernel, enum cudaFuncAttribute what, int value),
	(kernel, what, value), 0)
WRAP_CALL(cudaCreateTextureObject,
	(cudaTextureObject_t * texture, const struct cudaResourceDesc *data,
		const struct cudaTextureDesc *reading, const struct cudaResourceViewDesc *view),
	(texture, data, reading, view), 1)
WRAP_CALL(cudaDestroyTextureObject, (cudaTextureObject_t texture), (texture), -1)
#if CUDART_VERSION >= 12050
WRAP_CALL(cudaGetDriverEntryPointByVersion,
	(const char *name, void **found, unsigned version, unsigned long long flags,
		enum cudaDriverEntryPointQueryResult *result),
	(name, found, version, flags, result), 0)
#endif
/* Which of the two a launch becomes is up to the compiler's version. */
WRAP_CALL(cudaLaunchKernel,
	(const void *kernel, dim3 grid, dim3 block, void **list, size_t bytes, cudaStream_t stream),
	(kernel, grid, block, list, bytes, stream), 0)
#if CUDART_VERSION >= 13000
WRAP_CALL(__cudaLaunchKernel,
	(cudaKernel_t kernel, dim3 grid, dim3 block, void **list, size_t bytes,
		cudaStream_t stream),
	(kernel, grid, block, list, bytes, stream), 0)
#endif

#define WRAP_LAST(name) \
	cudaError_t __real_##name(void); \
	cudaError_t __wrap_##name(void); \
	cudaError_t __wrap_##name(void) \
	{ \
		cudaError_t error = __real_##name(); \
		int lost = last; \
		last = 0; \
		return lost ? (cudaError_t)lost : error; \
	}
WRAP_LAST(cudaGetLastError)

#define WRAP_FFT(name, list, arguments, made) \
	WRAP_RESULT(cufftResult, name, list, arguments, made, CUFFT_SUCCESS, CUFFT_EXEC_FAILED)
WRAP_FFT(cufftPlan1d, (cufftHandle * plan, int size, cufftType type, int batch),
	(plan, size, type, batch), 1)
WRAP_FFT(cufftPlanMany,
	(cufftHandle * plan, int rank, int *n, int *inembed, int istride, int idist, int *onembed,
		int ostride, int odist, cufftType type, int batch),
	(plan, rank, n, inembed, istride, idist, onembed, ostride, odist, type, batch), 1)
WRAP_FFT(cufftCreate, (cufftHandle * plan), (plan), 1)
WRAP_FFT(cufftSetAutoAllocation, (cufftHandle plan, int itself), (plan, itself), 0)
WRAP_FFT(cufftMakePlanMany,
	(cufftHandle plan, int rank, int *n, int *inembed, int istride, int idist, int *onembed,
		int ostride, int odist, cufftType type, int batch, size_t *area),
	(plan, rank, n, inembed, istride, idist, onembed, ostride, odist, type, batch, area), 0)
WRAP_FFT(cufftSetWorkArea, (cufftHandle plan, void *area), (plan, area), 0)
WRAP_FFT(cufftDestroy, (cufftHandle plan), (plan), -1)
WRAP_FFT(cufftSetStream, (cufftHandle plan, cudaStream_t stream), (plan, stream), 0)
WRAP_FFT(cufftExecC2C, (cufftHandle plan, cufftComplex *from, cufftComplex *to, int direction),
	(plan, from, to, direction), 0)
WRAP_FFT(cufftExecR2C, (cufftHandle plan, cufftReal *from, cufftComplex *to), (plan, from, to), 0)
WRAP_FFT(cufftExecC2R, (cufftHandle plan, cufftComplex *from, cufftReal *to), (plan, from, to), 0)
WRAP_FFT(cufftExecD2Z, (cufftHandle plan, cufftDoubleReal *from, cufftDoubleComplex *to),
	(plan, from, to), 0)
