/* HDF5 file driver for files under construction. */
#ifndef TOMOS_IO_HDF5_DISK_H
#define TOMOS_IO_HDF5_DISK_H

#include <stdbool.h>
#include <hdf5.h>

/* After a failed write the HDF5 library can neither flush nor close the file, and the process
 * crashes at exit. Files are therefore written through a driver that records the first failure,
 * discards all later writes and reports success; hdf5_disk_failure returns the failure. Not
 * thread-safe. */
bool hdf5_disk_use(hid_t access_list);
/* errno of the first failure, or 0. */
int hdf5_disk_failure(hid_t file);
int hdf5_disk_descriptor(hid_t file); /* -1: none */
/* Closes the file; errno of its first failure, or 0. */
int hdf5_disk_close(hid_t file);

#endif
