/* Scans as measured: views, flats and darks of any file that holds them. */
#ifndef TOMOS_RUN_SCAN_H
#define TOMOS_RUN_SCAN_H

#include "io/io.h"

typedef struct {
	File *file;
	int64_t count;
	int64_t *list;  /* the index in the file of each frame; NULL: 0 to count - 1 */
	double *places; /* how many views came before each frame; NULL: not known */
} FrameSet;

typedef struct ScanKind ScanKind;

struct tomos_scan {
	const ScanKind *kind;
	char *path;
	FrameSet sets[3]; /* by tomos_frames */
	bool sinograms;   /* the views' file is [row][view][column] */
	int64_t rows, columns;
	double *angles;           /* radians, one per view; NULL: not known */
	double *shifts[2];        /* in columns and rows; NULL: none */
	double pixel[2];          /* width and height in mm; 0: not known */
	double distance, energy;  /* mm, keV; 0: not known */
	bool half;                /* half acquisition: 360 degrees with the axis near one edge */
	tomos_geometry *geometry; /* the file's own; NULL: none */
};

/* One kind of scan. A file is opened by the first kind whose probe accepts it; `look` is the file
 * without its data. */
struct ScanKind {
	const char *name;
	tomos_status (*probe)(const File *look, bool *fits);
	tomos_status (*open)(tomos_scan *scan, const File *look, const tomos_source_options *o);
};

extern const ScanKind scan_nexus, scan_exchange, scan_own, scan_npz, scan_stack, scan_array;

/* ---- for the kinds -------------------------------------------------------------------------- */

/* All frames of a file, or of one dataset of it ("": the one it has). */
tomos_status frames_open(FrameSet *set, const char *path, const char *dataset, const char *raw);
void frames_close(FrameSet *set);
/* The first number missing in the names of a stack of files, which may be counted in larger steps
 * than 1. */
typedef struct {
	int64_t number, step; /* number -1: none is missing */
	char after[4096];     /* the file before it */
} Gap;
tomos_status frames_gap(const FrameSet *set, Gap *gap);
/* The views' shape from their file, and whether it is in order of sinograms. */
tomos_status scan_shape(tomos_scan *scan, const tomos_source_options *o, bool sinograms);
/* Whether a geometry has as many views, rows and columns as the scan. */
tomos_status scan_fits(const tomos_scan *scan, const tomos_geometry *geometry);

/* Reads frames as [frame][row][column] in the type in which they are stored, which is that of
 * scan->sets[which].file->element; to values by its scale and offset. On at most `threads`
 * threads. */
tomos_status scan_read_stored(
	tomos_scan *scan, tomos_frames which, const Extract *part, int threads, void *stored);

bool line_has(const char *lines, const char *name); /* "a\nb\n" */
/* Numbers of a file, converted to radians, mm or keV from the unit in the file (or `fallback`);
 * NULL or 0 if there are none. */
tomos_status scan_lengths(const File *look, const char *name, const char *fallback, double *value);
tomos_status scan_energy(const File *look, const char *name, double *value);
tomos_status scan_angles(const File *look, const char *name, double **angles, int64_t *count);

/* Reduces the list to one angle per view: a longer list loses the angles at its start and end where
 * the stage stood still, while flats and darks were taken. Fails if the numbers still differ. */
tomos_status angles_fit(
	double **fitted, const double *angles, int64_t count, int64_t views, const char *where);
/* Reads angles in degrees from a text file and converts them to radians. */
tomos_status angles_read(double **angles, int64_t *count, const char *path);

#endif
