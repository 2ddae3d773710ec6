/* Scans as folders of TIFF files: views, flats and darks distinguished by the words in their names.
 *
 * Files of one folder whose names differ in their last number alone are one set ("raw_00000.tiff",
 * "flat_1.tif"); folders inside with such names ("projections", "flats") are sets, too. A list of
 * angles is taken from a text file that is named after them.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "run/scan.h"

enum { MOST_SETS = 32, ROLE_NONE = -1 };

typedef struct {
	char prefix[256];  /* of the files' names, or the folder's name */
	char pattern[600]; /* what tomos_file_open understands, below the directory */
	bool folder;
	int role; /* tomos_frames, or ROLE_NONE */
} Set;

typedef struct {
	Set sets[MOST_SETS];
	int count;
	char angles[256]; /* name of the list of angles, or "" */
} Folder;

/* ---- words -------------------------------------------------------------------------------- */

/* A word with '*' may be the beginning of a longer one. */
static const struct {
	const char *word;
	int role;
} words[] = {{"flat*", TOMOS_FLATS}, {"white*", TOMOS_FLATS}, {"bright*", TOMOS_FLATS},
	{"reference*", TOMOS_FLATS}, {"ref", TOMOS_FLATS}, {"refs", TOMOS_FLATS},
	{"ff", TOMOS_FLATS}, {"gain", TOMOS_FLATS}, {"openbeam", TOMOS_FLATS},
	{"dark*", TOMOS_DARKS}, {"df", TOMOS_DARKS}, {"di", TOMOS_DARKS}, {"dc", TOMOS_DARKS},
	{"proj*", TOMOS_VIEWS}, {"raw*", TOMOS_VIEWS}, {"tomo*", TOMOS_VIEWS},
	{"radio*", TOMOS_VIEWS}, {"view*", TOMOS_VIEWS}, {"sample*", TOMOS_VIEWS},
	{"image*", TOMOS_VIEWS}};

/* The role of a name, from the words in it; words for flats and darks have priority over those for
 * views ("tomo_flat_01"). */
static int role_of(const char *name)
{
	char lower[256] = "";
	int role = ROLE_NONE;
	size_t length = 0;
	for (; name[length] && length + 1 < sizeof lower; length++)
		lower[length] = (char)tolower((unsigned char)name[length]);
	for (char *at = lower; *at;) {
		char word[256];
		size_t letters = 0;
		while (isalpha((unsigned char)at[letters]))
			letters++;
		memcpy(word, at, letters);
		word[letters] = 0;
		for (int i = 0; i < COUNT(words); i++)
			if (fnmatch(words[i].word, word, 0) == 0 &&
				(role == ROLE_NONE || role == TOMOS_VIEWS))
				role = words[i].role;
		at += letters ? letters : 1;
	}
	return role;
}

/* ---- what a folder holds ------------------------------------------------------------------ */

static bool has_ending(const char *name, const char *endings)
{
	const char *dot = strrchr(name, '.');
	char lower[16] = "";
	for (size_t i = 0; dot && dot[1 + i] && i + 1 < sizeof lower; i++)
		lower[i] = (char)tolower((unsigned char)dot[1 + i]);
	return dot && name[0] != '.' && choice_index(endings, lower) >= 0;
}

void pattern_escape(char *to, size_t size, const char *from)
{
	size_t length = 0;
	for (; *from && length + 2 < size; from++) {
		if (strchr("*?[]\\", *from))
			to[length++] = '\\';
		to[length++] = *from;
	}
	to[length] = 0;
}

/* The pattern that is proposed has what precedes the first number of the name at hand. */
static tomos_status reject_names(const char *path, const char *name)
{
	size_t folder = strlen(path), word = strcspn(name, "0123456789");
	while (folder > 1 && path[folder - 1] == '/')
		folder--;
	return fail(TOMOS_BAD_FILE,
		"'%s' has more than %d kinds of names, which differ not only in the number at "
		"their end; name the views by a pattern like '%.*s/%.*s*'",
		path, MOST_SETS, (int)folder, path, (int)word, name);
}

static tomos_status add_set(Folder *folder, const char *path, const Set *set)
{
	for (int i = 0; i < folder->count; i++)
		if (folder->sets[i].folder == set->folder &&
			strcmp(folder->sets[i].prefix, set->prefix) == 0)
			return TOMOS_OK;
	if (folder->count == MOST_SETS)
		return reject_names(path, set->prefix);
	folder->sets[folder->count++] = *set;
	return TOMOS_OK;
}

static tomos_status add_picture(Folder *folder, const char *path, const char *name)
{
	Set set = {.folder = false};
	char escaped[560];
	size_t stem = (size_t)(strrchr(name, '.') - name), end = stem;
	while (end > 0 && isdigit((unsigned char)name[end - 1]))
		end--;
	if (end >= sizeof set.prefix)
		return TOMOS_OK;
	memcpy(set.prefix, name, end);
	pattern_escape(escaped, sizeof escaped, set.prefix);
	snprintf(set.pattern, sizeof set.pattern, "%s%s", escaped, end < stem ? "[0-9]*" : ".*");
	set.role = role_of(set.prefix);
	return add_set(folder, path, &set);
}

/* A folder is a set if its name contains one of the words. */
static tomos_status add_folder(Folder *folder, const char *path, const char *name)
{
	Set set = {.folder = true, .role = role_of(name)};
	if (name[0] == '.' || strlen(name) >= sizeof set.prefix || set.role == ROLE_NONE)
		return TOMOS_OK;
	snprintf(set.prefix, sizeof set.prefix, "%s", name);
	snprintf(set.pattern, sizeof set.pattern, "%s", name);
	return add_set(folder, path, &set);
}

static tomos_status add_entry(Folder *folder, const char *path, const char *name)
{
	char whole[4096];
	if (has_ending(name, "tif|tiff"))
		return add_picture(folder, path, name);
	bool text = has_ending(name, "txt|csv|dat");
	if (text && strlen(name) < sizeof folder->angles &&
		(strncasecmp(name, "angle", 5) == 0 || strncasecmp(name, "theta", 5) == 0)) {
		snprintf(folder->angles, sizeof folder->angles, "%s", name);
		return TOMOS_OK;
	}
	snprintf(whole, sizeof whole, "%s/%s", path, name);
	return io_is_directory(whole) ? add_folder(folder, path, name) : TOMOS_OK;
}

static tomos_status list_folder(Folder *folder, const char *path)
{
	struct dirent **list = NULL;
	int count = scandir(path, &list, NULL, alphasort);
	*folder = (Folder){.count = 0};
	if (count < 0)
		return fail(TOMOS_IO, "directory '%s' cannot be read: %s", path, strerror(errno));
	tomos_status status = TOMOS_OK;
	for (int i = 0; i < count; i++) {
		if (status == TOMOS_OK)
			status = add_entry(folder, path, list[i]->d_name);
		free(list[i]); /* scandir's own memory */
	}
	free(list);
	return status;
}

/* ---- which set is what -------------------------------------------------------------------- */

static void names_of(const Folder *folder, int role, char names[256])
{
	names[0] = 0;
	for (int i = 0; i < folder->count; i++)
		if (folder->sets[i].role == role || role == ROLE_NONE)
			snprintf(names + strlen(names), 256 - strlen(names), "%s'%s'",
				names[0] ? ", " : "", folder->sets[i].prefix);
}

/* Finds the set of a role; files have priority over folders. NULL: there is none. */
static tomos_status find_role(const Folder *folder, const char *path, int role, const Set **found)
{
	static const char *const options[] = {"the scan by a pattern like 'folder/raw_*'",
		"one with the option 'flats'", "one with the option 'darks'"};
	char names[256];
	int files = 0, folders = 0;
	*found = NULL;
	for (int i = folder->count; i-- > 0;)
		if (folder->sets[i].role == role) {
			bool inner = folder->sets[i].folder;
			*(inner ? &folders : &files) += 1;
			if (!inner || files == 0)
				*found = &folder->sets[i];
		}
	if (files <= 1 && (files == 1 || folders <= 1))
		return TOMOS_OK;
	names_of(folder, role, names);
	return fail(TOMOS_BAD_FILE, "'%s' has several sets that could be its %s: %s; name %s", path,
		role == TOMOS_VIEWS   ? "views"
		: role == TOMOS_FLATS ? "flats"
				      : "darks",
		names, options[role]);
}

/* If no name has a word for views, the views are the only set without any of the words. */
static tomos_status find_views(Folder *folder, const char *path, const Set **views)
{
	char names[256];
	int unnamed = 0;
	TRY(find_role(folder, path, TOMOS_VIEWS, views));
	for (int i = 0; !*views && i < folder->count; i++)
		unnamed += folder->sets[i].role == ROLE_NONE;
	for (int i = 0; unnamed == 1 && i < folder->count; i++)
		if (folder->sets[i].role == ROLE_NONE)
			*views = &folder->sets[i];
	if (*views)
		return TOMOS_OK;
	names_of(folder, ROLE_NONE, names);
	if (!names[0])
		return fail(TOMOS_BAD_FILE,
			"'%s' has no .tif or .tiff files with views; a scan in another format is "
			"named by its file",
			path);
	return fail(TOMOS_BAD_FILE,
		"'%s' has %s; which of them are the views is not clear: name "
		"them by a pattern like 'folder/raw_*'",
		path, names);
}

static tomos_status open_set(FrameSet *set, const char *path, const Set *from)
{
	char *whole;
	size_t length = strlen(path);
	if (!from)
		return TOMOS_OK;
	TRY(mem_printf(&whole, "%s%s%s", path, path[length - 1] == '/' ? "" : "/", from->pattern));
	tomos_status status = frames_open(set, whole, "", "");
	mem_free(whole);
	return status;
}

static tomos_status stack_angles(tomos_scan *scan, const char *name)
{
	char *path = NULL, *where = NULL;
	double *angles = NULL;
	int64_t count = 0;
	tomos_status status = TOMOS_OK;
	if (!name[0])
		return TOMOS_OK;
	TRY_OR_DONE(mem_printf(&path, "%s/%s", scan->path, name));
	TRY_OR_DONE(mem_printf(&where, "'%s'", path));
	TRY_OR_DONE(angles_read(&angles, &count, path));
	TRY_OR_DONE(angles_fit(&scan->angles, angles, count, scan->sets[TOMOS_VIEWS].count, where));
done:
	mem_free(angles);
	mem_free(where);
	mem_free(path);
	return status;
}

/* ---- missing files ------------------------------------------------------------------------ */

/* Files may be counted in larger steps than 1. */
typedef struct {
	int64_t number, step; /* number -1: none is missing */
	int64_t first;        /* number of the first file; -1: it has none */
	char after[4096];     /* the file before it */
} Gap;

typedef struct {
	char path[4096]; /* the file before */
	size_t prefix;   /* characters before its number */
	int64_t number;  /* -1: it has none */
	int64_t step;    /* the smallest so far between two numbers; 0: none yet */
	Gap *gap;
} Numbering;

/* The number at the end of a name, before its ending; -1: there is none. */
static int64_t last_number(const char *path, size_t *prefix)
{
	const char *dot = strrchr(path, '.'), *first = dot;
	while (first && first > path && isdigit((unsigned char)first[-1]))
		first--;
	*prefix = first ? (size_t)(first - path) : 0;
	return first && first < dot && dot - first < 18 ? strtoll(first, NULL, 10) : -1;
}

/* In the second pass, a step larger than the smallest one is a gap. */
static tomos_status next_file(void *user, const char *path)
{
	Numbering *n = user;
	Gap *gap = n->gap;
	size_t prefix;
	int64_t number = last_number(path, &prefix), step = number - n->number;
	bool next = number >= 0 && n->number >= 0 && step > 0 && prefix == n->prefix &&
		    strncmp(path, n->path, prefix) == 0;
	if (next && gap->step > 0 && step > gap->step && gap->number < 0) {
		gap->number = n->number + gap->step;
		snprintf(gap->after, sizeof gap->after, "%s", n->path);
	}
	if (next && (n->step == 0 || step < n->step))
		n->step = step;
	if (!n->path[0])
		gap->first = number;
	snprintf(n->path, sizeof n->path, "%s", path);
	n->prefix = prefix;
	n->number = number;
	return TOMOS_OK;
}

/* Finds files that are missing at the beginning or at the end of a stack whose length is known. */
static void gap_at_ends(const tomos_file *file, const Numbering *last, Gap *gap)
{
	/* A part of a stack that was chosen at a regular step is complete. */
	if (gap->number >= 0 || last->number < 0 || last->step > 1 || file->files <= file->shape[0])
		return;
	gap->number = gap->first > 0 ? 0 : last->number + 1;
	if (gap->first == 0)
		snprintf(gap->after, sizeof gap->after, "%s", last->path);
}

tomos_status tomos_file_gap(const tomos_file *file, int64_t *number, char *after, size_t size)
{
	Gap gap = {.number = -1};
	bool files = file && file->format != &format_zarr; /* whose chunks may be left out */
	for (int pass = 0; files && pass < 2; pass++) { /* the smallest step first, then the gap */
		Numbering n = {.number = -1, .gap = &gap};
		TRY(io_sources(file, next_file, &n));
		gap.step = n.step;
		if (pass == 1)
			gap_at_ends(file, &n, &gap);
	}
	*number = gap.number;
	snprintf(after, size, "%s", gap.after);
	return TOMOS_OK;
}

tomos_status tomos_scan_gap(
	const tomos_scan *scan, tomos_frames which, int64_t *number, char *after, size_t size)
{
	return tomos_file_gap(scan->sets[which].file, number, after, size);
}

static tomos_status stack_probe(const File *look, bool *fits)
{
	*fits = io_is_directory(look->path) && look->format != &format_zarr;
	return TOMOS_OK;
}

static tomos_status open_sets(tomos_scan *scan, Folder *folder, const tomos_source_options *o)
{
	const Set *sets[3];
	TRY(list_folder(folder, scan->path));
	TRY(find_views(folder, scan->path, &sets[TOMOS_VIEWS]));
	for (int s = TOMOS_FLATS; s <= TOMOS_DARKS; s++) {
		sets[s] = NULL;
		if (!(s == TOMOS_FLATS ? o->flats : o->darks)[0])
			TRY(find_role(folder, scan->path, s, &sets[s]));
	}
	for (int s = 0; s < 3; s++)
		TRY(open_set(&scan->sets[s], scan->path, sets[s]));
	TRY(scan_shape(scan, o, false));
	return stack_angles(scan, folder->angles);
}

static tomos_status stack_open(tomos_scan *scan, const File *look, const tomos_source_options *o)
{
	Folder *folder;
	(void)look;
	TRY(mem_alloc(&folder, 1, sizeof *folder, "the names of a folder"));
	tomos_status status = open_sets(scan, folder, o);
	mem_free(folder);
	return status;
}

const ScanKind scan_stack = {.name = "tiff-folder", .probe = stack_probe, .open = stack_open};
