/* Varian's .xim, .hnd and .hnc: packed differences, properties, both directions. */
#include "run/scanner_help.h"

static void put_double(FILE *file, double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof bits);
	put_number(file, bits, 8);
}

/* Codes of the differences first, then the numbers; their sizes before them where `sized`. */
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

static void put_xim(const char *path, const Lab *lab, const float *data, double angle)
{
	FILE *file = fopen(path, "wb");
	assert_non_null(file);
	fwrite("VMS.XI\0", 1, 8, file);
	const int64_t head[] = {1, lab->columns, lab->rows, 32, 4, 1};
	for (int i = 0; i < COUNT(head); i++)
		put_number(file, (uint64_t)head[i], 4);
	put_packed(file, lab->rows, lab->columns, data, true);
	put_number(file, (uint64_t)(4 * lab->rows * lab->columns), 4);
	put_number(file, 2, 4); /* histogram */
	put_number(file, 7, 8);
	put_number(file, 3, 4); /* properties */
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

static void put_older(const char *path, const Lab *lab, const float *data, double angle, bool hnc)
{
	unsigned char head[1024] = "Varian_VA_INTERNAL_1.0";
	int64_t sizes[2] = {lab->columns, lab->rows};
	const struct {
		int at;
		double value;
	} numbers[] = {{352, 0.5}, {360, 0.5}, {432, angle}};
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
			put_xim(at(name), lab, data, -angle);
		else
			put_older(at(name), lab, data, angle, strcmp(ending, "hnc") == 0);
	}
	free(counts);
}

static void put_setup(double lateral)
{
	char text[600];
	snprintf(text, sizeof text,
		"<Scan "
		"xmlns=\"http://baseline.varian.com/schemas/Scan.xsd\"><Acquisitions><SAD>200</SAD>"
		"<SID>500</SID><ImagerResX>0.5</ImagerResX><ImagerResY>0.5</ImagerResY>"
		"<ImagerLat>%g</ImagerLat></Acquisitions></Scan>",
		lateral);
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
		put_setup(lab.detector[0]);
		snprintf(name, sizeof name, "a/b/Proj_00003.%s", endings[i]);
		o.i0 = "60000";
		tomos_prepared *p = lab_open(at(name), &o, NULL);
		assert_projections(p, 1e-3);
		assert_volume(p, 0.005);
		tomos_prepared_close(p);
	}
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

#define TESTS(T) T(test_views), T(test_rejections)
TEST_MAIN(TESTS, scratch_make, scratch_remove)
