/* Any bytes as a compound file of Zeiss. */
#include "../io/ole2_help.h"
#include "fuzz_scan.h"

static void put_int(OleWriter *w, const char *name, int32_t value)
{
	ole_put(w, name, &value, sizeof value);
}

static void put_seeds(const char *directory)
{
	const float lists[4] = {10, 20, -200, 300};
	const unsigned char image[24] = {1, 2, 3};
	OleWriter *w = ole_new();
	put_int(w, "ImageInfo/ImageWidth", 4);
	put_int(w, "ImageInfo/ImageHeight", 3);
	put_int(w, "ImageInfo/NoOfImages", 2);
	put_int(w, "ImageInfo/DataType", 5);
	put_int(w, "ImageInfo/XrayGeometry", 1);
	put_int(w, "ImageInfo/AcquisitionMode", 0);
	ole_put(w, "ImageInfo/Angles", lists, 8);
	ole_put(w, "ImageInfo/PixelSize", lists, 4);
	ole_put(w, "ImageInfo/StoRADistance", lists + 2, 8);
	ole_put(w, "ImageInfo/DtoRADistance", lists + 2, 8);
	ole_put(w, "Alignment/X-Shifts", lists, 8);
	ole_put(w, "ImageData1/Image1", image, sizeof image);
	ole_put(w, "ImageData1/Image2", image, sizeof image);
	ole_put(w, "ReferenceData/Image", image, sizeof image);
	require(ole_write(w, seed_path(directory, "seed.txrm")));
}

const Target target = {NULL, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 8, read_scan, put_seeds};
