/* SkyScan's .log: directions, the line of the optical axis, binning, shifts of all views and of
 * some, connected scans. */
#include "run/scanner_help.h"

static void put_log(const char *direction, double line, const char *more)
{
	char text[2000];
	snprintf(text, sizeof text,
		"[System]\r\nScanner=SkyScan1172\r\nCamera Pixel Size (um)=  125\r\n"
		"Camera X/Y Ratio=1.0\r\n[Acquisition]\r\nFilename Prefix=bone\r\n"
		"Number Of Files=%d\r\nNumber Of Rows=%d\r\nNumber Of Columns=%d\r\n"
		"Camera binning=4x4\r\nOptical Axis (line)=%g\r\nObject to Source (mm)=200.0\r\n"
		"Camera to Source (mm)=500.0\r\nImage Pixel Size (um)=200\r\nDepth (bits)=16\r\n"
		"Rotation Step (deg)=2.0\r\nUse 360 Rotation=YES\r\nRotation Direction=%s\r\n"
		"Filename Index Length=4\r\nComment=caf\xe9; 20 \xb5m: long\r\n%s",
		LAB_VIEWS, LAB_ROWS, LAB_COLUMNS, line, direction, more);
	put_words(at("bone.log"), text);
}

static Lab skyscan_lab(double step, double line, double offset)
{
	Lab lab = lab_make();
	lab.step = step;
	lab.white = 65536;
	lab.detector[0] = offset;
	lab.detector[2] = -(line - 0.5 * (LAB_ROWS - 1)) * 0.5;
	return lab;
}

/* Air is 65536, one more than a file can hold. */
static float *put_views(const Lab *lab)
{
	float *counts = lab_counts(lab);
	for (int64_t i = 0; i < lab->views * lab->rows * lab->columns; i++)
		counts[i] = fminf(counts[i], 65535);
	put_tiffs(lab, counts, "bone", 4, 0);
	return counts;
}

static void test_directions(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		double line = i ? 21 : 26, offset = i ? 1 : -1.5;
		Lab lab = skyscan_lab(i ? 2 : -2, line, offset);
		free(put_views(&lab));
		put_log(i ? "CW" : "CC", line, "");
		assert_object_at(at("bone.log"), NULL, offset / 0.5);
	}
}

static void test_shifts(void **state)
{
	Lab lab = skyscan_lab(2, 23.5, 0);
	char text[200 * 24] = "a\nb\nc\nd\ne\n";
	tomos_scan *scan;
	double x[LAB_VIEWS], y[LAB_VIEWS];
	(void)state;
	free(put_views(&lab));
	put_log("CW", 23.5, "");
	for (int i = 0; i < LAB_VIEWS; i++)
		snprintf(text + strlen(text), sizeof text - strlen(text), "%d.25\t-%d.5\n", i % 3,
			i % 2);
	put_words(at("bone_TS.crv"), text);
	assert_ok(tomos_scan_open(&scan, at("bone.log"), NULL));
	assert_ok(tomos_scan_shifts(scan, x, y));
	assert_true(x[5] == 2.25 && y[5] == 1.5);
	tomos_scan_info info = {.bytes = sizeof info};
	assert_ok(tomos_scan_describe(scan, &info));
	assert_non_null(strstr(info.read, "note      which way columns run is not documented"));
	assert_non_null(strstr(info.read, "note      shifts of views are taken to the right"));
	tomos_scan_close(scan);
	put_words(at("bone_TS.crv"), "a\nb\nc\nd\ne\n1 2\n");
	assert_int_equal(tomos_scan_open(&scan, at("bone.log"), NULL), TOMOS_BAD_FILE);
	assert_says("has 1 shifts for 180 views");
	unlink(at("bone_TS.crv"));
}

/* Of a scan that was renamed, or whose names are in Latin-1 on this disk as well. */
static void test_names(void **state)
{
	Lab lab = skyscan_lab(2, 23.5, 0);
	float *counts = lab_counts(&lab);
	char from[512];
	(void)state;
	for (int64_t i = 0; i < lab.views * lab.rows * lab.columns; i++)
		counts[i] = fminf(counts[i], 65535);
	mkdir(at("other"), 0700);
	put_tiffs(&lab, counts, "other/caf\xe9", 4, 0);
	free(counts);
	put_log("CW", 23.5, "");
	snprintf(from, sizeof from, "%s", at("bone.log"));
	assert_int_equal(rename(from, at("other/caf\xe9.log")), 0);
	assert_object_at(at("other/caf\xe9.log"), NULL, 0);
	tomos_scan *scan;
	assert_int_equal(remove(at("other/caf\xe9"
				   "0179.tif")),
		0);
	assert_int_equal(tomos_scan_open(&scan, at("other/caf\xe9.log"), NULL), TOMOS_BAD_FILE);
	assert_says("that says 179 views and the name of these reads those that are there");
}

/* Nine of all views, as a matrix of two rows, or of its four numbers and the shifts. */
static void put_transforms(bool rows, double scale, const char *between)
{
	char text[4000] = "Index,View,A,B,C,D,E,F\r\n";
	const char *b = between;
	for (int i = 0; i < 9; i++) {
		double x = 0.5 * i - 1, y = 3 - 0.25 * i;
		const double n[2][6] = {{scale, 0, 0, 1, x, y}, {scale, 0, x, 0, 1, y}};
		char line[200];
		snprintf(line, sizeof line, "%d%s%d%s%g%s%g%s%g%s%g%s%g%s%g\r\n", i, b, 20 * i, b,
			n[rows][0], b, n[rows][1], b, n[rows][2], b, n[rows][3], b, n[rows][4], b,
			n[rows][5]);
		for (char *at = line; *b == ';' && *at; at++)
			*at = *at == '.' ? ',' : *at;
		snprintf(text + strlen(text), sizeof text - strlen(text), "%s", line);
	}
	put_words(at("bone_2DTransform.csv"), text);
}

static void assert_note(const char *words)
{
	tomos_scan *scan;
	tomos_scan_info info = {.bytes = sizeof info};
	assert_ok(tomos_scan_open(&scan, at("bone.log"), NULL));
	assert_ok(tomos_scan_describe(scan, &info));
	assert_false(info.has_shifts);
	assert_non_null(strstr(info.read, words));
	tomos_scan_close(scan);
}

/* The volume of views that were moved as the file says is that of the views where they were. */
static void test_transforms(void **state)
{
	Lab lab = skyscan_lab(2, 23.5, 0);
	double x[LAB_VIEWS], y[LAB_VIEWS];
	tomos_scan *scan;
	(void)state;
	free(put_views(&lab));
	put_log("CW", 23.5, "");
	for (int i = 0; i < 3; i++) {
		put_transforms(i == 1, 1, i == 2 ? ";" : ",");
		assert_ok(tomos_scan_open(&scan, at("bone.log"), NULL));
		assert_ok(tomos_scan_shifts(scan, x, y));
		assert_true(fabs(x[0] + 1) < 1e-12 && fabs(y[0] + 3) < 1e-12);
		assert_true(fabs(x[50] - 0.25) < 1e-12 && fabs(y[50] + 2.375) < 1e-12);
		assert_true(fabs(x[179] - 3) < 1e-12 && fabs(y[179] + 1) < 1e-12);
		tomos_scan_close(scan);
	}
	assert_damage(at("bone_2DTransform.csv"), 300);
	put_transforms(true, 1.1, ",");
	assert_note("it rotates or scales views, by up to 4 pixels");
	put_transforms(true, 2, ",");
	assert_note("six of them are not a matrix near 1");
	put_words(at("bone_2DTransform.csv"), "0,0,1,0,0,1,0,0\n1,0,1,0,0,1,0,0\n");
	assert_int_equal(tomos_scan_open(&scan, at("bone.log"), NULL), TOMOS_BAD_FILE);
	assert_says("line 2: a number, a later view and 6 numbers expected");
	put_words(at("bone_2DTransform.csv"), "index\n");
	assert_int_equal(tomos_scan_open(&scan, at("bone.log"), NULL), TOMOS_BAD_FILE);
	assert_says("has no control points");
	unlink(at("bone_2DTransform.csv"));
}

/* Shifts of rows that are given leave those of columns as the file says. */
static void one_shift_given(const tomos_scan_options *o)
{
	double x[LAB_VIEWS], y[LAB_VIEWS];
	tomos_prep_options prep = tomos_prep_defaults();
	const tomos_job job = {
		.bytes = sizeof job, .scan = at("bone.log"), .geometry = o, .prep = &prep};
	tomos_scan *scan;
	tomos_prepared *p;
	assert_ok(tomos_scan_open(&scan, job.scan, NULL));
	assert_ok(tomos_scan_shifts(scan, x, y));
	tomos_scan_close(scan);
	prep.shift_y = y;
	prep.shift_y_count = LAB_VIEWS;
	assert_ok(tomos_prepared_open(&p, &job, NULL));
	assert_volume(p, 0.005);
	tomos_prepared_close(p);
}

/* Views displaced by control points, both signs, both directions: the object is as it was. */
static void test_displaced(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		double sign = i ? 1 : -1, offset = i ? 1 : -1.5;
		Lab lab = skyscan_lab(i ? 2 : -2, 23.5, offset);
		char text[200];
		for (int64_t v = 0; v < lab.views; v++) {
			Lab one = lab;
			double t = (double)v / (LAB_VIEWS - 1), x = sign * (4 * t - 1),
			       y = sign * (1 - 2 * t);
			char name[64];
			one.views = 1;
			one.first = lab.step * (double)v;
			for (int k = 0; k < 3;
				k++) /* an image to the right: the detector to the left */
				one.detector[k] -= x * lab.u[k] + y * lab.v[k];
			float *counts = lab_counts(&one);
			for (int64_t p = 0; p < lab.rows * lab.columns; p++)
				counts[p] = fminf(counts[p], 65535);
			snprintf(name, sizeof name, "bone%04d.tif", (int)v);
			put_tiff(at(name), lab.rows, lab.columns, counts);
			free(counts);
		}
		put_log(i ? "CW" : "CC", 23.5, "");
		snprintf(text, sizeof text, "0,0,1,0,0,1,%g,%g\n1,%d,1,0,0,1,%g,%g\n", -sign, sign,
			LAB_VIEWS - 1, 3 * sign, -sign);
		put_words(at("bone_2DTransform.csv"), text);
		tomos_scan_options o = tomos_scan_defaults();
		double axis = 0.5 * (LAB_COLUMNS - 1) + offset / 0.5;
		o.pixel = 0;
		o.axis = &axis;
		o.axis_count = 1;
		tomos_prepared *p = lab_open(at("bone.log"), NULL, &o);
		assert_volume(p, 0.005);
		tomos_prepared_close(p);
		one_shift_given(&o);
	}
	unlink(at("bone_2DTransform.csv"));
}

static void take_direction(void *user, tomos_level level, const char *line)
{
	(void)level;
	if (strstr(line, "does not say in which direction"))
		++*(int *)user;
}

/* Where no ray is measured from both sides, neither axis nor direction is found. */
static void test_no_direction(void **state)
{
	tomos_scan_options o = tomos_scan_defaults();
	int said = 0;
	Lab lab = skyscan_lab(2, 23.5, 0);
	tomos_prepared *p;
	(void)state;
	free(put_views(&lab));
	put_log("CC", 23.5, "");
	const tomos_job job = {.bytes = sizeof job,
		.scan = at("bone.log"),
		.geometry = &o,
		.say = take_direction,
		.user = &said};
	o.pixel = 0;
	o.replace_angles = 1;
	for (int i = 0; i < 2; i++) {
		o.arc = i ? 2 * M_PI : 0.5 * M_PI;
		assert_ok(tomos_prepared_open(&p, &job, NULL));
		tomos_prepared_close(p);
		assert_int_equal(said, 1);
	}
}

/* Frames that are not corrected, not joined, or not whole are noted. */
static void test_frames(void **state)
{
	(void)state;
	const Lab lab = skyscan_lab(2, 23.5, 0);
	free(put_views(&lab));
	put_log("CW", 23.5,
		"Scanning Trajectory=ROUND\r\nFlat Field Correction=OFF\r\n"
		"Number Of Horizontal Offset Positions=2\r\n");
	assert_note("Flat Field Correction is OFF");
	assert_note("Number Of Horizontal Offset Positions is 2: frames are taken to be joined");
	put_log("CW", 148, "");
	assert_note("Optical Axis (line) is 148, outside the 48 rows");
}

static void test_rejections(void **state)
{
	tomos_scan *scan;
	(void)state;
	put_log("CW", 23.5, "");
	assert_damage(at("bone.log"), 1000);
	put_log("CW", 23.5, "Number of connected scans=3\r\n");
	assert_int_equal(tomos_scan_open(&scan, at("bone.log"), NULL), TOMOS_BAD_FILE);
	assert_says("describes 3 connected scans: name one of them, like 'bone~00.log'");
	put_log("CW", 23.5, "Scanning Trajectory=HELICAL\r\n");
	assert_int_equal(tomos_scan_open(&scan, at("bone.log"), NULL), TOMOS_UNSUPPORTED);
	assert_says("'Scanning Trajectory' is 'HELICAL'; ROUND can be read");
	assert_rejected(at("bone.log"), "[System]\nScanner=SkyScan1172\n[Acquisition]\n",
		"does not have 'Object to Source (mm)'");
	assert_rejected(at("bone.log"), "[System]\n[Acquisition]\nObject to Source (mm)=0\n",
		"'Object to Source (mm)' is 0; it must be greater than 0");
}

#define TESTS(T) \
	T(test_directions), T(test_shifts), T(test_names), T(test_transforms), T(test_displaced), \
		T(test_no_direction), T(test_frames), T(test_rejections)
TEST_MAIN(TESTS, scratch_make, scratch_remove)
