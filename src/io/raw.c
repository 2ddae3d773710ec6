/* Binary files without a header, in a layout given by the user. */
#include <stdio.h>
#include <string.h>
#include "io/io.h"

static bool raw_probe(const unsigned char *head, size_t length)
{
	(void)head;
	(void)length;
	return false; /* not recognisable by content */
}

static tomos_status reject(const File *file, const char *text)
{
	return fail(TOMOS_BAD_VALUE,
		"'%s': raw is '%s'; it must be N0,N1,N2,TYPE[,SKIP[,big]], for instance "
		"1500,64,2048,uint16",
		file->path, text);
}

static tomos_status take_layout(File *file, Plain *raw, const char *text)
{
	long long axes[3], skip = 0;
	char type[12] = "", order[8] = "";
	int got = sscanf(text, "%lld,%lld,%lld,%11[a-z0-9],%lld,%7s", &axes[0], &axes[1], &axes[2],
		type, &skip, order);
	bool big = strcmp(order, "big") == 0;
	if (got < 4 || skip < 0 || (got == 6 && !big && strcmp(order, "little") != 0) ||
		!element_named(type, &file->element))
		return reject(file, text);
	file->element = element_ordered(file->element, big);
	raw->data = skip;
	const int64_t shape[3] = {axes[0], axes[1], axes[2]};
	int64_t count;
	if (shape_count(shape, &count) != TOMOS_OK)
		return reject(file, text);
	memcpy(file->shape, shape, sizeof shape);
	return TOMOS_OK;
}

static tomos_status raw_open(File *file, const tomos_file_options *options)
{
	TRY(plain_new(file, sizeof(Plain)));
	Plain *raw = file->own;
	TRY(flat_open(&raw->descriptor, &raw->size, file->path));
	TRY(take_layout(file, raw, options->raw));
	return plain_check(raw, file, file->path);
}

static tomos_status raw_create(File *file)
{
	TRY(plain_new(file, sizeof(Plain)));
	Plain *raw = file->own;
	TRY(file_descriptor(file, &raw->descriptor));
	return plain_begin(file, raw);
}

const Format format_raw = {
	.name = "raw",
	.endings = "raw|bin",
	.probe = raw_probe,
	.open = raw_open,
	.create = raw_create,
	PLAIN_FORMAT,
};
