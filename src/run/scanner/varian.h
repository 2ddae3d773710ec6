/* Frames of Varian's files, of a scan and of air. */
#ifndef TOMOS_RUN_SCANNER_VARIAN_H
#define TOMOS_RUN_SCANNER_VARIAN_H

#include "run/scanner/list.h"

/* One file per frame. */
typedef struct {
	FileList files;
	int64_t rows, columns;
	bool xim;
	double *angles;   /* of the source, in degrees */
	double *exposure; /* reading of the chamber at the tube; 0: not known */
	double *factors;  /* to one exposure; NULL: counts as they are stored */
} Frames;

/* What Scan.xml or ProjectionInfo.xml says. */
typedef struct {
	double source_axis, source_detector, pixel[2], lateral, start, stop;
	bool bowtie;
	char *folder; /* where that file is, with '/' */
} Setup;

/* Angles and exposures of all files. */
tomos_status frames_numbers(Frames *f);
/* The frames as a file of the scan. Takes them over. */
tomos_status frames_set(tomos_scan *scan, Frames *f, FrameSet *set);
void frames_free(void *frames);

/* Opens the air scans beside the setup as the flats of the scan, and brings the views to their
 * exposure; none is not an error. */
tomos_status varian_air(tomos_scan *scan, Frames *views, const Setup *s);

#endif
