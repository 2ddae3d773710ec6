/* Numbers, strings and group members of an HDF5 file, by their paths. */
#include <stdio.h>
#include <string.h>
#include "io/hdf5_parts.h"

/* ---- named numbers --------------------------------------------------------------------------- */

static tomos_status read_numbers(
	const File *file, const char *name, hid_t dataset, double **values, int64_t shape[2])
{
	Form form;
	int64_t count = 1;
	if (!dataset_element(dataset, &form.element) || !dataset_axes(dataset, &form) ||
		form.rank > 2)
		return hdf5_reject(
			TOMOS_BAD_FILE, file->path, name, "is no list or table of numbers");
	TRY(dataset_check(dataset, &form, file->path, name));
	TRY(filters_check(dataset, file->path, name));
	shape[0] = form.rank > 1 ? form.axes[0] : 1;
	shape[1] = form.rank > 0 ? form.axes[form.rank - 1] : 1;
	(void)size_mul(shape[0], shape[1], &count); /* no overflow: the bytes are in the file */
	TRY(mem_alloc(values, count, sizeof **values, "numbers of an HDF5 file"));
	if (H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, *values) >= 0)
		return TOMOS_OK;
	mem_free(*values);
	*values = NULL;
	return hdf5_reject(TOMOS_BAD_FILE, file->path, name, "cannot be read");
}

static tomos_status get_locked(
	const File *file, const char *name, double **values, int64_t shape[2])
{
	const Hdf5 *own = file->own;
	if (own->file < 0 || !hdf5_has(own->file, name))
		return TOMOS_OK;
	hid_t dataset = H5Dopen2(own->file, name, H5P_DEFAULT);
	if (dataset < 0)
		return hdf5_reject(TOMOS_BAD_FILE, file->path, name, "is no dataset");
	tomos_status status = read_numbers(file, name, dataset, values, shape);
	hdf5_drop(dataset);
	return status;
}

tomos_status hdf5_get(const File *file, const char *name, double **values, int64_t shape[2])
{
	Quiet quiet = hdf5_enter();
	return hdf5_leave(quiet, get_locked(file, name, values, shape));
}

/* An existing dataset of that size is overwritten; one of another size is deleted. */
static hid_t open_same(hid_t file, const char *name, const hsize_t *sizes, int rank)
{
	Form form;
	hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
	bool same = dataset >= 0 && dataset_axes(dataset, &form) && form.rank == rank;
	for (int i = 0; i < rank && same; i++)
		same = form.axes[i] == (int64_t)sizes[i];
	if (same)
		return dataset;
	hdf5_drop(dataset);
	(void)H5Ldelete(file, name, H5P_DEFAULT);
	return H5I_INVALID_HID;
}

static tomos_status put_locked(
	const File *file, const char *name, const double *values, const int64_t shape[2])
{
	const Hdf5 *own = file->own;
	hsize_t sizes[2] = {(hsize_t)shape[0], (hsize_t)shape[1]};
	int rank = shape[0] == 1 ? 1 : 2;
	hid_t dataset = hdf5_has(own->file, name)
				? open_same(own->file, name, sizes + 2 - rank, rank)
				: H5I_INVALID_HID;
	if (dataset < 0)
		dataset = hdf5_make(own->file, name, H5T_NATIVE_DOUBLE, rank, sizes + 2 - rank, 0);
	bool written = dataset >= 0 && H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL,
					       H5P_DEFAULT, values) >= 0;
	written &= hdf5_landed(hdf5_disk_failure(own->file));
	tomos_status status =
		written ? TOMOS_OK : hdf5_reject(TOMOS_IO, file->path, name, "cannot be written");
	hdf5_drop(dataset);
	return status;
}

/* The coordinates of voxels follow from the grid, of which the steps come last. */
static tomos_status put_axes(const File *file, Hdf5 *own, const char *name, const double *values)
{
	grid_put(&own->grid, file, name, values);
	if (!own->grid.known || strcmp(name, "grid/step") != 0)
		return TOMOS_OK;
	bool written = nexus_axes(file, &own->grid);
	written &= hdf5_landed(hdf5_disk_failure(own->file));
	return written ? TOMOS_OK
		       : hdf5_reject(TOMOS_IO, file->path, "/entry/data", "cannot be written");
}

tomos_status hdf5_put(File *file, const char *name, const double *values, const int64_t shape[2])
{
	Quiet quiet = hdf5_enter();
	tomos_status status = put_locked(file, name, values, shape);
	if (status == TOMOS_OK && nexus_is(file))
		status = put_axes(file, file->own, name, values);
	return hdf5_leave(quiet, status);
}

/* A text that is there is replaced in its place, if it is long enough. */
static hid_t open_text(const File *file, const char *name, const char *text, hid_t type)
{
	const Hdf5 *own = file->own;
	size_t size = strlen(text) + 1;
	if (H5Tset_size(type, size) < 0 || H5Tset_cset(type, H5T_CSET_UTF8) < 0)
		return H5I_INVALID_HID;
	if (!hdf5_has(own->file, name))
		return hdf5_make(own->file, name, type, 0, NULL, 0);
	hid_t dataset = H5Dopen2(own->file, name, H5P_DEFAULT);
	hid_t stored = dataset >= 0 ? H5Dget_type(dataset) : H5I_INVALID_HID;
	bool fits = stored >= 0 && H5Tget_size(stored) >= size;
	hdf5_drop(stored);
	if (!fits)
		hdf5_drop(dataset);
	return fits ? dataset : H5I_INVALID_HID;
}

static tomos_status put_text_locked(const File *file, const char *name, const char *text)
{
	const Hdf5 *own = file->own;
	hid_t type = H5Tcopy(H5T_C_S1);
	hid_t dataset = type >= 0 ? open_text(file, name, text, type) : H5I_INVALID_HID;
	bool written =
		dataset >= 0 && H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text) >= 0;
	written &= hdf5_landed(hdf5_disk_failure(own->file));
	hdf5_drop(dataset);
	hdf5_drop(type);
	return written ? TOMOS_OK : hdf5_reject(TOMOS_IO, file->path, name, "cannot be written");
}

/* "name@attribute"; an object that is not there has none. */
static tomos_status put_attribute_locked(const File *file, const char *name, const char *text)
{
	const Hdf5 *own = file->own;
	const char *mark = strchr(name, '@');
	char path[256];
	snprintf(path, sizeof path, "%.*s", (int)(mark - name), name);
	if (!hdf5_has(own->file, path))
		return TOMOS_OK;
	hid_t object = H5Oopen(own->file, path, H5P_DEFAULT);
	bool written = object >= 0 && hdf5_attribute(object, mark + 1, text);
	hdf5_drop(object);
	written &= hdf5_landed(hdf5_disk_failure(own->file));
	return written ? TOMOS_OK : hdf5_reject(TOMOS_IO, file->path, name, "cannot be written");
}

tomos_status hdf5_put_text(File *file, const char *name, const char *text)
{
	Quiet quiet = hdf5_enter();
	return hdf5_leave(quiet, strchr(name, '@') ? put_attribute_locked(file, name, text)
						   : put_text_locked(file, name, text));
}

/* ---- strings and names ----------------------------------------------------------------------- */

enum { LONGEST_TEXT = 1 << 16 };

/* One string of fixed or variable length; `read` and `object` belong to a dataset or an
 * attribute. */
static tomos_status read_text(hid_t type, hid_t space,
	herr_t (*read)(hid_t object, hid_t type, void *to), hid_t object, char **text)
{
	size_t size = H5Tget_size(type);
	char *pointer = NULL;
	bool one = H5Tget_class(type) == H5T_STRING && H5Sget_simple_extent_npoints(space) == 1;
	if (!one)
		return TOMOS_OK;
	if (H5Tis_variable_str(type) > 0) {
		tomos_status status = read(object, type, &pointer) >= 0 && pointer
					      ? mem_printf(text, "%.*s", LONGEST_TEXT, pointer)
					      : TOMOS_OK;
		H5free_memory(pointer);
		return status;
	}
	if (size < 1 || size > LONGEST_TEXT)
		return TOMOS_OK;
	TRY(mem_zeroed(text, (int64_t)size + 1, 1, "a text of an HDF5 file"));
	if (read(object, type, *text) >= 0)
		return TOMOS_OK;
	mem_free(*text);
	*text = NULL;
	return TOMOS_OK;
}

static herr_t read_dataset_text(hid_t object, hid_t type, void *to)
{
	return H5Dread(object, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, to);
}

/* A virtual dataset is never a string: its sources, which may be itself, are checked for numbers
 * only. */
static bool is_virtual(hid_t dataset)
{
	hid_t list = H5Dget_create_plist(dataset);
	bool found = list < 0 || H5Pget_layout(list) == H5D_VIRTUAL;
	hdf5_drop(list);
	return found;
}

static tomos_status text_of_dataset(hid_t object, char **text)
{
	hid_t type = H5Dget_type(object), space = H5Dget_space(object);
	tomos_status status = type >= 0 && space >= 0 && !is_virtual(object)
				      ? read_text(type, space, read_dataset_text, object, text)
				      : TOMOS_OK;
	hdf5_drop(space);
	hdf5_drop(type);
	return status;
}

static tomos_status text_of_attribute(hid_t owner, const char *name, char **text)
{
	if (H5Aexists(owner, name) <= 0)
		return TOMOS_OK;
	hid_t object = H5Aopen(owner, name, H5P_DEFAULT);
	hid_t type = H5Aget_type(object), space = H5Aget_space(object);
	tomos_status status =
		type >= 0 && space >= 0 ? read_text(type, space, H5Aread, object, text) : TOMOS_OK;
	hdf5_drop(space);
	hdf5_drop(type);
	hdf5_drop(object);
	return status;
}

static tomos_status text_locked(const File *file, const char *name, char **text)
{
	const Hdf5 *own = file->own;
	const char *mark = strchr(name, '@');
	char path[512];
	snprintf(path, sizeof path, "%.*s", mark ? (int)(mark - name) : (int)strlen(name), name);
	bool root = strspn(path, "/") == strlen(path);
	if (!root && !hdf5_has(own->file, path))
		return TOMOS_OK;
	hid_t object = H5Oopen(own->file, root ? "/" : path, H5P_DEFAULT);
	tomos_status status = TOMOS_OK;
	if (object >= 0 && mark)
		status = text_of_attribute(object, mark + 1, text);
	else if (object >= 0 && H5Iget_type(object) == H5I_DATASET)
		status = text_of_dataset(object, text);
	hdf5_drop(object);
	return status;
}

tomos_status hdf5_text(const File *file, const char *name, char **text)
{
	Quiet quiet = hdf5_enter();
	return hdf5_leave(quiet, text_locked(file, name, text));
}

typedef struct {
	char *names;
	tomos_status status;
} NameList;

static herr_t add_name(hid_t group, const char *name, const H5L_info_t *info, void *user)
{
	NameList *list = user;
	char *longer = NULL;
	(void)group;
	(void)info;
	list->status = mem_printf(&longer, "%s%s\n", list->names ? list->names : "", name);
	if (list->status != TOMOS_OK)
		return 1;
	mem_free(list->names);
	list->names = longer;
	return 0;
}

static tomos_status names_locked(const File *file, const char *path, char **names)
{
	const Hdf5 *own = file->own;
	NameList list = {NULL, TOMOS_OK};
	bool root = strspn(path, "/") == strlen(path);
	hid_t group = root || hdf5_has(own->file, path)
			      ? H5Oopen(own->file, root ? "/" : path, H5P_DEFAULT)
			      : H5I_INVALID_HID;
	if (group >= 0 && H5Iget_type(group) == H5I_GROUP)
		(void)H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, add_name, &list);
	hdf5_drop(group);
	if (list.status != TOMOS_OK) {
		mem_free(list.names);
		list.names = NULL;
	}
	*names = list.names;
	return list.status;
}

tomos_status hdf5_names(const File *file, const char *group, char **names)
{
	Quiet quiet = hdf5_enter();
	return hdf5_leave(quiet, names_locked(file, group, names));
}
