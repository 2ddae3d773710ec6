/* Checks of HDF5 files and datasets before reading: sizes, chunks, filters, sources. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "io/hdf5_parts.h"
#include "io/matrix_file.h"

/* ---- the file -------------------------------------------------------------------------------- */

/* The signature may follow a user block of 512, 1024, ... bytes. */
bool hdf5_is(const unsigned char *head, size_t length)
{
	static const unsigned char signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
	for (size_t at = 0; head && at + sizeof signature <= length; at = at ? 2 * at : 512)
		if (memcmp(head + at, signature, sizeof signature) == 0)
			return true;
	return false;
}

static uint64_t take_address(const unsigned char *from, int bytes)
{
	uint64_t address = 0;
	for (int i = bytes; i-- > 0;)
		address = address << 8 | from[i];
	return bytes < 8 && address == (UINT64_C(1) << 8 * bytes) - 1 ? UINT64_MAX : address;
}

/* The superblock of the old layout has no checksum: with a wrong address of its driver block, the
 * library would allocate gigabytes. Only files in several parts have a driver block. */
tomos_status hdf5_check_start(const char *path)
{
	unsigned char block[96] = {0};
	int descriptor;
	int64_t size;
	TRY(flat_open(&descriptor, &size, path));
	tomos_status status =
		flat_read(descriptor, path, 0, block, min64(size, (int64_t)sizeof block));
	(void)flat_close(&descriptor, path);
	TRY(status);
	int version = block[8], bytes = block[13];
	if (!hdf5_is(block, 8) || version > 1)
		return TOMOS_OK;
	if (bytes != 4 && bytes != 8)
		return fail(TOMOS_BAD_FILE, "'%s': addresses of %d bytes; 4 or 8 were expected",
			path, bytes);
	const unsigned char *addresses = block + (version == 0 ? 24 : 28);
	uint64_t end = take_address(addresses + 2 * bytes, bytes);
	if (end > (uint64_t)size)
		return fail(TOMOS_BAD_FILE, "'%s' is truncated: it has %lld bytes of %llu", path,
			(long long)size, (unsigned long long)end);
	if (take_address(addresses + 3 * bytes, bytes) != UINT64_MAX)
		return fail(
			TOMOS_UNSUPPORTED, "'%s' is part of an HDF5 file in several parts", path);
	return TOMOS_OK;
}

/* Checks a path component by component, as H5Lexists requires; a dangling link counts as
 * missing. */
bool hdf5_has(hid_t file, const char *name)
{
	char path[256];
	for (const char *p = name; *p;) {
		p += strspn(p, "/");
		p += strcspn(p, "/");
		int length = (int)(p - name);
		if (length >= (int)sizeof path)
			return false;
		memcpy(path, name, (size_t)length);
		path[length] = 0;
		if (H5Lexists(file, path, H5P_DEFAULT) <= 0)
			return false;
	}
	return H5Oexists_by_name(file, name, H5P_DEFAULT) > 0;
}

/* ---- contents of a dataset ------------------------------------------------------------------- */

bool dataset_axes(hid_t dataset, Form *form)
{
	hsize_t sizes[H5S_MAX_RANK];
	hid_t space = H5Dget_space(dataset);
	if (space < 0)
		return false;
	form->rank = H5Sget_simple_extent_type(space) == H5S_NULL
			     ? -1
			     : H5Sget_simple_extent_dims(space, sizes, NULL);
	hdf5_drop(space);
	for (int i = 0; i < form->rank; i++)
		form->axes[i] = sizes[i] > INT64_MAX ? INT64_MAX : (int64_t)sizes[i];
	return form->rank >= 0;
}

static int64_t form_bytes(const Form *form)
{
	int64_t bytes = form->element.bytes;
	for (int i = 0; i < form->rank; i++)
		if (!size_mul(bytes, form->axes[i], &bytes))
			return INT64_MAX;
	return bytes;
}

static int64_t bytes_of_file(const char *path)
{
	struct stat info;
	return stat(path, &info) == 0 ? info.st_size : 0;
}

/* Compressed chunks may be larger than the file, up to LARGEST_RATIO; for a larger chunk the
 * library would allocate the memory. */
static bool chunks_fit(hid_t dataset, hid_t list, int64_t bytes, int64_t size)
{
	hsize_t sides[H5S_MAX_RANK];
	int rank = H5Pget_chunk(list, H5S_MAX_RANK, sides);
	int64_t most, chunk = 8;
	if (!size_mul(size, LARGEST_RATIO, &most))
		most = INT64_MAX;
	for (int i = 0; i < rank; i++)
		if (sides[i] > INT64_MAX || !size_mul(chunk, (int64_t)sides[i], &chunk))
			return false;
	return rank > 0 && H5Dget_storage_size(dataset) > 0 && bytes <= most && chunk <= most;
}

/* Rejects a dataset too large for its file. Virtual and external data are in other files. */
static tomos_status check_bytes(
	hid_t dataset, hid_t list, const Form *form, const char *path, const char *name)
{
	int64_t bytes = form_bytes(form), size = bytes_of_file(path);
	H5D_layout_t layout = H5Pget_layout(list);
	haddr_t at = H5Dget_offset(dataset);
	bool fits;
	if (layout == H5D_CHUNKED)
		fits = chunks_fit(dataset, list, bytes, size);
	else if (layout == H5D_CONTIGUOUS && H5Pget_external_count(list) == 0)
		fits = at != HADDR_UNDEF && bytes <= size && at <= (haddr_t)(size - bytes) &&
		       H5Dget_storage_size(dataset) == (hsize_t)bytes;
	else
		fits = layout == H5D_COMPACT ? bytes <= size : layout != H5D_LAYOUT_ERROR;
	if (fits)
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE,
		"'%s', dataset '%s': its %lld bytes are not in the file of %lld", path, name,
		(long long)bytes, (long long)size);
}

static tomos_status check_filters(hid_t list, const char *path, const char *name)
{
	int count = H5Pget_layout(list) == H5D_CHUNKED ? H5Pget_nfilters(list) : 0;
	for (int i = 0; i < count; i++) {
		char called[FILTER_NAME] = "";
		Filter filter;
		(void)filter_take(list, i, &filter, called);
		if (filter.id >= 0 && H5Zfilter_avail(filter.id) > 0)
			continue;
		return fail(TOMOS_UNSUPPORTED,
			"'%s', dataset '%s': its chunks are compressed with filter %d (%s), whose "
			"plug-in was not found; install it, and set HDF5_PLUGIN_PATH to its folder",
			path, name, filter.id, called[0] ? called : "without a name");
	}
	return TOMOS_OK;
}

tomos_status filters_check(hid_t dataset, const char *path, const char *name)
{
	hid_t list = H5Dget_create_plist(dataset);
	if (list < 0)
		return hdf5_reject(TOMOS_BAD_FILE, path, name, "its layout cannot be read");
	tomos_status status = check_filters(list, path, name);
	hdf5_drop(list);
	return status;
}

/* The sources of a virtual dataset are checked first: the library recurses without end into a
 * dataset that is its own source. */
tomos_status dataset_check_nested(
	hid_t dataset, const Form *form, const char *path, const char *name, Sources *sources)
{
	hid_t list = H5Dget_create_plist(dataset);
	if (list < 0)
		return hdf5_reject(TOMOS_BAD_FILE, path, name, "its layout cannot be read");
	tomos_status status = sources_check(list, path, name, sources);
	if (status == TOMOS_OK)
		status = check_bytes(dataset, list, form, path, name);
	hdf5_drop(list);
	return status;
}

tomos_status dataset_check(hid_t dataset, const Form *form, const char *path, const char *name)
{
	Sources sources = {path, 0, 0};
	return dataset_check_nested(dataset, form, path, name, &sources);
}
