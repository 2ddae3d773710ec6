/* Reading an HDF5 dataset: contiguous and chunked data without the library, others through it. */
#include <stdio.h>
#include <sys/stat.h>
#include "io/hdf5_parts.h"

/* Only of the library's usual driver. Addresses in a file with a user block are relative to its
 * end, but not in all versions of the library. */
int hdf5_descriptor(hid_t file, int64_t *size)
{
	hid_t access = H5Fget_access_plist(file), create = H5Fget_create_plist(file);
	hsize_t block = 1;
	void *handle = NULL;
	struct stat info;
	bool direct = access >= 0 && create >= 0 && H5Pget_driver(access) == H5FD_SEC2 &&
		      H5Pget_userblock(create, &block) >= 0 && block == 0 &&
		      H5Fget_vfd_handle(file, H5P_DEFAULT, &handle) >= 0 &&
		      fstat(*(int *)handle, &info) == 0;
	hdf5_drop(create);
	hdf5_drop(access);
	hsize_t bytes = 0;
	(void)H5Fget_filesize(file, &bytes);
	*size = direct ? info.st_size : (int64_t)bytes;
	return direct ? *(int *)handle : -1;
}

/* Contiguous numbers that need no conversion. */
static void find_plain(const File *file, hid_t list)
{
	Hdf5 *own = file->own;
	hid_t type = H5Dget_type(own->dataset);
	if (H5Pget_external_count(list) == 0 && type >= 0 && H5Tequal(type, own->memory) > 0) {
		own->plain.descriptor = hdf5_descriptor(own->file, &own->plain.size);
		own->plain.data = (int64_t)H5Dget_offset(own->dataset);
	}
	hdf5_drop(type);
}

tomos_status hdf5_read_prepare(File *file)
{
	const Hdf5 *own = file->own;
	hid_t list = H5Dget_create_plist(own->dataset);
	tomos_status status = TOMOS_OK;
	if (list < 0)
		return hdf5_reject(
			TOMOS_BAD_FILE, file->path, file->dataset, "its layout cannot be read");
	if (H5Pget_layout(list) == H5D_CONTIGUOUS)
		find_plain(file, list);
	else if (H5Pget_layout(list) == H5D_CHUNKED)
		status = chunks_open(file, list);
	hdf5_drop(list);
	TRY(status);
	return own->chunks ? TOMOS_OK : filters_check(own->dataset, file->path, file->dataset);
}

/* ---- through the library --------------------------------------------------------------------- */

/* A part of the first two of three axes, as a selection of the rank of the dataset. */
static hid_t select_slab(const File *file, const Extract *wanted, hid_t *memory)
{
	const Hdf5 *own = file->own;
	hsize_t start[3] = {(hsize_t)wanted->first, (hsize_t)wanted->row, 0};
	hsize_t part[3] = {(hsize_t)wanted->count, (hsize_t)wanted->rows, (hsize_t)file->shape[2]};
	int skip = 3 - own->rank;
	hid_t space = H5Dget_space(own->dataset);
	if (space < 0)
		return space;
	if (H5Sselect_hyperslab(space, H5S_SELECT_SET, start + skip, NULL, part + skip, NULL) < 0 ||
		(*memory = H5Screate_simple(own->rank, part + skip, NULL)) < 0) {
		hdf5_drop(space);
		return H5I_INVALID_HID;
	}
	return space;
}

static tomos_status read_portion(const File *file, const Extract *part, void *stored)
{
	const Hdf5 *own = file->own;
	hid_t memory, space = select_slab(file, part, &memory);
	herr_t failed = -1;
	if (space >= 0) {
		failed = H5Dread(own->dataset, own->memory, memory, space, H5P_DEFAULT, stored);
		hdf5_drop(memory);
		hdf5_drop(space);
	}
	if (failed >= 0)
		return TOMOS_OK;
	char what[128], rows[64] = "";
	if (part->rows < file->shape[1])
		snprintf(rows, sizeof rows, ", rows %lld to %lld,", (long long)part->row,
			(long long)(part->row + part->rows - 1));
	snprintf(what, sizeof what, "indices %lld to %lld%s cannot be read", (long long)part->first,
		(long long)(part->first + part->count - 1), rows);
	return hdf5_reject(TOMOS_BAD_FILE, file->path, file->dataset, what);
}

/* Numbers read by one call of the library: a fraction of a second, so that cancelling takes effect
 * soon. */
enum { PORTION = 1 << 24 };

static tomos_status read_library(const File *file, const Extract *part, char *stored)
{
	int64_t index = part->rows * file->shape[2], most = max64(1, PORTION / index);
	for (int64_t done = 0; done < part->count; done += most) {
		const Extract some = {
			part->first + done, min64(most, part->count - done), part->row, part->rows};
		TRY(cancel_check("reading"));
		Quiet quiet = hdf5_enter();
		TRY(hdf5_leave(quiet,
			read_portion(file, &some, stored + done * index * file->element.bytes)));
	}
	return TOMOS_OK;
}

tomos_status hdf5_read(File *file, const Extract *part, int threads, void *stored)
{
	const Hdf5 *own = file->own;
	if (own->plain.descriptor >= 0)
		return plain_read(file, &own->plain, part, threads, stored);
	const Samples samples = samples_of(file, part);
	return own->chunks ? chunks_read(file, &samples, threads, stored)
			   : read_library(file, part, stored);
}

tomos_status hdf5_read_box(File *file, const Samples *samples, int threads, void *stored)
{
	const Hdf5 *own = file->own;
	if (own->plain.descriptor >= 0)
		return plain_read_box(file, &own->plain, samples, threads, stored);
	return own->chunks ? chunks_read(file, samples, threads, stored)
			   : samples_by_rows(file, samples, threads, stored);
}
