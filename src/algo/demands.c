/* Memory and coupling of the iterative methods, from their table and their options. */
#include "algo/demands.h"

typedef struct {
	Coupling coupling;
	int volumes, projections, fields, lists;
} DemandRow;

#define METHOD(function, name, needs, coupling, volumes, projections, fields, lists, ...) \
	{COUPLING_##coupling, volumes, projections, fields, lists},
static const DemandRow rows[] = {
#include "algo/methods.def"
};
#undef METHOD

static const DemandRow *row_of(const Demand *d)
{
	return &rows[choice_index(tomos_method_names(), d->method)];
}

static bool uses(const Demand *d, const char *option)
{
	return tomos_method_uses(d->method, option) != 0;
}

static bool is(const char *value, const char *choices)
{
	return choice_index(choices, value ? value : "") >= 0;
}

static bool has_gradient(const Demand *d)
{
	return uses(d, "regulariser") && d->o->strength != 0 && is(d->o->regulariser, "tv|huber");
}

static bool has_penalty(const Demand *d)
{
	return uses(d, "strength") && !uses(d, "regulariser") && d->o->strength != 0;
}

static bool within_slices(const Demand *d)
{
	return uses(d, "penalty_within") && is(d->o->penalty_within, "slices");
}

/* The rays are used in a random order. */
static bool is_shuffled(const Demand *d)
{
	return row_of(d)->lists > 0 && is(d->o->order, "random");
}

/* The relaxation follows from a norm. */
static bool is_scaled(const Demand *d)
{
	return uses(d, "weights") && is(d->o->weights, "cimmino|landweber") &&
	       d->o->relaxation == 0;
}

Coupling demand_coupling(const Demand *d)
{
	Coupling own = row_of(d)->coupling;
	bool ruled = !is(d->o->stop, "iterations") || d->o->keep_best;
	if (own == COUPLING_DIFFERENCES || has_gradient(d))
		return within_slices(d) ? COUPLING_SUMS : COUPLING_DIFFERENCES;
	if (is_shuffled(d) || ruled || is_scaled(d) || d->mask || d->rays)
		return COUPLING_SUMS;
	return own;
}

void demand_vectors(const Demand *d, double *volumes, double *projections)
{
	double x = row_of(d)->volumes, y = row_of(d)->projections;
	int fields = row_of(d)->fields;
	if (has_gradient(d)) /* within slices: two components of three */
		x += within_slices(d) ? (2 * fields + 2) / 3 : fields;
	if (has_penalty(d))
		x += fields;
	if (is_scaled(d))
		x += 2, y += 4;
	if (is_shuffled(d))
		y += row_of(d)->lists;
	x += is(d->o->stop, "change") + (d->o->keep_best != 0);
	y += is(d->o->stop, "monotone|ncp") + is(d->o->stop, "ncp");
	if (d->o->checkpoint && *d->o->checkpoint)
		x += row_of(d)->volumes + 1, y += row_of(d)->projections + 1;
	if (d->mask)
		x += 1;
	if (d->rays)
		y += 4;
	*volumes = x;
	*projections = y;
}

bool demand_normal(const Demand *d)
{
	bool weighted = uses(d, "weights") && (d->rays || !is(d->o->weights, "landweber"));
	return uses(d, "normal") && !is(d->o->normal, "direct") && !is(d->o->stop, "ncp") &&
	       !weighted;
}
