/* Array files of any format behind one face. A file is one array of up to three axes, read and
 * written along the first, with small named numbers attached where the format can hold them (HDF5
 * alone). This room knows nothing of grids and scans: src/run/files.c keeps those as named numbers. */
#ifndef TOMOS_IO_IO_H
#define TOMOS_IO_IO_H

#include "base/base.h"

typedef struct Format Format;
typedef struct tomos_file File;

/* Stored numbers: kind 'i' signed, 'u' unsigned, 'f' floating point. */
typedef struct {
	char kind;
	int bytes;
	bool swapped; /* the other byte order than this machine's */
} Element;

/* What is known of an open file whatever its format; the format's own part hangs on `own`. */
struct tomos_file {
	const Format *format;
	char *path;             /* as the user named it */
	char *temporary;        /* where a file under construction lies; NULL when reading */
	char *dataset;          /* HDF5: where the data are, else "" */
	const char *type;       /* "float32", "uint16", ... */
	Element element;        /* writing: how numbers are stored */
	double scale, offset;   /* value = offset + scale * stored number */
	uint32_t *checksums;    /* writing: of the stored bytes of each index of the first axis */
	unsigned char *written; /* one per index of the first axis; NULL when reading */
	int64_t shape[3];
	tomos_content content;
	bool overwrite, committed;
	bool bare;           /* opened by io_look: no data */
	bool continued;      /* `temporary` is there already, from a run that was broken off */
	bool kept;           /* closing without commit leaves the temporary file */
	int64_t first_index; /* TIFF folders: number of the first file */
	int compress;        /* HDF5: 0, or level of deflate */
	void *own;
};

/* What is read at a time: so many indices of the first axis, and so many of the second ("rows"). */
typedef struct {
	int64_t first, count, row, rows;
} Extract;

/* What a file under construction has besides its data once it is sealed: all bytes up to `bytes`
 * outside the holes [first, end), which hold data and checksums. `bytes` 0: nothing is recorded,
 * since the format writes this part again whenever the file is opened. */
typedef struct {
	int64_t bytes, holes[2][2];
	uint32_t sum;
} Frame;

typedef tomos_status (*TakePath)(void *user, const char *path);

/* One row of formats.def. A function that is NULL is not supported by the format. `open` and
 * `create` may leave `own` half made when they fail: `close` follows in every case. */
struct Format {
	const char *name;
	const char *endings; /* "h5|hdf5|..." for writing */
	/* `head` holds the first bytes of a file; it is NULL for a directory. */
	bool (*probe)(const unsigned char *head, size_t length);
	tomos_status (*open)(File *file, const tomos_file_options *options);
	tomos_status (*read)(File *file, const Extract *part, float *data);
	tomos_status (*create)(File *file);
	tomos_status (*write)(File *file, int64_t first, int64_t count, const void *data);
	tomos_status (*finish)(File *file); /* everything written, under the temporary name */
	void (*close)(File *file);
	/* Files under construction that may outlive the process: all but the data is there; what is
	 * written so far is in the file. NULL: nothing to do. */
	tomos_status (*seal)(File *file);
	tomos_status (*sync)(File *file);
	/* The numbers of one index as stored, from the file under construction. What is not there or
	 * cannot be right is TOMOS_BAD_FILE. */
	tomos_status (*read_back)(File *file, int64_t index, void *stored);
	/* Everything but the checksum. NULL: bytes is 0. */
	tomos_status (*frame)(File *file, Frame *frame);
	/* Every file that an open one reads from; NULL: the one at its path alone. */
	tomos_status (*sources)(const File *file, TakePath take, void *user);
	/* Named numbers; names are paths like "grid/first". get allocates *values and sets the
	 * shape; a name that is not there gives TOMOS_OK and *values = NULL. */
	tomos_status (*get)(const File *file, const char *name, double **values, int64_t shape[2]);
	tomos_status (*put)(
		File *file, const char *name, const double *values, const int64_t shape[2]);
	/* Text under a name, or of an attribute, "name@attribute"; and the names in a group, one per
	 * line. What is not there gives TOMOS_OK and NULL. */
	tomos_status (*put_text)(File *file, const char *name, const char *text);
	tomos_status (*text)(const File *file, const char *name, char **text);
	tomos_status (*names)(const File *file, const char *group, char **names);
};

#define FORMAT(name) extern const Format format_##name;
#include "io/formats.def"
#undef FORMAT

/* Formats without named numbers have none to get, and put keeps nothing; neither is a failure. */
tomos_status io_get(const File *file, const char *name, double **values, int64_t shape[2]);
tomos_status io_put(File *file, const char *name, const double *values, const int64_t shape[2]);
tomos_status io_put_text(File *file, const char *name, const char *text);
tomos_status io_text(const File *file, const char *name, char **text);
tomos_status io_names(const File *file, const char *group, char **names);
/* A part of the first two axes, all of the third. */
tomos_status io_read(File *file, const Extract *part, float *data);
/* A file to look into, without its data: io_get, io_text and io_names alone work on it. */
tomos_status io_look(File **file, const char *path);
bool io_is_directory(const char *path);
bool io_names_directory(const char *path); /* or ends in '/' */
/* Adds a name to those that a message lists: a few, then dots. */
void io_add_name(char *names, size_t size, int before, const char *start, const char *name);
/* Rejects a name without a format to write. */
tomos_status io_check_name(const char *path);
/* That, and options without effect on such a file. */
tomos_status io_check_options(const char *path, const tomos_file_options *options);
/* Opens or creates the file under construction at a name that outlives the process, so that a later
 * one can go on with it (`continued`; what is in place already is told by io_done; HDF5 alone has its
 * named numbers already; TOMOS_BAD_FILE: nothing can be gone on with). */
tomos_status io_create(File **file, const char *path, tomos_content content, const int64_t shape[3],
	const tomos_file_options *given, const char *temporary, bool continued);
/* What a format may keep beside such a file, under its name and one of these endings: data that are not
 * in it yet, and what will take its place. io_discard removes all. */
#define IO_DATA_ENDING ".data"
#define IO_WHOLE_ENDING ".whole"
void io_discard(const char *temporary);
/* After this only data are written. Some room for what commit has to add is taken here. */
tomos_status io_seal(File *file);
/* What was written reaches the operating system. */
tomos_status io_sync(File *file);
/* An earlier process has written these indices, and they had these checksums. */
void io_done(File *file, int64_t first, int64_t count, const uint32_t *checksums);
/* Reads back whatever io_done said; what is not as it was written is no longer done. Returns how many
 * indices are done, and how many were lost. */
tomos_status io_verify_done(
	File *file, const tomos_progress *progress, int64_t *done, int64_t *lost);
/* The frame of a sealed file, and whether that of a file under construction is still the same
 * (TOMOS_BAD_FILE: it is not). */
tomos_status io_frame(File *file, Frame *frame);
tomos_status io_frame_check(const char *temporary, const Frame *frame);
/* Every file that the open one reads from. */
tomos_status io_sources(const File *file, TakePath take, void *user);

/* ---- for the formats ---------------------------------------------------------------------- */

/* "float32", "uint16", ...; NULL where there is no such type. */
const char *element_name(Element element);
bool element_named(const char *name, Element *element);
/* Rejects numbers beyond float; `path` is for the message. */
tomos_status element_convert(
	Element element, const void *stored, int64_t count, float *data, const char *path);
/* The same in full, of a type that element_name knows. */
void element_widen(Element element, const void *stored, int64_t count, double *data);

/* What the scale of a file's integers is, read after opening and written before publishing. */
tomos_status scale_read(File *file);
tomos_status scale_write(File *file);
bool scale_is_inside(const File *file); /* the file or folder under construction */

/* Named numbers of HDF5 files: written over those that are there. */
#define CHECKSUMS "storage/crc32"
tomos_status checksums_write(File *file);

/* Floats as numbers of that type: (value - offset) / scale, rounded, kept inside the type's range. */
void element_encode(Element element, const float *data, int64_t count, double scale, double offset,
	void *stored);
double element_largest(Element element); /* of unsigned integers */

/* Shape of `rank` axes as three, with leading ones; rejects other ranks and empty or huge shapes in
 * a message that begins with `where`. */
tomos_status shape_take(int64_t shape[3], const int64_t *axes, int rank, const char *where);

/* Whether the last part of a path has '*' or '?' and nothing has that very name: the TIFF files of a
 * directory that fit it are one stack. */
bool tiff_is_pattern(const char *path);

/* Plain files. `path` is for the message. */
tomos_status flat_open(int *descriptor, int64_t *size, const char *path);
tomos_status flat_create(int *descriptor, const char *temporary, const char *path);
/* The file under construction, new or continued. */
tomos_status file_descriptor(const File *file, int *descriptor);
tomos_status flat_read(int descriptor, const char *path, int64_t at, void *data, int64_t bytes);
tomos_status flat_write(
	int descriptor, const char *path, int64_t at, const void *data, int64_t bytes);
tomos_status flat_cut(int descriptor, const char *path, int64_t bytes);
tomos_status flat_close(int *descriptor, const char *path); /* -1 is closed already */

/* Numbers behind a header: npy, raw and MetaImage files. */
typedef struct {
	int descriptor;
	int64_t size, data; /* of the file; where the numbers begin */
	Element element;
	bool fortran; /* the first axis runs fastest */
} Plain;
/* Rejects a file whose size is not what its shape needs. */
tomos_status plain_check(const Plain *plain, const File *file, const char *path);
tomos_status plain_read(const File *file, const Plain *plain, const Extract *part, float *data);
tomos_status plain_write(
	const File *file, const Plain *plain, int64_t first, int64_t count, const void *data);
tomos_status plain_read_back(const File *file, const Plain *plain, int64_t index, void *stored);
/* Cuts off what an earlier process may have left behind the data, and closes the file. */
tomos_status plain_finish(const File *file, Plain *plain);

/* The most that a compressed byte may stand for, whatever the method: files that claim more are
 * broken, and are rejected before memory is taken for them. */
enum { LARGEST_RATIO = 65536 };

#endif
