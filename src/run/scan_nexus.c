/* NXtomo: all frames in one dataset, distinguished by their image key.
 *
 * https://manual.nexusformat.org/classes/applications/NXtomo.html
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "run/scan.h"

enum { KEY_VIEW = 0, KEY_FLAT = 1, KEY_DARK = 2 };

/* ---- the entry ---------------------------------------------------------------------------- */

static tomos_status is_tomo(const File *look, const char *group, bool *fits)
{
	char name[600], *text;
	snprintf(name, sizeof name, "%s/definition", group);
	TRY(io_text(look, name, &text));
	*fits = text && strcmp(text, "NXtomo") == 0;
	mem_free(text);
	return TOMOS_OK;
}

/* The entry, or a subentry one level below; "" where there is none. */
static tomos_status find_below(const File *look, const char *group, int depth, char entry[512])
{
	char *names;
	TRY(io_names(look, group, &names));
	tomos_status status = TOMOS_OK;
	for (char *at = names; at && *at && status == TOMOS_OK && !entry[0];) {
		char path[512];
		size_t length = strcspn(at, "\n");
		bool fits = false;
		int written = snprintf(path, sizeof path, "%s/%.*s", group, (int)length, at);
		if (written < (int)sizeof path)
			status = is_tomo(look, path, &fits);
		if (fits)
			memcpy(entry, path, sizeof path);
		else if (depth > 0 && status == TOMOS_OK && written < (int)sizeof path)
			status = find_below(look, path, depth - 1, entry);
		at += length + 1;
	}
	mem_free(names);
	return status;
}

static tomos_status nexus_probe(const File *look, bool *fits)
{
	char entry[512] = "";
	TRY(find_below(look, "", 1, entry));
	*fits = entry[0] != 0;
	return TOMOS_OK;
}

/* ---- frames ------------------------------------------------------------------------------- */

/* "<entry>/<name>", for the getters; lives until the next call. */
typedef struct {
	char entry[512], path[600];
} Paths;

static const char *in(Paths *p, const char *name)
{
	snprintf(p->path, sizeof p->path, "%s/%s", p->entry, name);
	return p->path;
}

/* image_key_control tells alignment frames (-1) from views; image_key does not. */
static tomos_status get_keys(const File *look, Paths *p, double **keys, int64_t *count)
{
	static const char *const names[] = {"instrument/detector/image_key_control",
		"control/image_key_control", "instrument/detector/image_key"};
	int64_t shape[2] = {0, 0};
	*keys = NULL;
	for (int i = 0; i < COUNT(names) && !*keys; i++)
		TRY(io_get(look, in(p, names[i]), keys, shape));
	*count = shape[0] * shape[1];
	if (!*keys)
		return fail(TOMOS_BAD_FILE, "'%s': '%s' has no instrument/detector/image_key",
			look->path, p->entry);
	return TOMOS_OK;
}

static int set_of(double key)
{
	return key == KEY_VIEW   ? TOMOS_VIEWS
	       : key == KEY_FLAT ? TOMOS_FLATS
	       : key == KEY_DARK ? TOMOS_DARKS
				 : -1;
}

/* The lists and places of all three sets; the other sets open the same dataset again. */
static tomos_status sort_frames(tomos_scan *scan, const double *keys, int64_t count)
{
	const File *file = scan->sets[TOMOS_VIEWS].file;
	for (int s = 0; s < 3; s++) {
		FrameSet *set = &scan->sets[s];
		set->count = 0;
		for (int64_t i = 0; i < count; i++)
			set->count += set_of(keys[i]) == s;
		if (s != TOMOS_VIEWS && set->count == 0)
			continue;
		TRY(mem_alloc(&set->list, set->count, sizeof *set->list, "frames"));
		TRY(mem_alloc(&set->places, set->count, sizeof *set->places, "frames"));
		if (s != TOMOS_VIEWS) {
			int64_t frames = set->count;
			TRY(frames_open(set, scan->path, file->dataset, ""));
			set->count = frames;
		}
	}
	int64_t done[3] = {0, 0, 0};
	for (int64_t i = 0; i < count; i++) {
		int s = set_of(keys[i]);
		if (s < 0)
			continue;
		scan->sets[s].list[done[s]] = i;
		scan->sets[s].places[done[s]++] = (double)done[TOMOS_VIEWS];
	}
	return TOMOS_OK;
}

static tomos_status nexus_frames(tomos_scan *scan, const File *look, Paths *p)
{
	double *keys;
	int64_t count, frames = scan->sets[TOMOS_VIEWS].count;
	TRY(get_keys(look, p, &keys, &count));
	tomos_status status =
		count == frames
			? sort_frames(scan, keys, count)
			: fail(TOMOS_BAD_FILE, "'%s': %lld image keys for %lld frames of '%s'",
				  look->path, (long long)count, (long long)frames,
				  scan->sets[TOMOS_VIEWS].file->dataset);
	mem_free(keys);
	if (status == TOMOS_OK && scan->sets[TOMOS_VIEWS].count == 0)
		return fail(TOMOS_BAD_FILE, "'%s': no frame of '%s' has image key 0, a view",
			look->path, scan->sets[TOMOS_VIEWS].file->dataset);
	return status;
}

/* ---- what goes with them ------------------------------------------------------------------ */

/* Reads one angle per frame and keeps those of views. */
static tomos_status nexus_angles(tomos_scan *scan, const File *look, Paths *p)
{
	const FrameSet *views = &scan->sets[TOMOS_VIEWS];
	double *angles;
	int64_t count;
	TRY(scan_angles(scan, look, in(p, "sample/rotation_angle"), &angles, &count));
	if (!angles)
		return TOMOS_OK;
	tomos_status status =
		count == views->file->shape[0]
			? mem_alloc(&scan->angles, views->count, sizeof *angles, "angles")
			: fail(TOMOS_BAD_FILE, "'%s': '%s' has %lld angles for %lld frames",
				  look->path, p->path, (long long)count,
				  (long long)views->file->shape[0]);
	for (int64_t i = 0; i < views->count && status == TOMOS_OK; i++)
		scan->angles[i] = angles[views->list[i]];
	mem_free(angles);
	return status;
}

static tomos_status nexus_setup(tomos_scan *scan, const File *look, Paths *p)
{
	char *text;
	TRY(scan_lengths(look, in(p, "instrument/detector/x_pixel_size"), "m", &scan->pixel[0]));
	TRY(scan_lengths(look, in(p, "instrument/detector/y_pixel_size"), "m", &scan->pixel[1]));
	TRY(scan_lengths(look, in(p, "instrument/detector/distance"), "m", &scan->distance));
	TRY(scan_energy(look, in(p, "beam/incident_energy"), &scan->energy));
	if (scan->energy == 0)
		TRY(scan_energy(look, in(p, "instrument/beam/incident_energy"), &scan->energy));
	TRY(io_text(look, in(p, "instrument/detector/field_of_view"), &text));
	scan->half = text && strcasecmp(text, "half") == 0;
	mem_free(text);
	return TOMOS_OK;
}

static tomos_status nexus_open(tomos_scan *scan, const File *look, const tomos_source_options *o)
{
	Paths p = {.entry = ""};
	TRY(find_below(look, "", 1, p.entry));
	TRY(frames_open(
		&scan->sets[TOMOS_VIEWS], scan->path, in(&p, "instrument/detector/data"), ""));
	TRY(nexus_frames(scan, look, &p));
	TRY(scan_shape(scan, o, false));
	TRY(nexus_angles(scan, look, &p));
	return nexus_setup(scan, look, &p);
}

const ScanKind scan_nexus = {.name = "nxtomo", .probe = nexus_probe, .open = nexus_open};
