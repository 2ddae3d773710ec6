/* Choice of the format: by content for reading, by name for writing. */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include "io/io.h"

enum { HEAD_BYTES = 4096, NAMES_SHOWN = 5 }; /* names in a message */

#define FORMAT(name) &format_##name,
static const Format *const formats[] = {
#include "io/formats.def"
};
#undef FORMAT

bool io_is_directory(const char *path)
{
	struct stat info;
	return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool io_names_directory(const char *path)
{
	size_t length = strlen(path);
	return (length > 0 && path[length - 1] == '/') || io_is_directory(path);
}

void io_add_name(char *names, size_t size, int before, const char *start, const char *name)
{
	size_t used = strlen(names);
	if (before < NAMES_SHOWN)
		snprintf(names + used, size - used, "%s%s%s", before ? ", " : "", start, name);
	else if (before == NAMES_SHOWN)
		snprintf(names + used, size - used, ", ...");
}

static tomos_status read_head(const char *path, unsigned char *head, size_t *length)
{
	int descriptor;
	int64_t size;
	TRY(flat_open(&descriptor, &size, path));
	*length = (size_t)min64(size, HEAD_BYTES);
	tomos_status status = flat_read(descriptor, path, 0, head, (int64_t)*length);
	(void)flat_close(&descriptor, path);
	return status;
}

static tomos_status reject_content(const char *path, const unsigned char *head, size_t length)
{
	char names[256] = "", bytes[64] = "";
	for (int i = 0; i < COUNT(formats); i++)
		if (formats[i] != &format_raw)
			snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s",
				names[0] ? ", " : "", formats[i]->name);
	for (size_t i = 0; i < length && i < 8; i++)
		snprintf(bytes + strlen(bytes), sizeof bytes - strlen(bytes), " %02x", head[i]);
	if (length == 0)
		return fail(TOMOS_BAD_FILE, "'%s' is empty", path);
	return fail(TOMOS_BAD_FILE,
		"'%s' is of no known format (%s); it begins with%s; numbers without a header are "
		"read with the option 'raw', which says their sizes and their type",
		path, names, bytes);
}

/* Zarr files are directories, so that a name may end in '/'. */
static bool is_zarr_name(const char *path)
{
	size_t length = strlen(path);
	while (length > 1 && path[length - 1] == '/')
		length--;
	return length > 5 && path[length - 6] != '/' &&
	       strncasecmp(path + length - 5, ".zarr", 5) == 0;
}

tomos_status format_by_content(
	const Format **format, const char *path, const tomos_file_options *options)
{
	unsigned char buffer[HEAD_BYTES];
	const unsigned char *head = NULL;
	size_t length = 0;
	if (options->raw[0]) {
		*format = &format_raw;
		return TOMOS_OK;
	}
	if (zarr_is_store(path)) {
		*format = &format_zarr;
		return TOMOS_OK;
	}
	if (is_zarr_name(path) && io_is_directory(path))
		return fail(TOMOS_BAD_FILE,
			"'%s' has neither zarr.json nor .zgroup nor .zarray: the metadata of this "
			"Zarr file are missing",
			path);
	if (!io_is_directory(path) && !tiff_is_pattern(path)) {
		TRY(read_head(path, buffer, &length));
		head = buffer;
	}
	for (int i = 0; i < COUNT(formats); i++)
		if (formats[i]->probe(head, length)) {
			*format = formats[i];
			return TOMOS_OK;
		}
	return reject_content(path, head, length);
}

/* Whether the name of a file ends in '.' and one of the format's endings, which may have dots
 * themselves ("nii.gz"). */
static bool ending_fits(const Format *format, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t length = strlen(name);
	for (const char *at = format->endings; *at;) {
		size_t ending = strcspn(at, "|");
		if (length > ending && name[length - ending - 1] == '.' &&
			strncasecmp(name + length - ending, at, ending) == 0)
			return true;
		at += ending + (at[ending] == '|');
	}
	return false;
}

tomos_status format_by_name(const Format **format, const char *path)
{
	char endings[512] = "";
	if (is_zarr_name(path)) {
		*format = &format_zarr;
		return TOMOS_OK;
	}
	if (io_names_directory(path)) {
		*format = &format_tiff;
		return TOMOS_OK;
	}
	for (int i = 0; i < COUNT(formats); i++) {
		if (!formats[i]->create)
			continue;
		*format = formats[i];
		if (ending_fits(formats[i], path))
			return TOMOS_OK;
		snprintf(endings + strlen(endings), sizeof endings - strlen(endings), "%s%s",
			endings[0] ? "|" : "", formats[i]->endings);
	}
	return fail(TOMOS_BAD_VALUE,
		"the name '%s' does not say the format to write: it must end in one of %s, or in "
		"'/' "
		"for a directory of TIFF files",
		path, endings);
}

const char *tomos_output_format(const char *path)
{
	const Format *format;
	return path && path[0] && format_by_name(&format, path) == TOMOS_OK ? format->name : "";
}

tomos_status io_check_name(const char *path)
{
	const Format *format;
	return format_by_name(&format, path);
}
