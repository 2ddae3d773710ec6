/* Scans as lists of views. */
#ifndef TOMOS_GEOM_GEOM_H
#define TOMOS_GEOM_GEOM_H

#include "base/base.h"

struct tomos_geometry {
	int64_t rows, columns, count;
	tomos_view *views;
};

static inline bool view_has_source(const tomos_view *view)
{
	return view->src[3] != (int)TOMOS_PARALLEL;
}

/* Whether each row has a source of its own, at multiples of v from that of the middle row. */
static inline bool view_fans(const tomos_view *view)
{
	return view->src[3] == (int)TOMOS_FAN_PER_ROW;
}

/* Columns from the middle of the detector to the projection of the axis x = y = 0. */
double view_axis_offset(const tomos_view *view);
/* Whether an axis this many columns from the middle of the detector is intended (half acquisition):
 * in a full turn, opposite views measure what the short side misses. */
bool offset_is_meant(double offset, int64_t columns);

/* Moves the detector by that many columns and rows, and the sources of fans with the rows. */
void view_slide(tomos_view *view, double columns, double rows);

/* Moves source and detector by a pose; see tomos_geometry_move. */
void view_move(tomos_view *view, const double pose[6]);

/* A scan of `count` views, to be filled in. */
tomos_status geom_new(tomos_geometry **scan, int64_t rows, int64_t columns, int64_t count);

/* A box of voxels [low, high) of a grid, in x, y, z. */
typedef struct {
	int64_t low[3], high[3];
} Box;

static inline int64_t box_count(const Box *box)
{
	return (box->high[0] - box->low[0]) * (box->high[1] - box->low[1]) *
	       (box->high[2] - box->low[2]);
}

/* A rectangle of pixels [low, high): columns (0) and rows (1). */
typedef struct {
	int64_t low[2], high[2];
} Window;

/* A view in voxel indices of a grid. The ray of pixel (column, row) goes through first + column u +
 * row v: from src (TOMOS_POINT), from src + row v (TOMOS_FAN_PER_ROW) or along src
 * (TOMOS_PARALLEL). Voxel p falls on column U / D and row V / D (of fans, V), where U =
 * column[0..2] . p + column[3], likewise V and D. D is 0 at the source and 1 on the detector; for
 * parallel rays, 1. */
typedef struct {
	double src[4], first[3], u[3], v[3];
	double column[4], row[4], depth[4];
} GridView;
GridView grid_view(const tomos_geometry *scan, int64_t view, const tomos_grid *grid);

/* Every pixel of a view whose value can depend on voxels of the box, with a margin of `margin`
 * voxels around the box; the whole detector where the source is too near. */
Window geom_window(const tomos_geometry *scan, int64_t view, const tomos_grid *grid, const Box *box,
	double margin);

/* The detector row at the height of the source in the first view, or the middle one. */
int64_t geom_source_row(const tomos_geometry *scan);

/* Position of pixel (row, column) of a view, and the direction of its ray (not normalised). */
void view_pixel(const tomos_geometry *scan, int64_t view, double row, double column,
	double position[3], double direction[3]);

/* The detector axes u = (1,0,0), v = (0,0,1) of rays along (0,-1,0), rotated by the smallest angle
 * that takes the rays to `direction` (not 0). */
void view_towards(const double direction[3], double u[3], double v[3]);

/* Views as 13 numbers (src 4, det 3, u 3, v 3) for files. */
enum { VIEW_NUMBERS = 13 };
tomos_status geom_from_numbers(
	tomos_geometry **scan, int64_t rows, int64_t columns, const double *numbers, int64_t count);
void geom_to_numbers(const tomos_geometry *scan, double *numbers);

#endif
