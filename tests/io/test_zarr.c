/* Zarr files: levels, order of writing, packing, datasets, damage. */
#include <sys/stat.h>
#include "zarr_help.h"
#include "io/crc32c.h"

/* ---- the checksum ---------------------------------------------------------------------------- */

static void checksums(void **state)
{
	(void)state;
	unsigned char bytes[20000];
	for (int i = 0; i < COUNT(bytes); i++)
		bytes[i] = (unsigned char)(i * 7919 >> 3);
	assert_int_equal(crc32c("123456789", 9), 0xe3069283u); /* check value of CRC-32/ISCSI */
	assert_int_equal(crc32c_plain("123456789", 9), 0xe3069283u);
	for (int64_t n = 0; n < COUNT(bytes); n += 1 + n / 3) {
		uint32_t whole = crc32c(bytes, n);
		assert_int_equal(whole, crc32c_plain(bytes, n));
		uint32_t rest = crc32c(bytes + n / 3, n - n / 3);
		assert_int_equal(
			whole, crc32c_join(crc32c_shift(n - n / 3), crc32c(bytes, n / 3), rest));
	}
}

/* ---- levels ---------------------------------------------------------------------------------- */

typedef struct {
	tomos_file *file;
	int64_t order[NZ];
} Orderless;

static tomos_status write_one(void *user, int64_t i)
{
	const Orderless *o = user;
	int64_t slice = o->order[i];
	return tomos_file_write(o->file, slice, 1, numbers + slice * NY * NX);
}

/* Slices in an order without neighbours after each other, by several threads. */
static void any_order(void **state)
{
	(void)state;
	for (int w = 0; w < COUNT(ways); w++) {
		tomos_file_options options = options_of(&ways[w]);
		Orderless o = {.file = NULL};
		for (int64_t i = 0; i < NZ; i++)
			o.order[i] = i * 29 % NZ;
		assert_ok(tomos_file_create(&o.file, at("o.zarr"), TOMOS_VOLUME, shape, &options));
		assert_ok(parallel_each(NZ, 4, write_one, &o, "writing"));
		assert_ok(tomos_file_commit(o.file));
		tomos_file_close(o.file);
		check_levels(at("o.zarr"), ways[w].rounding);
	}
	assert_int_equal(mem_live(), 0);
}

/* Slabs that begin and end anywhere, and slices that are written twice. */
static void slabs(void **state)
{
	(void)state;
	for (int w = 0; w < COUNT(ways); w++) {
		static float wrong[3 * NY * NX];
		tomos_file_options options = options_of(&ways[w]);
		tomos_file *file;
		assert_ok(tomos_file_create(&file, at("s.zarr/"), TOMOS_VOLUME, shape, &options));
		assert_ok(tomos_file_write(file, 0, NZ, numbers));
		assert_ok(tomos_file_write(file, 7, 3, wrong));
		assert_ok(tomos_file_write(file, 5, 6, numbers + 5 * NY * NX));
		assert_ok(tomos_file_commit(file));
		tomos_file_close(file);
		check_levels(at("s.zarr"), ways[w].rounding);
	}
	assert_int_equal(mem_live(), 0);
}

static void grids(void **state)
{
	(void)state;
	tomos_grid grid = {.n = {NX, NY, NZ}, .first = {-3, 5, 1}, .step = {0.5, -0.25, 2}}, back;
	tomos_file_options o = overwriting();
	tomos_file *file;
	assert_ok(tomos_file_create(&file, at("g.ome.zarr"), TOMOS_VOLUME, shape, &o));
	assert_ok(tomos_file_set_grid(file, &grid));
	assert_ok(tomos_file_set_text(file, "method", "fbp"));
	assert_ok(tomos_file_write(file, 0, NZ, numbers));
	assert_ok(tomos_file_commit(file));
	tomos_file_close(file);
	for (int level = 0; level < 3; level++) {
		o.level = level;
		assert_ok(tomos_file_open(&file, at("g.ome.zarr"), &o));
		assert_ok(tomos_file_grid(file, &back));
		for (int k = 0; k < 3; k++) {
			double factor = 1 << level;
			assert_float_equal(back.step[k], grid.step[k] * factor, 1e-12);
			assert_float_equal(back.first[k],
				grid.first[k] + grid.step[k] * (factor - 1) / 2, 1e-12);
		}
		char *text;
		assert_ok(io_text(file, "process/method", &text));
		assert_string_equal(text, "fbp");
		mem_free(text);
		tomos_file_close(file);
	}
	o.level = 3;
	assert_int_equal(tomos_file_open(&file, at("g.ome.zarr"), &o), TOMOS_BAD_VALUE);
	assert_says("has 3 levels of resolution, 0 to 2; level is 3");
	o.dataset = "1";
	assert_int_equal(tomos_file_open(&file, at("g.ome.zarr"), &o), TOMOS_BAD_VALUE);
	assert_says("dataset is '1' and level is 3; only one of them can be given");
	o.level = 0;
	o.dataset = "/1/";
	assert_ok(tomos_file_open(&file, at("g.ome.zarr"), &o)); /* is level 1, alone */
	assert_int_equal(tomos_file_levels(file), 1);
	assert_ok(tomos_file_grid(file, &back));
	assert_int_equal(back.n[0], (NX + 1) / 2);
	assert_float_equal(back.step[0], 2 * grid.step[0], 1e-12);
	tomos_file_close(file);
	assert_int_equal(mem_live(), 0);
}

/* Arrays beside the image, and in an array. */
static void datasets(void **state)
{
	(void)state;
	tomos_file_options o = tomos_file_defaults();
	tomos_file_info info = {.bytes = sizeof info};
	tomos_file *file;
	assert_int_equal(rename(at("g.ome.zarr/1"), at("g.ome.zarr/mask")), 0);
	o.dataset = "mask";
	assert_ok(tomos_file_open(&file, at("g.ome.zarr"), &o));
	assert_ok(tomos_file_describe(file, &info));
	assert_int_equal(info.shape[2], (NX + 1) / 2);
	assert_false(info.has_grid); /* that of the image is not that of the mask */
	assert_int_equal(info.content, TOMOS_UNKNOWN);
	tomos_file_close(file);
	assert_int_equal(tomos_file_open(&file, at("g.ome.zarr/0"), &o), TOMOS_BAD_VALUE);
	assert_says("is an array; there is no dataset 'mask' in it");
	assert_int_equal(mem_live(), 0);
}

/* Of an image of another program: its unit, and all transformations in their order. */
static void foreign_grid(void **state)
{
	(void)state;
	static const char array[] =
		"{\"zarr_format\":2,\"shape\":[2,3,4],\"chunks\":[2,3,4],\"dtype\":\"|u1\","
		"\"order\":\"C\",\"compressor\":null}";
	static const char image[] =
		"{\"multiscales\":[{\"axes\":[{\"type\":\"space\",\"unit\":\"um\"},"
		"{\"type\":\"space\",\"unit\":\"micrometer\"},{\"type\":\"space\",\"unit\":"
		"\"angstrom\"}],\"datasets\":[{\"path\":\"0\",\"coordinateTransformations\":["
		"{\"type\":\"identity\"},{\"type\":\"scale\",\"scale\":[2000,1000,1e7]},"
		"{\"type\":\"translation\",\"translation\":[1000,0,3e7]}]}]}]}";
	tomos_file *file;
	tomos_grid grid;
	(void)mkdir(at("x.zarr"), 0777);
	(void)mkdir(at("x.zarr/0"), 0777);
	put_file(at("x.zarr/.zattrs"), image, strlen(image));
	put_file(at("x.zarr/.zgroup"), "{\"zarr_format\":2}", 17);
	put_file(at("x.zarr/0/.zarray"), array, strlen(array));
	assert_ok(tomos_file_open(&file, at("x.zarr"), NULL));
	assert_ok(tomos_file_grid(file, &grid));
	for (int k = 0; k < 3; k++) {
		assert_float_equal(grid.step[k], ((double[]){1, 1, 2})[k], 1e-12);
		assert_float_equal(grid.first[k], ((double[]){3, 0, 1})[k], 1e-12);
	}
	tomos_file_close(file);
	assert_int_equal(mem_live(), 0);
}

/* ---- damage ---------------------------------------------------------------------------------- */

static void damaged(void **state)
{
	(void)state;
	size_t length;
	float *data;
	int64_t found[3];
	for (int w = 0; w < 2; w++) {
		tomos_file_options o = options_of(&ways[w]);
		tomos_file *file;
		assert_ok(tomos_file_create(&file, at("d.zarr"), TOMOS_VOLUME, shape, &o));
		assert_ok(tomos_file_write(file, 0, NZ, numbers));
		assert_ok(tomos_file_commit(file));
		tomos_file_close(file);
		unsigned char *bytes = get_file(at("d.zarr/0/c/0/0/0"), &length);
		bytes[1000] ^= 4;
		put_file(at("d.zarr/0/c/0/0/0"), bytes, length);
		assert_int_equal(read_all(at("d.zarr"), found, &data), TOMOS_BAD_FILE);
		assert_says("a chunk is damaged: its checksum (crc32c) is wrong");
		bytes[1000] ^= 4;
		bytes[length - 20] ^= 1;
		put_file(at("d.zarr/0/c/0/0/0"), bytes, length);
		assert_int_equal(read_all(at("d.zarr"), found, &data), TOMOS_BAD_FILE);
		assert_says("the index of the shard is damaged");
		free(bytes);
	}
	assert_int_equal(unlink(at("d.zarr/0/c/0/0/0")), 0);
	assert_int_equal(read_all(at("d.zarr"), found, &data), TOMOS_BAD_FILE);
	assert_says("the chunk (0, 0, 0) is missing");
	/* In a file of another program it stands for the fill value. */
	unsigned char *json = get_file(at("d.zarr/tomos/zarr.json"), &length);
	unsigned char *mark = memmem(json, length, "\"content\"", 9);
	assert_non_null(mark);
	mark[1] = 'x';
	put_file(at("d.zarr/tomos/zarr.json"), json, length);
	free(json);
	assert_ok(read_all(at("d.zarr"), found, &data));
	assert_true(data[0] == 0 && data[NUMBERS / 2] == 0);
	free(data);
}

static void rejections(void **state)
{
	(void)state;
	tomos_file_options o = overwriting();
	tomos_file *file;
	assert_int_equal(mkdir(at("mine.zarr"), 0777), 0);
	put_file(at("mine.zarr/thesis.txt"), "x", 1);
	assert_int_equal(
		tomos_file_create(&file, at("mine.zarr"), TOMOS_VOLUME, shape, &o), TOMOS_IO);
	assert_says("is no Zarr file and is not replaced by one");
	o.level = 1;
	assert_int_equal(
		tomos_file_create(&file, at("l.zarr"), TOMOS_VOLUME, shape, &o), TOMOS_BAD_VALUE);
	assert_says("level is 1, which is for reading");
	write_array(at("l.npy"), TOMOS_VOLUME, shape, numbers);
	assert_int_equal(tomos_file_open(&file, at("l.npy"), &o), TOMOS_BAD_VALUE);
	assert_says("is no Zarr file and has one level of resolution, 0; level is 1");
}

/* A group without an image, and metadata that say what cannot be read. */
static void metadata(void **state)
{
	(void)state;
	static const struct {
		const char *text, *message;
	} cases[] = {{"{\"zarr_format\":3,\"node_type\":\"group\"}", "names no image"},
		{"{\"zarr_format\":4,\"node_type\":\"array\"}", "its zarr_format is 4"},
		{"{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":[2,2],"
		 "\"chunk_grid\":{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[2]}}}",
			"no shapes of one rank"},
		{"{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":[2],\"data_type\":"
		 "\"complex64\","
		 "\"chunk_grid\":{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[2]}}}",
			"data_type 'complex64' cannot be read"},
		{"{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":[2],\"data_type\":\"int8\","
		 "\"chunk_grid\":{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[2]}},"
		 "\"codecs\":[{\"name\":\"bytes\"},{\"name\":\"bz2\"}],\"fill_value\":0}",
			"codec 'bz2' cannot be read"},
		{"{\"attributes\":{\"ome\":{\"multiscales\":[{\"datasets\":[{\"path\":\"../"
		 "a\"}]}]}}}",
			"not below the file"}};
	static const char dtype[] = "{\"zarr_format\":2,\"shape\":[2],\"chunks\":[2],"
				    "\"dtype\":\"\",\"order\":\"C\",\"compressor\":null}";
	tomos_file *file;
	(void)mkdir(at("m.zarr"), 0777);
	for (int i = 0; i < COUNT(cases); i++) {
		put_file(at("m.zarr/zarr.json"), cases[i].text, strlen(cases[i].text));
		assert_true(tomos_file_open(&file, at("m.zarr"), NULL) != TOMOS_OK);
		assert_says(cases[i].message);
	}
	put_file(at("m.zarr/.zarray"), dtype, strlen(dtype));
	assert_int_equal(unlink(at("m.zarr/zarr.json")), 0);
	assert_int_equal(tomos_file_open(&file, at("m.zarr"), NULL), TOMOS_UNSUPPORTED);
	assert_says("dtype '' cannot be read");
}

/* Sizes that would take more memory than the file can be worth. */
static void oversized(void **state)
{
	(void)state;
	static const char array[] = "{\"zarr_format\":2,\"shape\":[2],\"chunks\":[2],\"dtype\":"
				    "\"|u1\",\"order\":\"C\",\"compressor\":null}",
			  table[] = "{\"geometry\":{\"views\":[[1,2,3],[1,2],[]]}}";
	const int64_t wide = 4096 + 4;
	int64_t found[3];
	float *data;
	(void)mkdir(at("big.zarr"), 0777);
	(void)mkdir(at("big.zarr/tomos"), 0777);
	put_file(at("big.zarr/.zarray"), array, strlen(array));
	put_file(at("big.zarr/tomos/.zattrs"), table, strlen(table));
	put_file(at("big.zarr/0"), numbers, (size_t)wide);
	assert_int_equal(read_all(at("big.zarr"), found, &data), TOMOS_BAD_FILE);
	assert_says("'geometry/views' is no list or table of numbers");
	assert_int_equal(unlink(at("big.zarr/tomos/.zattrs")), 0);
	assert_int_equal(read_all(at("big.zarr"), found, &data), TOMOS_BAD_FILE);
	assert_says("a chunk has 4100 bytes, too many for 2");
}

/* Every allocation fails in turn. */
static void allocations(void **state)
{
	(void)state;
	static const int64_t small[3] = {5, 70, 6};
	for (int w = 0; w < 3; w++) {
		tomos_file_options o = options_of(&ways[w]);
		tomos_status status = TOMOS_NO_MEMORY;
		int nth = 0;
		for (; status != TOMOS_OK && nth < 2000; nth++) {
			tomos_file *file = NULL;
			mem_fail_nth(nth + 1);
			status = tomos_file_create(&file, at("n.zarr"), TOMOS_VOLUME, small, &o);
			if (status == TOMOS_OK)
				status = tomos_file_write(file, 1, 4, numbers);
			if (status == TOMOS_OK)
				status = tomos_file_write(file, 0, 1, numbers);
			if (status == TOMOS_OK)
				status = tomos_file_commit(file);
			tomos_file_close(file);
			mem_fail_nth(0);
			assert_true(status == TOMOS_OK || status == TOMOS_NO_MEMORY);
			assert_int_equal(mem_live(), 0);
		}
		assert_true(nth > 20 && status == TOMOS_OK);
	}
}

int main(void)
{
	fill_numbers();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(checksums),
		cmocka_unit_test(any_order),
		cmocka_unit_test(slabs),
		cmocka_unit_test(grids),
		cmocka_unit_test(datasets),
		cmocka_unit_test(foreign_grid),
		cmocka_unit_test(damaged),
		cmocka_unit_test(rejections),
		cmocka_unit_test(metadata),
		cmocka_unit_test(oversized),
		cmocka_unit_test(allocations),
	};
	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
