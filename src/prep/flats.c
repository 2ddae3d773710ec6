/* Groups of flats taken at the same time, and interpolation between them. */
#include "prep/flats.h"
#include <stdlib.h>
#include "prep/prep.h"

tomos_status flats_check(const double *positions, int64_t count)
{
	for (int64_t i = 0; positions && i < count; i++)
		if (!isfinite(positions[i]))
			return fail(TOMOS_BAD_VALUE, "flat %lld was taken at view %g", (long long)i,
				positions[i]);
	return TOMOS_OK;
}

static int by_position(const void *a, const void *b)
{
	const Taken *x = a, *y = b;
	int side = (x->position > y->position) - (x->position < y->position);
	return side ? side : (x->image > y->image) - (x->image < y->image);
}

static void find_groups(FlatGroups *f)
{
	for (int64_t i = 0; i < f->count; i++)
		if (i == 0 || f->order[i].position != f->order[i - 1].position)
			f->begins[f->groups++] = i;
	f->begins[f->groups] = f->count;
}

tomos_status flats_group(FlatGroups *f, int64_t count, const double *positions)
{
	*f = (FlatGroups){.count = count};
	tomos_status status;
	TRY_OR_DONE(mem_alloc(&f->order, count, sizeof *f->order, "the order of the flats"));
	TRY_OR_DONE(mem_alloc(&f->begins, count + 1, sizeof *f->begins, "the groups of the flats"));
	for (int64_t i = 0; i < count; i++)
		f->order[i] = (Taken){positions ? positions[i] : 0, i};
	qsort(f->order, (size_t)count, sizeof *f->order, by_position);
	find_groups(f);
done:
	if (status != TOMOS_OK)
		flats_free(f);
	return status;
}

void flats_free(FlatGroups *f)
{
	mem_free(f->order);
	mem_free(f->begins);
	*f = (FlatGroups){.count = 0};
}

void flats_between(const FlatGroups *f, double view, int drift, int64_t group[2], float *share)
{
	int64_t g = 0;
	while (g < f->groups && f->order[f->begins[g]].position <= view)
		g++;
	group[0] = max64(g - 1, 0);
	group[1] = min64(g, f->groups - 1);
	double a = f->order[f->begins[group[0]]].position;
	double b = f->order[f->begins[group[1]]].position;
	double t = b > a ? (view - a) / (b - a) : 0;
	*share = (float)(drift == 1 ? floor(t + 0.5) : t);
}
