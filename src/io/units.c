/* Units of lengths and values of a file: "mm" and "1/mm", "HU"; "pixel" where the size of pixels is
 * not known; "" where nothing is known, and then nothing is written. HDF5 files have them as
 * attributes, Zarr files as texts, other formats in their own fields or in a line of text. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "base/keys.h"
#include "io/io.h"

double unit_take(char unit[UNIT_NAME], const char *name)
{
	static const struct {
		const char *names;
		double mm;
	} units[] = {{"mm|millimeter|millimetre|millimeters|millimetres", 1},
		{"um|\xc2\xb5m|\xce\xbcm|\xb5m|\\u00B5m|micron|microns|micrometer|micrometre|"
		 "micrometers",
			1e-3},
		{"nm|nanometer|nanometre|nanometers", 1e-6},
		{"cm|centimeter|centimetre|centimeters", 10}, {"m|meter|metre|meters|metres", 1000},
		{"angstrom", 1e-7}, {"inch", 25.4}};
	for (int i = 0; i < COUNT(units); i++)
		if (choice_index(units[i].names, name) >= 0) {
			snprintf(unit, UNIT_NAME, "mm");
			return units[i].mm;
		}
	bool pixels = choice_index("pixels|voxel|voxels", name) >= 0;
	unit_copy(unit, pixels ? "pixel" : name, strlen(pixels ? "pixel" : name));
	return 1;
}

bool unit_is_plain(const char *unit)
{
	for (const char *at = unit; *at; at += character_bytes(at))
		if ((unsigned char)*at < ' ' || strchr("\"'<>&,;=\\", *at) || !character_bytes(at))
			return false;
	return strlen(unit) < UNIT_NAME;
}

void unit_copy(char unit[UNIT_NAME], const char *text, size_t length)
{
	char name[UNIT_NAME] = "";
	while (length > 0 && text[length - 1] == ' ')
		length--;
	if (length == 0 || length >= sizeof name)
		return;
	memcpy(name, text, length);
	if (unit_is_plain(name))
		memcpy(unit, name, sizeof name);
}

/* ---- a line of text -------------------------------------------------------------------------- */

static const char values_in[] = "values in ", lengths_in[] = "lengths in ";

void units_say(const File *file, char text[UNITS_TEXT])
{
	const FileUnits *u = &file->units;
	snprintf(text, UNITS_TEXT, "%s%s%s%s%s", u->value[0] ? values_in : "", u->value,
		u->value[0] && u->length[0] ? ", " : "", u->length[0] ? lengths_in : "", u->length);
}

/* Not as the end of a longer word, such as "wavelengths in nm". */
static void find_one(const char *text, const char *before, char unit[UNIT_NAME])
{
	const char *at = strstr(text, before);
	if (at && (at == text || !isalpha((unsigned char)at[-1])))
		unit_copy(unit, at + strlen(before), strcspn(at + strlen(before), ",;<>&\"'\r\n"));
}

void units_find(File *file, const char *text)
{
	find_one(text, values_in, file->units.value);
	find_one(text, lengths_in, file->units.length);
}

/* ---- files with texts ------------------------------------------------------------------------ */

/* What is measured in the unit of lengths, in HDF5 files. */
static const char *const places[] = {"grid/first", "grid/step", "geometry/views", "entry/data/x",
	"entry/data/y", "entry/data/z"};

static tomos_status put_attribute(
	File *file, const char *object, const char *attribute, const char *text)
{
	char name[64];
	snprintf(name, sizeof name, "%s@%s", object, attribute);
	return io_put_text(file, name, text);
}

/* An empty text is written only where it replaces another. */
static tomos_status put_unit(File *file, const char *name, const char *unit)
{
	char *old;
	TRY(io_text(file, name, &old));
	bool needed = unit[0] || old;
	mem_free(old);
	return needed ? io_put_text(file, name, unit) : TOMOS_OK;
}

tomos_status units_write(File *file)
{
	const FileUnits *u = &file->units;
	if (file->format == &format_zarr) {
		TRY(put_unit(file, "units/values", u->value));
		return put_unit(file, "units/lengths", u->length);
	}
	if (file->format != &format_hdf5)
		return TOMOS_OK;
	for (int i = 0; i < COUNT(places); i++)
		TRY(put_attribute(file, places[i], "units", u->length));
	TRY(put_attribute(file, file->dataset, "units", u->value));
	char name[UNIT_NAME + 16];
	snprintf(name, sizeof name, "values (%s)", u->value);
	return put_attribute(file, "entry/data/data", "long_name", u->value[0] ? name : "values");
}

/* A unit that cannot be one of tomos is that of another program, and is left. */
static tomos_status get_unit(const File *file, const char *name, char unit[UNIT_NAME])
{
	char *text;
	TRY(io_text(file, name, &text));
	if (text)
		unit_copy(unit, text, strlen(text));
	mem_free(text);
	return TOMOS_OK;
}

tomos_status units_read(File *file)
{
	FileUnits *u = &file->units;
	char *name;
	if (file->format == &format_zarr) {
		TRY(get_unit(file, "units/values", u->value));
		return get_unit(file, "units/lengths", u->length);
	}
	if (file->format != &format_hdf5)
		return TOMOS_OK;
	TRY(get_unit(file, "geometry/views@units", u->length));
	TRY(get_unit(file, "grid/step@units", u->length));
	TRY(mem_printf(&name, "%s@units", file->dataset));
	tomos_status status = get_unit(file, name, u->value);
	mem_free(name);
	return status;
}
