/* The completion of a Zarr file: what this process does not know of slices that an earlier one has
 * written, from the slices themselves; layers that are not packed yet; the metadata.
 *
 * Of chunks that are packed, whole ones are read, so that each is unpacked once and not for each of
 * its slices.
 */
#include <unistd.h>
#include "io/zarr_parts.h"

/* ---- chunks that are not packed -------------------------------------------------------------- */

/* Range and checksums of a slice. */
static tomos_status account_slice(void *user, int64_t slice)
{
	File *file = user;
	const Zarr *own = file->own;
	char *stored;
	if (own->writer->levels[0].done[slice])
		return TOMOS_OK;
	TRY(mem_alloc(&stored, file->shape[1] * file->shape[2], (size_t)file->element.bytes,
		"a slice as stored"));
	const Slices slices = {0, slice, 1, stored, true, NULL};
	tomos_status status = pieces_read(file, 0, slice, stored);
	if (status == TOMOS_OK)
		status = pieces_write(file, &slices, 1);
	if (status == TOMOS_OK)
		own->writer->levels[0].done[slice] = 1;
	mem_free(stored);
	return status;
}

static tomos_status complete_direct(File *file, int threads)
{
	ZarrWriter *w = ((const Zarr *)file->own)->writer;
	mapped_close(w->mapped);
	w->mapped = NULL;
	TRY(parallel_each(file->shape[0], threads, account_slice, file, "writing"));
	TRY(levels_complete(file, threads));
	return shards_complete(file, threads);
}

/* ---- packed chunks --------------------------------------------------------------------------- */

/* Chunks of the layers of a level in which slices are missing. */
typedef struct {
	File *file;
	const ZarrLevel *level;
	int number;
} Missing;

static bool layer_is_done(const ZarrLevel *l, int64_t layer)
{
	int64_t first = layer * l->array.inner[0];
	int64_t end = min64(first + l->array.inner[0], l->array.shape[0]);
	while (first < end && l->done[first])
		first++;
	return first == end;
}

/* Ranges of the slices of a chunk that are not known. */
static tomos_status account_chunk(void *user, int64_t task)
{
	const Missing *m = user;
	const ZarrLevel *l = m->level;
	int64_t per = l->per[0] * l->per[1];
	const Samples s = chunk_samples(l, task / per, task % per);
	int64_t size = l->array.element.bytes, plane = s.count[1] * s.count[2] * size;
	char *chunk;
	if (layer_is_done(l, task / per))
		return TOMOS_OK;
	TRY(mem_alloc(&chunk, s.count[0], (size_t)plane, "a chunk"));
	tomos_status status = zarr_read_samples(&l->array, &s, 1, chunk);
	for (int64_t i = 0; i < s.count[0] && status == TOMOS_OK; i++) {
		float range[2] = {HUGE_VALF, -HUGE_VALF};
		range_widen(l->array.element, chunk + i * plane, s.count[1], s.count[2], s.count[2],
			range);
		if (!l->done[s.first[0] + i])
			ranges_add(m->file, s.first[0] + i, 1, range);
	}
	mem_free(chunk);
	return status;
}

static int64_t chunk_count(const ZarrLevel *l)
{
	return parts_of(l->array.shape[0], l->array.inner[0]) * l->per[0] * l->per[1];
}

static tomos_status account_packed(File *file, int threads)
{
	const Zarr *own = file->own;
	const Missing missing = {file, own->writer->levels, 0};
	for (int64_t i = 0; i < file->shape[0]; i++)
		if (!missing.level->done[i])
			ranges_begin(file, i, 1);
	return parallel_each(
		chunk_count(missing.level), threads, account_chunk, (void *)&missing, "writing");
}

/* Means of a box of the level before, in the layout of a chunk. `sums` has two rows. */
static void mean_box(
	const ZarrLevel *l, const Samples *s, const char *box, float *sums, char *chunk)
{
	const ZarrArray *a = &l->array;
	int64_t size = a->element.bytes, row = s->count[2] * size, plane = s->count[1] * row;
	int64_t n = (s->count[2] + 1) / 2;
	for (int64_t z = 0; 2 * z < s->count[0]; z++)
		for (int64_t y = 0; 2 * y < s->count[1]; y++) {
			int64_t next = min64(2 * y + 1, s->count[1] - 1);
			for (int k = 0; k < 2; k++) {
				const char *from = box + min64(2 * z + k, s->count[0] - 1) * plane;
				half_row(a->element, from + 2 * y * row, from + next * row,
					s->count[2], sums + k * n);
			}
			mean_row(a->element, sums, sums + n, n,
				chunk + z * l->piece + y * a->inner[2] * size);
		}
}

static tomos_status write_to_stage(
	const Missing *m, int64_t layer, int64_t number, const unsigned char *chunk)
{
	int64_t bytes = zarr_inner_bytes(&m->level->array);
	int stage;
	char *name;
	TRY(stage_path(m->file, m->number, layer, &name));
	tomos_status status = zarr_open_making(&stage, name, m->file->path);
	mem_free(name);
	TRY(status);
	status = flat_write(stage, m->file->path, number * bytes, chunk, bytes);
	tomos_status closed = flat_close(&stage, m->file->path);
	return status != TOMOS_OK ? status : closed;
}

/* A chunk from those of the level before, which are packed. */
static tomos_status complete_chunk(void *user, int64_t task)
{
	const Missing *m = user;
	const ZarrLevel *l = m->level, *before = l - 1;
	int64_t per = l->per[0] * l->per[1], count = 1;
	Samples s = chunk_samples(l, task / per, task % per);
	unsigned char *chunk = NULL;
	char *box = NULL;
	float *sums = NULL;
	tomos_status status;
	if (layer_is_done(l, task / per))
		return TOMOS_OK;
	for (int i = 0; i < 3; i++) {
		s.first[i] *= 2;
		s.count[i] = min64(2 * s.count[i], before->array.shape[i] - s.first[i]);
		count *= s.count[i];
	}
	TRY_OR_DONE(mem_alloc(&box, count, (size_t)l->array.element.bytes, "chunks of a level"));
	TRY_OR_DONE(mem_alloc(&sums, 2 * ((s.count[2] + 1) / 2), sizeof *sums, "rows of a level"));
	TRY_OR_DONE(mem_zeroed(&chunk, zarr_inner_bytes(&l->array), 1, "a chunk"));
	TRY_OR_DONE(zarr_read_samples(&before->array, &s, 1, box));
	mean_box(l, &s, box, sums, (char *)chunk);
	TRY_OR_DONE(write_to_stage(m, task / per, task % per, chunk));
done:
	mem_free(box);
	mem_free(sums);
	mem_free(chunk);
	return status;
}

static tomos_status pack_rest(File *file, int level, int threads)
{
	const Zarr *own = file->own;
	const ZarrLevel *l = &own->writer->levels[level];
	for (int64_t layer = 0; layer * l->array.inner[0] < l->array.shape[0]; layer++) {
		char *name;
		TRY(stage_path(file, level, layer, &name));
		bool there = access(name, F_OK) == 0;
		mem_free(name);
		if (there)
			TRY(layer_pack(file, level, layer, threads));
	}
	return TOMOS_OK;
}

/* Whatever is still in the folder of stages was left by a process that was interrupted. */
static void remove_stages(const File *file)
{
	char *name;
	if (mem_printf(&name, "%s/.stage", file->temporary) != TOMOS_OK)
		return;
	file_discard(name);
	mem_free(name);
}

static tomos_status complete_packed(File *file, int threads)
{
	const Zarr *own = file->own;
	TRY(pack_rest(file, 0, threads));
	TRY(account_packed(file, threads));
	for (int i = 1; i < own->writer->count; i++) {
		const Missing missing = {file, &own->writer->levels[i], i};
		TRY(parallel_each(chunk_count(missing.level), threads, complete_chunk,
			(void *)&missing, "writing"));
		TRY(pack_rest(file, i, threads));
	}
	remove_stages(file);
	return TOMOS_OK;
}

/* ---- the metadata ---------------------------------------------------------------------------- */

/* Compared as floats, which gcc 12 for ARM compiles. */
static void range_of_all(const File *file, float *low, float *high)
{
	const Zarr *own = file->own;
	*low = HUGE_VALF;
	*high = -HUGE_VALF;
	for (int64_t i = 0; i < file->shape[0]; i++) {
		float least = own->writer->low[i], most = own->writer->high[i];
		*low = least < *low ? least : *low;
		*high = most > *high ? most : *high;
	}
}

tomos_status zarr_finish(File *file)
{
	const Zarr *own = file->own;
	int threads = tomos_threads();
	float low, high;
	TRY(own->writer->direct ? complete_direct(file, threads) : complete_packed(file, threads));
	range_of_all(file, &low, &high);
	return zarr_metadata_write(file, (double)low, (double)high);
}
