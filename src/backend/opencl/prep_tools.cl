/* What the kernels of the preparation share: counters, and medians. */
#include "backend/opencl/device.cl"
#define KERNEL_ADD(pointer, value) (*(pointer) += (value))
#include "backend/opencl/prep_args.h"

/* Results as in host memory: flats without light must not become a little more than 0. */
#pragma OPENCL FP_CONTRACT OFF

/* Adds to a counter of 64 bits, the lower 32 first: there is no such atomic addition. */
static inline void count_more(volatile global uint *counter, uint count)
{
	uint before = atomic_add(counter, count);
	if (before + count < before)
		atomic_inc(counter + 1);
}

/* Adds the counts of a work-group; all its work-items call it. */
static inline void count_group(
	volatile global uint *counter, uint count, volatile local uint *sum)
{
	bool first = get_local_id(0) == 0 && get_local_id(1) == 0;
	if (first)
		*sum = 0;
	barrier(CLK_LOCAL_MEM_FENCE);
	if (count)
		atomic_add(sum, count);
	barrier(CLK_LOCAL_MEM_FENCE);
	if (first && *sum)
		count_more(counter, *sum);
}

/* Integers in the order of the floats; values that are no numbers are the largest. */
static inline uint key_of(float value)
{
	uint bits = isnan(value) ? 0x7f800000u : as_uint(value);
	return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static inline float value_of(uint key)
{
	return as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

/* The value of a key, or (pair) its mean with the value of the key before it. */
static inline float middle_of(uint key, uint before, bool pair)
{
	return pair ? 0.5f * (value_of(before) + value_of(key)) : value_of(key);
}

/* result: the median of `value`, an expression of i from 0 to size - 1: the middle value, or the
 * mean of the two. The digits of its key are found one after the other. */
#define DIGIT 4
#define DIGITS (1 << DIGIT)
#define MEDIAN(result, size, value) \
	do { \
		uint median_key = 0, median_before = 0; \
		int median_rank = (size) / 2; \
		for (int shift = 32 - DIGIT; shift >= 0; shift -= DIGIT) { \
			int median_counts[DIGITS] = {0}; \
			uint digit = 0; \
			for (int i = 0; i < (size); i++) { \
				uint key = key_of(value); \
				if ((ulong)(key ^ median_key) >> (shift + DIGIT) == 0) \
					median_counts[key >> shift & (DIGITS - 1)]++; \
			} \
			for (; median_rank >= median_counts[digit]; digit++) \
				median_rank -= median_counts[digit]; \
			median_key |= digit << shift; \
		} \
		bool median_pair = (size) % 2 == 0; \
		for (int i = 0; median_pair && i < (size); i++) { \
			uint key = key_of(value); \
			if (key < median_key) \
				median_before = max(median_before, key); \
		} \
		if (median_rank > 0) \
			median_before = median_key; \
		result = middle_of(median_key, median_before, median_pair); \
	} while (0)

/* Index i of a list of `count` that is extended by its mirror images. */
static inline int mirrored(int i, int count)
{
	if (i >= 0 && i < count)
		return i;
	int at = i % (2 * count);
	at += at < 0 ? 2 * count : 0;
	return at < count ? at : 2 * count - 1 - at;
}
