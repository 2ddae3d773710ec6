/* Named lists of numbers in HDF5 files, for sparse matrices. */
#include <string.h>
#include "io/hdf5_parts.h"
#include "io/matrix_file.h"

static tomos_status write_list(hid_t file, const char *path, const NamedList *list)
{
	hsize_t size = (hsize_t)list->count;
	hid_t dataset = hdf5_make(file, list->name, hdf5_type(list->element), 1, &size, 0);
	bool written = dataset >= 0 && H5Dwrite(dataset, hdf5_type(list->element), H5S_ALL, H5S_ALL,
					       H5P_DEFAULT, list->data) >= 0;
	written &= hdf5_landed(hdf5_disk_failure(file));
	hdf5_drop(dataset);
	return written ? TOMOS_OK : hdf5_reject(TOMOS_IO, path, list->name, "cannot be written");
}

static tomos_status write_lists(
	const char *temporary, const char *path, const NamedList *lists, int count)
{
	hid_t access = hdf5_access(true), list = hdf5_timeless(H5P_FILE_CREATE);
	hid_t file = H5Fcreate(temporary, H5F_ACC_EXCL, list, access);
	tomos_status status = TOMOS_OK;
	hdf5_drop(list);
	hdf5_drop(access);
	if (file < 0) {
		(void)hdf5_landed(hdf5_disk_failure(file));
		return hdf5_reject(TOMOS_IO, path, NULL, "cannot be created");
	}
	if (!hdf5_attribute(file, "tomos", TOMOS_VERSION) ||
		!hdf5_attribute(file, "content", "matrix"))
		status = hdf5_reject(TOMOS_IO, path, NULL, "cannot be created");
	for (int i = 0; i < count && status == TOMOS_OK; i++)
		status = write_list(file, path, &lists[i]);
	if (status == TOMOS_OK && H5Fflush(file, H5F_SCOPE_LOCAL) < 0)
		status = hdf5_reject(TOMOS_IO, path, NULL, "cannot be written to its end");
	if (!hdf5_landed(hdf5_disk_close(file)) && status == TOMOS_OK)
		status = hdf5_reject(TOMOS_IO, path, NULL, "cannot be written to its end");
	return status;
}

tomos_status hdf5_lists_write(
	const char *temporary, const char *path, const NamedList *lists, int count)
{
	Quiet quiet = hdf5_enter();
	return hdf5_leave(quiet, write_lists(temporary, path, lists, count));
}

static tomos_status read_list(hid_t dataset, const char *path, NamedList *list)
{
	Form form;
	if (!dataset_element(dataset, &form.element) || !dataset_axes(dataset, &form) ||
		form.rank != 1)
		return hdf5_reject(TOMOS_BAD_FILE, path, list->name, "is no list of numbers");
	TRY(dataset_check(dataset, &form, path, list->name));
	TRY(filters_check(dataset, path, list->name));
	list->element =
		form.element.kind == 'f' ? (Element){'f', 4, false} : (Element){'i', 8, false};
	list->count = form.axes[0];
	TRY(mem_alloc(
		&list->data, list->count, (size_t)list->element.bytes, "numbers of an HDF5 file"));
	if (H5Dread(dataset, hdf5_type(list->element), H5S_ALL, H5S_ALL, H5P_DEFAULT, list->data) <
		0)
		return hdf5_reject(TOMOS_BAD_FILE, path, list->name, "cannot be read");
	return TOMOS_OK;
}

static tomos_status read_lists(const char *path, NamedList *lists, int count)
{
	hid_t access = hdf5_access(false), file = H5Fopen(path, H5F_ACC_RDONLY, access);
	tomos_status status = TOMOS_OK;
	hdf5_drop(access);
	if (file < 0)
		return hdf5_reject(TOMOS_BAD_FILE, path, NULL, "cannot be opened as an HDF5 file");
	for (int i = 0; i < count && status == TOMOS_OK; i++) {
		hid_t dataset = hdf5_has(file, lists[i].name)
					? H5Dopen2(file, lists[i].name, H5P_DEFAULT)
					: H5I_INVALID_HID;
		if (dataset >= 0)
			status = read_list(dataset, path, &lists[i]);
		hdf5_drop(dataset);
	}
	(void)H5Fclose(file);
	return status;
}

tomos_status hdf5_lists_read(const char *path, NamedList *lists, int count)
{
	TRY(hdf5_check_start(path));
	Quiet quiet = hdf5_enter();
	return hdf5_leave(quiet, read_lists(path, lists, count));
}
