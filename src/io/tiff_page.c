/* Pages of TIFF files, read with libtiff: description and parts of a page, in strips or tiles, with
 * all common compressions. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "io/tiff_parts.h"

/* ---- libtiff, without its printing ----------------------------------------------------------- */

static _Thread_local char complaint[256]; /* first message since it was cleared: the innermost */

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

void tiff_forget(void)
{
	complaint[0] = 0;
}

tomos_status tiff_reject(const char *path, int64_t page, const char *what)
{
	return fail(TOMOS_BAD_FILE, "'%s', page %lld: %s%s%s", path, (long long)page, what,
		complaint[0] ? ": " : "", complaint);
}

tomos_status tiff_open_file(TIFF **tiff, int64_t *size, const char *path)
{
	int descriptor;
	complaint[0] = 0;
	TRY(flat_open(&descriptor, size, path));
	*tiff = open_quietly(descriptor, path, *size);
	if (*tiff)
		return TOMOS_OK;
	(void)flat_close(&descriptor, path);
	return tiff_reject(path, 0, "cannot be read");
}

/* ---- pages ----------------------------------------------------------------------------------- */

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

/* Uncompressed strips and tiles have exactly the bytes of the page: detects a wrong width or
 * height. */
static tomos_status check_bytes(TIFF *tiff, const char *path, int64_t at, const Page *page)
{
	bool tiled = TIFFIsTiled(tiff);
	uint32_t count = tiled ? TIFFNumberOfTiles(tiff) : TIFFNumberOfStrips(tiff);
	int64_t stored = 0, needed = tiled ? count * TIFFTileSize(tiff) : page_bytes(page);
	for (uint32_t i = 0; i < count && !page->packed; i++) {
		uint64_t bytes = TIFFGetStrileByteCount(tiff, i);
		if (bytes > INT64_MAX || !size_add(stored, (int64_t)bytes, &stored))
			return tiff_reject(
				path, at, "the size of the strips or tiles is too large");
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

tomos_status page_describe(TIFF *tiff, const char *path, int64_t at, Page *page)
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
		return tiff_reject(path, at, "the image is empty");
	if (samples != 1 || photometric > PHOTOMETRIC_MINISBLACK)
		return fail(TOMOS_UNSUPPORTED,
			"'%s', page %lld: %d samples per pixel (photometric %d); grey images of "
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

tomos_status page_check_size(const char *path, const Page *page, int64_t count, int64_t size)
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

tomos_status page_same(const Page *page, const Page *next, const char *path, int64_t at)
{
	if (page->width == next->width && page->height == next->height &&
		page->element.kind == next->element.kind &&
		page->element.bytes == next->element.bytes)
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE,
		"'%s', page %lld is %lld x %lld of type %s; the first image is %lld x %lld of "
		"type %s",
		path, (long long)at, (long long)next->height, (long long)next->width,
		element_name(next->element), (long long)page->height, (long long)page->width,
		element_name(page->element));
}

/* The requested rows [low, high) of a piece with rows [y, y + height). */
static void overlap(const Extract *part, int64_t y, int64_t height, int64_t *low, int64_t *high)
{
	*low = max64(y, part->row);
	*high = min64(y + height, part->row + part->rows);
}

/* Rows of uncompressed strips are read directly, without the rest of the strip. */
static tomos_status read_plain(
	const Place *at, const Page *page, int64_t strip, int64_t skip, int64_t bytes, void *buffer)
{
	uint64_t offset = TIFFGetStrileOffset(at->tiff, (uint32_t)strip);
	if (offset > INT64_MAX / 2)
		return tiff_reject(at->path, at->number, "the place of a strip is wrong");
	tomos_status status = flat_read(TIFFFileno(at->tiff), at->path,
		(int64_t)offset + skip * page->width * page->element.bytes, buffer, bytes);
	if (status == TOMOS_BAD_FILE)
		return tiff_reject(at->path, at->number, "the data end too early or are damaged");
	return status;
}

static bool is_plain(const Place *at, const Page *page)
{
	uint16_t order = FILLORDER_MSB2LSB;
	TIFFGetFieldDefaulted(at->tiff, TIFFTAG_FILLORDER, &order);
	return !page->packed && order == FILLORDER_MSB2LSB;
}

/* libtiff swaps the numbers that it reads itself. */
static void swap_numbers(const Page *page, int64_t count, void *numbers)
{
	if (page->element.bytes == 2)
		TIFFSwabArrayOfShort(numbers, count);
	else if (page->element.bytes == 4)
		TIFFSwabArrayOfLong(numbers, count);
	else if (page->element.bytes == 8)
		TIFFSwabArrayOfLong8(numbers, count);
}

/* `buffer` receives a whole strip, if it is compressed. */
static tomos_status read_strips(
	const Place *at, const Page *page, const Extract *part, char *buffer, char *stored)
{
	uint32_t rows = 0;
	int64_t line = page->width * page->element.bytes, low, high;
	bool plain = is_plain(at, page), swapped = plain && TIFFIsByteSwapped(at->tiff);
	TIFFGetFieldDefaulted(at->tiff, TIFFTAG_ROWSPERSTRIP, &rows);
	for (int64_t y = part->row / rows * rows; y < part->row + part->rows; y += rows) {
		int64_t height = min64(rows, page->height - y);
		overlap(part, y, height, &low, &high);
		char *to = stored + (low - part->row) * line;
		if (plain)
			TRY(read_plain(at, page, y / rows, low - y, (high - low) * line, to));
		else if (TIFFReadEncodedStrip(at->tiff, (uint32_t)(y / rows), buffer,
				 height * line) != height * line)
			return tiff_reject(
				at->path, at->number, "the data end too early or are damaged");
		else
			memcpy(to, buffer + (low - y) * line, (size_t)((high - low) * line));
		if (swapped)
			swap_numbers(page, (high - low) * page->width, to);
	}
	return TOMOS_OK;
}

static tomos_status read_tiles(
	const Place *at, const Page *page, const Extract *part, char *buffer, char *stored)
{
	uint32_t width = 0, height = 0;
	int64_t low, high, size = page->element.bytes;
	TIFFGetField(at->tiff, TIFFTAG_TILEWIDTH, &width);
	TIFFGetField(at->tiff, TIFFTAG_TILELENGTH, &height);
	for (int64_t y = part->row / height * height; y < part->row + part->rows; y += height)
		for (int64_t x = 0; x < page->width; x += width) {
			if (TIFFReadTile(at->tiff, buffer, (uint32_t)x, (uint32_t)y, 0, 0) < 0)
				return tiff_reject(at->path, at->number,
					"the data end too early or are damaged");
			overlap(part, y, min64(height, page->height - y), &low, &high);
			for (int64_t r = low; r < high; r++)
				memcpy(stored + ((r - part->row) * page->width + x) * size,
					buffer + (r - y) * width * size,
					(size_t)(min64(width, page->width - x) * size));
		}
	return TOMOS_OK;
}

/* The size of a strip or tile according to libtiff, which must agree with the tags. */
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
		return tiff_reject(
			at->path, at->number, "the size of the strips or tiles is wrong");
	return TOMOS_OK;
}

tomos_status page_read(const Place *at, const Page *page, const Extract *part, void *stored)
{
	int64_t bytes;
	char *buffer;
	TRY(piece_bytes(at, page, &bytes));
	if (bytes / LARGEST_RATIO > at->size)
		return tiff_reject(
			at->path, at->number, "the size of the strips or tiles is too large");
	TRY(mem_alloc(&buffer, bytes, 1, "a strip or tile of a TIFF file"));
	tomos_status status = TIFFIsTiled(at->tiff) ? read_tiles(at, page, part, buffer, stored)
						    : read_strips(at, page, part, buffer, stored);
	mem_free(buffer);
	return status;
}
