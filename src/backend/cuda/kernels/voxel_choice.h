/* Which of the kernels for voxel-driven forward projection is the fastest, for those of them that
 * come before it in the list. */
#ifndef TOMOS_BACKEND_CUDA_KERNELS_VOXEL_CHOICE_H
#define TOMOS_BACKEND_CUDA_KERNELS_VOXEL_CHOICE_H

#include "backend/cuda/cuda.h"

/* Whether voxel_forward_any applies and is faster than the others (voxel_work.h). */
bool voxel_any_is_faster(const ProjectRequest *what);

#endif
