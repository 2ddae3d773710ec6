/* Weights, alignment and filter windows of filtered back projection and Feldkamp's method. */
#ifndef TOMOS_ALGO_ANALYTIC_H
#define TOMOS_ALGO_ANALYTIC_H

#include "algo/metal.h"
#include "op/filtered.h"

const char *analytic_names(void); /* the methods of analytic.def, "fbp|fdk" */

/* A method with the filter, weights and plan of a scan and a grid, for any number of data sets. */
typedef struct Analytic Analytic;
/* views: those that the data have, with the weights that they have in the whole scan; NULL: all. */
typedef struct {
	int64_t first, count;
} ViewRange;
tomos_status analytic_open(Analytic **analytic, const char *method, tomos_backend *backend,
	const tomos_grid *grid, const tomos_geometry *scan, const ViewRange *views,
	const tomos_analytic_options *options);
tomos_status analytic_apply(Analytic *work, const tomos_array *projections,
	const tomos_array *volume, const tomos_progress *progress);
/* In two parts, in the memory of the backend: all views are filtered, and boxes of the volume
 * computed from them. */
int64_t analytic_floats(const Analytic *work); /* of the filtered views */
tomos_status analytic_filter(Analytic *work, const float *projections, float *filtered);
tomos_status analytic_back(Analytic *work, const float *filtered, const Box *box, float *volume,
	const tomos_progress *progress);
/* What the reduction of metal artefacts found the last time; nothing without it. */
void analytic_add_metal(const Analytic *work, MetalFound *sum);
void analytic_close(Analytic *work);

/* --by auto. `read` fills in the line integrals [view][column] of a detector row. */
typedef struct {
	bool fourier;
	int aliases; /* with these bands */
	char why[256];
} ByChoice;
tomos_status fbp_choose_by(ByChoice *choice, tomos_backend *backend, const tomos_grid *grid,
	const tomos_geometry *scan, const tomos_analytic_options *options,
	tomos_status (*read)(void *user, int64_t row, float *data), void *user);

/* The window named in the options, NULL for "none", and its parameter. */
typedef double (*FilterWindow)(double x, double parameter);
tomos_status window_find(const tomos_analytic_options *o, FilterWindow *window, double *parameter);
/* kernel[n], n < taps: the filter in space, for pixels of width 1. */
tomos_status window_kernel(double *kernel, int64_t taps, const tomos_analytic_options *o);

/* A circular scan about the z axis. */
typedef enum { COVER_HALF_TURN, COVER_FULL_TURN, COVER_SHORT } Cover;

typedef struct {
	double angle;    /* radians, as in the constructors */
	double share;    /* of the circle: the integration weight of the view */
	double distance; /* source to axis; 0: parallel rays */
	double spacing;  /* of columns, measured at the axis */
	double axis;     /* column that the axis projects to */
	double row;      /* row at the height of the source; not used for fans */
	double detector; /* source to detector, along the normal */
	double du, dv;   /* pixel width and height on the detector; dv 0: fans, in-slice rays */
} CircleView;

typedef struct {
	CircleView *views;
	Cover cover;
	double start, sweep; /* short scan: first angle, and the angle it covers */
	double near_side,
		far_side; /* extent of all views on the shorter and the longer side of the axis */
	int far_sign;     /* sign of the longer side */
} Circle;

/* `scan` must be aligned (see align_views). */
tomos_status circle_make(Circle *circle, const tomos_geometry *scan);
void circle_free(Circle *circle);
/* Weight of a ray of view i at distance s from the axis (measured at the axis): for redundant rays,
 * and for the view's share of the circle. */
double circle_weight(const Circle *circle, int64_t i, double s);

/* The same scan with the detectors across the central ray and their rows across z; maps[9 i ..]
 * leads from its pixels to those of the scan, as FilterView has it. *maps is NULL where the scan is
 * aligned already and *aligned a copy. */
tomos_status align_views(tomos_geometry **aligned, double **maps, const tomos_geometry *scan);

#endif
