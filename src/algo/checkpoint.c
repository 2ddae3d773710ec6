/* The state of an iteration in a file, so that it can go on as if it had never stopped.
 *
 * A line of text ("tomos checkpoint 1"), one with the settings it belongs to, then in the machine's own
 * numbers: a mark of the byte order, iterations, scalars, history, vectors.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "algo/run.h"

static const char title[] = "tomos checkpoint 1\n";
#define MARK 0x0123456789abcdef
enum { LONGEST = 4096 }; /* settings */

typedef struct {
	int64_t mark, k, scalars, vectors, entries; /* entries: of the history, per list */
} Head;

static tomos_status put(FILE *file, const void *data, size_t size, int64_t count, const char *path)
{
	if (count > 0 && fwrite(data, size, (size_t)count, file) != (size_t)count)
		return fail(TOMOS_IO, "'%s' cannot be written: %s", path, strerror(errno));
	return TOMOS_OK;
}

static tomos_status take(FILE *file, void *data, size_t size, int64_t count, const char *path)
{
	if (count > 0 && fread(data, size, (size_t)count, file) != (size_t)count)
		return fail(TOMOS_BAD_FILE, "checkpoint '%s' ends too early", path);
	return TOMOS_OK;
}

/* One vector to or from the file, by way of the host. */
static tomos_status move_vector(
	FILE *file, const Space *space, float *vector, bool out, const char *path)
{
	const BackendType *type = space->backend->type;
	float *host;
	tomos_status status;
	TRY(mem_alloc(&host, space->count, sizeof *host, "a vector of a checkpoint"));
	const tomos_array array =
		tomos_array_of(host, space->shape[0], space->shape[1], space->shape[2]);
	if (out) {
		TRY_OR_DONE(type->get(space->backend, vector, &array));
		TRY_OR_DONE(put(file, host, sizeof *host, space->count, path));
	} else {
		TRY_OR_DONE(take(file, host, sizeof *host, space->count, path));
		TRY_OR_DONE(type->put(space->backend, vector, &array));
	}
done:
	mem_free(host);
	return status;
}

static tomos_status move_vectors(FILE *file, const Run *run, bool out, const char *path)
{
	TRY(move_vector(file, run->X, run->x, out, path));
	for (int64_t i = 0; i < run->held_count; i++)
		if (run->held[i].state)
			TRY(move_vector(file, run->held[i].space, run->held[i].data, out, path));
	return TOMOS_OK;
}

static Head head_of(const Run *run)
{
	const tomos_history *h = run->o->history;
	Head head = {.mark = MARK, .k = run->k, .scalars = run->scalar_count};
	for (int64_t i = 0; i < run->held_count; i++)
		head.vectors += run->held[i].state;
	head.entries = h && h->residual && h->error ? min64(run->k, h->room) : 0;
	return head;
}

static tomos_status write_all(FILE *file, const Run *run, const char *path)
{
	Head head = head_of(run);
	TRY(put(file, title, 1, (int64_t)strlen(title), path));
	TRY(put(file, run->settings, 1, (int64_t)strlen(run->settings), path));
	TRY(put(file, "\n", 1, 1, path));
	TRY(put(file, &head, sizeof head, 1, path));
	for (int i = 0; i < run->scalar_count; i++)
		TRY(put(file, run->scalars[i], sizeof(double), 1, path));
	if (head.entries > 0) {
		TRY(put(file, run->o->history->residual, sizeof(double), head.entries, path));
		TRY(put(file, run->o->history->error, sizeof(double), head.entries, path));
	}
	return move_vectors(file, run, true, path);
}

tomos_status checkpoint_write(const Run *run)
{
	const char *path = run->o->checkpoint;
	char *temporary;
	TRY(file_temporary(&temporary, path, true));
	FILE *file = fopen(temporary, "wb");
	tomos_status status =
		file ? write_all(file, run, path)
		     : fail(TOMOS_IO, "'%s' cannot be written: %s", path, strerror(errno));
	if (file && fclose(file) != 0 && status == TOMOS_OK)
		status = fail(TOMOS_IO, "'%s' cannot be written: %s", path, strerror(errno));
	if (status == TOMOS_OK)
		status = file_publish(temporary, path, true);
	if (status != TOMOS_OK)
		file_discard(temporary);
	mem_free(temporary);
	return status;
}

/* The first setting that differs, in a sentence. */
static tomos_status same_settings(const char *theirs, const char *ours, const char *path)
{
	size_t at = 0, from;
	while (theirs[at] && theirs[at] == ours[at])
		at++;
	if (!theirs[at] && !ours[at])
		return TOMOS_OK;
	for (from = at; from > 0 && theirs[from - 1] != ';'; from--)
		;
	return fail(TOMOS_BAD_VALUE, "checkpoint '%s' belongs to %.*s, not to %.*s", path,
		(int)strcspn(theirs + from, ";"), theirs + from, (int)strcspn(ours + from, ";"),
		ours + from);
}

static bool is_checkpoint(FILE *file)
{
	char line[sizeof title] = "";
	return fgets(line, sizeof line, file) && strcmp(line, title) == 0;
}

static tomos_status take_settings(FILE *file, char line[LONGEST + 2], const char *path)
{
	if (!fgets(line, LONGEST + 2, file))
		return fail(TOMOS_BAD_FILE, "checkpoint '%s' ends too early", path);
	line[strcspn(line, "\n")] = 0;
	return TOMOS_OK;
}

static tomos_status read_head(FILE *file, const Run *run, Head *head, const char *path)
{
	char line[LONGEST + 2] = "";
	if (!is_checkpoint(file))
		return fail(TOMOS_BAD_FILE, "'%s' is no checkpoint of this version", path);
	TRY(take_settings(file, line, path));
	TRY(same_settings(line, run->settings, path));
	TRY(take(file, head, sizeof *head, 1, path));
	Head wanted = head_of(run);
	if (head->mark != MARK || head->k < 0 || head->scalars != wanted.scalars ||
		head->vectors != wanted.vectors || head->entries < 0 || head->entries > head->k)
		return fail(TOMOS_BAD_FILE,
			"checkpoint '%s' is damaged, or of another machine or version", path);
	return TOMOS_OK;
}

/* Entries of a list of the history, as far as the caller has room; the rest is passed over. */
static tomos_status read_list(
	FILE *file, int64_t count, double *list, int64_t room, const char *path)
{
	double passed;
	for (int64_t i = 0; i < count; i++)
		TRY(take(file, list && i < room ? &list[i] : &passed, sizeof(double), 1, path));
	return TOMOS_OK;
}

static tomos_status read_all(FILE *file, Run *run, const char *path)
{
	tomos_history none = {0}, *h = run->o->history ? run->o->history : &none;
	Head head;
	TRY(read_head(file, run, &head, path));
	for (int i = 0; i < run->scalar_count; i++)
		TRY(take(file, run->scalars[i], sizeof(double), 1, path));
	TRY(read_list(file, head.entries, h->residual, h->room, path));
	TRY(read_list(file, head.entries, h->error, h->room, path));
	TRY(move_vectors(file, run, false, path));
	if (fgetc(file) != EOF)
		return fail(TOMOS_BAD_FILE, "checkpoint '%s' has more than it should", path);
	run->k = head.k;
	h->best = (int64_t)run->best_at;
	return TOMOS_OK;
}

static tomos_status not_opened(const char *path)
{
	return fail(TOMOS_IO, "checkpoint '%s' cannot be opened: %s", path, strerror(errno));
}

tomos_status checkpoint_read(Run *run, bool *found)
{
	const char *path = run->o->checkpoint;
	FILE *file = fopen(path, "rb");
	*found = file != NULL;
	if (!file && errno == ENOENT)
		return TOMOS_OK;
	if (!file)
		return not_opened(path);
	tomos_status status = read_all(file, run, path);
	fclose(file);
	return status;
}

static tomos_status describe(FILE *file, const char *path, tomos_checkpoint_info *info)
{
	char line[LONGEST + 2];
	Head head;
	TRY(take_settings(file, line, path));
	TRY(take(file, &head, sizeof head, 1, path));
	if (head.mark != MARK || head.k < 0 || head.scalars < 0 || head.scalars > SCALARS ||
		head.entries < 0 || head.entries > head.k)
		return fail(TOMOS_BAD_FILE,
			"checkpoint '%s' is damaged, or of another machine or version", path);
	snprintf(info->settings, sizeof info->settings, "%.*s", (int)sizeof info->settings - 1,
		line);
	info->iterations = head.k;
	info->found = 1;
	int64_t before = head.scalars + head.entries - 1; /* numbers before the last residual */
	if (head.entries == 0 || fseek(file, (long)(before * (int64_t)sizeof(double)), SEEK_CUR))
		return TOMOS_OK;
	return take(file, &info->residual, sizeof info->residual, 1, path);
}

tomos_status tomos_checkpoint_describe(const char *path, tomos_checkpoint_info *info)
{
	*info = (tomos_checkpoint_info){.residual = NAN};
	if (!path)
		return fail(TOMOS_BAD_VALUE, "no checkpoint is named");
	FILE *file = fopen(path, "rb");
	if (!file)
		return not_opened(path);
	tomos_status status = is_checkpoint(file) ? describe(file, path, info) : TOMOS_OK;
	fclose(file);
	return status;
}
