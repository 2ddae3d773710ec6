/* Messages of detector rows between ranks: as floats, or in half precision.
 *
 * In half precision each message begins with a power of 2 by which its values are divided, so that
 * the largest is between 2^14 and 2^15. Values are then rounded to 11 bits: a relative error of
 * 2^-12 to 2^-11 at most, down to values of 2^-28 of the largest. */
#include <math.h>
#include <string.h>
#include "op/ranked_parts.h"

enum { LARGEST = 14, LEAST = -100, INFINITE = 0x7c00 }; /* LEAST: its inverse is finite */

static float largest_of(const float *data, int64_t count)
{
	float largest = 0;
	for (int64_t i = 0; i < count; i++) {
		float size = fabsf(data[i]);
		largest = size > largest && size < INFINITY ? size : largest;
	}
	return largest;
}

/* To the nearest half-precision number, ties to even. */
static uint16_t to_half(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
	float size = fabsf(value);
	if (!(size < 65520))
		return (uint16_t)(sign | INFINITE | (isnan(value) ? 0x200 : 0));
	if (size < 0x1p-14F)
		return (uint16_t)(sign | (uint16_t)lrintf(size * 0x1p24F));
	bits = (bits & 0x7fffffff) - (112U << 23);
	bits += 0xfff + (bits >> 13 & 1);
	return (uint16_t)(sign | (uint16_t)(bits >> 13));
}

static float from_half(uint16_t half)
{
	int exponent = half >> 10 & 31, rest = half & 0x3ff;
	float size;
	if (exponent == 31)
		size = rest ? NAN : INFINITY;
	else if (exponent == 0)
		size = (float)rest * 0x1p-24F;
	else {
		uint32_t bits = (uint32_t)(exponent + 112) << 23 | (uint32_t)rest << 13;
		memcpy(&size, &bits, sizeof size);
	}
	return half & 0x8000 ? -size : size;
}

static int64_t half_bytes(int64_t bytes)
{
	return (int64_t)sizeof(float) + bytes / 2;
}

static void pack(Ranked *r, const CommMessage *m, char *into)
{
	const float *data = m->data;
	int64_t count = m->bytes / (int64_t)sizeof *data;
	int exponent = 0;
	(void)frexpf(largest_of(data, count), &exponent);
	float scale = ldexpf(1, (exponent > LEAST ? exponent : LEAST) - 1 - LARGEST);
	float inverse = 1 / scale;
	uint16_t *halves = (uint16_t *)(void *)(into + sizeof scale);
	memcpy(into, &scale, sizeof scale);
	for (int64_t i = 0; i < count; i++) {
		halves[i] = to_half(data[i] * inverse);
		double error = (double)from_half(halves[i]) * (double)scale - (double)data[i];
		r->rounding[0] += error * error;
		r->rounding[1] += (double)data[i] * (double)data[i];
	}
}

static void unpack(const CommMessage *m, const char *from)
{
	float *data = m->data, scale;
	int64_t count = m->bytes / (int64_t)sizeof *data;
	const uint16_t *halves = (const uint16_t *)(const void *)(from + sizeof scale);
	memcpy(&scale, from, sizeof scale);
	for (int64_t i = 0; i < count; i++)
		data[i] = from_half(halves[i]) * scale;
}

/* Bytes of memory for a message, so that the next one begins at a multiple of 4. */
static int64_t half_place(const CommMessage *m)
{
	return (half_bytes(m->bytes) + 3) / 4 * 4;
}

static tomos_status exchange_halves(
	Ranked *r, const CommMessage *list, int64_t count, CommMessage *half)
{
	char *memory;
	int64_t bytes = 1;
	for (int64_t i = 0; i < count; i++)
		bytes += half_place(&list[i]);
	TRY(mem_alloc(&memory, bytes, 1, "messages in half precision"));
	char *at = memory;
	for (int64_t i = 0; i < count; i++) {
		half[i] = (CommMessage){list[i].rank, list[i].send, at, half_bytes(list[i].bytes)};
		if (list[i].send)
			pack(r, &list[i], at);
		at += half_place(&list[i]);
	}
	tomos_status status = comm_exchange(r->comm, half, count);
	at = memory;
	for (int64_t i = 0; i < count && status == TOMOS_OK; i++) {
		if (!list[i].send)
			unpack(&list[i], at);
		at += half_place(&list[i]);
	}
	mem_free(memory);
	return status;
}

tomos_status ranked_exchange(Ranked *r, const CommMessage *list, int64_t count)
{
	CommMessage *half;
	if (!r->half)
		return comm_exchange(r->comm, list, count);
	TRY(mem_alloc(&half, max64(1, count), sizeof *half, "messages"));
	tomos_status status = exchange_halves(r, list, count, half);
	mem_free(half);
	return status;
}

void ranked_use_half(tomos_backend *ranked)
{
	ranked_change(ranked)->half = true;
}

tomos_status ranked_rounding(const tomos_backend *ranked, double *relative)
{
	const Ranked *r = ranked_of(ranked);
	double sums[2] = {r->rounding[0], r->rounding[1]};
	TRY(comm_sum(r->comm, sums, 2));
	*relative = sums[1] > 0 ? sqrt(sums[0] / sums[1]) : 0;
	return TOMOS_OK;
}
