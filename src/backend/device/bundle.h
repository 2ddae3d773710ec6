/* Bundles of views with nearly parallel rays. Voxels along a ray of the bundle project to few
 * detector columns in each of its views. */
#ifndef TOMOS_BACKEND_DEVICE_BUNDLE_H
#define TOMOS_BACKEND_DEVICE_BUNDLE_H

#include "backend/device/hat.h"

/* Within a bundle, views are processed in groups of BUNDLE_VIEWS with neighbouring directions. */
enum { BUNDLE_VIEWS = 4, BUNDLE_SHIFT = 20 };

typedef struct {
	bool along_b;  /* rays are along b, else along a */
	int64_t slope; /* pixels across per pixel along a ray, times 2^BUNDLE_SHIFT; at most 1 */
	int64_t first, count; /* its groups of BUNDLE_VIEWS views in `order` */
} Bundle;

typedef struct {
	Bundle *list;
	int32_t *order; /* indices of the request's views; -1: padding of an incomplete group */
	int64_t count, places;
} Bundles;

/* The bundles of a request; to be freed after a failure as well. */
tomos_status bundles_make(Bundles *bundles, const ProjectRequest *what, const HatSlices *slices);
void bundles_free(Bundles *bundles);

#endif
