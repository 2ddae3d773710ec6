/* Parses lengths, energies and sizes: a number and a unit. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/base.h"

typedef struct {
	const char *name;
	double factor;
} Unit;

static const Unit lengths[] = {{"", 1}, {"mm", 1}, {"um", 1e-3}, {"\xc2\xb5m", 1e-3},
	{"\xce\xbcm", 1e-3}, {"nm", 1e-6}, {"cm", 10}, {"m", 1000}};
static const Unit energies[] = {{"", 1}, {"keV", 1}, {"eV", 1e-3}, {"MeV", 1000}};

static const Unit sizes[] = {{"", 1}, {"B", 1}, {"K", 1 << 10}, {"KiB", 1 << 10}, {"M", 1 << 20},
	{"MiB", 1 << 20}, {"G", 1 << 30}, {"GiB", 1 << 30}, {"T", 1099511627776.0},
	{"TiB", 1099511627776.0}};

static tomos_status parse(const char *what, const char *names, const Unit *units, int count,
	const char *text, double *value)
{
	char *end = NULL;
	double number = text ? strtod(text, &end) : 0;
	if (!text || end == text || isspace((unsigned char)text[0]) || !isfinite(number))
		return fail(TOMOS_BAD_VALUE, "'%s' is not %s: a number and one of %s",
			text ? text : "", what, names);
	while (*end == ' ')
		end++;
	for (int i = 0; i < count; i++)
		if (strcmp(end, units[i].name) == 0) {
			*value = number * units[i].factor;
			return TOMOS_OK;
		}
	if (*end == ',' && isdigit((unsigned char)end[1]))
		return fail(TOMOS_BAD_VALUE, "'%s' is not %s: the decimal mark is a point, %.*s.%s",
			text, what, (int)(end - text), text, end + 1);
	return fail(TOMOS_BAD_VALUE, "'%s': the unit '%s' is not known for %s; it may be %s", text,
		end, what, names);
}

tomos_status tomos_length_parse(const char *text, double *millimetres)
{
	return parse("a length", "nm, um, mm, cm, m", lengths, COUNT(lengths), text, millimetres);
}

tomos_status tomos_energy_parse(const char *text, double *kiloelectronvolts)
{
	return parse(
		"an energy", "eV, keV, MeV", energies, COUNT(energies), text, kiloelectronvolts);
}

tomos_status tomos_size_parse(const char *text, int64_t *bytes)
{
	double value;
	TRY(parse("a size", "K, M, G, T (KiB, MiB, GiB, TiB)", sizes, COUNT(sizes), text, &value));
	if (value < 0 || value > 9e15)
		return fail(
			TOMOS_BAD_VALUE, "'%s' is not a size: it must be 0 to 9e15 bytes", text);
	*bytes = (int64_t)value;
	return TOMOS_OK;
}
