/* Structs of callers compiled against other versions of the library: each begins with its size,
 * `bytes`. */
#include <stdio.h>
#include <string.h>
#include "base/base.h"

enum { LARGEST = 65536 }; /* bytes; a larger value means that the member was not initialised */

static size_t size_of(const void *any)
{
	size_t bytes;
	memcpy(&bytes, any, sizeof bytes);
	return bytes;
}

static tomos_status check_size(size_t bytes, const char *name)
{
	if (bytes >= sizeof(size_t) && bytes <= LARGEST)
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE, "the member bytes of a %s is %zu: it must be sizeof(%s)", name,
		bytes, name);
}

tomos_status struct_take(void *own, const void *given, const char *name)
{
	if (!given)
		return TOMOS_OK;
	size_t known = size_of(own), bytes = size_of(given);
	TRY(check_size(bytes, name));
	for (size_t i = known; i < bytes; i++)
		if (((const char *)given)[i] != 0)
			return fail(TOMOS_UNSUPPORTED,
				"a %s has %zu bytes, of which tomos %s knows the first %zu, but "
				"byte %zu is not 0: the program needs a newer library",
				name, bytes, TOMOS_VERSION, known, i);
	memcpy((char *)own + sizeof known, (const char *)given + sizeof known,
		(bytes < known ? bytes : known) - sizeof known);
	return TOMOS_OK;
}

tomos_status struct_give(void *given, const void *own, const char *name)
{
	size_t known = size_of(own), bytes = size_of(given);
	TRY(check_size(bytes, name));
	memcpy((char *)given + sizeof known, (const char *)own + sizeof known,
		(bytes < known ? bytes : known) - sizeof known);
	if (bytes > known)
		memset((char *)given + known, 0, bytes - known);
	return TOMOS_OK;
}

tomos_status options_take(void *options, const void *given, const char *group)
{
	char name[64];
	snprintf(name, sizeof name, "tomos_%s_options", group);
	TRY(struct_take(options, given, name));
	return tomos_options_check(group, options);
}
