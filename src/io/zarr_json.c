/* JSON of Zarr metadata: reading, writing, and named numbers and texts by their paths. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/keys.h"
#include "io/zarr_parts.h"

#define GROUP "tomos" /* of the named numbers and texts */

/* ---- files ----------------------------------------------------------------------------------- */

tomos_status json_read(json_t **root, const char *path)
{
	json_error_t error;
	char *text;
	int64_t length;
	*root = NULL;
	TRY(text_read(&text, &length, path));
	*root = json_loadb(text, (size_t)length, 0, &error);
	mem_free(text);
	if (*root)
		return TOMOS_OK;
	return fail(
		TOMOS_BAD_FILE, "'%s' is no JSON, at line %d: %s", path, error.line, error.text);
}

tomos_status json_write(const json_t *root, const char *path)
{
	char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) : NULL;
	if (!text)
		return fail(TOMOS_NO_MEMORY, "no memory for '%s'", path);
	tomos_status status = flat_text_write(path, text);
	free(text); /* allocated by jansson */
	return status;
}

bool json_numbers(const json_t *list, double *numbers, int count)
{
	if (!json_is_array(list) || (int)json_array_size(list) != count)
		return false;
	for (int i = 0; i < count; i++) {
		const json_t *item = json_array_get(list, (size_t)i);
		numbers[i] = json_number_value(item);
		if (!json_is_number(item))
			return false;
	}
	return true;
}

/* ---- paths ----------------------------------------------------------------------------------- */

/* The value under a path like "grid/first"; NULL: none. */
static json_t *find(json_t *root, const char *path)
{
	char name[128];
	json_t *at = root;
	while (at && *path) {
		size_t length = strcspn(path, "/");
		snprintf(name, sizeof name, "%.*s", (int)length, path);
		at = length < sizeof name ? json_object_get(at, name) : NULL;
		path += length + (path[length] == '/');
	}
	return at;
}

/* Takes over `value`. */
static tomos_status set(const File *file, const char *path, json_t *value)
{
	const Zarr *own = file->own;
	char name[128];
	json_t *at = own->named;
	for (const char *slash; value && (slash = strchr(path, '/')); path = slash + 1) {
		snprintf(name, sizeof name, "%.*s", (int)(slash - path), path);
		json_t *next = json_object_get(at, name);
		if (!next && json_object_set_new(at, name, json_object()) == 0)
			next = json_object_get(at, name);
		at = next;
	}
	if (value && json_object_set_new(at, path, value) == 0)
		return TOMOS_OK;
	return fail(TOMOS_NO_MEMORY, "no memory for '%s' of '%s'", path, file->path);
}

/* ---- the group ------------------------------------------------------------------------------- */

tomos_status zarr_named_read(Zarr *own, const char *folder)
{
	json_t *root = NULL;
	char *name;
	bool three = own->version == 3;
	TRY(mem_printf(&name, "%s/" GROUP "/%s", folder, three ? "zarr.json" : ".zattrs"));
	tomos_status status = access(name, F_OK) == 0 ? json_read(&root, name) : TOMOS_OK;
	mem_free(name);
	TRY(status);
	json_t *named = three ? json_object_get(root, "attributes") : root;
	json_decref(own->named);
	own->named = json_is_object(named) ? json_incref(named) : json_object();
	json_decref(root);
	return own->named ? TOMOS_OK : fail(TOMOS_NO_MEMORY, "no memory for '%s'", folder);
}

static tomos_status write_in(const char *folder, const char *name, const json_t *root)
{
	char *path;
	TRY(mem_printf(&path, "%s/%s", folder, name));
	tomos_status status = json_write(root, path);
	mem_free(path);
	return status;
}

static tomos_status write_group(const Zarr *own, const char *folder)
{
	if (mkdir(folder, 0777) != 0 && errno != EEXIST)
		return fail(TOMOS_IO, "'%s' cannot be created: %s", folder, strerror(errno));
	json_t *root = own->version == 3 ? json_pack("{s:i, s:s, s:O}", "zarr_format", 3,
						   "node_type", "group", "attributes", own->named)
					 : json_pack("{s:i}", "zarr_format", 2);
	tomos_status status = write_in(folder, own->version == 3 ? "zarr.json" : ".zgroup", root);
	json_decref(root);
	TRY(status);
	return own->version == 3 ? TOMOS_OK : write_in(folder, ".zattrs", own->named);
}

tomos_status zarr_named_write(const Zarr *own, const char *folder)
{
	char *group;
	TRY(mem_printf(&group, "%s/" GROUP, folder));
	tomos_status status = write_group(own, group);
	mem_free(group);
	return status;
}

/* ---- numbers and texts ----------------------------------------------------------------------- */

static tomos_status no_numbers(const File *file, const char *name)
{
	return fail(TOMOS_BAD_FILE, "'%s': '%s' is no list or table of numbers", file->path, name);
}

/* Whether all rows of a table have `columns` items; 0: it is no table. */
static bool rows_alike(const json_t *table, int64_t columns)
{
	for (size_t i = 0; columns > 0 && i < json_array_size(table); i++)
		if ((int64_t)json_array_size(json_array_get(table, i)) != columns)
			return false;
	return true;
}

static tomos_status take_numbers(
	const File *file, const char *name, const json_t *value, double **values, int64_t shape[2])
{
	const json_t *first = json_array_get(value, 0);
	bool table = json_is_array(first), right = true;
	shape[0] = table ? (int64_t)json_array_size(value) : 1;
	shape[1] = (int64_t)json_array_size(table ? first : value);
	if (shape[1] < 1 || shape[1] > INT32_MAX || !rows_alike(value, table ? shape[1] : 0))
		return no_numbers(file, name);
	TRY(mem_alloc(values, shape[0] * shape[1], sizeof **values, "named numbers"));
	for (int64_t i = 0; i < shape[0] && right; i++)
		right = json_numbers(table ? json_array_get(value, (size_t)i) : value,
			*values + i * shape[1], (int)shape[1]);
	if (right)
		return TOMOS_OK;
	mem_free(*values);
	*values = NULL;
	return no_numbers(file, name);
}

/* Along an axis, -1 if the grid of the file counts against its places in space. */
static double direction(const Zarr *own, int axis)
{
	const json_t *step = find(own->named, "grid/step");
	return json_number_value(json_array_get(step, (size_t)axis)) < 0 ? -1 : 1;
}

/* Where the file is placed in space, if it does not say its grid itself, or for another level. */
static tomos_status get_grid(const File *file, const char *name, double **values, int64_t shape[2])
{
	const Zarr *own = file->own;
	const ZarrPlace *place = &own->levels.places[own->level];
	shape[0] = 1;
	shape[1] = 3;
	TRY(mem_alloc(values, 3, sizeof **values, "a grid"));
	for (int i = 0; i < 3; i++) {
		double number = strcmp(name, "grid/step") == 0 ? place->scale[2 - i]
							       : place->translation[2 - i];
		(*values)[i] = strcmp(name, "grid/n") == 0 ? (double)file->shape[2 - i]
							   : direction(own, i) * number;
	}
	return TOMOS_OK;
}

tomos_status zarr_get(const File *file, const char *name, double **values, int64_t shape[2])
{
	const Zarr *own = file->own;
	bool grid = strncmp(name, "grid/", 5) == 0;
	const json_t *value = own->level > 0 && (grid || strncmp(name, "geometry/", 9) == 0)
				      ? NULL
				      : find(own->named, name);
	if (value)
		return take_numbers(file, name, value, values, shape);
	return grid && own->levels.placed && !file->temporary ? get_grid(file, name, values, shape)
							      : TOMOS_OK;
}

static json_t *list_of(const double *values, int64_t count)
{
	json_t *list = json_array();
	for (int64_t i = 0; i < count; i++)
		if (json_array_append_new(list, json_real(values[i])) != 0) {
			json_decref(list);
			return NULL;
		}
	return list;
}

tomos_status zarr_put(File *file, const char *name, const double *values, const int64_t shape[2])
{
	if (shape[0] == 1)
		return set(file, name, list_of(values, shape[1]));
	json_t *table = json_array();
	for (int64_t i = 0; i < shape[0]; i++)
		if (json_array_append_new(table, list_of(values + i * shape[1], shape[1])) != 0) {
			json_decref(table);
			table = NULL;
			break;
		}
	return set(file, name, table);
}

/* Bytes that are no UTF-8 become question marks. */
static json_t *text_value(const char *text)
{
	json_t *value = json_string(text);
	char *copy;
	if (value || mem_text(&copy, text) != TOMOS_OK)
		return value;
	for (char *at = copy; *at; at++)
		*at = (unsigned char)*at < 128 ? *at : '?';
	value = json_string(copy);
	mem_free(copy);
	return value;
}

tomos_status zarr_put_text(File *file, const char *name, const char *text)
{
	return set(file, name, text_value(text));
}

tomos_status zarr_text(const File *file, const char *name, char **text)
{
	const Zarr *own = file->own;
	const char *found = json_string_value(find(own->named, name));
	return found ? mem_text(text, found) : TOMOS_OK;
}

tomos_status zarr_names(const File *file, const char *group, char **names)
{
	const Zarr *own = file->own;
	json_t *object = find(own->named, group + (group[0] == '/')), *value;
	const char *key;
	if (!json_is_object(object))
		return TOMOS_OK;
	json_object_foreach(object, key, value)
	{
		char *longer;
		tomos_status status = mem_printf(&longer, "%s%s\n", *names ? *names : "", key);
		mem_free(*names);
		*names = status == TOMOS_OK ? longer : NULL;
		TRY(status);
	}
	return TOMOS_OK;
}
