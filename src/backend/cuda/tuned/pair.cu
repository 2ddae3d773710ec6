/* Updates of kernels whose pixels may be pairs; see pair.h. */
#include "backend/cuda/tuned/pair.h"

/* The largest weight of a ray is known near enough: as long as a voxel is at most, times what it counts. */
tomos_status pair_step(tomos_backend *backend, const Projecting *what, PairStep *s)
{
	const CudaStep *step = device_of(backend)->step;
	const KernelModel *model = &what->plan->model;
	const double *voxel = what->plan->whole.step;
	float *largest;
	*s = PairStep{};
	if (!step)
		return TOMOS_OK;
	s->update = true;
	s->step = *step;
	s->least = step->least * (float)fmax(fabs(voxel[0]), fmax(fabs(voxel[1]), fabs(voxel[2])));
	if (!step->average || !step->rays)
		return TOMOS_OK;
	Turning rays = {.outside = (float *)step->rays,
		.slices = model->rows,
		.nj = model->columns,
		.nk = what->count,
		.si = model->columns,
		.sj = 1,
		.sk = model->rows * model->columns};
	TRY(cuda_scratch(backend, 2, 1, &largest, "the largest weight"));
	s->largest = (const unsigned *)largest;
	return turn_largest(backend, &rays, NULL, (unsigned *)largest);
}
