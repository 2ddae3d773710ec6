/* Bundles of views with nearly parallel rays, so that pixels along such rays meet few columns. */
#ifndef TOMOS_BACKEND_DEVICE_BUNDLE_H
#define TOMOS_BACKEND_DEVICE_BUNDLE_H

#include "backend/device/hat.h"

/* Views are processed in groups of BUNDLE_VIEWS neighbours in direction. */
enum { BUNDLE_VIEWS = 4, BUNDLE_SHIFT = 20 };

typedef struct {
	bool along_b;  /* rays are along b, else along a */
	int64_t slope; /* shift across per pixel along, in units of 2^-BUNDLE_SHIFT: at most 1 */
	int64_t first, count; /* its groups of views in the order */
} Bundle;

typedef struct {
	Bundle *list;
	int32_t *order; /* views of the request; -1 fills up a group */
	int64_t count, places;
} Bundles;

/* The bundles of a request; to be freed after a failure as well. */
tomos_status bundles_make(Bundles *bundles, const ProjectRequest *what, const HatSlices *slices);
void bundles_free(Bundles *bundles);

#endif
