/* Preparation of projections in device memory, from stored counts to line integrals. The steps are
 * defined by src/prep, which also resolves the options into the numbers of a PrepSpec. */
#ifndef TOMOS_BACKEND_PREPARE_H
#define TOMOS_BACKEND_PREPARE_H

#include "base/base.h"
#include "kernel/prepare.h"

#define STEP(id, name, takes, gives) PREP_##id,
enum {
#include "prep/steps.def"
	PREP_STEPS
};
#undef STEP

/* Numbers in device memory as a file stores them, [frame][row][column]: value = offset + scale *
 * number. Strides are in numbers, not in bytes. */
typedef struct {
	const void *data;
	StoredType type;
	bool swapped; /* opposite of the native byte order */
	int64_t shape[3], stride[3];
	double scale, offset; /* 1 and 0: the numbers are the values */
} StoredBlock;

typedef enum { RINGS_NONE, RINGS_VO, RINGS_WAVELET, RINGS_TITARENKO } PrepRings;

enum { PREP_TAPS = 20 };

/* Where each step is in the order, rows and columns may have been binned before. */
typedef struct {
	int step[PREP_STEPS], count; /* those to be run, in their order */
	int64_t views, columns;      /* of the scan */
	bool integrals;              /* given as line integrals, to be repaired where not finite */
	float floor;
	/* normalize: image flat_order[i] belongs to group g if begins[g] <= i < begins[g + 1] */
	bool flat_median;
	int64_t flats, groups, darks;
	const int32_t *flat_order, *begins;
	const PrepLight *light; /* one per view */
	/* bad-views */
	const unsigned char *bad; /* one per view */
	int64_t bad_count;
	bool leave_out; /* omitted from the result */
	/* zingers */
	bool zingers_space, zingers_time;
	int64_t zinger_size;
	float zinger_level;
	/* rings */
	PrepRings rings;
	int64_t ring_large, ring_small; /* vo: windows in columns */
	double ring_snr;
	double ring_low[PREP_TAPS], ring_high[PREP_TAPS]; /* wavelet: filters */
	int ring_taps, ring_levels;
	double ring_sigma;
	double ring_alpha; /* titarenko */
	/* shift: one value, or one per view; 0: none */
	const double *shift_x, *shift_y;
	int64_t shift_x_count, shift_y_count;
	bool shift_cubic;
	double phase_strength; /* phase: z delta / mu in pixels squared */
	/* hardening */
	const double *hardening;
	int64_t hardening_count;
	/* bin */
	int64_t bin;
} PrepSpec;

/* Rows of the scan to be prepared, with margins, and where the result goes: prepared rows before ..
 * before + rows - 1 to out[view][row][column], where each view has `padded` rows, of which those
 * after the first `rows` are set to 0. */
typedef struct {
	StoredBlock views, flats, darks; /* of the same rows and columns */
	float *out;
	int64_t before, rows, padded;
} PrepSlab;

typedef struct PrepWork PrepWork;

tomos_status prep_phase_frame(PrepFrame *frame, double strength, int64_t rows, int64_t columns);

#endif
