/* Files of every format: data read equal data written, and nothing is left behind after
 * failures. */
#include "io/numbers_help.h"

static const char *const outputs[] = {"a.h5", "a.npy", "a.tif", "stack/", "a.mha"};

/* ---- round trips ----------------------------------------------------------------------------- */

static void writes_what_it_reads(void **state)
{
	(void)state;
	for (int k = 0; k < COUNT(outputs); k++)
		for (int content = TOMOS_VOLUME; content <= TOMOS_UNKNOWN; content++) {
			write_array(at(outputs[k]), (tomos_content)content, shape, numbers);
			assert_reads(at(outputs[k]), shape, numbers);
		}
	assert_int_equal(entries(scratch), COUNT(outputs));
	assert_int_equal(entries(at("stack")), 5);
	assert_int_equal(access(at("stack/recon_00004.tiff"), R_OK), 0);
	assert_int_equal(mem_live(), 0);
}

static void slabs_in_any_order(void **state)
{
	(void)state;
	tomos_file_options options = overwriting();
	for (int k = 0; k < COUNT(outputs); k++) {
		tomos_file *file;
		float wrong[12] = {0}, slab[24];
		assert_ok(tomos_file_create(&file, at(outputs[k]), TOMOS_VOLUME, shape, &options));
		assert_ok(tomos_file_write(file, 3, 2, numbers + 36));
		assert_ok(tomos_file_write(file, 2, 1, wrong));
		assert_ok(tomos_file_write(file, 1, 2, numbers + 12));
		assert_int_equal(tomos_file_commit(file), TOMOS_BAD_VALUE);
		assert_says("index 0 of 5 on the first axis was never written");
		assert_ok(tomos_file_write(file, 0, 1, numbers));
		assert_int_equal(tomos_file_read(file, 0, 1, slab), TOMOS_BAD_VALUE);
		assert_says("open for writing and cannot be read");
		assert_ok(tomos_file_commit(file));
		assert_int_equal(tomos_file_write(file, 0, 1, numbers), TOMOS_BAD_VALUE);
		assert_says("is committed and cannot be written to");
		assert_int_equal(tomos_file_commit(file), TOMOS_BAD_VALUE);
		tomos_file_close(file);
		assert_reads(at(outputs[k]), shape, numbers);

		assert_ok(tomos_file_open(&file, at(outputs[k]), NULL));
		assert_ok(tomos_file_read(file, 2, 2, slab));
		assert_memory_equal(slab, numbers + 24, sizeof slab);
		assert_ok(tomos_file_read(file, 0, 1, slab));
		assert_memory_equal(slab, numbers, 12 * sizeof *slab);
		assert_int_equal(tomos_file_read(file, 4, 2, slab), TOMOS_BAD_VALUE);
		assert_says("2 indices from 4 on the first axis, which has 5");
		assert_int_equal(tomos_file_read(file, -1, 1, slab), TOMOS_BAD_VALUE);
		assert_int_equal(tomos_file_read(file, 0, 0, slab), TOMOS_BAD_VALUE);
		assert_int_equal(tomos_file_read(file, 1, INT64_MAX, slab), TOMOS_BAD_VALUE);
		assert_int_equal(tomos_file_write(file, 0, 1, slab), TOMOS_BAD_VALUE);
		assert_says("open for reading and cannot be written to");
		tomos_file_close(file);
	}
	assert_int_equal(mem_live(), 0);
}

static void describes(void **state)
{
	(void)state;
	static const char *const formats[] = {"hdf5", "npy", "tiff", "tiff", "mhd"};
	for (int k = 0; k < COUNT(outputs); k++) {
		tomos_file *file;
		tomos_file_info info = {.bytes = sizeof info};
		write_array(at(outputs[k]), TOMOS_PROJECTIONS, shape, numbers);
		assert_ok(tomos_file_open(&file, at(outputs[k]), NULL));
		assert_ok(tomos_file_describe(file, &info));
		assert_string_equal(info.format, formats[k]);
		assert_string_equal(info.type, "float32");
		assert_string_equal(info.dataset, k == 0 ? "/projections" : "");
		assert_int_equal(info.content, k == 0 ? TOMOS_PROJECTIONS : TOMOS_UNKNOWN);
		assert_false(info.has_grid || info.has_geometry);
		tomos_file_close(file);
	}
}

/* ---- names and remains ----------------------------------------------------------------------- */

static void rejected_names(void **state)
{
	(void)state;
	tomos_file *file;
	assert_int_equal(
		tomos_file_create(&file, at("a.xyz"), TOMOS_VOLUME, shape, NULL), TOMOS_BAD_VALUE);
	assert_says("must end in one of h5|hdf5|hdf|nxs|npy|tif|tiff|");
	assert_says("|mhd|mha|nii|nii.gz|nrrd|vti|raw|bin, or in '/'");
	assert_null(file);
	assert_int_equal(tomos_file_create(&file, "", TOMOS_VOLUME, shape, NULL), TOMOS_BAD_VALUE);
	assert_says("the name of a file is missing");
	assert_int_equal(
		tomos_file_create(&file, at("no/a.h5"), TOMOS_VOLUME, shape, NULL), TOMOS_IO);
	int64_t empty[3] = {1, 0, 4}, huge[3] = {1, 1LL << 31, 1};
	assert_int_equal(
		tomos_file_create(&file, at("e.h5"), TOMOS_VOLUME, empty, NULL), TOMOS_BAD_VALUE);
	assert_says("1 x 0 x 4 is empty or too large");
	assert_int_equal(
		tomos_file_create(&file, at("e.tif"), TOMOS_VOLUME, huge, NULL), TOMOS_UNSUPPORTED);
	assert_says("a TIFF image has at most 2147483647 rows and columns");
	assert_int_equal(tomos_file_open(&file, at("none.h5"), NULL), TOMOS_IO);
	assert_says("none.h5' cannot be opened: No such file");
	put_file(at("x"), "hello world", 11);
	assert_int_equal(tomos_file_open(&file, at("x"), NULL), TOMOS_BAD_FILE);
	assert_says("is of no known format (hdf5, npy, npz, tiff, zarr, mhd, nifti, nrrd, vti); it "
		    "begins with 68 65 6c 6c 6f");
	assert_says("read with the option 'raw'");
	put_file(at("x"), "", 0);
	assert_int_equal(tomos_file_open(&file, at("x"), NULL), TOMOS_BAD_FILE);
	assert_says("is empty");
	mkfifo(at("pipe"), 0666);
	assert_int_equal(tomos_file_open(&file, at("pipe"), NULL), TOMOS_IO);
	assert_says("pipe' is not a regular file");
	write_array(at("UPPER.NPY"), TOMOS_VOLUME, shape, numbers);
	assert_reads(at("UPPER.NPY"), shape, numbers);
	assert_int_equal(mem_live(), 0);
}

static void nothing_is_left(void **state)
{
	(void)state;
	for (int k = 0; k < COUNT(outputs); k++) {
		tomos_file *file, *second;
		char name[64];
		snprintf(name, sizeof name, "new-%s", outputs[k]);
		int before = entries(scratch);
		assert_ok(tomos_file_create(&file, at(name), TOMOS_VOLUME, shape, NULL));
		assert_ok(tomos_file_write(file, 0, 5, numbers));
		assert_int_equal(entries(scratch), before + 1);
		tomos_file_close(file);
		assert_int_equal(entries(scratch), before);

		write_array(at(name), TOMOS_VOLUME, shape, numbers);
		assert_int_equal(entries(scratch), before + 1);
		assert_int_equal(
			tomos_file_create(&file, at(name), TOMOS_VOLUME, shape, NULL), TOMOS_IO);
		assert_says("exists already");
		assert_null(file);

		tomos_file_options options = overwriting();
		assert_ok(tomos_file_create(&file, at(name), TOMOS_VOLUME, shape, &options));
		assert_ok(tomos_file_create(&second, at(name), TOMOS_VOLUME, shape, &options));
		assert_int_equal(entries(scratch), before + 3);
		tomos_file_discard_all();
		assert_int_equal(entries(scratch), before + 1);
		tomos_file_close(file);
		tomos_file_close(second);
		assert_reads(at(name), shape, numbers);
	}
	assert_int_equal(mem_live(), 0);
}

/* Two that write under one name: the first to finish is not replaced by the second. */
static void what_appeared_stays(void **state)
{
	(void)state;
	for (int k = 0; k < COUNT(outputs); k++) {
		tomos_file *file;
		char name[64];
		snprintf(name, sizeof name, "late-%s", outputs[k]);
		float *other = calloc((size_t)(shape[0] * shape[1] * shape[2]), sizeof *other);
		assert_ok(tomos_file_create(&file, at(name), TOMOS_VOLUME, shape, NULL));
		assert_ok(tomos_file_write(file, 0, 5, other));
		write_array(at(name), TOMOS_VOLUME, shape, numbers);
		assert_int_equal(tomos_file_commit(file), TOMOS_IO);
		assert_says("appeared while it was being written");
		tomos_file_close(file);
		assert_reads(at(name), shape, numbers);
		free(other);
	}
	assert_int_equal(mem_live(), 0);
}

/* ---- failures from outside ------------------------------------------------------------------- */

static tomos_status write_limited(const char *path)
{
	float block[64 * 64] = {0};
	int64_t large[3] = {64, 64, 64};
	tomos_file *file;
	TRY(tomos_file_create(&file, path, TOMOS_VOLUME, large, NULL));
	tomos_status status = TOMOS_OK;
	for (int i = 0; i < 64 && status == TOMOS_OK; i++)
		status = tomos_file_write(file, i, 1, block);
	if (status == TOMOS_OK)
		status = tomos_file_commit(file);
	tomos_file_close(file);
	return status;
}

static tomos_status draw_limited(const char *path)
{
	static float noise[256 * 256];
	uint32_t random = 1;
	for (int i = 0; i < COUNT(noise); i++) {
		random ^= random << 13;
		random ^= random >> 17;
		random ^= random << 5;
		noise[i] = (float)(random >> 8) * 0x1p-24F;
	}
	return tomos_picture_write(path, noise, 256, 256, 0, 1, NULL);
}

/* A limit on the size of files stands for a full disk. */
static int child_on_full_disk(tomos_status (*write)(const char *), const char *path, rlim_t bytes)
{
	struct rlimit limit = {bytes, bytes};
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &limit);
	tomos_status status = write(path);
	if (status == TOMOS_IO && strstr(tomos_message(), path) &&
		strstr(tomos_message(), "File too large"))
		return 0;
	print_error("%d bytes: %s: %s\n", (int)bytes, path, tomos_message());
	return 1 + (int)status;
}

static void assert_full(tomos_status (*write)(const char *), const char *path, rlim_t bytes)
{
	int before = entries(scratch), result;
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) /* exit, not _exit: HDF5 ends with the process, too */
		exit(child_on_full_disk(write, path, bytes));
	waitpid(child, &result, 0);
	assert_true(WIFEXITED(result));
	assert_int_equal(WEXITSTATUS(result), 0);
	assert_int_equal(entries(scratch), before);
}

static void full_disk(void **state)
{
	(void)state;
	static const rlim_t limits[] = {0, 5, 100, 300, 8192, 100000, 500000};
	static const char *const names[] = {"full.h5", "full.npy", "full.tiff", "full/"};
	for (int k = 0; k < COUNT(names); k++)
		for (int i = 0; i < COUNT(limits) - 3 * (k == 3); i++)
			assert_full(write_limited, at(names[k]), limits[i]);
	assert_full(draw_limited, at("full.png"), 100);
	assert_full(draw_limited, at("full.png"), 10000);
}

/* More than any disk has is rejected before anything is made. */
static void no_room(void **state)
{
	(void)state;
	static const int64_t huge[3] = {1 << 20, 1 << 17, 1 << 17};
	int before = entries(scratch);
	tomos_file *file;
	assert_int_equal(
		tomos_file_create(&file, at("room.h5"), TOMOS_VOLUME, huge, NULL), TOMOS_IO);
	assert_non_null(strstr(tomos_message(), "would take 7.21e+07 GB, and its disk has"));
	assert_int_equal(entries(scratch), before);
}

static tomos_status write_and_read(const char *path)
{
	tomos_file_options options = overwriting();
	tomos_file *file;
	int64_t three[3] = {3, 3, 4};
	tomos_status status;
	float slab[36];
	TRY(tomos_file_create(&file, path, TOMOS_VOLUME, three, &options));
	status = tomos_file_write(file, 0, 3, numbers);
	if (status == TOMOS_OK)
		status = tomos_file_commit(file);
	tomos_file_close(file);
	TRY(status);
	TRY(tomos_file_open(&file, path, NULL));
	status = tomos_file_read(file, 0, 3, slab);
	tomos_file_close(file);
	return status;
}

static tomos_status draw(const char *path)
{
	tomos_file_options options = overwriting();
	return tomos_picture_write(path, numbers, 10, 6, -11, 33, &options);
}

static void assert_survives(tomos_status (*work)(const char *), const char *path)
{
	tomos_status status = TOMOS_NO_MEMORY;
	int64_t nth = 0;
	assert_ok(work(path));
	int before = entries(scratch);
	while (status != TOMOS_OK) {
		mem_fail_nth(++nth);
		status = work(path);
		mem_fail_nth(0);
		if (status != TOMOS_OK)
			assert_int_equal(status, TOMOS_NO_MEMORY);
		assert_int_equal(mem_live(), 0);
		assert_int_equal(entries(scratch), before);
		assert_true(nth < 1000);
	}
	assert_true(nth > 3);
}

static void allocation_failures(void **state)
{
	(void)state;
	for (int k = 0; k < COUNT(outputs); k++) {
		file_discard(at(outputs[k])); /* a folder of more files is not replaced */
		assert_survives(write_and_read, at(outputs[k]));
	}
	assert_survives(draw, at("m.png"));
}

#define TESTS(T) \
	T(writes_what_it_reads), T(slabs_in_any_order), T(describes), T(rejected_names), \
		T(nothing_is_left), T(what_appeared_stays), T(full_disk), T(no_room), \
		T(allocation_failures)
TEST_MAIN(TESTS, make_numbers, scratch_remove)
