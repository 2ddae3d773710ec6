/* A file that is shown, for the source files that read it. */
#ifndef TOMOS_CLI_VIEW_SOURCE_H
#define TOMOS_CLI_VIEW_SOURCE_H

#include <pthread.h>
#include "view.h"

enum { POOL = 4 }; /* files that are open at a time, for each level */

typedef struct view_pool {
	pthread_mutex_t lock;
	pthread_cond_t freed;
	tomos_file *files[POOL];
	bool busy[POOL];
	int count;
} view_pool;

/* Planes of constant x that were read and are kept. */
typedef struct view_block view_block;
typedef struct view_columns {
	pthread_mutex_t lock;
	pthread_cond_t loaded;
	view_block *blocks;
	int64_t bytes, clock; /* clock: requests so far */
} view_columns;

typedef struct view_level {
	int64_t shape[3];
	double factor[3];
} view_level;

struct view_source {
	const char *path;
	char name[256], type[16], format[16];
	const char *content;
	tomos_file_options options;
	int level_count, most; /* most: open files of a level */
	view_level levels[VIEW_LEVELS];
	view_pool pools[VIEW_LEVELS];
	view_columns columns;
	bool has_grid;
	char unit[16], value_unit[16]; /* of lengths and values; "": not known */
	double step[3], origin[3];     /* of the voxels, z y x */
	/* Scans: */
	tomos_scan *scan;
	tomos_scan_info scan_info; /* without its texts */
	pthread_mutex_t scan_lock;
	double *angles;       /* degrees, or NULL */
	double axis;          /* column that the axis projects to, as far as the file says */
	float *bright, *dark; /* means of the flat and dark fields; NULL: counts are shown */
	bool looked;          /* for these */
	bool left;            /* the client left while the file was described */
};

/* Samples of a volume, from the file. */
tomos_status file_box(view_source *s, const view_request *r, float *data);

/* Whether planes of constant x are read together for this request. */
bool columns_apply(const view_source *s, const view_request *r);
tomos_status columns_read(view_source *s, const view_request *r, float *data);
void columns_free(view_columns *c);

/* Opens the file as a scan, if it is one. */
int scan_try(view_source *s, const settings *given);
void scan_free(view_source *s);
tomos_status scan_box(view_source *s, const view_request *r, float *data);

#endif
