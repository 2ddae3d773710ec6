/* Detector pixels that do not vary over the views. */
#ifndef TOMOS_PREP_CONSTANT_H
#define TOMOS_PREP_CONSTANT_H

#include "base/base.h"

/* Replaces them. copy: the data then, to be freed with mem_free; NULL: there are none. most: the
 * largest number of such columns in a row. */
tomos_status constant_repair(tomos_array *data, float **copy, int64_t *most);
/* The number of them in one row; scratch: two floats for each column. */
int64_t constant_columns(const tomos_array *data, int64_t row, float *scratch);

#endif
