/* Elekta: .his, one or several frames of uint16 in each file; any of them stands for its folder.
 *
 * Numbers are inverted: counts are 65536 minus what is stored, and 0 and 65535 are pixels without
 * a value, taken as air. The panel is 409.6 mm wide. Angles, and where on the panel the axis falls
 * in each view, are in _Frames.xml or FRAME.DBF; the distances of the machine are fixed. Seen from
 * the source, columns run to the right and rows upwards.
 */
#include "run/scanner/frame_list.h"
#include "run/scanner/list.h"

enum { HIS_HEAD = 68, WORDS = 4 };

static const double panel = 409.6, source_axis = 1000, source_detector = 1536;
static const char his_start[4] = {0, 'p', 'D', 0};

static bool elekta_head(const char *head, size_t length)
{
	return length >= HIS_HEAD && memcmp(head, his_start, sizeof his_start) == 0;
}

typedef struct {
	int64_t rows, columns, frames, data; /* data: where the first frame begins */
} His;

static int64_t u16_at(const unsigned char *p)
{
	return p[0] | p[1] << 8;
}

static tomos_status read_head(const char *path, His *h)
{
	unsigned char b[HIS_HEAD] = {0};
	int descriptor;
	int64_t size;
	TRY(flat_open(&descriptor, &size, path));
	tomos_status status = size >= HIS_HEAD ? flat_read(descriptor, path, 0, b, HIS_HEAD)
					       : fail(TOMOS_BAD_FILE, "'%s' ends too early", path);
	(void)flat_close(&descriptor, path);
	TRY(status);
	*h = (His){.columns = u16_at(b + 18) - u16_at(b + 14) + 1,
		.rows = u16_at(b + 16) - u16_at(b + 12) + 1,
		.frames = u16_at(b + 20),
		.data = HIS_HEAD + u16_at(b + 10)};
	if (memcmp(b, his_start, sizeof his_start) != 0 || u16_at(b + 32) != WORDS)
		return fail(TOMOS_BAD_FILE,
			"'%s' is not a .his file of uint16 (type %lld; 4 can be read)", path,
			(long long)u16_at(b + 32));
	if (h->rows >= 1 && h->columns >= 1 && h->frames >= 1 &&
		h->data + 2 * h->rows * h->columns * h->frames <= size)
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE,
		"'%s' has %lld bytes; its head of %lld says %lld frames of %lld rows x %lld "
		"columns",
		path, (long long)size, (long long)h->data, (long long)h->frames, (long long)h->rows,
		(long long)h->columns);
}

/* Little-endian, as in the file. */
static void invert(unsigned char *bytes, int64_t count)
{
	for (int64_t i = 0; i < count; i++) {
		int64_t stored = u16_at(bytes + 2 * i);
		int64_t counts = stored == 0 || stored == 65535 ? 65535 : 65536 - stored;
		bytes[2 * i] = (unsigned char)(counts & 255);
		bytes[2 * i + 1] = (unsigned char)(counts >> 8);
	}
}

static tomos_status open_views(tomos_scan *scan, const char *folder)
{
	FileList files;
	His first, other;
	TRY(list_files(&files, folder, "", ".his"));
	tomos_status status = read_head(files.paths[0], &first);
	for (int64_t i = 1; i < files.count && status == TOMOS_OK; i++) {
		status = read_head(files.paths[i], &other);
		if (status == TOMOS_OK && memcmp(&first, &other, sizeof first) != 0)
			status = fail(TOMOS_BAD_FILE, "the heads of '%s' and '%s' differ",
				files.paths[0], files.paths[i]);
	}
	if (status != TOMOS_OK) {
		list_free(&files);
		return status;
	}
	scan->rows = first.rows;
	scan->columns = first.columns;
	return plain_frames(scan, &files,
		(PlainForm){.header = first.data, .per_file = first.frames, .convert = invert});
}

/* ---- geometry ------------------------------------------------------------------------------ */

/* The panel sags: views are displaced by what differs from its mean position. */
static tomos_status take_shifts(tomos_scan *scan, const FrameEntries *list, const double mean[2])
{
	double largest = 0;
	for (int k = 0; k < 2; k++) {
		TRY(mem_alloc(&scan->shifts[k], list->count, sizeof(double), "shifts of views"));
		for (int64_t i = 0; i < list->count; i++) {
			const FrameEntry *e = &list->entries[i];
			double pixels = ((k ? e->v : e->u) - mean[k]) / scan->pixel[k];
			scan->shifts[k][i] = scan->flip[k] ? -pixels : pixels;
			largest = fmax(largest, fabs(pixels));
		}
	}
	return scan_shifts(scan, largest);
}

static tomos_status take_geometry(tomos_scan *scan, const FrameEntries *list)
{
	const double pixel[2] = {panel / (double)scan->columns, panel / (double)scan->rows};
	Pose pose = pose_upright(source_axis, source_detector, pixel);
	double mean[2] = {0, 0}, parts = (double)max64(1, list->count);
	for (int64_t i = 0; i < list->count; i++) {
		mean[0] += list->entries[i].u / parts;
		mean[1] += list->entries[i].v / parts;
	}
	pose.u[0] = pixel[0];
	pose.v[2] = pixel[1];
	pose.detector[0] = -mean[0];
	pose.detector[2] = -mean[1];
	TRY(scan_pose(scan, &pose));
	scan->setup.direction_known = list->count > 0;
	scan->setup.white = 65536;
	if (list->count == 0) {
		scan->setup.axis = NAN;
		TRY(scan_notes(scan));
		return scan_note(
			scan, "note", "there is no _Frames.xml or FRAME.DBF: angles are not known");
	}
	TRY(mem_alloc(&scan->angles, list->count, sizeof *scan->angles, "angles"));
	for (int64_t i = 0; i < list->count; i++)
		scan->angles[i] = list->entries[i].angle * RADIANS;
	TRY(scan_notes(scan));
	return take_shifts(scan, list, mean);
}

static tomos_status fill(tomos_scan *scan, const char *folder)
{
	FrameEntries list;
	TRY(open_views(scan, folder));
	TRY(entries_read(&list, folder));
	int64_t views = scan->sets[TOMOS_VIEWS].count;
	tomos_status status = TOMOS_OK;
	if (list.path && list.count != views)
		status = fail(TOMOS_BAD_FILE, "'%s' lists %lld frames, and there are %lld views",
			list.path, (long long)list.count, (long long)views);
	if (status == TOMOS_OK)
		status = take_geometry(scan, &list);
	entries_free(&list);
	return status;
}

const ScanKind scanner_elekta = {
	.name = "elekta", .folder = fill, .head = elekta_head, .title = "Elekta"};
