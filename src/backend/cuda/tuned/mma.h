/* Instructions of tensor cores and asynchronous copies, each as a function; cards from 8.0 on, those with
 * `bulk` in their names from 9.0 on. */
#ifndef CUDA_MMA_H
#define CUDA_MMA_H

#include <cuda.h>
#include <cuda_fp16.h>
#include <stdint.h>

static __device__ __forceinline__ unsigned shared_address(const void *p)
{
	return (unsigned)__cvta_generic_to_shared(p);
}

/* ---- barriers in shared memory ------------------------------------------------------------ */

static __device__ __forceinline__ void barrier_init(unsigned barrier, int count)
{
	asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

static __device__ __forceinline__ void barrier_arrive(unsigned barrier)
{
	asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(barrier)
		     : "memory");
}

/* Until the phase of that parity has ended. */
static __device__ __forceinline__ void barrier_wait(unsigned barrier, unsigned parity)
{
	unsigned done;
	do {
#if __CUDA_ARCH__ >= 900
		asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; "
			     "selp.u32 %0, 1, 0, p; }"
#else
		asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; "
			     "selp.u32 %0, 1, 0, p; }"
#endif
			     : "=r"(done)
			     : "r"(barrier), "r"(parity)
			     : "memory");
	} while (!done);
}

/* ---- copies from global memory ------------------------------------------------------------ */

/* 16 bytes, of which all after the first `bytes` become zero. */
static __device__ __forceinline__ void copy_16(unsigned to, const void *from, unsigned bytes)
{
	asm volatile(
		"cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
		: "memory");
}

/* Arrives when the copies of this thread have. */
static __device__ __forceinline__ void copies_arrive(unsigned barrier)
{
	asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

/* Makes the barriers known to the engine that does bulk copies. */
static __device__ __forceinline__ void bulk_fence(void)
{
	asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;" ::
			     : "memory");
}

/* Arrives, and lets the phase last until so many bytes have. */
static __device__ __forceinline__ void bulk_expect(unsigned barrier, unsigned bytes)
{
	asm volatile(
		"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
		: "memory");
}

/* A box of a three-dimensional array, from (x, y, z) on; what lies outside of the array is zero. */
static __device__ __forceinline__ void bulk_copy(
	unsigned to, const CUtensorMap *map, int x, int y, int z, unsigned barrier)
{
	asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
		     "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
		     "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
		     : "memory");
}

/* ---- matrices ----------------------------------------------------------------------------- */

/* Four transposed 8 x 8 matrices of halves; lanes 8 i to 8 i + 7 name the rows of matrix i. */
static __device__ __forceinline__ void load_matrices(unsigned m[4], unsigned row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
		     : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
		     : "r"(row));
}

/* c += a b: 16 x 16 halves times 16 x 8 halves, float sums. */
static __device__ __forceinline__ void multiply_add(
	float c[4], const unsigned a[4], unsigned b0, unsigned b1)
{
	asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
	    "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Two halves in a word, the first one in the lower; what is below zero becomes zero. */
static __device__ __forceinline__ unsigned pack_positive(float first, float second)
{
	unsigned word;
	asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
	return word;
}

#endif
