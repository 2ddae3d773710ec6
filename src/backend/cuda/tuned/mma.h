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

/* So many bytes, all of them there. */
static __device__ __forceinline__ void bulk_copy_plain(
	unsigned to, const void *from, unsigned bytes, unsigned barrier)
{
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
		     "[%0], [%1], %2, [%3];" ::"r"(to),
		     "l"(from), "r"(bytes), "r"(barrier)
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

/* ---- matrices of four warps together: cards of 9.0 ---------------------------------------- */

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Before the first product, and after others wrote to its registers. */
static __device__ __forceinline__ void group_fence(void)
{
	asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ __forceinline__ void group_commit(void)
{
	asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Until at most so many committed products are under way. */
template <int MOST> static __device__ __forceinline__ void group_wait(void)
{
	asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(MOST) : "memory");
}

/* Registers of each thread, from here on: what some warps do without, others can have. */
template <int COUNT> static __device__ __forceinline__ void group_more_registers(void)
{
	asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT> static __device__ __forceinline__ void group_fewer_registers(void)
{
	asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

/* Halves in shared memory as the cores see them: 16 lines, one after the other, each with neighbours in a row;
 * the next neighbours are `stride` bytes further. Lines of 16 bytes: eight neighbours. */
static __device__ __forceinline__ uint64_t group_matrix(unsigned address, unsigned stride)
{
	const unsigned eight_lines = 8 * 16;
	return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(eight_lines >> 4) << 16 |
	       (uint64_t)(stride >> 4) << 32;
}

/* Lines of 128 bytes: 64 neighbours, in words of 16 bytes whose number is combined with that of the line, as
 * bulk copies do it to arrays aligned to 1024 bytes. The matrix may begin with any line. */
static __device__ __forceinline__ uint64_t group_matrix_wide(unsigned address, unsigned stride)
{
	const unsigned eight_lines = 8 * 128;
	return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(stride >> 4) << 16 |
	       (uint64_t)(eight_lines >> 4) << 32 | (uint64_t)1 << 62;
}

/* d += a b (or d = a b) in the background: 64 x 16 halves, of which each warp has 16 rows in registers as
 * multiply_add wants them, times 16 x N halves in shared memory. */
template <int N>
static __device__ void group_multiply_add(
	float (&d)[N / 2], const unsigned a[4], uint64_t b, bool add);

template <>
__device__ __forceinline__ void group_multiply_add<64>(
	float (&d)[32], const unsigned a[4], uint64_t b, bool add)
{
	asm volatile(
		"{ .reg .pred p; setp.ne.b32 p, %37, 0; "
		"wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
		"%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
		"%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
		"{%32, %33, %34, %35}, %36, p, 1, 1, 1; }"
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
		"+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
		"+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
		"+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
		"+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
		"+f"(d[30]), "+f"(d[31])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add));
}

template <>
__device__ __forceinline__ void group_multiply_add<128>(
	float (&d)[64], const unsigned a[4], uint64_t b, bool add)
{
	asm volatile(
		"{ .reg .pred p; setp.ne.b32 p, %69, 0; "
		"wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
		"%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
		"%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
		"%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
		"%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
		"{%64, %65, %66, %67}, %68, p, 1, 1, 1; }"
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
		"+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
		"+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
		"+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
		"+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
		"+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
		"+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
		"+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
		"+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),
		"+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
		"+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add));
}

#endif

/* Two halves in a word, the first one in the lower; what is below zero becomes zero. */
static __device__ __forceinline__ unsigned pack_positive(float first, float second)
{
	unsigned word;
	asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
	return word;
}

#endif
