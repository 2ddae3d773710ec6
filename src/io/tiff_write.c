/* Writes TIFF files without a library: all directories first, at places that follow from the shape,
 * then the pages, uncompressed in one strip each, so that they can be written in any order. Files
 * above 4 GiB are BigTIFF. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "io/tiff_parts.h"

enum {
	TAGS = 13,      /* of a page; the first has one more, its description */
	FRACTIONS = 16, /* bytes of the resolution along x and y, after the header */
	ALIGNMENT = 64
};

static int64_t header_bytes(const Tiff *own)
{
	return own->big ? 16 : 8;
}

static int64_t text_at(const Tiff *own)
{
	return header_bytes(own) + FRACTIONS;
}

static int64_t tag_bytes(const Tiff *own)
{
	return own->big ? 20 : 12;
}

static int64_t directory_bytes(const Tiff *own)
{
	return (own->big ? 8 + 8 : 2 + 4) + tag_bytes(own) * TAGS;
}

/* `page` may be the number of pages: then it is the end of the directories. */
static int64_t directory_at(const Tiff *own, int64_t page)
{
	return text_at(own) + tiff_text_room(own) + page * directory_bytes(own) +
	       (page > 0 ? tag_bytes(own) : 0);
}

static int64_t data_at(const Tiff *own, int64_t pages, int64_t page, int64_t bytes)
{
	int64_t start = (directory_at(own, pages) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	return start + page * bytes;
}

/* Numbers are in native byte order, which TIFF allows. */
static unsigned char *put(unsigned char *at, uint64_t value, int bytes)
{
	uint8_t v8 = (uint8_t)value;
	uint16_t v16 = (uint16_t)value;
	uint32_t v32 = (uint32_t)value;
	const void *from = bytes == 1   ? (void *)&v8
			   : bytes == 2 ? (void *)&v16
			   : bytes == 4 ? (void *)&v32
					: (void *)&value;
	memcpy(at, from, (size_t)bytes);
	return at + bytes;
}

typedef struct {
	int tag;
	int64_t value, count; /* count 0: one */
} Tag;

/* Values that do not fit are elsewhere in the file, and `value` is the place. */
static unsigned char *put_tag(unsigned char *at, bool big, const Tag *t)
{
	bool text = t->tag == TIFFTAG_IMAGEDESCRIPTION;
	bool fraction = t->tag == TIFFTAG_XRESOLUTION || t->tag == TIFFTAG_YRESOLUTION;
	bool wide = t->tag == TIFFTAG_STRIPOFFSETS || t->tag == TIFFTAG_STRIPBYTECOUNTS;
	bool longer = wide || t->tag == TIFFTAG_IMAGEWIDTH || t->tag == TIFFTAG_IMAGELENGTH ||
		      t->tag == TIFFTAG_ROWSPERSTRIP;
	int room = big ? 8 : 4;
	int type = text          ? TIFF_ASCII
		   : fraction    ? TIFF_RATIONAL
		   : wide && big ? TIFF_LONG8
		   : longer      ? TIFF_LONG
				 : TIFF_SHORT;
	int bytes = text || fraction ? room : type == TIFF_LONG8 ? 8 : type == TIFF_LONG ? 4 : 2;
	at = put(at, (uint64_t)t->tag, 2);
	at = put(at, (uint64_t)type, 2);
	at = put(at, t->count ? (uint64_t)t->count : 1, room);
	memset(at, 0, (size_t)room);
	put(at, (uint64_t)t->value, bytes);
	return at + room;
}

/* What all directories of a file share. */
typedef struct {
	const File *file;
	int64_t pages, text; /* bytes of the description */
	int unit;            /* of the resolution */
} Front;

static unsigned char *put_directory(unsigned char *at, const Front *front, int64_t page)
{
	const File *file = front->file;
	const Tiff *own = file->own;
	const int64_t *shape = file->shape;
	Element element = file->element;
	int64_t bytes = shape[1] * shape[2] * element.bytes, fractions = header_bytes(own);
	const Tag tags[TAGS + 1] = {{TIFFTAG_IMAGEWIDTH, shape[2], 0},
		{TIFFTAG_IMAGELENGTH, shape[1], 0}, {TIFFTAG_BITSPERSAMPLE, 8 * element.bytes, 0},
		{TIFFTAG_COMPRESSION, COMPRESSION_NONE, 0},
		{TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK, 0},
		{TIFFTAG_IMAGEDESCRIPTION, text_at(own), front->text},
		{TIFFTAG_STRIPOFFSETS, data_at(own, front->pages, page, bytes), 0},
		{TIFFTAG_SAMPLESPERPIXEL, 1, 0}, {TIFFTAG_ROWSPERSTRIP, shape[1], 0},
		{TIFFTAG_STRIPBYTECOUNTS, bytes, 0}, {TIFFTAG_XRESOLUTION, fractions, 0},
		{TIFFTAG_YRESOLUTION, fractions + FRACTIONS / 2, 0},
		{TIFFTAG_RESOLUTIONUNIT, front->unit, 0},
		{TIFFTAG_SAMPLEFORMAT,
			element.kind == 'f' ? SAMPLEFORMAT_IEEEFP : SAMPLEFORMAT_UINT, 0}};
	at = put(at, page ? TAGS : TAGS + 1, own->big ? 8 : 2);
	for (int i = 0; i < COUNT(tags); i++)
		if (page == 0 || tags[i].tag != TIFFTAG_IMAGEDESCRIPTION)
			at = put_tag(at, own->big, &tags[i]);
	int64_t next = page + 1 < front->pages ? directory_at(own, page + 1) : 0;
	return put(at, (uint64_t)next, own->big ? 8 : 4);
}

static int64_t page_bytes(const File *file)
{
	return file->shape[1] * file->shape[2] * file->element.bytes;
}

static void put_header(unsigned char *header, const Tiff *own)
{
	bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, big = own->big;
	memset(header, little ? 'I' : 'M', 2);
	put(header + 2, big ? 43 : 42, 2);
	if (big)
		put(header + 4, 8, 2);
	put(header + (big ? 8 : 4), (uint64_t)directory_at(own, 0), big ? 8 : 4);
}

/* Header and directories of `pages` pages, to be freed by the caller. */
static tomos_status make_front(
	const File *file, int64_t pages, unsigned char **bytes, int64_t *length)
{
	const Tiff *own = file->own;
	Front front = {.file = file, .pages = pages};
	uint32_t fractions[2][2];
	*length = data_at(own, pages, 0, 0);
	TRY(mem_zeroed(bytes, *length, 1, "TIFF directories"));
	put_header(*bytes, own);
	tiff_resolution(file, fractions[0], fractions[1], &front.unit);
	memcpy(*bytes + header_bytes(own), fractions, FRACTIONS);
	front.text = tiff_text(file, (char *)*bytes + text_at(own));
	unsigned char *at = *bytes + directory_at(own, 0);
	for (int64_t i = 0; i < pages; i++)
		at = put_directory(at, &front, i);
	return TOMOS_OK;
}

static tomos_status write_front(const File *file, int descriptor, int64_t pages)
{
	unsigned char *front;
	int64_t length;
	TRY(make_front(file, pages, &front, &length));
	tomos_status status = flat_write(descriptor, file->path, 0, front, length);
	mem_free(front);
	return status;
}

/* BigTIFF if an offset would not fit 32 bits. */
static tomos_status choose_size(const File *file, Tiff *own)
{
	int64_t bytes = file->shape[1] * file->shape[2] * file->element.bytes;
	int64_t pages = own->stack ? 1 : file->shape[0];
	if (max64(file->shape[1], file->shape[2]) > INT32_MAX)
		return fail(TOMOS_UNSUPPORTED,
			"'%s': a TIFF image has at most %d rows and columns, not %lld x %lld",
			file->path, INT32_MAX, (long long)file->shape[1],
			(long long)file->shape[2]);
	own->count = file->shape[0];
	own->ome = !own->stack && tiff_is_ome(file->path);
	own->big = pages > UINT32_MAX / directory_bytes(own) - 1 ||
		   data_at(own, pages, 0, bytes) > UINT32_MAX - pages * bytes;
	return TOMOS_OK;
}

/* With leading zeros, so that the names sort in order. */
static void image_name(const File *file, int64_t index, char name[64])
{
	int64_t last = file->first_index + file->shape[0] - 1;
	int digits = snprintf(NULL, 0, "%lld", (long long)last);
	snprintf(name, 64, "%s_%0*lld.tiff", file->content == TOMOS_PROJECTIONS ? "proj" : "recon",
		digits > 5 ? digits : 5, (long long)(file->first_index + index));
}

static tomos_status picture_path(const File *file, int64_t index, char **path)
{
	char name[64];
	image_name(file, index, name);
	return mem_printf(path, "%s/%s", file->temporary, name);
}

/* Whether a file of an existing folder will be written again; scale.txt belongs to the images. */
static bool is_replaced(const File *file, const char *name)
{
	char ours[64];
	const char *number = strchr(name, '_');
	long long index = number ? strtoll(number + 1, NULL, 10) : -1;
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, "scale.txt") == 0)
		return true;
	if (index < file->first_index || index - file->first_index >= file->shape[0])
		return false;
	image_name(file, index - file->first_index, ours);
	return strcmp(name, ours) == 0;
}

/* A folder is replaced as a whole: rejects one with other files, which would be deleted. */
static tomos_status check_folder(const File *file)
{
	struct dirent **list = NULL;
	tomos_status status = TOMOS_OK;
	int count = scandir(file->path, &list, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		if (status == TOMOS_OK && !is_replaced(file, list[i]->d_name))
			status = fail(TOMOS_IO,
				"'%s' holds '%s', which would be deleted and not replaced; name "
				"another folder, or remove it first",
				file->path, list[i]->d_name);
		free(list[i]); /* allocated by scandir */
	}
	free(list);
	return status;
}

static tomos_status create_folder(const File *file)
{
	TRY(check_folder(file));
	if (file->continued || mkdir(file->temporary, 0777) == 0)
		return TOMOS_OK;
	return fail(TOMOS_IO, "'%s' cannot be created (as '%s'): %s", file->path, file->temporary,
		strerror(errno));
}

tomos_status tiff_create(File *file)
{
	Tiff *own;
	TRY(tiff_make(file, &own));
	TRY(choose_size(file, own));
	if (own->stack)
		return create_folder(file);
	TRY(file_descriptor(file, &own->descriptor));
	if (!file->part)
		TRY(write_front(file, own->descriptor, own->count));
	return reserve_open(&own->reserve, own->descriptor, data_at(own, own->count, 0, 0),
		own->count * page_bytes(file));
}

static tomos_status write_image(File *file, int64_t index, const void *data)
{
	const Tiff *own = file->own;
	int descriptor = -1;
	char *name;
	TRY(picture_path(file, index, &name));
	(void)unlink(name); /* an index may be written again */
	tomos_status status = flat_create(&descriptor, name, file->path);
	if (status == TOMOS_OK)
		status = write_front(file, descriptor, 1);
	if (status == TOMOS_OK)
		status = flat_write(
			descriptor, file->path, data_at(own, 1, 0, 0), data, page_bytes(file));
	if (status == TOMOS_OK)
		status = flat_close(&descriptor, file->path);
	else
		(void)flat_close(&descriptor, file->path);
	mem_free(name);
	return status;
}

typedef struct {
	File *file;
	int64_t first;
	const char *stored;
} Images;

static tomos_status write_one(void *user, int64_t i)
{
	const Images *s = user;
	return write_image(s->file, s->first + i, s->stored + i * page_bytes(s->file));
}

tomos_status tiff_write(File *file, int64_t first, int64_t count, int threads, const void *stored)
{
	const Tiff *own = file->own;
	int64_t slab = page_bytes(file);
	const Runs runs = {own->descriptor, file->path, data_at(own, file->shape[0], first, slab),
		0, count * slab, 1};
	Images images = {file, first, stored};
	if (!own->stack)
		return reserve_write(own->reserve, &runs, threads, stored);
	return parallel_each(count, threads, write_one, &images, "writing");
}

/* Reads a file of one page; its header must be as write_image wrote it. */
static tomos_status read_image_back(const File *file, int descriptor, int64_t size, void *stored)
{
	unsigned char *front, *there = NULL;
	int64_t length, bytes = page_bytes(file);
	TRY(make_front(file, 1, &front, &length));
	tomos_status status;
	TRY_OR_DONE(mem_alloc(&there, length, 1, "a TIFF directory"));
	TRY_OR_DONE(flat_read(descriptor, file->path, 0, there, length));
	TRY_OR_DONE(flat_read(descriptor, file->path, length, stored, bytes));
	if (size != length + bytes || memcmp(front, there, (size_t)length) != 0)
		status = fail(TOMOS_BAD_FILE, "'%s': a file in it is damaged", file->path);
done:
	mem_free(there);
	mem_free(front);
	return status;
}

tomos_status tiff_read_back(File *file, int64_t index, void *stored)
{
	const Tiff *own = file->own;
	int64_t bytes = page_bytes(file), size;
	int descriptor;
	char *name;
	if (!own->stack)
		return flat_read(own->descriptor, file->path,
			data_at(own, file->shape[0], index, bytes), stored, bytes);
	TRY(picture_path(file, index, &name));
	bool there = access(name, F_OK) == 0;
	tomos_status status = there ? flat_open(&descriptor, &size, name)
				    : fail(TOMOS_BAD_FILE, "'%s' is not there", name);
	mem_free(name);
	TRY(status);
	status = read_image_back(file, descriptor, size, stored);
	(void)flat_close(&descriptor, file->path);
	return status;
}

/* The range of finite values in some rows of some pages, which does not depend on the order in
 * which pages were written. */
static tomos_status sample_range(const File *file, Tiff *own)
{
	enum { PAGES = 16, ROWS = 16 };
	const int64_t *n = file->shape;
	int64_t pages = min64(PAGES, n[0]), rows = min64(ROWS, n[1]);
	float *row;
	tomos_status status = TOMOS_OK;
	double low = HUGE_VAL, high = -HUGE_VAL;
	TRY(mem_alloc(&row, n[2], sizeof *row, "a row of an image"));
	for (int64_t i = 0; i < pages * rows && status == TOMOS_OK; i++) {
		int64_t page = (2 * (i / rows) + 1) * n[0] / (2 * pages);
		int64_t y = (2 * (i % rows) + 1) * n[1] / (2 * rows);
		int64_t at = data_at(own, n[0], page, page_bytes(file)) + y * n[2] * 4;
		status = flat_read(own->descriptor, file->path, at, row, n[2] * 4);
		for (int64_t x = 0; x < n[2] && status == TOMOS_OK; x++) {
			low = isfinite(row[x]) ? fmin(low, row[x]) : low;
			high = isfinite(row[x]) ? fmax(high, row[x]) : high;
		}
	}
	mem_free(row);
	own->low = low < high ? low : 0;
	own->high = low < high ? high : 0;
	return status;
}

tomos_status tiff_put(File *file, const char *name, const double *values, const int64_t shape[2])
{
	Tiff *own = file->own;
	(void)shape;
	grid_put(&own->grid, file, name, values);
	return TOMOS_OK;
}

tomos_status tiff_finish(File *file)
{
	Tiff *own = file->own;
	reserve_close(&own->reserve);
	if (own->descriptor < 0)
		return TOMOS_OK;
	if (file->element.kind == 'f' && !own->ome)
		TRY(sample_range(file, own));
	TRY(write_front(file, own->descriptor, own->count));
	TRY(flat_cut(own->descriptor, file->path,
		data_at(own, file->shape[0], file->shape[0], page_bytes(file))));
	return flat_close(&own->descriptor, file->path);
}
