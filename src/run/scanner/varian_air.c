/* Air scans of Varian, the flat field: files in "Calibrations/AIR-...", with the filters in the
 * beam as in the scan. "FilterBowtie_CC*" and "_CW*" were taken at several angles while the gantry
 * rotated that way, "FilterBowtie" and "Filter" at one.
 *
 * The exposure differs from frame to frame; a chamber at the tube measures it.
 */
#include <dirent.h>
#include <stdlib.h>
#include <strings.h>
#include "run/scanner/varian.h"

enum { MOST_DEPTH = 4, TURNS = 2 };

/* ---- finding ------------------------------------------------------------------------------- */

typedef struct {
	const char *prefix, *ending;
	char *folder; /* that has such files; NULL: none */
	int folders;
} Search;

static tomos_status search(Search *s, const char *folder, int depth);

static tomos_status enter(Search *s, const char *folder, const char *name, int depth)
{
	char *inner;
	bool fits = depth > 0 || strcasecmp(name, "Calibrations") == 0;
	fits = fits && (depth != 1 || strncasecmp(name, "AIR", 3) == 0);
	if (name[0] == '.' || !fits || depth >= MOST_DEPTH)
		return TOMOS_OK;
	TRY(mem_printf(&inner, "%s%s/", folder, name));
	tomos_status status = io_is_directory(inner) ? search(s, inner, depth + 1) : TOMOS_OK;
	mem_free(inner);
	return status;
}

/* A folder that cannot be read is left out. */
static tomos_status search(Search *s, const char *folder, int depth)
{
	struct dirent **found = NULL;
	int count = scandir(folder[0] ? folder : ".", &found, NULL, alphasort);
	bool files = false;
	tomos_status status = TOMOS_OK;
	for (int i = 0; i < count; i++) {
		files = files || (depth > 0 && list_fits(found[i]->d_name, s->prefix, s->ending));
		if (status == TOMOS_OK)
			status = enter(s, folder, found[i]->d_name, depth);
		free(found[i]); /* scandir's own memory */
	}
	free(found);
	if (files && status == TOMOS_OK && s->folders++ == 0)
		status = mem_text(&s->folder, folder);
	return status;
}

/* Files named `name`, with anything after it where it ends with '_', in one folder. */
static tomos_status find_named(
	tomos_scan *scan, const Setup *s, const char *name, FileList *files, char **where)
{
	const char *dot = strrchr(scan->path, '.');
	bool several = name[strlen(name) - 1] == '_';
	char ending[64];
	snprintf(ending, sizeof ending, "%s%.15s", several ? "" : name, dot ? dot : "");
	Search found = {.prefix = name, .ending = ending};
	tomos_status status = search(&found, s->folder, 0);
	if (status == TOMOS_OK && found.folders == 1)
		status = list_files(files, found.folder, name, ending);
	else if (status == TOMOS_OK && found.folders > 1)
		status = scan_note(scan, "note",
			"air scans '%s*' are in %d folders of Calibrations; none is used", name,
			found.folders);
	*where = found.folder;
	return status;
}

static tomos_status find_air(tomos_scan *scan, const Setup *s, FileList *files, char **where)
{
	const char *const names[] = {s->stop > s->start ? "FilterBowtie_CC_" : "FilterBowtie_CW_",
		"FilterBowtie", "Filter"};
	*where = NULL;
	for (int i = s->bowtie ? 0 : 2; i < (s->bowtie ? 2 : 3) && !*where; i++)
		TRY(find_named(scan, s, names[i], files, where));
	return TOMOS_OK;
}

/* ---- when they were taken ------------------------------------------------------------------ */

typedef struct {
	double place;
	int64_t frame;
} Taken;

static int by_place(const void *a, const void *b)
{
	const Taken *x = a, *y = b;
	return (x->place > y->place) - (x->place < y->place);
}

/* Angles without jumps of a full turn; to be freed. */
static tomos_status unwrap(const Frames *f, double **angles)
{
	TRY(mem_alloc(angles, f->files.count, sizeof **angles, "angles"));
	for (int64_t i = 0; i < f->files.count; i++) {
		double before = i ? (*angles)[i - 1] : f->angles[0];
		(*angles)[i] = before + remainder(f->angles[i] - before, 360);
	}
	return TOMOS_OK;
}

/* The view at an angle, as a fraction, and beyond the scan in steps of its mean. */
static double view_at(const double *angles, int64_t count, double angle)
{
	double step = (angles[count - 1] - angles[0]) / (double)(count - 1);
	for (int64_t i = 0; i + 1 < count; i++) {
		double a = angles[i], b = angles[i + 1];
		if (a != b && (angle - a) * (angle - b) <= 0)
			return (double)i + (angle - a) / (b - a);
	}
	double place = (angle - angles[0]) / step;
	return place < 0 ? place : (double)(count - 1) + (angle - angles[count - 1]) / step;
}

/* Those during the scan, the last before and the first after it. */
static tomos_status keep_near(FrameSet *set, Taken *taken, int64_t count, int64_t views)
{
	int64_t first = 0, last = count - 1;
	qsort(taken, (size_t)count, sizeof *taken, by_place);
	while (first + 1 < count && taken[first + 1].place <= 0)
		first++;
	while (last > first && taken[last - 1].place >= (double)(views - 1))
		last--;
	set->count = last - first + 1;
	TRY(mem_alloc(&set->list, set->count, sizeof *set->list, "frames"));
	TRY(mem_alloc(&set->places, set->count, sizeof *set->places, "frames"));
	for (int64_t i = 0; i < set->count; i++) {
		set->list[i] = taken[first + i].frame;
		set->places[i] = taken[first + i].place;
	}
	return TOMOS_OK;
}

/* Every air scan may be of use one turn earlier or later. */
static tomos_status place_air(FrameSet *set, const Frames *views, const double *angles)
{
	int64_t count = set->count, n = views->files.count, filled = 0;
	double *unwrapped = NULL;
	Taken *taken = NULL;
	tomos_status status;
	TRY_OR_DONE(unwrap(views, &unwrapped));
	if (n < 2 || fabs(unwrapped[n - 1] - unwrapped[0]) < 1e-3 * (double)n)
		goto done;
	TRY_OR_DONE(mem_alloc(&taken, (2 * TURNS + 1) * count, sizeof *taken, "air scans"));
	for (int64_t i = 0; i < count; i++)
		for (int turn = -TURNS; turn <= TURNS; turn++) {
			double near = unwrapped[0] + remainder(angles[i] - unwrapped[0], 360);
			taken[filled++] = (Taken){view_at(unwrapped, n, near + 360 * turn), i};
		}
	status = keep_near(set, taken, filled, n);
done:
	mem_free(unwrapped);
	mem_free(taken);
	return status;
}

/* ---- exposures ----------------------------------------------------------------------------- */

/* Factors to the exposure `common`. */
static tomos_status make_factors(Frames *f, double common)
{
	TRY(mem_alloc(&f->factors, f->files.count, sizeof *f->factors, "exposures"));
	for (int64_t i = 0; i < f->files.count; i++)
		f->factors[i] = common / f->exposure[i];
	return TOMOS_OK;
}

static bool all_exposed(const Frames *f)
{
	for (int64_t i = 0; i < f->files.count; i++)
		if (!(f->exposure[i] > 0))
			return false;
	return true;
}

static tomos_status normalise(Frames *views, Frames *air)
{
	double mean = 0;
	for (int64_t i = 0; i < air->files.count; i++)
		mean += air->exposure[i] / (double)air->files.count;
	TRY(make_factors(views, mean));
	return make_factors(air, mean);
}

static tomos_status open_air(tomos_scan *scan, Frames *views, Frames *air, const char *where)
{
	FrameSet *set = &scan->sets[TOMOS_FLATS];
	bool exposed = all_exposed(views) && all_exposed(air);
	double *angles;
	int64_t count = air->files.count;
	TRY(mem_alloc(&angles, count, sizeof *angles, "angles"));
	memcpy(angles, air->angles, (size_t)count * sizeof *angles);
	tomos_status status = exposed ? normalise(views, air) : TOMOS_OK;
	if (status == TOMOS_OK)
		status = frames_set(scan, air, set);
	else
		frames_free(air);
	if (status == TOMOS_OK && count > 1)
		status = place_air(set, views, angles);
	mem_free(angles);
	return status == TOMOS_OK
		       ? scan_note(scan, "air", "%lld air scans of '%s'; exposures are %s",
				 (long long)count, where,
				 exposed ? "those of a chamber" : "not known, and taken as equal")
		       : status;
}

tomos_status varian_air(tomos_scan *scan, Frames *views, const Setup *s)
{
	Frames *air;
	char *where = NULL;
	TRY(mem_zeroed(&air, 1, sizeof *air, "a list of air scans"));
	*air = (Frames){.rows = views->rows, .columns = views->columns, .xim = views->xim};
	tomos_status status = find_air(scan, s, &air->files, &where);
	if (status == TOMOS_OK && air->files.count > 0)
		status = frames_numbers(air);
	if (status == TOMOS_OK && air->files.count > 0)
		status = open_air(scan, views, air, where); /* takes them over */
	else
		frames_free(air);
	mem_free(where);
	return status;
}
