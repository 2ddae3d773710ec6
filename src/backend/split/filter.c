/* Filters views, or bands of their rows, on several lanes at a time. */
#include "backend/split/split.h"

enum { PIECES = 16 };

typedef struct {
	Split *split;
	const SplitFilter *filter;
	int64_t count, rows;   /* views and their rows */
	int64_t fit;           /* rows that fit into the memory of a lane */
	int64_t pieces, bands; /* parts into which the views are divided; bands of rows per view */
	const FilterView *views;
	const float *in;
	float *out;
} Filtering;

void split_filter_close(tomos_backend *backend, Filter *filter)
{
	Split *split = split_of(backend);
	SplitFilter *f = (SplitFilter *)filter;
	if (!f)
		return;
	for (int i = 0; i < split->count; i++)
		if (f->filters[i])
			split->lanes[i].child->type->filter->close(
				split->lanes[i].child, f->filters[i]);
	mem_free(f);
}

static tomos_status open_filters(Split *split, SplitFilter *f)
{
	for (int i = 0; i < split->count; i++) {
		tomos_backend *child = split->lanes[i].child;
		TRY(child->type->filter->open(child, &f->filters[i], &f->spec));
	}
	return TOMOS_OK;
}

/* Number of rows that fit into the memory of a lane, each with its filtered copy. */
static int64_t rows_fit(const Split *split, const FilterSpec *spec)
{
	return split->capacity / (spec->seen + filter_columns(spec));
}

tomos_status split_filter_open(tomos_backend *backend, Filter **filter, const FilterSpec *spec)
{
	Split *split = split_of(backend);
	SplitFilter *f;
	*filter = NULL;
	if (rows_fit(split, spec) < 1)
		return fail(TOMOS_BAD_VALUE,
			"a memory of %lld bytes is too small to filter rows of %lld columns",
			(long long)split->memory, (long long)spec->columns);
	size_t size = sizeof *f + (size_t)split->count * sizeof f->filters[0];
	TRY(mem_zeroed(&f, 1, size, "a filter"));
	f->spec = *spec;
	tomos_status status = open_filters(split, f);
	if (status == TOMOS_OK)
		*filter = (Filter *)f;
	else
		split_filter_close(backend, (Filter *)f);
	return status;
}

/* Filters `count` views of `rows` rows each, contiguous in memory. `first`: index of their first
 * row among the rows of all views. */
static tomos_status filter_rows(const Filtering *job, Lane *lane, int64_t first, int64_t count,
	int64_t rows, const FilterView *views)
{
	const FilterSpec *spec = &job->filter->spec;
	tomos_backend *child = lane->child;
	const Filter *own = job->filter->filters[lane - job->split->lanes];
	int64_t fine = filter_columns(spec);
	tomos_array in =
		tomos_array_of((float *)job->in + first * spec->seen, count, rows, spec->seen);
	tomos_array out = tomos_array_of(job->out + first * fine, count, rows, fine);
	TRY(lane_reserve(
		lane, count * rows * fine, count * rows * spec->seen, job->split->capacity));
	TRY(child->type->memory->upload(child, lane->in, &in));
	TRY(child->type->filter->apply(child, own, count, rows, views, lane->in, lane->out));
	return child->type->memory->download(child, lane->out, &out);
}

static tomos_status filter_item(LaneRun *run, void *user, Lane *lane, int64_t index)
{
	const Filtering *job = user;
	(void)run;
	if (job->bands > 1) {
		int64_t number = index / job->bands, row = index % job->bands * job->fit;
		FilterView view = job->views[number];
		view.of.foot_row -= (double)row;
		return filter_rows(job, lane, number * job->rows + row, 1,
			min64(job->fit, job->rows - row), &view);
	}
	int64_t first = job->count * index / job->pieces;
	int64_t count = job->count * (index + 1) / job->pieces - first;
	return filter_rows(job, lane, first * job->rows, count, job->rows, job->views + first);
}

tomos_status split_filter(tomos_backend *backend, const Filter *filter, int64_t count, int64_t rows,
	const FilterView *views, const float *in, float *out)
{
	Split *split = split_of(backend);
	const SplitFilter *f = (const SplitFilter *)filter;
	Filtering job = {.split = split,
		.filter = f,
		.count = count,
		.rows = rows,
		.fit = rows_fit(split, &f->spec),
		.views = views,
		.in = in,
		.out = out};
	job.bands = parts_of(rows, job.fit);
	if (job.bands > 1 && views[0].of.mapped)
		return fail(TOMOS_BAD_VALUE,
			"a memory of %lld bytes is too small to align views of %lld x %lld, which "
			"must be whole for that",
			(long long)split->memory, (long long)rows, (long long)f->spec.columns);
	job.pieces = job.bands > 1 ? count * job.bands
				   : max64(parts_of(count, job.fit / rows), min64(PIECES, count));
	pthread_mutex_lock(&split->lock);
	tomos_status status = split_run(split, job.pieces, filter_item, &job);
	pthread_mutex_unlock(&split->lock);
	return status;
}
