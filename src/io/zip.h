/* Reading of zip archives, as written by NumPy's savez. */
#ifndef TOMOS_IO_ZIP_H
#define TOMOS_IO_ZIP_H

#include "io/io.h"

typedef struct {
	int descriptor;
	const char *path;
	int64_t size;
	unsigned char *directory;
	int64_t directory_size;
} Archive;

enum { ZIP_STORED = 0, ZIP_DEFLATED = 8 };

/* Bytes of the fixed parts of each record. */
enum { ZIP_LOCAL = 30, ZIP_CENTRAL = 46, ZIP_END = 22, ZIP_END64 = 56, ZIP_LOCATOR64 = 20 };

typedef struct {
	const unsigned char *name;
	int64_t name_length, packed, size, at;
	int method;
	uint32_t crc;
} Entry;

/* zip_close must be called also after a failure; the path must stay valid. */
tomos_status zip_open(Archive *archive, const char *path);
void zip_close(Archive *archive);
tomos_status zip_damaged(const Archive *archive, const char *what);
/* The entry at *at of the directory, 0 for the first; *at becomes the next position, -1 at the
 * end. */
tomos_status zip_next(const Archive *archive, int64_t *at, Entry *entry);
bool zip_is(const Entry *entry, const char *name, const char *ending);
/* Offset of the bytes of a member; rejects sizes that exceed the file. */
tomos_status zip_locate(const Archive *archive, const Entry *entry, int64_t *at);
/* The first `wanted` bytes of a member, in pieces; if these are all, the checksum is verified. */
typedef tomos_status (*ZipSink)(void *user, const unsigned char *bytes, int64_t count);
tomos_status zip_take(
	const Archive *archive, const Entry *entry, int64_t wanted, ZipSink sink, void *user);
/* The same, into memory to be freed with mem_free. */
tomos_status zip_bytes(
	const Archive *archive, const Entry *entry, int64_t wanted, unsigned char **bytes);

#endif
