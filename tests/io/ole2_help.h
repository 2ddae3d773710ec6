/* Writes OLE2 compound files with 512-byte sectors, for tests of their reader. */
#ifndef TOMOS_TESTS_IO_OLE2_HELP_H
#define TOMOS_TESTS_IO_OLE2_HELP_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLE_SECTOR = 512, OLE_SMALL = 64, OLE_CUTOFF = 4096, OLE_MOST = 1024 };

typedef struct {
	char name[32];
	int parent, type; /* 1: storage, 2: stream, 5: root */
	unsigned char *data;
	size_t size;
	uint32_t start;
} OleEntry;

typedef struct {
	OleEntry entries[OLE_MOST];
	int count;
	int scatter; /* sectors of large streams in reverse order */
	unsigned char *sectors;
	uint32_t *fat, *mini;
	uint32_t used, small;
	size_t capacity;
	unsigned char *little; /* the mini stream */
} OleWriter;

static inline OleWriter *ole_new(void)
{
	OleWriter *w = calloc(1, sizeof *w);
	w->entries[0] = (OleEntry){.name = "Root Entry", .parent = -1, .type = 5};
	w->count = 1;
	return w;
}

static inline int ole_child(OleWriter *w, int parent, const char *name, size_t length, int type)
{
	for (int i = 1; i < w->count; i++)
		if (w->entries[i].parent == parent && strlen(w->entries[i].name) == length &&
			strncmp(w->entries[i].name, name, length) == 0)
			return i;
	OleEntry *e = &w->entries[w->count];
	snprintf(e->name, sizeof e->name, "%.*s", (int)length, name);
	e->parent = parent;
	e->type = type;
	return w->count++;
}

/* A stream "Storage/Name" or "Name"; a later one of that name replaces the earlier. */
static inline void ole_put(OleWriter *w, const char *path, const void *data, size_t size)
{
	const char *slash = strchr(path, '/');
	int parent = slash ? ole_child(w, 0, path, (size_t)(slash - path), 1) : 0;
	const char *name = slash ? slash + 1 : path;
	OleEntry *e = &w->entries[ole_child(w, parent, name, strlen(name), 2)];
	free(e->data);
	e->data = malloc(size ? size : 1);
	memcpy(e->data, data, size);
	e->size = size;
}

static inline void ole_grow(OleWriter *w, uint32_t sectors)
{
	while (w->used + sectors > w->capacity) {
		w->capacity = 2 * w->capacity + 64;
		w->sectors = realloc(w->sectors, w->capacity * OLE_SECTOR);
		w->fat = realloc(w->fat, w->capacity * sizeof *w->fat);
	}
	memset(w->sectors + (size_t)w->used * OLE_SECTOR, 0, (size_t)sectors * OLE_SECTOR);
}

/* A chain of sectors with these bytes; returns its first sector. */
static inline uint32_t ole_chain(OleWriter *w, const void *data, size_t size, int scatter)
{
	uint32_t sectors = (uint32_t)((size + OLE_SECTOR - 1) / OLE_SECTOR), base = w->used;
	if (sectors == 0)
		return 0xfffffffeu;
	ole_grow(w, sectors);
	for (uint32_t i = 0; i < sectors; i++) {
		uint32_t at = base + (scatter ? sectors - 1 - i : i);
		size_t done = (size_t)i * OLE_SECTOR;
		size_t part = size - done < OLE_SECTOR ? size - done : OLE_SECTOR;
		memcpy(w->sectors + (size_t)at * OLE_SECTOR, (const char *)data + done, part);
		w->fat[at] = i + 1 == sectors ? 0xfffffffeu : scatter ? at - 1 : at + 1;
	}
	w->used += sectors;
	return scatter ? base + sectors - 1 : base;
}

static inline void ole_number(unsigned char *to, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		to[i] = (unsigned char)(value >> 8 * i);
}

static inline void ole_small(OleWriter *w, OleEntry *e)
{
	uint32_t sectors = (uint32_t)((e->size + OLE_SMALL - 1) / OLE_SMALL);
	e->start = sectors ? w->small : 0xfffffffeu;
	w->little = realloc(w->little, (size_t)(w->small + sectors + 1) * OLE_SMALL);
	w->mini = realloc(w->mini, (size_t)(w->small + sectors + 1) * sizeof *w->mini);
	memset(w->little + (size_t)w->small * OLE_SMALL, 0, (size_t)sectors * OLE_SMALL);
	memcpy(w->little + (size_t)w->small * OLE_SMALL, e->data, e->size);
	for (uint32_t i = 0; i < sectors; i++)
		w->mini[w->small + i] = i + 1 == sectors ? 0xfffffffeu : w->small + i + 1;
	w->small += sectors;
}

/* Children of an entry are a list of right siblings. */
static inline void ole_entry(const OleWriter *w, int at, unsigned char *to)
{
	const OleEntry *e = &w->entries[at];
	uint32_t child = 0xffffffffu, right = 0xffffffffu;
	for (int i = w->count; i-- > 1;) {
		if (w->entries[i].parent == at)
			child = (uint32_t)i;
		if (i > at && w->entries[i].parent == e->parent)
			right = (uint32_t)i;
	}
	for (size_t i = 0; e->name[i]; i++)
		to[2 * i] = (unsigned char)e->name[i];
	ole_number(to + 64, 2 * (strlen(e->name) + 1), 2);
	to[66] = (unsigned char)e->type;
	ole_number(to + 68, 0xffffffffu, 4);
	ole_number(to + 72, at ? right : 0xffffffffu, 4);
	ole_number(to + 76, child, 4);
	ole_number(to + 116, e->start, 4);
	ole_number(to + 120, e->size, 4);
}

static inline uint32_t ole_links(OleWriter *w, const uint32_t *list, uint32_t count)
{
	uint32_t padded = (count + 127) / 128 * 128;
	unsigned char *bytes = malloc(padded * 4 + 4);
	for (uint32_t i = 0; i < padded; i++)
		ole_number(bytes + 4 * i, i < count ? list[i] : 0xffffffffu, 4);
	uint32_t start = ole_chain(w, bytes, padded * 4, 0);
	free(bytes);
	return start;
}

/* The table of all sectors, its own and those that list it included. */
static inline void ole_fat(OleWriter *w, unsigned char *header)
{
	uint32_t tables = 1, lists = 0, before = w->used;
	while (tables * 128 < before + tables + lists) {
		tables++;
		lists = tables > 109 ? (tables - 109 + 126) / 127 : 0;
	}
	ole_grow(w, tables + lists);
	for (uint32_t i = 0; i < tables + lists; i++)
		w->fat[before + i] = i < tables ? 0xfffffffdu : 0xfffffffcu;
	w->used += tables + lists;
	ole_number(header + 44, tables, 4);
	ole_number(header + 68, lists ? before + tables : 0xfffffffeu, 4);
	ole_number(header + 72, lists, 4);
	for (uint32_t i = 0; i < 109; i++)
		ole_number(header + 76 + 4 * i, i < tables ? before + i : 0xffffffffu, 4);
	for (uint32_t i = 0; i < lists; i++) {
		unsigned char *to = w->sectors + (size_t)(before + tables + i) * OLE_SECTOR;
		for (uint32_t k = 0; k < 127; k++) {
			uint32_t table = 109 + 127 * i + k;
			ole_number(to + 4 * k, table < tables ? before + table : 0xffffffffu, 4);
		}
		ole_number(to + 508, i + 1 < lists ? before + tables + i + 1 : 0xfffffffeu, 4);
	}
	for (uint32_t i = 0; i < tables * 128; i++)
		ole_number(w->sectors + (size_t)before * OLE_SECTOR + 4 * (size_t)i,
			i < w->used ? w->fat[i] : 0xffffffffu, 4);
}

/* Writes the file and frees the writer. */
static inline int ole_write(OleWriter *w, const char *path)
{
	unsigned char header[OLE_SECTOR] = {0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1};
	int padded = (w->count + 3) / 4 * 4;
	for (int i = 1; i < w->count; i++) {
		OleEntry *e = &w->entries[i];
		if (e->type == 2 && e->size < OLE_CUTOFF)
			ole_small(w, e);
		else if (e->type == 2)
			e->start = ole_chain(w, e->data, e->size, w->scatter);
	}
	w->entries[0].size = (size_t)w->small * OLE_SMALL;
	w->entries[0].start = ole_chain(w, w->little, w->entries[0].size, w->scatter);
	uint32_t mini = ole_links(w, w->mini, w->small);
	unsigned char *entries = calloc((size_t)padded, 128);
	for (int i = 0; i < w->count; i++)
		ole_entry(w, i, entries + 128 * (size_t)i);
	uint32_t directory = ole_chain(w, entries, (size_t)padded * 128, 0);
	ole_number(header + 24, 0x3e, 2);
	ole_number(header + 26, 3, 2);
	ole_number(header + 28, 0xfffe, 2);
	ole_number(header + 30, 9, 2);
	ole_number(header + 32, 6, 2);
	ole_number(header + 48, directory, 4);
	ole_number(header + 56, OLE_CUTOFF, 4);
	ole_number(header + 60, mini, 4);
	ole_number(header + 64, (w->small + 127) / 128, 4);
	ole_fat(w, header);
	FILE *file = fopen(path, "wb");
	int done = file && fwrite(header, OLE_SECTOR, 1, file) == 1 &&
		   fwrite(w->sectors, OLE_SECTOR, w->used, file) == w->used;
	done = file && fclose(file) == 0 && done;
	for (int i = 1; i < w->count; i++)
		free(w->entries[i].data);
	free(entries);
	free(w->sectors);
	free(w->fat);
	free(w->mini);
	free(w->little);
	free(w);
	return done;
}

#endif
