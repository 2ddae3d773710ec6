/* The journal of an output under construction: which slices are done, with their checksums.
 *
 * It is a text file beside the output: what the output is made of, the checksum of all but the
 * data, and one line for each slab that was written, and notes about it. Nothing in it is trusted:
 * a later run reads the slices back and compares. The file is locked while a process writes the
 * output.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "run/run.h"

#define TITLE "tomos journal 4 "
#define HEAD TITLE "%016llx %016llx %s" /* and the checksum of that */
/* The file under construction has everything but its data, and space for them: this is its
 * frame. */
#define READY "ready "
#define JOURNAL_NOTE "note "
#define FIRST_BYTES 4096 /* room for the head and the first lines */
#define FRAME READY "%lld %lld:%lld %lld:%lld %08x\n"

/* ".<name>.part" and ".<name>.journal" beside the output. */
static tomos_status make_names(Journal *j, const char *output)
{
	const PathParts parts = path_parts(output);
	const int before = parts.directory_length, length = parts.name_length;
	const char *name = output + before;
	TRY(mem_printf(&j->part, "%.*s.%.*s.part", before, output, length, name));
	return mem_printf(&j->path, "%.*s.%.*s.journal", before, output, length, name);
}

static tomos_status open_locked(Journal *j, const char *output)
{
	j->descriptor = open(j->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (j->descriptor < 0)
		return fail(TOMOS_IO, "'%s', the journal of '%s', cannot be opened: %s", j->path,
			output, strerror(errno));
	if (flock(j->descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
		close(j->descriptor);
		j->descriptor = -1;
		return fail(TOMOS_IO, "'%s' is being written by another process", output);
	}
	return TOMOS_OK;
}

/* All whole lines of a file; to be freed. */
static tomos_status read_lines(int descriptor, const char *path, char **text)
{
	struct stat info;
	if (fstat(descriptor, &info) != 0)
		return fail(TOMOS_IO, "'%s' cannot be read: %s", path, strerror(errno));
	TRY(mem_zeroed(text, info.st_size + 1, 1, "a journal"));
	tomos_status status = flat_read(descriptor, path, 0, *text, info.st_size);
	if (status != TOMOS_OK) {
		mem_free(*text);
		*text = NULL;
		return status;
	}
	char *last = strrchr(*text, '\n');
	(*text)[last ? last + 1 - *text : 0] = 0;
	return TOMOS_OK;
}

static tomos_status read_old(Journal *j)
{
	mem_free(j->text);
	TRY(read_lines(j->descriptor, j->path, &j->text));
	j->length = (int64_t)strlen(j->text);
	return TOMOS_OK;
}

void journal_damaged(Journal *j)
{
	j->begun = false;
	snprintf(j->damage, sizeof j->damage, "%s", tomos_message());
}

/* False if journal_ready cannot have written the line. */
static bool take_frame(const char *line, Frame *f)
{
	long long n[5];
	unsigned sum;
	if (sscanf(line, "ready %lld %lld:%lld %lld:%lld %8x", &n[0], &n[1], &n[2], &n[3], &n[4],
		    &sum) != 6)
		return false;
	*f = (Frame){.bytes = n[0], .holes = {{n[1], n[2]}, {n[3], n[4]}}, .sum = sum};
	return true;
}

static tomos_status another(const char *output, const char *what)
{
	return fail(TOMOS_BAD_VALUE, "'%s' was begun with %s; without resume the work begins again",
		output, what);
}

static uint32_t head_text(char head[128], const Identity *identity)
{
	int length = snprintf(head, 128, HEAD, (unsigned long long)identity->scan,
		(unsigned long long)identity->settings, identity->backend);
	return checksum_add(0, head, length);
}

static tomos_status check_identity(const char *text, const char *output, const Identity *identity)
{
	unsigned long long scan, settings;
	unsigned sum;
	Identity theirs;
	char *backend = theirs.backend, what[96], head[128];
	int got = strncmp(text, TITLE, strlen(TITLE)) == 0
			  ? sscanf(text + strlen(TITLE), "%16llx %16llx %31s %8x\n", &scan,
				    &settings, backend, &sum)
			  : 0;
	theirs.scan = got == 4 ? scan : 0;
	theirs.settings = got == 4 ? settings : 0;
	if (got != 4 || head_text(head, &theirs) != sum)
		return fail(TOMOS_BAD_FILE, "the journal of '%s' is damaged, or of another version",
			output);
	if (scan != identity->scan)
		return another(output, "another scan: size, time or content of its files differ");
	if (settings != identity->settings)
		return another(output, "other options");
	snprintf(what, sizeof what, "backend '%s', not '%s'", backend, identity->backend);
	return strcmp(backend, identity->backend) == 0 ? TOMOS_OK : another(output, what);
}

/* Whether the incomplete output of an earlier run can be continued. */
static tomos_status look_back(Journal *j, const char *output, const Identity *identity)
{
	const char *ready = strstr(j->text, "\n" READY);
	struct stat info;
	Frame frame;
	bool there = lstat(j->part, &info) == 0;
	if (!there && j->text[0] == 0)
		return TOMOS_OK; /* no earlier run was interrupted */
	if (!ready)
		return fail(TOMOS_BAD_FILE,
			"'%s' was broken off before its first slice, or its journal is damaged",
			output);
	if (!there)
		return fail(TOMOS_BAD_FILE, "'%s' is not there", j->part);
	TRY(check_identity(j->text, output, identity));
	if (!take_frame(ready + 1, &frame))
		return fail(TOMOS_BAD_FILE, "'%s' is damaged", j->path);
	TRY(io_frame_check(j->part, &frame));
	TRY(flat_cut(j->descriptor, j->path, j->length));
	j->begun = true;
	return TOMOS_OK;
}

static tomos_status append(Journal *j, const char *text)
{
	int64_t length = (int64_t)strlen(text);
	TRY(flat_write(j->descriptor, j->path, j->length, text, length));
	j->length += length;
	if (fdatasync(j->descriptor) != 0 && errno != EINVAL)
		return fail(TOMOS_IO, "'%s' cannot be written to the disk: %s", j->path,
			strerror(errno));
	return TOMOS_OK;
}

/* ---- journals of other ranks ---------------------------------------------------------------- */

#define PART "%s.%d" /* of rank 1 and above; there is no gap */

static tomos_status append_part(Journal *j, const char *path)
{
	char *text;
	int descriptor;
	int64_t size;
	TRY(flat_open(&descriptor, &size, path));
	tomos_status status = read_lines(descriptor, path, &text);
	(void)flat_close(&descriptor, path);
	TRY(status);
	status = append(j, text);
	mem_free(text);
	if (status == TOMOS_OK && unlink(path) != 0)
		status = fail(TOMOS_IO, "'%s' cannot be removed: %s", path, strerror(errno));
	return status;
}

static int count_parts(const Journal *j)
{
	char name[4096];
	int count = 0;
	do
		snprintf(name, sizeof name, PART, j->path, ++count);
	while (access(name, F_OK) == 0);
	return count - 1;
}

/* The last one first, so that those which are left have no gap. */
static tomos_status merge_parts(Journal *j)
{
	for (int part = count_parts(j); part > 0; part--) {
		char *path;
		TRY(mem_printf(&path, PART, j->path, part));
		tomos_status status = append_part(j, path);
		mem_free(path);
		TRY(status);
	}
	return read_old(j);
}

static void remove_parts(const Journal *j)
{
	char name[4096];
	for (int part = count_parts(j); part > 0; part--) {
		snprintf(name, sizeof name, PART, j->path, part);
		(void)unlink(name);
	}
}

tomos_status journal_join(Journal *j, const char *output, int rank)
{
	char *path;
	*j = (Journal){.descriptor = -1};
	TRY(make_names(j, output));
	TRY(mem_printf(&path, PART, j->path, rank));
	mem_free(j->path);
	j->path = path;
	j->descriptor = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (j->descriptor < 0)
		return fail(TOMOS_IO, "'%s', the journal of '%s', cannot be opened: %s", path,
			output, strerror(errno));
	return TOMOS_OK;
}

/* ---- opening and writing --------------------------------------------------------------------- */

tomos_status journal_left(const char *output, bool *left)
{
	Journal j = {.descriptor = -1};
	struct stat info;
	tomos_status status = make_names(&j, output);
	*left = status == TOMOS_OK && (lstat(j.part, &info) == 0 || lstat(j.path, &info) == 0);
	journal_close(&j, false);
	return status;
}

tomos_status journal_open(
	Journal *j, const char *output, const Identity *identity, bool resume, bool overwrite)
{
	*j = (Journal){.descriptor = -1};
	TRY(file_check(output, overwrite));
	TRY(make_names(j, output));
	TRY(open_locked(j, output));
	TRY(read_old(j));
	if (!resume)
		return TOMOS_OK;
	tomos_status status = look_back(j, output, identity);
	if (status == TOMOS_OK && j->begun)
		TRY(merge_parts(j));
	if (status == TOMOS_BAD_FILE)
		journal_damaged(j);
	return status == TOMOS_BAD_FILE ? TOMOS_OK : status;
}

tomos_status journal_clear(Journal *j)
{
	io_discard(j->part);
	remove_parts(j);
	j->length = 0;
	TRY(flat_cut(j->descriptor, j->path, 0));
#ifdef FALLOC_FL_KEEP_SIZE /* before the output takes all the room that a full disk has left */
	(void)fallocate(j->descriptor, FALLOC_FL_KEEP_SIZE, 0, FIRST_BYTES);
#endif
	return TOMOS_OK;
}

tomos_status journal_begin(Journal *j, const Identity *identity)
{
	char head[128], line[160];
	uint32_t sum = head_text(head, identity);
	snprintf(line, sizeof line, "%s %08x\n", head, (unsigned)sum);
	return append(j, line);
}

tomos_status journal_ready(Journal *j, const Frame *f)
{
	char line[192];
	snprintf(line, sizeof line, FRAME, (long long)f->bytes, (long long)f->holes[0][0],
		(long long)f->holes[0][1], (long long)f->holes[1][0], (long long)f->holes[1][1],
		(unsigned)f->sum);
	return append(j, line);
}

tomos_status journal_add(Journal *j, int64_t first, int64_t count, const uint32_t *checksums)
{
	char *line;
	int64_t size = 64 + 10 * count, length;
	TRY(mem_alloc(&line, size, 1, "a line of a journal"));
	length = snprintf(line, (size_t)size, "%lld %lld", (long long)first, (long long)count);
	for (int64_t i = 0; i < count; i++)
		length += snprintf(line + length, (size_t)(size - length), " %08x", checksums[i]);
	snprintf(line + length, (size_t)(size - length), "\n");
	tomos_status status = append(j, line);
	mem_free(line);
	return status;
}

tomos_status journal_note(Journal *j, const char *text)
{
	char *line;
	TRY(mem_printf(&line, JOURNAL_NOTE "%s\n", text));
	tomos_status status = append(j, line);
	mem_free(line);
	return status;
}

/* Takes one line over; false, without effect, if journal_add cannot have written it. */
static bool replay_line(const char *line, File *file, uint32_t *sums)
{
	char *at;
	long long first = strtoll(line, &at, 10), count = strtoll(at, &at, 10);
	if (first < 0 || count < 1 || first > file->shape[0] - count)
		return false;
	for (int64_t i = 0; i < count; i++) {
		char *next;
		sums[i] = (uint32_t)strtoul(at, &next, 16);
		if (next == at)
			return false;
		at = next;
	}
	if (*at != '\n')
		return false;
	io_done(file, first, count, sums);
	return true;
}

static bool is_note(const char *line)
{
	return strncmp(line, JOURNAL_NOTE, strlen(JOURNAL_NOTE)) == 0;
}

/* The line after `line`, or the first one about slices; NULL: there are no more. */
static const char *next_line(const Journal *j, const char *line)
{
	const char *before = line ? line : strstr(j->text, "\n" READY);
	before = before && !line ? before + 1 : before;
	const char *end = before ? strchr(before, '\n') : NULL;
	return end && end[1] ? end + 1 : NULL;
}

const char *journal_next_note(const Journal *j, const char *note)
{
	const char *line = next_line(j, note);
	while (line && !is_note(line))
		line = next_line(j, line);
	return line ? line + strlen(JOURNAL_NOTE) : NULL;
}

tomos_status journal_replay(const Journal *j, File *file, int64_t *unread)
{
	uint32_t *sums;
	*unread = 0;
	TRY(mem_alloc(&sums, file->shape[0], sizeof *sums, "checksums"));
	for (const char *line = next_line(j, NULL); line; line = next_line(j, line))
		*unread += !is_note(line) && !replay_line(line, file, sums);
	mem_free(sums);
	return TOMOS_OK;
}

void journal_close(Journal *j, bool finished)
{
	if (finished && j->descriptor >= 0) {
		io_discard(j->part);
		remove_parts(j);
		(void)unlink(j->path);
	}
	if (j->descriptor >= 0)
		close(j->descriptor);
	mem_free(j->path);
	mem_free(j->part);
	mem_free(j->text);
	*j = (Journal){.descriptor = -1};
}
