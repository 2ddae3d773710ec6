/* File calls that fail on demand. Streams are made of descriptors here, so that what stdio reads
 * and writes goes through the same calls. */
#include "fault_calls.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { MOST_FILES = 1024 };
static char *paths[MOST_FILES]; /* of the open descriptors that count */

static const char *path_of(int file)
{
	return file >= 0 && file < MOST_FILES ? paths[file] : NULL;
}

static bool writable[MOST_FILES];

static int opened(int file, const char *path, bool writes)
{
	if (file >= 0 && file < MOST_FILES && fault_concerns(path)) {
		paths[file] = strdup(path);
		writable[file] = writes;
	}
	return file;
}

/* ---- names -------------------------------------------------------------------------------- */

#define MODE_OF(flags, mode) \
	mode_t mode = 0; \
	if ((flags)&O_CREAT) { \
		va_list list; \
		va_start(list, flags); \
		mode = va_arg(list, mode_t); \
		va_end(list); \
	}
#define OPENS(flags) ((flags)&O_CREAT ? FAULT_MAKES : FAULT_NAMES)

int open(const char *path, int flags, ...)
{
	FAULT_NEXT(open)
	MODE_OF(flags, mode)
	return fault_file("open", OPENS(flags), path)
		       ? -1
		       : opened(next(path, flags, mode), path, (flags & O_ACCMODE) != O_RDONLY);
}

int open64(const char *path, int flags, ...)
{
	MODE_OF(flags, mode)
	return open(path, flags, mode);
}

int mkstemp(char *path)
{
	FAULT_NEXT(mkstemp)
	return fault_file("mkstemp", FAULT_MAKES, path) ? -1 : opened(next(path), path, true);
}

#define NAMED(type, name, kind, list, arguments, path) \
	type name list \
	{ \
		FAULT_NEXT(name) \
		return fault_file(#name, kind, path) ? -1 : next arguments; \
	}
NAMED(int, rename, FAULT_MAKES, (const char *from, const char *to), (from, to), to)
NAMED(int, renameat2, FAULT_MAKES,
	(int from_in, const char *from, int to_in, const char *to, unsigned flags),
	(from_in, from, to_in, to, flags), to)
NAMED(int, link, FAULT_MAKES, (const char *from, const char *to), (from, to), to)
NAMED(int, mkdir, FAULT_MAKES, (const char *path, mode_t mode), (path, mode), path)
NAMED(int, unlink, FAULT_NAMES, (const char *path), (path), path)
NAMED(int, remove, FAULT_NAMES, (const char *path), (path), path)
NAMED(int, access, FAULT_LOOKS, (const char *path, int mode), (path, mode), path)
NAMED(int, stat, FAULT_LOOKS, (const char *path, struct stat *info), (path, info), path)
NAMED(int, lstat, FAULT_LOOKS, (const char *path, struct stat *info), (path, info), path)
NAMED(int, statvfs, FAULT_LOOKS, (const char *path, struct statvfs *info), (path, info), path)
NAMED(int, scandir, FAULT_NAMES,
	(const char *path, struct dirent ***list, int (*fits)(const struct dirent *),
		int (*order)(const struct dirent **, const struct dirent **)),
	(path, list, fits, order), path)
NAMED(int, nftw, FAULT_LOOKS,
	(const char *path, int (*visit)(const char *, const struct stat *, int, struct FTW *),
		int files, int flags),
	(path, visit, files, flags), path)

char *realpath(const char *path, char *found)
{
	FAULT_NEXT(realpath)
	return fault_file("realpath", FAULT_LOOKS, path) ? NULL : next(path, found);
}

/* ---- descriptors -------------------------------------------------------------------------- */

#define MOVES(name, kind, list, arguments, shorter) \
	ssize_t name list \
	{ \
		FAULT_NEXT(name) \
		const char *path = path_of(file); \
		if (fault_file(#name, kind, path)) \
			return -1; \
		if (fault_short(#name, path, bytes)) \
			return next shorter; \
		return next arguments; \
	}
MOVES(read, FAULT_READS, (int file, void *data, size_t bytes), (file, data, bytes),
	(file, data, bytes / 2))
MOVES(write, FAULT_WRITES, (int file, const void *data, size_t bytes), (file, data, bytes),
	(file, data, bytes / 2))
MOVES(pread, FAULT_READS, (int file, void *data, size_t bytes, off_t at), (file, data, bytes, at),
	(file, data, bytes / 2, at))
MOVES(pwrite, FAULT_WRITES, (int file, const void *data, size_t bytes, off_t at),
	(file, data, bytes, at), (file, data, bytes / 2, at))

#define HELD(name, kind, list, arguments) \
	int name list \
	{ \
		FAULT_NEXT(name) \
		return fault_file(#name, kind, path_of(file)) ? -1 : next arguments; \
	}
HELD(ftruncate, FAULT_WRITES, (int file, off_t bytes), (file, bytes))
HELD(fsync, FAULT_WRITES, (int file), (file))
HELD(fdatasync, FAULT_WRITES, (int file), (file))
HELD(flock, FAULT_LOOKS, (int file, int what), (file, what))
HELD(fstat, FAULT_LOOKS, (int file, struct stat *info), (file, info))

off_t lseek(int file, off_t at, int from)
{
	FAULT_NEXT(lseek)
	return fault_file("lseek", FAULT_LOOKS, path_of(file)) ? -1 : next(file, at, from);
}

void *mmap(void *at, size_t bytes, int access, int flags, int file, off_t from)
{
	FAULT_NEXT(mmap)
	return fault_file("mmap", FAULT_READS, path_of(file))
		       ? MAP_FAILED
		       : next(at, bytes, access, flags, file, from);
}

/* The descriptor is closed also if close fails, which only happens to files that were written. */
int close(int file)
{
	FAULT_NEXT(close)
	const char *path = path_of(file);
	bool fails = path && writable[file] && fault_file("close", FAULT_WRITES, path);
	int error = errno;
	if (path) {
		free(paths[file]);
		paths[file] = NULL;
	}
	int status = next(file);
	if (fails)
		errno = error;
	return fails ? -1 : status;
}

/* ---- streams ------------------------------------------------------------------------------ */

typedef struct {
	int file;
	FILE *stream;
} Cookie;
static Cookie cookies[MOST_FILES];

static ssize_t stream_read(void *cookie, char *data, size_t bytes)
{
	return read(((Cookie *)cookie)->file, data, bytes);
}

/* To stdio a short write is a failure, unless the rest is tried: the kernel's writes are tried
 * again there, a cookie's are not. */
static ssize_t stream_write(void *cookie, const char *data, size_t bytes)
{
	size_t done = 0;
	while (done < bytes) {
		ssize_t count = write(((Cookie *)cookie)->file, data + done, bytes - done);
		if (count <= 0)
			return (ssize_t)done;
		done += (size_t)count;
	}
	return (ssize_t)done;
}

static int stream_seek(void *cookie, off64_t *at, int from)
{
	*at = lseek(((Cookie *)cookie)->file, *at, from);
	return *at < 0 ? -1 : 0;
}

static int stream_close(void *cookie)
{
	((Cookie *)cookie)->stream = NULL;
	return close(((Cookie *)cookie)->file);
}

static int flags_of(const char *mode)
{
	int flags = strchr(mode, '+') ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
	if (mode[0] != 'r')
		flags |= O_CREAT | (mode[0] == 'a' ? O_APPEND : O_TRUNC);
	return flags | (strchr(mode, 'x') ? O_EXCL : 0) | O_CLOEXEC;
}

FILE *fopen(const char *path, const char *mode)
{
	FAULT_NEXT(fopen)
	if (!fault_concerns(path))
		return next(path, mode);
	int file = open(path, flags_of(mode), 0666);
	if (file < 0 || file >= MOST_FILES)
		return NULL;
	cookies[file] = (Cookie){file, NULL};
	cookies[file].stream = fopencookie(&cookies[file], mode,
		(cookie_io_functions_t){stream_read, stream_write, stream_seek, stream_close});
	return cookies[file].stream; // cppcheck-suppress resourceLeak ; the stream closes the file
}

FILE *fopen64(const char *path, const char *mode)
{
	return fopen(path, mode);
}

int fileno(FILE *stream)
{
	FAULT_NEXT(fileno)
	for (int i = 0; i < MOST_FILES; i++)
		if (stream && cookies[i].stream == stream)
			return i;
	return next(stream);
}
