/* Varian's .xim, .hnd and .hnc: packed differences, properties, both directions, air scans. */
#include "run/scanner_help.h"

static void put_double(FILE *file, double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof bits);
	put_number(file, bits, 8);
}

/* The codes, which say how many bytes each difference has, and then the differences; `sized`: with
 * their sizes before them. */
static void put_packed(FILE *file, int64_t rows, int64_t columns, const float *data, bool sized)
{
	int64_t count = rows * columns, whole = columns + 1, bytes = 4 * whole;
	unsigned char *codes = calloc((size_t)count, 1);
	int32_t *numbers = calloc((size_t)count, sizeof *numbers);
	for (int64_t i = 0; i < count; i++) {
		numbers[i] = (int32_t)data[i];
		if (i < whole)
			continue;
		numbers[i] -= (int32_t)data[i - 1] + (int32_t)data[i - columns] -
			      (int32_t)data[i - columns - 1];
		int code = numbers[i] >= -128 && numbers[i] < 128       ? 0
			   : numbers[i] >= -32768 && numbers[i] < 32768 ? 1
									: 2;
		codes[(i - whole) / 4] |= (unsigned char)(code << 2 * ((i - whole) % 4));
		bytes += 1 << code;
	}
	int64_t tables = sized ? (count - whole + 3) / 4 : (rows - 1) * columns / 4;
	if (sized)
		put_number(file, (uint64_t)tables, 4);
	fwrite(codes, 1, (size_t)tables, file);
	if (sized)
		put_number(file, (uint64_t)bytes, 4);
	for (int64_t i = 0; i < count; i++) {
		int code = i < whole ? 2 : codes[(i - whole) / 4] >> 2 * ((i - whole) % 4) & 3;
		put_number(file, (uint64_t)(int64_t)numbers[i], 1 << code);
	}
	free(codes);
	free(numbers);
}

static int xim_plain; /* bytes per pixel of files without compression; 0: compressed */

/* The reading of the chamber is not written where it is 0. */
static void put_xim(const char *path, const Lab *lab, const float *data, double angle, int chamber)
{
	FILE *file = fopen(path, "wb");
	assert_non_null(file);
	fwrite("VMS.XI\0", 1, 8, file);
	const int64_t head[] = {1, lab->columns, lab->rows, 8 * (xim_plain ? xim_plain : 4),
		xim_plain ? xim_plain : 4, xim_plain == 0};
	for (int i = 0; i < COUNT(head); i++)
		put_number(file, (uint64_t)head[i], 4);
	if (!xim_plain)
		put_packed(file, lab->rows, lab->columns, data, true);
	put_number(file, (uint64_t)((xim_plain ? xim_plain : 4) * lab->rows * lab->columns), 4);
	for (int64_t i = 0; xim_plain && i < lab->rows * lab->columns; i++)
		put_number(file, (uint64_t)data[i], xim_plain);
	put_number(file, 2, 4); /* histogram */
	put_number(file, 7, 8);
	put_number(file, chamber ? 4 : 3, 4); /* properties */
	if (chamber) {
		put_number(file, 13, 4);
		fputs("KVNormChamber", file);
		put_number(file, 0, 4);
		put_number(file, (uint64_t)chamber, 4);
	}
	put_number(file, 4, 4);
	fputs("Name", file);
	put_number(file, 2, 4);
	put_number(file, 3, 4);
	fputs("abc", file);
	put_number(file, 11, 4);
	fputs("KVSourceRtn", file);
	put_number(file, 1, 4);
	put_double(file, angle);
	put_number(file, 5, 4);
	fputs("Frame", file);
	put_number(file, 0, 4);
	put_number(file, 9, 4);
	assert_int_equal(fclose(file), 0);
}

static void put_older(
	const char *path, const Lab *lab, const float *data, double angle, int chamber, bool hnc)
{
	unsigned char head[1024] = "Varian_VA_INTERNAL_1.0";
	int64_t sizes[2] = {lab->columns, lab->rows};
	const struct {
		int at;
		double value;
	} numbers[] = {{352, 0.5}, {360, 0.5}, {432, angle}, {440, chamber}};
	for (int i = 0; i < 8; i++)
		head[120 + i] = (unsigned char)(sizes[i / 4] >> 8 * (i % 4));
	for (int i = 0; i < COUNT(numbers); i++)
		memcpy(head + numbers[i].at, &numbers[i].value, 8);
	FILE *file = fopen(path, "wb");
	assert_non_null(file);
	fwrite(head, 1, hnc ? 512 : 1024, file);
	for (int64_t i = 0; hnc && i < lab->rows * lab->columns; i++)
		put_number(file, (uint64_t)data[i], 2);
	if (!hnc)
		put_packed(file, lab->rows, lab->columns, data, false);
	assert_int_equal(fclose(file), 0);
}

static void put_views(const Lab *lab, const char *ending)
{
	float *counts = lab_counts(lab);
	for (int64_t i = 0; i < lab->views; i++) {
		const float *data = counts + i * lab->rows * lab->columns;
		double angle = lab->first + lab->step * (double)i;
		char name[64];
		snprintf(name, sizeof name, "a/b/Proj_%05d.%s", (int)i, ending);
		if (strcmp(ending, "xim") == 0)
			put_xim(at(name), lab, data, -angle, 0);
		else
			put_older(at(name), lab, data, angle, 0, strcmp(ending, "hnc") == 0);
	}
	free(counts);
}

/* `more` is other elements. */
static void put_setup(double lateral, const char *more)
{
	char text[900];
	snprintf(text, sizeof text,
		"<Scan "
		"xmlns=\"http://baseline.varian.com/schemas/Scan.xsd\"><Acquisitions><SAD>200</SAD>"
		"<SID>500</SID><ImagerResX>0.5</ImagerResX><ImagerResY>0.5</ImagerResY>"
		"<ImagerLat>%g</ImagerLat>%s</Acquisitions></Scan>",
		lateral, more);
	put_words(at("Scan.xml"), text);
}

static void test_views(void **state)
{
	static const char *const endings[] = {"xim", "hnd", "hnc"};
	(void)state;
	mkdir(at("a"), 0700);
	mkdir(at("a/b"), 0700);
	for (int i = 0; i < 3; i++) {
		tomos_source_options o = tomos_source_defaults();
		Lab lab = lab_make();
		char name[64];
		lab.u[0] = lab.v[2] = 0.5;
		lab.step = i % 2 ? -2 : 2;
		lab.first = 15;
		lab.detector[0] = i ? 1.2 : -0.9;
		put_views(&lab, endings[i]);
		put_setup(lab.detector[0], "");
		snprintf(name, sizeof name, "a/b/Proj_00003.%s", endings[i]);
		o.i0 = "60000";
		tomos_prepared *p = lab_open(at(name), &o, NULL);
		assert_projections(p, 1e-3);
		assert_volume(p, 0.005);
		tomos_prepared_close(p);
	}
}

/* Files without compression, and what stays of them when they are damaged. */
static void test_plain(void **state)
{
	tomos_source_options o = tomos_source_defaults();
	tomos_scan *scan;
	Lab lab = lab_make();
	(void)state;
	o.i0 = "60000";
	lab.u[0] = lab.v[2] = 0.5;
	mkdir(at("a"), 0700);
	mkdir(at("a/b"), 0700);
	put_setup(0, "");
	for (xim_plain = 2; xim_plain <= 4; xim_plain += 2) {
		put_views(&lab, "xim");
		tomos_prepared *p = lab_open(at("a/b/Proj_00003.xim"), &o, NULL);
		assert_projections(p, 1e-3);
		tomos_prepared_close(p);
	}
	lab.rows = lab.columns = 20;
	for (int i = 0; i < 2; i++) {
		xim_plain = i ? 3 : 4;
		put_xim(at("a/b/Proj_00000.xim"), &lab, (float[400]){1}, 1, 0);
		if (i == 0)
			assert_damage(at("a/b/Proj_00000.xim"), 400);
	}
	xim_plain = 0;
	assert_int_not_equal(tomos_scan_open(&scan, at("a/b/Proj_00000.xim"), NULL), TOMOS_OK);
	assert_says("has 1200 bytes of 3 per pixel for 20 rows x 20 columns");
	put_xim(at("a/b/Proj_00000.xim"), &lab, (float[400]){1}, 1, 0);
	FILE *file = fopen(at("a/b/Proj_00000.xim"), "r+b");
	assert_int_equal(fseek(file, 28, SEEK_SET), 0);
	put_number(file, 2, 4);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(tomos_scan_open(&scan, at("a/b/Proj_00000.xim"), NULL), TOMOS_UNSUPPORTED);
	assert_says("has compression 2; 0 (none) and 1 can be read");
}

/* ---- air ----------------------------------------------------------------------------------- */

enum { AIR_STEP = 60 }; /* degrees between air scans */

/* Counts of air per unit of exposure, piecewise linear in the angle of the source. */
static double air_at(double angle, int64_t column, bool several)
{
	double turn = angle / AIR_STEP - 6 * floor(angle / AIR_STEP / 6), node = floor(turn);
	const double nodes[7] = {1, 1.2, 0.9, 1.1, 1.3, 0.8, 1};
	int i = (int)node;
	double part = nodes[i] + (turn - node) * (nodes[i + 1] - nodes[i]);
	return 60 * (several ? part : 1) * (1 + 0.004 * (double)column);
}

/* One air scan, in the type of the views. */
static void put_air(const Lab *lab, const char *name, double angle, int chamber, bool several)
{
	float data[LAB_ROWS * LAB_COLUMNS];
	for (int i = 0; i < COUNT(data); i++)
		data[i] = (float)round(chamber * air_at(angle, i % LAB_COLUMNS, several));
	if (strstr(name, ".xim"))
		put_xim(at(name), lab, data, angle, chamber);
	else
		put_older(at(name), lab, data, angle, chamber, false);
}

/* Views of different exposure in front of that air. */
static void put_exposed(const Lab *lab, const char *ending, bool several)
{
	bool xim = strcmp(ending, "xim") == 0;
	float *counts = lab_counts(lab);
	for (int64_t i = 0; i < lab->views; i++) {
		float *data = counts + i * lab->rows * lab->columns;
		double angle = (xim ? -1 : 1) * (lab->first + lab->step * (double)i);
		int chamber = 900 + 7 * (int)(i % 23);
		char name[64];
		for (int64_t k = 0; k < lab->rows * lab->columns; k++)
			data[k] = (float)round((double)data[k] / lab->white * chamber *
					       air_at(angle, k % lab->columns, several));
		snprintf(name, sizeof name, "a/b/Proj_%05d.%s", (int)i, ending);
		if (xim)
			put_xim(at(name), lab, data, angle, chamber);
		else
			put_older(at(name), lab, data, angle, chamber, false);
	}
	free(counts);
}

static void make_air_folders(void)
{
	static const char *const folders[] = {"Calibrations", "Calibrations/SC-1",
		"Calibrations/Air-2", "Calibrations/Air-2/Current"};
	for (int i = 0; i < COUNT(folders); i++)
		mkdir(at(folders[i]), 0700);
}

static Lab air_lab(int i)
{
	Lab lab = lab_make();
	lab.u[0] = lab.v[2] = 0.5;
	lab.step = i ? -2 : 2;
	lab.first = 15;
	lab.detector[0] = i ? 1.2 : -0.9;
	lab.white = 1e6; /* to the rounding of the counts below */
	return lab;
}

/* One air scan, with and without the bowtie filter; the other one is of something else. */
static void test_air(void **state)
{
	(void)state;
	make_air_folders();
	for (int i = 0; i < 2; i++) {
		Lab lab = air_lab(i);
		const char *ending = i ? "hnd" : "xim";
		char name[64];
		put_setup(lab.detector[0], i ? "<Bowtie>None</Bowtie>" : "<Bowtie>Half</Bowtie>");
		put_exposed(&lab, ending, false);
		for (int k = 0; k < 2; k++) {
			snprintf(name, sizeof name, "Calibrations/Air-2/Current/%s.%s",
				k ? "Filter" : "FilterBowtie", ending);
			put_air(&lab, name, 0, k == i ? 1100 : 13, k != i);
		}
		snprintf(name, sizeof name, "Calibrations/SC-1/Filter.%s", ending);
		put_air(&lab, name, 0, 17, true);
		snprintf(name, sizeof name, "a/b/Proj_00003.%s", ending);
		assert_rays(at(name));
	}
}

/* Air scans at several angles, one set for each direction of the gantry. */
static void test_rotating_air(void **state)
{
	(void)state;
	make_air_folders();
	for (int i = 0; i < 2; i++) {
		Lab lab = air_lab(i);
		const char *way = i ? "CW" : "CC", *other = i ? "CC" : "CW";
		put_setup(lab.detector[0],
			i ? "<StartAngle>180</StartAngle><StopAngle>-180</StopAngle><Bowtie>Half</"
			    "Bowtie>"
			  : "<StartAngle>-180</StartAngle><StopAngle>180</StopAngle>"
			    "<Bowtie>Half</Bowtie>");
		put_exposed(&lab, "xim", true);
		for (int k = 0; k < 6; k++) {
			char name[80];
			snprintf(name, sizeof name,
				"Calibrations/Air-2/Current/FilterBowtie_%s_%d.xim", way, k);
			put_air(&lab, name, AIR_STEP * ((k + 2) % 6), 1000 + 50 * k, true);
			snprintf(name, sizeof name,
				"Calibrations/Air-2/Current/FilterBowtie_%s_%d.xim", other, k);
			put_air(&lab, name, AIR_STEP * k, 10, false);
		}
		assert_rays(at("a/b/Proj_00003.xim"));
	}
}

/* Air scans in two folders are not used; without readings of a chamber exposures are equal. */
static void test_air_open(void **state)
{
	Lab lab = air_lab(0);
	tomos_scan *scan;
	tomos_scan_info info = {.bytes = sizeof info};
	(void)state;
	put_setup(0, "<Bowtie>None</Bowtie>");
	put_exposed(&lab, "xim", false);
	put_air(&lab, "Calibrations/Air-2/Filter.xim", 0, 1000, false);
	unlink(at("Calibrations/Air-2/Current/Filter.xim"));
	put_xim(at("a/b/Proj_00007.xim"), &lab, (float[LAB_ROWS * LAB_COLUMNS]){1}, 1, 0);
	assert_ok(tomos_scan_open(&scan, at("a/b/Proj_00001.xim"), NULL));
	assert_ok(tomos_scan_describe(scan, &info));
	assert_true(info.flats == 1 && strcmp(info.type, "int32") == 0);
	assert_non_null(strstr(info.read, "exposures are not known"));
	tomos_scan_close(scan);
	put_air(&lab, "Calibrations/Air-2/Current/Filter.xim", 0, 1000, false);
	assert_ok(tomos_scan_open(&scan, at("a/b/Proj_00001.xim"), NULL));
	assert_ok(tomos_scan_describe(scan, &info));
	assert_int_equal(info.flats, 0);
	assert_non_null(strstr(info.read, "are in 2 folders of Calibrations; none is used"));
	tomos_scan_close(scan);
	unlink(at("Calibrations/Air-2/Filter.xim"));
	assert_damage(at("Calibrations/Air-2/Current/Filter.xim"), 20000);
}

static void test_rejections(void **state)
{
	tomos_scan *scan;
	(void)state;
	assert_damage(at("a/b/Proj_00000.xim"), 100);
	assert_damage(at("a/b/Proj_00000.hnd"), 600);
	put_words(at("Scan.xml"), "<Scan><SAD>1</SAD></Scan>");
	assert_int_equal(tomos_scan_open(&scan, at("a/b/Proj_00000.xim"), NULL), TOMOS_BAD_FILE);
	assert_says("does not have 'CalibratedSID'");
	unlink(at("Scan.xml"));
	assert_int_equal(tomos_scan_open(&scan, at("a/b/Proj_00000.xim"), NULL), TOMOS_BAD_FILE);
	assert_says("there is no Scan.xml or ProjectionInfo.xml");
}

#define TESTS(T) \
	T(test_views), T(test_plain), T(test_air), T(test_rotating_air), T(test_air_open), \
		T(test_rejections)
TEST_MAIN(TESTS, scratch_make, scratch_remove)
