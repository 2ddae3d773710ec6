/* Arguments of the kernels of the preparation, for the host and the device. Addresses are arguments
 * of their own. */
#ifndef TOMOS_BACKEND_OPENCL_PREP_ARGS_H
#define TOMOS_BACKEND_OPENCL_PREP_ARGS_H

#include "kernel/prepare.h"

/* A StoredBlock. */
typedef struct {
	int64_t stride[3];
	double scale, offset;
	int32_t type, swapped;
} PrepCounts;

typedef struct {
	int64_t views, rows, columns;
} PrepShape;

/* A PrepZingers. */
typedef struct {
	int64_t from, first, count;
	int32_t space, time, reach;
	float level;
} PrepSearch;

/* Sinograms [sinogram][view][column] of the wavelet transform, padded. */
typedef struct {
	int64_t views, columns, margin; /* padded size; columns before the first */
	int64_t first, count;           /* detector rows of this batch */
} PrepImages;

enum { TAPS_MOST = 20, WAVES = 8 };

typedef struct {
	float low[TAPS_MOST], high[TAPS_MOST];
	int32_t taps, forth; /* forth: the transform, else its inverse */
} PrepTaps;

/* Details of one level: `views` rows and `columns` columns from column `columns` on; waves per scan
 * first .. first + count - 1, and the fraction of each that is subtracted. */
typedef struct {
	int32_t views, columns, first, count;
	float factor[WAVES];
} PrepBand;

/* Lists [sinogram][column] of ring removal 'vo', one after the other; then an integer per
 * sinogram. */
enum { VO_LEVEL, VO_SMOOTH, VO_KEPT, VO_SIGNAL, VO_HEIGHT, VO_LISTS };

typedef struct {
	int64_t view, list; /* strides between views and between lists */
	int32_t views, columns, count;
	int32_t large, small; /* windows of medians, in columns */
	float snr;
} PrepVo;

#endif
