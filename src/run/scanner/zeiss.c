/* Zeiss and Xradia: .txrm and .xrm, OLE2 compound files.
 *
 * PixelSize is the size of a voxel. Seen from the source, columns run to the right and rows
 * upwards, and the object rotates anticlockwise seen from above. Shifts are those that correct a
 * view, in pixels.
 */
#include "io/ole2.h"
#include "run/scanner/scanner.h"

typedef struct {
	Ole2 *ole;
	OleStream *streams; /* one per frame */
	int64_t columns;
	int bytes;
} Images;

static bool zeiss_head(const char *head, size_t length)
{
	return ole2_head(head, length);
}

/* ---- numbers ------------------------------------------------------------------------------- */

/* Up to `count` 32-bit numbers of a stream; *found says how many it has. */
static tomos_status read_words(
	const Ole2 *ole, const char *name, uint32_t *words, int64_t count, int64_t *found)
{
	OleStream stream;
	*found = 0;
	if (!ole2_find(ole, name, &stream))
		return TOMOS_OK;
	*found = min64(count, stream.size / 4);
	TRY(ole2_read(ole, &stream, 0, 4 * *found, words));
	if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
		for (int64_t i = 0; i < *found; i++)
			words[i] = __builtin_bswap32(words[i]);
	return TOMOS_OK;
}

static tomos_status read_whole(const tomos_scan *scan, const Ole2 *ole, const char *name,
	int64_t least, int64_t most, int64_t *value)
{
	uint32_t word;
	int64_t found;
	TRY(read_words(ole, name, &word, 1, &found));
	*value = found ? (int32_t)word : -1;
	if (*value < least || *value > most)
		return fail(TOMOS_BAD_FILE, "'%s': '%s' is %lld; it must be %lld to %lld",
			scan->path, name, (long long)*value, (long long)least, (long long)most);
	return TOMOS_OK;
}

/* A list of one float per view, NULL where the file has none; to be freed. */
static tomos_status read_list(
	const tomos_scan *scan, const Ole2 *ole, const char *name, double **list)
{
	int64_t views = scan->sets[TOMOS_VIEWS].count, found;
	float *values;
	*list = NULL;
	TRY(mem_alloc(&values, views, sizeof *values, "a list of a scan"));
	tomos_status status = read_words(ole, name, (uint32_t *)(void *)values, views, &found);
	bool whole = status == TOMOS_OK && found == views;
	for (int64_t i = 0; i < views && whole; i++)
		whole = isfinite(values[i]);
	if (whole)
		status = mem_alloc(list, views, sizeof **list, "a list of a scan");
	for (int64_t i = 0; i < views && whole && status == TOMOS_OK; i++)
		(*list)[i] = (double)values[i];
	mem_free(values);
	return status;
}

static tomos_status read_first(const Ole2 *ole, const char *name, double *value)
{
	float one = 0;
	int64_t found;
	TRY(read_words(ole, name, (uint32_t *)(void *)&one, 1, &found));
	*value = found && isfinite(one) ? fabs((double)one) : 0;
	return TOMOS_OK;
}

/* ---- images -------------------------------------------------------------------------------- */

static tomos_status read_image(
	const void *own, int64_t frame, int64_t row, int64_t rows, void *stored)
{
	const Images *images = own;
	int64_t line = images->columns * images->bytes;
	return ole2_read(images->ole, &images->streams[frame], row * line, rows * line, stored);
}

static void close_images(void *own)
{
	Images *images = own;
	ole2_close(images->ole);
	mem_free(images->streams);
	mem_free(images);
}

/* Files have numbers of these types: 5 is uint16, 10 is float32. */
static tomos_status take_type(const tomos_scan *scan, int64_t type, Element *element)
{
	*element = type == 5 ? (Element){'u', 2, false} : (Element){'f', 4, false};
	element->swapped = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
	if (type == 5 || type == 10)
		return TOMOS_OK;
	return fail(TOMOS_UNSUPPORTED,
		"'%s' has images of type %lld; 5 (uint16) and 10 (float32) can be read", scan->path,
		(long long)type);
}

static tomos_status find_image(
	const tomos_scan *scan, const Images *images, const char *name, int64_t i)
{
	OleStream *stream = &images->streams[i];
	int64_t bytes = scan->rows * scan->columns * images->bytes;
	if (!ole2_find(images->ole, name, stream))
		return fail(TOMOS_BAD_FILE, "'%s' does not have '%s'", scan->path, name);
	if (stream->size < bytes)
		return fail(TOMOS_BAD_FILE,
			"'%s': '%s' has %lld bytes; %lld rows x %lld columns "
			"need %lld",
			scan->path, name, (long long)stream->size, (long long)scan->rows,
			(long long)scan->columns, (long long)bytes);
	return TOMOS_OK;
}

/* `name` of a single image; NULL: "ImageData<n>/Image<i>", a hundred in each group. */
static tomos_status open_images(
	tomos_scan *scan, FrameSet *set, int64_t count, Element element, const char *name)
{
	Images *images;
	char path[64];
	TRY(mem_zeroed(&images, 1, sizeof *images, "a list of images"));
	*images = (Images){.columns = scan->columns, .bytes = element.bytes};
	tomos_status status;
	TRY_OR_DONE(ole2_open(&images->ole, scan->path));
	TRY_OR_DONE(
		mem_alloc(&images->streams, count, sizeof *images->streams, "a list of images"));
	for (int64_t i = 0; i < count; i++) {
		snprintf(path, sizeof path, "ImageData%lld/Image%lld", (long long)(i / 100 + 1),
			(long long)(i + 1));
		TRY_OR_DONE(find_image(scan, images, name ? name : path, i));
	}
	const FrameSource source = {.shape = {count, scan->rows, scan->columns},
		.element = element,
		.read = read_image,
		.close = close_images,
		.own = images};
	TRY(io_frames(&set->file, scan->path, &source));
	set->count = count;
	return TOMOS_OK;
done:
	close_images(images);
	return status;
}

static tomos_status open_flat(tomos_scan *scan, const Ole2 *ole, int64_t type)
{
	OleStream stream;
	Element element;
	if (!ole2_find(ole, "ReferenceData/Image", &stream))
		return TOMOS_OK;
	int64_t own = 0;
	if (read_whole(scan, ole, "ReferenceData/DataType", 0, 100, &own) == TOMOS_OK)
		type = own;
	TRY(take_type(scan, type, &element));
	return open_images(scan, &scan->sets[TOMOS_FLATS], 1, element, "ReferenceData/Image");
}

/* A scan that was ended early has fewer images than were planned, and says so. */
static tomos_status take_taken(tomos_scan *scan, const Ole2 *ole, int64_t *views)
{
	int64_t taken, planned = *views;
	OleStream stream;
	char next[64];
	if (read_whole(scan, ole, "ImageInfo/ImagesTaken", 1, planned - 1, &taken) != TOMOS_OK)
		return TOMOS_OK;
	snprintf(next, sizeof next, "ImageData%lld/Image%lld", (long long)(taken / 100 + 1),
		(long long)(taken + 1));
	if (ole2_find(ole, next, &stream))
		return TOMOS_OK;
	*views = taken;
	return scan_note(scan, "note", "%lld of %lld images were taken: the scan was ended early",
		(long long)taken, (long long)planned);
}

static tomos_status open_frames(tomos_scan *scan, const Ole2 *ole)
{
	int64_t views, type, mode = 0;
	Element element;
	TRY(read_whole(scan, ole, "ImageInfo/ImageHeight", 1, 1000000, &scan->rows));
	TRY(read_whole(scan, ole, "ImageInfo/ImageWidth", 1, 1000000, &scan->columns));
	TRY(read_whole(scan, ole, "ImageInfo/NoOfImages", 1, 10000000, &views));
	TRY(take_taken(scan, ole, &views));
	(void)read_whole(scan, ole, "ImageInfo/AcquisitionMode", 0, 1000, &mode);
	if (mode > 0 && views > 1)
		return fail(TOMOS_BAD_FILE,
			"'%s' holds slices or a mosaic, not projections (AcquisitionMode is %lld)",
			scan->path, (long long)mode);
	TRY(read_whole(scan, ole, "ImageInfo/DataType", 0, 100, &type));
	TRY(take_type(scan, type, &element));
	TRY(open_images(scan, &scan->sets[TOMOS_VIEWS], views, element, NULL));
	return open_flat(scan, ole, type);
}

/* ---- geometry ------------------------------------------------------------------------------ */

static tomos_status take_geometry(tomos_scan *scan, const Ole2 *ole)
{
	double pixel, source, detector;
	int64_t cone = 0;
	(void)read_whole(scan, ole, "ImageInfo/XrayGeometry", 0, 100, &cone);
	TRY(read_first(ole, "ImageInfo/PixelSize", &pixel));
	TRY(read_first(ole, "ImageInfo/StoRADistance", &source));
	TRY(read_first(ole, "ImageInfo/DtoRADistance", &detector));
	pixel *= 1e-3;
	scan->setup.direction_known = true;
	if (cone == 1) {
		if (!(pixel > 0 && source > 0))
			return fail(TOMOS_BAD_FILE,
				"'%s': a cone beam with a voxel of %g mm and a source %g mm from "
				"the axis",
				scan->path, pixel, source);
		pixel *= (source + detector) / source;
		Pose pose = pose_upright(source, source + detector, (double[2]){pixel, pixel});
		pose.u[0] = pixel;
		pose.v[2] = pixel;
		TRY(scan_pose(scan, &pose));
	} else { /* the same frame */
		scan->setup.geometry = "parallel";
		scan->setup.axis_row = NAN;
		scan->pixel[0] = scan->pixel[1] = pixel;
		scan->flip[FLIP_COLUMNS] = true;
	}
	scan->setup.axis = NAN;
	return TOMOS_OK;
}

static tomos_status take_angles(tomos_scan *scan, const Ole2 *ole)
{
	TRY(read_list(scan, ole, "ImageInfo/Angles", &scan->angles));
	for (int64_t i = 0; scan->angles && i < scan->sets[TOMOS_VIEWS].count; i++)
		scan->angles[i] *= -RADIANS;
	return TOMOS_OK;
}

/* A view is displaced by the opposite of what corrects it, in the order in which it is read. */
static tomos_status take_shifts(tomos_scan *scan, const Ole2 *ole)
{
	static const char *const names[] = {"Alignment/X-Shifts", "Alignment/Y-Shifts"};
	int64_t views = scan->sets[TOMOS_VIEWS].count;
	double largest = 0;
	for (int k = 0; k < 2; k++) {
		TRY(read_list(scan, ole, names[k], &scan->shifts[k]));
		for (int64_t i = 0; scan->shifts[k] && i < views; i++) {
			scan->shifts[k][i] *= scan->flip[k] ? 1 : -1;
			largest = fmax(largest, fabs(scan->shifts[k][i]));
		}
	}
	return scan_shifts(scan, largest);
}

static tomos_status fill(tomos_scan *scan, const Ole2 *ole)
{
	TRY(open_frames(scan, ole));
	TRY(take_geometry(scan, ole));
	TRY(take_angles(scan, ole));
	TRY(take_shifts(scan, ole));
	return scan_notes(scan);
}

static tomos_status zeiss_open(tomos_scan *scan, const char *folder)
{
	Ole2 *ole;
	(void)folder;
	TRY(ole2_open(&ole, scan->path));
	tomos_status status = fill(scan, ole);
	ole2_close(ole);
	return status;
}

const ScanKind scanner_zeiss = {
	.name = "zeiss", .folder = zeiss_open, .head = zeiss_head, .title = "Zeiss Xradia"};
