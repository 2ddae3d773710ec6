/* In-slice parallel rays: in each slice, pixel (a, b) and detector column c have the weight max(0,
 * w (1 - |c - e| / h)) with e = e0 + ea a + eb b, a hat function.
 *
 * This is the voxel-driven projector (h = 1) and Joseph's method (h = columns per voxel across the
 * dominant axis), forward and back, so one pair of kernels computes both.
 */
#ifndef TOMOS_BACKEND_DEVICE_HAT_H
#define TOMOS_BACKEND_DEVICE_HAT_H

#include "backend/backend.h"

typedef struct {
	double e0, ea, eb;
	float h, weight;
	int along; /* forward: 1 if rays are followed along b, 0 along a */
} HatView;

/* Layout of the slices: the axis across them, the two in them (b the slower in memory), and the
 * detector row of a slice: row = first + sign * slice. */
typedef struct {
	int s, a, b;
	int64_t first;
	int sign;
	double reach; /* widest hat of the request's views, in pixels (forward) or columns (back) */
	double width; /* widest hat in columns, for both directions */
	float weight; /* largest weight of a view */
} HatSlices;

/* Whether the request has such views. */
bool hat_find(const ProjectRequest *what, HatSlices *slices);
/* The same, with hats of half width two pixels or columns at most. */
bool hat_slices(const ProjectRequest *what, HatSlices *slices);
/* The hat function of a view. */
HatView hat_view(const Plan *plan, int64_t view, const HatSlices *slices, int kernel);

/* Parallel rays in planes across an axis: a plan whose detector has one row per slice of the grid,
 * and each view `every` times, with every n-th of its columns, from the first, the second ... on.
 * Its rays and its scan have no list of views. */
tomos_status slices_plan(Plan **slices, const Plan *whole, int every);
void slices_plan_free(Plan *slices);
/* A copy of a plan with a detector of another size, whose `count` views are to be filled; freed by
 * slices_plan_free. */
tomos_status derived_plan_fill(
	Plan *plan, const Plan *whole, int64_t count, int64_t rows, int64_t columns);

#endif
