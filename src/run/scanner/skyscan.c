/* Bruker SkyScan: .log, an INI file in Latin-1 beside TIFF files "<prefix>0000.tif", top row first.
 *
 * The size of a pixel is that of "Image Pixel Size", which is at the object and includes binning,
 * times the magnification. "Rotation Direction" is that of the stage, CC anticlockwise; which way
 * columns run is not documented, so that the direction is left open. Connected scans, "name~00",
 * are scans of their own.
 */
#include "run/scanner/scanner.h"
#include <stdlib.h>

enum { SHIFT_HEADER = 5 };

static const char acquisition[] = "Acquisition";

static bool skyscan_head(const char *head, size_t length)
{
	(void)length;
	return head_has(head, "[Acquisition]") && head_has(head, "[System]") &&
	       head_has(head, "Object to Source");
}

typedef struct {
	double source_object, source_camera, pixel[2], step, bits, line, roll;
	bool clockwise, has_line;
	int64_t views, rows, columns;
} SkyScan;

static tomos_status read_keys(const Keys *k, SkyScan *s)
{
	double voxel, ratio = 1, connected = 1;
	*s = (SkyScan){.bits = 16};
	TRY(keys_positive(k, acquisition, "Object to Source (mm)", &s->source_object, NULL));
	TRY(keys_positive(k, acquisition, "Camera to Source (mm)", &s->source_camera, NULL));
	TRY(keys_positive(
		k, acquisition, "Image Pixel Size (um)|Image Pixel Size (\xb5m)", &voxel, NULL));
	TRY(keys_number(k, "System", "Camera X/Y Ratio|CameraXYRatio", &ratio, &(bool){false}));
	TRY(keys_count(k, acquisition, "Number of Files", &s->views));
	TRY(keys_count(k, acquisition, "Number of Rows", &s->rows));
	TRY(keys_count(k, acquisition, "Number of Columns", &s->columns));
	TRY(keys_number(k, acquisition, "Rotation Step (deg)", &s->step, NULL));
	TRY(keys_number(k, acquisition, "Depth (bits)", &s->bits, &(bool){false}));
	TRY(keys_number(k, acquisition, "Optical Axis (line)", &s->line, &s->has_line));
	TRY(keys_number(k, acquisition, "Image Rotation", &s->roll, &(bool){false}));
	TRY(keys_number(k, acquisition, "Number of connected scans", &connected, &(bool){false}));
	const char *direction = keys_text(k, acquisition, "Rotation Direction");
	const char *prefix = keys_text(k, acquisition, "Filename Prefix");
	s->clockwise = direction && (direction[0] == 'C' || direction[0] == 'c') &&
		       (direction[1] == 'W' || direction[1] == 'w');
	if (connected > 1 && !(prefix && strchr(prefix, '~')))
		return fail(TOMOS_BAD_FILE,
			"'%s' describes %g connected scans: name one of them, like '%s~00.log'",
			k->path, connected, prefix ? prefix : "name");
	if (!(s->bits >= 8 && s->bits <= 32) || !(ratio > 0.1 && ratio < 10))
		return fail(TOMOS_BAD_FILE,
			"'%s': a depth of %g bits, pixels %g times as wide as "
			"high",
			k->path, s->bits, ratio);
	s->pixel[0] = voxel * 1e-3 * s->source_camera / s->source_object;
	s->pixel[1] = s->pixel[0] / ratio;
	return TOMOS_OK;
}

/* ---- shifts of views ------------------------------------------------------------------------ */

/* Two numbers per line, after the header: columns to the right and rows downwards. */
static tomos_status parse_shifts(tomos_scan *scan, char *text, const char *path)
{
	int64_t views = scan->sets[TOMOS_VIEWS].count, view = 0;
	for (int k = 0; k < 2; k++)
		TRY(mem_zeroed(&scan->shifts[k], views, sizeof(double), "shifts of views"));
	char *line = text;
	for (int number = 0; line && view < views; number++) {
		char *next = strchr(line, '\n'), *end;
		double x = strtod(line, &end), y;
		end += strspn(end, " \t,;");
		if (number >= SHIFT_HEADER && end != line) {
			char *last;
			y = strtod(end, &last);
			if (last == end || !(fabs(x) < 1e6 && fabs(y) < 1e6))
				return fail(TOMOS_BAD_FILE, "'%s', line %d: two shifts expected",
					path, number + 1);
			scan->shifts[0][view] = x;
			scan->shifts[1][view++] = -y; /* rows are read upwards */
		}
		line = next ? next + 1 : NULL;
	}
	if (view < views)
		return fail(TOMOS_BAD_FILE, "'%s' has %lld shifts for %lld views", path,
			(long long)view, (long long)views);
	return scan_note(scan, "shifts",
		"from '%s', to the right and downwards; the signs are not documented", path);
}

static tomos_status read_shifts(tomos_scan *scan, const char *folder, const char *prefix)
{
	static const char *const endings[] = {"_TS.crv", "_TS.csv"};
	for (int i = 0; i < COUNT(endings); i++) {
		char *path, *text = NULL;
		int64_t length;
		TRY(mem_printf(&path, "%s%s%s", folder, prefix, endings[i]));
		FILE *file = fopen(path, "rb");
		tomos_status status = TOMOS_OK;
		if (file) {
			fclose(file);
			status = text_read(&text, &length, path);
			if (status == TOMOS_OK)
				status = parse_shifts(scan, text, path);
		}
		mem_free(text);
		mem_free(path);
		if (file || status != TOMOS_OK)
			return status;
	}
	return TOMOS_OK;
}

/* ---- the scan ------------------------------------------------------------------------------- */

static tomos_status take_geometry(tomos_scan *scan, const SkyScan *s)
{
	Pose pose = pose_upright(s->source_object, s->source_camera, s->pixel);
	double above = s->line - 0.5 * (double)(s->rows - 1); /* lines are counted from below */
	if (s->has_line)
		pose.detector[2] = -above * s->pixel[1];
	TRY(scan_pose(scan, &pose));
	TRY(scan_steps(scan, 0, s->clockwise ? s->step : -s->step));
	scan->setup.white = ldexp(1, (int)s->bits);
	scan->setup.axis = NAN;
	TRY(scan_notes(scan));
	if (s->roll != 0)
		return scan_note(scan, "note",
			"Image Rotation is %g degrees and is not used: its sign is not documented; "
			"use the option 'roll'",
			s->roll);
	return TOMOS_OK;
}

static tomos_status fill(tomos_scan *scan, const Keys *k)
{
	SkyScan s;
	const char *prefix = keys_text(k, acquisition, "Filename Prefix");
	char *folder = NULL;
	tomos_status status;
	TRY(read_keys(k, &s));
	TRY_OR_DONE(folder_of(&folder, scan->path));
	TRY_OR_DONE(numbered_tiffs(scan, folder, prefix ? prefix : "", s.views));
	TRY_OR_DONE(scan_size(scan, s.rows, s.columns));
	TRY_OR_DONE(take_geometry(scan, &s));
	status = read_shifts(scan, folder, prefix ? prefix : "");
done:
	mem_free(folder);
	return status;
}

static tomos_status skyscan_open(tomos_scan *scan, const File *look, const tomos_source_options *o)
{
	(void)look;
	(void)o;
	return open_keys(scan, fill);
}

const ScanKind scanner_skyscan = {
	.name = "skyscan", .open = skyscan_open, .head = skyscan_head, .title = "Bruker SkyScan"};
