/* The page: files of the folder web, which are part of the program. */
#include <string.h>
#include "page.h"
#include "view.h"

static const char *type_of(const char *name)
{
	static const char *const types[][2] = {{".html", "text/html; charset=utf-8"},
		{".js", "text/javascript; charset=utf-8"}, {".css", "text/css; charset=utf-8"},
		{".svg", "image/svg+xml"}, {".png", "image/png"}, {".json", "application/json"}};
	for (int i = 0; i < COUNT(types); i++)
		if (ends_with(name, types[i][0]))
			return types[i][1];
	return "application/octet-stream";
}

bool page_find(const char *name, view_reply *reply)
{
	for (int i = 0; i < page_count; i++)
		if (strcmp(page_files[i].name, name) == 0) {
			*reply = (view_reply){.status = 200,
				.type = type_of(name),
				.bytes = page_files[i].bytes,
				.size = page_files[i].size,
				.file = -1};
			return true;
		}
	return false;
}
