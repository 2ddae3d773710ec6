/* Checks the sources of virtual HDF5 datasets: a missing or unreadable one would silently read as
 * zeros, and a dataset that is its own source would overflow the stack inside the library. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "io/hdf5_parts.h"

enum { DEEPEST = 8, MOST_SOURCES = 1 << 20 };

typedef struct {
	char file[2048], dataset[512];
} Source;

static bool readable_beside(const char *path, const char *source, char found[SOURCE_NAME])
{
	const char *slash = strrchr(path, '/');
	int length = source[0] != '/' && slash ? (int)(slash - path + 1) : 0;
	snprintf(found, SOURCE_NAME, "%.*s%s", length, path, source);
	return access(found, R_OK) == 0;
}

bool source_find(const char *path, const char *source, char found[SOURCE_NAME])
{
	char actual[PATH_MAX];
	if (strcmp(source, ".") == 0) {
		snprintf(found, SOURCE_NAME, "%s", path);
		return true;
	}
	if (readable_beside(path, source, found) || readable_beside("", source, found))
		return true;
	if (realpath(path, actual) && readable_beside(actual, source, found))
		return true;
	return readable_beside(path, source, found);
}

/* The library opens sources with its own file locking, which cannot be combined with ours: a source
 * that is the file being read cannot be opened by name, and would read as zeros. */
static bool is_open(const char *found, const Source *source, const Sources *sources)
{
	struct stat one, other;
	return strcmp(source->file, ".") != 0 && stat(found, &one) == 0 &&
	       stat(sources->reading, &other) == 0 && one.st_dev == other.st_dev &&
	       one.st_ino == other.st_ino;
}

static tomos_status check_source(
	hid_t dataset, const char *path, const char *name, Sources *sources)
{
	Form form;
	if (!dataset_element(dataset, &form.element) || !dataset_axes(dataset, &form))
		return hdf5_reject(TOMOS_BAD_FILE, path, name, "its numbers cannot be read");
	sources->depth++;
	tomos_status status = dataset_check_nested(dataset, &form, path, name, sources);
	sources->depth--;
	return status == TOMOS_OK ? filters_check(dataset, path, name) : status;
}

static tomos_status open_source(
	hid_t file, const Source *source, const char *path, const char *found, Sources *sources)
{
	hid_t dataset = file >= 0 && hdf5_has(file, source->dataset)
				? H5Dopen2(file, source->dataset, H5P_DEFAULT)
				: H5I_INVALID_HID;
	tomos_status status =
		dataset >= 0 ? check_source(dataset, found, source->dataset, sources)
			     : fail(TOMOS_BAD_FILE,
				       "'%s' has a virtual dataset whose source, dataset '%s' of "
				       "'%s', cannot be read",
				       path, source->dataset, found);
	hdf5_drop(dataset);
	return status;
}

static tomos_status follow(
	const Source *source, const char *path, const char *name, Sources *sources)
{
	char found[SOURCE_NAME];
	if (!source_find(path, source->file, found))
		return fail(TOMOS_BAD_FILE,
			"'%s', dataset '%s': it is virtual, and its file '%s' cannot be read", path,
			name, source->file);
	if (is_open(found, source, sources))
		return fail(TOMOS_UNSUPPORTED,
			"'%s', dataset '%s': it is virtual, and names the file it is in as '%s'; "
			"only '.' can be read",
			path, name, source->file);
	TRY(hdf5_check_start(found));
	hid_t access = hdf5_access(false), file = H5Fopen(found, H5F_ACC_RDONLY, access);
	hdf5_drop(access);
	tomos_status status = open_source(file, source, path, found, sources);
	if (file >= 0)
		(void)H5Fclose(file);
	return status;
}

/* Names with a percent sign denote a series of files or datasets of any length. */
static tomos_status check_each(
	hid_t list, size_t count, const char *path, const char *name, Sources *sources)
{
	Source now, before = {"", ""};
	for (size_t i = 0; i < count; i++, before = now) {
		now = (Source){"", ""};
		if (H5Pget_virtual_filename(list, i, now.file, sizeof now.file) < 0 ||
			H5Pget_virtual_dsetname(list, i, now.dataset, sizeof now.dataset) < 0)
			return hdf5_reject(
				TOMOS_BAD_FILE, path, name, "its sources cannot be read");
		if (strchr(now.file, '%') || strchr(now.dataset, '%') ||
			(strcmp(now.file, before.file) == 0 &&
				strcmp(now.dataset, before.dataset) == 0))
			continue;
		if (sources->opened++ >= MOST_SOURCES)
			return fail(TOMOS_UNSUPPORTED, "'%s', dataset '%s': more than %d sources",
				path, name, MOST_SOURCES);
		TRY(follow(&now, path, name, sources));
	}
	return TOMOS_OK;
}

tomos_status sources_check(hid_t list, const char *path, const char *name, Sources *sources)
{
	size_t count = 0;
	if (H5Pget_layout(list) != H5D_VIRTUAL || H5Pget_virtual_count(list, &count) < 0)
		return TOMOS_OK;
	if (sources->depth >= DEEPEST)
		return fail(TOMOS_BAD_FILE,
			"'%s', dataset '%s': it is its own source, or virtual datasets are nested "
			"more than %d deep",
			path, name, DEEPEST);
	return check_each(list, count, path, name, sources);
}
