/* Filters views, or bands of their rows, on several lanes. */
#include "backend/split/split.h"

enum { PIECES = 16 };

/* Each lane has a filter of its own, for `rows` rows at a time. */
typedef struct {
	FilterSpec spec;
	int64_t rows;
	Filter *filters[]; /* one per lane */
} SplitFilter;

typedef struct {
	Split *split;
	const SplitFilter *filter;
	int64_t count, pieces, bands; /* views; parts of these; parts of each view */
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
			split->lanes[i].child->type->filter_close(
				split->lanes[i].child, f->filters[i]);
	mem_free(f);
}

static tomos_status open_filters(Split *split, SplitFilter *f)
{
	FilterSpec spec = f->spec;
	spec.rows = f->rows;
	for (int i = 0; i < split->count; i++) {
		tomos_backend *child = split->lanes[i].child;
		TRY(child->type->filter_open(child, &f->filters[i], &spec));
	}
	return TOMOS_OK;
}

tomos_status split_filter_open(tomos_backend *backend, Filter **filter, const FilterSpec *spec)
{
	Split *split = split_of(backend);
	int64_t rows = min64(split->in / spec->seen, split->out / filter_columns(spec));
	SplitFilter *f;
	*filter = NULL;
	if (rows < 1)
		return fail(TOMOS_BAD_VALUE,
			"a memory of %lld bytes is too small to filter rows of %lld columns",
			(long long)split->memory, (long long)spec->columns);
	size_t size = sizeof *f + (size_t)split->count * sizeof f->filters[0];
	TRY(mem_zeroed(&f, 1, size, "a filter"));
	f->spec = *spec;
	f->rows = min64(rows, spec->rows);
	tomos_status status = open_filters(split, f);
	if (status == TOMOS_OK)
		*filter = (Filter *)f;
	else
		split_filter_close(backend, (Filter *)f);
	return status;
}

/* Some whole views. */
static tomos_status filter_views(const Filtering *job, Lane *lane, const Filter *own, int64_t index)
{
	const FilterSpec *spec = &job->filter->spec;
	tomos_backend *child = lane->child;
	int64_t first = job->count * index / job->pieces, fine = filter_columns(spec);
	int64_t count = job->count * (index + 1) / job->pieces - first;
	tomos_array in = tomos_array_of(
		(float *)job->in + first * spec->rows * spec->seen, count, spec->rows, spec->seen);
	tomos_array out =
		tomos_array_of(job->out + first * spec->rows * fine, count, spec->rows, fine);
	TRY(lane_in(lane, count * spec->rows * spec->seen));
	TRY(lane_out(lane, count * spec->rows * fine));
	TRY(child->type->put(child, lane->in, &in));
	TRY(child->type->filter(child, own, count, job->views + first, lane->in, lane->out));
	return child->type->get(child, lane->out, &out);
}

/* A band of one view; the last one begins earlier, to be as high as the others, and leaves out what
 * the one before it has done. */
static tomos_status filter_band(const Filtering *job, Lane *lane, const Filter *own, int64_t index)
{
	const FilterSpec *spec = &job->filter->spec;
	tomos_backend *child = lane->child;
	int64_t rows = job->filter->rows, fine = filter_columns(spec), number = index / job->bands;
	int64_t wanted = index % job->bands * rows, first = min64(wanted, spec->rows - rows);
	int64_t skipped = wanted - first, row = number * spec->rows + first;
	FilterView view = job->views[number];
	tomos_array in = tomos_array_of((float *)job->in + row * spec->seen, 1, rows, spec->seen);
	tomos_array out =
		tomos_array_of(job->out + (row + skipped) * fine, 1, rows - skipped, fine);
	view.foot_row -= (double)first;
	TRY(lane_in(lane, rows * spec->seen));
	TRY(lane_out(lane, rows * fine));
	TRY(child->type->put(child, lane->in, &in));
	TRY(child->type->filter(child, own, 1, &view, lane->in, lane->out));
	return child->type->get(child, lane->out + skipped * fine, &out);
}

static tomos_status filter_item(Run *run, void *user, Lane *lane, int64_t index)
{
	const Filtering *job = user;
	(void)run;
	const Filter *own = job->filter->filters[lane - job->split->lanes];
	return job->bands > 1 ? filter_band(job, lane, own, index)
			      : filter_views(job, lane, own, index);
}

static int64_t count_pieces(const Split *split, const SplitFilter *f, int64_t count)
{
	int64_t rows = f->spec.rows;
	int64_t fit = min64(
		split->in / (rows * f->spec.seen), split->out / (rows * filter_columns(&f->spec)));
	return max64(parts_of(count, fit), min64(PIECES, count));
}

tomos_status split_filter(tomos_backend *backend, const Filter *filter, int64_t count,
	const FilterView *views, const float *in, float *out)
{
	Split *split = split_of(backend);
	const SplitFilter *f = (const SplitFilter *)filter;
	Filtering job = {.split = split,
		.filter = f,
		.count = count,
		.bands = parts_of(f->spec.rows, f->rows),
		.views = views,
		.in = in,
		.out = out};
	if (job.bands > 1 && views[0].mapped)
		return fail(TOMOS_BAD_VALUE,
			"a memory of %lld bytes is too small to align views of %lld x %lld, which "
			"must be whole for that",
			(long long)split->memory, (long long)f->spec.rows,
			(long long)f->spec.columns);
	job.pieces = job.bands > 1 ? count * job.bands : count_pieces(split, f, count);
	pthread_mutex_lock(&split->lock);
	tomos_status status = split_run(split, job.pieces, filter_item, &job);
	pthread_mutex_unlock(&split->lock);
	return status;
}
