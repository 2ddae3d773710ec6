/* Units of lengths and values in files of all formats, and the grids of TIFF files. */
#include "io_help.h"
#include "base/keys.h"
#include "io/tiff_parts.h"

static const int64_t shape[3] = {4, 3, 5};
enum { N = 4 * 3 * 5 };
static float numbers[N];

static const char *const names[] = {"u.h5", "u.nxs", "u.nii", "u.nii.gz", "u.nrrd", "u.vti",
	"u.mha", "u.mhd", "u.tif", "u.ome.tif", "u.zarr", "u/"};

static void write_with(
	const char *path, const tomos_grid *grid, const char *length, const char *value)
{
	tomos_file_options options = overwriting();
	tomos_file *file;
	assert_ok(tomos_file_create(&file, path, TOMOS_VOLUME, shape, &options));
	if (length || value)
		assert_ok(tomos_file_set_units(file, length, value));
	assert_ok(tomos_file_set_grid(file, grid));
	assert_ok(tomos_file_write(file, 0, 4, numbers));
	assert_ok(tomos_file_commit(file));
	tomos_file_close(file);
}

static void assert_units(
	const char *path, const tomos_grid *grid, const char *length, const char *value)
{
	tomos_file_info info = {.bytes = sizeof info};
	tomos_grid got;
	tomos_file *file;
	assert_ok(tomos_file_open(&file, path, NULL));
	assert_ok(tomos_file_describe(file, &info));
	assert_string_equal(info.length_unit, length);
	assert_string_equal(info.value_unit, value);
	assert_ok(tomos_file_grid(file, &got));
	for (int i = 0; i < 3; i++)
		assert_true(fabs(got.step[i] - grid->step[i]) <= 1e-7 * fabs(grid->step[i]) &&
			    fabs(got.first[i] - grid->first[i]) <= 1e-7);
	tomos_file_close(file);
}

static const tomos_grid sized = {{5, 3, 4}, {-1.7, 2.5, 0.1}, {0.5, -0.26, 2}};
static const tomos_grid ones = {{5, 3, 4}, {-2, 1, -1.5}, {1, -1, 1}};
static const tomos_grid third = {{5, 3, 4}, {-1, 1, -1}, {0.1 / 3, -0.1 / 3, 0.1 / 3}};

/* Integers of NRRD are not in the unit of the values, and say how these follow from them. */
static void scaled_nrrd(void **state)
{
	static const double window[2] = {-1, 3};
	tomos_file_options options = overwriting();
	tomos_file *file;
	char *text;
	int64_t length;
	(void)state;
	options.type = "uint16";
	options.window = window;
	options.window_count = 2;
	assert_ok(tomos_file_create(&file, at("s.nrrd"), TOMOS_VOLUME, shape, &options));
	assert_ok(tomos_file_set_units(file, "mm", "1/mm"));
	assert_ok(tomos_file_set_grid(file, &sized));
	assert_ok(tomos_file_write(file, 0, 4, numbers));
	assert_ok(tomos_file_commit(file));
	tomos_file_close(file);
	assert_units(at("s.nrrd"), &sized, "mm", "1/mm");
	assert_ok(text_read(&text, &length, at("s.nrrd")));
	assert_null(strstr(text, "sample units"));
	assert_non_null(strstr(text, "\noffset:=-1\n"));
	assert_non_null(strstr(text, "\nvalue units:=1/mm\n"));
	mem_free(text);
	write_with(at("s.nrrd"), &sized, "mm", "1/mm");
	assert_ok(text_read(&text, &length, at("s.nrrd")));
	assert_non_null(strstr(text, "\nsample units: 1/mm\n"));
	mem_free(text);
}

/* What is set comes back, and nothing else is claimed. */
static void all_formats(void **state)
{
	(void)state;
	for (int k = 0; k < COUNT(names); k++) {
		const char *path = at(names[k]);
		write_with(path, &sized, "mm", "HU");
		assert_units(path, &sized, "mm", "HU");
		write_with(path, &third, "mm", "1/mm");
		assert_units(path, &third, "mm", "1/mm");
		write_with(path, &ones, "pixel", "1/pixel");
		assert_units(path, &ones, "pixel", "1/pixel");
		write_with(path, &sized, "pixel", "");
		assert_units(path, &sized, "pixel", "");
		write_with(path, &ones, NULL, NULL);
		assert_units(path, &ones, "", "");
		write_with(path, &sized, NULL, NULL); /* the convention */
		assert_units(path, &sized, "mm", "");
		assert_reads(path, shape, numbers);
	}
	assert_int_equal(mem_live(), 0);
}

static void no_claim(void **state)
{
	(void)state;
	for (int k = 0; k < COUNT(names); k++)
		if (!strstr(names[k], "mh")) { /* there, sizes are in mm unless something is said */
			write_with(at(names[k]), &sized, "", "");
			assert_units(at(names[k]), &sized, "", "");
		}
}

/* Units in any order with the grid, and such as would break a header. */
static void orders(void **state)
{
	(void)state;
	static const char *const wrong[] = {"a\"b", "1<2", "sixteen letters.", "a\nb"};
	tomos_file_options options = overwriting();
	tomos_file *file;
	for (int k = 0; k < COUNT(names); k++) {
		assert_ok(tomos_file_create(&file, at(names[k]), TOMOS_VOLUME, shape, &options));
		assert_ok(tomos_file_set_grid(file, &sized));
		assert_ok(tomos_file_set_units(file, "pixel", "HU"));
		assert_ok(tomos_file_set_units(file, NULL, "1/pixel"));
		for (int w = 0; w < COUNT(wrong); w++) {
			assert_int_equal(
				tomos_file_set_units(file, wrong[w], "HU"), TOMOS_BAD_VALUE);
			assert_says("at most 15 letters");
		}
		assert_ok(tomos_file_write(file, 0, 4, numbers));
		assert_ok(tomos_file_commit(file));
		tomos_file_close(file);
		assert_units(at(names[k]), &sized, "pixel", "1/pixel");
	}
}

/* A unit that was set, by name or with the grid, and is then cleared. */
static void cleared(void **state)
{
	(void)state;
	tomos_file_options options = overwriting();
	tomos_file *file;
	for (int k = 0; k < COUNT(names); k++) {
		if (strstr(names[k], "mh"))
			continue;
		assert_ok(tomos_file_create(&file, at(names[k]), TOMOS_VOLUME, shape, &options));
		assert_ok(tomos_file_set_grid(file, &sized));
		assert_ok(tomos_file_set_units(file, NULL, "HU"));
		assert_ok(tomos_file_set_units(file, "", ""));
		assert_ok(tomos_file_write(file, 0, 4, numbers));
		assert_ok(tomos_file_commit(file));
		tomos_file_close(file);
		assert_units(at(names[k]), &sized, "", "");
	}
}

/* A TIFF file as other programs write it. */
static void put_tiff(const char *path, const char *text, int unit)
{
	TIFF *tiff = TIFFOpen(path, "w");
	unsigned char row[5] = {1, 2, 3, 4, 5};
	assert_non_null(tiff);
	for (int page = 0; page < 4; page++) {
		TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, 5);
		TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, 3);
		TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 8);
		TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
		TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
		TIFFSetField(tiff, TIFFTAG_XRESOLUTION, 1 / 0.013);
		TIFFSetField(tiff, TIFFTAG_YRESOLUTION, 1 / 0.026);
		TIFFSetField(tiff, TIFFTAG_RESOLUTIONUNIT, unit);
		if (text[0] && page == 0)
			TIFFSetField(tiff, TIFFTAG_IMAGEDESCRIPTION, text);
		for (uint32_t y = 0; y < 3; y++)
			assert_int_equal(TIFFWriteScanline(tiff, row, y, 0), 1);
		assert_int_equal(TIFFWriteDirectory(tiff), 1);
	}
	TIFFClose(tiff);
}

static void foreign_tiff(void **state)
{
	(void)state;
	tomos_file_info info = {.bytes = sizeof info};
	tomos_file *file;
	const tomos_grid microns = {
		{5, 3, 4}, {-0.026e-3, 0.026e-3, -3e-3}, {0.013e-3, -0.026e-3, 2e-3}};
	const tomos_grid upward = {{5, 3, 4}, {-0.013, -0.052, 0}, {0.013, 0.026, 1}};
	put_tiff(at("x.tif"), "ImageJ=1.53t\nimages=4\nslices=4\nunit=micron\nspacing=2.0\n",
		RESUNIT_NONE);
	assert_units(at("x.tif"), &microns, "mm", "");
	for (int k = 0; k < 2; k++) { /* ImageJ's escape, and Latin-1 */
		put_tiff(at("x.tif"),
			k ? "ImageJ=1.53t\nimages=4\nunit=\xb5m\nspacing=2.0\n"
			  : "ImageJ=1.53t\nimages=4\nunit=\\u00B5m\nspacing=2.0\n",
			RESUNIT_NONE);
		assert_units(at("x.tif"), &microns, "mm", "");
	}
	put_tiff(at("x.tif"), "ImageJ=1.53t\nimages=4\nunit=mm\nxorigin=1\nyorigin=2\nvunit=HU\n",
		RESUNIT_NONE);
	assert_units(at("x.tif"), &upward, "mm", "HU");
	for (int unit = RESUNIT_NONE; unit <= RESUNIT_CENTIMETER; unit++) {
		put_tiff(at("x.tif"), "", unit); /* what a camera or a scanner of paper says */
		assert_ok(tomos_file_open(&file, at("x.tif"), NULL));
		assert_ok(tomos_file_describe(file, &info));
		assert_false(info.has_grid);
		tomos_file_close(file);
	}
}

/* OME's sizes are in micrometres where there is no unit. */
static void foreign_ome(void **state)
{
	(void)state;
	const tomos_grid grid = {
		{5, 3, 4}, {-0.026e-3, 0.026e-3, -3e-3}, {0.013e-3, -0.026e-3, 2e-3}};
	put_tiff(at("o.tif"),
		"<?xml version=\"1.0\"?><OME xmlns=\"x\"><Image><Pixels PhysicalSizeX=\"0.013\" "
		"PhysicalSizeY=\"0.026\" PhysicalSizeZ=\"2\"/></Image></OME>",
		RESUNIT_NONE);
	assert_units(at("o.tif"), &grid, "mm", "");
	put_tiff(at("o.tif"),
		"<?xml version=\"1.0\"?><OME xmlns=\"x\"><Image><Description>wavelengths in nm"
		"</Description><Pixels PhysicalSizeX=\"0.013\" PhysicalSizeY=\"0.026\" "
		"PhysicalSizeZ=\"2\"/></Image></OME>",
		RESUNIT_NONE);
	assert_units(at("o.tif"), &grid, "mm", "");
}

/* A grid with y along increasing rows has no place in OME-XML: read as centred, not as another. */
static void other_directions(void **state)
{
	(void)state;
	const tomos_grid down = {{5, 3, 4}, {-1.7, -2.5, 0.1}, {0.5, 0.26, 2}};
	const tomos_grid centred = {{5, 3, 4}, {-1, 0.26, -3}, {0.5, -0.26, 2}};
	write_with(at("d.ome.tif"), &down, "mm", "1/mm");
	assert_units(at("d.ome.tif"), &centred, "mm", "1/mm");
}

static int begin(void **state)
{
	exact_numbers(numbers, N);
	return scratch_make(state);
}

#define TESTS(T) \
	T(all_formats), T(scaled_nrrd), T(no_claim), T(orders), T(cleared), T(foreign_tiff), \
		T(foreign_ome), T(other_directions)
TEST_MAIN(TESTS, begin, scratch_remove)
