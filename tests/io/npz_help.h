/* Archives of npy files, made by hand as NumPy's savez and savez_compressed would. */
#ifndef TOMOS_TESTS_IO_NPZ_HELP_H
#define TOMOS_TESTS_IO_NPZ_HELP_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* One array: descr and shape as NumPy writes them, "<u2" and "(5, 3, 4)". */
typedef struct {
	const char *name, *descr, *shape;
	const void *data;
	size_t bytes;
	int packed; /* 1: deflated */
} NpzArray;

enum { NPZ_HEADER = 128 };

static inline unsigned char *npz_put(unsigned char *to, int bytes, uint64_t value)
{
	for (int i = 0; i < bytes; i++, value >>= 8)
		*to++ = (unsigned char)(value & 255);
	return to;
}

/* The array's npy file; its length. */
static inline size_t npz_member(const NpzArray *a, unsigned char *to)
{
	char text[NPZ_HEADER + 1];
	snprintf(text, sizeof text, "\x93NUMPY%c%c%c%c%-117s\n", 1, 1, NPZ_HEADER - 10, 1, "");
	int length = snprintf(text + 10, NPZ_HEADER - 10,
		"{'descr': '%s', 'fortran_order': False, 'shape': %s, }", a->descr, a->shape);
	text[10 + length] = ' ';
	text[7] = text[9] = 0;
	memcpy(to, text, NPZ_HEADER);
	memcpy(to + NPZ_HEADER, a->data, a->bytes);
	return NPZ_HEADER + a->bytes;
}

static inline size_t npz_pack(
	const unsigned char *from, size_t length, unsigned char *to, size_t room)
{
	z_stream z = {.next_in = (unsigned char *)(uintptr_t)from,
		.avail_in = (uInt)length,
		.next_out = to,
		.avail_out = (uInt)room};
	deflateInit2(&z, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
	deflate(&z, Z_FINISH);
	deflateEnd(&z);
	return room - z.avail_out;
}

/* From the version needed to the length of the extra field, which local and central headers
 * share. */
static inline unsigned char *npz_common(
	unsigned char *to, const NpzArray *a, uint32_t crc, size_t packed, size_t size)
{
	to = npz_put(to, 2, 20);
	to = npz_put(to, 2, 0);
	to = npz_put(to, 2, a->packed ? 8 : 0);
	to = npz_put(to, 4, 0x00210000);
	to = npz_put(to, 4, crc);
	to = npz_put(to, 4, packed);
	to = npz_put(to, 4, size);
	to = npz_put(to, 2, strlen(a->name));
	return npz_put(to, 2, 0);
}

/* The whole archive into `to`, which has room enough; its length. */
static inline size_t npz_make(unsigned char *to, const NpzArray *arrays, int count)
{
	unsigned char *start = to, central[4096] = {0}, *end = central;
	for (int i = 0; i < count; i++) {
		const NpzArray *a = &arrays[i];
		unsigned char *member = malloc(2 * (NPZ_HEADER + a->bytes) + 64);
		size_t size = npz_member(a, member), packed = size, at = (size_t)(to - start);
		uint32_t crc = (uint32_t)crc32(0, member, (uInt)size);
		unsigned char *bytes = member;
		if (a->packed) {
			bytes = member + size;
			packed = npz_pack(member, size, bytes, size + 64);
		}
		to = npz_common(npz_put(to, 4, 0x04034b50), a, crc, packed, size);
		memcpy(to, a->name, strlen(a->name));
		to += strlen(a->name);
		memcpy(to, bytes, packed);
		to += packed;
		free(member);
		end = npz_common(
			npz_put(npz_put(end, 4, 0x02014b50), 2, 0x314), a, crc, packed, size);
		end = npz_put(npz_put(end, 8, 0), 2, 0);
		end = npz_put(end, 4, at);
		memcpy(end, a->name, strlen(a->name));
		end += strlen(a->name);
	}
	size_t directory = (size_t)(to - start), length = (size_t)(end - central);
	memcpy(to, central, length);
	to = npz_put(npz_put(to + length, 4, 0x06054b50), 4, 0);
	to = npz_put(npz_put(to, 2, (uint64_t)count), 2, (uint64_t)count);
	to = npz_put(npz_put(npz_put(to, 4, length), 4, directory), 2, 0);
	return (size_t)(to - start);
}

#endif
