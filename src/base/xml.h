/* Small XML files as trees of elements. */
#ifndef TOMOS_BASE_XML_H
#define TOMOS_BASE_XML_H

#include "base/base.h"

/* Names are without their prefix; attributes are the first children, with '@' before their name. */
typedef struct XmlNode {
	char *name, *text;
	int64_t length, capacity; /* of the text */
	struct XmlNode *parent, *child, *last, *next;
} XmlNode;

tomos_status xml_read(XmlNode **root, const char *path);
void xml_free(XmlNode *root);
/* The first element of a path like "Recon/ProjectionDimX" below a node; NULL: there is none. */
const XmlNode *xml_find(const XmlNode *node, const char *path);
/* The first element of that name anywhere below. */
const XmlNode *xml_deep(const XmlNode *node, const char *name);
/* Its text; "" where there is none. */
const char *xml_text(const XmlNode *node, const char *path);
/* Its number. found NULL: it has to be there; otherwise *value does not change where it is not. */
tomos_status xml_number(
	const XmlNode *node, const char *path, const char *file, double *value, bool *found);

#endif
