/* Cuts forward projections into pieces that fit into the memory of the devices. */
#include "backend/split/pieces.h"

/* ---- views, or bands of their rows, from the slabs that project to them -------------------- */

tomos_status find_reach(Cutting *c)
{
	const ProjectRequest *what = c->what;
	TRY(mem_alloc(&c->reach, c->slabs.count * what->count, sizeof *c->reach,
		"the rows that slabs reach"));
	for (int64_t i = 0; i < c->slabs.count * what->count; i++) {
		Window w = piece_window(
			c, what->first + i % what->count, &c->slabs.list[i / what->count]);
		c->reach[i] =
			window_size(&w) > 0 ? (RowRange){w.low[1], w.high[1]} : (RowRange){0, 0};
	}
	return TOMOS_OK;
}

static bool reaches(const Cutting *c, int64_t slab, const Step *step)
{
	const RowRange *reach = c->reach + slab * c->what->count + step->first - c->what->first;
	for (int64_t i = 0; i < step->count; i++)
		if (max64(reach[i].low, step->window.low[1]) <
			min64(reach[i].high, step->window.high[1]))
			return true;
	return false;
}

static Step block_of(const Cutting *c, const Blocks *b, int64_t index)
{
	const ProjectRequest *what = c->what;
	const tomos_geometry *scan = what->plan->scan;
	int64_t band = index % b->bands, chunk = index / b->bands;
	Step step = {.window = {{0, scan->rows * band / b->bands},
			     {scan->columns, scan->rows * (band + 1) / b->bands}},
		.first = what->first + what->count * chunk / b->chunks,
		.sets = 1};
	step.count = what->first + what->count * (chunk + 1) / b->chunks - step.first;
	return step;
}

/* Extends `box` by `next` if the two are consecutive in memory; else returns false. */
static bool box_join(const Box *all, Box *box, const Box *next)
{
	if (box->low[2] == next->low[2] && box->high[1] == next->low[1])
		box->high[1] = next->high[1];
	else if (box_spans_y(box, all) && box_spans_y(next, all) && box->high[2] == next->low[2])
		box->high[2] = next->high[2];
	else
		return false;
	return true;
}

/* Adds slabs [from, to) to the schedule, joined into steps of nearly equal size that fit. */
static tomos_status add_joined(const Cutting *c, Schedule *s, Step step, int64_t from, int64_t to)
{
	int64_t largest = 1;
	for (int64_t i = from; i < to; i++)
		largest = max64(largest, box_count(&c->slabs.list[i]));
	int64_t parts = parts_of(to - from, max64(c->in / largest, 1));
	for (int64_t part = 0; part < parts; part++) {
		int64_t i = from + (to - from) * part / parts;
		int64_t end = from + (to - from) * (part + 1) / parts;
		step.box = c->slabs.list[i];
		while (++i < end)
			box_join(&c->what->box, &step.box, &c->slabs.list[i]);
		TRY(schedule_add_step(s, &step));
	}
	return TOMOS_OK;
}

/* Adds the steps of one block: the slabs in [from, to) that project to it, joined where they fit
 * together. */
static tomos_status cut_block(const Cutting *c, Schedule *s, Step step, int64_t from, int64_t to)
{
	const Box *list = c->slabs.list;
	step.plan = s->item_count - 1;
	for (int64_t i = from, end; i < to; i = end) {
		end = i + 1;
		if (!reaches(c, i, &step))
			continue;
		Box box = list[i];
		while (end < to && reaches(c, end, &step) &&
			box_join(&c->what->box, &box, &list[end]))
			end++;
		TRY(add_joined(c, s, step, i, end));
	}
	return TOMOS_OK;
}

tomos_status cut_forward(const Cutting *c, Schedule *s, const Blocks *b)
{
	for (int64_t i = 0; i < b->bands * b->chunks; i++) {
		Step block = block_of(c, b, i);
		TRY(schedule_add_item(s, &block, -1));
		TRY(cut_block(c, s, block, 0, c->slabs.count));
	}
	s->plan_count = s->item_count;
	return TOMOS_OK;
}

/* ---- slab by slab, with the projections added up ------------------------------------------ */

static Window whole_window(const Cutting *c)
{
	const tomos_geometry *scan = c->what->plan->scan;
	return (Window){{0, 0}, {scan->columns, scan->rows}};
}

/* Adds the items of one slab and some views: the pixels that it projects to, in one piece or in
 * bands of rows. Pieces of the same pixels are added in the order of the slabs. */
static tomos_status add_seen(const Cutting *c, Schedule *s, Step step)
{
	if (window_size(&step.window) == 0)
		return TOMOS_OK;
	if (c->solid)
		step.window = whole_window(c);
	int64_t wide = step.window.high[0] - step.window.low[0], end = step.window.high[1];
	int64_t high = max64(c->out / (wide * step.count), 1);
	for (int64_t row = step.window.low[1]; row < end; row += high) {
		step.window.low[1] = row;
		step.window.high[1] = min64(row + high, end);
		step.plan = s->item_count;
		TRY(schedule_add_item(s, &step, s->item_count - 1));
		TRY(schedule_add_step(s, &step));
	}
	return TOMOS_OK;
}

tomos_status cut_slabs(const Cutting *c, Schedule *s)
{
	const int64_t end = c->what->first + c->what->count;
	const Window whole = whole_window(c);
	const int64_t most = max64(c->out / window_size(&whole), 1); /* views */
	s->adds = true;
	for (int64_t i = 0; i < c->slabs.count; i++) {
		Step step = {.box = c->slabs.list[i], .first = c->what->first, .sets = 1};
		for (find_windows(c, &step, end); step.first < end; step.first += step.count) {
			take_views(c, &step, end, c->out);
			if (c->solid)
				step.count = min64(step.count, most);
			TRY(add_seen(c, s, step));
		}
	}
	s->plan_count = s->item_count;
	return TOMOS_OK;
}

bool count_blocks(const Cutting *c, Blocks *b, int64_t least)
{
	const KernelModel *model = &c->what->plan->model;
	int64_t fit = c->out / (parts_of(model->rows, b->bands) * model->columns);
	if (fit < 1)
		return false;
	int64_t chunks = max64(parts_of(c->what->count, fit), parts_of(least, b->bands));
	b->chunks = min64(chunks, c->what->count);
	return true;
}
