/* TIFF files and folders: number types, compressions, files that are rejected, BigTIFF. */
#include "io/numbers_help.h"

static void tiff_types(void **state)
{
	(void)state;
	for (int t = 0; t < COUNT(types); t++)
		for (int order = 0; order < 2; order++) {
			Bytes b = tiff_bytes(
				order, types[t].kind, types[t].bytes, small, types[t].values);
			put_file(at("t.tif"), b.bytes, b.length);
			assert_reads(at("t.tif"), small, types[t].values);
			assert_type(at("t.tif"), types[t].name);
		}
}

/* ---- TIFF ------------------------------------------------------------------------------------ */

/* Compressed, in strips or tiles, by libtiff itself; 40 x 30 pixels, two pages. */
static void write_tiff(const char *path, uint16_t compression, int tile, int predictor)
{
	TIFF *tiff = TIFFOpen(path, "w");
	assert_non_null(tiff);
	for (int page = 0; page < 2; page++) {
		TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, 40);
		TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, 30);
		TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 16);
		TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
		TIFFSetField(tiff, TIFFTAG_COMPRESSION, compression);
		if (predictor)
			TIFFSetField(tiff, TIFFTAG_PREDICTOR, predictor);
		uint16_t pixels[32 * 40];
		if (tile) {
			TIFFSetField(tiff, TIFFTAG_TILEWIDTH, tile);
			TIFFSetField(tiff, TIFFTAG_TILELENGTH, tile);
			for (int y = 0; y < 30; y += tile)
				for (int x = 0; x < 40; x += tile) {
					for (int i = 0; i < tile * tile; i++)
						pixels[i] = (uint16_t)(page * 10000 +
								       (y + i / tile) * 40 + x +
								       i % tile);
					TIFFWriteTile(tiff, pixels, (uint32_t)x, (uint32_t)y, 0, 0);
				}
		} else {
			TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, 7);
			for (int y = 0; y < 30; y++) {
				for (int x = 0; x < 40; x++)
					pixels[x] = (uint16_t)(page * 10000 + y * 40 + x);
				TIFFWriteScanline(tiff, pixels, (uint32_t)y, 0);
			}
		}
		TIFFWriteDirectory(tiff);
	}
	TIFFClose(tiff);
}

static void tiff_compressed(void **state)
{
	(void)state;
	static const uint16_t schemes[] = {
		COMPRESSION_NONE, COMPRESSION_LZW, COMPRESSION_PACKBITS, COMPRESSION_ADOBE_DEFLATE};
	float expected[2400];
	for (int i = 0; i < 2400; i++)
		expected[i] = (float)(i / 1200 * 10000 + i % 1200);
	for (int i = 0; i < COUNT(schemes); i++)
		for (int tile = 0; tile <= 16; tile += 16) {
			write_tiff(at("c.tif"), schemes[i], tile, 0);
			assert_reads(at("c.tif"), (int64_t[]){2, 30, 40}, expected);
		}
	write_tiff(at("c.tif"), COMPRESSION_LZW, 0, 2);
	assert_reads(at("c.tif"), (int64_t[]){2, 30, 40}, expected);
}

/* Sets the value of a tag of the first page. */
static void set_tag(Bytes *b, int tag, uint32_t value)
{
	for (int i = 0; i < 10; i++) {
		unsigned char *entry = b->bytes + 10 + 12 * i;
		if (entry[0] + 256 * entry[1] == tag)
			memcpy(entry + 8, &value, 4);
	}
}

static void assert_tiff_rejected(int tag, uint32_t value, const char *says)
{
	int64_t got[3];
	float *data;
	Bytes b = tiff_bytes(false, 'f', 4, small, types[9].values);
	set_tag(&b, tag, value);
	put_file(at("r.tif"), b.bytes, b.length);
	assert_text(read_all(at("r.tif"), got, &data) != TOMOS_OK, says, __FILE__, __LINE__);
	assert_says(says);
	assert_says("r.tif'");
}

static void tiff_rejections(void **state)
{
	(void)state;
	assert_tiff_rejected(277, 3, "3 samples per pixel");
	assert_tiff_rejected(262, 2, "photometric 2");
	assert_tiff_rejected(258, 12, "numbers of 12 bits");
	assert_tiff_rejected(339, 6, "sample format 6");
	assert_tiff_rejected(258, 8, "numbers of 8 bits (sample format 3)");
	assert_tiff_rejected(259, 7, "compression 7 cannot be read");
	assert_tiff_rejected(256, 5, "page 1 is 1 x 2 of type float32; the first image is 1 x 5");
	assert_tiff_rejected(
		256, 1, "strips or tiles hold 8 bytes; 1 x 1 numbers of type float32 need 4");
	assert_tiff_rejected(257, 0, "page 0");
	assert_tiff_rejected(273, 100000, "page 0: the data end too early");
	int64_t got[3], one[3] = {1, 30000, 30000};
	float *data;
	Bytes b = tiff_bytes(false, 'u', 1, (int64_t[]){1, 1, 4}, types[4].values);
	set_tag(&b, 256, 30000);
	set_tag(&b, 257, 30000);
	set_tag(&b, 278, 30000);
	set_tag(&b, 279, 900000000);
	put_file(at("r.tif"), b.bytes, b.length);
	assert_int_equal(read_all(at("r.tif"), one, &data), TOMOS_BAD_FILE);
	assert_says("too few for 1 pages of 30000 x 30000");
	put_file(at("r.tif"), "II*\0\377\377\377\377", 8);
	assert_int_equal(read_all(at("r.tif"), got, &data), TOMOS_BAD_FILE);
	assert_says("page 0: cannot be read");
	assert_int_equal(mem_live(), 0);
}

static void stack_rejections(void **state)
{
	(void)state;
	int64_t got[3];
	float *data;
	mkdir(at("d"), 0777);
	assert_int_equal(read_all(at("d"), got, &data), TOMOS_BAD_FILE);
	assert_says("has no .tif or .tiff files");
	int64_t flat[3] = {1, 2, 3};
	Bytes b = tiff_bytes(false, 'f', 4, flat, numbers);
	put_file(at("d/b_10.TIF"), b.bytes, b.length);
	b = tiff_bytes(true, 'f', 4, flat, numbers + 6);
	put_file(at("d/b_11.tiff"), b.bytes, b.length);
	put_file(at("d/readme.txt"), "x", 1);
	put_file(at("d/._b_10.tif"), "x", 1);
	assert_reads(at("d"), (int64_t[]){2, 2, 3}, numbers);
	assert_reads(at("d/"), (int64_t[]){2, 2, 3}, numbers);
	b = tiff_bytes(false, 'f', 4, (int64_t[]){1, 3, 2}, numbers);
	put_file(at("d/c.tif"), b.bytes, b.length);
	assert_int_equal(read_all(at("d"), got, &data), TOMOS_BAD_FILE);
	assert_says("d/c.tif', page 0 is 3 x 2 of type float32; the first image is 2 x 3");
	b = tiff_bytes(false, 'f', 4, (int64_t[]){2, 2, 3}, numbers);
	put_file(at("d/c.tif"), b.bytes, b.length);
	assert_int_equal(read_all(at("d"), got, &data), TOMOS_UNSUPPORTED);
	assert_says("c.tif' has more than one page");
	assert_int_equal(mem_live(), 0);
}

static void imagej_rejected(void **state)
{
	(void)state;
	TIFF *tiff = TIFFOpen(at("j.tif"), "w");
	uint8_t row[4] = {1, 2, 3, 4};
	int64_t got[3];
	float *data;
	TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, 4);
	TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, 1);
	TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 8);
	TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
	TIFFSetField(tiff, TIFFTAG_IMAGEDESCRIPTION, "ImageJ=1.53\nimages=3\nslices=3\n");
	TIFFWriteScanline(tiff, row, 0, 0);
	TIFFClose(tiff);
	assert_int_equal(read_all(at("j.tif"), got, &data), TOMOS_UNSUPPORTED);
	assert_says("holds 3 images in ImageJ's own layout, of which 1 are TIFF pages");
}

/* Beyond 4 GiB by its offsets, a few pages by the space it takes: the rest are holes. */
static void bigtiff_beyond_4_gib(void **state)
{
	(void)state;
	enum { SIDE = 256, PAGES = 70000 };
	int64_t large[3] = {PAGES, SIDE, SIDE};
	float *page = calloc(SIDE * SIDE, sizeof *page);
	tomos_file *file;
	TIFF *tiff;
	assert_ok(tomos_file_create(&file, at("big.tif"), TOMOS_VOLUME, large, NULL));
	page[SIDE + 5] = 3;
	assert_ok(tomos_file_write(file, PAGES - 1, 1, page));
	memset(page, 0, SIDE * sizeof *page * 2);
	assert_ok(tomos_file_write(file, 0, 1, page));
	tiff = TIFFOpen(file->temporary, "r");
	assert_non_null(tiff);
	assert_true(TIFFIsBigTIFF(tiff));
	/* The last page's directory is where the layout says; libtiff finds its data beyond 4
	 * GiB. */
	uint64_t first = TIFFCurrentDirOffset(tiff);
	assert_int_equal(TIFFSetSubDirectory(tiff, first + 20 + (PAGES - 1) * 276), 1);
	assert_true(TIFFGetStrileOffset(tiff, 0) > UINT32_MAX);
	assert_int_equal(TIFFReadScanline(tiff, page, 1, 0), 1);
	assert_true(page[5] == 3);
	TIFFClose(tiff);
	tomos_file_close(file);
	free(page);
}

#define TESTS(T) \
	T(tiff_types), T(tiff_compressed), T(tiff_rejections), T(stack_rejections), \
		T(imagej_rejected), T(bigtiff_beyond_4_gib)
TEST_MAIN(TESTS, make_numbers, scratch_remove)
