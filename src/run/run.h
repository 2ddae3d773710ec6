/* A run: prepared projections, slabs, the journal of what is done, and the stages. */
#ifndef TOMOS_RUN_RUN_H
#define TOMOS_RUN_RUN_H

#include "geom/rays.h"
#include "run/scan.h"

/* ---- prepared projections ------------------------------------------------------------------- */

enum { HARDENING_TERMS = 4 }; /* of the polynomial that is found from the scan */

struct tomos_prepared {
	tomos_scan *scan;
	tomos_scan_info info;
	tomos_prep_options prep;
	tomos_reach reach;
	double *shifts[2];             /* from the file, in `prep` */
	int64_t *bad_views;            /* those of the job and those found, in `prep`; or NULL */
	double *flat_places;           /* or NULL */
	int64_t first_column, columns; /* of the scan's */
	int64_t bin;                   /* rows of the scan for each prepared one */
	int64_t first_row;             /* prepared rows before the first of the geometry's */
	int64_t first_view;            /* of the scan: the first that is read; views: info.views */
	bool trims;                    /* other views are prepared, too; */
	int64_t skipped;               /* the number of those before the first of the geometry's */
	tomos_geometry *geometry;      /* after preparation */
	char unit[UNIT_NAME];          /* of lengths: "mm", "pixel", "": not known */
	char *note;                    /* how the axis was found, or NULL */
	char *warning;                 /* of an axis that is uncertain, or NULL */
	bool blank;                    /* the rows to find the axis in show nothing */
	tomos_axis searched;           /* what the last search found; bytes 0: there was none */
	bool find_scatter, find_hardening;
	double hardening[HARDENING_TERMS]; /* found, in `prep` */
	char *found;                       /* what was, in lines, or NULL */
	tomos_axis_options axis;           /* the lists it points to are the caller's: */
	double axis_range[2];
	unsigned unknown;     /* bits of the values of the pose that are looked for */
	bool decided;         /* the direction was searched for */
	bool reversed;        /* the angles of `geometry` are those of the scan, negated */
	bool assumed;         /* the axis is taken to be in the middle of the detector */
	bool keeps_direction; /* of the scanner's file, with a warning if rays contradict it; or */
	bool by_reverse;      /* that of the option 'reverse'; or */
	bool by_views;        /* that of the option 'views-file' */
};

/* The same with views [first, first + count) of its geometry. Others are read only if steps of the
 * preparation need them. What both have in common belongs to the whole. */
tomos_status prepared_part(
	tomos_prepared *part, const tomos_prepared *whole, int64_t first, int64_t count);
void prepared_part_free(tomos_prepared *part);
/* Searches for the axis, unless the job or the scan specifies it, or the job postpones the
 * search. */
tomos_status prepared_axis_known(
	tomos_prepared *p, const tomos_job *job, const tomos_progress *progress);

bool prepared_is_tilted(const tomos_prepared *p); /* laminography: all rows are summed */
/* What is said of the axis (axis_say.c): in p->note and p->warning. */
tomos_status axis_say_found(tomos_prepared *p, int64_t row, int64_t rows, const tomos_axis *axis);
tomos_status axis_say_not_found(tomos_prepared *p); /* because of the last message */
tomos_status axis_say_no_direction(tomos_prepared *p);
tomos_status axis_say_middle(tomos_prepared *p, const tomos_job *job);
tomos_status axis_say_of_file(tomos_prepared *p);
tomos_status axis_warn_contradicted(tomos_prepared *p);
/* said: by the scanner's file, or by the views. */
tomos_status axis_warn_elsewhere(tomos_prepared *p, double column, double said);
tomos_status axis_warn_tilted(tomos_prepared *p);

/* Whether the data are line integrals after preparation. */
bool prepared_are_counts(const tomos_prepared *p);
bool prepared_are_integrals(const tomos_prepared *p);
bool prepared_has_step(const tomos_prepared *p, const char *name);
/* Finds views without light, and takes them for bad views, with a warning. */
tomos_status prepared_dark_views(tomos_prepared *p, const tomos_job *job);
/* The column of the scan that a column of the prepared data is. */
double prepared_column(const tomos_prepared *p, double column);
/* Options that are `auto`: removed at first, and found when geometry and axis are known. */
void prepared_auto_begin(tomos_prepared *p);
tomos_status prepared_auto_find(
	tomos_prepared *p, const tomos_job *job, const tomos_progress *progress);
/* One row of the prepared geometry, [view][column]. */
tomos_status prepared_read_row(
	tomos_prepared *p, int64_t row, float *data, const tomos_progress *progress);
/* Rejects what cannot be found before the axis is. */
tomos_status prepared_auto_check(const tomos_prepared *p);

/* Rows of the scan that the prepared rows [row, row + rows) need, margins included. */
typedef struct {
	int64_t row, rows;     /* of the scan */
	int64_t before;        /* prepared rows in the margin before the first one wanted */
	int64_t prepared_rows; /* prepared rows that they result in */
} RawRows;
RawRows prepared_needs(const tomos_prepared *p, int64_t row, int64_t rows);
/* Memory for some rows of the scan with their flats and darks. */
typedef struct {
	float *views, *flats, *darks;
	RawRows rows;
} RawSlab;
tomos_status raw_alloc(RawSlab *slab, const tomos_prepared *p, int64_t rows);
void raw_free(RawSlab *slab);
int64_t raw_row_bytes(const tomos_prepared *p);    /* of one row of the scan, as floats */
int64_t raw_stored_bytes(const tomos_prepared *p); /* likewise, as stored */
tomos_status raw_read(RawSlab *slab, tomos_prepared *p, const RawRows *rows);
/* Rejects a scan in which every value had to be replaced: not finite, or without light. */
tomos_status prepared_usable(
	const tomos_prepared *p, const tomos_prep_report *report, int64_t values);
/* Prepares the wanted rows into data, [view][row][column]; overwrites the raw data of the slab. */
tomos_status raw_prepare(RawSlab *slab, const tomos_prepared *p, int64_t rows, float *data,
	tomos_prep_report *report, const tomos_progress *progress);

/* Reads the rows of the scan that are needed for `rows` prepared ones, and prepares these. */
tomos_status prepared_read_raw(tomos_prepared *p, const RawRows *needs, int64_t rows, float *data,
	tomos_prep_report *report, const tomos_progress *progress);

/* "A:B", "A:", ":B" or "" within 0 .. count; `name` is for the message. */
tomos_status range_parse(
	const char *name, const char *text, int64_t count, int64_t *first, int64_t *end);
/* A copy of a caller's job, which may be of another version. */
tomos_status job_take(tomos_job *job, const tomos_job *given);
/* Copies the report to the caller's, as far as the caller's struct has the members. */
void report_publish(const tomos_job *job, const tomos_run_report *report);
/* The output of a job that names none; to be freed. */
tomos_status default_output(char **output, const char *scan);
/* A line to the caller. */
tomos_status job_tell(const tomos_job *job, tomos_level level, const char *format, ...)
	PRINTF_LIKE(3, 4);
#define job_say(job, ...) job_tell(job, TOMOS_FACT, __VA_ARGS__)
#define job_note(job, ...) job_tell(job, TOMOS_NOTE, __VA_ARGS__)
#define job_warn(job, ...) job_tell(job, TOMOS_WARNING, __VA_ARGS__)
/* Warns about a file that is missing from a stack. */
tomos_status job_say_gap(const tomos_job *job, const tomos_file *file);

/* Whether every slice projects to exactly one detector row: slice k to row k + *first. */
bool run_stacked(const tomos_geometry *scan, const tomos_grid *grid, int64_t *first);
/* Where they do not, iterative methods cannot take some of the slices alone: fails with that. */
tomos_status run_rows_rejected(const char *rows);

/* ---- what a volume looks like --------------------------------------------------------------- */

/* Sets the window so that a fraction `tail` of the data is below it and the same above it. */
void window_of(const float *data, int64_t count, double tail, double window[2]);

/* Pictures of the middle planes across z, y and x, beside the output. */
typedef struct {
	const char *output;
	bool overwrite;
	int64_t shape[3];
	float *planes[3];
	bool pictures;        /* files of them are wanted, not only the planes */
	bool drawn;           /* a first look is there */
	unsigned char *taken; /* slices drawn; NULL: no planes are wanted */
} Preview;

/* Whether the pictures can be written; needs the output's name alone. */
tomos_status preview_check(const Preview *preview);
tomos_status preview_open(Preview *preview);
void preview_take(Preview *preview, int64_t first, int64_t count, const float *slices);
tomos_status preview_path(char **path, const Preview *preview, int axis);
/* Writes the images of the planes as they are now; preview_write first reads the slices that an
 * earlier run has written. */
tomos_status preview_draw(Preview *preview);
tomos_status preview_write(Preview *preview);
/* Reads `most` of the slices that were not drawn; the others become like their neighbours. */
tomos_status preview_fill(Preview *preview, int64_t most);
void preview_remove(const Preview *preview); /* a first look at a run that failed */
void preview_free(Preview *preview);

/* ---- the journal ---------------------------------------------------------------------------- */

/* What an output is made of: hashes of the scan's content and of the settings, and where it is
 * computed, which decides how sums are rounded. */
typedef struct {
	uint64_t scan, settings;
	char backend[32];
} Identity;

/* State of an incomplete output, in a locked text file beside it. */
typedef struct {
	char *path, *part; /* of the journal and of the file under construction */
	int descriptor;
	bool begun;       /* an earlier run has left a part that belongs to this one */
	char damage[512]; /* why the part cannot be used; "": there is none, or it can */
	char *text;       /* of that run's journal */
	int64_t length;   /* of the journal so far */
} Journal;

/* Whether an earlier run has left an incomplete output. */
tomos_status journal_left(const char *output, bool *left);
/* Rejects an output that exists and may not be replaced, one that another process is writing, and
 * to resume one that was begun with another identity. */
tomos_status journal_open(Journal *journal, const char *output, const Identity *identity,
	bool resume, bool overwrite);
/* For ranks above 0, when rank 0 has opened the journal: one of the rank's own, whose lines a later
 * run adds to that of rank 0. */
tomos_status journal_join(Journal *journal, const char *output, int rank);
/* Removes what an earlier run left. */
tomos_status journal_clear(Journal *journal);
/* The first line of an empty journal. The file under construction may be there already. */
tomos_status journal_begin(Journal *journal, const Identity *identity);
/* The file is there, but for its data. A run that was broken off before this is begun again. */
tomos_status journal_ready(Journal *journal, const Frame *frame);
tomos_status journal_add(Journal *journal, int64_t first, int64_t count, const uint32_t *checksums);
/* A line about what was written, without its end. */
tomos_status journal_note(Journal *journal, const char *text);
/* The text of the first note of the earlier run (`note` NULL), or of the one after `note`, up to
 * the end of its line; NULL: there is none. */
const char *journal_next_note(const Journal *journal, const char *note);
/* Calls io_done for what the earlier run says it has done; lines that are damaged are left out and
 * counted. */
tomos_status journal_replay(const Journal *journal, File *file, int64_t *unread);
/* What is left cannot be used, for the reason that the last failure gave. */
void journal_damaged(Journal *journal);
/* Everything goes, or all is left for a later run. */
void journal_close(Journal *journal, bool finished);

#endif
