/* Cuts volumes into slabs, and back projections into pieces that fit into the memory of the
 * devices. */
#include <string.h>
#include "backend/split/pieces.h"

#define MARGIN 1.5

int64_t step_voxels(const Step *s)
{
	return box_count(&s->box);
}

int64_t window_size(const Window *w)
{
	return (w->high[0] - w->low[0]) * (w->high[1] - w->low[1]);
}

int64_t step_pixels(const Step *s)
{
	return s->count * window_size(&s->window);
}

int64_t step_view(const Step *s, int64_t i)
{
	int64_t size = s->count / s->sets;
	return s->first + i / size * s->stride + i % size;
}

bool step_same_input(const Step *a, const Step *b, Direction direction)
{
	if (direction == FORWARD)
		return memcmp(&a->box, &b->box, sizeof a->box) == 0;
	return a->first == b->first && a->count == b->count && a->sets == b->sets &&
	       a->stride == b->stride && memcmp(&a->window, &b->window, sizeof a->window) == 0;
}

/* ---- lists that grow ------------------------------------------------------------------------ */

static tomos_status grow(void *list_in_out, int64_t count, int64_t *capacity, size_t size)
{
	void *old, *larger;
	if (count < *capacity)
		return TOMOS_OK;
	memcpy(&old, list_in_out, sizeof old);
	TRY(mem_alloc(&larger, 2 * count + 16, size, "a list of pieces"));
	if (count > 0)
		memcpy(larger, old, (size_t)count * size);
	mem_free(old);
	memcpy(list_in_out, &larger, sizeof larger);
	*capacity = 2 * count + 16;
	return TOMOS_OK;
}

tomos_status schedule_add_item(Schedule *s, const Step *piece, int64_t after)
{
	TRY(grow(&s->items, s->item_count, &s->item_capacity, sizeof *s->items));
	s->items[s->item_count++] = (Item){.piece = *piece, .first = s->step_count, .after = after};
	return TOMOS_OK;
}

tomos_status schedule_add_step(Schedule *s, const Step *step)
{
	TRY(grow(&s->steps, s->step_count, &s->step_capacity, sizeof *s->steps));
	s->steps[s->step_count++] = *step;
	s->items[s->item_count - 1].steps++;
	return TOMOS_OK;
}

/* ---- slabs ---------------------------------------------------------------------------------- */

tomos_status cut_box(Slabs *slabs, const Box *box, int64_t most, int64_t least)
{
	int64_t n[3];
	for (int a = 0; a < 3; a++)
		n[a] = box->high[a] - box->low[a];
	int64_t z_size = min64(most / (n[0] * n[1]), parts_of(n[2], min64(least, n[2])));
	int64_t z_parts = parts_of(n[2], max64(z_size, 1)), y_parts = 1;
	if (z_parts == n[2]) {
		y_parts = parts_of(n[1], min64(most / n[0], n[1]));
		y_parts = min64(max64(y_parts, parts_of(least, n[2])), n[1]);
	}
	slabs->count = z_parts * y_parts;
	TRY(mem_alloc(&slabs->list, slabs->count, sizeof *slabs->list, "a list of slabs"));
	for (int64_t i = 0; i < slabs->count; i++) {
		Box *slab = &slabs->list[i];
		int64_t z = i / y_parts, y = i % y_parts;
		*slab = *box;
		slab->low[2] = box->low[2] + n[2] * z / z_parts;
		slab->high[2] = box->low[2] + n[2] * (z + 1) / z_parts;
		slab->low[1] = box->low[1] + n[1] * y / y_parts;
		slab->high[1] = box->low[1] + n[1] * (y + 1) / y_parts;
	}
	return TOMOS_OK;
}

Window piece_window(const Cutting *c, int64_t view, const Box *box)
{
	const Plan *plan = c->what->plan;
	Window window = geom_window(plan->scan, view, &plan->grid, box, MARGIN);
	if (c->rows && window_size(&window) > 0) {
		window.low[0] = 0;
		window.high[0] = plan->scan->columns;
	}
	return window;
}

static Window window_join(const Window *a, const Window *b)
{
	Window joined = *a;
	if (window_size(a) == 0)
		return *b;
	for (int i = 0; i < 2 && window_size(b) > 0; i++) {
		joined.low[i] = min64(a->low[i], b->low[i]);
		joined.high[i] = max64(a->high[i], b->high[i]);
	}
	return joined;
}

bool box_spans_y(const Box *box, const Box *all)
{
	return box->low[1] == all->low[1] && box->high[1] == all->high[1];
}

/* ---- back projection ------------------------------------------------------------------------- */

void find_windows(const Cutting *c, const Step *step, int64_t end)
{
	for (int64_t set = 0; set < step->sets; set++)
		for (int64_t view = step->first; view < end; view++) {
			int64_t number = view + set * step->stride;
			c->windows[number - c->what->first] = piece_window(c, number, &step->box);
		}
}

void take_views(const Cutting *c, Step *step, int64_t end, int64_t most)
{
	step->count = 0;
	step->window = (Window){{0, 0}, {0, 0}};
	for (int64_t view = step->first; view < end; view++) {
		Window joined = step->window;
		for (int64_t set = 0; set < step->sets; set++) {
			int64_t number = view + set * step->stride - c->what->first;
			joined = window_join(&joined, &c->windows[number]);
		}
		if (step->count > 0 && window_size(&joined) * (step->count + step->sets) > most)
			return;
		step->window = joined;
		step->count += step->sets;
	}
}

/* Adds a step to the schedule. If its pixels do not fit, it becomes several steps, each with a band
 * of detector rows. */
static tomos_status add_views(const Cutting *c, Schedule *s, Step step)
{
	int64_t wide = step.window.high[0] - step.window.low[0], end = step.window.high[1];
	if (window_size(&step.window) == 0)
		return TOMOS_OK;
	int64_t high = max64(c->in / (wide * step.count), 1);
	for (int64_t row = step.window.low[1]; row < end; row += high) {
		step.window.low[1] = row;
		step.window.high[1] = min64(row + high, end);
		step.plan = s->step_count;
		TRY(schedule_add_step(s, &step));
	}
	return TOMOS_OK;
}

/* Number of sets of views for a slab. It is that of the symmetry if kernels that use the symmetry
 * apply (the slab has whole slices) and one view of each set fits into memory; else 1. */
static int64_t sets_of(const Cutting *c, const Box *box)
{
	Step step = {.box = *box,
		.first = c->what->first,
		.sets = c->symmetry,
		.stride = c->what->count / c->symmetry};
	find_windows(c, &step, step.first + 1);
	take_views(c, &step, step.first + 1, c->in);
	return box_spans_y(box, &c->what->box) && step_pixels(&step) <= c->in ? c->symmetry : 1;
}

/* Divides views [step.first, end), and their counterparts in the other sets, into steps of nearly
 * equal size. */
static tomos_status cut_views(const Cutting *c, Schedule *s, Step step, int64_t end)
{
	const int64_t all = end - step.first;
	if (all == 0)
		return TOMOS_OK;
	find_windows(c, &step, end);
	take_views(c, &step, end, c->in);
	const int64_t most = parts_of(all, parts_of(all, step.count / step.sets));
	for (; step.first < end; step.first += step.count / step.sets) {
		take_views(c, &step, min64(end, step.first + most), c->in);
		TRY(add_views(c, s, step));
	}
	return TOMOS_OK;
}

tomos_status cut_back(const Cutting *c, Schedule *s, int64_t groups)
{
	const ProjectRequest *what = c->what;
	for (int64_t i = 0; i < groups * c->slabs.count; i++) {
		int64_t group = i / c->slabs.count;
		Step step = {.box = c->slabs.list[i % c->slabs.count]};
		step.sets = sets_of(c, &step.box);
		step.stride = what->count / step.sets;
		step.first = what->first + step.stride * group / groups;
		TRY(schedule_add_item(s, &step, group > 0 ? i - c->slabs.count : -1));
		TRY(cut_views(c, s, step, what->first + step.stride * (group + 1) / groups));
	}
	s->plan_count = s->step_count;
	return TOMOS_OK;
}
