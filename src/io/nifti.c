/* NIfTI-1 and NIfTI-2 files, also compressed (.nii, .nii.gz): the format of nibabel, FSL and
 * many viewers. A header of fixed places, four bytes that announce no extension, and the
 * numbers, x fastest.
 *
 * The grid's coordinates are ITK's (LPS), so that a volume is at the same place as in a
 * MetaImage file; those of the header are RAS: x and y change sign. Compressed outputs are
 * written like others and packed when they are complete, so that slices may come in any order
 * and runs be resumed.
 * https://nifti.nimh.nih.gov/nifti-1, https://nifti.nimh.nih.gov/nifti-2
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "io/io.h"

enum { SIZE_1 = 348, SIZE_2 = 540, LARGEST_1 = 32767, UNIT_M = 1, UNIT_MM = 2, UNIT_MICRON = 3 };

/* Where the fields of a header are, and how wide: 'h' int16, 'i' int32, 'l' int64, 'f' float, 'd'
 * double, 'c' char. */
typedef struct {
	int at;
	char type;
} Field;

typedef struct {
	int64_t size; /* of the header; the data begin 4 bytes later in files written here */
	Field magic, dim, datatype, bits, pixdim, data, slope, inter, units, qform, sform, quatern,
		qoffset, srow, text;
	const char *mark;
	int mark_length;
} Layout;

static const Layout layouts[] = {
	{SIZE_1, {344, 'c'}, {40, 'h'}, {70, 'h'}, {72, 'h'}, {76, 'f'}, {108, 'f'}, {112, 'f'},
		{116, 'f'}, {123, 'c'}, {252, 'h'}, {254, 'h'}, {256, 'f'}, {268, 'f'}, {280, 'f'},
		{148, 'c'}, "n+1", 4},
	{SIZE_2, {4, 'c'}, {16, 'l'}, {12, 'h'}, {14, 'h'}, {104, 'd'}, {168, 'l'}, {176, 'd'},
		{184, 'd'}, {500, 'i'}, {344, 'i'}, {348, 'i'}, {352, 'd'}, {376, 'd'}, {400, 'd'},
		{240, 'c'}, "n+2\0\r\n\032\n", 8},
};

static const struct {
	int code;
	Element element;
} types[] = {{2, {'u', 1, false}}, {4, {'i', 2, false}}, {8, {'i', 4, false}},
	{16, {'f', 4, false}}, {64, {'f', 8, false}}, {256, {'i', 1, false}},
	{512, {'u', 2, false}}, {768, {'u', 4, false}}, {1024, {'i', 8, false}},
	{1280, {'u', 8, false}}};

typedef struct {
	Plain plain; /* first, for the functions of plain files */
	const Layout *layout;
	bool packed;
	bool finished; /* the commit may be tried again */
} Nifti;

/* A header in memory. */
typedef struct {
	const Layout *layout;
	bool swapped;
	unsigned char bytes[SIZE_2];
} Header;

/* ---- fields ---------------------------------------------------------------------------------- */

static int width_of(Field field)
{
	return field.type == 'c'                        ? 1
	       : field.type == 'h'                      ? 2
	       : field.type == 'l' || field.type == 'd' ? 8
							: 4;
}

/* Floats are taken as the decimal number that was stored in them. */
static double field_get(const Header *h, Field field, int index)
{
	int width = width_of(field);
	unsigned char bytes[8] = {0};
	float single;
	double number;
	for (int i = 0; i < width; i++)
		bytes[i] = h->bytes[field.at + index * width + (h->swapped ? width - 1 - i : i)];
	memcpy(&single, bytes, sizeof single);
	if (field.type == 'f')
		return isfinite(single) ? float_as_written(single) : (double)single;
	char kind = field.type == 'd' ? 'f' : 'i';
	element_widen((Element){kind, width, false}, bytes, 1, &number);
	return number;
}

static void field_put(Header *h, Field field, int index, double number)
{
	int width = width_of(field);
	int64_t whole = field.type == 'f' || field.type == 'd' ? 0 : (int64_t)number;
	int32_t word = (int32_t)whole;
	int16_t half = (int16_t)whole;
	int8_t byte = (int8_t)whole;
	float single = (float)number;
	const void *from = field.type == 'f'   ? (void *)&single
			   : field.type == 'd' ? (void *)&number
			   : width == 8        ? (void *)&whole
			   : width == 4        ? (void *)&word
			   : width == 2        ? (void *)&half
					       : (void *)&byte;
	memcpy(h->bytes + field.at + index * width, from, (size_t)width);
}

/* ---- the header of a file -------------------------------------------------------------------- */

/* Whether these bytes begin a NIfTI file, and in which version and byte order. */
static bool header_is(Header *h, const unsigned char *bytes, size_t length)
{
	for (int i = 0; i < COUNT(layouts); i++) {
		const Layout *l = &layouts[i];
		const unsigned char size[2] = {
			(unsigned char)l->size, (unsigned char)(l->size >> 8)};
		if (length < (size_t)l->size ||
			memcmp(bytes + l->magic.at, l->mark, (size_t)l->mark_length) != 0)
			continue;
		bool little = memcmp(bytes, size, 2) == 0 && bytes[2] == 0 && bytes[3] == 0;
		bool big = bytes[0] == 0 && bytes[1] == 0 && bytes[2] == size[1] &&
			   bytes[3] == size[0];
		h->layout = l;
		h->swapped = little != (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
		memcpy(h->bytes, bytes, (size_t)l->size);
		return little || big;
	}
	return false;
}

static bool nifti_probe(const unsigned char *head, size_t length)
{
	unsigned char unpacked[SIZE_2];
	Header h;
	if (!head)
		return false;
	if (header_is(&h, head, length))
		return true;
	return header_is(&h, unpacked, gzip_head(head, length, unpacked, sizeof unpacked));
}

static tomos_status take_shape(File *file, const Header *h)
{
	double dim[8];
	int64_t axes[3] = {1, 1, 1};
	for (int i = 0; i < 8; i++)
		dim[i] = field_get(h, h->layout->dim, i);
	if (!(dim[0] >= 1 && dim[0] <= 7))
		return fail(TOMOS_BAD_FILE,
			"'%s': the NIfTI header has %g axes; 1 to 7 are possible", file->path,
			dim[0]);
	for (int i = 1; i <= (int)dim[0]; i++) {
		if (i > 3 && dim[i] > 1)
			return fail(TOMOS_UNSUPPORTED,
				"'%s': axis %d has %g places; one volume can be read, not a series",
				file->path, i, dim[i]);
		if (!(dim[i] >= 1 && dim[i] <= 0x1p53))
			return fail(TOMOS_BAD_FILE, "'%s': axis %d has %g places", file->path, i,
				dim[i]);
		if (i <= 3)
			axes[3 - i] = (int64_t)dim[i];
	}
	return file_take_shape(file, axes, 3);
}

static tomos_status take_type(File *file, const Header *h)
{
	int code = (int)field_get(h, h->layout->datatype, 0);
	for (int i = 0; i < COUNT(types); i++)
		if (types[i].code == code)
			file->element = types[i].element;
	if (!file->element.bytes)
		return fail(TOMOS_UNSUPPORTED,
			"'%s': NIfTI data of type %d; integers and floats of one channel can be "
			"read",
			file->path, code);
	file->element.swapped = h->swapped && file->element.bytes > 1;
	double slope = field_get(h, h->layout->slope, 0), inter = field_get(h, h->layout->inter, 0);
	if (slope != 0 && isfinite(slope)) {
		file->scale = slope;
		file->offset = isfinite(inter) ? inter : 0;
	}
	return TOMOS_OK;
}

/* A matrix whose axes are at most mirrored gives a grid. */
static void take_matrix(GridNumbers *grid, double matrix[3][4])
{
	grid->known = true;
	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 3; k++)
			grid->known &= i == k || fabs(matrix[i][k]) <= 1e-6 * fabs(matrix[k][k]);
		grid->step[i] = matrix[i][i];
		grid->first[i] = matrix[i][3];
	}
}

static void take_quaternion(GridNumbers *grid, const Header *h)
{
	const Layout *l = h->layout;
	double b = field_get(h, l->quatern, 0), c = field_get(h, l->quatern, 1),
	       d = field_get(h, l->quatern, 2);
	double a = sqrt(fmax(0, 1 - b * b - c * c - d * d));
	double turn = field_get(h, l->pixdim, 0) < 0 ? -1 : 1;
	double m[3][4] = {{a * a + b * b - c * c - d * d, 2 * (b * c - a * d), 2 * (b * d + a * c)},
		{2 * (b * c + a * d), a * a + c * c - b * b - d * d, 2 * (c * d - a * b)},
		{2 * (b * d - a * c), 2 * (c * d + a * b), a * a + d * d - b * b - c * c}};
	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 3; k++)
			m[i][k] *= fabs(field_get(h, l->pixdim, k + 1)) * (k == 2 ? turn : 1);
		m[i][3] = field_get(h, l->qoffset, i);
	}
	take_matrix(grid, m);
}

/* The matrix, or else the rotation, or else the distances of voxels alone, unless they are all 1 of
 * no unit: then the file was written without a grid. */
static void take_grid(File *file, GridNumbers *grid, const Header *h)
{
	const Layout *l = h->layout;
	double m[3][4] = {{0}};
	int unit = (int)field_get(h, l->units, 0) & 7;
	if (field_get(h, l->sform, 0) > 0) {
		for (int i = 0; i < 12; i++)
			m[i / 4][i % 4] = field_get(h, l->srow, i);
		take_matrix(grid, m);
		grid_mirror_xy(grid);
	} else if (field_get(h, l->qform, 0) > 0) {
		take_quaternion(grid, h);
		grid_mirror_xy(grid);
	} else {
		for (int i = 0; i < 3; i++)
			m[i][i] = field_get(h, l->pixdim, i + 1);
		take_matrix(grid, m);
		grid->known &= unit != 0 || m[0][0] != 1 || m[1][1] != 1 || m[2][2] != 1;
	}
	grid_scale(grid, unit == UNIT_M ? 1000 : unit == UNIT_MICRON ? 1e-3 : 1);
	grid_check(grid);
	if (unit >= UNIT_M && unit <= UNIT_MICRON)
		snprintf(file->units.length, UNIT_NAME, "mm");
}

/* The quaternion of a matrix of signs, and its first number ("qfac"), -1 with a reflection. */
static void put_quaternion(Header *h, const double step[3])
{
	const Layout *l = h->layout;
	bool x = step[0] < 0, y = step[1] < 0, z = step[2] < 0, reflected = x ^ y ^ z;
	z ^= reflected;
	field_put(h, l->pixdim, 0, reflected ? -1 : 1);
	field_put(h, l->quatern, 0, !x && y && z);
	field_put(h, l->quatern, 1, x && !y && z);
	field_put(h, l->quatern, 2, x && y && !z);
}

static void put_grid(Header *h, GridNumbers grid, bool sized)
{
	const Layout *l = h->layout;
	grid_mirror_xy(&grid);
	put_quaternion(h, grid.step);
	for (int i = 0; i < 3; i++) {
		field_put(h, l->pixdim, i + 1, fabs(grid.step[i]));
		field_put(h, l->qoffset, i, grid.first[i]);
		field_put(h, l->srow, 4 * i + i, grid.step[i]);
		field_put(h, l->srow, 4 * i + 3, grid.first[i]);
	}
	field_put(h, l->qform, 0, 1); /* coordinates of the scanner */
	field_put(h, l->sform, 0, 1);
	field_put(h, l->units, 0, sized ? UNIT_MM : 0);
}

/* ---- the description ------------------------------------------------------------------------- */

enum { TEXT = 80 };

static void take_text(File *file, const Header *h)
{
	char text[TEXT + 1] = "";
	memcpy(text, h->bytes + h->layout->text.at, TEXT);
	units_find(file, text);
}

static void put_text(const File *file, Header *h)
{
	char text[TEXT] = "", units[UNITS_TEXT];
	units_say(file, units);
	snprintf(text, sizeof text, "tomos%s%s", units[0] ? "; " : "", units);
	memcpy(h->bytes + h->layout->text.at, text, sizeof text);
}

/* ---- reading --------------------------------------------------------------------------------- */

static tomos_status read_header(File *file, Nifti *own, Header *h)
{
	enum { HEAD = 4096 };
	unsigned char head[HEAD], unpacked[SIZE_2];
	int64_t length = min64(HEAD, own->plain.size);
	TRY(flat_read(own->plain.descriptor, file->path, 0, head, length));
	if (header_is(h, head, (size_t)length))
		return TOMOS_OK;
	own->packed = true;
	if (header_is(h, unpacked, gzip_head(head, (size_t)length, unpacked, sizeof unpacked)))
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE, "'%s' is no NIfTI file", file->path);
}

/* Replaces the packed file by an unpacked one. */
static tomos_status unpack(File *file, Nifti *own)
{
	Plain *plain = &own->plain;
	int64_t bytes;
	int unpacked = -1;
	if (!size_mul(file->shape[0] * file->shape[1] * file->shape[2], file->element.bytes,
		    &bytes) ||
		!size_add(bytes, plain->data, &bytes))
		bytes = INT64_MAX;
	tomos_status status =
		gzip_unpack(plain->descriptor, file->path, 0, plain->size, bytes, &unpacked);
	(void)flat_close(&plain->descriptor, file->path);
	plain->descriptor = unpacked;
	plain->size = bytes;
	file->unpacked = true;
	return status;
}

static tomos_status nifti_open(File *file, const tomos_file_options *options)
{
	Header h;
	(void)options;
	TRY(plain_new(file, sizeof(Nifti)));
	Nifti *own = file->own;
	TRY(flat_open(&own->plain.descriptor, &own->plain.size, file->path));
	TRY(read_header(file, own, &h));
	TRY(take_shape(file, &h));
	TRY(take_type(file, &h));
	take_grid(file, &own->plain.grid, &h);
	take_text(file, &h);
	double data = field_get(&h, h.layout->data, 0);
	if (!(data >= (double)h.layout->size && data <= 0x1p53))
		return fail(TOMOS_BAD_FILE, "'%s': its data begin at byte %g, in the header",
			file->path, data);
	own->plain.data = (int64_t)data;
	if (own->packed && !file->bare)
		TRY(unpack(file, own));
	return file->bare ? TOMOS_OK : plain_check(&own->plain, file, file->path);
}

/* ---- writing --------------------------------------------------------------------------------- */

static int type_code(Element element)
{
	for (int i = 0; i < COUNT(types); i++)
		if (types[i].element.kind == element.kind &&
			types[i].element.bytes == element.bytes)
			return types[i].code;
	return 0;
}

static tomos_status nifti_seal(File *file)
{
	const Nifti *own = file->own;
	const Layout *l = own->layout;
	Header h = {.layout = l};
	int32_t size = (int32_t)l->size;
	memcpy(h.bytes, &size, sizeof size);
	memcpy(h.bytes + l->magic.at, l->mark, (size_t)l->mark_length);
	field_put(&h, l->dim, 0, 3);
	for (int i = 1; i < 8; i++) {
		field_put(&h, l->dim, i, i < 4 ? (double)file->shape[3 - i] : 1);
		field_put(&h, l->pixdim, i, 1);
	}
	field_put(&h, l->pixdim, 0, 1);
	field_put(&h, l->datatype, 0, type_code(file->element));
	field_put(&h, l->bits, 0, 8 * file->element.bytes);
	field_put(&h, l->data, 0, (double)own->plain.data);
	field_put(&h, l->slope, 0, file->scale);
	field_put(&h, l->inter, 0, file->offset);
	put_text(file, &h);
	if (own->plain.grid.known)
		put_grid(&h, own->plain.grid, strcmp(file->units.length, "mm") == 0);
	/* The bytes between header and data are zero: no extension. */
	TRY(flat_write(own->plain.descriptor, file->path, l->size, "\0\0\0", 4));
	return flat_write(own->plain.descriptor, file->path, 0, h.bytes, l->size);
}

static tomos_status nifti_create(File *file)
{
	const int64_t *n = file->shape;
	TRY(plain_new(file, sizeof(Nifti)));
	Nifti *own = file->own;
	bool large = max64(n[0], max64(n[1], n[2])) > LARGEST_1;
	own->layout = &layouts[large];
	own->packed = path_ends_in(file->path, ".gz");
	if (!large && file->element.kind != 'f') { /* what the header can hold */
		file->scale = float_as_written((float)file->scale);
		file->offset = float_as_written((float)file->offset);
	}
	return plain_create(file, &own->plain, own->layout->size + 4);
}

static tomos_status nifti_finish(File *file)
{
	Nifti *own = file->own;
	if (own->finished)
		return TOMOS_OK;
	TRY(plain_file_finish(file));
	if (own->packed)
		TRY(gzip_finish(file));
	own->finished = true;
	return TOMOS_OK;
}

const Format format_nifti = {
	.name = "nifti",
	.endings = "nii|nii.gz",
	.probe = nifti_probe,
	.open = nifti_open,
	.create = nifti_create,
	.write = plain_file_write,
	.finish = nifti_finish,
	.seal = nifti_seal,
	.close = plain_file_close,
	PLAIN_READ,
	PLAIN_GRID,
	.scaled = true,
};
