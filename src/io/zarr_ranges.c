/* Smallest and largest numbers of the slices of a Zarr file. */
#include <math.h>
#include "io/zarr_parts.h"

/* Smallest and largest of rows of up to ZARR_CHUNK numbers, column by column first, which compilers
 * make vectors of; NaN is left out. */
#define WIDEN(name, type, least, most) \
	static void name(const type *v, int64_t rows, int64_t stride, int64_t n, float range[2]) \
	{ \
		type low[ZARR_CHUNK], high[ZARR_CHUNK]; \
		for (int64_t j = 0; j < n; j++) \
			low[j] = (most), high[j] = (least); \
		for (int64_t k = 0; k < rows; k++, v += stride) \
			for (int64_t j = 0; j < n; j++) { \
				low[j] = v[j] < low[j] ? v[j] : low[j]; \
				high[j] = v[j] > high[j] ? v[j] : high[j]; \
			} \
		for (int64_t j = 0; j < n; j++) { \
			range[0] = (float)low[j] < range[0] ? (float)low[j] : range[0]; \
			range[1] = (float)high[j] > range[1] ? (float)high[j] : range[1]; \
		} \
	}
WIDEN(widen_float, float, -HUGE_VALF, HUGE_VALF)
WIDEN(widen_uint16, uint16_t, 0, UINT16_MAX)
WIDEN(widen_uint8, uint8_t, 0, UINT8_MAX)

void range_widen(
	Element element, const void *rows, int64_t count, int64_t stride, int64_t n, float range[2])
{
	if (element.bytes == 4)
		widen_float(rows, count, stride, n, range);
	else if (element.bytes == 2)
		widen_uint16(rows, count, stride, n, range);
	else
		widen_uint8(rows, count, stride, n, range);
}

void ranges_begin(const File *file, int64_t first, int64_t count)
{
	const Zarr *own = file->own;
	for (int64_t i = 0; i < count; i++) {
		own->writer->low[first + i] = HUGE_VALF;
		own->writer->high[first + i] = -HUGE_VALF;
	}
}

void ranges_add(const File *file, int64_t first, int64_t count, const float *ranges)
{
	ZarrWriter *w = ((const Zarr *)file->own)->writer;
	pthread_mutex_lock(&w->lock);
	for (int64_t i = 0; i < count; i++) {
		float *low = &w->low[first + i], *high = &w->high[first + i];
		*low = ranges[2 * i] < *low ? ranges[2 * i] : *low;
		*high = ranges[2 * i + 1] > *high ? ranges[2 * i + 1] : *high;
	}
	pthread_mutex_unlock(&w->lock);
}
