/* Nikon's .xtekct: geometry from the keys, both signs of everything that has one. */
#include "run/nikon_help.h"

static void check(const Case *c)
{
	put_scan(c);
	assert_object(at("part.xtekct"));
}

static void test_directions_and_offsets(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		double sign = i & 1 ? -1 : 1, other = i & 2 ? -1 : 1;
		check(&(Case){.first = 30 * other,
			.step = 2 * sign,
			.object = 0.35 * other,
			.detector = {0.8 * sign, 0.9 * other}});
	}
}

static void test_axes(void **state)
{
	(void)state;
	check(&(Case){.step = 2, .object = 0.2, .roll = 0.5});
	check(&(Case){.step = 2, .object = -0.2, .roll = -0.6, .older = true});
	check(&(Case){.step = 2, .object = -0.2, .roll = -0.6, .older = true, .both = true});
	check(&(Case){.step = -2, .roll = 0.4, .tilt = -0.5});
}

static void reject(const char *text, const char *message)
{
	tomos_scan *scan;
	put_words(at("part.xtekct"), text);
	assert_int_not_equal(tomos_scan_open(&scan, at("part.xtekct"), NULL), TOMOS_OK);
	assert_says(message);
}

static void test_rejections(void **state)
{
	(void)state;
	put_scan(&(Case){.step = 2});
	assert_damage(at("part.xtekct"), 1000);
	reject("[XTekCT]\nName=part\n", "does not have 'SrcToObject'");
	reject("[XTekCT]\nSrcToObject=-3\n", "'SrcToObject' is -3; it must be greater than 0");
	reject("[XTekCT]\nSrcToObject=x\n", "'SrcToObject' is 'x', which is not a number");
	reject("[XTekCT]\nName=other\nSrcToObject=2\nSrcToDetector=5\nDetectorPixelsX=4\n"
	       "DetectorPixelsY=3\nDetectorPixelSizeX=1\nDetectorPixelSizeY=1\nProjections=2\n"
	       "AngularStep=1\n",
		"rename these files, or correct their name in a copy of");
	reject("[XTekCT]\nName=part\nSrcToObject=2\nSrcToDetector=5\nDetectorPixelsX=4\n"
	       "DetectorPixelsY=3\nDetectorPixelSizeX=1\nDetectorPixelSizeY=1\nProjections=2\n"
	       "AngularStep=1\n",
		"says 3 rows x 4 columns, and the frames have 48 x 80");
}

/* Options that replace what the file says, or read it the other way. */
static void test_options(void **state)
{
	tomos_source_options source = tomos_source_defaults();
	tomos_scan_options o = tomos_scan_defaults();
	tomos_scan_info info = {.bytes = sizeof info};
	tomos_scan *scan;
	(void)state;
	put_scan(&(Case){.step = 2, .object = 0.35});
	put_xtekct(
		at("part.xtekct"), &(Case){.step = -2, .object = -0.35}, &(Lab){.rows = LAB_ROWS});
	double axis = 0.5 * (LAB_COLUMNS - 1) + 0.35 * 500 / 200 / 0.5;
	o.pixel = 0;
	o.reverse = 1;
	o.axis = &axis;
	o.axis_count = 1;
	o.swivel = atan(0.35 / 200); /* the other way than that of the file */
	tomos_prepared *p = lab_open(at("part.xtekct"), NULL, &o);
	assert_volume(p, 0.01);
	tomos_prepared_close(p);
	source.i0 = "auto";
	assert_ok(tomos_scan_open(&scan, at("part.xtekct"), &source));
	assert_ok(tomos_scan_describe(scan, &info));
	assert_true(fabs(info.white - 60000) < 30);
	assert_true(info.direction_known == 1 && strstr(info.read, "axis"));
	tomos_scan_close(scan);
	source.i0 = "many";
	assert_int_equal(tomos_scan_open(&scan, at("part.xtekct"), &source), TOMOS_BAD_VALUE);
	assert_says("i0 is 'many'");
}

typedef struct {
	char text[4000];
} Lines;

static void keep_line(void *user, tomos_level level, const char *line)
{
	Lines *lines = user;
	size_t length = strlen(lines->text);
	(void)level;
	snprintf(lines->text + length, sizeof lines->text - length, "%s\n", line);
}

/* What is unexpected in the file is said: fewer views than files; and where the axis is from. */
static void test_said(void **state)
{
	Lines lines = {""};
	tomos_prepared *p;
	(void)state;
	put_scan(&(Case){.step = 2, .fewer = 30});
	const tomos_job job = {
		.bytes = sizeof job, .scan = at("part.xtekct"), .say = keep_line, .user = &lines};
	assert_ok(tomos_prepared_open(&p, &job, NULL));
	assert_non_null(strstr(lines.text, "the first 150 of 180 frames are used"));
	assert_non_null(strstr(tomos_prepared_note(p), "axis      column 39.50, from"));
	tomos_prepared_close(p);
}

/* The file that is missing is named, and what to do about it. */
static void test_missing(void **state)
{
	tomos_scan *scan;
	(void)state;
	put_scan(&(Case){.step = 2});
	assert_int_equal(remove(at("part_0180.tif")), 0);
	assert_int_not_equal(tomos_scan_open(&scan, at("part.xtekct"), NULL), TOMOS_OK);
	assert_says("there are 179 files");
	assert_says("the last ones are missing");
	assert_int_equal(remove(at("part_0050.tif")), 0);
	assert_int_not_equal(tomos_scan_open(&scan, at("part.xtekct"), NULL), TOMOS_OK);
	assert_says("number 50 is missing, after");
	assert_says("the option 'bad-views' 49");
}

/* Names in Latin-1 are those of files in UTF-8. */
static void test_latin(void **state)
{
	Lab lab = lab_make();
	tomos_scan *scan;
	(void)state;
	lab.views = 4;
	float *counts = lab_counts(&lab);
	put_tiffs(&lab, counts, "K\xc3\xb6rper\xc2\xb5_", 4, 1);
	free(counts);
	for (int i = 0; i < 2; i++) {
		put_xtekct(at("part.xtekct"), &(Case){.step = 2, .fewer = LAB_VIEWS - 4}, &lab);
		change(at("part.xtekct"), "Name=part",
			i ? "Name=K\xf6rper\xb5" : "Name=K\xc3\xb6rper\xc2\xb5");
		assert_ok(tomos_scan_open(&scan, at("part.xtekct"), NULL));
		tomos_scan_close(scan);
	}
}

/* A white level that the frames cannot hold, as of frames that were converted, is not used. */
static void test_white(void **state)
{
	tomos_scan_info info = {.bytes = sizeof info};
	tomos_scan *scan;
	(void)state;
	put_scan(&(Case){.step = 2});
	change(at("part.xtekct"), "WhiteLevel=60000", "WhiteLevel=65537");
	assert_ok(tomos_scan_open(&scan, at("part.xtekct"), NULL));
	assert_ok(tomos_scan_describe(scan, &info));
	assert_true(info.white == 0 && info.flats == 0);
	assert_non_null(
		strstr(info.read, "65537 is not used: it is more than frames of type uint16"));
	tomos_scan_close(scan);
}

/* A level that is none leaves the counts without an object to the options. */
static void test_no_white(void **state)
{
	tomos_source_options source = tomos_source_defaults();
	tomos_scan_info info = {.bytes = sizeof info};
	tomos_scan *scan;
	(void)state;
	put_scan(&(Case){.step = 2});
	change(at("part.xtekct"), "WhiteLevel=60000", "WhiteLevel=0");
	assert_ok(tomos_scan_open(&scan, at("part.xtekct"), NULL));
	assert_ok(tomos_scan_describe(scan, &info));
	assert_true(info.white == 0 && info.flats == 0);
	assert_non_null(strstr(info.read, "WhiteLevel is 0 and is not used"));
	tomos_scan_close(scan);
	source.i0 = "60000";
	tomos_prepared *p = lab_open(at("part.xtekct"), &source, NULL);
	assert_projections(p, 1e-3);
	tomos_prepared_close(p);
}

static void assert_noted(const char *words, bool noted)
{
	tomos_scan_info info = {.bytes = sizeof info};
	tomos_scan *scan;
	assert_ok(tomos_scan_open(&scan, at("part.xtekct"), NULL));
	assert_ok(tomos_scan_describe(scan, &info));
	assert_true((strstr(info.read, words) != NULL) == noted);
	tomos_scan_close(scan);
}

/* The size of voxels that the file says shows distances and pixels that are wrong. */
static void test_voxel(void **state)
{
	(void)state;
	put_scan(&(Case){.step = 2});
	change(at("part.xtekct"), "Name=part", "Name=part\r\nVoxelSizeX=0.201");
	assert_noted("VoxelSizeX", false);
	change(at("part.xtekct"), "DetectorPixelSizeX=0.5", "DetectorPixelSizeX=1");
	assert_noted("VoxelSizeX is 0.201 mm, and the distances and pixels make 0.4 mm", true);
}

/* The file is named that has its distances the wrong way round. */
static void test_swapped(void **state)
{
	tomos_geometry *g;
	tomos_scan *scan;
	(void)state;
	put_scan(&(Case){.step = 2});
	change(at("part.xtekct"), "SrcToObject=200", "SrcToObject=500");
	change(at("part.xtekct"), "SrcToDetector=500", "SrcToDetector=200");
	assert_ok(tomos_scan_open(&scan, at("part.xtekct"), NULL));
	assert_int_equal(tomos_scan_geometry(scan, &g, NULL), TOMOS_BAD_FILE);
	assert_says("says that the detector is 200 mm from the source and the axis 500 mm");
	tomos_scan_close(scan);
}

/* So do pixels and angles that few scans have. */
static void test_unusual(void **state)
{
	(void)state;
	put_scan(&(Case){.step = 2});
	assert_noted("times as high", false);
	assert_noted("full turn", false);
	change(at("part.xtekct"), "DetectorPixelSizeY=0.5", "DetectorPixelSizeY=5");
	change(at("part.xtekct"), "AngularStep=2", "AngularStep=4");
	assert_noted("pixels are 10 times as high as wide", true);
	assert_noted("the views go round 716 degrees, which is more than a full turn", true);
}

/* Names of views without a separator, and a file that begins with a byte order mark. */
static void test_separator(void **state)
{
	Lab lab = lab_make();
	tomos_scan *scan;
	size_t length;
	(void)state;
	lab.views = 4;
	float *counts = lab_counts(&lab);
	put_tiffs(&lab, counts, "none", 4, 1);
	free(counts);
	put_xtekct(at("part.xtekct"), &(Case){.step = 2, .fewer = LAB_VIEWS - 4}, &lab);
	change(at("part.xtekct"), "Name=part", "Name=none");
	change(at("part.xtekct"), "InputSeparator=_", "InputSeparator=");
	unsigned char *text = get_file(at("part.xtekct"), &length), marked[4000] = "\xef\xbb\xbf";
	assert_true(length < sizeof marked - 3);
	memcpy(marked + 3, text, length);
	free(text);
	put_file(at("part.xtekct"), marked, length + 3);
	assert_ok(tomos_scan_open(&scan, at("part.xtekct"), NULL));
	tomos_scan_close(scan);
}

/* Flat fields that are given take the place of the white level, which is not said. */
static void test_flats(void **state)
{
	tomos_source_options source = tomos_source_defaults();
	tomos_scan_info info = {.bytes = sizeof info};
	Lines lines = {""};
	tomos_scan *scan;
	tomos_prepared *p;
	(void)state;
	put_scan(&(Case){.step = 2});
	float *flat = malloc(LAB_ROWS * LAB_COLUMNS * sizeof *flat);
	for (int i = 0; i < LAB_ROWS * LAB_COLUMNS; i++)
		flat[i] = 60000;
	put_tiff(at("flat.tif"), LAB_ROWS, LAB_COLUMNS, flat);
	free(flat);
	source.flats = at("flat.tif");
	assert_ok(tomos_scan_open(&scan, at("part.xtekct"), &source));
	assert_ok(tomos_scan_describe(scan, &info));
	assert_true(info.flats == 1 && info.white == 0);
	tomos_scan_close(scan);
	const tomos_job job = {.bytes = sizeof job,
		.scan = at("part.xtekct"),
		.source = &source,
		.say = keep_line,
		.user = &lines};
	assert_ok(tomos_prepared_open(&p, &job, NULL));
	assert_null(strstr(lines.text, "counts without an object"));
	assert_projections(p, 1e-3);
	tomos_prepared_close(p);
}

/* An option that the file makes superfluous is an error. */
static void test_no_effect(void **state)
{
	tomos_scan *scan;
	const tomos_job job = {.bytes = sizeof job};
	int count;
	const tomos_option *rows = tomos_options("axis", &count);
	(void)state;
	put_scan(&(Case){.step = 2});
	assert_ok(tomos_scan_open(&scan, at("part.xtekct"), NULL));
	for (int i = 0; i < count; i++) {
		const uint64_t given[3] = {0, (uint64_t)1 << i, 0};
		bool effect = strcmp(rows[i].name, "direction") == 0;
		assert_int_equal(tomos_job_check(&job, scan, NULL, given),
			effect ? TOMOS_OK : TOMOS_BAD_VALUE);
		if (!effect)
			assert_says("says where the axis is");
	}
	tomos_scan_close(scan);
}

/* What stands for the value of the file where it is not given is an error where it is. */
static void test_defaults_given(void **state)
{
	static const char *const names[] = {"geometry", "roll", "swivel"};
	tomos_scan_options o = tomos_scan_defaults();
	const tomos_job job = {.bytes = sizeof job, .geometry = &o};
	tomos_scan *scan;
	int count;
	const tomos_option *rows = tomos_options("scan", &count);
	(void)state;
	put_scan(&(Case){.step = 2, .roll = 0.5});
	assert_ok(tomos_scan_open(&scan, at("part.xtekct"), NULL));
	for (int i = 0; i < count; i++)
		for (int k = 0; k < COUNT(names); k++) {
			const uint64_t given[3] = {(uint64_t)1 << i, 0, 0};
			if (strcmp(rows[i].name, names[k]) != 0)
				continue;
			bool fine = k == 2; /* the file has none */
			assert_int_equal(tomos_job_check(&job, scan, NULL, given),
				fine ? TOMOS_OK : TOMOS_BAD_VALUE);
			if (!fine)
				assert_says("has no effect");
			if (k == 1)
				assert_says("'roll' 0 has no effect: -0.5 degrees, from");
		}
	tomos_scan_close(scan);
}

/* Frames are mirrored when they are read, any rows of them. */
static void test_flip(void **state)
{
	static const char *const names[] = {"none", "rows", "columns", "both"};
	const int64_t shape[3] = {2, 3, 4};
	float data[24], got[16];
	(void)state;
	for (int i = 0; i < 24; i++)
		data[i] = (float)i;
	write_array(at("a.npy"), TOMOS_PROJECTIONS, shape, data);
	for (int k = 0; k < 4; k++) {
		tomos_source_options o = tomos_source_defaults();
		tomos_scan *scan;
		o.flip = names[k];
		assert_ok(tomos_scan_open(&scan, at("a.npy"), &o));
		assert_ok(tomos_scan_read(scan, TOMOS_VIEWS, 0, 2, 1, 2, got));
		for (int i = 0; i < 16; i++) {
			int view = i / 8, row = 1 + i / 4 % 2, column = i % 4;
			row = k & 1 ? 2 - row : row;
			column = k & 2 ? 3 - column : column;
			assert_true(got[i] == (float)(view * 12 + row * 4 + column));
		}
		/* and so are boxes: rows 0 and 2, columns 1 and 3 */
		assert_ok(tomos_scan_read_box(scan, TOMOS_VIEWS, (int64_t[]){1, 0, 1},
			(int64_t[]){1, 2, 2}, (int64_t[]){1, 2, 2}, got));
		for (int i = 0; i < 4; i++) {
			int row = i / 2 * 2, column = 1 + i % 2 * 2;
			row = k & 1 ? 2 - row : row;
			column = k & 2 ? 3 - column : column;
			assert_true(got[i] == (float)(12 + row * 4 + column));
		}
		tomos_scan_close(scan);
	}
}

#define TESTS(T) \
	T(test_directions_and_offsets), T(test_axes), T(test_rejections), T(test_options), \
		T(test_no_effect), T(test_defaults_given), T(test_said), T(test_missing), \
		T(test_latin), T(test_white), T(test_no_white), T(test_voxel), T(test_swapped), \
		T(test_unusual), T(test_separator), T(test_flats), T(test_flip)
TEST_MAIN(TESTS, scratch_make, scratch_remove)
