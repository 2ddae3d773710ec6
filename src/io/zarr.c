/* Zarr arrays, versions 2 and 3, and the images of OME-Zarr made of them: a directory with metadata
 * and chunks of numbers as files.
 *
 * A directory is an array, or a group with the levels of an image, of which one is read. Numbers
 * and texts of tomos are attributes of a group "tomos" in it.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "io/zarr_parts.h"

static bool has(const char *folder, const char *name)
{
	char path[4096];
	int length = snprintf(path, sizeof path, "%s/%s", folder, name);
	return length < (int)sizeof path && access(path, F_OK) == 0;
}

bool zarr_is_store(const char *path)
{
	return io_is_directory(path) &&
	       (has(path, "zarr.json") || has(path, ".zgroup") || has(path, ".zarray"));
}

/* Directories are recognised by zarr_is_store, which needs the path. */
static bool zarr_probe(const unsigned char *head, size_t length)
{
	(void)head, (void)length;
	return false;
}

tomos_status zarr_make(File *file, Zarr **own)
{
	TRY(mem_zeroed(own, 1, sizeof **own, "the description of a Zarr file"));
	file->own = *own;
	(*own)->version = 3;
	(*own)->named = json_object();
	return (*own)->named ? TOMOS_OK : fail(TOMOS_NO_MEMORY, "no memory for '%s'", file->path);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Attributes of a directory, and whether it is an array. */
static tomos_status read_attributes(const File *file, json_t **attributes, bool *array)
{
	const Zarr *own = file->own;
	json_t *root = NULL;
	char *name;
	bool three = own->version == 3;
	*attributes = NULL;
	*array = has(file->path, ".zarray") && !three;
	if (!three && !has(file->path, ".zattrs"))
		return TOMOS_OK;
	TRY(mem_printf(&name, "%s/%s", file->path, three ? "zarr.json" : ".zattrs"));
	tomos_status status = json_read(&root, name);
	mem_free(name);
	TRY(status);
	const char *type = json_string_value(json_object_get(root, "node_type"));
	*array |= three && type && strcmp(type, "array") == 0;
	*attributes = three ? json_incref(json_object_get(root, "attributes")) : json_incref(root);
	json_decref(root);
	return TOMOS_OK;
}

static tomos_status take_levels(File *file, bool *array)
{
	Zarr *own = file->own;
	json_t *attributes;
	TRY(read_attributes(file, &attributes, array));
	tomos_status status = zarr_levels_parse(&own->levels, attributes, file->path);
	json_decref(attributes);
	return status;
}

static tomos_status choose_level(const File *file, const tomos_file_options *o, const char **name)
{
	Zarr *own = file->own;
	int count = own->levels.count > 0 ? own->levels.count : 1;
	if (o->level < 0 || o->level >= count)
		return fail(TOMOS_BAD_VALUE,
			"'%s' has %d level%s of resolution, 0 to %d; level is %lld", file->path,
			count, count == 1 ? "" : "s", count - 1, (long long)o->level);
	own->level = (int)o->level;
	*name = own->levels.count > 0 ? own->levels.paths[own->level] : "";
	return TOMOS_OK;
}

/* Whether two paths are the same but for slashes at their ends. */
static bool same_path(const char *a, const char *b)
{
	size_t n[2];
	const char *paths[2] = {a + strspn(a, "/"), b + strspn(b, "/")};
	for (int i = 0; i < 2; i++)
		for (n[i] = strlen(paths[i]); n[i] > 0 && paths[i][n[i] - 1] == '/';)
			n[i]--;
	return n[0] == n[1] && memcmp(paths[0], paths[1], n[0]) == 0;
}

/* A level that is named by its path; of any other array, only its numbers are known: levels, grid
 * and scale are those of the image. */
static tomos_status choose_dataset(const File *file, const tomos_file_options *o, bool array)
{
	Zarr *own = file->own;
	if (array)
		return fail(TOMOS_BAD_VALUE, "'%s' is an array; there is no dataset '%s' in it",
			file->path, o->dataset);
	if (o->level > 0)
		return fail(TOMOS_BAD_VALUE,
			"'%s': dataset is '%s' and level is %lld; only one of them can be given",
			file->path, o->dataset, (long long)o->level);
	own->alone = true;
	for (int i = 0; i < own->levels.count; i++)
		if (same_path(own->levels.paths[i], o->dataset)) {
			own->level = i;
			return TOMOS_OK;
		}
	zarr_levels_close(&own->levels);
	own->levels = (ZarrLevels){.count = 0};
	(void)json_object_clear(own->named);
	return TOMOS_OK;
}

static tomos_status open_array(File *file, const char *name)
{
	Zarr *own = file->own;
	char *folder;
	size_t length = strlen(file->path);
	while (length > 1 && file->path[length - 1] == '/')
		length--;
	TRY(mem_printf(&folder, "%.*s%s%s", (int)length, file->path, name[0] ? "/" : "", name));
	tomos_status status = zarr_array_open(&own->array, folder);
	mem_free(folder);
	TRY(status);
	own->array.whole = json_object_get(own->named, "content") != NULL;
	file->element = own->array.element;
	memcpy(file->shape, own->array.shape, sizeof file->shape);
	file->grain = min64(own->array.inner[0], file->shape[0]);
	file->row_grain = min64(own->array.inner[1], file->shape[1]);
	memcpy(file->units.length, own->levels.unit, sizeof own->levels.unit);
	return TOMOS_OK;
}

static void take_content(File *file)
{
	static const char *const names[] = {"volume", "projections"};
	static const tomos_content contents[] = {TOMOS_VOLUME, TOMOS_PROJECTIONS};
	const Zarr *own = file->own;
	const char *said = json_string_value(json_object_get(own->named, "content"));
	for (int i = 0; said && i < COUNT(names); i++)
		if (strcmp(said, names[i]) == 0)
			file->content = contents[i];
}

static tomos_status zarr_open(File *file, const tomos_file_options *options)
{
	Zarr *own;
	bool array;
	const char *name = options->dataset;
	TRY(zarr_make(file, &own));
	own->version = has(file->path, "zarr.json") ? 3 : 2;
	TRY(take_levels(file, &array));
	TRY(zarr_named_read(own, file->path));
	if (!file->bare)
		TRY(name[0] ? choose_dataset(file, options, array)
			    : choose_level(file, options, &name));
	take_content(file);
	if (file->bare)
		return TOMOS_OK;
	if (!array && !name[0])
		return fail(TOMOS_BAD_FILE,
			"'%s' is a group that names no image; name an array in it as dataset",
			file->path);
	TRY(mem_text(&file->dataset, array ? "" : name));
	return open_array(file, array ? "" : name);
}

int tomos_file_levels(const File *file)
{
	const Zarr *own = file && file->format == &format_zarr ? file->own : NULL;
	return own && own->levels.count > 0 && !own->alone ? own->levels.count : 1;
}

/* ---- reading --------------------------------------------------------------------------------- */

static tomos_status zarr_read_box(File *file, const Samples *samples, int threads, void *stored)
{
	const Zarr *own = file->own;
	return zarr_read_samples(&own->array, samples, threads, stored);
}

static tomos_status zarr_read(File *file, const Extract *part, int threads, void *stored)
{
	const Samples samples = samples_of(file, part);
	return zarr_read_box(file, &samples, threads, stored);
}

static tomos_status take_chunks(const ZarrArray *a, TakePath take, void *user)
{
	int64_t n[3];
	for (int i = 0; i < 3; i++)
		n[i] = parts_of(a->shape[i], a->chunk[i]);
	for (int64_t t = 0; t < n[0] * n[1] * n[2]; t++) {
		const int64_t at[3] = {t / (n[1] * n[2]), t / n[2] % n[1], t % n[2]};
		char *path;
		TRY(cancel_check("reading"));
		TRY(zarr_chunk_path(a, at, &path));
		tomos_status status = access(path, F_OK) == 0 ? take(user, path) : TOMOS_OK;
		mem_free(path);
		TRY(status);
	}
	return TOMOS_OK;
}

static tomos_status zarr_sources(const File *file, TakePath take, void *user)
{
	const Zarr *own = file->own;
	char *path;
	TRY(mem_printf(&path, "%s/%s", own->array.folder,
		own->array.version == 3 ? "zarr.json" : ".zarray"));
	tomos_status status = take(user, path);
	mem_free(path);
	TRY(status);
	return take_chunks(&own->array, take, user);
}

static void zarr_close(File *file)
{
	Zarr *own = file->own;
	zarr_writer_close(own->writer);
	zarr_array_close(&own->array);
	zarr_levels_close(&own->levels);
	json_decref(own->named);
	mem_free(own);
}

const Format format_zarr = {
	.name = "zarr",
	.endings = "zarr",
	.probe = zarr_probe,
	.open = zarr_open,
	.read = zarr_read,
	.read_box = zarr_read_box,
	.create = zarr_create,
	.write = zarr_write,
	.finish = zarr_finish,
	.write_bytes = zarr_write_bytes,
	.close = zarr_close,
	.seal = zarr_seal,
	.reserve = zarr_reserve,
	.sums = true,
	.read_back = zarr_read_back,
	.read_back_rows = zarr_read_back_rows,
	.merge = zarr_merge,
	.sources = zarr_sources,
	.get = zarr_get,
	.put = zarr_put,
	.put_text = zarr_put_text,
	.text = zarr_text,
	.names = zarr_names,
};
