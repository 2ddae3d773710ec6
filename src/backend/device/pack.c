/* Copies between strided arrays and packed memory, on all threads. */
#include <string.h>
#include "backend/device/pack.h"

enum { COPY_FLOATS = 1 << 16 };

bool pack_is_contiguous(const tomos_array *a)
{
	return a->stride[2] == 1 && a->stride[1] == a->shape[2] &&
	       a->stride[0] == a->shape[1] * a->shape[2];
}

typedef struct {
	const tomos_array *array;
	float *packed;
	int64_t first, count;
	bool out;
} Packing;

/* Consecutive elements of one line of the array. */
static void copy_elements(const Packing *p, int64_t at, int64_t count)
{
	const tomos_array *a = p->array;
	int64_t n = a->shape[2], line = (p->first + at) / n, k = (p->first + at) % n;
	float *host = a->data + line / a->shape[1] * a->stride[0] +
		      line % a->shape[1] * a->stride[1] + k * a->stride[2];
	float *packed = p->packed + at;
	if (a->stride[2] == 1) {
		memcpy(p->out ? host : packed, p->out ? packed : host,
			(size_t)count * sizeof(float));
		return;
	}
	for (int64_t i = 0; i < count; i++)
		if (p->out)
			host[i * a->stride[2]] = packed[i];
		else
			packed[i] = host[i * a->stride[2]];
}

static void copy_part(void *user, int64_t index)
{
	const Packing *p = user;
	int64_t at = index * COPY_FLOATS, end = min64(at + COPY_FLOATS, p->count);
	while (at < end) {
		int64_t rest = p->array->shape[2] - (p->first + at) % p->array->shape[2];
		int64_t count = min64(rest, end - at);
		copy_elements(p, at, count);
		at += count;
	}
}

void pack_copy(const tomos_array *array, float *packed, int64_t first, int64_t count, bool out)
{
	Packing packing = {array, packed, first, count, out};
	parallel_for((count + COPY_FLOATS - 1) / COPY_FLOATS, copy_part, &packing);
}
