/* What TIFF files say about the volume, in the first page's ImageDescription: in the lines of
 * ImageJ, or as OME-XML in files that end in .ome.tif or .ome.tiff.
 *
 * ImageJ takes the unit of the resolution from its own lines, so the resolution is in pixels per mm
 * there, without a unit. OME's readers take sizes from the XML; the resolution is in pixels per cm.
 * The resolution of files without either text is ignored: it is seldom that of the object.
 * https://docs.openmicroscopy.org/ome-model/
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "io/tiff_parts.h"

bool tiff_is_ome(const char *path)
{
	return path_ends_in(path, ".ome.tif") || path_ends_in(path, ".ome.tiff");
}

/* A fraction of two 32-bit numbers, by continued fractions: 0.1 gives 1/10. */
void tiff_rational(double number, uint32_t fraction[2])
{
	double before[2] = {0, 1}, now[2] = {1, 0}, rest = number;
	for (int i = 0; i < 32 && number > 0 && number < 4e9; i++) {
		double whole = floor(rest), next[2];
		for (int k = 0; k < 2; k++)
			next[k] = whole * now[k] + before[k];
		if (next[0] > UINT32_MAX || next[1] > UINT32_MAX)
			break;
		memcpy(before, now, sizeof now);
		memcpy(now, next, sizeof now);
		if (fabs(now[0] / now[1] - number) <= 1e-15 * number || rest == whole)
			break;
		rest = 1 / (rest - whole);
	}
	bool found = now[0] >= 1 && now[1] >= 1;
	fraction[0] = found ? (uint32_t)now[0] : 1;
	fraction[1] = found ? (uint32_t)now[1] : 1;
}

void tiff_resolution(const File *file, uint32_t x[2], uint32_t y[2], int *unit)
{
	const Tiff *own = file->own;
	bool sized = strcmp(file->units.length, "mm") == 0;
	bool known = own->grid.known, centimetres = known && own->ome && sized;
	double length = centimetres ? 10 : 1;
	tiff_rational(known ? length / fabs(own->grid.step[0]) : 1, x);
	tiff_rational(known ? length / fabs(own->grid.step[1]) : 1, y);
	*unit = centimetres ? RESUNIT_CENTIMETER : RESUNIT_NONE;
}

/* Sizes of voxels, and where the first is: ImageJ's origin is the place of 0 in voxels, and y may
 * point upwards. */
static int imagej_grid(const File *file, char *text, size_t room)
{
	const Tiff *own = file->own;
	const double *first = own->grid.first, *step = own->grid.step;
	const char *unit = file->units.length;
	int used = 0;
	if (!own->grid.known)
		return 0;
	if (unit[0])
		used += snprintf(text, room, "unit=%s\n", unit);
	used += snprintf(text + used, room - (size_t)used, "spacing=%.17g\n", fabs(step[2]));
	if (step[0] > 0 && step[2] > 0)
		used += snprintf(text + used, room - (size_t)used,
			"xorigin=%.17g\nyorigin=%.17g\nzorigin=%.17g\n%s", -first[0] / step[0],
			-first[1] / step[1], -first[2] / step[2],
			step[1] < 0 ? "inverty=true\n" : "");
	return used;
}

/* Values of 8 and 16 bits are calibrated by a straight line. */
static int imagej_text(const File *file, char *text, size_t room)
{
	const Tiff *own = file->own;
	bool whole = file->element.kind != 'f';
	int used = snprintf(text, room, "ImageJ=1.54f\n");
	if (!own->stack && own->count > 1)
		used += snprintf(text + used, room - (size_t)used, "images=%lld\nslices=%lld\n",
			(long long)own->count, (long long)own->count);
	if (own->stack) /* so that a reader knows of files that are missing at an end */
		used += snprintf(
			text + used, room - (size_t)used, "files=%lld\n", (long long)own->count);
	used += imagej_grid(file, text + used, room - (size_t)used);
	if (whole)
		used += snprintf(text + used, room - (size_t)used, "cf=0\nc0=%.17g\nc1=%.17g\n",
			file->offset, file->scale);
	if (file->units.value[0])
		used += snprintf(text + used, room - (size_t)used, "vunit=%s\n", file->units.value);
	if (whole || own->low < own->high)
		used += snprintf(text + used, room - (size_t)used, "min=%.9g\nmax=%.9g\n",
			whole ? 0 : own->low, whole ? element_largest(file->element) : own->high);
	return used + snprintf(text + used, room - (size_t)used, "loop=false\n");
}

/* OME's unit of lengths that are in none. */
static const char unknown[] = "reference frame";

static int ome_text(const File *file, char *text, size_t room)
{
	const Tiff *own = file->own;
	const int64_t *n = file->shape;
	const double *step = own->grid.step;
	const double *first = own->grid.first;
	char sizes[256] = "", place[256] = "", said[UNITS_TEXT], units[UNITS_TEXT + 32] = "";
	const char *unit =
		choice_index("mm|pixel", file->units.length) >= 0 ? file->units.length : unknown;
	if (own->grid.known) {
		snprintf(sizes, sizeof sizes,
			" PhysicalSizeX=\"%.17g\" PhysicalSizeXUnit=\"%s\" PhysicalSizeY=\"%.17g\" "
			"PhysicalSizeYUnit=\"%s\" PhysicalSizeZ=\"%.17g\" PhysicalSizeZUnit=\"%s\"",
			fabs(step[0]), unit, fabs(step[1]), unit, fabs(step[2]), unit);
		/* Readers take it for the place of a grid with these directions. */
		if (step[0] > 0 && step[1] < 0 && step[2] > 0)
			snprintf(place, sizeof place,
				"<Plane TheZ=\"0\" TheT=\"0\" TheC=\"0\" PositionX=\"%.17g\" "
				"PositionXUnit=\"%s\" PositionY=\"%.17g\" PositionYUnit=\"%s\" "
				"PositionZ=\"%.17g\" PositionZUnit=\"%s\"/>",
				first[0], unit, first[1], unit, first[2], unit);
	}
	units_say(file, said);
	if (said[0])
		snprintf(units, sizeof units, "<Description>%s</Description>", said);
	return snprintf(text, room,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<OME xmlns=\"http://www.openmicroscopy.org/Schemas/OME/2016-06\" "
		"xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" "
		"xsi:schemaLocation=\"http://www.openmicroscopy.org/Schemas/OME/2016-06 "
		"http://www.openmicroscopy.org/Schemas/OME/2016-06/ome.xsd\" Creator=\"tomos %s\">"
		"<Image ID=\"Image:0\" Name=\"%s\">%s<Pixels ID=\"Pixels:0\" "
		"DimensionOrder=\"XYZCT\" Type=\"%s\" BigEndian=\"%s\" SizeX=\"%lld\" "
		"SizeY=\"%lld\" SizeZ=\"%lld\" SizeC=\"1\" SizeT=\"1\"%s>"
		"<Channel ID=\"Channel:0:0\" SamplesPerPixel=\"1\"/><TiffData/>%s</Pixels></Image>"
		"</OME>\n",
		TOMOS_VERSION, file->content == TOMOS_PROJECTIONS ? "projections" : "volume", units,
		file->element.kind == 'f' ? "float" : element_name(file->element),
		__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? "true" : "false", (long long)n[2],
		(long long)n[1], (long long)n[0], sizes, place);
}

int64_t tiff_text_room(const Tiff *own)
{
	return own->ome ? 2048 : 512;
}

int64_t tiff_text(const File *file, char *text)
{
	const Tiff *own = file->own;
	size_t room = (size_t)tiff_text_room(own);
	int length = own->ome ? ome_text(file, text, room) : imagej_text(file, text, room);
	return min64(length, (int64_t)room - 1) + 1; /* with the zero at its end */
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The number after a name; false: there is none. */
static bool number_after(const char *text, const char *name, double *number)
{
	const char *at = strstr(text, name);
	char *end = NULL;
	if (at)
		*number = strtod(at + strlen(name), &end);
	return at && end != at + strlen(name);
}

static double unit_after(File *file, const char *text, const char *name, const char *usual)
{
	char unit[32];
	const char *at = strstr(text, name);
	at = at ? at + strlen(name) : usual;
	snprintf(unit, sizeof unit, "%.*s", (int)strcspn(at, "\r\n\""), at);
	if (strcmp(unit, unknown) == 0)
		unit[0] = 0;
	return unit_take(file->units.length, unit);
}

/* The default grid: centred, y upwards. */
static void centre(const File *file, GridNumbers *grid)
{
	grid->step[1] = -fabs(grid->step[1]);
	for (int i = 0; i < 3; i++)
		grid->first[i] = -0.5 * (double)(file->shape[2 - i] - 1) * grid->step[i];
}

/* The decimal number of fewest digits that agrees with a length to the precision of the resolution,
 * which libtiff gives as a float. */
static double length_of(float resolution)
{
	char text[32];
	double length = 1 / (double)resolution;
	for (int digits = 1; digits < 9; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, length);
		if (fabs(strtod(text, NULL) - length) <= 1.2e-7 * length)
			return strtod(text, NULL);
	}
	return length;
}

static void take_imagej(File *file, Tiff *own, TIFF *tiff, const char *text)
{
	GridNumbers *grid = &own->grid;
	float x = 0, y = 0;
	double origin[3] = {0, 0, 0}, files = 0;
	const char *value = strstr(text, "\nvunit=");
	bool sized = strstr(text, "\nunit=") || strstr(text, "\nspacing=");
	if (value)
		unit_copy(file->units.value, value + 7, strcspn(value + 7, "\r\n"));
	if (number_after(text, "\nfiles=", &files) && files > 0 && files < 1e15)
		file->files = (int64_t)files;
	if (!sized || !TIFFGetField(tiff, TIFFTAG_XRESOLUTION, &x) ||
		!TIFFGetField(tiff, TIFFTAG_YRESOLUTION, &y) || !(x > 0 && y > 0))
		return;
	*grid = (GridNumbers){.step = {length_of(x), length_of(y), 1}, .known = true};
	(void)number_after(text, "\nspacing=", &grid->step[2]);
	centre(file, grid);
	bool placed = number_after(text, "\nxorigin=", &origin[0]); /* ImageJ leaves out zeros */
	placed |= number_after(text, "\nyorigin=", &origin[1]);
	placed |= number_after(text, "\nzorigin=", &origin[2]);
	if (placed) {
		grid->step[1] *= strstr(text, "\ninverty=true") ? 1 : -1;
		for (int i = 0; i < 3; i++)
			grid->first[i] = -origin[i] * grid->step[i];
	}
	grid_scale(grid, unit_after(file, text, "\nunit=", ""));
}

/* Without a unit, sizes are in micrometres. */
static void take_ome(File *file, GridNumbers *grid, const char *text)
{
	static const char *const sizes[3] = {
		" PhysicalSizeX=\"", " PhysicalSizeY=\"", " PhysicalSizeZ=\""};
	static const char *const places[3] = {" PositionX=\"", " PositionY=\"", " PositionZ=\""};
	double place[3];
	bool placed = true;
	grid->known = number_after(text, sizes[0], &grid->step[0]) &&
		      number_after(text, sizes[1], &grid->step[1]);
	if (!number_after(text, sizes[2], &grid->step[2])) {
		grid->step[2] = grid->step[0];
		grid->known &= file->shape[0] == 1;
	}
	if (grid->known) {
		centre(file, grid);
		for (int i = 0; i < 3; i++)
			placed &= number_after(text, places[i], &place[i]);
		if (placed)
			memcpy(grid->first, place, sizeof place);
		grid_scale(grid, unit_after(file, text, " PhysicalSizeXUnit=\"", "um"));
	}
	if (strstr(text, " Creator=\"tomos "))
		units_find(file, text);
}

void tiff_take_text(File *file, TIFF *tiff)
{
	Tiff *own = file->own;
	char *text = NULL;
	if (!TIFFGetField(tiff, TIFFTAG_IMAGEDESCRIPTION, &text) || !text)
		return;
	if (strncmp(text, "ImageJ=", 7) == 0)
		take_imagej(file, own, tiff, text);
	else if (strstr(text, "<OME ") || strstr(text, "<OME:OME "))
		take_ome(file, &own->grid, text);
	grid_check(&own->grid);
}
