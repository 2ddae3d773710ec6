/* Stored number types and their conversion to float; shapes of one to three axes. */
#include <stdio.h>
#include <string.h>
#include "io/io.h"

/* IEEE half: 1 sign, 5 exponent and 10 fraction bits. */
static float half_value(uint16_t half)
{
	uint32_t exponent = (half >> 10) & 31u, fraction = half & 1023u;
	uint32_t bits = exponent == 31 ? 0x7f800000u | fraction << 13
				       : (exponent + 112) << 23 | fraction << 13;
	float value;
	memcpy(&value, &bits, sizeof value);
	if (exponent == 0)
		value = (float)fraction * 0x1p-24f;
	return half & 0x8000u ? -value : value;
}

static uint8_t swap8(uint8_t v)
{
	return v;
}

static uint16_t swap16(uint16_t v)
{
	return __builtin_bswap16(v);
}

static uint32_t swap32(uint32_t v)
{
	return __builtin_bswap32(v);
}

static uint64_t swap64(uint64_t v)
{
	return __builtin_bswap64(v);
}

/* E(kind, bits, C type, to float, to double, name) */
#define ELEMENTS(E) \
	E('i', 8, int8_t, (float), (double), int8) \
	E('i', 16, int16_t, (float), (double), int16) \
	E('i', 32, int32_t, (float), (double), int32) \
	E('i', 64, int64_t, (float), (double), int64) \
	E('u', 8, uint8_t, (float), (double), uint8) \
	E('u', 16, uint16_t, (float), (double), uint16) \
	E('u', 32, uint32_t, (float), (double), uint32) \
	E('u', 64, uint64_t, (float), (double), uint64) \
	E('f', 16, uint16_t, half_value, half_value, float16) \
	E('f', 32, float, (float), (double), float32) \
	E('f', 64, double, (float), (double), float64)

#define CONVERT(function, out_type, bits, type, to_out) \
	static void function(const unsigned char *in, int64_t count, bool swapped, out_type *out) \
	{ \
		for (int64_t i = 0; i < count; i++) { \
			uint##bits##_t raw; \
			type value; \
			memcpy(&raw, in + i * (int64_t)sizeof raw, sizeof raw); \
			if (swapped) \
				raw = swap##bits(raw); \
			memcpy(&value, &raw, sizeof value); \
			out[i] = to_out(value); \
		} \
	}
#define CONVERSIONS(kind, bits, type, to_float, to_double, name) \
	CONVERT(from_##name, float, bits, type, to_float) \
	CONVERT(wide_##name, double, bits, type, to_double)
ELEMENTS(CONVERSIONS)

typedef struct {
	char kind;
	int bytes;
	const char *name;
	void (*convert)(const unsigned char *in, int64_t count, bool swapped, float *out);
	void (*widen)(const unsigned char *in, int64_t count, bool swapped, double *out);
} Row;

#define ROW(kind, bits, type, to_float, to_double, name) \
	{kind, bits / 8, #name, from_##name, wide_##name},
static const Row rows[] = {ELEMENTS(ROW)};

static const Row *find(Element element)
{
	for (int i = 0; i < COUNT(rows); i++)
		if (rows[i].kind == element.kind && rows[i].bytes == element.bytes)
			return &rows[i];
	return NULL;
}

const char *element_name(Element element)
{
	const Row *row = find(element);
	return row ? row->name : NULL;
}

const char *element_names(const ElementNames *list, int count, Element element)
{
	for (int i = 0; i < count; i++)
		if (list[i].element.kind == element.kind && list[i].element.bytes == element.bytes)
			return list[i].names;
	return "";
}

void text_trim(char *text)
{
	size_t length = strlen(text);
	while (length > 0 && strchr(" \t\r", text[length - 1]))
		text[--length] = 0;
}

bool element_named(const char *name, Element *element)
{
	for (int i = 0; i < COUNT(rows); i++)
		if (strcmp(rows[i].name, name) == 0) {
			*element = (Element){rows[i].kind, rows[i].bytes, false};
			return true;
		}
	return false;
}

void element_widen(Element element, const void *stored, int64_t count, double *data)
{
	find(element)->widen(stored, count, element.swapped, data);
}

double element_largest(Element element)
{
	return element.kind == 'u' ? ldexp(1, 8 * element.bytes) - 1 : HUGE_VAL;
}

void element_encode(Element element, const float *data, int64_t count, double scale, double offset,
	void *stored)
{
	double most = element_largest(element);
	for (int64_t i = 0; i < count; i++) {
		double number = ((double)data[i] - offset) / scale;
		number = number >= 0 ? fmin(floor(number + 0.5), most) : 0; /* NaN: 0 */
		if (element.bytes == 1)
			((uint8_t *)stored)[i] = (uint8_t)number;
		else
			((uint16_t *)stored)[i] = (uint16_t)number;
	}
}

static double double_at(const unsigned char *stored, int64_t i, bool swapped)
{
	uint64_t raw;
	double value;
	memcpy(&raw, stored + i * (int64_t)sizeof raw, sizeof raw);
	raw = swapped ? swap64(raw) : raw;
	memcpy(&value, &raw, sizeof value);
	return value;
}

/* Only doubles can be finite and overflow to infinity as floats. */
tomos_status element_convert(
	Element element, const void *stored, int64_t count, float *data, const char *path)
{
	find(element)->convert(stored, count, element.swapped, data);
	for (int64_t i = 0; element.kind == 'f' && element.bytes == 8 && i < count; i++) {
		double value = isinf(data[i]) ? double_at(stored, i, element.swapped) : 0;
		if (isfinite(value) && value != 0)
			return fail(TOMOS_UNSUPPORTED,
				"'%s': %g does not fit float32, the numbers used here", path,
				value);
	}
	return TOMOS_OK;
}

tomos_status shape_take(int64_t shape[3], const int64_t *axes, int rank, const char *where)
{
	char text[160] = "()";
	int64_t count;
	for (int i = 0, length = 0; i < rank && length < (int)sizeof text - 32; i++)
		length += snprintf(text + length, sizeof text - (size_t)length, "%s%lld",
			i ? " x " : "", (long long)axes[i]);
	if (rank < 1 || rank > 3)
		return fail(TOMOS_UNSUPPORTED, "%s has %d axes (%s); 1 to 3 can be read", where,
			rank, text);
	for (int i = 0; i < 3; i++)
		shape[i] = i < 3 - rank ? 1 : axes[i - (3 - rank)];
	if (shape_count(shape, &count) != TOMOS_OK)
		return fail(TOMOS_BAD_FILE, "%s has the shape %s, which is empty or too large",
			where, text);
	return TOMOS_OK;
}

tomos_status file_take_shape(File *file, const int64_t *axes, int rank)
{
	char *where;
	TRY(mem_printf(&where, "'%s'", file->path));
	tomos_status status = shape_take(file->shape, axes, rank, where);
	mem_free(where);
	return status;
}

Element element_ordered(Element element, bool big)
{
	bool native = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
	element.swapped = big != native && element.bytes > 1;
	return element;
}

tomos_status file_take_array(File *file, const int64_t *axes, int rank, Element element, bool big)
{
	int64_t reversed[3];
	for (int i = 0; i < rank; i++)
		reversed[i] = axes[rank - 1 - i];
	file->element = element_ordered(element, big);
	return file_take_shape(file, reversed, rank);
}
