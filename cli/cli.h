/* Declarations of the command: settings from option rows, messages, progress, file access. */
#ifndef TOMOS_CLI_CLI_H
#define TOMOS_CLI_CLI_H

#include <stdbool.h>
#include <stdio.h>
#include "tomos.h"
#include "options.def"

#if defined __GNUC__
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#else
#define PRINTF_LIKE(text, first)
#endif

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define WIDTH 80 /* columns of printed help */

/* Exit status; every function that returns an int "code" returns one of these. */
enum { DONE = 0, FAILED = 1, WRONG_USAGE = 2, INTERRUPTED = 130 };

/* On failure stores the status in `code` and jumps to the label `done`. */
#define DO(expression) \
	do { \
		code = (expression); \
		if (code != DONE) \
			goto done; \
	} while (0)

/* ---- settings: one struct per group of rows, all in one struct ------------------------------- */

#define OWN_STRUCT(group, ROWS, heading) \
	typedef struct group##_options { \
		ROWS(TOMOS_FIELD) \
	} group##_options; \
	static inline group##_options group##_defaults(void) \
	{ \
		group##_options o = {0}; \
		ROWS(TOMOS_SET) \
		return o; \
	}
#define NO_STRUCT(group, heading)
CLI_GROUPS(NO_STRUCT, OWN_STRUCT)

#define LIBRARY_NUMBER(group, heading) GROUP_##group,
#define OWN_NUMBER(group, ROWS, heading) GROUP_##group,
enum { CLI_GROUPS(LIBRARY_NUMBER, OWN_NUMBER) GROUP_COUNT };

#define LIBRARY_MEMBER(group, heading) tomos_##group##_options group;
#define OWN_MEMBER(group, ROWS, heading) group##_options group;

typedef struct settings {
	CLI_GROUPS(LIBRARY_MEMBER, OWN_MEMBER)
	uint64_t given[GROUP_COUNT]; /* bit i: row i of the group was given */
	uint64_t units[GROUP_COUNT]; /* of these, lengths with a unit */
	uint64_t typed[GROUP_COUNT]; /* given on the command line, not in a recipe */
	bool of_scan;                /* the input is a scan, whose file may have a geometry */
	bool folder;                 /* the output is a folder with one file per slice or view */
	char facts[512];             /* facts for the needs of options: "method=sirt hdf5=1" */
	char *line;                  /* the command as it was typed */
	int word_count;
	char **words; /* its words, after the name of the command */
	const char **operands;
	int operand_count;
	void **blocks; /* memory of lists that options point to */
	int block_count;
} settings;

typedef struct command {
	const char *name;
	int least, most;
	const char *operands, *usage, *summary, *groups, *examples;
	int (*run)(const settings *s);
} command;

#define COMMAND(name, least, most, operands, usage, summary, groups, examples) \
	int cmd_##name(const settings *s);
#include "commands.def"
#undef COMMAND

typedef struct group {
	const char *name, *heading;
	size_t offset; /* of its struct within the settings */
	const tomos_option *rows;
	int count;
} group;

const command *command_list(int *count);
const command *command_find(const char *name);
const char *command_names(void); /* "a|b|c" */
int command_unknown(const char *name);
const char *workload_names(void);

void settings_init(settings *s);
void settings_free(settings *s);
int settings_parse(settings *s, const command *c, int count, char **words);
/* Sets row i of a group, and marks it as given. */
int settings_set(settings *s, int number, int i, const char *text);
int settings_keep(settings *s, void *block); /* to be freed with the settings */
/* Whether --name of the group was written on the command line. */
bool settings_given(const settings *s, int number, const char *name);
/* The first option given of that group that is not also in group `other` (-1: none), or NULL. */
const char *settings_stray(const settings *s, int number, int other);
/* Rejects such an option: it has no effect `why` ("with --method sirt"). */
int settings_reject(const settings *s, int number, int other, const char *why);
/* Bit i: row i of the group was given, not only as a default repeated by a recipe. */
uint64_t settings_rows(const settings *s, int number);

/* Rejects options that have no effect without others, unless one of the same name in another group
 * has. */
int needs_check(settings *s, const command *c);
bool needs_met(const settings *s, int number, int i);
/* The same for facts known from the scan file only, such as whether there are flat fields. */
int needs_scan(const settings *s, const tomos_scan *scan);

group group_get(int number);
/* Whether a row has its default, which saved recipes contain, too; resets it to the default. */
bool row_silent(const settings *s, const settings *plain, int number, int i);
void row_reset(settings *s, const settings *plain, int number, int i);
/* Whether the command has row i of the group; commands list groups, or single rows:
 * "file.dataset". */
bool row_used(const command *c, int number, int i);
const char *row_values(const tomos_option *row); /* "a|b|c" of a choice, with references resolved */
void name_shown(const char *name, char shown[64]);               /* with '-' for '_' */
char row_letter(const tomos_option *row);                        /* 'o' of -o, or 0 */
const char *row_text(const command *c, const tomos_option *row); /* what it does */
/* Its default as text; "" for none. */
void row_default(const command *c, int number, const tomos_option *row, char text[256]);

/* Target of an option of kind ARRAY; the array comes first, as the library expects. */
typedef struct file_array {
	tomos_array array;
	const char *path;
} file_array;

/* Sets options from a recipe that are not on the command line. */
int recipe_read(settings *s, const command *c, const char *path);
/* The present options as a recipe, to be freed. */
typedef bool (*recipe_filter)(const settings *s, int number, const tomos_option *row);
int recipe_text(const settings *s, const command *c, recipe_filter kept, char **text);
/* --save-recipe: written after the run. */
int recipe_save(const settings *s, const char *text);

/* ---- text ------------------------------------------------------------------------------------ */

bool name_in(const char *names, const char *text, size_t length);
bool word_has(const char *words, const char *text); /* words separated by spaces */
bool ends_with(const char *text, const char *ending);
void shell_quote(FILE *file, const char *word); /* a word as a shell reads it */

/* Bytes of the UTF-8 character that the text begins with; 0: it begins with none. */
int utf8_length(const char *text);
/* Bytes of as many whole characters as fit into `most` bytes. */
int utf8_cut(const char *text, int most);
/* Text of XML, and a string of JSON with its quotes; what is not UTF-8 becomes U+FFFD. */
void xml_escape(FILE *out, const char *text);
void json_text(FILE *json, const char *text);

bool text_int(const char *text, int64_t *value);
bool text_real(const char *text, double *value);
/* Comma list or @FILE into a new block of count doubles; lengths may have units. */
int text_list(const char *option, const char *text, bool lengths, double **values, int64_t *count);

void row_heading(const tomos_option *row, char text[160]);
void row_help(const command *c, int number, const tomos_option *row, char text[1024]);
void help_command(const command *c);
void help_all(void);
void help_man(void);
void help_bash(void);
void help_header(void);

/* ---- messages -------------------------------------------------------------------------------- */

void message_begin(const char *command_name, bool quiet);
void message_place(const char *path, int line); /* file and line for error messages; NULL: none */
/* Ranks of mpirun and the like. ranks_begin: to be called once, opens MPI if a launcher has started
 * the command. ranks_end: waits for all, and returns the exit status of rank 0 if `code` is DONE.
 * ranks_print: whether this rank prints. */
int ranks_begin(void);
int ranks_end(int code);
tomos_comm *ranks_comm(void);
bool ranks_print(void);
/* Between these calls the job ends soon after a rank is killed, with its number in a message.
 * guard_begin: before there are other threads. */
void guard_begin(void);
void guard_end(void);

/* From here on messages are written to this file as well, warnings with "! " before them; NULL: no
 * more. */
void message_record(FILE *file);
void complain(const char *format, ...) PRINTF_LIKE(1, 2); /* "tomos COMMAND: ..." */
/* Macros, so that static analysis sees the returned value. */
#define failed(...) (complain(__VA_ARGS__), FAILED)
#define wrong_usage(...) (complain(__VA_ARGS__), WRONG_USAGE)
int lib(tomos_status status);                        /* the library's message, if any */
void say(const char *format, ...) PRINTF_LIKE(1, 2); /* to stdout, unless quiet */
int interrupted(void);
bool message_quiet(void);
const char *message_command(void);
/* Options of the library as they are typed: in an error message, source_axis becomes --source-axis;
 * in a line of a job, which has names of files too, only what is written as "the option
 * 'source_axis'". */
void message_typed(const char *message, char *text, size_t size);
void message_line_typed(const char *line, char *text, size_t size);
void message_line(tomos_level level, const char *line); /* what a job of the library says */
/* Lines on stderr, "note: ..." unless quiet, "warning: ..." always. */
void note(const char *format, ...) PRINTF_LIKE(1, 2);
void warn(const char *format, ...) PRINTF_LIKE(1, 2);

/* ---- progress and Ctrl-C --------------------------------------------------------------------- */

/* Handles signals from here on, and shows progress of long work, initially under that name. */
void progress_start(const char *command_name);
void progress_end(void); /* stops showing progress */
const tomos_progress *progress_shown(void);
/* A run whose rates are shown with the progress bar; NULL: none. */
void progress_rates(const tomos_run_report *report);
const tomos_progress *progress_silent(void); /* shows nothing, but cancels after Ctrl-C */
int progress_step(const char *stage, int64_t done, int64_t total); /* INTERRUPTED after Ctrl-C */
void progress_go_on(void); /* after Ctrl-C: continues with this stage, until the next Ctrl-C */
void progress_clear(void); /* removes the bar from the terminal, before other output */
double seconds(void);

/* ---- files and arrays ------------------------------------------------------------------------ */

int array_new(tomos_array *array, const int64_t shape[3], const char *what);
void array_free(tomos_array *array);
void shape_text(const int64_t shape[3], tomos_content content, char text[96]);

/* Checks all outputs: none replaces an input, and each can be written. */
int outputs_check(settings *s, const command *c);

int file_read_all(tomos_file *file, const char *path, tomos_array *array);
enum { UNIT = 16 }; /* room for the name of a unit */
/* Whether the file is that of a scanner, with the geometry of its views. */
bool file_of_scanner(const char *path);
/* Views were named, or their folder, instead of the scanner's file beside them. */
void note_scanner(const char *views);
/* Opens a file, and warns about files missing from a stack. */
int file_open(const settings *s, const char *path, tomos_file **file, tomos_file_info *info);
/* Reads a volume with its grid, from the file or centred with the given voxel size, and the unit of
 * its lengths. */
int load_volume(const settings *s, const char *path, tomos_array *volume, tomos_grid *grid,
	char unit[UNIT]);
/* The grid stored in a file; n[0] is 0 if there is none. */
int file_own_grid(const tomos_file *file, tomos_grid *grid);
/* Warns if both grids are known and differ; `other` is inserted in the message. */
void grids_warn(
	const char *path, const tomos_grid *grid, const char *other, const tomos_grid *with);
/* Only the grid of such a file; rejects --voxel if the file has a grid. */
int file_volume_grid(
	const settings *s, const tomos_file *file, const tomos_file_info *info, tomos_grid *grid);
/* Reads all projections, with their views from the file or --views-file. */
int load_scan(const settings *s, const char *path, tomos_array *data, tomos_geometry **scan);
/* The views of --views-file; rows and columns are required for .txt, and checked for JSON unless
 * 0. */
int load_views(const settings *s, int64_t rows, int64_t columns, tomos_geometry **scan);
int load_views_of(const settings *s, const int64_t shape[3], tomos_geometry **scan);
/* Checks the shape against the views; a sinogram [view][column] becomes views of one row. */
int fit_views(const char *path, const tomos_geometry *scan, tomos_array *data);
int grid_centred(tomos_grid *grid, const int64_t n[3], const double *voxel, int64_t count);

/* An output is created before the work, so that errors are reported first, and written after it. */
typedef struct output_file {
	tomos_file *file;
	const char *path;
	tomos_file_options options;
	tomos_content content;
	double window[2]; /* integers without --window: the range of the values */
	bool no_window;   /* the range is not known yet */
} output_file;
int output_open(output_file *out, const char *path, const tomos_file_options *options,
	tomos_content content, const int64_t shape[3]);
/* Creates the output with this window, if the range was not known before. */
int output_set_window(output_file *out, double low, double high, const int64_t shape[3]);
int output_range(output_file *out, const tomos_array *array);
/* Writes a volume with its grid, or projections with their scan; the other is NULL. Calls
 * output_set_window. */
int output_write(output_file *out, const tomos_array *array, const tomos_grid *grid,
	const tomos_geometry *scan);
void output_close(output_file *out);
/* Writes grid or geometry; prints a note if the format cannot store them. */
int output_describe(
	tomos_file *file, const char *path, const tomos_grid *grid, const tomos_geometry *scan);
/* Calls visit(user, first, count, data) for successive parts of a file along the first axis. */
int file_each(tomos_file *file, const char *stage,
	int (*visit)(void *user, int64_t first, int64_t count, float *data), void *user);

bool phantom_is_name(const char *text);

/* ---- values that are shown ---------------------------------------------------------------- */

/* Sorts the values and drops those that are not finite; -> how many are left. */
int64_t sort_finite(float *values, int64_t count);
/* The 0.1 and 99.9 percentiles, or all values if these are equal. */
void sorted_range(const float *sorted, int64_t count, double *low, double *high);
int range_of(const float *values, int64_t count, double *low, double *high);
/* Whether the size of a volume's voxels is known, and the unit of its lengths, with these steps of
 * its grid: "" where there are sizes in a unit that is not known. */
bool size_known(const tomos_file_info *info);
const char *length_unit(const tomos_file_info *info, const double step[3]);

/* ---- work in pieces, for progress and cancelling --------------------------------------------- */

int pieces_forward(tomos_backend *backend, const tomos_grid *grid, const tomos_geometry *scan,
	const tomos_projector_options *options, const tomos_array *volume,
	const tomos_array *projections);
int pieces_back(tomos_backend *backend, const tomos_grid *grid, const tomos_geometry *scan,
	const tomos_projector_options *options, const tomos_array *projections,
	const tomos_array *volume);
int pieces_volume(const tomos_phantom *phantom, const tomos_grid *grid, int64_t samples,
	const tomos_array *volume);
int pieces_phantom(const tomos_phantom *phantom, const tomos_geometry *scan, int64_t samples,
	const tomos_array *projections);

/* Size of an object around the origin. */
typedef struct extent {
	double radius, height; /* largest distance from the z axis, and from the plane z = 0 */
	double step;           /* voxel size; 0 for a phantom, which has none */
	bool flat;             /* one slice */
} extent;
extent extent_of_grid(const tomos_grid *grid);
extent extent_of_phantom(const tomos_phantom *phantom);
/* Rejects options with units like mm where the lengths of a file are not in mm; `unit` NULL: they
 * are in pixels of unknown size. */
int lengths_check(const settings *s, const char *path, const char *unit);
/* The scan given by the options; detector and pixel size default to covering the whole object. */
int scan_make(const settings *s, const extent *object, tomos_geometry **scan);
/* The views as seen by `rows` rows from `row` on; slices of their own are put at z = 0. */
void views_of_rows(const tomos_geometry *g, int64_t row, int64_t rows, tomos_view *views);
bool scan_point_source(const tomos_geometry *scan);
double source_detector(
	const tomos_view *view); /* distance from the source to the detector's plane */
/* The detector column that the origin projects to in the first view. */
double axis_column(const tomos_geometry *g);

/* ---- scans as measured ----------------------------------------------------------------------- */

/* A job of the library, with the options that all commands on scans have. */
typedef struct scan_job {
	tomos_job job;
	tomos_scan_options scan;
	tomos_scan_info info;  /* without its texts */
	tomos_geometry *views; /* of --views-file, or NULL */
} scan_job;
/* Rejects options that contradict what the scan says itself. */
int job_make(const settings *s, scan_job *j);
void job_free(scan_job *j);
/* Does the work with the prepared scan of the options and their backend. */
int job_prepared(const settings *s, bool axis_later,
	int (*work)(const settings *s, tomos_prepared *prepared, tomos_backend *backend));
void prepared_say(const tomos_prepared *prepared); /* how its axis was found */
void axis_say(const tomos_axis *axis, const tomos_geometry *scan);
void prep_say(const tomos_prep_report *report);
int info_kernels(void);
/* The picture of --draw, if it is named. */
int geometry_draw(const settings *s, const tomos_geometry *geometry, const char *unit);

int history_new(tomos_history *h, int64_t iterations);
void history_free(tomos_history *h);
int64_t history_count(const tomos_history *h); /* iterations that are kept */
/* The files of --history and --plot, if they are named. */
int history_write(const settings *s, const tomos_history *h);
/* The script of --sbatch, for a run that was planned. */
int sbatch_write(const settings *s, const tomos_run_report *report);
int history_plot(const settings *s, const tomos_history *h, const char *method, bool truth);
double history_least(const tomos_history *h); /* the least error; NAN: not known */

/* Prints the four measures. */
void difference_say(const tomos_difference *d);
int difference_print(const tomos_array *truth, const tomos_array *other, tomos_difference *d);

#endif
