/* Versions of the libraries that files are read and written with. */
#include <hdf5.h>
#include <png.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <tiffio.h>
#include <zlib.h>
#include "io/io.h"

static char text[160];

static void describe(void)
{
	const char *tiff = strstr(TIFFGetVersion(), "Version ");
	unsigned major = 0, minor = 0, release = 0;
	H5get_libversion(&major, &minor, &release);
	tiff = tiff ? tiff + strlen("Version ") : "";
	snprintf(text, sizeof text, "HDF5 %u.%u.%u, libtiff %.*s, libpng %s, zlib %s", major, minor,
		release, (int)strcspn(tiff, "\n"), tiff, png_get_libpng_ver(NULL), zlibVersion());
}

const char *tomos_libraries(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, describe);
	return text;
}
