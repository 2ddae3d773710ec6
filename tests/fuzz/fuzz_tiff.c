/* Any bytes as a TIFF file, the seeds in strips, tiles and several compressions. */
#include "fuzz_file.h"
#include <tiffio.h>

const Format *const target = &format_tiff;
void (*const target_read)(const char *path) = read_file;

static void put_compressed(const char *directory, int compression, int tile)
{
	static const uint16_t pixels[32 * 32] = {1, 2, 3};
	char path[512];
	snprintf(path, sizeof path, "%s/seed-%d-%d.tif", directory, compression, tile);
	TIFF *tiff = TIFFOpen(path, "w");
	require(tiff != NULL);
	TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, 20);
	TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, 20);
	TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 16);
	TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
	TIFFSetField(tiff, TIFFTAG_COMPRESSION, compression);
	TIFFSetField(tiff, tile ? TIFFTAG_TILEWIDTH : TIFFTAG_ROWSPERSTRIP, 16);
	if (tile)
		TIFFSetField(tiff, TIFFTAG_TILELENGTH, 16);
	for (uint32_t i = 0; i < (tile ? 4 : 2); i++)
		(void)(tile ? TIFFWriteEncodedTile(tiff, i, (void *)(uintptr_t)pixels, 512)
			    : TIFFWriteEncodedStrip(
				      tiff, i, (void *)(uintptr_t)pixels, i ? 160 : 640));
	TIFFClose(tiff);
}

void put_seeds(const char *directory)
{
	static const int compressions[] = {
		COMPRESSION_NONE, COMPRESSION_LZW, COMPRESSION_PACKBITS, COMPRESSION_ADOBE_DEFLATE};
	tomos_file *file;
	if (!put_seed(directory, "seed.tif", TOMOS_VOLUME, (int64_t[]){2, 3, 4}, &file))
		return;
	end_seed(file);
	for (int i = 0; i < COUNT(compressions); i++)
		for (int tile = 0; tile < 2; tile++)
			put_compressed(directory, compressions[i], tile);
}
