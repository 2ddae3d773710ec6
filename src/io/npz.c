/* NumPy archives of savez and savez_compressed: one array is the data, the others are named
 * numbers.
 *
 * An uncompressed array is read in place, without verifying its checksum, which covers the whole
 * array. A compressed one is first unpacked to an unlinked temporary file in $TMPDIR or /tmp.
 */
#include <stdio.h>
#include <string.h>
#include "io/matrix_file.h"
#include "io/zip.h"

enum {
	LARGEST_HEADER = 1 << 12,
	LARGEST_LIST = 64 << 20, /* bytes of named numbers */
};

typedef struct {
	Archive archive;
	Plain plain;
	int unpacked; /* descriptor of the temporary file, or -1 */
} Npz;

static bool npz_probe(const unsigned char *head, size_t length)
{
	return head && length >= 4 && memcmp(head, "PK\3\4", 4) == 0;
}

/* ---- which array ----------------------------------------------------------------------------- */

static tomos_status look_at(const Archive *a, const Entry *e, NpyForm *form)
{
	unsigned char *bytes;
	TRY(zip_bytes(a, e, LARGEST_HEADER, &bytes));
	tomos_status status = npy_look(form, a->path, bytes, min64(e->size, LARGEST_HEADER));
	mem_free(bytes);
	return status;
}

/* The entry of that name, with or without .npy; *found is false if there is none. */
static tomos_status find_entry(const Archive *a, const char *name, Entry *e, bool *found)
{
	name += strspn(name, "/");
	*found = false;
	for (int64_t at = 0; !*found;) {
		TRY(zip_next(a, &at, e));
		if (at < 0)
			return TOMOS_OK;
		*found = zip_is(e, name, ".npy") || zip_is(e, name, "");
	}
	return TOMOS_OK;
}

/* Without ".npy"; control characters, which a terminal would interpret, are replaced. */
static void entry_name(const Entry *e, char name[128])
{
	int length = (int)min64(e->name_length, 127);
	for (int i = 0; i < length; i++)
		name[i] = e->name[i] >= ' ' && e->name[i] <= '~' ? (char)e->name[i] : '?';
	if (length > 4 && memcmp(name + length - 4, ".npy", 4) == 0)
		length -= 4;
	name[length] = 0;
}

/* Whether an entry is a readable array of numbers with two or three axes. */
static tomos_status fits(const Archive *a, const Entry *e, bool *good)
{
	NpyForm form;
	tomos_status status = look_at(a, e, &form);
	*good = status == TOMOS_OK && form.element.bytes > 0 && form.rank >= 2 && form.rank <= 3;
	return status == TOMOS_NO_MEMORY ? status : TOMOS_OK;
}

/* Finds the only suitable array. */
static tomos_status search_array(File *file, const Archive *a, Entry *found)
{
	char all[512] = "", name[128];
	int count = 0;
	for (int64_t at = 0;;) {
		Entry e;
		bool good;
		TRY(zip_next(a, &at, &e));
		if (at < 0)
			break;
		TRY(fits(a, &e, &good));
		if (!good)
			continue;
		entry_name(&e, name);
		io_add_name(all, sizeof all, count, "", name);
		if (count++ == 0)
			*found = e;
	}
	if (count == 1)
		return mem_text(&file->dataset, name);
	if (count == 0)
		return fail(TOMOS_BAD_FILE, "'%s' has no array of numbers with two or three axes",
			file->path);
	return fail(TOMOS_BAD_VALUE,
		"'%s' has %d arrays that could be meant; name one of %s with the option 'dataset'",
		file->path, count, all);
}

static tomos_status choose_array(File *file, const Archive *a, const char *dataset, Entry *e)
{
	bool found;
	if (!dataset[0])
		return search_array(file, a, e);
	TRY(mem_text(&file->dataset, dataset));
	TRY(find_entry(a, dataset, e, &found));
	return found ? TOMOS_OK
		     : fail(TOMOS_BAD_FILE, "'%s' has no array '%s'", file->path, dataset);
}

/* ---- its numbers ----------------------------------------------------------------------------- */

typedef struct {
	int descriptor;
	const char *path;
	int64_t at;
} Target;

static tomos_status to_file(void *user, const unsigned char *bytes, int64_t count)
{
	Target *target = user;
	TRY(flat_write(target->descriptor, target->path, target->at, bytes, count));
	target->at += count;
	return TOMOS_OK;
}

static tomos_status unpack(Npz *own, const Entry *e, const char *path)
{
	char *where;
	TRY(flat_unnamed(&own->unpacked, path));
	TRY(mem_printf(&where, "%s, unpacked", path));
	Target target = {own->unpacked, where, 0};
	tomos_status status = zip_take(&own->archive, e, e->size, to_file, &target);
	mem_free(where);
	own->plain.descriptor = own->unpacked;
	return status;
}

/* Opens the array as a header and numbers, in the archive or unpacked. */
static tomos_status open_array(File *file, Npz *own, const Entry *e)
{
	NpyForm form;
	int64_t start = 0;
	char *where;
	TRY(look_at(&own->archive, e, &form));
	if (form.element.bytes == 0)
		return fail(TOMOS_UNSUPPORTED, "'%s', array '%s': numbers of type '%s'", file->path,
			file->dataset, form.descr);
	TRY(mem_printf(&where, "'%s', array '%s'", file->path, file->dataset));
	tomos_status status = shape_take(file->shape, form.axes, form.rank, where);
	mem_free(where);
	TRY(status);
	file->element = form.element;
	TRY(zip_locate(&own->archive, e, &start));
	own->plain = (Plain){.descriptor = own->archive.descriptor,
		.size = e->method == ZIP_STORED ? start + e->size : e->size,
		.data = e->method == ZIP_STORED ? start + form.data : form.data,
		.fortran = form.fortran};
	TRY(plain_check(&own->plain, file, file->path));
	file->unpacked = e->method != ZIP_STORED;
	return file->unpacked ? unpack(own, e, file->path) : TOMOS_OK;
}

static tomos_status npz_open(File *file, const tomos_file_options *options)
{
	Npz *own;
	Entry e;
	TRY(mem_zeroed(&own, 1, sizeof *own, "an npz file's description"));
	file->own = own;
	own->archive.descriptor = own->unpacked = -1;
	TRY(zip_open(&own->archive, file->path));
	if (file->bare)
		return TOMOS_OK;
	TRY(choose_array(file, &own->archive, options->dataset, &e));
	return open_array(file, own, &e);
}

static tomos_status npz_part(File *file, const Extract *part, int threads, void *stored)
{
	const Npz *own = file->own;
	return plain_read(file, &own->plain, part, threads, stored);
}

static tomos_status npz_box(File *file, const Samples *samples, int threads, void *stored)
{
	const Npz *own = file->own;
	return plain_read_box(file, &own->plain, samples, threads, stored);
}

static void npz_close(File *file)
{
	Npz *own = file->own;
	zip_close(&own->archive);
	(void)flat_close(&own->unpacked, file->path);
	mem_free(own);
}

/* ---- the others, by name --------------------------------------------------------------------- */

static tomos_status take_numbers(const File *file, const char *name, const NpyForm *form,
	const unsigned char *bytes, int64_t size, double **values)
{
	int64_t needed;
	if (form->element.bytes == 0 || form->rank > 2 || form->count < 1 ||
		(form->fortran && form->rank > 1))
		return fail(TOMOS_BAD_FILE, "'%s', array '%s': is no list or table of numbers",
			file->path, name);
	if (!size_mul(form->count, form->element.bytes, &needed) || needed != size - form->data)
		return fail(TOMOS_BAD_FILE, "'%s', array '%s': %lld bytes for %lld numbers",
			file->path, name, (long long)(size - form->data), (long long)form->count);
	TRY(mem_alloc(values, form->count, sizeof **values, "numbers of an npz file"));
	element_widen(form->element, bytes + form->data, form->count, *values);
	return TOMOS_OK;
}

static tomos_status npz_get(const File *file, const char *name, double **values, int64_t shape[2])
{
	const Npz *own = file->own;
	unsigned char *bytes;
	NpyForm form;
	Entry e;
	bool found;
	TRY(find_entry(&own->archive, name, &e, &found));
	if (!found)
		return TOMOS_OK;
	if (e.size > LARGEST_LIST)
		return fail(TOMOS_BAD_FILE,
			"'%s', array '%s': %lld bytes are too many for a list; at most %d",
			file->path, name, (long long)e.size, LARGEST_LIST);
	TRY(zip_bytes(&own->archive, &e, e.size, &bytes));
	tomos_status status = npy_look(&form, file->path, bytes, e.size);
	if (status == TOMOS_OK)
		status = take_numbers(file, name, &form, bytes, e.size, values);
	mem_free(bytes);
	TRY(status);
	shape[0] = form.rank > 1 ? form.axes[0] : 1;
	shape[1] = form.rank > 0 ? form.axes[form.rank - 1] : 1;
	return TOMOS_OK;
}

static tomos_status npz_names(const File *file, const char *group, char **names)
{
	const Npz *own = file->own;
	char *list = NULL, *longer, name[128];
	tomos_status status = TOMOS_OK;
	if (strspn(group, "/") != strlen(group))
		return TOMOS_OK;
	for (int64_t at = 0; status == TOMOS_OK;) {
		Entry e;
		status = zip_next(&own->archive, &at, &e);
		if (status != TOMOS_OK || at < 0)
			break;
		entry_name(&e, name);
		status = mem_printf(&longer, "%s%s\n", list ? list : "", name);
		if (status == TOMOS_OK) {
			mem_free(list);
			list = longer;
		}
	}
	if (status != TOMOS_OK) {
		mem_free(list);
		list = NULL;
	}
	*names = list;
	return status;
}

const Format format_npz = {
	.name = "npz",
	.endings = "",
	.probe = npz_probe,
	.open = npz_open,
	.read = npz_part,
	.read_box = npz_box,
	.close = npz_close,
	.get = npz_get,
	.names = npz_names,
};
