/* TIFF files to begin with: strips and tiles in several compressions. */
#ifndef TOMOS_TESTS_FUZZ_FUZZ_TIFF_H
#define TOMOS_TESTS_FUZZ_FUZZ_TIFF_H

#include <tiffio.h>
#include "fuzz_file.h"

static inline void put_compressed(const char *directory, int compression, int tile)
{
	static const uint16_t pixels[32 * 32] = {1, 2, 3};
	char name[64];
	snprintf(name, sizeof name, "seed-%d-%d.tif", compression, tile);
	TIFF *tiff = TIFFOpen(seed_path(directory, name), "w");
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

static inline void put_seeds(const char *directory)
{
	static const int compressions[] = {
		COMPRESSION_NONE, COMPRESSION_LZW, COMPRESSION_PACKBITS, COMPRESSION_ADOBE_DEFLATE};
	put_array(directory, "seed.tif", TOMOS_PROJECTIONS, (int64_t[]){2, 3, 4});
	for (int i = 0; i < COUNT(compressions); i++)
		for (int tile = 0; tile < 2; tile++)
			put_compressed(directory, compressions[i], tile);
}

#endif
