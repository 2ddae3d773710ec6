/* SkyScan's .log: directions, the line of the optical axis, binning, shifts, connected scans. */
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
	tomos_scan_close(scan);
	put_words(at("bone_TS.crv"), "a\nb\nc\nd\ne\n1 2\n");
	assert_int_equal(tomos_scan_open(&scan, at("bone.log"), NULL), TOMOS_BAD_FILE);
	assert_says("has 1 shifts for 180 views");
	unlink(at("bone_TS.crv"));
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
	assert_rejected(at("bone.log"), "[System]\n[Acquisition]\nObject to Source (mm)=0\n",
		"'Object to Source (mm)' is 0; it must be greater than 0");
}

#define TESTS(T) T(test_directions), T(test_shifts), T(test_rejections)
TEST_MAIN(TESTS, scratch_make, scratch_remove)
