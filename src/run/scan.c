/* Opening a scan by its content, what is known of it, and reading its frames. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "geom/geom.h"
#include "run/scan.h"

#define DEGREES (180 / 3.14159265358979323846)
#define SAME_ANGLE 1e-6 /* radians */

OPTION_VALUES(source_values, TOMOS_SOURCE_OPTIONS);

static const ScanKind *const kinds[] = {
	&scan_nexus, &scan_exchange, &scan_own, &scan_npz, &scan_stack, &scan_array};

const char *const scan_set_names[3] = {"views", "flats", "darks"};

/* ---- frames ------------------------------------------------------------------------------- */

tomos_status frames_open(FrameSet *set, const char *path, const char *dataset, const char *raw)
{
	tomos_file_options o = tomos_file_defaults();
	o.dataset = dataset;
	o.raw = raw;
	TRY(tomos_file_open(&set->file, path, &o));
	set->count = set->file->shape[0];
	return TOMOS_OK;
}

void frames_close(FrameSet *set)
{
	tomos_file_close(set->file);
	mem_free(set->list);
	mem_free(set->places);
	*set = (FrameSet){0};
}

tomos_status scan_fits(const tomos_scan *scan, const tomos_geometry *g)
{
	int64_t views = scan->sets[TOMOS_VIEWS].count;
	if (g->count == views && g->rows == scan->rows && g->columns == scan->columns)
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE,
		"'%s' has the shape %lld x %lld x %lld, but its geometry has %lld views of "
		"%lld rows x %lld columns",
		scan->path, (long long)views, (long long)scan->rows, (long long)scan->columns,
		(long long)g->count, (long long)g->rows, (long long)g->columns);
}

tomos_status scan_shape(tomos_scan *scan, const tomos_source_options *o, bool sinograms)
{
	FrameSet *views = &scan->sets[TOMOS_VIEWS];
	const int64_t *shape = views->file->shape;
	int layout = 0;
	if (o->layout[0])
		TRY(choice_find("layout", source_values.layout, o->layout, &layout));
	views->sinograms = o->layout[0] ? layout == 1 : sinograms;
	if (views->sinograms && views->list)
		return fail(TOMOS_BAD_VALUE, "'%s' is an NXtomo file, whose layout is projections",
			scan->path);
	if (!views->list)
		views->count = shape[views->sinograms ? 1 : 0];
	scan->rows = shape[views->sinograms ? 0 : 1];
	scan->columns = shape[2];
	return TOMOS_OK;
}

/* ---- opening ------------------------------------------------------------------------------ */

static tomos_status find_kind(const ScanKind **kind, const File *look)
{
	bool fits = false;
	for (int i = 0; i < COUNT(kinds) && !fits; i++) {
		*kind = kinds[i];
		TRY(kinds[i]->probe(look, &fits));
	}
	return TOMOS_OK;
}

/* Flats and darks in a file of their own: those of another scan, or all frames of a plain file. */
static tomos_status open_others(FrameSet *set, tomos_frames which, const char *path)
{
	tomos_scan *other;
	bool rich;
	File *look;
	char *file, *dataset;
	if (!path[0])
		return TOMOS_OK;
	frames_close(set);
	TRY(io_split(path, &file, &dataset));
	bool named = dataset != NULL;
	mem_free(file);
	mem_free(dataset);
	if (named)
		return frames_open(set, path, "", "");
	TRY(io_look(&look, path));
	const ScanKind *kind;
	tomos_status status = find_kind(&kind, look);
	tomos_file_close(look);
	TRY(status);
	rich = kind == &scan_nexus || kind == &scan_exchange || kind == &scan_npz;
	if (!rich)
		return frames_open(set, path, "", "");
	TRY(tomos_scan_open(&other, path, NULL));
	tomos_frames from = other->sets[which].count ? which : TOMOS_VIEWS;
	*set = other->sets[from];
	other->sets[from] = (FrameSet){0};
	tomos_scan_close(other);
	if (from == TOMOS_VIEWS && set->sinograms && set->file->shape[0] == 1) {
		set->sinograms = false; /* one frame; take_lines decides for scans of one row */
		set->count = 1;
	}
	return TOMOS_OK;
}

/* Flats and darks of a single row may be an image, one line each. */
static void take_lines(const tomos_scan *scan, FrameSet *set)
{
	const int64_t *shape = set->file ? set->file->shape : NULL;
	if (!shape || set->list || scan->rows != 1 || shape[0] != 1 || shape[1] == 1)
		return;
	set->sinograms = true;
	set->count = shape[1];
}

static tomos_status check_frames(tomos_scan *scan, tomos_frames which)
{
	FrameSet *set = &scan->sets[which];
	take_lines(scan, set);
	if (!set->file || (set->file->shape[set->sinograms ? 0 : 1] == scan->rows &&
				  set->file->shape[2] == scan->columns))
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE,
		"'%s' has %s of %lld rows x %lld columns; the views of '%s' have %lld x %lld",
		set->file->path, scan_set_names[which], (long long)set->file->shape[1],
		(long long)set->file->shape[2], scan->path, (long long)scan->rows,
		(long long)scan->columns);
}

static tomos_status open_views(tomos_scan *scan, const tomos_source_options *o)
{
	File *look = NULL;
	scan->kind = &scan_array;
	if (o->raw[0])
		return scan->kind->open(scan, look, o);
	TRY(scanner_find(&scan->kind, scan->path));
	if (scan->kind)
		return scanner_open(scan);
	scan->kind = &scan_array;
	TRY(io_look(&look, scan->path));
	tomos_status status = o->dataset[0] ? TOMOS_OK : find_kind(&scan->kind, look);
	if (status == TOMOS_OK)
		status = scan->kind->open(scan, look, o);
	tomos_file_close(look);
	return status;
}

/* Mirrors what is mirrored already back; displacements of views are mirrored with them. */
static tomos_status take_flip(tomos_scan *scan, const char *flip)
{
	int which;
	TRY(choice_find("flip", source_values.flip, flip, &which));
	const bool given[2] = {which == 2 || which == 3, which == 1 || which == 3};
	scan->mirrored = given[FLIP_COLUMNS];
	for (int k = 0; k < 2; k++) {
		scan->flip[k] ^= given[k];
		for (int64_t i = 0; given[k] && scan->shifts[k] && i < scan->sets[0].count; i++)
			scan->shifts[k][i] = -scan->shifts[k][i];
	}
	return TOMOS_OK;
}

static tomos_status open_into(tomos_scan *scan, const tomos_source_options *o)
{
	TRY(open_views(scan, o));
	TRY(open_others(&scan->sets[TOMOS_FLATS], TOMOS_FLATS, o->flats));
	TRY(open_others(&scan->sets[TOMOS_DARKS], TOMOS_DARKS, o->darks));
	TRY(check_frames(scan, TOMOS_FLATS));
	TRY(check_frames(scan, TOMOS_DARKS));
	TRY(take_flip(scan, o->flip));
	return scan_white(scan, o);
}

tomos_status tomos_scan_open(
	tomos_scan **scan, const char *path, const tomos_source_options *options)
{
	tomos_source_options o = tomos_source_defaults();
	tomos_scan *made;
	*scan = NULL;
	TRY(options_take(&o, options, "source"));
	if (!path || !*path)
		return fail(TOMOS_BAD_VALUE, "the name of a scan is missing");
	char *dataset;
	TRY(mem_zeroed(&made, 1, sizeof *made, "a scan's description"));
	tomos_status status = io_split(path, &made->path, &dataset);
	if (status == TOMOS_OK && dataset && o.dataset[0])
		status = fail(TOMOS_BAD_VALUE, "the scan is '%s', and the option 'dataset' is '%s'",
			path, o.dataset);
	if (status == TOMOS_OK && dataset)
		o.dataset = dataset;
	if (status == TOMOS_OK)
		status = open_into(made, &o);
	mem_free(dataset);
	if (status == TOMOS_OK)
		*scan = made;
	else
		tomos_scan_close(made);
	return status;
}

void tomos_scan_close(tomos_scan *scan)
{
	if (!scan)
		return;
	for (int i = 0; i < COUNT(scan->sets); i++)
		frames_close(&scan->sets[i]);
	mem_free(scan->angles);
	mem_free(scan->shifts[0]);
	mem_free(scan->shifts[1]);
	tomos_geometry_free(scan->geometry);
	mem_free(scan->setup.read);
	mem_free(scan->path);
	mem_free(scan);
}

/* ---- what is known ------------------------------------------------------------------------ */

/* Integers are photon counts, as is any data with flat fields. Other numbers are line integrals. */
static bool holds_counts(const tomos_scan *scan)
{
	return !scan->geometry &&
	       (scan->sets[TOMOS_FLATS].count > 0 ||
		       strncmp(scan->sets[TOMOS_VIEWS].file->type, "float", 5) != 0);
}

tomos_status tomos_scan_describe(const tomos_scan *scan, tomos_scan_info *info)
{
	const FrameSet *views = &scan->sets[TOMOS_VIEWS];
	const tomos_scan_info found = {.bytes = sizeof found,
		.kind = scan->kind->name,
		.format = views->file->format->name,
		.type = views->file->type,
		.dataset = views->file->dataset,
		.counts = holds_counts(scan),
		.views = views->count,
		.rows = scan->rows,
		.columns = scan->columns,
		.flats = scan->sets[TOMOS_FLATS].count,
		.darks = scan->sets[TOMOS_DARKS].count,
		.has_angles = scan->angles != NULL,
		.has_geometry = scan->geometry != NULL,
		.has_places = scan->sets[TOMOS_FLATS].places != NULL,
		.has_shifts = scan->shifts[0] != NULL || scan->shifts[1] != NULL,
		.half = scan->half,
		.pixel = scan->pixel[0],
		.pixel_height = scan->pixel[1],
		.distance = scan->distance,
		.energy = scan->energy,
		.geometry = scan->setup.geometry ? scan->setup.geometry : "",
		.read = scan->setup.read ? scan->setup.read : "",
		.source_axis = scan->setup.source_axis,
		.source_detector = scan->setup.source_detector,
		.axis = scan_axis_known(scan) ? scan->setup.axis : NAN,
		.axis_row = scan->setup.geometry ? scan->setup.axis_row : NAN,
		.roll = scan->setup.roll,
		.slant = scan->setup.slant,
		.swivel = scan->setup.swivel,
		.white = scan->setup.white,
		.direction_known = scan->setup.direction_known,
		.length_unit = scan->geometry ? views->file->units.length : ""};
	return struct_give(info, &found, "tomos_scan_info");
}

static tomos_status missing(const tomos_scan *scan, const char *what)
{
	return fail(TOMOS_BAD_FILE, "'%s' says no %s", scan->path, what);
}

tomos_status tomos_scan_angles(const tomos_scan *scan, double *angles)
{
	int64_t count = scan->sets[TOMOS_VIEWS].count;
	if (!scan->angles)
		return missing(scan, "angles");
	memcpy(angles, scan->angles, (size_t)count * sizeof *angles);
	return TOMOS_OK;
}

tomos_status tomos_scan_places(const tomos_scan *scan, tomos_frames which, double *places)
{
	const FrameSet *set = &scan->sets[which];
	if (!set->places)
		return missing(scan, "when its flats and darks were taken");
	memcpy(places, set->places, (size_t)set->count * sizeof *places);
	return TOMOS_OK;
}

tomos_status tomos_scan_shifts(const tomos_scan *scan, double *columns, double *rows)
{
	double *const lists[2] = {columns, rows};
	int64_t count = scan->sets[TOMOS_VIEWS].count;
	for (int i = 0; i < 2; i++)
		for (int64_t v = 0; v < count; v++)
			lists[i][v] = scan->shifts[i] ? scan->shifts[i][v] : 0;
	return TOMOS_OK;
}

/* ---- geometry ----------------------------------------------------------------------------- */

/* For point sources the pixel size is required. */
static tomos_status take_pixel(const tomos_scan *scan, tomos_scan_options *o)
{
	bool known = scan->pixel[0] > 0;
	bool point = choice_index("fan|cone|helix", o->geometry ? o->geometry : "") >= 0;
	if (o->pixel != 0)
		return TOMOS_OK;
	if (point && !known)
		return fail(TOMOS_BAD_VALUE,
			"'%s' does not say the size of its pixels, which a %s scan needs: give it "
			"with the option 'pixel', in the unit of source_axis",
			scan->path, o->geometry);
	o->pixel = known ? scan->pixel[0] : 1;
	if (o->pixel_height == 0 && known)
		o->pixel_height = scan->pixel[1];
	return TOMOS_OK;
}

/* Rejects options that contradict the angles of the scan. */
static tomos_status check_angles(const tomos_scan *scan, const tomos_scan_options *o)
{
	int64_t views = scan->sets[TOMOS_VIEWS].count, same = 0;
	if (o->replace_angles && !scan->angles)
		return fail(TOMOS_BAD_VALUE, "replace_angles: '%s' has no angles to replace",
			scan->path);
	if (o->replace_angles && !o->angles && o->arc == 0)
		return fail(TOMOS_BAD_VALUE,
			"replace_angles: there are none to use instead of those of '%s'; give the "
			"option 'angles' or the option 'arc'",
			scan->path);
	if (!scan->angles || o->replace_angles || (!o->angles && o->arc == 0))
		return TOMOS_OK;
	while (o->angles && o->angles_count == views && same < views &&
		fabs(o->angles[same] - scan->angles[same]) <= SAME_ANGLE)
		same++;
	if (same == views)
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE,
		"'%s' has angles of its own, %g to %g degrees, and the option '%s' says others; "
		"leave that out, or give the option 'replace_angles' to use it instead",
		scan->path, scan->angles[0] * DEGREES, scan->angles[views - 1] * DEGREES,
		o->angles ? "angles" : "arc");
}

/* The options, completed by what the file says; *made is to be freed. */
static tomos_status complete(const tomos_scan *scan, tomos_scan_options *o, double **made)
{
	int64_t views = scan->sets[TOMOS_VIEWS].count;
	*made = NULL;
	TRY(take_pixel(scan, o));
	TRY(check_angles(scan, o));
	o->replace_angles = 0;
	o->rows = scan->rows;
	o->columns = scan->columns;
	o->views = views;
	if (o->angles && o->angles_count > views)
		return fail(TOMOS_BAD_VALUE,
			"the option 'angles': %lld angles for %lld views; give those of the views "
			"alone",
			(long long)o->angles_count, (long long)views);
	if (o->angles) {
		TRY(angles_fit(made, o->angles, o->angles_count, views, "the option 'angles'"));
	} else if (o->arc == 0 && scan->angles) {
		TRY(mem_alloc(made, views, sizeof **made, "angles"));
		memcpy(*made, scan->angles, (size_t)views * sizeof **made);
		for (int64_t i = 0; i < views; i++)
			(*made)[i] += o->start;
		o->start = 0;
	} else if (o->arc == 0) {
		return fail(TOMOS_BAD_FILE,
			"'%s' says no angles: give the option 'angles', or the option 'arc' for "
			"%lld views spread evenly",
			scan->path, (long long)views);
	}
	o->angles = *made;
	o->angles_count = *made ? views : 0;
	return TOMOS_OK;
}

tomos_status tomos_scan_geometry(
	const tomos_scan *scan, tomos_geometry **geometry, const tomos_scan_options *options)
{
	tomos_scan_options o = tomos_scan_defaults();
	SetupLists lists;
	double *made;
	*geometry = NULL;
	o.pixel = 0;
	if (scan->geometry && !options)
		return tomos_geometry_views(geometry, scan->rows, scan->columns,
			scan->geometry->views, scan->geometry->count);
	TRY(options_take(&o, options, "scan"));
	TRY(scan_setup_take(scan, &o, &lists));
	tomos_status status = complete(scan, &o, &made);
	if (status == TOMOS_OK)
		status = tomos_geometry_make(geometry, &o);
	mem_free(made);
	return status;
}

/* ---- facts -------------------------------------------------------------------------------- */

int64_t scan_row_grain(const tomos_scan *scan)
{
	const File *file = scan->sets[TOMOS_VIEWS].file;
	if (!file->unpacks)
		return 1;
	return scan->sets[TOMOS_VIEWS].sinograms ? file->grain : file->row_grain;
}

double scan_bytes(const tomos_scan *scan)
{
	double bytes = 0;
	for (int i = 0; i < COUNT(scan->sets); i++)
		if (scan->sets[i].file && scan->sets[i].count > 0)
			bytes += (double)scan->sets[i].count * scan->sets[i].file->element.bytes;
	return bytes * (double)scan->rows * (double)scan->columns;
}

void scan_keep(tomos_scan *scan)
{
	for (int i = 0; i < COUNT(scan->sets); i++)
		if (scan->sets[i].file)
			scan->sets[i].file->keep = true;
}

void tomos_scan_facts(const tomos_scan *scan, char *facts, size_t size)
{
	tomos_scan_info info = {.bytes = sizeof info};
	(void)tomos_scan_describe(scan, &info);
	snprintf(facts, size, "flats=%lld places=%d shifts=%d%s%s", (long long)info.flats,
		info.has_places, info.has_shifts, info.geometry[0] ? " geometry=" : "",
		info.geometry);
}
