/* OME-Zarr (NGFF 0.4 and 0.5): levels of resolution, their places in space, and the metadata that
 * are written. Lengths are in mm, or without a unit where the size of pixels is not known.
 *
 * https://ngff.openmicroscopy.org/0.5/
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "io/zarr_parts.h"

/* ---- reading --------------------------------------------------------------------------------- */

/* Applies scales and translations in their order to the last three axes. False: the list has
 * something else. */
static bool transform(ZarrPlace *place, const json_t *list, int rank)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *item = json_array_get(list, i);
		const char *type = json_string_value(json_object_get(item, "type"));
		double numbers[8];
		bool scale = type && strcmp(type, "scale") == 0;
		bool move = type && strcmp(type, "translation") == 0;
		if (type && strcmp(type, "identity") == 0)
			continue;
		if (!(scale || move) || !json_numbers(json_object_get(item, type), numbers, rank))
			return false;
		for (int k = 0; k < 3; k++) {
			double number = numbers[rank - 3 + k];
			place->scale[k] *= scale ? number : 1;
			place->translation[k] *= scale ? number : 1;
			place->translation[k] += move ? number : 0;
		}
	}
	return true;
}

/* Whether a level has a place: positive, finite steps. */
static bool take_place(
	ZarrPlace *place, char unit[UNIT_NAME], const json_t *dataset, const json_t *image)
{
	const json_t *axes = json_object_get(image, "axes");
	int rank = (int)json_array_size(axes);
	*place = (ZarrPlace){{1, 1, 1}, {0, 0, 0}};
	if (rank < 3 || rank > 8 ||
		json_array_size(json_object_get(dataset, "coordinateTransformations")) == 0 ||
		!transform(place, json_object_get(dataset, "coordinateTransformations"), rank) ||
		!transform(place, json_object_get(image, "coordinateTransformations"), rank))
		return false;
	bool right = true;
	for (int k = 0; k < 3; k++) {
		const json_t *axis = json_array_get(axes, (size_t)(rank - 3 + k));
		const char *type = json_string_value(json_object_get(axis, "type"));
		const char *name = json_string_value(json_object_get(axis, "unit"));
		double length = name ? unit_take(unit, name) : 1;
		place->scale[k] *= length;
		place->translation[k] *= length;
		right &= type && strcmp(type, "space") == 0 && place->scale[k] > 0 &&
			 isfinite(place->scale[k]) && isfinite(place->translation[k]);
	}
	return right;
}

/* A path below the store. */
static bool is_inside(const char *path)
{
	if (!path || !path[0] || path[0] == '/' || strlen(path) > 255)
		return false;
	for (const char *at = path; at; at = strchr(at, '/')) {
		at += *at == '/';
		size_t length = strcspn(at, "/");
		if (length == 2 && strncmp(at, "..", 2) == 0)
			return false;
	}
	return true;
}

tomos_status zarr_levels_parse(ZarrLevels *l, const json_t *attributes, const char *path)
{
	const json_t *ome = json_object_get(attributes, "ome");
	const json_t *image =
		json_array_get(json_object_get(ome ? ome : attributes, "multiscales"), 0);
	const json_t *datasets = json_object_get(image, "datasets");
	size_t count = json_array_size(datasets);
	*l = (ZarrLevels){.count = 0, .placed = count > 0};
	if (count > ZARR_LEVELS)
		return fail(TOMOS_BAD_FILE, "'%s' has %zu levels; %d can be read", path, count,
			ZARR_LEVELS);
	for (size_t i = 0; i < count; i++) {
		const json_t *item = json_array_get(datasets, i);
		const char *name = json_string_value(json_object_get(item, "path"));
		if (!is_inside(name))
			return fail(TOMOS_BAD_FILE,
				"'%s': the path of level %zu is missing, or not below the file",
				path, i);
		TRY(mem_text(&l->paths[l->count], name));
		l->placed &= take_place(&l->places[l->count++], l->unit, item, image);
	}
	return TOMOS_OK;
}

void zarr_levels_close(ZarrLevels *l)
{
	for (int i = 0; i < l->count; i++)
		mem_free(l->paths[i]);
	l->count = 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static json_t *axes_of(bool volume, bool sized)
{
	static const char *const names[2][3] = {{"view", "y", "x"}, {"z", "y", "x"}};
	json_t *axes = json_array();
	for (int k = 0; k < 3; k++) {
		json_t *axis = json_pack("{s:s}", "name", names[volume][k]);
		if (volume || k > 0)
			json_object_set_new(axis, "type", json_string("space"));
		if (sized)
			json_object_set_new(axis, "unit", json_string("millimeter"));
		json_array_append_new(axes, axis);
	}
	return axes;
}

/* Centres of voxels of a level are those of the voxels that they are the mean of. */
static json_t *dataset_of(int number, const ZarrLevel *level, const ZarrPlace *place)
{
	double scale[3], move[3];
	char path[16];
	snprintf(path, sizeof path, "%d", number);
	for (int k = 0; k < 3; k++) {
		double factor = (double)level->factor[k];
		scale[k] = factor * place->scale[k];
		move[k] = place->translation[k] + 0.5 * (factor - 1) * place->scale[k];
	}
	return json_pack("{s:s, s:[{s:s, s:[f,f,f]}, {s:s, s:[f,f,f]}]}", "path", path,
		"coordinateTransformations", "type", "scale", "scale", scale[0], scale[1], scale[2],
		"type", "translation", "translation", move[0], move[1], move[2]);
}

/* Scales have to be positive. So positions along an axis whose coordinates become smaller, as y of
 * volumes does from row to row, are written with the opposite sign. */
static bool own_place(const File *file, ZarrPlace *place)
{
	double *first = NULL, *step = NULL;
	int64_t shape[2];
	bool there = file->content != TOMOS_PROJECTIONS &&
		     zarr_get(file, "grid/first", &first, shape) == TOMOS_OK && first &&
		     zarr_get(file, "grid/step", &step, shape) == TOMOS_OK && step;
	*place = (ZarrPlace){{1, 1, 1}, {0, 0, 0}};
	for (int k = 0; k < 3 && there; k++) {
		double sign = step[2 - k] < 0 ? -1 : 1;
		place->scale[k] = sign * step[2 - k];
		place->translation[k] = sign * first[2 - k];
	}
	mem_free(first);
	mem_free(step);
	return there;
}

/* The window that viewers begin with: the range of the numbers as stored. */
static json_t *window_of(const File *file, double low, double high)
{
	double most = element_largest(file->element);
	bool whole = file->element.kind != 'f';
	if (low > high || !isfinite(low) || !isfinite(high))
		low = 0, high = whole ? most : 1;
	return json_pack(
		"{s:[{s:b, s:f, s:s, s:s, s:b, s:s, s:{s:f, s:f, s:f, s:f}}], s:{s:s, s:i, s:i}}",
		"channels", "active", 1, "coefficient", 1.0, "color", "FFFFFF", "family", "linear",
		"inverted", 0, "label",
		file->content == TOMOS_PROJECTIONS ? "projections" : "volume", "window", "min",
		whole ? 0 : low, "max", whole ? most : high, "start", low, "end",
		high > low ? high : low + 1, "rdefs", "model", "greyscale", "defaultT", 0,
		"defaultZ", (int)min64(INT32_MAX, file->shape[0] / 2));
}

static json_t *attributes_of(const File *file, double low, double high)
{
	const Zarr *own = file->own;
	const ZarrWriter *w = own->writer;
	ZarrPlace place;
	bool placed = own_place(file, &place), three = own->version == 3;
	json_t *datasets = json_array();
	for (int i = 0; i < w->count; i++)
		json_array_append_new(datasets, dataset_of(i, &w->levels[i], &place));
	json_t *image = json_pack("{s:s, s:o, s:o, s:s}", "name",
		file->content == TOMOS_PROJECTIONS ? "projections" : "volume", "axes",
		axes_of(file->content != TOMOS_PROJECTIONS,
			placed && strcmp(file->units.length, "mm") == 0),
		"datasets", datasets, "type", "mean");
	json_t *omero = window_of(file, low, high);
	if (!three) {
		json_object_set_new(image, "version", json_string("0.4"));
		json_object_set_new(omero, "version", json_string("0.4"));
		return json_pack("{s:[o], s:o}", "multiscales", image, "omero", omero);
	}
	return json_pack("{s:{s:s, s:[o], s:o}}", "ome", "version", "0.5", "multiscales", image,
		"omero", omero);
}

static json_t *sizes(const int64_t n[3])
{
	return json_pack("[I,I,I]", (json_int_t)n[0], (json_int_t)n[1], (json_int_t)n[2]);
}

static json_t *codecs_of(const Codecs *c, int compress)
{
	json_t *list = json_pack("[{s:s, s:{s:s}}]", "name", "bytes", "configuration", "endian",
		c->big ? "big" : "little");
	for (int i = 0; i < c->count; i++)
		json_array_append_new(
			list, c->list[i] == CODEC_ZSTD
				      ? json_pack("{s:s, s:{s:i, s:b}}", "name", "zstd",
						"configuration", "level", compress, "checksum", 0)
				      : json_pack("{s:s}", "name", "crc32c"));
	return list;
}

/* Number types of one byte have no byte order, but readers accept one. */
static json_t *array_3(const File *file, const ZarrArray *a, json_t *attributes)
{
	static const char *const volume[3] = {"z", "y", "x"}, *const views[3] = {"view", "y", "x"};
	const char *const *names = file->content == TOMOS_PROJECTIONS ? views : volume;
	return json_pack("{s:i, s:s, s:o, s:s, s:{s:s, s:{s:o}}, s:{s:s, s:{s:s}}, s:i,"
			 "s:[{s:s, s:{s:o, s:o, s:o, s:s}}], s:o, s:[s,s,s]}",
		"zarr_format", 3, "node_type", "array", "shape", sizes(a->shape), "data_type",
		file->type, "chunk_grid", "name", "regular", "configuration", "chunk_shape",
		sizes(a->chunk), "chunk_key_encoding", "name", "default", "configuration",
		"separator", "/", "fill_value", 0, "codecs", "name", "sharding_indexed",
		"configuration", "chunk_shape", sizes(a->inner), "codecs",
		codecs_of(&a->codecs, file->compress), "index_codecs", codecs_of(&a->index, 0),
		"index_location", "end", "attributes", attributes, "dimension_names", names[0],
		names[1], names[2]);
}

static json_t *array_2(const File *file, const ZarrArray *a)
{
	char dtype[8];
	snprintf(dtype, sizeof dtype, "%c%c%d",
		file->element.bytes == 1 ? '|'
		: a->codecs.big          ? '>'
					 : '<',
		file->element.kind, file->element.bytes);
	json_t *compressor =
		a->codecs.count ? json_pack("{s:s, s:i}", "id", "zstd", "level", file->compress)
				: json_null();
	return json_pack("{s:i, s:o, s:o, s:s, s:o, s:i, s:s, s:n, s:s}", "zarr_format", 2, "shape",
		sizes(a->shape), "chunks", sizes(a->chunk), "dtype", dtype, "compressor",
		compressor, "fill_value", 0, "order", "C", "filters", "dimension_separator", "/");
}

/* Scale and offset under the names that xarray and others know from the CF conventions. */
static json_t *scale_attributes(const File *file)
{
	if (file->element.kind == 'f')
		return json_object();
	return json_pack("{s:f, s:f}", "scale_factor", file->scale, "add_offset", file->offset);
}

static tomos_status write_taken(json_t *root, const char *folder, const char *name)
{
	char *path;
	tomos_status status = mem_printf(&path, "%s/%s", folder, name);
	if (status == TOMOS_OK) {
		status = json_write(root, path);
		mem_free(path);
	}
	json_decref(root);
	return status;
}

static tomos_status write_level(const File *file, const ZarrArray *a)
{
	const Zarr *own = file->own;
	if (mkdir(a->folder, 0777) != 0 && errno != EEXIST)
		return fail(TOMOS_IO, "'%s' cannot be created (as '%s'): %s", file->path, a->folder,
			strerror(errno));
	if (own->version == 3)
		return write_taken(
			array_3(file, a, scale_attributes(file)), a->folder, "zarr.json");
	TRY(write_taken(array_2(file, a), a->folder, ".zarray"));
	return write_taken(scale_attributes(file), a->folder, ".zattrs");
}

tomos_status zarr_metadata_write(const File *file, double low, double high)
{
	const Zarr *own = file->own;
	json_t *attributes = attributes_of(file, low, high);
	if (own->version == 3) {
		TRY(write_taken(json_pack("{s:i, s:s, s:o}", "zarr_format", 3, "node_type", "group",
					"attributes", attributes),
			file->temporary, "zarr.json"));
	} else {
		TRY(write_taken(attributes, file->temporary, ".zattrs"));
		TRY(write_taken(json_pack("{s:i}", "zarr_format", 2), file->temporary, ".zgroup"));
	}
	for (int i = 0; i < own->writer->count; i++)
		TRY(write_level(file, &own->writer->levels[i].array));
	return zarr_named_write(own, file->temporary);
}
