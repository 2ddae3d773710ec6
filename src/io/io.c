/* Opening, creating and committing: the parts common to all formats. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "io/io.h"

OPTION_VALUES(file_values, TOMOS_FILE_OPTIONS);

/* ---- opening and closing --------------------------------------------------------------------- */

static tomos_status check_path(const char *path)
{
	if (!path || !*path)
		return fail(TOMOS_BAD_VALUE, "the name of a file is missing");
	return TOMOS_OK;
}

static bool is_there(const char *path, size_t length)
{
	char name[4096];
	struct stat info;
	if (length == 0 || length >= sizeof name)
		return false;
	memcpy(name, path, length);
	name[length] = 0;
	return stat(name, &info) == 0;
}

tomos_status io_split(const char *path, char **file, char **dataset)
{
	const char *colon = is_there(path, strlen(path)) ? NULL : strchr(path, ':');
	*dataset = NULL;
	while (colon &&
		((colon[1] != '/' && colon[1] != ':') || !is_there(path, (size_t)(colon - path))))
		colon = strchr(colon + 1, ':');
	if (colon)
		TRY(mem_text(dataset, colon + 1 + (colon[1] == ':')));
	tomos_status status =
		mem_printf(file, "%.*s", colon ? (int)(colon - path) : (int)strlen(path), path);
	if (status != TOMOS_OK) {
		mem_free(*dataset);
		*dataset = NULL;
	}
	return status;
}

/* Allocates *made, the description; *file is NULL until file_give sets it. */
static tomos_status file_make(File **file, File **made, const char *path,
	tomos_file_options *options, const tomos_file_options *given)
{
	*file = NULL;
	*options = tomos_file_defaults();
	TRY(check_path(path));
	TRY(options_take(options, given, "file"));
	TRY(mem_zeroed(made, 1, sizeof **made, "a file's description"));
	(*made)->content = TOMOS_UNKNOWN;
	(*made)->grain = (*made)->row_grain = 1;
	tomos_status status = mem_text(&(*made)->path, path);
	if (status != TOMOS_OK)
		tomos_file_close(*made);
	return status;
}

static tomos_status file_give(File **file, File *made, tomos_status status)
{
	if (status == TOMOS_OK)
		*file = made;
	else
		tomos_file_close(made);
	return status;
}

static tomos_status open_into(File *file, const tomos_file_options *options)
{
	int64_t count;
	TRY(format_by_content(&file->format, file->path, options));
	if (options->level > 0 && file->format != &format_zarr)
		return fail(TOMOS_BAD_VALUE,
			"'%s' is no Zarr file and has one level of resolution, 0; level is %lld",
			file->path, (long long)options->level);
	file->scale = 1;
	if (!file->bare || file->format->get)
		TRY(file->format->open(file, options));
	if (!file->dataset)
		TRY(mem_text(&file->dataset, ""));
	if (file->bare)
		return TOMOS_OK;
	file->type = element_name(file->element);
	TRY(shape_count(file->shape, &count));
	TRY(units_read(file));
	TRY(scale_read(file));
	checksums_load(file);
	return TOMOS_OK;
}

tomos_status io_look(File **file, const char *path)
{
	tomos_file_options options;
	File *made;
	TRY(file_make(file, &made, path, &options, NULL));
	made->bare = true;
	return file_give(file, made, open_into(made, &options));
}

static tomos_status open_dataset(
	File **file, const char *path, const char *dataset, const tomos_file_options *given)
{
	tomos_file_options options;
	File *made;
	TRY(file_make(file, &made, path, &options, given));
	tomos_status status = TOMOS_OK;
	if (dataset && options.dataset[0])
		status = fail(TOMOS_BAD_VALUE, "'%s:%s', and the option 'dataset' is '%s'", path,
			dataset, options.dataset);
	options.dataset = dataset ? dataset : options.dataset;
	return file_give(file, made, status == TOMOS_OK ? open_into(made, &options) : status);
}

tomos_status tomos_file_open(File **file, const char *path, const tomos_file_options *given)
{
	char *plain, *dataset;
	*file = NULL;
	TRY(check_path(path));
	TRY(io_split(path, &plain, &dataset));
	tomos_status status = open_dataset(file, plain, dataset, given);
	mem_free(plain);
	mem_free(dataset);
	return status;
}

/* Rejects an output that is larger than the free space of its file system, before hours of work.
 * Where the free space is unknown, a full disk is an error of the write. */
static tomos_status check_space(const char *path, int64_t needed)
{
	struct statvfs disk;
	char *directory;
	const char *slash = strrchr(path, '/');
	TRY(mem_printf(&directory, "%.*s.", slash ? (int)(slash - path + 1) : 0, path));
	bool told = statvfs(directory, &disk) == 0 && disk.f_blocks > 0;
	mem_free(directory);
	double bytes = (double)needed;
	double left = told ? (double)disk.f_bavail * (double)disk.f_frsize : HUGE_VAL;
	if (bytes <= left)
		return TOMOS_OK;
	double unit = bytes < 1e9 ? 1e-6 : 1e-9;
	const char *name = bytes < 1e9 ? "MB" : "GB";
	return fail(TOMOS_IO, "'%s' would take %.3g %s, and its disk has %.3g %s left", path,
		bytes * unit, name, left * unit, name);
}

/* The stored number type, with the scale that maps the window to its whole range. */
static tomos_status choose_type(File *file, const tomos_file_options *options)
{
	static const Element elements[] = {{'f', 4, false}, {'u', 2, false}, {'u', 1, false}};
	int index;
	file->scale = 1;
	TRY(choice_find("type", file_values.type, options->type, &index));
	file->element = elements[index];
	file->type = element_name(file->element);
	if (options->compress < 0 || options->compress > 9)
		return fail(TOMOS_BAD_VALUE, "compress is %lld; it must be 0 to 9",
			(long long)options->compress);
	file->compress = (int)options->compress;
	file->zarr = strcmp(options->zarr, "2") == 0 ? 2 : 3;
	if (index == 0)
		return TOMOS_OK;
	const double *window = options->window;
	if (options->window_count != 2)
		return fail(TOMOS_BAD_VALUE,
			"type %s needs a window LOW,HIGH of the values that it stores", file->type);
	if (!(window[0] < window[1]) || !isfinite(window[1] - window[0]))
		return fail(TOMOS_BAD_VALUE,
			"window %g,%g: LOW must be below HIGH, and both finite", window[0],
			window[1]);
	file->offset = window[0];
	file->scale = (window[1] - window[0]) / element_largest(file->element);
	return TOMOS_OK;
}

tomos_status io_check_options(const char *path, const tomos_file_options *options)
{
	const Format *format;
	char facts[48];
	TRY(format_by_name(&format, path));
	snprintf(facts, sizeof facts, "hdf5=%d store=%d folder=%d", format == &format_hdf5,
		format == &format_zarr, format == &format_tiff && io_names_directory(path));
	if (options->level > 0)
		return fail(TOMOS_BAD_VALUE,
			"level is %lld, which is for reading; '%s' is to be written",
			(long long)options->level, path);
	return options_need("file", options, facts);
}

static tomos_status create_into(File *file, tomos_content content, const int64_t shape[3],
	const tomos_file_options *options)
{
	int64_t count;
	if (!shape)
		return fail(TOMOS_BAD_VALUE, "'%s' is given no shape", file->path);
	TRY(format_by_name(&file->format, file->path));
	TRY(shape_count(shape, &count));
	if (!file->kept) /* a resumed run has checked its options */
		TRY(io_check_options(file->path, options));
	TRY(choose_type(file, options));
	if (!file->continued)
		TRY(check_space(file->path, count * file->element.bytes));
	memcpy(file->shape, shape, sizeof file->shape);
	file->content = content;
	file->first_index = max64(0, options->first_number);
	TRY(mem_zeroed(&file->written, shape[0], 1, "the list of what is written"));
	TRY(mem_zeroed(&file->checksums, shape[0], sizeof *file->checksums, "checksums"));
	file->overwrite = options->overwrite;
	if (!file->temporary)
		TRY(file_temporary(&file->temporary, file->path, file->overwrite));
	TRY(file->format->create(file));
	if (!file->dataset)
		TRY(mem_text(&file->dataset, ""));
	return file->continued && !file->part ? units_read(file) : TOMOS_OK;
}

tomos_status io_create(File **file, const char *path, tomos_content content, const int64_t shape[3],
	const tomos_file_options *given, const char *temporary, bool continued)
{
	tomos_file_options options;
	File *made;
	TRY(file_make(file, &made, path, &options, given));
	made->kept = true;
	made->continued = continued;
	tomos_status status = mem_text(&made->temporary, temporary);
	if (status == TOMOS_OK)
		status = create_into(made, content, shape, &options);
	return file_give(file, made, status);
}

tomos_status io_join(File **file, const char *path, tomos_content content, const int64_t shape[3],
	const tomos_file_options *given, const char *temporary, const FilePart *part)
{
	tomos_file_options options;
	File *made;
	TRY(file_make(file, &made, path, &options, given));
	made->kept = made->continued = true;
	made->part = part->number;
	made->data_at = part->data_at;
	tomos_status status = mem_text(&made->temporary, temporary);
	if (status == TOMOS_OK)
		status = create_into(made, content, shape, &options);
	return file_give(file, made, status);
}

int64_t io_data_at(const File *file)
{
	return file->format->data_at ? file->format->data_at(file) : 0;
}

tomos_status io_merge(File *file)
{
	return file->format->merge ? file->format->merge(file) : TOMOS_OK;
}

void io_discard(const char *temporary)
{
	static const char *const endings[] = {"", IO_DATA_ENDING, IO_WHOLE_ENDING};
	char name[4096];
	for (int i = 0; i < COUNT(endings); i++) {
		int length = snprintf(name, sizeof name, "%s%s", temporary, endings[i]);
		if (length < (int)sizeof name)
			file_discard(name);
	}
	for (int part = 1;; part++) {
		int length = snprintf(name, sizeof name, IO_PART, temporary, part);
		if (length >= (int)sizeof name || unlink(name) != 0)
			return;
	}
}

tomos_status io_seal(File *file)
{
	TRY(checksums_write(file));
	/* A scale file beside an older output would be wrong for that until the new output replaces
	 * it. */
	if (scale_is_inside(file))
		TRY(scale_write(file));
	return file->format->seal ? file->format->seal(file) : TOMOS_OK;
}

tomos_status io_sync(File *file)
{
	return file->format->sync ? file->format->sync(file) : TOMOS_OK;
}

void io_done(File *file, int64_t first, int64_t count, const uint32_t *checksums)
{
	memset(file->written + first, 1, (size_t)count);
	memcpy(file->checksums + first, checksums, (size_t)count * sizeof *checksums);
}

tomos_status tomos_file_create(File **file, const char *path, tomos_content content,
	const int64_t shape[3], const tomos_file_options *given)
{
	tomos_file_options options;
	File *made;
	TRY(file_make(file, &made, path, &options, given));
	return file_give(file, made, create_into(made, content, shape, &options));
}

void tomos_file_close(File *file)
{
	if (!file)
		return;
	if (file->own)
		file->format->close(file);
	if (!file->committed && !file->kept)
		file_discard(file->temporary);
	mem_free(file->path);
	mem_free(file->temporary);
	mem_free(file->dataset);
	mem_free(file->written);
	mem_free(file->checksums);
	mem_free(file);
}

/* ---- checks and the commit ------------------------------------------------------------------- */

tomos_status io_check_range(const File *file, int64_t first, int64_t count, const void *data)
{
	if (!data)
		return fail(TOMOS_BAD_VALUE, "'%s': there is no memory to read to or write from",
			file->path);
	if (first < 0 || count < 1 || first > file->shape[0] - count)
		return fail(TOMOS_BAD_VALUE,
			"'%s': %lld indices from %lld on the first axis, which has %lld",
			file->path, (long long)count, (long long)first, (long long)file->shape[0]);
	return TOMOS_OK;
}

tomos_status io_check_writable(const File *file)
{
	if (!file->temporary || file->committed)
		return fail(TOMOS_BAD_VALUE, "'%s' is %s and cannot be written to", file->path,
			file->committed ? "committed" : "open for reading");
	return TOMOS_OK;
}

tomos_status tomos_file_commit(File *file)
{
	TRY(io_check_writable(file));
	const unsigned char *gap = memchr(file->written, 0, (size_t)file->shape[0]);
	if (gap)
		return fail(TOMOS_BAD_VALUE,
			"'%s' is not complete: index %lld of %lld on the first axis was never "
			"written",
			file->path, (long long)(gap - file->written), (long long)file->shape[0]);
	TRY(checksums_write(file));
	TRY(scale_write(file));
	TRY(file->format->finish(file));
	TRY(file_publish(file->temporary, file->path, file->overwrite));
	file->committed = true;
	return TOMOS_OK;
}

tomos_status io_get(const File *file, const char *name, double **values, int64_t shape[2])
{
	*values = NULL;
	shape[0] = shape[1] = 0;
	return file->format->get ? file->format->get(file, name, values, shape) : TOMOS_OK;
}

tomos_status io_put_text(File *file, const char *name, const char *text)
{
	TRY(io_check_writable(file));
	return file->format->put_text ? file->format->put_text(file, name, text) : TOMOS_OK;
}

tomos_status io_text(const File *file, const char *name, char **text)
{
	*text = NULL;
	return file->format->text ? file->format->text(file, name, text) : TOMOS_OK;
}

tomos_status io_names(const File *file, const char *group, char **names)
{
	*names = NULL;
	return file->format->names ? file->format->names(file, group, names) : TOMOS_OK;
}

double io_write_bytes(const char *path, const int64_t shape[3])
{
	const Format *format;
	bool known = path && path[0] && format_by_name(&format, path) == TOMOS_OK;
	return known && format->write_bytes ? format->write_bytes(shape) : 0;
}

tomos_status io_put(File *file, const char *name, const double *values, const int64_t shape[2])
{
	TRY(io_check_writable(file));
	return file->format->put ? file->format->put(file, name, values, shape) : TOMOS_OK;
}
