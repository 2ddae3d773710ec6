/* A barrier of a block in two parts: threads that have arrived go on with other work before they
 * wait for the others.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_ARRIVAL_H
#define TOMOS_BACKEND_CUDA_KERNELS_ARRIVAL_H

#include <cuda_awbarrier_primitives.h>

typedef __mbarrier_t Barrier;
typedef __mbarrier_token_t Arrival;

/* Called by all threads; they have to be synchronised before the first one arrives. */
static __device__ __forceinline__ void open_barrier(Barrier *barrier, int threads)
{
	if (threadIdx.x == 0)
		__mbarrier_init(barrier, (unsigned)threads);
}

static __device__ __forceinline__ Arrival arrive(Barrier *barrier)
{
	return __mbarrier_arrive(barrier);
}

static __device__ __forceinline__ void await(Barrier *barrier, Arrival arrival)
{
#if __CUDA_ARCH__ >= 900
	while (!__mbarrier_try_wait(barrier, arrival, 1000)) {
	}
#else
	while (!__mbarrier_test_wait(barrier, arrival)) {
	}
#endif
}

#endif
