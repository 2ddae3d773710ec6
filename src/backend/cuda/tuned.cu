/* The tuned kernels, in the order in which they are tried. */
#include "backend/cuda/cuda.h"

const CudaTuned cuda_tuned[] = {{"", -1, FORWARD, NULL, NULL}};
const int cuda_tuned_count = 0;
