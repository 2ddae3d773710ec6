/* What the page of recon --report says about the scan. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "report.h"

#define DEGREES (180 / 3.14159265358979323846)

void fact(FILE *out, const char *name, const char *format, ...)
{
	char text[2048];
	va_list values;
	va_start(values, format);
	vsnprintf(text, sizeof text, format, values);
	va_end(values);
	fprintf(out, "<tr><th>%s</th><td>", name);
	xml_escape(out, text);
	fputs("</td></tr>\n", out);
}

/* ---- facts ------------------------------------------------------------------------------ */

static const char *beam(const tomos_geometry *g)
{
	double kind = tomos_geometry_list(g)[0].src[3];
	return kind == TOMOS_PARALLEL       ? "parallel beam"
	       : kind == TOMOS_FAN_PER_ROW  ? "fan beam, each row one of its own"
	       : tomos_geometry_rows(g) > 1 ? "cone beam"
					    : "fan beam";
}

static void put_beam(FILE *out, const tomos_geometry *g, const char *unit)
{
	const tomos_view *v = tomos_geometry_list(g);
	double source = hypot(v->src[0], v->src[1]), detector = source_detector(v);
	if (v->src[3] == TOMOS_PARALLEL)
		fact(out, "Geometry", "%s", beam(g));
	else
		fact(out, "Geometry",
			"%s; source to axis %.6g %s, source to detector %.6g %s, magnification "
			"%.4g",
			beam(g), source, unit, detector, unit, detector / source);
}

/* First and last direction, and what lies between: the rotation of the columns, step by step. */
static void put_angles(FILE *out, const tomos_geometry *g)
{
	const tomos_view *v = tomos_geometry_list(g);
	int64_t count = tomos_geometry_count(g);
	double swept = 0, first = atan2(v[0].u[1], v[0].u[0]);
	for (int64_t i = 1; i < count; i++)
		swept +=
			remainder(atan2(v[i].u[1], v[i].u[0]) - atan2(v[i - 1].u[1], v[i - 1].u[0]),
				2 * 3.14159265358979323846);
	fact(out, "Angles", "%lld from %.4g to %.5g degrees, %.4g degrees apart on average",
		(long long)count, first * DEGREES, (first + swept) * DEGREES,
		count > 1 ? fabs(swept) * DEGREES / (double)(count - 1) : 0);
}

static void put_exposure(FILE *out, const tomos_scan_info *info)
{
	if (info->energy > 0)
		fact(out, "Energy", "%.6g keV", info->energy);
	if (info->distance > 0)
		fact(out, "Distance to the detector", "%.6g mm", info->distance);
	if (info->white > 0)
		fact(out, "Counts without an object", "%.6g", info->white);
	if (info->half)
		fact(out, "Acquisition", "half: 360 degrees with the axis near one edge");
	if (info->read && info->read[0]) {
		char lines[2048];
		message_line_typed(info->read, lines, sizeof lines);
		fact(out, "Said by the scanner", "%s", lines);
	}
}

char *scan_facts(const page *p, const shown_scan *t)
{
	const tomos_scan_info *info = &t->info;
	const tomos_geometry *g = tomos_prepared_geometry(t->look->prepared);
	size_t bytes;
	char *text = NULL;
	FILE *out = open_memstream(&text, &bytes);
	if (!out)
		return NULL;
	fact(out, "File", "%s", t->s->operands[0]);
	fact(out, "Kind", "%s, %s of %s%s%s", info->kind, info->format, info->type,
		info->dataset[0] ? ", dataset " : "", info->dataset);
	fact(out, "Frames", "%lld views of %lld rows × %lld columns, %lld flat%s, %lld dark%s",
		(long long)info->views, (long long)info->rows, (long long)info->columns,
		(long long)info->flats, info->flats == 1 ? "" : "s", (long long)info->darks,
		info->darks == 1 ? "" : "s");
	fact(out, "Values", "%s", info->counts ? "detector counts" : "line integrals");
	put_beam(out, g, page_length(p));
	put_angles(out, g);
	if (!p->known)
		fact(out, "Pixel", "size not known: lengths are in pixels");
	else
		fact(out, "Pixel", "%.6g × %.6g %s (width × height)", t->pixel[0], t->pixel[1],
			p->length);
	put_exposure(out, info);
	bool good = !ferror(out);
	if (fclose(out) != 0 || !good) {
		free(text);
		return NULL;
	}
	return text;
}
