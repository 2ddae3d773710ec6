/* MetaImage files of ITK, VTK and many viewers: a header of lines "Key = Value", with the numbers
 * after it (.mha) or in a second file (.mhd, .raw).
 *
 * Axes are listed x first. A grid is stored as ElementSpacing, Offset and the signs of
 * TransformMatrix.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include "io/io.h"

enum {
	LARGEST_HEADER = 1 << 16,
	HEADER = 1024, /* bytes of the header in files written here */
	COMMENT = 200, /* and of a comment line in it */
	DIMENSIONS = 3,
};

typedef struct {
	Plain plain; /* of the data; the first member, for plain_file_read */
	char *data_path;
	/* writing */
	int header; /* descriptor of a .mhd header; -1: header and data in one file */
	char *data_temporary;
	bool published;
} Mhd;

/* ---- the header ------------------------------------------------------------------------------ */

typedef struct {
	const char *path;
	File *file;
	char *text;
	int64_t local; /* offset of data that follow the header */
	char data_file[512];
	int rank;
	int64_t axes[DIMENSIONS];
	double spacing[DIMENSIONS], offset[DIMENSIONS], turn[DIMENSIONS * DIMENSIONS];
	bool has_size, has_spacing, big, packed;
	double length; /* of the unit, in mm */
	int64_t skip, channels;
	Element element;
} Header;

static const ElementNames types[] = {{"MET_CHAR", {'i', 1, false}}, {"MET_UCHAR", {'u', 1, false}},
	{"MET_SHORT", {'i', 2, false}}, {"MET_USHORT", {'u', 2, false}},
	{"MET_INT", {'i', 4, false}}, {"MET_UINT", {'u', 4, false}}, {"MET_LONG", {'i', 4, false}},
	{"MET_ULONG", {'u', 4, false}}, {"MET_LONG_LONG", {'i', 8, false}},
	{"MET_ULONG_LONG", {'u', 8, false}}, {"MET_FLOAT", {'f', 4, false}},
	{"MET_DOUBLE", {'f', 8, false}}};

static tomos_status reject(const Header *h, const char *key, const char *value, const char *why)
{
	return fail(TOMOS_UNSUPPORTED, "'%s': %s is '%.40s'; %s", h->path, key, value, why);
}

static int take_numbers(const char *text, double *numbers, int most)
{
	int count = 0;
	for (char *end; count < most; count++, text = end) {
		numbers[count] = strtod(text, &end);
		if (end == text)
			break;
	}
	return count;
}

static tomos_status take_size(Header *h, const char *value)
{
	double numbers[DIMENSIONS + 1];
	h->rank = take_numbers(value, numbers, DIMENSIONS + 1);
	if (h->rank < 1 || h->rank > DIMENSIONS)
		return reject(h, "DimSize", value, "1 to 3 sizes can be read");
	for (int i = 0; i < h->rank; i++) {
		if (!(numbers[i] >= 1 && numbers[i] <= 0x1p53))
			return reject(h, "DimSize", value, "sizes are whole numbers from 1 on");
		h->axes[i] = (int64_t)numbers[i];
	}
	h->has_size = true;
	return TOMOS_OK;
}

static bool is_true(const char *value)
{
	return strcasecmp(value, "true") == 0 || strcmp(value, "1") == 0;
}

static tomos_status take_type(Header *h, const char *value)
{
	for (int i = 0; i < COUNT(types); i++)
		if (strcasecmp(value, types[i].names) == 0)
			h->element = types[i].element;
	return h->element.bytes
		       ? TOMOS_OK
		       : reject(h, "ElementType", value, "integers and floats can be read");
}

static bool is_key(const char *key, const char *name)
{
	return strcasecmp(key, name) == 0;
}

/* One line; keys that do not concern the numbers are ignored. */
static tomos_status take_line(Header *h, const char *key, const char *value)
{
	if (is_key(key, "DimSize"))
		return take_size(h, value);
	if (is_key(key, "ElementType"))
		return take_type(h, value);
	if (is_key(key, "ElementSpacing") || is_key(key, "ElementSize"))
		h->has_spacing = take_numbers(value, h->spacing, DIMENSIONS) > 0;
	if (is_key(key, "Offset") || is_key(key, "Position") || is_key(key, "Origin"))
		(void)take_numbers(value, h->offset, DIMENSIONS);
	if (is_key(key, "TransformMatrix") || is_key(key, "Orientation") || is_key(key, "Rotation"))
		(void)take_numbers(value, h->turn, DIMENSIONS * DIMENSIONS);
	if (is_key(key, "BinaryDataByteOrderMSB") || is_key(key, "ElementByteOrderMSB"))
		h->big = is_true(value);
	if (is_key(key, "CompressedData"))
		h->packed = is_true(value);
	if (is_key(key, "HeaderSize"))
		h->skip = strtoll(value, NULL, 10);
	if (is_key(key, "ElementNumberOfChannels"))
		h->channels = strtoll(value, NULL, 10);
	if (is_key(key, "Comment"))
		units_find(h->file, value);
	if (is_key(key, "DistanceUnits"))
		h->length = unit_take(h->file->units.length, value);
	if (is_key(key, "ElementDataFile"))
		snprintf(h->data_file, sizeof h->data_file, "%s", value);
	return TOMOS_OK;
}

/* Parses up to the line ElementDataFile, which is the last. */
static tomos_status parse(Header *h)
{
	for (char *at = h->text, *next; *at && !h->data_file[0]; at = next) {
		size_t length = strcspn(at, "\n");
		next = at + length + (at[length] == '\n');
		at[length] = 0;
		char *equal = strchr(at, '=');
		if (!equal)
			continue;
		*equal = 0;
		char *value = equal + 1 + strspn(equal + 1, " \t");
		text_trim(at);
		text_trim(value);
		TRY(take_line(h, at, value));
		h->local = next - h->text;
	}
	if (h->has_size && h->element.bytes && h->data_file[0])
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE, "'%s': the MetaImage header has no %s", h->path,
		!h->has_size        ? "DimSize"
		: !h->element.bytes ? "ElementType"
				    : "ElementDataFile");
}

static tomos_status read_text(Header *h, int descriptor, int64_t size)
{
	int64_t length = min64(size, LARGEST_HEADER);
	TRY(mem_zeroed(&h->text, length + 1, 1, "a MetaImage header"));
	TRY(flat_read(descriptor, h->path, 0, h->text, length));
	return parse(h);
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool mhd_probe(const unsigned char *head, size_t length)
{
	static const char *const starts[] = {"ObjectType", "NDims", "Comment"};
	for (int i = 0; head && i < COUNT(starts); i++)
		if (length > strlen(starts[i]) + 2 &&
			memcmp(head, starts[i], strlen(starts[i])) == 0 &&
			memchr(head, '=',
				strlen(starts[i]) + 3 < length ? strlen(starts[i]) + 3 : length))
			return true;
	return false;
}

static tomos_status mhd_new(File *file, Mhd **mhd)
{
	TRY(plain_new(file, sizeof **mhd));
	*mhd = file->own;
	(*mhd)->header = -1;
	return TOMOS_OK;
}

static tomos_status check_header(const Header *h)
{
	if (h->packed)
		return reject(h, "CompressedData", "True", "write it without compression");
	if (h->channels != 1)
		return fail(TOMOS_UNSUPPORTED, "'%s': %lld channels; one can be read", h->path,
			(long long)h->channels);
	if (strncasecmp(h->data_file, "LIST", 4) == 0 || strchr(h->data_file, '%'))
		return reject(h, "ElementDataFile", h->data_file, "one file can be read");
	if (h->skip < -1)
		return fail(TOMOS_BAD_FILE, "'%s': HeaderSize is %lld; it must be -1 or more",
			h->path, (long long)h->skip);
	return TOMOS_OK;
}

/* Opens the data file and finds the offset of the data; HeaderSize -1: the data are its end. */
static tomos_status open_data(File *file, Mhd *mhd, const Header *h)
{
	Plain *plain = &mhd->plain;
	bool local = strcasecmp(h->data_file, "LOCAL") == 0;
	int64_t count, bytes;
	TRY(local ? mem_text(&mhd->data_path, file->path)
		  : path_beside(&mhd->data_path, file->path, h->data_file));
	tomos_status status = flat_open(&plain->descriptor, &plain->size, mhd->data_path);
	if (status != TOMOS_OK)
		return fail(status, "'%s': its data, '%.200s', cannot be opened", file->path,
			mhd->data_path);
	TRY(shape_count(file->shape, &count));
	if (!size_mul(count, h->element.bytes, &bytes))
		bytes = INT64_MAX;
	plain->data = local ? h->local : h->skip < 0 ? max64(0, plain->size - bytes) : h->skip;
	return plain_check(plain, file, mhd->data_path);
}

/* Takes the grid if its axes are at most mirrored. In ITK lengths are in mm unless a file says
 * otherwise; spacings of 1 are those of a file without any. */
static void take_grid(Mhd *mhd, const Header *h)
{
	GridNumbers *grid = &mhd->plain.grid;
	bool sized = false;
	grid->known = h->has_spacing;
	for (int i = 0; i < DIMENSIONS; i++) {
		double sign = h->rank == DIMENSIONS ? h->turn[i * DIMENSIONS + i] : 1;
		grid->known &= fabs(sign) == 1 && h->spacing[i] > 0;
		grid->first[i] = h->offset[i];
		grid->step[i] = h->spacing[i] * sign;
		sized |= h->spacing[i] != 1;
	}
	grid_scale(grid, h->length);
	if (sized && grid->known && !h->file->units.length[0])
		snprintf(h->file->units.length, UNIT_NAME, "mm");
}

static tomos_status open_header(File *file, Mhd *mhd, Header *h)
{
	TRY(check_header(h));
	TRY(file_take_array(file, h->axes, h->rank, h->element, h->big));
	take_grid(mhd, h);
	return open_data(file, mhd, h);
}

static tomos_status mhd_open(File *file, const tomos_file_options *options)
{
	Header h = {.path = file->path,
		.file = file,
		.length = 1,
		.spacing = {1, 1, 1},
		.turn = {1, 0, 0, 0, 1, 0, 0, 0, 1},
		.channels = 1};
	Mhd *mhd;
	int descriptor;
	int64_t size;
	(void)options;
	TRY(mhd_new(file, &mhd));
	TRY(flat_open(&descriptor, &size, file->path));
	tomos_status status = read_text(&h, descriptor, size);
	(void)flat_close(&descriptor, file->path);
	if (status == TOMOS_OK)
		status = open_header(file, mhd, &h);
	mem_free(h.text);
	return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* Comment lines of `bytes` in total, blank after the keyword; ITK rejects lines of 500
 * characters. */
static void put_comments(const File *file, char *text, int bytes)
{
	char start[32 + UNITS_TEXT], units[UNITS_TEXT];
	int lines = (bytes + COMMENT - 1) / COMMENT;
	units_say(file, units);
	int length =
		snprintf(start, sizeof start, "Comment = tomos%s%s", units[0] ? ", " : "", units);
	memset(text, ' ', (size_t)bytes);
	for (int i = 0; i < lines; i++) {
		memcpy(text + bytes * i / lines, start, (size_t)length);
		text[bytes * (i + 1) / lines - 1] = '\n';
	}
}

/* Comments fill the header, so that the data of a .mha always have the same offset. */
static tomos_status mhd_seal(File *file)
{
	const Mhd *mhd = file->own;
	const int64_t *n = file->shape;
	const double *first = mhd->plain.grid.first, *step = mhd->plain.grid.step;
	bool local = mhd->header < 0;
	char text[HEADER], rest[HEADER], grid[288] = "";
	if (mhd->plain.grid.known)
		snprintf(grid, sizeof grid,
			"TransformMatrix = %d 0 0 0 %d 0 0 0 %d\nOffset = %.17g %.17g %.17g\n"
			"ElementSpacing = %.17g %.17g %.17g\n%s",
			step[0] < 0 ? -1 : 1, step[1] < 0 ? -1 : 1, step[2] < 0 ? -1 : 1, first[0],
			first[1], first[2], fabs(step[0]), fabs(step[1]), fabs(step[2]),
			strcmp(file->units.length, "mm") == 0 ? "DistanceUnits = mm\n" : "");
	int length = snprintf(rest, sizeof rest,
		"ObjectType = Image\nNDims = 3\nBinaryData = True\nBinaryDataByteOrderMSB = %s\n"
		"CompressedData = False\n%sDimSize = %lld %lld %lld\nElementType = %s\n"
		"ElementDataFile = %s\n",
		__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? "True" : "False", grid, (long long)n[2],
		(long long)n[1], (long long)n[0], element_names(types, COUNT(types), file->element),
		local ? "LOCAL" : last_part(mhd->data_path));
	if (length > HEADER - 32 - UNITS_TEXT)
		return fail(TOMOS_BAD_VALUE, "'%s': the name is too long for a MetaImage file",
			file->path);
	put_comments(file, text, HEADER - length);
	memcpy(text + HEADER - length, rest, (size_t)length);
	if (!local)
		TRY(flat_cut(mhd->header, file->path, HEADER));
	return flat_write(local ? mhd->plain.descriptor : mhd->header, file->path, 0, text, HEADER);
}

/* Data begun by an earlier process, which may have renamed them to their final name already. */
static tomos_status continue_data(const File *file, Mhd *mhd)
{
	mhd->published = access(mhd->data_temporary, F_OK) != 0;
	const char *name = mhd->published ? mhd->data_path : mhd->data_temporary;
	mhd->plain.descriptor = open(name, O_RDWR | O_CLOEXEC);
	if (mhd->plain.descriptor >= 0)
		return TOMOS_OK;
	return fail(errno == ENOENT ? TOMOS_BAD_FILE : TOMOS_IO,
		"'%s', begun as '%s', cannot be opened: %s", file->path, name, strerror(errno));
}

/* "volume.mhd" has its data in "volume.raw", which is created and committed like any other file. */
static tomos_status create_data(File *file, Mhd *mhd)
{
	int length = (int)(strrchr(file->path, '.') - file->path);
	TRY(mem_printf(&mhd->data_path, "%.*s.raw", length, file->path));
	if (!file->kept)
		TRY(file_temporary(&mhd->data_temporary, mhd->data_path, file->overwrite));
	else
		TRY(mem_printf(&mhd->data_temporary, "%s" IO_DATA_ENDING, file->temporary));
	TRY(file_descriptor(file, &mhd->header));
	if (file->continued)
		return continue_data(file, mhd);
	if (file->kept)
		TRY(file_check(mhd->data_path, file->overwrite));
	return flat_create(&mhd->plain.descriptor, mhd->data_temporary, mhd->data_path);
}

static tomos_status mhd_create(File *file)
{
	Mhd *mhd;
	TRY(mhd_new(file, &mhd));
	if (path_ends_in(file->path, ".mhd"))
		return create_data(file, mhd);
	return plain_create(file, &mhd->plain, HEADER);
}

static tomos_status mhd_write(
	File *file, int64_t first, int64_t count, int threads, const void *stored)
{
	const Mhd *mhd = file->own;
	if (mhd->published) /* complete data of an earlier run, or a foreign file */
		return fail(TOMOS_BAD_FILE,
			"'%s': index %lld is not done, but its data are in '%s' already; run "
			"without resume",
			file->path, (long long)first, mhd->data_path);
	return plain_write(file, &mhd->plain, first, count, threads, stored);
}

static tomos_status mhd_sources(const File *file, TakePath take, void *user)
{
	const Mhd *mhd = file->own;
	TRY(take(user, file->path));
	return strcmp(mhd->data_path, file->path) == 0 ? TOMOS_OK : take(user, mhd->data_path);
}

static tomos_status mhd_finish(File *file)
{
	Mhd *mhd = file->own;
	TRY(mhd_seal(file));
	TRY(plain_finish(file, &mhd->plain));
	TRY(flat_close(&mhd->header, file->path));
	if (!mhd->data_temporary || mhd->published)
		return TOMOS_OK;
	TRY(file_publish(mhd->data_temporary, mhd->data_path, file->overwrite));
	mhd->published = true;
	return TOMOS_OK;
}

static void mhd_close(File *file)
{
	Mhd *mhd = file->own;
	plain_close(file, &mhd->plain);
	(void)flat_close(&mhd->header, file->path);
	if (!mhd->published && !file->kept)
		file_discard(mhd->data_temporary);
	mem_free(mhd->data_temporary);
	mem_free(mhd->data_path);
	mem_free(mhd);
}

const Format format_mhd = {
	.name = "mhd",
	.endings = "mhd|mha",
	.probe = mhd_probe,
	.open = mhd_open,
	.create = mhd_create,
	.write = mhd_write,
	.finish = mhd_finish,
	.seal = mhd_seal,
	.sources = mhd_sources,
	.close = mhd_close,
	PLAIN_READ,
	PLAIN_GRID,
};
