/* Slices of a level, cut into the pieces that belong to its chunks, to and from their places. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "io/crc32c.h"
#include "io/zarr_parts.h"

enum { BUFFER = 1 << 18 }; /* bytes of pieces written at a time */

/* ---- files ----------------------------------------------------------------------------------- */

tomos_status stage_path(const File *file, int level, int64_t layer, char **path)
{
	return mem_printf(path, "%s/.stage/%d.%lld", file->temporary, level, (long long)layer);
}

/* Makes the directories of a path, as far as they are missing. */
static void make_parents(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		(void)mkdir(path, 0777); /* if it fails, opening the file will say so */
		*slash = '/';
	}
}

tomos_status zarr_open_making(int *descriptor, char *name, const char *path)
{
	*descriptor = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (*descriptor < 0 && errno == ENOENT) {
		make_parents(name);
		*descriptor = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	}
	if (*descriptor < 0)
		return fail(TOMOS_IO, "'%s' cannot be written (as '%s'): %s", path, name,
			strerror(errno));
	return TOMOS_OK;
}

/* ---- places ---------------------------------------------------------------------------------- */

/* The files that a layer of chunks is in: one for each shard along y and x, or one alone. */
typedef struct {
	const ZarrLevel *level;
	bool direct;
	int64_t layer, n[2];  /* shards along y and x */
	int *descriptors;     /* -1: it is not open, or there is no such file */
	char **maps;          /* writing: chunks of the layer in memory; NULL: by descriptors */
	int64_t *left;        /* writing: rows of chunks to come, of each row of shards */
	pthread_mutex_t lock; /* of all three */
} Layer;

static int64_t shard_depth(const Layer *l)
{
	const ZarrArray *a = &l->level->array;
	return a->chunk[0] / a->inner[0];
}

static tomos_status layer_path(const File *file, int level, const Layer *l, int64_t i, char **path)
{
	const int64_t at[3] = {l->layer / shard_depth(l), i / l->n[1], i % l->n[1]};
	return l->direct ? zarr_chunk_path(&l->level->array, at, path)
			 : stage_path(file, level, l->layer, path);
}

static void layer_close(Layer *l, const char *path)
{
	for (int64_t i = 0; l->descriptors && i < l->n[0] * l->n[1]; i++)
		(void)flat_close(&l->descriptors[i], path);
	mem_free(l->descriptors);
	mem_free((void *)l->maps);
	mem_free(l->left);
}

static tomos_status open_one(const File *file, int level, Layer *l, int64_t i, bool making)
{
	char *name;
	tomos_status status = TOMOS_OK;
	TRY(layer_path(file, level, l, i, &name));
	if (making)
		status = zarr_open_making(&l->descriptors[i], name, file->path);
	else
		l->descriptors[i] = open(name, O_RDONLY | O_CLOEXEC);
	if (status == TOMOS_OK && l->descriptors[i] < 0 && errno != ENOENT)
		status = fail(TOMOS_IO, "'%s' cannot be opened: %s", name, strerror(errno));
	mem_free(name);
	return status;
}

/* A layer with none of its files open. */
static tomos_status layer_make(const File *file, int level, int64_t layer, Layer *l)
{
	const Zarr *own = file->own;
	const ZarrLevel *of = &own->writer->levels[level];
	const ZarrArray *a = &of->array;
	*l = (Layer){.level = of,
		.direct = own->writer->direct,
		.layer = layer,
		.n = {1, 1},
		.lock = PTHREAD_MUTEX_INITIALIZER};
	for (int i = 0; i < 2 && l->direct; i++)
		l->n[i] = parts_of(a->shape[i + 1], a->chunk[i + 1]);
	TRY(mem_alloc(&l->descriptors, l->n[0] * l->n[1], sizeof *l->descriptors, "shards"));
	for (int64_t i = 0; i < l->n[0] * l->n[1]; i++)
		l->descriptors[i] = -1;
	return TOMOS_OK;
}

/* Rows of chunks of a row of files. */
static int64_t file_rows(const Layer *l)
{
	const ZarrArray *a = &l->level->array;
	return l->direct ? a->chunk[1] / a->inner[1] : l->level->per[0];
}

/* For writing: every row of chunks will be opened and closed once. Only the files of rows that are
 * being written are open, since those of all would be more than a process may have. */
static tomos_status layer_begin(const File *file, int level, int64_t layer, Layer *l)
{
	TRY(layer_make(file, level, layer, l));
	tomos_status status = mem_alloc(&l->left, l->n[0], sizeof *l->left, "shards");
	if (status == TOMOS_OK)
		status = mem_zeroed(&l->maps, l->n[0] * l->n[1], sizeof(char *), "shards");
	int64_t rows = file_rows(l);
	for (int64_t i = 0; i < l->n[0] && status == TOMOS_OK; i++)
		l->left[i] = min64(rows, l->level->per[0] - i * rows);
	if (status != TOMOS_OK)
		layer_close(l, file->path);
	return status;
}

static tomos_status row_open(const File *file, int level, Layer *l, int64_t cy)
{
	ZarrMapped *mapped = ((const Zarr *)file->own)->writer->mapped;
	int64_t first = cy / file_rows(l) * l->n[1];
	tomos_status status = TOMOS_OK;
	pthread_mutex_lock(&l->lock);
	for (int64_t i = first; i < first + l->n[1] && status == TOMOS_OK; i++) {
		if (l->maps[i] || l->descriptors[i] >= 0)
			continue;
		l->maps[i] = mapped_take(mapped, level, l->layer, i);
		if (!l->maps[i])
			status = open_one(file, level, l, i, true);
	}
	pthread_mutex_unlock(&l->lock);
	return status;
}

/* Of a layer that `slices` slices were written to. */
static tomos_status row_close(const File *file, int level, Layer *l, int64_t cy, int64_t slices)
{
	ZarrMapped *mapped = ((const Zarr *)file->own)->writer->mapped;
	int64_t row = cy / file_rows(l), first = row * l->n[1];
	tomos_status status = TOMOS_OK;
	pthread_mutex_lock(&l->lock);
	bool last = --l->left[row] == 0;
	for (int64_t i = first; i < first + l->n[1] && last && status == TOMOS_OK; i++) {
		if (l->maps[i])
			mapped_give(mapped, level, l->layer, i, slices);
		l->maps[i] = NULL;
		status = flat_close(&l->descriptors[i], file->path);
	}
	pthread_mutex_unlock(&l->lock);
	return status;
}

/* The file and the offset of slice `within` of a chunk, from where the layer begins. */
static int64_t place_of(const Layer *l, int64_t cy, int64_t cx, int64_t within, int64_t *at)
{
	const ZarrLevel *of = l->level;
	const ZarrArray *a = &of->array;
	int64_t sy = a->chunk[1] / a->inner[1], sx = a->chunk[2] / a->inner[2];
	*at = within * of->piece;
	if (!l->direct) {
		*at += (cy * of->per[1] + cx) * zarr_inner_bytes(a);
		return 0;
	}
	*at += (cy % sy * sx + cx % sx) * of->slot;
	return cy / sy * l->n[1] + cx / sx;
}

/* Where the layer begins in its files. */
static int64_t layer_start(const Layer *l)
{
	const ZarrArray *a = &l->level->array;
	int64_t chunks = a->chunk[1] / a->inner[1] * (a->chunk[2] / a->inner[2]);
	return l->direct ? l->layer % shard_depth(l) * chunks * l->level->slot : 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct {
	File *file;
	ZarrLevel *level;
	const Slices *slices;
	Layer *layer;
	int64_t first, count; /* slices of this layer */
} Cutting;

/* A mapping is written past the caches: nothing of it is read soon, nor what was there before. */
static void put_pieces(const char *pieces, int64_t bytes, char *map)
{
	bytes_copy((const unsigned char *)pieces, bytes, true, (unsigned char *)map);
	far_end();
}

/* The part of a slice that belongs to a chunk; beyond the edge of the array it is 0. */
static void cut_piece(
	const Cutting *c, int64_t slice, int64_t cy, int64_t cx, char *piece, float range[2])
{
	const ZarrArray *a = &c->level->array;
	int64_t size = a->element.bytes, line = a->inner[2] * size, x = cx * a->inner[2];
	int64_t y = cy * a->inner[1], rows = min64(a->inner[1], a->shape[1] - y);
	int64_t columns = min64(a->inner[2], a->shape[2] - x);
	const char *from = c->slices->stored +
			   ((slice - c->slices->first) * a->shape[1] + y) * a->shape[2] * size +
			   x * size;
	if (columns < a->inner[2] || rows < a->inner[1])
		memset(piece, 0, (size_t)c->level->piece);
	for (int64_t j = 0; j < rows; j++)
		memcpy(piece + j * line, from + j * a->shape[2] * size, (size_t)(columns * size));
	if (c->slices->level == 0)
		range_widen(a->element, piece, rows, a->inner[2], columns, range);
}

static tomos_status write_chunk(
	const Cutting *c, int64_t cy, int64_t cx, char *buffer, float *ranges)
{
	const ZarrLevel *l = c->level;
	int64_t most = max64(1, BUFFER / l->piece), depth = l->array.inner[0], at = 0;
	int64_t per = l->per[0] * l->per[1], chunk = cy * l->per[1] + cx;
	for (int64_t done = 0; done < c->count; done += most) {
		int64_t now = min64(most, c->count - done), first = c->first + done;
		bool written = c->slices->written;
		int64_t place = written ? 0 : place_of(c->layer, cy, cx, first % depth, &at);
		char *map = written ? NULL : c->layer->maps[place];
		for (int64_t i = 0; i < now; i++) {
			char *piece = buffer + i * l->piece;
			cut_piece(c, first + i, cy, cx, piece, ranges + 2 * (done + i));
			if (l->sums)
				l->sums[(first + i) * per + chunk] = crc32c(piece, l->piece);
		}
		if (map)
			put_pieces(buffer, now * l->piece, map + at);
		else if (!written)
			TRY(flat_write(c->layer->descriptors[place], c->file->path,
				layer_start(c->layer) + at, buffer, now * l->piece));
	}
	return TOMOS_OK;
}

/* The part of the checksum of each slice that a row of chunks makes up. */
static void add_checksums(const Cutting *c, int64_t cy)
{
	const ZarrArray *a = &c->level->array;
	int64_t line = a->shape[2] * a->element.bytes, slice = a->shape[1] * line;
	int64_t first = cy * a->inner[1] * line, end = min64(first + a->inner[1] * line, slice);
	const char *from = c->slices->stored + (c->first - c->slices->first) * slice;
	for (int64_t i = 0; i < c->count; i++) {
		uint32_t sum = checksum_add(0, from + i * slice + first, end - first);
		__atomic_fetch_xor(&c->file->checksums[c->first + i],
			checksum_before(sum, slice - end), __ATOMIC_RELAXED);
	}
}

/* Sums of 2 x 2 numbers of the slice in a row of chunks. */
static void sum_band(const Cutting *c, int64_t cy)
{
	const ZarrArray *a = &c->level->array;
	int64_t line = a->shape[2] * a->element.bytes, last = a->shape[1] - 1;
	int64_t end = min64((cy + 1) * a->inner[1], a->shape[1]);
	const char *from = c->slices->stored;
	for (int64_t y = cy * a->inner[1]; y < end; y += 2)
		half_row(a->element, from + y * line, from + min64(y + 1, last) * line, a->shape[2],
			(*c->slices->sums)->sums + y / 2 * ((a->shape[2] + 1) / 2));
}

/* A row of chunks. Threads that write different slices begin in different places, since a file
 * system may let only one at a time write to a file. Sums first: they read rows from end to end,
 * which brings these to the cache sooner than the pieces of chunks would, and so do checksums. */
static tomos_status write_row(void *user, int64_t task)
{
	const Cutting *c = user;
	const ZarrLevel *l = c->level;
	int64_t row = (task + c->first * 5) % l->per[0];
	int64_t pieces = min64(max64(1, BUFFER / l->piece), c->count);
	int64_t before = 2 * c->count * (int64_t)sizeof(float);
	float *ranges;
	TRY(mem_alloc(&ranges, before + pieces * l->piece, 1, "pieces of slices"));
	char *buffer = (char *)ranges + before;
	bool written = c->slices->written;
	tomos_status status =
		written ? TOMOS_OK : row_open(c->file, c->slices->level, c->layer, row);
	for (int64_t i = 0; i < c->count; i++) {
		ranges[2 * i] = HUGE_VALF;
		ranges[2 * i + 1] = -HUGE_VALF;
	}
	if (c->slices->level == 0 && c->file->kept && !written)
		add_checksums(c, row);
	if (c->slices->sums)
		sum_band(c, row);
	for (int64_t cx = 0; cx < l->per[1] && status == TOMOS_OK; cx++)
		status = write_chunk(c, row, cx, buffer, ranges);
	if (status == TOMOS_OK && !written)
		status = row_close(c->file, c->slices->level, c->layer, row, c->count);
	if (status == TOMOS_OK && c->slices->level == 0)
		ranges_add(c->file, c->first, c->count, ranges);
	mem_free(ranges);
	return status;
}

static tomos_status write_layer(const Cutting *cutting, int threads)
{
	Cutting c = *cutting;
	Layer layer = {.descriptors = NULL};
	int64_t number = c.first / c.level->array.inner[0];
	if (!c.slices->written)
		TRY(layer_begin(c.file, c.slices->level, number, &layer));
	c.layer = &layer;
	tomos_status status = parallel_each(c.level->per[0], threads, write_row, &c, "writing");
	layer_close(&layer, c.file->path);
	return status;
}

tomos_status pieces_write(File *file, const Slices *s, int threads)
{
	const Zarr *own = file->own;
	ZarrLevel *l = &own->writer->levels[s->level];
	int64_t depth = l->array.inner[0];
	if (s->level == 0)
		ranges_begin(file, s->first, s->count);
	if (s->level == 0 && !s->written)
		memset(file->checksums + s->first, 0, (size_t)s->count * sizeof *file->checksums);
	for (int64_t done = 0, count; done < s->count; done += count) {
		int64_t first = s->first + done;
		count = min64(depth - first % depth, s->count - done);
		const Cutting c = {file, l, s, NULL, first, count};
		TRY(write_layer(&c, threads));
	}
	return TOMOS_OK;
}

/* ---- reading back ---------------------------------------------------------------------------- */

/* Puts a piece into a slice, of which `stored` has the rows from `first` on. */
static void join_piece(
	const ZarrArray *a, int64_t cy, int64_t cx, const char *piece, int64_t first, char *stored)
{
	int64_t size = a->element.bytes, line = a->inner[2] * size, x = cx * a->inner[2];
	int64_t y = cy * a->inner[1], rows = min64(a->inner[1], a->shape[1] - y);
	int64_t columns = min64(a->inner[2], a->shape[2] - x);
	for (int64_t j = 0; j < rows; j++)
		memcpy(stored + ((y - first + j) * a->shape[2] + x) * size, piece + j * line,
			(size_t)(columns * size));
}

/* The pieces of a slice that are in file i of its layer. */
static tomos_status read_shard(
	const File *file, const Layer *l, int64_t i, int64_t slice, char *piece, char *stored)
{
	const ZarrLevel *of = l->level;
	const ZarrArray *a = &of->array;
	int64_t sy = file_rows(l);
	int64_t sx = l->direct ? a->chunk[2] / a->inner[2] : of->per[1];
	int64_t top = i / l->n[1] * sy, left = i % l->n[1] * sx;
	int64_t rows = min64(sy, of->per[0] - top), columns = min64(sx, of->per[1] - left);
	if (l->descriptors[i] < 0)
		return fail(TOMOS_BAD_FILE, "'%s': a part of slice %lld is not there",
			file->temporary, (long long)slice);
	for (int64_t k = 0; k < rows * columns; k++) {
		int64_t at, cy = top + k / columns, cx = left + k % columns;
		int64_t place = place_of(l, cy, cx, slice % a->inner[0], &at);
		TRY(flat_read(l->descriptors[place], file->temporary, layer_start(l) + at, piece,
			of->piece));
		join_piece(a, cy, cx, piece, 0, stored);
	}
	return TOMOS_OK;
}

/* One file after the other: many threads read slices at the same time, and the files of all would
 * be more than a process may have open. */
static tomos_status read_pieces(
	const File *file, int level, Layer *l, int64_t slice, char *piece, char *stored)
{
	for (int64_t i = 0; i < l->n[0] * l->n[1]; i++) {
		if (l->descriptors[i] < 0)
			TRY(open_one(file, level, l, i, false));
		TRY(read_shard(file, l, i, slice, piece, stored));
		TRY(flat_close(&l->descriptors[i], file->path));
	}
	return TOMOS_OK;
}

/* From a layer that is packed. */
static tomos_status read_packed(const ZarrLevel *l, int64_t slice, void *stored)
{
	const Samples samples = {
		{slice, 0, 0}, {1, l->array.shape[1], l->array.shape[2]}, {1, 1, 1}};
	return zarr_read_samples(&l->array, &samples, 1, stored);
}

tomos_status pieces_read(const File *file, int level, int64_t slice, void *stored)
{
	const Zarr *own = file->own;
	const ZarrLevel *l = &own->writer->levels[level];
	Layer layer;
	char *piece = NULL;
	TRY(layer_make(file, level, slice / l->array.inner[0], &layer));
	tomos_status status = open_one(file, level, &layer, 0, false);
	if (status == TOMOS_OK && !layer.direct && layer.descriptors[0] < 0) {
		status = read_packed(l, slice, stored);
	} else if (status == TOMOS_OK) {
		status = mem_alloc(&piece, l->piece, 1, "a piece of a slice");
		if (status == TOMOS_OK)
			status = read_pieces(file, level, &layer, slice, piece, stored);
		mem_free(piece);
	}
	layer_close(&layer, file->path);
	return status;
}

/* ---- rows of slices that will be packed ------------------------------------------------------ */

/* A row of chunks of slices whose layer is not packed yet. */
typedef struct {
	const File *file;
	const ZarrLevel *level;
	const Extract *part;
	int stage;
	char *stored;
} StageRows;

static tomos_status read_stage_chunk(void *user, int64_t cx)
{
	const StageRows *r = user;
	const ZarrArray *a = &r->level->array;
	int64_t cy = r->part->row / a->inner[1], piece = r->level->piece;
	int64_t at = (cy * r->level->per[1] + cx) * zarr_inner_bytes(a) +
		     r->part->first % a->inner[0] * piece;
	int64_t band = r->part->rows * a->shape[2] * a->element.bytes;
	/* The stage ends with the last slice that was written. */
	int64_t left = max64(0, (int64_t)lseek(r->stage, 0, SEEK_END) - at);
	char *pieces;
	TRY(mem_zeroed(&pieces, r->part->count, (size_t)piece, "pieces of slices"));
	tomos_status status = flat_read(
		r->stage, r->file->temporary, at, pieces, min64(left, r->part->count * piece));
	for (int64_t i = 0; i < r->part->count && status == TOMOS_OK; i++)
		join_piece(a, cy, cx, pieces + i * piece, r->part->row, r->stored + i * band);
	mem_free(pieces);
	return status;
}

tomos_status zarr_read_back_rows(File *file, const Extract *part, int threads, void *stored)
{
	const Zarr *own = file->own;
	const ZarrLevel *l = &own->writer->levels[0];
	const Samples samples = {{part->first, part->row, 0},
		{part->count, part->rows, l->array.shape[2]}, {1, 1, 1}};
	char *name;
	TRY(stage_path(file, 0, part->first / l->array.inner[0], &name));
	StageRows rows = {file, l, part, open(name, O_RDONLY | O_CLOEXEC), stored};
	mem_free(name);
	if (rows.stage < 0)
		return zarr_read_samples(&l->array, &samples, threads, stored);
	tomos_status status = parallel_each(l->per[1], threads, read_stage_chunk, &rows, "reading");
	(void)flat_close(&rows.stage, file->path);
	return status;
}
