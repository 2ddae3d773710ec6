/* Parallel rays that stay in slices: in each slice, a pixel (a, b) and a detector column c meet with the
 * weight w (1 - |c - e| / h), where e = e0 + ea a + eb b and the weight is not below zero.
 *
 * That is the voxel-driven projector (h = 1) and Joseph's (h = the columns that one voxel across the
 * dominant axis spans), forward and back, so one pair of kernels serves both.
 */
#ifndef TOMOS_BACKEND_DEVICE_HAT_H
#define TOMOS_BACKEND_DEVICE_HAT_H

#include "backend/backend.h"

typedef struct {
	double e0, ea, eb;
	float h, weight;
	int along; /* forward: 1 if rays are followed along b, pixel by pixel, 0 along a */
} HatView;

/* How the slices lie: the axis across them, the two in them (b the slower in memory), and which detector
 * row belongs to a slice: row = first + sign * slice. */
typedef struct {
	int s, a, b;
	int64_t first;
	int sign;
	double reach; /* the widest hat of the request's views, in pixels (forward) or columns */
	double width; /* in columns, whatever the direction */
	float weight; /* the largest of a view */
} HatSlices;

/* True if the views of the request are such, with weights that reach at most two pixels or columns. */
bool hat_slices(const ProjectRequest *what, HatSlices *slices);
/* One of them. */
HatView hat_view(const Plan *plan, int64_t view, const HatSlices *slices, int kernel);

#endif
