/* Medians across neighbouring lines, for four positions at once. */
#include "prep/four.h"
#include "prep/prep.h"

enum { MOST = 21, KEPT = MOST / 2 + 2 }; /* as many values fit into registers */

/* The smallest of `count` values goes to the front, the largest to the end. */
INLINE void extremes(Four *values, const int count)
{
#pragma GCC unroll 16
	for (int i = 0; i < count / 2; i++)
		order(&values[i], &values[count - 1 - i]);
#pragma GCC unroll 16
	for (int i = 1; i < (count + 1) / 2; i++)
		order(&values[0], &values[i]);
#pragma GCC unroll 16
	for (int i = count / 2; i < count - 1; i++)
		order(&values[i], &values[count - 1]);
}

INLINE Four limited(Four value, Four low, Four high)
{
	Four least = value, most = high;
	order(&least, &most); /* the smaller of value and high */
	most = low;
	order(&least, &most);
	return most;
}

/* Medians of lines 0 .. size - 1 and of lines 1 .. size. They are the values in the middle of what
 * both have in common, or the remaining value if it is between these. Forgetful selection finds the
 * two in the middle: of size / 2 + 2 values neither the smallest nor the largest can be one of
 * them; they are replaced by the next one, until four are left. */
INLINE void two_medians(const float *const *lines, int64_t at, const int size, Four medians[2])
{
	const int kept = size > 3 ? size / 2 + 2 : 2;
	Four values[KEPT];
#pragma GCC unroll 16
	for (int i = 0; i < kept; i++)
		values[i] = four_at(lines[1 + i], at);
#pragma GCC unroll 16
	for (int count = kept, next = kept + 1; count >= 4; count--, next++) {
		extremes(values, count);
		if (count > 4)
			values[0] = four_at(lines[next], at);
	}
	Four *middle = values + (size > 3);
	order(&middle[0], &middle[1]);
	medians[0] = limited(four_at(lines[0], at), middle[0], middle[1]);
	medians[1] = limited(four_at(lines[size], at), middle[0], middle[1]);
}

#define MEDIANS(size) \
	static void medians_##size( \
		const float *const *lines, int64_t count, float *out, float *next) \
	{ \
		for (int64_t i = 0; i < count; i += LANES) { \
			int64_t at = min64(i, count - LANES); /* the last four may overlap */ \
			Four medians[2]; \
			two_medians(lines, at, size, medians); \
			*(Four *)(out + at) = medians[0]; \
			*(Four *)(next + at) = medians[1]; \
		} \
	}
#define SIZES(S) S(3) S(5) S(7) S(9) S(11) S(13) S(15) S(17) S(19) S(21)
SIZES(MEDIANS)

#define MEDIANS_OF(size) [(size) / 2] = medians_##size,
static void (*const medians[MOST / 2 + 1])(const float *const *, int64_t, float *, float *) = {
	SIZES(MEDIANS_OF)};

bool median_lines(const float *data, int64_t lines, int64_t count, int64_t line, int64_t size,
	float *out, float *next)
{
	const float *around[MOST + 1];
	if (size > MOST || size < 3 || count < LANES)
		return false;
	for (int64_t i = 0; i <= size; i++)
		around[i] = data + index_mirrored(line - size / 2 + i, lines) * count;
	medians[size / 2](around, count, out, next);
	return true;
}
