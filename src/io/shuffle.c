/* Copies, and bytes of numbers that were sorted by their place in the number, back to numbers. What
 * is not read soon is written past the caches, which takes half the time: nothing is read from
 * memory that is overwritten anyway. */
#include <string.h>
#include "io/filters.h"

#define INTERLEAVE(size) \
	for (; i < count; i++) \
		for (int k = 0; k < (size); k++) \
			out[i * (size) + k] = in[k * count + i];

#ifdef __SSE2__
#include <emmintrin.h>

enum { VECTOR = sizeof(__m128i), LEAST = 1 << 12 };

static __m128i vector_at(const unsigned char *in)
{
	return _mm_loadu_si128((const __m128i *)(const void *)in);
}

static void vector_put(unsigned char *out, __m128i vector)
{
	_mm_stream_si128((__m128i *)(void *)out, vector);
}

static bool past_caches(const unsigned char *out, int64_t bytes)
{
	return bytes >= LEAST && (uintptr_t)out % VECTOR == 0;
}

/* Whole vectors; returns where they end. */
static int64_t copy_past(const unsigned char *in, int64_t count, unsigned char *out)
{
	int64_t i = 0;
	for (; i + VECTOR <= count; i += VECTOR)
		vector_put(out + i, vector_at(in + i));
	return i;
}

static int64_t pairs_past(const unsigned char *in, int64_t count, unsigned char *out)
{
	int64_t i = 0;
	for (; i + VECTOR <= count; i += VECTOR) {
		__m128i low = vector_at(in + i), high = vector_at(in + count + i);
		vector_put(out + 2 * i, _mm_unpacklo_epi8(low, high));
		vector_put(out + 2 * i + VECTOR, _mm_unpackhi_epi8(low, high));
	}
	return i;
}

void far_end(void)
{
	_mm_sfence();
}
#else
static bool past_caches(const unsigned char *out, int64_t bytes)
{
	(void)out, (void)bytes;
	return false;
}

static int64_t copy_past(const unsigned char *in, int64_t count, unsigned char *out)
{
	(void)in, (void)count, (void)out;
	return 0;
}

static int64_t pairs_past(const unsigned char *in, int64_t count, unsigned char *out)
{
	return copy_past(in, count, out);
}

void far_end(void)
{
}
#endif

void bytes_copy(const unsigned char *in, int64_t count, bool far, unsigned char *out)
{
	int64_t done = far && past_caches(out, count) ? copy_past(in, count, out) : 0;
	memcpy(out + done, in + done, (size_t)(count - done));
}

void bytes_unshuffle(const unsigned char *in, int64_t count, int size, bool far, unsigned char *out)
{
	int64_t i = 0;
	if (size == 2) {
		if (far && past_caches(out, 2 * count))
			i = pairs_past(in, count, out);
		INTERLEAVE(2)
	} else if (size == 4) {
		INTERLEAVE(4)
	} else {
		INTERLEAVE(size)
	}
}
