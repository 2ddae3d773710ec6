/* Elekta's .his: inverted counts, several frames per file, _Frames.xml, tables of dBase, a panel
 * that sags. */
#include "run/scanner_help.h"

enum { SIDE = 80, HEADER = 32, PER_FILE = 5 };

static Lab elekta_lab(double step, double u, double v)
{
	Lab lab = lab_make();
	double pixel = 409.6 / SIDE;
	lab_scale = 16;
	lab.rows = lab.columns = SIDE;
	lab.axis[1] = 1000;
	lab.detector[0] = -u;
	lab.detector[1] = 1536;
	lab.detector[2] = -v;
	lab.u[0] = lab.v[2] = pixel;
	lab.step = step;
	lab.first = 20;
	lab.white = 65536;
	return lab;
}

/* `frames` views of inverted counts, with an image header of HEADER bytes. */
static void put_his(const char *path, const float *counts, int frames)
{
	const uint16_t head[] = {0x7000, 68, 100, 0, 0, HEADER, 0, 0, SIDE - 1, SIDE - 1,
		(uint16_t)frames, 0, 0, 0, 0, 0, 4};
	FILE *file = fopen(path, "wb");
	assert_non_null(file);
	for (int i = 0; i < 34; i++)
		put_number(file, i < COUNT(head) ? head[i] : 0, 2);
	for (int i = 0; i < HEADER; i++)
		put_number(file, 0xee, 1);
	for (int64_t i = 0; i < (int64_t)frames * SIDE * SIDE; i++)
		put_number(file, (uint64_t)(65536 - counts[i]), 2);
	assert_int_equal(fclose(file), 0);
}

static void put_views(const char *folder, const Lab *lab, int per_file)
{
	float *counts = lab_counts(lab);
	mkdir(at(folder), 0700);
	for (int64_t i = 0; i < lab->views; i += per_file) {
		char name[128];
		snprintf(name, sizeof name, "%s/%05d.his", folder, (int)i + 1);
		put_his(at(name), counts + i * SIDE * SIDE, per_file);
	}
	free(counts);
}

/* How far the panel has sagged in view i, in mm. */
static double sag(double most, int64_t i)
{
	return most * sin(4 * M_PI * (double)i / LAB_VIEWS);
}

/* Angles are between -180 and 180 degrees. */
static void put_frames(const char *folder, const Lab *lab, double most)
{
	char name[128];
	snprintf(name, sizeof name, "%s/_Frames.xml", folder);
	FILE *file = fopen(at(name), "w");
	assert_non_null(file);
	fputs("<?xml version=\"1.0\"?>\n<ProjectionSet><Image><kV>120</kV></Image><Frames>\n",
		file);
	for (int64_t i = 0; i < lab->views; i++)
		fprintf(file,
			"<Frame><Seq>%d</Seq><GantryAngle>%.9f</GantryAngle><Exposed>True</Exposed>"
			"<UCentre>%.9f</UCentre><VCentre>%.9f</VCentre></Frame>\n",
			(int)i + 1, remainder(lab->first + lab->step * (double)i, 360),
			-lab->detector[0] + sag(most, i), -lab->detector[2]);
	fputs("</Frames></ProjectionSet>\n", file);
	assert_int_equal(fclose(file), 0);
}

/* Angles that go on at the other end of a turn are said as they go on. */
static void assert_rotation(const char *words)
{
	tomos_scan_info info = {.bytes = sizeof info};
	tomos_scan *scan;
	assert_ok(tomos_scan_open(&scan, at("one/00001.his"), NULL));
	assert_ok(tomos_scan_describe(scan, &info));
	assert_non_null(strstr(info.read, words));
	tomos_scan_close(scan);
}

static void test_frames(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		Lab lab = elekta_lab(i ? 2 : -2, i ? 7 : -11, i ? -8 : 9);
		put_views("one", &lab, i ? 1 : PER_FILE);
		put_frames("one", &lab, 0);
		assert_object(at("one/00001.his"));
		assert_rotation(i ? "20 to 378 degrees" : "20 to -338 degrees");
		assert_true(i == 1 || unlink(at("one/00006.his")) == 0);
	}
}

/* Views of a panel that moves by two pixels are moved back. */
static void test_sag(void **state)
{
	Lab lab = elekta_lab(2, 0, 0);
	float *counts = malloc((size_t)lab.views * SIDE * SIDE * sizeof *counts);
	double most = 2 * 409.6 / SIDE, x[LAB_VIEWS], y[LAB_VIEWS];
	tomos_scan *scan;
	(void)state;
	for (int64_t i = 0; i < lab.views; i++) {
		Lab one = lab;
		one.views = 1;
		one.first = lab.first + lab.step * (double)i;
		one.detector[0] = -sag(most, i);
		float *view = lab_counts(&one);
		memcpy(counts + i * SIDE * SIDE, view, SIDE * SIDE * sizeof *view);
		free(view);
	}
	mkdir(at("sag"), 0700);
	for (int64_t i = 0; i < lab.views; i++) {
		char name[64];
		snprintf(name, sizeof name, "sag/%05d.his", (int)i + 1);
		put_his(at(name), counts + i * SIDE * SIDE, 1);
	}
	free(counts);
	put_frames("sag", &lab, most);
	assert_ok(tomos_scan_open(&scan, at("sag/00007.his"), NULL));
	assert_ok(tomos_scan_shifts(scan, x, y));
	assert_true(fabs(fabs(x[22]) - 2) < 1e-2 && fabs(y[22]) < 1e-9);
	tomos_scan_close(scan);
	tomos_prepared *p = lab_open(at("sag/00007.his"), NULL, NULL);
	assert_volume(p, 0.005);
	tomos_prepared_close(p);
}

/* ---- tables -------------------------------------------------------------------------------- */

typedef struct {
	const char *name;
	int length;
} Column;

static void put_table(FILE *file, const Column *columns, int count, int records)
{
	int record = 1;
	for (int i = 0; i < count; i++)
		record += columns[i].length;
	put_number(file, 3, 4); /* version, and no date */
	put_number(file, (uint64_t)records, 4);
	put_number(file, (uint64_t)(32 + 32 * count + 1), 2);
	put_number(file, (uint64_t)record, 2);
	for (int i = 0; i < 5; i++)
		put_number(file, 0, 4);
	for (int i = 0; i < count; i++) {
		char name[11] = "";
		snprintf(name, sizeof name, "%s", columns[i].name);
		fwrite(name, 1, sizeof name, file);
		put_number(file, 'C', 1);
		put_number(file, 0, 4);
		put_number(file, (uint64_t)columns[i].length, 1);
		for (int k = 0; k < 15; k++)
			put_number(file, 0, 1);
	}
	put_number(file, 13, 1);
}

/* Frames of another scan, and a deleted one, are between those of this one. */
static void put_tables(const Lab *lab)
{
	static const Column images[] = {{"DBID", 8}, {"DICOM_UID", 20}},
			    frames[] = {{"IMA_DBID", 8}, {"U_CENTRE", 12}, {"V_CENTRE", 12},
				    {"PROJ_ANG", 12}};
	FILE *file = fopen(at("IMAGE.DBF"), "wb");
	assert_non_null(file);
	put_table(file, images, COUNT(images), 2);
	fprintf(file, " %-8s%-20s %-8s%-20s", "7", "1.2.3", "12", "1.9.42");
	assert_int_equal(fclose(file), 0);
	file = fopen(at("FRAME.DBF"), "wb");
	assert_non_null(file);
	put_table(file, frames, COUNT(frames), 2 * (int)lab->views + 1);
	fprintf(file, "*%-8s%12s%12s%12s", "12", "0", "0", "0");
	for (int64_t i = 0; i < lab->views; i++) {
		fprintf(file, " %-8s%12s%12s%12s", "7", "1", "2", "3");
		fprintf(file, " %-8s%12.6f%12.6f%12.6f", "12", -lab->detector[0], -lab->detector[2],
			lab->first + lab->step * (double)i);
	}
	assert_int_equal(fclose(file), 0);
}

static void test_tables(void **state)
{
	(void)state;
	mkdir(at("patient_1"), 0700);
	mkdir(at("patient_1/IMAGES"), 0700);
	for (int i = 0; i < 2; i++) {
		Lab lab = elekta_lab(i ? 2 : -2, i ? -6 : 12, i ? 3 : -5);
		put_views("patient_1/IMAGES/img_1.9.42", &lab, PER_FILE);
		put_tables(&lab);
		assert_rays(at("patient_1/IMAGES/img_1.9.42/00001.his"));
	}
	assert_damage(at("FRAME.DBF"), 400);
	assert_damage(at("IMAGE.DBF"), 400);
}

/* ---- rejections ---------------------------------------------------------------------------- */

static void test_rejections(void **state)
{
	tomos_scan *scan;
	Lab lab = elekta_lab(2, 0, 0);
	(void)state;
	lab.views = 10;
	put_views("bad", &lab, PER_FILE);
	assert_int_equal(tomos_scan_open(&scan, at("bad/00001.his"), NULL), TOMOS_BAD_FILE);
	assert_says("has no DICOM_UID that is in the name of the folder");
	unlink(at("FRAME.DBF"));
	assert_ok(tomos_scan_open(&scan, at("bad/00001.his"), NULL));
	tomos_scan_info info = {.bytes = sizeof info};
	assert_ok(tomos_scan_describe(scan, &info));
	assert_true(!info.has_angles && info.views == 10 && info.source_detector == 1536);
	assert_non_null(strstr(info.read, "angles are not known"));
	tomos_scan_close(scan);
	put_frames("bad", &lab, 0);
	assert_damage(at("bad/00001.his"), 100);
	assert_damage(at("bad/_Frames.xml"), 700);
	lab.views = 9;
	put_frames("bad", &lab, 0);
	assert_int_equal(tomos_scan_open(&scan, at("bad/00001.his"), NULL), TOMOS_BAD_FILE);
	assert_says("lists 9 frames, and there are 10 views");
	put_words(at("bad/_Frames.xml"), "<A><Frame><GantryAngle>1</GantryAngle></Frame></A>");
	assert_int_equal(tomos_scan_open(&scan, at("bad/00001.his"), NULL), TOMOS_BAD_FILE);
	assert_says("does not have 'UCentre'");
}

#define TESTS(T) T(test_frames), T(test_sag), T(test_tables), T(test_rejections)
TEST_MAIN(TESTS, scratch_make, scratch_remove)
