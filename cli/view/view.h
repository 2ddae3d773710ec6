/* Parts of tomos view: what a request asks for, the files that are shown, answers, the server. */
#ifndef TOMOS_CLI_VIEW_VIEW_H
#define TOMOS_CLI_VIEW_VIEW_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "../cli.h"

enum {
	VIEW_TOKEN = 32,         /* hexadecimal digits of the secret part of the address */
	VIEW_URL = 2048,         /* longest address that is looked at */
	VIEW_FILES = 2,          /* that are shown side by side */
	VIEW_LEVELS = 24,        /* resolution levels of a file, at most */
	VIEW_CONNECTIONS = 64,   /* at a time */
	VIEW_TIMEOUT = 30,       /* seconds that a connection may be idle */
	VIEW_SAMPLES = 64 << 20, /* of one request */
	VIEW_SIDE = 4096,        /* voxels along each side of a slice, at most */
	VIEW_LARGE = 8 << 20,    /* samples above which answers are made one after the other */
};

/* ---- requests -------------------------------------------------------------------------------- */

typedef enum view_action {
	VIEW_ERROR,
	VIEW_PAGE,
	VIEW_INFO,
	VIEW_BOX,
	VIEW_SLICE,
	VIEW_AXIS, /* the search for it */
	VIEW_ZARR,
	VIEW_PREFLIGHT /* a browser asks whether pages of other addresses may read a Zarr */
} view_action;

typedef struct view_request {
	view_action action;
	int status; /* of HTTP, of an error */
	char error[200];
	char name[512]; /* of an embedded file, or the path of a file in a Zarr */
	int64_t file, level, first[3], count[3], step[3];
	bool bytes; /* samples as bytes: low is 0, high is 255 */
	double low, high;
	int64_t row;
	double axis;  /* NAN: not given */
	int64_t size; /* of a slice; 0: as is soon done */
	char filter[32];
} view_request;

/* What a request must have to be accepted. */
typedef struct view_gate {
	char token[VIEW_TOKEN + 1];
	int port;
	bool zarr; /* the files of a Zarr may be asked for */
} view_gate;

/* Reads method, Host header (NULL: none) and address of a request. Touches nothing else. */
view_action view_parse(view_request *r, const view_gate *gate, const char *method, const char *host,
	const char *url);
/* A range of bytes, "bytes=0-99", of a file of `size` bytes. A header that is NULL or may be
 * ignored gives all of it, with `part` false. Returns false for a range that is wrong or outside
 * the file. */
typedef struct view_range {
	int64_t first, count;
	bool part;
} view_range;
bool view_range_parse(view_range *range, const char *header, int64_t size);

/* ---- files ----------------------------------------------------------------------------------- */

typedef struct view_source view_source;
typedef struct view_live view_live; /* rows of a scan, see below */
int source_open(view_source **source, const settings *given, const char *path);
void source_close(view_source *source);
/* JSON of the file, and of the scan if it is one; false: the client has left meanwhile, and the
 * range of the values is not known. */
bool source_describe(view_source *source, FILE *json);
/* `live`: NULL, if slices cannot be reconstructed. */
void source_describe_scan(view_source *source, const view_live *live, FILE *json);
bool source_is_scan(const view_source *source);
bool source_is_volume(const view_source *source); /* else projections or a sinogram */
int source_levels(const view_source *source);
/* The folder of a Zarr, or NULL. */
const char *source_folder(const view_source *source);
tomos_status source_read(view_source *source, const view_request *r, float *data);
/* Samples of the whole file for its range and histogram; to be freed. */
float *source_sample(view_source *source, int64_t *count);

/* Rows of a scan, reconstructed with the axis where it is wanted. */
int live_open(view_live **live, const settings *s); /* of the first operand */
void live_close(view_live *live);
double live_axis(const view_live *live);     /* column that the axis is at, as far as is known */
bool live_axis_given(const view_live *live); /* as an option */
int64_t live_rows(const view_live *live);
bool live_point(const view_live *live); /* fan or cone beam */
/* The axis that tomos recon uses, found by a search where it is not known; slices that follow have
 * it there unless they ask for another column. */
typedef struct view_axis {
	double column, error;         /* error: standard error; NAN: not known */
	bool reversed;                /* the angles are negated */
	char warning[1024], why[512]; /* it is doubtful; it was not found, and the column is NAN */
} view_axis;
tomos_status live_find(view_live *live, view_axis *axis);
/* *slice is to be freed. */
tomos_status live_slice(view_live *live, const view_request *r, float **slice, int64_t shape[2]);

/* ---- answers --------------------------------------------------------------------------------- */

typedef struct view_reply {
	int status;
	const char *type;
	const void *bytes;
	int64_t size;
	bool owned; /* `bytes` is freed with the reply */
	int file;   /* descriptor of a file, sent from `at` on; -1: none */
	int64_t at, whole;
	bool part;      /* a range of the file */
	bool shared;    /* pages from other addresses may read it */
	char shape[48]; /* "ny,nx" of a slice */
} view_reply;

typedef struct view_state {
	view_gate gate;
	view_source *files[VIEW_FILES];
	int count;
	view_live *live; /* NULL: no scan */
	char *info;      /* made once */
	pthread_mutex_t info_lock, large_lock, live_lock;
} view_state;

/* These return the status of the reply. */
int view_answer(view_state *v, const view_request *r, const char *range, view_reply *reply);
int reply_error(view_reply *reply, int status, const char *text);
void reply_free(view_reply *reply);
/* A file of the page; false: there is none. */
bool page_find(const char *name, view_reply *reply);
int zarr_answer(const view_source *source, const char *path, const char *range, view_reply *reply);
void json_number(FILE *json, double value);

/* ---- server ---------------------------------------------------------------------------------- */

/* Why there is no server in this build or on this machine; NULL: there is one. */
const char *http_missing(void);
/* Listens on 127.0.0.1; port 0: any. */
int http_start(view_state *v, int port);
void http_stop(void);

#endif
