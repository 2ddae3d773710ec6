/* Bruker SkyScan: .log, an INI file in Latin-1 beside TIFF files "<prefix>0000.tif", top row first.
 *
 * The size of a pixel is that of "Image Pixel Size", which is at the object and includes binning,
 * times the magnification. "Rotation Direction" is that of the stage, CC anticlockwise; which way
 * columns run is not documented, so that the direction is left open. Connected scans, "name~00",
 * are scans of their own. Where no views have the prefix that the file says, in another encoding or
 * since all were renamed, they have its own name. Shifts of views are in a file of their own, of
 * all views or of some.
 */
#include "run/scanner/scanner.h"
#include <stdlib.h>
#include <strings.h>

enum { SHIFT_HEADER = 5 };

static const char acquisition[] = "Acquisition";

static bool skyscan_head(const char *head, size_t length)
{
	(void)length;
	return head_has(head, "[Acquisition]") && head_has(head, "[System]") &&
	       (head_has(head, "Object to Source") || head_has(head, "SkyScan"));
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
	TRY(keys_positive(k, acquisition, "Image Pixel Size (um)|Image Pixel Size (\xc2\xb5m)",
		&voxel, NULL));
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

/* Other trajectories than a circle. */
static tomos_status check_trajectory(const Keys *k)
{
	const char *kind = keys_text(k, acquisition, "Scanning Trajectory");
	if (!kind || !kind[0] || strncasecmp(kind, "ROUND", 5) == 0)
		return TOMOS_OK;
	return fail(TOMOS_UNSUPPORTED, "'%s': 'Scanning Trajectory' is '%.40s'; ROUND can be read",
		k->path, kind);
}

/* Notes of frames that are not corrected, not joined, or not whole. */
static tomos_status note_frames(tomos_scan *scan, const Keys *k, const SkyScan *s)
{
	const char *flat = keys_text(k, acquisition, "Flat Field Correction");
	double places = 1;
	TRY(keys_number(
		k, acquisition, "Number Of Horizontal Offset Positions", &places, &(bool){false}));
	if (flat && strncasecmp(flat, "OFF", 3) == 0)
		TRY(scan_note(scan, "note",
			"Flat Field Correction is OFF: the white level is that of corrected "
			"frames; the option 'flats' takes flat fields, the option 'i0' auto the "
			"level from the frames"));
	if (places > 1)
		TRY(scan_note(scan, "note",
			"Number Of Horizontal Offset Positions is %g: frames are taken to be "
			"joined",
			places));
	if (s->has_line && !(s->line >= -0.5 && s->line <= (double)s->rows - 0.5))
		return scan_note(scan, "note",
			"Optical Axis (line) is %g, outside the %lld rows: right where frames are "
			"a part of the camera's; the option 'axis-row' sets it",
			s->line, (long long)s->rows);
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
	return scan_note(scan, "shifts", "from '%s'", path);
}

/* ---- transforms of views -------------------------------------------------------------------- */

/* "<prefix>_2DTransform.csv" has some of the views, one per line: a number, the view, and six
 * numbers of a matrix whose order is not documented; those near 1 show which are the shifts. */
typedef struct {
	double view, part[6];
} Control;

static const struct {
	int one[2], zero[2], shift[2]; /* of x and y */
} orders[] = {{{0, 4}, {1, 3}, {2, 5}}, {{0, 3}, {1, 2}, {4, 5}}};

/* Numbers of a line, with a decimal comma where semicolons or tabs separate them; 0: none. */
static int line_numbers(const char *line, const char *end, double *list, int most)
{
	size_t length = (size_t)(end - line);
	const char *between = memchr(line, ';', length)    ? ";"
			      : memchr(line, '\t', length) ? "\t"
							   : ",";
	int count = 0;
	for (const char *at = line; at < end; count++) {
		const char *next = at + strcspn(at, between);
		char field[64];
		next = next < end ? next : end;
		snprintf(field, sizeof field, "%.*s", (int)(next - at), at);
		double value;
		if (!text_number(field, &value))
			break;
		if (count < most)
			list[count] = value;
		at = next + 1;
	}
	return count;
}

static tomos_status read_controls(
	char *text, const char *path, Control **list, int64_t *count, int64_t *capacity)
{
	int64_t number = 0;
	for (const char *line = text; *line; number++) {
		const char *end = line + strcspn(line, "\r\n");
		double n[8];
		int found = line_numbers(line, end, n, COUNT(n));
		bool whole = found == COUNT(n) && fabs(n[1]) < 1e9;
		bool later = whole && (*count == 0 || n[1] > (*list)[*count - 1].view);
		if (whole ? !later : found > 0 && *count > 0)
			return fail(TOMOS_BAD_FILE,
				"'%s', line %lld: a number, a later view and 6 numbers expected",
				path, (long long)number + 1);
		if (whole) {
			TRY(mem_grow(list, *count, capacity, sizeof **list, "control points"));
			Control *c = &(*list)[(*count)++];
			c->view = n[1];
			memcpy(c->part, n + 2, sizeof c->part);
		}
		line = end + (*end == '\r' && end[1] == '\n') + (*end != 0);
	}
	return *count > 0 ? TOMOS_OK : fail(TOMOS_BAD_FILE, "'%s' has no control points", path);
}

/* Which order they have: that of a matrix near 1 in all lines. -1: none. *bend is how far, in
 * pixels, the matrices differ from a shift at the edge of a frame. */
static int find_order(const tomos_scan *scan, const Control *list, int64_t count, double *bend)
{
	const double half[2] = {0.5 * (double)scan->columns, 0.5 * (double)scan->rows};
	for (int o = 0; o < COUNT(orders); o++) {
		double most = 0;
		bool near = true;
		for (int64_t i = 0; i < count; i++)
			for (int k = 0; k < 2; k++) {
				double one = fabs(list[i].part[orders[o].one[k]] - 1);
				double zero = fabs(list[i].part[orders[o].zero[k]]);
				near = near && one < 0.2 && zero < 0.2;
				most = fmax(most, one * half[k] + zero * half[1 - k]);
			}
		*bend = most;
		if (near)
			return o;
	}
	return -1;
}

/* Between control points linearly, beyond them as at the last. */
static tomos_status interpolate(tomos_scan *scan, const Control *list, int64_t count, int order)
{
	int64_t views = scan->sets[TOMOS_VIEWS].count;
	for (int k = 0; k < 2; k++) {
		int64_t next = 0;
		int part = orders[order].shift[k];
		TRY(mem_alloc(&scan->shifts[k], views, sizeof(double), "shifts of views"));
		for (int64_t i = 0; i < views; i++) {
			while (next < count && list[next].view < (double)i)
				next++;
			const Control *b = &list[min64(next, count - 1)],
				      *a = &list[max64(next - 1, 0)];
			double width = b->view - a->view,
			       t = width > 0 ? ((double)i - a->view) / width : 0,
			       shift = a->part[part] + t * (b->part[part] - a->part[part]);
			if (!(fabs(shift) < 1e6))
				return fail(TOMOS_BAD_FILE, "'%s': a shift of %g pixels",
					scan->path, shift);
			scan->shifts[k][i] = k ? -shift : shift; /* rows are read upwards */
		}
	}
	return TOMOS_OK;
}

static tomos_status parse_transforms(tomos_scan *scan, char *text, const char *path)
{
	static const double most_bend = 0.5;
	Control *list = NULL;
	int64_t count = 0, capacity = 0;
	double bend;
	tomos_status status;
	TRY_OR_DONE(read_controls(text, path, &list, &count, &capacity));
	int order = find_order(scan, list, count, &bend);
	if (order < 0) {
		status = scan_note(scan, "note",
			"'%s' is not used: its columns are not documented, and six of them are "
			"not a matrix near 1",
			path);
	} else if (bend > most_bend) {
		status = scan_note(scan, "note",
			"'%s' is not used: it rotates or scales views, by up to %.3g pixels at "
			"their edge; shifts can be read",
			path, bend);
	} else {
		TRY_OR_DONE(interpolate(scan, list, count, order));
		status = scan_note(
			scan, "shifts", "from %lld control points of '%s'", (long long)count, path);
	}
done:
	mem_free(list);
	return status;
}

static tomos_status read_shifts(tomos_scan *scan, const char *folder, const char *prefix)
{
	static const struct {
		const char *ending;
		tomos_status (*parse)(tomos_scan *scan, char *text, const char *path);
	} files[] = {{"_TS.crv", parse_shifts}, {"_TS.csv", parse_shifts},
		{"_2DTransform.csv", parse_transforms}};
	for (int i = 0; i < COUNT(files); i++) {
		char *path, *text = NULL;
		int64_t length;
		TRY(mem_printf(&path, "%s%s%s", folder, prefix, files[i].ending));
		FILE *file = fopen(path, "rb");
		tomos_status status = TOMOS_OK;
		if (file) {
			fclose(file);
			status = text_read(&text, &length, path);
			if (status == TOMOS_OK)
				status = files[i].parse(scan, text, path);
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
	TRY(scan_mirrored(scan));
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
	char *folder = NULL, *stem = NULL;
	tomos_status status;
	TRY(read_keys(k, &s));
	TRY(check_trajectory(k));
	TRY_OR_DONE(folder_of(&folder, scan->path));
	TRY_OR_DONE(stem_of(&stem, scan->path, ""));
	const char *prefixes[2] = {prefix ? prefix : "", stem};
	TRY_OR_DONE(numbered_tiffs(scan, folder, prefixes, s.views, NULL));
	if (prefixes[0] == stem)
		TRY_OR_DONE(scan_note(scan, "note",
			"there are no views '%s%s'; those named as '%s' are read", folder,
			prefix ? prefix : "", scan->path));
	TRY_OR_DONE(scan_size(scan, s.rows, s.columns));
	TRY_OR_DONE(take_geometry(scan, &s));
	TRY_OR_DONE(note_frames(scan, k, &s));
	TRY_OR_DONE(read_shifts(scan, folder, prefixes[0]));
	if (scan->shifts[0])
		status = scan_note(scan, "note",
			"shifts of views are taken to the right and downwards; their signs are not "
			"documented: if slices are blurred, compare with the option 'shift-x' and "
			"the option 'shift-y' of the opposite values");
done:
	mem_free(stem);
	mem_free(folder);
	return status;
}

const ScanKind scanner_skyscan = {
	.name = "skyscan", .keys = fill, .head = skyscan_head, .title = "Bruker SkyScan"};
