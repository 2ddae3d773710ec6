/* Any bytes as the metadata of a Zarr array or image, and as a shard of what they describe. */
#include <fcntl.h>
#include "fuzz_file.h"
#include "io/zarr_parts.h"

static void read_shard(const ZarrArray *array, const char *path, size_t size)
{
	ShardEntry *entries = NULL;
	int descriptor = open(path, O_RDONLY);
	require(descriptor >= 0);
	if (array->sharded)
		(void)zarr_index_read(array, descriptor, (int64_t)size, path, &entries);
	mem_free(entries);
	close(descriptor);
}

static void read_metadata(const char *path, const uint8_t *bytes, size_t size)
{
	int64_t live = mem_live();
	ZarrLevels levels;
	json_t *root;
	(void)bytes;
	if (json_read(&root, path) != TOMOS_OK)
		return;
	for (int version = 2; version <= 3; version++) {
		ZarrArray array = {.folder = NULL};
		if (zarr_array_parse(&array, root, path, version) == TOMOS_OK)
			read_shard(&array, path, size);
		zarr_array_close(&array);
	}
	(void)zarr_levels_parse(&levels, root, path);
	zarr_levels_close(&levels);
	json_decref(root);
	require(mem_live() == live);
}

static void put_seeds(const char *directory)
{
	put_text(directory, "seed-3.json",
		"{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":[4,4,4],\"data_type\":"
		"\"float32\","
		"\"chunk_grid\":{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[4,4,4]}},"
		"\"chunk_key_encoding\":{\"name\":\"default\",\"configuration\":{\"separator\":\"/"
		"\"}},"
		"\"fill_value\":\"NaN\",\"codecs\":[{\"name\":\"sharding_indexed\","
		"\"configuration\":"
		"{\"chunk_shape\":[2,2,2],\"codecs\":[{\"name\":\"transpose\",\"configuration\":"
		"{\"order\":[2,1,0]}},{\"name\":\"bytes\",\"configuration\":{\"endian\":\"big\"}},"
		"{\"name\":\"zstd\"},{\"name\":\"crc32c\"}],\"index_codecs\":[{\"name\":\"bytes\"},"
		"{\"name\":\"crc32c\"}],\"index_location\":\"start\"}}]}");
	put_text(directory, "seed-2.json",
		"{\"zarr_format\":2,\"shape\":[4,4],\"chunks\":[2,2],\"dtype\":\"<u2\",\"order\":"
		"\"F\","
		"\"compressor\":{\"id\":\"blosc\"},\"fill_value\":7,\"filters\":null,"
		"\"dimension_separator\":\"/\"}");
	put_text(directory, "seed-ome.json",
		"{\"ome\":{\"version\":\"0.5\",\"multiscales\":[{\"axes\":[{\"name\":\"z\","
		"\"type\":"
		"\"space\",\"unit\":\"micrometer\"},{\"name\":\"y\",\"type\":\"space\"},{\"name\":"
		"\"x\","
		"\"type\":\"space\"}],\"datasets\":[{\"path\":\"0\",\"coordinateTransformations\":["
		"{\"type\":\"scale\",\"scale\":[1,2,3]},{\"type\":\"translation\",\"translation\":"
		"[1,2,3]}]}],\"coordinateTransformations\":[{\"type\":\"identity\"}]}]}}");
}

const Target target = {NULL, NULL, 0, read_metadata, put_seeds};
