/* Kernels chosen by measurement: the results of a backend, and the file they are stored in. */
#ifndef TOMOS_BACKEND_TUNE_H
#define TOMOS_BACKEND_TUNE_H

#include "backend/backend.h"

/* Describes a request as a row; kernel and rate are left empty. */
void tune_describe(const ProjectRequest *what, tomos_tuned *row);
/* Whether two rows describe the same projection; kernel, rate and choice are ignored. */
bool tune_same(const tomos_tuned *a, const tomos_tuned *b);
/* Adds rows, which replace those of the same projections; kernels that the backend does not have
 * are marked as unknown. */
tomos_status tune_add(tomos_backend *backend, const tomos_tuned *rows, int64_t count);
void tune_clear(tomos_backend *backend);

/* Loads the stored results of the backend's device. A missing or invalid file is not a failure. */
tomos_status tune_recall(tomos_backend *backend);

#endif
