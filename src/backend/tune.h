/* Kernels chosen by measuring: what a backend knows of them, and the file that keeps it. */
#ifndef TOMOS_BACKEND_TUNE_H
#define TOMOS_BACKEND_TUNE_H

#include "backend/backend.h"

/* A request as rows describe it; kernel and rate are left empty. */
void tune_describe(const ProjectRequest *what, tomos_tuned *row);
/* Whether two rows are about the same projection: all but kernel, rate and choice. */
bool tune_same(const tomos_tuned *a, const tomos_tuned *b);
/* Rows take the place of those that the backend has of the same projections; kernels it does not
 * know are marked. */
tomos_status tune_add(tomos_backend *backend, const tomos_tuned *rows, int64_t count);
void tune_clear(tomos_backend *backend);

/* What was kept for the backend's device, if it can be read and belongs to it; else nothing. Fails
 * for want of memory alone. */
tomos_status tune_recall(tomos_backend *backend);

#endif
