/* NumPy and HDF5 files: number types, shapes, choice of the dataset, files that are rejected. */
#include "io/numbers_help.h"

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
			assert_int_equal(status, TOMOS_UNSUPPORTED);
			assert_non_null(strstr(tomos_message(), "does not fit float32"));
		} else {
			assert_int_equal(status, TOMOS_OK);
			assert_true(isinf(data[1]));
		}
		tomos_file_close(file);
	}
}

/* ---- npy ------------------------------------------------------------------------------------- */

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

/* ---- HDF5 ------------------------------------------------------------------------------------ */

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

#define TESTS(T) \
	T(npy_types), T(npy_shapes), T(npy_fortran), T(npy_rejections), T(hdf5_types), \
		T(hdf5_beyond_float), T(hdf5_choice), T(hdf5_chunks), T(hdf5_from_two_threads)
TEST_MAIN(TESTS, make_numbers, scratch_remove)
