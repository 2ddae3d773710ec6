/* Every projector of kernels.def in both directions, as a reference kernel. */
#include "backend/cuda/reference.h"

tomos_status cuda_reference(tomos_backend *backend, const ProjectRequest *what)
{
	return run_reference(backend, what, 1);
}
