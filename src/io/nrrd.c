/* NRRD files (.nrrd, and .nhdr with the data in a second file), raw or gzip: a header of lines
 * "field: value" that an empty line ends. The format of teem, 3D Slicer and ITK.
 *
 * Axes are listed x first. Grids are written in the space left-posterior-superior, which is that of
 * ITK, so that a volume is at the same place as in a MetaImage file.
 * https://teem.sourceforge.net/nrrd/format.html
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "io/io.h"

#define VALUE_UNITS "value units:="
enum { LARGEST_HEADER = 1 << 16, HEADER = 1024, DIMENSIONS = 3 };

typedef struct {
	Plain plain; /* first, for the functions of plain files */
	char *data_path;
} Nrrd;

typedef struct {
	const char *path;
	char *text;
	int64_t length; /* of the header, with the empty line */
	bool cut;       /* the file is longer than the text */
	int rank;
	int64_t axes[DIMENSIONS];
	double spacings[DIMENSIONS], directions[DIMENSIONS][DIMENSIONS], origin[DIMENSIONS];
	bool has_spacings, has_directions, has_origin;
	bool big, packed;
	bool anterior, right; /* y and x of the space are opposite to those of grids */
	char unit[UNIT_NAME], sample_unit[UNIT_NAME]; /* of lengths and values */
	double unit_mm;                               /* how long that unit is */
	int64_t line_skip, byte_skip;
	char data_file[512];
	Element element;
} Header;

static const ElementNames types[] = {{"int8|signed char|int8_t", {'i', 1, false}},
	{"uint8|uchar|unsigned char|uint8_t", {'u', 1, false}},
	{"int16|short|short int|signed short|signed short int|int16_t", {'i', 2, false}},
	{"uint16|ushort|unsigned short|unsigned short int|uint16_t", {'u', 2, false}},
	{"int32|int|signed int|int32_t", {'i', 4, false}},
	{"uint32|uint|unsigned int|uint32_t", {'u', 4, false}},
	{"int64|longlong|long long|long long int|signed long long|signed long long int|int64_t",
		{'i', 8, false}},
	{"uint64|ulonglong|unsigned long long|unsigned long long int|uint64_t", {'u', 8, false}},
	{"float", {'f', 4, false}}, {"double", {'f', 8, false}}};

/* ---- the fields ------------------------------------------------------------------------------ */

static tomos_status reject(const Header *h, const char *field, const char *value, const char *why)
{
	return fail(TOMOS_UNSUPPORTED, "'%s': '%s' is '%.40s'; %s", h->path, field, value, why);
}

/* Numbers with blanks, commas or brackets between them. */
static int take_numbers(const char *text, double *numbers, int most)
{
	int count = 0;
	for (char *end; count < most; count++, text = end) {
		text += strspn(text, " \t(),");
		numbers[count] = strtod(text, &end);
		if (end == text)
			break;
	}
	return count;
}

static tomos_status take_dimension(Header *h, const char *value)
{
	h->rank = (int)max64(0, min64(99, strtoll(value, NULL, 10)));
	if (h->rank < 1 || h->rank > DIMENSIONS)
		return reject(h, "dimension", value, "1 to 3 axes can be read");
	return TOMOS_OK;
}

static tomos_status take_sizes(Header *h, const char *value)
{
	double numbers[DIMENSIONS + 1];
	int count = take_numbers(value, numbers, DIMENSIONS + 1);
	for (int i = 0; i < DIMENSIONS && i < count; i++) {
		if (!(numbers[i] >= 1 && numbers[i] <= 0x1p53))
			return reject(h, "sizes", value, "sizes are whole numbers from 1 on");
		h->axes[i] = (int64_t)numbers[i];
	}
	if (h->rank && count == h->rank)
		return TOMOS_OK;
	return reject(h, "sizes", value, "it must follow 'dimension' with one size per axis");
}

static tomos_status take_type(Header *h, const char *value)
{
	for (int i = 0; i < COUNT(types); i++)
		if (choice_index(types[i].names, value) >= 0)
			h->element = types[i].element;
	return h->element.bytes ? TOMOS_OK
				: reject(h, "type", value, "integers and floats can be read");
}

static tomos_status take_encoding(Header *h, const char *value)
{
	h->packed = strcasecmp(value, "gzip") == 0 || strcasecmp(value, "gz") == 0;
	return h->packed || strcasecmp(value, "raw") == 0
		       ? TOMOS_OK
		       : reject(h, "encoding", value, "raw and gzip can be read");
}

static void take_space(Header *h, const char *value)
{
	h->right =
		strcasecmp(value, "RAS") == 0 || strcasecmp(value, "right-anterior-superior") == 0;
	h->anterior = h->right || strcasecmp(value, "LAS") == 0 ||
		      strcasecmp(value, "left-anterior-superior") == 0;
}

/* "mm" "mm" "mm": one unit for all axes. */
static void take_unit(Header *h, const char *value)
{
	char unit[32] = "";
	const char *quote = strchr(value, '"');
	if (quote)
		snprintf(unit, sizeof unit, "%.*s", (int)strcspn(quote + 1, "\""), quote + 1);
	h->unit_mm = unit_take(h->unit, unit);
}

static void take_sample_unit(Header *h, const char *value)
{
	value += value[0] == '"';
	unit_copy(h->sample_unit, value, strcspn(value, "\""));
}

static bool is_field(const char *field, const char *name)
{
	return strcasecmp(field, name) == 0;
}

static void take_place(Header *h, const char *field, const char *value)
{
	const int all = DIMENSIONS * DIMENSIONS;
	if (is_field(field, "space"))
		take_space(h, value);
	if (is_field(field, "space directions"))
		h->has_directions = take_numbers(value, h->directions[0], all) == all;
	if (is_field(field, "space origin"))
		h->has_origin = take_numbers(value, h->origin, DIMENSIONS) == DIMENSIONS;
	if (is_field(field, "spacings"))
		h->has_spacings = take_numbers(value, h->spacings, DIMENSIONS) == DIMENSIONS;
	if (is_field(field, "space units") || is_field(field, "units"))
		take_unit(h, value);
	if (is_field(field, "sample units") || is_field(field, "sampleunits"))
		take_sample_unit(h, value);
}

static tomos_status take_field(Header *h, const char *field, const char *value)
{
	take_place(h, field, value);
	if (is_field(field, "dimension"))
		return take_dimension(h, value);
	if (is_field(field, "sizes"))
		return take_sizes(h, value);
	if (is_field(field, "type"))
		return take_type(h, value);
	if (is_field(field, "encoding"))
		return take_encoding(h, value);
	if (is_field(field, "endian"))
		h->big = strcasecmp(value, "big") == 0;
	if (is_field(field, "line skip") || is_field(field, "lineskip"))
		h->line_skip = strtoll(value, NULL, 10);
	if (is_field(field, "byte skip") || is_field(field, "byteskip"))
		h->byte_skip = strtoll(value, NULL, 10);
	if (is_field(field, "data file") || is_field(field, "datafile"))
		snprintf(h->data_file, sizeof h->data_file, "%s", value);
	return TOMOS_OK;
}

/* One line; comments do not concern the numbers, nor does "key:=value" except for VALUE_UNITS. */
static tomos_status take_line(Header *h, char *line)
{
	char *colon = strchr(line, ':');
	text_trim(line);
	if (line[0] == '#' || !colon)
		return TOMOS_OK;
	if (strncmp(line, VALUE_UNITS, strlen(VALUE_UNITS)) == 0)
		take_sample_unit(h, line + strlen(VALUE_UNITS));
	if (colon[1] == '=')
		return TOMOS_OK;
	*colon = 0;
	return take_field(h, line, colon + 1 + strspn(colon + 1, " \t"));
}

/* Up to the empty line, or in a .nhdr file to the end. */
static tomos_status parse(Header *h)
{
	for (char *at = h->text, *next; *at; at = next) {
		size_t length = strcspn(at, "\n");
		next = at + length + (at[length] == '\n');
		if (h->cut && !at[length])
			return fail(TOMOS_BAD_FILE,
				"'%s': no empty line ends the NRRD header in its first %d bytes",
				h->path, LARGEST_HEADER);
		at[length] = 0;
		text_trim(at);
		h->length = next - h->text;
		if (!at[0])
			break;
		TRY(take_line(h, at));
	}
	if (h->rank && h->axes[0] && h->element.bytes)
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE, "'%s': the NRRD header has no %s", h->path,
		!h->rank      ? "dimension"
		: !h->axes[0] ? "sizes"
			      : "type");
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool nrrd_probe(const unsigned char *head, size_t length)
{
	return head && length >= 9 && memcmp(head, "NRRD000", 7) == 0 && head[7] >= '1' &&
	       head[7] <= '9';
}

/* Axes that are at most mirrored give a grid. */
static void take_grid(GridNumbers *grid, const Header *h)
{
	grid->known = h->rank == DIMENSIONS && (h->has_directions || h->has_spacings);
	for (int i = 0; i < DIMENSIONS; i++) {
		for (int k = 0; k < DIMENSIONS && h->has_directions; k++)
			grid->known &= i == k || fabs(h->directions[i][k]) <=
							 1e-6 * fabs(h->directions[i][i]);
		grid->step[i] = h->has_directions ? h->directions[i][i] : h->spacings[i];
		grid->first[i] = h->has_origin ? h->origin[i] : 0;
	}
	const double signs[DIMENSIONS] = {h->right ? -1 : 1, h->anterior ? -1 : 1, 1};
	for (int i = 0; i < DIMENSIONS; i++) {
		grid->first[i] *= signs[i];
		grid->step[i] *= signs[i];
	}
	grid_scale(grid, h->unit_mm);
	grid_check(grid);
}

/* Moves the start of the data behind `lines` lines. */
static tomos_status skip_lines(Plain *plain, const char *path, int64_t lines)
{
	char piece[256];
	while (lines > 0) {
		int64_t bytes = min64((int64_t)sizeof piece, plain->size - plain->data);
		if (bytes < 1)
			return fail(
				TOMOS_BAD_FILE, "'%s' has fewer lines than 'line skip' says", path);
		TRY(flat_read(plain->descriptor, path, plain->data, piece, bytes));
		const char *end = memchr(piece, '\n', (size_t)bytes);
		plain->data += end ? end + 1 - piece : bytes;
		lines -= end != NULL;
	}
	return TOMOS_OK;
}

static tomos_status data_bytes(const File *file, int64_t *bytes)
{
	int64_t count;
	TRY(shape_count(file->shape, &count));
	if (!size_mul(count, file->element.bytes, bytes))
		*bytes = INT64_MAX;
	return TOMOS_OK;
}

static tomos_status unpack(File *file, Nrrd *own, const Header *h)
{
	Plain *plain = &own->plain;
	int64_t bytes, skip = max64(0, h->byte_skip);
	int unpacked = -1;
	TRY(data_bytes(file, &bytes));
	if (!size_add(bytes, skip, &bytes))
		bytes = INT64_MAX;
	tomos_status status = gzip_unpack(
		plain->descriptor, own->data_path, plain->data, plain->size, bytes, &unpacked);
	(void)flat_close(&plain->descriptor, own->data_path);
	*plain = (Plain){.descriptor = unpacked, .size = bytes, .data = skip, .grid = plain->grid};
	file->unpacked = true;
	return status;
}

/* "LIST", also with a number after it: the names of several files follow. */
static bool is_list(const char *data_file)
{
	return strncasecmp(data_file, "LIST", 4) == 0 && strchr(" \t", data_file[4]);
}

static tomos_status open_data(File *file, Nrrd *own, const Header *h)
{
	Plain *plain = &own->plain;
	int64_t bytes;
	bool local = !h->data_file[0];
	if (is_list(h->data_file) || strchr(h->data_file, '%'))
		return reject(h, "data file", h->data_file, "one file can be read");
	TRY(local ? mem_text(&own->data_path, file->path)
		  : path_beside(&own->data_path, file->path, h->data_file));
	tomos_status status = flat_open(&plain->descriptor, &plain->size, own->data_path);
	if (status != TOMOS_OK)
		return fail(status, "'%s': its data, '%.200s', cannot be opened", file->path,
			own->data_path);
	plain->data = local ? h->length : 0;
	TRY(skip_lines(plain, own->data_path, h->line_skip));
	if (h->packed)
		return unpack(file, own, h);
	TRY(data_bytes(file, &bytes));
	if (h->byte_skip < 0)
		plain->data = max64(0, plain->size - bytes);
	else if (!size_add(plain->data, h->byte_skip, &plain->data))
		plain->data = plain->size;
	return plain_check(plain, file, own->data_path);
}

static tomos_status open_header(File *file, Nrrd *own, Header *h)
{
	TRY(file_take_array(file, h->axes, h->rank, h->element, h->big));
	take_grid(&own->plain.grid, h);
	memcpy(file->units.length, h->unit, sizeof h->unit);
	memcpy(file->units.value, h->sample_unit, sizeof h->sample_unit);
	return file->bare ? TOMOS_OK : open_data(file, own, h);
}

static tomos_status read_text(Header *h)
{
	int descriptor;
	int64_t size;
	TRY(flat_open(&descriptor, &size, h->path));
	int64_t length = min64(size, LARGEST_HEADER);
	h->cut = length < size;
	tomos_status status = mem_zeroed(&h->text, length + 1, 1, "an NRRD header");
	if (status == TOMOS_OK)
		status = flat_read(descriptor, h->path, 0, h->text, length);
	(void)flat_close(&descriptor, h->path);
	return status == TOMOS_OK ? parse(h) : status;
}

static tomos_status nrrd_open(File *file, const tomos_file_options *options)
{
	Header h = {.path = file->path, .unit_mm = 1};
	(void)options;
	TRY(plain_new(file, sizeof(Nrrd)));
	tomos_status status = read_text(&h);
	if (status == TOMOS_OK)
		status = open_header(file, file->own, &h);
	mem_free(h.text);
	return status;
}

static tomos_status nrrd_sources(const File *file, TakePath take, void *user)
{
	const Nrrd *own = file->own;
	TRY(take(user, file->path));
	return !own->data_path || strcmp(own->data_path, file->path) == 0
		       ? TOMOS_OK
		       : take(user, own->data_path);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The unit of the samples; integers are scaled, so that the unit is that of values after that. */
static void say_values(const File *file, char *text, size_t size)
{
	const char *unit = file->units.value;
	if (file->element.kind == 'f')
		snprintf(text, size, "%s%s%s", unit[0] ? "sample units: " : "", unit,
			unit[0] ? "\n" : "");
	else
		snprintf(text, size, "scale:=%.17g\noffset:=%.17g\n%s%s%s", file->scale,
			file->offset, unit[0] ? VALUE_UNITS : "", unit, unit[0] ? "\n" : "");
}

/* A comment fills the header, so that the data always have the same offset. */
static tomos_status nrrd_seal(File *file)
{
	const Nrrd *own = file->own;
	const int64_t *n = file->shape;
	const double *first = own->plain.grid.first, *step = own->plain.grid.step;
	char text[HEADER + 1], grid[512] = "", units[128] = "", sample[192] = "";
	const FileUnits *u = &file->units;
	const char *type = element_names(types, COUNT(types), file->element);
	if (u->length[0])
		snprintf(units, sizeof units, "space units: \"%s\" \"%s\" \"%s\"\n", u->length,
			u->length, u->length);
	say_values(file, sample, sizeof sample);
	if (own->plain.grid.known)
		snprintf(grid, sizeof grid,
			"space: left-posterior-superior\n"
			"space directions: (%.17g,0,0) (0,%.17g,0) (0,0,%.17g)\n"
			"space origin: (%.17g,%.17g,%.17g)\n%s",
			step[0], step[1], step[2], first[0], first[1], first[2], units);
	int length = snprintf(text, sizeof text,
		"NRRD0005\ntype: %.*s\ndimension: 3\n%ssizes: %lld %lld %lld\n"
		"kinds: domain domain domain\n%sendian: %s\nencoding: raw\n# tomos",
		(int)strcspn(type, "|"), type, grid, (long long)n[2], (long long)n[1],
		(long long)n[0], sample, __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? "big" : "little");
	memset(text + length, ' ', (size_t)(HEADER - length));
	text[HEADER - 2] = text[HEADER - 1] = '\n';
	return flat_write(own->plain.descriptor, file->path, 0, text, HEADER);
}

static tomos_status nrrd_create(File *file)
{
	TRY(plain_new(file, sizeof(Nrrd)));
	return plain_create(file, file->own, HEADER);
}

static void nrrd_close(File *file)
{
	Nrrd *own = file->own;
	mem_free(own->data_path);
	plain_file_close(file);
}

const Format format_nrrd = {
	.name = "nrrd",
	.endings = "nrrd",
	.probe = nrrd_probe,
	.open = nrrd_open,
	.create = nrrd_create,
	.write = plain_file_write,
	.finish = plain_file_finish,
	.seal = nrrd_seal,
	.sources = nrrd_sources,
	.close = nrrd_close,
	PLAIN_READ,
	PLAIN_GRID,
};
