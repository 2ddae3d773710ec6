/* Any bytes as Nikon's .xtekct. */
#include "fuzz_scanner.h"

static void put_seeds(const char *directory)
{
	put_text(directory, "seed.xtekct",
		"[XTekCT]\r\nName=part\r\nSrcToObject=200\r\nSrcToDetector=500\r\nDetectorPixelsX="
		"4\r\n"
		"DetectorPixelsY=3\r\nDetectorPixelSizeX=0.5\r\nDetectorPixelSizeY=0.5\r\n"
		"DetectorOffsetX=0.1\r\nDetectorOffsetY=-0.1\r\nObjectOffsetX=0.2\r\nObjectRoll=0."
		"1\r\n"
		"ObjectTilt=0.1\r\nCentreOfRotationTop=0.1\r\nCentreOfRotationBottom=0.2\r\n"
		"Projections=2\r\nAngularStep=2\r\nInitialAngle=10\r\nWhiteLevel=60000\r\n"
		"AutomaticCentreOfRotation=0\r\nInputFolderName=\r\nInputSeparator=_\r\n");
}

SCANNER_TARGET("[XTekCT]", "scan.xtekct", put_seeds, "part_0001.tif", "part_0002.tif")
