/* Decides for which views rows of four pixels can be used, and in which order they are
 * processed. */
#include "backend/cpu/level/four.h"

/* The set-up of a view; kind FOUR_KINDS: rows of four pixels cannot be used. */
static Fours fours_of(const ProjectRequest *what, const Frame *f, int64_t view)
{
	const KernelView *k = &what->plan->views[what->first + view];
	double origin, per[2];
	columns_of(what, f, k, &origin, &per[0], &per[1]);
	Fours l = {.axis = fabs(per[0]) < fabs(per[1]) ? 0 : 1};
	l.per_row = per[l.axis], l.per_other = per[1 - l.axis];
	l.flip = l.per_row < 0;
	if (l.flip) {
		origin = (double)(what->plan->model.columns - 1) - origin;
		l.per_row *= -1, l.per_other *= -1;
	}
	l.pitch = (float)l.per_row;
	l.kind = 3 * l.per_row <= 1 ? 0 : 2 * l.per_row <= 1 ? 1 : 3 * l.per_row <= 2 ? 2 : 3;
	if (!(l.per_row <= 1 && fabs(l.per_other) <= FOUR_WIDEST))
		l.kind = FOUR_KINDS;
	l.weight = what->plan->model.weight == WEIGHT_RAY ? (float)k->mass : 1;
	l.start = origin + lowest_lane(l.per_other);
	l.lanes = lanes_of(l.per_other);
	return l;
}

bool LEVEL(fours_apply)(const ProjectRequest *what, const Frame *f)
{
	bool all = what->kernel == KERNEL_voxel && what->direction == ADJOINT &&
		   what->count > FEW_VIEWS;
	for (int64_t i = 0; all && i < what->count; i++)
		all = fours_of(what, f, i).kind < FOUR_KINDS;
	return all;
}

tomos_status LEVEL(fours_order)(const ProjectRequest *what, const Frame *f, int64_t **order)
{
	int64_t count = 0;
	TRY(mem_alloc(order, what->count, sizeof **order, "the order of the views"));
	for (int group = 0; group < 2 * FOUR_KINDS; group++)
		for (int64_t i = 0; i < what->count; i++) {
			Fours l = fours_of(what, f, i);
			if (l.axis * FOUR_KINDS + l.kind == group && l.kind < FOUR_KINDS)
				(*order)[count++] = i;
		}
	return TOMOS_OK;
}

int64_t LEVEL(fours_next)(const ProjectRequest *what, const Frame *f, const int64_t *order,
	int64_t first, int64_t most, Fours *views)
{
	int64_t count = min64(most, what->count - first), whole = 0, alike;
	for (int64_t i = 0; i < count; i++)
		views[i] = fours_of(what, f, order[first + i]);
	if (first + count == what->count)
		return count;
	while (alike = fours_alike(views, whole, count),
		whole + alike < count || alike == FOUR_VIEWS)
		whole += alike;
	return whole;
}
