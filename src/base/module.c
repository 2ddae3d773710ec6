/* Modules: libraries opened at run time, and kept open. */
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

static tomos_status other_version(const char *name, tomos_status failure)
{
	char *path;
	TRY(module_path(&path, name));
	failure = fail(failure, "'%s' belongs to another version than %s", path, TOMOS_VERSION);
	mem_free(path);
	return failure;
}

tomos_status module_symbol(void **address, const char *name, const char *symbol, const char *what,
	tomos_status failure)
{
	char *path;
	TRY(module_path(&path, name));
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	mem_free(path);
	if (!library)
		return fail(failure, "%s cannot be opened: %s", what, dlerror());
	*address = dlsym(library, symbol);
	return *address ? TOMOS_OK : other_version(name, failure);
}

tomos_status module_open(void *functions, const char *name, const char *entry, const void *host,
	const char *what, tomos_status failure)
{
	void *address;
	ModuleEntry *call;
	TRY(module_symbol(&address, name, entry, what, failure));
	memcpy(&call, &address, sizeof call);
	const void *result = call(host);
	memcpy(functions, &result, sizeof result);
	return result ? TOMOS_OK : other_version(name, failure);
}

void module_set_message(const char *message)
{
	(void)fail(TOMOS_OK, "%s", message);
}
