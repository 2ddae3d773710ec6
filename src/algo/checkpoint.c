/* The state of an iteration in a file, so that it can go on as if it had never stopped.
 *
 * A line of text ("tomos checkpoint 3"), one with the settings it belongs to, then in the machine's
 * own numbers: a head, scalars, history, vectors, and the checksum of all that. Vectors are whole:
 * where ranks have parts of them, each writes its own into the same file, so that any number of
 * ranks can go on.
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

static tomos_status seek(const Stream *s, int64_t at)
{
	if (fseeko(s->file, (off_t)at, SEEK_SET) != 0)
		return fail(TOMOS_IO, "'%s': %s", s->path, strerror(errno));
	return TOMOS_OK;
}

/* The floats of a vector in host memory; where it is divided, those of this rank, in their places,
 * and the stream is then at the end of the whole vector. */
static tomos_status move_floats(Stream *s, const Space *space, float *host, bool out)
{
	const SpaceRun all = {0, 0, space->count};
	const SpaceParts *p = space->parts;
	int64_t begin = p ? (int64_t)ftello(s->file) : 0, size = sizeof *host;
	for (int64_t i = 0; i < (p ? p->count : 1); i++) {
		const SpaceRun *run = p ? &p->runs[i] : &all;
		if (p)
			TRY(seek(s, begin + run->whole * size));
		TRY(out ? put(s, host + run->own, sizeof *host, run->count)
			: take(s, host + run->own, sizeof *host, run->count));
	}
	return p ? seek(s, begin + space_whole_count(space) * size) : TOMOS_OK;
}

/* Copies one vector to or from the file, through host memory. */
static tomos_status move_vector(Stream *s, const Space *space, float *vector, bool out)
{
	float *host;
	tomos_status status;
	TRY(mem_zeroed(&host, space->count, sizeof *host, "a vector of a checkpoint"));
	const tomos_array array =
		tomos_array_of(host, space->shape[0], space->shape[1], space->shape[2]);
	if (out) {
		TRY_OR_DONE(vector_download(space, vector, &array));
		TRY_OR_DONE(move_floats(s, space, host, true));
	} else {
		TRY_OR_DONE(move_floats(s, space, host, false));
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
	int64_t floats = space_whole_count(it->X);
	for (int64_t i = 0; i < it->held_count; i++) {
		head.vectors += it->held[i].state;
		floats += it->held[i].state ? space_whole_count(it->held[i].space) : 0;
	}
	head.entries = h && h->residual && h->error ? min64(it->k, h->capacity) : 0;
	head.bytes = (int64_t)(strlen(title) + strlen(it->settings) + 1 + sizeof head +
			       sizeof(uint32_t)) +
		     (head.scalars + 2 * head.entries) * (int64_t)sizeof(double) +
		     floats * (int64_t)sizeof(float);
	return head;
}

/* With checksums, for which all ranks are needed. */
static tomos_status full_head(const Iteration *it, Head *head)
{
	*head = head_of(it);
	TRY(vector_checksum(it->X, it->x, &head->x));
	return it->best ? vector_checksum(it->X, it->best, &head->best) : TOMOS_OK;
}

/* All that is before the vectors. */
static tomos_status write_head(Stream *s, const Iteration *it, const Head *head)
{
	TRY(put(s, title, 1, (int64_t)strlen(title)));
	TRY(put(s, it->settings, 1, (int64_t)strlen(it->settings)));
	TRY(put(s, "\n", 1, 1));
	TRY(put(s, head, sizeof *head, 1));
	for (int i = 0; i < it->scalar_count; i++)
		TRY(put(s, it->scalars[i], sizeof(double), 1));
	if (head->entries > 0) {
		TRY(put(s, it->o->history->residual, sizeof(double), head->entries));
		TRY(put(s, it->o->history->error, sizeof(double), head->entries));
	}
	return TOMOS_OK;
}

static tomos_status put_sum(Stream *s)
{
	const uint32_t sum = s->sum;
	return put(s, &sum, sizeof sum, 1);
}

/* Checksum of the first `bytes` bytes of the file. */
static tomos_status sum_file(const Stream *s, int64_t bytes, uint32_t *sum)
{
	unsigned char part[1 << 14];
	*sum = 0;
	rewind(s->file);
	for (int64_t left = bytes, count; left > 0; left -= count) {
		count = min64(left, sizeof part);
		TRY(take(s, part, 1, count));
		*sum = checksum_add(*sum, part, count);
	}
	return TOMOS_OK;
}

/* Writes the checkpoint: one process alone, or one of several ranks. */
typedef struct {
	const Iteration *it;
	Head head;
} Writing;
typedef tomos_status (*Write)(Stream *s, const Writing *w);

static tomos_status write_all(Stream *s, const Writing *w)
{
	TRY(write_head(s, w->it, &w->head));
	TRY(move_vectors(s, w->it, true));
	return put_sum(s);
}

static tomos_status write_beginning(Stream *s, const Writing *w)
{
	return write_head(s, w->it, &w->head);
}

static tomos_status write_part(Stream *s, const Writing *w)
{
	int64_t floats = space_whole_count(w->it->X);
	for (int64_t i = 0; i < w->it->held_count; i++)
		if (w->it->held[i].state)
			floats += space_whole_count(w->it->held[i].space);
	TRY(seek(s, w->head.bytes - (int64_t)sizeof s->sum - floats * (int64_t)sizeof(float)));
	return move_vectors(s, w->it, true);
}

static tomos_status write_end(Stream *s, const Writing *w)
{
	int64_t bytes = w->head.bytes - (int64_t)sizeof s->sum;
	TRY(sum_file(s, bytes, &s->sum));
	TRY(seek(s, bytes));
	return put_sum(s);
}

static tomos_status with_file(const char *name, const char *mode, Write write, const Writing *w)
{
	const char *path = w->it->o->checkpoint;
	Stream s = {.file = fopen(name, mode), .path = path};
	tomos_status status =
		s.file ? write(&s, w)
		       : fail(TOMOS_IO, "'%s' cannot be written: %s", path, strerror(errno));
	if (s.file && fclose(s.file) != 0 && status == TOMOS_OK)
		status = fail(TOMOS_IO, "'%s' cannot be written: %s", path, strerror(errno));
	return status;
}

/* Of ranks that have parts of the vectors: one begins the file, each adds its parts, one ends
 * it. */
static tomos_status write_together(const char *name, const Writing *w)
{
	const Space *X = w->it->X;
	bool leads = space_leads(X);
	TRY(space_agree(X, leads ? with_file(name, "wb", write_beginning, w) : TOMOS_OK));
	TRY(space_agree(X, with_file(name, "r+b", write_part, w)));
	return leads ? with_file(name, "r+b", write_end, w) : TOMOS_OK;
}

static tomos_status write_whole(const Iteration *it)
{
	const char *path = it->o->checkpoint;
	bool together = it->X->parts != NULL;
	Writing w = {.it = it};
	char *temporary;
	TRY(full_head(it, &w.head));
	TRY(together ? mem_printf(&temporary, "%s.parts", path)
		     : file_temporary(&temporary, path, true));
	tomos_status status = together ? write_together(temporary, &w)
				       : with_file(temporary, "wb", write_all, &w);
	if (status == TOMOS_OK && space_leads(it->X))
		status = file_publish(temporary, path, true);
	if (status != TOMOS_OK && space_leads(it->X))
		file_discard(temporary);
	mem_free(temporary);
	return space_agree(it->X, status);
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

/* Fails if the settings differ, with the first that does in the message. */
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
	uint32_t sum, written;
	off_t at = ftello(s->file);
	TRY(sum_file(s, bytes - (int64_t)sizeof sum, &sum));
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

/* Settings and head; where ranks read the same file, one of them checks that it is whole. */
static tomos_status take_head(const Stream *s, char line[LONGEST + 2], Head *head, bool check)
{
	if (!fgets(line, LONGEST + 2, s->file))
		return fail(TOMOS_BAD_FILE, "checkpoint '%s' ends too early", s->path);
	line[strcspn(line, "\n")] = 0;
	TRY(take(s, head, sizeof *head, 1));
	if (head->mark != MARK || head->k < 0 || head->scalars < 0 || head->scalars > SCALARS ||
		head->entries < 0 || head->entries > head->k || head->bytes < 0)
		return fail(TOMOS_BAD_FILE, "checkpoint '%s' is damaged, or of another machine",
			s->path);
	return check ? check_sum(s, head->bytes) : TOMOS_OK;
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
	TRY(take_head(s, line, head, space_leads(it->X)));
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
	bool none = !s.file && errno == ENOENT;
	tomos_status status = none ? TOMOS_OK : s.file ? read_all(&s, it) : not_opened(s.path);
	if (s.file)
		fclose(s.file);
	return space_agree(it->X, status);
}

static tomos_status describe(const Stream *s, tomos_checkpoint_info *info)
{
	char line[LONGEST + 2];
	Head head;
	TRY(take_head(s, line, &head, true));
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
