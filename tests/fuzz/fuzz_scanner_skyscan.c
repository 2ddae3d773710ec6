/* Any bytes as SkyScan's .log. */
#include "fuzz_scanner.h"

static void put_seeds(const char *directory)
{
	put_text(directory, "seed.log",
		"[System]\r\nCamera X/Y Ratio=1.0\r\n[Acquisition]\r\nFilename Prefix=part\r\n"
		"Number Of Files=2\r\nNumber Of Rows=3\r\nNumber Of Columns=4\r\n"
		"Optical Axis (line)=1\r\nObject to Source (mm)=200.0\r\n"
		"Camera to Source (mm)=500.0\r\nImage Pixel Size (um)=200\r\nDepth (bits)=16\r\n"
		"Rotation Step (deg)=2.0\r\nRotation Direction=CC\r\nImage Rotation=0.1\r\n"
		"Number of connected scans=1\r\n");
}

SCANNER_TARGET("[System]", "scan.log", put_seeds, "part0000.tif", "part0001.tif")
