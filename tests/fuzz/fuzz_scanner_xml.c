/* Any bytes as the XML files of Diondo and YXLON. */
#include "fuzz_scanner.h"

static void put_seeds(const char *directory)
{
	put_text(directory, "diondo.xml",
		"<S><ScanParameter><HelixMode>false</HelixMode></ScanParameter><Recon>"
		"<ProjectionDimX>4</ProjectionDimX><ProjectionDimY>3</ProjectionDimY>"
		"<ProjectionPixelSizeX>1</ProjectionPixelSizeX><ProjectionPixelSizeY>1"
		"</ProjectionPixelSizeY><ProjectionCount>2</ProjectionCount></Recon><Geometrie>"
		"<SourceDetectorDist>5</SourceDetectorDist><SourceObjectDist>2"
		"</SourceObjectDist></Geometrie></S>");
	put_text(directory, "yxlon.xml",
		"<S><ConeBeamScanParameter><PixelSize><Width>1</Width><Height>1</Height></"
		"PixelSize>"
		"<ProjectionSize><Width>4</Width><Height>3</Height></ProjectionSize>"
		"<ScanTrajectory type=\"CircleTrajectory\"><PixelPitch>1</PixelPitch><Fdd>5</Fdd>"
		"<Fod>2</Fod><NumberOfProjections>2</NumberOfProjections><StartAngle>3</StartAngle>"
		"<Rotation>360</Rotation></ScanTrajectory></ConeBeamScanParameter></S>");
}

SCANNER_TARGET("<S>", "scan.xml", put_seeds, "Projection/_1_0.raw", "Projection/_1_1.raw",
	"Projections/a.raw", "Projections/b.raw")
