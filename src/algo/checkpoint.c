/* The state of an iteration in a file, so that it can go on as if it had never stopped.
 *
 * A line of text ("tomos checkpoint 3"), one with the settings it belongs to, then in the machine's
 * own numbers: a head, scalars, history, vectors, and the checksum of all that.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include "algo/iteration.h"

static const char kind[] = "tomos checkpoint ", title[] = "tomos checkpoint 3\n";
#define MARK 0x0123456789abcdef
enum { LONGEST = 4096 }; /* settings */

typedef struct {
	int64_t mark, k, scalars, vectors, entries; /* entries: of the history, per list */
	int64_t bytes;                              /* of the file */
	uint32_t rule;                              /* that had ended the iteration; 0: none */
	uint32_t start, x, best;                    /* checksums of volumes; best: 0 without one */
} Head;

typedef struct {
	FILE *file;
	const char *path;
	uint32_t sum; /* of what was written */
} Stream;

static tomos_status put(Stream *s, const void *data, size_t size, int64_t count)
{
	if (count > 0 && fwrite(data, size, (size_t)count, s->file) != (size_t)count)
		return fail(TOMOS_IO, "'%s' cannot be written: %s", s->path, strerror(errno));
	s->sum = checksum_add(s->sum, data, count * (int64_t)size);
	return TOMOS_OK;
}

static tomos_status take(const Stream *s, void *data, size_t size, int64_t count)
{
	if (count > 0 && fread(data, size, (size_t)count, s->file) != (size_t)count)
		return fail(TOMOS_BAD_FILE, "checkpoint '%s' ends too early", s->path);
	return TOMOS_OK;
}

/* Copies one vector to or from the file, through host memory. */
static tomos_status move_vector(Stream *s, const Space *space, float *vector, bool out)
{
	float *host;
	tomos_status status;
	TRY(mem_alloc(&host, space->count, sizeof *host, "a vector of a checkpoint"));
	const tomos_array array =
		tomos_array_of(host, space->shape[0], space->shape[1], space->shape[2]);
	if (out) {
		TRY_OR_DONE(vector_download(space, vector, &array));
		TRY_OR_DONE(put(s, host, sizeof *host, space->count));
	} else {
		TRY_OR_DONE(take(s, host, sizeof *host, space->count));
		TRY_OR_DONE(vector_upload(space, vector, &array));
	}
done:
	mem_free(host);
	return status;
}

static tomos_status move_vectors(Stream *s, const Iteration *it, bool out)
{
	TRY(move_vector(s, it->X, it->x, out));
	for (int64_t i = 0; i < it->held_count; i++)
		if (it->held[i].state)
			TRY(move_vector(s, it->held[i].space, it->held[i].data, out));
	return TOMOS_OK;
}

static uint32_t rule_mark(const tomos_algebraic_options *o)
{
	uint32_t sum = checksum_add(0, o->stop, (int64_t)strlen(o->stop));
	return checksum_add(sum, &o->tolerance, sizeof o->tolerance);
}

static Head head_of(const Iteration *it)
{
	const tomos_history *h = it->o->history;
	Head head = {.mark = MARK,
		.k = it->k,
		.scalars = it->scalar_count,
		.rule = it->stopped ? rule_mark(it->o) : 0,
		.start = it->start};
	int64_t floats = it->X->count;
	for (int64_t i = 0; i < it->held_count; i++) {
		head.vectors += it->held[i].state;
		floats += it->held[i].state ? it->held[i].space->count : 0;
	}
	head.entries = h && h->residual && h->error ? min64(it->k, h->capacity) : 0;
	head.bytes = (int64_t)(strlen(title) + strlen(it->settings) + 1 + sizeof head +
			       sizeof(uint32_t)) +
		     (head.scalars + 2 * head.entries) * (int64_t)sizeof(double) +
		     floats * (int64_t)sizeof(float);
	return head;
}

static tomos_status write_all(Stream *s, const Iteration *it)
{
	Head head = head_of(it);
	TRY(vector_checksum(it->X, it->x, &head.x));
	if (it->best)
		TRY(vector_checksum(it->X, it->best, &head.best));
	TRY(put(s, title, 1, (int64_t)strlen(title)));
	TRY(put(s, it->settings, 1, (int64_t)strlen(it->settings)));
	TRY(put(s, "\n", 1, 1));
	TRY(put(s, &head, sizeof head, 1));
	for (int i = 0; i < it->scalar_count; i++)
		TRY(put(s, it->scalars[i], sizeof(double), 1));
	if (head.entries > 0) {
		TRY(put(s, it->o->history->residual, sizeof(double), head.entries));
		TRY(put(s, it->o->history->error, sizeof(double), head.entries));
	}
	TRY(move_vectors(s, it, true));
	const uint32_t sum = s->sum;
	return put(s, &sum, sizeof sum, 1);
}

static tomos_status write_whole(const Iteration *it)
{
	const char *path = it->o->checkpoint;
	char *temporary;
	TRY(file_temporary(&temporary, path, true));
	Stream s = {.file = fopen(temporary, "wb"), .path = path};
	tomos_status status =
		s.file ? write_all(&s, it)
		       : fail(TOMOS_IO, "'%s' cannot be written: %s", path, strerror(errno));
	if (s.file && fclose(s.file) != 0 && status == TOMOS_OK)
		status = fail(TOMOS_IO, "'%s' cannot be written: %s", path, strerror(errno));
	if (status == TOMOS_OK)
		status = file_publish(temporary, path, true);
	if (status != TOMOS_OK)
		file_discard(temporary);
	mem_free(temporary);
	return status;
}

/* The checkpoint is also written if the caller has cancelled. */
tomos_status checkpoint_write(const Iteration *it)
{
	const tomos_cancel *flag = cancel_asked();
	tomos_cancel_on(NULL);
	tomos_status status = write_whole(it);
	tomos_cancel_on(flag);
	return status;
}

/* The first setting that differs, in a message. */
static tomos_status same_settings(const char *theirs, const char *ours, const char *path)
{
	while (*theirs || *ours) {
		int one = (int)strcspn(theirs, ";"), two = (int)strcspn(ours, ";");
		if (one != two || memcmp(theirs, ours, (size_t)one) != 0)
			return fail(TOMOS_BAD_VALUE, "checkpoint '%s' belongs to %.*s, not to %.*s",
				path, one, theirs, two, ours);
		theirs += one + (theirs[one] == ';');
		ours += two + (ours[two] == ';');
	}
	return TOMOS_OK;
}

/* Whether the file is a checkpoint of any version. If so, its first line has been read. */
static bool is_checkpoint(FILE *file, bool *current)
{
	char line[sizeof title] = "";
	bool any = fgets(line, sizeof line, file) && strncmp(line, kind, strlen(kind)) == 0;
	*current = any && strcmp(line, title) == 0;
	return any;
}

static tomos_status not_opened(const char *path)
{
	return fail(TOMOS_IO, "checkpoint '%s' cannot be opened: %s", path, strerror(errno));
}

tomos_status checkpoint_check(const char *path)
{
	bool current;
	TRY(file_check(path, true));
	FILE *file = fopen(path, "rb");
	if (!file)
		return errno == ENOENT ? TOMOS_OK : not_opened(path);
	bool any = is_checkpoint(file, &current);
	fclose(file);
	if (any)
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE, "'%s' exists and is no checkpoint; name another file", path);
}

/* Compares the checksum at the end with that of everything before it; the position in the file is
 * kept. */
static tomos_status check_sum(const Stream *s, int64_t bytes)
{
	unsigned char part[1 << 14];
	uint32_t sum = 0, written;
	off_t at = ftello(s->file);
	rewind(s->file);
	for (int64_t left = bytes - (int64_t)sizeof sum, count; left > 0; left -= count) {
		count = min64(left, sizeof part);
		TRY(take(s, part, 1, count));
		sum = checksum_add(sum, part, count);
	}
	TRY(take(s, &written, sizeof written, 1));
	if (sum != written)
		return fail(TOMOS_BAD_FILE,
			"checkpoint '%s' is damaged: its checksum is %08x, %08x was written",
			s->path, (unsigned)sum, (unsigned)written);
	if (fgetc(s->file) != EOF)
		return fail(TOMOS_BAD_FILE, "checkpoint '%s' has more than it should", s->path);
	if (fseeko(s->file, at, SEEK_SET) != 0)
		return not_opened(s->path);
	return TOMOS_OK;
}

/* Title, settings and head of a file that is whole. */
static tomos_status take_head(const Stream *s, char line[LONGEST + 2], Head *head)
{
	if (!fgets(line, LONGEST + 2, s->file))
		return fail(TOMOS_BAD_FILE, "checkpoint '%s' ends too early", s->path);
	line[strcspn(line, "\n")] = 0;
	TRY(take(s, head, sizeof *head, 1));
	if (head->mark != MARK || head->k < 0 || head->scalars < 0 || head->scalars > SCALARS ||
		head->entries < 0 || head->entries > head->k || head->bytes < 0)
		return fail(TOMOS_BAD_FILE, "checkpoint '%s' is damaged, or of another machine",
			s->path);
	return check_sum(s, head->bytes);
}

static tomos_status another_version(const char *path)
{
	return fail(TOMOS_BAD_FILE, "'%s' is a checkpoint of another version", path);
}

/* The volume of the caller may be the start of the run that wrote the checkpoint, or its result. */
static tomos_status check_start(const Iteration *it, const Head *head, const char *path)
{
	if (it->start == head->start || it->start == head->x ||
		(it->best && it->start == head->best))
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE,
		"checkpoint '%s' belongs to a start image of checksum %08x, not %08x", path,
		(unsigned)head->start, (unsigned)it->start);
}

static tomos_status read_head(const Stream *s, const Iteration *it, Head *head)
{
	char line[LONGEST + 2] = "";
	bool current;
	if (!is_checkpoint(s->file, &current))
		return fail(TOMOS_BAD_FILE, "'%s' is no checkpoint", s->path);
	if (!current)
		return another_version(s->path);
	TRY(take_head(s, line, head));
	TRY(same_settings(line, it->settings, s->path));
	Head wanted = head_of(it);
	if (head->scalars != wanted.scalars || head->vectors != wanted.vectors)
		return fail(TOMOS_BAD_VALUE,
			"checkpoint '%s' has %lld vectors, but stop '%s' needs %lld", s->path,
			(long long)head->vectors, it->o->stop, (long long)wanted.vectors);
	return check_start(it, head, s->path);
}

/* Reads a list of the history up to its capacity and skips the rest; entries that were not saved
 * become NaN. */
static tomos_status read_list(const Stream *s, const Head *head, double *list, int64_t capacity)
{
	double passed;
	for (int64_t i = 0; i < head->entries; i++)
		TRY(take(s, list && i < capacity ? &list[i] : &passed, sizeof(double), 1));
	for (int64_t i = head->entries; list && i < min64(head->k, capacity); i++)
		list[i] = NAN;
	return TOMOS_OK;
}

static tomos_status read_all(Stream *s, Iteration *it)
{
	tomos_history none = {.bytes = sizeof none}, *h = it->o->history ? it->o->history : &none;
	Head head;
	TRY(read_head(s, it, &head));
	for (int i = 0; i < it->scalar_count; i++)
		TRY(take(s, it->scalars[i], sizeof(double), 1));
	TRY(read_list(s, &head, h->residual, h->capacity));
	TRY(read_list(s, &head, h->error, h->capacity));
	TRY(move_vectors(s, it, false));
	it->k = head.k;
	it->stopped = head.rule != 0 && head.rule == rule_mark(it->o);
	h->best = (int64_t)it->best_at;
	return TOMOS_OK;
}

tomos_status checkpoint_read(Iteration *it, bool *found)
{
	Stream s = {.file = fopen(it->o->checkpoint, "rb"), .path = it->o->checkpoint};
	*found = s.file != NULL;
	if (!s.file && errno == ENOENT)
		return TOMOS_OK;
	if (!s.file)
		return not_opened(s.path);
	tomos_status status = read_all(&s, it);
	fclose(s.file);
	return status;
}

static tomos_status describe(const Stream *s, tomos_checkpoint_info *info)
{
	char line[LONGEST + 2];
	Head head;
	TRY(take_head(s, line, &head));
	snprintf(info->settings, sizeof info->settings, "%.*s", (int)sizeof info->settings - 1,
		line);
	info->iterations = head.k;
	int64_t before = head.scalars + head.entries - 1; /* numbers before the last residual */
	if (head.entries == 0 || fseeko(s->file, before * (off_t)sizeof(double), SEEK_CUR))
		return TOMOS_OK;
	return take(s, &info->residual, sizeof info->residual, 1);
}

tomos_status tomos_checkpoint_describe(const char *path, tomos_checkpoint_info *info)
{
	bool current;
	tomos_checkpoint_info found = {.bytes = sizeof found, .residual = NAN};
	TRY(struct_give(info, &found, "tomos_checkpoint_info"));
	if (!path)
		return fail(TOMOS_BAD_VALUE, "no checkpoint is named");
	const Stream s = {.file = fopen(path, "rb"), .path = path};
	if (!s.file)
		return not_opened(path);
	found.found = is_checkpoint(s.file, &current);
	tomos_status status = TOMOS_OK;
	if (found.found)
		status = current ? describe(&s, &found) : another_version(path);
	fclose(s.file);
	struct_give(info, &found, "tomos_checkpoint_info");
	return status;
}
