/* Views in files of their own. */
#ifndef TOMOS_RUN_SCANNER_LIST_H
#define TOMOS_RUN_SCANNER_LIST_H

#include "run/scanner/scanner.h"

typedef struct {
	char **paths;
	int64_t count;
} FileList;

/* Whether a name begins and ends so, in any case, and is not hidden. */
bool list_fits(const char *name, const char *prefix, const char *ending);
/* The files of a folder whose names begin and end so, in any case, sorted; none is an error. */
tomos_status list_files(FileList *list, const char *folder, const char *prefix, const char *ending);
void list_free(FileList *list);
tomos_status list_sources(const FileList *files, TakePath take, void *user);
/* How frames of uint16, little-endian, are stored in each file. */
typedef struct {
	int64_t header;   /* bytes before the first frame */
	int64_t per_file; /* frames */
	void (*convert)(
		unsigned char *bytes, int64_t count); /* numbers as read to counts, or NULL */
} PlainForm;
/* Views of that form. Takes over the list. */
tomos_status plain_frames(tomos_scan *scan, FileList *files, PlainForm form);
/* Uses the first `views` frames; fewer are an error. */
tomos_status first_frames(tomos_scan *scan, int64_t views);

#endif
