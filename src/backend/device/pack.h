/* Copies between strided arrays and contiguous memory. */
#ifndef TOMOS_BACKEND_DEVICE_PACK_H
#define TOMOS_BACKEND_DEVICE_PACK_H

#include "base/base.h"

bool pack_is_contiguous(const tomos_array *array);
/* Elements first .. first + count - 1 of an array, in C order, to `packed`, or (out) from it. */
void pack_copy(const tomos_array *array, float *packed, int64_t first, int64_t count, bool out);

#endif
