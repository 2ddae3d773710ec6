/* The levels of an OME-Zarr file: means of 2 x 2 x 2 voxels, made as slices are written.
 *
 * An index without a neighbour, at the end of an axis of odd length, is its own neighbour, so that
 * a voxel there is the mean of those that exist. The sums of a slice whose neighbour is not written
 * yet are kept in memory; if there are too many, the slice is read again later.
 */
#include <string.h>
#include "io/zarr_parts.h"

/* ---- means ----------------------------------------------------------------------------------- */

#define HALVE(name, type) \
	static void name(const type *a, const type *b, int64_t n, float *sums) \
	{ \
		for (int64_t i = 0; i < n / 2; i++) \
			sums[i] = ((float)a[2 * i] + (float)a[2 * i + 1]) + \
				  ((float)b[2 * i] + (float)b[2 * i + 1]); \
		if (n % 2) \
			sums[n / 2] = ((float)a[n - 1] + (float)a[n - 1]) + \
				      ((float)b[n - 1] + (float)b[n - 1]); \
	}
HALVE(halve_float, float)
HALVE(halve_uint16, uint16_t)
HALVE(halve_uint8, uint8_t)

void half_row(Element element, const void *upper, const void *lower, int64_t n, float *sums)
{
	if (element.bytes == 4)
		halve_float(upper, lower, n, sums);
	else if (element.bytes == 2)
		halve_uint16(upper, lower, n, sums);
	else
		halve_uint8(upper, lower, n, sums);
}

/* Means of integers are rounded; their sums are exact. */
void mean_row(Element element, const float *a, const float *b, int64_t n, void *stored)
{
	if (element.bytes == 4)
		for (int64_t i = 0; i < n; i++)
			((float *)stored)[i] = 0.125F * (a[i] + b[i]);
	else if (element.bytes == 2)
		for (int64_t i = 0; i < n; i++)
			((uint16_t *)stored)[i] = (uint16_t)(0.125F * (a[i] + b[i]) + 0.5F);
	else
		for (int64_t i = 0; i < n; i++)
			((uint8_t *)stored)[i] = (uint8_t)(0.125F * (a[i] + b[i]) + 0.5F);
}

/* Slices of the next level, each from two slices. */
typedef struct {
	Element element;
	const int64_t *shape, *next; /* of both levels */
	const char *stored;          /* slice 0 of `pair` */
	int64_t first; /* pair i is of slices first + 2 i and, if it exists, the next */
	int64_t end;   /* of the slices in memory */
	float *sums;   /* or these are to be made, of one slice */
	char *means;
} Halving;

static const char *row_at(const Halving *h, int64_t slice, int64_t row)
{
	row = min64(row, h->shape[1] - 1);
	return h->stored + (slice * h->shape[1] + row) * h->shape[2] * h->element.bytes;
}

static void sum_rows(const Halving *h, int64_t slice, int64_t row, float *sums)
{
	half_row(h->element, row_at(h, slice, 2 * row), row_at(h, slice, 2 * row + 1), h->shape[2],
		sums);
}

enum { ROWS = 16 }; /* of the next level, by one task */

static void sum_some(const Halving *h, int64_t task)
{
	int64_t end = min64((task + 1) * ROWS, h->next[1]);
	for (int64_t row = task * ROWS; row < end; row++)
		sum_rows(h, h->first, row, h->sums + row * h->next[2]);
}

static tomos_status mean_some(const Halving *h, int64_t pair, int64_t task)
{
	int64_t n = h->next[2], end = min64((task + 1) * ROWS, h->next[1]);
	int64_t slice = h->first + 2 * pair, second = min64(slice + 1, h->end - 1);
	float *sums;
	TRY(mem_alloc(&sums, 2 * n, sizeof *sums, "rows of a level"));
	for (int64_t row = task * ROWS; row < end; row++) {
		sum_rows(h, slice, row, sums);
		sum_rows(h, second, row, sums + n);
		mean_row(h->element, sums, sums + n, n,
			h->means + (pair * h->next[1] + row) * n * h->element.bytes);
	}
	mem_free(sums);
	return TOMOS_OK;
}

static tomos_status halve_task(void *user, int64_t i)
{
	const Halving *h = user;
	int64_t tasks = parts_of(h->next[1], ROWS);
	if (!h->sums)
		return mean_some(h, i / tasks, i % tasks);
	sum_some(h, i);
	return TOMOS_OK;
}

static tomos_status halve(Halving *h, int64_t pairs, int threads)
{
	return parallel_each(pairs * parts_of(h->next[1], ROWS), threads, halve_task, h, "writing");
}

/* ---- pending sums ---------------------------------------------------------------------------- */

static tomos_status pending_make(
	ZarrWriter *w, Halving *h, int level, int64_t slice, int threads, PendingSums **pending)
{
	TRY(pending_new(w, level, slice, pending));
	h->sums = (*pending)->sums;
	tomos_status status = halve(h, 1, threads);
	h->sums = NULL;
	if (status != TOMOS_OK) {
		pending_free(w, *pending);
		*pending = NULL;
	}
	return status;
}

/* The sums of a slice that is in the file. */
static tomos_status pending_read(
	const File *file, const Halving *like, int level, int64_t slice, PendingSums **pending)
{
	char *stored;
	Halving h = *like;
	TRY(mem_alloc(
		&stored, h.shape[1] * h.shape[2], (size_t)h.element.bytes, "a slice as stored"));
	h.stored = stored;
	h.first = 0;
	tomos_status status = pieces_read(file, level, slice, stored);
	if (status == TOMOS_OK)
		status = pending_make(
			((const Zarr *)file->own)->writer, &h, level, slice, 1, pending);
	mem_free(stored);
	return status;
}

/* ---- the log --------------------------------------------------------------------------------- */

/* Adds a slice to the log of a process that has joined, with the lock held. */
static tomos_status log_slice(File *file, int level, int64_t slice)
{
	ZarrWriter *w = ((const Zarr *)file->own)->writer;
	const ZarrLevel *l = &w->levels[level];
	int64_t sums = l->per[0] * l->per[1], bytes = l->sums ? sums * (int64_t)sizeof *l->sums : 0;
	LogHead head = {.level = level, .slice = slice};
	if (w->log < 0)
		return TOMOS_OK;
	head.low = level == 0 ? w->low[slice] : 0;
	head.high = level == 0 ? w->high[slice] : 0;
	TRY(flat_write(w->log, file->path, w->log_end, &head, sizeof head));
	w->log_end += (int64_t)sizeof head;
	if (bytes > 0)
		TRY(flat_write(w->log, file->path, w->log_end, l->sums + slice * sums, bytes));
	w->log_end += bytes;
	return TOMOS_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Slices that are written again are not there until they are. */
static void begin_slices(ZarrWriter *w, const Slices *s)
{
	pthread_mutex_lock(&w->lock);
	for (int64_t i = 0; i < s->count; i++) {
		w->levels[s->level].done[s->first + i] = 0;
		pending_free(w, pending_take(w, s->level, s->first + i));
	}
	pthread_mutex_unlock(&w->lock);
}

static tomos_status end_slice(File *file, int level, int64_t slice)
{
	const Zarr *own = file->own;
	own->writer->levels[level].done[slice] = 1;
	return log_slice(file, level, slice);
}

/* A slice whose neighbour is not among those of the call, and its sums: *other gets the neighbour's
 * sums, or stays NULL if it is not written; the slice's own are then kept. It is done from now
 * on. */
static tomos_status pair_slice(
	File *file, const Halving *h, PendingSums **made, PendingSums **other)
{
	ZarrWriter *w = ((const Zarr *)file->own)->writer;
	int level = (*made)->level;
	int64_t slice = (*made)->slice, neighbour = slice ^ 1;
	pthread_mutex_lock(&w->lock);
	*other = pending_take(w, level, neighbour);
	bool there = *other || w->levels[level].done[neighbour];
	tomos_status status = end_slice(file, level, slice);
	if (!there && status == TOMOS_OK) {
		pending_keep(w, *made);
		*made = NULL;
	}
	pthread_mutex_unlock(&w->lock);
	if (status == TOMOS_OK && there && !*other)
		status = pending_read(file, h, level, neighbour, other);
	return status;
}

/* The slice at one end of the call and its neighbour outside; *made: there is a mean. */
static tomos_status mean_of_end(File *file, Halving *h, const Slices *s, int64_t slice, int threads,
	char *means, bool *made)
{
	ZarrWriter *w = ((const Zarr *)file->own)->writer;
	PendingSums *mine = s->sums ? *s->sums : NULL, *other = NULL;
	tomos_status status = TOMOS_OK;
	h->first = slice - s->first;
	if (mine)
		*s->sums = NULL;
	else
		status = pending_make(w, h, s->level, slice, threads, &mine);
	if (status == TOMOS_OK)
		status = pair_slice(file, h, &mine, &other);
	*made = status == TOMOS_OK && other;
	if (*made)
		mean_row(file->element, mine->sums, other->sums, h->next[1] * h->next[2], means);
	pending_free(w, mine);
	pending_free(w, other);
	return status;
}

static tomos_status end_slices(File *file, int level, int64_t first, int64_t end)
{
	ZarrWriter *w = ((const Zarr *)file->own)->writer;
	tomos_status status = TOMOS_OK;
	pthread_mutex_lock(&w->lock);
	for (int64_t i = first; i < end && status == TOMOS_OK; i++)
		status = end_slice(file, level, i);
	pthread_mutex_unlock(&w->lock);
	return status;
}

/* The slices of the next level that can be made now: `next` gets them. */
static tomos_status means_make(File *file, const Slices *s, char *means, int threads, Slices *next)
{
	const ZarrLevel *l = &((const Zarr *)file->own)->writer->levels[s->level];
	int64_t end = s->first + s->count, last = l->array.shape[0] - 1, from = s->first, to = end;
	int64_t bytes = l[1].array.shape[1] * l[1].array.shape[2] * file->element.bytes;
	Halving h = {file->element, l->array.shape, l[1].array.shape, s->stored, 0, s->count, NULL,
		NULL};
	bool made;
	*next = (Slices){s->level + 1, s->first / 2, 0, means, false, NULL};
	if (from % 2) {
		TRY(mean_of_end(file, &h, s, from, threads, means, &made));
		next->count = made;
		from++;
	}
	if (to > from && to % 2 && to - 1 < last)
		to--;
	next->first = next->count ? next->first : from / 2;
	TRY(end_slices(file, s->level, from, to));
	h.first = from - s->first;
	h.end = to - s->first;
	h.means = means + next->count * bytes;
	int64_t pairs = (to - from + 1) / 2;
	TRY(halve(&h, pairs, threads));
	next->count += pairs;
	if (to == end)
		return TOMOS_OK;
	h.end = s->count;
	TRY(mean_of_end(file, &h, s, to, threads, means + next->count * bytes, &made));
	next->count += made;
	return TOMOS_OK;
}

/* ---- layers that will be packed -------------------------------------------------------------- */

static void layer_set(ZarrWriter *w, int level, int64_t layer, unsigned char state)
{
	pthread_mutex_lock(&w->lock);
	w->levels[level].layers[layer] = state;
	pthread_cond_broadcast(&w->freed);
	pthread_mutex_unlock(&w->lock);
}

/* Whether all slices of a layer are there, and this thread is to pack it. */
static bool layer_take(ZarrWriter *w, int level, int64_t layer)
{
	ZarrLevel *l = &w->levels[level];
	int64_t first = layer * l->array.inner[0];
	int64_t end = min64(first + l->array.inner[0], l->array.shape[0]);
	pthread_mutex_lock(&w->lock);
	bool whole = l->layers[layer] == LAYER_OPEN;
	for (int64_t i = first; i < end && whole; i++)
		whole = l->done[i];
	if (whole)
		l->layers[layer] = LAYER_BUSY;
	pthread_mutex_unlock(&w->lock);
	return whole;
}

static tomos_status pack_whole(File *file, const Slices *s)
{
	ZarrWriter *w = ((const Zarr *)file->own)->writer;
	int64_t depth = w->levels[s->level].array.inner[0];
	for (int64_t layer = s->first / depth; layer * depth < s->first + s->count; layer++)
		if (layer_take(w, s->level, layer)) {
			tomos_status status = layer_pack(file, s->level, layer, tomos_threads());
			layer_set(w, s->level, layer, LAYER_CLOSED);
			TRY(status);
		}
	return TOMOS_OK;
}

/* One thread unpacks what an earlier process, or this one, has packed; others wait for it. */
static tomos_status layer_open(File *file, int level, int64_t layer)
{
	ZarrWriter *w = ((const Zarr *)file->own)->writer;
	unsigned char *state = &w->levels[level].layers[layer];
	pthread_mutex_lock(&w->lock);
	while (*state == LAYER_BUSY)
		pthread_cond_wait(&w->freed, &w->lock);
	bool open = *state == LAYER_OPEN;
	if (!open)
		*state = LAYER_BUSY;
	pthread_mutex_unlock(&w->lock);
	if (open)
		return TOMOS_OK;
	tomos_status status = layer_unpack(file, level, layer);
	layer_set(w, level, layer, status == TOMOS_OK ? LAYER_OPEN : LAYER_CLOSED);
	return status;
}

static tomos_status layers_open(File *file, const Slices *s)
{
	const ZarrWriter *w = ((const Zarr *)file->own)->writer;
	int64_t depth = w->levels[s->level].array.inner[0];
	for (int64_t layer = s->first / depth; layer * depth < s->first + s->count; layer++)
		TRY(layer_open(file, s->level, layer));
	return TOMOS_OK;
}

/* ---- slices with those of the next levels ---------------------------------------------------- */

static tomos_status means_take(const File *file, const Slices *s, char **means)
{
	ZarrWriter *w = ((const Zarr *)file->own)->writer;
	const int64_t *n = w->levels[s->level + 1].array.shape;
	if (s->count == 1) /* which has one mean at most */
		return slice_take(w, s->level, means);
	return mem_alloc(means, (s->count / 2 + 1) * n[1] * n[2], (size_t)file->element.bytes,
		"slices of a level");
}

static tomos_status next_write(File *file, const Slices *s, int threads)
{
	char *means;
	Slices made;
	TRY(means_take(file, s, &means));
	tomos_status status = means_make(file, s, means, threads, &made);
	if (status == TOMOS_OK && made.count > 0)
		status = level_write(file, &made, threads);
	if (s->count == 1)
		slice_give(((const Zarr *)file->own)->writer, s->level, means);
	else
		mem_free(means);
	return status;
}

/* The sums of a slice that is alone are made with its pieces, while it is in a cache. */
static tomos_status slices_write(File *file, const Slices *s, int threads)
{
	ZarrWriter *w = ((const Zarr *)file->own)->writer;
	const ZarrLevel *l = &w->levels[s->level];
	PendingSums *sums = NULL;
	Slices with = *s;
	if (s->level + 1 == w->count) {
		TRY(pieces_write(file, s, threads));
		return end_slices(file, s->level, s->first, s->first + s->count);
	}
	if (s->count == 1 && (s->first ^ 1) < l->array.shape[0])
		TRY(pending_new(w, s->level, s->first, &sums));
	with.sums = sums ? &sums : NULL;
	tomos_status status = pieces_write(file, &with, threads);
	if (status == TOMOS_OK)
		status = next_write(file, &with, threads);
	pending_free(w, sums);
	return status;
}

tomos_status level_write(File *file, const Slices *s, int threads)
{
	ZarrWriter *w = ((const Zarr *)file->own)->writer;
	begin_slices(w, s);
	if (!w->direct)
		TRY(layers_open(file, s));
	TRY(slices_write(file, s, threads));
	return w->direct ? TOMOS_OK : pack_whole(file, s);
}

/* ---- what is missing at the end -------------------------------------------------------------- */

typedef struct {
	File *file;
	int level;
} Missing;

static tomos_status complete_slice(void *user, int64_t slice)
{
	const Missing *m = user;
	File *file = m->file;
	ZarrWriter *w = ((const Zarr *)file->own)->writer;
	const ZarrLevel *l = &w->levels[m->level];
	const int64_t *shape = l[-1].array.shape, *n = l->array.shape;
	Halving h = {file->element, shape, n, NULL, 0, 1, NULL, NULL};
	PendingSums *pending[2] = {NULL, NULL};
	char *means = NULL;
	tomos_status status;
	if (l->done[slice])
		return TOMOS_OK;
	TRY_OR_DONE(pending_read(file, &h, m->level - 1, 2 * slice, &pending[0]));
	TRY_OR_DONE(pending_read(
		file, &h, m->level - 1, min64(2 * slice + 1, shape[0] - 1), &pending[1]));
	TRY_OR_DONE(mem_alloc(&means, n[1] * n[2], (size_t)file->element.bytes, "a slice"));
	mean_row(file->element, pending[0]->sums, pending[1]->sums, n[1] * n[2], means);
	const Slices made = {m->level, slice, 1, means, false, NULL};
	TRY_OR_DONE(pieces_write(file, &made, 1));
	TRY_OR_DONE(end_slices(file, m->level, slice, slice + 1));
done:
	pending_free(w, pending[0]);
	pending_free(w, pending[1]);
	mem_free(means);
	return status;
}

tomos_status levels_complete(File *file, int threads)
{
	const ZarrWriter *w = ((const Zarr *)file->own)->writer;
	for (int i = 1; i < w->count; i++) {
		Missing missing = {file, i};
		TRY(parallel_each(
			w->levels[i].array.shape[0], threads, complete_slice, &missing, "writing"));
	}
	return TOMOS_OK;
}
