/* How HDF5 files under construction reach the disk. */
#ifndef TOMOS_IO_HDF5_DISK_H
#define TOMOS_IO_HDF5_DISK_H

#include <stdbool.h>
#include <hdf5.h>

/* The library ends badly where a write fails: a file that cannot be flushed cannot be closed either,
 * and the process falls over it at exit. So files are written through a driver that keeps the first
 * failure to itself and drops all that follows; hdf5_disk_failure asks for it. One caller at a time. */
bool hdf5_disk_use(hid_t access_list);
/* errno of the first failure, or 0. */
int hdf5_disk_failure(hid_t file);
/* Closes the file; the failure, or 0. */
int hdf5_disk_close(hid_t file);

#endif
