/* Grids and scans in files, pictures, and the check for numbers that are not finite. */
#include "io_help.h"
#include <dlfcn.h>
#include <math.h>
#include <png.h>
#include <hdf5.h>
#include "geom/geom.h"
#include "io/io.h"

static const int64_t volume[3] = {3, 4, 5}, scan_shape[3] = {4, 2, 6};
static const double angles[4] = {0, 0.5, 1, 1.5};
static float numbers[60];

static void with_grid(const char *path, const tomos_grid *grid)
{
	tomos_file_options options = overwriting();
	tomos_file *file;
	assert_ok(tomos_file_create(&file, path, TOMOS_VOLUME, volume, &options));
	assert_ok(tomos_file_set_grid(file, grid));
	assert_ok(tomos_file_write(file, 0, 3, numbers));
	assert_ok(tomos_file_set_grid(file, grid));
	assert_ok(tomos_file_set_text(file, "method", "none"));
	assert_int_equal(tomos_file_set_text(file, "a/b", "none"), TOMOS_BAD_VALUE);
	assert_says("': a text must be there, with a plain name, not 'a/b'");
	assert_ok(tomos_file_commit(file));
	tomos_file_close(file);
}

static void keeps_grids(void **state)
{
	(void)state;
	tomos_grid grid = {{5, 4, 3}, {-1.25, 0.1, 1e-9}, {0.5, -0.25, 3}}, back;
	tomos_file *file;
	tomos_file_info info = {.bytes = sizeof info};
	with_grid(at("g.h5"), &grid);
	assert_ok(tomos_file_open(&file, at("g.h5"), NULL));
	assert_ok(tomos_file_describe(file, &info));
	assert_true(info.has_grid && !info.has_geometry);
	assert_int_equal(info.content, TOMOS_VOLUME);
	assert_string_equal(info.dataset, "/volume");
	assert_ok(tomos_file_grid(file, &back));
	assert_memory_equal(&back, &grid, sizeof grid);
	tomos_geometry *scan;
	assert_int_equal(tomos_file_geometry(file, &scan), TOMOS_BAD_FILE);
	assert_says("g.h5' does not say its geometry");
	tomos_file_close(file);
	/* A format that cannot keep it says so when described. */
	with_grid(at("g.npy"), &grid);
	assert_ok(tomos_file_open(&file, at("g.npy"), NULL));
	assert_ok(tomos_file_describe(file, &info));
	assert_false(info.has_grid);
	assert_int_equal(tomos_file_grid(file, &back), TOMOS_BAD_FILE);
	assert_says("g.npy' does not say its grid");
	tomos_file_close(file);
	assert_int_equal(mem_live(), 0);
}

static tomos_status write_scan(const char *path, const tomos_geometry *scan, bool commit)
{
	tomos_file_options options = overwriting();
	tomos_file *file;
	TRY(tomos_file_create(&file, path, TOMOS_PROJECTIONS, scan_shape, &options));
	tomos_status status = tomos_file_set_geometry(file, scan);
	if (status == TOMOS_OK)
		status = tomos_file_write(file, 0, 4, numbers);
	if (status == TOMOS_OK && commit)
		status = tomos_file_commit(file);
	tomos_file_close(file);
	return status;
}

static tomos_status read_scan(const char *path, tomos_geometry **scan)
{
	tomos_file *file;
	TRY(tomos_file_open(&file, path, NULL));
	tomos_status status = tomos_file_geometry(file, scan);
	tomos_file_close(file);
	return status;
}

static void keeps_scans(void **state)
{
	(void)state;
	tomos_geometry *scan, *back = NULL;
	assert_ok(tomos_geometry_cone(&scan, 2, 6, 0.5, 100, 150, angles, 4));
	assert_ok(write_scan(at("s.h5"), scan, true));
	assert_ok(read_scan(at("s.h5"), &back));
	assert_int_equal(tomos_geometry_count(back), 4);
	assert_int_equal(tomos_geometry_rows(back), 2);
	assert_int_equal(tomos_geometry_columns(back), 6);
	assert_memory_equal(
		tomos_geometry_list(back), tomos_geometry_list(scan), 4 * sizeof(tomos_view));
	tomos_geometry_free(back);
	tomos_geometry_free(scan);
	assert_int_equal(mem_live(), 0);
}

static void rejects_what_does_not_fit(void **state)
{
	(void)state;
	tomos_geometry *scan;
	tomos_grid grid = {{5, 4, 2}, {0, 0, 0}, {1, 1, 1}};
	tomos_file *file;
	assert_ok(tomos_geometry_parallel(&scan, 2, 5, 1, angles, 4));
	assert_int_equal(write_scan(at("s.h5"), scan, true), TOMOS_BAD_VALUE);
	assert_says("its geometry has 4 views of 2 rows and 5 columns, its data 4 x 2 x 6");
	tomos_geometry_free(scan);
	assert_ok(tomos_file_create(&file, at("n.h5"), TOMOS_VOLUME, volume, NULL));
	assert_int_equal(tomos_file_set_grid(file, &grid), TOMOS_BAD_VALUE);
	assert_says("its grid has 2 x 4 x 5 voxels (z, y, x), its data 3 x 4 x 5");
	grid.n[2] = 3;
	grid.step[1] = 0;
	assert_int_equal(tomos_file_set_grid(file, &grid), TOMOS_BAD_VALUE);
	assert_int_equal(tomos_file_set_grid(file, NULL), TOMOS_BAD_VALUE);
	assert_says("there is no grid");
	assert_int_equal(tomos_file_set_geometry(file, NULL), TOMOS_BAD_VALUE);
	assert_says("there is no geometry to keep");
	assert_int_equal(tomos_file_write(file, 0, 1, NULL), TOMOS_BAD_VALUE);
	assert_says("there is no memory to read to or write from");
	tomos_file_close(file);
	assert_int_equal(
		tomos_file_create(&file, at("n.h5"), TOMOS_VOLUME, NULL, NULL), TOMOS_BAD_VALUE);
	assert_says("is given no shape");
	assert_int_equal(mem_live(), 0);
}

/* Puts named numbers past the checks of the public functions. */
static void put_numbers(const char *path, const char *name, const double *values, int64_t rows,
	int64_t columns, const char *other, const double *more, int64_t count)
{
	tomos_file_options options = overwriting();
	tomos_file *file;
	assert_ok(tomos_file_create(&file, path, TOMOS_PROJECTIONS, scan_shape, &options));
	assert_ok(io_put(file, name, values, (int64_t[]){rows, columns}));
	if (other)
		assert_ok(io_put(file, other, more, (int64_t[]){1, count}));
	assert_ok(tomos_file_write(file, 0, 4, numbers));
	assert_ok(tomos_file_commit(file));
	tomos_file_close(file);
}

/* A geometry of `rows` views of `columns` numbers, and `count` numbers of the detector. */
static void rejects_views(
	int64_t rows, int64_t columns, const double *detector, int64_t count, const char *message)
{
	static double views[5 * VIEW_NUMBERS];
	tomos_geometry *scan;
	put_numbers(at("b.h5"), "geometry/views", views, rows, columns,
		detector ? "geometry/detector" : NULL, detector, count);
	assert_int_equal(read_scan(at("b.h5"), &scan), TOMOS_BAD_FILE);
	assert_says(message);
}

static void rejects_bad_numbers(void **state)
{
	(void)state;
	static double views[5 * VIEW_NUMBERS];
	const double detector[2] = {2, 6}, half[2] = {2, 6.5}, n[3] = {6, 2, 4};
	tomos_geometry *scan;
	tomos_file *file;
	tomos_file_info info = {.bytes = sizeof info};
	rejects_views(5, 13, detector, 2,
		"its geometry has 5 views of 2 rows and 6 columns, its data 4 x 2 x 6");
	rejects_views(
		4, 12, detector, 2, "'geometry/views' has 12 numbers per view; 13 were expected");
	rejects_views(4, 13, NULL, 0, "has 'geometry/views' but no 'geometry/detector'");
	rejects_views(4, 13, half, 2, "'geometry/detector' has 6.5 where a whole number is due");
	rejects_views(4, 13, half, 1, "'geometry/detector' has 1 x 1 numbers; 2 were expected");
	put_numbers(at("b.h5"), "geometry/views", views, 4, 13, "geometry/detector", detector, 2);
	assert_int_not_equal(read_scan(at("b.h5"), &scan), TOMOS_OK); /* all zero */
	put_numbers(at("b.h5"), "grid/n", n, 1, 3, NULL, NULL, 0);
	assert_ok(tomos_file_open(&file, at("b.h5"), NULL));
	assert_int_equal(tomos_file_describe(file, &info), TOMOS_BAD_FILE);
	assert_says("its grid is not complete");
	tomos_file_close(file);
	assert_int_equal(mem_live(), 0);
}

static void survives_allocation_failures(void **state)
{
	(void)state;
	tomos_geometry *scan, *back;
	tomos_status status = TOMOS_NO_MEMORY;
	assert_ok(tomos_geometry_parallel(&scan, 2, 6, 1, angles, 4));
	assert_ok(write_scan(at("m.h5"), scan, true));
	int64_t live = mem_live();
	int before = entries(scratch);
	for (int nth = 1; status != TOMOS_OK; nth++) {
		mem_fail_nth(nth);
		status = write_scan(at("m.h5"), scan, true);
		if (status == TOMOS_OK && (status = read_scan(at("m.h5"), &back)) == TOMOS_OK)
			tomos_geometry_free(back);
		mem_fail_nth(0);
		if (status != TOMOS_OK)
			assert_int_equal(status, TOMOS_NO_MEMORY);
		assert_int_equal(mem_live(), live);
		assert_int_equal(entries(scratch), before);
		assert_true(nth < 1000);
	}
	tomos_geometry_free(scan);
}

/* ---- numbers that are not finite ------------------------------------------------------------- */

static void finds_what_is_not_finite(void **state)
{
	(void)state;
	float data[4 * 3 * 8];
	for (int i = 0; i < COUNT(data); i++)
		data[i] = 3e38F;
	tomos_array array = tomos_array_of(data, 4, 3, 8);
	assert_ok(tomos_array_check(&array, "b"));
	data[3 * 24 + 7] = NAN;
	assert_int_equal(tomos_array_check(&array, "b"), TOMOS_BAD_VALUE);
	assert_says("'b' has 1 value that is not finite, the first at [3][0][7]");
	data[95] = -INFINITY;
	data[94] = INFINITY;
	assert_int_equal(tomos_array_check(&array, "b"), TOMOS_BAD_VALUE);
	assert_says("'b' has 3 values that are not finite, the first at [3][0][7]");
	/* Every other column only. */
	tomos_array every_other = {data, {4, 3, 4}, {24, 8, 2}, 0};
	assert_int_equal(tomos_array_check(&every_other, "c"), TOMOS_BAD_VALUE);
	assert_says("'c' has 1 value that is not finite, the first at [3][2][3]");
	array.device = 1;
	assert_int_equal(tomos_array_check(&array, "b"), TOMOS_UNSUPPORTED);
	assert_says("not in the host's memory");
	array = tomos_array_of(data, 4, -3, 8);
	assert_int_equal(tomos_array_check(&array, "b"), TOMOS_BAD_VALUE);
	assert_says("a shape of 4 x -3 x 8 is empty or too large");
	assert_int_equal(tomos_array_check(NULL, "b"), TOMOS_BAD_VALUE);
	assert_says("there is no array for b");
	assert_int_equal(tomos_array_check(NULL, NULL), TOMOS_BAD_VALUE);
	assert_says("there is no array for an array");
}

/* The first is the first in the array, whatever thread finds it, in more rows than one task has. */
static void finds_the_first_of_many(void **state)
{
	(void)state;
	enum { ROWS = 9000, COLUMNS = 40 };
	float *data = calloc((size_t)ROWS * COLUMNS, sizeof *data);
	tomos_array array = tomos_array_of(data, 3, ROWS / 3, COLUMNS);
	for (int i = 2000; i < ROWS; i++)
		data[i * COLUMNS + 39] = NAN;
	assert_int_equal(tomos_array_check(&array, "b"), TOMOS_BAD_VALUE);
	assert_says("'b' has 7000 values that are not finite, the first at [0][2000][39]");
	free(data);
}

/* ---- pictures -------------------------------------------------------------------------------- */

static void draws(void **state)
{
	(void)state;
	const float data[6] = {-1, 0, 0.5F, 1, 7, NAN};
	const unsigned char expected[6] = {0, 0, 128, 255, 255, 0};
	unsigned char back[6];
	png_image image = {.version = PNG_IMAGE_VERSION};
	assert_ok(tomos_picture_write(at("p.png"), data, 3, 2, 0, 1, NULL));
	assert_true(png_image_begin_read_from_file(&image, at("p.png")));
	assert_int_equal(image.width, 3);
	assert_int_equal(image.height, 2);
	image.format = PNG_FORMAT_GRAY;
	assert_true(png_image_finish_read(&image, NULL, back, 0, NULL));
	assert_memory_equal(back, expected, sizeof back);
	assert_int_equal(tomos_picture_write(at("p.png"), data, 3, 2, 0, 1, NULL), TOMOS_IO);
	assert_says("exists already");
	assert_int_equal(tomos_picture_write(at("q.png"), data, 3, 2, 1, 1, NULL), TOMOS_BAD_VALUE);
	assert_says("black is 1 and white is 1; white must be above black");
	assert_int_equal(
		tomos_picture_write(at("q.png"), data, 3, 2, NAN, 1, NULL), TOMOS_BAD_VALUE);
	assert_int_equal(tomos_picture_write(at("q.png"), data, 0, 2, 0, 1, NULL), TOMOS_BAD_VALUE);
	assert_says("an image of 2 x 0; each side must be 1 to 1000000");
	assert_int_equal(tomos_picture_write(at("q.png"), NULL, 3, 2, 0, 1, NULL), TOMOS_BAD_VALUE);
	assert_says("there are no data for the image");
	assert_int_equal(tomos_picture_write("", data, 3, 2, 0, 1, NULL), TOMOS_BAD_VALUE);
	assert_says("the name of an image is missing");
	assert_int_equal(mem_live(), 0);
}

/* Colours, in a file and in memory: the same bytes. */
static void draws_bytes(void **state)
{
	(void)state;
	enum { WIDE = 64, HIGH = 90, BYTES = 3 * WIDE * HIGH };
	static unsigned char rgb[BYTES], back[BYTES];
	unsigned char *png, *stored;
	int64_t bytes;
	png_image image = {.version = PNG_IMAGE_VERSION};
	uint32_t random = 1;
	for (int i = 0; i < BYTES; i++) { /* hardly compressed: memory grows in several steps */
		random = random * 1664525 + 1013904223;
		rgb[i] = (unsigned char)(random >> 24);
	}
	assert_ok(tomos_picture_write_bytes(at("c.png"), rgb, WIDE, HIGH, 3, NULL));
	assert_true(png_image_begin_read_from_file(&image, at("c.png")));
	image.format = PNG_FORMAT_RGB;
	assert_true(png_image_finish_read(&image, NULL, back, 0, NULL));
	assert_memory_equal(back, rgb, sizeof back);
	assert_ok(tomos_picture_encode(&png, &bytes, rgb, WIDE, HIGH, 3));
	stored = malloc((size_t)bytes + 1);
	FILE *file = fopen(at("c.png"), "rb");
	assert_int_equal(fread(stored, 1, (size_t)bytes + 1, file), bytes);
	fclose(file);
	assert_true(bytes > 8192);
	assert_memory_equal(png, stored, (size_t)bytes);
	free(stored);
	tomos_picture_free(png);
	assert_int_equal(tomos_picture_encode(&png, &bytes, rgb, 2, 2, 2), TOMOS_BAD_VALUE);
	assert_says("pixels of 2 bytes; they have 1 (grey) or 3 (RGB)");
	assert_null(png);
	assert_int_equal(
		tomos_picture_write_bytes(at("d.png"), NULL, 2, 2, 3, NULL), TOMOS_BAD_VALUE);
	for (int64_t nth = 1;; nth++) { /* every allocation fails in turn */
		mem_fail_nth(nth);
		tomos_status status = tomos_picture_encode(&png, &bytes, rgb, 2, 2, 3);
		mem_fail_nth(0);
		tomos_picture_free(png);
		assert_int_equal(mem_live(), 0);
		if (status == TOMOS_OK)
			break;
		assert_int_equal(status, TOMOS_NO_MEMORY);
	}
}

/* libpng's own, unless a test wants one that does not start. */
static bool png_rejects;

png_structp png_create_write_struct_2(png_const_charp version, png_voidp hearer,
	png_error_ptr error, png_error_ptr warning, png_voidp owner, png_malloc_ptr take,
	png_free_ptr give)
{
	png_structp (*own)(png_const_charp, png_voidp, png_error_ptr, png_error_ptr, png_voidp,
		png_malloc_ptr, png_free_ptr);
	void *found = dlsym(RTLD_NEXT, "png_create_write_struct_2");
	memcpy(&own, &found, sizeof own);
	return png_rejects ? NULL : own(version, hearer, error, warning, owner, take, give);
}

static void png_does_not_start(void **state)
{
	(void)state;
	static const float data[6] = {0, 1, 2, 3, 4, 5};
	png_rejects = true;
	assert_int_equal(
		tomos_picture_write(at("r.png"), data, 3, 2, 0, 5, NULL), TOMOS_UNSUPPORTED);
	assert_says("r.png' cannot be written: libpng " PNG_LIBPNG_VER_STRING " does not start");
	png_rejects = false;
	assert_int_equal(access(at("r.png"), F_OK), -1);
	assert_int_equal(mem_live(), 0);
}

#define TESTS(T) \
	T(keeps_grids), T(keeps_scans), T(rejects_what_does_not_fit), T(rejects_bad_numbers), \
		T(survives_allocation_failures), T(finds_what_is_not_finite), \
		T(finds_the_first_of_many), T(draws), T(draws_bytes), T(png_does_not_start)
TEST_MAIN(TESTS, scratch_make, scratch_remove)
