/* A run whose data stay in the memory of its device, from the counts of the scan to the numbers of
 * the output. */
#ifndef TOMOS_RUN_RESIDENT_H
#define TOMOS_RUN_RESIDENT_H

#include "algo/analytic.h"
#include "prep/device.h"
#include "run/ring.h"
#include "run/run.h"

enum { RESIDENT_SLOTS = 4 }; /* pieces of the ring for uploads */

/* The largest slab of a run. */
typedef struct {
	int64_t raw_rows;      /* of the scan, with margins */
	int64_t rows;          /* prepared, with padding */
	int64_t slices, slice; /* computed; pixels of a slice */
	int stored;            /* bytes of a number of the output; 0: floats are downloaded */
	int buffers[2];        /* of counts and of volumes: 2 overlap, 1 is enough for one slab */
} ResidentSize;

typedef struct {
	float *data;
	int64_t floats;
} DeviceBuffer;

typedef struct {
	tomos_backend *backend;
	DevicePrep *prep;       /* NULL: rows are prepared in host memory */
	StoredType types[3];    /* by tomos_frames */
	Encoding encoding;      /* of what is downloaded */
	DeviceBuffer counts[2]; /* views, flats and darks of a slab, as stored */
	DeviceBuffer rows;      /* prepared: [view][row][column] */
	DeviceBuffer filtered;
	DeviceBuffer volumes[2], stored[2]; /* stored: as the output stores them */
	RawRows read[2];                    /* rows in `counts` */
	int64_t row, row_count;             /* rows in `filtered`; 0: none */
	Ring up, down;
	int64_t piece; /* bytes of the pieces of `up` */
	int workers;   /* threads that use `down` */
} Resident;

/* Whether runs keep their data on the device, where it can copy while it computes; not with
 * TOMOS_RESIDENT=0, for comparisons. */
bool resident_wanted(const tomos_backend *backend);
/* Preparation is on the device if that has all steps and reads the types of the scan's files. */
tomos_status resident_open(
	Resident **resident, tomos_backend *backend, const tomos_prepared *prepared);
void resident_close(Resident *data);
/* Frees what was only needed to compute the last slab. */
void resident_end_input(Resident *data);
/* Memory of slabs of this size on the device, in bytes. */
double resident_bytes(const Resident *data, const tomos_prepared *p, const ResidentSize *size);
/* Takes the memory for slabs of this size, as far as there is less. */
tomos_status resident_fit(Resident *data, const tomos_prepared *p, const ResidentSize *size);
/* Reads rows of the scan into buffer `at` of the counts. */
tomos_status resident_read(Resident *data, tomos_prepared *p, const RawRows *rows, int at);
/* Prepares the wanted rows of buffer `at`; each view gets `padded` rows, the last ones 0. */
tomos_status resident_prepare(Resident *data, const tomos_prepared *p, int at, int64_t rows,
	int64_t padded, tomos_prep_report *report);
/* The same for rows that were prepared in host memory. */
tomos_status resident_upload(
	Resident *data, const tomos_prepared *p, const float *host, int64_t rows, int64_t padded);
/* Filters the prepared rows into `filtered`. */
tomos_status resident_filter(Resident *data, Analytic *analytic);
/* Slices of volume buffer `at`, in the type of the output; counts as BackendVector.encode. */
tomos_status resident_encode(
	Resident *data, int at, int64_t first, int64_t values, int64_t counts[2]);

#endif
