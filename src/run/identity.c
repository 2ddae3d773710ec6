/* Identity of a run: hashes of the scan's content and of all settings that decide the numbers.
 *
 * A scan may have been moved since a run was interrupted, and another file may have its name. Its
 * files are therefore identified by their sizes and by checksums of blocks spread over them; by the
 * time of the last change as well where the blocks are not all bytes; and by some rows of numbers
 * as they are read, which may come from files that the named ones refer to.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "backend/backend.h"
#include "run/run_parts.h"

enum {
	BLOCKS = 128, /* read of all files together */
	BLOCK_BYTES = 1 << 16,
	SAMPLED_ROWS = 8 /* of each of views, flats and darks */
};

static uint64_t hash(uint64_t sum, const void *bytes, size_t count)
{
	return (sum ^ checksum_add(0, bytes, (int64_t)count)) * UINT64_C(1099511628211);
}

static uint64_t hash_text(uint64_t sum, const char *text)
{
	return text ? hash(sum, text, strlen(text)) : hash(sum, "", 0);
}

static uint64_t hash_list(uint64_t sum, const void *list, int64_t count)
{
	_Static_assert(sizeof(double) == sizeof(int64_t), "lists are of these");
	sum = hash(sum, &count, sizeof count);
	return list ? hash(sum, list, (size_t)count * sizeof(double)) : sum;
}

static uint64_t hash_option(uint64_t sum, const tomos_option *row, const char *options)
{
	const char *field = options + row->offset, *list;
	int64_t count;
	memcpy(&list, field, sizeof list);
	switch (row->kind) {
	case TOMOS_TEXT:
	case TOMOS_CHOICE:
		return hash_text(sum, list);
	case TOMOS_INTS:
	case TOMOS_REALS:
	case TOMOS_ANGLES:
	case TOMOS_LENGTHS:
		memcpy(&count, options + row->count_offset, sizeof count);
		return hash_list(sum, list, list ? count : 0);
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

/* ---- the scan ----------------------------------------------------------------------------- */

typedef struct {
	uint64_t sum;
	int64_t count, index; /* of the files */
	unsigned char *block;
} Sampling;

static tomos_status count_source(void *user, const char *path)
{
	Sampling *s = user;
	(void)path;
	s->count++;
	return TOMOS_OK;
}

/* `count` blocks, spread evenly; all bytes where these are enough. */
static tomos_status hash_blocks(Sampling *s, const char *path, int64_t count)
{
	int descriptor;
	int64_t size;
	TRY(flat_open(&descriptor, &size, path));
	int64_t bytes = min64(size, BLOCK_BYTES), last = size - bytes;
	int64_t steps = min64(count, (size + BLOCK_BYTES - 1) / BLOCK_BYTES);
	tomos_status status = TOMOS_OK;
	for (int64_t i = 0; i < steps && status == TOMOS_OK; i++) {
		int64_t at =
			steps > 1 ? (int64_t)((double)last / (double)(steps - 1) * (double)i) : 0;
		status = flat_read(descriptor, path, at, s->block, bytes);
		if (status == TOMOS_OK)
			s->sum = hash(s->sum, s->block, (size_t)bytes);
	}
	(void)flat_close(&descriptor, path);
	return status;
}

static tomos_status hash_source(void *user, const char *path)
{
	Sampling *s = user;
	struct stat info;
	int64_t i = s->index++, blocks = (i + 1) * BLOCKS / s->count - i * BLOCKS / s->count;
	if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) {
		s->sum = hash_text(s->sum, "no file"); /* its numbers are hashed below */
		return TOMOS_OK;
	}
	int64_t size = info.st_size, time = info.st_mtime;
	s->sum = hash(s->sum, &size, sizeof size);
	if (size > blocks * BLOCK_BYTES)
		s->sum = hash(s->sum, &time, sizeof time);
	return hash_blocks(s, path, blocks);
}

/* Adds single rows of some frames, the first and the last among them. */
static tomos_status hash_rows(Sampling *s, tomos_scan *scan, tomos_frames which)
{
	int64_t frames = scan->sets[which].count, last = SAMPLED_ROWS - 1;
	float *row;
	TRY(mem_alloc(&row, scan->columns, sizeof *row, "a row of a scan"));
	tomos_status status = TOMOS_OK;
	for (int64_t i = 0; i <= last && frames > 0 && status == TOMOS_OK; i++) {
		status = tomos_scan_read(scan, which, (frames - 1) * i / last, 1,
			(scan->rows - 1) * i / last, 1, row);
		if (status == TOMOS_OK)
			s->sum = hash(s->sum, row, (size_t)scan->columns * sizeof *row);
	}
	mem_free(row);
	return status;
}

static tomos_status hash_frames(Sampling *s, tomos_scan *scan, tomos_frames which)
{
	const FrameSet *set = &scan->sets[which];
	s->count = s->index = 0;
	s->sum = hash_list(s->sum, set->list, set->list ? set->count : 0);
	s->sum = hash_list(s->sum, set->places, set->places ? set->count : 0);
	if (!set->file)
		return TOMOS_OK;
	TRY(io_sources(set->file, count_source, s));
	TRY(io_sources(set->file, hash_source, s));
	return hash_rows(s, scan, which);
}

static tomos_status hash_scan(tomos_scan *scan, uint64_t *sum)
{
	Sampling s = {.sum = UINT64_C(14695981039346656037)};
	TRY(mem_alloc(&s.block, BLOCK_BYTES, 1, "a block of a file"));
	tomos_status status = TOMOS_OK;
	for (int i = 0; i < COUNT(scan->sets) && status == TOMOS_OK; i++)
		status = hash_frames(&s, scan, (tomos_frames)i);
	mem_free(s.block);
	*sum = s.sum;
	return status;
}

/* ---- the options -------------------------------------------------------------------------- */

static uint64_t hash_file(uint64_t sum, const tomos_file_options *file)
{
	sum = hash_text(sum, file->type);
	sum = hash_list(sum, file->window, file->window ? file->window_count : 0);
	sum = hash(sum, &file->first_number, sizeof file->first_number);
	if (strcmp(file->zarr, "3") != 0) /* hashes without it stay those of before */
		sum = hash_text(sum, file->zarr);
	return hash(sum, &file->compress, sizeof file->compress);
}

/* A file that the run reads numbers from: its size, time and name. */
static uint64_t hash_named(uint64_t sum, const char *path)
{
	struct stat info;
	sum = hash_text(sum, path ? path : "");
	if (!path || !path[0] || stat(path, &info) != 0)
		return sum;
	const int64_t numbers[2] = {info.st_size, info.st_mtime};
	return hash(sum, numbers, sizeof numbers);
}

/* Options that do not affect the result. */
static bool is_silent(const char *option)
{
	return choice_index("checkpoint|every|resume|ray_weights|mask|truth|history", option) >= 0;
}

static tomos_status hash_iterative(const FileRun *r, uint64_t *sum)
{
	const tomos_job *job = r->job;
	tomos_projector_options projector = tomos_projector_defaults();
	tomos_matrix_options stored = tomos_matrix_defaults();
	int count;
	const tomos_option *rows = tomos_options("algebraic", &count);
	TRY(options_take(&projector, job->projector, "projector"));
	TRY(options_take(&stored, job->stored, "matrix"));
	for (int i = 0; i < count; i++)
		if (!is_silent(rows[i].name))
			*sum = hash_option(*sum, &rows[i], (const char *)&r->iterative.o);
	*sum = hash_options(*sum, "projector", &projector);
	*sum = hash_text(*sum, job->stored ? stored.storage : "");
	*sum = hash_named(*sum, job->matrix);
	for (int i = 0; i < FILE_COUNT; i++)
		if (i != FILE_TRUTH || r->iterative.o.keep_best)
			*sum = hash_named(*sum, r->iterative.names[i]);
	return TOMOS_OK;
}

/* Hash of all settings that affect the result, except for the scan and the division into slabs. */
static tomos_status hash_settings(const FileRun *r, uint64_t *result)
{
	const tomos_prepared *p = r->whole;
	const tomos_geometry *g = p->geometry;
	tomos_analytic_options analytic = tomos_analytic_defaults();
	tomos_source_options source = tomos_source_defaults();
	TRY(options_take(&analytic, r->job->analytic, "analytic"));
	TRY(options_take(&source, r->job->source, "source"));
	const int64_t sizes[] = {g->rows, g->columns, g->count, r->first_slice, r->slices,
		p->info.rows, p->info.columns, p->info.views, p->info.flats, p->info.darks,
		p->first_column, p->columns, p->bin, p->first_row,
		p->scan->sets[TOMOS_VIEWS].sinograms};
	uint64_t sum = hash_text(UINT64_C(14695981039346656037), r->method);
	sum = hash_text(sum, source.dataset);
	sum = hash_text(sum, source.raw);
	sum = hash(sum, sizes, sizeof sizes);
	sum = hash(sum, &r->grid, sizeof r->grid);
	if (r->iterates)
		TRY(hash_iterative(r, &sum));
	else
		sum = hash_options(sum, "analytic", &analytic);
	sum = hash_options(sum, "prep", &p->prep);
	sum = hash_list(sum, r->options.hu, r->options.hu ? r->options.hu_count : 0);
	if (strcmp(r->options.message, "float") != 0) /* hashes without it stay those of before */
		sum = hash_text(sum, r->options.message);
	sum = hash_file(sum, &r->file_options);
	*result = hash(sum, g->views, (size_t)g->count * sizeof *g->views);
	return TOMOS_OK;
}

tomos_status run_identity(const FileRun *r, Identity *identity)
{
	snprintf(identity->backend, sizeof identity->backend, "%s", r->backend->type->name);
	TRY(hash_scan(r->prepared->scan, &identity->scan));
	return hash_settings(r, &identity->settings);
}
