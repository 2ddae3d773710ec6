/* Shares a projection out among the threads, so that each writes what is its own: pixels going
 * forward, voxels going back. The parts do not depend on the number of threads, nor do the sums. */
#include <string.h>
#include "backend/cpu/cpu.h"

enum { RAYS_PER_TASK = 4096, SLABS = 32 };

typedef struct {
	const ProjectRequest *what;
	SharedKernel kernel;
	KernelGrid grid;
	int64_t row_parts, row_size;     /* forward: rows of a view */
	int64_t z_size, y_parts, y_size; /* adjoint: slabs */
} Sharing;

static float *image_of(const ProjectRequest *what, int64_t view)
{
	return what->projections + view * what->plan->scan->rows * what->plan->scan->columns;
}

static void forward_rays(void *user, int64_t index)
{
	const Sharing *s = user;
	const KernelModel *model = &s->what->plan->model;
	int64_t view = index / s->row_parts, row = index % s->row_parts * s->row_size;
	Window window = {{0, row}, {model->columns, min64(row + s->row_size, model->rows)}};
	s->kernel(s->what->plan, &s->grid, s->what->first + view, &window, NULL, s->what->volume,
		image_of(s->what, view));
}

static void forward_voxels(void *user, int64_t view)
{
	const Sharing *s = user;
	s->kernel(s->what->plan, &s->grid, s->what->first + view, NULL, &s->what->box,
		s->what->volume, image_of(s->what, view));
}

/* Whole slices, or rows of one slice: contiguous in memory either way. */
static Box slab(const Sharing *s, int64_t index)
{
	Box box = s->what->box;
	box.low[2] += index / s->y_parts * s->z_size;
	box.high[2] = min64(box.low[2] + s->z_size, box.high[2]);
	box.low[1] += index % s->y_parts * s->y_size;
	box.high[1] = min64(box.low[1] + s->y_size, box.high[1]);
	return box;
}

static void adjoint_rays(void *user, int64_t index)
{
	const Sharing *s = user;
	const ProjectRequest *what = s->what;
	Box box = slab(s, index);
	/* The slab as a box of its own, so that rays are clipped to it. */
	KernelGrid grid = s->grid;
	memcpy(grid.low, box.low, sizeof grid.low);
	memcpy(grid.high, box.high, sizeof grid.high);
	int64_t nx = box.high[0] - box.low[0], ny = what->box.high[1] - what->box.low[1];
	float *volume = what->volume +
			((box.low[2] - what->box.low[2]) * ny + box.low[1] - what->box.low[1]) * nx;
	for (int64_t view = 0; view < what->count && !cancel_seen(); view++) {
		Window window = geom_window(
			what->plan->scan, what->first + view, &what->plan->grid, &box, 1.5);
		s->kernel(what->plan, &grid, what->first + view, &window, NULL, volume,
			image_of(what, view));
	}
}

static void adjoint_voxels(void *user, int64_t index)
{
	const Sharing *s = user;
	Box box = slab(s, index);
	for (int64_t view = 0; view < s->what->count && !cancel_seen(); view++)
		s->kernel(s->what->plan, &s->grid, s->what->first + view, NULL, &box,
			s->what->volume, image_of(s->what, view));
}

static void share_forward(Sharing *s, KernelFamily family)
{
	const KernelModel *model = &s->what->plan->model;
	if (family == FAMILY_VOXEL) {
		parallel_for(s->what->count, forward_voxels, s);
		return;
	}
	s->row_size = max64(1, RAYS_PER_TASK / model->columns);
	s->row_parts = parts(model->rows, s->row_size);
	parallel_for(s->what->count * s->row_parts, forward_rays, s);
}

/* Not too thin, since a ray is set up once per slab that it meets. */
static void share_adjoint(Sharing *s, KernelFamily family)
{
	int64_t ny = s->what->box.high[1] - s->what->box.low[1];
	int64_t nz = s->what->box.high[2] - s->what->box.low[2];
	int64_t least = family == FAMILY_RAY ? SLABS / 2 : SLABS;
	s->z_size = nz >= SLABS ? nz / SLABS : 1;
	s->y_size = nz >= least ? ny : parts(ny, parts(least, nz));
	s->y_parts = parts(ny, s->y_size);
	parallel_for(parts(nz, s->z_size) * s->y_parts,
		family == FAMILY_RAY ? adjoint_rays : adjoint_voxels, s);
}

static bool fits(const TunedKernel *tuned, const ProjectRequest *what)
{
	return tuned->kernel == what->kernel && tuned->direction == what->direction &&
	       tuned->applies(what);
}

static int cpu_candidates(tomos_backend *backend, const ProjectRequest *what, KernelCandidate *list)
{
	const CpuLevel *level = backend->own;
	int count = 0;
	for (int i = 0; i < level->tuned_count && count < MAX_CANDIDATES; i++)
		if (fits(&level->tuned[i], what))
			list[count++] = (KernelCandidate){level->tuned[i].name, true, false};
	return count;
}

static bool cpu_has_kernel(const tomos_backend *backend, const char *kernel)
{
	const CpuLevel *level = backend->own;
	int i = 0;
	while (i < level->tuned_count && strcmp(level->tuned[i].name, kernel) != 0)
		i++;
	return i < level->tuned_count;
}

static const TunedKernel *find_named(
	const CpuLevel *level, const ProjectRequest *what, const char *name)
{
	for (int i = 0; i < level->tuned_count; i++)
		if ((!name || strcmp(level->tuned[i].name, name) == 0) &&
			fits(&level->tuned[i], what))
			return &level->tuned[i];
	return NULL;
}

static const TunedKernel *find_tuned(
	const CpuLevel *level, const ProjectRequest *what, const char *wanted)
{
	if (what->plan->plain)
		return NULL;
	const TunedKernel *named = wanted ? find_named(level, what, wanted) : NULL;
	return named ? named : find_named(level, what, NULL);
}

/* With many views, passes over the volume and weights that are kept cost less than weights made anew. */
static tomos_status cpu_back_update(
	tomos_backend *backend, const ProjectRequest *what, const FusedUpdate *step, bool *done)
{
	const TunedKernel *tuned = NULL;
	if (what->count <= FEW_VIEWS && !step->voxels)
		tuned = find_tuned(backend->own, what, tune_wanted(backend, what));
	*done = tuned && tuned->step;
	if (*done)
		__atomic_store_n(&backend->last_kernel, tuned->name, __ATOMIC_RELAXED);
	return *done ? tuned->step(what, step) : TOMOS_OK;
}

tomos_status cpu_project(const CpuLevel *level, const ProjectRequest *what, const char *wanted)
{
	const TunedKernel *tuned = find_tuned(level, what, wanted);
	if (tuned)
		return tuned->run(what);
	Sharing s = {.what = what, .grid = what->plan->whole};
	s.kernel = level->shared[what->kernel][what->direction];
	memcpy(s.grid.low, what->box.low, sizeof s.grid.low);
	memcpy(s.grid.high, what->box.high, sizeof s.grid.high);
	KernelFamily family = kernel_rows[what->kernel].family;
	if (what->direction == FORWARD)
		share_forward(&s, family);
	else
		share_adjoint(&s, family);
	return TOMOS_OK;
}

static tomos_status cpu_project_request(tomos_backend *backend, const ProjectRequest *what)
{
	const char *wanted = tune_wanted(backend, what);
	const TunedKernel *tuned = find_tuned(backend->own, what, wanted);
	__atomic_store_n(&backend->last_kernel, tuned ? tuned->name : NULL, __ATOMIC_RELAXED);
	TRY(project_begin(backend, what));
	return cpu_project(backend->own, what, wanted);
}

const BackendProjector cpu_projector = {
	.apply = cpu_project_request,
	.apply_power = cpu_power,
	.back_update = cpu_back_update,
	.row = cpu_row,
	.candidates = cpu_candidates,
	.has_kernel = cpu_has_kernel,
};
