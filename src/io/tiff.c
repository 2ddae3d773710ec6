/* Greyscale TIFF images: pages of one file, or a directory of files in the order of their names.
 *
 * A pattern with '*' and '?' selects files of a directory.
 */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include "io/tiff_parts.h"

/* ---- one file of many pages ------------------------------------------------------------------ */

/* ImageJ writes large stacks as one page, with the number of images in its description. */
static tomos_status check_imagej(TIFF *tiff, const char *path, int64_t pages)
{
	char *text = NULL;
	if (!TIFFGetField(tiff, TIFFTAG_IMAGEDESCRIPTION, &text) ||
		strncmp(text, "ImageJ=", 7) != 0)
		return TOMOS_OK;
	const char *images = strstr(text, "images=");
	long long said = images ? strtoll(images + 7, NULL, 10) : 1;
	if (said <= pages)
		return TOMOS_OK;
	return fail(TOMOS_UNSUPPORTED,
		"'%s' holds %lld images in ImageJ's own layout, of which %lld are TIFF pages; "
		"save "
		"it as separate images",
		path, said, (long long)pages);
}

static tomos_status remember_page(Tiff *own, int64_t *room, uint64_t offset)
{
	if (own->count == *room) {
		uint64_t *wider;
		TRY(mem_alloc(&wider, 2 * *room + 16, sizeof *wider, "the pages of a TIFF file"));
		if (own->count)
			memcpy(wider, own->offsets, (size_t)own->count * sizeof *wider);
		mem_free(own->offsets);
		own->offsets = wider;
		*room = 2 * *room + 16;
	}
	own->offsets[own->count++] = offset;
	return TOMOS_OK;
}

static uint64_t number_of(const unsigned char *bytes, int count, bool big_endian)
{
	uint64_t number = 0;
	for (int i = 0; i < count; i++)
		number = number << 8 | bytes[big_endian ? i : count - 1 - i];
	return number;
}

/* libtiff takes an invalid link to the next page for the end of the file. */
static tomos_status check_last(TIFF *tiff, const char *path, int64_t page)
{
	bool wide = TIFFIsBigTIFF(tiff), big_endian = TIFFIsBigEndian(tiff);
	int count_bytes = wide ? 8 : 2, entry_bytes = wide ? 20 : 12, link_bytes = wide ? 8 : 4;
	int64_t at = (int64_t)TIFFCurrentDirOffset(tiff);
	unsigned char bytes[8];
	TRY(flat_read(TIFFFileno(tiff), path, at, bytes, count_bytes));
	uint64_t entries = number_of(bytes, count_bytes, big_endian);
	if (entries > UINT16_MAX)
		return tiff_reject(path, page, "its number of tags is wrong");
	at += count_bytes + (int64_t)entries * entry_bytes;
	TRY(flat_read(TIFFFileno(tiff), path, at, bytes, link_bytes));
	if (number_of(bytes, link_bytes, big_endian) != 0)
		return tiff_reject(path, page + 1, "cannot be read");
	return TOMOS_OK;
}

static tomos_status open_pages(File *file, Tiff *own)
{
	int64_t size, room = 0;
	TRY(tiff_open_file(&own->tiff, &size, file->path));
	TRY(page_describe(own->tiff, file->path, 0, &own->page));
	TRY(remember_page(own, &room, TIFFCurrentDirOffset(own->tiff)));
	while (!TIFFLastDirectory(own->tiff)) {
		Page next;
		if (!TIFFReadDirectory(own->tiff))
			return tiff_reject(file->path, own->count, "cannot be read");
		TRY(page_describe(own->tiff, file->path, own->count, &next));
		TRY(page_same(&own->page, &next, file->path, own->count));
		own->page.packed |= next.packed;
		TRY(remember_page(own, &room, TIFFCurrentDirOffset(own->tiff)));
	}
	TRY(check_last(own->tiff, file->path, own->count - 1));
	TRY(page_check_size(file->path, &own->page, own->count, size));
	if (!TIFFSetSubDirectory(own->tiff, own->offsets[0]))
		return tiff_reject(file->path, 0, "cannot be read");
	return check_imagej(own->tiff, file->path, own->count);
}

/* A handle of libtiff belongs to one thread. */
static tomos_status read_page(File *file, TIFF *tiff, int64_t index, const Extract *part, void *to)
{
	const Tiff *own = file->own;
	const Place at = {tiff, file->path, index, lseek(TIFFFileno(tiff), 0, SEEK_END)};
	tiff_forget();
	if (!TIFFSetSubDirectory(tiff, own->offsets[index]))
		return tiff_reject(file->path, index, "cannot be read");
	return page_read(&at, &own->page, part, to);
}

/* ---- a directory of files -------------------------------------------------------------------- */

static int is_image(const struct dirent *entry)
{
	const char *dot = strrchr(entry->d_name, '.');
	return dot && entry->d_name[0] != '.' &&
	       (strcasecmp(dot, ".tif") == 0 || strcasecmp(dot, ".tiff") == 0);
}

/* Digits are compared as numbers: raw_9.tif is before raw_10.tif. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
	const char *x = (*a)->d_name, *y = (*b)->d_name;
	while (*x && *y) {
		size_t n = strspn(x, "0123456789"), m = strspn(y, "0123456789");
		size_t zeros_x = n ? strspn(x, "0") : 0, zeros_y = m ? strspn(y, "0") : 0;
		if (n == 0 || m == 0) {
			if (*x++ != *y++)
				return (unsigned char)x[-1] < (unsigned char)y[-1] ? -1 : 1;
			continue;
		}
		if (n - zeros_x != m - zeros_y)
			return n - zeros_x < m - zeros_y ? -1 : 1;
		int order = strncmp(x + zeros_x, y + zeros_y, n - zeros_x);
		if (order)
			return order;
		x += n;
		y += m;
	}
	return *x || *y ? (*x ? 1 : -1) : strcmp((*a)->d_name, (*b)->d_name);
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

bool tiff_is_pattern(const char *path)
{
	struct stat info;
	return strpbrk(last_part(path), "*?") != NULL && stat(path, &info) != 0;
}

/* Keeps the listed files that match the pattern. */
static tomos_status take_names(
	Tiff *own, const char *directory, const char *pattern, struct dirent **list, int count)
{
	TRY(mem_zeroed(&own->names, count + 1, sizeof *own->names, "the names of a TIFF stack"));
	for (int i = 0; i < count; i++)
		if (fnmatch(pattern, list[i]->d_name, 0) == 0) {
			TRY(mem_printf(
				&own->names[own->count], "%s%s", directory, list[i]->d_name));
			own->count++;
		}
	if (own->count > 0)
		return TOMOS_OK;
	if (strcmp(pattern, "*") == 0)
		return fail(TOMOS_BAD_FILE, "directory '%s' has no .tif or .tiff files", directory);
	return fail(TOMOS_BAD_FILE, "directory '%s' has no .tif or .tiff files like '%s'",
		directory, pattern);
}

static tomos_status list_images(Tiff *own, const char *directory, const char *pattern)
{
	struct dirent **list = NULL;
	int count = scandir(directory, &list, is_image, by_name);
	if (count < 0)
		return fail(
			TOMOS_IO, "directory '%s' cannot be read: %s", directory, strerror(errno));
	tomos_status status = take_names(own, directory, pattern, list, count);
	for (int i = 0; i < count; i++)
		free(list[i]); /* allocated by scandir */
	free(list);
	return status;
}

/* "dir/" and "raw_*" of a pattern, or "dir/" and "*". */
static tomos_status list_stack(Tiff *own, const char *path)
{
	bool pattern = tiff_is_pattern(path);
	int length = (int)(pattern ? last_part(path) - path : (ptrdiff_t)strlen(path));
	bool slash = length > 0 && path[length - 1] == '/';
	char *directory;
	TRY(length ? mem_printf(&directory, "%.*s%s", length, path, slash ? "" : "/")
		   : mem_text(&directory, "./"));
	tomos_status status = list_images(own, directory, pattern ? last_part(path) : "*");
	mem_free(directory);
	return status;
}

/* Opens image `index`, which must be a single page like the first. */
static tomos_status open_image(
	const Tiff *own, int64_t index, Page *page, TIFF **tiff, int64_t *size)
{
	const char *path = own->names[index];
	TRY(tiff_open_file(tiff, size, path));
	tomos_status status = page_describe(*tiff, path, 0, page);
	if (status == TOMOS_OK && own->page.width > 0)
		status = page_same(&own->page, page, path, 0);
	if (status == TOMOS_OK)
		status = page_check_size(path, page, 1, *size);
	if (status == TOMOS_OK && !TIFFLastDirectory(*tiff))
		status = fail(TOMOS_UNSUPPORTED,
			"'%s' has more than one page; a directory holds one image per file", path);
	if (status == TOMOS_OK)
		status = check_last(*tiff, path, 0);
	if (status == TOMOS_OK)
		status = check_imagej(*tiff, path, 1);
	if (status != TOMOS_OK)
		TIFFClose(*tiff);
	return status;
}

static tomos_status check_image(void *user, int64_t index)
{
	const Tiff *own = user;
	TIFF *tiff;
	Page page;
	int64_t size;
	TRY(open_image(own, index, &page, &tiff, &size));
	TIFFClose(tiff);
	return TOMOS_OK;
}

static tomos_status open_stack(File *file, Tiff *own)
{
	TIFF *tiff;
	Page page;
	int64_t size;
	TRY(list_stack(own, file->path));
	TRY(open_image(own, 0, &page, &tiff, &size));
	TIFFClose(tiff);
	own->page = page;
	return parallel_each(own->count, tomos_threads(), check_image, own, "opening");
}

static tomos_status read_image(const File *file, int64_t index, const Extract *part, void *stored)
{
	const Tiff *own = file->own;
	Place at = {NULL, own->names[index], 0, 0};
	Page page;
	TRY(open_image(own, index, &page, &at.tiff, &at.size));
	tomos_status status = page_read(&at, &page, part, stored);
	TIFFClose(at.tiff);
	return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool tiff_probe(const unsigned char *head, size_t length)
{
	static const unsigned char starts[4][4] = {
		{'I', 'I', 42, 0}, {'M', 'M', 0, 42}, {'I', 'I', 43, 0}, {'M', 'M', 0, 43}};
	for (int i = 0; head && length >= 4 && i < 4; i++)
		if (memcmp(head, starts[i], 4) == 0)
			return true;
	return !head;
}

tomos_status tiff_make(File *file, Tiff **own)
{
	struct stat info;
	size_t length = strlen(file->path);
	TRY(mem_zeroed(own, 1, sizeof **own, "a TIFF file's description"));
	file->own = *own;
	(*own)->descriptor = -1;
	(*own)->stack = file->path[length - 1] == '/' ||
			(!file->temporary && tiff_is_pattern(file->path)) ||
			(stat(file->path, &info) == 0 && S_ISDIR(info.st_mode));
	return TOMOS_OK;
}

static tomos_status take_text(File *file, const Tiff *own)
{
	TIFF *tiff = own->tiff;
	int64_t size;
	if (own->stack)
		TRY(tiff_open_file(&tiff, &size, own->names[0]));
	tiff_take_text(file, tiff);
	if (own->stack)
		TIFFClose(tiff);
	return TOMOS_OK;
}

static tomos_status tiff_open(File *file, const tomos_file_options *options)
{
	(void)options;
	Tiff *own;
	if (file->bare)
		return TOMOS_OK;
	TRY(tiff_make(file, &own));
	TRY(own->stack ? open_stack(file, own) : open_pages(file, own));
	int64_t axes[3] = {own->count, own->page.height, own->page.width};
	file->element = own->page.element;
	TRY(file_take_shape(file, axes, 3));
	return take_text(file, own);
}

static tomos_status tiff_get(const File *file, const char *name, double **values, int64_t shape[2])
{
	const Tiff *own = file->own;
	return own ? grid_get(&own->grid, file, name, values, shape) : TOMOS_OK;
}

typedef struct {
	File *file;
	const Samples *samples;
	char *stored;
	int64_t each; /* images per task */
	bool alone;   /* the only thread, which uses the open handle */
} Reading;

static tomos_status read_rows(
	const Reading *r, TIFF *tiff, int64_t index, int64_t row, int64_t rows, char *to)
{
	const Extract part = {index, 1, row, rows};
	return tiff ? read_page(r->file, tiff, index, &part, to)
		    : read_image(r->file, index, &part, to);
}

/* `rows` has space for all rows from the first to the last sample, or is NULL: then all numbers of
 * these rows are wanted. */
static tomos_status read_pages(const Reading *r, TIFF *tiff, int64_t first, int64_t end, char *rows)
{
	const Samples *s = r->samples;
	int64_t bytes = s->count[1] * s->count[2] * r->file->element.bytes;
	for (int64_t i = first; i < end; i++) {
		char *to = r->stored + i * bytes;
		TRY(cancel_check("reading"));
		TRY(read_rows(r, tiff, s->first[0] + i * s->step[0], s->first[1],
			samples_span(s, 1), rows ? rows : to));
		if (rows)
			samples_pick(r->file, s, rows, s->step[1], to);
	}
	return TOMOS_OK;
}

static tomos_status read_thinned(const Reading *r, TIFF *tiff, int64_t first, int64_t end)
{
	const Samples *s = r->samples;
	int64_t span = samples_span(s, 1), columns = r->file->shape[2];
	char *rows = NULL;
	if (span != s->count[1] || s->count[2] != columns)
		TRY(mem_alloc(&rows, span * columns, (size_t)r->file->element.bytes,
			"rows of a TIFF file"));
	tomos_status status = read_pages(r, tiff, first, end, rows);
	mem_free(rows);
	return status;
}

/* Every task has a handle of its own on a file of many pages. */
static tomos_status read_some(void *user, int64_t task)
{
	const Reading *r = user;
	const Tiff *own = r->file->own;
	int64_t first = task * r->each, end = min64(first + r->each, r->samples->count[0]), size;
	TIFF *tiff;
	if (own->stack || r->alone)
		return read_thinned(r, own->tiff, first, end);
	TRY(tiff_open_file(&tiff, &size, r->file->path));
	tomos_status status = read_thinned(r, tiff, first, end);
	TIFFClose(tiff);
	return status;
}

static tomos_status tiff_read_box(File *file, const Samples *samples, int threads, void *stored)
{
	int64_t count = samples->count[0], tasks = min64(count, 4 * (int64_t)threads);
	Reading r = {file, samples, stored, (count + tasks - 1) / tasks, threads < 2};
	return parallel_each((count + r.each - 1) / r.each, threads, read_some, &r, "reading");
}

static tomos_status tiff_read(File *file, const Extract *part, int threads, void *stored)
{
	const Samples samples = samples_of(file, part);
	return tiff_read_box(file, &samples, threads, stored);
}

static tomos_status tiff_sources(const File *file, TakePath take, void *user)
{
	const Tiff *own = file->own;
	if (!own->stack)
		return take(user, file->path);
	for (int64_t i = 0; i < own->count; i++)
		TRY(take(user, own->names[i]));
	return TOMOS_OK;
}

static void tiff_close(File *file)
{
	Tiff *own = file->own;
	if (own->tiff)
		TIFFClose(own->tiff);
	for (int64_t i = 0; own->names && i < own->count; i++)
		mem_free(own->names[i]);
	mem_free(own->names);
	mem_free(own->offsets);
	reserve_close(&own->reserve);
	(void)flat_close(&own->descriptor, file->path);
	mem_free(own);
}

const Format format_tiff = {
	.name = "tiff",
	.endings = "tif|tiff|ome.tif|ome.tiff",
	.probe = tiff_probe,
	.open = tiff_open,
	.read = tiff_read,
	.read_box = tiff_read_box,
	.create = tiff_create,
	.write = tiff_write,
	.finish = tiff_finish,
	.close = tiff_close,
	.read_back = tiff_read_back,
	.get = tiff_get,
	.put = tiff_put,
	.sources = tiff_sources,
};
