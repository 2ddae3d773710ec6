/* The reference kernels: every row of kernels.def in both directions. */
#include "backend/cuda/reference.h"

tomos_status cuda_reference(tomos_backend *backend, const ProjectRequest *what)
{
	return run_reference(backend, what, 1);
}
