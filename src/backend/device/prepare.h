/* Preparation on devices: the order of the steps, their lists and their memory are the same for all
 * backends; each backend has a table of kernels. A kernel computes what the step of the same name
 * in src/prep does. */
#ifndef TOMOS_BACKEND_DEVICE_PREPARE_H
#define TOMOS_BACKEND_DEVICE_PREPARE_H

#include "backend/backend.h"

/* Backends may append members of their own (PrepDevice.bytes is the whole size). */
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

/* Items of `each` floats in one batch of about `room` floats. */
static inline int64_t prep_fit(int64_t room, int64_t each, int64_t count)
{
	return max64(1, min64(room / max64(each, 1), count));
}

/* Sinograms padded for the wavelet transform, to sizes that its levels divide: columns before the
 * first, and the number of sinograms in a batch of about `room` floats. */
typedef struct {
	int64_t views, columns, margin, count;
} PrepPadded;

static inline PrepPadded prep_padded(
	const PrepSpec *s, const PrepData *d, int64_t room, int64_t most)
{
	const int64_t unit = (int64_t)1 << s->ring_levels;
	PrepPadded m;
	m.margin = min64(d->columns, (int64_t)(s->ring_taps - 1) * unit);
	m.views = (d->views + unit - 1) / unit * unit;
	m.columns = (d->columns + 2 * m.margin + unit - 1) / unit * unit;
	m.count = prep_fit(room, 2 * m.views * m.columns, min64(d->rows, most));
	return m;
}

/* Of a batch: the images and a copy, sums of `waves` waves, and a circle of views. */
static inline int64_t prep_padded_floats(PrepPadded m, int64_t waves)
{
	return 2 * m.count * m.columns * (m.views + waves) + 2 * m.views;
}

static inline void prep_taps(const PrepSpec *s, float low[PREP_TAPS], float high[PREP_TAPS])
{
	for (int k = 0; k < s->ring_taps; k++) {
		low[k] = (float)s->ring_low[k];
		high[k] = (float)s->ring_high[k];
	}
}

/* Images of one group: order[begin .. begin + count - 1], or begin .. without an order. */
typedef struct {
	const int32_t *order;
	int64_t begin, count;
	bool median;
	float *image;
} PrepGroup;

/* Point-wise steps that follow each other. raise: values below the floor. */
typedef struct {
	bool normalize, raise, log, harden;
} PrepPoints;

/* Counts to be normalised, with the averaged flats and darks [group][row][column], and scratch
 * memory of rows_floats. */
typedef struct {
	const StoredBlock *counts;
	PrepPoints points;
	const float *flats, *dark;
	int32_t *rows;
} PrepNormalize;

typedef struct {
	const float *copy; /* of views from .. on, as they were */
	int64_t from;
	int64_t first, count; /* views to be corrected */
	bool space, time;
	int half;
	float level;
	unsigned long long *found;
} PrepZingers;

/* Where the result goes; kept: PrepWork's. */
typedef struct {
	const int32_t *kept;
	int64_t views, before, rows, padded;
	float *out;
} PrepCopy;

/* A step of any order: scratch memory in floats for data of that shape, and its execution, which
 * may change shape and place of the data. */
typedef struct {
	int64_t (*floats)(const PrepWork *w, const PrepData *d);
	tomos_status (*run)(tomos_backend *b, PrepWork *w, PrepData *d, float *scratch);
} PrepStep;

typedef struct {
	size_t bytes;        /* of a PrepWork, with what the backend appends */
	int64_t batch;       /* floats of a step's scratch memory, or more */
	int64_t most_sorted; /* views for ring removal 'vo'; 0: any number */
	bool phase_area;     /* phase retrieval takes its scratch memory a second time */
	const PrepStep *phase, *rings[RINGS_TITARENKO + 1];
	/* Before other calls of this thread. */
	tomos_status (*use)(const tomos_backend *b);
	tomos_status (*send)(tomos_backend *b, void *device, const void *host, int64_t bytes);
	/* Waits, reads the numbers of changes and sets them to 0. */
	tomos_status (*collect)(
		tomos_backend *b, PrepWork *w, unsigned long long found[FOUND_KINDS]);
	/* Frees device memory, of which some may be NULL, and what the backend appended. */
	void (*release)(tomos_backend *b, PrepWork *w, void *const *held, int count);
	/* Scratch memory to find rows with values that are not finite. */
	int64_t (*rows_floats)(const PrepWork *w, int64_t rows);
	tomos_status (*convert)(tomos_backend *b, const StoredBlock *in, PrepData *out);
	tomos_status (*average)(tomos_backend *b, const StoredBlock *in, const PrepGroup *g);
	/* Values that are not finite are repaired before they are raised. */
	tomos_status (*normalize)(
		tomos_backend *b, const PrepWork *w, const PrepNormalize *n, PrepData *out);
	/* none: for rows without any finite value; rows: of rows_floats. */
	tomos_status (*repair)(
		tomos_backend *b, const PrepWork *w, float none, PrepData *d, int32_t *rows);
	tomos_status (*points)(tomos_backend *b, const PrepWork *w, PrepPoints points, PrepData *d);
	tomos_status (*bridge)(tomos_backend *b, const PrepWork *w, PrepData *d);
	tomos_status (*zingers)(tomos_backend *b, const PrepZingers *z, PrepData *d);
	/* Views first .. first + count - 1 of d, from their copy. */
	tomos_status (*shift)(tomos_backend *b, const PrepWork *w, const float *copy, int64_t first,
		int64_t count, PrepData *d);
	tomos_status (*bin)(tomos_backend *b, int64_t bin, const PrepData *in, PrepData *out);
	tomos_status (*copy)(tomos_backend *b, const PrepCopy *to, const PrepData *in);
} PrepDevice;

extern const PrepDevice module_prepare; /* of the backend of this module */
extern const BackendPrepare device_prepare;

/* prepare_lists.c: the lists of a spec, in device memory. */
tomos_status prep_lists_send(tomos_backend *b, PrepWork *w, const PrepSpec *given);
void prep_lists_release(tomos_backend *b, PrepWork *w);

/* prepare_views.c: steps whose views are copied in batches before they are changed. */
extern const PrepStep prep_bad_views, prep_zingers, prep_shift;

#endif
