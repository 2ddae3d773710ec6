/* A run by several ranks: each has its share of the slices, rank 0 creates the output and completes
 * it. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "backend/open.h"
#include "run/run_parts.h"

tomos_status run_agree(FileRun *r, tomos_status status)
{
	if (r->disagreed)
		return status;
	status = comm_agree(r->comm, status);
	r->disagreed = status != TOMOS_OK;
	return status;
}

bool run_ranks_fit(const FileRun *r, int64_t ranks)
{
	return !r->iterates || !r->iterative.whole || ranks == 1 || r->slices >= 2 * ranks;
}

tomos_status run_check_ranks(const FileRun *r, int64_t ranks)
{
	if (run_ranks_fit(r, ranks))
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE,
		"%lld ranks are too many for %lld slices: %s needs two or more on each, as %s",
		(long long)ranks, (long long)r->slices, r->method, r->iterative.why);
}

static tomos_status check_shares(const FileRun *r)
{
	const tomos_job *job = r->job;
	bool matrix = job->stored || (job->matrix && job->matrix[0]);
	if (!r->together)
		return TOMOS_OK;
	TRY(run_check_ranks(r, comm_size(r->comm)));
	if (matrix && !(r->stacked && job->stored))
		return fail(TOMOS_UNSUPPORTED, "a stored matrix is that of one process, not of %d",
			comm_size(r->comm));
	if (strcmp(r->iterative.o.stop, "ncp") == 0)
		return fail(TOMOS_UNSUPPORTED,
			"stop 'ncp' looks at all projections at once, which %d ranks do not have",
			comm_size(r->comm));
	return TOMOS_OK;
}

static tomos_status make_bands(FileRun *r)
{
	int size = comm_size(r->comm), groups = r->group.ranks;
	const ShareRule rule = run_share_rule(r, size);
	int64_t *slices;
	TRY(mem_alloc(&slices, size + 1, sizeof *slices, "the slices of ranks"));
	for (int i = 0; i < size; i++)
		slices[i] = share_of(&rule, i, size).first;
	slices[size] = rule.first + rule.count;
	const tomos_prepared *p = r->prepared;
	r->bands = (Bands){p->geometry, &r->grid, slices, size / groups, groups, r->whole->geometry,
		p->first_view + p->skipped};
	return TOMOS_OK;
}

tomos_status run_divide(FileRun *r)
{
	int size = comm_size(r->comm), rank = comm_rank(r->comm);
	const ShareRule rule = run_share_rule(r, size);
	int64_t groups = 1;
	if (r->options.ranks == 0)
		TRY(run_view_groups(r, size, &groups));
	r->group = (SlabGroup){.comm = r->comm,
		.inner = r->backend,
		.ranks = (int)groups,
		.slice = r->grid.n[0] * r->grid.n[1]};
	r->share = r->own_share = share_of(&rule, rank, size);
	r->together = size > 1 && r->iterates && r->iterative.whole;
	TRY(check_shares(r));
	TRY(run_take_views(r, rank % groups, groups));
	if ((r->together && !r->stacked) || groups > 1)
		TRY(make_bands(r));
	if (groups > 1 && !r->iterates) {
		int slab = slab_number(&r->group);
		r->share.first = bands_slice(&r->bands, slab);
		r->share.count = bands_slice(&r->bands, slab + 1) - r->share.first;
	}
	return TOMOS_OK;
}

void run_divide_free(FileRun *r)
{
	mem_free((int64_t *)(uintptr_t)r->bands.slices);
	ranked_close(r->ranked);
}

tomos_status run_say_ranks(const FileRun *r)
{
	int64_t views = r->whole->geometry->count, groups = r->group.ranks;
	if (comm_size(r->comm) == 1)
		return TOMOS_OK;
	TRY(job_say(r->job, "ranks     %d, this one with %lld slices: %s", comm_size(r->comm),
		(long long)r->own_share.count, r->comm->description));
	if (groups == 1)
		return TOMOS_OK;
	return job_say(r->job,
		"          slabs: %lld, shared by %lld ranks with up to %lld views each",
		(long long)(comm_size(r->comm) / groups), (long long)groups,
		(long long)((views + groups - 1) / groups));
}

/* ---- devices -------------------------------------------------------------------------------- */

typedef struct {
	int32_t node;
	char place[PLACE_LENGTH];
} DevicePlace;

/* The largest number of ranks, a divisor of all, so that each block of them is on one machine. */
static int64_t find_near(const DevicePlace *all, int size)
{
	int near = size;
	for (bool same = false; near > 1 && !same; near -= !same) {
		same = size % near == 0;
		for (int i = 0; i < size && same; i++)
			same = all[i].node == all[i / near * near].node;
	}
	return near;
}

tomos_status run_share_device(FileRun *r)
{
	DevicePlace mine, *all;
	double memory = -r->memory;
	int sharers = 0;
	r->near = 1;
	r->least_memory = r->memory;
	if (comm_size(r->comm) == 1)
		return TOMOS_OK;
	TRY(comm_largest(r->comm, &memory, 1));
	r->least_memory = -memory;
	TRY(mem_alloc(&all, comm_size(r->comm), sizeof *all, "the devices of ranks"));
	mine.node = r->comm->node;
	tomos_status named = backend_place(r->backend, mine.place);
	tomos_status status = comm_gather(r->comm, &mine, sizeof mine, all);
	for (int i = 0; i < comm_size(r->comm); i++)
		sharers += status == TOMOS_OK && memcmp(&all[i], &mine, sizeof mine) == 0;
	if (status == TOMOS_OK && r->backend->device == 0)
		r->near = find_near(all, comm_size(r->comm));
	mem_free(all);
	TRY(named);
	TRY(status);
	return backend_share(r->backend, sharers);
}

/* ---- iterating together --------------------------------------------------------------------- */

tomos_status together_open(FileRun *r)
{
	if (!r->together)
		return TOMOS_OK;
	TRY(ranked_open(&r->ranked, r->backend, r->comm));
	if (strcmp(r->options.message, "half") == 0)
		ranked_use_half(r->ranked);
	return TOMOS_OK;
}

/* The only slab has the rows that the rank owns from then on. */
void together_pack(FileRun *r, const Slab *slab, float *rows)
{
	RowBand all;
	if (!r->together || r->stacked)
		return;
	ranked_pack(&r->bands, slab_number(&r->group), (RowBand){slab->row, slab->row + slab->rows},
		rows);
	r->owned_rows = ranked_rows(&r->bands, slab_number(&r->group), &all);
}

/* Voxel weights are computed together, so that all ranks must keep the same ones. */
tomos_status together_cache(const FileRun *r, int64_t voxels, int64_t *cache)
{
	double volumes = -(double)(*cache / voxels);
	if (!r->together)
		return TOMOS_OK;
	TRY(comm_largest(r->comm, &volumes, 1));
	*cache = (int64_t)-volumes * voxels;
	return TOMOS_OK;
}

typedef struct {
	FileRun *run;
	const tomos_progress *progress;
	const tomos_cancel *cancel;
} Watch;

/* Whether any rank is to stop. */
static int report_together(void *user, const char *stage, int64_t done, int64_t total, double value)
{
	const Watch *w = user;
	double stop = tomos_cancel_raised(w->cancel);
	if (w->progress && w->progress->report)
		stop += w->progress->report(w->progress->user, stage, done, total, value) != 0;
	return comm_sum(w->run->comm, &stop, 1) != TOMOS_OK || stop > 0;
}

tomos_status together_iterate(FileRun *r, const tomos_progress *progress,
	tomos_status (*iterate)(void *user, const tomos_progress *progress), void *user)
{
	Watch watch = {r, progress, cancel_asked()};
	const tomos_progress own = {report_together, &watch};
	if (!r->together)
		return iterate(user, progress);
	tomos_cancel_on(NULL);
	tomos_status status = iterate(user, &own);
	tomos_cancel_on(watch.cancel);
	return comm_agree_or_abort(r->comm, status);
}

/* ---- the output ----------------------------------------------------------------------------- */

/* What rank 0 tells the others when the output is begun. */
typedef struct {
	int64_t data_at, done;
	double window[2];
	int64_t window_count, first_number;
} Begun;

static tomos_status join_part(FileRun *r, const Begun *begun)
{
	const int64_t shape[3] = {r->slices, r->grid.n[1], r->grid.n[0]};
	const FilePart part = {comm_rank(r->comm), begun->data_at};
	r->file_options.first_number = begun->first_number;
	memcpy(r->window, begun->window, sizeof r->window);
	if (begun->window_count > 0)
		r->file_options.window = r->window;
	r->file_options.window_count = begun->window_count;
	TRY(journal_join(&r->journal, r->output, part.number));
	r->lasting = true;
	r->done = begun->done;
	TRY(io_join(&r->file, r->output, TOMOS_VOLUME, shape, &r->file_options, r->journal.part,
		&part));
	/* Each TIFF file of a folder has its units and voxel sizes. */
	return r->file->format == &format_tiff ? output_put_grid(r) : TOMOS_OK;
}

tomos_status run_open_output(FileRun *r)
{
	Begun begun = {.data_at = 0};
	tomos_status status = TOMOS_OK;
	if (comm_rank(r->comm) == 0)
		status = output_create(r);
	TRY(run_agree(r, status));
	if (comm_size(r->comm) == 1)
		return TOMOS_OK;
	if (r->file) {
		begun = (Begun){.data_at = io_data_at(r->file),
			.done = r->done,
			.window_count = r->file_options.window_count,
			.first_number = r->file_options.first_number};
		if (begun.window_count == 2)
			memcpy(begun.window, r->file_options.window, sizeof begun.window);
	}
	TRY(comm_broadcast(r->comm, &begun, sizeof begun));
	if (!r->file)
		status = join_part(r, &begun);
	TRY(run_agree(r, status));
	TRY(comm_broadcast(r->comm, r->file->written, r->slices));
	return comm_broadcast(
		r->comm, r->file->checksums, r->slices * (int64_t)sizeof *r->file->checksums);
}

/* Rank 0 receives which slices the others have written, with their checksums. */
static tomos_status collect_slices(FileRun *r)
{
	int size = comm_size(r->comm), rank = comm_rank(r->comm);
	const ShareRule rule = run_share_rule(r, size);
	CommMessage *list;
	int64_t count = 0;
	TRY(mem_alloc(&list, 2 * (int64_t)size, sizeof *list, "messages"));
	for (int i = 1; i < size; i++) {
		const Share share = share_of(&rule, i, size);
		int64_t first = share.first - r->first_slice;
		if (share.count == 0 || (rank != 0 && rank != i))
			continue;
		list[count++] = (CommMessage){
			rank ? 0 : i, rank != 0, r->file->written + first, share.count};
		list[count++] = (CommMessage){rank ? 0 : i, rank != 0, r->file->checksums + first,
			share.count * (int64_t)sizeof *r->file->checksums};
	}
	double sent = r->comm->sent;
	tomos_status status = comm_exchange(r->comm, list, count);
	r->comm->sent = sent; /* what is counted is the cost of the method */
	mem_free(list);
	return status;
}

tomos_status run_commit(FileRun *r)
{
	tomos_status status = TOMOS_OK;
	if (comm_size(r->comm) == 1)
		return tomos_file_commit(r->file);
	TRY(run_agree(r, collect_slices(r)));
	if (comm_rank(r->comm) == 0) {
		status = io_merge(r->file);
		if (status == TOMOS_OK)
			status = tomos_file_commit(r->file);
	}
	return run_agree(r, status);
}

/* ---- the report ----------------------------------------------------------------------------- */

static tomos_status sum_integers(tomos_comm *comm, int64_t *const *values, int count)
{
	enum { MOST = 16 };
	double sums[MOST];
	for (int i = 0; i < count; i++)
		sums[i] = (double)*values[i];
	TRY(comm_sum(comm, sums, count));
	for (int i = 0; i < count; i++)
		*values[i] = (int64_t)sums[i];
	return TOMOS_OK;
}

static tomos_status sum_report(tomos_comm *comm, tomos_run_report *p)
{
	int64_t *const integers[] = {&p->slabs, &p->slices, &p->cut, &p->prep.repaired,
		&p->prep.raised, &p->prep.zingers, &p->prep.stripes};
	double sums[5] = {p->read_bytes, p->written_bytes, p->updates, comm->sent, comm->shared};
	double longest[5] = {p->read_seconds, p->compute_seconds, p->write_seconds,
		p->start_seconds, (double)p->prep.views};
	TRY(sum_integers(comm, integers, COUNT(integers)));
	TRY(comm_sum(comm, sums, COUNT(sums)));
	TRY(comm_largest(comm, longest, COUNT(longest)));
	TRY(comm_sum(comm, p->stage_bytes, TOMOS_STAGES));
	TRY(comm_largest(comm, p->stage_seconds, TOMOS_STAGES));
	p->read_bytes = sums[0], p->written_bytes = sums[1], p->updates = sums[2];
	p->sent_bytes = sums[3], p->shared_bytes = sums[4];
	p->read_seconds = longest[0], p->compute_seconds = longest[1];
	p->write_seconds = longest[2], p->start_seconds = longest[3];
	p->prep.views = (int64_t)longest[4]; /* all ranks have the same ones */
	return TOMOS_OK;
}

/* As lines of the journal. */
tomos_status run_collect_iterations(FileRun *r)
{
	Iterative *it = &r->iterative;
	int size = comm_size(r->comm);
	char *text = NULL, *all = NULL;
	int64_t *lengths = NULL, most = 0;
	if (!r->iterates || r->together || size == 1)
		return TOMOS_OK;
	tomos_status status = iterations_list(&text, it);
	int64_t length = status == TOMOS_OK ? (int64_t)strlen(text) + 1 : 0;
	TRY_OR_DONE(run_agree(r, status));
	TRY_OR_DONE(mem_alloc(&lengths, size, sizeof *lengths, "lengths of lists"));
	TRY_OR_DONE(comm_gather(r->comm, &length, sizeof length, lengths));
	for (int i = 0; i < size; i++)
		most = max64(most, lengths[i]);
	TRY_OR_DONE(mem_alloc(&all, most, 1, "iterations of another rank"));
	for (int i = 1; i < size && status == TOMOS_OK; i++) {
		bool send = comm_rank(r->comm) == i;
		const CommMessage one = {send ? 0 : i, send, send ? text : all, lengths[i]};
		if (send || comm_rank(r->comm) == 0)
			status = comm_exchange(r->comm, &one, 1);
		if (status == TOMOS_OK && comm_rank(r->comm) == 0)
			iterations_add_list(it, all);
	}
done:
	mem_free(text);
	mem_free(all);
	mem_free(lengths);
	return status;
}

/* The error of rows that were sent in half precision. */
static tomos_status say_rounding(FileRun *r)
{
	double relative;
	if (!r->together || strcmp(r->options.message, "half") != 0)
		return TOMOS_OK;
	TRY(ranked_rounding(r->ranked, &relative));
	return job_say(r->job, "messages  half precision, relative error %.2g", relative);
}

tomos_status run_collect_report(FileRun *r)
{
	r->report->ranks = comm_size(r->comm);
	if (r->disagreed || comm_size(r->comm) == 1)
		return TOMOS_OK;
	TRY(say_rounding(r));
	return sum_report(r->comm, r->report);
}

/* Of all ranks: a share may consist of rows without light. */
tomos_status run_check_usable(FileRun *r, int64_t values)
{
	tomos_prep_report all = r->report->prep;
	int64_t *const sums[] = {&all.repaired, &values};
	TRY(sum_integers(r->comm, sums, COUNT(sums)));
	return prepared_usable(r->prepared, &all, values);
}

/* The smallest and the largest value of all ranks. */
static tomos_status widen_range(FileRun *r, float range[2])
{
	double ends[2] = {-(double)range[0], (double)range[1]};
	TRY(comm_largest(r->comm, ends, 2));
	range[0] = (float)-ends[0];
	range[1] = (float)ends[1];
	return TOMOS_OK;
}

/* The window of integers is the range of the values, which is known before the output is
 * created. */
tomos_status run_take_range(FileRun *r, const float *volume)
{
	int64_t count = r->share.count * r->grid.n[1] * r->grid.n[0];
	float range[2] = {
		INFINITY, -INFINITY}; /* compared as floats, which gcc 12 for ARM compiles */
	for (int64_t i = 0; i < count; i++) {
		range[0] = volume[i] < range[0] ? volume[i] : range[0];
		range[1] = volume[i] > range[1] ? volume[i] : range[1];
	}
	TRY(widen_range(r, range));
	r->window[0] = (double)range[0];
	r->window[1] = (double)range[1];
	if (!(r->window[1] > r->window[0]))
		r->window[1] = r->window[0] + 1;
	r->file_options.window = r->window;
	r->file_options.window_count = 2;
	return job_say(
		r->job, "window    %g to %g, the range of the values", r->window[0], r->window[1]);
}
