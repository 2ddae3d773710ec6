/* Filters for devices: the structs of kernel/rows.h from those of callers. */
#ifndef TOMOS_BACKEND_DEVICE_ROWS_H
#define TOMOS_BACKEND_DEVICE_ROWS_H

#include "backend/filter.h"
#include "kernel/rows.h"

/* Rows packed into `length` samples. */
KernelRows rows_of(const FilterSpec *spec, int64_t length, int64_t rows);
KernelRowView rows_view(const FilterView *view);
/* fade[0 .. margin]: factors of the padding from the detector's edge outwards, then a zero. */
void rows_fade(const FilterSpec *spec, float *fade);

#endif
