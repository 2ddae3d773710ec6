/* HatView of every view of a plan. Computed once and stored on the device together with the
 * plan. */
#include "backend/cuda/kernels/hat.h"

typedef struct {
	const HatSlices *slices;
	int kernel;
} Making;

static void make_hat(const Plan *plan, int64_t view, const void *user, void *place)
{
	const Making *m = (const Making *)user;
	*(HatView *)place = hat_view(plan, view, m->slices, m->kernel);
}

tomos_status hat_views(tomos_backend *backend, const ProjectRequest *what, const HatSlices *slices,
	const HatView **views)
{
	const Making making = {slices, what->kernel};
	const void *device;
	int slot = what->kernel == KERNEL_voxel ? KEPT_VOXEL_HATS : KEPT_JOSEPH_HATS;
	TRY(cuda_kept(backend, what->plan, slot, sizeof(HatView), make_hat, &making, &device));
	*views = (const HatView *)device + what->first;
	return TOMOS_OK;
}
