/* The files of an open Zarr by their names, for programs that read it by its address. Each folder
 * is opened from the one above it, without links, so that nothing outside can be reached. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "view.h"

/* Opens the file below `folder`, whose descriptor is taken over; -1: there is none. */
static int open_below(int folder, const char *path)
{
	char name[256];
	while (folder >= 0) {
		size_t length = strcspn(path, "/");
		bool last = !path[length];
		if (length == 0 || length >= sizeof name)
			break;
		memcpy(name, path, length);
		name[length] = 0;
		int kind = last ? O_NONBLOCK : O_DIRECTORY;
		int next = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | kind);
		close(folder);
		if (last)
			return next;
		folder = next;
		path += length + 1;
	}
	if (folder >= 0)
		close(folder);
	return -1;
}

static const char *type_of(const char *path)
{
	bool text = ends_with(path, ".json") || ends_with(path, ".zattrs") ||
		    ends_with(path, ".zarray") || ends_with(path, ".zgroup") ||
		    ends_with(path, ".zmetadata");
	return text ? "application/json" : "application/octet-stream";
}

int zarr_answer(const view_source *source, const char *path, const char *range, view_reply *reply)
{
	struct stat is;
	view_range wanted;
	int file =
		open_below(open(source_folder(source), O_RDONLY | O_DIRECTORY | O_CLOEXEC), path);
	if (file < 0 || fstat(file, &is) != 0 || !S_ISREG(is.st_mode)) {
		if (file >= 0)
			close(file);
		reply_error(reply, 404, "there is no such file");
		reply->shared = true;
		return reply->status;
	}
	if (!view_range_parse(&wanted, range, is.st_size)) {
		close(file);
		reply_error(reply, 416, "the range is not in the file");
		reply->shared = true;
		return reply->status;
	}
	*reply = (view_reply){.status = wanted.part ? 206 : 200,
		.type = type_of(path),
		.size = wanted.count,
		.file = file,
		.at = wanted.first,
		.whole = is.st_size,
		.part = wanted.part,
		.shared = true};
	return reply->status;
}
