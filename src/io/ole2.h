/* Streams of OLE2 compound files. */
#ifndef TOMOS_IO_OLE2_H
#define TOMOS_IO_OLE2_H

#include "base/base.h"

typedef struct Ole2 Ole2;

typedef struct {
	uint32_t start;
	int64_t size;
} OleStream;

bool ole2_head(const void *head, size_t length);
tomos_status ole2_open(Ole2 **ole, const char *path);
void ole2_close(Ole2 *ole);
/* The stream of a path like "ImageInfo/Angles", in any case. */
bool ole2_find(const Ole2 *ole, const char *path, OleStream *stream);
/* From any thread. */
tomos_status ole2_read(
	const Ole2 *ole, const OleStream *stream, int64_t at, int64_t bytes, void *out);

#endif
