/* Declarations for the source files of the TIFF format. */
#ifndef TOMOS_IO_TIFF_PARTS_H
#define TOMOS_IO_TIFF_PARTS_H

#include <tiffio.h>
#include "io/io.h"

/* Properties common to all pages. */
typedef struct {
	int64_t width, height;
	Element element;
	bool packed; /* compressed, at least one page */
} Page;

typedef struct {
	bool stack;
	Page page;
	int64_t count;
	/* reading: one file and the offsets of its pages, or the names of the files */
	TIFF *tiff;
	uint64_t *offsets;
	char **names;
	/* writing */
	int descriptor;
	Reserve *reserve;
	bool big, ome;
	GridNumbers grid;
	double low, high; /* range of values to show; equal: unknown */
} Tiff;

tomos_status tiff_make(File *file, Tiff **own);

/* ---- libtiff, without its printing ----------------------------------------------------------- */

tomos_status tiff_open_file(TIFF **tiff, int64_t *size, const char *path);
/* "'path', page 3: what: message of libtiff", the first (innermost) one since tiff_forget. */
tomos_status tiff_reject(const char *path, int64_t page, const char *what);
void tiff_forget(void);

/* ---- pages ----------------------------------------------------------------------------------- */

/* A page: its file, and its number for messages. */
typedef struct {
	TIFF *tiff;
	const char *path;
	int64_t number, size; /* size of the file */
} Place;

/* The current page of libtiff; rejected unless it has one sample per pixel, of a known type. */
tomos_status page_describe(TIFF *tiff, const char *path, int64_t at, Page *page);
/* All pages must have the same size and type. */
tomos_status page_same(const Page *page, const Page *next, const char *path, int64_t at);
/* Rejects `count` pages that cannot be in a file of `size` bytes. */
tomos_status page_check_size(const char *path, const Page *page, int64_t count, int64_t size);
tomos_status page_read(const Place *at, const Page *page, const Extract *part, void *stored);

/* The grid and the units that the description of the current page says. */
void tiff_take_text(File *file, TIFF *tiff);

/* ---- writing --------------------------------------------------------------------------------- */

/* The description of a volume, with the zero at its end; its room is a constant of the file. */
int64_t tiff_text(const File *file, char *text);
int64_t tiff_text_room(const Tiff *own);
bool tiff_is_ome(const char *path);
/* Pixels per unit of length, as fractions. */
void tiff_resolution(const File *file, uint32_t x[2], uint32_t y[2], int *unit);
void tiff_rational(double number, uint32_t fraction[2]);

tomos_status tiff_put(File *file, const char *name, const double *values, const int64_t shape[2]);
tomos_status tiff_create(File *file);
tomos_status tiff_write(File *file, int64_t first, int64_t count, int threads, const void *stored);
tomos_status tiff_read_back(File *file, int64_t index, void *stored);
tomos_status tiff_finish(File *file);

#endif
