/* Detectors much larger than the shadow of the volume: the part of them that the volume reaches. */
#ifndef TOMOS_BACKEND_DEVICE_WINDOW_PLAN_H
#define TOMOS_BACKEND_DEVICE_WINDOW_PLAN_H

#include "backend/backend.h"

/* Sets *part to the plan whose views have a window of the detector only, with all pixels onto
 * which voxels project, and *corners to the first column and row of each view's window; NULL where
 * windows have more than half of the pixels. For point sources, and parallel rays that are not in
 * slices. The plan's rays and its scan have no list of views; slices_plan_free frees it, mem_free
 * the corners. */
tomos_status window_plan(Plan **part, const Plan *whole, int **corners);

#endif
