/* Scans in plain arrays and NumPy archives, and the geometry of a scan with options. */
#include "io/npz_help.h"
#include "scan_help.h"

/* ---- plain arrays ------------------------------------------------------------------------- */

static void arrays(void **state)
{
	(void)state;
	float data[VIEWS * FRAME];
	tomos_scan *scan;
	tomos_scan_info info = {.bytes = sizeof info};
	tomos_geometry *geometry;
	for (int i = 0; i < VIEWS * FRAME; i++)
		data[i] = value(TOMOS_VIEWS, i / FRAME, i / COLUMNS % ROWS, i % COLUMNS);
	write_array(at("a.npy"), TOMOS_PROJECTIONS, (int64_t[]){VIEWS, ROWS, COLUMNS}, data);
	assert_ok(tomos_scan_open(&scan, at("a.npy"), NULL));
	assert_frames(scan, TOMOS_VIEWS, 1, 2, 1, 2);
	assert_ok(tomos_scan_describe(scan, &info));
	assert_true(!info.counts && !info.has_angles && strcmp(info.kind, "array") == 0);
	assert_int_equal(tomos_scan_geometry(scan, &geometry, NULL), TOMOS_BAD_FILE);
	assert_says("a.npy' says no angles: give the option 'angles', or the option 'arc' for "
		    "5 views");
	assert_int_equal(tomos_scan_read(scan, TOMOS_VIEWS, 4, 2, 0, 1, data), TOMOS_BAD_VALUE);
	assert_says("a.npy': 2 views from 4 on, of 5");
	assert_int_equal(tomos_scan_read(scan, TOMOS_FLATS, 0, 1, 0, 1, data), TOMOS_BAD_VALUE);
	assert_says("1 flats from 0 on, of 0");
	assert_int_equal(tomos_scan_read(scan, TOMOS_VIEWS, 0, 1, 2, 2, data), TOMOS_BAD_VALUE);
	assert_says("2 rows from row 2, of 3");
	tomos_scan_close(scan);
	write_array(at("s.npy"), TOMOS_PROJECTIONS, (int64_t[]){1, VIEWS, COLUMNS}, data);
	assert_ok(tomos_scan_open(&scan, at("s.npy"), NULL));
	assert_ok(tomos_scan_describe(scan, &info));
	assert_true(info.views == VIEWS && info.rows == 1 && info.columns == COLUMNS);
	tomos_scan_close(scan);
	write_array(at("v.h5"), TOMOS_VOLUME, (int64_t[]){VIEWS, ROWS, COLUMNS}, data);
	assert_int_equal(tomos_scan_open(&scan, at("v.h5"), NULL), TOMOS_BAD_FILE);
	assert_says("v.h5' holds a volume, not projections");
}

/* One dataset of several of a file, for views and for the others. */
static void named_datasets(void **state)
{
	(void)state;
	uint16_t views[VIEWS * FRAME], flats[2 * FRAME];
	char both[2][300];
	tomos_source_options o = tomos_source_defaults();
	tomos_scan *scan;
	fill(views, TOMOS_VIEWS, VIEWS);
	fill(flats, TOMOS_FLATS, 2);
	hid_t file = h5_new(at("two.h5"));
	h5_put(file, "a/views", H5T_NATIVE_UINT16, 3, (hsize_t[]){VIEWS, ROWS, COLUMNS}, views);
	h5_put(file, "a/ff", H5T_NATIVE_UINT16, 3, (hsize_t[]){2, ROWS, COLUMNS}, flats);
	H5Fclose(file);
	snprintf(both[0], sizeof both[0], "%s:/a/views", at("two.h5"));
	snprintf(both[1], sizeof both[1], "%s::a/ff", at("two.h5"));
	o.flats = both[1];
	assert_ok(tomos_scan_open(&scan, both[0], &o));
	assert_all(scan, 2, 0);
	tomos_scan_close(scan);
	o.dataset = "a/views";
	assert_int_equal(tomos_scan_open(&scan, both[0], &o), TOMOS_BAD_VALUE);
	assert_says("and the option 'dataset' is 'a/views'");
	o.flats = at("two.h5");
	assert_int_equal(tomos_scan_open(&scan, at("two.h5"), &o), TOMOS_BAD_VALUE);
	assert_says("two.h5:/...' or with the option 'dataset'");
	snprintf(both[1], sizeof both[1], "%s:/a/none", at("two.h5"));
	o.flats = both[1];
	assert_int_equal(tomos_scan_open(&scan, at("two.h5"), &o), TOMOS_BAD_FILE);
	assert_says("'/a/none': is not a dataset of the file");
	char output[400];
	assert_ok(tomos_job_output(both[0], output, sizeof output));
	assert_non_null(strstr(output, "/two_rec/"));
	assert_int_equal(mem_live(), 0);
}

/* An image is a sinogram, and so are flats that are images then; angles of the other axis are
 * pointed out. */
static void exchange_image(void **state)
{
	(void)state;
	uint16_t views[VIEWS * COLUMNS], flats[2 * COLUMNS];
	float read[2 * COLUMNS];
	tomos_scan *scan;
	tomos_scan_info info = {.bytes = sizeof info};
	for (int i = 0; i < VIEWS * COLUMNS; i++)
		views[i] = (uint16_t)(100 + i);
	for (int i = 0; i < 2 * COLUMNS; i++)
		flats[i] = (uint16_t)(900 + i);
	hid_t file = h5_new(at("image.h5"));
	h5_put(file, "exchange/data", H5T_NATIVE_UINT16, 2, (hsize_t[]){VIEWS, COLUMNS}, views);
	h5_put(file, "exchange/data_white", H5T_NATIVE_UINT16, 2, (hsize_t[]){2, COLUMNS}, flats);
	h5_put_list(file, "exchange/theta", theta, VIEWS);
	H5Fclose(file);
	assert_ok(tomos_scan_open(&scan, at("image.h5"), NULL));
	assert_ok(tomos_scan_describe(scan, &info));
	assert_true(info.views == VIEWS && info.rows == 1 && info.flats == 2);
	assert_ok(tomos_scan_read(scan, TOMOS_FLATS, 0, 2, 0, 1, read));
	for (int i = 0; i < 2 * COLUMNS; i++)
		assert_true(read[i] == (float)flats[i]);
	assert_ok(tomos_scan_read(scan, TOMOS_VIEWS, 3, 1, 0, 1, read));
	assert_true(read[1] == (float)views[3 * COLUMNS + 1]);
	tomos_scan_close(scan);
	uint16_t data[VIEWS * FRAME];
	fill(data, TOMOS_VIEWS, VIEWS);
	file = h5_new(at("sino.h5"));
	h5_put(file, "exchange/data", H5T_NATIVE_UINT16, 3, (hsize_t[]){ROWS, VIEWS, COLUMNS},
		data);
	h5_put_list(file, "exchange/theta", theta, VIEWS);
	H5Fclose(file);
	assert_int_equal(tomos_scan_open(&scan, at("sino.h5"), NULL), TOMOS_BAD_FILE);
	assert_says("5 angles for 3 views of 5 rows: if the data are [row][view][column], give the "
		    "option 'layout' sinograms");
}

/* ---- NumPy archives ----------------------------------------------------------------------- */

static void put_npz(const char *name, const NpzArray *arrays, int count)
{
	unsigned char bytes[8192] = {0};
	size_t length = npz_make(bytes, arrays, count);
	put_file(at(name), bytes, length);
}

/* Views, two flats, a dark and angles, under the names given. */
static void npz_scan(const char *name, const char *const names[4], int packed)
{
	uint16_t views[VIEWS * FRAME], flats[2 * FRAME], dark[FRAME];
	fill(views, TOMOS_VIEWS, VIEWS);
	fill(flats, TOMOS_FLATS, 2);
	fill(dark, TOMOS_DARKS, 1);
	const NpzArray arrays[] = {
		{names[3], "<f8", "(5,)", theta, sizeof theta, packed},
		{names[2], "<u2", "(3, 4)", dark, sizeof dark, packed},
		{names[1], "<u2", "(2, 3, 4)", flats, sizeof flats, packed},
		{names[0], "<u2", "(5, 3, 4)", views, sizeof views, packed},
	};
	put_npz(name, arrays, COUNT(arrays));
}

static void npz_scans(void **state)
{
	(void)state;
	static const char *const names[2][4] = {
		{"data.npy", "data_white.npy", "data_dark.npy", "theta.npy"},
		{"projections.npy", "flats.npy", "darks.npy", "angles.npy"}};
	tomos_source_options o = tomos_source_defaults();
	tomos_scan_info info = {.bytes = sizeof info};
	tomos_scan *scan;
	for (int i = 0; i < 4; i++) {
		npz_scan("z.npz", names[i / 2], i % 2);
		assert_ok(tomos_scan_open(&scan, at("z.npz"), NULL));
		assert_all(scan, 2, 1);
		assert_angles(scan, theta);
		assert_ok(tomos_scan_describe(scan, &info));
		assert_string_equal(info.kind, "npz");
		assert_string_equal(info.dataset, i / 2 ? "projections" : "data");
		tomos_scan_close(scan);
	}
	hid_t file = exchange_start(at("dx.h5"));
	put_others(file);
	H5Fclose(file);
	o.flats = at("z.npz"); /* of another scan */
	assert_ok(tomos_scan_open(&scan, at("dx.h5"), &o));
	assert_all(scan, 2, 1);
	tomos_scan_close(scan);
	assert_int_equal(mem_live(), 0);
}

/* One array may have any name; others are rejected by the names that they have. */
static void npz_names(void **state)
{
	(void)state;
	uint16_t views[VIEWS * FRAME];
	NpzArray arrays[] = {{"arr_0.npy", "<u2", "(5, 3, 4)", views, sizeof views, 0},
		{"arr_1.npy", "<u2", "(5, 3, 4)", views, sizeof views, 0}};
	tomos_source_options o = tomos_source_defaults();
	tomos_scan *scan;
	fill(views, TOMOS_VIEWS, VIEWS);
	put_npz("n.npz", arrays, 1);
	assert_ok(tomos_scan_open(&scan, at("n.npz"), NULL));
	assert_all(scan, 0, 0);
	tomos_scan_close(scan);
	arrays[0].name = "donn\303\251es.npy";
	put_npz("n.npz", arrays, 1);
	assert_ok(tomos_scan_open(&scan, at("n.npz"), NULL));
	assert_all(scan, 0, 0);
	tomos_scan_close(scan);
	arrays[0].name = "arr_0.npy";
	put_npz("n.npz", arrays, 2);
	tomos_file *file;
	assert_int_equal(tomos_file_open(&file, at("n.npz"), NULL), TOMOS_BAD_VALUE);
	assert_says("n.npz' has 2 arrays that could be meant; name one of arr_0, arr_1 with the "
		    "option 'dataset'");
	rejected("n.npz", "n.npz' has no array of views, which is called one of "
			  "data|projections|proj|tomo|views; it has arr_0 arr_1; name one with "
			  "the option 'dataset'");
	o.dataset = "arr_1";
	assert_ok(tomos_scan_open(&scan, at("n.npz"), &o));
	assert_all(scan, 0, 0);
	tomos_scan_close(scan);
	o.dataset = "arr_2";
	assert_int_equal(tomos_scan_open(&scan, at("n.npz"), &o), TOMOS_BAD_FILE);
	assert_says("n.npz' has no array 'arr_2'");
	arrays[1] = (NpzArray){"theta.npy", "<f8", "(4,)", theta, 4 * sizeof *theta, 0};
	arrays[0].name = "data.npy";
	put_npz("n.npz", arrays, 2);
	rejected("n.npz", "n.npz', dataset 'theta': 4 angles for 5 views");
	arrays[1] = (NpzArray){"theta.npy", "<f8", "(5,)", theta, 4 * sizeof *theta, 0};
	put_npz("n.npz", arrays, 2);
	rejected("n.npz", "n.npz', array 'theta': 32 bytes for 5 numbers");
	arrays[1] = (NpzArray){"theta.npy", "<U2", "(5,)", theta, sizeof theta, 0};
	put_npz("n.npz", arrays, 2);
	rejected("n.npz", "n.npz', array 'theta': is no list or table of numbers");
}

static void npz_damage(void **state)
{
	(void)state;
	uint16_t views[VIEWS * FRAME];
	NpzArray array = {"data.npy", "<u2", "(5, 3, 4)", views, sizeof views, 1};
	unsigned char bytes[8192], damaged[8192];
	tomos_scan *scan;
	fill(views, TOMOS_VIEWS, VIEWS);
	for (array.packed = 0; array.packed < 2; array.packed++) {
		size_t length = npz_make(bytes, &array, 1);
		for (size_t i = 0; i < length; i++) {
			put_file(at("short.npz"), bytes, i);
			assert_int_not_equal(
				tomos_scan_open(&scan, at("short.npz"), NULL), TOMOS_OK);
			memcpy(damaged, bytes, length);
			damaged[i] ^= 0x11;
			put_file(at("flip.npz"), damaged, length);
			if (tomos_scan_open(&scan, at("flip.npz"), NULL) == TOMOS_OK)
				tomos_scan_close(scan);
			assert_int_equal(mem_live(), 0);
		}
	}
	array.packed = 1;
	size_t length = npz_make(damaged, &array, 1);
	damaged[60] ^= 1;
	put_file(at("flip.npz"), damaged, length);
	assert_int_not_equal(tomos_scan_open(&scan, at("flip.npz"), NULL), TOMOS_OK);
	assert_says("flip.npz' is a damaged npz file: a");
	setenv("TMPDIR", "/nowhere", 1);
	put_npz("t.npz", &array, 1);
	assert_int_equal(tomos_scan_open(&scan, at("t.npz"), NULL), TOMOS_IO);
	assert_says("t.npz' cannot be unpacked to '/nowhere/tomos-");
	unsetenv("TMPDIR");
	array = (NpzArray){"data.npy", "<u2", "(60,)", views, sizeof views, 0};
	put_npz("t.npz", &array, 1);
	tomos_file *file;
	assert_int_equal(tomos_file_open(&file, at("t.npz"), NULL), TOMOS_BAD_FILE);
	assert_says("t.npz' has no array of numbers with two or three axes");
}

static void geometry_of(void **state)
{
	(void)state;
	tomos_scan *scan;
	tomos_geometry *geometry;
	tomos_scan_options o = tomos_scan_defaults();
	double own[VIEWS];
	hid_t file = exchange_start(at("geo.h5"));
	h5_put_list(file, "exchange/theta", theta, VIEWS);
	h5_put_scalar(file, "measurement/instrument/detection_system/objective/resolution", 2);
	H5Fclose(file);
	assert_ok(tomos_scan_open(&scan, at("geo.h5"), NULL));
	o.pixel = 0;
	o.axis = (double[]){1};
	o.axis_count = 1;
	assert_ok(tomos_scan_geometry(scan, &geometry, &o));
	const tomos_view *view = tomos_geometry_list(geometry);
	assert_int_equal(tomos_geometry_rows(geometry), ROWS);
	assert_true(fabs(view[0].u[0] - 2e-3) < 1e-12 && fabs(view[0].v[2] - 2e-3) < 1e-12);
	assert_true(fabs(view[0].det[0] - 1e-3) < 1e-12); /* axis half a pixel from the middle */
	assert_true(fabs(atan2(view[2].u[1], view[2].u[0]) - 72 * RADIANS) < 1e-12);
	tomos_geometry_free(geometry);
	o.pixel = 1;
	o.arc = 360 * RADIANS;
	assert_int_equal(tomos_scan_geometry(scan, &geometry, &o), TOMOS_BAD_VALUE);
	assert_says("has angles of its own, 0 to 144 degrees, and the option 'arc' says others; "
		    "leave that "
		    "out, or "
		    "give the option 'replace_angles'");
	o.replace_angles = 1;
	assert_ok(tomos_scan_geometry(scan, &geometry, &o));
	view = tomos_geometry_list(geometry);
	assert_true(fabs(view[1].u[0] - cos(72 * RADIANS)) < 1e-12);
	tomos_geometry_free(geometry);
	o.arc = 0; /* even if the first do not change: it is not known which are meant */
	o.angles = (double[]){0, 0, 0.6, 1.2, 1.8, 2.4};
	o.angles_count = 5;
	o.replace_angles = 0;
	assert_int_equal(tomos_scan_geometry(scan, &geometry, &o), TOMOS_BAD_VALUE);
	assert_says("and the option 'angles' says others");
	o.angles = own;
	assert_ok(tomos_scan_angles(scan, own));
	assert_ok(tomos_scan_geometry(scan, &geometry, &o)); /* the same ones */
	tomos_geometry_free(geometry);
	o.replace_angles = 1;
	o.angles = (double[]){0, 0, 0.6, 1.2, 1.8, 2.4};
	o.angles_count = 6;
	assert_int_equal(tomos_scan_geometry(scan, &geometry, &o), TOMOS_BAD_VALUE);
	assert_says("the option 'angles': 6 angles for 5 views; give those of the views alone");
	tomos_scan_close(scan);
	assert_int_equal(mem_live(), 0);
}

/* A scan with point sources needs the pixel size. */
static void pixels_of_point_sources(void **state)
{
	(void)state;
	tomos_scan *scan;
	tomos_geometry *geometry;
	tomos_scan_options o = tomos_scan_defaults();
	hid_t file = exchange_start(at("point.h5"));
	h5_put_list(file, "exchange/theta", theta, VIEWS);
	H5Fclose(file);
	assert_ok(tomos_scan_open(&scan, at("point.h5"), NULL));
	o.pixel = 0;
	o.geometry = "cone";
	o.source_axis = o.source_detector = (double[]){100};
	o.source_axis_count = o.source_detector_count = 1;
	assert_int_equal(tomos_scan_geometry(scan, &geometry, &o), TOMOS_BAD_VALUE);
	assert_says("does not say the size of its pixels, which a cone scan needs: give it with "
		    "the option 'pixel'");
	o.pixel = 0.1;
	assert_ok(tomos_scan_geometry(scan, &geometry, &o));
	tomos_geometry_free(geometry);
	o = tomos_scan_defaults();
	o.pixel = 0; /* parallel rays: 1 */
	assert_ok(tomos_scan_geometry(scan, &geometry, &o));
	tomos_geometry_free(geometry);
	tomos_scan_close(scan);
	assert_int_equal(mem_live(), 0);
}

static void allocation_failures(void **state)
{
	(void)state;
	survives(at("a.npy"));
	survives(at("z.npz"));
}

#define TESTS(T) \
	T(arrays), T(named_datasets), T(exchange_image), T(npz_scans), T(npz_names), \
		T(npz_damage), T(geometry_of), T(pixels_of_point_sources), T(allocation_failures)
TEST_MAIN(TESTS, scratch_make, scratch_remove)
