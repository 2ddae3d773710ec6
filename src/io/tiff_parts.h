/* What the files of the TIFF format share. */
#ifndef TOMOS_IO_TIFF_PARTS_H
#define TOMOS_IO_TIFF_PARTS_H

#include <tiffio.h>
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

tomos_status tiff_make(File *file, Tiff **own);

/* ---- libtiff, without its printing -------------------------------------------------------- */

tomos_status tiff_open_file(TIFF **tiff, int64_t *size, const char *path);
/* "'path', page 3: what: what libtiff says", the first since tiff_forget, the innermost. */
tomos_status tiff_reject(const char *path, int64_t page, const char *what);
void tiff_forget(void);

/* ---- pages -------------------------------------------------------------------------------- */

/* Where a page is read from: its file, and its number for messages. */
typedef struct {
	TIFF *tiff;
	const char *path;
	int64_t number, size; /* size: of the file */
} Place;

/* The page libtiff stands at: one plain sample per pixel, of a known type. */
tomos_status page_describe(TIFF *tiff, const char *path, int64_t at, Page *page);
/* All pages must be alike; `packed` stays set once one page is. */
tomos_status page_same(Page *page, const Page *next, const char *path, int64_t at);
/* `count` pages like this one cannot come out of a file of `size` bytes. */
tomos_status page_check_size(const char *path, const Page *page, int64_t count, int64_t size);
tomos_status page_read(const Place *at, const Page *page, const Extract *part, float *data);

/* ---- writing ------------------------------------------------------------------------------ */

tomos_status tiff_create(File *file);
tomos_status tiff_write(File *file, int64_t first, int64_t count, const void *data);
tomos_status tiff_read_back(File *file, int64_t index, void *stored);
tomos_status tiff_finish(File *file);

#endif
