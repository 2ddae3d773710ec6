/* Numbers that scans come with: angles, lengths and energies, with their units. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "run/run.h"
#include "run/scan.h"

#define PI 3.14159265358979323846
#define RADIANS (PI / 180)

/* ---- units -------------------------------------------------------------------------------- */

typedef struct {
	const char *name;
	double factor;
} Unit;

static const Unit length_units[] = {{"m", 1e3}, {"meter", 1e3}, {"metre", 1e3}, {"meters", 1e3},
	{"cm", 10}, {"mm", 1}, {"millimeter", 1}, {"um", 1e-3}, {"micron", 1e-3}, {"microns", 1e-3},
	{"micrometer", 1e-3}, {"\xc2\xb5m", 1e-3}, {"\xce\xbcm", 1e-3}, {"nm", 1e-6}};
static const Unit energy_units[] = {
	{"keV", 1}, {"eV", 1e-3}, {"MeV", 1e3}, {"J", 6.241509074460763e15}};
static const Unit angle_units[] = {{"deg", RADIANS}, {"degree", RADIANS}, {"degrees", RADIANS},
	{"\xc2\xb0", RADIANS}, {"rad", 1}, {"radian", 1}, {"radians", 1}};

static const Unit *find_unit(const Unit *units, int count, const char *name)
{
	for (int i = 0; i < count; i++)
		if (strcasecmp(units[i].name, name) == 0)
			return &units[i];
	return NULL;
}

/* The factor of the unit in "name@units", or of the fallback; 0 if there is no unit and the
 * fallback is NULL. */
static tomos_status unit_factor(const File *look, const char *name, const Unit *units, int count,
	const char *fallback, double *factor)
{
	char attribute[512], *text;
	snprintf(attribute, sizeof attribute, "%s@units", name);
	TRY(io_text(look, attribute, &text));
	const char *said = text && text[0] ? text : fallback;
	const Unit *unit = said ? find_unit(units, count, said) : NULL;
	*factor = unit ? unit->factor : 0;
	tomos_status status = TOMOS_OK;
	if (said && !unit)
		status = fail(TOMOS_BAD_FILE, "'%s': '%s' is in '%s', a unit that is not known",
			look->path, name, said);
	mem_free(text);
	return status;
}

static tomos_status scaled(const File *look, const char *name, const Unit *units, int count,
	const char *fallback, double *value)
{
	double *values, factor;
	int64_t shape[2];
	*value = 0;
	TRY(io_get(look, name, &values, shape));
	if (!values)
		return TOMOS_OK;
	double first = values[0];
	mem_free(values);
	TRY(unit_factor(look, name, units, count, fallback, &factor));
	if (first > 0 && isfinite(first * factor))
		*value = first * factor;
	return TOMOS_OK;
}

tomos_status scan_lengths(const File *look, const char *name, const char *fallback, double *value)
{
	return scaled(look, name, length_units, COUNT(length_units), fallback, value);
}

tomos_status scan_energy(const File *look, const char *name, double *value)
{
	return scaled(look, name, energy_units, COUNT(energy_units), "keV", value);
}

/* ---- angles ------------------------------------------------------------------------------- */

static double span_of(const double *list, int64_t count)
{
	double low = HUGE_VAL, high = -HUGE_VAL;
	for (int64_t i = 0; i < count; i++) {
		low = fmin(low, list[i]);
		high = fmax(high, list[i]);
	}
	return high - low;
}

/* Whether the range of angles is half a turn or a whole one: that of an arc exactly, which is said
 * in few digits; of a list, with or without the step after its last angle. */
static bool covers_turns(double span, int64_t count, double turn, bool arc)
{
	double step = arc ? 0 : span / (double)max64(count - 1, 1);
	double near = arc ? 0.005 * span : fmax(0.05 * step, 0.001 * span);
	for (int half = 0; half < 2 && count > 8; half++) {
		double whole = half ? 0.5 * turn : turn;
		if (fabs(span - whole) <= near || fabs(span + step - whole) <= near)
			return true;
	}
	return false;
}

/* Angles without a unit are degrees, unless their range, to one step, is pi or 2 pi: then they are
 * radians. */
static double unsaid_factor(const double *list, int64_t count)
{
	double span = span_of(list, count);
	return covers_turns(span, count, 2 * PI, false) ? 1 : RADIANS;
}

tomos_status scan_say_angle_unit(const tomos_scan *scan, const tomos_job *job)
{
	const tomos_scan_options *o = job->geometry;
	int64_t views = scan->sets[TOMOS_VIEWS].count;
	const double *list = o && o->angles ? o->angles : scan->angles;
	bool even = o && o->arc != 0;
	if (job->views || scan->geometry || (!even && !list))
		return TOMOS_OK;
	if (scan->unsaid_radians && list == scan->angles && !even)
		TRY(job_note(job,
			"the angles of '%s' have no unit and cover half a turn or turns as "
			"radians: "
			"taken as radians",
			scan->path));
	int64_t count = list == scan->angles || even ? views : o->angles_count;
	double span = even ? fabs(o->arc) : span_of(list, count);
	if (covers_turns(span / RADIANS, count, 2 * PI, even))
		return job_warn(job,
			"the angles cover %.4g degrees: these look like radians that were given "
			"as degrees",
			span / RADIANS);
	if (covers_turns(span, count, 360, even))
		return job_warn(job,
			"the angles cover %.4g turns: these look like degrees that were given as "
			"radians",
			span / (2 * PI));
	return TOMOS_OK;
}

tomos_status scan_angles(
	tomos_scan *scan, const File *look, const char *name, double **angles, int64_t *count)
{
	int64_t shape[2];
	double factor;
	TRY(io_get(look, name, angles, shape));
	*count = shape[0] * shape[1];
	if (!*angles)
		return TOMOS_OK;
	tomos_status status =
		unit_factor(look, name, angle_units, COUNT(angle_units), NULL, &factor);
	if (status != TOMOS_OK) {
		mem_free(*angles);
		*angles = NULL;
		return status;
	}
	if (factor == 0) {
		factor = unsaid_factor(*angles, *count);
		scan->unsaid_radians = factor == 1;
	}
	for (int64_t i = 0; i < *count; i++)
		(*angles)[i] *= factor;
	return TOMOS_OK;
}

/* Number of angles, from index `at` on in direction `by`, that differ by less than a tenth of a
 * step from the next one. */
static int64_t standing(const double *angles, int64_t count, int64_t at, int64_t by, double step)
{
	int64_t still = 0;
	while (still + 1 < count && fabs(angles[at + by] - angles[at]) < 0.1 * step) {
		still++;
		at += by;
	}
	return still;
}

static double moving_step(const double *angles, int64_t count)
{
	double largest = 0;
	for (int64_t i = 1; i < count; i++)
		largest = fmax(largest, fabs(angles[i] - angles[i - 1]));
	return largest;
}

tomos_status angles_fit(
	double **fitted, const double *angles, int64_t count, int64_t views, const char *where)
{
	int64_t first = 0, left = count;
	for (int64_t i = 0; i < count; i++)
		if (!isfinite(angles[i]))
			return fail(TOMOS_BAD_FILE, "%s: angle %lld is %g; it must be finite",
				where, (long long)i, angles[i]);
	if (count > views && views > 1) {
		double step = moving_step(angles, count);
		first = standing(angles, count, 0, 1, step);
		left = count - first - standing(angles, count, count - 1, -1, step);
	}
	if (left != views)
		return fail(TOMOS_BAD_FILE, "%s: %lld angles for %lld views", where,
			(long long)count, (long long)views);
	TRY(mem_alloc(fitted, views, sizeof **fitted, "angles"));
	memcpy(*fitted, angles + first, (size_t)views * sizeof **fitted);
	return TOMOS_OK;
}

/* ---- text --------------------------------------------------------------------------------- */

enum { LARGEST_TEXT = 64 << 20 };

/* Numbers separated by spaces, commas or semicolons; the rest of a line after # is a comment. */
static tomos_status parse_angles(double *angles, int64_t *count, char *text, const char *path)
{
	int64_t line = 1;
	*count = 0;
	for (char *at = text; *at;) {
		if (*at == '#')
			at += strcspn(at, "\n");
		line += *at == '\n';
		if (strchr(" \t\r\n,;", *at)) {
			at += *at != 0;
			continue;
		}
		char *end;
		angles[*count] = strtod(at, &end) * RADIANS;
		if (end == at || !strchr(" \t\r\n,;#", *end))
			return fail(TOMOS_BAD_FILE, "'%s', line %lld: '%.16s' is no angle", path,
				(long long)line, at);
		(*count)++;
		at = end;
	}
	if (*count == 0)
		return fail(TOMOS_BAD_FILE, "'%s' has no angles", path);
	return TOMOS_OK;
}

static tomos_status read_text(char **text, const char *path)
{
	int descriptor;
	int64_t size;
	TRY(flat_open(&descriptor, &size, path));
	tomos_status status =
		size > LARGEST_TEXT
			? fail(TOMOS_BAD_FILE,
				  "'%s' has %lld bytes; a list of angles has at most %d", path,
				  (long long)size, LARGEST_TEXT)
			: mem_zeroed(text, size + 1, 1, "a list of angles");
	if (status == TOMOS_OK) {
		status = flat_read(descriptor, path, 0, *text, size);
		if (status != TOMOS_OK)
			mem_free(*text);
	}
	(void)flat_close(&descriptor, path);
	return status;
}

tomos_status angles_read(double **angles, int64_t *count, const char *path)
{
	char *text;
	*angles = NULL;
	TRY(read_text(&text, path));
	tomos_status status = mem_alloc(
		angles, (int64_t)strlen(text) / 2 + 1, sizeof **angles, "a list of angles");
	if (status == TOMOS_OK)
		status = parse_angles(*angles, count, text, path);
	if (status != TOMOS_OK) {
		mem_free(*angles);
		*angles = NULL;
	}
	mem_free(text);
	return status;
}
