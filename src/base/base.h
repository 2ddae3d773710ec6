/* Basis of every other folder: status and message, memory, threads, checked sizes, structs of
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

/* Keeps the sentence for tomos_message() and returns the status. */
tomos_status fail(tomos_status status, const char *format, ...) PRINTF_LIKE(2, 3);
/* So that compilers see that what is returned is a failure. */
#define fail(status, ...) (fail(status, __VA_ARGS__), (status))

/* Memory: 64-byte aligned; `what` names the thing in the sentence. */
tomos_status mem_alloc(void *pointer_out, int64_t count, size_t size, const char *what);
tomos_status mem_zeroed(void *pointer_out, int64_t count, size_t size, const char *what);
tomos_status mem_text(char **out, const char *text);
tomos_status mem_printf(char **out, const char *format, ...) PRINTF_LIKE(2, 3);
void mem_free(void *pointer);
/* For tests: fail the nth allocation from now on (0: none); blocks not yet freed. */
void mem_fail_nth(int64_t nth);
int64_t mem_live(void);

/* a * b and a + b of sizes >= 0; false if the result does not fit. */
bool size_mul(int64_t a, int64_t b, int64_t *product);
bool size_add(int64_t a, int64_t b, int64_t *sum);
tomos_status shape_count(const int64_t shape[3], int64_t *count);

/* CRC-32, as zlib and gzip count it, of the bytes after those that `sum` is of (0: of none). */
uint32_t checksum_add(uint32_t sum, const void *bytes, int64_t count);

/* Runs task(user, 0 .. count-1), each once, on all threads; dynamic order, returns when all
 * ended. */
void parallel_for(int64_t count, void (*task)(void *user, int64_t index), void *user);

/* Rejects a TOMOS_THREADS that is no number of threads, unless the caller has said how many. */
tomos_status threads_check(void);

/* Tells the caller how far a step has come; TOMOS_CANCELLED where it wants no more. */
tomos_status progress_report(const tomos_progress *progress, const char *stage, int64_t done,
	int64_t total, double value);

/* Between these two, loops of this thread are cut short when the caller's flag (tomos_cancel_on) is
 * raised; the second then returns TOMOS_CANCELLED, unless there is a failure already. They may be
 * nested. A flag once seen raised stays raised until the call returns. */
void cancel_begin(void);
tomos_status cancel_end(tomos_status status, const char *what);
/* parallel_for between the two. */
tomos_status parallel_try(
	int64_t count, void (*task)(void *user, int64_t index), void *user, const char *what);
/* Between the steps of work that is no such loop: TOMOS_CANCELLED where the flag is raised. */
tomos_status cancel_check(const char *what);
/* Within a task, in any thread: whether the loop is being cut short, so that the rest may be left
 * out. */
bool cancel_seen(void);
/* The flag of this thread, for tomos_cancel_on in threads that work for it; NULL: none. */
const tomos_cancel *cancel_asked(void);
/* The same between cancel_begin and cancel_end; NULL elsewhere. */
const tomos_cancel *cancel_watched(void);

/* Index of `text` in "a|b|c", or -1. */
int choice_index(const char *choices, const char *text);
/* choice_index with a sentence: "projector 'josef' is not known; nearest: joseph (a, b, c)". */
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

/* Callers' arrays: rejected unless they are there, of `shape` (NULL: any), in the host's memory
 * and, to be written to, with elements of their own; `what` names the array in the sentence. */
typedef enum { ARRAY_READ, ARRAY_WRITTEN } ArrayUse;
tomos_status array_check(
	const tomos_array *array, const char *what, const int64_t shape[3], ArrayUse use);
/* The same for arrays that may also lie on a device, contiguous. */
tomos_status array_check_on(int device, const tomos_array *array, const char *what,
	const int64_t shape[3], ArrayUse use);
/* Rejects an output in the input's memory, and values that are not finite. */
tomos_status arrays_apart(
	const tomos_array *in, const char *in_what, const tomos_array *out, const char *out_what);
tomos_status array_finite(const tomos_array *array, const char *what, const char *quote);

/* A struct of the values column of a list of options.def, one member per row, so that choices are
 * written there alone: OPTION_VALUES(scan_values, TOMOS_SCAN_OPTIONS); ... scan_values.geometry. */
#define OPTION_VALUES_MEMBER(kind, name, fallback, values, ...) const char *name;
#define OPTION_VALUES_TEXT(kind, name, fallback, values, ...) values,
#define OPTION_VALUES(variable, ROWS) \
	static const struct { \
		ROWS(OPTION_VALUES_MEMBER) \
	} variable = {ROWS(OPTION_VALUES_TEXT)}

/* Writing a file or a directory: a temporary name beside `path` (to be mem_freed; rejected if
 * `path` exists and may not be overwritten), then fsync and rename into place (rejected if `path`
 * exists by then and may not be overwritten), or removal with all in it. file_check looks at what
 * can be in the way of an output, and takes no name. */
tomos_status file_check(const char *path, bool overwrite);
tomos_status file_temporary(char **temporary, const char *path, bool overwrite);
tomos_status file_publish(const char *temporary, const char *path, bool overwrite);
void file_discard(const char *temporary);

static inline int64_t min64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t max64(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

#endif
