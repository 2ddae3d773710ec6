/* Scans as measured: views, flats and darks of any file that holds them. */
#ifndef TOMOS_RUN_SCAN_H
#define TOMOS_RUN_SCAN_H

#include "base/keys.h"
#include "base/xml.h"
#include "io/io.h"

typedef struct {
	File *file;
	int64_t count;
	int64_t *list;  /* the index in the file of each frame; NULL: 0 to count - 1 */
	double *places; /* how many views came before each frame; NULL: not known */
	bool sinograms; /* the file is [row][frame][column] */
} FrameSet;

typedef struct ScanKind ScanKind;

/* What a scanner's file says of its geometry, beside angles and pixels. The words in `read` are
 * shown by tomos info and kept with the result. */
typedef struct {
	const char *geometry; /* "cone" or "parallel"; NULL: nothing is said */
	double source_axis, source_detector;
	double axis, axis_row;      /* detector column and row; NAN: not said */
	double roll, slant, swivel; /* radians */
	bool direction_known;       /* false: the angles may have the other sign */
	double white;               /* counts without an object; 0: not said */
	char *read;                 /* lines "name      what was read\n"; NULL: nothing */
} ScanSetup;

enum { FLIP_COLUMNS, FLIP_ROWS };

struct tomos_scan {
	const ScanKind *kind;
	char *path;
	FrameSet sets[3]; /* by tomos_frames */
	int64_t rows, columns;
	double *angles;           /* radians, one per view; NULL: not known */
	bool unsaid_radians;      /* their unit was not said, and is taken to be that */
	double *shifts[2];        /* in columns and rows; NULL: none */
	double pixel[2];          /* width and height in mm; 0: not known */
	double distance, energy;  /* mm, keV; 0: not known */
	bool half;                /* half acquisition: 360 degrees with the axis near one edge */
	tomos_geometry *geometry; /* the file's own; NULL: none */
	ScanSetup setup;
	bool flip[2];  /* columns, rows: frames are mirrored when they are read */
	bool mirrored; /* columns: by the options */
};

/* One kind of scan. A file is opened by the first kind whose probe accepts it; `look` is the file
 * without its data. Files of scanners are recognised by their first bytes instead, with a zero
 * after them, and have one of the last three functions: it takes what the file says. */
struct ScanKind {
	const char *name;
	tomos_status (*probe)(const File *look, bool *fits);
	tomos_status (*open)(tomos_scan *scan, const File *look, const tomos_source_options *o);
	bool (*head)(const char *head, size_t length);
	const char *title; /* of a scanner's file */
	tomos_status (*keys)(tomos_scan *scan, const Keys *keys);
	tomos_status (*xml)(tomos_scan *scan, const XmlNode *root);
	tomos_status (*folder)(
		tomos_scan *scan, const char *folder); /* that of the file, with '/' */
};

extern const ScanKind scan_nexus, scan_exchange, scan_own, scan_npz, scan_stack, scan_array;
#define SCANNER(name) extern const ScanKind scanner_##name;
#include "run/scanners.def"
#undef SCANNER
extern const char *const scan_set_names[3]; /* by tomos_frames */

/* ---- scanners ------------------------------------------------------------------------------- */

/* The scanner's file at `path`, or NULL. */
tomos_status scanner_find(const ScanKind **kind, const char *path);
tomos_status scanner_open(tomos_scan *scan);
/* The white level as a flat field: `i0` of the options, otherwise what the scanner says where there
 * are no flats. */
tomos_status scan_white(tomos_scan *scan, const tomos_source_options *o);
/* Completes options that are not given with what the scanner says. *lists has the values that they
 * point to. */
typedef struct {
	double source_axis, source_detector, axis, axis_row;
} SetupLists;
tomos_status scan_setup_take(const tomos_scan *scan, tomos_scan_options *o, SetupLists *lists);
bool scan_axis_known(const tomos_scan *scan);

/* ---- for the kinds -------------------------------------------------------------------------- */

/* All frames of a file, or of one dataset of it ("": the one it has). */
tomos_status frames_open(FrameSet *set, const char *path, const char *dataset, const char *raw);
void frames_close(FrameSet *set);
/* Escapes characters that have a meaning in patterns of file names. */
void pattern_escape(char *to, size_t size, const char *from);
/* The views' shape from their file, and whether it is in order of sinograms. */
tomos_status scan_shape(tomos_scan *scan, const tomos_source_options *o, bool sinograms);
/* Whether a geometry has as many views, rows and columns as the scan. */
tomos_status scan_fits(const tomos_scan *scan, const tomos_geometry *geometry);

/* Reads frames as [frame][row][column] in the type in which they are stored, which is that of
 * scan->sets[which].file->element; to values by its scale and offset. On at most `threads`
 * threads. */
tomos_status scan_read_stored(
	tomos_scan *scan, tomos_frames which, const Extract *part, int threads, void *stored);

/* Rows that are unpacked together, where reading a part of a chunk unpacks all of it; else 1. */
int64_t scan_row_grain(const tomos_scan *scan);
double scan_bytes(const tomos_scan *scan); /* of all frames as stored, unpacked */
void scan_keep(tomos_scan *scan);          /* chunks that were unpacked, for later reads */

bool line_has(const char *lines, const char *name); /* "a\nb\n" */
/* Numbers of a file, converted to radians, mm or keV from the unit in the file (or `fallback`);
 * NULL or 0 if there are none. */
tomos_status scan_lengths(const File *look, const char *name, const char *fallback, double *value);
tomos_status scan_energy(const File *look, const char *name, double *value);
tomos_status scan_angles(
	tomos_scan *scan, const File *look, const char *name, double **angles, int64_t *count);

/* Reduces the list to one angle per view: a longer list loses the angles at its start and end where
 * the stage stood still, while flats and darks were taken. Fails if the numbers still differ. */
tomos_status angles_fit(
	double **fitted, const double *angles, int64_t count, int64_t views, const char *where);
/* Warns about angles that are probably in another unit than they were taken to be. */
tomos_status scan_say_angle_unit(const tomos_scan *scan, const tomos_job *job);
/* Reads angles in degrees from a text file and converts them to radians. */
tomos_status angles_read(double **angles, int64_t *count, const char *path);

#endif
