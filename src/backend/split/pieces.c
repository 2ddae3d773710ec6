/* Cuts a projection into pieces that fit, several ways, and takes the one that moves least.
 *
 * Okitsu et al., Table 1: with C devices, voxels shared out cost sending the views C times, views shared
 * out cost fetching the volume C times and adding it up; going forward the two change places. Here the
 * bytes are counted piece by piece, since a slab needs only the pixels that it can reach, and C is
 * always the same, so that the pieces, and with them the last bits of a result, depend on the memory
 * alone and not on the number of devices.
 */
#include <string.h>
#include "backend/split/split.h"

enum {
	PIECES = 16,  /* of the result, where they are not more: work for 8 devices */
	LAYERS = 128, /* of a volume, of which a band of rows may need some */
	MODEL = 4,    /* lanes that the model thinks of */
	BANDS = 64    /* of detector rows; more are tried only if it must be */
};
#define MARGIN 1.5
#define VIEWS_KEPT 100000 /* in all plans of a schedule */

typedef struct {
	Box *list;
	int64_t count;
} Slabs;

/* Detector rows [low, high) that a slab reaches in a view. */
typedef struct {
	int64_t low, high;
} Rows;

/* All that a way of cutting needs to know. */
typedef struct {
	const Split *split;
	const ProjectRequest *what;
	bool solid, rows;
	int64_t out, in; /* floats of a piece, and that may be sent at a time */
	int64_t turns;   /* of a circle that the views come in, going back; 1: none that matter */
	Slabs slabs;
	Window *windows; /* of the slab that is being cut, by view; see find_windows */
	Rows *reach;     /* [slab][view], going forward: slabs are then what views are made of */
} Cutting;

int64_t step_voxels(const Step *s)
{
	return box_count(&s->box);
}

static int64_t window_size(const Window *w)
{
	return (w->high[0] - w->low[0]) * (w->high[1] - w->low[1]);
}

int64_t step_pixels(const Step *s)
{
	return s->count * window_size(&s->window);
}

int64_t step_view(const Step *s, int64_t i)
{
	int64_t run = s->count / s->runs;
	return s->first + i / run * s->apart + i % run;
}

bool step_same_input(const Step *a, const Step *b, Direction direction)
{
	if (direction == FORWARD)
		return memcmp(&a->box, &b->box, sizeof a->box) == 0;
	return a->first == b->first && a->count == b->count && a->runs == b->runs &&
	       a->apart == b->apart && memcmp(&a->window, &b->window, sizeof a->window) == 0;
}

/* ---- lists that grow ------------------------------------------------------------------------ */

static tomos_status grow(void *list_in_out, int64_t count, int64_t *room, size_t size)
{
	void *old, *larger;
	if (count < *room)
		return TOMOS_OK;
	memcpy(&old, list_in_out, sizeof old);
	TRY(mem_alloc(&larger, 2 * count + 16, size, "a list of pieces"));
	if (count > 0)
		memcpy(larger, old, (size_t)count * size);
	mem_free(old);
	memcpy(list_in_out, &larger, sizeof larger);
	*room = 2 * count + 16;
	return TOMOS_OK;
}

static tomos_status add_item(Schedule *s, const Step *piece, int64_t after)
{
	TRY(grow(&s->items, s->item_count, &s->item_room, sizeof *s->items));
	s->items[s->item_count++] = (Item){.piece = *piece, .first = s->step_count, .after = after};
	return TOMOS_OK;
}

static tomos_status add_step(Schedule *s, const Step *step)
{
	TRY(grow(&s->steps, s->step_count, &s->step_room, sizeof *s->steps));
	s->steps[s->step_count++] = *step;
	s->items[s->item_count - 1].steps++;
	return TOMOS_OK;
}

void schedule_free(Schedule *s)
{
	if (!s)
		return;
	for (int64_t i = 0; s->plans && i < s->plan_count; i++)
		if (s->plans[i].scan)
			plan_free(&s->plans[i]);
	mem_free(s->plans);
	mem_free(s->steps);
	mem_free(s->items);
	mem_free(s);
}

/* ---- slabs ---------------------------------------------------------------------------------- */

/* Whole slices, several or one at a time, or rows of one: at least `least` boxes, if there can be so
 * many, of at most `most` voxels. */
static tomos_status cut_box(Slabs *slabs, const Box *box, int64_t most, int64_t least)
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

static Window window_of(const Cutting *c, int64_t view, const Box *box)
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

static bool spans_y(const Box *box, const Box *all)
{
	return box->low[1] == all->low[1] && box->high[1] == all->high[1];
}

/* ---- back: slabs made of views --------------------------------------------------------------- */

/* What views see of the step's box, those up to `end` of the first run and their like of the others. */
static void find_windows(const Cutting *c, const Step *step, int64_t end)
{
	for (int64_t run = 0; run < step->runs; run++)
		for (int64_t view = step->first; view < end; view++) {
			int64_t number = view + run * step->apart;
			c->windows[number - c->what->first] = window_of(c, number, &step->box);
		}
}

/* As many views from step->first on, up to `end` of the first run, as fit with the pixels that all of them
 * together need, or one of each run. */
static void take_views(const Cutting *c, Step *step, int64_t end, int64_t most)
{
	step->count = 0;
	step->window = (Window){{0, 0}, {0, 0}};
	for (int64_t view = step->first; view < end; view++) {
		Window joined = step->window;
		for (int64_t run = 0; run < step->runs; run++) {
			int64_t number = view + run * step->apart - c->what->first;
			joined = window_join(&joined, &c->windows[number]);
		}
		if (step->count > 0 && window_size(&joined) * (step->count + step->runs) > most)
			return;
		step->window = joined;
		step->count += step->runs;
	}
}

/* Views that do not fit are cut across the rows. */
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
		TRY(add_step(s, &step));
	}
	return TOMOS_OK;
}

/* Kernels that gain from turns want whole slices. The choice is the same for all views of a slab. */
static int64_t runs_of(const Cutting *c, const Box *box)
{
	Step step = {.box = *box,
		.first = c->what->first,
		.runs = c->turns,
		.apart = c->what->count / c->turns};
	find_windows(c, &step, step.first + 1);
	take_views(c, &step, step.first + 1, c->in);
	return spans_y(box, &c->what->box) && step_pixels(&step) <= c->in ? c->turns : 1;
}

/* The views of an item up to `end` of the first run, in steps of much the same size. */
static tomos_status cut_views(const Cutting *c, Schedule *s, Step step, int64_t end)
{
	const int64_t all = end - step.first;
	if (all == 0)
		return TOMOS_OK;
	find_windows(c, &step, end);
	take_views(c, &step, end, c->in);
	const int64_t most = parts_of(all, parts_of(all, step.count / step.runs));
	for (; step.first < end; step.first += step.count / step.runs) {
		take_views(c, &step, min64(end, step.first + most), c->in);
		TRY(add_views(c, s, step));
	}
	return TOMOS_OK;
}

static tomos_status cut_back(const Cutting *c, Schedule *s, int64_t groups)
{
	const ProjectRequest *what = c->what;
	for (int64_t i = 0; i < groups * c->slabs.count; i++) {
		int64_t group = i / c->slabs.count;
		Step step = {.box = c->slabs.list[i % c->slabs.count]};
		step.runs = runs_of(c, &step.box);
		step.apart = what->count / step.runs;
		step.first = what->first + step.apart * group / groups;
		TRY(add_item(s, &step, group > 0 ? i - c->slabs.count : -1));
		TRY(cut_views(c, s, step, what->first + step.apart * (group + 1) / groups));
	}
	s->plan_count = s->step_count;
	return TOMOS_OK;
}

/* ---- forward: views, or bands of their rows, made of slabs ----------------------------------- */

static tomos_status find_reach(Cutting *c)
{
	const ProjectRequest *what = c->what;
	TRY(mem_alloc(&c->reach, c->slabs.count * what->count, sizeof *c->reach,
		"the rows that slabs reach"));
	for (int64_t i = 0; i < c->slabs.count * what->count; i++) {
		Window w = window_of(
			c, what->first + i % what->count, &c->slabs.list[i / what->count]);
		c->reach[i] = window_size(&w) > 0 ? (Rows){w.low[1], w.high[1]} : (Rows){0, 0};
	}
	return TOMOS_OK;
}

static bool reaches(const Cutting *c, int64_t slab, const Step *step)
{
	const Rows *reach = c->reach + slab * c->what->count + step->first - c->what->first;
	for (int64_t i = 0; i < step->count; i++)
		if (max64(reach[i].low, step->window.low[1]) <
			min64(reach[i].high, step->window.high[1]))
			return true;
	return false;
}

typedef struct {
	int64_t bands, chunks; /* of rows, of views */
} Blocks;

static Step block_of(const Cutting *c, const Blocks *b, int64_t index)
{
	const ProjectRequest *what = c->what;
	const tomos_geometry *scan = what->plan->scan;
	int64_t band = index % b->bands, chunk = index / b->bands;
	Step step = {.window = {{0, scan->rows * band / b->bands},
			     {scan->columns, scan->rows * (band + 1) / b->bands}},
		.first = what->first + what->count * chunk / b->chunks,
		.runs = 1};
	step.count = what->first + what->count * (chunk + 1) / b->chunks - step.first;
	return step;
}

/* Makes one box of two that lie behind each other in memory; false if they do not. */
static bool box_join(const Box *all, Box *box, const Box *next)
{
	if (box->low[2] == next->low[2] && box->high[1] == next->low[1])
		box->high[1] = next->high[1];
	else if (spans_y(box, all) && spans_y(next, all) && box->high[2] == next->low[2])
		box->high[2] = next->high[2];
	else
		return false;
	return true;
}

/* A run of slabs that lie behind each other, in equal parts that fit. */
static tomos_status add_run(const Cutting *c, Schedule *s, Step step, int64_t from, int64_t to)
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
		TRY(add_step(s, &step));
	}
	return TOMOS_OK;
}

/* The slabs that the block can see, as many together as fit. */
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
		TRY(add_run(c, s, step, i, end));
	}
	return TOMOS_OK;
}

static tomos_status cut_forward(const Cutting *c, Schedule *s, const Blocks *b)
{
	for (int64_t i = 0; i < b->bands * b->chunks; i++) {
		Step block = block_of(c, b, i);
		TRY(add_item(s, &block, -1));
		TRY(cut_block(c, s, block, 0, c->slabs.count));
	}
	s->plan_count = s->item_count;
	return TOMOS_OK;
}

/* ---- forward: slabs, each seen by all views, whose pixels are added up ---------------------- */

static Window whole_window(const Cutting *c)
{
	const tomos_geometry *scan = c->what->plan->scan;
	return (Window){{0, 0}, {scan->columns, scan->rows}};
}

/* What some views see of a slab, whole or cut across the rows; one after the other is added. */
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
		TRY(add_item(s, &step, s->item_count - 1));
		TRY(add_step(s, &step));
	}
	return TOMOS_OK;
}

static tomos_status cut_slabs(const Cutting *c, Schedule *s)
{
	const int64_t end = c->what->first + c->what->count;
	const Window whole = whole_window(c);
	const int64_t most = max64(c->out / window_size(&whole), 1); /* views */
	s->adds = true;
	for (int64_t i = 0; i < c->slabs.count; i++) {
		Step step = {.box = c->slabs.list[i], .first = c->what->first, .runs = 1};
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

/* As few chunks of views as fit with that many bands, `least` blocks in all; false: none fits. */
static bool count_blocks(const Cutting *c, Blocks *b, int64_t least)
{
	const KernelModel *model = &c->what->plan->model;
	int64_t fit = c->out / (parts_of(model->rows, b->bands) * model->columns);
	if (fit < 1)
		return false;
	int64_t chunks = max64(parts_of(c->what->count, fit), parts_of(least, b->bands));
	b->chunks = min64(chunks, c->what->count);
	return true;
}

/* ---- the cheapest ---------------------------------------------------------------------------- */

/* Floats sent and fetched, with what is already there not sent again, and added in the host's memory. */
static void reckon(Schedule *s)
{
	const Step *there[MODEL] = {NULL};
	bool forward = s->direction == FORWARD;
	s->cost = s->in = s->out = 0;
	s->sums = s->adds;
	for (int64_t i = 0; i < s->item_count; i++) {
		const Item *item = &s->items[i];
		const Step *step = &s->steps[item->first], **last = &there[i % MODEL];
		int64_t size = forward ? step_pixels(&item->piece) : step_voxels(&item->piece);
		for (int64_t k = 0; k < item->steps; k++, step++) {
			int64_t sent = forward ? step_voxels(step) : step_pixels(step);
			if (!*last || !step_same_input(*last, step, s->direction))
				s->cost += sent;
			*last = step;
			s->in = max64(s->in, sent);
		}
		if (item->steps > 0)
			s->cost += size * (item->after < 0 && !s->adds ? 1 : 2);
		s->out = max64(s->out, size);
		s->sums = s->sums || item->after >= 0;
	}
}

static tomos_status new_schedule(Schedule **schedule, const Cutting *c)
{
	const ProjectRequest *what = c->what;
	TRY(mem_zeroed(schedule, 1, sizeof **schedule, "a list of pieces"));
	Schedule *s = *schedule;
	s->direction = what->direction;
	s->kernel = what->kernel;
	s->solid = c->solid;
	s->rows = c->rows;
	s->box = what->box;
	s->first = what->first;
	s->count = what->count;
	return TOMOS_OK;
}

/* Keeps the better of the one just made and the best so far. */
static tomos_status compete(Schedule **best, Schedule *made, tomos_status status)
{
	if (status == TOMOS_OK) {
		reckon(made);
		if (!*best || made->cost < (*best)->cost) {
			Schedule *worse = *best;
			*best = made;
			made = worse;
		}
	}
	schedule_free(made);
	return status;
}

static tomos_status try_back(Schedule **best, Cutting *c, int64_t groups)
{
	Schedule *made = NULL;
	TRY(cut_box(&c->slabs, &c->what->box, c->out, PIECES / groups));
	tomos_status status = new_schedule(&made, c);
	if (status == TOMOS_OK)
		status = cut_back(c, made, groups);
	mem_free(c->slabs.list);
	return compete(best, made, status);
}

static tomos_status try_blocks(Schedule **best, const Cutting *c, const Blocks *b)
{
	Schedule *made = NULL;
	tomos_status status = new_schedule(&made, c);
	if (status == TOMOS_OK)
		status = cut_forward(c, made, b);
	return compete(best, made, status);
}

/* Bands of rows need few slabs each, but views need all; so both are tried, and what is between. */
static tomos_status try_bands(Schedule **best, const Cutting *c)
{
	int64_t rows = c->what->plan->model.rows, most = c->solid ? 1 : rows;
	for (Blocks b = {.bands = 1}; b.bands <= most; b.bands *= 2) {
		if (count_blocks(c, &b, PIECES))
			TRY(try_blocks(best, c, &b));
		if (*best && b.bands >= BANDS)
			return TOMOS_OK;
	}
	Blocks single = {.bands = most};
	if (!*best && count_blocks(c, &single, PIECES))
		TRY(try_blocks(best, c, &single));
	return TOMOS_OK;
}

static tomos_status try_views(Schedule **best, Cutting *c, int64_t slabs)
{
	TRY(cut_box(&c->slabs, &c->what->box, c->in, slabs));
	tomos_status status = find_reach(c);
	if (status == TOMOS_OK)
		status = try_bands(best, c);
	mem_free(c->reach);
	mem_free(c->slabs.list);
	return status;
}

static tomos_status try_slabs(Schedule **best, Cutting *c)
{
	Schedule *made = NULL;
	TRY(cut_box(&c->slabs, &c->what->box, c->in, PIECES));
	tomos_status status = new_schedule(&made, c);
	if (status == TOMOS_OK)
		status = cut_slabs(c, made);
	mem_free(c->slabs.list);
	return compete(best, made, status);
}

/* Few slices are cut across y, too. */
static int64_t layers_of(const Box *box)
{
	int64_t slices = box->high[2] - box->low[2];
	return slices < PIECES ? PIECES : min64(slices, LAYERS);
}

/* A volume that fits is sent once. */
static tomos_status try_forward(Schedule **best, Cutting *c)
{
	if (c->split->share != SHARE_VOXELS) {
		TRY(try_views(best, c, 1));
		TRY(try_views(best, c, layers_of(&c->what->box)));
	}
	return c->split->share != SHARE_VIEWS ? try_slabs(best, c) : TOMOS_OK;
}

/* Sharing out what the result is made of gives each share a result of its own, all but the first to be added. */
static tomos_status try_all(Schedule **best, Cutting *c)
{
	SplitShare share = c->split->share;
	if (c->what->direction == FORWARD)
		return try_forward(best, c);
	for (int64_t groups = 1; groups <= PIECES; groups *= 4) {
		int64_t fetched = (2 * groups - 1) * box_count(&c->what->box);
		bool allowed = share == SHARE_AUTO || (share == SHARE_VIEWS) == (groups > 1);
		if (allowed && (!*best || fetched < (*best)->cost))
			TRY(try_back(best, c, groups));
	}
	return TOMOS_OK;
}

static tomos_status check_memory(const Cutting *c)
{
	const KernelModel *model = &c->what->plan->model;
	const Box *box = &c->what->box;
	int64_t pixels = c->solid ? model->rows * model->columns : model->columns;
	int64_t least = max64(pixels, box->high[0] - box->low[0]);
	int64_t room = min64(c->in, c->out);
	if (room >= least)
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE,
		"a memory of %lld bytes is too small for pieces of %lld x %lld x %lld voxels and "
		"views of %lld x %lld: at least %.0f are needed",
		(long long)c->split->memory, (long long)(box->high[2] - box->low[2]),
		(long long)(box->high[1] - box->low[1]), (long long)(box->high[0] - box->low[0]),
		(long long)model->rows, (long long)model->columns,
		(double)c->split->memory / (double)max64(room, 1) * (double)(least + 1));
}

/* Where views come in quarter or half turns, pieces of them do, too: a kernel can then do what several of them
 * have in common once. */
static int64_t turns_of(const ProjectRequest *what)
{
	const Box *box = &what->box;
	const RayClass *rays = &what->plan->rays;
	const int64_t *n = what->plan->grid.n;
	bool gains = what->kernel == KERNEL_voxel && what->direction == ADJOINT &&
		     what->count == rays->count && box->low[0] == 0 && box->low[1] == 0 &&
		     box->high[0] == n[0] && box->high[1] == n[1];
	return !gains ? 1 : rays->quarter != 0 ? 4 : rays->half != 0 ? 2 : 1;
}

/* Rows that are filtered on the way need room before and after. */
tomos_status schedule_make(
	Schedule **schedule, const Split *split, const ProjectRequest *what, bool rows)
{
	Cutting c = {.split = split,
		.what = what,
		.rows = rows,
		.out = split->room - split->in[what->direction],
		.in = rows ? split->in_rows / 2 : split->in[what->direction],
		.turns = turns_of(what),
		.solid = what->plan->model.clamp &&
			 kernel_rows[what->kernel].family == FAMILY_VOXEL};
	Schedule *best = NULL;
	tomos_status status;
	*schedule = NULL;
	TRY(check_memory(&c));
	TRY(mem_alloc(&c.windows, what->count, sizeof *c.windows, "what views see of a slab"));
	TRY_OR_DONE(try_all(&best, &c));
	TRY_OR_DONE(mem_zeroed(&best->plans, best->plan_count, sizeof *best->plans, "the pieces"));
	int64_t views = 0;
	for (int64_t i = 0; i < best->step_count; i++)
		views += best->steps[i].count;
	best->keeps = views <= VIEWS_KEPT;
	*schedule = best;
	best = NULL;
done:
	mem_free(c.windows);
	schedule_free(best);
	return status;
}
