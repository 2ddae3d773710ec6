/* The numbers of a VTI file that are not simply there: base64, or compressed by zlib. */
#ifndef TOMOS_IO_VTI_H
#define TOMOS_IO_VTI_H

#include "io/io.h"

typedef struct {
	int descriptor;
	const char *path;
	int64_t at, end; /* first byte of the array in the file, and the end of the file */
	bool base64, packed, swapped;
	int word;      /* bytes of the numbers in the array's own header: 4 or 8 */
	int64_t bytes; /* of the numbers, unpacked */
} VtiArray;

/* Rejects raw numbers whose length, as stored before them, is not that of the volume. */
tomos_status vti_check_length(const VtiArray *array);
/* Writes the numbers to a file without a name. */
tomos_status vti_unpack(const VtiArray *array, int *unpacked);

#endif
