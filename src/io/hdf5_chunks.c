/* Chunked HDF5 datasets: chunks are read as they are in the file and unpacked by several threads.
 *
 * The library reads and unpacks them in one thread. Datasets with a filter that is not known here,
 * or with numbers to be converted, are left to it.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "io/filters.h"
#include "io/hdf5_parts.h"

enum {
	MOST_FILTERS = 8,
	/* Places are looked up once for this many chunks: HDF5 1.10 takes a time that grows with
	 * the square of their number, 0.1 s here. */
	MOST_PLACES = 4096,
	MOST_KEPT = 1 << 20,
};

typedef struct {
	int64_t at, bytes; /* in the file; bytes 0: never written */
	uint32_t mask;     /* bit i: filter i was left out */
} Place;

struct Chunks {
	Filter filters[MOST_FILTERS];
	int filter_count;
	int64_t side[3], grid[3]; /* numbers of a chunk, and chunks, along each axis */
	int64_t bytes;            /* of a chunk, unpacked */
	unsigned char fill[8];    /* what chunks contain that were never written */
	Place *places;            /* NULL: asked of the library for each chunk */
	unsigned char **kept;     /* unpacked chunks by their numbers, NULL where there are none */
	bool looked;              /* for places */
	int descriptor;
	int64_t size; /* of the file */
};

/* ---- description ----------------------------------------------------------------------------- */

bool filter_take(hid_t list, int i, Filter *filter, char name[FILTER_NAME])
{
	size_t count = FILTER_VALUES;
	unsigned flags, config;
	*filter = (Filter){.id = -1};
	filter->id = H5Pget_filter2(
		list, (unsigned)i, &flags, &count, filter->values, FILTER_NAME, name, &config);
	return filter->id >= 0 && count <= FILTER_VALUES;
}

static bool take_filters(hid_t list, Chunks *c)
{
	char name[FILTER_NAME];
	c->filter_count = H5Pget_nfilters(list);
	if (c->filter_count < 0 || c->filter_count > MOST_FILTERS)
		return false;
	for (int i = 0; i < c->filter_count; i++)
		if (!filter_take(list, i, &c->filters[i], name) || !filter_known(&c->filters[i]))
			return false;
	return true;
}

static bool take_sides(hid_t list, const File *file, Chunks *c)
{
	const Hdf5 *own = file->own;
	hsize_t sides[3] = {1, 1, 1};
	unsigned options = 0;
	if (H5Pget_chunk(list, 3, sides + 3 - own->rank) != own->rank ||
		H5Pget_chunk_opts(list, &options) < 0 || options != 0)
		return false;
	c->bytes = file->element.bytes;
	for (int i = 0; i < 3; i++) {
		if (sides[i] < 1 || sides[i] > INT64_MAX ||
			!size_mul(c->bytes, (int64_t)sides[i], &c->bytes))
			return false;
		c->side[i] = (int64_t)sides[i];
		c->grid[i] = (file->shape[i] - 1) / c->side[i] + 1;
	}
	return true;
}

/* The number of a chunk in C order, from its place in the grid. */
static int64_t number_of(const Chunks *c, const int64_t at[3])
{
	return (at[0] * c->grid[1] + at[1]) * c->grid[2] + at[2];
}

static bool find_place(const Hdf5 *own, hid_t space, hsize_t i, Chunks *c)
{
	hsize_t start[3] = {0, 0, 0}, bytes;
	haddr_t at;
	unsigned mask;
	int64_t place[3];
	if (H5Dget_chunk_info(own->dataset, space, i, start + 3 - own->rank, &mask, &at, &bytes) <
		0)
		return false;
	for (int k = 0; k < 3; k++)
		place[k] = (int64_t)start[k] / c->side[k];
	if (place[0] >= c->grid[0] || place[1] >= c->grid[1] || place[2] >= c->grid[2] ||
		bytes > (hsize_t)c->size || at > (haddr_t)c->size - bytes)
		return false;
	c->places[number_of(c, place)] = (Place){(int64_t)at, (int64_t)bytes, mask};
	return true;
}

static bool find_places(const Hdf5 *own, Chunks *c)
{
	hid_t space = H5Dget_space(own->dataset);
	hsize_t count = 0;
	bool found = space >= 0 && H5Dget_num_chunks(own->dataset, space, &count) >= 0;
	for (hsize_t i = 0; i < count && found; i++)
		found = find_place(own, space, i, c);
	hdf5_drop(space);
	return found;
}

/* The places of all chunks. Files with very many chunks, and damaged ones, get none: the HDF5
 * library then reads them, and reports the damage. */
static tomos_status make_places(const Hdf5 *own, Chunks *c)
{
	int64_t count = c->grid[0];
	c->looked = true;
	if (!size_mul(count, c->grid[1], &count) || !size_mul(count, c->grid[2], &count) ||
		count > MOST_PLACES || c->descriptor < 0)
		return TOMOS_OK;
	TRY(mem_zeroed(&c->places, count, sizeof *c->places, "the chunks of an HDF5 file"));
	if (!find_places(own, c)) {
		mem_free(c->places);
		c->places = NULL;
	}
	return TOMOS_OK;
}

static bool describe(hid_t list, const File *file, Chunks *c)
{
	const Hdf5 *own = file->own;
	hid_t type = H5Dget_type(own->dataset);
	bool fits = type >= 0 && H5Tequal(type, own->memory) > 0 && take_filters(list, c) &&
		    take_sides(list, file, c) && H5Pget_fill_value(list, own->memory, c->fill) >= 0;
	hdf5_drop(type);
	return fits;
}

tomos_status chunks_open(File *file, hid_t list)
{
	Hdf5 *own = file->own;
	Chunks *c;
	TRY(mem_zeroed(&c, 1, sizeof *c, "the chunks of an HDF5 file"));
	own->chunks = c;
	c->descriptor = hdf5_descriptor(own->file, &c->size);
	if (!describe(list, file, c)) {
		chunks_close(own);
		return TOMOS_OK;
	}
	file->grain = min64(c->side[0], file->shape[0]);
	file->row_grain = min64(c->side[1], file->shape[1]);
	file->unpacks = c->filter_count > 0 && !filter_skips(&c->filters[0]);
	return TOMOS_OK;
}

void chunks_close(Hdf5 *own)
{
	Chunks *c = own->chunks;
	if (c && c->kept)
		for (int64_t i = 0; i < c->grid[0] * c->grid[1] * c->grid[2]; i++)
			mem_free(c->kept[i]);
	if (c) {
		mem_free(c->kept);
		mem_free(c->places);
	}
	mem_free(c);
	own->chunks = NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* One thread's memory: the bytes of the file, and two buffers that filters alternate between. */
typedef struct {
	unsigned char *packed, *buffers[2];
	int64_t packed_room, rooms[2];
	Unpacker unpacker;
} Memory;

typedef struct {
	const File *file;
	const Chunks *chunks;
	const Samples *part;
	char *stored;
	unsigned char **kept;       /* of `chunks`, if the file keeps them */
	int64_t first[3], count[3]; /* the chunks that overlap the part, in the grid */
	_Atomic int64_t next;
} Reading;

/* Where a chunk overlaps the part: from the first sample to the last, [low, high) of the dataset
 * along each axis; low >= high: none is in the chunk. */
typedef struct {
	int64_t at[3], low[3], high[3];
} Overlap;

static tomos_status reject_chunk(const Reading *r, const Overlap *o, const char *what)
{
	return fail(TOMOS_BAD_FILE, "'%s', dataset '%s': the chunk of index %lld, row %lld, %s",
		r->file->path, r->file->dataset, (long long)(o->at[0] * r->chunks->side[0]),
		(long long)(o->at[1] * r->chunks->side[1]), what);
}

static Overlap find_overlap(const Reading *r, int64_t i)
{
	const Samples *s = r->part;
	Overlap o;
	for (int k = 2; k >= 0; i /= r->count[k], k--) {
		o.at[k] = r->first[k] + i % r->count[k];
		int64_t start = o.at[k] * r->chunks->side[k], end = start + r->chunks->side[k];
		int64_t skipped = (max64(start - s->first[k], 0) + s->step[k] - 1) / s->step[k];
		o.low[k] = s->first[k] + skipped * s->step[k];
		end = min64(end, s->first[k] + samples_span(s, k));
		o.high[k] = end <= o.low[k] ? o.low[k] : end - (end - 1 - o.low[k]) % s->step[k];
	}
	return o;
}

static tomos_status more_memory(unsigned char **memory, int64_t *room, int64_t bytes)
{
	if (*memory && *room >= bytes)
		return TOMOS_OK;
	mem_free(*memory);
	*memory = NULL;
	*room = bytes;
	return mem_alloc(memory, bytes, 1, "a chunk of an HDF5 file");
}

/* Through the library, with the lock. */
static tomos_status ask_library(const Reading *r, const Overlap *o, Memory *m, Place *place)
{
	const Hdf5 *own = r->file->own;
	hsize_t at[3], bytes = 0;
	for (int k = 0; k < 3; k++)
		at[k] = (hsize_t)(o->at[k] * r->chunks->side[k]);
	const hsize_t *start = at + 3 - own->rank;
	if (H5Dget_chunk_storage_size(own->dataset, start, &bytes) < 0)
		bytes = 0;
	*place = (Place){0, (int64_t)bytes, 0};
	if (bytes == 0)
		return TOMOS_OK;
	if (bytes > (hsize_t)r->chunks->size)
		return reject_chunk(r, o, "is larger than the file");
	TRY(more_memory(&m->packed, &m->packed_room, place->bytes));
	return H5Dread_chunk(own->dataset, H5P_DEFAULT, start, &place->mask, m->packed) >= 0
		       ? TOMOS_OK
		       : hdf5_reject(TOMOS_BAD_FILE, r->file->path, r->file->dataset,
				 "a chunk cannot be read");
}

/* The part of a chunk that is needed, in bytes of the chunk. */
static void find_need(const Reading *r, const Overlap *o, int64_t need[2])
{
	const Chunks *c = r->chunks;
	int64_t row = c->side[2] * r->file->element.bytes, low[2], high[2];
	for (int k = 0; k < 2; k++) {
		low[k] = o->low[k] - o->at[k] * c->side[k];
		high[k] = o->high[k] - o->at[k] * c->side[k];
	}
	need[0] = (low[0] * c->side[1] + low[1]) * row;
	need[1] = ((high[0] - 1) * c->side[1] + high[1]) * row;
}

/* The bytes of a chunk, as they are in the file; only the needed ones if no filter was applied. */
static tomos_status fetch(const Reading *r, const Overlap *o, Memory *m, Place *place)
{
	const Chunks *c = r->chunks;
	if (!c->places) {
		Quiet quiet = hdf5_enter();
		return hdf5_leave(quiet, ask_library(r, o, m, place));
	}
	*place = c->places[number_of(c, o->at)];
	if (place->bytes == 0)
		return TOMOS_OK;
	int64_t need[2] = {0, place->bytes};
	TRY(more_memory(&m->packed, &m->packed_room, place->bytes));
	if (c->filter_count == 0 && place->bytes == c->bytes)
		find_need(r, o, need);
	return flat_read(c->descriptor, r->file->path, place->at + need[0], m->packed + need[0],
		need[1] - need[0]);
}

/* Whether the chunk is in one piece in the output, which it is then unpacked to; its start. */
static unsigned char *find_target(const Reading *r, const Overlap *o)
{
	const Chunks *c = r->chunks;
	const Samples *s = r->part;
	bool whole = c->side[2] == s->count[2] && (c->side[0] == 1 || c->side[1] == s->count[1]);
	for (int k = 0; k < 3; k++)
		whole = whole && s->step[k] == 1 && o->high[k] - o->low[k] == c->side[k];
	int64_t index = (o->low[0] - s->first[0]) * s->count[1] + o->low[1] - s->first[1];
	return whole ? (unsigned char *)r->stored + index * s->count[2] * r->file->element.bytes
		     : NULL;
}

/* Undoes filter i; `first` is the one undone last. */
static tomos_status undo_one(
	const Reading *r, const Overlap *o, Memory *m, int i, int first, Undo *undo)
{
	const Chunks *c = r->chunks;
	int64_t room = c->bytes + 4 * MOST_FILTERS; /* some filters append checksums of 4 bytes */
	unsigned char *target = i == first ? find_target(r, o) : NULL;
	if (!target)
		TRY(more_memory(&m->buffers[i % 2], &m->rooms[i % 2], room));
	undo->filter = &c->filters[i];
	undo->out = target ? target : m->buffers[i % 2];
	undo->far = target != NULL;
	undo->room = target ? c->bytes : room;
	undo->need[0] = 0;
	undo->need[1] = room;
	if (i == first && !r->kept)
		find_need(r, o, undo->need);
	int64_t made = filter_undo(undo);
	if (undo->far)
		far_end();
	if (made == UNDO_NO_MEMORY)
		return fail(TOMOS_NO_MEMORY, "no memory to unpack '%s'", r->file->path);
	undo->in = undo->out;
	undo->bytes = made;
	return made < 0 ? reject_chunk(r, o, "is damaged") : TOMOS_OK;
}

/* Undoes the filters, the last one first. Returns where the numbers are. */
static tomos_status unpack(const Reading *r, const Overlap *o, Memory *m, const Place *place,
	const unsigned char **numbers)
{
	const Chunks *c = r->chunks;
	Undo undo = {.in = m->packed, .bytes = place->bytes, .unpacker = &m->unpacker};
	int first = 0;
	if (c->bytes / LARGEST_RATIO > place->bytes)
		return reject_chunk(r, o, "is damaged: it is too small");
	while (first < c->filter_count && place->mask >> first & 1)
		first++;
	for (int i = c->filter_count; i-- > first;)
		if (!(place->mask >> i & 1))
			TRY(undo_one(r, o, m, i, first, &undo));
	*numbers = undo.in;
	if (undo.bytes != c->bytes)
		return reject_chunk(r, o, "is damaged: its size is wrong");
	return TOMOS_OK;
}

/* Samples of one row of a chunk; `from` NULL: the chunk was never written. */
static void copy_row(
	const Reading *r, const Overlap *o, const unsigned char *from, int64_t count, char *to)
{
	const Chunks *c = r->chunks;
	int64_t size = r->file->element.bytes;
	int64_t within = o->low[2] - o->at[2] * c->side[2];
	if (from)
		copy_strided(to, size, (const char *)from + within * size, r->part->step[2] * size,
			count, size);
	else
		copy_strided(to, size, (const char *)c->fill, 0, count, size);
}

/* The samples in a chunk, to their place in the output. */
static void copy_rows(const Reading *r, const Overlap *o, const unsigned char *numbers)
{
	const Chunks *c = r->chunks;
	const Samples *s = r->part;
	int64_t size = r->file->element.bytes;
	int64_t column = (o->low[2] - s->first[2]) / s->step[2];
	int64_t count = (o->high[2] - 1 - o->low[2]) / s->step[2] + 1;
	for (int64_t i = o->low[0]; i < o->high[0]; i += s->step[0])
		for (int64_t j = o->low[1]; j < o->high[1]; j += s->step[1]) {
			int64_t row = (i - s->first[0]) / s->step[0] * s->count[1] +
				      (j - s->first[1]) / s->step[1];
			int64_t from = (i % c->side[0] * c->side[1] + j % c->side[1]) * c->side[2];
			copy_row(r, o, numbers ? numbers + from * size : NULL, count,
				r->stored + (row * s->count[2] + column) * size);
		}
}

/* Keeps the buffer that a chunk was unpacked to, unless all of it was needed now. */
static void keep_chunk(const Reading *r, const Overlap *o, Memory *m, const unsigned char *numbers)
{
	const int64_t *side = r->chunks->side, *n = r->file->shape;
	bool all = true;
	for (int k = 0; k < 2; k++)
		all = all && o->high[k] - o->low[k] == min64(side[k], n[k] - o->at[k] * side[k]);
	for (int i = 0; i < 2 && !all; i++)
		if (numbers && numbers == m->buffers[i]) {
			r->kept[number_of(r->chunks, o->at)] = m->buffers[i];
			m->buffers[i] = NULL;
		}
}

static tomos_status read_chunk(const Reading *r, int64_t i, Memory *m)
{
	const Overlap o = find_overlap(r, i);
	const unsigned char *numbers = r->kept ? r->kept[number_of(r->chunks, o.at)] : NULL;
	bool there = numbers != NULL;
	Place place;
	if (o.low[0] >= o.high[0] || o.low[1] >= o.high[1] || o.low[2] >= o.high[2])
		return TOMOS_OK;
	TRY(cancel_check("reading"));
	if (!there) {
		TRY(fetch(r, &o, m, &place));
		if (place.bytes > 0)
			TRY(unpack(r, &o, m, &place, &numbers));
	}
	if (!numbers || numbers != find_target(r, &o))
		copy_rows(r, &o, numbers);
	if (r->kept && !there)
		keep_chunk(r, &o, m, numbers);
	return TOMOS_OK;
}

/* A thread takes chunks until there are no more, and so needs its memory only once. */
static tomos_status read_some(void *user, int64_t thread)
{
	Reading *r = user;
	Memory m = {.packed = NULL};
	int64_t count = r->count[0] * r->count[1] * r->count[2];
	tomos_status status = TOMOS_OK;
	(void)thread;
	for (int64_t i; status == TOMOS_OK && (i = atomic_fetch_add(&r->next, 1)) < count;)
		status = read_chunk(r, i, &m);
	if (status != TOMOS_OK) /* the other threads end early */
		r->next = count;
	mem_free(m.packed);
	mem_free(m.buffers[0]);
	mem_free(m.buffers[1]);
	unpacker_free(&m.unpacker);
	return status;
}

static tomos_status make_kept(const File *file, Chunks *c)
{
	int64_t count = c->grid[0];
	bool few = size_mul(count, c->grid[1], &count) && size_mul(count, c->grid[2], &count) &&
		   count <= MOST_KEPT;
	if (!file->keep || !file->unpacks || !few || c->kept)
		return TOMOS_OK;
	return mem_zeroed(&c->kept, count, sizeof *c->kept, "the chunks of an HDF5 file");
}

tomos_status chunks_read(File *file, const Samples *part, int threads, void *stored)
{
	const Hdf5 *own = file->own;
	Chunks *c = own->chunks;
	Reading r = {.file = file, .chunks = c, .part = part, .stored = stored};
	for (int k = 0; k < 3; k++) {
		int64_t low = part->first[k];
		r.first[k] = low / c->side[k];
		r.count[k] = (low + samples_span(part, k) - 1) / c->side[k] - r.first[k] + 1;
	}
	TRY(make_kept(file, c));
	r.kept = c->kept;
	if (!c->looked) {
		Quiet quiet = hdf5_enter();
		TRY(hdf5_leave(quiet, make_places(own, c)));
	}
	int64_t chunks = r.count[0] * r.count[1] * r.count[2];
	return parallel_each(min64(threads, chunks), threads, read_some, &r, "reading");
}
