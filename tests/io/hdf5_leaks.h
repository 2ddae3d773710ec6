/* For tests that read damaged HDF5 files under the leak sanitizer. */
#ifndef TOMOS_TESTS_IO_HDF5_LEAKS_H
#define TOMOS_TESTS_IO_HDF5_LEAKS_H

/* HDF5 1.10 loses some bytes of its own when an object's checksum is wrong. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libhdf5";
}

#endif
