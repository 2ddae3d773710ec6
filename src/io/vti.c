/* Image data of VTK in XML (.vti), for ParaView and PyVista: written with the numbers as they
 * are at the end of the file ("appended, raw"); also read in base64 and compressed by zlib, as
 * VTK writes them.
 *
 * The unit of values is VTK's UNITS_LABEL, that of lengths is in a comment.
 *
 * Voxels are VTK's points, so Origin is the centre of the first. Mirrored axes are signs of
 * Direction, which VTK reads since version 9: spacings are positive there.
 * https://docs.vtk.org/en/latest/design_documents/VTKFileFormats.html
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "io/vti.h"

enum { LARGEST_HEADER = 1 << 16, HEADER = 1536, LENGTH = 8 };

static const char trailer[] = "\n  </AppendedData>\n</VTKFile>\n";

static const ElementNames types[] = {{"Int8", {'i', 1, false}}, {"UInt8", {'u', 1, false}},
	{"Int16", {'i', 2, false}}, {"UInt16", {'u', 2, false}}, {"Int32", {'i', 4, false}},
	{"UInt32", {'u', 4, false}}, {"Int64", {'i', 8, false}}, {"UInt64", {'u', 8, false}},
	{"Float32", {'f', 4, false}}, {"Float64", {'f', 8, false}}};

/* ---- tags ------------------------------------------------------------------------------------ */

/* The text of a header; a tag is a pointer to its '<'. */
typedef struct {
	const char *path;
	char *text;
	char value[128]; /* the last attribute that was asked for */
} Header;

static const char *find_tag(const char *text, const char *name)
{
	size_t length = strlen(name);
	for (const char *at = text; (at = strchr(at, '<')); at++)
		if (strncmp(at + 1, name, length) == 0 && strchr(" \t\r\n/>", at[1 + length]))
			return at;
	return NULL;
}

static const char *skip_blanks(const char *at)
{
	return at + strspn(at, " \t\r\n");
}

/* The attribute of a tag, cut to the room for it; NULL: it has none. */
static const char *attribute(Header *h, const char *tag, const char *name)
{
	const char *at = tag ? tag + 1 + strcspn(tag + 1, " \t\r\n/>") : "";
	for (at = skip_blanks(at); *at && *at != '>' && *at != '/';) {
		size_t length = strcspn(at, "= \t\r\n>");
		const char *quote = skip_blanks(at + length);
		quote = *quote == '=' ? skip_blanks(quote + 1) : quote;
		const char *end =
			*quote == '"' || *quote == '\'' ? strchr(quote + 1, *quote) : NULL;
		if (!end)
			return NULL;
		if (strlen(name) == length && strncmp(at, name, length) == 0) {
			snprintf(h->value, sizeof h->value, "%.*s", (int)(end - quote - 1),
				quote + 1);
			return h->value;
		}
		at = skip_blanks(end + 1);
	}
	return NULL;
}

static bool attribute_is(Header *h, const char *tag, const char *name, const char *value)
{
	const char *found = attribute(h, tag, name);
	return found && strcmp(found, value) == 0;
}

static bool take_numbers(Header *h, const char *tag, const char *name, double *numbers, int count)
{
	const char *text = attribute(h, tag, name);
	char *end;
	for (int i = 0; text && i < count; i++, text = end) {
		numbers[i] = strtod(text, &end);
		if (end == text)
			return false;
	}
	return text != NULL;
}

static tomos_status reject(const Header *h, const char *what)
{
	return fail(TOMOS_UNSUPPORTED, "'%s': %s cannot be read from a VTI file", h->path, what);
}

/* ---- the description ------------------------------------------------------------------------- */

/* The tags that describe the volume. */
typedef struct {
	const char *file, *image, *array, *appended;
	bool cells; /* the numbers are of cells, not of points */
} Tags;

/* The first array of a piece, and whether it is one of cells: whatever of PointData and CellData
 * begins last before it holds it. */
static void find_array(const char *piece, Tags *t)
{
	const char *points = find_tag(piece, "PointData"), *cells = find_tag(piece, "CellData");
	t->array = find_tag(piece, "DataArray");
	points = points && points < t->array ? points : NULL;
	t->cells = cells && cells < t->array && (!points || points < cells);
}

static tomos_status find_tags(Header *h, Tags *t)
{
	t->file = find_tag(h->text, "VTKFile");
	t->image = t->file ? find_tag(t->file, "ImageData") : NULL;
	const char *piece = t->image ? find_tag(t->image, "Piece") : NULL;
	t->array = NULL;
	if (piece)
		find_array(piece, t);
	if (!t->array)
		return fail(TOMOS_BAD_FILE,
			"'%s': the VTI header has no image with an array in its first %d bytes",
			h->path, LARGEST_HEADER);
	t->appended = find_tag(t->array, "AppendedData");
	if (find_tag(piece + 1, "Piece"))
		return reject(h, "several pieces");
	if (attribute(h, t->array, "NumberOfComponents") &&
		!attribute_is(h, t->array, "NumberOfComponents", "1"))
		return reject(h, "several components per voxel");
	return TOMOS_OK;
}

static tomos_status take_shape(File *file, Header *h, const Tags *t, int64_t low[3])
{
	double extent[6];
	int64_t axes[3];
	if (!take_numbers(h, t->image, "WholeExtent", extent, 6))
		return fail(TOMOS_BAD_FILE, "'%s': the VTI header has no WholeExtent", h->path);
	for (int i = 0; i < 3; i++) {
		double count = extent[2 * i + 1] - extent[2 * i] + !t->cells;
		if (!(fabs(extent[2 * i]) <= 0x1p31 && count >= 1 && count <= 0x1p31))
			return fail(TOMOS_BAD_FILE, "'%s': WholeExtent is '%s', which is no volume",
				h->path, h->value);
		axes[2 - i] = (int64_t)count;
		low[i] = (int64_t)extent[2 * i];
	}
	return file_take_shape(file, axes, 3);
}

static tomos_status take_type(File *file, Header *h, const Tags *t)
{
	bool big = attribute_is(h, t->file, "byte_order", "BigEndian");
	const char *name = attribute(h, t->array, "type");
	for (int i = 0; name && i < COUNT(types); i++)
		if (strcmp(name, types[i].names) == 0)
			file->element = types[i].element;
	if (!file->element.bytes)
		return reject(h, "numbers of this type");
	file->element.swapped = big != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
	return TOMOS_OK;
}

/* Axes that are at most mirrored give a grid. */
static void take_grid(GridNumbers *grid, Header *h, const Tags *t, const int64_t low[3])
{
	double origin[3] = {0}, spacing[3] = {1, 1, 1}, turn[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
	grid->known = take_numbers(h, t->image, "Spacing", spacing, 3);
	(void)take_numbers(h, t->image, "Origin", origin, 3);
	(void)take_numbers(h, t->image, "Direction", turn, 9);
	for (int i = 0; i < 3; i++) {
		grid->known &= fabs(turn[4 * i]) == 1;
		grid->step[i] = spacing[i] * turn[4 * i];
		grid->first[i] =
			origin[i] + ((double)low[i] + (t->cells ? 0.5 : 0)) * grid->step[i];
	}
	grid_check(grid);
}

/* Comment and label of files that tomos wrote; the label is VTK's, which others write as well. */
static void take_units(File *file, Header *h, const Tags *t)
{
	char text[512];
	const char *key = find_tag(t->array, "InformationKey"),
		   *end = strstr(t->array, "</DataArray>"), *open = strchr(t->array, '>');
	if (open && open > t->array && open[-1] == '/') /* an array without contents */
		end = open;
	snprintf(text, sizeof text, "%s", h->text);
	char *comment = strstr(text, "<!--"), *close = comment ? strstr(comment, "-->") : NULL;
	if (close) {
		*close = 0;
		units_find(file, comment);
	}
	if (!key || (end && key > end) || !attribute_is(h, key, "name", "UNITS_LABEL"))
		return;
	const char *value = strchr(key, '>');
	if (value)
		unit_copy(file->units.value, value + 1, strcspn(value + 1, "<"));
}

/* Where the array begins, from the header's text; -1: it does not say. */
static int64_t array_at(Header *h, const Tags *t)
{
	const char *start = NULL, *offset;
	if (attribute_is(h, t->array, "format", "binary")) {
		start = strchr(t->array, '>');
		return start ? skip_blanks(start + 1) - h->text : -1;
	}
	if (!attribute_is(h, t->array, "format", "appended") || !t->appended)
		return -1;
	start = strchr(t->appended, '>');
	start = start ? strchr(start, '_') : NULL;
	offset = attribute(h, t->array, "offset");
	int64_t skip = offset ? strtoll(offset, NULL, 10) : 0, at;
	return start && skip >= 0 && size_add(start + 1 - h->text, skip, &at) ? at : -1;
}

static tomos_status describe_array(File *file, Header *h, const Tags *t, VtiArray *array)
{
	const char *packer = attribute(h, t->file, "compressor");
	int64_t count;
	array->packed = packer && packer[0];
	if (array->packed && strcmp(packer, "vtkZLibDataCompressor") != 0)
		return reject(h, "an array compressed by something other than zlib");
	array->base64 = attribute_is(h, t->array, "format", "binary") ||
			attribute_is(h, t->appended, "encoding", "base64");
	array->word = attribute_is(h, t->file, "header_type", "UInt64") ? 8 : 4;
	array->swapped = file->element.swapped;
	array->path = file->path;
	array->at = array_at(h, t);
	if (array->at < 0)
		return reject(h, "an array that is neither appended nor binary");
	TRY(shape_count(file->shape, &count));
	if (!size_mul(count, file->element.bytes, &array->bytes))
		array->bytes = INT64_MAX;
	return TOMOS_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool vti_probe(const unsigned char *head, size_t length)
{
	char text[512];
	size_t some = length < sizeof text - 1 ? length : sizeof text - 1;
	if (!head || some < 1 || head[0] != '<')
		return false;
	memcpy(text, head, some);
	text[some] = 0;
	const char *tag = strstr(text, "<VTKFile");
	return tag && strstr(tag, "\"ImageData\"");
}

/* Numbers that are in the file as they are; others are unpacked. */
static tomos_status open_array(File *file, Plain *plain, VtiArray *array)
{
	int unpacked = -1;
	int64_t end;
	array->descriptor = plain->descriptor;
	array->end = plain->size;
	if (!array->base64 && !array->packed) {
		if (!size_add(array->at, array->word, &plain->data))
			plain->data = plain->size;
		if (size_add(plain->data, array->bytes, &end) && end <= plain->size)
			plain->size = end;
		TRY(plain_check(plain, file, file->path));
		return vti_check_length(array);
	}
	tomos_status status = vti_unpack(array, &unpacked);
	(void)flat_close(&plain->descriptor, file->path);
	*plain = (Plain){.descriptor = unpacked, .size = array->bytes, .grid = plain->grid};
	file->unpacked = true;
	return status;
}

static tomos_status open_header(File *file, Plain *own, Header *h)
{
	VtiArray array = {.word = 4};
	Tags tags;
	int64_t low[3];
	int64_t length = min64(own->size, LARGEST_HEADER);
	TRY(mem_zeroed(&h->text, length + 1, 1, "a VTI header"));
	TRY(flat_read(own->descriptor, file->path, 0, h->text, length));
	TRY(find_tags(h, &tags));
	TRY(take_shape(file, h, &tags, low));
	TRY(take_type(file, h, &tags));
	take_grid(&own->grid, h, &tags, low);
	take_units(file, h, &tags);
	TRY(describe_array(file, h, &tags, &array));
	return file->bare ? TOMOS_OK : open_array(file, own, &array);
}

static tomos_status vti_open(File *file, const tomos_file_options *options)
{
	Header h = {.path = file->path};
	(void)options;
	TRY(plain_new(file, sizeof(Plain)));
	Plain *own = file->own;
	TRY(flat_open(&own->descriptor, &own->size, file->path));
	tomos_status status = open_header(file, own, &h);
	mem_free(h.text);
	return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Blanks fill the header, so that the data always have the same offset. */
static tomos_status vti_seal(File *file)
{
	const Plain *own = file->own;
	const int64_t *n = file->shape;
	const GridNumbers *g = &own->grid;
	char text[HEADER], extent[128], grid[256] = "", label[128] = "", units[UNITS_TEXT];
	const char *name = file->content == TOMOS_PROJECTIONS ? "projections" : "volume";
	uint64_t bytes = (uint64_t)(n[0] * n[1] * n[2] * file->element.bytes);
	if (g->known)
		snprintf(grid, sizeof grid,
			" Origin=\"%.17g %.17g %.17g\" Spacing=\"%.17g %.17g %.17g\" "
			"Direction=\"%d 0 0 0 %d 0 0 0 %d\"",
			g->first[0], g->first[1], g->first[2], fabs(g->step[0]), fabs(g->step[1]),
			fabs(g->step[2]), g->step[0] < 0 ? -1 : 1, g->step[1] < 0 ? -1 : 1,
			g->step[2] < 0 ? -1 : 1);
	if (file->units.value[0])
		snprintf(label, sizeof label,
			"<InformationKey name=\"UNITS_LABEL\" location=\"vtkDataArray\">%s"
			"</InformationKey>",
			file->units.value);
	units_say(file, units);
	snprintf(extent, sizeof extent, "0 %lld 0 %lld 0 %lld", (long long)n[2] - 1,
		(long long)n[1] - 1, (long long)n[0] - 1);
	int length = snprintf(text, sizeof text,
		"<?xml version=\"1.0\"?>\n<!-- tomos%s%s -->\n<VTKFile type=\"ImageData\" "
		"version=\"1.0\" "
		"byte_order=\"%s\" header_type=\"UInt64\">\n  <ImageData WholeExtent=\"%s\"%s>\n"
		"    <Piece Extent=\"%s\">\n      <PointData Scalars=\"%s\">\n"
		"        <DataArray type=\"%s\" Name=\"%s\" format=\"appended\" offset=\"0\">%s"
		"</DataArray>\n"
		"      </PointData>\n    </Piece>\n  </ImageData>\n"
		"  <AppendedData encoding=\"raw\">\n",
		units[0] ? ", " : "", units,
		__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? "BigEndian" : "LittleEndian", extent, grid,
		extent, name, element_names(types, COUNT(types), file->element), name, label);
	memset(text + length, ' ', (size_t)(HEADER - length));
	text[HEADER - LENGTH - 1] = '_';
	memcpy(text + HEADER - LENGTH, &bytes, LENGTH);
	return flat_write(own->descriptor, file->path, 0, text, HEADER);
}

static tomos_status vti_create(File *file)
{
	TRY(plain_new(file, sizeof(Plain)));
	return plain_create(file, file->own, HEADER);
}

static tomos_status vti_finish(File *file)
{
	Plain *own = file->own;
	const int64_t *n = file->shape;
	int64_t end = HEADER + n[0] * n[1] * n[2] * file->element.bytes;
	int64_t length = (int64_t)strlen(trailer);
	if (own->descriptor < 0)
		return TOMOS_OK;
	reserve_close(&own->reserve);
	TRY(vti_seal(file));
	TRY(flat_write(own->descriptor, file->path, end, trailer, length));
	TRY(flat_cut(own->descriptor, file->path, end + length));
	return flat_close(&own->descriptor, file->path);
}

const Format format_vti = {
	.name = "vti",
	.endings = "vti",
	.probe = vti_probe,
	.open = vti_open,
	.create = vti_create,
	.write = plain_file_write,
	.finish = vti_finish,
	.seal = vti_seal,
	.close = plain_file_close,
	PLAIN_READ,
	PLAIN_GRID,
};
