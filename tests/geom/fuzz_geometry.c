/* Any bytes as a geometry file: read, or refused with a sentence; nothing leaks. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "geom/geom.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[64];
	int64_t live = mem_live();
	tomos_geometry *scan;
	for (int json = 0; json < 2; json++) {
		snprintf(path, sizeof path, "/tmp/tomos-fuzz-%ld.%s", (long)getpid(),
			json ? "json" : "txt");
		FILE *file = fopen(path, "wb");
		if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
			abort();
		tomos_status status =
			tomos_geometry_read(&scan, path, json ? 0 : 3, json ? 0 : 5, 1);
		if ((status == TOMOS_OK) != (scan != NULL) || (!scan && !*tomos_message()))
			abort();
		tomos_geometry_free(scan);
		remove(path);
	}
	if (mem_live() != live)
		abort();
	return 0;
}
