/* Writing geometry files. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "geom/import.h"

/* The fewest digits that restore the same number. */
static void put_number(FILE *file, double value)
{
	char text[40];
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	fputs(text, file);
}

static void put_vector(FILE *file, const double a[3], const char *between)
{
	for (int i = 0; i < 3; i++) {
		fputs(i ? between : "", file);
		put_number(file, a[i]);
	}
}

static void put_json(FILE *file, const tomos_geometry *scan)
{
	fprintf(file,
		"{\"format\": \"%s\", \"version\": 1, \"rows\": %lld, \"columns\": %lld, "
		"\"views\": [",
		geometry_form, (long long)scan->rows, (long long)scan->columns);
	for (int64_t i = 0; i < scan->count; i++) {
		const tomos_view *view = &scan->views[i];
		fprintf(file, "%s\n\t{\"%s\": [", i ? "," : "", geometry_kinds[(int)view->src[3]]);
		put_vector(file, view->src, ", ");
		fputs("], \"detector\": [", file);
		put_vector(file, view->det, ", ");
		fputs("], \"u\": [", file);
		put_vector(file, view->u, ", ");
		fputs("], \"v\": [", file);
		put_vector(file, view->v, ", ");
		fputs("]}", file);
	}
	fputs("\n]}\n", file);
}

static void put_text(FILE *file, const tomos_geometry *scan)
{
	fprintf(file, "# %s x y z, detector x y z, u x y z, v x y z; %lld rows, %lld columns\n",
		!view_has_source(&scan->views[0]) ? "ray"
						  : geometry_kinds[(int)scan->views[0].src[3]],
		(long long)scan->rows, (long long)scan->columns);
	for (int64_t i = 0; i < scan->count; i++) {
		const tomos_view *view = &scan->views[i];
		const double *parts[] = {view->src, view->det, view->u, view->v};
		for (int k = 0; k < 4; k++) {
			fputs(k ? " " : "", file);
			put_vector(file, parts[k], " ");
		}
		fputc('\n', file);
	}
}

/* Text files have one kind of source for all lines. */
static tomos_status check_text(const tomos_geometry *scan, const char *path)
{
	static const char *const names[] = {
		"parallel rays", "a point source", "a fan for each row"};
	for (int64_t i = 1; i < scan->count; i++)
		if (scan->views[i].src[3] != scan->views[0].src[3])
			return fail(TOMOS_UNSUPPORTED,
				"view %lld has %s, unlike view 0: '%s' cannot hold both, .json can",
				(long long)i, names[(int)scan->views[i].src[3]], path);
	return TOMOS_OK;
}

static tomos_status put_file(
	const char *temporary, const char *path, const tomos_geometry *scan, bool json)
{
	FILE *file = fopen(temporary, "wx");
	if (!file)
		return fail(TOMOS_IO, "'%s' cannot be written: '%s': %s", path, temporary,
			strerror(errno));
	if (json)
		put_json(file, scan);
	else
		put_text(file, scan);
	bool failed = fflush(file) != 0 || ferror(file);
	int reason = errno;
	if (fclose(file) != 0 || failed)
		return fail(TOMOS_IO, "'%s' cannot be written: %s", path,
			strerror(failed ? reason : errno));
	return TOMOS_OK;
}

tomos_status tomos_geometry_write(
	const tomos_geometry *scan, const char *path, const tomos_file_options *options)
{
	tomos_file_options o = tomos_file_defaults();
	locale_t plain, before;
	char *temporary;
	TRY(options_take(&o, options, "file"));
	bool json = path && path_ends(path, ".json");
	if (!json && !(path && path_ends(path, ".txt")))
		return fail(TOMOS_BAD_VALUE, "'%s' must end in .json or .txt to hold a geometry",
			path ? path : "(none)");
	if (!scan)
		return fail(TOMOS_BAD_VALUE, "there is no geometry to write to '%s'", path);
	if (!json)
		TRY(check_text(scan, path));
	TRY(file_temporary(&temporary, path, o.overwrite));
	tomos_status status = plain_numbers(&plain, &before);
	if (status == TOMOS_OK) {
		status = put_file(temporary, path, scan, json);
		usual_numbers(plain, before);
	}
	if (status == TOMOS_OK)
		status = file_publish(temporary, path, o.overwrite);
	if (status != TOMOS_OK)
		file_discard(temporary);
	mem_free(temporary);
	return status;
}
