/* Writes OME-Zarr: layout of the levels, resuming, several processes, and the completion.
 *
 * Slices come in any order and from several threads. Those that are not packed have their place in
 * the chunks of a shard, where they are written at once. Layers of chunks that will be packed are
 * collected in a file first, and packed when all their slices are there. Each pair of slices gives
 * one of the next level. What this process does not know of slices that an earlier one has written
 * is found at the end, from the slices themselves.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "io/zarr_parts.h"

/* A page, so that processes on several machines never write to the same one. */
enum { PAGE = 4096, LEAST_PAGED = 1 << 16, SUM_BYTES = 4 };
/* Bytes of sums of slices in memory; and of slices that are written and then halved, while some of
 * them may still be in a cache. */
enum { PENDING_BYTES = 64 << 20, GROUP_BYTES = 64 << 20 };

/* ---- layout ---------------------------------------------------------------------------------- */

static void array_layout(const File *file, ZarrLevel *l, bool direct)
{
	const Zarr *own = file->own;
	ZarrArray *a = &l->array;
	a->version = own->version;
	a->rank = 3;
	a->prefixed = a->sharded = own->version == 3;
	a->separator = '/';
	a->element = file->element;
	a->codecs = (Codecs){.axes = {0, 1, 2}, .big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__};
	if (file->compress > 0)
		a->codecs.list[a->codecs.count++] = CODEC_ZSTD;
	if (a->sharded)
		a->codecs.list[a->codecs.count++] = CODEC_CRC32C;
	a->index = (Codecs){.axes = {0, 1, 2}, .list = {CODEC_CRC32C}, .count = 1};
	for (int i = 0; i < 3; i++) {
		int64_t n = a->shape[i], most = i == 0 && !direct ? 1 : ZARR_SHARD;
		a->inner[i] = min64(ZARR_CHUNK, n);
		a->chunk[i] =
			a->inner[i] * (a->sharded ? min64(most, parts_of(n, a->inner[i])) : 1);
	}
}

static tomos_status level_layout(const File *file, ZarrLevel *l, int number, bool direct)
{
	array_layout(file, l, direct);
	const ZarrArray *a = &l->array;
	int64_t bytes = zarr_inner_bytes(a);
	l->per[0] = parts_of(a->shape[1], a->inner[1]);
	l->per[1] = parts_of(a->shape[2], a->inner[2]);
	l->piece = a->inner[1] * a->inner[2] * a->element.bytes;
	l->slot = bytes + SUM_BYTES;
	if (bytes >= LEAST_PAGED)
		l->slot = parts_of(l->slot, PAGE) * PAGE;
	TRY(mem_printf(&l->array.folder, "%s/%d", file->temporary, number));
	TRY(mem_zeroed(&l->done, a->shape[0], 1, "the slices of a level"));
	TRY(mem_zeroed(&l->layers, parts_of(a->shape[0], a->inner[0]), 1, "the layers of a level"));
	if (!direct)
		return TOMOS_OK;
	return mem_zeroed(&l->sums, a->shape[0] * l->per[0] * l->per[1], sizeof *l->sums,
		"checksums of chunks");
}

/* Axes of one index keep it; the others are halved, and an odd index at the end is kept. */
static bool next_level(const ZarrLevel *l, ZarrLevel *next)
{
	int64_t longest = 0;
	for (int i = 0; i < 3; i++) {
		int64_t n = l->array.shape[i];
		longest = max64(longest, n);
		next->array.shape[i] = (n + 1) / 2;
		next->factor[i] = l->factor[i] * (n > 1 ? 2 : 1);
	}
	return longest > ZARR_LAST;
}

static tomos_status writer_layout(File *file, ZarrWriter *w)
{
	ZarrLevel *l = w->levels;
	w->direct = ((const Zarr *)file->own)->version == 3 && file->compress == 0;
	memcpy(l->array.shape, file->shape, sizeof file->shape);
	for (int i = 0; i < 3; i++)
		l->factor[i] = 1;
	do {
		w->count++;
		TRY(level_layout(file, l, w->count - 1, w->direct));
	} while (file->content != TOMOS_PROJECTIONS && w->count < ZARR_LEVELS &&
		 next_level(l, l + 1) && l++);
	TRY(mem_zeroed(&w->low, file->shape[0], sizeof *w->low, "ranges of slices"));
	return mem_zeroed(&w->high, file->shape[0], sizeof *w->high, "ranges of slices");
}

void zarr_writer_close(ZarrWriter *w)
{
	if (!w)
		return;
	mapped_close(w->mapped);
	for (int i = 0; i < w->count; i++) {
		ZarrLevel *l = &w->levels[i];
		zarr_array_close(&l->array);
		mem_free(l->done);
		mem_free(l->layers);
		mem_free(l->sums);
	}
	for (int i = 0; i < ZARR_LEVELS; i++)
		while (w->spares[i]) {
			SpareSlice *spare = w->spares[i];
			w->spares[i] = spare->next;
			mem_free(spare);
		}
	while (w->pending) {
		PendingSums *pending = w->pending;
		w->pending = pending->next;
		mem_free(pending->sums);
		mem_free(pending);
	}
	mem_free(w->low);
	mem_free(w->high);
	(void)flat_close(&w->log, "");
	pthread_mutex_destroy(&w->lock);
	pthread_mutex_destroy(&w->spare_lock);
	pthread_cond_destroy(&w->freed);
	mem_free(w);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Slices whose sums are kept until their neighbours come: about as many as threads write. */
static int pending_limit(const int64_t shape[3])
{
	int64_t bytes = max64(1, shape[1] * shape[2]); /* a quarter of a slice of floats */
	return (int)max64(2, min64(2 * (int64_t)tomos_threads() + 8, PENDING_BYTES / bytes));
}

double zarr_write_bytes(const int64_t shape[3])
{
	double slice = (double)shape[1] * (double)shape[2], all = slice * (double)shape[0];
	double group = fmax(2 * slice * sizeof(float), GROUP_BYTES);
	double means = fmin(all * sizeof(float), group) / 7 + 2 * slice;
	double packed =
		2.0 * tomos_threads() * 2.2 * sizeof(float) * ZARR_CHUNK * ZARR_CHUNK * ZARR_CHUNK;
	return pending_limit(shape) * slice + means + fmin(packed, 3 * sizeof(float) * all);
}

/* ---- creating -------------------------------------------------------------------------------- */

/* Only a store like this one is replaced. */
static tomos_status check_old(const File *file)
{
	struct stat info;
	if (stat(file->path, &info) != 0 || !S_ISDIR(info.st_mode) || zarr_is_store(file->path))
		return TOMOS_OK;
	DIR *directory = opendir(file->path);
	int count = 0;
	while (directory && count < 3 && readdir(directory))
		count++;
	if (directory)
		closedir(directory);
	if (count < 3) /* "." and ".." */
		return TOMOS_OK;
	return fail(TOMOS_IO,
		"directory '%s' is no Zarr file and is not replaced by one; name another, or "
		"remove it first",
		file->path);
}

static tomos_status make_folder(const File *file, const char *name)
{
	if (mkdir(name, 0777) == 0 || (file->continued && errno == EEXIST))
		return TOMOS_OK;
	return fail(TOMOS_IO, "'%s' cannot be created (as '%s'): %s", file->path, name,
		strerror(errno));
}

/* Processes that have joined append to a log what they have written. One of an earlier run is of no
 * use. */
static tomos_status open_log(const File *file, ZarrWriter *w)
{
	char *name;
	tomos_status status = TOMOS_OK;
	for (int part = 1; !file->part && status == TOMOS_OK; part++) {
		TRY(mem_printf(&name, IO_PART, file->temporary, part));
		bool there = unlink(name) == 0;
		mem_free(name);
		if (!there)
			return TOMOS_OK;
	}
	TRY(mem_printf(&name, IO_PART, file->temporary, file->part));
	w->log = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (w->log < 0)
		status = fail(TOMOS_IO, "'%s' cannot be created (as '%s'): %s", file->path, name,
			strerror(errno));
	mem_free(name);
	return status;
}

static tomos_status continue_folder(const File *file)
{
	Zarr *own = file->own;
	if (!zarr_is_store(file->temporary))
		return fail(TOMOS_BAD_FILE, "'%s', begun as '%s', is not there", file->path,
			file->temporary);
	return zarr_named_read(own, file->temporary);
}

tomos_status zarr_create(File *file)
{
	static const char *const names[] = {"volume", "projections", "array"};
	Zarr *own;
	ZarrWriter *w;
	if (file->compress > 0 && !TOMOS_HAS_ZSTD)
		return fail(TOMOS_UNSUPPORTED,
			"'%s' cannot be compressed: this build has no Zstd, with which Zarr files "
			"are",
			file->path);
	TRY(check_old(file));
	TRY(zarr_make(file, &own));
	own->version = file->zarr == 2 ? 2 : 3;
	TRY(mem_zeroed(&w, 1, sizeof *w, "the levels of a Zarr file"));
	own->writer = w;
	w->log = -1;
	pthread_mutex_init(&w->lock, NULL);
	pthread_mutex_init(&w->spare_lock, NULL);
	pthread_cond_init(&w->freed, NULL);
	w->pending_most = pending_limit(file->shape);
	TRY(file->continued ? continue_folder(file) : make_folder(file, file->temporary));
	TRY(open_log(file, w));
	TRY(writer_layout(file, w));
	if (!w->direct) {
		file->grain = w->levels[0].array.inner[0];
		file->row_grain = w->levels[0].array.inner[1];
	}
	TRY(zarr_put_text(file, "content", names[file->content]));
	return file->continued ? TOMOS_OK : zarr_metadata_write(file, 1, 0);
}

tomos_status zarr_seal(File *file)
{
	return zarr_metadata_write(file, 1, 0);
}

/* ---- what other processes have written ------------------------------------------------------- */

static tomos_status merge_log(File *file, const char *name)
{
	const Zarr *own = file->own;
	int descriptor;
	int64_t size, at = 0;
	LogHead head;
	TRY(flat_open(&descriptor, &size, name));
	tomos_status status = TOMOS_OK;
	while (status == TOMOS_OK && size - at >= (int64_t)sizeof head) {
		status = flat_read(descriptor, name, at, &head, sizeof head);
		if (status != TOMOS_OK || head.level < 0 || head.level >= own->writer->count)
			break;
		ZarrLevel *l = &own->writer->levels[head.level];
		int64_t sums = l->sums ? l->per[0] * l->per[1] : 0, bytes = sums * SUM_BYTES;
		at += (int64_t)sizeof head;
		if (head.slice < 0 || head.slice >= l->array.shape[0] || bytes > size - at)
			break;
		if (bytes > 0)
			status =
				flat_read(descriptor, name, at, l->sums + head.slice * sums, bytes);
		l->done[head.slice] = status == TOMOS_OK;
		if (head.level == 0) {
			own->writer->low[head.slice] = head.low;
			own->writer->high[head.slice] = head.high;
		}
		at += bytes;
	}
	(void)flat_close(&descriptor, name);
	return status;
}

tomos_status zarr_merge(File *file)
{
	for (int part = 1;; part++) {
		char *name;
		TRY(mem_printf(&name, IO_PART, file->temporary, part));
		bool there = access(name, F_OK) == 0;
		tomos_status status = there ? merge_log(file, name) : TOMOS_OK;
		mem_free(name);
		if (!there || status != TOMOS_OK)
			return status;
	}
}

/* ---- slices ---------------------------------------------------------------------------------- */

tomos_status zarr_write(File *file, int64_t first, int64_t count, int threads, const void *stored)
{
	int64_t slice = file->shape[1] * file->shape[2] * file->element.bytes;
	const char *from = stored;
	for (int64_t done = 0, now; done < count; done += now) {
		int64_t at = first + done;
		now = min64(count - done, max64(2, GROUP_BYTES / slice / 2 * 2) - at % 2);
		const Slices slices = {0, at, now, from + done * slice, false, NULL};
		TRY(level_write(file, &slices, threads));
	}
	return TOMOS_OK;
}

tomos_status zarr_read_back(File *file, int64_t index, void *stored)
{
	return pieces_read(file, 0, index, stored);
}
