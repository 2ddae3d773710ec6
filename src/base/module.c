/* Where the modules are: libraries opened at run time. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "base/base.h"

tomos_status module_path(char **path, const char *name)
{
	static const char here;
	const char *folder = getenv("TOMOS_MODULES");
	if (folder && *folder)
		return mem_printf(path, "%s/libtomos_%s.so", folder, name);
	Dl_info info;
	if (!dladdr(&here, &info) || !info.dli_fname)
		return mem_printf(path, "libtomos_%s.so", name);
	const char *slash = strrchr(info.dli_fname, '/');
	int length = slash ? (int)(slash - info.dli_fname) : 1;
	return mem_printf(path, "%.*s/libtomos_%s.so", length, slash ? info.dli_fname : ".", name);
}
