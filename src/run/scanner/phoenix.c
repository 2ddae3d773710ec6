/* Phoenix and Waygate: .pca, an INI file beside TIFF files "<name>_0001.tif", top row first.
 *
 * Neither the direction of rotation and of columns nor the meaning of cx, cy, Tilt, Oblique and
 * DetectorRot is documented: the axis and the direction are left open.
 */
#include "run/scanner/scanner.h"

static bool phoenix_head(const char *head, size_t length)
{
	(void)length;
	return head_has(head, "[Geometry]") &&
	       (head_has(head, "Version-pca") || (head_has(head, "FDD") && head_has(head, "FOD")));
}

typedef struct {
	double source_detector, source_object, pixel[2], sector, white, voxel;
	int64_t views, rows, columns;
} Phoenix;

static tomos_status read_keys(const Keys *k, Phoenix *p)
{
	*p = (Phoenix){.sector = 360};
	TRY(keys_positive(k, "", "FDD", &p->source_detector, NULL));
	TRY(keys_positive(k, "", "FOD", &p->source_object, NULL));
	TRY(keys_positive(k, "", "PixelsizeX", &p->pixel[0], NULL));
	TRY(keys_positive(k, "", "PixelsizeY", &p->pixel[1], NULL));
	TRY(keys_number(k, "", "RotationSector", &p->sector, &(bool){false}));
	TRY(keys_number(k, "", "FreeRay", &p->white, &(bool){false}));
	TRY(keys_number(k, "Geometry", "VoxelSizeX", &p->voxel, &(bool){false}));
	TRY(keys_count(k, "", "NumberImages", &p->views));
	TRY(keys_count(k, "", "DimX", &p->columns));
	return keys_count(k, "", "DimY", &p->rows);
}

/* "<name of the file>_0001.tif" or "<name of the file>0001.tif". */
static tomos_status open_views(tomos_scan *scan, const Phoenix *p)
{
	const TypedScan typed = {p->source_object, p->source_detector, {p->pixel[0], p->pixel[1]},
		p->sector / (double)p->views, p->white};
	char *folder = NULL, *line = NULL, *plain = NULL;
	tomos_status status;
	TRY_OR_DONE(folder_of(&folder, scan->path));
	TRY_OR_DONE(stem_of(&line, scan->path, "_"));
	TRY_OR_DONE(stem_of(&plain, scan->path, ""));
	status = numbered_tiffs(scan, folder, (const char *[2]){line, plain}, p->views, &typed);
done:
	mem_free(plain);
	mem_free(line);
	mem_free(folder);
	return status;
}

static tomos_status fill(tomos_scan *scan, const Keys *k)
{
	static const char *const left[] = {"cx", "cy", "Tilt", "Oblique", "DetectorRot"};
	Phoenix p;
	TRY(read_keys(k, &p));
	TRY(open_views(scan, &p));
	TRY(scan_size(scan, p.rows, p.columns));
	const Pose pose = pose_upright(p.source_object, p.source_detector, p.pixel);
	TRY(scan_pose(scan, &pose));
	TRY(scan_steps(scan, 0, p.sector / (double)p.views));
	TRY(scan_level(scan, k, "", "FreeRay"));
	scan->setup.axis = NAN;
	TRY(scan_notes(scan));
	TRY(scan_mirrored(scan));
	TRY(scan_voxel(
		scan, "VoxelSizeX", p.voxel, p.pixel[0] * p.source_object / p.source_detector));
	for (int i = 0; i < COUNT(left); i++) {
		double value = 0;
		bool found;
		TRY(keys_number(k, "", left[i], &value, &found));
		if (found && value != 0)
			TRY(scan_note(scan, "note", "%s is %g and is not used", left[i], value));
	}
	return TOMOS_OK;
}

const ScanKind scanner_phoenix = {
	.name = "phoenix", .keys = fill, .head = phoenix_head, .title = "Phoenix Waygate"};
