/* NIfTI, NRRD and VTI files: grids, number types and byte orders, units, several gzip members,
 * and what is rejected. tests/python/test_peer_formats.py compares them with other libraries. */
#include <zlib.h>
#include "io_help.h"
#include "io/tiff_parts.h"

static const int64_t shape[3] = {4, 3, 5};
enum { N = 4 * 3 * 5 };
static float numbers[N];

static void write_with_grid(const char *path, const tomos_grid *grid)
{
	tomos_file_options options = overwriting();
	tomos_file *file;
	assert_ok(tomos_file_create(&file, path, TOMOS_VOLUME, shape, &options));
	assert_ok(tomos_file_set_grid(file, grid));
	assert_ok(tomos_file_write(file, 2, 2, numbers + 30)); /* in any order */
	assert_ok(tomos_file_write(file, 0, 2, numbers));
	assert_ok(tomos_file_commit(file));
	tomos_file_close(file);
}

static void assert_grid(const char *path, const tomos_grid *grid)
{
	tomos_grid got;
	tomos_file *file;
	assert_ok(tomos_file_open(&file, path, NULL));
	assert_ok(tomos_file_grid(file, &got));
	for (int i = 0; i < 3; i++) {
		assert_int_equal(got.n[i], grid->n[i]);
		assert_true(fabs(got.first[i] - grid->first[i]) <= 1e-14 * fabs(grid->first[i]));
		assert_true(fabs(got.step[i] - grid->step[i]) <= 1e-14 * fabs(grid->step[i]));
	}
	tomos_file_close(file);
}

/* All directions of the axes; lengths come back although NIfTI-1 stores them as float. */
static void grids(void **state)
{
	(void)state;
	static const char *const names[] = {"g.nii", "g.nii.gz", "g.nrrd", "g.vti"};
	for (int k = 0; k < COUNT(names); k++)
		for (int signs = 0; signs < 8; signs++) {
			const tomos_grid grid = {{5, 3, 4}, {-1.7, 2.5, 0.1},
				{signs & 1 ? -0.5 : 0.5, signs & 2 ? -0.26 : 0.26,
					signs & 4 ? -2 : 2}};
			write_with_grid(at(names[k]), &grid);
			assert_grid(at(names[k]), &grid);
			assert_reads(at(names[k]), shape, numbers);
		}
	assert_int_equal(mem_live(), 0);
}

/* What a volume without a grid says of itself, but for its texts, which are the file's. */
static tomos_file_info written_info(const char *name)
{
	tomos_file_info info = {.bytes = sizeof info};
	tomos_file *file;
	write_array(at(name), TOMOS_VOLUME, shape, numbers);
	assert_ok(tomos_file_open(&file, at(name), NULL));
	assert_ok(tomos_file_describe(file, &info));
	tomos_file_close(file);
	return info;
}

/* A file that is written without a grid has none when it is read. */
static void no_grids(void **state)
{
	(void)state;
	static const char *const names[] = {"n.nii", "n.nii.gz", "n.nrrd", "n.vti"};
	for (int k = 0; k < COUNT(names); k++) {
		assert_false(written_info(names[k]).has_grid);
		assert_int_equal(unlink(at(names[k])), 0);
	}
}

/* The rotation alone, as other programs write it, says the same as the matrix. */
static void rotations(void **state)
{
	(void)state;
	for (int signs = 0; signs < 8; signs++) {
		size_t length;
		const tomos_grid grid = {{5, 3, 4}, {-1, 2.5, 0.125},
			{signs & 1 ? -0.5 : 0.5, signs & 2 ? -0.25 : 0.25, signs & 4 ? -2 : 2}};
		write_with_grid(at("q.nii"), &grid);
		unsigned char *bytes = get_file(at("q.nii"), &length);
		memset(bytes + 254, 0, 2); /* no matrix */
		memset(bytes + 280, 9, 48);
		put_file(at("q.nii"), bytes, length);
		free(bytes);
		assert_grid(at("q.nii"), &grid);
	}
	assert_int_equal(mem_live(), 0);
}

/* More than 32767 places along an axis need NIfTI-2. */
static void long_axes(void **state)
{
	(void)state;
	static const int64_t wide[3] = {1, 2, 40000};
	static float line[2 * 40000];
	size_t length;
	line[1] = 3;
	line[79999] = 4;
	write_array(at("long.nii"), TOMOS_VOLUME, wide, line);
	assert_reads(at("long.nii"), wide, line);
	unsigned char *bytes = get_file(at("long.nii"), &length);
	assert_int_equal(length, 544 + sizeof line);
	assert_memory_equal(bytes + 4, "n+2\0\r\n\032\n", 8);
	free(bytes);
}

static const struct {
	const char *nrrd;
	int code; /* of NIfTI */
	char kind;
	int bytes;
} types[] = {{"signed char", 256, 'i', 1}, {"uchar", 2, 'u', 1}, {"short", 4, 'i', 2},
	{"unsigned short", 512, 'u', 2}, {"int", 8, 'i', 4}, {"uint32_t", 768, 'u', 4},
	{"long long", 1024, 'i', 8}, {"ulonglong", 1280, 'u', 8}, {"float", 16, 'f', 4},
	{"double", 64, 'f', 8}};

static void put_numbers(Bytes *b, int type)
{
	for (int i = 0; i < N; i++)
		add_value(b, types[type].kind, types[type].bytes, (float)i);
}

/* A header of NIfTI-1 by hand. */
static void put_nifti(Bytes *b, int type)
{
	static const int sizes[4] = {3, 5, 3, 4};
	add(b, 348, 4);
	add(b, 0, 36);
	for (int i = 0; i < 8; i++)
		add(b, i < 4 ? (uint64_t)sizes[i] : 1, 2);
	b->length = 70;
	add(b, (uint64_t)types[type].code, 2);
	add(b, 8 * (uint64_t)types[type].bytes, 2);
	b->length = 108;
	add_value(b, 'f', 4, 352);
	b->length = 344;
	add_text(b, "n+1");
	b->length = 352;
	put_numbers(b, type);
}

static void all_types(void **state)
{
	(void)state;
	float expected[N];
	for (int i = 0; i < N; i++)
		expected[i] = (float)i;
	for (int i = 0; i < COUNT(types); i++)
		for (int big = 0; big < 2; big++) {
			Bytes nifti = {.big = big}, nrrd = {.big = big};
			char text[128];
			put_nifti(&nifti, i);
			put_file(at("t.nii"), nifti.bytes, nifti.length);
			assert_reads(at("t.nii"), shape, expected);
			snprintf(text, sizeof text,
				"NRRD0004\r\ntype: %s\r\ndimension: 3\r\nsizes: 5 3 4\r\n"
				"encoding: raw\r\nendian: %s\r\n\r\n",
				types[i].nrrd, big ? "big" : "little");
			add_text(&nrrd, text);
			put_numbers(&nrrd, i);
			put_file(at("t.nrrd"), nrrd.bytes, nrrd.length);
			assert_reads(at("t.nrrd"), shape, expected);
		}
	assert_int_equal(mem_live(), 0);
}

/* ---- gzip ------------------------------------------------------------------------------------ */

static void add_member(FILE *to, const unsigned char *bytes, size_t length)
{
	unsigned char packed[4096] = {0};
	z_stream stream = {.next_in = (unsigned char *)bytes,
		.avail_in = (uInt)length,
		.next_out = packed,
		.avail_out = sizeof packed};
	assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	assert_int_equal(fwrite(packed, 1, stream.total_out, to), stream.total_out);
	deflateEnd(&stream);
}

/* Files of several members, as gzip allows. */
static void members(void **state)
{
	(void)state;
	size_t length;
	write_array(at("whole.nii"), TOMOS_VOLUME, shape, numbers);
	unsigned char *bytes = get_file(at("whole.nii"), &length);
	FILE *to = fopen(at("two.nii.gz"), "wb");
	assert_non_null(to);
	add_member(to, bytes, 400);
	add_member(to, bytes + 400, length - 400);
	assert_int_equal(fclose(to), 0);
	free(bytes);
	assert_reads(at("two.nii.gz"), shape, numbers);
	bytes = get_file(at("two.nii.gz"), &length);
	put_file(at("two.nii.gz"), bytes, length - 60);
	free(bytes);
	int64_t found[3];
	float *data;
	assert_int_equal(read_all(at("two.nii.gz"), found, &data), TOMOS_BAD_FILE);
	assert_says("the compressed data are damaged or end too early");
	assert_int_equal(mem_live(), 0);
}

/* Nothing is left of a compressed file that is not committed, and no other file of one that is. */
static void nothing_left(void **state)
{
	(void)state;
	tomos_file_options options = overwriting();
	tomos_file *file;
	int before = entries(scratch);
	assert_ok(tomos_file_create(&file, at("n.nii.gz"), TOMOS_VOLUME, shape, &options));
	assert_ok(tomos_file_write(file, 0, 4, numbers));
	tomos_file_close(file);
	assert_int_equal(entries(scratch), before);
	write_array(at("n.nii.gz"), TOMOS_VOLUME, shape, numbers);
	assert_int_equal(entries(scratch), before + 1);
}

/* A commit that fails and is tried again: the file is packed in the end. */
static void second_commit(void **state)
{
	(void)state;
	tomos_file_options options = overwriting();
	for (int nth = 1, failed = 1; failed; nth++) {
		tomos_file *file;
		assert_ok(tomos_file_create(&file, at("t.nii.gz"), TOMOS_VOLUME, shape, &options));
		assert_ok(tomos_file_write(file, 0, 4, numbers));
		mem_fail_nth(nth);
		failed = tomos_file_commit(file) != TOMOS_OK;
		mem_fail_nth(0);
		if (failed)
			assert_ok(tomos_file_commit(file));
		tomos_file_close(file);
		size_t length;
		unsigned char *bytes = get_file(at("t.nii.gz"), &length);
		assert_int_equal(bytes[0], 0x1f);
		assert_int_equal(bytes[1], 0x8b);
		free(bytes);
		assert_reads(at("t.nii.gz"), shape, numbers);
		assert_true(nth < 100);
	}
	assert_int_equal(mem_live(), 0);
}

/* Files that are unpacked when they are opened say so. */
static void unpacked(void **state)
{
	(void)state;
	static const char *const names[] = {"u.nii.gz", "u.nii", "u.nrrd", "u.vti"};
	for (int k = 0; k < COUNT(names); k++) {
		assert_int_equal(written_info(names[k]).unpacked, k == 0);
	}
}

/* ---- units, places of data ------------------------------------------------------------------- */

static void put_nrrd(const char *name, const char *fields)
{
	Bytes b = {.big = false};
	add_text(&b, "NRRD0005\ntype: float\ndimension: 3\nsizes: 5 3 4\nendian: little\n");
	add_text(&b, fields);
	for (int i = 0; i < N; i++)
		add_value(&b, 'f', 4, numbers[i]);
	put_file(at(name), b.bytes, b.length);
}

static void nrrd_places(void **state)
{
	(void)state;
	const tomos_grid grid = {{5, 3, 4}, {1, 2, 3}, {0.5, -0.25, 2}};
	put_nrrd("p.nrrd", "# a comment: no field\nkey:=value\nspace: RAS\nencoding: raw\n"
			   "space directions: (-500, 0, 0) (0, 250, 0) (0, 0, 2000)\n"
			   "space origin: (-1000,-2000,3000)\nspace units: \"um\" \"um\" \"um\"\n"
			   "byte skip: -1\n\nbytes that are skipped");
	assert_grid(at("p.nrrd"), &grid);
	assert_reads(at("p.nrrd"), shape, numbers);
	put_nrrd("p.nrrd",
		"encoding: raw\nline skip: 2\nbyte skip: 3\nspacings: 1 2 3\n\none\ntwo\nabc");
	assert_reads(at("p.nrrd"), shape, numbers);
	assert_grid(at("p.nrrd"), &(tomos_grid){{5, 3, 4}, {0, 0, 0}, {1, 2, 3}});
	put_nrrd("p.nrrd", "encoding: raw\nspace: left-anterior-superior\nspace origin: (1,-2,3)\n"
			   "space directions: (0.5,1e-17,0) (0,0.25,0) (0,-1e-16,2)\n\n");
	assert_grid(at("p.nrrd"), &grid);
	assert_int_equal(mem_live(), 0);
}

static void fractions(void **state)
{
	(void)state;
	static const struct {
		double number;
		uint32_t up, down;
	} cases[] = {{0.1, 1, 10}, {2, 2, 1}, {1.0 / 3, 1, 3}, {1 / 0.0123, 10000, 123},
		{123456.5, 246913, 2}, {0, 1, 1}, {1e20, 1, 1}, {1e-20, 1, 1}};
	for (int i = 0; i < COUNT(cases); i++) {
		uint32_t found[2];
		tiff_rational(cases[i].number, found);
		assert_int_equal(found[0], cases[i].up);
		assert_int_equal(found[1], cases[i].down);
	}
	uint32_t found[2];
	tiff_rational(3.14159265358979, found);
	assert_true(fabs((double)found[0] / found[1] - 3.14159265358979) < 1e-14);
}

/* ---- rejections ------------------------------------------------------------------------------ */

static void assert_rejected(const char *name, const void *bytes, size_t length, const char *says)
{
	int64_t found[3];
	float *data;
	put_file(at(name), bytes, length);
	assert_text(read_all(at(name), found, &data) != TOMOS_OK, says, __FILE__, __LINE__);
	assert_says(says);
}

static void nifti_rejections(void **state)
{
	(void)state;
	static const struct {
		size_t at;
		int bytes;
		uint64_t value;
		const char *says;
	} cases[] = {{40, 2, 9, "the NIfTI header has 9 axes; 1 to 7 are possible"},
		{40, 2, 0x0007, "axis 4 has 2 places; one volume can be read, not a series"},
		{42, 2, 0, "axis 1 has 0 places"}, {42, 2, 0xffff, "axis 1 has -1 places"},
		{70, 2, 128, "NIfTI data of type 128"},
		{108, 4, 0, "its data begin at byte 0, in the header"},
		{42, 2, 6, "has 240 bytes of data; 4 x 3 x 6 numbers of type float32 need 288"}};
	for (int i = 0; i < COUNT(cases); i++) {
		Bytes b = {.big = false};
		put_nifti(&b, 8);
		b.bytes[48] = 2; /* the fourth axis, if there is one */
		size_t length = b.length;
		b.length = cases[i].at;
		add(&b, cases[i].value, cases[i].bytes);
		assert_rejected("x.nii", b.bytes, length, cases[i].says);
	}
	assert_int_equal(mem_live(), 0);
}

static void nrrd_rejections(void **state)
{
	(void)state;
	static const struct {
		const char *text, *says;
	} cases[] = {{"type: float\n\n", "the NRRD header has no dimension"},
		{"dimension: 3\ntype: float\n\n", "the NRRD header has no sizes"},
		{"dimension: 1\nsizes: 1\n\n", "the NRRD header has no type"},
		{"dimension: 4\n\n", "'dimension' is '4'; 1 to 3 axes can be read"},
		{"sizes: 1 1\n\n", "'sizes' is '1 1'; it must follow 'dimension'"},
		{"dimension: 2\nsizes: 1 0\n\n", "sizes are whole numbers from 1 on"},
		{"type: block\n\n", "'type' is 'block'; integers and floats can be read"},
		{"encoding: bzip2\n\n", "'encoding' is 'bzip2'; raw and gzip can be read"},
		{"dimension: 1\nsizes: 1\ntype: float\nline skip: 9\n\n",
			"has fewer lines than 'line skip' says"},
		{"dimension: 1\nsizes: 1\ntype: float\ndata file: LIST\n\n",
			"one file can be read"},
		{"dimension: 1\nsizes: 1\ntype: float\ndata file: LIST 2\n\n",
			"one file can be read"},
		{"dimension: 1\nsizes: 1\ntype: float\ndata file: list.raw\n\n",
			"list.raw', cannot be opened"},
		{"dimension: 1\nsizes: 1\ntype: float\nencoding: gzip\n\n-------",
			"the compressed data are damaged"}};
	for (int i = 0; i < COUNT(cases); i++) {
		char text[256];
		snprintf(text, sizeof text, "NRRD0004\n%s", cases[i].text);
		assert_rejected("x.nrrd", text, strlen(text), cases[i].says);
	}
	static char lines[1 << 17];
	memset(lines, ' ', sizeof lines);
	memcpy(lines, "NRRD0004\ntype: float\ndimension: 1\nsizes: 1\n#", 45);
	assert_rejected("x.nrrd", lines, sizeof lines, "no empty line ends the NRRD header");
	assert_int_equal(mem_live(), 0);
}

#define VTI "<VTKFile type=\"ImageData\" "
#define ONE "><ImageData WholeExtent=\"0 0 0 0 0 0\"><Piece><PointData><DataArray type=\"UInt8\" "

static void vti_rejections(void **state)
{
	(void)state;
	static const struct {
		const char *text, *says;
	} cases[] = {{VTI ">", "the VTI header has no image with an array"},
		{VTI "><ImageData><Piece><DataArray type=\"UInt8\">", "has no WholeExtent"},
		{VTI "><ImageData WholeExtent=\"0 -3 0 0 0 0\"><Piece><DataArray>",
			"WholeExtent is '0 -3 0 0 0 0', which is no volume"},
		{VTI ONE "><Piece>", "several pieces cannot be read"},
		{VTI ONE "NumberOfComponents=\"3\">", "several components per voxel cannot be"},
		{VTI ONE "format=\"ascii\">", "neither appended nor binary"},
		{VTI ONE "format=\"appended\" offset=\"9223372036854775622\"/>"
			 "<AppendedData encoding=\"raw\">_",
			"x.vti' has 0 bytes of data"},
		{VTI "compressor=\"vtkLZ4DataCompressor\"" ONE "format=\"binary\">",
			"compressed by something other than zlib"},
		{VTI ONE "format=\"binary\">AgAAAAc=", "its number of bytes is not that"},
		{VTI ONE "format=\"appended\" offset=\"0\"/><AppendedData encoding=\"raw\">_"
			 "\2    7",
			"its number of bytes is not that"},
		{VTI ONE "format=\"binary\">AQ*AAAc=", "it has other letters than base64"},
		{VTI ONE "format=\"binary\">AQAAAAcH", "or does not end where its data do"},
		{VTI ONE "format=\"binary\">AQ=AAAc=", "or does not end where its data do"},
		{VTI ONE "format=\"binary\">AQAA====", "or does not end where its data do"},
		{VTI ONE "format=\"binary\">AQ", "it ends too early"},
		{VTI "compressor=\"vtkZLibDataCompressor\"" ONE
		     "format=\"binary\">AAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
			"its blocks are not those of the volume"}};
	for (int i = 0; i < COUNT(cases); i++)
		assert_rejected("x.vti", cases[i].text, strlen(cases[i].text), cases[i].says);
	assert_int_equal(mem_live(), 0);
}

/* Data that are unpacked keep the grid of their header. */
static void packed_grids(void **state)
{
	(void)state;
	static const char nrrd[] = "NRRD0005\ntype: uint8\ndimension: 3\nsizes: 1 1 1\n"
				   "space: left-posterior-superior\n"
				   "space directions: (0.5,0,0) (0,0.25,0) (0,0,2)\n"
				   "space origin: (1,2,3)\nencoding: gzip\n\n";
	static const char vti[] = VTI "><ImageData WholeExtent=\"0 0 0 0 0 0\" Origin=\"1 2 3\" "
				      "Spacing=\"0.5 0.25 2\"><Piece><PointData>"
				      "<DataArray type=\"UInt8\" format=\"binary\">AQAAAAc=";
	const tomos_grid grid = {{1, 1, 1}, {1, 2, 3}, {0.5, 0.25, 2}};
	FILE *to = fopen(at("grid.nrrd"), "wb");
	assert_non_null(to);
	assert_int_equal(fwrite(nrrd, 1, sizeof nrrd - 1, to), sizeof nrrd - 1);
	add_member(to, (const unsigned char *)"\7", 1);
	assert_int_equal(fclose(to), 0);
	put_file(at("grid.vti"), vti, sizeof vti - 1);
	assert_grid(at("grid.nrrd"), &grid);
	assert_grid(at("grid.vti"), &grid);
	assert_int_equal(mem_live(), 0);
}

#define CELLS "><ImageData WholeExtent=\"0 1 0 1 0 1\"><Piece>"

/* One number in base64: its length encoded with it or by itself, of 4 or 8 bytes; and an array that
 * follows an empty list of the other kind. */
static void vti_places(void **state)
{
	(void)state;
	static const char *const texts[] = {
		VTI ONE "format=\"binary\">\n  AQAAAAc=", VTI ONE "format=\"binary\">AQAAAA==Bw==",
		VTI "header_type=\"UInt64\"" ONE "format=\"binary\">AQAAAAAAAAAH",
		VTI "header_type=\"UInt64\"" ONE "format=\"binary\">AQAAAAAAAAA=Bw==",
		VTI CELLS "<PointData/><CellData><DataArray type=\"UInt8\" format=\"binary\">"
			  "AQAAAAc=</DataArray></CellData>",
		VTI CELLS "<CellData><DataArray type=\"UInt8\" format=\"binary\">AQAAAAc="
			  "</DataArray></CellData><PointData/>",
		VTI ONE "format=\"binary\">AQAAAAc=</DataArray></PointData><CellData/>",
		VTI
		"><ImageData WholeExtent=\"0 0 0 0 0 0\"><Piece><CellData></CellData><PointData>"
		"<DataArray type=\"UInt8\" format=\"binary\">AQAAAAc="};
	for (int i = 0; i < COUNT(texts); i++) {
		put_file(at("x.vti"), texts[i], strlen(texts[i]));
		assert_reads(at("x.vti"), (int64_t[]){1, 1, 1}, (float[]){7});
	}
	assert_int_equal(mem_live(), 0);
}

static int begin(void **state)
{
	exact_numbers(numbers, N);
	return scratch_make(state);
}

#define TESTS(T) \
	T(grids), T(no_grids), T(rotations), T(long_axes), T(all_types), T(members), \
		T(nothing_left), T(nrrd_places), T(fractions), T(nifti_rejections), \
		T(nrrd_rejections), T(vti_rejections), T(packed_grids), T(vti_places), \
		T(second_commit), T(unpacked)
TEST_MAIN(TESTS, begin, scratch_remove)
