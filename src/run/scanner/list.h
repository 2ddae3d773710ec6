/* Views in files of their own. */
#ifndef TOMOS_RUN_SCANNER_LIST_H
#define TOMOS_RUN_SCANNER_LIST_H

#include "run/scanner/scanner.h"

typedef struct {
	char **paths;
	int64_t count;
} FileList;

/* The files of a folder whose names begin and end so, in any case, sorted; none is an error. */
tomos_status list_files(FileList *list, const char *folder, const char *prefix, const char *ending);
void list_free(FileList *list);
tomos_status list_sources(const FileList *files, TakePath take, void *user);
/* Views of uint16, little-endian, after `header` bytes of each file. Takes over the list. */
tomos_status plain_frames(tomos_scan *scan, FileList *files, int64_t header, int64_t per_file);
/* Uses the first `views` frames; fewer are an error. */
tomos_status first_frames(tomos_scan *scan, int64_t views);

#endif
