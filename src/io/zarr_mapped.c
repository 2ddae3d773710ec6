/* Shards in memory (tmpfs) are written through mappings, into which slices are cut: written with
 * system calls, they are copied twice, and threads wait for the locks of few files. Pages are
 * allocated by other threads, large ones, from when the output is created; where there are none,
 * shards are written like any file. */
#include <stdlib.h>
#include "io/zarr_parts.h"

enum {
	MOST_THREADS = 14,
	LEAST_BYTES = 16 << 20, /* of a part; files of smaller ones are written to */
	LAYERS = 4,             /* that may be being written at a time */
};

/* The chunks of a shard that are in one layer: without pages; being worked on; with pages, which do
 * not count as memory of the process before they are mapped; written like any file. */
typedef enum { PART_NEW, PART_BUSY, PART_ALLOCATED, PART_MAPPED, PART_PLAIN } PartState;
typedef struct {
	int level;
	int64_t layer, shard; /* shard: its number among those of the layer */
	PartState state;
	View view;
	int64_t users, left; /* threads, and slices that are not written */
} Part;

struct ZarrMapped {
	const File *file;
	const ZarrWriter *writer;
	Part *parts, *levels[ZARR_LEVELS]; /* levels: the first part of each */
	Part **order;                      /* in that of their slices */
	int64_t count, next;               /* next: to be allocated */
	pthread_t threads[MOST_THREADS];
	int thread_count;
	bool ending;
	pthread_mutex_t lock; /* of all of this */
	pthread_cond_t made;
};

/* ---- sizes ----------------------------------------------------------------------------------- */

static int64_t shards_along(const ZarrLevel *l, int axis)
{
	return parts_of(l->array.shape[axis], l->array.chunk[axis]);
}

static int64_t chunks_along(const ZarrLevel *l, int axis)
{
	return l->array.chunk[axis] / l->array.inner[axis];
}

static int64_t part_bytes(const ZarrLevel *l)
{
	return chunks_along(l, 1) * chunks_along(l, 2) * l->slot;
}

/* Where a part begins in its file. */
static int64_t part_start(const ZarrLevel *l, const Part *p)
{
	return p->layer % chunks_along(l, 0) * part_bytes(l);
}

static int64_t part_slices(const ZarrLevel *l, const Part *p)
{
	int64_t depth = l->array.inner[0];
	return min64(depth, l->array.shape[0] - p->layer * depth);
}

/* Pages of chunks or slices beyond the array would never be written to. */
static bool is_full(const ZarrLevel *l, const Part *p)
{
	int64_t y = p->shard / shards_along(l, 2), x = p->shard % shards_along(l, 2);
	return (y + 1) * chunks_along(l, 1) <= l->per[0] &&
	       (x + 1) * chunks_along(l, 2) <= l->per[1] &&
	       4 * part_slices(l, p) >= 3 * l->array.inner[0];
}

/* ---- one part -------------------------------------------------------------------------------- */

/* Allocates its pages, or maps it. */
static bool part_make(const ZarrMapped *m, Part *p, bool mapping)
{
	const ZarrLevel *l = &m->writer->levels[p->level];
	int64_t start = part_start(l, p), end = start + part_bytes(l);
	int64_t size = chunks_along(l, 0) * part_bytes(l);
	const int64_t at[3] = {p->layer / chunks_along(l, 0), p->shard / shards_along(l, 2),
		p->shard % shards_along(l, 2)};
	char *name;
	int descriptor;
	if (zarr_chunk_path(&l->array, at, &name) != TOMOS_OK)
		return false;
	bool open = zarr_open_making(&descriptor, name, m->file->path) == TOMOS_OK;
	mem_free(name);
	if (!open)
		return false;
	bool made = mapping ? view_open(&p->view, descriptor, start, end, size)
			    : large_pages(descriptor, start, end, size);
	(void)flat_close(&descriptor, m->file->path);
	return made;
}

/* Brings a part from one state to the next, with the lock held, which is given up meanwhile. */
static void part_advance(ZarrMapped *m, Part *p)
{
	bool mapping = p->state == PART_ALLOCATED;
	p->state = PART_BUSY;
	pthread_mutex_unlock(&m->lock);
	bool made = part_make(m, p, mapping);
	pthread_mutex_lock(&m->lock);
	p->state = !made ? PART_PLAIN : mapping ? PART_MAPPED : PART_ALLOCATED;
	for (int64_t i = 0; i < m->count && !made; i++) /* nor will the others have pages */
		if (m->parts[i].state == PART_NEW)
			m->parts[i].state = PART_PLAIN;
	pthread_cond_broadcast(&m->made);
}

static void part_unmap(Part *p)
{
	if (p->state == PART_MAPPED)
		view_close(&p->view);
	p->state = PART_PLAIN;
}

static Part *part_at(const ZarrMapped *m, int level, int64_t layer, int64_t shard)
{
	const ZarrLevel *l = &m->writer->levels[level];
	return m->levels[level] + layer * shards_along(l, 1) * shards_along(l, 2) + shard;
}

char *mapped_take(ZarrMapped *m, int level, int64_t layer, int64_t shard)
{
	if (!m || !m->levels[level])
		return NULL;
	Part *p = part_at(m, level, layer, shard);
	pthread_mutex_lock(&m->lock);
	while (p->state != PART_MAPPED && p->state != PART_PLAIN)
		if (p->state == PART_BUSY)
			pthread_cond_wait(&m->made, &m->lock);
		else
			part_advance(m, p);
	bool mapped = p->state == PART_MAPPED;
	p->users += mapped;
	pthread_mutex_unlock(&m->lock);
	int64_t start = part_start(&m->writer->levels[level], p);
	return mapped ? p->view.data + (start - p->view.from) : NULL;
}

void mapped_give(ZarrMapped *m, int level, int64_t layer, int64_t shard, int64_t slices)
{
	Part *p = part_at(m, level, layer, shard);
	pthread_mutex_lock(&m->lock);
	p->left -= slices;
	if (--p->users == 0 && p->left <= 0)
		part_unmap(p);
	pthread_mutex_unlock(&m->lock);
}

/* ---- all parts ------------------------------------------------------------------------------- */

/* Ahead of the threads that write. */
static void *allocate(void *user)
{
	ZarrMapped *m = user;
	pthread_mutex_lock(&m->lock);
	while (!m->ending && m->next < m->count) {
		Part *p = m->order[m->next++];
		if (p->state == PART_NEW)
			part_advance(m, p);
	}
	pthread_mutex_unlock(&m->lock);
	return NULL;
}

static bool is_mapped(const ZarrLevel *l)
{
	return part_bytes(l) >= LEAST_BYTES;
}

static int64_t level_parts(const ZarrLevel *l)
{
	int64_t layers = parts_of(l->array.shape[0], l->array.inner[0]);
	return is_mapped(l) ? layers * shards_along(l, 1) * shards_along(l, 2) : 0;
}

static void describe_parts(ZarrMapped *m)
{
	Part *p = m->parts;
	for (int k = 0; k < m->writer->count; k++) {
		const ZarrLevel *l = &m->writer->levels[k];
		int64_t per = shards_along(l, 1) * shards_along(l, 2), count = level_parts(l);
		m->levels[k] = count > 0 ? p : NULL;
		for (int64_t i = 0; i < count; i++, p++) {
			*p = (Part){.level = k, .layer = i / per, .shard = i % per};
			p->state = is_full(l, p) ? PART_NEW : PART_PLAIN;
			p->left = part_slices(l, p);
			m->order[p - m->parts] = p;
		}
	}
}

/* Layers of level k begin at slice layer << k of level 0, times their thickness. */
static int compare_parts(const void *a, const void *b)
{
	const Part *p = *(Part *const *)a, *q = *(Part *const *)b;
	int64_t first = p->layer << p->level, second = q->layer << q->level;
	return first != second ? (first > second) - (first < second) : (p > q) - (p < q);
}

void mapped_close(ZarrMapped *m)
{
	if (!m)
		return;
	pthread_mutex_lock(&m->lock);
	m->ending = true;
	pthread_mutex_unlock(&m->lock);
	for (int i = 0; i < m->thread_count; i++)
		pthread_join(m->threads[i], NULL);
	for (int64_t i = 0; m->parts && i < m->count; i++)
		part_unmap(&m->parts[i]);
	pthread_mutex_destroy(&m->lock);
	pthread_cond_destroy(&m->made);
	mem_free(m->parts);
	mem_free(m->order);
	mem_free(m);
}

static tomos_status mapped_make(ZarrMapped *m)
{
	for (int k = 0; k < m->writer->count; k++)
		m->count += level_parts(&m->writer->levels[k]);
	TRY(mem_zeroed(&m->parts, m->count, sizeof *m->parts, "the shards of a Zarr file"));
	TRY(mem_alloc(&m->order, m->count, sizeof(Part *), "the shards of a Zarr file"));
	describe_parts(m);
	qsort((void *)m->order, (size_t)m->count, sizeof(Part *), compare_parts);
	int threads = (int)min64(MOST_THREADS, max64(1, tomos_threads() * 7 / 8));
	while (m->thread_count < threads &&
		pthread_create(&m->threads[m->thread_count], NULL, allocate, m) == 0)
		m->thread_count++;
	return TOMOS_OK;
}

tomos_status zarr_reserve(File *file, double bytes)
{
	ZarrWriter *w = ((const Zarr *)file->own)->writer;
	const ZarrLevel *l = &w->levels[0];
	double shards = (double)shards_along(l, 1) * (double)shards_along(l, 2);
	double needed = LAYERS * shards * (double)part_bytes(l) * 8 / 7;
	if (!w->direct || file->part > 0 || !is_mapped(l) || needed > bytes ||
		!path_in_memory(file->temporary))
		return TOMOS_OK;
	TRY(mem_zeroed(&w->mapped, 1, sizeof *w->mapped, "the shards of a Zarr file"));
	w->mapped->file = file;
	w->mapped->writer = w;
	pthread_mutex_init(&w->mapped->lock, NULL);
	pthread_cond_init(&w->mapped->made, NULL);
	return mapped_make(w->mapped);
}
