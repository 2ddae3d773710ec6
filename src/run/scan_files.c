/* Scans in array files: Data Exchange, those that tomos wrote, NumPy's archives, and plain arrays.
 *
 * Data Exchange: F. De Carlo et al., J. Synchrotron Rad. 21, 1224 (2014).
 */
#include <stdio.h>
#include <string.h>
#include "run/scan.h"

bool line_has(const char *lines, const char *name)
{
	size_t length = strlen(name);
	for (const char *at = lines; at && *at; at += strcspn(at, "\n") + 1)
		if (strncmp(at, name, length) == 0 && at[length] == '\n')
			return true;
	return false;
}

static tomos_status group_has(const File *look, const char *group, const char *name, bool *has)
{
	char *names;
	TRY(io_names(look, group, &names));
	*has = line_has(names, name);
	mem_free(names);
	return TOMOS_OK;
}

/* ---- Data Exchange ------------------------------------------------------------------------ */

static tomos_status exchange_probe(const File *look, bool *fits)
{
	return group_has(look, "exchange", "data", fits);
}

/* Whether there is one angle: a single image is then a projection. */
static tomos_status one_angle(const File *look, bool *yes)
{
	double *values;
	int64_t shape[2] = {0, 0};
	TRY(io_get(look, "exchange/theta", &values, shape));
	*yes = values && shape[0] * shape[1] == 1;
	mem_free(values);
	return TOMOS_OK;
}

/* The attribute `axes` of the data: "theta:y:x", or "y:theta:x" for sinograms; without it a single
 * image is a sinogram, as in array_open. */
static tomos_status exchange_order(const File *look, bool single, bool *sinograms)
{
	char *axes;
	bool projection = false;
	*sinograms = false;
	TRY(single ? one_angle(look, &projection) : TOMOS_OK);
	TRY(io_text(look, "exchange/data@axes", &axes));
	const char *second = axes ? strchr(axes, ':') : NULL;
	*sinograms = second ? strncmp(second + 1, "theta", 5) == 0 : single && !projection;
	bool known = !second || *sinograms || strncmp(axes, "theta", 5) == 0;
	tomos_status status = known ? TOMOS_OK
				    : fail(TOMOS_UNSUPPORTED,
					      "'%s': the axes of 'exchange/data' are '%s'; "
					      "theta:y:x and y:theta:x "
					      "can be read",
					      look->path, axes);
	mem_free(axes);
	return status;
}

static tomos_status exchange_frames(tomos_scan *scan, const File *look)
{
	static const char *const names[] = {"/exchange/data_white", "/exchange/data_dark"};
	for (int i = 0; i < COUNT(names); i++) {
		bool has;
		TRY(group_has(look, "exchange", strrchr(names[i], '/') + 1, &has));
		if (has)
			TRY(frames_open(&scan->sets[TOMOS_FLATS + i], scan->path, names[i], ""));
	}
	return TOMOS_OK;
}

/* Reads the list of that name, one number per view, if there is one. */
static tomos_status take_angles(tomos_scan *scan, const File *look, const char *name)
{
	double *angles;
	int64_t count;
	char *where;
	TRY(scan_angles(scan, look, name, &angles, &count));
	if (!angles)
		return TOMOS_OK;
	int64_t views = scan->sets[TOMOS_VIEWS].count;
	bool other = count != views && !scan->sets[TOMOS_VIEWS].sinograms && count == scan->rows;
	tomos_status status = mem_printf(&where, "'%s', dataset '%s'", scan->path, name);
	if (status == TOMOS_OK && other) {
		status = fail(TOMOS_BAD_FILE,
			"%s: %lld angles for %lld views of %lld rows: if the data are "
			"[row][view][column], give the option 'layout' sinograms",
			where, (long long)count, (long long)views, (long long)scan->rows);
		mem_free(where);
	} else if (status == TOMOS_OK) {
		status = angles_fit(&scan->angles, angles, count, views, where);
		mem_free(where);
	}
	mem_free(angles);
	return status;
}

static tomos_status exchange_shifts(tomos_scan *scan, const File *look)
{
	static const char *const names[] = {"exchange/data_shift_x", "exchange/data_shift_y"};
	int64_t views = scan->sets[TOMOS_VIEWS].count;
	for (int i = 0; i < COUNT(names); i++) {
		int64_t shape[2];
		TRY(io_get(look, names[i], &scan->shifts[i], shape));
		if (scan->shifts[i] && shape[0] * shape[1] != views)
			return fail(TOMOS_BAD_FILE, "'%s': '%s' has %lld numbers for %lld views",
				scan->path, names[i], (long long)(shape[0] * shape[1]),
				(long long)views);
	}
	return TOMOS_OK;
}

/* The first of several places that has a number. */
static tomos_status first_length(
	const File *look, const char *const *names, int count, const char *unit, double *value)
{
	for (int i = 0; i < count && *value == 0; i++)
		TRY(scan_lengths(look, names[i], unit, value));
	return TOMOS_OK;
}

/* The resolution of the detection system is the pixel's size at the object; files that say no unit
 * have micrometres there, and millimetres for distances. */
static tomos_status exchange_setup(tomos_scan *scan, const File *look)
{
	static const char *const widths[] = {
		"measurement/instrument/detection_system/objective/resolution",
		"measurement/instrument/detector/actual_pixel_size_x",
		"measurement/instrument/detector/x_actual_pixel_size"};
	static const char *const distances[] = {
		"measurement/instrument/detector_motor_stack/setup/z",
		"measurement/instrument/camera_motor_stack/setup/camera_distance",
		"measurement/instrument/detector/distance"};
	TRY(first_length(look, widths, COUNT(widths), "um", &scan->pixel[0]));
	scan->pixel[1] = scan->pixel[0];
	TRY(first_length(look, distances, COUNT(distances), "mm", &scan->distance));
	return scan_energy(look, "measurement/instrument/monochromator/energy", &scan->energy);
}

static tomos_status exchange_open(tomos_scan *scan, const File *look, const tomos_source_options *o)
{
	bool sinograms;
	TRY(frames_open(&scan->sets[TOMOS_VIEWS], scan->path, "/exchange/data", ""));
	bool single = scan->sets[TOMOS_VIEWS].file->shape[0] == 1;
	TRY(exchange_order(look, single, &sinograms));
	TRY(scan_shape(scan, o, sinograms));
	TRY(exchange_frames(scan, look));
	TRY(take_angles(scan, look, "/exchange/theta"));
	TRY(exchange_shifts(scan, look));
	return exchange_setup(scan, look);
}

const ScanKind scan_exchange = {
	.name = "data-exchange", .probe = exchange_probe, .open = exchange_open};

/* ---- what tomos wrote --------------------------------------------------------------------- */

static tomos_status own_probe(const File *look, bool *fits)
{
	*fits = look->format == &format_zarr; /* which has no other data */
	if (!*fits)
		TRY(group_has(look, "/", "projections", fits));
	return *fits ? group_has(look, "geometry", "views", fits) : TOMOS_OK;
}

static tomos_status own_open(tomos_scan *scan, const File *look, const tomos_source_options *o)
{
	const char *dataset = look->format == &format_zarr ? "" : "/projections";
	TRY(frames_open(&scan->sets[TOMOS_VIEWS], scan->path, dataset, ""));
	TRY(scan_shape(scan, o, false));
	if (scan->sets[TOMOS_VIEWS].sinograms)
		return fail(TOMOS_BAD_VALUE,
			"'%s' has a geometry of its own, whose layout is projections", scan->path);
	TRY(tomos_file_geometry(scan->sets[TOMOS_VIEWS].file, &scan->geometry));
	return scan_fits(scan, scan->geometry);
}

const ScanKind scan_own = {.name = "tomos", .probe = own_probe, .open = own_open};

/* ---- NumPy archives ----------------------------------------------------------------------- */

/* What the arrays of a scan may be called, the usual one first; by tomos_frames, and the angles. */
static const char *const npz_names[] = {"data|projections|proj|tomo|views",
	"data_white|flats|flat|white", "data_dark|darks|dark", "theta|angles"};
enum { NPZ_ANGLES = 3 };

/* The first of "a|b|c" that is among the lines; "" where none is. */
static void first_of(const char *choices, const char *lines, char name[32])
{
	name[0] = 0;
	for (const char *at = choices; *at && !name[0]; at += strspn(at, "|")) {
		int length = (int)strcspn(at, "|");
		snprintf(name, 32, "%.*s", length, at);
		if (!line_has(lines, name))
			name[0] = 0;
		at += length;
	}
}

static tomos_status npz_probe(const File *look, bool *fits)
{
	*fits = look->format == &format_npz;
	return TOMOS_OK;
}

/* One array alone may have any name. */
static tomos_status npz_views(tomos_scan *scan, const char *lines, const char *name)
{
	const char *second = lines ? strchr(lines, '\n') + 1 : "";
	if (name[0] || !*second)
		return frames_open(&scan->sets[TOMOS_VIEWS], scan->path, name, "");
	char all[256];
	int length = snprintf(all, sizeof all, "%s", lines);
	for (int i = 0; i < length && i < COUNT(all); i++)
		if (all[i] == '\n')
			all[i] = i + 1 < length ? ' ' : 0;
	return fail(TOMOS_BAD_FILE,
		"'%s' has no array of views, which is called one of %s; it has %s; "
		"name one with the option 'dataset'",
		scan->path, npz_names[TOMOS_VIEWS], all);
}

static tomos_status npz_arrays(
	tomos_scan *scan, const File *look, const char *lines, const tomos_source_options *o)
{
	char name[32];
	first_of(npz_names[TOMOS_VIEWS], lines, name);
	TRY(npz_views(scan, lines, name));
	TRY(scan_shape(scan, o, scan->sets[TOMOS_VIEWS].file->shape[0] == 1));
	for (int i = TOMOS_FLATS; i <= TOMOS_DARKS; i++) {
		first_of(npz_names[i], lines, name);
		if (name[0])
			TRY(frames_open(&scan->sets[i], scan->path, name, ""));
	}
	first_of(npz_names[NPZ_ANGLES], lines, name);
	return name[0] ? take_angles(scan, look, name) : TOMOS_OK;
}

static tomos_status npz_open(tomos_scan *scan, const File *look, const tomos_source_options *o)
{
	char *lines;
	TRY(io_names(look, "/", &lines));
	tomos_status status = npz_arrays(scan, look, lines, o);
	mem_free(lines);
	return status;
}

const ScanKind scan_npz = {.name = "npz", .probe = npz_probe, .open = npz_open};

/* ---- plain arrays ------------------------------------------------------------------------- */

static tomos_status array_probe(const File *look, bool *fits)
{
	(void)look;
	*fits = true;
	return TOMOS_OK;
}

/* A single image is a sinogram, as a scan of one view is unlikely. */
static tomos_status array_open(tomos_scan *scan, const File *look, const tomos_source_options *o)
{
	(void)look;
	TRY(frames_open(&scan->sets[TOMOS_VIEWS], scan->path, o->dataset, o->raw));
	const File *file = scan->sets[TOMOS_VIEWS].file;
	if (file->content == TOMOS_VOLUME)
		return fail(TOMOS_BAD_FILE, "'%s' holds a volume, not projections", scan->path);
	return scan_shape(scan, o, file->shape[0] == 1);
}

const ScanKind scan_array = {.name = "array", .probe = array_probe, .open = array_open};
