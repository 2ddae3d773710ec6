/* The list of frames of an Elekta scan: _Frames.xml, or two tables in dBase's format.
 *
 * IMAGE.DBF has a record for each scan, with DICOM_UID, which is in the name of its folder
 * "img_<uid>", and DBID; FRAME.DBF one for each view, with the DBID as IMA_DBID.
 */
#include "run/scanner/frame_list.h"
#include <ctype.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/xml.h"

enum { DBF_HEAD = 32, DBF_FIELD = 32, DBF_END = 0x0d, DELETED = '*' };

static tomos_status add_entry(FrameEntries *list, FrameEntry entry)
{
	if (!(fabs(entry.angle) < 1e6 && fabs(entry.u) < 1e6 && fabs(entry.v) < 1e6))
		return fail(TOMOS_BAD_FILE, "'%s', frame %lld: %g degrees, centre at %g, %g mm",
			list->path, (long long)list->count, entry.angle, entry.u, entry.v);
	TRY(mem_grow(&list->entries, list->count, &list->capacity, sizeof *list->entries,
		"a list of frames"));
	list->entries[list->count++] = entry;
	return TOMOS_OK;
}

void entries_free(FrameEntries *list)
{
	mem_free(list->entries);
	mem_free(list->path);
	*list = (FrameEntries){.count = 0};
}

/* ---- XML ----------------------------------------------------------------------------------- */

/* Letters are missing in names of files that were made anonymous. */
static tomos_status xml_value(
	const XmlNode *frame, const char *path, const char *const names[], double *value)
{
	bool found = false;
	for (int i = 0; names[i] && !found; i++)
		TRY(xml_number(frame, names[i], path, value, &found));
	return found ? TOMOS_OK : fail(TOMOS_BAD_FILE, "'%s' does not have '%s'", path, names[0]);
}

static tomos_status read_xml(FrameEntries *list)
{
	static const char *const
		angle[] = {"GantryAngle", "Angle", "antryAngle", "Gantryngle", NULL},
		*const u[] = {"UCentre", "Uentre", NULL}, *const v[] = {"VCentre", "Ventre", NULL};
	XmlNode *root;
	TRY(xml_read(&root, list->path));
	const XmlNode *frame = xml_deep(root, "Frame");
	tomos_status status = TOMOS_OK;
	for (; frame && status == TOMOS_OK; frame = frame->next) {
		FrameEntry e = {0};
		if (strcmp(frame->name, "Frame") != 0)
			continue;
		TRY_OR_DONE(xml_value(frame, list->path, angle, &e.angle));
		TRY_OR_DONE(xml_value(frame, list->path, u, &e.u));
		TRY_OR_DONE(xml_value(frame, list->path, v, &e.v));
		status = add_entry(list, e);
	}
done:
	xml_free(root);
	return status;
}

/* ---- tables -------------------------------------------------------------------------------- */

typedef struct {
	char *bytes;
	const char *path;
	int64_t records, head, record; /* bytes of the head and of a record */
} Table;

typedef struct {
	int64_t at, length;
} Field;

static int64_t u16_of(const char *p)
{
	return (unsigned char)p[0] | (int64_t)(unsigned char)p[1] << 8;
}

static tomos_status open_table(Table *t, const char *path)
{
	int64_t length;
	*t = (Table){.path = path};
	TRY(text_read(&t->bytes, &length, path));
	if (length >= DBF_HEAD) {
		t->records = u16_of(t->bytes + 4) | u16_of(t->bytes + 6) << 16;
		t->head = u16_of(t->bytes + 8);
		t->record = u16_of(t->bytes + 10);
	}
	if (t->head > DBF_HEAD && t->record > 0 && t->head + t->records * t->record <= length)
		return TOMOS_OK;
	mem_free(t->bytes);
	return fail(TOMOS_BAD_FILE,
		"'%s': %lld records of %lld bytes after %lld of the head do not fit into %lld",
		path, (long long)t->records, (long long)t->record, (long long)t->head,
		(long long)length);
}

static tomos_status find_field(const Table *t, const char *name, Field *field)
{
	int64_t at = 1; /* after the mark of deleted records */
	for (int64_t i = DBF_HEAD; i + DBF_FIELD < t->head && t->bytes[i] != DBF_END;
		i += DBF_FIELD) {
		*field = (Field){at, (unsigned char)t->bytes[i + 16]};
		at += field->length;
		if (strncmp(t->bytes + i, name, 11) == 0 && at <= t->record)
			return TOMOS_OK;
	}
	return fail(TOMOS_BAD_FILE, "'%s' does not have the field '%s'", t->path, name);
}

/* Its text without blanks at both ends; false: the record is deleted. */
static bool field_text(const Table *t, int64_t record, Field f, char text[256])
{
	const char *from = t->bytes + t->head + record * t->record;
	int64_t first = 0, last = f.length;
	while (first < last && isspace((unsigned char)from[f.at + first]))
		first++;
	while (last > first &&
		(!from[f.at + last - 1] || isspace((unsigned char)from[f.at + last - 1])))
		last--;
	snprintf(text, 256, "%.*s", (int)(last - first), from + f.at + first);
	return from[0] != DELETED;
}

static tomos_status field_number(const Table *t, int64_t record, Field f, double *value)
{
	char text[256];
	(void)field_text(t, record, f, text);
	if (text_number(text, value))
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE, "'%s', record %lld: '%.40s' is not a number", t->path,
		(long long)record, text);
}

/* The DBID of the scan in a folder "img_<uid>/". */
static tomos_status find_scan(const char *path, const char *folder, char id[256])
{
	Table t;
	Field uid, key;
	char text[256];
	TRY(open_table(&t, path));
	tomos_status status;
	TRY_OR_DONE(find_field(&t, "DICOM_UID", &uid));
	TRY_OR_DONE(find_field(&t, "DBID", &key));
	for (int64_t i = 0; i < t.records; i++)
		if (field_text(&t, i, uid, text) && text[0] && strstr(folder, text)) {
			(void)field_text(&t, i, key, id);
			goto done;
		}
	status = fail(TOMOS_BAD_FILE,
		"'%s' has no DICOM_UID that is in the name of the folder '%s'", path, folder);
done:
	mem_free(t.bytes);
	return status;
}

static tomos_status read_table(FrameEntries *list, const char *id)
{
	static const char *const names[] = {"PROJ_ANG", "U_CENTRE", "V_CENTRE"};
	Table t;
	Field scan, fields[3];
	char text[256];
	TRY(open_table(&t, list->path));
	tomos_status status;
	TRY_OR_DONE(find_field(&t, "IMA_DBID", &scan));
	for (int k = 0; k < 3; k++)
		TRY_OR_DONE(find_field(&t, names[k], &fields[k]));
	for (int64_t i = 0; i < t.records; i++) {
		FrameEntry e;
		if (!field_text(&t, i, scan, text) || strcmp(text, id) != 0)
			continue;
		TRY_OR_DONE(field_number(&t, i, fields[0], &e.angle));
		TRY_OR_DONE(field_number(&t, i, fields[1], &e.u));
		TRY_OR_DONE(field_number(&t, i, fields[2], &e.v));
		TRY_OR_DONE(add_entry(list, e));
	}
done:
	mem_free(t.bytes);
	return status;
}

/* ---- where they are ------------------------------------------------------------------------ */

/* The path of `name` in the folder or up to `levels` above; NULL: there is none. */
static tomos_status find_above(char **path, const char *folder, const char *name, int levels)
{
	char above[32] = "";
	*path = NULL;
	for (int i = 0; i <= levels; i++) {
		TRY(mem_printf(path, "%s%s%s", folder, above, name));
		if (access(*path, F_OK) == 0)
			return TOMOS_OK;
		mem_free(*path);
		*path = NULL;
		snprintf(above + strlen(above), sizeof above - strlen(above), "../");
	}
	return TOMOS_OK;
}

/* The name of a folder is needed, which "." does not have. */
static tomos_status read_tables(FrameEntries *list, const char *folder)
{
	char *images = NULL, id[256] = "", *whole;
	TRY(find_above(&list->path, folder, "FRAME.DBF", 3));
	if (!list->path)
		return TOMOS_OK;
	TRY(find_above(&images, folder, "IMAGE.DBF", 3));
	if (!images)
		return fail(
			TOMOS_BAD_FILE, "there is '%s', but no IMAGE.DBF beside it", list->path);
	tomos_status status = TOMOS_OK;
	whole = realpath(folder[0] ? folder : ".", NULL);
	status = find_scan(images, whole ? whole : folder, id);
	free(whole); /* realpath's own memory */
	mem_free(images);
	return status == TOMOS_OK ? read_table(list, id) : status;
}

tomos_status entries_read(FrameEntries *list, const char *folder)
{
	*list = (FrameEntries){.count = 0};
	tomos_status status = find_above(&list->path, folder, "_Frames.xml", 1);
	if (status == TOMOS_OK)
		status = list->path ? read_xml(list) : read_tables(list, folder);
	if (status != TOMOS_OK)
		entries_free(list);
	return status;
}
