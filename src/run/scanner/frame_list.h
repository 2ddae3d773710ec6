/* Angles and positions of an Elekta panel, one per view. */
#ifndef TOMOS_RUN_SCANNER_FRAME_LIST_H
#define TOMOS_RUN_SCANNER_FRAME_LIST_H

#include "run/scanner/scanner.h"

/* Of one view: the angle of the source in degrees, and where on the panel the axis falls, in mm
 * from its middle, along columns and rows. */
typedef struct {
	double angle, u, v;
} FrameEntry;

typedef struct {
	FrameEntry *entries;
	int64_t count, capacity;
	char *path; /* where they are from; NULL: there is no such file */
} FrameEntries;

/* _Frames.xml in the folder or above it; otherwise FRAME.DBF and IMAGE.DBF, up to three above.
 * Neither is not an error. */
tomos_status entries_read(FrameEntries *list, const char *folder);
void entries_free(FrameEntries *list);

#endif
