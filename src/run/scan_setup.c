/* What scanners say of a scan: which of them wrote a file, its white level and its geometry. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "prep/prep.h"
#include "run/scan.h"

enum { HEAD_BYTES = 8192, WHITE_VIEWS = 8, WHITE_VALUES = 1 << 22 };

#define SCANNER(name) &scanner_##name,
static const ScanKind *const scanners[] = {
#include "run/scanners.def"
};
#undef SCANNER

tomos_status scanner_find(const ScanKind **kind, const char *path)
{
	struct stat info;
	int descriptor;
	int64_t size;
	char *head;
	*kind = NULL;
	if (stat(path, &info) != 0 || !S_ISREG(info.st_mode))
		return TOMOS_OK; /* a folder, or a pattern */
	TRY(mem_zeroed(&head, HEAD_BYTES + 1, 1, "the beginning of a file"));
	tomos_status status = flat_open(&descriptor, &size, path);
	if (status == TOMOS_OK) {
		size = min64(size, HEAD_BYTES);
		status = flat_read(descriptor, path, 0, head, size);
		(void)flat_close(&descriptor, path);
	}
	for (int i = 0; i < COUNT(scanners) && status == TOMOS_OK && !*kind; i++)
		if (scanners[i]->head(head, (size_t)size))
			*kind = scanners[i];
	mem_free(head);
	return status;
}

/* ---- geometry ------------------------------------------------------------------------------ */

bool scan_axis_known(const tomos_scan *scan)
{
	return scan->setup.geometry && !isnan(scan->setup.axis);
}

static void take_list(const double **list, int64_t *count, double *own, double value)
{
	if (*list || isnan(value))
		return;
	*own = value;
	*list = own;
	*count = 1;
}

/* Both distances of a file, where no option replaces one of them. */
static tomos_status check_distances(
	const tomos_scan *scan, const tomos_scan_options *o, const SetupLists *lists)
{
	const ScanSetup *s = &scan->setup;
	if (o->source_axis != &lists->source_axis ||
		o->source_detector != &lists->source_detector ||
		s->source_detector >= s->source_axis)
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE,
		"'%s' says that the detector is %g mm from the source and the axis %g mm: the "
		"option 'source-axis' and the option 'source-detector' set both",
		scan->path, s->source_detector, s->source_axis);
}

tomos_status scan_setup_take(const tomos_scan *scan, tomos_scan_options *o, SetupLists *lists)
{
	const ScanSetup *s = &scan->setup;
	if (!s->geometry)
		return TOMOS_OK;
	if (!o->geometry || !o->geometry[0] || strcmp(o->geometry, "parallel") == 0)
		o->geometry = s->geometry;
	if (strcmp(o->geometry, s->geometry) != 0)
		return TOMOS_OK;
	if (strcmp(s->geometry, "cone") == 0) {
		take_list(&o->source_axis, &o->source_axis_count, &lists->source_axis,
			s->source_axis);
		take_list(&o->source_detector, &o->source_detector_count, &lists->source_detector,
			s->source_detector);
	}
	take_list(&o->axis, &o->axis_count, &lists->axis, s->axis);
	take_list(&o->axis_row, &o->axis_row_count, &lists->axis_row, s->axis_row);
	o->roll = o->roll != 0 ? o->roll : s->roll;
	o->slant = o->slant != 0 ? o->slant : s->slant;
	o->swivel = o->swivel != 0 ? o->swivel : s->swivel;
	return check_distances(scan, o, lists);
}

/* ---- white level --------------------------------------------------------------------------- */

/* The median of the values above 95 % of a first guess, which is the value that one in a thousand
 * exceeds; then again with that median as the guess. Noise of up to 1.5 % is inside that range. */
static double brightest(float *values, int64_t count)
{
	int64_t at = count - 1 - count / 1000;
	select_kth(values, count, at);
	double white = (double)values[at];
	for (int i = 0; i < 3; i++) {
		int64_t above = 0;
		for (int64_t k = 0; k < count; k++)
			if ((double)values[k] > 0.95 * white) {
				float kept = values[above];
				values[above++] = values[k];
				values[k] = kept;
			}
		if (above > 0)
			white = (double)median_many(values, above);
	}
	return white;
}

static tomos_status find_white(tomos_scan *scan, double *white)
{
	int64_t views = scan->sets[TOMOS_VIEWS].count, used = min64(views, WHITE_VIEWS);
	int64_t rows = min64(scan->rows, max64(1, WHITE_VALUES / (used * scan->columns)));
	int64_t frame = rows * scan->columns, row = (scan->rows - rows) / 2;
	float *values;
	TRY(mem_alloc(&values, used * frame, sizeof *values, "views, for the white level"));
	tomos_status status = TOMOS_OK;
	for (int64_t i = 0; i < used && status == TOMOS_OK; i++)
		status = tomos_scan_read(
			scan, TOMOS_VIEWS, i * views / used, 1, row, rows, values + i * frame);
	for (int64_t i = 0; i < used * frame && status == TOMOS_OK; i++)
		if (!isfinite(values[i]))
			values[i] = 0;
	*white = status == TOMOS_OK ? brightest(values, used * frame) : 0;
	mem_free(values);
	return status;
}

static tomos_status parse_white(tomos_scan *scan, const char *text, double *white)
{
	char *end;
	if (strcmp(text, "auto") == 0)
		TRY(find_white(scan, white));
	else if (*white = strtod(text, &end), end == text || *end)
		*white = NAN;
	if (*white > 0 && *white < 1e30)
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE,
		"i0 is '%s'%s: it must be a number of counts greater than 0, or auto", text,
		strcmp(text, "auto") == 0 ? ", and no pixel of the views is brighter than 0" : "");
}

tomos_status scan_white(tomos_scan *scan, const tomos_source_options *o)
{
	FrameSet *flats = &scan->sets[TOMOS_FLATS];
	double white = scan->setup.white;
	const int64_t shape[3] = {1, scan->rows, scan->columns};
	if (o->i0[0] && o->flats[0])
		return fail(TOMOS_BAD_VALUE, "i0 is '%s' and flats are '%s'; give one of the two",
			o->i0, o->flats);
	if (o->i0[0]) {
		frames_close(flats);
		TRY(parse_white(scan, o->i0, &white));
		scan->setup.white = white;
	}
	if (flats->count > 0)
		scan->setup.white = 0; /* it is not used */
	if (flats->count > 0 || !(white > 0))
		return TOMOS_OK;
	TRY(io_constant(&flats->file, scan->path, shape, white));
	flats->count = 1;
	return TOMOS_OK;
}
