/* Ring removal of Vo et al. (prep/ring_vo.c has the paper), on batches of sinograms. Columns are
 * sorted by merging, for any number of views. */
#include "backend/opencl/prep.h"

typedef struct {
	PrepVo v;
	OpenclPlace data, lists, items[2], found;
} Batch;

/* Floats per sinogram: two arrays of items of 64 bits, the lists, and an integer. */
static int64_t sinogram_floats(const PrepData *d)
{
	return 4 * d->views * d->columns + VO_LISTS * d->columns + 1;
}

static int64_t vo_batch(const PrepData *d)
{
	return prep_fit(PREP_BATCH, sinogram_floats(d), d->rows);
}

static int64_t vo_floats(const PrepWork *w, const PrepData *d)
{
	(void)w;
	return vo_batch(d) * sinogram_floats(d);
}

/* Tasks on the lists, with or without the counter. */
static tomos_status run_lists(tomos_backend *b, const Batch *w, int task, bool counts)
{
	const OpenclArg args[] = {
		ARG(w->v), ARG_PLACE(w->data), ARG_PLACE(w->lists), ARG_PLACE(w->found)};
	const int64_t size[3] = {w->v.columns, w->v.count, 1};
	return opencl_planes(b, task, size, args, counts ? COUNT(args) : COUNT(args) - 2);
}

/* Tasks on all values. */
static tomos_status run_values(tomos_backend *b, const Batch *w, int task)
{
	const OpenclArg args[] = {ARG(w->v), ARG_PLACE(w->data), ARG_PLACE(w->lists)};
	const int64_t size[3] = {w->v.columns, w->v.views, w->v.count};
	return opencl_planes(b, task, size, args, COUNT(args));
}

/* Medians over the views, and of these across columns. */
static tomos_status find_levels(tomos_backend *b, const Batch *w, cl_int jumps)
{
	const OpenclArg level[] = {ARG(w->v), ARG(jumps), ARG_PLACE(w->data), ARG_PLACE(w->lists)};
	const OpenclArg smooth[] = {ARG(w->v), ARG_PLACE(w->lists)};
	const int64_t size[3] = {w->v.columns, w->v.count, 1};
	TRY(opencl_planes(b, TASK_rings_vo_medians, size, level, COUNT(level)));
	return opencl_planes(b, TASK_rings_vo_smooth, size, smooth, COUNT(smooth));
}

static tomos_status correct_large(tomos_backend *b, const Batch *w)
{
	const OpenclArg args[] = {ARG(w->v), ARG_PLACE(w->lists), ARG_PLACE(w->found)};
	TRY(find_levels(b, w, 0));
	TRY(run_lists(b, w, TASK_rings_vo_keep, true));
	TRY(run_values(b, w, TASK_rings_vo_repair));
	TRY(run_lists(b, w, TASK_rings_vo_signal, false));
	TRY(find_levels(b, w, 1));
	return opencl_line(b, TASK_rings_vo_stripes, w->v.count, args, COUNT(args));
}

/* Sorts each column minus its height; the result is in items[*at]. */
static tomos_status sort(tomos_backend *b, const Batch *w, int *at)
{
	const OpenclArg first[] = {
		ARG(w->v), ARG_PLACE(w->data), ARG_PLACE(w->lists), ARG_PLACE(w->items[0])};
	const int64_t values[3] = {w->v.columns, w->v.views, w->v.count};
	const int64_t items[3] = {w->v.views, w->v.columns, w->v.count};
	TRY(opencl_planes(b, TASK_rings_vo_items, values, first, COUNT(first)));
	*at = 0;
	for (int64_t width = 1; width < w->v.views; width *= 2, *at = 1 - *at) {
		const OpenclArg args[] = {ARG(w->v), ARG(width), ARG_PLACE(w->items[*at]),
			ARG_PLACE(w->items[1 - *at])};
		TRY(opencl_planes(b, TASK_rings_vo_merge, items, args, COUNT(args)));
	}
	return TOMOS_OK;
}

/* Medians across columns, put back to their views. */
static tomos_status correct_small(tomos_backend *b, const Batch *w)
{
	enum { PART = 32 }; /* as in rings.cl */
	int at;
	TRY(sort(b, w, &at));
	const OpenclArg args[] = {ARG(w->v), ARG_PLACE(w->items[at]), ARG_PLACE(w->data)};
	const int64_t size[3] = {w->v.views, (w->v.columns + PART - 1) / PART, w->v.count};
	return opencl_planes(b, TASK_rings_vo_put, size, args, COUNT(args));
}

static tomos_status run_batch(tomos_backend *b, const Batch *w)
{
	if (w->v.large > 1)
		TRY(correct_large(b, w));
	return w->v.small > 1 ? correct_small(b, w) : run_values(b, w, TASK_rings_vo_subtract);
}

static tomos_status vo_run(tomos_backend *b, PrepWork *work, PrepData *d, float *scratch)
{
	const PrepSpec *s = &work->spec;
	const int64_t batch = vo_batch(d), items = 2 * batch * d->columns * d->views;
	const int64_t list = batch * d->columns;
	Batch w = {.v = {.view = d->rows * d->columns,
			   .list = list,
			   .views = (int32_t)d->views,
			   .columns = (int32_t)d->columns,
			   .large = (int32_t)s->ring_large,
			   .small = (int32_t)s->ring_small,
			   .snr = (float)s->ring_snr}};
	TRY(prep_counter(b, work, FOUND_STRIPES, &w.found));
	TRY(opencl_place(b, scratch, &w.items[0]));
	w.items[1] = w.lists = w.items[0];
	w.items[1].at += items;
	w.lists.at += 2 * items;
	for (int64_t row = 0; row < d->rows; row += batch) {
		TRY(opencl_place(b, d->data + row * d->columns, &w.data));
		w.v.count = (int32_t)min64(batch, d->rows - row);
		TRY(b->type->vector->fill(b, VO_LISTS * list + batch, 0, scratch + 2 * items));
		TRY(run_batch(b, &w));
	}
	return TOMOS_OK;
}

const PrepStep opencl_prep_vo = {vo_floats, vo_run};
