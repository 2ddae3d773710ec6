/* The output of a run: what decides its numbers, how it came to be, and what is done of it. */
#include <string.h>
#include "run/run_parts.h"

static uint64_t hash(uint64_t sum, const void *bytes, size_t count)
{
	return (sum ^ checksum_add(0, bytes, (int64_t)count)) * UINT64_C(1099511628211);
}

static uint64_t hash_text(uint64_t sum, const char *text)
{
	return text ? hash(sum, text, strlen(text)) : hash(sum, "", 0);
}

static uint64_t hash_option(uint64_t sum, const tomos_option *row, const char *options)
{
	const char *field = options + row->offset, *list;
	int64_t count;
	_Static_assert(sizeof(double) == sizeof(int64_t), "what the other kinds are");
	memcpy(&list, field, sizeof list);
	switch (row->kind) {
	case TOMOS_TEXT:
	case TOMOS_CHOICE:
		return hash_text(sum, list);
	case TOMOS_INTS:
	case TOMOS_REALS:
	case TOMOS_ANGLES:
		memcpy(&count, options + row->count_offset, sizeof count);
		return hash(sum, list, (size_t)count * sizeof(double));
	case TOMOS_FLAG:
		return hash(sum, field, sizeof(int));
	default:
		return hash(sum, field, sizeof(double));
	}
}

static uint64_t hash_options(uint64_t sum, const char *group, const void *options)
{
	int count;
	const tomos_option *rows = tomos_options(group, &count);
	for (int i = 0; i < count; i++)
		sum = hash_option(sum, &rows[i], options);
	return sum;
}

/* Whatever decides the numbers of the output; not the slabs, which do not. */
static tomos_status hash_run(const Run *r, uint64_t *result)
{
	const tomos_geometry *g = r->prepared->geometry;
	const tomos_file_options *file = &r->file_options;
	tomos_analytic_options analytic = tomos_analytic_defaults();
	TRY(options_take(&analytic, r->job->analytic, "analytic"));
	const int64_t sizes[] = {g->rows, g->columns, g->count, r->first_slice, r->slices,
		r->prepared->info.rows, r->prepared->info.columns, r->prepared->info.views};
	uint64_t sum = UINT64_C(14695981039346656037);
	sum = hash_text(sum, r->job->scan);
	sum = hash_text(sum, r->method);
	sum = hash_text(sum, r->job->recipe);
	sum = hash(sum, sizes, sizeof sizes);
	sum = hash(sum, r->window, sizeof r->window);
	sum = hash(sum, &r->grid, sizeof r->grid);
	sum = hash_options(sum, "analytic", &analytic);
	sum = hash_options(sum, "prep", &r->prepared->prep);
	sum = hash_text(sum, file->type);
	sum = hash(sum, file->window, (size_t)file->window_count * sizeof *file->window);
	sum = hash(sum, &file->first_number, sizeof file->first_number);
	sum = hash(sum, &file->compress, sizeof file->compress);
	*result = hash(sum, g->views, (size_t)g->count * sizeof *g->views);
	return TOMOS_OK;
}

static tomos_status put_geometry(const Run *r)
{
	const tomos_geometry *g = r->prepared->geometry;
	const int64_t shape[2] = {g->count, VIEW_NUMBERS}, two[2] = {1, 2};
	const double detector[2] = {(double)g->rows, (double)g->columns};
	double *numbers;
	TRY(mem_alloc(&numbers, g->count * VIEW_NUMBERS, sizeof *numbers, "the views' numbers"));
	geom_to_numbers(g, numbers);
	tomos_status status = io_put(r->file, "process/geometry/views", numbers, shape);
	mem_free(numbers);
	TRY(status);
	return io_put(r->file, "process/geometry/detector", detector, two);
}

/* How the volume came to be: the command, every option, the version and the geometry. */
static tomos_status put_provenance(const Run *r)
{
	const tomos_job *job = r->job;
	tomos_grid grid = r->grid;
	grid.n[2] = r->slices;
	grid.first[2] += (double)r->first_slice * grid.step[2];
	if (r->file->format->put)
		TRY(tomos_file_set_grid(r->file, &grid));
	TRY(tomos_file_set_text(r->file, "version", TOMOS_VERSION));
	TRY(tomos_file_set_text(r->file, "method", r->method));
	TRY(tomos_file_set_text(r->file, "scan", job->scan));
	if (job->command)
		TRY(tomos_file_set_text(r->file, "command", job->command));
	if (job->recipe)
		TRY(tomos_file_set_text(r->file, "recipe", job->recipe));
	if (r->prepared->note)
		TRY(tomos_file_set_text(r->file, "axis", r->prepared->note));
	return r->file->format->put ? put_geometry(r) : TOMOS_OK;
}

tomos_status run_open_output(Run *r)
{
	const int64_t shape[3] = {r->slices, r->grid.n[1], r->grid.n[0]};
	uint64_t sum = 0;
	TRY(hash_run(r, &sum));
	r->file_options.first_number += r->first_slice + (r->stacked ? r->first_row : 0);
	TRY(journal_open(&r->journal, r->output, sum, r->options.resume != 0,
		r->file_options.overwrite != 0));
	if (!r->journal.begun)
		TRY(journal_begin(&r->journal, sum));
	r->lasting = true;
	TRY(io_create(&r->file, r->output, TOMOS_VOLUME, shape, &r->file_options, r->journal.part,
		r->journal.begun));
	if (r->journal.begun) {
		TRY(journal_replay(&r->journal, r->file, &r->done));
		r->report->resumed = r->done;
		return job_say(r->job, "resumed   %lld of %lld slices are done", (long long)r->done,
			(long long)r->slices);
	}
	TRY(put_provenance(r));
	TRY(io_seal(r->file));
	return journal_ready(&r->journal);
}

int64_t slab_left(const Run *r, const Slab *slab)
{
	if (!r->file) /* a probe, which writes none */
		return slab->count;
	const unsigned char *written = r->file->written + (slab->first - r->first_slice);
	int64_t left = 0;
	for (int64_t i = 0; i < slab->count; i++)
		left += !written[i];
	return left;
}
