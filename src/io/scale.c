/* Scale and offset of stored integers: named numbers in HDF5 files, part of the header where the
 * format has a place for them, and a text file for other formats. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "io/io.h"

/* Name of the text file: in a folder of TIFF files, or in the folder of the file. */
static tomos_status scale_path(char **name, const char *path, bool folder)
{
	return mem_printf(name, folder ? "%s/scale.txt" : "%s.scale.txt", path);
}

static bool is_folder(const File *file)
{
	return file->format == &format_tiff &&
	       io_names_directory(file->temporary ? file->temporary : file->path);
}

bool scale_is_inside(const File *file)
{
	return file->format->put_text || is_folder(file);
}

static tomos_status scale_text_read(File *file, const char *name)
{
	char text[256] = "", *at;
	int descriptor;
	int64_t size;
	if (access(name, F_OK) != 0)
		return TOMOS_OK;
	TRY(flat_open(&descriptor, &size, name));
	tomos_status status =
		flat_read(descriptor, name, 0, text, min64(size, (int64_t)sizeof text - 1));
	(void)flat_close(&descriptor, name);
	TRY(status);
	if (!(at = strstr(text, "scale = ")) || sscanf(at, "scale = %lf", &file->scale) != 1 ||
		!(at = strstr(text, "offset = ")) ||
		sscanf(at, "offset = %lf", &file->offset) != 1 || !isfinite(file->scale) ||
		!isfinite(file->offset))
		return fail(TOMOS_BAD_FILE, "'%s' says no scale and offset", name);
	return TOMOS_OK;
}

static tomos_status scale_number(const File *file, const char *name, double *number)
{
	double *values;
	int64_t shape[2];
	TRY(io_get(file, name, &values, shape));
	if (values)
		*number = values[0];
	mem_free(values);
	return TOMOS_OK;
}

tomos_status scale_read(File *file)
{
	char *name;
	if (file->type[0] == 'f' || file->format->scaled)
		return TOMOS_OK;
	if (file->format->put_text) {
		if (file->content == TOMOS_UNKNOWN && file->format == &format_hdf5)
			return TOMOS_OK;
		TRY(scale_number(file, "storage/scale", &file->scale));
		return scale_number(file, "storage/offset", &file->offset);
	}
	TRY(scale_path(&name, file->path, is_folder(file)));
	tomos_status status = scale_text_read(file, name);
	mem_free(name);
	return status;
}

static tomos_status scale_text_write(const File *file, const char *name)
{
	char text[160];
	snprintf(text, sizeof text,
		"value = offset + scale * stored number\nscale = %.17g\noffset = %.17g\n",
		file->scale, file->offset);
	return flat_text_write(name, text);
}

/* For a single file the text file is committed just before it; that of an earlier file is
 * removed. */
static tomos_status scale_beside(const File *file, bool scaled)
{
	char *name, *temporary = NULL;
	tomos_status status;
	TRY(scale_path(&name, file->path, false));
	if (scaled) {
		TRY_OR_DONE(file_temporary(&temporary, name, true));
		TRY_OR_DONE(scale_text_write(file, temporary));
		TRY_OR_DONE(file_publish(temporary, name, true));
	} else {
		(void)unlink(name);
		status = TOMOS_OK;
	}
done:
	if (status != TOMOS_OK)
		file_discard(temporary);
	mem_free(temporary);
	mem_free(name);
	return status;
}

tomos_status scale_write(File *file)
{
	static const int64_t one[2] = {1, 1};
	bool scaled = file->element.kind != 'f';
	char *name;
	if (file->format->put_text) {
		if (scaled)
			TRY(io_put(file, "storage/scale", &file->scale, one));
		return scaled ? io_put(file, "storage/offset", &file->offset, one) : TOMOS_OK;
	}
	if (file->format->scaled)
		return TOMOS_OK;
	if (!is_folder(file))
		return scale_beside(file, scaled);
	if (!scaled)
		return TOMOS_OK;
	TRY(scale_path(&name, file->temporary, true));
	tomos_status status = scale_text_write(file, name);
	mem_free(name);
	return status;
}
