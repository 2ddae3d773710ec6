/* Numbers as they are stored: integers with a scale, MetaImage and raw files, compression,
 * checksums, and files that another process goes on with. */
#include "io_help.h"
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include "io/io.h"

enum { N0 = 4, N1 = 3, N2 = 5, N = N0 * N1 * N2 };

static const int64_t shape[3] = {N0, N1, N2};
static float numbers[N];
static const double window[2] = {-1, 3};

static int make_numbers(void **state)
{
	for (int i = 0; i < N; i++)
		numbers[i] = (float)i * 0.0625F - 1.25F; /* a few below the window */
	return scratch_make(state);
}

static void write_with(const char *path, const tomos_file_options *o)
{
	tomos_file *file;
	assert_ok(tomos_file_create(&file, path, TOMOS_VOLUME, shape, o));
	assert_ok(tomos_file_write(file, 2, 2, numbers + 2 * N1 * N2));
	assert_ok(tomos_file_write(file, 0, 2, numbers));
	assert_ok(tomos_file_commit(file));
	tomos_file_close(file);
}

/* ---- integers -------------------------------------------------------------------------------- */

static void assert_stored(const char *path, const char *type, double largest)
{
	tomos_file *file;
	tomos_file_info info = {.bytes = sizeof info};
	float data[N];
	double step = (window[1] - window[0]) / largest;
	assert_ok(tomos_file_open(&file, path, NULL));
	assert_ok(tomos_file_describe(file, &info));
	assert_string_equal(info.type, type);
	assert_ok(tomos_file_read(file, 0, N0, data));
	for (int i = 0; i < N; i++) {
		double wanted = fmin(fmax((double)numbers[i], window[0]), window[1]);
		assert_true(fabs((double)data[i] - wanted) <= 0.5 * step + 1e-6);
	}
	tomos_file_close(file);
}

static void integers(void **state)
{
	(void)state;
	static const char *const names[] = {"i.h5", "i.npy", "i.tif", "i/", "i.mha", "j.mhd"};
	tomos_file_options o = overwriting();
	o.window = window;
	o.window_count = 2;
	for (int k = 0; k < COUNT(names); k++) {
		o.type = "uint16";
		write_with(at(names[k]), &o);
		assert_stored(at(names[k]), "uint16", 65535);
		o.type = "uint8";
		write_with(at(names[k]), &o);
		assert_stored(at(names[k]), "uint8", 255);
	}
	/* a file without a scale does not take that of its predecessor */
	o = overwriting();
	write_with(at("i.npy"), &o);
	assert_reads(at("i.npy"), shape, numbers);
	assert_int_equal(access(at("i.npy.scale.txt"), F_OK), -1);
	put_file(at("i.tif.scale.txt"), "scale = x", 9);
	tomos_file *file;
	assert_int_equal(tomos_file_open(&file, at("i.tif"), NULL), TOMOS_BAD_FILE);
	assert_says("i.tif.scale.txt' says no scale and offset");
	assert_int_equal(mem_live(), 0);
}

static void rejected(const tomos_file_options *o, const char *name, const char *says)
{
	tomos_file *file;
	assert_int_not_equal(tomos_file_create(&file, at(name), TOMOS_VOLUME, shape, o), TOMOS_OK);
	assert_says(says);
	assert_int_equal(mem_live(), 0);
}

static void rejections(void **state)
{
	(void)state;
	const double wrong[2] = {1, 1};
	tomos_file_options o = tomos_file_defaults();
	o.type = "float64";
	rejected(&o, "r.h5", "type 'float64' is not known");
	o.type = "uint16";
	rejected(&o, "r.h5", "type uint16 needs a window LOW,HIGH");
	o.window = wrong;
	o.window_count = 2;
	rejected(&o, "r.h5", "window 1,1: LOW must be below HIGH");
	o.type = "float32";
	o.window = window;
	rejected(&o, "r.h5", "window has no effect without type=uint16|uint8");
	o = tomos_file_defaults();
	o.compress = 10;
	rejected(&o, "r.h5", "compress is 10; it must be 0 to 9");
	o.compress = 1;
	rejected(&o, "r.npy",
		"compress has no effect without an HDF5 file or a Zarr file as output");
	o.compress = 0;
	o.first_number = -2;
	rejected(&o, "r/", "first_number -2: it must be from -1 to 999999999");
	o.first_number = INT64_MAX;
	rejected(&o, "r/", "first_number 9223372036854775807: it must be from -1 to 999999999");
	assert_int_equal(access(at("r.h5"), F_OK), -1);
}

static void numbered(void **state)
{
	(void)state;
	tomos_file_options o = tomos_file_defaults();
	o.first_number = 99998;
	write_with(at("numbered/"), &o);
	assert_int_equal(access(at("numbered/recon_099998.tiff"), F_OK), 0);
	assert_int_equal(access(at("numbered/recon_100001.tiff"), F_OK), 0);
	assert_reads(at("numbered"), shape, numbers);
}

/* ---- raw and MetaImage ----------------------------------------------------------------------- */

static void raw(void **state)
{
	(void)state;
	static const unsigned char bytes[] = {9, 0, 1, 1, 0, 255, 255, 0, 2};
	static const float expected[4] = {1, 256, 65535, 2};
	float data[4];
	tomos_file *file;
	tomos_file_options o = tomos_file_defaults();
	put_file(at("a.dat"), bytes, sizeof bytes);
	o.raw = "2,1,2,uint16,1,big";
	assert_ok(tomos_file_open(&file, at("a.dat"), &o));
	assert_ok(tomos_file_read(file, 0, 2, data));
	assert_memory_equal(data, expected, sizeof expected);
	tomos_file_close(file);
	o.raw = "2,1,2,uint16";
	assert_int_equal(tomos_file_open(&file, at("a.dat"), &o), TOMOS_BAD_FILE);
	assert_says("a.dat' has 9 bytes of data; 2 x 1 x 2 numbers of type uint16 need 8");
	static const char *const wrong[] = {
		"2,1,2", "2,1,2,word", "0,1,2,uint8", "2,1,2,uint16,-1", "2,1,2,uint16,1,middle"};
	for (int i = 0; i < COUNT(wrong); i++) {
		o.raw = wrong[i];
		assert_int_equal(tomos_file_open(&file, at("a.dat"), &o), TOMOS_BAD_VALUE);
		assert_says("it must be N0,N1,N2,TYPE[,SKIP[,big]]");
	}
	o = tomos_file_defaults();
	write_with(at("b.raw"), &o);
	o.raw = "4,3,5,float32";
	assert_ok(tomos_file_open(&file, at("b.raw"), &o));
	float all[N];
	assert_ok(tomos_file_read(file, 0, N0, all));
	assert_memory_equal(all, numbers, sizeof numbers);
	tomos_file_close(file);
	assert_int_equal(mem_live(), 0);
}

/* The grid comes back, with a y axis that runs down. */
static void grids(void **state)
{
	(void)state;
	static const char *const names[] = {"g.mha", "g.mhd"};
	const tomos_grid grid = {{N2, N1, N0}, {-1, 2.5, 0.1}, {0.5, -0.25, 2}};
	for (int k = 0; k < COUNT(names); k++) {
		tomos_grid got;
		tomos_file *file;
		assert_ok(tomos_file_create(&file, at(names[k]), TOMOS_VOLUME, shape, NULL));
		assert_ok(tomos_file_set_grid(file, &grid));
		assert_ok(tomos_file_write(file, 0, N0, numbers));
		assert_ok(tomos_file_commit(file));
		tomos_file_close(file);
		assert_ok(tomos_file_open(&file, at(names[k]), NULL));
		assert_ok(tomos_file_grid(file, &got));
		assert_memory_equal(&got, &grid, sizeof grid);
		tomos_file_close(file);
		assert_reads(at(names[k]), shape, numbers);
	}
	assert_int_equal(access(at("g.raw"), F_OK), 0);
	tomos_file *file;
	assert_int_equal(
		tomos_file_create(&file, at("g.mhd"), TOMOS_VOLUME, shape, NULL), TOMOS_IO);
	assert_says("exists already");
	unlink(at("g.mhd"));
	assert_int_equal(
		tomos_file_create(&file, at("g.mhd"), TOMOS_VOLUME, shape, NULL), TOMOS_IO);
	assert_says("g.raw' exists already");
	assert_int_equal(mem_live(), 0);
}

static void mhd_rejections(void **state)
{
	(void)state;
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"NDims = 3\nDimSize = 1 1 1 1\n",
			"DimSize is '1 1 1 1'; 1 to 3 sizes can be read"},
		{"NDims = 3\nDimSize = 1 0 1\n", "sizes are whole numbers from 1 on"},
		{"NDims = 2\nElementType = MET_STRING\n", "ElementType is 'MET_STRING'"},
		{"NDims = 2\n", "the MetaImage header has no DimSize"},
		{"NDims = 2\nDimSize = 1 1\n", "the MetaImage header has no ElementType"},
		{"NDims = 2\nDimSize = 1 1\nElementType = MET_FLOAT\n",
			"the MetaImage header has no ElementDataFile"},
		{"NDims = 2\nDimSize = 1 1\nElementType = MET_FLOAT\nCompressedData = True\n"
		 "ElementDataFile = LOCAL\n",
			"CompressedData is 'True'; write it without compression"},
		{"NDims = 2\nDimSize = 1 1\nElementType = MET_FLOAT\nElementNumberOfChannels = 3\n"
		 "ElementDataFile = LOCAL\n",
			"3 channels; one can be read"},
		{"NDims = 2\nDimSize = 1 1\nElementType = MET_FLOAT\nElementDataFile = LIST\n",
			"ElementDataFile is 'LIST'; one file can be read"},
		{"NDims = 2\nDimSize = 1 1\nElementType = MET_FLOAT\nHeaderSize = -2\n"
		 "ElementDataFile = x.raw\n",
			"HeaderSize is -2; it must be -1 or more"},
		{"NDims = 2\nDimSize = 1 1\nElementType = MET_FLOAT\nElementDataFile = gone.raw\n",
			"r.mhd': its data, '"},
		{"NDims = 2\nDimSize = 1 1\nElementType = MET_FLOAT\nElementDataFile = LOCAL\n12",
			"has 2 bytes of data; 1 x 1 x 1 numbers of type float32 need 4"},
	};
	for (int i = 0; i < COUNT(cases); i++) {
		tomos_file *file;
		put_file(at("r.mhd"), cases[i].text, strlen(cases[i].text));
		assert_int_not_equal(tomos_file_open(&file, at("r.mhd"), NULL), TOMOS_OK);
		assert_says(cases[i].says);
		assert_int_equal(mem_live(), 0);
	}
}

/* ---- HDF5: compression and checksums --------------------------------------------------------- */

static void spoil(const char *path, const void *what, size_t length)
{
	size_t size;
	unsigned char *bytes = get_file(path, &size);
	unsigned char *found = memmem(bytes, size, what, length);
	assert_non_null(found);
	found[0] ^= 1;
	put_file(path, bytes, size);
	free(bytes);
}

static void checksums(void **state)
{
	(void)state;
	tomos_file *file;
	tomos_file_options o = overwriting();
	write_with(at("c.h5"), &o);
	assert_ok(tomos_file_open(&file, at("c.h5"), NULL));
	assert_ok(tomos_file_verify(file, NULL));
	tomos_file_close(file);
	spoil(at("c.h5"), numbers + 2 * N1 * N2 + 3, sizeof(float));
	assert_ok(tomos_file_open(&file, at("c.h5"), NULL));
	assert_int_equal(tomos_file_verify(file, NULL), TOMOS_BAD_FILE);
	assert_says("c.h5', dataset '/volume': index 2 is damaged: its checksum is");
	float *read = malloc(sizeof numbers);
	assert_ok(tomos_file_read(file, 0, 2, read));
	assert_int_equal(tomos_file_read(file, 1, 2, read), TOMOS_BAD_FILE);
	assert_says("index 2 is damaged: its checksum is");
	free(read);
	tomos_file_close(file);
	o.type = "uint16";
	o.window = window;
	o.window_count = 2;
	o.compress = 5;
	write_with(at("z.h5"), &o);
	assert_stored(at("z.h5"), "uint16", 65535);
	assert_ok(tomos_file_open(&file, at("z.h5"), NULL));
	assert_ok(tomos_file_verify(file, NULL));
	tomos_file_close(file);
	write_with(at("n.npy"), NULL);
	assert_ok(tomos_file_open(&file, at("n.npy"), NULL));
	assert_int_equal(tomos_file_verify(file, NULL), TOMOS_UNSUPPORTED);
	assert_says("n.npy' has no checksums");
	tomos_file_close(file);
	assert_int_equal(mem_live(), 0);
}

/* ---- files that are gone on with ------------------------------------------------------------- */

static void begin(tomos_file **file, const char *path, const char *part, bool continued)
{
	const tomos_grid grid = {{N2, N1, N0}, {0, 0, 0}, {1, 1, 1}};
	tomos_file_options o = tomos_file_defaults();
	o.compress = strstr(path, "packed") ? 6 : 0;
	assert_ok(io_create(file, path, TOMOS_VOLUME, shape, &o, part, continued));
	assert_ok(tomos_file_set_grid(*file, &grid));
	if (!continued) {
		assert_ok(io_put_text(*file, "process/command", "tomos recon"));
		assert_ok(io_seal(*file));
	}
}

/* Half written, closed as a process that ends would, and finished by another: the same bytes. */
static void continued(void **state)
{
	(void)state;
	static const char *const names[] = {
		"k.h5", "k.npy", "k.tif", "k.mha", "k.raw", "k.mhd", "packed.h5"};
	for (int k = 0; k < COUNT(names); k++) {
		char whole[80], path[80], part[80];
		size_t length, other;
		tomos_file *file;
		snprintf(whole, sizeof whole, "%s", at("whole"));
		snprintf(path, sizeof path, "%s", at(names[k]));
		snprintf(part, sizeof part, "%s", at("part"));
		begin(&file, path, part, false);
		assert_ok(tomos_file_write(file, 0, N0, numbers));
		assert_ok(tomos_file_commit(file));
		tomos_file_close(file);
		io_discard(part);
		assert_int_equal(rename(path, whole), 0);
		(void)unlink(at("k.raw"));
		begin(&file, path, part, false);
		assert_ok(tomos_file_write(file, 1, 2, numbers + N1 * N2));
		assert_ok(io_sync(file));
		uint32_t sums[2] = {file->checksums[1], file->checksums[2]};
		tomos_file_close(file);
		assert_int_equal(access(path, F_OK), -1);
		begin(&file, path, part, true);
		io_done(file, 1, 2, sums);
		assert_int_equal(tomos_file_commit(file), TOMOS_BAD_VALUE);
		assert_says("index 0 of 4 on the first axis was never written");
		assert_ok(tomos_file_write(file, 0, 1, numbers));
		assert_ok(tomos_file_write(file, 3, 1, numbers + 3 * N1 * N2));
		assert_ok(tomos_file_commit(file));
		tomos_file_close(file);
		unsigned char *a = get_file(whole, &length), *b = get_file(path, &other);
		assert_int_equal(length, other);
		assert_memory_equal(a, b, length);
		free(a);
		free(b);
		float *data = NULL;
		int64_t found[3];
		if (strcmp(names[k], "k.raw") != 0) { /* which says nothing of itself */
			assert_ok(read_all(path, found, &data));
			assert_memory_equal(data, numbers, sizeof numbers);
		}
		free(data);
		unlink(path);
		io_discard(part);
	}
	tomos_file *file;
	assert_int_equal(io_create(&file, at("k.npy"), TOMOS_VOLUME, shape, NULL, at("none"), true),
		TOMOS_BAD_FILE);
	assert_says("k.npy', begun as");
	assert_int_equal(mem_live(), 0);
}

/* A process that ends between the two names of a .mhd; chunks that are cut off, damaged or lost. */
static void ends_late(void **state)
{
	(void)state;
	char path[80], part[80], chunks[100];
	tomos_file *file;
	size_t length;
	snprintf(path, sizeof path, "%s", at("late.mhd"));
	snprintf(part, sizeof part, "%s", at("late.part"));
	begin(&file, path, part, false);
	assert_ok(tomos_file_write(file, 0, N0, numbers));
	uint32_t sums[N0];
	memcpy(sums, file->checksums, sizeof sums);
	tomos_file_close(file);
	assert_int_equal(rename(at("late.part.data"), at("late.raw")), 0);
	begin(&file, path, part, true);
	io_done(file, 0, N0, sums);
	assert_ok(tomos_file_commit(file));
	tomos_file_close(file);
	assert_int_equal(access(path, F_OK), 0);
	unlink(path);
	assert_int_equal(io_create(&file, path, TOMOS_VOLUME, shape, NULL, part, false), TOMOS_IO);
	assert_says("late.raw' exists already and overwrite was not asked for");
	io_discard(part);
	/* chunks */
	snprintf(path, sizeof path, "%s", at("packed.h5"));
	snprintf(chunks, sizeof chunks, "%s.data", part);
	begin(&file, path, part, false);
	assert_ok(tomos_file_write(file, 0, N0, numbers));
	memcpy(sums, file->checksums, sizeof sums);
	tomos_file_close(file);
	unsigned char *bytes = get_file(chunks, &length);
	for (int i = 0; i < 2; i++) {
		bytes[length - 1] ^= 1;
		put_file(chunks, bytes, length - (size_t)i);
		begin(&file, path, part, true);
		io_done(file, 0, N0, sums);
		assert_int_equal(tomos_file_commit(file), TOMOS_BAD_FILE);
		assert_says(i ? "late.part.data' has lost index 3; run without resume"
			      : "late.part.data' is damaged at index 3; run without resume");
		tomos_file_close(file);
	}
	free(bytes);
	begin(&file, path, part, true);
	io_done(file, 0, N0 - 1, sums);
	assert_ok(tomos_file_write(file, N0 - 1, 1, numbers + (N0 - 1) * N1 * N2));
	assert_ok(tomos_file_commit(file));
	tomos_file_close(file);
	io_discard(part);
	assert_ok(tomos_file_open(&file, path, NULL));
	assert_ok(tomos_file_verify(file, NULL));
	tomos_file_close(file);
	assert_int_equal(mem_live(), 0);
}

static void allocation_failures(void **state)
{
	(void)state;
	static const char *const names[] = {"f.mha", "f.mhd", "f.h5", "f.npy", "f/"};
	tomos_file_options o = overwriting();
	o.type = "uint16";
	o.window = window;
	o.window_count = 2;
	for (int k = 0; k < COUNT(names); k++) {
		tomos_status status = TOMOS_NO_MEMORY;
		for (int64_t nth = 1; status != TOMOS_OK; nth++) {
			tomos_file *file;
			int64_t got[3];
			float *data = NULL;
			mem_fail_nth(nth);
			status = tomos_file_create(&file, at(names[k]), TOMOS_VOLUME, shape, &o);
			if (status == TOMOS_OK)
				status = tomos_file_write(file, 0, N0, numbers);
			if (status == TOMOS_OK)
				status = tomos_file_commit(file);
			tomos_file_close(file);
			if (status == TOMOS_OK)
				status = read_all(at(names[k]), got, &data);
			mem_fail_nth(0);
			free(data);
			assert_true(status == TOMOS_OK || status == TOMOS_NO_MEMORY);
			assert_int_equal(mem_live(), 0);
			assert_true(nth < 200);
		}
	}
}

#define TESTS(T) \
	T(integers), T(rejections), T(numbered), T(raw), T(grids), T(mhd_rejections), \
		T(checksums), T(continued), T(ends_late), T(allocation_failures)
TEST_MAIN(TESTS, make_numbers, scratch_remove)
