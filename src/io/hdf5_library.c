/* Access to the HDF5 library: serialised, without its error printing, its messages kept for ours;
 * and creation of datasets. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "io/hdf5_parts.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Guarded by the lock: the message of the last failed call, and that of the first read since
 * hdf5_enter that failed with a system error. */
static char complaint[200], unreadable[600];

/* Finds the quoted text after `mark`; returns its length, 0 if there is none. */
static int quoted(const char *text, const char *mark, const char **found)
{
	*found = strstr(text, mark);
	if (*found)
		*found += strlen(mark);
	return *found ? (int)strcspn(*found, "'") : 0;
}

/* The library says this of a truncated file in names of its own variables. */
static bool take_truncated(const char *text)
{
	unsigned long long there, base, all;
	if (sscanf(text, "truncated file: eof = %llu, sblock->base_addr = %llu, stored_eof = %llu",
		    &there, &base, &all) != 3)
		return false;
	snprintf(complaint, sizeof complaint, "it is truncated, %llu of %llu bytes are left",
		base + there, all);
	return true;
}

/* The library's text on a failed read or write is long; only the system error in it is kept. */
static herr_t take_innermost(unsigned n, const H5E_error2_t *error, void *user)
{
	const char *system, *name;
	(void)user;
	if (n != 0 || !error->desc || take_truncated(error->desc))
		return 0;
	int length = quoted(error->desc, "error message = '", &system);
	int name_length = quoted(error->desc, "filename = '", &name);
	if (!system)
		length = (int)strlen(system = error->desc);
	else if (error->min_num == H5E_READERROR && !unreadable[0])
		snprintf(unreadable, sizeof unreadable, "'%.*s' cannot be read: %.*s", name_length,
			name ? name : "", length, system);
	snprintf(complaint, sizeof complaint, "%.*s", length, system);
	return 0;
}

/* Called by the library whenever one of its functions fails. */
static herr_t hear_error(hid_t stack, void *user)
{
	return H5Ewalk2(stack, H5E_WALK_UPWARD, take_innermost, user);
}

Quiet hdf5_enter(void)
{
	Quiet quiet;
	pthread_mutex_lock(&lock);
	H5Eget_auto2(H5E_DEFAULT, &quiet.print, &quiet.data);
	H5Eset_auto2(H5E_DEFAULT, hear_error, NULL);
	complaint[0] = unreadable[0] = 0;
	return quiet;
}

/* The library reports an object as missing also if the file cannot be read; that is an error
 * here. */
tomos_status hdf5_leave(Quiet quiet, tomos_status status)
{
	/* Errors of a thread that ended would keep the library from closing. */
	H5Eclear2(H5E_DEFAULT);
	H5Eset_auto2(H5E_DEFAULT, quiet.print, quiet.data);
	if (status == TOMOS_OK && unreadable[0])
		status = fail(TOMOS_IO, "%s", unreadable);
	pthread_mutex_unlock(&lock);
	return status;
}

void hdf5_drop(hid_t object)
{
	if (object >= 0)
		H5Idec_ref(object);
}

void hdf5_complain(const char *text)
{
	snprintf(complaint, sizeof complaint, "%s", text);
}

bool hdf5_landed(int failure)
{
	if (failure)
		snprintf(complaint, sizeof complaint, "%s", strerror(failure));
	return failure == 0;
}

tomos_status hdf5_reject(
	tomos_status status, const char *path, const char *dataset, const char *what)
{
	return fail(status, "'%s'%s%s%s: %s%s%s", path, dataset ? ", dataset '" : "",
		dataset ? dataset : "", dataset ? "'" : "", what, complaint[0] ? ": " : "",
		complaint);
}

/* File locks are not needed, and fail on many network file systems. */
hid_t hdf5_access(bool create)
{
	hid_t list = H5Pcreate(H5P_FILE_ACCESS);
	if (list < 0)
		return list;
	H5Pset_fclose_degree(list, H5F_CLOSE_STRONG);
	if (create) {
		H5Pset_libver_bounds(list, H5F_LIBVER_V18, H5F_LIBVER_V18);
		if (!hdf5_disk_use(list)) {
			hdf5_drop(list);
			return H5I_INVALID_HID;
		}
	}
#if H5_VERSION_GE(1, 10, 7)
	H5Pset_file_locking(list, 0, 1);
#endif
	return list;
}

/* ---- creation -------------------------------------------------------------------------------- */

bool hdf5_attribute(hid_t object, const char *name, const char *text)
{
	if (text[0])
		return hdf5_attribute_list(object, name, text, strlen(text), 0);
	return H5Aexists(object, name) <= 0 || H5Adelete(object, name) >= 0;
}

bool hdf5_attribute_list(
	hid_t object, const char *name, const char *texts, size_t size, hsize_t count)
{
	hid_t type = H5Tcopy(H5T_C_S1), attribute = H5I_INVALID_HID;
	hid_t space = count ? H5Screate_simple(1, &count, NULL) : H5Screate(H5S_SCALAR);
	if (H5Aexists(object, name) > 0)
		(void)H5Adelete(object, name);
	if (type >= 0 && space >= 0 && H5Tset_size(type, size) >= 0)
		attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
	bool written = attribute >= 0 && H5Awrite(attribute, type, texts) >= 0;
	hdf5_drop(attribute);
	hdf5_drop(space);
	hdf5_drop(type);
	return written;
}

/* Without time stamps, so that the same run gives the same bytes. */
hid_t hdf5_timeless(hid_t class)
{
	hid_t list = H5Pcreate(class);
	if (list >= 0 && H5Pset_obj_track_times(list, 0) < 0) {
		hdf5_drop(list);
		return H5I_INVALID_HID;
	}
	return list;
}

static bool make_groups(hid_t file, const char *name)
{
	char path[256];
	bool made = true;
	hid_t list = hdf5_timeless(H5P_GROUP_CREATE);
	for (const char *p = strchr(name + 1, '/'); p && made; p = strchr(p + 1, '/')) {
		snprintf(path, sizeof path, "%.*s", (int)(p - name), name);
		if (hdf5_has(file, path))
			continue;
		hid_t group = H5Gcreate2(file, path, H5P_DEFAULT, list, H5P_DEFAULT);
		made = group >= 0;
		hdf5_drop(group);
	}
	hdf5_drop(list);
	return made && list >= 0;
}

enum { CHUNK_BYTES = 16 << 20 };

hsize_t hdf5_chunk_rows(hsize_t rows, hsize_t row_bytes)
{
	if (rows * row_bytes <= CHUNK_BYTES)
		return rows;
	return row_bytes < CHUNK_BYTES ? CHUNK_BYTES / row_bytes : 1;
}

static bool set_chunks(hid_t list, hid_t type, const hsize_t *sizes, int compress)
{
	const hsize_t sides[3] = {
		1, hdf5_chunk_rows(sizes[1], sizes[2] * H5Tget_size(type)), sizes[2]};
	return H5Pset_chunk(list, 3, sides) >= 0 && H5Pset_shuffle(list) >= 0 &&
	       H5Pset_deflate(list, (unsigned)compress) >= 0;
}

/* Space for uncompressed data is allocated at once, so that writing them changes nothing else. */
static hid_t data_list(hid_t type, const hsize_t *sizes, int compress)
{
	hid_t list = hdf5_timeless(H5P_DATASET_CREATE);
	bool set = list >= 0 && H5Pset_fill_time(list, H5D_FILL_TIME_NEVER) >= 0;
	if (compress)
		set = set && set_chunks(list, type, sizes, compress);
	else
		set = set && H5Pset_layout(list, H5D_CONTIGUOUS) >= 0 &&
		      H5Pset_alloc_time(list, H5D_ALLOC_TIME_EARLY) >= 0;
	if (set)
		return list;
	hdf5_drop(list);
	return H5I_INVALID_HID;
}

/* A dataset and the groups of its path; compressed (three axes) or not. */
hid_t hdf5_make(
	hid_t file, const char *name, hid_t type, int rank, const hsize_t *sizes, int compress)
{
	hid_t dataset = H5I_INVALID_HID;
	hid_t space = rank ? H5Screate_simple(rank, sizes, NULL) : H5Screate(H5S_SCALAR);
	hid_t list = data_list(type, sizes, compress);
	if (space >= 0 && list >= 0 && make_groups(file, name))
		dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT);
	hdf5_drop(list);
	hdf5_drop(space);
	return dataset;
}
