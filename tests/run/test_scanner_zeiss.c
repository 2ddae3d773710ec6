/* Zeiss' .txrm: cone and parallel beams, shifts, flats, and the streams of compound files. */
#include "io/ole2_help.h"
#include "run/scanner_help.h"

static void put_int(OleWriter *w, const char *name, int32_t value)
{
	ole_put(w, name, &value, sizeof value);
}

static void put_floats(OleWriter *w, const char *name, const double *list, int64_t count)
{
	float values[LAB_VIEWS];
	for (int64_t i = 0; i < count; i++)
		values[i] = (float)list[i];
	ole_put(w, name, values, (size_t)count * sizeof *values);
}

static void put_head(OleWriter *w, const Lab *lab, int cone, int type)
{
	double angles[LAB_VIEWS], source[LAB_VIEWS], detector[LAB_VIEWS], voxel = 200;
	for (int64_t i = 0; i < lab->views; i++) {
		angles[i] = -(lab->first + lab->step * (double)i);
		source[i] = -200;
		detector[i] = 300;
	}
	put_int(w, "ImageInfo/ImageWidth", (int32_t)lab->columns);
	put_int(w, "ImageInfo/ImageHeight", (int32_t)lab->rows);
	put_int(w, "ImageInfo/NoOfImages", (int32_t)lab->views);
	put_int(w, "ImageInfo/DataType", type);
	put_int(w, "ImageInfo/XrayGeometry", cone);
	put_int(w, "ImageInfo/AcquisitionMode", 0);
	put_floats(w, "ImageInfo/Angles", angles, lab->views);
	put_floats(w, "ImageInfo/PixelSize", &voxel, 1);
	put_floats(w, "ImageInfo/StoRADistance", source, lab->views);
	put_floats(w, "ImageInfo/DtoRADistance", detector, lab->views);
}

static void put_image(OleWriter *w, const char *name, const float *data, int64_t count, int type)
{
	uint16_t *numbers = malloc((size_t)count * sizeof *numbers);
	for (int64_t i = 0; i < count; i++)
		numbers[i] = (uint16_t)data[i];
	if (type == 5)
		ole_put(w, name, numbers, (size_t)count * sizeof *numbers);
	else
		ole_put(w, name, data, (size_t)count * sizeof *data);
	free(numbers);
}

static OleWriter *make_scan(const Lab *lab, int type, bool flat)
{
	OleWriter *w = ole_new();
	int64_t frame = lab->rows * lab->columns;
	float *counts = lab_counts(lab);
	put_head(w, lab, 1, type);
	for (int64_t i = 0; i < lab->views; i++) {
		char name[64];
		snprintf(
			name, sizeof name, "ImageData%d/Image%d", (int)(i / 100 + 1), (int)(i + 1));
		put_image(w, name, counts + i * frame, frame, type);
	}
	for (int64_t i = 0; i < frame; i++)
		counts[i] = (float)lab->white;
	if (flat)
		put_image(w, "ReferenceData/Image", counts, frame, 10);
	if (flat)
		put_int(w, "ReferenceData/DataType", 10);
	free(counts);
	return w;
}

/* Columns to the right seen from the source, rows upwards. */
static Lab zeiss_lab(double step)
{
	Lab lab = lab_make();
	lab.u[0] = 0.5;
	lab.v[2] = 0.5;
	lab.first = 20;
	lab.step = step;
	return lab;
}

static void test_directions(void **state)
{
	tomos_source_options source = tomos_source_defaults();
	(void)state;
	for (int i = 0; i < 2; i++) {
		Lab lab = zeiss_lab(i ? 2 : -2);
		OleWriter *w = make_scan(&lab, i ? 5 : 10, i == 0);
		w->scatter = i;
		assert_true(ole_write(w, at("a.txrm")));
		source.i0 = i ? "60000" : "";
		assert_object_at(at("a.txrm"), &source, 0);
	}
}

/* A view that is displaced by whole pixels, with the shifts that correct it. */
static void test_shifts(void **state)
{
	Lab lab = zeiss_lab(2);
	double shifts[2][LAB_VIEWS];
	(void)state;
	lab.views = 4;
	OleWriter *w = make_scan(&lab, 5, true);
	float *counts = lab_counts(&lab), *moved = malloc(LAB_ROWS * LAB_COLUMNS * sizeof *moved);
	for (int v = 0; v < 4; v++) {
		int dx = v - 1, dy = 2 - v; /* correct the view */
		char name[64];
		for (int r = 0; r < LAB_ROWS; r++)
			for (int c = 0; c < LAB_COLUMNS; c++) {
				int from = r + dy, to = c + dx;
				bool in =
					from >= 0 && from < LAB_ROWS && to >= 0 && to < LAB_COLUMNS;
				moved[r * LAB_COLUMNS + c] =
					in ? counts[(v * LAB_ROWS + from) * LAB_COLUMNS + to]
					   : 60000;
			}
		shifts[0][v] = dx;
		shifts[1][v] = dy;
		snprintf(name, sizeof name, "ImageData1/Image%d", v + 1);
		put_image(w, name, moved, LAB_ROWS * LAB_COLUMNS, 5);
	}
	put_floats(w, "Alignment/X-Shifts", shifts[0], 4);
	put_floats(w, "Alignment/Y-Shifts", shifts[1], 4);
	assert_true(ole_write(w, at("a.txrm")));
	tomos_prepared *p = lab_open(at("a.txrm"), NULL, NULL);
	assert_projections(p, 1e-3);
	tomos_prepared_close(p);
	free(counts);
	free(moved);
}

static void test_parallel(void **state)
{
	Lab lab = zeiss_lab(2);
	tomos_scan_info info = {.bytes = sizeof info};
	tomos_scan *scan;
	(void)state;
	OleWriter *w = make_scan(&lab, 5, true);
	put_int(w, "ImageInfo/XrayGeometry", 2);
	assert_true(ole_write(w, at("a.txrm")));
	assert_ok(tomos_scan_open(&scan, at("a.txrm"), NULL));
	assert_ok(tomos_scan_describe(scan, &info));
	assert_string_equal(info.geometry, "parallel");
	assert_true(fabs(info.pixel - 0.2) < 1e-6 && isnan(info.axis) && info.flats == 1);
	tomos_scan_close(scan);
}

/* An image with more sectors than the tables in the header can list. */
static void test_large(void **state)
{
	enum { SIDE = 2048 };
	Lab lab = {.views = 1, .rows = SIDE, .columns = SIDE};
	OleWriter *w = ole_new();
	float *data = malloc(SIDE * SIDE * sizeof *data), row[SIDE];
	tomos_scan *scan;
	(void)state;
	for (int i = 0; i < SIDE * SIDE; i++)
		data[i] = (float)(i % 65521);
	put_head(w, &lab, 2, 5);
	put_image(w, "ImageData1/Image1", data, SIDE * SIDE, 5);
	w->scatter = 1;
	assert_true(ole_write(w, at("large.xrm")));
	assert_ok(tomos_scan_open(&scan, at("large.xrm"), NULL));
	for (int r = 0; r < SIDE; r += 97) {
		assert_ok(tomos_scan_read(scan, TOMOS_VIEWS, 0, 1, r, 1, row));
		for (int c = 0; c < SIDE; c++)
			assert_true(row[c] == data[r * SIDE + SIDE - 1 - c]);
	}
	tomos_scan_close(scan);
	free(data);
}

static void test_rejections(void **state)
{
	Lab lab = zeiss_lab(2);
	tomos_scan *scan;
	(void)state;
	lab.views = 3;
	lab.rows = 4;
	lab.columns = 5;
	assert_true(ole_write(make_scan(&lab, 5, true), at("a.txrm")));
	assert_damage(at("a.txrm"), 100000);
	OleWriter *w = make_scan(&lab, 5, true);
	put_int(w, "ImageInfo/DataType", 7);
	assert_true(ole_write(w, at("a.txrm")));
	assert_int_equal(tomos_scan_open(&scan, at("a.txrm"), NULL), TOMOS_UNSUPPORTED);
	assert_says("has images of type 7");
	w = make_scan(&lab, 5, true);
	put_int(w, "ImageInfo/NoOfImages", 4);
	assert_true(ole_write(w, at("a.txrm")));
	assert_int_equal(tomos_scan_open(&scan, at("a.txrm"), NULL), TOMOS_BAD_FILE);
	assert_says("does not have 'ImageData1/Image4'");
	w = make_scan(&lab, 5, true);
	put_int(w, "ImageInfo/AcquisitionMode", 2);
	assert_true(ole_write(w, at("a.txrm")));
	assert_int_equal(tomos_scan_open(&scan, at("a.txrm"), NULL), TOMOS_BAD_FILE);
	assert_says("not projections");
}

/* A scan that was ended early: the images that were taken. */
static void test_ended(void **state)
{
	tomos_scan_info info = {.bytes = sizeof info};
	tomos_scan *scan;
	Lab lab = lab_make();
	(void)state;
	lab.views = 3;
	OleWriter *w = make_scan(&lab, 5, true);
	put_int(w, "ImageInfo/NoOfImages", 5);
	put_int(w, "ImageInfo/ImagesTaken", 3);
	assert_true(ole_write(w, at("a.txrm")));
	assert_ok(tomos_scan_open(&scan, at("a.txrm"), NULL));
	assert_ok(tomos_scan_describe(scan, &info));
	assert_true(info.views == 3 && info.has_angles);
	assert_non_null(strstr(info.read, "3 of 5 images were taken"));
	tomos_scan_close(scan);
	w = make_scan(&lab, 5, true);
	put_int(w, "ImageInfo/NoOfImages", 5);
	put_int(w, "ImageInfo/ImagesTaken", 4);
	assert_true(ole_write(w, at("a.txrm")));
	assert_int_equal(tomos_scan_open(&scan, at("a.txrm"), NULL), TOMOS_BAD_FILE);
	assert_says("does not have 'ImageData1/Image4'");
}

/* The two files of the data-exchange project, where they are there. */
static void test_samples(void **state)
{
	const char *data = getenv("TOMOS_DATA");
	char path[512];
	tomos_scan_info info = {.bytes = sizeof info};
	tomos_scan *scan;
	double x[7], y[7];
	float row[256];
	(void)state;
	snprintf(path, sizeof path, "%s/zeiss/txrm_test_chip_tomo.txrm", data ? data : ".");
	if (access(path, R_OK) != 0) {
		print_message("skipped: the samples of Zeiss are not there\n");
		skip();
	}
	assert_ok(tomos_scan_open(&scan, path, NULL));
	assert_ok(tomos_scan_describe(scan, &info));
	assert_true(info.views == 7 && info.rows == 256 && info.columns == 256);
	assert_true(fabs(info.pixel - 0.1558e-3) < 1e-7);
	assert_ok(tomos_scan_angles(scan, x));
	assert_true(fabs(x[0] * 180 / M_PI - 45.018) < 1e-3);
	assert_ok(tomos_scan_shifts(scan, x, y));
	assert_ok(tomos_scan_read(scan, TOMOS_VIEWS, 6, 1, 128, 1, row));
	assert_true(row[100] > 0);
	tomos_scan_close(scan);
	snprintf(path, sizeof path, "%s/zeiss/test_chip00.xrm", data);
	assert_ok(tomos_scan_open(&scan, path, NULL));
	assert_ok(tomos_scan_describe(scan, &info));
	assert_int_equal(info.views, 1);
	tomos_scan_close(scan);
}

#define TESTS(T) \
	T(test_directions), T(test_shifts), T(test_parallel), T(test_large), T(test_rejections), \
		T(test_ended), T(test_samples)
TEST_MAIN(TESTS, scratch_make, scratch_remove)
