/* Host side of update.h: the epilogue of kernels that gather the sum of a voxel in one thread. */
#include "backend/cuda/kernels/update.h"

/* Weight of a voxel at the centre of the grid in a view of the voxel-driven projector (voxel.h). */
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
	if (!KERNEL_HAS_SOURCE(k))
		return k->mass;
	bool in_plane = plan->model.planar || KERNEL_FANS(k);
	return k->mass * sqrt(square) / fabs(depth * depth * (in_plane ? 1 : depth));
}

/* Approximate largest weight of a voxel for a ray of weight 1. Ray-driven projectors: the
 * longest side of a voxel. */
static float largest_weight(const ProjectRequest *what)
{
	const double *step = what->plan->whole.step;
	double longest = fmax(step[0], fmax(step[1], step[2]));
	double weight = what->kernel == KERNEL_voxel
				? voxel_weight(what->plan, &what->plan->views[what->first])
				: longest;
	return (float)(isfinite(weight) ? weight : longest);
}

tomos_status update_open(tomos_backend *backend, const ProjectRequest *what,
	const CudaEpilogue *epilogue, VoxelUpdate *s)
{
	const CudaUpdate *update = &epilogue->update;
	const KernelModel *model = &what->plan->model;
	float *largest;
	*s = VoxelUpdate{};
	if (epilogue->kind != EPILOGUE_UPDATE)
		return TOMOS_OK;
	s->fused = true;
	s->with = *update;
	s->least = update->least * largest_weight(what);
	if (!update->average || !update->rays)
		return TOMOS_OK;
	Transposed rays = {.outside = (float *)update->rays,
		.slices = model->rows,
		.nj = model->columns,
		.nk = what->count,
		.si = model->columns,
		.sj = 1,
		.sk = model->rows * model->columns};
	TRY(cuda_scratch(backend, SCRATCH_LISTS, 1, &largest, "the largest weight"));
	s->largest = (const unsigned *)largest;
	return largest_value(backend, &rays, NULL, (unsigned *)largest);
}

int64_t views_at_once(const tomos_backend *backend, const ProjectRequest *what, int64_t floats)
{
	return max64(1, min64(device_of(backend)->scratch_most / floats, what->count));
}

double source_distance(const ProjectRequest *what, const KernelView *k)
{
	double square = 0;
	for (int a = 0; a < 3; a++) {
		double low = (double)what->box.low[a], high = (double)(what->box.high[a] - 1);
		double away = fmax(fmax(low - k->src[a], k->src[a] - high), 0.0);
		square += pow(away * what->plan->whole.step[a], 2);
	}
	return sqrt(square) / fabs(what->plan->whole.step[2]);
}
