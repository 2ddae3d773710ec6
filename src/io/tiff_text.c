/* What TIFF files written here say about the volume, in the first page's ImageDescription: in the
 * lines of ImageJ, or as OME-XML in files that end in .ome.tif or .ome.tiff.
 *
 * ImageJ takes the unit of the resolution from its own lines, so the resolution is in pixels per mm
 * there, without a unit. OME's readers take sizes from the XML; the resolution is in pixels per cm.
 * https://docs.openmicroscopy.org/ome-model/
 */
#include <stdio.h>
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

void tiff_resolution(const Tiff *own, uint32_t x[2], uint32_t y[2], int *unit)
{
	double length = own->ome ? 10 : 1;
	bool known = own->grid.known;
	tiff_rational(known ? length / fabs(own->grid.step[0]) : 1, x);
	tiff_rational(known ? length / fabs(own->grid.step[1]) : 1, y);
	*unit = known && own->ome ? RESUNIT_CENTIMETER : RESUNIT_NONE;
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
	if (own->grid.known)
		used += snprintf(text + used, room - (size_t)used, "unit=mm\nspacing=%.9g\n",
			fabs(own->grid.step[2]));
	if (whole)
		used += snprintf(text + used, room - (size_t)used,
			"cf=0\nc0=%.17g\nc1=%.17g\nvunit=%s\n", file->offset, file->scale,
			file->content == TOMOS_VOLUME ? "1/mm" : "value");
	if (whole || own->low < own->high)
		used += snprintf(text + used, room - (size_t)used, "min=%.9g\nmax=%.9g\n",
			whole ? 0 : own->low, whole ? element_largest(file->element) : own->high);
	return used + snprintf(text + used, room - (size_t)used, "loop=false\n");
}

static int ome_text(const File *file, char *text, size_t room)
{
	const Tiff *own = file->own;
	const int64_t *n = file->shape;
	const double *step = own->grid.step;
	char sizes[256] = "";
	if (own->grid.known)
		snprintf(sizes, sizeof sizes,
			" PhysicalSizeX=\"%.17g\" PhysicalSizeXUnit=\"mm\" PhysicalSizeY=\"%.17g\" "
			"PhysicalSizeYUnit=\"mm\" PhysicalSizeZ=\"%.17g\" PhysicalSizeZUnit=\"mm\"",
			fabs(step[0]), fabs(step[1]), fabs(step[2]));
	return snprintf(text, room,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<OME xmlns=\"http://www.openmicroscopy.org/Schemas/OME/2016-06\" "
		"xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" "
		"xsi:schemaLocation=\"http://www.openmicroscopy.org/Schemas/OME/2016-06 "
		"http://www.openmicroscopy.org/Schemas/OME/2016-06/ome.xsd\" Creator=\"tomos %s\">"
		"<Image ID=\"Image:0\" Name=\"%s\"><Pixels ID=\"Pixels:0\" "
		"DimensionOrder=\"XYZCT\" Type=\"%s\" BigEndian=\"%s\" SizeX=\"%lld\" "
		"SizeY=\"%lld\" SizeZ=\"%lld\" SizeC=\"1\" SizeT=\"1\"%s>"
		"<Channel ID=\"Channel:0:0\" SamplesPerPixel=\"1\"/><TiffData/></Pixels></Image>"
		"</OME>\n",
		TOMOS_VERSION, file->content == TOMOS_PROJECTIONS ? "projections" : "volume",
		file->element.kind == 'f' ? "float" : element_name(file->element),
		__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? "true" : "false", (long long)n[2],
		(long long)n[1], (long long)n[0], sizes);
}

int64_t tiff_text_room(const Tiff *own)
{
	return own->ome ? 1536 : 320;
}

int64_t tiff_text(const File *file, char *text)
{
	const Tiff *own = file->own;
	size_t room = (size_t)tiff_text_room(own);
	int length = own->ome ? ome_text(file, text, room) : imagej_text(file, text, room);
	return min64(length, (int64_t)room - 1) + 1; /* with the zero at its end */
}
