/* Array files: one interface for all formats. A file is one array of up to three axes, read and
 * written along the first, with small named numbers if the format supports them: any in HDF5 files,
 * the grid in others with a place for it. This layer does not know grids and scans:
 * src/run/files.c stores those as named numbers. */
#ifndef TOMOS_IO_IO_H
#define TOMOS_IO_IO_H

#include "base/base.h"

typedef struct Format Format;
typedef struct tomos_file File;

/* Stored numbers: kind 'i' signed, 'u' unsigned, 'f' floating point. */
typedef struct {
	char kind;
	int bytes;
	bool swapped; /* opposite of the native byte order */
} Element;

/* Units of lengths and of values, see units.c; "": not known. */
enum { UNIT_NAME = 16, UNITS_TEXT = 64 };
typedef struct {
	char length[UNIT_NAME], value[UNIT_NAME];
	bool set; /* the unit of lengths; otherwise it is mm by convention */
} FileUnits;

/* An open file of any format; `own` is private to the format. */
struct tomos_file {
	const Format *format;
	char *path;           /* as given by the user */
	char *temporary;      /* name of the file under construction; NULL when reading */
	char *dataset;        /* HDF5: path of the data, otherwise "" */
	const char *type;     /* "float32", "uint16", ... */
	Element element;      /* how numbers are stored */
	double scale, offset; /* value = offset + scale * stored number */
	uint32_t *checksums;  /* of the stored bytes of each index of the first axis; NULL: none */
	unsigned char *written; /* one per index of the first axis; NULL when reading */
	int64_t shape[3];
	int64_t files; /* reading a stack: files that it had when it was written; 0: not said */
	FileUnits units;
	tomos_content content;
	bool overwrite, committed;
	bool bare;           /* opened by io_look: without data */
	bool continued;      /* `temporary` exists, from an interrupted run */
	bool kept;           /* closing without commit leaves the temporary file */
	int part;            /* 0, or the number of a process that has joined: see io_join */
	int64_t data_at;     /* of such a process */
	int64_t grain;       /* indices of the first axis that are unpacked together */
	int64_t row_grain;   /* and rows */
	bool unpacks;        /* reading: such a chunk is unpacked as a whole for any part of it */
	bool keep;           /* and stays in memory then, for later reads */
	bool unpacked;       /* reading: from an unpacked copy of all data, a file without a name */
	int64_t first_index; /* TIFF folders: number of the first file */
	int compress;        /* HDF5: 0, or deflate level; Zarr: 0, or zstd level */
	int zarr;            /* version of the format to be written, 2 or 3 */
	void *own;
};

/* Part of a file to read: a range of the first axis, and one of the second ("rows"). */
typedef struct {
	int64_t first, count, row, rows;
} Extract;

/* Samples of a file: count[a] along axis a from first[a] on, step[a] apart. */
typedef struct {
	int64_t first[3], count[3], step[3];
} Samples;

/* The part of a sealed file under construction that is not data: all bytes up to `bytes` outside
 * the holes [first, end), which contain data and checksums. `bytes` 0: nothing to record, because
 * the format rewrites this part whenever the file is opened. */
typedef struct {
	int64_t bytes, holes[2][2];
	uint32_t sum;
} Frame;

typedef tomos_status (*TakePath)(void *user, const char *path);

/* One row of formats.def. The format does not support functions that are NULL. `open` and `create`
 * may leave `own` incomplete when they fail: `close` is called in every case. */
struct Format {
	const char *name;
	const char *endings; /* "h5|hdf5|..." for writing */
	/* `head` holds the first bytes of a file; it is NULL for a directory. */
	bool (*probe)(const unsigned char *head, size_t length);
	/* Sets the shape and the element. */
	tomos_status (*open)(File *file, const tomos_file_options *options);
	/* Both in the type of `file->element`, on at most `threads` threads. Different indices may
	 * be written at the same time. */
	tomos_status (*read)(File *file, const Extract *part, int threads, void *stored);
	/* Likewise samples inside the shape. NULL: by `read`, from whole rows. */
	tomos_status (*read_box)(File *file, const Samples *samples, int threads, void *stored);
	tomos_status (*create)(File *file);
	tomos_status (*write)(
		File *file, int64_t first, int64_t count, int threads, const void *stored);
	/* `write` also sets the checksums of slices, while it has them in a cache. */
	bool sums;
	tomos_status (*finish)(File *file); /* completes the file under its temporary name */
	void (*close)(File *file);
	/* For resumable files: `seal` completes everything but the data, `sync` writes out what is
	 * buffered. NULL: nothing to do. */
	tomos_status (*seal)(File *file);
	tomos_status (*sync)(File *file);
	/* Reads the stored numbers of one index from the file under construction. TOMOS_BAD_FILE:
	 * missing or damaged. */
	tomos_status (*read_back)(File *file, int64_t index, void *stored);
	/* Likewise up to `grain` indices that are packed together, and up to `row_grain` rows of
	 * them, from a multiple of each on; only called if `grain` is more than 1. */
	tomos_status (*read_back_rows)(File *file, const Extract *part, int threads, void *stored);
	/* Sets everything but the checksum. NULL: bytes is 0. */
	tomos_status (*frame)(File *file, Frame *frame);
	/* For io_join: where the data begin, if only the process that created the file can find
	 * that out; and taking over what processes that joined have written to files of their own.
	 * NULL: neither is needed. */
	int64_t (*data_at)(const File *file);
	tomos_status (*merge)(File *file);
	/* Lists the files that an open one reads from; NULL: only the one at its path. */
	tomos_status (*sources)(const File *file, TakePath take, void *user);
	/* Named numbers; names are paths like "grid/first". `get` allocates *values and sets the
	 * shape; a missing name gives TOMOS_OK and *values = NULL. */
	tomos_status (*get)(const File *file, const char *name, double **values, int64_t shape[2]);
	tomos_status (*put)(
		File *file, const char *name, const double *values, const int64_t shape[2]);
	/* String under a name, or of an attribute, "name@attribute"; and the names in a group, one
	 * per line. A missing one gives TOMOS_OK and NULL. */
	tomos_status (*put_text)(File *file, const char *name, const char *text);
	tomos_status (*text)(const File *file, const char *name, char **text);
	tomos_status (*names)(const File *file, const char *group, char **names);
	/* Scale and offset are part of the file, which `open` sets and `finish` writes. */
	bool scaled;
	/* Memory in bytes that writing takes beside the slices. NULL: next to nothing. */
	double (*write_bytes)(const int64_t shape[3]);
	/* The output, if it is in memory, may also be mapped, of which this many bytes count as
	 * memory of the process. NULL: no use is made of that. */
	tomos_status (*reserve)(File *file, double bytes);
};

#define FORMAT(name) extern const Format format_##name;
#include "io/formats.def"
#undef FORMAT

/* In formats without named numbers `get` finds none and `put` does nothing; both return
 * TOMOS_OK. */
tomos_status io_get(const File *file, const char *name, double **values, int64_t shape[2]);
tomos_status io_put(File *file, const char *name, const double *values, const int64_t shape[2]);
/* "FILE:/PATH" and "FILE::PATH" name a dataset of a file, where FILE is there and nothing of the
 * whole name: *file is a copy of FILE and *dataset of PATH, else of the whole name and NULL. Both
 * are to be freed. */
tomos_status io_split(const char *path, char **file, char **dataset);
tomos_status io_put_text(File *file, const char *name, const char *text);
tomos_status io_text(const File *file, const char *name, char **text);
tomos_status io_names(const File *file, const char *group, char **names);
/* Reads a part of the first two axes, all of the third: as floats, or in the type of
 * `file->element`, without scale and offset, on at most `threads` threads. */
tomos_status io_read(File *file, const Extract *part, float *data);
tomos_status io_read_stored(File *file, const Extract *part, int threads, void *stored);
/* Samples as floats. */
tomos_status io_read_box(File *file, const Samples *samples, float *data);
/* Stored numbers to floats, with scale and offset; `stored` may be `data`, if they are floats. */
tomos_status io_convert(const File *file, const void *stored, int64_t count, float *data);
/* Writes numbers of the type of `file->element`. Several threads may write different indices of one
 * file at the same time, also with tomos_file_write. */
tomos_status io_write_stored(
	File *file, int64_t first, int64_t count, int threads, const void *stored);
/* Memory in bytes that writing a file of this name takes, beside the slices. */
double io_write_bytes(const char *path, const int64_t shape[3]);
/* Opens a file without its data, for io_get, io_text and io_names only. */
tomos_status io_look(File **file, const char *path);
bool io_is_directory(const char *path);
bool io_names_directory(const char *path); /* or ends in '/' */
/* Appends a name to a list for a message; after a few names, dots. */
void io_add_name(char *names, size_t size, int before, const char *start, const char *name);
/* The format that reads a file, and the one that writes a file of this name. */
tomos_status format_by_content(
	const Format **format, const char *path, const tomos_file_options *options);
tomos_status format_by_name(const Format **format, const char *path);
/* Rejects a name whose extension is no output format. */
tomos_status io_check_name(const char *path);
/* The same, and rejects options without effect on such a file. */
tomos_status io_check_options(const char *path, const tomos_file_options *options);
/* Opens or creates a resumable file under construction. A later process passes `continued` and
 * calls io_done for the indices already written; in HDF5 files the named numbers are complete as
 * well. TOMOS_BAD_FILE: there is nothing to resume. */
tomos_status io_create(File **file, const char *path, tomos_content content, const int64_t shape[3],
	const tomos_file_options *given, const char *temporary, bool continued);
/* Suffixes of auxiliary files that a format may keep with such a file: data not yet in it, and the
 * copy that will replace it. io_discard removes all of them. */
#define IO_DATA_ENDING ".data"
#define IO_WHOLE_ENDING ".whole"
#define IO_PART "%s" IO_DATA_ENDING ".%d" /* data of a process that has joined; there is no gap */
void io_discard(const char *temporary);
/* Several processes may write a file. One creates it and seals it; the others, numbered from 1
 * on, join it, with the io_data_at of the first. When they have finished, the first calls io_merge
 * and marks with io_done what they have written. A process that resumes the file merges first. */
typedef struct {
	int number; /* 1 .. */
	int64_t data_at;
} FilePart;
tomos_status io_join(File **file, const char *path, tomos_content content, const int64_t shape[3],
	const tomos_file_options *given, const char *temporary, const FilePart *part);
int64_t io_data_at(const File *file);
tomos_status io_merge(File *file);
/* After this only data are written. Reserves the space that the commit needs. */
tomos_status io_seal(File *file);
/* Passes buffered data to the operating system. */
tomos_status io_sync(File *file);
/* Marks indices written by an earlier process, with their checksums. */
void io_done(File *file, int64_t first, int64_t count, const uint32_t *checksums);
/* Reads the indices marked by io_done and unmarks damaged ones. Returns the numbers of good and of
 * damaged indices. */
tomos_status io_verify_done(
	File *file, const tomos_progress *progress, int64_t *done, int64_t *lost);
/* The frame of a sealed file; and a check that the frame of a file under construction is unchanged
 * (TOMOS_BAD_FILE: it is not). */
tomos_status io_frame(File *file, Frame *frame);
tomos_status io_frame_check(const char *temporary, const Frame *frame);
/* Lists every file that the open one reads from. */
tomos_status io_sources(const File *file, TakePath take, void *user);

/* Frames that a function reads, rows [row, row + rows) of one at a time, from several threads. The
 * file takes over `own`, also where it cannot be made. */
typedef struct {
	int64_t shape[3];
	Element element;
	tomos_status (*read)(
		const void *own, int64_t frame, int64_t row, int64_t rows, void *stored);
	tomos_status (*sources)(const void *own, TakePath take, void *user); /* NULL: the path */
	void (*close)(void *own);                                            /* or NULL */
	void *own;
} FrameSource;
tomos_status io_frames(File **file, const char *path, const FrameSource *source);
tomos_status io_constant(File **file, const char *path, const int64_t shape[3], double value);

tomos_status io_check_range(const File *file, int64_t first, int64_t count, const void *data);
tomos_status io_check_writable(const File *file);

/* ---- for the formats ------------------------------------------------------------------------- */

/* A part of a file as samples of step 1; indices from the first to the last sample of an axis. */
Samples samples_of(const File *file, const Extract *part);
int64_t samples_span(const Samples *samples, int axis);
/* The first axis along which samples are not inside a shape; 3: none. */
int samples_outside(const Samples *s, const int64_t n[3]);
/* Copies the samples of one index of the first axis out of `rows`: whole rows, the first of which
 * has the first samples. Rows with samples are `row_step` rows apart. */
void samples_pick(
	const File *file, const Samples *samples, const char *rows, int64_t row_step, char *stored);
/* Samples from whole rows, by `read`. */
tomos_status samples_by_rows(File *file, const Samples *samples, int threads, void *stored);
/* `count` numbers of `bytes` bytes (1, 2, 4 or 8); strides in bytes. */
void copy_strided(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t count,
	int64_t bytes);

/* "float32", "uint16", ...; NULL if there is no such type. */
const char *element_name(Element element);
bool element_named(const char *name, Element *element);
/* The types of a format with their names, of which the first is written: "a|b|c". */
typedef struct {
	const char *names;
	Element element;
} ElementNames;
const char *element_names(const ElementNames *list, int count, Element element); /* "": none */
void text_trim(char *text); /* blanks at its end */
/* Rejects values outside the range of float; `path` is used in the message. */
tomos_status element_convert(
	Element element, const void *stored, int64_t count, float *data, const char *path);
/* The same to double, for a type that element_name knows. */
void element_widen(Element element, const void *stored, int64_t count, double *data);

/* The scale of stored integers, read after opening and written before the commit. */
tomos_status scale_read(File *file);
tomos_status scale_write(File *file);
bool scale_is_inside(const File *file); /* inside the file or folder under construction */

/* Checksums as named numbers of HDF5 files; existing ones are overwritten. */
#define CHECKSUMS "storage/crc32"
tomos_status checksums_write(File *file);
/* Those of a file that was opened, if it has them; and a part that was read, compared with them
 * where it has whole indices. */
void checksums_load(File *file);
tomos_status checksums_compare(const File *file, const Extract *part, const void *stored);

/* Floats to a stored type: (value - offset) / scale, rounded, clipped to the range of the type. */
void element_encode(Element element, const float *data, int64_t count, double scale, double offset,
	void *stored);
double element_largest(Element element); /* of unsigned integers */

/* Extends a shape of `rank` axes to three with leading ones; rejects other ranks and empty or huge
 * shapes. `where` begins the message. */
tomos_status shape_take(int64_t shape[3], const int64_t *axes, int rank, const char *where);
/* The same for the shape of a file. */
tomos_status file_take_shape(File *file, const int64_t *axes, int rank);
/* Shape and numbers of a file whose header names the axis that varies fastest first; `big`: its
 * numbers begin with the most significant byte. */
tomos_status file_take_array(File *file, const int64_t *axes, int rank, Element element, bool big);
Element element_ordered(Element element, bool big);

/* Whether the last component of a path has '*' or '?' and no file has that name: the matching TIFF
 * files of the directory are one stack. */
bool tiff_is_pattern(const char *path);

/* Whether a directory holds a Zarr array or group. */
bool zarr_is_store(const char *path);

/* Ordinary files. `path` is used in messages. */
tomos_status flat_open(int *descriptor, int64_t *size, const char *path);
tomos_status flat_create(int *descriptor, const char *temporary, const char *path);
/* A text file: an existing one is replaced when the new one is complete. */
tomos_status flat_text_write(const char *path, const char *text);
/* The file under construction, new or continued. */
tomos_status file_descriptor(const File *file, int *descriptor);
tomos_status flat_read(int descriptor, const char *path, int64_t at, void *data, int64_t bytes);
tomos_status flat_write(
	int descriptor, const char *path, int64_t at, const void *data, int64_t bytes);
/* Runs of `bytes` bytes, `stride` apart in the file, which follow each other in memory. */
typedef struct {
	int descriptor;
	const char *path;
	int64_t at, stride, bytes, count;
} Runs;
tomos_status flat_read_runs(const Runs *runs, int threads, void *data);
tomos_status flat_write_runs(const Runs *runs, int threads, const void *data);
/* Whether a file or directory is in memory (tmpfs). Large pages for [at, end) of such a file, which
 * is extended to `size` bytes if it is shorter; false: there are none. Mappings of at least [at,
 * end): nothing is written to a page that was not allocated, since without space the process would
 * end. */
typedef struct {
	char *region, *data; /* data: byte `from` of the file */
	size_t length;       /* of the region, which is larger so that large pages fit */
	int64_t from, bytes;
} View;
bool path_in_memory(const char *path);
bool large_pages(int descriptor, int64_t at, int64_t end, int64_t size);
bool view_open(View *view, int descriptor, int64_t at, int64_t end, int64_t size);
void view_close(const View *view);
/* The space of a large output in [at, at + bytes) of a file, if its file system gains by it,
 * otherwise NULL; reserve_write writes one run, with space NULL like flat_write_runs. reserve_close
 * must be called before the file is closed. */
typedef struct Reserve Reserve;
tomos_status reserve_open(Reserve **reserve, int descriptor, int64_t at, int64_t bytes);
tomos_status reserve_write(Reserve *reserve, const Runs *runs, int threads, const void *data);
void reserve_close(Reserve **reserve);
tomos_status flat_cut(int descriptor, const char *path, int64_t bytes);
tomos_status flat_close(int *descriptor, const char *path); /* -1: already closed */

/* A grid as the header of a file gives it, x y z. */
typedef struct {
	double first[3], step[3];
	bool known;
} GridNumbers;

/* A header followed by the numbers. */
typedef struct {
	int descriptor;
	int64_t size, data; /* of the file; offset of the numbers */
	bool fortran;       /* the first axis varies fastest */
	Reserve *reserve;   /* writing: NULL, or what plain_begin has opened */
	GridNumbers grid;   /* of formats whose header has a place for it */
} Plain;
/* Makes the `own` of a file, of `bytes` bytes: a Plain, or a struct that begins with one. */
tomos_status plain_new(File *file, size_t bytes);
/* Rejects a file whose size does not match its shape. */
tomos_status plain_check(const Plain *plain, File *file, const char *path);
tomos_status plain_read(
	const File *file, const Plain *plain, const Extract *part, int threads, void *stored);
tomos_status plain_read_box(
	const File *file, const Plain *plain, const Samples *samples, int threads, void *stored);
/* To be called when the file is open for writing and `data` is known: prepares large outputs. */
tomos_status plain_begin(const File *file, Plain *plain);
/* Opens the file for writing, its data `data` bytes after its begin, and does that. */
tomos_status plain_create(File *file, Plain *plain, int64_t data);
tomos_status plain_write(const File *file, const Plain *plain, int64_t first, int64_t count,
	int threads, const void *stored);
tomos_status plain_read_back(const File *file, const Plain *plain, int64_t index, void *stored);
void plain_close(const File *file, Plain *plain);
/* Truncates the file after the data, where an earlier process may have written more, and closes
 * it. */
tomos_status plain_finish(const File *file, Plain *plain);

/* Functions of a format whose `own` is a Plain, or begins with one. */
tomos_status plain_file_read(File *file, const Extract *part, int threads, void *stored);
tomos_status plain_file_write(
	File *file, int64_t first, int64_t count, int threads, const void *stored);
tomos_status plain_file_read_box(File *file, const Samples *samples, int threads, void *stored);
tomos_status plain_file_finish(File *file);
tomos_status plain_file_read_back(File *file, int64_t index, void *stored);
tomos_status plain_file_get(const File *file, const char *name, double **values, int64_t shape[2]);
tomos_status plain_file_put(
	File *file, const char *name, const double *values, const int64_t shape[2]);
void plain_file_close(File *file);
#define PLAIN_READ \
	.read = plain_file_read, .read_box = plain_file_read_box, .read_back = plain_file_read_back
#define PLAIN_FORMAT \
	PLAIN_READ, .write = plain_file_write, .finish = plain_file_finish, \
		    .close = plain_file_close
#define PLAIN_GRID .get = plain_file_get, .put = plain_file_put

/* `get` and `put` of a format that keeps its grid here. */
tomos_status grid_get(const GridNumbers *grid, const File *file, const char *name, double **values,
	int64_t shape[2]);
void grid_put(GridNumbers *grid, const File *file, const char *name, const double *values);
void grid_scale(GridNumbers *grid, double factor); /* to another unit */
void grid_mirror_xy(GridNumbers *grid);            /* between LPS and RAS coordinates */
void grid_check(GridNumbers *grid);                /* unknown if a number cannot be right */
/* A unit of length by its name: how many mm it is, and "mm" as the unit of the file; of a name that
 * is not known 1, and the name. */
double unit_take(char unit[UNIT_NAME], const char *name);
bool unit_is_plain(const char *unit); /* short, without quotes and other marks */
/* Takes the unit that the first letters of a text are, without blanks after it; others are left. */
void unit_copy(char unit[UNIT_NAME], const char *text, size_t length);
/* "values in 1/mm, lengths in mm", and finding that in a text. */
void units_say(const File *file, char text[UNITS_TEXT]);
void units_find(File *file, const char *text);
/* As attributes and texts, in formats that have them. */
tomos_status units_write(File *file);
tomos_status units_read(File *file);
double float_as_written(float number);

/* The path of a file that the header at `path` names: relative to the folder of the header. */
tomos_status path_beside(char **name, const char *path, const char *other);
bool path_ends_in(const char *path, const char *ending); /* in letters of either case */

/* A new file without a name, in $TMPDIR or /tmp, for the unpacked data of the one at `path`. */
tomos_status flat_unnamed(int *descriptor, const char *path);
/* gzip streams. Unpacking reads [at, end) of a file, one member after the other, and writes exactly
 * `bytes` bytes to a file without a name. Packing writes one member, which several threads
 * compress. */
tomos_status gzip_unpack(
	int from, const char *path, int64_t at, int64_t end, int64_t bytes, int *unpacked);
/* The first bytes of what is packed in `head`; returns how many there are. */
size_t gzip_head(const unsigned char *head, size_t length, unsigned char *out, size_t room);
/* Packs a complete file under construction. */
tomos_status gzip_finish(File *file);

/* Largest compression ratio of any method: files that claim more are damaged, and are rejected
 * before memory is allocated for them. */
enum { LARGEST_RATIO = 65536 };

#endif
