/* Small XML files as trees of elements, by expat. */
#include "base/xml.h"
#include <stdio.h>
#include <string.h>
#include "base/keys.h"

#if TOMOS_HAS_EXPAT
#include <expat.h>

enum { DEEPEST = 64 };
#define MOST_NODES ((int64_t)4 << 20)

typedef struct {
	XML_Parser parser;
	XmlNode *root, *now;
	int64_t nodes;
	int depth;
	tomos_status status;
	bool doctype;
} Parsing;

static const char *local_name(const char *name)
{
	const char *colon = strrchr(name, ':');
	return colon ? colon + 1 : name;
}

static tomos_status add_node(Parsing *p, const char *mark, const char *name, XmlNode **made)
{
	XmlNode *node;
	if (++p->nodes > MOST_NODES)
		return fail(
			TOMOS_BAD_FILE, "there are more than %lld elements", (long long)MOST_NODES);
	TRY(mem_zeroed(&node, 1, sizeof *node, "an XML element"));
	node->parent = p->now;
	if (!p->now)
		p->root = node;
	else if (p->now->last)
		p->now->last->next = node;
	else
		p->now->child = node;
	if (p->now)
		p->now->last = node;
	*made = node;
	return mem_printf(&node->name, "%s%s", mark, local_name(name));
}

static tomos_status start_element(Parsing *p, const char *name, const char **attributes)
{
	XmlNode *node, *attribute;
	if (++p->depth > DEEPEST)
		return fail(TOMOS_BAD_FILE, "elements are nested more than %d deep", DEEPEST);
	TRY(add_node(p, "", name, &node));
	p->now = node;
	for (int i = 0; attributes[i]; i += 2) {
		TRY(add_node(p, "@", attributes[i], &attribute));
		TRY(mem_text(&attribute->text, attributes[i + 1]));
	}
	return TOMOS_OK;
}

static void stop(Parsing *p, tomos_status status)
{
	p->status = status;
	XML_StopParser(p->parser, XML_FALSE);
}

static void on_start(void *user, const char *name, const char **attributes)
{
	Parsing *p = user;
	tomos_status status = start_element(p, name, attributes);
	if (status != TOMOS_OK)
		stop(p, status);
}

static void on_end(void *user, const char *name)
{
	Parsing *p = user;
	(void)name;
	p->depth--;
	p->now = p->now->parent;
}

static void on_text(void *user, const char *text, int length)
{
	Parsing *p = user;
	XmlNode *node = p->now;
	char *longer;
	if (!node || p->status != TOMOS_OK)
		return;
	if (node->length + length + 1 > node->capacity) {
		int64_t capacity = 2 * (node->length + length + 1);
		tomos_status status = mem_alloc(&longer, capacity, 1, "the text of an XML element");
		if (status != TOMOS_OK) {
			stop(p, status);
			return;
		}
		if (node->text)
			memcpy(longer, node->text, (size_t)node->length);
		mem_free(node->text);
		node->text = longer;
		node->capacity = capacity;
	}
	memcpy(node->text + node->length, text, (size_t)length);
	node->length += length;
	node->text[node->length] = 0;
}

/* Files of scanners define no entities. */
static void on_doctype(
	void *user, const char *name, const char *system, const char *public, int internal)
{
	Parsing *p = user;
	(void)name;
	(void)system;
	(void)public;
	p->doctype = internal != 0;
	if (p->doctype)
		stop(p, fail(TOMOS_BAD_FILE, "there are definitions in the document type"));
}

static tomos_status parse(Parsing *p, const char *path, const char *text, int64_t length)
{
	XML_SetUserData(p->parser, p);
	XML_SetElementHandler(p->parser, on_start, on_end);
	XML_SetCharacterDataHandler(p->parser, on_text);
	XML_SetStartDoctypeDeclHandler(p->parser, on_doctype);
	if (XML_Parse(p->parser, text, (int)length, 1) == XML_STATUS_OK)
		return TOMOS_OK;
	char why[200];
	snprintf(why, sizeof why, "%.199s",
		p->status != TOMOS_OK ? tomos_message()
				      : XML_ErrorString(XML_GetErrorCode(p->parser)));
	return fail(p->status != TOMOS_OK ? p->status : TOMOS_BAD_FILE, "'%s', line %lu: %s", path,
		(unsigned long)XML_GetCurrentLineNumber(p->parser), why);
}

tomos_status xml_read(XmlNode **root, const char *path)
{
	char *text;
	int64_t length;
	*root = NULL;
	TRY(text_read(&text, &length, path));
	Parsing p = {.parser = XML_ParserCreate(NULL)};
	tomos_status status = p.parser ? parse(&p, path, text, length)
				       : fail(TOMOS_NO_MEMORY, "no memory to read '%s'", path);
	if (p.parser)
		XML_ParserFree(p.parser);
	mem_free(text);
	if (status == TOMOS_OK)
		*root = p.root;
	else
		xml_free(p.root);
	return status;
}
#else
tomos_status xml_read(XmlNode **root, const char *path)
{
	*root = NULL;
	return fail(
		TOMOS_UNSUPPORTED, "'%s' is an XML file, and this build is without expat", path);
}
#endif

void xml_free(XmlNode *root)
{
	for (XmlNode *node = root; node;) {
		if (node->child) { /* the leaves first */
			XmlNode *child = node->child;
			node->child = child->next;
			child->parent = node;
			node = child;
			continue;
		}
		XmlNode *parent = node == root ? NULL : node->parent;
		mem_free(node->name);
		mem_free(node->text);
		mem_free(node);
		node = parent;
	}
}

/* ---- finding ------------------------------------------------------------------------------- */

const XmlNode *xml_find(const XmlNode *node, const char *path)
{
	while (node && *path) {
		size_t length = strcspn(path, "/");
		const XmlNode *child = node->child;
		while (child && (strncmp(child->name, path, length) != 0 || child->name[length]))
			child = child->next;
		node = child;
		path += length + (path[length] == '/');
	}
	return node;
}

const XmlNode *xml_deep(const XmlNode *node, const char *name)
{
	for (const XmlNode *at = node; at;) {
		if (at != node && strcmp(at->name, name) == 0)
			return at;
		if (at->child) {
			at = at->child;
			continue;
		}
		while (at != node && !at->next)
			at = at->parent;
		at = at == node ? NULL : at->next;
	}
	return NULL;
}

const char *xml_text(const XmlNode *node, const char *path)
{
	const XmlNode *found = xml_find(node, path);
	const char *text = found && found->text ? found->text : "";
	return text + strspn(text, " \t\r\n");
}

tomos_status xml_number(
	const XmlNode *node, const char *path, const char *file, double *value, bool *found)
{
	const char *text = xml_text(node, path);
	if (found)
		*found = text[0] != 0;
	if (!text[0] && found)
		return TOMOS_OK;
	if (text_number(text, value))
		return TOMOS_OK;
	if (!text[0])
		return fail(TOMOS_BAD_FILE, "'%s' does not have '%s'", file, path);
	return fail(
		TOMOS_BAD_FILE, "'%s': '%s' is '%.40s', which is not a number", file, path, text);
}
