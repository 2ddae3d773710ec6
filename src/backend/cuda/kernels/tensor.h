/* Common to the tensor core kernels for in-slice rays.
 *
 * Data are halves, or sums of two halves (two parts); products are accumulated in float. A weight
 * is max(0, 1 - |x|), where x is the distance of a pixel's projection from a column, divided by the
 * half width of the view's hat function.
 */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_TENSOR_H
#define TOMOS_BACKEND_CUDA_KERNELS_TENSOR_H

#include "backend/cuda/kernels/mma.h"
#include "backend/cuda/kernels/transpose.h"

enum {
	TENSOR_LEAST_SLICES = 16,
	TENSOR_HEAD = 64 /* floats reserved before the data, for the
                                                   * largest value */
};

/* Whether the request consists of in-slice rays with enough slices; sets *slices. */
bool tensor_slices(const ProjectRequest *what, HatSlices *slices);
int tensor_parts(const Plan *plan);
/* Most columns that a rectangle of side_a x side_b pixels meets, in any view. */
double tensor_span(const ProjectRequest *what, const HatSlices *slices, int side_a, int side_b);
/* False: the driver cannot describe arrays to the bulk copy engine (TMA). */
bool tensor_describes(void);
/* Describes an array of halves to the bulk copy engine (a CUtensorMap); false: not supported. */
bool tensor_describe(void *map, const void *data, const int64_t size[3], const int box[3]);

/* A back projection request for the kernels. */
typedef struct {
	const HatView *views;
	int count, columns;
	int na, nb;           /* pixels of the box */
	int64_t low_a, low_b; /* first pixel of the box */
	int pitch;            /* number of slices in memory, a multiple of CHUNK */
	int parts;            /* number of halves whose sum is a value: 1 or 2 */
	int fine;             /* the same for the weights */
	const uint4 *data;    /* layout HalfRows */
	float *to;            /* [b][a][slice] */
} TensorBack;

/* Launches a kernel for the views of `what` in these slices. */
typedef tomos_status (*TensorLaunch)(tomos_backend *backend, const ProjectRequest *what,
	const HatSlices *slices, const TensorBack *request);

tomos_status tensor_back_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue, TensorLaunch launch);

/* Data as halves: number of halves whose sum is a value, and what multiplies them, weights of the
 * views or factors of the rays (Halves). */
typedef struct {
	int parts;
	const HatView *views;
	const float *rays;
} TensorScale;

/* The same for some slices. */
tomos_status tensor_back_slices(tomos_backend *backend, const ProjectRequest *what,
	const HatSlices *l, TensorScale scale, int64_t slice, int64_t slices,
	const CudaEpilogue *epilogue, TensorLaunch launch);
/* Whether an update can be fused: all views must fit into one pass. */
CudaFusion tensor_fuses(const tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const FusedUpdate *step);

/* Blocks that run concurrently should be close together, so that the columns they read stay in
 * L2 cache: blocks are numbered cluster by cluster of CLUSTER_A x CLUSTER_B. */
enum { CLUSTER_A = 16, CLUSTER_B = 8 };

static inline unsigned cluster_blocks(int64_t na, int64_t nb)
{
	int64_t clusters = ((na + CLUSTER_A - 1) / CLUSTER_A) * ((nb + CLUSTER_B - 1) / CLUSTER_B);
	return (unsigned)(clusters * (CLUSTER_A * CLUSTER_B));
}

/* Position of this block; na: number of blocks along a. It may be outside the plane. */
static __device__ __forceinline__ int2 cluster_place(int na)
{
	int block = blockIdx.x, cluster = block / (CLUSTER_A * CLUSTER_B);
	int own = block % (CLUSTER_A * CLUSTER_B), across = (na + CLUSTER_A - 1) / CLUSTER_A;
	return make_int2(cluster % across * CLUSTER_A + own % CLUSTER_A,
		cluster / across * CLUSTER_B + own / CLUSTER_A);
}

/* Weights at distances x and y as two halves in *w; with two parts, their rounding errors in
 * *rest. */
template <int PARTS>
static __device__ __forceinline__ void tensor_weigh(float x, float y, unsigned *w, unsigned *rest)
{
	if (PARTS == 1) {
		*w = pack_positive(1 - fabsf(x), 1 - fabsf(y));
	} else {
		float one = __saturatef(1 - fabsf(x)), two = __saturatef(1 - fabsf(y));
		__half2 most = __floats2half2_rn(one, two);
		float2 whole = __half22float2(most);
		__half2 left = __floats2half2_rn(one - whole.x, two - whole.y);
		*w = *(const unsigned *)&most;
		*rest = *(const unsigned *)&left;
	}
}

/* Writes the sums of the two pixels of this thread, N of 2 N slices; (a, b): the first
 * pixel, the other is two rows after it. */
template <int N>
static __device__ void tensor_put(const TensorBack *s, const float (&sums)[N], int a, int b)
{
	int slice = blockIdx.z * N * 2 + threadIdx.x % 4 * 2;
	for (int half = 0; half < 2; half++, b += 2) {
		if (a >= s->na || b >= s->nb)
			continue;
		float *to = s->to + ((int64_t)b * s->na + a) * s->pitch;
#pragma unroll
		for (int n = 0; n < N / 4; n++)
			if (slice + n * CHUNK < s->pitch)
				*(float2 *)(to + slice + n * CHUNK) = make_float2(
					sums[4 * n + 2 * half], sums[4 * n + 2 * half + 1]);
	}
}

template <int N>
static __device__ __forceinline__ void tensor_add(float (&sums)[N], const float (&part)[N])
{
#pragma unroll
	for (int i = 0; i < N; i++)
		sums[i] += part[i];
}

#endif
