/* Zarr files in memory (tmpfs) that are written through mappings: the same bytes as with system
 * calls. */
#include "io_help.h"
#include "io/zarr_parts.h"

/* Two whole layers of chunks and a thin one; whole shards, and one with few columns. */
enum { DEPTH = 130, HEIGHT = 512, WIDTH = 1030 };
static const int64_t shape[3] = {DEPTH, HEIGHT, WIDTH};

static tomos_status write_slice(void *user, int64_t slice)
{
	float *numbers = malloc(sizeof(float) * HEIGHT * WIDTH);
	for (int64_t i = 0; i < HEIGHT * WIDTH; i++)
		numbers[i] = (float)((i * 7 + i / WIDTH * 11 + slice * 29) % 256);
	tomos_status status = tomos_file_write(user, slice, 1, numbers);
	free(numbers);
	return status;
}

static void write_file(const char *folder, const char *name, bool mapped)
{
	static const double window[2] = {0, 255};
	char path[512];
	tomos_file_options o = overwriting();
	tomos_file *file;
	o.type = "uint8";
	o.window = window;
	o.window_count = 2;
	snprintf(path, sizeof path, "%s/%s", folder, name);
	assert_ok(tomos_file_create(&file, path, TOMOS_VOLUME, shape, &o));
	if (mapped) {
		ZarrMapped **m = &((const Zarr *)file->own)->writer->mapped;
		assert_ok(file->format->reserve(file, 1));
		assert_null(*m); /* it would be more than this memory */
		assert_ok(file->format->reserve(file, 1e12));
		assert_non_null(*m);
		if (mapped_take(*m, 0, 0, 0))
			mapped_give(*m, 0, 0, 0, 0);
		else
			print_message("skipped: no large pages for mappings\n");
		assert_null(mapped_take(*m, 0, 2, 0)); /* few slices, */
		assert_null(mapped_take(*m, 0, 0, 2)); /* few columns */
	}
	assert_ok(parallel_each(DEPTH, 4, write_slice, file, "writing"));
	assert_ok(tomos_file_commit(file));
	tomos_file_close(file);
}

static char *bytes_of(const char *folder, const char *name, const char *shard, long *size)
{
	char path[512];
	snprintf(path, sizeof path, "%s/%s/%s", folder, name, shard);
	FILE *file = fopen(path, "rb");
	assert_non_null(file);
	assert_int_equal(fseek(file, 0, SEEK_END), 0);
	*size = ftell(file);
	rewind(file);
	char *bytes = malloc((size_t)*size);
	assert_int_equal(fread(bytes, 1, (size_t)*size, file), *size);
	fclose(file);
	return bytes;
}

static void same_bytes(void **state)
{
	static const char *const shards[] = {"0/c/0/0/0", "0/c/0/0/1", "0/c/0/0/2", "1/c/0/0/0",
		"1/c/0/0/1", "2/c/0/0/0", "zarr.json"};
	char folder[] = "/dev/shm/tomos-test-XXXXXX";
	(void)state;
	if (!path_in_memory("/dev/shm") || !mkdtemp(folder)) {
		print_message("skipped: no /dev/shm\n");
		return;
	}
	write_file(folder, "plain.zarr", false);
	write_file(folder, "mapped.zarr", true);
	for (int i = 0; i < COUNT(shards); i++) {
		long n, m;
		char *plain = bytes_of(folder, "plain.zarr", shards[i], &n);
		char *mapped = bytes_of(folder, "mapped.zarr", shards[i], &m);
		assert_int_equal(n, m);
		assert_memory_equal(plain, mapped, (size_t)n);
		free(plain);
		free(mapped);
	}
	io_discard(folder);
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(same_bytes)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
