/* Cuts a projection into pieces in several ways and chooses the one with the fewest transfers.
 *
 * Okitsu et al., Table 1: with C devices, distributing voxels costs uploading the views C times;
 * distributing views costs downloading the volume C times and adding it up; in forward projection
 * it is the other way round. Here the bytes are counted piece by piece, since a slab needs only the
 * pixels that it projects to. C is a constant, so that the pieces, and the last bits of a result,
 * depend on the memory but not on the number of devices.
 */
#include <string.h>
#include "backend/split/pieces.h"

enum {
	PIECES = 16,  /* least number of pieces of the result, enough for 8 devices */
	LAYERS = 128, /* forward: slabs of a volume; a band of rows needs few */
	MODEL = 4,    /* lanes that the cost model assumes */
	BANDS = 64    /* limit of the bands of detector rows; exceeded only if nothing else fits */
};
#define VIEWS_KEPT 100000 /* most views in the cached plans of a schedule */

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

/* Cost of a schedule: floats uploaded (unless already in device memory), downloaded, and added in
 * host memory. */
static void count_cost(Schedule *s)
{
	const Step *resident[MODEL] = {NULL};
	bool forward = s->direction == FORWARD;
	s->cost = s->in = s->out = 0;
	s->sums = s->adds;
	for (int64_t i = 0; i < s->item_count; i++) {
		const Item *item = &s->items[i];
		const Step *step = &s->steps[item->first], **last = &resident[i % MODEL];
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

/* Keeps the cheaper of the new schedule and the best so far. */
static tomos_status keep_cheaper(Schedule **best, Schedule *made, tomos_status status)
{
	if (status == TOMOS_OK) {
		count_cost(made);
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
	return keep_cheaper(best, made, status);
}

static tomos_status try_blocks(Schedule **best, const Cutting *c, const Blocks *b)
{
	Schedule *made = NULL;
	tomos_status status = new_schedule(&made, c);
	if (status == TOMOS_OK)
		status = cut_forward(c, made, b);
	return keep_cheaper(best, made, status);
}

/* Tries several numbers of bands. The more bands, the fewer slabs each needs, but the more often a
 * slab is uploaded. */
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
	return keep_cheaper(best, made, status);
}

/* Number of slabs; with few slices these are divided along y as well. */
static int64_t layers_of(const Box *box)
{
	int64_t slices = box->high[2] - box->low[2];
	return slices < PIECES ? PIECES : min64(slices, LAYERS);
}

/* With one slab the whole volume is uploaded once. */
static tomos_status try_forward(Schedule **best, Cutting *c)
{
	if (c->split->share != SHARE_VOXELS) {
		TRY(try_views(best, c, 1));
		TRY(try_views(best, c, layers_of(&c->what->box)));
	}
	return c->split->share != SHARE_VIEWS ? try_slabs(best, c) : TOMOS_OK;
}

/* Tries all ways to cut. In back projection each group of views gives a partial volume, and these
 * are added. */
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
	int64_t fits = min64(c->in, c->out);
	if (fits >= least)
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE,
		"a memory of %lld bytes is too small for pieces of %lld x %lld x %lld voxels and "
		"views of %lld x %lld: at least %.0f are needed",
		(long long)c->split->memory, (long long)(box->high[2] - box->low[2]),
		(long long)(box->high[1] - box->low[1]), (long long)(box->high[0] - box->low[0]),
		(long long)model->rows, (long long)model->columns,
		(double)c->split->memory / (double)max64(fits, 1) * (double)(least + 1));
}

/* Views with quarter-turn or half-turn symmetry are cut into pieces with the same symmetry, of
 * which kernels make use. */
static int64_t symmetry_of(const ProjectRequest *what)
{
	const Box *box = &what->box;
	const RayClass *rays = &what->plan->rays;
	const int64_t *n = what->plan->grid.n;
	bool gains = what->kernel == KERNEL_voxel && what->direction == ADJOINT &&
		     rays->source == TOMOS_POINT && what->count == rays->count &&
		     box->low[0] == 0 && box->low[1] == 0 && box->high[0] == n[0] &&
		     box->high[1] == n[1];
	return !gains ? 1 : rays->quarter != 0 ? 4 : rays->half != 0 ? 2 : 1;
}

/* Views that are filtered during a back projection need space for unfiltered and filtered rows. */
tomos_status schedule_make(
	Schedule **schedule, const Split *split, const ProjectRequest *what, bool rows)
{
	Cutting c = {.split = split,
		.what = what,
		.rows = rows,
		.out = split->capacity - split->in[what->direction],
		.in = rows ? split->in_rows / 2 : split->in[what->direction],
		.symmetry = symmetry_of(what),
		.solid = what->plan->model.clamp &&
			 kernel_rows[what->kernel].family == FAMILY_VOXEL};
	Schedule *best = NULL;
	tomos_status status;
	*schedule = NULL;
	TRY(check_memory(&c));
	TRY(mem_alloc(&c.windows, what->count, sizeof *c.windows, "what views see of a slab"));
	TRY_OR_DONE(try_all(&best, &c));
	if (!best)
		TRY_OR_DONE(fail(TOMOS_NO_MEMORY,
			"no piece of the projection fits into the device's memory"));
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
