/* Views in files of their own: a list of paths, and frames without a header or behind one. */
#include "run/scanner/list.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <strings.h>

bool list_fits(const char *name, const char *prefix, const char *ending)
{
	size_t length = strlen(name), tail = strlen(ending);
	return name[0] != '.' && strncasecmp(name, prefix, strlen(prefix)) == 0 && length >= tail &&
	       strcasecmp(name + length - tail, ending) == 0;
}

static tomos_status add_path(
	FileList *list, int64_t *capacity, const char *folder, const char *name)
{
	TRY(mem_grow(&list->paths, list->count, capacity, sizeof *list->paths, "a list of files"));
	TRY(mem_printf(&list->paths[list->count], "%s%s", folder, name));
	list->count++;
	return TOMOS_OK;
}

tomos_status list_files(FileList *list, const char *folder, const char *prefix, const char *ending)
{
	struct dirent **found = NULL;
	int64_t capacity = 0;
	int count = scandir(folder[0] ? folder : ".", &found, NULL, alphasort);
	*list = (FileList){.count = 0};
	if (count < 0)
		return fail(TOMOS_IO, "directory '%s' cannot be read: %s", folder, strerror(errno));
	tomos_status status = TOMOS_OK;
	for (int i = 0; i < count; i++) {
		if (status == TOMOS_OK && list_fits(found[i]->d_name, prefix, ending))
			status = add_path(list, &capacity, folder, found[i]->d_name);
		free(found[i]); /* scandir's own memory */
	}
	free(found);
	if (status == TOMOS_OK && list->count == 0)
		status = fail(
			TOMOS_BAD_FILE, "there are no files '%s%s*%s'", folder, prefix, ending);
	if (status != TOMOS_OK)
		list_free(list);
	return status;
}

void list_free(FileList *list)
{
	for (int64_t i = 0; i < list->count; i++)
		mem_free(list->paths[i]);
	mem_free(list->paths);
	*list = (FileList){.count = 0};
}

/* ---- frames --------------------------------------------------------------------------------- */

typedef struct {
	FileList files;
	PlainForm form;
	int64_t rows, line; /* bytes of a row */
} Plains;

static tomos_status read_plain(
	const void *own, int64_t frame, int64_t row, int64_t rows, void *stored)
{
	const Plains *p = own;
	const PlainForm *form = &p->form;
	const char *path = p->files.paths[frame / form->per_file];
	int descriptor;
	int64_t size, at = form->header + (frame % form->per_file * p->rows + row) * p->line;
	TRY(flat_open(&descriptor, &size, path));
	tomos_status status =
		at + rows * p->line <= size
			? flat_read(descriptor, path, at, stored, rows * p->line)
			: fail(TOMOS_BAD_FILE, "'%s' has %lld bytes; its frames need %lld", path,
				  (long long)size, (long long)(at + rows * p->line));
	(void)flat_close(&descriptor, path);
	if (status == TOMOS_OK && form->convert)
		form->convert(stored, rows * p->line / 2);
	return status;
}

tomos_status list_sources(const FileList *files, TakePath take, void *user)
{
	for (int64_t i = 0; i < files->count; i++)
		TRY(take(user, files->paths[i]));
	return TOMOS_OK;
}

static tomos_status plain_sources(const void *own, TakePath take, void *user)
{
	return list_sources(&((const Plains *)own)->files, take, user);
}

static void close_plains(void *own)
{
	Plains *p = own;
	list_free(&p->files);
	mem_free(p);
}

tomos_status plain_frames(tomos_scan *scan, FileList *files, PlainForm form)
{
	FrameSet *set = &scan->sets[TOMOS_VIEWS];
	Plains *own;
	tomos_status status = mem_zeroed(&own, 1, sizeof *own, "a list of frames");
	if (status != TOMOS_OK) {
		list_free(files);
		return status;
	}
	*own = (Plains){*files, form, scan->rows, 2 * scan->columns};
	*files = (FileList){.count = 0};
	const FrameSource source = {
		.shape = {own->files.count * form.per_file, scan->rows, scan->columns},
		.element = {'u', 2, __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__},
		.read = read_plain,
		.sources = plain_sources,
		.close = close_plains,
		.own = own};
	TRY(io_frames(&set->file, scan->path, &source));
	set->count = set->file->shape[0];
	return TOMOS_OK;
}

tomos_status first_frames(tomos_scan *scan, int64_t views)
{
	FrameSet *set = &scan->sets[TOMOS_VIEWS];
	if (set->count < views)
		return fail(TOMOS_BAD_FILE, "'%s' says %lld views, and there are %lld", scan->path,
			(long long)views, (long long)set->count);
	if (set->count == views)
		return TOMOS_OK;
	TRY(mem_alloc(&set->list, views, sizeof *set->list, "frames"));
	for (int64_t i = 0; i < views; i++)
		set->list[i] = i;
	TRY(scan_note(scan, "note", "the first %lld of %lld frames are used, as '%s' says",
		(long long)views, (long long)set->count, scan->path));
	set->count = views;
	return TOMOS_OK;
}
