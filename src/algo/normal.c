/* Least squares by the normal operator (op/normal.c), where --normal asks for it. */
#include <stdio.h>
#include <string.h>
#include "algo/weights.h"

OPTION_VALUES(algebraic_values, TOMOS_ALGEBRAIC_OPTIONS);

enum { NORMAL_AUTO, NORMAL_DIRECT, NORMAL_FOURIER };

/* Why the iteration needs projections themselves; NULL: it does not. */
static const char *needs_projections(const Iteration *it)
{
	if (it->rays && tomos_method_uses(it->method, "weights"))
		return "with --ray-weights it weights each ray of the residual";
	if (tomos_method_uses(it->method, "weights") && weights_kind(it) != WEIGHTS_LANDWEBER)
		return "these weights of rays make A'A no convolution; --weights landweber has "
		       "none";
	if (strcmp(it->o->stop, "ncp") == 0)
		return "--stop ncp needs the residual of each ray";
	if (it->X->parts && it->o->checkpoint && it->o->checkpoint[0])
		return "checkpoints of several ranks contain projections";
	return NULL;
}

tomos_status iteration_choose_normal(Iteration *it, const tomos_op *op)
{
	int choice = choice_index(algebraic_values.normal, it->o->normal);
	NormalRequest request = {
		.mask = it->mask, .rays = it->rays, .automatic = choice == NORMAL_AUTO};
	if (choice == NORMAL_DIRECT || !tomos_method_uses(it->method, "normal"))
		return TOMOS_OK;
	const char *why = needs_projections(it);
	if (why)
		snprintf(request.why, sizeof request.why, "%s", why);
	else
		TRY(op_normal(&it->normal, &it->b, it->A, op, it->b, &request));
	if (!it->normal)
		return choice == NORMAL_AUTO ? TOMOS_OK
					     : fail(TOMOS_UNSUPPORTED,
						       "%s by the normal operator: %s; --normal "
						       "direct is possible",
						       it->method, request.why);
	it->A = it->normal;
	it->Y = &it->normal->range;
	return TOMOS_OK;
}
