/* Traversal of strided arrays in C order. */
#include "truth/truth.h"

int64_t array_count(const tomos_array *a)
{
	return a->shape[0] * a->shape[1] * a->shape[2];
}

int64_t array_run(const tomos_array *a, int64_t index, int64_t end, float **start)
{
	int64_t x = index % a->shape[2], row = index / a->shape[2];
	int64_t y = row % a->shape[1], z = row / a->shape[1];
	*start = a->data + (z * a->stride[0] + y * a->stride[1] + x * a->stride[2]);
	return min64(a->shape[2] - x, end - index);
}

int64_t array_blocks(const tomos_array *a)
{
	return (array_count(a) + BLOCK - 1) / BLOCK;
}

void array_visit(const tomos_array *a, int64_t block,
	void (*visit)(void *user, int64_t index, float *element), void *user)
{
	int64_t end = min64((block + 1) * BLOCK, array_count(a));
	for (int64_t i = block * BLOCK, n; i < end; i += n) {
		float *p;
		n = array_run(a, i, end, &p);
		for (int64_t k = 0; k < n; k++)
			visit(user, i + k, p + k * a->stride[2]);
	}
}

typedef struct {
	const tomos_array *array;
	bool (*wrong)(const void *user, float value);
	const void *user;
	int64_t *found; /* per block: the first wrong element, or -1 */
} Search;

static void search_element(void *user, int64_t index, float *element)
{
	Search *s = user;
	int64_t *found = s->found + index / BLOCK;
	if (*found < 0 && s->wrong(s->user, *element))
		*found = index;
}

static void search_block(void *user, int64_t block)
{
	Search *s = user;
	s->found[block] = -1;
	array_visit(s->array, block, search_element, s);
}

static tomos_status reject_element(
	const tomos_array *a, const char *what, const char *why, int64_t index)
{
	float *p;
	array_run(a, index, index + 1, &p);
	int64_t row = index / a->shape[2];
	return fail(TOMOS_BAD_VALUE, "%s: element [%lld][%lld][%lld] is %g, but %s", what,
		(long long)(row / a->shape[1]), (long long)(row % a->shape[1]),
		(long long)(index % a->shape[2]), (double)*p, why);
}

tomos_status array_reject(const tomos_array *a, const char *what, const char *why,
	bool (*wrong)(const void *user, float value), const void *user)
{
	int64_t blocks = array_blocks(a);
	Search s = {.array = a, .wrong = wrong, .user = user};
	TRY(mem_alloc(&s.found, blocks, sizeof *s.found, "the check of an array"));
	tomos_status status = parallel_try(blocks, search_block, &s, "the check of an array");
	for (int64_t b = 0; b < blocks && status == TOMOS_OK; b++)
		if (s.found[b] >= 0)
			status = reject_element(a, what, why, s.found[b]);
	mem_free(s.found);
	return status;
}
