/* Whether rays are in sheets (upright.h), and how far rows of them are apart: for kernels of such
 * rays, and for others to know where these are faster. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_SHEETS_H
#define TOMOS_BACKEND_CUDA_KERNELS_SHEETS_H

#include "backend/cuda/cuda.h"

/* Whether the rays of all views of a request are in sheets, with dominant axis x or y. least,
 * most: range of the distance of neighbouring rows inside the box, in voxels. */
bool sheet_views(const ProjectRequest *what, double *least, double *most);
/* Number of columns to either side of a voxel's projection whose sheets can pass within one
 * voxel: the largest shift of the projection per voxel along x or y. 0 if there are no sheets or
 * too many columns. *gap, *most: range of the distance of rows, in voxels.
 */
double sheet_reach(const ProjectRequest *what, double *gap, double *most);

#endif
