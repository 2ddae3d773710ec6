/* Callers' arrays. */
#include "base/base.h"

tomos_array tomos_array_of(float *data, int64_t n0, int64_t n1, int64_t n2)
{
	tomos_array array = {.data = data, .shape = {n0, n1, n2}, .stride = {n1 * n2, n2, 1}};
	return array;
}
