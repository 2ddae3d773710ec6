/* Preparation on the GPU: what its steps share. Each computes what the step of the same name in
 * src/prep does. */
#ifndef TOMOS_BACKEND_CUDA_PREP_H
#define TOMOS_BACKEND_CUDA_PREP_H

#include <cufft.h>
#include "backend/cuda/cuda.h"

enum {
	PREP_THREADS = 256,
	PREP_BATCH = 128 << 20
}; /* floats of a step's scratch memory, or more */

enum { FOUND_REPAIRED, FOUND_RAISED, FOUND_ZINGERS, FOUND_STRIPES, FOUND_KINDS };

/* A bad view and the good views around it. */
typedef struct {
	int32_t view, from, to;
	float share; /* of the second */
} PrepBridge;

enum { SHIFT_TAPS = 4 };

/* Position and weights of the first of four samples in each direction. */
typedef struct {
	int32_t column, row;
	float across[SHIFT_TAPS], along[SHIFT_TAPS];
	int32_t moved; /* 0: the view stays as it is */
} PrepShift;

struct PrepWork {
	PrepSpec spec;             /* its lists are in device memory */
	int32_t *begins;           /* of the groups of flats, in host memory */
	unsigned long long *found; /* numbers of changes, on the device */
	int64_t bad_views;         /* interpolated or left out since the last report */
	PrepBridge *bridges;       /* one per bad view */
	int32_t *kept;             /* the views of the result; NULL: all */
	PrepShift *shifts;         /* one per view */
	double *pivots;            /* titarenko: upper and 1 / pivot of each column */
	int64_t ring_columns;      /* columns that the ring removal sees */
	float *scratch;            /* for one slab */
	int64_t scratch_count;
	/* phase: plans of the last size of frames, and their work area */
	PrepFrame frame;
	int64_t frames; /* transformed at once; 0: no plans */
	cufftHandle forth, back;
	bool has_forth, has_back;
	void *area;
};

/* Views in device memory, [view][row][column]. */
typedef struct {
	float *data;
	int64_t views, rows, columns;
} PrepData;

static inline int64_t prep_count(const PrepData *d)
{
	return d->views * d->rows * d->columns;
}

/* Items of `each` floats in one batch. */
static inline int64_t prep_batch(int64_t each, int64_t count)
{
	return max64(1, min64(PREP_BATCH / max64(each, 1), count));
}

/* A step of any order: scratch memory in floats for data of that shape, and its execution, which
 * may change shape and place of the data. */
typedef struct {
	int64_t (*floats)(const PrepWork *w, const PrepData *d);
	tomos_status (*run)(tomos_backend *b, PrepWork *w, PrepData *d, float *scratch);
} CudaPrepStep;

extern const CudaPrepStep cuda_prep_zingers, cuda_prep_vo, cuda_prep_wavelet, cuda_prep_titarenko,
	cuda_prep_phase, cuda_prep_bad_views, cuda_prep_shift;

/* prep_points.cu. normalize: also log and hardening, if these follow; `fields` has space for the
 * averaged flats and darks; rows: list of rows to be repaired, with their number before it. */
typedef struct {
	bool normalize, raise, log, harden;
} PrepPoints;
int64_t prep_fields_floats(const PrepWork *w, int64_t rows);
int64_t prep_rows_floats(const PrepWork *w, int64_t rows);
tomos_status prep_convert(
	tomos_backend *b, const PrepWork *w, const StoredBlock *in, PrepData *out);
tomos_status prep_normalize(tomos_backend *b, const PrepWork *w, const PrepSlab *slab,
	PrepPoints points, PrepData *out, float *fields, int32_t *rows);
/* In place; rows with values that are not finite are repaired first, if wanted. */
tomos_status prep_points(tomos_backend *b, const PrepWork *w, PrepPoints points, PrepData *d);
tomos_status prep_repair(tomos_backend *b, const PrepWork *w, float none, PrepData *d);

/* prep_views.cu. */
tomos_status prep_bin(tomos_backend *b, int64_t bin, const PrepData *in, PrepData *out);
tomos_status prep_hand_over(
	tomos_backend *b, const PrepWork *w, const PrepData *in, const PrepSlab *slab);

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
