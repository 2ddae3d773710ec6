/* Tensor core and asynchronous copy instructions as functions: compute capability 8.0 or higher;
 * those with `bulk` in their names 9.0. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_MMA_H
#define TOMOS_BACKEND_CUDA_KERNELS_MMA_H

#include <cuda.h>
#include <cuda_fp16.h>
#include <stdint.h>

static __device__ __forceinline__ unsigned shared_address(const void *p)
{
	return (unsigned)__cvta_generic_to_shared(p);
}

static __device__ __forceinline__ float4 load_floats(unsigned at)
{
	float4 v;
	asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
		     : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
		     : "r"(at)
		     : "memory");
	return v;
}

static __device__ __forceinline__ unsigned load_word(unsigned at)
{
	unsigned v;
	asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
	return v;
}

static __device__ __forceinline__ void store_floats(unsigned at, float4 v)
{
	asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(at), "f"(v.x), "f"(v.y),
		     "f"(v.z), "f"(v.w)
		     : "memory");
}

static __device__ __forceinline__ void store_word(unsigned at, unsigned v)
{
	asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(v) : "memory");
}

/* ---- barriers in shared memory --------------------------------------------------------------- */

static __device__ __forceinline__ void barrier_init(unsigned barrier, int count)
{
	asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

static __device__ __forceinline__ void barrier_arrive(unsigned barrier)
{
	asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(barrier)
		     : "memory");
}

/* Waits until the phase of this parity has ended. */
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

/* ---- copies from global memory --------------------------------------------------------------- */

/* Asynchronous copy of 16 bytes to shared memory; all after the first `bytes` bytes become zero. */
static __device__ __forceinline__ void copy_16(unsigned to, const void *from, unsigned bytes)
{
	asm volatile(
		"cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
		: "memory");
}

/* Arrives at the barrier when the copies of this thread have completed. */
static __device__ __forceinline__ void copies_arrive(unsigned barrier)
{
	asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

/* Makes the barriers visible to the bulk copy engine (TMA). */
static __device__ __forceinline__ void bulk_fence(void)
{
	asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;" ::
			     : "memory");
}

/* Arrives, and keeps the phase open until `bytes` bytes have been copied. */
static __device__ __forceinline__ void bulk_expect(unsigned barrier, unsigned bytes)
{
	asm volatile(
		"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
		: "memory");
}

/* Asynchronous copy (TMA) of a box of a three-dimensional array, from element (x, y, z) on;
 * elements outside the array are zero. */
static __device__ __forceinline__ void bulk_copy(
	unsigned to, const CUtensorMap *map, int x, int y, int z, unsigned barrier)
{
	asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
		     "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
		     "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
		     : "memory");
}

/* Asynchronous copy (TMA) of contiguous bytes. */
static __device__ __forceinline__ void bulk_copy_plain(
	unsigned to, const void *from, unsigned bytes, unsigned barrier)
{
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
		     "[%0], [%1], %2, [%3];" ::"r"(to),
		     "l"(from), "r"(bytes), "r"(barrier)
		     : "memory");
}

/* ---- matrices -------------------------------------------------------------------------------- */

/* Loads four transposed 8 x 8 matrices of halves; lanes 8 i to 8 i + 7 have the addresses of the
 * rows of matrix i. */
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

/* ---- matrices of four warps together: compute capability 9.0 --------------------------------- */

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* wgmma fence: required before the first product, and after other writes to registers that a
 * product uses. */
static __device__ __forceinline__ void group_fence(void)
{
	asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ __forceinline__ void group_commit(void)
{
	asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until at most MOST committed products are in flight. */
template <int MOST> static __device__ __forceinline__ void group_wait(void)
{
	asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(MOST) : "memory");
}

/* Changes the number of registers per thread from here on, so that some warps release registers
 * for others. */
template <int COUNT> static __device__ __forceinline__ void group_more_registers(void)
{
	asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT> static __device__ __forceinline__ void group_fewer_registers(void)
{
	asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

/* wgmma descriptor of a matrix of halves in shared memory, not swizzled. Eight lines of eight
 * halves (16 bytes each) are contiguous. step: bytes to the next eight lines; stride: bytes to the
 * next eight halves of a line. */
static __device__ __forceinline__ uint64_t group_matrix(
	unsigned address, unsigned step, unsigned stride)
{
	return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(step >> 4) << 16 |
	       (uint64_t)(stride >> 4) << 32;
}

/* wgmma descriptor of a matrix with lines of 128 bytes (64 halves), swizzled as by bulk copies
 * to arrays aligned to 1024 bytes: the index of each word of 16 bytes is combined with that of the
 * line. The matrix may begin at any line. step: bytes to the next eight lines; stride: bytes to the
 * next 64 halves of a line. */
static __device__ __forceinline__ uint64_t group_matrix_wide(
	unsigned address, unsigned stride, unsigned step)
{
	return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(stride >> 4) << 16 |
	       (uint64_t)(step >> 4) << 32 | (uint64_t)1 << 62;
}

#define SUMS_8(d, i) \
	"+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), \
		"+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define SUMS_32(d, i) SUMS_8(d, i), SUMS_8(d, i + 8), SUMS_8(d, i + 16), SUMS_8(d, i + 24)
#define NAMES_32 \
	"{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, " \
	"%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_64 \
	NAMES_32 \
	", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, " \
	"%49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

/* Asynchronous d += a b, or d = a b if not `add`. a: 64 x 16 halves in registers, 16 rows per
 * warp as for multiply_add; b: 16 x N halves in shared memory. */
template <int N>
static __device__ void group_multiply_add(
	float (&d)[N / 2], const unsigned a[4], uint64_t b, bool add);

template <>
__device__ __forceinline__ void group_multiply_add<64>(
	float (&d)[32], const unsigned a[4], uint64_t b, bool add)
{
	asm volatile("{ .reg .pred p; setp.ne.b32 p, %37, 0; "
		     "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " NAMES_32
		     "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1; }"
		     : SUMS_32(d, 0)
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add));
}

template <>
__device__ __forceinline__ void group_multiply_add<128>(
	float (&d)[64], const unsigned a[4], uint64_t b, bool add)
{
	asm volatile("{ .reg .pred p; setp.ne.b32 p, %69, 0; "
		     "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 " NAMES_64
		     "}, {%64, %65, %66, %67}, %68, p, 1, 1, 1; }"
		     : SUMS_32(d, 0), SUMS_32(d, 32)
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add));
}

/* The same for a sparse matrix of 64 x 32 halves: of each four neighbouring elements at most two
 * are not zero, and a[] has these two. Four bits per four elements tell which: 4 + 5 i for elements
 * i and i + 1. `kept` of lane 4 r has the bits for the first 16 elements of rows r (lower half of
 * the word) and r + 8; that of lane 4 r + 1 those for the second 16 elements. */
template <int N>
static __device__ void group_multiply_sparse(
	float (&d)[N / 2], const unsigned a[4], unsigned kept, uint64_t b, bool add);

template <>
__device__ __forceinline__ void group_multiply_sparse<64>(
	float (&d)[32], const unsigned a[4], unsigned kept, uint64_t b, bool add)
{
	asm volatile(
		"{ .reg .pred p; setp.ne.b32 p, %38, 0; "
		"wgmma.mma_async.sp.sync.aligned.m64n64k32.f32.f16.f16 " NAMES_32
		"}, {%32, %33, %34, %35}, %36, %37, 0, p, 1, 1, 1; }"
		: SUMS_32(d, 0)
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(kept), "r"((int)add));
}

template <>
__device__ __forceinline__ void group_multiply_sparse<128>(
	float (&d)[64], const unsigned a[4], unsigned kept, uint64_t b, bool add)
{
	asm volatile(
		"{ .reg .pred p; setp.ne.b32 p, %70, 0; "
		"wgmma.mma_async.sp.sync.aligned.m64n128k32.f32.f16.f16 " NAMES_64
		"}, {%64, %65, %66, %67}, %68, %69, 0, p, 1, 1, 1; }"
		: SUMS_32(d, 0), SUMS_32(d, 32)
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(kept), "r"((int)add));
}

#undef SUMS_8
#undef SUMS_32
#undef NAMES_32
#undef NAMES_64

#endif

/* Rounds to two halves in a word, the first one in the lower half; negative values become zero. */
static __device__ __forceinline__ unsigned pack_positive(float first, float second)
{
	unsigned word;
	asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
	return word;
}

#endif
