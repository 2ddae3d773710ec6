/* Which call of the process is to fail. */
#include "fault_calls.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef enum { OFF, ANY, ACCESS, SPACE, SHORT, MEMORY } Kind;
static const struct {
	const char *name;
	Kind kind;
	int error;
} kinds[] = {{"EIO", ANY, EIO}, {"EACCES", ACCESS, EACCES}, {"ENOSPC", SPACE, ENOSPC},
	{"short", SHORT, 0}, {"memory", MEMORY, ENOMEM}};

static struct {
	Kind kind;
	int error;
	long nth;
	const char *under, *from, *log;
} plan;
static _Atomic long calls;
static _Atomic bool told;

__attribute__((constructor)) static void read_plan(void)
{
	const char *fault = getenv("FAULT"), *colon = fault ? strchr(fault, ':') : NULL;
	plan.under = getenv("FAULT_UNDER");
	plan.from = getenv("FAULT_FROM");
	plan.log = getenv("FAULT_LOG");
	for (size_t i = 0; colon && i < sizeof kinds / sizeof kinds[0]; i++)
		if (strncmp(fault, kinds[i].name, (size_t)(colon - fault)) == 0) {
			plan.error = kinds[i].error;
			plan.nth = strtol(colon + 1, NULL, 10);
			plan.kind = kinds[i].kind;
		}
}

void *fault_next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

/* With system calls, which are not interposed. */
static void tell(const char *call, const char *what)
{
	if (!plan.log || atomic_exchange(&told, true))
		return;
	long file = syscall(SYS_openat, AT_FDCWD, plan.log, O_WRONLY | O_CREAT | O_APPEND, 0666);
	(void)!syscall(SYS_write, file, call, strlen(call));
	(void)!syscall(SYS_write, file, " ", 1L);
	(void)!syscall(SYS_write, file, what, strlen(what));
	(void)!syscall(SYS_write, file, "\n", 1L);
	syscall(SYS_close, file);
}

static bool is_due(const char *call, const char *what)
{
	long number = atomic_fetch_add(&calls, 1) + 1;
	bool due = number == plan.nth || (plan.kind == SPACE && number > plan.nth);
	if (due)
		tell(call, what);
	return due;
}

bool fault_concerns(const char *path)
{
	return plan.kind != OFF && plan.kind != MEMORY && path && plan.under &&
	       (path[0] != '/' || strncmp(path, plan.under, strlen(plan.under)) == 0);
}

bool fault_file(const char *call, FaultCall kind, const char *path)
{
	bool fits = plan.kind == ANY ||
		    (plan.kind == ACCESS && (kind == FAULT_NAMES || kind == FAULT_MAKES)) ||
		    (plan.kind == SPACE && (kind == FAULT_WRITES || kind == FAULT_MAKES));
	if (!fits || !fault_concerns(path) || !is_due(call, path))
		return false;
	errno = plan.error;
	return true;
}

bool fault_short(const char *call, const char *path, size_t bytes)
{
	return plan.kind == SHORT && bytes > 1 && fault_concerns(path) && is_due(call, path);
}

static bool is_from(const char *file)
{
	const char *base = strrchr(file, '/');
	base = base ? base + 1 : file;
	for (const char *name = plan.from; name && *name;) {
		size_t length = strcspn(name, ":");
		char part[64] = "";
		memcpy(part, name, length < sizeof part ? length : sizeof part - 1);
		if (strstr(base, part) == base)
			return true;
		name += length + (name[length] == ':');
	}
	return false;
}

bool fault_memory(const char *call, const void *from)
{
	Dl_info info;
	if (plan.kind != MEMORY || !dladdr(from, &info) || !info.dli_fname ||
		!is_from(info.dli_fname) || !is_due(call, info.dli_sname ? info.dli_sname : "?"))
		return false;
	errno = ENOMEM;
	return true;
}
