/* Geometry files: JSON, or text of 12 columns in ASTRA's order. */
#include <errno.h>
#include <jansson.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "geom/import.h"

enum { NUMBERS = 12, IN_PLANE = 6, MESSAGE = 800 };

const char geometry_form[] = "tomos-geometry";

/* Key of a view's source, by tomos_source. */
const char *const geometry_kinds[3] = {"direction", "source", "fan"};

bool path_ends(const char *path, const char *ending)
{
	size_t a = strlen(path), b = strlen(ending);
	return a > b && strcmp(path + a - b, ending) == 0;
}

/* Puts the file, and the line if known, before the last message. */
static tomos_status fail_in(tomos_status status, const char *path, int64_t line)
{
	char message[MESSAGE], place[32] = "";
	snprintf(message, sizeof message, "%s", tomos_message());
	if (line > 0)
		snprintf(place, sizeof place, ", line %lld", (long long)line);
	return fail(status == TOMOS_BAD_VALUE ? TOMOS_BAD_FILE : status, "'%s'%s: %s", path, place,
		message);
}

/* Numbers have a decimal point in any locale. */
tomos_status plain_numbers(locale_t *plain, locale_t *before)
{
	*plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	if (*plain == (locale_t)0)
		return fail(TOMOS_NO_MEMORY, "no memory for the form of numbers");
	*before = uselocale(*plain);
	return TOMOS_OK;
}

void usual_numbers(locale_t plain, locale_t before)
{
	uselocale(before);
	freelocale(plain);
}

/* ---- reading ------------------------------------------------------------------------------ */

typedef struct {
	const char *path;
	char *text; /* the whole file and a terminating zero */
	int64_t length;
	int64_t rows, columns;
	int point_source;
	double pixel[2];
} Source;

static tomos_status grow(Source *source, int64_t *capacity)
{
	char *larger;
	TRY(mem_alloc(&larger, 2 * *capacity, 1, "the text of a geometry file"));
	memcpy(larger, source->text, (size_t)source->length);
	mem_free(source->text);
	source->text = larger;
	*capacity *= 2;
	return TOMOS_OK;
}

static tomos_status read_all(Source *source, FILE *file)
{
	int64_t capacity = 1 << 16;
	TRY(mem_alloc(&source->text, capacity, 1, "the text of a geometry file"));
	for (;;) {
		size_t got = fread(source->text + source->length, 1,
			(size_t)(capacity - source->length - 1), file);
		source->length += (int64_t)got;
		if (got == 0)
			break;
		if (source->length == capacity - 1)
			TRY(grow(source, &capacity));
	}
	if (ferror(file))
		return fail(TOMOS_IO, "'%s' cannot be read: %s", source->path, strerror(errno));
	source->text[source->length] = 0;
	return TOMOS_OK;
}

static tomos_status load(Source *source)
{
	FILE *file = fopen(source->path, "rb");
	if (!file)
		return fail(TOMOS_IO, "'%s' cannot be opened: %s", source->path, strerror(errno));
	tomos_status status = read_all(source, file);
	fclose(file);
	return status;
}

/* ---- text --------------------------------------------------------------------------------- */

/* Lines that are not empty, without comments: [line, stop). */
typedef struct {
	const char *next, *end, *stop;
	int64_t number;
} Lines;

static const char *skip_blanks(const char *p, const char *stop)
{
	while (p < stop && strchr(" \t\r\v\f", *p))
		p++;
	return p;
}

static const char *next_line(Lines *lines)
{
	while (lines->next < lines->end) {
		const char *line = lines->next;
		lines->stop = line + strcspn(line, "#\n");
		lines->next = lines->stop + strcspn(lines->stop, "\n") + 1;
		lines->number++;
		line = skip_blanks(line, lines->stop);
		if (line < lines->stop)
			return line;
	}
	return NULL;
}

static Lines lines_of(const Source *source)
{
	return (Lines){.next = source->text, .end = source->text + source->length};
}

static int64_t count_lines(const Source *source)
{
	Lines lines = lines_of(source);
	int64_t count = 0;
	while (next_line(&lines))
		count++;
	return count;
}

/* A number ends before a blank, a comma, a comment or the end of the line, so strtod stays
 * inside. */
static tomos_status parse_line(const char *p, const char *stop, double numbers[NUMBERS], int *found)
{
	int count = 0;
	for (; p < stop; p = skip_blanks(p, stop)) {
		char *after;
		double value = strtod(p, &after);
		if (after == p || !(after >= stop || strchr(" \t\r\v\f,", *after)))
			return fail(TOMOS_BAD_FILE, "'%.*s' stands where a number was expected",
				(int)min64(stop - p, 16), p);
		if (count < NUMBERS)
			numbers[count] = value;
		count++;
		p = after + (*after == ',');
	}
	*found = count;
	if (count != NUMBERS && count != IN_PLANE)
		return fail(TOMOS_BAD_FILE,
			"%d numbers were found, 12 were expected (ray or source, detector centre, "
			"u, v), or 6 of one row of pixels, without z and v",
			count);
	return TOMOS_OK;
}

static tomos_status read_view(const Source *source, const Lines *lines, const char *line,
	int64_t rows, int64_t index, tomos_view *view)
{
	double n[NUMBERS] = {0};
	int found;
	TRY(parse_line(line, lines->stop, n, &found));
	if (found == IN_PLANE && rows != 1)
		return fail(TOMOS_BAD_FILE,
			"6 numbers, without z and v, are for one row of pixels, and there are %lld",
			(long long)rows);
	if (found == IN_PLANE)
		view_from_plane(view, n, source->point_source);
	else
		*view = (tomos_view){{n[0], n[1], n[2], source->point_source}, {n[3], n[4], n[5]},
			{n[6], n[7], n[8]}, {n[9], n[10], n[11]}};
	return view_check(view, index);
}

static tomos_status read_text_views(const Source *source, tomos_geometry *scan)
{
	Lines lines = lines_of(source);
	for (int64_t i = 0; i < scan->count; i++) {
		const char *line = next_line(&lines);
		tomos_status status =
			read_view(source, &lines, line, scan->rows, i, &scan->views[i]);
		if (status != TOMOS_OK)
			return fail_in(status, source->path, lines.number);
	}
	return TOMOS_OK;
}

/* The first line of a file written by tomos gives the kind of numbers and the detector size. */
static tomos_status read_heading(Source *source)
{
	char kind[8];
	long long rows, columns;
	int found = sscanf(source->text,
		"# %7[a-z] x y z, detector x y z, u x y z, v x y z; %lld rows, %lld columns", kind,
		&rows, &columns);
	int declared = found < 1 ? -1 : choice_index("ray|source|fan", kind),
	    asked = source->point_source;
	if (asked < 0 && declared < 0)
		return fail(TOMOS_BAD_VALUE,
			"'%s' does not say whether its lines begin with a ray or with a source",
			source->path);
	if (declared >= 0 && asked >= 0 && (declared != 0) != (asked != 0))
		return fail(TOMOS_BAD_VALUE,
			"the lines of '%s' begin with a %s, as the first one says, but "
			"point_source is %s",
			source->path, kind, declared ? "not set" : "set");
	source->point_source = declared >= 0 ? declared : asked != 0;
	if (found == 3 && source->rows == 0 && source->columns == 0) {
		source->rows = rows;
		source->columns = columns;
	}
	return TOMOS_OK;
}

static tomos_status read_text(tomos_geometry **scan, Source *source)
{
	if (memchr(source->text, 0, (size_t)source->length))
		return fail(TOMOS_BAD_FILE,
			"'%s' has a zero byte in it: text of 12 columns was expected",
			source->path);
	TRY(read_heading(source));
	int64_t count = count_lines(source);
	if (count == 0)
		return fail(TOMOS_BAD_FILE, "'%s' has no views: lines of 12 numbers were expected",
			source->path);
	if (source->rows < 1 || source->columns < 1)
		return fail(TOMOS_BAD_VALUE,
			"'%s' does not hold the detector's size, and %lld rows x %lld columns are "
			"given",
			source->path, (long long)source->rows, (long long)source->columns);
	TRY(geom_new(scan, source->rows, source->columns, count));
	return read_text_views(source, *scan);
}

/* ---- JSON --------------------------------------------------------------------------------- */

static tomos_status json_vector(const json_t *object, const char *key, int64_t view, double out[3])
{
	const json_t *list = json_object_get(object, key);
	if (!json_is_array(list) || json_array_size(list) != 3)
		return fail(TOMOS_BAD_FILE, "view %lld: '%s' must be a list of 3 numbers",
			(long long)view, key);
	for (size_t i = 0; i < 3; i++) {
		const json_t *number = json_array_get(list, i);
		if (!json_is_number(number))
			return fail(TOMOS_BAD_FILE, "view %lld: '%s'[%zu] is not a number",
				(long long)view, key, i);
		out[i] = json_number_value(number);
	}
	return TOMOS_OK;
}

static tomos_status check_keys(const json_t *object, int64_t view, int *kind)
{
	const char *key;
	json_t *value;
	if (!json_is_object(object))
		return fail(TOMOS_BAD_FILE, "view %lld must be an object {...}", (long long)view);
	json_object_foreach((json_t *)object, key, value)
	{
		if (choice_index("direction|source|fan|detector|u|v", key) < 0)
			return fail(TOMOS_BAD_FILE,
				"view %lld: key '%.64s' is not known (source, direction or fan, "
				"detector, u, v)",
				(long long)view, key);
	}
	int given = 0;
	*kind = 0;
	for (int i = 0; i < COUNT(geometry_kinds); i++)
		if (json_object_get(object, geometry_kinds[i])) {
			*kind = i;
			given++;
		}
	if (given != 1)
		return fail(TOMOS_BAD_FILE,
			"view %lld has %s; one of 'source', 'direction' and 'fan' was expected",
			(long long)view, given ? "several kinds of source" : "no source");
	return TOMOS_OK;
}

static tomos_status json_view(const json_t *object, int64_t index, tomos_view *view)
{
	int kind;
	TRY(check_keys(object, index, &kind));
	view->src[3] = kind;
	TRY(json_vector(object, geometry_kinds[kind], index, view->src));
	TRY(json_vector(object, "detector", index, view->det));
	TRY(json_vector(object, "u", index, view->u));
	TRY(json_vector(object, "v", index, view->v));
	return view_check(view, index);
}

/* An integer; if `wanted` is given, this one. */
static tomos_status json_whole(const json_t *root, const char *key, int64_t wanted, int64_t *value)
{
	const json_t *number = json_object_get(root, key);
	if (!json_is_integer(number))
		return fail(TOMOS_BAD_FILE, "'%s' must be a whole number", key);
	*value = json_integer_value(number);
	if (wanted > 0 && *value != wanted)
		return fail(TOMOS_BAD_FILE, "'%s' is %lld, but %lld was expected", key,
			(long long)*value, (long long)wanted);
	return TOMOS_OK;
}

static tomos_status json_scan(tomos_geometry **scan, const json_t *root, const Source *source)
{
	if (json_object_get(root, "DSD"))
		return import_tigre(scan, root);
	int64_t version, rows, columns;
	const char *name = json_string_value(json_object_get(root, "format"));
	if (!name || strcmp(name, geometry_form) != 0)
		return fail(TOMOS_BAD_FILE, "'format' is '%.64s', but '%s' was expected",
			name ? name : "(none)", geometry_form);
	TRY(json_whole(root, "version", 1, &version));
	TRY(json_whole(root, "rows", source->rows, &rows));
	TRY(json_whole(root, "columns", source->columns, &columns));
	const json_t *views = json_object_get(root, "views");
	if (!json_is_array(views))
		return fail(TOMOS_BAD_FILE, "'views' must be a list of views");
	TRY(geom_new(scan, rows, columns, (int64_t)json_array_size(views)));
	for (int64_t i = 0; i < (*scan)->count; i++)
		TRY(json_view(json_array_get(views, (size_t)i), i, &(*scan)->views[i]));
	return TOMOS_OK;
}

static tomos_status read_json(tomos_geometry **scan, const Source *source)
{
	json_error_t error;
	json_t *root =
		json_loadb(source->text, (size_t)source->length, JSON_REJECT_DUPLICATES, &error);
	if (!root && json_error_code(&error) == json_error_out_of_memory)
		return fail(TOMOS_NO_MEMORY, "no memory to read '%s'", source->path);
	if (!root)
		return fail(TOMOS_BAD_FILE, "'%s', line %d, column %d: not valid JSON: %s",
			source->path, error.line, error.column, error.text);
	tomos_status status = json_scan(scan, root, source);
	json_decref(root);
	return status == TOMOS_OK ? status : fail_in(status, source->path, 0);
}

static tomos_status read_any(tomos_geometry **scan, Source *source)
{
	const ImportJob job = {source->path, source->text, source->rows, source->columns,
		{source->pixel[0], source->pixel[1]}};
	if (path_ends(source->path, ".json"))
		return read_json(scan, source);
	if (path_ends(source->path, ".xml"))
		return import_rtk(scan, &job);
	if (import_is_leap(source->text))
		return import_leap(scan, &job);
	if (import_is_matrices(source->text))
		return import_matrices(scan, &job);
	if (path_ends(source->path, ".geom") && source->point_source < 1)
		source->point_source = 1; /* as in the scans of CWI */
	return read_text(scan, source);
}

tomos_status tomos_geometry_import(tomos_geometry **scan, const char *path, int64_t rows,
	int64_t columns, int point_source, double pixel, double pixel_height)
{
	Source source = {.path = path,
		.rows = rows,
		.columns = columns,
		.point_source = point_source,
		.pixel = {pixel, pixel_height > 0 ? pixel_height : pixel}};
	locale_t plain, before;
	*scan = NULL;
	if (!path)
		return fail(TOMOS_BAD_VALUE, "no geometry file is named");
	TRY(plain_numbers(&plain, &before));
	tomos_status status = load(&source);
	if (status == TOMOS_OK)
		status = read_any(scan, &source);
	mem_free(source.text);
	usual_numbers(plain, before);
	if (status != TOMOS_OK) {
		tomos_geometry_free(*scan);
		*scan = NULL;
	}
	return status;
}

tomos_status tomos_geometry_read(
	tomos_geometry **scan, const char *path, int64_t rows, int64_t columns, int point_source)
{
	return tomos_geometry_import(scan, path, rows, columns, point_source, 0, 0);
}
