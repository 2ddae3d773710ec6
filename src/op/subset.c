/* Blocks of views: their sizes (Nielsen 2014, 8.4), the orders of views, and one operator for each.
 *
 * Multilevel: H. Guan and R. Gordon, "A projection access order for speedy convergence of ART",
 * Phys. Med. Biol. 39 (1994): each view is as far as possible from those before it.
 */
#include <math.h>
#include <string.h>
#include "op/subset.h"

/* splitmix64 */
static uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

void order_shuffle(int64_t *list, int64_t count, uint64_t seed, int64_t sweep)
{
	uint64_t state = seed * 0x2545f4914f6cdd1du + (uint64_t)sweep;
	for (int64_t i = count - 1; i > 0; i--) {
		int64_t j = (int64_t)(random_next(&state) % (uint64_t)(i + 1)), swap = list[i];
		list[i] = list[j];
		list[j] = swap;
	}
}

/* The free index at or after `wanted`. */
static int64_t take_free(bool *taken, int64_t count, int64_t wanted)
{
	int64_t i = wanted;
	while (taken[i])
		i = (i + 1) % count;
	taken[i] = true;
	return i;
}

static void order_golden(int64_t *list, int64_t count, bool *taken)
{
	const double golden = 0.61803398874989484820;
	for (int64_t k = 0; k < count; k++) {
		double at = (double)k * golden;
		at -= floor(at);
		list[k] = take_free(taken, count, min64((int64_t)(at * (double)count), count - 1));
	}
}

/* Bit-reversed fractions of the count, each index once. */
static void order_multilevel(int64_t *list, int64_t count, bool *taken)
{
	int64_t size = 1, k = 0;
	while (size < count)
		size *= 2;
	for (int64_t i = 0; i < size; i++) {
		int64_t reversed = 0;
		for (int64_t bit = 1; bit < size; bit *= 2)
			reversed = 2 * reversed + (i & bit ? 1 : 0);
		int64_t at = (int64_t)((double)reversed * (double)count / (double)size);
		if (!taken[at])
			list[k++] = at;
		taken[at] = true;
	}
}

tomos_status order_list(ViewOrder order, int64_t count, uint64_t seed, int64_t *list)
{
	for (int64_t i = 0; i < count; i++)
		list[i] = i;
	if (order == ORDER_RANDOM)
		order_shuffle(list, count, seed, -1);
	if (order != ORDER_GOLDEN && order != ORDER_MULTILEVEL)
		return TOMOS_OK;
	bool *taken;
	TRY(mem_zeroed(&taken, count, sizeof *taken, "the order of views"));
	(order == ORDER_GOLDEN ? order_golden : order_multilevel)(list, count, taken);
	mem_free(taken);
	return TOMOS_OK;
}

int64_t subset_first(int64_t views, int64_t count, int64_t i)
{
	int64_t size = (views + count - 1) / count;    /* of the larger blocks */
	int64_t larger = views + count - count * size; /* how many these are */
	return i <= larger ? i * size : larger * size + (i - larger) * (size - 1);
}

static tomos_status make_ops(Subsets *s, const tomos_op *op)
{
	if (s->count == 1) {
		s->ops[0] = op;
		s->whole = true;
		return TOMOS_OK;
	}
	for (int64_t i = 0; i < s->count; i++) {
		tomos_op *part;
		TRY(op_part(op, &part, s->views + s->first[i], s->first[i + 1] - s->first[i]));
		s->ops[i] = part;
	}
	return TOMOS_OK;
}

tomos_status subsets_make(
	Subsets *s, const tomos_op *op, int64_t count, ViewOrder order, uint64_t seed)
{
	int64_t views = op->range.shape[0];
	tomos_status status;
	*s = (Subsets){
		.count = count, .pixels = op->range.count / views, .order = order, .seed = seed};
	if (count < 1 || count > views)
		return fail(TOMOS_BAD_VALUE, "%lld blocks of %lld views: there must be 1 to %lld",
			(long long)count, (long long)views, (long long)views);
	TRY_OR_DONE(mem_alloc(&s->views, views, sizeof *s->views, "the order of views"));
	TRY_OR_DONE(mem_alloc(&s->first, count + 1, sizeof *s->first, "blocks of views"));
	TRY_OR_DONE(mem_alloc(&s->visits, count, sizeof *s->visits, "blocks of views"));
	TRY_OR_DONE(mem_zeroed(&s->ops, count, sizeof *s->ops, "blocks of views"));
	TRY_OR_DONE(order_list(count == 1 ? ORDER_SEQUENTIAL : order, views, seed, s->views));
	for (int64_t i = 0; i <= count; i++)
		s->first[i] = subset_first(views, count, i);
	TRY_OR_DONE(make_ops(s, op));
done:
	if (status != TOMOS_OK)
		subsets_free(s);
	return status;
}

void subsets_free(Subsets *s)
{
	for (int64_t i = 0; s->ops && !s->whole && i < s->count; i++)
		tomos_op_free((tomos_op *)s->ops[i]);
	mem_free(s->views);
	mem_free(s->first);
	mem_free(s->visits);
	mem_free(s->ops);
	*s = (Subsets){0};
}

void subsets_sweep(Subsets *s, int64_t sweep)
{
	for (int64_t i = 0; i < s->count; i++)
		s->visits[i] = i;
	if (s->order == ORDER_RANDOM)
		order_shuffle(s->visits, s->count, s->seed, sweep);
}

int64_t subset_offset(const Subsets *s, int64_t i)
{
	return s->first[i] * s->pixels;
}

tomos_status subsets_arrange(
	const Subsets *s, const tomos_op *op, const float *projections, float *arranged)
{
	Space one = op->range;
	one.shape[0] = 1;
	one.count = s->pixels;
	for (int64_t i = 0; i < op->range.shape[0]; i++)
		TRY(vector_copy(
			&one, projections + s->views[i] * s->pixels, arranged + i * s->pixels));
	return TOMOS_OK;
}
