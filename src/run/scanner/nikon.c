/* Nikon and X-Tek: .xtekct, an INI file beside TIFF files "<name>_0001.tif", top row first.
 *
 * The object rotates clockwise seen from above, by AngularStep per view, and offsets are to the
 * left as seen from the source. Angles in .ang and _ctdata.txt files are not used: they are those
 * that the stage was sent to.
 */
#include "run/scanner/scanner.h"

static const char section[] = "XTekCT";

static bool nikon_head(const char *head, size_t length)
{
	(void)length;
	return head_has(head, "[XTekCT]");
}

typedef struct {
	double source_object, source_detector, pixel[2], first, step, voxel;
	double offset[2], object, roll, tilt; /* mm, radians */
	bool axis;                            /* the offset of the axis is said */
	bool unused;                          /* twice, and the older keys are not used */
	int64_t views, rows, columns;
} Nikon;

/* Newer files have the offset of the object in mm, and its roll; older ones the axis at the top and
 * the bottom of the detector, in mm there. Of files with both, whichever is not 0 says it. */
static tomos_status read_axis(const Keys *k, Nikon *n)
{
	double top = 0, bottom = 0, automatic = 1;
	bool offset, roll, tops;
	TRY(keys_number(k, section, "ObjectOffsetX", &n->object, &offset));
	TRY(keys_number(k, section, "ObjectRoll", &n->roll, &roll));
	TRY(keys_number(k, section, "ObjectTilt", &n->tilt, &(bool){false}));
	TRY(keys_number(k, section, "CentreOfRotationTop", &top, &tops));
	TRY(keys_number(k, section, "CentreOfRotationBottom", &bottom, &(bool){false}));
	TRY(keys_number(k, section, "AutomaticCentreOfRotation", &automatic, &(bool){false}));
	bool older = top != 0 || bottom != 0, newer = n->object != 0 || n->roll != 0;
	n->unused = older && newer;
	if (!offset || (older && !newer))
		n->object = 0.5 * (top + bottom) * n->source_object / n->source_detector;
	n->roll = roll && !(older && !newer) ? n->roll * RADIANS
					     : -atan2(top - bottom, (double)n->rows * n->pixel[1]);
	n->tilt *= -RADIANS;
	n->axis = (offset || tops) && (n->object != 0 || n->roll != 0 || automatic == 0);
	return TOMOS_OK;
}

static tomos_status read_keys(const Keys *k, Nikon *n)
{
	*n = (Nikon){.first = 0};
	TRY(keys_positive(k, section, "SrcToObject", &n->source_object, NULL));
	TRY(keys_positive(k, section, "SrcToDetector", &n->source_detector, NULL));
	TRY(keys_positive(k, section, "DetectorPixelSizeX", &n->pixel[0], NULL));
	TRY(keys_positive(k, section, "DetectorPixelSizeY", &n->pixel[1], NULL));
	TRY(keys_count(k, section, "DetectorPixelsX", &n->columns));
	TRY(keys_count(k, section, "DetectorPixelsY", &n->rows));
	TRY(keys_count(k, section, "Projections", &n->views));
	TRY(keys_number(k, section, "AngularStep", &n->step, NULL));
	TRY(keys_number(k, section, "InitialAngle", &n->first, &(bool){false}));
	TRY(keys_number(k, section, "VoxelSizeX", &n->voxel, &(bool){false}));
	TRY(keys_number(k, section, "DetectorOffsetX", &n->offset[0], &(bool){false}));
	TRY(keys_number(k, section, "DetectorOffsetY", &n->offset[1], &(bool){false}));
	return read_axis(k, n);
}

/* The folder of the views, if it is below that of the file; paths of other machines are not. */
static tomos_status open_views(tomos_scan *scan, const Keys *k, int64_t views)
{
	const char *inner = keys_text(k, section, "InputFolderName");
	const char *name = keys_text(k, section, "Name");
	const char *separator = keys_text(k, section, "InputSeparator");
	char *folder = NULL, *below = NULL, *prefix = NULL, *plain = NULL;
	tomos_status status;
	TRY_OR_DONE(folder_of(&folder, scan->path));
	TRY_OR_DONE(mem_printf(
		&below, "%s%s%s", folder, inner ? inner : "", inner && inner[0] ? "/" : ""));
	TRY_OR_DONE(mem_printf(
		&prefix, "%s%s", name ? name : "", separator && separator[0] ? separator : "_"));
	TRY_OR_DONE(mem_printf(&plain, "%s", name ? name : ""));
	status = numbered_tiffs(scan, io_is_directory(below) ? below : folder,
		(const char *[2]){prefix, separator && !separator[0] ? plain : NULL}, views, NULL);
done:
	mem_free(plain);
	mem_free(prefix);
	mem_free(below);
	mem_free(folder);
	return status;
}

static Pose nikon_pose(const Nikon *n)
{
	Pose p = pose_upright(n->source_object, n->source_detector, n->pixel);
	p.axis[0] = -n->object;
	p.detector[0] = -n->offset[0];
	p.detector[2] = -n->offset[1];
	p.along[0] = sin(n->roll);
	p.along[1] = -sin(n->tilt) * cos(n->roll);
	p.along[2] = cos(n->tilt) * cos(n->roll);
	return p;
}

static tomos_status fill(tomos_scan *scan, const Keys *k)
{
	Nikon n;
	TRY(read_keys(k, &n));
	TRY(open_views(scan, k, n.views));
	TRY(scan_size(scan, n.rows, n.columns));
	const Pose pose = nikon_pose(&n);
	TRY(scan_pose(scan, &pose));
	TRY(scan_steps(scan, n.first, n.step));
	TRY(scan_level(scan, k, section, "WhiteLevel"));
	scan->setup.direction_known = true;
	if (!n.axis)
		scan->setup.axis = NAN;
	TRY(scan_notes(scan));
	TRY(scan_voxel(
		scan, "VoxelSizeX", n.voxel, n.pixel[0] * n.source_object / n.source_detector));
	if (n.unused)
		TRY(scan_note(scan, "note",
			"CentreOfRotationTop and CentreOfRotationBottom are not used, as "
			"ObjectOffsetX or ObjectRoll says the axis"));
	if (n.offset[1] != 0)
		TRY(scan_note(scan, "note",
			"DetectorOffsetY is %g mm, taken as downwards; its sign is not documented: "
			"'tomos center --fit' finds the row of the midplane, the option 'axis-row' "
			"sets it",
			n.offset[1]));
	return TOMOS_OK;
}

const ScanKind scanner_nikon = {
	.name = "nikon", .keys = fill, .head = nikon_head, .title = "Nikon X-Tek"};
