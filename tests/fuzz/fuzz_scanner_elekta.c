/* Any bytes as Elekta's .his, or as its list of frames: _Frames.xml, or both tables of dBase. */
#include "fuzz_scanner.h"

enum { HIS = 68 + 2 * 3 * 4 };

/* Two frames of 3 rows x 4 columns. */
static void put_his(const char *directory, const char *name)
{
	unsigned char his[HIS + 2 * 3 * 4] = {0, 'p', 'D', 0, 100};
	his[16] = 2;
	his[18] = 3;
	his[20] = 2;
	his[32] = 4;
	put_bytes(directory, name, his, sizeof his);
}

static void put_seeds(const char *directory)
{
	static const struct {
		const char *name, *value;
		unsigned char length;
	} fields[] = {{"DBID", "7", 4}, {"DICOM_UID", "fuzz", 6}, {"IMA_DBID", "7", 4},
		{"PROJ_ANG", "1.5", 6}, {"U_CENTRE", "2", 6}, {"V_CENTRE", "-3", 6}};
	unsigned char table[400] = {3, 0, 0, 0, 2, 0, 0, 0, 225, 0, 33};
	int at = 225;
	for (int i = 0; i < COUNT(fields); i++) {
		memcpy(table + 32 + 32 * i, fields[i].name, strlen(fields[i].name));
		table[32 + 32 * i + 11] = 'C';
		table[32 + 32 * i + 16] = fields[i].length;
	}
	table[224] = 13;
	for (int k = 0; k < 2; k++, at += 33) {
		memset(table + at, ' ', 33);
		for (int i = 0, in = 1; i < COUNT(fields); in += fields[i++].length)
			memcpy(table + at + in, fields[i].value, strlen(fields[i].value));
	}
	put_his(directory, "seed.his");
	put_bytes(directory, "seed.dbf", table, (size_t)at);
	put_text(directory, "seed.xml",
		"<P><Frames><Frame><Seq>1</Seq><GantryAngle>-180.0</GantryAngle>"
		"<UCentre>1.5</UCentre><VCentre>0</VCentre></Frame><Frame><Angle>2</Angle>"
		"<Uentre>1</Uentre><Ventre>0</Ventre></Frame></Frames></P>");
}

static void link_to(const char *path, const char *name)
{
	require(symlink(path, seed_path(scanner_folder, name)) == 0);
}

/* Folders h, x and t: of the file, of the list, of the tables. */
static void make_folders(const char *path)
{
	make_scanner_folder(path, "bytes", NULL, 0);
	for (const char *const *f = (const char *const[]){"h", "x", "t", NULL}; *f; f++)
		require(mkdir(seed_path(scanner_folder, *f), 0700) == 0);
	link_to(path, "h/1.his");
	put_his(scanner_folder, "x/1.his");
	link_to(path, "x/_Frames.xml");
	put_his(scanner_folder, "t/1.his");
	link_to(path, "t/FRAME.DBF");
	link_to(path, "t/IMAGE.DBF");
}

static void read_it(const char *path, const uint8_t *bytes, size_t size)
{
	static bool made;
	if (!made)
		make_folders(path);
	made = true;
	const char *name = size > 1 && bytes[1] == 'p' ? "h/1.his"
			   : size && bytes[0] == '<'   ? "x/1.his"
						       : "t/1.his";
	read_scan_as(seed_path(scanner_folder, name), "");
}

const Target target = {NULL, NULL, 0, read_it, put_seeds};
