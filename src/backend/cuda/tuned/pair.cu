/* Updates of kernels whose pixels may be pairs; see pair.h. */
#include "backend/cuda/tuned/pair.h"

/* What a voxel in the middle of the grid counts in a view of the voxel-driven projector (voxel.h). */
static double voxel_weight(const Plan *plan, const KernelView *k)
{
	double depth = k->depth[3], square = 0;
	for (int a = 0; a < 3; a++) {
		double middle = (double)(plan->grid.n[a] / 2);
		depth += k->depth[a] * middle;
		square += pow((middle - k->src[a]) * plan->whole.step[a], 2);
	}
	if (plan->model.weight == WEIGHT_NONE)
		return 1;
	if (plan->model.weight == WEIGHT_DEPTH)
		return 1 / (depth * depth);
	if (k->src[3] == 0)
		return k->mass;
	bool in_plane = plan->model.planar || KERNEL_FANS(k);
	return k->mass * sqrt(square) / fabs(depth * depth * (in_plane ? 1 : depth));
}

/* The largest weight of a ray that counts 1, near enough; ray-driven: as long as a voxel is at most. */
static float largest_weight(const Projecting *what)
{
	const double *step = what->plan->whole.step;
	double longest = fmax(step[0], fmax(step[1], step[2]));
	double weight = what->kernel == KERNEL_voxel
				? voxel_weight(what->plan, &what->plan->views[what->first])
				: longest;
	return (float)(isfinite(weight) ? weight : longest);
}

tomos_status pair_step(tomos_backend *backend, const Projecting *what, PairStep *s)
{
	const CudaStep *step = device_of(backend)->step;
	const KernelModel *model = &what->plan->model;
	float *largest;
	*s = PairStep{};
	if (!step)
		return TOMOS_OK;
	s->update = true;
	s->step = *step;
	s->least = step->least * largest_weight(what);
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

int64_t pair_views(const tomos_backend *backend, const Projecting *what, int64_t floats)
{
	return max64(1, min64(device_of(backend)->scratch_most / floats, what->count));
}
