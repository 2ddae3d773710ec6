/* Numbers of a scan as kernels of the preparation read them: types of files, and lists with one
 * entry per view. */
#ifndef TOMOS_KERNEL_PREPARE_H
#define TOMOS_KERNEL_PREPARE_H

#include "kernel/portable.h"

typedef enum {
	STORED_UINT8,
	STORED_INT8,
	STORED_UINT16,
	STORED_INT16,
	STORED_UINT32,
	STORED_INT32,
	STORED_FLOAT16,
	STORED_FLOAT32,
	STORED_TYPES
} StoredType;

/* Numbers of changes, counted on the device. */
enum { FOUND_REPAIRED, FOUND_RAISED, FOUND_ZINGERS, FOUND_STRIPES, FOUND_KINDS };

/* The averaged flats around a view, and the weight of the second. */
typedef struct {
	int32_t group[2];
	float share;
} PrepLight;

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

/* A frame to be transformed for phase retrieval. */
typedef struct {
	int64_t rows, columns, before[2]; /* padded size; padding before the frame */
} PrepFrame;

#endif
