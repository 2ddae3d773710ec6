/* Used by all other folders: status and message, memory, threads, checked sizes, structs of
 * callers. */
#ifndef TOMOS_BASE_BASE_H
#define TOMOS_BASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tomos.h"
#include "tomos/options.def"

#if defined __GNUC__
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#else
#define PRINTF_LIKE(text, first)
#endif

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

#define TRY(expression) \
	do { \
		tomos_status try_status = (expression); \
		if (try_status != TOMOS_OK) \
			return try_status; \
	} while (0)

/* For functions that release what they hold at a label `done` and return `status`. */
#define TRY_OR_DONE(expression) \
	do { \
		status = (expression); \
		if (status != TOMOS_OK) \
			goto done; \
	} while (0)

/* Stores the error message for tomos_message() and returns the status. */
tomos_status fail(tomos_status status, const char *format, ...) PRINTF_LIKE(2, 3);
/* Shows compilers and analysers that the returned value is a failure. */
#define fail(status, ...) (fail(status, __VA_ARGS__), (status))

/* Memory aligned to 64 bytes; `what` names the object in the error message. */
tomos_status mem_alloc(void *pointer_out, int64_t count, size_t size, const char *what);
tomos_status mem_zeroed(void *pointer_out, int64_t count, size_t size, const char *what);
/* Space for one more element in a list of `count` (at *list, NULL at first). */
tomos_status mem_grow(void *list, int64_t count, int64_t *capacity, size_t size, const char *what);
tomos_status mem_text(char **out, const char *text);
tomos_status mem_printf(char **out, const char *format, ...) PRINTF_LIKE(2, 3);
void mem_free(void *pointer);
/* Allocates the pages of a mapping that may be written to; false, with errno, if there are none, or
 * (EINVAL) if the system cannot do this. */
bool mem_populate(void *mapping, int64_t bytes);
/* For tests. mem_fail_nth: the nth allocation from now on fails (0: none). mem_live: number of
 * blocks not yet freed. */
void mem_fail_nth(int64_t nth);
int64_t mem_live(void);

/* a * b and a + b of sizes >= 0; false if the result does not fit. */
bool size_mul(int64_t a, int64_t b, int64_t *product);
bool size_add(int64_t a, int64_t b, int64_t *sum);
tomos_status shape_count(const int64_t shape[3], int64_t *count);

/* CRC-32 as in zlib and gzip, continued: `sum` is the checksum of the preceding bytes (0: none). */
uint32_t checksum_add(uint32_t sum, const void *bytes, int64_t count);
/* What `sum` contributes where `bytes` bytes follow: the checksum of both is the exclusive or of
 * this and that of the bytes. */
uint32_t checksum_before(uint32_t sum, int64_t bytes);

/* Calls task(user, i) once for each i in [0, count), on all threads and in any order; returns when
 * all calls have returned. */
void parallel_for(int64_t count, void (*task)(void *user, int64_t index), void *user);

/* Tasks that can fail, on at most `threads` threads: returns the failure of the lowest index that
 * failed, and begins no index after one. Cancelled like parallel_try. */
tomos_status parallel_each(int64_t count, int threads,
	tomos_status (*task)(void *user, int64_t index), void *user, const char *what);

/* The cores of this process among the ranks of its machine, and the number of threads where neither
 * the caller nor TOMOS_THREADS sets one. 0: all cores that the process may use. */
void threads_share(int cores);

/* Rejects a value of TOMOS_THREADS that is not a number of threads, unless the caller has set the
 * number. */
tomos_status threads_check(void);

/* Reports progress to the caller; TOMOS_CANCELLED if its callback asks to stop. */
tomos_status progress_report(const tomos_progress *progress, const char *stage, int64_t done,
	int64_t total, double value);

/* Between these two calls, parallel loops of this thread end early when the caller sets its flag
 * (tomos_cancel_on). cancel_end then returns TOMOS_CANCELLED, unless `status` is a failure already.
 * Pairs may be nested. Once seen, a cancellation remains in effect until the outermost
 * cancel_end. */
void cancel_begin(void);
tomos_status cancel_end(tomos_status status, const char *what);
/* parallel_for between cancel_begin and cancel_end. */
tomos_status parallel_try(
	int64_t count, void (*task)(void *user, int64_t index), void *user, const char *what);
/* For work that is not such a loop, to be called between its steps: TOMOS_CANCELLED if the flag is
 * set. */
tomos_status cancel_check(const char *what);
/* Inside a task, in any thread: whether the loop is being cancelled, so that the task may return at
 * once. */
bool cancel_seen(void);
/* The flag of this thread, to be passed to tomos_cancel_on in threads that work for it; NULL:
 * none. */
const tomos_cancel *cancel_asked(void);
/* The same between cancel_begin and cancel_end; NULL elsewhere. */
const tomos_cancel *cancel_watched(void);

/* Index of `text` in "a|b|c", or -1. */
int choice_index(const char *choices, const char *text);
/* choice_index with an error message: "projector 'josef' is not known; nearest: joseph (a, b,
 * c)". */
tomos_status choice_find(const char *what, const char *choices, const char *text, int *index);

/* Structs of callers, which begin with `bytes` and may be of an older or newer version of the
 * library. Every public function exchanges them through these two; `name` is for messages.
 * struct_take copies the caller's struct over the defaults in `own`, as far as it goes; it rejects
 * members unknown here that are not 0. given NULL: nothing is copied. struct_give copies `own` to
 * the caller's, as far as that goes, and sets the rest of it to 0. */
tomos_status struct_take(void *own, const void *given, const char *name);
tomos_status struct_give(void *given, const void *own, const char *name);

/* struct_take of an option struct, and the check of its ranges. */
tomos_status options_take(void *options, const void *given, const char *group);
/* Rejects an option that is not its default and has no effect without another:
 * tomos_option_unmet. */
tomos_status options_need(const char *group, const void *options, const char *facts);

/* Checks an array of the caller: it must have data in host memory and the given shape (NULL: any).
 * An array to be written must not have two elements at the same address. `what` names the array in
 * the error message. */
typedef enum { ARRAY_READ, ARRAY_WRITTEN } ArrayUse;
tomos_status array_check(
	const tomos_array *array, const char *what, const int64_t shape[3], ArrayUse use);
/* Likewise for arrays that may be in the memory of a device; these must be contiguous. */
tomos_status array_check_on(int device, const tomos_array *array, const char *what,
	const int64_t shape[3], ArrayUse use);
/* arrays_apart: rejects an output that overlaps the input in memory. array_finite: rejects values
 * that are not finite. */
tomos_status arrays_apart(
	const tomos_array *in, const char *in_what, const tomos_array *out, const char *out_what);
tomos_status array_finite(const tomos_array *array, const char *what, const char *quote);

/* The path of libtomos_NAME.so: in the folder TOMOS_MODULES, or else in that of the library. */
tomos_status module_path(char **path, const char *name);
/* Opens a module, `what` in messages, and finds `symbol` in it. */
tomos_status module_symbol(void **address, const char *name, const char *symbol, const char *what,
	tomos_status failure);
/* The function of a module that takes the functions of the library, which begin with its version,
 * and returns those of the module; NULL: it is of another version. */
typedef const void *ModuleEntry(const void *host);
/* Opens a module and calls its entry. `functions` is the address of a pointer to the result. */
tomos_status module_open(void *functions, const char *name, const char *entry, const void *host,
	const char *what, tomos_status failure);
/* What modules leave a message with. */
void module_set_message(const char *message);

/* Defines a struct with one member per row of a list of options.def, whose value is the row's
 * choices ("a|b|c"): OPTION_VALUES(scan_values, TOMOS_SCAN_OPTIONS); ... scan_values.geometry. */
#define OPTION_VALUES_MEMBER(kind, name, fallback, values, ...) const char *name;
#define OPTION_VALUES_TEXT(kind, name, fallback, values, ...) values,
#define OPTION_VALUES(variable, ROWS) \
	static const struct { \
		ROWS(OPTION_VALUES_MEMBER) \
	} variable = {ROWS(OPTION_VALUES_TEXT)}

/* "<directory>/" and "<name>" of a path, trailing slashes left out. */
typedef struct {
	int directory_length, name_length; /* the name follows the directory */
} PathParts;
PathParts path_parts(const char *path);

/* Writing a file or directory under a temporary name, so that an incomplete one never has its final
 * name. file_temporary: a new name beside `path`, to be freed with mem_free; rejected if `path`
 * exists and must not be overwritten. file_publish: fsync and rename to `path`; rejected likewise.
 * file_discard: removes the temporary file or directory. file_check: the checks alone. */
tomos_status file_check(const char *path, bool overwrite);
tomos_status file_temporary(char **temporary, const char *path, bool overwrite);
tomos_status file_publish(const char *temporary, const char *path, bool overwrite);
void file_discard(const char *temporary);
/* rename() that does not replace an existing file: -1 then, with EEXIST in errno. */
int file_rename_new(const char *from, const char *to);

static inline int64_t min64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t max64(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

#endif
