/* Results of `tomos bench` as JSON. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "bench.h"

/* Written to a temporary name, so that the file is never incomplete. */
static FILE *json_open(const char *path, char temporary[4096])
{
	snprintf(temporary, 4096, "%s.%ld.part", path, (long)getpid());
	FILE *file = fopen(temporary, "w");
	if (!file)
		complain("'%s' cannot be written: %s", path, strerror(errno));
	return file;
}

int bench_json(const settings *s, const char *backend, void (*print)(FILE *file, const void *user),
	const void *user)
{
	const char *path = s->bench.json;
	char temporary[4096];
	if (!path[0])
		return DONE;
	FILE *file = json_open(path, temporary);
	if (!file)
		return FAILED;
	fprintf(file, "{\n\"version\": \"%s\",\n\"backend\": ", tomos_version());
	json_text(file, backend);
	fprintf(file, ",\n\"threads\": %d,\n", tomos_threads());
	print(file, user);
	fprintf(file, "}\n");
	bool bad = ferror(file) != 0;
	bad |= fclose(file) != 0;
	if (bad || rename(temporary, path) != 0) {
		remove(temporary);
		return failed("'%s' cannot be written: %s", path, strerror(errno));
	}
	say("wrote %s\n", path);
	return DONE;
}
