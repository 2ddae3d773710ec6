/* What the readers of scanners' files share: notes, angles, numbered files. */
#include "run/scanner/list.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <strings.h>

static tomos_status open_keys(tomos_scan *scan)
{
	Keys keys;
	TRY(keys_read(&keys, scan->path));
	tomos_status status = scan->kind->keys(scan, &keys);
	keys_free(&keys);
	return status;
}

static tomos_status open_xml(tomos_scan *scan)
{
	XmlNode *root;
	TRY(xml_read(&root, scan->path));
	tomos_status status = scan->kind->xml(scan, root);
	xml_free(root);
	return status;
}

static tomos_status open_folder(tomos_scan *scan)
{
	char *folder;
	TRY(folder_of(&folder, scan->path));
	tomos_status status = scan->kind->folder(scan, folder);
	mem_free(folder);
	return status;
}

tomos_status scanner_open(tomos_scan *scan)
{
	if (scan->kind->keys)
		return open_keys(scan);
	return scan->kind->xml ? open_xml(scan) : open_folder(scan);
}

bool head_has(const char *head, const char *text)
{
	size_t length = strlen(text);
	for (; *head; head++)
		if (strncasecmp(head, text, length) == 0)
			return true;
	return false;
}

tomos_status scan_note(tomos_scan *scan, const char *name, const char *format, ...)
{
	const char *before = scan->setup.read ? scan->setup.read : "";
	char line[1024], *whole;
	va_list list;
	va_start(list, format);
	vsnprintf(line, sizeof line, format, list);
	va_end(list);
	TRY(mem_printf(&whole, "%s%-9s %s\n", before, name, line));
	mem_free(scan->setup.read);
	scan->setup.read = whole;
	return TOMOS_OK;
}

tomos_status scan_shifts(tomos_scan *scan, double largest)
{
	if (largest > 0)
		return scan_note(scan, "shifts", "one per view, up to %.3g pixels", largest);
	for (int k = 0; k < 2; k++) {
		mem_free(scan->shifts[k]);
		scan->shifts[k] = NULL;
	}
	return TOMOS_OK;
}

tomos_status scan_steps(tomos_scan *scan, double first, double step)
{
	int64_t views = scan->sets[TOMOS_VIEWS].count;
	if (!(fabs(first) < 1e6 && fabs(step) < 1e6))
		return fail(TOMOS_BAD_FILE, "'%s': angles from %g degrees in steps of %g",
			scan->path, first, step);
	TRY(mem_alloc(&scan->angles, views, sizeof *scan->angles, "angles"));
	for (int64_t i = 0; i < views; i++)
		scan->angles[i] = (first + step * (double)i) * RADIANS;
	return TOMOS_OK;
}

/* Frames that were converted, to uint8 for instance, do not have the counts of the file's level. */
static tomos_status note_white(tomos_scan *scan)
{
	const Element type = scan->sets[TOMOS_VIEWS].file->element;
	double white = scan->setup.white;
	if (!(white > 0))
		return TOMOS_OK;
	if (type.kind == 'f' || white <= ldexp(1, 8 * type.bytes - (type.kind == 'i')))
		return scan_note(scan, "white", "%g counts", white);
	scan->setup.white = 0;
	return scan_note(scan, "note",
		"the white level %g is not used: it is more than frames of type %s hold", white,
		element_name(type));
}

/* The last angle in degrees, on the way from the first: a list may go on at 0 after 360. */
static double last_angle(const double *angles, int64_t count)
{
	double sum = angles[0] / RADIANS, last = angles[count - 1] / RADIANS;
	int64_t wide = 0;
	for (int64_t i = 1; i < count; i++) {
		double step = (angles[i] - angles[i - 1]) / RADIANS;
		wide += fabs(step) > 180;
		sum += remainder(step, 360);
	}
	return wide > 0 && wide <= 2 && count > 8 ? sum : last;
}

/* Values that a wrong number in the file makes, and few scans have. */
static tomos_status note_doubts(tomos_scan *scan, int64_t views)
{
	static const double most_turn = 390, most_ratio = 1.5;
	double ratio = scan->pixel[1] / scan->pixel[0];
	if (ratio > most_ratio || ratio < 1 / most_ratio)
		TRY(scan_note(scan, "note", "pixels are %.4g times as high as wide", ratio));
	if (!scan->angles)
		return TOMOS_OK;
	double turn = fabs(last_angle(scan->angles, views) - scan->angles[0] / RADIANS);
	if (turn > most_turn)
		return scan_note(scan, "note",
			"the views go round %.4g degrees, which is more than a full turn", turn);
	return TOMOS_OK;
}

tomos_status scan_notes(tomos_scan *scan)
{
	const ScanSetup *s = &scan->setup;
	int64_t views = scan->sets[TOMOS_VIEWS].count;
	if (strcmp(s->geometry, "cone") == 0)
		TRY(scan_note(scan, "distance",
			"source to axis %g mm, source to detector %g mm, magnification %g",
			s->source_axis, s->source_detector, s->source_detector / s->source_axis));
	TRY(scan_note(scan, "pixel", "%g x %g mm (height, width)", scan->pixel[1], scan->pixel[0]));
	if (isnan(s->axis))
		TRY(scan_note(scan, "axis", "column not said (middle %g)",
			0.5 * (double)(scan->columns - 1)));
	else
		TRY(scan_note(scan, "axis", "column %.3f (middle %g)", s->axis,
			0.5 * (double)(scan->columns - 1)));
	if (fabs(s->axis_row - 0.5 * (double)(scan->rows - 1)) > 5e-4)
		TRY(scan_note(scan, "midplane", "row %.3f (middle %g)", s->axis_row,
			0.5 * (double)(scan->rows - 1)));
	if (s->roll != 0 || s->slant != 0 || s->swivel != 0)
		TRY(scan_note(scan, "detector", "roll %.4f, slant %.4f, swivel %.4f degrees",
			s->roll / RADIANS, s->slant / RADIANS, s->swivel / RADIANS));
	if (scan->angles)
		TRY(scan_note(scan, "rotation", "%.6g to %.6g degrees%s",
			scan->angles[0] / RADIANS + 0.0, last_angle(scan->angles, views),
			s->direction_known ? "" : "; the direction is not said"));
	TRY(note_doubts(scan, views));
	return note_white(scan);
}

tomos_status scan_level(tomos_scan *scan, const Keys *k, const char *section, const char *name)
{
	double white = 0;
	bool found;
	TRY(keys_number(k, section, name, &white, &found));
	scan->setup.white = white > 0 ? white : 0;
	if (!found || white > 0)
		return TOMOS_OK;
	return scan_note(
		scan, "note", "%s is %g and is not used: it must be greater than 0", name, white);
}

tomos_status scan_voxel(tomos_scan *scan, const char *name, double said, double made)
{
	static const double most = 0.02;
	if (said == 0 || fabs(said / made - 1) <= most)
		return TOMOS_OK;
	return scan_note(scan, "note",
		"%s is %g mm, and the distances and pixels make %g mm: one of these may be wrong, "
		"or other voxels were chosen",
		name, said, made);
}

tomos_status scan_mirrored(tomos_scan *scan)
{
	return scan_note(scan, "note",
		"which way columns run is not documented: the volume may be a mirror image; the "
		"option 'flip' columns gives the other one");
}

tomos_status scan_size(const tomos_scan *scan, int64_t rows, int64_t columns)
{
	if (scan->rows == rows && scan->columns == columns)
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE,
		"'%s' says %lld rows x %lld columns, and the frames have %lld x %lld", scan->path,
		(long long)rows, (long long)columns, (long long)scan->rows,
		(long long)scan->columns);
}

/* ---- files ---------------------------------------------------------------------------------- */

tomos_status folder_of(char **folder, const char *path)
{
	const char *slash = strrchr(path, '/');
	return mem_printf(folder, "%.*s", slash ? (int)(slash - path + 1) : 0, path);
}

tomos_status stem_of(char **stem, const char *path, const char *more)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const char *dot = strrchr(name, '.');
	return mem_printf(stem, "%.*s%s", dot ? (int)(dot - name) : (int)strlen(name), name, more);
}

/* The digits of "<prefix>0001.tif", in a name that has nothing else; 0: it is another name. */
static size_t digits_of(const char *name, const char *prefix)
{
	size_t length = strlen(prefix), digits = 0;
	if (strncasecmp(name, prefix, length) != 0)
		return 0;
	while (isdigit((unsigned char)name[length + digits]))
		digits++;
	const char *end = name + length + digits;
	return strcasecmp(end, ".tif") == 0 || strcasecmp(end, ".tiff") == 0 ? digits : 0;
}

/* `other` is a TIFF file of the folder, "": there is none. */
static tomos_status no_files(const tomos_scan *scan, const char *folder, const char *prefix,
	const char *other, const TypedScan *typed)
{
	if (!other[0])
		return fail(TOMOS_BAD_FILE, "'%s': there are no files '%s%s0001.tif' and so on",
			scan->path, folder, prefix);
	if (typed)
		return fail(TOMOS_BAD_FILE,
			"'%s': there are no files '%s%s0001.tif' and so on, with its name; there "
			"is '%s': copy '%s' to the name that these files have before their number",
			scan->path, folder, prefix, other, scan->path);
	return fail(TOMOS_BAD_FILE,
		"'%s': there are no files '%s%s0001.tif' and so on; there is '%s': rename these "
		"files, or correct their name in a copy of '%s'",
		scan->path, folder, prefix, other, scan->path);
}

/* A pattern for such names: of equal numbers of digits, or of any. */
static tomos_status find_pattern(char **pattern, const tomos_scan *scan, const char *folder,
	const char *prefix, const TypedScan *typed)
{
	struct dirent **list = NULL;
	int count = scandir(folder[0] ? folder : ".", &list, NULL, alphasort);
	size_t least = 0, most = 0, length = 0;
	char start[512] = "", digits[128] = "", ending[8] = "", other[256] = "";
	if (count < 0)
		return fail(TOMOS_IO, "directory '%s' cannot be read: %s", folder, strerror(errno));
	for (int i = 0; i < count; i++) {
		const char *name = list[i]->d_name;
		size_t found = digits_of(name, prefix);
		if (found > 0 && strlen(name) < sizeof start / 2) {
			least = least == 0 || found < least ? found : least;
			most = found > most ? found : most;
			snprintf(start, sizeof start, "%.*s", (int)strlen(prefix), name);
			snprintf(ending, sizeof ending, "%.6s", strrchr(name, '.'));
		} else if (!other[0] &&
			   (list_fits(name, "", ".tif") || list_fits(name, "", ".tiff")))
			snprintf(other, sizeof other, "%s", name);
		free(list[i]); /* scandir's own memory */
	}
	free(list);
	if (most == 0)
		return no_files(scan, folder, prefix, other, typed);
	for (size_t i = 0; i + 1 < least && length + 8 < sizeof digits; i++)
		length += (size_t)snprintf(digits + length, sizeof digits - length, "[0-9]");
	snprintf(digits + length, sizeof digits - length, "%s", least == most ? "?" : "*");
	char escaped[1024];
	pattern_escape(escaped, sizeof escaped, start);
	return mem_printf(pattern, "%s%s%s%s", folder, escaped, digits, ending);
}

/* How to read the first `count` views where the last ones are missing; renamed: they have the name
 * of the scanner's file, which a copy has not. */
static void say_fewer(char *text, size_t size, const tomos_scan *scan, int64_t count,
	const char *prefix, const char *ending, bool renamed, const TypedScan *t)
{
	char white[64] = "";
	if (!t) {
		snprintf(text, size,
			"a copy of '%.300s' beside it that says %lld views%s reads those that are "
			"there",
			scan->path, (long long)count, renamed ? " and the name of these" : "");
		return;
	}
	if (t->white > 0)
		snprintf(white, sizeof white, ", the option 'i0' %.10g", t->white);
	snprintf(text, size,
		"in its folder, read '%.250s*%.6s' with the option 'geometry' cone, the option "
		"'source-axis' %gmm, the option 'source-detector' %gmm, the option 'pixel' %gmm, "
		"the option 'pixel-height' %gmm%s, the option 'flip' rows and the option 'arc' "
		"%.6g",
		prefix, ending, t->source_axis, t->source_detector, t->pixel[0], t->pixel[1], white,
		t->step * (double)count);
}

typedef struct {
	const char *after; /* a path, or its beginning */
	int64_t count;     /* files up to it */
	bool met;
} Place;

static tomos_status count_files(void *user, const char *path)
{
	Place *p = user;
	p->count += !p->met;
	p->met = p->met || strncmp(path, p->after, strlen(p->after)) == 0;
	return TOMOS_OK;
}

/* Names the first file that is missing: in the middle, or after the last one. */
static tomos_status too_few(const tomos_scan *scan, int64_t views, const char *folder,
	const char *prefix, const char *ending, bool renamed, const TypedScan *typed)
{
	const FrameSet *set = &scan->sets[TOMOS_VIEWS];
	int64_t number = -1;
	char after[512] = "", which[720], names[512], fewer[620];
	TRY(tomos_file_gap(set->file, &number, after, sizeof after));
	snprintf(names, sizeof names, "%s%s", folder, prefix);
	if (number >= 0 && after[0]) {
		Place place = {.after = after};
		TRY(io_sources(set->file, count_files, &place));
		snprintf(which, sizeof which,
			"; number %lld is missing, after '%.300s': a copy of that in its place, "
			"with the option 'bad-views' %lld, lets the others be used",
			(long long)number, after, (long long)place.count);
	} else {
		say_fewer(fewer, sizeof fewer, scan, set->count, prefix, ending, renamed, typed);
		snprintf(which, sizeof which,
			"; the first or the last ones are missing; if the last: %s", fewer);
	}
	return fail(TOMOS_BAD_FILE, "'%s' says %lld views, and there are %lld files '%s...'%s",
		scan->path, (long long)views, (long long)set->count, names, which);
}

tomos_status numbered_tiffs(tomos_scan *scan, const char *folder, const char *prefixes[2],
	int64_t views, const TypedScan *typed)
{
	FrameSet *set = &scan->sets[TOMOS_VIEWS];
	const char *first = prefixes[0];
	char *pattern;
	tomos_status status = find_pattern(&pattern, scan, folder, first, typed);
	if (status == TOMOS_BAD_FILE && prefixes[1]) {
		prefixes[0] = prefixes[1];
		status = find_pattern(&pattern, scan, folder, prefixes[0], typed);
		if (status == TOMOS_BAD_FILE) /* the message names the first one */
			status = find_pattern(&pattern, scan, folder, first, typed);
	}
	TRY(status);
	TRY_OR_DONE(frames_open(set, pattern, "", ""));
	if (set->count < views) {
		status = too_few(scan, views, folder, prefixes[0], strrchr(pattern, '.'),
			prefixes[0] != first, typed);
		goto done;
	}
	scan->rows = set->file->shape[1];
	scan->columns = set->file->shape[2];
	status = first_frames(scan, views);
done:
	mem_free(pattern);
	return status;
}
