/* Requests whose volume reaches a part of the detector only are run on a copy of that part. */
#ifndef TOMOS_BACKEND_CUDA_CROP_H
#define TOMOS_BACKEND_CUDA_CROP_H

#include "backend/cuda/cuda.h"

/* Kept with a plan. part: the plan of windows of its views; NULL: none. corners: first column and
 * row of each of them, on the device. */
typedef struct {
	bool known;
	Plan *part;
	int2 *corners;
} CudaCrop;

/* The crop of a plan whose device data are `kept`. */
CudaCrop *cuda_crop_of(const CudaPlan *kept);
void cuda_crop_free(CudaCrop *crop);
/* Sets *inner to the request for the part of the detector, with projections in scratch memory, and
 * *crop to where it is; or to the request itself, and NULL. */
tomos_status cuda_crop(tomos_backend *backend, const ProjectRequest *what, ProjectRequest *inner,
	const CudaCrop **crop);
/* Before the inner request: copies its projections, or clears them. */
tomos_status cuda_crop_begin(tomos_backend *backend, const ProjectRequest *what,
	const ProjectRequest *inner, const CudaCrop *crop);
/* After it: forward, adds its projections to those of the request. */
tomos_status cuda_crop_end(tomos_backend *backend, const ProjectRequest *what,
	const ProjectRequest *inner, const CudaCrop *crop);

#endif
