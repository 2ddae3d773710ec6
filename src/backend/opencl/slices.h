/* Optimised back projection of slices with common weights; see slices.cl. */
#ifndef TOMOS_BACKEND_OPENCL_SLICES_H
#define TOMOS_BACKEND_OPENCL_SLICES_H

#include "backend/device/hat.h"
#include "backend/opencl/opencl.h"

bool slices_apply(const ProjectRequest *what, HatSlices *l);
tomos_status slices_run(
	tomos_backend *backend, const ProjectRequest *what, const HatSlices *l, cl_mem views);

#endif
