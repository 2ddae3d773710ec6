/* Matrix Market's coordinate files: a line of text per entry, counted from 1.
 *
 * https://math.nist.gov/MatrixMarket/formats.html. Read in two passes (count, then store), so that
 * entries may be in any order. The last line must be complete: a truncated file is rejected.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "io/matrix_file.h"

enum {
	PIECE = 1 << 20,
	LONGEST_LINE = 1025,
	LEAST_ROWS = 1 << 20, /* empty rows that any file may have */
	EMPTY_ROWS = 8192,    /* and more for each of its bytes */
};

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct {
	int descriptor;
	const char *path;
	char *text;
	int64_t length, at;
} Writer;

static tomos_status flush(Writer *w)
{
	TRY(flat_write(w->descriptor, w->path, w->at, w->text, w->length));
	w->at += w->length;
	w->length = 0;
	return TOMOS_OK;
}

static tomos_status write_entries(Writer *w, const tomos_matrix *m)
{
	w->length = snprintf(w->text, LONGEST_LINE,
		"%%%%MatrixMarket matrix coordinate real general\n%lld %lld %lld\n",
		(long long)m->rows, (long long)m->columns, (long long)m->count);
	for (int64_t r = 0; r < m->rows; r++) {
		int64_t end = matrix_at(m->pointers, m->pointer_bytes, r + 1);
		for (int64_t i = matrix_at(m->pointers, m->pointer_bytes, r); i < end; i++) {
			long long column = matrix_at(m->indices, m->index_bytes, i) + 1;
			w->length += snprintf(w->text + w->length, LONGEST_LINE, "%lld %lld %.9g\n",
				(long long)r + 1, column, m->values[i]);
			if (w->length > PIECE - LONGEST_LINE)
				TRY(flush(w));
		}
	}
	return flush(w);
}

tomos_status mtx_write(const char *temporary, const char *path, const tomos_matrix *m)
{
	Writer w = {.descriptor = -1, .path = path};
	TRY(mem_alloc(&w.text, PIECE, 1, "lines of a matrix file"));
	tomos_status status = flat_create(&w.descriptor, temporary, path);
	if (status == TOMOS_OK)
		status = write_entries(&w, m);
	tomos_status closed = flat_close(&w.descriptor, path);
	mem_free(w.text);
	return status != TOMOS_OK ? status : closed;
}

/* ---- lines ----------------------------------------------------------------------------------- */

typedef struct {
	int descriptor;
	const char *path;
	int64_t size, at; /* of the file; bytes read so far */
	char *text;       /* read and not yet parsed: [from, to) */
	int64_t from, to;
	int64_t line;
} Reader;

static tomos_status reject(const Reader *r, const char *what)
{
	return fail(TOMOS_BAD_FILE, "'%s', line %lld: %s", r->path, (long long)r->line, what);
}

static tomos_status refill(Reader *r)
{
	memmove(r->text, r->text + r->from, (size_t)(r->to - r->from));
	r->to -= r->from;
	r->from = 0;
	int64_t more = min64(PIECE - r->to, r->size - r->at);
	TRY(flat_read(r->descriptor, r->path, r->at, r->text + r->to, more));
	r->at += more;
	r->to += more;
	return TOMOS_OK;
}

/* The next line as a string without its line end; NULL at the end of the file. */
static tomos_status next_line(Reader *r, char **line)
{
	char *end = memchr(r->text + r->from, '\n', (size_t)(r->to - r->from));
	if (!end && r->at < r->size) {
		TRY(refill(r));
		end = memchr(r->text + r->from, '\n', (size_t)(r->to - r->from));
	}
	r->line++;
	*line = NULL;
	if (!end && r->from == r->to)
		return TOMOS_OK;
	if (!end)
		return reject(r, "the file is cut short, or the line too long: it has no end");
	if (memchr(r->text + r->from, 0, (size_t)(end - r->text - r->from)))
		return reject(r, "there is a byte 0 in the text");
	*end = 0;
	*line = r->text + r->from;
	r->from = end - r->text + 1;
	return TOMOS_OK;
}

/* The next line that is neither empty nor a comment. */
static tomos_status next_data(Reader *r, char **line)
{
	do
		TRY(next_line(r, line));
	while (*line && (**line == '%' || (*line)[strspn(*line, " \t\r")] == 0));
	return TOMOS_OK;
}

static bool take_size(char **text, int64_t *value)
{
	char *start = *text + strspn(*text, " \t"), *end;
	errno = 0;
	*value = strtoll(start, &end, 10);
	bool taken = end > start && *start != '-' && errno == 0 && strchr(" \t\r", *end);
	*text = end;
	return taken;
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct {
	Reader reader;
	bool pattern, symmetric;
	int64_t entries; /* lines */
} Mtx;

static tomos_status read_header(Mtx *f, tomos_matrix *m)
{
	Reader *r = &f->reader;
	char *line, kind[16], symmetry[16];
	TRY(next_line(r, &line));
	if (!line ||
		sscanf(line, "%%%%MatrixMarket matrix coordinate %15s %15s", kind, symmetry) != 2)
		return fail(TOMOS_UNSUPPORTED,
			"'%s': of Matrix Market only 'matrix coordinate' can be read, not '%.60s'",
			r->path, line ? line : "");
	f->pattern = strcmp(kind, "pattern") == 0;
	f->symmetric = strcmp(symmetry, "symmetric") == 0;
	if ((!f->pattern && choice_index("real|integer|double", kind) < 0) ||
		(!f->symmetric && strcmp(symmetry, "general") != 0))
		return fail(TOMOS_UNSUPPORTED,
			"'%s': %s %s; real, integer or pattern and general or symmetric can be "
			"read",
			r->path, kind, symmetry);
	TRY(next_data(r, &line));
	if (!line || !take_size(&line, &m->rows) || !take_size(&line, &m->columns) ||
		!take_size(&line, &f->entries) || m->rows < 1 || m->columns < 1)
		return reject(r, "the numbers of rows, columns and entries were expected");
	/* No line is shorter than "1 1" and its end. */
	if (f->entries > r->size / 4 || m->rows > INT64_MAX / 16 || m->columns > INT64_MAX / 16)
		return reject(r, "more entries than the file has room for, or a size past 2^59");
	return TOMOS_OK;
}

static tomos_status take_entry(Mtx *f, const tomos_matrix *m, int64_t at[2], float *value)
{
	Reader *r = &f->reader;
	char *line, *end;
	TRY(next_data(r, &line));
	if (!line)
		return reject(r, "the file ends before its last entry");
	if (!take_size(&line, &at[0]) || !take_size(&line, &at[1]) || at[0] < 1 ||
		at[0] > m->rows || at[1] < 1 || at[1] > m->columns)
		return reject(r, "a row and a column inside the matrix were expected");
	*value = f->pattern ? 1 : strtof(line, &end);
	if (!f->pattern && (end == line || end[strspn(end, " \t\r")] != 0))
		return reject(r, "a value was expected");
	at[0]--;
	at[1]--;
	return TOMOS_OK;
}

/* While entries are stored, pointers[r + 1] is the next free place of row r. */
static void put_entry(tomos_matrix *m, int64_t row, int64_t column, float value)
{
	int64_t at = matrix_at(m->pointers, m->pointer_bytes, row + 1);
	matrix_set(m->pointers, m->pointer_bytes, row + 1, at + 1);
	matrix_set(m->indices, m->index_bytes, at, column);
	((float *)(uintptr_t)m->values)[at] = value;
}

/* One pass over all entries: counts them if `counts` is not NULL, otherwise stores them. */
static tomos_status each_entry(Mtx *f, tomos_matrix *m, int64_t *counts)
{
	int64_t at[2];
	float value = 0;
	for (int64_t i = 0; i < f->entries; i++) {
		TRY(take_entry(f, m, at, &value));
		int times = f->symmetric && at[0] != at[1] ? 2 : 1;
		for (int mirror = 0; mirror < times; mirror++) {
			if (at[mirror] >= m->rows || at[!mirror] >= m->columns)
				return reject(&f->reader, "a symmetric matrix must be square");
			if (counts)
				counts[at[mirror]]++;
			else
				put_entry(m, at[mirror], at[!mirror], value);
		}
	}
	return TOMOS_OK;
}

static tomos_status check_end(Reader *r)
{
	char *line;
	TRY(next_data(r, &line));
	return line ? reject(r, "there is more than the number of entries says") : TOMOS_OK;
}

static void sum_counts(tomos_matrix *m, const int64_t *counts)
{
	int64_t sum = 0;
	matrix_set(m->pointers, m->pointer_bytes, 0, 0);
	for (int64_t r = 0; r < m->rows; r++) {
		matrix_set(m->pointers, m->pointer_bytes, r + 1, sum);
		sum += counts[r];
	}
}

static tomos_status read_passes(Mtx *f, tomos_matrix *m, int64_t *counts)
{
	Reader *r = &f->reader;
	TRY(each_entry(f, m, counts));
	TRY(check_end(r));
	for (int64_t i = 0; i < m->rows; i++)
		m->count += counts[i];
	TRY(matrix_allocate(m));
	sum_counts(m, counts);
	r->at = r->from = r->to = r->line = 0;
	tomos_matrix again;
	TRY(read_header(f, &again));
	return each_entry(f, m, NULL);
}

/* Rows may be empty, but a small file must not claim rows that fill the memory. */
static tomos_status check_rows(const Reader *r, int64_t rows)
{
	int64_t most;
	if (!size_mul(r->size, EMPTY_ROWS, &most) || rows <= max64(most, LEAST_ROWS))
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE, "'%s' claims %lld rows in a file of %lld bytes", r->path,
		(long long)rows, (long long)r->size);
}

static tomos_status mtx_open(Mtx *f, const char *path, tomos_matrix *m)
{
	f->reader = (Reader){.path = path, .descriptor = -1};
	TRY(mem_alloc(&f->reader.text, PIECE + 1, 1, "lines of a matrix file"));
	TRY(flat_open(&f->reader.descriptor, &f->reader.size, path));
	return read_header(f, m);
}

static void mtx_close(Mtx *f)
{
	(void)flat_close(&f->reader.descriptor, f->reader.path);
	mem_free(f->reader.text);
}

tomos_status mtx_look(const char *path, tomos_matrix *m, int64_t *lines)
{
	Mtx f;
	tomos_status status = mtx_open(&f, path, m);
	*lines = status == TOMOS_OK ? f.entries : 0;
	mtx_close(&f);
	return status;
}

tomos_status mtx_read(const char *path, tomos_matrix *m)
{
	Mtx f;
	int64_t *counts = NULL;
	tomos_status status;
	TRY_OR_DONE(mtx_open(&f, path, m));
	TRY_OR_DONE(check_rows(&f.reader, m->rows));
	TRY_OR_DONE(mem_zeroed(&counts, m->rows, sizeof *counts, "the rows of a matrix"));
	TRY_OR_DONE(read_passes(&f, m, counts));
done:
	mtx_close(&f);
	mem_free(counts);
	return status;
}
