/* Visits the rays of a view that cross a part of the volume, LANES at a time, for ray.c. */
#ifndef TOMOS_BACKEND_CPU_LEVEL_RAY_WALK_H
#define TOMOS_BACKEND_CPU_LEVEL_RAY_WALK_H

#include "backend/cpu/level/ray_parts.h"

/* Projects LANES rays; it may change them. */
typedef void (*RayVisit)(void *user, const RayPart *part, float *image, Rays *rays);

/* Rays of one side of a view. They are set up some vectors at a time, and not in the loops over
 * planes, since a processor overlaps the set-up of several vectors. */
typedef struct {
	const RayPart *part;
	const KernelView *k;
	Window window;
	int side;
	float *image; /* of the view; row after row */
	int64_t pitch;
	int many;
	Rays rays[TOGETHER];
} RayWalk;

/* What is in the lanes: neighbouring rows or columns of the detector, or columns far apart. Rays of
 * neighbours enter and leave a part together; but those that share elements of the copy should not
 * be in one vector of the adjoint, as a load is slow from memory that was stored to just before.
 * So neighbours are along that axis of the detector that is more across rows of the copy. */
typedef enum { LANES_ROWS, LANES_COLUMNS, LANES_APART } RayLanes;

static inline RayLanes walk_lanes(const RayWalk *w)
{
	const RayPart *part = w->part;
	const int64_t rows = w->window.high[1] - w->window.low[1];
	const int across = part->axes[1], along = part->axes[2];
	const double *u = w->k->u, *v = w->k->v;
	/* Windows of voxels (ray_window.h) are for neighbouring columns. */
	if (LANES > 8 && part->what->direction == FORWARD && !part->planar &&
		fabs(u[along]) > 4 * fabs(u[across]))
		return LANES_COLUMNS;
	/* Fans have a source for each row. Few rows would leave lanes empty. */
	if (!part->planar && !KERNEL_FANS(w->k) && 4 * rows >= 3 * LANES * parts(rows, LANES) &&
		fabs(v[across]) > fabs(v[along]))
		return LANES_ROWS;
	if (part->what->direction == FORWARD || (!part->planar && fabs(u[across]) > fabs(u[along])))
		return LANES_COLUMNS;
	return LANES_APART;
}

INLINE void walk_visit(RayWalk *w, const RayVisit visit, void *user)
{
	for (int i = 0; i < w->many; i++)
		visit(user, w->part, w->image, &w->rays[i]);
	w->many = 0;
}

/* Pixels that will be needed: views are larger than caches. */
static inline void walk_prefetch(
	const RayWalk *w, int64_t row, int64_t rows, const int64_t range[2])
{
	enum { LINE = 16 };
	for (int64_t r = row; r < row + rows; r++)
		for (int64_t c = range[0]; c < range[1]; c += LINE)
			__builtin_prefetch(w->image + r * w->pitch + c, 1);
}

/* The columns of a row in which rays may cross the part; widens the range of several rows. */
static inline void walk_clip(
	const RayWalk *w, const RayRow *row, int64_t range[2], int64_t widest[2])
{
	range[0] = w->window.low[0];
	range[1] = w->window.high[0];
	ray_clip(w->part, row, &range[0], &range[1]);
	if (range[0] < range[1]) {
		widest[0] = min64(widest[0], range[0]);
		widest[1] = max64(widest[1], range[1]);
	}
}

/* A row, or several of which each vector has a ray. */
INLINE void walk_rows(RayWalk *w, const RayVisit visit, void *user)
{
	RayRows rows;
	for (int64_t r = w->window.low[1]; r < w->window.high[1]; r += LANES) {
		int64_t range[2], all[2] = {w->window.high[0], w->window.low[0]};
		rows.count = min64(w->window.high[1] - r, LANES);
		for (int l = 0; l < LANES; l++) {
			if (l < rows.count) {
				rows.end[l > 0] = ray_row(w->part, w->k, r + l, w->side);
				walk_clip(w, &rows.end[l > 0], range, all);
			}
			rows_lane(&rows, l, &rows.end[l > 0 && rows.count > 1]);
		}
		if (rows.count == 1)
			rows.end[1] = rows.end[0];
		walk_prefetch(w, r, rows.count, all);
		for (int64_t c = all[0]; c < all[1];) {
			const int64_t end = min64(c + TOGETHER, all[1]);
			const bool alike = rays_alike(&rows.end[0], c, end - 1) &&
					   rays_alike(&rows.end[1], c, end - 1);
			for (; c < end; c++) {
				Rays *rays = &w->rays[w->many];
				w->many += alike ? rays_down(w->part, &rows, c, 1, rays)
						 : rays_down(w->part, &rows, c, 0, rays);
				rays->pixel = r * w->pitch + c;
				rays->pitch = w->pitch;
			}
			walk_visit(w, visit, user);
		}
	}
}

/* Vectors of columns `every` apart, in some rows. */
typedef struct {
	RayRow row[TOGETHER];
	int64_t range[TOGETHER][2], all[2], every;
	bool alike[TOGETHER];
} RayBand;

INLINE void walk_column(RayWalk *w, const RayBand *band, int64_t r, int i, int64_t c,
	const RayVisit visit, void *user)
{
	const int64_t end = band->all[1], last = c + (LANES - 1) * band->every;
	if (c >= band->range[i][1] || last < band->range[i][0])
		return;
	Rays *rays = &w->rays[w->many];
	if (band->alike[i] || rays_alike(&band->row[i], c, min64(last, end - 1)))
		w->many += rays_at(w->part, &band->row[i], c, band->every, end, 1, rays);
	else
		w->many += rays_at(w->part, &band->row[i], c, band->every, end, 0, rays);
	rays->pixel = (r + i) * w->pitch + c;
	rays->pitch = band->every;
	if (w->many == TOGETHER)
		walk_visit(w, visit, user);
}

/* `most` rows at a time; `apart`: lanes are far apart. */
INLINE void walk_columns(RayWalk *w, int most, bool apart, const RayVisit visit, void *user)
{
	RayBand band;
	for (int64_t r = w->window.low[1]; r < w->window.high[1]; r += most) {
		const int rows = (int)min64(most, w->window.high[1] - r);
		int64_t *all = band.all;
		all[0] = w->window.high[0];
		all[1] = w->window.low[0];
		for (int i = 0; i < rows; i++) {
			band.row[i] = ray_row(w->part, w->k, r + i, w->side);
			walk_clip(w, &band.row[i], band.range[i], all);
		}
		if (all[0] >= all[1])
			continue;
		for (int i = 0; i < rows; i++)
			band.alike[i] = rays_alike(&band.row[i], all[0], all[1] - 1);
		walk_prefetch(w, r, rows, all);
		band.every = apart ? parts(all[1] - all[0], LANES) : 1;
		const int64_t step = apart ? 1 : LANES, end = apart ? all[0] + band.every : all[1];
		for (int64_t c = all[0]; c < end; c += step)
			for (int i = 0; i < rows; i++)
				walk_column(w, &band, r, i, c, visit, user);
	}
	walk_visit(w, visit, user);
}

/* The rays of a window of a view with directions of the sign `side` along axes[0]; `image` is the
 * view. */
INLINE void walk_rays(const RayPart *part, int64_t view, const Window *window, int side,
	float *image, const RayVisit visit, void *user)
{
	const Plan *plan = part->what->plan;
	RayWalk w;
	w.part = part;
	w.k = &plan->views[part->what->first + view];
	w.window = *window;
	w.side = side;
	w.image = image;
	w.pitch = plan->model.columns;
	w.many = 0;
	const RayLanes lanes = walk_lanes(&w);
	if (lanes == LANES_ROWS)
		walk_rows(&w, visit, user);
	else
		walk_columns(&w, part->planar || lanes == LANES_APART ? 1 : TOGETHER,
			lanes == LANES_APART, visit, user);
}

#endif
