/* Back projection of in-slice rays by texture units: one fetch interpolates 1 or 2 float slices, or
 * 4 half ones. The units round positions to 1/256 of a column: weights are coarse.
 *
 * S. Chilingaryan et al., Reviewing GPU architectures to build efficient back projection for
 * parallel geometries, J. Real-Time Image Process. 17 (2020), section 5.
 */
#ifndef TOMOS_BACKEND_CUDA_LITERATURE_SLICES_BACK_TEXTURE_H
#define TOMOS_BACKEND_CUDA_LITERATURE_SLICES_BACK_TEXTURE_H

#include "backend/cuda/kernels/transpose.h"

enum { TEXTURE_SIDE = 16, TEXTURE_VIEWS = 256 }; /* views set up by a block at once */

typedef struct {
	const HatView *views;
	int count;
	int na, nb;           /* pixels of the box */
	int64_t low_a, low_b; /* first pixel of the box */
	int slices;
	float *to; /* slice i of pixel (a, b) at i si + a sj + b sk */
	int64_t si, sj, sk;
	bool fresh;              /* sums overwrite the output */
	const unsigned *largest; /* value that set the scale of halves; NULL: floats */
	cudaTextureObject_t of[MOST_TEXTURES];
} Texture;

/* Floats of scratch memory for textures of `slices` slices per texel. */
int64_t texture_floats(const Transposed *y, int slices);
/* Fills the scratch and creates textures with texels of 1, 2 or 4 slices. */
tomos_status texture_fill(tomos_backend *backend, const Transposed *y, const HatView *views,
	int slices, float *scratch, Texture *s);
/* The request without its data. */
Texture texture_of(
	const ProjectRequest *what, const HatSlices *l, const HatView *views, int64_t count);
bool texture_fits(const ProjectRequest *what, HatSlices *l);

/* ---- on the GPU ------------------------------------------------------------------------------ */

/* Sums of a pixel in SLICES slices; add() fetches one texel. */
template <int SLICES> struct Texel;

template <> struct Texel<1> {
	float x[1] = {};
	__device__ __forceinline__ void add(cudaTextureObject_t texture, float column, float view)
	{
		x[0] += tex2D<float>(texture, column, view);
	}
};

template <> struct Texel<2> {
	float x[2] = {};
	__device__ __forceinline__ void add(cudaTextureObject_t texture, float column, float view)
	{
		float2 t = tex2D<float2>(texture, column, view);
		x[0] += t.x;
		x[1] += t.y;
	}
};

template <> struct Texel<4> {
	float x[4] = {};
	__device__ __forceinline__ void add(cudaTextureObject_t texture, float column, float view)
	{
		float4 t = tex2D<float4>(texture, column, view);
		x[0] += t.x;
		x[1] += t.y;
		x[2] += t.z;
		x[3] += t.w;
	}
};

/* The even bits of the lowest eight bits of t. Threads are placed along a Z-order curve, so that
 * each 4 and each 16 of them read the same columns. */
static __device__ __forceinline__ int even_bits(int t)
{
	return (t & 1) | (t >> 1 & 2) | (t >> 2 & 4) | (t >> 3 & 8);
}

/* A view relative to a block: column of its first pixel; change per pixel along a, along b, and
 * per TEXTURE_SIDE pixels along b. */
static __device__ __forceinline__ float4 texture_line(
	const Texture *s, const HatView *hat, int a0, int b0)
{
	double e = hat->e0 + hat->ea * (double)(s->low_a + a0) + hat->eb * (double)(s->low_b + b0);
	float eb = (float)hat->eb;
	return make_float4((float)(e + 0.5), (float)hat->ea, eb, TEXTURE_SIDE * eb);
}

template <int SLICES>
static __device__ void texture_write(
	const Texture *s, const Texel<SLICES> *sum, int a, int b, int slice, float factor)
{
	if (a >= s->na || b >= s->nb)
		return;
	float *to = s->to + a * s->sj + b * s->sk + slice * s->si;
	for (int i = 0; i < SLICES && slice + i < s->slices; i++, to += s->si)
		*to = (s->fresh ? 0.f : *to) + factor * sum->x[i];
}

/* Work of a thread: PIXELS pixels, 16 apart along b, and GROUPS texels. */
template <int SLICES_, int PIXELS_, int GROUPS_> struct TextureShare {
	static constexpr int SLICES = SLICES_, PIXELS = PIXELS_, GROUPS = GROUPS_;
};

/* Back projects a block: pixels from (a0, b0) on, and texels from `group` on, the same for all
 * threads: texture units fetch from one texture at a time. Each further 256 threads are 16 pixels
 * further along a. */
template <class Share>
static __device__ void texture_sum(const Texture *s, float4 *lines, int a0, int b0, int group)
{
	Texel<Share::SLICES> sum[Share::PIXELS][Share::GROUPS];
	int thread = threadIdx.x, b = even_bits(thread >> 1);
	int a = even_bits(thread) + thread / (TEXTURE_SIDE * TEXTURE_SIDE) * TEXTURE_SIDE;
	for (int first = 0; first < s->count; first += TEXTURE_VIEWS) {
		int views = min(TEXTURE_VIEWS, s->count - first);
		__syncthreads();
		for (int i = thread; i < views; i += blockDim.x)
			lines[i] = texture_line(s, &s->views[first + i], a0, b0);
		__syncthreads();
#pragma unroll(Share::GROUPS == 1 ? 4 : 1)
		for (int i = 0; i < views; i++) {
			float4 line = lines[i];
			float column = fmaf((float)a, line.y, fmaf((float)b, line.z, line.x));
			float view = (float)(first + i) + 0.5f;
#pragma unroll
			for (int p = 0; p < Share::PIXELS; p++, column += line.w)
#pragma unroll
				for (int g = 0; g < Share::GROUPS; g++)
					sum[p][g].add(s->of[group + g], column, view);
		}
	}
	float factor = s->largest ? power_of_two(-scale_exponent(*s->largest)) : 1;
#pragma unroll
	for (int p = 0; p < Share::PIXELS; p++)
#pragma unroll
		for (int g = 0; g < Share::GROUPS; g++)
			texture_write(s, &sum[p][g], a0 + a, b0 + b + p * TEXTURE_SIDE,
				(group + g) * Share::SLICES, factor);
}

#endif
