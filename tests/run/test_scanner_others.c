/* Phoenix' .pca and the XML files of Diondo and YXLON. */
#include "run/scanner_help.h"

/* One file of uint16, little-endian. */
static void put_raw(const char *path, int64_t count, const float *data)
{
	FILE *file = fopen(path, "wb");
	assert_non_null(file);
	for (int64_t i = 0; i < count; i++)
		put_number(file, (uint64_t)data[i], 2);
	assert_int_equal(fclose(file), 0);
}

static Lab offset_lab(double step, double offset, double white)
{
	Lab lab = lab_make();
	lab.step = step;
	lab.detector[0] = offset;
	lab.white = white;
	return lab;
}

static void put_raws(const Lab *lab, const char *prefix)
{
	float *counts = lab_counts(lab);
	for (int64_t i = 0; i < lab->views; i++) {
		char name[128];
		snprintf(name, sizeof name, "%s%04d.raw", prefix, (int)i);
		put_raw(at(name), lab->rows * lab->columns, counts + i * lab->rows * lab->columns);
	}
	free(counts);
}

static tomos_scan_info described(const char *path)
{
	tomos_scan_info info = {.bytes = sizeof info};
	tomos_scan *scan;
	assert_ok(tomos_scan_open(&scan, path, NULL));
	assert_ok(tomos_scan_describe(scan, &info));
	assert_true(isnan(info.axis) && info.direction_known == 0);
	assert_non_null(strstr(info.read, "may be a mirror image"));
	tomos_scan_close(scan);
	return info;
}

static void assert_noted(const char *path, const char *words)
{
	tomos_scan_info info = {.bytes = sizeof info};
	tomos_scan *scan;
	assert_ok(tomos_scan_open(&scan, path, NULL));
	assert_ok(tomos_scan_describe(scan, &info));
	assert_non_null(strstr(info.read, words));
	tomos_scan_close(scan);
}

static void put_pca(double sector)
{
	char text[1000];
	snprintf(text, sizeof text,
		"[General]\r\nVersion-pca=2\r\n[Geometry]\r\nFDD=500.0\r\nFOD=200.0\r\ncx=12.5\r\n"
		"VoxelSizeX=0.3\r\n"
		"[CT]\r\nNumberImages=%d\r\nRotationSector=%g\r\nFreeRay=50000\r\n[Image]\r\n"
		"DimX=%d\r\nDimY=%d\r\n[Detector]\r\nPixelsizeX=0.5\r\nPixelsizeY=0.5\r\n",
		LAB_VIEWS, sector, LAB_COLUMNS, LAB_ROWS);
	put_words(at("gear.pca"), text);
}

static void test_phoenix(void **state)
{
	tomos_scan *scan;
	(void)state;
	for (int i = 0; i < 2; i++) {
		Lab lab = offset_lab(i ? -2 : 2, i ? 1.5 : -1, 50000);
		float *counts = lab_counts(&lab);
		put_tiffs(&lab, counts, i ? "gear_" : "gear", 4, 1);
		free(counts);
		put_pca(i ? -360 : 360);
		assert_object_at(at("gear.pca"), NULL, lab.detector[0] / 0.5);
	}
	assert_true(described(at("gear.pca")).white == 50000);
	assert_noted(at("gear.pca"), "VoxelSizeX is 0.3 mm, and the distances and pixels make 0.2");
	assert_damage(at("gear.pca"), 1000);
	assert_rejected(at("gear.pca"), "[Geometry]\nFDD = x\nFOD = 2\n", "'FDD' is 'x'");
	assert_rejected(at("gear.pca"), "[General]\nVersion-pca=2\n[Geometry]\nFDD=5\n",
		"does not have 'FOD'");
	put_pca(360);
	put_words(at("gear_0003.tif"), "damaged");
	assert_int_equal(tomos_scan_open(&scan, at("gear.pca"), NULL), TOMOS_BAD_FILE);
	assert_says("gear_0003.tif");
}

/* All views but the last one, without the .pca file. */
static void assert_typed(const char *path, double offset)
{
	tomos_source_options source = tomos_source_defaults();
	tomos_scan_options o = tomos_scan_defaults();
	const double source_axis = 200, source_detector = 500, radians = M_PI / 180;
	double axis = 0.5 * (LAB_COLUMNS - 1) + offset;
	source.i0 = "50000";
	source.flip = "rows";
	o.geometry = "cone";
	o.source_axis = &source_axis, o.source_axis_count = 1;
	o.source_detector = &source_detector, o.source_detector_count = 1;
	o.pixel = o.pixel_height = 0.5;
	o.arc = 358 * radians;
	o.axis = &axis, o.axis_count = 1;
	tomos_prepared *p = lab_open(path, &source, &o);
	assert_projections(p, 1e-3);
	tomos_prepared_close(p);
}

/* Views are named after the .pca file: a copy of another name would look for others. */
static void test_phoenix_advice(void **state)
{
	tomos_scan *scan;
	(void)state;
	Lab lab = offset_lab(2, 0, 50000);
	float *counts = lab_counts(&lab);
	put_tiffs(&lab, counts, "gear_", 4, 1);
	free(counts);
	put_pca(360);
	char from[300];
	snprintf(from, sizeof from, "%s", at("gear.pca"));
	assert_int_equal(rename(from, at("other.pca")), 0);
	assert_int_not_equal(tomos_scan_open(&scan, at("other.pca"), NULL), TOMOS_OK);
	assert_says("copy '");
	assert_says("to the name that these files have before their number");
	put_pca(360);
	assert_int_equal(remove(at("gear_0180.tif")), 0);
	assert_int_not_equal(tomos_scan_open(&scan, at("gear.pca"), NULL), TOMOS_OK);
	assert_says("gear_*.tif' with the option 'geometry' cone, the option 'source-axis' 200mm, "
		    "the option 'source-detector' 500mm, the option 'pixel' 0.5mm, the option "
		    "'pixel-height' 0.5mm, the option 'i0' 50000, the option 'flip' rows and the "
		    "option 'arc' 358");
	char far[400];
	size_t length =
		(size_t)snprintf(far, sizeof far, "%s", at("")); /* the same, in a long path */
	while (length < 240)
		length += (size_t)snprintf(far + length, sizeof far - length, "./");
	snprintf(far + length, sizeof far - length, "gear.pca");
	assert_int_not_equal(tomos_scan_open(&scan, far, NULL), TOMOS_OK);
	assert_says("the option 'arc' 358");
	assert_typed(at("gear_*.tif"), lab.detector[0] / 0.5);
	assert_int_equal(remove(at("gear_0090.tif")), 0);
	assert_int_not_equal(tomos_scan_open(&scan, at("gear.pca"), NULL), TOMOS_OK);
	assert_says("the option 'bad-views'");
}

static void put_diondo(const char *helix, int views)
{
	char text[2000];
	snprintf(text, sizeof text,
		"<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<Scan><ScanParameter><HelixMode>%s"
		"</HelixMode><Laminography>false</Laminography></ScanParameter><Recon>"
		"<ProjectionDimX>%d</ProjectionDimX><ProjectionDimY>%d</ProjectionDimY>"
		"<ProjectionPixelSizeX>0.5</ProjectionPixelSizeX><ProjectionPixelSizeY>0.5"
		"</ProjectionPixelSizeY><ProjectionCount>%d</ProjectionCount>"
		"<ProjectionCenterOffsetX>0.3</ProjectionCenterOffsetX><VolumeVoxelSizeX>0.3</"
		"VolumeVoxelSizeX></Recon><Geometrie>"
		"<SourceDetectorDist>500</SourceDetectorDist><SourceObjectDist>200"
		"</SourceObjectDist><Slices><string>123,45mm</string></Slices></Geometrie></Scan>",
		helix, LAB_COLUMNS, LAB_ROWS, views);
	put_words(at("scan.xml"), text);
}

/* The other direction is read with `reverse`. */
static void assert_reversed(const char *path, double offset)
{
	tomos_scan_options o = tomos_scan_defaults();
	double axis = 0.5 * (LAB_COLUMNS - 1) + offset;
	o.pixel = 0;
	o.axis = &axis;
	o.axis_count = 1;
	o.reverse = 1;
	tomos_prepared *p = lab_open(path, NULL, &o);
	assert_projections(p, 1e-3);
	assert_volume(p, 0.005);
	tomos_prepared_close(p);
}

static void test_diondo(void **state)
{
	tomos_scan *scan;
	(void)state;
	mkdir(at("Projection"), 0700);
	put_diondo("false", LAB_VIEWS);
	Lab lab = offset_lab(-2, 1, 65535);
	put_raws(&lab, "Projection/_0123,45_");
	assert_object_at(at("scan.xml"), NULL, 2);
	lab = offset_lab(2, -1.5, 65535);
	put_raws(&lab, "Projection/_0123,45_");
	assert_reversed(at("scan.xml"), -3);
	assert_true(described(at("scan.xml")).white == 65535);
	assert_noted(at("scan.xml"), "VolumeVoxelSizeX is 0.3 mm, and the distances");
	assert_damage(at("scan.xml"), 2000);
	put_diondo("true", LAB_VIEWS);
	assert_int_equal(tomos_scan_open(&scan, at("scan.xml"), NULL), TOMOS_UNSUPPORTED);
	assert_says("HelixMode");
	put_diondo("false", 181);
	assert_int_equal(tomos_scan_open(&scan, at("scan.xml"), NULL), TOMOS_BAD_FILE);
	assert_says("says 181 views, and there are 180");
}

static void put_yxlon(double arc)
{
	char text[2000];
	snprintf(text, sizeof text,
		"<?xml version=\"1.0\"?>\n<Scan "
		"xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\">"
		"<ConeBeamScanParameter><PixelSize><Width>0.5</Width><Height>0.5</Height></"
		"PixelSize>"
		"<ProjectionSize><Width>%d</Width><Height>%d</Height></ProjectionSize>"
		"<ProjectionBitdepth>16</ProjectionBitdepth><ScanTrajectory "
		"xsi:type=\"CircleTrajectory\"><PixelPitch>0.5</PixelPitch><Fdd>1000</Fdd>"
		"<Fod>400</Fod><YoCenter>0</YoCenter><NumberOfProjections>%d</NumberOfProjections>"
		"<StartAngle>30</StartAngle><Rotation>%g</Rotation></ScanTrajectory>"
		"</ConeBeamScanParameter></Scan>",
		LAB_COLUMNS, LAB_ROWS, LAB_VIEWS, arc);
	put_words(at("ScanParameter.xml"), text);
}

static void test_yxlon(void **state)
{
	(void)state;
	mkdir(at("Projektionen"), 0700);
	for (int i = 0; i < 2; i++) {
		Lab lab = offset_lab(i ? 2 : -2, i ? -1 : 1.5, 65535);
		lab.first = 30;
		lab.v[2] = 0.5;
		put_raws(&lab, "Projektionen/p");
		put_yxlon(i ? -360 : 360);
		assert_object_at(at("ScanParameter.xml"), NULL, lab.detector[0] / 0.5);
	}
	(void)described(at("ScanParameter.xml"));
	assert_damage(at("ScanParameter.xml"), 2000);
	assert_rejected(at("ScanParameter.xml"),
		"<a><ConeBeamScanParameter><PixelSize><Width>0</Width></PixelSize>"
		"</ConeBeamScanParameter></a>",
		"'PixelSize/Width' is 0; it must be 1e-09 to 1e+09");
}

static void test_xml(void **state)
{
	(void)state;
	assert_rejected(at("a.xml"), "<Geometrie><a></Geometrie>", "line 1: mismatched tag");
	assert_rejected(at("a.xml"), "<!DOCTYPE a [<!ENTITY b \"c\">]><Geometrie>&b;</Geometrie>",
		"document type");
	char deep[2000] = "<Geometrie>";
	for (int i = 0; i < 100; i++)
		memcpy(deep + 11 + 3 * i, "<a>", 4);
	assert_rejected(at("a.xml"), deep, "nested more than 64 deep");
}

#define TESTS(T) T(test_phoenix), T(test_phoenix_advice), T(test_diondo), T(test_yxlon), T(test_xml)
TEST_MAIN(TESTS, scratch_make, scratch_remove)
