/* Sets of views that mirror images of the grid map onto each other.
 *
 * Mirroring the grid along some of its axes may take a view to another view, or to itself, with its
 * rows or columns in reverse order. The weights of a voxel in that view are then those of its
 * mirror image in the other one. So one weight serves two voxels, in a view each, or four if there
 * are two such maps and so a third. Circles about a tilted axis have such maps; upright detectors
 * that are centred in z have one along z, at any angles.
 */
#ifndef TOMOS_BACKEND_DEVICE_MIRROR_H
#define TOMOS_BACKEND_DEVICE_MIRROR_H

#include "backend/backend.h"

enum { MIRROR_IMAGES = 4 };

/* The maps, bit a: axis a is mirrored; the first is none. count: 0: there are no others. halved:
 * bit a: half of the grid along axis a is visited, of which the other half are images. */
typedef struct {
	int flips[MIRROR_IMAGES], count, halved;
} Mirrors;

/* The views that maps take a view to, with REVERSED bits. */
typedef struct {
	int view[MIRROR_IMAGES];
} MirrorView;

enum {
	REVERSED_COLUMNS = 1 << 29,
	REVERSED_ROWS = 1 << 30,
	MIRROR_BITS = REVERSED_COLUMNS - 1 /* of the number of a view */
};

/* The maps of a request: four, of which one mirrors x and another y, or two. */
Mirrors mirrors_find(const ProjectRequest *what, int most);

/* Whether each view of the second half of a request is the mirror image, about the centre of the
 * grid, of one of the first half, in the same order, with its rows in reverse order: sources on
 * opposite sides of the centre. */
bool mirrors_opposite(const ProjectRequest *what);

/* Finds the images of every view. */
void mirror_views(const Plan *plan, const Mirrors *mirrors, MirrorView *views);

#endif
