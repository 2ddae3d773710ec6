/* The files that contain the data of an HDF5 dataset: its own, and those of external and virtual
 * data. */
#include <string.h>
#include "io/hdf5_parts.h"

static tomos_status take_source(const File *file, const char *name, TakePath take, void *user)
{
	char path[SOURCE_NAME];
	if (strcmp(name, ".") == 0) /* the file itself */
		return TOMOS_OK;
	(void)source_find(file->path, name, path);
	return take(user, path);
}

static tomos_status take_external(const File *file, hid_t list, TakePath take, void *user)
{
	char name[4096];
	int count = H5Pget_external_count(list);
	for (int i = 0; i < count; i++)
		if (H5Pget_external(list, (unsigned)i, sizeof name, name, NULL, NULL) >= 0) {
			name[sizeof name - 1] = 0;
			TRY(take_source(file, name, take, user));
		}
	return TOMOS_OK;
}

static tomos_status take_virtual(const File *file, hid_t list, TakePath take, void *user)
{
	char name[4096], last[4096] = "";
	size_t count = 0;
	if (H5Pget_layout(list) != H5D_VIRTUAL || H5Pget_virtual_count(list, &count) < 0)
		return TOMOS_OK;
	for (size_t i = 0; i < count; i++) {
		if (H5Pget_virtual_filename(list, i, name, sizeof name) < 0)
			continue;
		if (strcmp(name, last) != 0) /* consecutive parts are often from one file */
			TRY(take_source(file, name, take, user));
		memcpy(last, name, sizeof last);
	}
	return TOMOS_OK;
}

tomos_status hdf5_sources(const File *file, TakePath take, void *user)
{
	const Hdf5 *own = file->own;
	TRY(take(user, file->path));
	Quiet quiet = hdf5_enter();
	hid_t list = own->dataset >= 0 ? H5Dget_create_plist(own->dataset) : H5I_INVALID_HID;
	tomos_status status = TOMOS_OK;
	if (list >= 0)
		status = take_external(file, list, take, user);
	if (list >= 0 && status == TOMOS_OK)
		status = take_virtual(file, list, take, user);
	hdf5_drop(list);
	return hdf5_leave(quiet, status);
}
