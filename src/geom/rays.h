/* Classification of the rays of a scan relative to a grid. Computed once per plan and read by all
 * backends, the tuner, the splitting of work and the run layer. */
#ifndef TOMOS_GEOM_RAYS_H
#define TOMOS_GEOM_RAYS_H

#include "geom/geom.h"

/* Tolerance of all classifications: the largest displacement anywhere in the volume, in pixels for
 * the projection of a voxel and in voxels for a ray, that treating a scan as a special case may
 * cause. An interpolated value changes by at most twice the displacement times the largest sample,
 * here 1e-6, about the rounding error of float sums. */
#define RAY_TOLERANCE 5e-7

/* Properties of the rays of a view; several may hold. */
enum {
	/* The rays of a detector row stay in one plane parallel to x and y. */
	RAYS_LEVEL = 1,
	/* In-slice rays: the rays of a detector row stay in one slice, each slice has one row, and
	 * all slices see the same columns. Slices may be across any axis. */
	RAYS_IN_SLICE = 2,
	/* The rays of a detector column stay in one plane parallel to z, and the depth of a voxel
	 * does not depend on z: cone beam, fan beam and laminography without roll. */
	RAYS_IN_SHEET = 4,
	/* Upright detector: columns are parallel to z, rows perpendicular to it. */
	RAYS_UPRIGHT = 8,
};

/* One view. In-slice rays: slice k across `axis` projects to detector row `row` + `sign` k. */
typedef struct {
	int families; /* RAYS_... */
	int axis, sign;
	int64_t row;
} RayView;

enum { SOURCES_MIXED = -1 };

typedef struct {
	int source;     /* of all views: a tomos_source, or SOURCES_MIXED */
	bool planar;    /* one slice, one detector row, all rays in the slice: z is not used */
	RayView all;    /* properties of all views; in slices: across the same axis */
	bool same_rows; /* in slices: `row` and `sign` are those of every view */
	/* Where the list of views has 2 or 4 equal parts, each of them the part before rotated by a
	 * half or a quarter of a circle about the centre of the grid: the number of parts from a
	 * view to the one that is rotated from the x towards the y index (1, or 3 for the opposite
	 * direction); else 0. Point sources or parallel rays. */
	int half, quarter;
	int64_t count;
	RayView *views;
} RayClass;

/* Without the list of views, and nothing to free. */
RayClass rays_summary(const tomos_geometry *scan, const tomos_grid *grid);
tomos_status rays_make(RayClass *rays, const tomos_geometry *scan, const tomos_grid *grid);
/* Of the views `views` of `whole`, which `scan` consists of, with detector rows counted from `row`
 * on. */
tomos_status rays_part(RayClass *part, const RayClass *whole, const int64_t *views, int64_t row,
	const tomos_geometry *scan, const tomos_grid *grid);
void rays_free(RayClass *rays);

/* Whether all views have all these families. */
static inline bool rays_are(const RayClass *rays, int families)
{
	return (rays->all.families & families) == families;
}

/* Without a grid; displacements are in pixels, over the whole detector. */
bool view_is_upright(const tomos_geometry *scan, const tomos_view *view);
/* Whether rays are perpendicular to z; never those of a point source. */
bool view_is_level(const tomos_geometry *scan, const tomos_view *view);

#endif
