/* Four floats at once, for medians by comparisons and exchanges. */
#ifndef TOMOS_PREP_FOUR_H
#define TOMOS_PREP_FOUR_H

#include <stdint.h>
#if defined __SSE__
#include <xmmintrin.h>
#endif

typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t FourInts __attribute__((vector_size(16)));

enum { LANES = 4 };

#define INLINE static inline __attribute__((always_inline))

INLINE void order(Four *low, Four *high)
{
	Four a = *low, b = *high;
#if defined __SSE__
	*low = _mm_min_ps(a, b);
	*high = _mm_max_ps(a, b);
#else
	FourInts less = a < b;
	*low = (Four)((less & (FourInts)a) | (~less & (FourInts)b));
	*high = (Four)((less & (FourInts)b) | (~less & (FourInts)a));
#endif
}

INLINE Four four_at(const float *line, int64_t at)
{
	return *(const Four *)(line + at);
}

#endif
