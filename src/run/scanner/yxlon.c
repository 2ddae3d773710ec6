/* YXLON: ScanParameter.xml, and a folder Projections or Projektionen of raw files of uint16, bottom
 * row first, or of TIFF files, top row first.
 *
 * Distances are in units of PixelPitch. Angles fall from StartAngle; which way columns run, and
 * the signs of YoCenter and of the tilts, are not documented: direction and axis are left open.
 */
#include "run/scanner/list.h"

static bool yxlon_head(const char *head, size_t length)
{
	(void)length;
	return head_has(head, "<ConeBeamScanParameter");
}

typedef struct {
	double pixel[2], size[2], pitch, source_detector, source_object, views, start, arc, bits;
} Yxlon;

static tomos_status read_xml(const XmlNode *root, const char *path, Yxlon *y)
{
	const struct {
		const char *name;
		double *value, least, most;
	} numbers[] = {{"PixelSize/Width", &y->pixel[0], 1e-9, 1e9},
		{"PixelSize/Height", &y->pixel[1], 1e-9, 1e9},
		{"ProjectionSize/Width", &y->size[0], 1, 1e7},
		{"ProjectionSize/Height", &y->size[1], 1, 1e7},
		{"ScanTrajectory/PixelPitch", &y->pitch, 1e-9, 1e9},
		{"ScanTrajectory/Fdd", &y->source_detector, 1e-9, 1e12},
		{"ScanTrajectory/Fod", &y->source_object, 1e-9, 1e12},
		{"ScanTrajectory/NumberOfProjections", &y->views, 1, 1e7},
		{"ScanTrajectory/StartAngle", &y->start, -1e6, 1e6},
		{"ScanTrajectory/Rotation", &y->arc, -1e6, 1e6},
		{"ProjectionBitdepth", &y->bits, 1, 32}};
	const XmlNode *scan = strcmp(root->name, "ConeBeamScanParameter") == 0
				      ? root
				      : xml_deep(root, "ConeBeamScanParameter");
	const char *kind = xml_text(scan, "ScanTrajectory/@type");
	if (kind[0] && !strstr(kind, "CircleTrajectory"))
		return fail(TOMOS_UNSUPPORTED,
			"'%s' has the trajectory '%.40s'; CircleTrajectory can be read", path,
			kind);
	y->bits = 16;
	for (int i = 0; i < COUNT(numbers); i++) {
		bool found, open = numbers[i].value == &y->bits;
		TRY(xml_number(
			scan, numbers[i].name, path, numbers[i].value, open ? &found : NULL));
		if (!(*numbers[i].value >= numbers[i].least &&
			    *numbers[i].value <= numbers[i].most))
			return fail(TOMOS_BAD_FILE, "'%s': '%s' is %g; it must be %g to %g", path,
				numbers[i].name, *numbers[i].value, numbers[i].least,
				numbers[i].most);
	}
	return TOMOS_OK;
}

/* Raw files, otherwise TIFF files; *raw says which. */
static tomos_status open_views(tomos_scan *scan, const char *folder, bool *raw)
{
	FileList files;
	char *pattern;
	*raw = list_files(&files, folder, "", ".raw") == TOMOS_OK;
	if (*raw)
		return plain_frames(scan, &files, (PlainForm){.per_file = 1});
	TRY(mem_printf(&pattern, "%s*.tif*", folder));
	tomos_status status = frames_open(&scan->sets[TOMOS_VIEWS], pattern, "", "");
	mem_free(pattern);
	return status;
}

static tomos_status find_views(tomos_scan *scan, bool *raw)
{
	static const char *const names[] = {"Projections", "Projektionen"};
	char *folder, *inner;
	TRY(folder_of(&folder, scan->path));
	tomos_status status = fail(TOMOS_BAD_FILE,
		"'%s': there is no folder Projections or Projektionen beside it", scan->path);
	for (int i = 0; i < COUNT(names) && !scan->sets[TOMOS_VIEWS].file; i++) {
		tomos_status made = mem_printf(&inner, "%s%s/", folder, names[i]);
		if (made != TOMOS_OK)
			status = made;
		else if (io_is_directory(inner))
			status = open_views(scan, inner, raw);
		if (made == TOMOS_OK)
			mem_free(inner);
	}
	mem_free(folder);
	return status;
}

static tomos_status fill(tomos_scan *scan, const XmlNode *root)
{
	Yxlon y;
	bool raw;
	TRY(read_xml(root, scan->path, &y));
	scan->columns = (int64_t)y.size[0];
	scan->rows = (int64_t)y.size[1];
	TRY(find_views(scan, &raw));
	const int64_t *shape = scan->sets[TOMOS_VIEWS].file->shape, rows = scan->rows,
		      columns = scan->columns;
	scan->rows = shape[1];
	scan->columns = shape[2];
	TRY(scan_size(scan, rows, columns));
	TRY(first_frames(scan, (int64_t)y.views));
	Pose pose = pose_upright(y.source_object * y.pitch, y.source_detector * y.pitch, y.pixel);
	if (raw)
		pose.v[2] = -pose.v[2];
	TRY(scan_pose(scan, &pose));
	TRY(scan_steps(scan, y.start, -y.arc / y.views));
	scan->setup.white = ldexp(1, (int)y.bits) - 1;
	scan->setup.axis = NAN;
	TRY(scan_notes(scan));
	return scan_mirrored(scan);
}

const ScanKind scanner_yxlon = {.name = "yxlon", .xml = fill, .head = yxlon_head, .title = "YXLON"};
