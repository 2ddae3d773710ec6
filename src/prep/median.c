/* Medians of a few values, and running medians along a row. */
#include <string.h>
#include "prep/prep.h"

static void swap(float *a, float *b)
{
	float c = *a;
	*a = *b;
	*b = c;
}

/* Hoare's quickselect. */
void select_kth(float *values, int64_t count, int64_t k)
{
	int64_t low = 0, high = count - 1;
	while (low < high) {
		float pivot = values[low + (high - low) / 2];
		int64_t i = low, j = high;
		while (i <= j) {
			while (values[i] < pivot)
				i++;
			while (values[j] > pivot)
				j--;
			if (i <= j)
				swap(&values[i++], &values[j--]);
		}
		if (k <= j)
			high = j;
		else if (k >= i)
			low = i;
		else
			return;
	}
}

float median_of(float *values, int64_t count)
{
	int64_t half = count / 2;
	select_kth(values, count, half);
	if (count % 2)
		return values[half];
	float below = values[0];
	for (int64_t i = 1; i < half; i++)
		below = fmaxf(below, values[i]);
	return 0.5F * (below + values[half]);
}

/* Of the values of one bucket of the keys' leading bits, and the largest value before it. */
float median_many(float *values, int64_t count)
{
	enum { LEADING = 11, FEW = 256 };
	int32_t counts[1 << LEADING] = {0};
	int64_t half = count / 2, used = 0;
	uint32_t bucket = 0;
	float below = -INFINITY;
	if (count < FEW || count > INT32_MAX)
		return median_of(values, count);
	for (int64_t i = 0; i < count; i++)
		counts[key_of(values[i]) >> (32 - LEADING)]++;
	int64_t rank = half;
	while (rank >= counts[bucket])
		rank -= counts[bucket++];
	for (int64_t i = 0; i < count; i++) {
		uint32_t own = key_of(values[i]) >> (32 - LEADING);
		if (own < bucket && values[i] > below)
			below = values[i];
		if (own == bucket)
			values[used++] = values[i];
	}
	select_kth(values, used, rank);
	float above = values[rank];
	for (int64_t i = 0; i < rank; i++)
		below = fmaxf(below, values[i]);
	return count % 2 ? above : 0.5F * (below + above);
}

/* Position of `value` in a sorted window, or where it would be inserted. */
static int64_t place_of(const float *window, int64_t count, float value)
{
	int64_t low = 0, high = count;
	while (low < high) {
		int64_t middle = low + (high - low) / 2;
		if (window[middle] < value)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void insert(float *window, int64_t count, float value)
{
	int64_t at = place_of(window, count, value);
	memmove(window + at + 1, window + at, (size_t)(count - at) * sizeof *window);
	window[at] = value;
}

static void take_out(float *window, int64_t count, float value)
{
	int64_t at = place_of(window, count, value);
	memmove(window + at, window + at + 1, (size_t)(count - at - 1) * sizeof *window);
}

void median_row(const float *in, float *out, int64_t count, int64_t size, float *window)
{
	int64_t half = size / 2;
	for (int64_t i = 0; i < size; i++)
		insert(window, i, in[index_mirrored(i - half, count)]);
	for (int64_t i = 0; i < count; i++) {
		out[i] = window[half];
		take_out(window, size, in[index_mirrored(i - half, count)]);
		insert(window, size - 1, in[index_mirrored(i + half + 1, count)]);
	}
}
