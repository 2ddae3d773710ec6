/* Detector pixels that do not vary over the views. */
#ifndef TOMOS_PREP_CONSTANT_H
#define TOMOS_PREP_CONSTANT_H

#include "base/base.h"

/* Replaces them. copy: the data then, to be freed with mem_free; NULL: there are none. most: the
 * largest number of such columns in a row. */
tomos_status constant_repair(tomos_array *data, float **copy, int64_t *most);
/* How many there are in one row, between others and at the edges, beside the columns
 * [first, end) in between. scratch: two floats for each column. */
typedef struct {
	int64_t inside, edges, first, end;
} ConstantColumns;
ConstantColumns constant_columns(const tomos_array *data, int64_t row, float *scratch);

#endif
