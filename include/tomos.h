/* tomos: tomographic reconstruction. The whole public interface.
 *
 * Failures. Every function that can fail returns a status; tomos_message() then describes the last
 * failure in the calling thread. The library never prints, exits or aborts. A pointer argument that
 * is NULL is rejected, unless its description gives NULL a meaning. Two exceptions are not checked
 * and must not be NULL: the place of a result (`tomos_op **op`, `double *norm`), and an object
 * whose functions return no status (`tomos_geometry_rows(scan)`).
 *
 * Data. Arrays are float in C order: volumes [z][y][x], projections [view][row][column]. Lengths
 * are in one unit of the caller's choice (mm by convention), attenuation in 1/unit, angles in
 * radians.
 *
 * Ownership. You free what you created. Arrays you pass are borrowed for the call and never kept.
 *
 * Structs. A struct whose first member is `bytes` may gain members at its end in later versions.
 * Set bytes to its size and the rest to 0 before the call: `tomos_axis axis = {.bytes = sizeof
 * axis};`, or, for options, `tomos_scan_options o = tomos_scan_defaults();`. A program compiled
 * against an older header then works: members it does not know take their defaults, and nothing is
 * written beyond its struct. A program compiled against a newer header works as long as the members
 * that this library does not know are 0; otherwise the call is rejected (in a struct that is a
 * result they are set to 0). In lists of such structs `bytes` is the distance from one to the next:
 * use TOMOS_ROW(list, i), not list[i]. Structs without `bytes` (tomos_grid, tomos_view,
 * tomos_array, tomos_ellipsoid, tomos_progress, tomos_cancel) do not change.
 *
 * Threads. Calls on different objects may run at the same time in different threads. On the same
 * object:
 *   tomos_geometry, tomos_phantom  any calls but free; they are immutable
 *   tomos_backend                  any calls but close, tomos_tune and tomos_tuned_forget; a
 *                                  device processes calls one after the other
 *   tomos_op                       any calls but free; operators and backends it was made from
 *                                  must exist until it is freed
 *   tomos_file                     one call at a time; tomos_file_write also at the same time for
 *                                  different indices
 *   tomos_scan, tomos_prepared     one call at a time
 *   arrays and structs             any number of calls that read one, or one call that writes it
 * Two calls must not write the same file. tomos_set_threads and the pool of threads are common to
 * the process. tomos_message and tomos_cancel_on belong to the calling thread; callbacks are called
 * from it.
 */
#ifndef TOMOS_H
#define TOMOS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined _WIN32
#define TOMOS_API
#else
#define TOMOS_API __attribute__((visibility("default")))
#endif

#define TOMOS_VERSION "0.2.0"
#define TOMOS_VERSION_NUMBER 200 /* 10000 major + 100 minor + patch, to be compared */

/* ---- status ------------------------------------------------------------------------------- */

typedef enum tomos_status {
	TOMOS_OK = 0,
	TOMOS_BAD_VALUE, /* an argument is out of range, or two disagree */
	TOMOS_NO_MEMORY,
	TOMOS_IO,          /* a file cannot be opened, read, written or renamed */
	TOMOS_BAD_FILE,    /* a file's content is not what it should be */
	TOMOS_UNSUPPORTED, /* valid, but not built or not possible */
	TOMOS_NO_DEVICE,
	TOMOS_CANCELLED,
	TOMOS_DIVERGED, /* an iteration whose residual grows without bound, or is not finite */
	TOMOS_CALLBACK_FAILED /* a function of a tomos_custom operator returned other than 0 */
} tomos_status;

TOMOS_API const char *tomos_message(void); /* describes the last failure in this thread */
TOMOS_API const char *tomos_status_name(tomos_status status);
TOMOS_API const char *tomos_version(void);
TOMOS_API int tomos_version_number(void);
/* Whether the library loaded at run time can replace the one that the program was compiled
 * against: tomos_version_check(TOMOS_VERSION_NUMBER). Major and minor version must be the same,
 * and the library must not be older. */
TOMOS_API tomos_status tomos_version_check(int compiled_against);

/* Row i of a list of structs that begin with `bytes`. */
#define TOMOS_ROW_AT(list, i) ((const char *)(list) + (size_t)(i) * (list)->bytes)
#ifdef __cplusplus
#define TOMOS_ROW(list, i) ((decltype(&*(list)))TOMOS_ROW_AT(list, i))
#else
#define TOMOS_ROW(list, i) ((const void *)TOMOS_ROW_AT(list, i))
#endif

/* ---- options ------------------------------------------------------------------------------ */

/* Each group of options is a struct, tomos_algebraic_options, and a function that returns it
 * with its defaults:  tomos_algebraic_options o = tomos_algebraic_defaults();  o.iterations =
 * 50; */
#include "tomos/options.h"

typedef enum tomos_option_kind {
	TOMOS_INT,
	TOMOS_REAL,
	TOMOS_ANGLE,
	TOMOS_FLAG,
	TOMOS_TEXT,
	TOMOS_CHOICE,
	TOMOS_INTS,
	TOMOS_REALS,
	TOMOS_ANGLES,
	TOMOS_ARRAY,
	TOMOS_HISTORY,
	TOMOS_LENGTH,
	TOMOS_ENERGY,
	TOMOS_SIZE,
	TOMOS_LENGTHS
} tomos_option_kind;

/* One row of options.def, for programs that make their own interface from the table. */
typedef struct tomos_option {
	size_t bytes;
	const char *name;
	tomos_option_kind kind;
	const char *fallback; /* the default as text, "" for none */
	const char *values;   /* "a|b|c" for a choice, otherwise the unit or form of the value */
	const char *help;
	size_t offset;       /* of the member in the struct */
	size_t count_offset; /* of the number of elements, for lists */
	const char *needs;   /* option required for it to have an effect; "": none */
} tomos_option;

/* Rows of "scan", "grid", "projector", ...; NULL for an unknown group. */
TOMOS_API const tomos_option *tomos_options(const char *group, int *count);
/* Checks the numbers of a group's struct against the ranges in options.def. Every function that
 * takes options does so. */
TOMOS_API tomos_status tomos_options_check(const char *group, const void *options);
/* Index of the first option that is given without the option it needs; -1: none. Bit i of
 * *given: row i is given; NULL: rows whose value differs from the default. `facts` states what
 * the struct does not contain, "method=sirt flats=3"; a need about which neither the facts nor
 * the rows say anything counts as met. Every function that takes options checks this. */
TOMOS_API int tomos_option_unmet(const tomos_option *rows, int count, const void *options,
	const uint64_t *given, const char *facts);
/* The need of a row as text: "rings=vo"; typed: as on the command line, "--rings vo". */
TOMOS_API void tomos_option_needs(const tomos_option *row, int typed, char *text, size_t size);
/* The name in "a|b|c" that is most similar to a mistyped one; "" if none is similar. Valid until
 * the next call from this thread. */
TOMOS_API const char *tomos_name_nearest(const char *names, const char *text);
/* A number with a unit, "1.17um", "60 mm", "20keV", in mm or keV; without a unit it is returned
 * as it is. */
TOMOS_API tomos_status tomos_length_parse(const char *text, double *millimetres);
TOMOS_API tomos_status tomos_energy_parse(const char *text, double *kiloelectronvolts);
/* "512M", "2G", "1.5 GiB" or a plain number, into bytes; K, M, G and T are powers of 1024. */
TOMOS_API tomos_status tomos_size_parse(const char *text, int64_t *bytes);

/* ---- grids and scans ---------------------------------------------------------------------- */

typedef struct tomos_grid {
	int64_t n[3];    /* voxels along x, y, z */
	double first[3]; /* centre of voxel (0, 0, 0) */
	double step[3];  /* from one voxel to the next, signed, never zero */
} tomos_grid;

/* Where the rays of a view come from: the value of its src[3]. */
typedef enum tomos_source {
	TOMOS_PARALLEL,   /* rays are parallel to src */
	TOMOS_POINT,      /* rays start at src */
	TOMOS_FAN_PER_ROW /* each row is a fan of its own: rays of the row that is r rows above the
	                   * middle of the detector start at src + r v */
} tomos_source;

typedef struct tomos_view {
	double src[4]; /* source or direction x, y, z, and a tomos_source */
	double det[3]; /* centre of the detector */
	double u[3];   /* one column step */
	double v[3];   /* one row step */
} tomos_view;

typedef struct tomos_geometry
	tomos_geometry; /* an immutable list of views and the detector's size */

/* The default orientation: centred on the origin, x to the right, y index downwards, z upwards. */
TOMOS_API tomos_status tomos_grid_centred(
	tomos_grid *grid, int64_t nx, int64_t ny, int64_t nz, double voxel);
/* The default grid of a scan: as many voxels as pixels, of the pixel's size at the rotation
 * axis; of a full turn with the detector offset by 5 % of its columns or more (half acquisition),
 * those of the long side twice. That of a helix reaches from its lowest source to its highest, if
 * that is more. */
TOMOS_API tomos_status tomos_grid_for(
	tomos_grid *grid, const tomos_geometry *scan, const tomos_grid_options *options);
TOMOS_API tomos_status tomos_grid_check(const tomos_grid *grid);

TOMOS_API tomos_status tomos_geometry_parallel(tomos_geometry **scan, int64_t rows, int64_t columns,
	double pixel, const double *angles, int64_t count);
/* One detector row; tomos_geometry_make also makes several, each a fan beam in its own slice. */
TOMOS_API tomos_status tomos_geometry_fan(tomos_geometry **scan, int64_t columns, double pixel,
	double source_axis, double source_detector, const double *angles, int64_t count);
TOMOS_API tomos_status tomos_geometry_cone(tomos_geometry **scan, int64_t rows, int64_t columns,
	double pixel, double source_axis, double source_detector, const double *angles,
	int64_t count);
/* Any kind of scan, with every setting: offsets, detector rotations, values per view. */
TOMOS_API tomos_status tomos_geometry_make(
	tomos_geometry **scan, const tomos_scan_options *options);
TOMOS_API tomos_status tomos_geometry_views(tomos_geometry **scan, int64_t rows, int64_t columns,
	const tomos_view *views, int64_t count);
/* Rows of 12 numbers in ASTRA's order: ray or source, detector centre, u, v. */
TOMOS_API tomos_status tomos_geometry_vectors(tomos_geometry **scan, int64_t rows, int64_t columns,
	int point_source, const double *vectors, int64_t count);
/* Rows of 6 numbers in the order of ASTRA's 2D vectors, for one row of pixels in the plane z =
 * 0: ray or source, detector centre, u, each (x, y). */
TOMOS_API tomos_status tomos_geometry_vectors_2d(tomos_geometry **scan, int64_t columns,
	int point_source, const double *vectors, int64_t count);
/* .json, or .txt with 12 columns, or 6 for one row of pixels. A .txt file needs the detector's
 * size and the kind of source; 0, 0 and -1: from its first line, as tomos_geometry_write wrote
 * it. */
TOMOS_API tomos_status tomos_geometry_read(
	tomos_geometry **scan, const char *path, int64_t rows, int64_t columns, int point_source);
/* The same, and geometry files of other programs: RTK (.xml, which needs the size of the pixels in
 * mm), TIGRE (its fields as .json), LEAP (parameters of a cone or modular beam), CWI (.geom, with
 * sources) and projection matrices (three lines of four numbers per view, or in the header of a
 * NRRD file). Files that do not hold the detector's size need it. */
TOMOS_API tomos_status tomos_geometry_import(tomos_geometry **scan, const char *path, int64_t rows,
	int64_t columns, int point_source, double pixel, double pixel_height);
/* Whether directions of parallel rays may be positions of sources: 1 where their lengths are far
 * from those of unit vectors, which directions are as a rule; they are *low to *high then. */
TOMOS_API int tomos_geometry_doubt(const tomos_geometry *scan, double *low, double *high);
TOMOS_API tomos_status tomos_geometry_write(
	const tomos_geometry *scan, const char *path, const tomos_file_options *options);
TOMOS_API void tomos_geometry_free(tomos_geometry *scan);

TOMOS_API int64_t tomos_geometry_count(const tomos_geometry *scan);
TOMOS_API int64_t tomos_geometry_rows(const tomos_geometry *scan);
TOMOS_API int64_t tomos_geometry_columns(const tomos_geometry *scan);
TOMOS_API const tomos_view *tomos_geometry_list(const tomos_geometry *scan);

/* ---- arrays and progress ------------------------------------------------------------------ */

typedef struct tomos_array {
	float *data;
	int64_t shape[3];
	int64_t stride[3]; /* in elements */
	int device;        /* 0: host memory; otherwise from tomos_array_create */
} tomos_array;

TOMOS_API tomos_array tomos_array_of(float *data, int64_t n0, int64_t n1, int64_t n2);

/* Called between steps; a result other than 0 cancels. Where the number of steps is not known in
 * advance, done and total are 0. */
typedef struct tomos_progress {
	int (*report)(void *user, const char *stage, int64_t done, int64_t total, double value);
	void *user;
} tomos_progress;

/* A flag that ends a call from outside: while it is raised, calls that compute, read or write,
 * made from a thread that watches it, end within a fraction of a second with TOMOS_CANCELLED;
 * their results are then undefined, and files that are not yet committed stay so. Clear it only
 * after the call has returned. All zero at the start (`static tomos_cancel stop;`); the member
 * is private, and accessed atomically. */
typedef struct tomos_cancel {
	int raised;
} tomos_cancel;

TOMOS_API void tomos_cancel_on(const tomos_cancel *flag); /* this thread watches it; NULL: none */
TOMOS_API void tomos_cancel_raise(tomos_cancel *flag);    /* from any thread, or a signal handler */
TOMOS_API void tomos_cancel_clear(tomos_cancel *flag);
TOMOS_API int tomos_cancel_raised(const tomos_cancel *flag);

/* ---- phantoms with known projections ------------------------------------------------------ */

typedef struct tomos_ellipsoid {
	double centre[3];
	double axes[3];  /* half lengths; INFINITY: a cylinder along that axis */
	double euler[3]; /* z-x-z rotation of the axes, radians */
	double value;    /* added inside */
} tomos_ellipsoid;

typedef struct tomos_phantom tomos_phantom;

/* ball, shepp-logan, shepp-logan-modified, shepp-logan-2d, shepp-logan-2d-modified, defrise,
 * random */
TOMOS_API tomos_status tomos_phantom_named(
	tomos_phantom **phantom, const char *name, const tomos_phantom_options *options);
TOMOS_API tomos_status tomos_phantom_ellipsoids(
	tomos_phantom **phantom, const tomos_ellipsoid *list, int64_t count);
TOMOS_API void tomos_phantom_free(tomos_phantom *phantom);
TOMOS_API const tomos_ellipsoid *tomos_phantom_list(const tomos_phantom *phantom, int64_t *count);
TOMOS_API const char *tomos_phantom_names(void); /* "a|b|c" */
/* Values at the voxel centres, or the average of samples^3 points per voxel. */
TOMOS_API tomos_status tomos_phantom_volume(const tomos_phantom *phantom, const tomos_grid *grid,
	int64_t samples, const tomos_array *volume);
/* Exact line integrals at the pixel centres, or the average of samples^2 rays per pixel. */
TOMOS_API tomos_status tomos_phantom_project(const tomos_phantom *phantom,
	const tomos_geometry *scan, int64_t samples, const tomos_array *projections);
/* Adds Gaussian noise e with exactly ||e|| / ||b|| = level. */
TOMOS_API tomos_status tomos_noise_gaussian(const tomos_array *b, double level, uint64_t seed);
/* Replaces b by -log(n / photons), n a Poisson count (at least 1) of mean photons exp(-b). */
TOMOS_API tomos_status tomos_noise_poisson(const tomos_array *b, double photons, uint64_t seed);

typedef struct tomos_difference {
	size_t bytes;
	double relative_l2, psnr, ssim, largest; /* of a - b; psnr and ssim over the range of a */
} tomos_difference;
TOMOS_API tomos_status tomos_compare(
	const tomos_array *a, const tomos_array *b, tomos_difference *difference);

/* ---- files -------------------------------------------------------------------------------- */

typedef enum tomos_content { TOMOS_VOLUME, TOMOS_PROJECTIONS, TOMOS_UNKNOWN } tomos_content;

typedef struct tomos_file tomos_file;

typedef struct tomos_file_info {
	size_t bytes;
	const char *format;  /* "hdf5", "npy", "tiff", ...; the strings live as long as the file */
	const char *type;    /* as stored: "float32", "uint16", ... */
	const char *dataset; /* HDF5: where the data were found, else "" */
	tomos_content content;
	int64_t shape[3];
	int has_grid, has_geometry;
	int64_t unpacked;        /* 1: while it is open, an unpacked copy of it is in $TMPDIR */
	const char *length_unit; /* "mm"; "pixel": the size of pixels is not known; "": not said */
	const char *value_unit;  /* "1/mm", "HU", ...; "": not said */
} tomos_file_info;

/* Reading: the kind is found from the content. A directory is a TIFF stack. */
TOMOS_API tomos_status tomos_file_open(
	tomos_file **file, const char *path, const tomos_file_options *options);
TOMOS_API tomos_status tomos_file_describe(const tomos_file *file, tomos_file_info *info);
/* Of a stack of numbered files: the first number that is missing, or -1, and in after[size] the
 * name of the file before the gap, cut off if it is longer; "" if the first files are missing. */
TOMOS_API tomos_status tomos_file_gap(
	const tomos_file *file, int64_t *number, char *after, size_t size);
TOMOS_API tomos_status tomos_file_read(
	tomos_file *file, int64_t first, int64_t count, float *data); /* along the first axis */
/* A box: count[a] samples along axis a from first[a] on, step[a] apart, as floats in C order. Reads
 * little more than the samples, as far as the format allows. */
TOMOS_API tomos_status tomos_file_read_box(tomos_file *file, const int64_t first[3],
	const int64_t count[3], const int64_t step[3], float *data);
/* Number of levels of resolution of an OME-Zarr file, which option `level` selects from; 1 for any
 * other file. */
TOMOS_API int tomos_file_levels(const tomos_file *file);
TOMOS_API tomos_status tomos_file_grid(const tomos_file *file, tomos_grid *grid);
TOMOS_API tomos_status tomos_file_geometry(const tomos_file *file, tomos_geometry **scan);
/* The format in which a file of this name is written: "hdf5", "npy", ...; "": none. */
TOMOS_API const char *tomos_output_format(const char *path);
/* Writing: the kind follows from the name; the file appears under it at tomos_file_commit. */
TOMOS_API tomos_status tomos_file_create(tomos_file **file, const char *path, tomos_content content,
	const int64_t shape[3], const tomos_file_options *options);
TOMOS_API tomos_status tomos_file_set_grid(tomos_file *file, const tomos_grid *grid);
/* Units of lengths and values, at most 15 letters, as in tomos_file_info; NULL leaves them as they
 * are. Without this call lengths are in mm, except for steps of 1, and the unit of values is not
 * known. Formats without a place for units ignore them. */
TOMOS_API tomos_status tomos_file_set_units(
	tomos_file *file, const char *length, const char *value);
TOMOS_API tomos_status tomos_file_set_geometry(tomos_file *file, const tomos_geometry *scan);
/* Provenance: a text stored as process/NAME in HDF5 and Zarr files; other formats ignore it. */
TOMOS_API tomos_status tomos_file_set_text(tomos_file *file, const char *name, const char *text);
/* Such a text of a file, cut off where it is longer than text[size]; "": there is none. */
TOMOS_API tomos_status tomos_file_text(
	const tomos_file *file, const char *name, char *text, size_t size);
TOMOS_API tomos_status tomos_file_write(
	tomos_file *file, int64_t first, int64_t count, const float *data);
TOMOS_API tomos_status tomos_file_commit(tomos_file *file); /* after this, only close */
TOMOS_API void tomos_file_close(tomos_file *file);          /* without commit: nothing is left */
/* HDF5 files that tomos wrote have a checksum per index of the first axis: the first that does
 * not fit its data is rejected. A file without them is TOMOS_UNSUPPORTED. */
TOMOS_API tomos_status tomos_file_verify(tomos_file *file, const tomos_progress *progress);
/* These checksums, CRC-32 of the stored bytes of each index of the first axis. */
TOMOS_API tomos_status tomos_file_checksums(tomos_file *file, uint32_t *checksums);
/* The libraries for files and their versions, "HDF5 1.14.0, libpng 1.6.39, ..."; static storage. */
TOMOS_API const char *tomos_libraries(void);
/* For programs that exit without closing files: removes all files not yet committed. Not for
 * signal handlers, since it takes a lock: let the handler raise a tomos_cancel. */
TOMOS_API void tomos_file_discard_all(void);
/* Rejects NaN and infinity: "'name' has 12 values that are not finite, the first at [3][0][7]". */
TOMOS_API tomos_status tomos_array_check(const tomos_array *array, const char *name);
/* Rejects a result that is not finite; `first` is the index of its first slice or view, for the
 * message. Everything written to files is checked with it. */
TOMOS_API tomos_status tomos_result_check(
	const tomos_array *result, int64_t first, const char *name);

/* Whether a file or folder of that name can be written: its folder exists and is writable, and
 * the name is free unless overwrite is set. Call it for every output before the work. */
TOMOS_API tomos_status tomos_output_check(const char *path, int overwrite);

/* An 8-bit grey picture; low maps to black, high to white. */
TOMOS_API tomos_status tomos_picture_write(const char *path, const float *data, int64_t width,
	int64_t height, double low, double high, const tomos_file_options *options);
/* A picture of bytes [row][column][channel]: 1 channel is grey, 3 are RGB. */
TOMOS_API tomos_status tomos_picture_write_bytes(const char *path, const unsigned char *pixels,
	int64_t width, int64_t height, int64_t channels, const tomos_file_options *options);
/* The same as the bytes of a PNG file in memory, to be freed by tomos_picture_free. */
TOMOS_API tomos_status tomos_picture_encode(unsigned char **png, int64_t *bytes,
	const unsigned char *pixels, int64_t width, int64_t height, int64_t channels);
TOMOS_API void tomos_picture_free(unsigned char *png);

/* ---- scans as measured -------------------------------------------------------------------- */

typedef struct tomos_scan tomos_scan; /* views, flats and darks, with what the file says of them */

typedef enum tomos_frames { TOMOS_VIEWS, TOMOS_FLATS, TOMOS_DARKS } tomos_frames;

typedef struct tomos_scan_info {
	size_t bytes;
	const char *kind; /* "data-exchange", "nxtomo", "tomos", "tiff-folder", "array", or the
			   * scanner: "nikon" */
	const char *format, *type, *dataset; /* of the views; live as long as the scan */
	int counts; /* 1: detector counts, to be divided by flats; 0: line integrals */
	int64_t views, rows, columns, flats, darks;
	int has_angles, has_geometry;
	int has_places; /* 1: the file states after which views flats and darks were taken */
	int has_shifts;
	int half; /* 1: half acquisition: 360 degrees with the axis near one edge */
	double pixel, pixel_height, distance, energy; /* mm and keV; 0: not known */
	/* Files of scanners: kind of geometry, "": unknown; what was read, as lines of text;
	 * lengths in mm, detector column and row (NAN: unknown), radians; counts without an object
	 * (0: unknown). direction_known 0: the angles may have the other sign. */
	const char *geometry, *read;
	double source_axis, source_detector, axis, axis_row, roll, slant, swivel, white;
	int64_t direction_known;
	const char *length_unit; /* of the geometry in the file: "mm", "pixel"; "": unknown */
} tomos_scan_info;

/* Data Exchange, NXtomo, HDF5 files of tomos, folders of TIFF files whose names tell views from
 * flats and darks, and plain arrays of any format: found from the content. */
TOMOS_API tomos_status tomos_scan_open(
	tomos_scan **scan, const char *path, const tomos_source_options *options);
TOMOS_API void tomos_scan_close(tomos_scan *scan);
TOMOS_API tomos_status tomos_scan_describe(const tomos_scan *scan, tomos_scan_info *info);
/* Frames [first, first + count), rows [row, row + rows) of each, as [frame][row][column]. */
TOMOS_API tomos_status tomos_scan_read(tomos_scan *scan, tomos_frames which, int64_t first,
	int64_t count, int64_t row, int64_t rows, float *data);
/* A box of samples, step[a] apart along frames, rows and columns, as of tomos_file_read_box. */
TOMOS_API tomos_status tomos_scan_read_box(tomos_scan *scan, tomos_frames which,
	const int64_t first[3], const int64_t count[3], const int64_t step[3], float *data);
/* Lists of one number per view, flat or dark: radians; how many views came before the frame;
 * columns and rows by which a view is displaced (0 where the file has none). */
TOMOS_API tomos_status tomos_scan_angles(const tomos_scan *scan, double *angles);
TOMOS_API tomos_status tomos_scan_places(
	const tomos_scan *scan, tomos_frames which, double *places);
TOMOS_API tomos_status tomos_scan_shifts(const tomos_scan *scan, double *columns, double *rows);
/* tomos_file_gap of the files of these frames. */
TOMOS_API tomos_status tomos_scan_gap(
	const tomos_scan *scan, tomos_frames which, int64_t *number, char *after, size_t size);
/* The geometry: without options the file's own, if it has one. Rows, columns, views and, unless
 * given, angles are the scan's: others are rejected where it has its own, unless replace_angles
 * is set. Pixel 0: the size that the file has, otherwise 1 for parallel rays; point sources need
 * one. */
TOMOS_API tomos_status tomos_scan_geometry(
	const tomos_scan *scan, tomos_geometry **geometry, const tomos_scan_options *options);
/* What the file has, for the `facts` of tomos_option_unmet: "flats=20 places=1 shifts=0". */
TOMOS_API void tomos_scan_facts(const tomos_scan *scan, char *facts, size_t size);

/* ---- preparation: from counts to line integrals ---------------------------------------------- */

/* Flats and darks [image][row][column]; darks NULL: none. */
typedef struct tomos_fields {
	size_t bytes;
	const tomos_array *flats, *darks;
	const double *flat_views; /* number of views taken before each flat; NULL: not known */
	double first_view;        /* index in the scan of the first view of the data */
} tomos_fields;

/* Values changed by the preparation; every step adds to them, so that one report is of all parts of
 * a scan. */
typedef struct tomos_prep_report {
	size_t bytes;
	int64_t repaired; /* values without light or not finite, interpolated along their row */
	int64_t raised;  /* values below the floor */
	int64_t zingers; /* values replaced by a median */
	int64_t stripes; /* columns replaced or levelled as broken or as large stripes */
	int64_t views;   /* bad ones, interpolated or left out: the most of one call */
} tomos_prep_report;

/* The steps, in place on [view][row][column]. Results depend neither on the number of threads
 * nor on how rows are distributed over calls, as long as each call has the rows and views that
 * the step needs (tomos_prep_reach). A report may be NULL. normalize and zingers give
 * transmissions; log converts them to line integrals; rings, phase and hardening process line
 * integrals; bad_views and shift process either. */
TOMOS_API tomos_status tomos_prep_normalize(const tomos_array *counts, const tomos_fields *fields,
	const tomos_prep_options *options, tomos_prep_report *report);
#define TOMOS_PREP_STEP(step) \
	TOMOS_API tomos_status tomos_prep_##step(const tomos_array *data, \
		const tomos_prep_options *options, tomos_prep_report *report)
TOMOS_PREP_STEP(bad_views); /* interpolates them */
TOMOS_PREP_STEP(zingers);
TOMOS_PREP_STEP(scatter); /* of transmissions */
TOMOS_PREP_STEP(log);
TOMOS_PREP_STEP(rings);
TOMOS_PREP_STEP(shift);
TOMOS_PREP_STEP(phase);
TOMOS_PREP_STEP(hardening);
/* Averages of bin x bin pixels; pixels left over at the end of a row or column are ignored. */
TOMOS_API tomos_status tomos_prep_bin(
	const tomos_array *data, int64_t bin, const tomos_array *binned);

/* The coefficients A1, A2, ... (`count`, up to 3) of the polynomial that makes the line integrals
 * behind a step wedge proportional to its thickness; A1 is 1. pairs: thickness and line integral of
 * each step, `values` numbers. */
TOMOS_API tomos_status tomos_hardening_wedge(
	double *coefficients, int64_t count, const double *pairs, int64_t values);

/* Rows and views that the chosen steps need to compute one row. */
typedef struct tomos_reach {
	size_t bytes;
	int all_views, all_rows;
	int64_t rows; /* on either side, if not all are needed */
} tomos_reach;
TOMOS_API tomos_status tomos_prep_reach(const tomos_prep_options *options, tomos_reach *reach);
TOMOS_API const char *tomos_prep_steps(void); /* "normalize|bad-views|..." */
/* The shape after preparation, bad views left out and pixels binned, and the scan that goes with
 * it. */
TOMOS_API tomos_status tomos_prep_shape(
	const tomos_prep_options *options, const int64_t shape[3], int64_t prepared[3]);
TOMOS_API tomos_status tomos_prep_geometry(
	tomos_geometry **prepared, const tomos_geometry *scan, const tomos_prep_options *options);
/* All chosen steps in their order. The data are overwritten; `prepared` may be the same memory
 * if the shape stays the same. Without fields the data are line integrals, or as
 * options->quantity states. */
TOMOS_API tomos_status tomos_prepare(const tomos_array *data, const tomos_fields *fields,
	const tomos_prep_options *options, const tomos_array *prepared, tomos_prep_report *report,
	const tomos_progress *progress);

/* ---- backends ----------------------------------------------------------------------------- */

typedef struct tomos_backend tomos_backend;

TOMOS_API tomos_status tomos_backend_open(tomos_backend **backend, const char *name);
/* "auto", "cpu", "cuda", "cuda:1"; several devices share the work, "cuda:0,1", and with a limit
 * to their memory it is done in pieces. Vectors then live in the host's memory. */
TOMOS_API tomos_status tomos_backend_open_with(
	tomos_backend **backend, const char *name, const tomos_device_options *options);
TOMOS_API void tomos_backend_close(tomos_backend *backend);
TOMOS_API const char *tomos_backend_describe(const tomos_backend *backend);
/* The name of the optimised kernel that did the last projection; "": none, or unknown. */
TOMOS_API const char *tomos_backend_kernel(const tomos_backend *backend);
/* Memory of the backend, for arrays that stay on the device; array->device then says
 * where: 0 the host's memory, 1 and up GPUs. */
TOMOS_API tomos_status tomos_array_create(
	tomos_array *array, tomos_backend *backend, int64_t n0, int64_t n1, int64_t n2);
TOMOS_API void tomos_array_destroy(tomos_array *array, tomos_backend *backend);
/* Between such an array, which is contiguous, and one in the host's memory. */
TOMOS_API tomos_status tomos_array_copy(
	tomos_backend *backend, const tomos_array *from, const tomos_array *to);
/* The largest rates of a device, per second. GPUs report them, those of a CPU are measured; 0:
 * unknown. */
typedef enum tomos_rate {
	TOMOS_RATE_MEMORY,  /* bytes to and from its memory */
	TOMOS_RATE_LINK,    /* bytes each way between it and the host's memory */
	TOMOS_RATE_CACHE,   /* bytes from the first-level cache, or from shared memory */
	TOMOS_RATE_SUMS,    /* multiply-adds of floats */
	TOMOS_RATE_FETCHES, /* interpolated values of texture units */
	TOMOS_RATE_TENSOR,  /* multiply-adds of halves in matrix units */
	TOMOS_RATES
} tomos_rate;

typedef struct tomos_machine {
	size_t bytes;
	char model[96], driver[96];
	int64_t processors; /* SMs of a GPU, threads of a CPU */
	double clock;       /* in Hz */
	double rates[TOMOS_RATES];
} tomos_machine;

TOMOS_API tomos_status tomos_backend_machine(tomos_backend *backend, tomos_machine *machine);
/* The least time in which the machine can do this work: that of its slowest part (`part`: which
 * one; may be NULL). 0: the rates of the parts needed are unknown. */
TOMOS_API double tomos_machine_bound(
	const tomos_machine *machine, const double work[TOMOS_RATES], tomos_rate *part);
TOMOS_API const char *tomos_rate_name(tomos_rate rate); /* "memory", "link", ... */
TOMOS_API const char *tomos_backend_names(void);        /* "auto|cpu|..." */
TOMOS_API const char *tomos_projector_names(void);      /* "joseph|line|..." */
/* 0: all cores that the process may use; of several ranks on a machine, a share of them. */
TOMOS_API tomos_status tomos_set_threads(int threads);
TOMOS_API int tomos_threads(void);

/* ---- ranks -------------------------------------------------------------------------------- */

/* Ranks: processes that do one job together, started by mpirun, srun or the like. MPI is opened
 * when it is asked for, so that one library serves single computers and clusters. Calls are
 * collective: all ranks make the same ones in the same order, from one thread. */
typedef struct tomos_comm tomos_comm;

/* Whether a launcher of MPI has started this process. The environment variable TOMOS_MPI replaces
 * what the launcher's variables say: none, openmpi or mpich. */
TOMOS_API int tomos_comm_launched(void);
/* name: "openmpi", "mpich", or NULL for what the launcher uses: one rank without a launcher.
 * handle: the address of an MPI_Comm of that implementation; NULL: MPI_COMM_WORLD, for which MPI
 * is started unless it is running, and then ended by tomos_comm_close. */
TOMOS_API tomos_status tomos_comm_open(tomos_comm **comm, const char *name, const void *handle);
TOMOS_API void tomos_comm_close(tomos_comm *comm);
TOMOS_API int tomos_comm_rank(const tomos_comm *comm); /* NULL: 0 of 1 */
TOMOS_API int tomos_comm_size(const tomos_comm *comm);
/* The number of this rank among those on the same machine, and (unless NULL) how many these are. */
TOMOS_API int tomos_comm_local(const tomos_comm *comm, int *size);
TOMOS_API const char *tomos_comm_describe(const tomos_comm *comm);
/* Sums over all ranks, in the order of the ranks, on every rank. */
TOMOS_API tomos_status tomos_comm_sum(tomos_comm *comm, double *values, int64_t count);
TOMOS_API tomos_status tomos_comm_wait(tomos_comm *comm); /* until all ranks have called it */
/* Ends the processes of all ranks, as MPI_Abort does, and prints tomos_message(), which no one else
 * could then do; without effect on one rank. */
TOMOS_API void tomos_comm_abort(tomos_comm *comm, int code);

/* ---- kernels ------------------------------------------------------------------------------ */

/* An optimised kernel: what it computes and where it is used. Static storage. */
typedef struct tomos_kernel {
	size_t bytes;
	const char *backend, *name;         /* "cpu", "cuda" or "opencl" */
	const char *projectors, *direction; /* "JOSEPH | VOXEL"; "FORWARD", "BACK" or "BOTH" */
	const char *choice;  /* "AUTO", "NAMED" or "COARSE": without being named, or only then */
	const char *rays;    /* "IN_SLICE", "FANS", "UPRIGHT", "CONE", "OBLIQUE", "ANY" */
	const char *applies; /* further conditions */
	const char *method;  /* how it works */
	double work[TOMOS_RATES]; /* of an update of a voxel by a view, at least */
} tomos_kernel;

/* All of them, in the order in which each backend tries them. */
TOMOS_API const tomos_kernel *tomos_kernels(int *count);

/* ---- choosing kernels by measuring -------------------------------------------------------- */

/* The measured speed of one kernel for one kind of projection. */
typedef struct tomos_tuned {
	size_t bytes;
	char kernel[32];
	char projector[16]; /* "voxel", ... */
	char direction[8];  /* "forward" or "back" */
	char data[8];       /* "float" or "half" */
	/* "slices", "fan" (one slice), "fans", "cone": upright, "tilted": other point sources,
	 * "free": others */
	char rays[8];
	int64_t size, slices, views, columns; /* size: the longer side of a slice */
	int chosen;                           /* 1: the fastest, which is used */
	int coarse;                           /* 1: less accurate than float arithmetic */
	int64_t unknown;                      /* 1: not a kernel of this build, and ignored */
	double rate;                          /* voxel updates (voxels times views) per second */
	double voxel;  /* width of a voxel in the middle of the grid, in pixels */
	double source; /* from there to the source, in widths of the grid; 0: parallel rays */
} tomos_tuned;

/* Measures the kernels that can project between this grid and this scan. The rows go to `list`,
 * those of one kind of projection together; to be freed by tomos_tuned_free. The backend uses
 * what was chosen from then on. */
TOMOS_API tomos_status tomos_tune(tomos_tuned **list, int64_t *count, tomos_backend *backend,
	const tomos_grid *grid, const tomos_geometry *scan, const tomos_tune_options *options,
	const tomos_progress *progress);
/* What the backend knows now: what was kept for its device, and measured since. */
TOMOS_API tomos_status tomos_tuned_list(
	tomos_tuned **list, int64_t *count, const tomos_backend *backend);
/* Keeps what the backend knows in the user's cache directory, from which backends on the same
 * device, with the same driver and version, take it when they are opened; TOMOS_TUNE=off: they
 * do not. `path` is to be freed by tomos_tuned_free, too. */
TOMOS_API tomos_status tomos_tuned_keep(const tomos_backend *backend, char **path);
/* The name of that file, there or not (to be freed likewise), and why what it holds cannot be
 * used (static storage); NULL: it can, or there is none. */
TOMOS_API tomos_status tomos_tuned_file(
	const tomos_backend *backend, char **path, const char **wrong);
/* Removes what was kept for the device, and what the backend knows. */
TOMOS_API tomos_status tomos_tuned_forget(tomos_backend *backend);
TOMOS_API void tomos_tuned_free(void *list);
/* Upper bound of the voxel updates per second of this kernel on the machine; 0: not known. */
TOMOS_API double tomos_tuned_bound(
	const tomos_tuned *row, const tomos_machine *machine, tomos_rate *part);

/* ---- operators ---------------------------------------------------------------------------- */

typedef struct tomos_op tomos_op;

TOMOS_API tomos_status tomos_op_projector(tomos_op **op, tomos_backend *backend,
	const tomos_grid *grid, const tomos_geometry *scan, const tomos_projector_options *options);
TOMOS_API tomos_status tomos_op_forward(
	const tomos_op *op, const tomos_array *x, const tomos_array *y);
TOMOS_API tomos_status tomos_op_adjoint(
	const tomos_op *op, const tomos_array *y, const tomos_array *x);
TOMOS_API void tomos_op_free(tomos_op *op);
TOMOS_API void tomos_op_domain(const tomos_op *op, int64_t shape[3]);
TOMOS_API void tomos_op_range(const tomos_op *op, int64_t shape[3]);
TOMOS_API int tomos_op_matched(const tomos_op *op); /* 1: adjoint is the transpose of forward */
TOMOS_API const char *tomos_op_describe(const tomos_op *op);
/* The largest singular value, to about five digits; kept with the operator. */
TOMOS_API tomos_status tomos_op_norm(
	const tomos_op *op, double *norm, const tomos_progress *progress);

/* Operators made of others, which must live as long as they do: a A + b B (B NULL: a A), A B and
 * A'. */
TOMOS_API tomos_status tomos_op_sum(
	tomos_op **op, double a, const tomos_op *A, double b, const tomos_op *B);
TOMOS_API tomos_status tomos_op_product(tomos_op **op, const tomos_op *A, const tomos_op *B);
TOMOS_API tomos_status tomos_op_transpose(tomos_op **op, const tomos_op *A);

/* An operator made of your functions: out = A in and out = A'in, on contiguous arrays in host
 * memory, with any backend; `in` must not be changed. A function that fails returns other than
 * 0; the library call then ends with TOMOS_CALLBACK_FAILED. The functions are called from the
 * thread that called the library. You must ensure that `adjoint` is the transpose of `forward`.
 * Methods that need rows, views or powers of the entries reject such an operator. */
typedef int (*tomos_custom_apply)(void *user, const tomos_array *in, const tomos_array *out);
typedef struct tomos_custom {
	size_t bytes;
	tomos_custom_apply forward, adjoint;
	void *user;
	const char *name; /* for messages; NULL: none */
} tomos_custom;
TOMOS_API tomos_status tomos_op_custom(tomos_op **op, tomos_backend *backend,
	const int64_t domain[3], const int64_t range[3], const tomos_custom *calls);

/* ---- poses of the views ------------------------------------------------------------------- */

/* The pose of a view moves its source and detector together, or, seen from them, the object the
 * other way. It is six numbers: a shift along x, y, z and a rotation vector (axis times angle, in
 * radians). A point X of the view moves to R X + shift, where R rotates about the origin. Poses are
 * lists of `views` times six numbers. */
TOMOS_API tomos_status tomos_geometry_move(
	tomos_geometry **moved, const tomos_geometry *scan, const double *poses);

/* The derivative of the projections A x of a volume with respect to the poses of the views, where
 * these are 0: the operator J from changes of poses, [1][view][6], to projections. The volume is
 * copied. For the projector `joseph`, whose projections are piecewise smooth in the pose. The
 * derivative is that of the pieces; where a ray passes exactly through voxel centres, it is the
 * mean of those on both sides, as of central differences. */
TOMOS_API tomos_status tomos_op_poses(
	tomos_op **op, const tomos_op *projector, const tomos_array *volume);
/* The same as arrays: [6 * view + number][row][column] of views first .. first + count - 1. */
TOMOS_API tomos_status tomos_pose_derivative(const tomos_op *projector, const tomos_array *volume,
	int64_t first, int64_t count, const tomos_array *derivative);
/* For derivatives where poses are not 0: matrix M [6][6] of each pose. A change d of the pose moves
 * the moved view, tomos_geometry_move(.., pose), as a further small pose M d does. */
TOMOS_API tomos_status tomos_pose_change(const double *poses, int64_t count, double *matrices);

/* Motions of the views from projections alone: [view][3], shifts along the detector's columns and
 * rows in the scan's unit, and with the option fit_roll the rotation about the direction through
 * the detector, in radians; poses: the same for tomos_geometry_move. Shifts that are those of the
 * whole object are not determined by the data; they are 0. The grid has to contain the object. */
TOMOS_API tomos_status tomos_align(tomos_backend *backend, const tomos_grid *grid,
	const tomos_geometry *scan, const tomos_array *projections, double *motions, double *poses,
	const tomos_align_options *options, const tomos_progress *progress);
/* 1: the object goes on beyond the first or last row. tomos_align then adds slices at both ends of
 * the grid (detectors upright along z), and its shifts along the rows are less certain. */
TOMOS_API int tomos_align_cut(const tomos_array *projections);

/* ---- stored matrices ---------------------------------------------------------------------- */

/* The matrix of a projector, one row per ray, kept in memory; an operator like any other. */
TOMOS_API tomos_status tomos_op_matrix(tomos_op **op, tomos_backend *backend,
	const tomos_grid *grid, const tomos_geometry *scan,
	const tomos_projector_options *projector, const tomos_matrix_options *options);

/* Compressed rows: row r has entries pointers[r] to pointers[r + 1] - 1, columns ascending. */
typedef struct tomos_matrix {
	size_t bytes;
	int64_t rows, columns, count;
	int pointer_bytes, index_bytes; /* 4: int32_t, 8: int64_t */
	const void *pointers, *indices;
	const float *values;
} tomos_matrix;

/* Such arrays, which are copied, as an operator between arrays of these shapes; the order of the
 * columns does not matter here. */
TOMOS_API tomos_status tomos_op_matrix_arrays(tomos_op **op, tomos_backend *backend,
	const tomos_matrix *arrays, const int64_t domain[3], const int64_t range[3]);
/* The arrays of a matrix stored as CSR; they live as long as the operator. */
TOMOS_API tomos_status tomos_matrix_arrays(const tomos_op *op, tomos_matrix *arrays);
/* Bytes that a stored matrix takes, arrays of its own organisation included. */
TOMOS_API tomos_status tomos_matrix_bytes(const tomos_op *op, int64_t *bytes);
/* Matrix Market (.mtx), SciPy's save_npz (.npz), or HDF5 (.h5) with data, indices, indptr,
 * shape. */
TOMOS_API tomos_status tomos_matrix_write(
	const tomos_op *op, const char *path, const tomos_file_options *options);
typedef struct tomos_matrix_info {
	size_t bytes;
	int found;          /* 0: the file is there, but is none with a matrix */
	const char *format; /* "Matrix Market", "npz" or "HDF5" */
	char storage[8];    /* "csr", "coo"; npz: whatever SciPy calls it */
	int64_t rows, columns, entries;
} tomos_matrix_info;
/* What a matrix file holds, without its entries. */
TOMOS_API tomos_status tomos_matrix_describe(const char *path, tomos_matrix_info *info);
/* A matrix from such a file as an operator between arrays of these shapes. */
TOMOS_API tomos_status tomos_op_matrix_read(tomos_op **op, tomos_backend *backend, const char *path,
	const int64_t domain[3], const int64_t range[3]);

/* ---- reconstruction ----------------------------------------------------------------------- */

/* Convergence of an iterative method. The lists are the caller's, or NULL: ||b - A x|| / ||b||
 * (methods that process blocks: of each block before its update) and ||x - truth|| / ||truth||,
 * one value per iteration. */
typedef struct tomos_history {
	size_t bytes;
	double *residual, *error;
	int64_t capacity; /* of the lists */
	int64_t count;    /* iterations done; may exceed the capacity */
	int64_t best;     /* the iteration of least error, counted from 1; 0: none, or no truth */
	/* The stopping rule that ended it, "cancelled", "converged" (no direction is left), or
	 * "accuracy" (the residual is too small for the option normal = fourier). */
	const char *ended;
	/* NULL, or where the volume is stored before each report; may be x itself. Any backend. */
	const struct tomos_array *iterate;
} tomos_history;

/* x is the start image and the result; after TOMOS_CANCELLED the last whole iterate, the one
 * that the history counts. */
#define TOMOS_ALGEBRAIC(method) \
	TOMOS_API tomos_status tomos_##method(const tomos_op *op, const tomos_array *b, \
		const tomos_array *x, const tomos_algebraic_options *options, \
		const tomos_progress *progress)
TOMOS_ALGEBRAIC(sirt);
TOMOS_ALGEBRAIC(art);
TOMOS_ALGEBRAIC(sart);
TOMOS_ALGEBRAIC(block);
TOMOS_ALGEBRAIC(cgls);
TOMOS_ALGEBRAIC(lsqr);
TOMOS_ALGEBRAIC(lsmr);
TOMOS_ALGEBRAIC(mlem);
TOMOS_ALGEBRAIC(osem);
TOMOS_ALGEBRAIC(fista);
TOMOS_ALGEBRAIC(pdhg);
TOMOS_ALGEBRAIC(asd_pocs);
/* Any of them by its name. */
TOMOS_API tomos_status tomos_reconstruct(const tomos_op *op, const char *method,
	const tomos_array *b, const tomos_array *x, const tomos_algebraic_options *options,
	const tomos_progress *progress);
TOMOS_API const char *tomos_method_names(void);                          /* "sirt|art|..." */
TOMOS_API const char *tomos_method_help(const char *method);             /* "" for an unknown one */
TOMOS_API int tomos_method_uses(const char *method, const char *option); /* 1: it has that row */
/* The angle that the views of a circular scan cover, and what filtered back projection needs of it.
 * Where parallel rays cover less, values come out too low; point sources are rejected then. */
TOMOS_API tomos_status tomos_geometry_cover(
	const tomos_geometry *scan, double *covered, double *needed);
/* Filtered back projection of parallel and fan beam, Feldkamp's for cone beam on a circle. */
TOMOS_API tomos_status tomos_fbp(tomos_backend *backend, const tomos_grid *grid,
	const tomos_geometry *scan, const tomos_array *projections, const tomos_array *volume,
	const tomos_analytic_options *options, const tomos_progress *progress);
TOMOS_API tomos_status tomos_fdk(tomos_backend *backend, const tomos_grid *grid,
	const tomos_geometry *scan, const tomos_array *projections, const tomos_array *volume,
	const tomos_analytic_options *options, const tomos_progress *progress);
/* The transpose of both as a matrix, from volumes to projections, for gradients through them. */
TOMOS_API tomos_status tomos_fbp_transpose(tomos_backend *backend, const tomos_grid *grid,
	const tomos_geometry *scan, const tomos_array *volume, const tomos_array *projections,
	const tomos_analytic_options *options, const tomos_progress *progress);

/* Corrections found from a scan, [view][row][column] of line integrals, of which the row at the
 * height of the source is reconstructed; backend NULL: the CPU. hardening: coefficients A1, A2, ...
 * (`count`, up to 7) of the polynomial that makes the object uniform and keeps its mean; 1, 0, ...
 * where none that a beam could leave makes it clearly more uniform, as of several materials.
 * scatter: the constant fraction of the intensity that does so. quality, or NULL: standard
 * deviation inside the object relative to its mean, before and after. */
TOMOS_API tomos_status tomos_hardening_find(double *coefficients, int64_t count,
	double quality[2], tomos_backend *backend, const tomos_geometry *scan,
	const tomos_array *integrals);
TOMOS_API tomos_status tomos_scatter_find(double *scatter, double quality[2],
	tomos_backend *backend, const tomos_geometry *scan, const tomos_array *integrals);
/* Attenuation to Hounsfield units, in place: 1000 (x - water) / (water - air). */
TOMOS_API tomos_status tomos_hounsfield(const tomos_array *volume, double water, double air);

typedef struct tomos_checkpoint_info {
	size_t bytes;
	int found; /* 0: the file exists, but is no checkpoint; 1: also one that is rejected */
	int64_t iterations;
	double residual;     /* after the last one; NAN: not kept */
	char settings[4096]; /* what it belongs to, "method sirt;operator ...;volume ...;..." */
} tomos_checkpoint_info;
/* What the state of an algebraic method was saved of (its option `checkpoint`). */
TOMOS_API tomos_status tomos_checkpoint_describe(const char *path, tomos_checkpoint_info *info);

/* ---- the rotation axis -------------------------------------------------------------------- */

#define TOMOS_AXIS_SCORES 192
typedef struct tomos_axis {
	size_t bytes;
	double column; /* detector column of the axis, first pixel 0 */
	/* Difference between the best and the second best score, relative to the range of scores:
	 * 0: ambiguous, 1: unambiguous; comparable for one method and range only. */
	double confidence;
	/* 1: best at the end of the range, or a search of all columns finds it outside */
	int at_edge;
	int full_turn;    /* 1: the views cover 360 degrees */
	int half;         /* 1: half acquisition: the axis is in the outer quarter of the width */
	double low, high; /* the range searched, also where that failed; 0: no search began */
	double pairs, vo, sharpness; /* result of each method; NAN: not used */
	/* Standard error of `column`, in columns, from the results of parts of the data or of the
	 * methods; NAN: only one result. */
	double error;
	int64_t reversed; /* 1: point sources: the angles count against the direction of rotation */
	/* Scores of positions searched by the method that decided, the largest is the best: of
	 * columns score_first + i score_step; of many positions the best of neighbours. */
	int64_t scores;
	double score_first, score_step, score[TOMOS_AXIS_SCORES];
	/* Columns of a row that have the same value in all views (dead pixels, a frame): replaced
	 * for the search. */
	int64_t constant;
	/* 1: the scanner's file, the option 'reverse' or the views of the job say the direction of
	 * rotation, and rays agree for the opposite one only; it is kept (tomos_prepared_axis with
	 * direction "check"). */
	int64_t contradicted;
	/* 1: point sources: rays measured from both sides agree far better with a detector that is
	 * rolled or swivelled (tomos_prepared_pose finds by how much). */
	int64_t tilted;
} tomos_axis;

/* Parallel rays: from line integrals of one row or more (a few near the middle suffice) and the
 * angle of each view. The backend computes test reconstructions; NULL: the CPU. */
TOMOS_API tomos_status tomos_axis_find(tomos_axis *axis, tomos_backend *backend,
	const tomos_array *integrals, const double *angles, const tomos_axis_options *options,
	const tomos_progress *progress);
/* Any circular scan: parallel rays, fan beam or cone beam, of which the rows near the midplane
 * suffice. The axis that the views of `scan` have is not used. */
TOMOS_API tomos_status tomos_axis_find_scan(tomos_axis *axis, tomos_backend *backend,
	const tomos_array *integrals, const tomos_geometry *scan, const tomos_axis_options *options,
	const tomos_progress *progress);
/* The pose of the detector of a fan or cone beam scan, as the data have it. */
enum {
	TOMOS_POSE_AXIS,
	TOMOS_POSE_AXIS_ROW,
	TOMOS_POSE_ROLL,
	TOMOS_POSE_SLANT,
	TOMOS_POSE_SWIVEL,
	TOMOS_POSE_SOURCE_DETECTOR,
	TOMOS_POSE_VALUES
};
#define TOMOS_POSE_REACH 0.1 /* radians from those given within which rotations are looked for */
typedef struct tomos_pose {
	size_t bytes;
	/* As the options of these names: columns and rows, radians, and the distance from source
	 * to detector. The scale of the object is in no projection, so the distance from source to
	 * axis stays as given. */
	double value[TOMOS_POSE_VALUES];
	/* Standard errors. 0: not looked for (the option `unknown`), and as given; NAN: not
	 * determined, and as given, but of the axis the likeliest value; infinity, of the axis:
	 * uncertain, and nothing in the scan says by how much. */
	double error[TOMOS_POSE_VALUES];
	/* By how much rays measured from both sides contradict each other, relative to their
	 * values: when only axis, swivel and distance have been fitted, and for the result. */
	double before, after;
	int64_t reversed; /* 1: the angles count against the direction of rotation */
	int64_t beyond;   /* bit k: value k is further from that given than the search reaches */
} tomos_pose;
/* Line integrals of all rows. *fitted, unless NULL: the scan in that pose. */
TOMOS_API tomos_status tomos_pose_find(tomos_pose *pose, tomos_geometry **fitted,
	tomos_backend *backend, const tomos_array *integrals, const tomos_geometry *scan,
	const tomos_axis_options *options, const tomos_progress *progress);
/* Why what a search found is uncertain, whatever its standard errors. */
enum {
	TOMOS_POSE_CERTAIN,
	TOMOS_POSE_DISAGREES, /* rays measured from both sides hardly agree */
	TOMOS_POSE_NO_BETTER, /* `after` is larger than `before` */
	TOMOS_POSE_BEYOND     /* a value is further off than the search reaches */
};
TOMOS_API int tomos_pose_doubt(const tomos_pose *pose);
/* Positions to compare by eye (`tomos center --sweep`): 1 where methods disagree, the best position
 * is not clearly better than others or is at the end of the range; 0 where there is no doubt. */
TOMOS_API int tomos_axis_doubt(const tomos_axis *axis, double *from, double *to, double *step);

/* ---- from file to file -------------------------------------------------------------------- */

/* The stages of a run, in the order of the data. Without a device that the data stay on, nothing is
 * uploaded or downloaded between the others. */
enum {
	TOMOS_STAGE_READ,
	TOMOS_STAGE_UPLOAD,
	TOMOS_STAGE_PREPARE,
	TOMOS_STAGE_RECONSTRUCT,
	TOMOS_STAGE_DOWNLOAD,
	TOMOS_STAGE_WRITE,
	TOMOS_STAGES
};
TOMOS_API const char *tomos_stage_names(void); /* "read|upload|..." */

/* What a run did; the times of the stages overlap. Set `bytes` before the call. */
typedef struct tomos_run_report {
	size_t bytes; /* of this struct, as the caller knows it */
	tomos_prep_report prep;
	int64_t shape[3];      /* of the volume, z y x; also after a dry run */
	int64_t slabs, slices; /* slices: 0 after a failure that left nothing to resume */
	int64_t resumed;       /* slices that an earlier run had done */
	double read_bytes, written_bytes, updates; /* updates: voxels times views */
	double read_seconds, compute_seconds, write_seconds, seconds;
	int64_t cut; /* values beyond the window of 8 or 16 bits */
	/* Iterative methods, else 0 and NAN. Several slabs: the root of the sum of squares,
	 * relative to that of the data or the truth; iterations: the most of any slab. */
	int64_t iterations, before; /* before: those that a checkpoint had already done */
	double residual, error;
	int64_t best;      /* iteration of least error, counted from 1; 0: none, or no truth */
	const char *ended; /* as in tomos_history, or "iterations"; "": fbp, fdk */
	int complete; /* 1: the output is in its place; after TOMOS_CANCELLED: the last iterate */
	int compared; /* 1: `difference` has the figures of tomos_compare(compare, volume) */
	tomos_difference difference;
	char forward[32], back[32]; /* kernels that ran; "": reference kernel, or none */
	double planned_bytes;       /* memory of the plan; `slabs` is planned, too, in a dry run */
	/* Each stage's busy time and bytes: as stored when read, prepared and written, as floats
	 * when reconstructed. start_seconds: before the first one. limiting: the stage that was
	 * busy for the longest time. */
	double start_seconds, stage_seconds[TOMOS_STAGES], stage_bytes[TOMOS_STAGES];
	int64_t limiting;
	double expected_seconds; /* dry run with the option `ranks` */
	/* Several ranks: slices, slabs, bytes and updates are those of all, times those of the
	 * slowest. sent_bytes: messages between ranks, without the numbers that sums consist of;
	 * shared_bytes: what ranks read of others in memory that they share, without a message. */
	int64_t ranks;
	double sent_bytes, shared_bytes;
} tomos_run_report;

/* A job's projections: line integrals and their geometry. */
typedef struct tomos_prepared tomos_prepared;

/* What a run that is complete can show of its data; valid during the call of `look`. */
typedef struct tomos_run_look {
	size_t bytes;
	tomos_prepared *prepared; /* the projections, which may be read */
	const char *method, *output;
	const char *backend;    /* as tomos_backend_describe */
	const tomos_grid *grid; /* of the volume that was written */
	/* The middle planes of the volume, across z, y and x, as pictures [row][column]: x or y to
	 * the right, y downwards or z upwards. Of slices that this process did not compute, some
	 * are read from the file, and others look like these. */
	const float *planes[3]; /* NULL: slices could not be read */
	int64_t widths[3], heights[3];
	/* The prepared row of the middle slice, and the row of the scan in its middle; of cone
	 * beams the middle of the detector. */
	int64_t row, scan_row;
	double device_bytes; /* planned device memory; 0: data are in host memory */
	double window[2];    /* of outputs of integers: values of the smallest and the largest */
	/* Prepared column c is the mean of `bin` columns of the scan, with its middle at column
	 * (c + 0.5) * bin - 0.5 + first_column. */
	int64_t first_column, bin;
} tomos_run_look;

/* Lines that a job prints: what is used; what may be unexpected; what makes results doubtful. */
typedef enum tomos_level { TOMOS_FACT, TOMOS_NOTE, TOMOS_WARNING } tomos_level;

/* A scan, what is done with it, and where the result goes. NULL stands for defaults. */
typedef struct tomos_job {
	size_t bytes; /* of this struct, as the caller knows it; what lies beyond is 0 */
	const char *scan;
	const char *output; /* NULL or "": folder SCAN_rec of TIFF files, beside the scan */
	const char *method; /* fbp, fdk or one of tomos_method_names(); NULL or "": fdk for point
			     * sources and several rows, else fbp */
	const char *backend;
	const tomos_device_options *device;
	const tomos_source_options *source;
	const tomos_scan_options
		*geometry;           /* of a scan whose file has none; pixel 0: as the file says */
	const tomos_geometry *views; /* instead: the views themselves */
	const tomos_prep_options *prep;
	const tomos_axis_options *axis; /* where the axis is searched for, if nothing says it */
	const tomos_grid_options *grid;
	const tomos_analytic_options *analytic;
	const tomos_file_options *file;
	const tomos_run_options *run;
	const char *command, *recipe; /* kept in HDF5 outputs */
	/* What was found and is used, a line at a time. */
	void (*say)(void *user, tomos_level level, const char *line);
	void *user;
	tomos_run_report *report; /* kept up to date while the job runs */
	/* Iterative methods. Arrays are named as files here and read slab by slab: those of
	 * `algebraic` must be NULL, and its `resume` follows from that of `run`. */
	const tomos_algebraic_options *algebraic;
	const tomos_projector_options *projector;
	const tomos_matrix_options *stored; /* keep the matrix in memory; NULL: no matrix */
	const char *matrix;                 /* file of a matrix, instead of the projector */
	const char *start;                  /* file of the volume to start from */
	const char *mask, *ray_weights;     /* files; see the options of these names */
	const char *truth; /* file of the true volume, for the error of iterations and keep_best */
	/* Any method: file of a volume, for report->difference; NULL: that of `truth`. */
	const char *compare;
	int64_t axis_later; /* tomos_prepared_open: 1: the axis is taken to be in the middle of the
			      * detector, until tomos_prepared_axis searches for it */
	tomos_comm *comm;   /* the ranks that do the job together, each with the same job; NULL: one
			   * process */
	/* Called once when the output is in its place, on rank 0; `report` is that of the run. */
	void (*look)(void *user, const tomos_run_look *look);
} tomos_job;

/* Reads, prepares, reconstructs and writes slab by slab, within the memory given, the stages
 * overlapping in time. The result does not depend on the slabs. The output appears when it is
 * complete; what an interrupted run had finished is kept beside it, for `resume`. Iterative
 * methods run in slabs where every slice has a detector row of its own, which parallel rays or a
 * fan cross within the slice. Whatever couples slices (inner products of cgls, norms that step
 * sizes follow, stop rules, masks) does so within groups of 16 slices, counted from slice 0,
 * whatever the memory. Penalties on differences along z (see the option penalty_within), stored
 * matrices and other geometries need the whole volume at once, which is then checked against the
 * memory. A run of one slab that is cancelled writes its last whole iterate. */
TOMOS_API tomos_status tomos_run(const tomos_job *job, const tomos_progress *progress);

/* Rejects options that the user has set and that have no effect on this scan: those of the group
 * "scan" where the scan or the job has views already, and those of "axis" where the axis is known
 * or is not searched for. Bit i of given[0], [1] and [2]: row i of "scan", "axis" and "prep" was
 * set. `views`: what messages call the views of the job; NULL: it has none. */
TOMOS_API tomos_status tomos_job_check(
	const tomos_job *job, const tomos_scan *scan, const char *views, const uint64_t given[3]);
/* The output of a job that names none: the folder SCAN_rec beside the scan, with '/' at its end. */
TOMOS_API tomos_status tomos_job_output(const char *scan, char *output, size_t size);

/* A job's projections, ready for a reconstruction. */
TOMOS_API tomos_status tomos_prepared_open(
	tomos_prepared **prepared, const tomos_job *job, const tomos_progress *progress);
/* What the file says; the strings live as long as `prepared`. */
TOMOS_API tomos_status tomos_prepared_describe(
	const tomos_prepared *prepared, tomos_scan_info *info);
TOMOS_API const tomos_geometry *tomos_prepared_geometry(const tomos_prepared *prepared);
/* Prepared rows [*row, *row + *rows) that the axis is best searched for in: a few around the
 * middle, of a cone beam around the midplane. */
TOMOS_API tomos_status tomos_prepared_axis_rows(
	const tomos_prepared *prepared, int64_t *row, int64_t *rows);
/* Searches for the axis in prepared rows [row, row + rows), with the job's axis options, and moves
 * the geometry to it. Columns of the result are those of the scan. The backend is for pictures;
 * NULL: the CPU. */
TOMOS_API tomos_status tomos_prepared_axis(tomos_prepared *prepared, tomos_backend *backend,
	int64_t row, int64_t rows, tomos_axis *axis, const tomos_progress *progress);
/* Likewise the whole pose of the detector, from all rows, and the geometry has it then. */
TOMOS_API tomos_status tomos_prepared_pose(tomos_prepared *prepared, tomos_backend *backend,
	tomos_pose *pose, const tomos_progress *progress);
/* What the last search for the axis found, as tomos_prepared_axis, `reversed` relative to the
 * angles of the scan; 0: there was none, or the column found is not used, and of *axis only
 * `reversed` and `confidence` are set, the latter 1 where the axis is given and 0 where it is
 * assumed in the middle of the detector. */
TOMOS_API int tomos_prepared_searched(const tomos_prepared *prepared, tomos_axis *axis);
/* How the axis was found, as a line to print; NULL: it was known. */
TOMOS_API const char *tomos_prepared_note(const tomos_prepared *prepared);
/* Why the axis that was found is doubtful, and what to do about it; NULL: it is not. */
TOMOS_API const char *tomos_prepared_warning(const tomos_prepared *prepared);
/* The steps of preparation that run, a line each with its options: "bin: 2\n"; "": none. */
TOMOS_API tomos_status tomos_prepared_steps(
	const tomos_prepared *prepared, char *text, size_t size);
/* The unit of lengths: "mm"; "pixel" where the size of pixels is not known; "": unknown. */
TOMOS_API const char *tomos_prepared_unit(const tomos_prepared *prepared);
/* The grid of the slices `rows` names, FIRST:END as in the run's options, "" for all. Geometry
 * and rows are those of these slices from then on, which is rejected where a slice needs more
 * than a row of its own. *first, unless NULL: the number of the first slice, the detector row it
 * lies on. */
TOMOS_API tomos_status tomos_prepared_slices(tomos_prepared *prepared, const char *rows,
	const tomos_grid_options *options, tomos_grid *grid, int64_t *first);
/* Rows [row, row + rows) of all views, as [view][row][column]. */
TOMOS_API tomos_status tomos_prepared_read(tomos_prepared *prepared, int64_t row, int64_t rows,
	float *data, tomos_prep_report *report, const tomos_progress *progress);
TOMOS_API void tomos_prepared_close(tomos_prepared *prepared);

/* ---- expected cost over ranks -------------------------------------------------------------- */

/* What a machine does in a second; `back` to `link` are those of one rank, with its threads or its
 * device. 0: unknown, or no limit. src/run/rates.def has the units. A file has a line "name value"
 * for each member that is known; '#' begins a comment. */
typedef struct tomos_rates {
	size_t bytes;
	double back, iterate;           /* of thick slabs; */
	double back_half, iterate_half; /* slices with which half of these rates is reached */
	double filter, prepare, read, write, link;
	double memory, network;     /* between ranks: in a node, and out of it */
	double read_all, write_all; /* of the file system */
	double latency, start;      /* seconds: of a message; before the first read */
	double node_ranks;          /* ranks on a node */
	char rays[8];               /* of the scan that was measured, as in tomos_tuned; "": any */
	char method[16];            /* and the method; "": any */
} tomos_rates;

TOMOS_API tomos_rates tomos_rates_defaults(void); /* what is assumed where nothing is measured */
TOMOS_API tomos_status tomos_rates_read(tomos_rates *rates, const char *path);
/* `note`: a comment for the head of the file, or NULL. */
TOMOS_API tomos_status tomos_rates_write(
	const tomos_rates *rates, const char *path, const char *note);

/* A reconstruction whose cost is wanted. */
typedef struct tomos_work {
	size_t bytes;
	const tomos_grid *grid;
	const tomos_geometry *scan;
	const char *method;  /* as in tomos_job */
	int64_t iterations;  /* of iterative methods */
	int64_t groups;      /* ranks that share a slab and divide its views; 0: as in a run */
	double sample_bytes; /* of a stored projection value; 0: 2 */
	double voxel_bytes;  /* of a stored voxel; 0: 4 */
} tomos_work;

/* The stages of a run whose times are expected; those of one rank follow each other or overlap. */
enum {
	TOMOS_COST_START,
	TOMOS_COST_READ,
	TOMOS_COST_UPLOAD,
	TOMOS_COST_PREPARE,
	TOMOS_COST_FILTER,
	TOMOS_COST_PROJECT,
	TOMOS_COST_EXCHANGE,
	TOMOS_COST_DOWNLOAD,
	TOMOS_COST_WRITE,
	TOMOS_COSTS
};
TOMOS_API const char *tomos_cost_names(void); /* "start|read|..." */

typedef struct tomos_cost {
	size_t bytes;
	int64_t ranks;
	int64_t slabs, groups; /* slabs of the volume times groups of views: ranks that work */
	int64_t slices, views; /* the most of any rank */
	int64_t rows;          /* detector rows that a rank reads, the most of any */
	double seconds, stage_seconds[TOMOS_COSTS];   /* of the whole run; of its slowest rank */
	int64_t limiting;                             /* the longest stage */
	double read_bytes, sent_bytes, written_bytes; /* of all ranks together */
	double data_bytes;   /* of a rank's part of the volume and of the projections, as floats */
	double shared_bytes; /* of all ranks: read in the memory that those of a node share */
	double balance;      /* updates of the rank that has most, relative to the mean of all */
} tomos_cost;

/* Models tomos_run with 1 to 65536 ranks: the work of the rank that has most of it, at these rates.
 * Reading and writing are divided evenly among the ranks. */
TOMOS_API tomos_status tomos_cost_expect(
	tomos_cost *cost, const tomos_work *work, const tomos_rates *rates, int64_t ranks);

#ifdef __cplusplus
}
#endif
#endif
