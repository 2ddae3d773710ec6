/* Distributes a projection over threads, so that each thread writes its own pixels (forward) or
 * voxels (adjoint). The division, and therefore the rounding, does not depend on the number of
 * threads. */
#include <stdlib.h>
#include <string.h>
#include "backend/cpu/cpu.h"
#include "backend/optimised.h"

enum { RAYS_PER_TASK = 4096, SLABS = 32 };

typedef struct {
	const ProjectRequest *what;
	ReferenceKernel kernel;
	KernelGrid grid;
	int64_t row_parts, row_size;     /* forward: rows of a view */
	int64_t z_size, y_parts, y_size; /* adjoint: slabs */
} Division;

static float *image_of(const ProjectRequest *what, int64_t view)
{
	return what->projections + view * what->plan->scan->rows * what->plan->scan->columns;
}

static void forward_rays(void *user, int64_t index)
{
	const Division *s = user;
	const KernelModel *model = &s->what->plan->model;
	int64_t view = index / s->row_parts, row = index % s->row_parts * s->row_size;
	Window window = {{0, row}, {model->columns, min64(row + s->row_size, model->rows)}};
	s->kernel(s->what->plan, &s->grid, s->what->first + view, &window, NULL, s->what->volume,
		image_of(s->what, view));
}

static void forward_voxels(void *user, int64_t view)
{
	const Division *s = user;
	s->kernel(s->what->plan, &s->grid, s->what->first + view, NULL, &s->what->box,
		s->what->volume, image_of(s->what, view));
}

/* Whole slices, or rows of one slice: contiguous in memory in both cases. */
static Box slab(const Division *s, int64_t index)
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
	const Division *s = user;
	const ProjectRequest *what = s->what;
	Box box = slab(s, index);
	/* Rays are clipped to the slab. */
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
	const Division *s = user;
	Box box = slab(s, index);
	for (int64_t view = 0; view < s->what->count && !cancel_seen(); view++)
		s->kernel(s->what->plan, &s->grid, s->what->first + view, NULL, &box,
			s->what->volume, image_of(s->what, view));
}

static void divide_forward(Division *s, KernelFamily family)
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

/* Divides the volume into slabs. They must not be too thin, since a ray is set up once per slab. */
static void divide_adjoint(Division *s, KernelFamily family)
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

static bool fits(const CpuRow *row, const ProjectRequest *what)
{
	return optimised_computes(row->projectors, row->direction, what) &&
	       row->code->applies(what);
}

/* Kernel `i` with the widest vectors that are not slower, or else with the widest that apply; NULL:
 * it does not apply. Where a kernel further down is faster with the same vectors, narrower ones
 * are no remedy. */
static const CpuRow *find_width(
	const CpuLevel *level, int i, const ProjectRequest *what, bool *slower)
{
	const CpuRow *widest = NULL;
	*slower = false;
	for (; level; level = level->narrower) {
		const CpuRow *row = &level->optimised[i];
		if (!fits(row, what))
			continue;
		if (!row->code->slower || !row->code->slower(what))
			return row;
		widest = widest ? widest : row;
		if (!row->code->by_width)
			break;
	}
	*slower = true;
	return widest;
}

static int cpu_candidates(tomos_backend *backend, const ProjectRequest *what, KernelCandidate *list)
{
	const CpuLevel *level = backend->own;
	int count = 0;
	bool slower;
	for (int i = 0; i < level->optimised_count && count < MAX_CANDIDATES; i++)
		if (find_width(level, i, what, &slower))
			list[count++] = (KernelCandidate){level->optimised[i].name, true, false};
	return count;
}

static bool cpu_has_kernel(const tomos_backend *backend, const char *kernel)
{
	const CpuLevel *level = backend->own;
	int i = 0;
	while (i < level->optimised_count && strcmp(level->optimised[i].name, kernel) != 0)
		i++;
	return i < level->optimised_count;
}

const CpuRow *cpu_find(const CpuLevel *level, const ProjectRequest *what, const char *name)
{
	const CpuRow *first = NULL;
	for (int i = 0; i < level->optimised_count; i++) {
		bool slower;
		if (name && strcmp(level->optimised[i].name, name) != 0)
			continue;
		const CpuRow *row = find_width(level, i, what, &slower);
		if (row && !slower)
			return row;
		first = first ? first : row;
	}
	return first;
}

static const CpuRow *find_optimised(tomos_backend *backend, const ProjectRequest *what)
{
	const char *wanted = getenv("TOMOS_KERNEL");
	if (what->plan->plain)
		return NULL;
	if (!wanted || !*wanted)
		wanted = tune_wanted(backend, what);
	const CpuRow *named = wanted ? cpu_find(backend->own, what, wanted) : NULL;
	return named ? named : cpu_find(backend->own, what, NULL);
}

/* Kernels of other backends do not apply here, which is no mistake: a program may use several. */
static tomos_status check_name(void)
{
	const char *name = getenv("TOMOS_KERNEL");
	int count, i = 0;
	const tomos_kernel *known = tomos_kernels(&count);
	while (name && *name && i < count && strcmp(known[i].name, name) != 0)
		i++;
	if (i < count)
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE,
		"TOMOS_KERNEL is '%s', which is no kernel of this build ('tomos info kernels' "
		"lists them)",
		name);
}

/* Only for few views: with many of them, separate passes over the volume with stored weights cost
 * less than computing the weights again. */
static tomos_status cpu_back_update(
	tomos_backend *backend, const ProjectRequest *what, const FusedUpdate *step, bool *done)
{
	const CpuRow *optimised = NULL;
	TRY(check_name());
	if (what->count <= FEW_VIEWS && !step->voxels)
		optimised = find_optimised(backend, what);
	*done = optimised && optimised->code->step;
	if (*done)
		__atomic_store_n(&backend->last_kernel, optimised->name, __ATOMIC_RELAXED);
	return *done ? optimised->code->step(what, step) : TOMOS_OK;
}

static tomos_status run(const CpuLevel *level, const ProjectRequest *what, const CpuRow *optimised)
{
	if (optimised)
		return optimised->code->run[what->direction](what);
	Division s = {.what = what, .grid = request_grid(what)};
	s.kernel = level->reference[what->kernel][what->direction];
	KernelFamily family = kernel_rows[what->kernel].family;
	if (what->direction == FORWARD)
		divide_forward(&s, family);
	else
		divide_adjoint(&s, family);
	return TOMOS_OK;
}

static tomos_status cpu_project_request(tomos_backend *backend, const ProjectRequest *what)
{
	TRY(check_name());
	const CpuRow *optimised = find_optimised(backend, what);
	const char *name = optimised ? optimised->name : NULL;
	__atomic_store_n(&backend->last_kernel, name, __ATOMIC_RELAXED);
	if (!(optimised && optimised->code->overwrites && what->direction == ADJOINT &&
		    what->count > 0))
		TRY(project_begin(backend, what));
	return run(backend->own, what, optimised);
}

/* The loops of reference kernels store nothing for each other. */
static int64_t cpu_team_floats(tomos_backend *backend, const ProjectRequest *what)
{
	const CpuRow *optimised = find_optimised(backend, what);
	if (!optimised)
		return 1;
	int64_t (*floats)(const ProjectRequest *) = optimised->code->team_floats[what->direction];
	return floats ? floats(what) : 0;
}

const BackendProjector cpu_projector = {
	.apply = cpu_project_request,
	.apply_power = cpu_power,
	.pose = cpu_pose,
	.back_update = cpu_back_update,
	.row = cpu_row,
	.candidates = cpu_candidates,
	.has_kernel = cpu_has_kernel,
	.team_floats = cpu_team_floats,
};
