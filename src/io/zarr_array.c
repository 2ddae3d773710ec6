/* Metadata of a Zarr array, versions 2 and 3: shape, chunks, number type and codecs.
 *
 * https://zarr-specs.readthedocs.io/en/latest/v3/core/
 * https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "io/zarr_parts.h"

enum { MOST_AXES = 8 };
static const bool native_big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;

/* What is read from metadata, before the axes are reduced to three. */
typedef struct {
	const char *path;
	int rank;
	int64_t shape[MOST_AXES], chunk[MOST_AXES];
} Form;

static tomos_status reject(const char *path, const char *what)
{
	return fail(TOMOS_BAD_FILE, "'%s': %s", path, what);
}

static tomos_status unknown(const char *path, const char *what, const char *name)
{
	return fail(TOMOS_UNSUPPORTED, "'%s': %s '%s' cannot be read", path, what, name);
}

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? text : "";
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static bool sizes_of(const json_t *list, int64_t *sizes, int *rank, int64_t least)
{
	size_t count = json_array_size(list);
	if (!json_is_array(list) || count < 1 || count > MOST_AXES)
		return false;
	for (size_t i = 0; i < count; i++) {
		const json_t *item = json_array_get(list, i);
		sizes[i] = json_integer_value(item);
		if (!json_is_integer(item) || sizes[i] < least)
			return false;
	}
	*rank = (int)count;
	return true;
}

/* Leading axes of more than three have one index; missing ones, too. */
static void last_three(const int64_t *sizes, int rank, int64_t three[3])
{
	for (int i = 0; i < 3; i++)
		three[i] = i < 3 - rank ? 1 : sizes[rank - 3 + i];
}

static tomos_status take_shape(ZarrArray *a, const Form *f)
{
	char *where;
	int extra = f->rank > 3 ? f->rank - 3 : 0;
	for (int i = 0; i < extra; i++)
		if (f->shape[i] != 1 || f->chunk[i] != 1)
			extra = i = 0;
	TRY(mem_printf(&where, "'%s'", f->path));
	tomos_status status = shape_take(a->shape, f->shape + extra, f->rank - extra, where);
	mem_free(where);
	TRY(status);
	a->rank = f->rank;
	last_three(f->chunk, f->rank, a->chunk);
	memcpy(a->inner, a->chunk, sizeof a->inner);
	return TOMOS_OK;
}

static tomos_status check_chunk(const int64_t chunk[3], Element element, const char *path)
{
	int64_t count, bytes;
	if (size_mul(chunk[0], chunk[1], &count) && size_mul(count, chunk[2], &count) &&
		size_mul(count, element.bytes, &bytes) && bytes <= INT64_MAX / 4)
		return TOMOS_OK;
	return reject(path, "its chunks are too large");
}

int64_t zarr_inner_bytes(const ZarrArray *a)
{
	return a->inner[0] * a->inner[1] * a->inner[2] * a->element.bytes;
}

/* ---- fill values ----------------------------------------------------------------------------- */

static bool fill_number(const json_t *value, Element element, double *number, uint64_t *bits)
{
	const char *text = json_string_value(value);
	*bits = 0;
	if (json_is_null(value) || !value || json_is_boolean(value))
		*number = json_is_true(value);
	else if (json_is_number(value))
		*number = json_number_value(value);
	else if (text && strcmp(text, "NaN") == 0)
		*number = NAN;
	else if (text && strcmp(text, "Infinity") == 0)
		*number = HUGE_VAL;
	else if (text && strcmp(text, "-Infinity") == 0)
		*number = -HUGE_VAL;
	else if (text && strncmp(text, "0x", 2) == 0 && element.kind == 'f')
		*bits = strtoull(text, NULL, 16);
	else
		return false;
	return true;
}

static uint64_t half_of(double number)
{
	if (isnan(number) || isinf(number))
		return isnan(number) ? 0x7e00 : number < 0 ? 0xfc00 : 0x7c00;
	return 0;
}

/* The bits of a number of this type. */
static uint64_t bits_of(Element element, const json_t *value, double number)
{
	uint64_t bits = 0;
	float narrow = (float)number;
	uint32_t word;
	if (element.kind != 'f')
		return json_is_integer(value) ? (uint64_t)json_integer_value(value)
					      : (uint64_t)(int64_t)(isfinite(number) ? number : 0);
	memcpy(&word, &narrow, sizeof word);
	if (element.bytes == 8)
		memcpy(&bits, &number, sizeof bits);
	else
		bits = element.bytes == 4 ? word : half_of(number);
	return bits;
}

static tomos_status take_fill(ZarrArray *a, const json_t *value, const char *path)
{
	double number = 0;
	uint64_t bits;
	if (!fill_number(value, a->element, &number, &bits) ||
		(a->element.bytes == 2 && a->element.kind == 'f' && bits == 0 && isfinite(number) &&
			number != 0))
		return reject(path, "its fill_value is no number that can be read");
	if (bits == 0)
		bits = bits_of(a->element, value, number);
	bool big = native_big != a->element.swapped;
	for (int i = 0; i < a->element.bytes; i++) {
		int at = big ? a->element.bytes - 1 - i : i;
		if (at < COUNT(a->fill))
			a->fill[at] = (unsigned char)(bits >> 8 * i);
	}
	return TOMOS_OK;
}

/* ---- codecs of version 3 --------------------------------------------------------------------- */

static bool codec_named(const char *name, Codec *codec)
{
	static const struct {
		const char *name;
		Codec codec;
	} known[] = {
		{"crc32c", CODEC_CRC32C},
		{"gzip", CODEC_GZIP},
		{"numcodecs.gzip", CODEC_GZIP},
		{"zlib", CODEC_ZLIB},
		{"numcodecs.zlib", CODEC_ZLIB},
#if TOMOS_HAS_ZSTD
		{"zstd", CODEC_ZSTD},
		{"numcodecs.zstd", CODEC_ZSTD},
#endif
#if TOMOS_HAS_BLOSC
		{"blosc", CODEC_BLOSC},
		{"numcodecs.blosc", CODEC_BLOSC},
#endif
#if TOMOS_HAS_LZ4
		{"lz4", CODEC_LZ4},
		{"numcodecs.lz4", CODEC_LZ4},
#endif
		{"numcodecs.crc32c", CODEC_CRC32C}
	};
	for (int i = 0; i < COUNT(known); i++)
		if (strcmp(known[i].name, name) == 0) {
			*codec = known[i].codec;
			return true;
		}
	return false;
}

static tomos_status add_codec(Codecs *c, const char *name, const char *path)
{
	Codec codec;
	if (!codec_named(name, &codec))
		return unknown(path, "codec", name);
	if (c->count == ZARR_CODECS)
		return reject(path, "it has too many codecs");
	c->list[c->count++] = codec;
	return TOMOS_OK;
}

/* The order of the axes; those that are not among the last three stay where they are. */
static tomos_status take_transpose(Codecs *c, const json_t *order, int rank, const char *path)
{
	int64_t axes[MOST_AXES];
	int count = 0;
	if (!sizes_of(order, axes, &count, 0) || count != rank)
		return reject(path, "the order of its transpose codec is no list of its axes");
	int shift = 3 - rank, seen = 0;
	for (int i = 0; i < count; i++) {
		if (axes[i] >= rank || (i + shift < 0 && axes[i] != i))
			return reject(path, "its transpose codec moves other axes than the last");
		seen |= 1 << axes[i];
		if (i + shift >= 0)
			c->axes[i + shift] = (int)axes[i] + shift;
	}
	return seen == (1 << rank) - 1 ? TOMOS_OK
				       : reject(path, "its transpose codec repeats an axis");
}

static tomos_status take_endian(Codecs *c, const json_t *configuration, const char *path)
{
	const char *endian = text_of(configuration, "endian");
	c->big = strcmp(endian, "big") == 0;
	if (endian[0] && !c->big && strcmp(endian, "little") != 0)
		return unknown(path, "byte order", endian);
	return TOMOS_OK;
}

/* A list of codecs without sharding; *shard: the configuration of a sharding codec instead of
 * "bytes", if the caller allows it. */
static tomos_status take_codecs(
	Codecs *c, const json_t *list, int rank, const char *path, const json_t **shard)
{
	bool bytes = false;
	*c = (Codecs){.axes = {0, 1, 2}};
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *item = json_array_get(list, i);
		const json_t *configuration = json_object_get(item, "configuration");
		const char *name =
			json_is_string(item) ? json_string_value(item) : text_of(item, "name");
		if (shard && strcmp(name, "sharding_indexed") == 0 && !bytes && !*shard && i == 0) {
			*shard = configuration;
			bytes = true;
		} else if (strcmp(name, "transpose") == 0 && i == 0) {
			TRY(take_transpose(c, json_object_get(configuration, "order"), rank, path));
		} else if (strcmp(name, "bytes") == 0 && !bytes) {
			TRY(take_endian(c, configuration, path));
			bytes = true;
		} else if (bytes && !(shard && *shard)) {
			TRY(add_codec(c, name, path));
		} else {
			return unknown(path, "here, codec", name);
		}
	}
	return bytes ? TOMOS_OK : reject(path, "its codecs do not say how numbers become bytes");
}

static tomos_status take_shards(ZarrArray *a, const json_t *shard, const char *path)
{
	int64_t inner[MOST_AXES];
	int rank;
	const char *location = text_of(shard, "index_location");
	if (!sizes_of(json_object_get(shard, "chunk_shape"), inner, &rank, 1) || rank != a->rank)
		return reject(path, "the chunk_shape of its shards is no shape of its rank");
	last_three(inner, rank, a->inner);
	for (int i = 0; i < rank; i++)
		if (i < rank - 3 ? inner[i] != 1 : a->chunk[i + 3 - rank] % inner[i] != 0)
			return reject(path, "its shards do not consist of whole chunks");
	a->sharded = true;
	a->index_first = strcmp(location, "start") == 0;
	if (location[0] && !a->index_first && strcmp(location, "end") != 0)
		return unknown(path, "index_location", location);
	TRY(take_codecs(&a->codecs, json_object_get(shard, "codecs"), rank, path, NULL));
	TRY(take_codecs(&a->index, json_object_get(shard, "index_codecs"), rank, path, NULL));
	for (int i = 0; i < a->index.count; i++)
		if (a->index.list[i] != CODEC_CRC32C)
			return reject(path, "the index of its shards is packed");
	return TOMOS_OK;
}

/* ---- version 3 ------------------------------------------------------------------------------- */

static tomos_status take_keys(ZarrArray *a, const json_t *encoding, const char *path)
{
	const char *name = text_of(encoding, "name");
	const char *separator = text_of(json_object_get(encoding, "configuration"), "separator");
	a->prefixed = strcmp(name, "v2") != 0;
	if (a->prefixed && name[0] && strcmp(name, "default") != 0)
		return unknown(path, "chunk_key_encoding", name);
	a->separator = a->prefixed ? '/' : '.';
	if (strcmp(separator, "/") == 0 || strcmp(separator, ".") == 0)
		a->separator = separator[0];
	else if (separator[0])
		return unknown(path, "the separator", separator);
	return TOMOS_OK;
}

static tomos_status parse_3(ZarrArray *a, const json_t *root, Form *f)
{
	const json_t *grid = json_object_get(root, "chunk_grid"), *shard = NULL;
	const char *type = text_of(root, "data_type");
	int chunk_rank = 0;
	if (strcmp(text_of(root, "node_type"), "array") != 0)
		return reject(f->path, "it is no array");
	if (strcmp(text_of(grid, "name"), "regular") != 0)
		return unknown(f->path, "chunk_grid", text_of(grid, "name"));
	if (!sizes_of(json_object_get(root, "shape"), f->shape, &f->rank, 0) ||
		!sizes_of(json_object_get(json_object_get(grid, "configuration"), "chunk_shape"),
			f->chunk, &chunk_rank, 1) ||
		chunk_rank != f->rank)
		return reject(f->path, "its shape and chunk_shape are no shapes of one rank");
	if (strcmp(type, "bool") == 0)
		a->element = (Element){'u', 1, false};
	else if (!element_named(type, &a->element))
		return unknown(f->path, "data_type", type);
	if (json_array_size(json_object_get(root, "storage_transformers")) > 0)
		return reject(f->path, "its storage_transformers cannot be read");
	TRY(take_shape(a, f));
	TRY(take_keys(a, json_object_get(root, "chunk_key_encoding"), f->path));
	TRY(take_codecs(&a->codecs, json_object_get(root, "codecs"), f->rank, f->path, &shard));
	if (shard)
		TRY(take_shards(a, shard, f->path));
	a->element.swapped = a->element.bytes > 1 && a->codecs.big != native_big;
	return take_fill(a, json_object_get(root, "fill_value"), f->path);
}

/* ---- version 2 ------------------------------------------------------------------------------- */

/* "<f4", "|u1", ">i2", "|b1" ... */
static tomos_status take_dtype(ZarrArray *a, const json_t *dtype, const char *path)
{
	const char *d = json_string_value(dtype) ? json_string_value(dtype) : "(a list of fields)";
	bool right = strlen(d) == 3 && strchr("<>|", d[0]) && d[2] >= '1' && d[2] <= '8';
	if (!right)
		return unknown(path, "dtype", d);
	a->element = (Element){strcmp(d + 1, "b1") == 0 ? 'u' : d[1], d[2] - '0', false};
	if (!element_name(a->element))
		return unknown(path, "dtype", d);
	a->element.swapped = a->element.bytes > 1 && (d[0] == '>') != native_big;
	return TOMOS_OK;
}

static tomos_status parse_2(ZarrArray *a, const json_t *root, Form *f)
{
	const json_t *compressor = json_object_get(root, "compressor");
	const char *separator = text_of(root, "dimension_separator"),
		   *order = text_of(root, "order");
	int chunk_rank = 0;
	if (!sizes_of(json_object_get(root, "shape"), f->shape, &f->rank, 0) ||
		!sizes_of(json_object_get(root, "chunks"), f->chunk, &chunk_rank, 1) ||
		chunk_rank != f->rank)
		return reject(f->path, "its shape and chunks are no shapes of one rank");
	TRY(take_dtype(a, json_object_get(root, "dtype"), f->path));
	TRY(take_shape(a, f));
	a->codecs = (Codecs){.axes = {0, 1, 2}};
	if (strcmp(order, "F") == 0)
		for (int i = 0; i < 3; i++)
			a->codecs.axes[i] = 2 - i;
	else if (strcmp(order, "C") != 0)
		return unknown(f->path, "order", order);
	a->separator = strcmp(separator, "/") == 0 ? '/' : '.';
	if (json_array_size(json_object_get(root, "filters")) > 0)
		return reject(f->path, "its filters cannot be read");
	if (compressor && !json_is_null(compressor))
		TRY(add_codec(&a->codecs, text_of(compressor, "id"), f->path));
	return take_fill(a, json_object_get(root, "fill_value"), f->path);
}

/* ---- both ------------------------------------------------------------------------------------ */

tomos_status zarr_array_parse(ZarrArray *a, const json_t *root, const char *path, int version)
{
	Form form = {.path = path};
	const json_t *said = json_object_get(root, "zarr_format");
	if (json_integer_value(said) != version)
		return fail(TOMOS_BAD_FILE, "'%s': its zarr_format is %lld; %d was expected", path,
			(long long)json_integer_value(said), version);
	a->version = version;
	TRY(version == 3 ? parse_3(a, root, &form) : parse_2(a, root, &form));
	TRY(check_chunk(a->chunk, a->element, path));
	/* Rank 2 and less: a leading axis of one index needs no file of more. */
	return a->inner[0] > 0 ? TOMOS_OK : reject(path, "its chunks are empty");
}

static tomos_status open_version(ZarrArray *a, const char *name, int version)
{
	json_t *root;
	TRY(json_read(&root, name));
	tomos_status status = zarr_array_parse(a, root, name, version);
	json_decref(root);
	return status;
}

tomos_status zarr_array_open(ZarrArray *a, const char *folder)
{
	static const char *const names[2] = {"zarr.json", ".zarray"};
	*a = (ZarrArray){.version = 0};
	TRY(mem_text(&a->folder, folder));
	for (int i = 0; i < 2; i++) {
		char *name;
		TRY(mem_printf(&name, "%s/%s", folder, names[i]));
		bool there = access(name, F_OK) == 0;
		tomos_status status = there ? open_version(a, name, 3 - i) : TOMOS_OK;
		mem_free(name);
		if (there)
			return status;
	}
	return fail(
		TOMOS_BAD_FILE, "'%s' holds no Zarr array: it has no zarr.json or .zarray", folder);
}

void zarr_array_close(ZarrArray *a)
{
	mem_free(a->folder);
	a->folder = NULL;
}
