/* Stores tuning results in the user's cache directory, one file per device, driver and version. A
 * file that cannot be read, or belongs to another device, is ignored. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "backend/tune.h"

enum { MOST_ROWS = 4096, LINE = 512 };

#define FIRST_LINE "tomos tune 2"
#define ROW_FORMAT \
	"kernel %s projector %s direction %s data %s rays %s size %lld slices %lld views %lld " \
	"columns %lld voxel %.9g source %.9g rate %.9g chosen %d coarse %d\n"
#define ROW_SCAN \
	"kernel %31s projector %15s direction %7s data %7s rays %7s size %18lld slices %18lld " \
	"views " \
	"%18lld columns %18lld voxel %31lf source %31lf rate %31lf chosen %1d coarse %1d%c"

/* ---- path ---------------------------------------------------------------------------------- */

/* According to the XDG base directory specification, which ignores relative paths. */
static tomos_status cache_folder(char **folder)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	if (cache && *cache == '/')
		return mem_printf(folder, "%s/tomos", cache);
	if (home && *home == '/')
		return mem_printf(folder, "%s/.cache/tomos", home);
	*folder = NULL;
	return fail(TOMOS_IO,
		"there is no cache directory: neither XDG_CACHE_HOME nor HOME is an absolute path");
}

/* A hash of device, driver and version for the file name; the file has them in full. */
static uint64_t device_number(const tomos_backend *backend)
{
	const char *const names[] = {backend->model, backend->driver, TOMOS_VERSION};
	uint64_t sum = 14695981039346656037U; /* 64-bit FNV-1a */
	for (int i = 0; i < COUNT(names); i++)
		for (const char *c = names[i];; c++) {
			sum = (sum ^ (unsigned char)*c) * 1099511628211U;
			if (!*c)
				break;
		}
	return sum;
}

static tomos_status file_path(char **path, const tomos_backend *backend)
{
	char *folder;
	*path = NULL;
	TRY(cache_folder(&folder));
	tomos_status status = mem_printf(path, "%s/tune-%s-%016llx", folder, backend->type->name,
		(unsigned long long)device_number(backend));
	mem_free(folder);
	return status;
}

/* ---- reading -------------------------------------------------------------------------------- */

static bool line_is(FILE *file, const char *name, const char *value)
{
	char line[LINE], wanted[LINE];
	snprintf(wanted, sizeof wanted, "%s%s%s\n", name, *value ? " " : "", value);
	return fgets(line, sizeof line, file) && strcmp(line, wanted) == 0;
}

static bool row_parse(const char *line, tomos_tuned *row)
{
	long long sizes[4];
	char end = 0;
	*row = (tomos_tuned){.bytes = sizeof *row};
	int found = sscanf(line, ROW_SCAN, row->kernel, row->projector, row->direction, row->data,
		row->rays, &sizes[0], &sizes[1], &sizes[2], &sizes[3], &row->voxel, &row->source,
		&row->rate, &row->chosen, &row->coarse, &end);
	row->size = sizes[0];
	row->slices = sizes[1];
	row->views = sizes[2];
	row->columns = sizes[3];
	return found == 15 && end == '\n' && row->size > 0 && row->slices > 0 && row->views > 0 &&
	       row->columns > 0 && row->voxel > 0 && row->voxel < 1e30 && row->source >= 0 &&
	       row->source < 1e30 && row->rate > 0 && row->rate < 1e30;
}

/* A complete file ends with the number of its rows. Returns the error; NULL: none. */
static const char *rows_read(FILE *file, tomos_tuned *rows, int64_t *count)
{
	char line[LINE], last[LINE];
	for (*count = 0; fgets(line, sizeof line, file); (*count)++) {
		snprintf(last, sizeof last, "end %lld\n", (long long)*count);
		if (strcmp(line, last) == 0)
			return fgetc(file) == EOF ? NULL : "it continues after its end";
		if (*count == MOST_ROWS || !row_parse(line, &rows[*count]))
			return "a line of it is not a measurement";
	}
	return "its end is missing";
}

static const char *lines_read(
	FILE *file, const tomos_backend *backend, tomos_tuned *rows, int64_t *count)
{
	if (!line_is(file, FIRST_LINE, ""))
		return "it does not begin with '" FIRST_LINE "'";
	if (!line_is(file, "version", TOMOS_VERSION))
		return "it is of another version";
	if (!line_is(file, "model", backend->model) || !line_is(file, "driver", backend->driver))
		return "it is of another device or driver";
	return rows_read(file, rows, count);
}

/* The error (static storage); NULL: none, or the file does not exist. */
static const char *file_read(
	const char *path, const tomos_backend *backend, tomos_tuned *rows, int64_t *count)
{
	*count = 0;
	if (access(path, F_OK) != 0)
		return NULL;
	FILE *file = fopen(path, "r");
	if (!file)
		return "it cannot be opened";
	const char *wrong = lines_read(file, backend, rows, count);
	fclose(file);
	return wrong;
}

static bool is_off(void)
{
	const char *text = getenv("TOMOS_TUNE");
	return text && strcmp(text, "off") == 0;
}

tomos_status tune_recall(tomos_backend *backend)
{
	char *path = NULL;
	tomos_tuned *rows = NULL;
	int64_t count = 0;
	if (is_off() || !backend->type->projector->candidates)
		return TOMOS_OK;
	tomos_status status = file_path(&path, backend);
	if (status == TOMOS_IO) /* no directory, no file */
		return TOMOS_OK;
	if (status == TOMOS_OK && access(path, R_OK) == 0) {
		status = mem_alloc(&rows, MOST_ROWS, sizeof *rows, "tuning results");
		if (status == TOMOS_OK && !file_read(path, backend, rows, &count))
			status = tune_add(backend, rows, count);
	}
	mem_free(rows);
	mem_free(path);
	return status;
}

tomos_status tomos_tuned_file(const tomos_backend *backend, char **path, const char **wrong)
{
	tomos_tuned *rows = NULL;
	int64_t count;
	*path = NULL;
	*wrong = NULL;
	if (!backend)
		return fail(TOMOS_BAD_VALUE, "tuning results need a backend");
	TRY(mem_alloc(&rows, MOST_ROWS, sizeof *rows, "tuning results"));
	tomos_status status = file_path(path, backend);
	if (status == TOMOS_OK)
		*wrong = file_read(*path, backend, rows, &count);
	mem_free(rows);
	return status;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* Creates the cache directory and the one of tomos in it if they do not exist. */
static tomos_status make_folders(const char *path)
{
	char *folder;
	TRY(mem_text(&folder, path));
	tomos_status status = TOMOS_OK;
	for (char *slash = strchr(folder + 1, '/'); slash && status == TOMOS_OK;
		slash = strchr(slash + 1, '/')) {
		*slash = 0;
		if (mkdir(folder, 0700) != 0 && errno != EEXIST && access(folder, F_OK) != 0)
			status = fail(TOMOS_IO, "the directory '%s' cannot be created: %s", folder,
				strerror(errno));
		*slash = '/';
	}
	mem_free(folder);
	return status;
}

static void print_rows(FILE *file, const tomos_backend *backend)
{
	const Tuning *t = &backend->tuning;
	int64_t first = t->count > MOST_ROWS ? t->count - MOST_ROWS : 0; /* the latest */
	fprintf(file, FIRST_LINE "\nversion %s\nmodel%s%s\ndriver%s%s\n", TOMOS_VERSION,
		*backend->model ? " " : "", backend->model, *backend->driver ? " " : "",
		backend->driver);
	for (int64_t i = first; i < t->count; i++) {
		const tomos_tuned *r = &t->rows[i];
		fprintf(file, ROW_FORMAT, r->kernel, r->projector, r->direction, r->data, r->rays,
			(long long)r->size, (long long)r->slices, (long long)r->views,
			(long long)r->columns, r->voxel, r->source, r->rate, r->chosen, r->coarse);
	}
	fprintf(file, "end %lld\n", (long long)(t->count - first));
}

static tomos_status write_file(const tomos_backend *backend, const char *path)
{
	char *temporary;
	TRY(file_temporary(&temporary, path, true));
	tomos_status status = TOMOS_OK;
	FILE *file = fopen(temporary, "w");
	if (file) {
		print_rows(file, backend);
		bool bad = ferror(file) != 0;
		bad |= fclose(file) != 0;
		status = bad ? TOMOS_IO : TOMOS_OK;
	}
	if (!file || status != TOMOS_OK)
		status = fail(TOMOS_IO, "'%s' cannot be written: %s", path, strerror(errno));
	else
		status = file_publish(temporary, path, true);
	if (status != TOMOS_OK)
		file_discard(temporary);
	mem_free(temporary);
	return status;
}

tomos_status tomos_tuned_keep(const tomos_backend *backend, char **path)
{
	char *name;
	if (path)
		*path = NULL;
	if (!backend)
		return fail(TOMOS_BAD_VALUE, "tuning results need a backend");
	if (is_off()) /* the stored results were not loaded, and would be lost */
		return fail(TOMOS_BAD_VALUE,
			"TOMOS_TUNE is off, so tuning results are not stored; unset it");
	TRY(file_path(&name, backend));
	tomos_status status = make_folders(name);
	if (status == TOMOS_OK)
		status = write_file(backend, name);
	if (status == TOMOS_OK && path)
		*path = name;
	else
		mem_free(name);
	return status;
}

tomos_status tomos_tuned_forget(tomos_backend *backend)
{
	char *path;
	if (!backend)
		return fail(TOMOS_BAD_VALUE, "tuning results need a backend");
	tune_clear(backend);
	TRY(file_path(&path, backend));
	tomos_status status = TOMOS_OK;
	if (remove(path) != 0 && errno != ENOENT && errno != ENOTDIR)
		status = fail(TOMOS_IO, "'%s' cannot be removed: %s", path, strerror(errno));
	mem_free(path);
	return status;
}
