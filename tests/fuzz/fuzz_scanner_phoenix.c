/* Any bytes as Phoenix' .pca. */
#include "fuzz_scanner.h"

static void put_seeds(const char *directory)
{
	put_text(directory, "seed.pca",
		"[Geometry]\r\nFDD=500.0\r\nFOD=200.0\r\ncx=12.5\r\nTilt=1\r\nNumberImages=2\r\n"
		"RotationSector=360\r\nFreeRay=50000\r\nDimX=4\r\nDimY=3\r\nPixelsizeX=0.5\r\n"
		"PixelsizeY=0.5\r\n");
}

SCANNER_TARGET("[Geometry]", "part.pca", put_seeds, "part_0001.tif", "part_0002.tif")
