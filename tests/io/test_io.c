/* Files of every format: what goes in comes out, and nothing is left behind. */
#include "io_help.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tiffio.h>
#include <hdf5.h>
#include "io/io.h"

static const char *const outputs[] = {"a.h5", "a.npy", "a.tif", "stack/", "a.mha"};

static const struct {
	char kind;
	int bytes;
	const char *name;
	float values[6];
} types[] = {
	{'i', 1, "int8", {-128, -1, 0, 1, 5, 127}},
	{'i', 2, "int16", {-32768, -1, 0, 256, 5, 32767}},
	{'i', 4, "int32", {-8388608, -1, 0, 65536, 5, 1 << 30}},
	{'i', 8, "int64", {-8388608, -1, 0, 65536, 5, 1LL << 40}},
	{'u', 1, "uint8", {0, 1, 2, 127, 128, 255}},
	{'u', 2, "uint16", {0, 1, 256, 32768, 32769, 65535}},
	{'u', 4, "uint32", {0, 1, 65536, 1 << 23, 1 << 30, 2147483648.0F}},
	{'u', 8, "uint64", {0, 1, 65536, 1 << 23, 1LL << 32, 1LL << 62}},
	{'f', 2, "float16", {-2, -0.0F, 0.5F, 1, 1.25F, 2048}},
	{'f', 4, "float32", {-2, -0.0F, 0.1F, 1e-40F, 1e30F, 3}},
	{'f', 8, "float64", {-2, -0.0F, 0.5F, 1e-20F, 1e30F, 3}},
};

static const int64_t small[3] = {3, 1, 2};
static const int64_t shape[3] = {5, 3, 4};
static float numbers[60];

static int make_numbers(void **state)
{
	for (int i = 0; i < 60; i++)
		numbers[i] = (float)i * 0.75F - 11;
	return scratch_make(state);
}

/* ---- round trips -------------------------------------------------------------------------- */

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

/* ---- types and orders --------------------------------------------------------------------- */

static void assert_type(const char *path, const char *type)
{
	tomos_file *file;
	tomos_file_info info = {.bytes = sizeof info};
	assert_ok(tomos_file_open(&file, path, NULL));
	assert_ok(tomos_file_describe(file, &info));
	assert_string_equal(info.type, type);
	tomos_file_close(file);
}

static void npy_types(void **state)
{
	(void)state;
	for (int t = 0; t < COUNT(types); t++)
		for (int order = 0; order < 2; order++)
			for (int version = 1; version <= 3; version++) {
				char text[128];
				snprintf(text, sizeof text,
					"{'descr': '%c%c%d', 'fortran_order': False, 'shape': (3, "
					"1, 2), }\n",
					order ? '>' : '<', types[t].kind, types[t].bytes);
				Bytes b = npy_text(version, text);
				b.big = order;
				for (int i = 0; i < 6; i++)
					add_value(&b, types[t].kind, types[t].bytes,
						types[t].values[i]);
				put_file(at("t.npy"), b.bytes, b.length);
				assert_reads(at("t.npy"), small, types[t].values);
				assert_type(at("t.npy"), types[t].name);
			}
}

static void tiff_types(void **state)
{
	(void)state;
	for (int t = 0; t < COUNT(types); t++)
		for (int order = 0; order < 2; order++) {
			Bytes b = tiff_bytes(
				order, types[t].kind, types[t].bytes, small, types[t].values);
			put_file(at("t.tif"), b.bytes, b.length);
			assert_reads(at("t.tif"), small, types[t].values);
			assert_type(at("t.tif"), types[t].name);
		}
}

static hid_t hdf5_type(char kind, int bytes, bool big)
{
	hid_t type = H5Tcopy(kind == 'f' && bytes == 8 ? H5T_IEEE_F64LE
			     : kind == 'f'             ? H5T_IEEE_F32LE
			     : kind == 'i'             ? H5T_STD_I64LE
						       : H5T_STD_U64LE);
	if (kind == 'f' && bytes == 2) {
		H5Tset_fields(type, 15, 10, 5, 0, 10);
		H5Tset_ebias(type, 15);
	}
	H5Tset_precision(type, (size_t)bytes * 8);
	H5Tset_size(type, (size_t)bytes);
	H5Tset_order(type, big ? H5T_ORDER_BE : H5T_ORDER_LE);
	return type;
}

static void put_dataset(hid_t file, const char *name, hid_t type, int rank, const hsize_t *sizes,
	hid_t list, const void *values)
{
	hid_t links = H5Pcreate(H5P_LINK_CREATE), space = H5Screate_simple(rank, sizes, NULL);
	H5Pset_create_intermediate_group(links, 1);
	hid_t dataset = H5Dcreate2(file, name, type, space, links, list, H5P_DEFAULT);
	assert_true(dataset >= 0);
	if (values)
		assert_true(H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT,
				    values) >= 0);
	H5Dclose(dataset);
	H5Sclose(space);
	H5Pclose(links);
}

static hid_t new_hdf5(const char *path)
{
	hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
	assert_true(file >= 0);
	return file;
}

static void hdf5_types(void **state)
{
	(void)state;
	hsize_t sizes[3] = {3, 1, 2};
	for (int t = 0; t < COUNT(types); t++)
		for (int order = 0; order < 2; order++) {
			hid_t file = new_hdf5(at("t.h5"));
			hid_t type = hdf5_type(types[t].kind, types[t].bytes, order);
			put_dataset(file, "/exchange/data", type, 3, sizes, H5P_DEFAULT,
				types[t].values);
			H5Tclose(type);
			H5Fclose(file);
			assert_reads(at("t.h5"), small, types[t].values);
			assert_type(at("t.h5"), types[t].name);
		}
}

/* Doubles that floats cannot hold are rejected; infinity is what it is. */
static void hdf5_beyond_float(void **state)
{
	(void)state;
	static const double values[3][2] = {{1, 1e300}, {-1e300, 0}, {1, HUGE_VAL}};
	hsize_t sizes[3] = {1, 1, 2};
	for (int i = 0; i < 6; i++) {
		hid_t id = new_hdf5(at("t.h5")), type = hdf5_type('f', 8, i % 2);
		put_dataset(id, "/volume", type, 3, sizes, H5P_DEFAULT, NULL);
		hid_t dataset = H5Dopen2(id, "/volume", H5P_DEFAULT);
		assert_true(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT,
				    values[i / 2]) >= 0);
		H5Dclose(dataset);
		H5Tclose(type);
		H5Fclose(id);
		tomos_file *file;
		float data[2];
		assert_int_equal(tomos_file_open(&file, at("t.h5"), NULL), TOMOS_OK);
		tomos_status status = tomos_file_read(file, 0, 1, data);
		if (i < 4) {
			assert_int_equal(status, TOMOS_BAD_FILE);
			assert_non_null(strstr(
				tomos_message(), "there are values that do not fit float32"));
		} else {
			assert_int_equal(status, TOMOS_OK);
			assert_true(isinf(data[1]));
		}
		tomos_file_close(file);
	}
}

/* ---- npy ---------------------------------------------------------------------------------- */

static Bytes npy_floats(const char *text, int count)
{
	Bytes b = npy_text(1, text);
	for (int i = 0; i < count; i++)
		add_value(&b, 'f', 4, (float)i);
	return b;
}

static void npy_shapes(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int64_t shape[3];
	} cases[] = {
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }", {1, 1, 6}},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", {1, 2, 3}},
		{"{\"shape\":(1,2,3,),\"fortran_order\":False,\"descr\":\"<f4\"}  \n", {1, 2, 3}},
	};
	float counted[6] = {0, 1, 2, 3, 4, 5};
	for (int i = 0; i < COUNT(cases); i++) {
		Bytes b = npy_floats(cases[i].text, 6);
		put_file(at("s.npy"), b.bytes, b.length);
		assert_reads(at("s.npy"), cases[i].shape, counted);
	}
}

static void npy_fortran(void **state)
{
	(void)state;
	Bytes b = npy_floats("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3, 4), }", 24);
	float expected[24], part[12];
	tomos_file *file;
	for (int i = 0; i < 2; i++)
		for (int j = 0; j < 3; j++)
			for (int k = 0; k < 4; k++)
				expected[(i * 3 + j) * 4 + k] = (float)(i + 2 * (j + 3 * k));
	put_file(at("f.npy"), b.bytes, b.length);
	assert_reads(at("f.npy"), (int64_t[]){2, 3, 4}, expected);
	assert_ok(tomos_file_open(&file, at("f.npy"), NULL));
	assert_ok(tomos_file_read(file, 1, 1, part));
	assert_memory_equal(part, expected + 12, sizeof part);
	tomos_file_close(file);
	b = npy_floats("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", 6);
	put_file(at("f.npy"), b.bytes, b.length);
	assert_reads(at("f.npy"), (int64_t[]){1, 2, 3}, (float[]){0, 2, 4, 1, 3, 5});
}

static void npy_rejections(void **state)
{
	(void)state;
#define GOOD "'fortran_order': False, 'shape': (2, 3), }"
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"{'descr': '<c8', " GOOD, "numbers of type '<c8'"},
		{"{'descr': '<f3', " GOOD, "numbers of type '<f3'"},
		{"{'descr': '|f4', " GOOD, "numbers of type '|f4'"},
		{"{'descr': '', " GOOD, "numbers of type ''"},
		{"{'descr': [('a', '<f4')], " GOOD, "a plain number type (no list of fields)"},
		{"{'descr': '<f4', 'descr': '<f4', " GOOD, "one each of the keys"},
		{"{'descr': '<f4', 'color': 1, " GOOD, "one each of the keys"},
		{"{" GOOD, "each of the keys"},
		{"{'descr': '<f4', 'fortran_order': 0, 'shape': (6,)}",
			"True or False expected at '0"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': 6}", "'(' of the shape"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (6)}", "',' after a size"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (-6,)}",
			"a size expected at '-6"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}", "',' after a size"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
			"a size below 2^63"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': ()}", "has 0 axes"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (6, 0)}",
			"the shape 6 x 0, which is empty or too large"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
			"which is empty or too large"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3, 1)}",
			"has 4 axes (1 x 2 x 3 x 1)"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (7,)}",
			"has 24 bytes of data; 1 x 1 x 7 numbers of type float32 need 28"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (5,)}", "need 20"},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (6,)} x",
			"the end expected at 'x"},
		{"{'descr': '<f4' 'fortran_order': False, 'shape': (6,)}", "',' or '}'"},
		{"{'descr'; '<f4'}", "':' after a key"},
		{"{descr: '<f4'}", "a key expected"},
		{"['descr']", "'{' expected at '['descr']"},
		{"\x1b[31m{", "'{' expected at '?[31m{"},
	};
	int64_t got[3];
	float *data;
	for (int i = 0; i < COUNT(cases); i++) {
		Bytes b = npy_floats(cases[i].text, 6);
		put_file(at("r.npy"), b.bytes, b.length);
		assert_int_not_equal(read_all(at("r.npy"), got, &data), TOMOS_OK);
		assert_says(cases[i].says);
		assert_says("r.npy'");
	}
	Bytes b = npy_text(4, "{'descr': '<f4', " GOOD);
	put_file(at("r.npy"), b.bytes, b.length);
	assert_int_equal(read_all(at("r.npy"), got, &data), TOMOS_BAD_FILE);
	assert_says("version 4.0 of the npy format");
	b = npy_text(2, "{'descr': '<f4', " GOOD);
	b.bytes[11] = 1;
	put_file(at("r.npy"), b.bytes, b.length);
	assert_int_equal(read_all(at("r.npy"), got, &data), TOMOS_BAD_FILE);
	assert_says("the npy header says it has 16777");
	assert_int_equal(mem_live(), 0);
}

/* ---- TIFF --------------------------------------------------------------------------------- */

/* Compressed, in strips or tiles, by libtiff itself; 40 x 30 pixels, two pages. */
static void write_tiff(const char *path, uint16_t compression, int tile, int predictor)
{
	TIFF *tiff = TIFFOpen(path, "w");
	assert_non_null(tiff);
	for (int page = 0; page < 2; page++) {
		TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, 40);
		TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, 30);
		TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 16);
		TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
		TIFFSetField(tiff, TIFFTAG_COMPRESSION, compression);
		if (predictor)
			TIFFSetField(tiff, TIFFTAG_PREDICTOR, predictor);
		uint16_t pixels[32 * 40];
		if (tile) {
			TIFFSetField(tiff, TIFFTAG_TILEWIDTH, tile);
			TIFFSetField(tiff, TIFFTAG_TILELENGTH, tile);
			for (int y = 0; y < 30; y += tile)
				for (int x = 0; x < 40; x += tile) {
					for (int i = 0; i < tile * tile; i++)
						pixels[i] = (uint16_t)(page * 10000 +
								       (y + i / tile) * 40 + x +
								       i % tile);
					TIFFWriteTile(tiff, pixels, (uint32_t)x, (uint32_t)y, 0, 0);
				}
		} else {
			TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, 7);
			for (int y = 0; y < 30; y++) {
				for (int x = 0; x < 40; x++)
					pixels[x] = (uint16_t)(page * 10000 + y * 40 + x);
				TIFFWriteScanline(tiff, pixels, (uint32_t)y, 0);
			}
		}
		TIFFWriteDirectory(tiff);
	}
	TIFFClose(tiff);
}

static void tiff_compressed(void **state)
{
	(void)state;
	static const uint16_t schemes[] = {
		COMPRESSION_NONE, COMPRESSION_LZW, COMPRESSION_PACKBITS, COMPRESSION_ADOBE_DEFLATE};
	float expected[2400];
	for (int i = 0; i < 2400; i++)
		expected[i] = (float)(i / 1200 * 10000 + i % 1200);
	for (int i = 0; i < COUNT(schemes); i++)
		for (int tile = 0; tile <= 16; tile += 16) {
			write_tiff(at("c.tif"), schemes[i], tile, 0);
			assert_reads(at("c.tif"), (int64_t[]){2, 30, 40}, expected);
		}
	write_tiff(at("c.tif"), COMPRESSION_LZW, 0, 2);
	assert_reads(at("c.tif"), (int64_t[]){2, 30, 40}, expected);
}

/* Sets the value of a tag of the first page. */
static void set_tag(Bytes *b, int tag, uint32_t value)
{
	for (int i = 0; i < 10; i++) {
		unsigned char *entry = b->bytes + 10 + 12 * i;
		if (entry[0] + 256 * entry[1] == tag)
			memcpy(entry + 8, &value, 4);
	}
}

static void assert_tiff_rejected(int tag, uint32_t value, const char *says)
{
	int64_t got[3];
	float *data;
	Bytes b = tiff_bytes(false, 'f', 4, small, types[9].values);
	set_tag(&b, tag, value);
	put_file(at("r.tif"), b.bytes, b.length);
	assert_text(read_all(at("r.tif"), got, &data) != TOMOS_OK, says, __FILE__, __LINE__);
	assert_says(says);
	assert_says("r.tif'");
}

static void tiff_rejections(void **state)
{
	(void)state;
	assert_tiff_rejected(277, 3, "3 samples per pixel");
	assert_tiff_rejected(262, 2, "photometric 2");
	assert_tiff_rejected(258, 12, "numbers of 12 bits");
	assert_tiff_rejected(339, 6, "sample format 6");
	assert_tiff_rejected(258, 8, "numbers of 8 bits (sample format 3)");
	assert_tiff_rejected(259, 7, "compression 7 cannot be read");
	assert_tiff_rejected(256, 5, "page 1 is 1 x 2 of type float32; the first image is 1 x 5");
	assert_tiff_rejected(
		256, 1, "strips or tiles hold 8 bytes; 1 x 1 numbers of type float32 need 4");
	assert_tiff_rejected(257, 0, "page 0");
	assert_tiff_rejected(273, 100000, "page 0: the data end too early");
	int64_t got[3], one[3] = {1, 30000, 30000};
	float *data;
	Bytes b = tiff_bytes(false, 'u', 1, (int64_t[]){1, 1, 4}, types[4].values);
	set_tag(&b, 256, 30000);
	set_tag(&b, 257, 30000);
	set_tag(&b, 278, 30000);
	set_tag(&b, 279, 900000000);
	put_file(at("r.tif"), b.bytes, b.length);
	assert_int_equal(read_all(at("r.tif"), one, &data), TOMOS_BAD_FILE);
	assert_says("too few for 1 pages of 30000 x 30000");
	put_file(at("r.tif"), "II*\0\377\377\377\377", 8);
	assert_int_equal(read_all(at("r.tif"), got, &data), TOMOS_BAD_FILE);
	assert_says("page 0: cannot be read");
	assert_int_equal(mem_live(), 0);
}

static void stack_rejections(void **state)
{
	(void)state;
	int64_t got[3];
	float *data;
	mkdir(at("d"), 0777);
	assert_int_equal(read_all(at("d"), got, &data), TOMOS_BAD_FILE);
	assert_says("has no .tif or .tiff files");
	int64_t flat[3] = {1, 2, 3};
	Bytes b = tiff_bytes(false, 'f', 4, flat, numbers);
	put_file(at("d/b_10.TIF"), b.bytes, b.length);
	b = tiff_bytes(true, 'f', 4, flat, numbers + 6);
	put_file(at("d/b_11.tiff"), b.bytes, b.length);
	put_file(at("d/readme.txt"), "x", 1);
	put_file(at("d/._b_10.tif"), "x", 1);
	assert_reads(at("d"), (int64_t[]){2, 2, 3}, numbers);
	assert_reads(at("d/"), (int64_t[]){2, 2, 3}, numbers);
	b = tiff_bytes(false, 'f', 4, (int64_t[]){1, 3, 2}, numbers);
	put_file(at("d/c.tif"), b.bytes, b.length);
	assert_int_equal(read_all(at("d"), got, &data), TOMOS_BAD_FILE);
	assert_says("d/c.tif', page 0 is 3 x 2 of type float32; the first image is 2 x 3");
	b = tiff_bytes(false, 'f', 4, (int64_t[]){2, 2, 3}, numbers);
	put_file(at("d/c.tif"), b.bytes, b.length);
	assert_int_equal(read_all(at("d"), got, &data), TOMOS_UNSUPPORTED);
	assert_says("c.tif' has more than one page");
	assert_int_equal(mem_live(), 0);
}

static void imagej_rejected(void **state)
{
	(void)state;
	TIFF *tiff = TIFFOpen(at("j.tif"), "w");
	uint8_t row[4] = {1, 2, 3, 4};
	int64_t got[3];
	float *data;
	TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, 4);
	TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, 1);
	TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 8);
	TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
	TIFFSetField(tiff, TIFFTAG_IMAGEDESCRIPTION, "ImageJ=1.53\nimages=3\nslices=3\n");
	TIFFWriteScanline(tiff, row, 0, 0);
	TIFFClose(tiff);
	assert_int_equal(read_all(at("j.tif"), got, &data), TOMOS_UNSUPPORTED);
	assert_says("holds 3 images in ImageJ's own layout, of which 1 are TIFF pages");
}

/* Beyond 4 GiB by its offsets, a few pages by the space it takes: the rest are holes. */
static void bigtiff_beyond_4_gib(void **state)
{
	(void)state;
	enum { SIDE = 256, PAGES = 70000 };
	int64_t large[3] = {PAGES, SIDE, SIDE};
	float *page = calloc(SIDE * SIDE, sizeof *page);
	tomos_file *file;
	TIFF *tiff;
	assert_ok(tomos_file_create(&file, at("big.tif"), TOMOS_VOLUME, large, NULL));
	page[SIDE + 5] = 3;
	assert_ok(tomos_file_write(file, PAGES - 1, 1, page));
	memset(page, 0, SIDE * sizeof *page * 2);
	assert_ok(tomos_file_write(file, 0, 1, page));
	tiff = TIFFOpen(file->temporary, "r");
	assert_non_null(tiff);
	assert_true(TIFFIsBigTIFF(tiff));
	/* The last page's directory is where the layout says; libtiff finds its data beyond 4 GiB. */
	assert_int_equal(TIFFSetSubDirectory(tiff, 16 + (PAGES - 1) * 216), 1);
	assert_true(TIFFGetStrileOffset(tiff, 0) > UINT32_MAX);
	assert_int_equal(TIFFReadScanline(tiff, page, 1, 0), 1);
	assert_true(page[5] == 3);
	TIFFClose(tiff);
	tomos_file_close(file);
	free(page);
}

/* ---- HDF5 --------------------------------------------------------------------------------- */

static void hdf5_choice(void **state)
{
	(void)state;
	hsize_t sizes[4] = {5, 3, 4, 1}, flat[2] = {15, 4};
	int64_t got[3];
	float *data;
	hid_t file = new_hdf5(at("k.h5"));
	put_dataset(file, "/a/list", H5T_IEEE_F32LE, 1, sizes, H5P_DEFAULT, numbers);
	put_dataset(file, "/a/deep", H5T_IEEE_F32LE, 4, sizes, H5P_DEFAULT, numbers);
	H5Fflush(file, H5F_SCOPE_LOCAL);
	H5Fclose(file);
	assert_int_equal(read_all(at("k.h5"), got, &data), TOMOS_BAD_FILE);
	assert_says("has no dataset of numbers with two or three axes");
	file = H5Fopen(at("k.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
	put_dataset(file, "/a/flat", H5T_IEEE_F32LE, 2, flat, H5P_DEFAULT, numbers);
	H5Fclose(file);
	assert_reads(at("k.h5"), (int64_t[]){1, 15, 4}, numbers);
	file = H5Fopen(at("k.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
	put_dataset(file, "/b/other", H5T_IEEE_F32LE, 3, sizes, H5P_DEFAULT, numbers);
	H5Fclose(file);
	assert_int_equal(read_all(at("k.h5"), got, &data), TOMOS_BAD_VALUE);
	assert_says("has 2 datasets that could be meant; name one of /a/flat, /b/other");
	tomos_file_options options = tomos_file_defaults();
	tomos_file *opened;
	options.dataset = "b/other";
	assert_ok(tomos_file_open(&opened, at("k.h5"), &options));
	assert_string_equal(opened->dataset, "/b/other");
	tomos_file_close(opened);
	options.dataset = "/a/deep";
	assert_int_equal(tomos_file_open(&opened, at("k.h5"), &options), TOMOS_UNSUPPORTED);
	assert_null(opened);
	assert_says("dataset '/a/deep' has 4 axes (5 x 3 x 4 x 1)");
	options.dataset = "/a";
	assert_int_equal(tomos_file_open(&opened, at("k.h5"), &options), TOMOS_BAD_FILE);
	assert_says("dataset '/a': is not a dataset of the file");
	options.dataset = "/c/d";
	assert_int_equal(tomos_file_open(&opened, at("k.h5"), &options), TOMOS_BAD_FILE);
	assert_says("dataset '/c/d': is not a dataset of the file");
	assert_int_equal(mem_live(), 0);
}

static void hdf5_chunks(void **state)
{
	(void)state;
	hsize_t sizes[3] = {5, 3, 4}, chunk[3] = {2, 2, 3};
	int64_t got[3];
	float *data;
	hid_t list = H5Pcreate(H5P_DATASET_CREATE), file = new_hdf5(at("c.h5"));
	H5Pset_chunk(list, 3, chunk);
	H5Pset_deflate(list, 4);
	put_dataset(file, "/volume", H5T_STD_I16BE, 3, sizes, list, numbers);
	H5Fclose(file);
	float whole[60];
	for (int i = 0; i < 60; i++)
		whole[i] = (float)(int)numbers[i];
	assert_reads(at("c.h5"), shape, whole);
	file = new_hdf5(at("c.h5"));
	put_dataset(file, "/volume", H5T_STD_I16BE, 3, sizes, list, NULL);
	H5Fclose(file);
	H5Pclose(list);
	assert_int_equal(read_all(at("c.h5"), got, &data), TOMOS_BAD_FILE);
	assert_says("dataset '/volume': its 120 bytes are not in the file");
	file = new_hdf5(at("c.h5"));
	hid_t text = H5Tcopy(H5T_C_S1);
	put_dataset(file, "/volume", text, 3, sizes, H5P_DEFAULT, NULL);
	H5Tclose(text);
	H5Fclose(file);
	assert_int_equal(read_all(at("c.h5"), got, &data), TOMOS_UNSUPPORTED);
	assert_says("only integers and floats of 8 to 64 bits can be read");
}

static void *read_again_and_again(void *path)
{
	for (int i = 0; i < 20; i++)
		assert_reads(path, shape, numbers);
	return NULL;
}

static void hdf5_from_two_threads(void **state)
{
	(void)state;
	pthread_t other;
	char path[128];
	snprintf(path, sizeof path, "%s", at("a.h5"));
	write_array(path, TOMOS_VOLUME, shape, numbers);
	assert_int_equal(pthread_create(&other, NULL, read_again_and_again, path), 0);
	read_again_and_again(path);
	pthread_join(other, NULL);
}

/* ---- names and remains -------------------------------------------------------------------- */

static void rejected_names(void **state)
{
	(void)state;
	tomos_file *file;
	assert_int_equal(
		tomos_file_create(&file, at("a.xyz"), TOMOS_VOLUME, shape, NULL), TOMOS_BAD_VALUE);
	assert_says("must end in one of h5|hdf5|hdf|nxs|npy|tif|tiff|mhd|mha|raw|bin, or in '/'");
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
	assert_says("is of no known format (hdf5, npy, npz, tiff, mhd, raw); it begins with 68 65 "
		    "6c 6c 6f");
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

/* ---- failures from outside ---------------------------------------------------------------- */

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_what_it_reads),
		cmocka_unit_test(slabs_in_any_order),
		cmocka_unit_test(describes),
		cmocka_unit_test(npy_types),
		cmocka_unit_test(tiff_types),
		cmocka_unit_test(hdf5_types),
		cmocka_unit_test(hdf5_beyond_float),
		cmocka_unit_test(npy_shapes),
		cmocka_unit_test(npy_fortran),
		cmocka_unit_test(npy_rejections),
		cmocka_unit_test(tiff_compressed),
		cmocka_unit_test(tiff_rejections),
		cmocka_unit_test(stack_rejections),
		cmocka_unit_test(imagej_rejected),
		cmocka_unit_test(bigtiff_beyond_4_gib),
		cmocka_unit_test(hdf5_choice),
		cmocka_unit_test(hdf5_chunks),
		cmocka_unit_test(hdf5_from_two_threads),
		cmocka_unit_test(rejected_names),
		cmocka_unit_test(nothing_is_left),
		cmocka_unit_test(what_appeared_stays),
		cmocka_unit_test(full_disk),
		cmocka_unit_test(no_room),
		cmocka_unit_test(allocation_failures),
	};
	return cmocka_run_group_tests(tests, make_numbers, scratch_remove);
}
