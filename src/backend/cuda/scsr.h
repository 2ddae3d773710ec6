/* Threads and shared memory of the SCSR kernels (scsr.cu): lanes (symmetric images) of a pixel,
 * pixels of a slab, and entries of a bundle. */
#ifndef TOMOS_BACKEND_CUDA_SCSR_H
#define TOMOS_BACKEND_CUDA_SCSR_H

#include "backend/cuda/cuda.h"
#include "kernel/stored.h"

enum { WARP = 32, SLAB_THREADS = 512, MOST_GRID = 1 << 20 };

static __device__ __forceinline__ void add(float &to, float w, float from)
{
	to += w * from;
}

static __device__ __forceinline__ void add(float2 &to, float w, float2 from)
{
	to.x += w * from.x;
	to.y += w * from.y;
}

static __device__ __forceinline__ void add(float4 &to, float w, float4 from)
{
	to.x += w * from.x;
	to.y += w * from.y;
	to.z += w * from.z;
	to.w += w * from.w;
}

/* The lanes of a pixel are stored as PARTS vectors, one per thread. */
template <typename V, int P> struct LanesOf {
	typedef V Vector;
	enum { PARTS = P };
};

template <int LANES> struct Lanes : LanesOf<float4, LANES / 4> {
};
template <> struct Lanes<1> : LanesOf<float, 1> {
};
template <> struct Lanes<2> : LanesOf<float2, 1> {
};

/* Sum over the threads of a team that have the same lanes. */
template <int PARTS> static __device__ __forceinline__ float join_team(float value)
{
	value += __shfl_xor_sync(~0u, value, PARTS);
	return value + __shfl_xor_sync(~0u, value, 2 * PARTS);
}

template <int PARTS> static __device__ __forceinline__ float2 join_team(float2 v)
{
	return make_float2(join_team<PARTS>(v.x), join_team<PARTS>(v.y));
}

template <int PARTS> static __device__ __forceinline__ float4 join_team(float4 v)
{
	return make_float4(join_team<PARTS>(v.x), join_team<PARTS>(v.y), join_team<PARTS>(v.z),
		join_team<PARTS>(v.w));
}

/* ---- a block and its slab -------------------------------------------------------------------- */

extern __shared__ float4 near_memory[];

/* Calls use(index in shared memory, x, y, g) for all pixels of the slab and symmetries g.
 * Neighbouring threads have neighbouring pixels of a row of the whole image, for coalesced access,
 * and several symmetries at once, since one lane of neighbouring pixels is always in the same few
 * banks. */
template <int LANES, typename Use>
static __device__ __forceinline__ void each_pixel(const KernelSlabs &of, Use use)
{
	enum { AT_A_TIME = LANES < 4 ? LANES : 4, RUN = WARP / AT_A_TIME };
	int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
	for (int first = 0; first < LANES; first += AT_A_TIME) {
		int g = first + lane / RUN;
		bool transposed = slab_transposed(&of, g);
		int length = (int)(transposed ? of.height : of.width);
		int lines = (int)(transposed ? of.width : of.height);
		for (int line = warp; line < lines; line += SLAB_THREADS / WARP)
#pragma unroll 4
			for (int i = lane % RUN; i < length; i += RUN) {
				int x = transposed ? line : i, y = transposed ? i : line;
				use(slab_pixel(&of, x, y) * LANES + g, x, y, g);
			}
	}
}

/* The four entries of a bundle in one thread. Indices are unpacked only when used, since
 * unpacking waits for the load. */
struct Entries {
	uint2 index;
	float4 weight;

	__device__ __forceinline__ void read(const KernelScsr &m, int64_t bundle, int step)
	{
		int64_t at = bundle * (STORED_BUNDLE / 4) + step;
		index = __ldg((const uint2 *)m.index + at);
		weight = __ldg((const float4 *)m.weight + at);
	}

	__device__ __forceinline__ void clear()
	{
		index = make_uint2(0, 0);
		weight = make_float4(0, 0, 0, 0);
	}

	__device__ __forceinline__ void raise(int power)
	{
		weight.x = stored_raised(weight.x, power);
		weight.y = stored_raised(weight.y, power);
		weight.z = stored_raised(weight.z, power);
		weight.w = stored_raised(weight.w, power);
	}

	/* Addresses of the vectors of the four pixels in shared memory; own: offset of this
	 * thread's vector within a pixel, in bytes. */
	template <typename Vector, int PARTS>
	__device__ __forceinline__ void find(int own, Vector *pixel[4]) const
	{
		enum { BYTES = sizeof(Vector) * PARTS };
		char *base = (char *)near_memory + own;
		pixel[0] = (Vector *)(base + (index.x & 0xffff) * BYTES);
		pixel[1] = (Vector *)(base + (index.x >> 16) * BYTES);
		pixel[2] = (Vector *)(base + (index.y & 0xffff) * BYTES);
		pixel[3] = (Vector *)(base + (index.y >> 16) * BYTES);
	}
};

static_assert(STORED_STEP == 4 && STORED_BUNDLE == 16);

#endif
