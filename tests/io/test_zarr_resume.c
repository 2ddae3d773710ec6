/* Zarr files that are resumed, by several threads and with few files open; and several processes
 * that write one. */
#include <sys/resource.h>
#include "zarr_help.h"

static void write_some(tomos_file *file, int64_t first, int64_t end)
{
	for (int64_t i = first; i < end; i++)
		assert_ok(tomos_file_write(file, i, 1, numbers + i * NY * NX));
}

static tomos_status write_lost(void *user, int64_t i)
{
	static const int64_t lost[8] = {3, 64, 65, 66, 20, 21, 40, 63};
	return tomos_file_write(user, lost[i], 1, numbers + lost[i] * NY * NX);
}

/* A run that ends after some slices, damages, and one that goes on with several threads. */
static void resumed(void **state)
{
	(void)state;
	for (int w = 0; w < 3; w++) {
		tomos_file_options o = options_of(&ways[w]);
		uint32_t sums[NZ];
		int64_t done, lost;
		tomos_file *file;
		const char *part = at(".r.part");
		io_discard(part);
		assert_ok(io_create(&file, at("r.zarr"), TOMOS_VOLUME, shape, &o, part, false));
		assert_ok(tomos_file_set_text(file, "method", "fbp"));
		assert_ok(io_seal(file));
		write_some(file, 0, 64); /* a whole layer of chunks, */
		write_some(file, 67, NZ);
		memcpy(sums, file->checksums, sizeof sums);
		tomos_file_close(file);
		assert_ok(io_create(&file, at("r.zarr"), TOMOS_VOLUME, shape, &o, part, true));
		sums[3]++; /* which is not what is there */
		sums[20]++, sums[21]++, sums[40]++, sums[63]++;
		io_done(file, 0, 64, sums);
		io_done(file, 67, NZ - 67, sums + 67);
		assert_ok(io_verify_done(file, NULL, &done, &lost));
		assert_int_equal(lost, 5);
		assert_int_equal(done, NZ - 3 - 5);
		assert_ok(parallel_each(8, 8, write_lost, file, "writing"));
		assert_ok(tomos_file_commit(file));
		tomos_file_close(file);
		assert_int_equal(access(at("r.zarr/.stage"), F_OK), -1);
		check_levels(at("r.zarr"), 0);
		assert_ok(tomos_file_open(&file, at("r.zarr"), NULL));
		char *text;
		assert_ok(io_text(file, "process/method", &text));
		assert_string_equal(text, "fbp");
		mem_free(text);
		tomos_file_close(file);
	}
	assert_int_equal(mem_live(), 0);
}

/* Slices of many shards are checked by several threads with few files open. */
static void few_files(void **state)
{
	(void)state;
	enum { SLICES = 24, WIDTH = 40 * 512 };
	const int64_t wide[3] = {SLICES, 1, WIDTH};
	tomos_file_options o = options_of(&ways[0]);
	uint32_t sums[SLICES];
	int64_t done, lost;
	tomos_file *file;
	const char *part = at(".f.part");
	struct rlimit before, few;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit){min64(80, (int64_t)before.rlim_cur), before.rlim_max};
	assert_ok(io_create(&file, at("f.zarr"), TOMOS_PROJECTIONS, wide, &o, part, false));
	assert_ok(io_seal(file));
	assert_ok(tomos_file_write(file, 0, SLICES, numbers));
	memcpy(sums, file->checksums, sizeof sums);
	tomos_file_close(file);
	assert_ok(io_create(&file, at("f.zarr"), TOMOS_PROJECTIONS, wide, &o, part, true));
	io_done(file, 0, SLICES, sums);
	assert_ok(tomos_set_threads(8));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_ok(io_verify_done(file, NULL, &done, &lost));
	tomos_status status = tomos_file_commit(file);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_ok(tomos_set_threads(0));
	assert_ok(status);
	assert_int_equal(lost, 0);
	tomos_file_close(file);
	assert_int_equal(mem_live(), 0);
}

enum { TALL = 40 * 512 };

static tomos_status write_tall(void *user, int64_t slice)
{
	return tomos_file_write(user, slice, 1, numbers + slice * TALL);
}

/* And written by several threads. */
static void few_files_written(void **state)
{
	(void)state;
	enum { SLICES = 24 };
	const int64_t tall[3] = {SLICES, TALL, 1};
	tomos_file_options o = options_of(&ways[0]);
	tomos_file *file;
	struct rlimit before, few;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit){min64(60, (int64_t)before.rlim_cur), before.rlim_max};
	assert_ok(tomos_file_create(&file, at("t.zarr"), TOMOS_VOLUME, tall, &o));
	assert_ok(tomos_set_threads(8));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	tomos_status status = parallel_each(SLICES, 8, write_tall, file, "writing");
	if (status == TOMOS_OK)
		status = tomos_file_commit(file);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_ok(tomos_set_threads(0));
	assert_ok(status);
	tomos_file_close(file);
	assert_reads(at("t.zarr"), tall, numbers);
	assert_int_equal(mem_live(), 0);
}

/* Two processes whose parts do not end where chunks or pairs of slices do. */
static void joined(void **state)
{
	(void)state;
	for (int w = 0; w < 3; w++) {
		tomos_file_options o = options_of(&ways[w]);
		tomos_file *file, *other;
		const char *temporary = at(".j.part");
		const FilePart part = {1, 0};
		io_discard(temporary);
		assert_ok(
			io_create(&file, at("j.zarr"), TOMOS_VOLUME, shape, &o, temporary, false));
		assert_ok(io_seal(file));
		assert_ok(io_join(&other, at("j.zarr"), TOMOS_VOLUME, shape, &o, temporary, &part));
		write_some(other, 33, NZ);
		write_some(file, 0, 33);
		memcpy(file->checksums + 33, other->checksums + 33, (NZ - 33) * sizeof(uint32_t));
		memset(file->written + 33, 1, NZ - 33);
		assert_ok(io_merge(file));
		assert_ok(tomos_file_commit(file));
		tomos_file_close(other);
		tomos_file_close(file);
		io_discard(temporary);
		check_levels(at("j.zarr"), 0);
	}
	assert_int_equal(mem_live(), 0);
}

/* Slices of a layer of chunks that was only begun are kept: its file ends with the last of them. */
static void layer_begun(void **state)
{
	(void)state;
	for (int w = 0; w < 3; w++) {
		const tomos_file_options o = options_of(&ways[w]);
		const char *part = at(".b.part");
		uint32_t sums[NZ];
		int64_t done, lost;
		tomos_file *file;
		io_discard(part);
		assert_ok(io_create(&file, at("b.zarr"), TOMOS_VOLUME, shape, &o, part, false));
		assert_ok(io_seal(file));
		write_some(file, 0, 9);
		memcpy(sums, file->checksums, sizeof sums);
		tomos_file_close(file);
		assert_ok(io_create(&file, at("b.zarr"), TOMOS_VOLUME, shape, &o, part, true));
		io_done(file, 0, 9, sums);
		assert_ok(io_verify_done(file, NULL, &done, &lost));
		assert_int_equal(lost, 0);
		assert_int_equal(done, 9);
		write_some(file, 9, NZ);
		assert_ok(tomos_file_commit(file));
		tomos_file_close(file);
		check_levels(at("b.zarr"), 0);
	}
	assert_int_equal(mem_live(), 0);
}

int main(void)
{
	fill_numbers();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(resumed),
		cmocka_unit_test(layer_begun),
		cmocka_unit_test(few_files),
		cmocka_unit_test(few_files_written),
		cmocka_unit_test(joined),
	};
	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
