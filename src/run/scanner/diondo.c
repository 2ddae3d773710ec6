/* Diondo: an XML file with Geometrie and Recon, and a folder Projection of raw files
 * "_<height>_0000.raw" of uint16, top row first.
 *
 * The stage rotates in the negative direction; which way columns run is not documented, nor the
 * sign of ProjectionCenterOffsetX: direction and axis are left open.
 */
#include "run/scanner/list.h"

static bool diondo_head(const char *head, size_t length)
{
	(void)length;
	return head_has(head, "<Geometrie") ||
	       (head_has(head, "<ScanParameter") && head_has(head, "<HelixMode"));
}

static tomos_status whole(const XmlNode *root, const char *path, const char *name, int64_t *value)
{
	double number = 0;
	TRY(xml_number(root, name, path, &number, NULL));
	if (!(number >= 1 && number <= 1e7 && number == floor(number)))
		return fail(TOMOS_BAD_FILE, "'%s': '%s' is %g; it must be 1 to 10000000, whole",
			path, name, number);
	*value = (int64_t)number;
	return TOMOS_OK;
}

static tomos_status positive(const XmlNode *root, const char *path, const char *name, double *value)
{
	*value = 0;
	TRY(xml_number(root, name, path, value, NULL));
	if (*value > 0)
		return TOMOS_OK;
	return fail(
		TOMOS_BAD_FILE, "'%s': '%s' is %g; it must be greater than 0", path, name, *value);
}

static tomos_status open_views(tomos_scan *scan, int64_t views)
{
	char *folder = NULL, *inner = NULL;
	FileList files = {.count = 0};
	tomos_status status;
	TRY_OR_DONE(folder_of(&folder, scan->path));
	TRY_OR_DONE(mem_printf(&inner, "%sProjection/", folder));
	TRY_OR_DONE(list_files(&files, inner, "_", ".raw"));
	TRY_OR_DONE(plain_frames(scan, &files, (PlainForm){.per_file = 1}));
	status = first_frames(scan, views);
done:
	mem_free(inner);
	mem_free(folder);
	return status;
}

static tomos_status fill(tomos_scan *scan, const XmlNode *root)
{
	static const char *const modes[] = {
		"ScanParameter/HelixMode", "ScanParameter/Laminography"};
	double source_detector, source_object, pixel[2], offset = 0, voxel = 0;
	int64_t views;
	for (int i = 0; i < COUNT(modes); i++)
		if (strncmp(xml_text(root, modes[i]), "true", 4) == 0)
			return fail(TOMOS_UNSUPPORTED,
				"'%s': '%s' is true; circular scans can be read", scan->path,
				modes[i]);
	TRY(positive(root, scan->path, "Geometrie/SourceDetectorDist", &source_detector));
	TRY(positive(root, scan->path, "Geometrie/SourceObjectDist", &source_object));
	TRY(positive(root, scan->path, "Recon/ProjectionPixelSizeX", &pixel[0]));
	TRY(positive(root, scan->path, "Recon/ProjectionPixelSizeY", &pixel[1]));
	TRY(whole(root, scan->path, "Recon/ProjectionDimX", &scan->columns));
	TRY(whole(root, scan->path, "Recon/ProjectionDimY", &scan->rows));
	TRY(whole(root, scan->path, "Recon/ProjectionCount", &views));
	TRY(xml_number(root, "Recon/ProjectionCenterOffsetX", scan->path, &offset, &(bool){false}));
	TRY(xml_number(root, "Recon/VolumeVoxelSizeX", scan->path, &voxel, &(bool){false}));
	TRY(open_views(scan, views));
	const Pose pose = pose_upright(source_object, source_detector, pixel);
	TRY(scan_pose(scan, &pose));
	TRY(scan_steps(scan, 0, -360.0 / (double)views));
	scan->setup.white = 65535;
	scan->setup.axis = NAN;
	TRY(scan_notes(scan));
	TRY(scan_mirrored(scan));
	TRY(scan_voxel(
		scan, "VolumeVoxelSizeX", voxel, pixel[0] * source_object / source_detector));
	return offset != 0 ? scan_note(scan, "note",
				     "ProjectionCenterOffsetX is %g and is not "
				     "used: its sign is not documented",
				     offset)
			   : TOMOS_OK;
}

const ScanKind scanner_diondo = {
	.name = "diondo", .xml = fill, .head = diondo_head, .title = "Diondo"};
