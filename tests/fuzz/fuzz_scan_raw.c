/* A scan of plain numbers: the first line is its description, the whole is the file. */
#include "fuzz_scan.h"

static void read_raw(const char *path, const uint8_t *bytes, size_t size)
{
	char text[128];
	const uint8_t *end = memchr(bytes, '\n', size);
	size_t length = end ? (size_t)(end - bytes) : size;
	if (length == 0 || length >= sizeof text)
		return;
	memcpy(text, bytes, length);
	text[length] = 0;
	read_scan_as(path, text);
}

/* Files of as many bytes as they say. */
static void put_seeds(const char *directory)
{
	put_text(directory, "seed", "2,3,4,uint8,15\n123456789012345678901234");
	put_text(directory, "seed-big", "1,3,2,uint16,20,big\n123456789012");
}

const Target target = {NULL, NULL, 0, read_raw, put_seeds};
