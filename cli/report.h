/* The page of recon --report: what it shows is collected at the end of a run, then written. */
#ifndef TOMOS_CLI_REPORT_H
#define TOMOS_CLI_REPORT_H

#include "sheet.h"

/* Parts of the page as SVG or HTML text, to be freed; NULL: left out. */
typedef struct page {
	const settings *s;
	bool known;                   /* the size of the pixels */
	char length[16];              /* unit of lengths */
	int plane_count, frame_count; /* that are drawn */
	char *scan, *planes, *histogram, *geometry, *frames, *before, *after, *axis;
	char axis_text[160]; /* where the axis is */
	char steps[2048];    /* of the preparation, in lines */
	/* Which part of the frames and of the sinogram as measured is shown; why there are no
	 * frames, and no sinogram after preparation. */
	char frames_note[128], before_note[96], frames_missing[160], after_missing[160];
	char output[1024], method[32], backend[256], checksums[256], unit[24], size[64], voxel[64];
	double device_bytes, run_seconds;
	FILE *messages; /* what was printed, */
	char *printed;  /* as text */
	size_t printed_bytes;
	double seconds; /* that collecting took */
} page;

/* Begins to keep messages. */
int page_begin(page *p, const settings *s);
void page_free(page *p);
/* For tomos_job.look. */
void page_look(void *user, const tomos_run_look *look);
/* The file of --report; history NULL: none. */
int page_write(page *p, const tomos_run_report *report, const tomos_history *history);

/* <tr><th>name</th><td>value</td></tr>, escaped. */
void fact(FILE *out, const char *name, const char *format, ...) PRINTF_LIKE(3, 4);

/* The scan of the run, opened again: what its file says, and parts of it that are read within a
 * limited time. */
typedef struct shown_scan {
	const settings *s;
	tomos_scan *scan;
	tomos_scan_info info;
	const tomos_run_look *look;
	double pixel[2];     /* width and height, without binning */
	double limit, spent; /* seconds of reading */
} shown_scan;
/* What the file says, as rows of a table; NULL: no memory. */
char *scan_facts(const page *p, const shown_scan *t);
/* Frames and sinograms, as far as there is time. */
void scan_pictures(page *p, shown_scan *t);
/* The unit of lengths; pixels of the detector for a scan without a pixel size. */
const char *page_length(const page *p);
/* range_of some of the values. */
bool sampled_range(const float *values, int64_t count, double *low, double *high);

extern const char report_style[];

#endif
