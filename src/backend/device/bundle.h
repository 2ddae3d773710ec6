/* Views in bundles whose rays run nearly alike, so that pixels along such rays meet few columns. */
#ifndef TOMOS_BACKEND_DEVICE_BUNDLE_H
#define TOMOS_BACKEND_DEVICE_BUNDLE_H

#include "backend/device/hat.h"

/* Views are taken so many at a time, neighbours in direction. */
enum { BUNDLE_VIEWS = 4, BUNDLE_SHIFT = 20 };

typedef struct {
	bool along_b;  /* rays run along b rather than along a */
	int64_t slope; /* what they move across for one along, in 2^-BUNDLE_SHIFT: at most 1 */
	int64_t first, count; /* its views: times BUNDLE_VIEWS, places in the order */
} Bundle;

typedef struct {
	Bundle *list;
	int32_t *order; /* numbers of views within the request; -1 fills a bundle up */
	int64_t count, places;
} Bundles;

/* The bundles of a request, to be freed also after a failure. */
tomos_status bundles_make(Bundles *bundles, const ProjectRequest *what, const HatSlices *slices);
void bundles_free(Bundles *bundles);

#endif
