/* An HDF5 file driver that hides write failures from the library (see hdf5_disk.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "io/hdf5_disk.h"

typedef struct {
	H5FD_t common; /* must be first: the part of the library */
	int descriptor, failure;
	haddr_t allocated, end; /* end of the allocated space, and size of the file */
} Disk;

static int failure_at_close; /* errno of the file closed last */

static H5FD_t *disk_open(const char *name, unsigned flags, hid_t access, haddr_t most)
{
	(void)access;
	(void)most;
	int mode = O_RDWR | O_CLOEXEC | (flags & H5F_ACC_CREAT ? O_CREAT : 0) |
		   (flags & H5F_ACC_EXCL ? O_EXCL : 0) | (flags & H5F_ACC_TRUNC ? O_TRUNC : 0);
	Disk *disk = calloc(1, sizeof *disk);
	if (!disk)
		return NULL;
	disk->descriptor = open(name, mode, 0666);
	struct stat info;
	if (disk->descriptor >= 0 && fstat(disk->descriptor, &info) == 0)
		disk->end = (haddr_t)info.st_size;
	if (disk->descriptor < 0) {
		failure_at_close = errno;
		free(disk);
		return NULL;
	}
	return &disk->common;
}

static herr_t disk_close(H5FD_t *file)
{
	Disk *disk = (Disk *)file;
	if (close(disk->descriptor) != 0 && !disk->failure)
		disk->failure = errno;
	failure_at_close = disk->failure;
	free(disk);
	return 0;
}

/* Lets the library combine small pieces of metadata and data. */
static herr_t disk_query(const H5FD_t *file, unsigned long *flags)
{
	(void)file;
	*flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA |
		 H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_AGGREGATE_SMALLDATA;
	return 0;
}

static haddr_t disk_get_allocated(const H5FD_t *file, H5FD_mem_t type)
{
	(void)type;
	return ((const Disk *)file)->allocated;
}

static herr_t disk_set_allocated(H5FD_t *file, H5FD_mem_t type, haddr_t address)
{
	(void)type;
	((Disk *)file)->allocated = address;
	return 0;
}

static haddr_t disk_get_end(const H5FD_t *file, H5FD_mem_t type)
{
	(void)type;
	return ((const Disk *)file)->end;
}

static herr_t disk_get_handle(H5FD_t *file, hid_t access, void **handle)
{
	(void)access;
	*handle = file;
	return 0;
}

/* Bytes that were never written read as zeros. */
static herr_t disk_read(
	H5FD_t *file, H5FD_mem_t type, hid_t list, haddr_t at, size_t size, void *buffer)
{
	(void)type;
	(void)list;
	for (char *to = buffer; size > 0;) {
		ssize_t got = pread(((Disk *)file)->descriptor, to, size, (off_t)at);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (got == 0) {
			memset(to, 0, size);
			break;
		}
		to += got;
		at += (haddr_t)got;
		size -= (size_t)got;
	}
	return 0;
}

static herr_t disk_write(
	H5FD_t *file, H5FD_mem_t type, hid_t list, haddr_t at, size_t size, const void *buffer)
{
	Disk *disk = (Disk *)file;
	(void)type;
	(void)list;
	for (const char *from = buffer; size > 0 && !disk->failure;) {
		size_t step = size < (size_t)1 << 30 ? size : (size_t)1 << 30;
		ssize_t put = pwrite(disk->descriptor, from, step, (off_t)at);
		if (put <= 0) {
			disk->failure = put == 0 ? ENOSPC : errno == EINTR ? 0 : errno;
			continue;
		}
		from += put;
		at += (haddr_t)put;
		size -= (size_t)put;
	}
	if (at > disk->end)
		disk->end = at;
	return 0;
}

static herr_t disk_truncate(H5FD_t *file, hid_t list, hbool_t closing)
{
	Disk *disk = (Disk *)file;
	(void)list;
	(void)closing;
	if (disk->allocated != disk->end && !disk->failure &&
		ftruncate(disk->descriptor, (off_t)disk->allocated) != 0)
		disk->failure = errno;
	disk->end = disk->allocated;
	return 0;
}

static const H5FD_class_t driver = {
#if H5_VERSION_GE(1, 14, 0)
	.version = H5FD_CLASS_VERSION,
	.value = (H5FD_class_value_t)500, /* from the range reserved for unregistered drivers */
#endif
	.name = "tomos",
	.maxaddr = INT64_MAX,
	.fc_degree = H5F_CLOSE_STRONG,
	.open = disk_open,
	.close = disk_close,
	.query = disk_query,
	.get_eoa = disk_get_allocated,
	.set_eoa = disk_set_allocated,
	.get_eof = disk_get_end,
	.get_handle = disk_get_handle,
	.read = disk_read,
	.write = disk_write,
	.truncate = disk_truncate,
	.fl_map = H5FD_FLMAP_DICHOTOMY,
};

bool hdf5_disk_use(hid_t access_list)
{
	static hid_t id = H5I_INVALID_HID;
	/* Not registered yet, or H5close was called. */
	if (H5Iis_valid(id) <= 0 || H5Iget_type(id) != H5I_VFL)
		id = H5FDregister(&driver);
	failure_at_close = 0;
	return id >= 0 && H5Pset_driver(access_list, id, NULL) >= 0;
}

int hdf5_disk_failure(hid_t file)
{
	void *handle;
	if (file < 0)
		return failure_at_close;
	if (H5Fget_vfd_handle(file, H5P_DEFAULT, &handle) < 0)
		return EIO;
	return ((const Disk *)handle)->failure;
}

int hdf5_disk_descriptor(hid_t file)
{
	void *handle;
	return H5Fget_vfd_handle(file, H5P_DEFAULT, &handle) < 0
		       ? -1
		       : ((const Disk *)handle)->descriptor;
}

int hdf5_disk_close(hid_t file)
{
	failure_at_close = 0;
	return H5Fclose(file) < 0 ? EIO : failure_at_close;
}
