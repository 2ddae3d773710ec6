/* Ring removal of Vo et al. on the GPU (prep/ring_vo.c has the paper): a batch of sinograms and
 * what is known of their columns. */
#ifndef TOMOS_BACKEND_CUDA_PREP_VO_H
#define TOMOS_BACKEND_CUDA_PREP_VO_H

#include "backend/cuda/prep.h"

typedef struct {
	float *data;  /* first value of the first sinogram */
	int64_t view; /* stride between views; between sinograms it is `columns` */
	int views, columns, count;
	int large, small; /* windows of medians, in columns */
	float snr;
	/* Lists [sinogram][column]. */
	float *level, *smooth, *kept, *signal, *height;
	int *broken; /* columns found, per sinogram */
	unsigned long long *found;
	/* [sinogram][column][rank] */
	float *sorted;
	uint16_t *from; /* the view of each */
} VoBatch;

/* Sorts each column minus its height, and puts medians across columns back to their views. */
tomos_status vo_smooth(tomos_backend *b, const VoBatch *v);

/* Columns per block for `views` values of each in shared memory, at most 8. */
static inline int vo_columns(int views)
{
	return (int)max64(1, min64(8, cuda_most_shared() / 4 / max64(views, 1) - 1));
}

static __device__ __forceinline__ float *vo_at(const VoBatch &v, int sinogram, int view, int c)
{
	return v.data + view * v.view + (int64_t)sinogram * v.columns + c;
}

#endif
