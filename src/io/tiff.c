/* Grey TIFF pictures: many pages in one file, or a directory of files in the order of their names.
 *
 * A directory's files may be chosen by a pattern with '*' and '?'.
 *
 * libtiff reads, so that all common compressions, strips and tiles are understood. Writing needs no
 * library: pages are plain floats, one strip each, behind a table of directories whose place is known
 * from the shape, so that pages can be written in any order; beyond 4 GiB the file is a BigTIFF.
 */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <tiffio.h>
#include <unistd.h>
#include "io/io.h"

/* What all pages have in common. */
typedef struct {
	int64_t width, height;
	Element element;
	bool packed; /* the numbers are not in the file as they are */
} Page;

typedef struct {
	bool stack;
	Page page;
	int64_t count;
	/* reading: one file and where its pages are, or the names of the files */
	TIFF *tiff;
	uint64_t *offsets;
	char **names;
	/* writing */
	int descriptor;
	bool big;
} Tiff;

/* ---- libtiff, without its printing -------------------------------------------------------- */

static _Thread_local char complaint[256]; /* the first since `complaint[0] = 0`, the innermost */

static void keep_complaint(const char *format, va_list list)
{
	if (!complaint[0])
		vsnprintf(complaint, sizeof complaint, format, list);
}

#define HAS_OPEN_OPTIONS (TIFFLIB_VERSION >= 20221213)

#if HAS_OPEN_OPTIONS
static int hear_error(TIFF *tiff, void *user, const char *module, const char *format, va_list list)
{
	(void)tiff, (void)user, (void)module;
	keep_complaint(format, list);
	return 1;
}

static int hear_warning(
	TIFF *tiff, void *user, const char *module, const char *format, va_list list)
{
	(void)tiff, (void)user, (void)module, (void)format, (void)list;
	return 1;
}

static TIFF *open_quietly(int descriptor, const char *path, int64_t size)
{
	TIFFOpenOptions *options = TIFFOpenOptionsAlloc();
	if (!options)
		return NULL;
	TIFFOpenOptionsSetErrorHandlerExtR(options, hear_error, NULL);
	TIFFOpenOptionsSetWarningHandlerExtR(options, hear_warning, NULL);
	TIFFOpenOptionsSetMaxSingleMemAlloc(options, size + (16 << 20));
	TIFF *tiff = TIFFFdOpenExt(descriptor, path, "rm", options);
	TIFFOpenOptionsFree(options);
	return tiff;
}
#else
static void hear_error(const char *module, const char *format, va_list list)
{
	(void)module;
	keep_complaint(format, list);
}

static TIFF *open_quietly(int descriptor, const char *path, int64_t size)
{
	(void)size;
	TIFFSetErrorHandler(hear_error);
	TIFFSetWarningHandler(NULL);
	return TIFFFdOpen(descriptor, path, "rm");
}
#endif

static tomos_status refuse(const char *path, int64_t page, const char *what)
{
	return fail(TOMOS_BAD_FILE, "'%s', page %lld: %s%s%s", path, (long long)page, what,
		complaint[0] ? ": " : "", complaint);
}

static tomos_status open_tiff(TIFF **tiff, int64_t *size, const char *path)
{
	int descriptor;
	complaint[0] = 0;
	TRY(flat_open(&descriptor, size, path));
	*tiff = open_quietly(descriptor, path, *size);
	if (*tiff)
		return TOMOS_OK;
	(void)flat_close(&descriptor, path);
	return refuse(path, 0, "cannot be read");
}

/* ---- pages -------------------------------------------------------------------------------- */

static const uint16_t compressions[] = {COMPRESSION_NONE, COMPRESSION_LZW, COMPRESSION_PACKBITS,
	COMPRESSION_ADOBE_DEFLATE, COMPRESSION_DEFLATE, COMPRESSION_ZSTD, COMPRESSION_LZMA};

static tomos_status check_compression(TIFF *tiff, const char *path, int64_t at, Page *page)
{
	uint16_t scheme = COMPRESSION_NONE;
	TIFFGetFieldDefaulted(tiff, TIFFTAG_COMPRESSION, &scheme);
	page->packed = scheme != COMPRESSION_NONE;
	for (int i = 0; i < COUNT(compressions); i++)
		if (scheme == compressions[i] && TIFFIsCODECConfigured(scheme))
			return TOMOS_OK;
	return fail(TOMOS_UNSUPPORTED,
		"'%s', page %lld: compression %d cannot be read; none, LZW, PackBits, Deflate, "
		"ZSTD "
		"and LZMA can",
		path, (long long)at, scheme);
}

static int64_t page_bytes(const Page *page)
{
	int64_t bytes;
	bool fits = size_mul(page->width, page->height, &bytes) &&
		    size_mul(bytes, page->element.bytes, &bytes);
	return fits ? bytes : INT64_MAX;
}

/* Plain strips and tiles hold the page to the byte: a wrong width or height shows here. */
static tomos_status check_bytes(TIFF *tiff, const char *path, int64_t at, const Page *page)
{
	bool tiled = TIFFIsTiled(tiff);
	uint32_t count = tiled ? TIFFNumberOfTiles(tiff) : TIFFNumberOfStrips(tiff);
	int64_t stored = 0, needed = tiled ? count * TIFFTileSize(tiff) : page_bytes(page);
	for (uint32_t i = 0; i < count && !page->packed; i++) {
		uint64_t bytes = TIFFGetStrileByteCount(tiff, i);
		if (bytes > INT64_MAX || !size_add(stored, (int64_t)bytes, &stored))
			return refuse(path, at, "the size of the strips or tiles is too large");
	}
	if (page->packed || stored == needed)
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE,
		"'%s', page %lld: its strips or tiles hold %lld bytes; %lld x %lld numbers of type "
		"%s "
		"need %lld",
		path, (long long)at, (long long)stored, (long long)page->height,
		(long long)page->width, element_name(page->element), (long long)needed);
}

/* The page libtiff stands at: one plain sample per pixel, of a known type. */
static tomos_status describe_page(TIFF *tiff, const char *path, int64_t at, Page *page)
{
	uint32_t width = 0, height = 0;
	uint16_t samples = 1, bits = 1, format = SAMPLEFORMAT_UINT,
		 photometric = PHOTOMETRIC_MINISBLACK;
	TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width);
	TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height);
	TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLESPERPIXEL, &samples);
	TIFFGetFieldDefaulted(tiff, TIFFTAG_BITSPERSAMPLE, &bits);
	TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLEFORMAT, &format);
	TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &photometric);
	char kind = format == SAMPLEFORMAT_INT ? 'i' : format == SAMPLEFORMAT_IEEEFP ? 'f' : 'u';
	page->width = width;
	page->height = height;
	page->element = (Element){kind, bits % 8 ? 0 : bits / 8, false};
	if (width < 1 || height < 1)
		return refuse(path, at, "the picture is empty");
	if (samples != 1 || photometric > PHOTOMETRIC_MINISBLACK)
		return fail(TOMOS_UNSUPPORTED,
			"'%s', page %lld: %d samples per pixel (photometric %d); grey pictures of "
			"one "
			"sample can be read",
			path, (long long)at, samples, photometric);
	if (!element_name(page->element) || format > SAMPLEFORMAT_VOID)
		return fail(TOMOS_UNSUPPORTED,
			"'%s', page %lld: numbers of %d bits (sample format %d); integers of 8 to "
			"64 and "
			"floats of 16 to 64 can be read",
			path, (long long)at, bits, format);
	TRY(check_compression(tiff, path, at, page));
	return check_bytes(tiff, path, at, page);
}

/* `count` pages like this one cannot come out of a file of `size` bytes. */
static tomos_status check_size(const char *path, const Page *page, int64_t count, int64_t size)
{
	int64_t bytes, most;
	if (!size_mul(size, page->packed ? LARGEST_RATIO : 1, &most))
		most = INT64_MAX;
	if (size_mul(page_bytes(page), count, &bytes) && bytes <= most)
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE,
		"'%s' has %lld bytes, too few for %lld pages of %lld x %lld numbers of type %s",
		path, (long long)size, (long long)count, (long long)page->height,
		(long long)page->width, element_name(page->element));
}

/* All pages must be alike; `packed` stays set once one page is. */
static tomos_status same_page(Page *page, const Page *next, const char *path, int64_t at)
{
	page->packed |= next->packed;
	if (page->width == next->width && page->height == next->height &&
		page->element.kind == next->element.kind &&
		page->element.bytes == next->element.bytes)
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE,
		"'%s', page %lld is %lld x %lld of type %s; the first picture is %lld x %lld of "
		"type %s",
		path, (long long)at, (long long)next->height, (long long)next->width,
		element_name(next->element), (long long)page->height, (long long)page->width,
		element_name(page->element));
}

/* Where a page is read from: its file, and its number for sentences. */
typedef struct {
	TIFF *tiff;
	const char *path;
	int64_t number, size; /* size: of the file */
} Place;

/* The rows [low, high) of a piece of rows [y, y + height) that were asked for. */
static void overlap(const Extract *part, int64_t y, int64_t height, int64_t *low, int64_t *high)
{
	*low = max64(y, part->row);
	*high = min64(y + height, part->row + part->rows);
}

/* Plain strips need not be read to their end: rows are fetched where they lie. */
static tomos_status read_plain(
	const Place *at, const Page *page, int64_t strip, int64_t skip, int64_t bytes, void *buffer)
{
	uint64_t offset = TIFFGetStrileOffset(at->tiff, (uint32_t)strip);
	if (offset > INT64_MAX / 2)
		return refuse(at->path, at->number, "the place of a strip is wrong");
	tomos_status status = flat_read(TIFFFileno(at->tiff), at->path,
		(int64_t)offset + skip * page->width * page->element.bytes, buffer, bytes);
	if (status == TOMOS_BAD_FILE)
		return refuse(at->path, at->number, "the data end too early or are damaged");
	return status;
}

static bool is_plain(const Place *at, const Page *page)
{
	uint16_t order = FILLORDER_MSB2LSB;
	TIFFGetFieldDefaulted(at->tiff, TIFFTAG_FILLORDER, &order);
	return !page->packed && order == FILLORDER_MSB2LSB;
}

/* `buffer` gets the rows from the first one asked for, or, where it must be unpacked, the strip. */
static tomos_status read_strips(
	const Place *at, const Page *page, const Extract *part, void *buffer, float *data)
{
	uint32_t rows = 0;
	int64_t line = page->width * page->element.bytes, low, high;
	bool plain = is_plain(at, page);
	Element element = page->element;
	element.swapped = plain && TIFFIsByteSwapped(at->tiff);
	TIFFGetFieldDefaulted(at->tiff, TIFFTAG_ROWSPERSTRIP, &rows);
	for (int64_t y = part->row / rows * rows; y < part->row + part->rows; y += rows) {
		int64_t height = min64(rows, page->height - y), skip;
		overlap(part, y, height, &low, &high);
		skip = low - y;
		if (plain)
			TRY(read_plain(at, page, y / rows, skip, (high - low) * line, buffer));
		else if (TIFFReadEncodedStrip(at->tiff, (uint32_t)(y / rows), buffer,
				 height * line) != height * line)
			return refuse(
				at->path, at->number, "the data end too early or are damaged");
		TRY(element_convert(element, (char *)buffer + (plain ? 0 : skip * line),
			(high - low) * page->width, data + (low - part->row) * page->width,
			at->path));
	}
	return TOMOS_OK;
}

static tomos_status read_tiles(
	const Place *at, const Page *page, const Extract *part, void *buffer, float *data)
{
	uint32_t width = 0, height = 0;
	int64_t low, high;
	TIFFGetField(at->tiff, TIFFTAG_TILEWIDTH, &width);
	TIFFGetField(at->tiff, TIFFTAG_TILELENGTH, &height);
	for (int64_t y = part->row / height * height; y < part->row + part->rows; y += height)
		for (int64_t x = 0; x < page->width; x += width) {
			if (TIFFReadTile(at->tiff, buffer, (uint32_t)x, (uint32_t)y, 0, 0) < 0)
				return refuse(at->path, at->number,
					"the data end too early or are damaged");
			overlap(part, y, min64(height, page->height - y), &low, &high);
			for (int64_t r = low; r < high; r++)
				TRY(element_convert(page->element,
					(char *)buffer + (r - y) * width * page->element.bytes,
					min64(width, page->width - x),
					data + (r - part->row) * page->width + x, at->path));
		}
	return TOMOS_OK;
}

/* The size of a strip or tile as libtiff will fill it, which must fit what the tags said. */
static tomos_status piece_bytes(const Place *at, const Page *page, int64_t *bytes)
{
	TIFF *tiff = at->tiff;
	uint32_t width = (uint32_t)page->width, height = 0;
	bool tiled = TIFFIsTiled(tiff);
	if (tiled)
		TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &width);
	TIFFGetFieldDefaulted(tiff, tiled ? TIFFTAG_TILELENGTH : TIFFTAG_ROWSPERSTRIP, &height);
	int64_t rows = tiled ? height : min64(height, page->height);
	Page piece = {width, rows, page->element, page->packed};
	*bytes = page_bytes(&piece);
	if (width < 1 || height < 1 || *bytes != (tiled ? TIFFTileSize(tiff) : TIFFStripSize(tiff)))
		return refuse(at->path, at->number, "the size of the strips or tiles is wrong");
	return TOMOS_OK;
}

static tomos_status read_page(const Place *at, const Page *page, const Extract *part, float *data)
{
	int64_t bytes;
	void *buffer;
	TRY(piece_bytes(at, page, &bytes));
	if (bytes / LARGEST_RATIO > at->size)
		return refuse(at->path, at->number, "the size of the strips or tiles is too large");
	TRY(mem_alloc(&buffer, bytes, 1, "a strip or tile of a TIFF file"));
	tomos_status status = TIFFIsTiled(at->tiff) ? read_tiles(at, page, part, buffer, data)
						    : read_strips(at, page, part, buffer, data);
	mem_free(buffer);
	return status;
}

/* ---- one file of many pages --------------------------------------------------------------- */

/* ImageJ writes large stacks as one page and says in its description how many follow. */
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
		"'%s' holds %lld pictures in ImageJ's own layout, of which %lld are TIFF pages; "
		"save "
		"it as separate pictures",
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

static tomos_status open_pages(File *file, Tiff *own)
{
	int64_t size, room = 0;
	TRY(open_tiff(&own->tiff, &size, file->path));
	TRY(describe_page(own->tiff, file->path, 0, &own->page));
	TRY(remember_page(own, &room, TIFFCurrentDirOffset(own->tiff)));
	while (!TIFFLastDirectory(own->tiff)) {
		Page next;
		if (!TIFFReadDirectory(own->tiff))
			return refuse(file->path, own->count, "cannot be read");
		TRY(describe_page(own->tiff, file->path, own->count, &next));
		TRY(same_page(&own->page, &next, file->path, own->count));
		TRY(remember_page(own, &room, TIFFCurrentDirOffset(own->tiff)));
	}
	TRY(check_size(file->path, &own->page, own->count, size));
	if (!TIFFSetSubDirectory(own->tiff, own->offsets[0]))
		return refuse(file->path, 0, "cannot be read");
	return check_imagej(own->tiff, file->path, own->count);
}

static tomos_status read_one_page(File *file, int64_t index, const Extract *part, float *data)
{
	const Tiff *own = file->own;
	const Place at = {own->tiff, file->path, index, lseek(TIFFFileno(own->tiff), 0, SEEK_END)};
	complaint[0] = 0;
	if (!TIFFSetSubDirectory(own->tiff, own->offsets[index]))
		return refuse(file->path, index, "cannot be read");
	return read_page(&at, &own->page, part, data);
}

/* ---- a directory of files ----------------------------------------------------------------- */

static int is_picture(const struct dirent *entry)
{
	const char *dot = strrchr(entry->d_name, '.');
	return dot && entry->d_name[0] != '.' &&
	       (strcasecmp(dot, ".tif") == 0 || strcasecmp(dot, ".tiff") == 0);
}

/* Numbers in names count as numbers: raw_9.tif comes before raw_10.tif. */
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

/* Those of the listed files that fit the pattern. */
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

static tomos_status list_pictures(Tiff *own, const char *directory, const char *pattern)
{
	struct dirent **list = NULL;
	int count = scandir(directory, &list, is_picture, by_name);
	if (count < 0)
		return fail(
			TOMOS_IO, "directory '%s' cannot be read: %s", directory, strerror(errno));
	tomos_status status = take_names(own, directory, pattern, list, count);
	for (int i = 0; i < count; i++)
		free(list[i]); /* scandir's own memory */
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
	tomos_status status = list_pictures(own, directory, pattern ? last_part(path) : "*");
	mem_free(directory);
	return status;
}

/* Opens picture `index`, which must be one page like the first. */
static tomos_status open_picture(Tiff *own, int64_t index, TIFF **tiff, int64_t *size)
{
	const char *path = own->names[index];
	Page page;
	TRY(open_tiff(tiff, size, path));
	tomos_status status = describe_page(*tiff, path, 0, &page);
	if (status == TOMOS_OK && index == 0 && own->page.width == 0)
		own->page = page;
	if (status == TOMOS_OK)
		status = same_page(&own->page, &page, path, 0);
	if (status == TOMOS_OK)
		status = check_size(path, &page, 1, *size);
	if (status == TOMOS_OK && !TIFFLastDirectory(*tiff))
		status = fail(TOMOS_UNSUPPORTED,
			"'%s' has more than one page; a directory holds one picture per file",
			path);
	if (status == TOMOS_OK)
		status = check_imagej(*tiff, path, 1);
	if (status != TOMOS_OK)
		TIFFClose(*tiff);
	return status;
}

static tomos_status open_stack(File *file, Tiff *own)
{
	TRY(list_stack(own, file->path));
	for (int64_t i = 0; i < own->count; i++) {
		TIFF *tiff;
		int64_t size;
		TRY(open_picture(own, i, &tiff, &size));
		TIFFClose(tiff);
	}
	return TOMOS_OK;
}

static tomos_status read_picture(File *file, int64_t index, const Extract *part, float *data)
{
	Tiff *own = file->own;
	Place at = {NULL, own->names[index], 0, 0};
	TRY(open_picture(own, index, &at.tiff, &at.size));
	tomos_status status = read_page(&at, &own->page, part, data);
	TIFFClose(at.tiff);
	return status;
}

/* ---- reading ------------------------------------------------------------------------------ */

static bool tiff_probe(const unsigned char *head, size_t length)
{
	static const unsigned char starts[4][4] = {
		{'I', 'I', 42, 0}, {'M', 'M', 0, 42}, {'I', 'I', 43, 0}, {'M', 'M', 0, 43}};
	for (int i = 0; head && length >= 4 && i < 4; i++)
		if (memcmp(head, starts[i], 4) == 0)
			return true;
	return !head;
}

static tomos_status make_own(File *file, Tiff **own)
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

static tomos_status tiff_open(File *file, const tomos_file_options *options)
{
	(void)options;
	Tiff *own;
	char *where;
	TRY(make_own(file, &own));
	TRY(own->stack ? open_stack(file, own) : open_pages(file, own));
	int64_t axes[3] = {own->count, own->page.height, own->page.width};
	file->type = element_name(own->page.element);
	TRY(mem_printf(&where, "'%s'", file->path));
	tomos_status status = shape_take(file->shape, axes, 3, where);
	mem_free(where);
	return status;
}

static tomos_status tiff_read(File *file, const Extract *part, float *data)
{
	const Tiff *own = file->own;
	int64_t size = part->rows * file->shape[2];
	for (int64_t i = 0; i < part->count; i++)
		TRY((own->stack ? read_picture : read_one_page)(
			file, part->first + i, part, data + i * size));
	return TOMOS_OK;
}

/* ---- writing ------------------------------------------------------------------------------ */

enum {
	TAGS = 10,
	SMALL_HEADER = 8,
	BIG_HEADER = 16,
	SMALL_DIRECTORY = 2 + 12 * TAGS + 4,
	BIG_DIRECTORY = 8 + 20 * TAGS + 8,
	ALIGNMENT = 64
};

static int64_t directory_at(bool big, int64_t page)
{
	return big ? BIG_HEADER + page * BIG_DIRECTORY : SMALL_HEADER + page * SMALL_DIRECTORY;
}

static int64_t data_at(bool big, int64_t pages, int64_t page, int64_t bytes)
{
	int64_t start = (directory_at(big, pages) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	return start + page * bytes;
}

/* Numbers are written in the machine's own order, which TIFF allows. */
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

static unsigned char *put_tag(unsigned char *at, bool big, int tag, uint64_t value)
{
	bool wide = tag == TIFFTAG_STRIPOFFSETS || tag == TIFFTAG_STRIPBYTECOUNTS;
	bool longer = wide || tag == TIFFTAG_IMAGEWIDTH || tag == TIFFTAG_IMAGELENGTH ||
		      tag == TIFFTAG_ROWSPERSTRIP;
	int room = big ? 8 : 4;
	int type = wide && big ? TIFF_LONG8 : longer ? TIFF_LONG : TIFF_SHORT;
	int bytes = type == TIFF_LONG8 ? 8 : type == TIFF_LONG ? 4 : 2;
	at = put(at, (uint64_t)tag, 2);
	at = put(at, (uint64_t)type, 2);
	at = put(at, 1, room);
	memset(at, 0, (size_t)room);
	put(at, value, bytes);
	return at + room;
}

static unsigned char *put_directory(
	unsigned char *at, const File *file, bool big, int64_t pages, int64_t page)
{
	const int64_t *shape = file->shape;
	Element element = file->element;
	int64_t bytes = shape[1] * shape[2] * element.bytes;
	const struct {
		int tag;
		int64_t value;
	} tags[TAGS] = {{TIFFTAG_IMAGEWIDTH, shape[2]}, {TIFFTAG_IMAGELENGTH, shape[1]},
		{TIFFTAG_BITSPERSAMPLE, 8 * element.bytes}, {TIFFTAG_COMPRESSION, COMPRESSION_NONE},
		{TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK},
		{TIFFTAG_STRIPOFFSETS, data_at(big, pages, page, bytes)},
		{TIFFTAG_SAMPLESPERPIXEL, 1}, {TIFFTAG_ROWSPERSTRIP, shape[1]},
		{TIFFTAG_STRIPBYTECOUNTS, bytes},
		{TIFFTAG_SAMPLEFORMAT,
			element.kind == 'f' ? SAMPLEFORMAT_IEEEFP : SAMPLEFORMAT_UINT}};
	at = put(at, TAGS, big ? 8 : 2);
	for (int i = 0; i < TAGS; i++)
		at = put_tag(at, big, tags[i].tag, (uint64_t)tags[i].value);
	int64_t next = page + 1 < pages ? directory_at(big, page + 1) : 0;
	return put(at, (uint64_t)next, big ? 8 : 4);
}

static tomos_status write_header(const File *file, int descriptor, bool big)
{
	unsigned char header[BIG_HEADER] = {0};
	bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
	memset(header, little ? 'I' : 'M', 2);
	put(header + 2, big ? 43 : 42, 2);
	if (big)
		put(header + 4, 8, 2);
	put(header + (big ? 8 : 4), (uint64_t)directory_at(big, 0), big ? 8 : 4);
	return flat_write(descriptor, file->path, 0, header, big ? BIG_HEADER : SMALL_HEADER);
}

static tomos_status write_pages(const File *file, int descriptor, bool big, int64_t pages,
	int64_t first, int64_t count, const void *data)
{
	int64_t bytes = file->shape[1] * file->shape[2] * file->element.bytes;
	unsigned char *directories, *at;
	TRY(mem_alloc(&directories, count, BIG_DIRECTORY, "TIFF directories"));
	at = directories;
	for (int64_t i = 0; i < count; i++)
		at = put_directory(at, file, big, pages, first + i);
	tomos_status status = flat_write(
		descriptor, file->path, directory_at(big, first), directories, at - directories);
	mem_free(directories);
	TRY(status);
	return flat_write(
		descriptor, file->path, data_at(big, pages, first, bytes), data, count * bytes);
}

/* A file is big when an offset would not fit 32 bits. */
static tomos_status choose_size(const File *file, Tiff *own)
{
	int64_t bytes = file->shape[1] * file->shape[2] * file->element.bytes;
	int64_t pages = own->stack ? 1 : file->shape[0];
	if (max64(file->shape[1], file->shape[2]) > INT32_MAX)
		return fail(TOMOS_UNSUPPORTED,
			"'%s': a TIFF picture has at most %d rows and columns, not %lld x %lld",
			file->path, INT32_MAX, (long long)file->shape[1],
			(long long)file->shape[2]);
	own->count = file->shape[0];
	own->big = pages > UINT32_MAX / SMALL_DIRECTORY - 1 ||
		   data_at(false, pages, 0, bytes) > UINT32_MAX - pages * bytes;
	return TOMOS_OK;
}

static tomos_status tiff_create(File *file)
{
	Tiff *own;
	TRY(make_own(file, &own));
	TRY(choose_size(file, own));
	if (own->stack) {
		if (!file->continued && mkdir(file->temporary, 0777) != 0)
			return fail(TOMOS_IO, "'%s' cannot be created (as '%s'): %s", file->path,
				file->temporary, strerror(errno));
		return TOMOS_OK;
	}
	TRY(file_descriptor(file, &own->descriptor));
	return write_header(file, own->descriptor, own->big);
}

/* As many digits as all indices need, so that the names sort. */
static tomos_status picture_name(const File *file, int64_t index, char **name)
{
	int64_t last = file->first_index + file->shape[0] - 1;
	int digits = snprintf(NULL, 0, "%lld", (long long)last);
	return mem_printf(name, "%s/%s_%0*lld.tiff", file->temporary,
		file->content == TOMOS_PROJECTIONS ? "proj" : "recon", digits > 5 ? digits : 5,
		(long long)(file->first_index + index));
}

static tomos_status write_picture(File *file, int64_t index, const void *data)
{
	const Tiff *own = file->own;
	int descriptor = -1;
	char *name;
	TRY(picture_name(file, index, &name));
	(void)unlink(name); /* an index may be written again */
	tomos_status status = flat_create(&descriptor, name, file->path);
	if (status == TOMOS_OK)
		status = write_header(file, descriptor, own->big);
	if (status == TOMOS_OK)
		status = write_pages(file, descriptor, own->big, 1, 0, 1, data);
	if (status == TOMOS_OK)
		status = flat_close(&descriptor, file->path);
	else
		(void)flat_close(&descriptor, file->path);
	mem_free(name);
	return status;
}

static tomos_status tiff_write(File *file, int64_t first, int64_t count, const void *data)
{
	const Tiff *own = file->own;
	int64_t slab = file->shape[1] * file->shape[2] * file->element.bytes;
	if (!own->stack)
		return write_pages(
			file, own->descriptor, own->big, file->shape[0], first, count, data);
	for (int64_t i = 0; i < count; i++)
		TRY(write_picture(file, first + i, (const char *)data + i * slab));
	return TOMOS_OK;
}

static tomos_status tiff_finish(File *file)
{
	Tiff *own = file->own;
	return flat_close(&own->descriptor, file->path);
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
	(void)flat_close(&own->descriptor, file->path);
	mem_free(own);
}

const Format format_tiff = {
	.name = "tiff",
	.endings = "tif|tiff",
	.probe = tiff_probe,
	.open = tiff_open,
	.read = tiff_read,
	.create = tiff_create,
	.write = tiff_write,
	.finish = tiff_finish,
	.close = tiff_close,
};
