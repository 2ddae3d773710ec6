/* Scans of every kind: found from the content, read in parts, and rejected with a message. */
#include "run/scan.h" /* first: cmocka makes a macro of fail() */
#include "scan_help.h"

/* ---- Data Exchange ------------------------------------------------------------------------ */

static void exchange(void **state)
{
	(void)state;
	tomos_scan *scan;
	tomos_scan_info info = {.bytes = sizeof info};
	hid_t file = exchange_start(at("dx.h5"));
	put_others(file);
	h5_put_list(file, "exchange/theta", theta, VIEWS);
	h5_put_list(file, "exchange/data_shift_x", theta, VIEWS);
	h5_put_scalar(file, "measurement/instrument/monochromator/energy", 20);
	h5_put_list(file, "measurement/instrument/detection_system/objective/resolution",
		(double[]){1.17}, 1);
	h5_attribute(file, "exchange/data", "axes", "theta:y:x", true);
	H5Fclose(file);
	assert_ok(tomos_scan_open(&scan, at("dx.h5"), NULL));
	assert_all(scan, 2, 1);
	assert_angles(scan, theta);
	assert_ok(tomos_scan_describe(scan, &info));
	assert_string_equal(info.kind, "data-exchange");
	assert_string_equal(info.type, "uint16");
	assert_true(info.energy == 20 && fabs(info.pixel - 1.17e-3) < 1e-12 &&
		    info.pixel_height == info.pixel && info.has_shifts);
	double x[VIEWS], y[VIEWS];
	assert_ok(tomos_scan_shifts(scan, x, y));
	assert_true(x[2] == 72 && y[2] == 0);
	assert_int_equal(tomos_scan_places(scan, TOMOS_FLATS, x), TOMOS_BAD_FILE);
	assert_says("says no when its flats and darks were taken");
	tomos_scan_close(scan);
	assert_int_equal(mem_live(), 0);
}

/* [row][view][column], and radians without a unit. */
static void exchange_sinograms(void **state)
{
	(void)state;
	uint16_t data[VIEWS * FRAME];
	double radians[VIEWS];
	for (int i = 0; i < VIEWS * FRAME; i++)
		data[i] =
			value(TOMOS_VIEWS, i / COLUMNS % VIEWS, i / (COLUMNS * VIEWS), i % COLUMNS);
	for (int i = 0; i < VIEWS; i++)
		radians[i] = theta[i] * RADIANS;
	hid_t file = h5_new(at("sino.h5"));
	h5_put(file, "exchange/data", H5T_NATIVE_UINT16, 3, (hsize_t[]){ROWS, VIEWS, COLUMNS},
		data);
	h5_attribute(file, "exchange/data", "axes", "y:theta:x", false);
	h5_put_list(file, "exchange/theta", radians, VIEWS);
	h5_attribute(file, "exchange/theta", "units", "rad", false);
	H5Fclose(file);
	tomos_scan *scan;
	assert_ok(tomos_scan_open(&scan, at("sino.h5"), NULL));
	assert_all(scan, 0, 0);
	assert_angles(scan, theta);
	tomos_scan_close(scan);
}

static void others_in_files(void **state)
{
	(void)state;
	uint16_t data[FRAME];
	tomos_source_options o = tomos_source_defaults();
	H5Fclose(exchange_start(at("bare.h5")));
	hid_t file = exchange_start(at("with.h5"));
	put_others(file);
	H5Fclose(file);
	file = h5_new(at("dark.h5"));
	fill(data, TOMOS_DARKS, 1);
	h5_put(file, "anything", H5T_NATIVE_UINT16, 2, two + 1, data);
	H5Fclose(file);
	tomos_scan *scan;
	o.flats = at("with.h5");
	o.darks = at("dark.h5");
	assert_ok(tomos_scan_open(&scan, at("bare.h5"), &o));
	assert_all(scan, 2, 1);
	tomos_scan_close(scan);
	o.darks = at("none.h5");
	assert_int_equal(tomos_scan_open(&scan, at("bare.h5"), &o), TOMOS_IO);
	assert_says("none.h5' cannot be opened");
	assert_int_equal(mem_live(), 0);
}

/* ---- NXtomo ------------------------------------------------------------------------------- */

/* dark, flat, 2 views, an alignment view, flat, 3 views, an invalid one. */
static const int32_t keys[10] = {2, 1, 0, 0, -1, 1, 0, 0, 0, 3};

static void nexus_frames_of(uint16_t *data)
{
	int64_t done[3] = {0, 0, 0};
	for (int i = 0; i < 10; i++) {
		int set = keys[i] == 0 ? TOMOS_VIEWS : keys[i] == 1 ? TOMOS_FLATS : TOMOS_DARKS;
		bool counts = keys[i] >= 0 && keys[i] <= 2;
		for (int j = 0; j < FRAME; j++)
			data[i * FRAME + j] =
				counts ? value(set, done[set], j / COLUMNS, j % COLUMNS) : 7;
		done[set] += counts;
	}
}

static hid_t nexus_start(const char *path, bool data_too)
{
	uint16_t data[10 * FRAME];
	int32_t plain[10];
	double angles[10] = {0, 0, 0, 36, 90, 72, 72, 108, 144, 0};
	hid_t file = h5_new(path), list = H5Pcreate(H5P_DATASET_CREATE);
	nexus_frames_of(data);
	for (int i = 0; i < 10; i++)
		plain[i] = keys[i] < 0 ? 0 : keys[i];
	h5_put_text(file, "raw/tomo/definition", "NXtomo", true);
	h5_put(file, "raw/tomo/instrument/detector/image_key", H5T_NATIVE_INT32, 1, (hsize_t[]){10},
		plain);
	h5_put(file, "raw/tomo/instrument/detector/image_key_control", H5T_NATIVE_INT32, 1,
		(hsize_t[]){10}, keys);
	h5_put_list(file, "raw/tomo/sample/rotation_angle", angles, 10);
	h5_attribute(file, "raw/tomo/sample/rotation_angle", "units", "degree", true);
	h5_put_text(file, "raw/tomo/instrument/detector/field_of_view", "Half", false);
	h5_put_scalar(file, "raw/tomo/instrument/detector/x_pixel_size", 6.5e-6);
	h5_put_scalar(file, "raw/tomo/instrument/detector/distance", 60);
	h5_attribute(file, "raw/tomo/instrument/detector/distance", "units", "mm", true);
	H5Pset_chunk(list, 3, (hsize_t[]){1, ROWS, COLUMNS});
	H5Pset_deflate(list, 4);
	if (data_too)
		h5_put_as(file, "raw/tomo/instrument/detector/data", H5T_NATIVE_UINT16, 3,
			(hsize_t[]){10, ROWS, COLUMNS}, list, data);
	H5Pclose(list);
	return file;
}

static void assert_nexus(const char *path)
{
	static const double before[2] = {0, 2};
	double places[2];
	tomos_scan *scan;
	tomos_scan_info info = {.bytes = sizeof info};
	assert_ok(tomos_scan_open(&scan, path, NULL));
	assert_all(scan, 2, 1);
	assert_angles(scan, theta);
	assert_ok(tomos_scan_places(scan, TOMOS_FLATS, places));
	assert_memory_equal(places, before, sizeof before);
	assert_ok(tomos_scan_describe(scan, &info));
	assert_string_equal(info.kind, "nxtomo");
	assert_true(info.half && info.distance == 60 && fabs(info.pixel - 6.5e-3) < 1e-12);
	tomos_scan_close(scan);
	assert_int_equal(mem_live(), 0);
}

static void nexus(void **state)
{
	(void)state;
	H5Fclose(nexus_start(at("tomo.nxs"), true));
	assert_nexus(at("tomo.nxs"));
}

/* The frames in two other files, and the rejection when one of them is gone. */
static void nexus_virtual(void **state)
{
	(void)state;
	uint16_t data[10 * FRAME];
	const hsize_t all[3] = {10, ROWS, COLUMNS}, part[3] = {5, ROWS, COLUMNS};
	nexus_frames_of(data);
	hid_t list = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(3, all, NULL);
	for (int i = 0; i < 2; i++) {
		const char *name = i ? "part1.h5" : "part0.h5";
		hid_t file = h5_new(at(name)), from = H5Screate_simple(3, part, NULL);
		h5_put(file, "frames", H5T_NATIVE_UINT16, 3, part, data + 5 * i * FRAME);
		H5Fclose(file);
		H5Sselect_hyperslab(
			space, H5S_SELECT_SET, (hsize_t[]){5 * (hsize_t)i, 0, 0}, NULL, part, NULL);
		H5Pset_virtual(list, space, name, "frames", from);
		H5Sclose(from);
	}
	hid_t file = nexus_start(at("virtual.nxs"), false);
	h5_put_as(file, "raw/tomo/instrument/detector/data", H5T_NATIVE_UINT16, 3, all, list, NULL);
	H5Fclose(file);
	H5Sclose(space);
	H5Pclose(list);
	assert_nexus(at("virtual.nxs"));
	tomos_scan *scan;
	unlink(at("part1.h5"));
	assert_int_equal(tomos_scan_open(&scan, at("virtual.nxs"), NULL), TOMOS_BAD_FILE);
	assert_says("it is virtual, and its file 'part1.h5' cannot be read");
}

/* A filter that HDF5 does not have here represents any plug-in. */
static size_t no_filter(unsigned flags, size_t count, const unsigned *values, size_t bytes,
	size_t *room, void **buffer)
{
	(void)flags, (void)count, (void)values, (void)room, (void)buffer;
	return bytes;
}

static void missing_plugin(void **state)
{
	(void)state;
	const H5Z_class2_t filter = {
		H5Z_CLASS_T_VERS, 500, 1, 1, "rarely seen", NULL, NULL, no_filter};
	uint16_t data[VIEWS * FRAME] = {0};
	assert_true(H5Zregister(&filter) >= 0);
	hid_t list = H5Pcreate(H5P_DATASET_CREATE), file = h5_new(at("packed.h5"));
	H5Pset_chunk(list, 3, (hsize_t[]){1, ROWS, COLUMNS});
	H5Pset_filter(list, 500, H5Z_FLAG_MANDATORY, 0, NULL);
	h5_put_as(file, "exchange/data", H5T_NATIVE_UINT16, 3, whole, list, data);
	H5Pclose(list);
	H5Fclose(file);
	assert_true(H5Zunregister(500) >= 0);
	tomos_scan *scan;
	assert_int_equal(tomos_scan_open(&scan, at("packed.h5"), NULL), TOMOS_UNSUPPORTED);
	assert_says("dataset '/exchange/data': its chunks are compressed with filter 500 (rarely "
		    "seen), whose plug-in was not found");
}

/* ---- TIFF folders ------------------------------------------------------------------------- */

static void put_picture(const char *name, int set, int64_t frame)
{
	float data[FRAME];
	for (int i = 0; i < FRAME; i++)
		data[i] = value(set, frame, i / COLUMNS, i % COLUMNS);
	Bytes b = tiff_bytes(frame % 2, 'u', 2, (int64_t[]){1, ROWS, COLUMNS}, data);
	put_file(at(name), b.bytes, b.length);
}

static void put_pictures(const char *format, int set, int64_t count, int first)
{
	char name[64];
	for (int i = 0; i < count; i++) {
		snprintf(name, sizeof name, format, first + i);
		put_picture(name, set, i);
	}
}

/* Numbers without zeros before them; angles with the stage at rest at both ends. */
static void tiff_folder(void **state)
{
	(void)state;
	static const char angles[] = "# degrees\n0 0.01 0\n36,72\n108\n144 143.99\n";
	tomos_scan *scan;
	tomos_scan_info info = {.bytes = sizeof info};
	mkdir(at("stack"), 0777);
	put_pictures("stack/raw_%d.tif", TOMOS_VIEWS, VIEWS, 8);
	put_pictures("stack/Flat-field%03d.TIFF", TOMOS_FLATS, 2, 1);
	put_pictures("stack/tomo_dark_%d.tif", TOMOS_DARKS, 1, 0);
	put_file(at("stack/angles.txt"), angles, strlen(angles));
	assert_ok(tomos_scan_open(&scan, at("stack"), NULL));
	assert_all(scan, 2, 1);
	assert_angles(scan, theta);
	assert_ok(tomos_scan_describe(scan, &info));
	assert_string_equal(info.kind, "tiff-folder");
	tomos_scan_close(scan);
	put_file(at("stack/angles.txt"), "0 36 72 a108", 12);
	assert_int_equal(tomos_scan_open(&scan, at("stack"), NULL), TOMOS_BAD_FILE);
	assert_says("angles.txt', line 1: 'a108' is no angle");
	put_file(at("stack/angles.txt"), "0 36\n72", 7);
	assert_int_equal(tomos_scan_open(&scan, at("stack"), NULL), TOMOS_BAD_FILE);
	assert_says("angles.txt': 3 angles for 5 views");
	put_file(at("stack/angles.txt"), "\n", 1);
	assert_int_equal(tomos_scan_open(&scan, at("stack"), NULL), TOMOS_BAD_FILE);
	assert_says("angles.txt' has no angles");
	assert_int_equal(mem_live(), 0);
}

static void tiff_folders(void **state)
{
	(void)state;
	tomos_scan *scan;
	mkdir(at("set"), 0777);
	mkdir(at("set/projections"), 0777);
	mkdir(at("set/flats"), 0777);
	put_pictures("set/projections/a%04d.tif", TOMOS_VIEWS, VIEWS, 0);
	put_pictures("set/flats/a%04d.tif", TOMOS_FLATS, 2, 0);
	assert_ok(tomos_scan_open(&scan, at("set"), NULL));
	assert_all(scan, 2, 0);
	tomos_scan_close(scan);
	mkdir(at("set/white"), 0777);
	assert_int_equal(tomos_scan_open(&scan, at("set"), NULL), TOMOS_BAD_FILE);
	assert_says("has several sets that could be its flats: 'flats', 'white'; name one with "
		    "the option 'flats'");
	mkdir(at("odd"), 0777);
	assert_int_equal(tomos_scan_open(&scan, at("odd"), NULL), TOMOS_BAD_FILE);
	assert_says("odd' has no .tif or .tiff files");
	put_pictures("odd/one%d.tif", TOMOS_VIEWS, 2, 0);
	put_pictures("odd/other%d.tif", TOMOS_VIEWS, 1, 0);
	assert_int_equal(tomos_scan_open(&scan, at("odd"), NULL), TOMOS_BAD_FILE);
	assert_says("has 'one', 'other'; which of them are the views is not clear");
	mkdir(at("degrees"), 0777);
	put_pictures("degrees/turn_%ddeg.tif", TOMOS_VIEWS, 33, 0);
	assert_int_equal(tomos_scan_open(&scan, at("degrees/"), NULL), TOMOS_BAD_FILE);
	assert_says("more than 32 kinds of names, which differ not only in the number at their "
		    "end");
	assert_says("degrees/turn_*'");
	tomos_source_options o = tomos_source_defaults();
	o.flats = at("odd/other*");
	assert_ok(tomos_scan_open(&scan, at("odd/one?.tif"), &o));
	tomos_scan_close(scan);
	assert_int_equal(tomos_scan_open(&scan, at("odd/none*"), NULL), TOMOS_BAD_FILE);
	assert_says("odd/' has no .tif or .tiff files like 'none*'");
}

static void assert_gap(const char *path, int64_t number, const char *after)
{
	tomos_scan *scan;
	int64_t found;
	char before[304];
	assert_ok(tomos_scan_open(&scan, path, NULL));
	assert_ok(tomos_scan_gap(scan, TOMOS_VIEWS, &found, before, sizeof before));
	assert_int_equal(found, number);
	assert_non_null(strstr(before, after));
	tomos_scan_close(scan);
}

/* The first number missing, of files numbered in steps of 1 and of 5, without zeros before them. */
static void missing_numbers(void **state)
{
	(void)state;
	char name[64];
	mkdir(at("gaps"), 0777);
	mkdir(at("fives"), 0777);
	put_pictures("gaps/raw_%d.tif", TOMOS_VIEWS, 12, 3);
	for (int i = 0; i < 6; i++) {
		snprintf(name, sizeof name, "fives/p%03d.tif", 5 * i);
		put_picture(name, TOMOS_VIEWS, i);
	}
	assert_gap(at("gaps"), -1, "");
	assert_gap(at("fives"), -1, "");
	assert_int_equal(unlink(at("gaps/raw_10.tif")), 0);
	assert_gap(at("gaps"), 10, "gaps/raw_9.tif");
	assert_int_equal(unlink(at("gaps/raw_4.tif")), 0);
	assert_gap(at("gaps"), 4, "gaps/raw_3.tif");
	assert_int_equal(unlink(at("fives/p015.tif")), 0);
	assert_gap(at("fives"), 15, "fives/p010.tif");
	put_pictures("gaps/alone%c.tif", TOMOS_VIEWS, 2, 'a'); /* names without numbers */
	assert_gap(at("gaps/alone*"), -1, "");
}

/* ---- rejections ----------------------------------------------------------------------------- */

static void rejections(void **state)
{
	(void)state;
	tomos_scan *scan;
	tomos_source_options o = tomos_source_defaults();
	assert_int_equal(tomos_scan_open(&scan, "", NULL), TOMOS_BAD_VALUE);
	assert_says("the name of a scan is missing");
	hid_t file = exchange_start(at("r.h5"));
	h5_attribute(file, "exchange/data", "axes", "x:y:theta", true);
	H5Fclose(file);
	rejected(
		"r.h5", "the axes of 'exchange/data' are 'x:y:theta'; theta:y:x and y:theta:x can");
	file = exchange_start(at("r.h5"));
	h5_put_list(file, "exchange/theta", theta, 4);
	H5Fclose(file);
	rejected("r.h5", "dataset '/exchange/theta': 4 angles for 5 views");
	file = exchange_start(at("r.h5"));
	h5_put_list(file, "exchange/theta", (double[]){0, 1, NAN, 3, 4}, VIEWS);
	H5Fclose(file);
	rejected("r.h5", "angle 2 is nan; it must be finite");
	file = exchange_start(at("r.h5"));
	h5_put_list(file, "exchange/theta", theta, VIEWS);
	h5_attribute(file, "exchange/theta", "units", "gon", true);
	H5Fclose(file);
	rejected("r.h5", "'/exchange/theta' is in 'gon', a unit that is not known");
	file = exchange_start(at("r.h5"));
	h5_put_list(file, "exchange/data_shift_y", theta, 3);
	H5Fclose(file);
	rejected("r.h5", "'exchange/data_shift_y' has 3 numbers for 5 views");
	file = exchange_start(at("r.h5"));
	h5_put(file, "exchange/data_white", H5T_NATIVE_DOUBLE, 2, (hsize_t[]){1, VIEWS}, theta);
	H5Fclose(file);
	rejected("r.h5", "has flats of 1 rows x 5 columns; the views of");
	file = nexus_start(at("r.h5"), true);
	H5Ldelete(file, "raw/tomo/instrument/detector/image_key", H5P_DEFAULT);
	H5Ldelete(file, "raw/tomo/instrument/detector/image_key_control", H5P_DEFAULT);
	H5Fclose(file);
	rejected("r.h5", "'/raw/tomo' has no instrument/detector/image_key");
	H5Fclose(nexus_start(at("r.h5"), true));
	o.layout = "sinograms";
	assert_int_equal(tomos_scan_open(&scan, at("r.h5"), &o), TOMOS_BAD_VALUE);
	assert_says("is an NXtomo file, whose layout is projections");
	o.layout = "sino";
	assert_int_equal(tomos_scan_open(&scan, at("r.h5"), &o), TOMOS_BAD_VALUE);
	assert_says("layout 'sino' is not known");
}

static void nexus_rejections(void **state)
{
	(void)state;
	static const int32_t none[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
	const char *key = "raw/tomo/instrument/detector/image_key_control";
	hid_t file = nexus_start(at("n.h5"), true);
	H5Ldelete(file, key, H5P_DEFAULT);
	h5_put(file, key, H5T_NATIVE_INT32, 1, (hsize_t[]){9}, none);
	H5Fclose(file);
	rejected("n.h5", "9 image keys for 10 frames of '/raw/tomo/instrument/detector/data'");
	file = nexus_start(at("n.h5"), true);
	H5Ldelete(file, key, H5P_DEFAULT);
	h5_put(file, key, H5T_NATIVE_INT32, 1, (hsize_t[]){10}, none);
	H5Fclose(file);
	rejected("n.h5", "no frame of '/raw/tomo/instrument/detector/data' has image key 0");
	file = nexus_start(at("n.h5"), true);
	H5Ldelete(file, "raw/tomo/sample/rotation_angle", H5P_DEFAULT);
	h5_put_list(file, "raw/tomo/sample/rotation_angle", theta, VIEWS);
	H5Fclose(file);
	rejected("n.h5", "'/raw/tomo/sample/rotation_angle' has 5 angles for 10 frames");
}

/* ---- every allocation failing in turn ----------------------------------------------------- */

static void allocation_failures(void **state)
{
	(void)state;
	static const char angles[] = "0 36 72 108 144\n";
	put_file(at("stack/angles.txt"), angles, strlen(angles));
	survives(at("dx.h5"));
	survives(at("sino.h5"));
	survives(at("tomo.nxs"));
	survives(at("stack"));
}

/* ---- measured scans ----------------------------------------------------------------------- */

static bool there(const char *name, char path[512])
{
	const char *folder = getenv("TOMOS_DATA");
	snprintf(path, 512, "%s/%s", folder ? folder : "", name);
	if (folder && access(path, R_OK) == 0)
		return true;
	print_message("skipped: there is no %s (TOMOS_DATA is '%s')\n", name, folder ? folder : "");
	return false;
}

static void measured(void **state)
{
	(void)state;
	char path[512];
	tomos_scan *scan;
	tomos_scan_info info = {.bytes = sizeof info};
	double angles[181];
	if (there("tooth/tooth.h5", path)) {
		assert_ok(tomos_scan_open(&scan, path, NULL));
		assert_ok(tomos_scan_describe(scan, &info));
		assert_true(info.views == 181 && info.rows == 2 && info.columns == 640);
		assert_true(info.flats == 10 && info.darks == 10 && info.counts);
		assert_ok(tomos_scan_angles(scan, angles));
		assert_true(fabs(angles[180] - 179.0055 * RADIANS) < 1e-5);
		tomos_scan_close(scan);
	}
	if (there("i13_24737_tiff", path)) {
		assert_ok(tomos_scan_open(&scan, path, NULL));
		assert_ok(tomos_scan_describe(scan, &info));
		assert_true(info.views == 91 && info.rows == 135 && info.columns == 160);
		assert_true(info.flats == 1 && info.darks == 1 && info.counts);
		assert_string_equal(info.type, "uint16");
		assert_ok(tomos_scan_angles(scan, angles));
		assert_true(fabs(angles[0] + 88.2 * RADIANS) < 1e-5);
		assert_true(fabs(angles[90] - 91.7999 * RADIANS) < 1e-5);
		tomos_scan_close(scan);
	}
}

#define TESTS(T) \
	T(exchange), T(exchange_sinograms), T(others_in_files), T(nexus), T(nexus_virtual), \
		T(missing_plugin), T(tiff_folder), T(tiff_folders), T(missing_numbers), \
		T(rejections), T(nexus_rejections), T(allocation_failures), T(measured)
TEST_MAIN(TESTS, scratch_make, scratch_remove)
