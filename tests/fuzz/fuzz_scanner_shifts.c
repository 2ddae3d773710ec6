/* Any bytes as SkyScan's files of shifts, of all views and of some. */
#include "fuzz_scanner.h"

static const char log_text[] =
	"[System]\n[Acquisition]\nFilename Prefix=part\nNumber Of Files=2\nNumber Of Rows=3\n"
	"Number Of Columns=4\nObject to Source (mm)=2\nCamera to Source (mm)=5\n"
	"Image Pixel Size (um)=9\nRotation Step (deg)=2\n";

static void put_seeds(const char *directory)
{
	put_text(directory, "seed.crv", "a\nb\nc\nd\ne\n1.5\t-2\n3, 4\n");
	put_text(directory, "seed.csv",
		"i,v,a,b,c,d,e,f\r\n0,0,1,0,0,1,2.5,3\r\n1,1,1,0,0,1,-2,3\r\n");
	put_text(directory, "seed-rows.csv", "0;0;1,0;0;1,5;0;1;3\n1;9;1;0;2;0;1;3\n");
}

/* Two scans: one has shifts of all views, the other control points. */
static void make_folders(const char *path)
{
	static const char *const views[] = {
		"all/part0000.tif", "all/part0001.tif", "some/part0000.tif", "some/part0001.tif"};
	make_scanner_folder(path, "all-shifts", views, COUNT(views));
	put_text(scanner_folder, "all/scan.log", log_text);
	put_text(scanner_folder, "some/scan.log", log_text);
	require(symlink(path, seed_path(scanner_folder, "all/part_TS.crv")) == 0);
	require(symlink(path, seed_path(scanner_folder, "some/part_2DTransform.csv")) == 0);
}

static void read_it(const char *path, const uint8_t *bytes, size_t size)
{
	static bool made;
	if (!made)
		make_folders(path);
	made = true;
	bool lines = size > 0 && bytes[0] == 'a';
	read_scan_as(seed_path(scanner_folder, lines ? "all/scan.log" : "some/scan.log"), "");
}

const Target target = {NULL, NULL, 0, read_it, put_seeds};
