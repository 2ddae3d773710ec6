/* Preparation in the memory of a device: the steps of tomos_prepare in the same order and with the
 * same results to rounding, from counts as a file stores them to line integrals.
 *
 *     device_prep_open    once for a scan; TOMOS_UNSUPPORTED with the reason in tomos_message(), if
 *                         the backend cannot run one of the steps: prepare in host memory then
 *     device_prep_floats  memory that it will take for slabs of some rows, to plan their number
 *     device_prep_run     queues the preparation of a slab, whose counts, flats and darks are in
 *                         device memory; does not wait for the device
 *     device_prep_report  waits, and adds what was changed in the slabs since the last call
 *     device_prep_close
 *
 * Work is queued in the stream of the backend, after what was queued before, so projections and
 * filters that follow see the result. The counts may be overwritten when the device has finished
 * (device_prep_report, or `sync` of the backend). An object is used by one thread at a time. Its
 * scratch memory is kept from one slab to the next.
 *
 * A slab has all views. The rows it needs are those of tomos_prep_reach: `before` and `rows` of the
 * PrepSlab say which of the prepared rows are wanted, as RawRows of src/run.
 */
#ifndef TOMOS_PREP_DEVICE_H
#define TOMOS_PREP_DEVICE_H

#include "backend/backend.h"

typedef struct DevicePrep DevicePrep;

typedef struct {
	int64_t views, columns; /* columns in use: a StoredBlock may begin at any column */
	int64_t flats, darks;
	const double *flat_views; /* views before each flat; NULL: not known */
} PrepScan;

/* Lists of the options are used until the object is closed. */
tomos_status device_prep_open(DevicePrep **prep, tomos_backend *backend,
	const tomos_prep_options *options, const PrepScan *scan);
void device_prep_close(DevicePrep *prep);
/* Floats of scratch memory for slabs of up to `rows` rows of the scan, margins included; the counts
 * and the result are not in this number. */
int64_t device_prep_floats(const DevicePrep *prep, int64_t rows);
/* Shapes: views {views, rows, columns}, flats and darks as many as the scan has. The result has the
 * views and columns of tomos_prep_shape. */
tomos_status device_prep_run(DevicePrep *prep, const PrepSlab *slab);
/* report NULL: only waits. */
tomos_status device_prep_report(DevicePrep *prep, tomos_prep_report *report);

#endif
