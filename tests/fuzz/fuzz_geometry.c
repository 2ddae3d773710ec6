/* Any bytes as a geometry file: text, JSON, and XML of RTK. */
#include "fuzz_file.h"
#include "geom/geom.h"

static char folder[] = "/tmp/tomos-fuzz-XXXXXX";

static void remove_folder(void)
{
	file_discard(folder);
}

static void read_one(const char *name, int64_t rows, int64_t columns)
{
	tomos_geometry *scan;
	int64_t live = mem_live();
	tomos_status status =
		tomos_geometry_import(&scan, seed_path(folder, name), rows, columns, 1, 1, 1);
	require((status == TOMOS_OK) == (scan != NULL) && (scan || *tomos_message()));
	tomos_geometry_free(scan);
	require(mem_live() == live);
}

/* The ending tells the form, so the file in memory has three names, by links to it. */
static void read_geometry(const char *path, const uint8_t *bytes, size_t size)
{
	static bool made;
	(void)bytes;
	(void)size;
	if (!made)
		require(mkdtemp(folder) && atexit(remove_folder) == 0 &&
			symlink(path, seed_path(folder, "a.txt")) == 0 &&
			symlink(path, seed_path(folder, "a.json")) == 0 &&
			symlink(path, seed_path(folder, "a.xml")) == 0);
	made = true;
	read_one("a.txt", 3, 5);
	read_one("a.json", 0, 0);
	read_one("a.xml", 3, 5);
}

static void put_seeds(const char *directory)
{
	static const char *const names[] = {"seed.txt", "seed.json"};
	const double angles[3] = {0, 1, 2};
	tomos_file_options options = tomos_file_defaults();
	tomos_geometry *scan;
	options.overwrite = 1;
	require(tomos_geometry_parallel(&scan, 3, 5, 1, angles, 3) == TOMOS_OK);
	for (int i = 0; i < COUNT(names); i++)
		require(tomos_geometry_write(scan, seed_path(directory, names[i]), &options) ==
			TOMOS_OK);
	tomos_geometry_free(scan);
	put_text(directory, "tigre.json",
		"{\"DSD\": 5, \"DSO\": 2, \"nDetector\": [3, 5], \"dDetector\": [1, 1], "
		"\"offOrigin\": [0, 1, 0], \"angles\": [0, 1]}");
	put_text(directory, "leap.txt",
		"geometry = cone\nnumAngles = 2\nnumRows = 3\nnumCols = 5\npixelWidth = 1\n"
		"pixelHeight = 1\nsod = 2\nsdd = 5\nphis = 0, 9\n");
	put_text(directory, "matrices.txt", "1 0 0 2\n0 1 0 3\n0 0 1 4\n");
	put_text(directory, "header.nrrd",
		"NRRD0004\nProjection Matrix:=1 0 0 2 0 1 0 3 0 0 1 4\nProjection Matrix:=1 0 0 2 "
		"0 1 0 3 "
		"0 0 1 4\n");
	put_text(directory, "rtk.xml",
		"<RTKThreeDCircularGeometry><SourceToIsocenterDistance>2</"
		"SourceToIsocenterDistance>"
		"<SourceToDetectorDistance>5</SourceToDetectorDistance><Projection><GantryAngle>9"
		"</GantryAngle></Projection></RTKThreeDCircularGeometry>");
}

const Target target = {NULL, NULL, 0, read_geometry, put_seeds};
