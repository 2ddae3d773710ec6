/* Preparation on the GPU: what its kernels share. */
#ifndef TOMOS_BACKEND_CUDA_PREP_H
#define TOMOS_BACKEND_CUDA_PREP_H

#include <cufft.h>
#include "backend/cuda/cuda.h"

extern "C" {
#include "backend/device/prepare.h"
}

enum {
	PREP_THREADS = 256,
	PREP_BATCH = 128 << 20
}; /* floats of a step's scratch memory, or more */

typedef struct {
	PrepWork work;
	/* phase: plans of the last size of frames, and their work area */
	PrepFrame frame;
	int64_t frames; /* transformed at once; 0: no plans */
	cufftHandle forth, back;
	bool has_forth, has_back;
	void *area;
} CudaPrep;

/* Items of `each` floats in one batch. */
static inline int64_t prep_batch(int64_t each, int64_t count)
{
	return prep_fit(PREP_BATCH, each, count);
}

extern const PrepStep cuda_prep_vo, cuda_prep_wavelet, cuda_prep_titarenko, cuda_prep_phase;

/* prep_points.cu. rows: list of rows to be repaired, with their number before it. */
int64_t cuda_prep_rows_floats(const PrepWork *w, int64_t rows);
tomos_status cuda_prep_convert(tomos_backend *b, const StoredBlock *in, PrepData *out);
tomos_status cuda_prep_average(tomos_backend *b, const StoredBlock *in, const PrepGroup *g);
tomos_status cuda_prep_normalize(
	tomos_backend *b, const PrepWork *w, const PrepNormalize *n, PrepData *out);
tomos_status cuda_prep_repair(
	tomos_backend *b, const PrepWork *w, float none, PrepData *d, int32_t *rows);
tomos_status cuda_prep_points(tomos_backend *b, const PrepWork *w, PrepPoints points, PrepData *d);

/* prep_views.cu. */
tomos_status cuda_prep_bridge(tomos_backend *b, const PrepWork *w, PrepData *d);
tomos_status cuda_prep_shift(tomos_backend *b, const PrepWork *w, const float *copy, int64_t first,
	int64_t count, PrepData *d);
tomos_status cuda_prep_bin(tomos_backend *b, int64_t bin, const PrepData *in, PrepData *out);
tomos_status cuda_prep_copy(tomos_backend *b, const PrepCopy *to, const PrepData *in);

/* prep_zingers.cu. */
tomos_status cuda_prep_zingers(tomos_backend *b, const PrepZingers *z, PrepData *d);

/* Adds the counts of a block's threads to a counter; all threads of the block call it. */
static __device__ __forceinline__ void prep_found(unsigned long long *counter, int count)
{
	__shared__ int sum;
	if (threadIdx.x == 0)
		sum = 0;
	if (!__syncthreads_or(count))
		return;
	if (count)
		atomicAdd(&sum, count);
	__syncthreads();
	if (threadIdx.x == 0)
		atomicAdd(counter, (unsigned long long)sum);
}

/* Integers in the order of the floats; values that are no numbers are the largest. */
static __device__ __forceinline__ uint32_t prep_key(float value)
{
	uint32_t bits = __float_as_uint(value);
	bits = value != value ? 0x7f800000u : bits;
	return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static __device__ __forceinline__ float prep_value(uint32_t key)
{
	return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

/* Key number `rank` (from 0) of a list in ascending order, found bit by bit: the largest number
 * that at most `rank` keys are below. below(limit): the number of keys below the limit. */
template <typename Below> static __device__ uint32_t prep_select(int rank, Below below)
{
	uint32_t found = 0;
	for (uint32_t bit = 0x80000000u; bit; bit >>= 1)
		if (below(found | bit) <= rank)
			found |= bit;
	return found;
}

/* The middle value, or the mean of the two. */
template <typename Below> static __device__ float prep_median(int count, Below below)
{
	float above = prep_value(prep_select(count / 2, below));
	if (count % 2)
		return above;
	return 0.5f * (prep_value(prep_select(count / 2 - 1, below)) + above);
}

/* Index i of a list of `count` that is extended by its mirror images. */
static __device__ __forceinline__ int prep_mirrored(int i, int count)
{
	if (i >= 0 && i < count)
		return i;
	int at = i % (2 * count);
	at += at < 0 ? 2 * count : 0;
	return at < count ? at : 2 * count - 1 - at;
}

static inline dim3 prep_grid(int64_t columns, int64_t rows, int64_t planes)
{
	const int64_t most = 65535;
	return dim3(cuda_blocks(columns, PREP_THREADS, 1 << 30), (unsigned)min64(rows, most),
		(unsigned)min64(planes, most));
}

#endif
