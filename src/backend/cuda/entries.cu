/* The reference kernels with powers of the matrix entries: power 0 (1 for each non-zero entry)
 * or 2. */
#define KERNEL_WEIGHT(meet, weight) ((meet)->count == 0 ? 1 : (weight) * (weight))
#include "backend/cuda/reference.h"

tomos_status cuda_power(tomos_backend *backend, const ProjectRequest *what, int power)
{
	CudaDevice *d = device_of(backend);
	TRY(cuda_use(backend));
	TRY(project_begin(backend, what));
	pthread_mutex_lock(&d->lock);
	tomos_status status = run_reference(backend, what, power);
	pthread_mutex_unlock(&d->lock);
	return status;
}
