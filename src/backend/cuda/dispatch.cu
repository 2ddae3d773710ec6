/* Chooses the kernel and epilogue of a request. Every projection on a GPU goes through
 * `dispatch`. */
#include <stdlib.h>
#include "backend/cuda/crop.h"
#include "backend/cuda/kernels/factors.h"
#include "backend/optimised.h"

extern "C" {
#include "backend/device/hat.h"
#include "backend/device/window_plan.h"
}

struct CudaRow {
	const char *name;
	unsigned projectors, direction;
	OptimisedChoice choice;
	const CudaKernel *code;
};

#define OPTIMISED_CPU(...)
#define OPTIMISED_OPENCL(...)
#define OPTIMISED_CUDA(id, ...) extern const CudaKernel cuda_##id;
#define OPTIMISED(backend, id, ...) OPTIMISED_##backend(id, __VA_ARGS__)
#include "backend/optimised.def"
#undef OPTIMISED_CUDA

#define OPTIMISED_CUDA(id, projectors, direction, choice, ...) \
	{#id, projectors, direction, choice, &cuda_##id},
static const CudaRow rows[] = {
#include "backend/optimised.def"
};
#undef OPTIMISED

/* ---- choosing a kernel ----------------------------------------------------------------------- */

typedef struct {
	const ProjectRequest *what;
	CudaNotes *notes;
	const char *name; /* NULL: any kernel that is chosen automatically */
} Wanted;

static bool fits(const CudaRow *row, const Wanted *w)
{
	bool meant = w->name ? strcmp(row->name, w->name) == 0 : row->choice == AUTO;
	return meant && optimised_computes(row->projectors, row->direction, w->what) &&
	       row->code->applies(w->what, w->notes);
}

static const CudaRow *find(const Wanted *w)
{
	for (int i = 0; i < COUNT(rows); i++)
		if (fits(&rows[i], w))
			return &rows[i];
	return NULL;
}

static bool cuda_has_kernel(const tomos_backend *backend, const char *kernel)
{
	(void)backend;
	for (int i = 0; i < COUNT(rows); i++)
		if (strcmp(rows[i].name, kernel) == 0)
			return true;
	return false;
}

/* The kernel named by TOMOS_KERNEL or found fastest by `tomos tune` for the whole request, where it
 * applies, or else the first that does. */
static tomos_status choose(const tomos_backend *backend, const ProjectRequest *whole,
	const ProjectRequest *what, CudaNotes *notes, const CudaRow **row)
{
	const char *name = getenv("TOMOS_KERNEL");
	if (name && *name && !cuda_has_kernel(backend, name))
		return fail(TOMOS_BAD_VALUE,
			"TOMOS_KERNEL is '%s', which is no kernel of this build ('tomos info "
			"kernels' lists them)",
			name);
	*row = NULL;
	if (what->plan->plain || !cuda_fits_launch(what))
		return TOMOS_OK;
	if (!name || !*name)
		name = tune_wanted(backend, whole);
	const Wanted named = {what, notes, name}, any = {what, notes, NULL};
	if (name)
		*row = find(&named);
	if (!*row)
		*row = find(&any);
	return TOMOS_OK;
}

static int list_candidates(const ProjectRequest *what, KernelCandidate *list)
{
	CudaNotes notes;
	int count = 0;
	for (int i = 0; i < COUNT(rows) && count < MAX_CANDIDATES; i++) {
		const Wanted named = {what, &notes, rows[i].name};
		if (fits(&rows[i], &named))
			list[count++] = (KernelCandidate){
				rows[i].name, rows[i].choice == AUTO, rows[i].choice == COARSE};
	}
	return count;
}

static int cuda_candidates(
	tomos_backend *backend, const ProjectRequest *what, KernelCandidate *list)
{
	ProjectRequest inner = *what;
	Plan *part;
	int *corners;
	if (what->plan->plain || !cuda_fits_launch(what))
		return 0;
	if (backend->own && cuda_use(backend) != TOMOS_OK) /* no device: a test */
		return 0;
	if (window_plan(&part, what->plan, &corners) == TOMOS_OK && part)
		inner.plan = part;
	const int count = list_candidates(&inner, list);
	slices_plan_free(part);
	mem_free(corners);
	return count;
}

static bool is_same(const CudaChoice *c, const ProjectRequest *what)
{
	return c->used && c->kernel == what->kernel && c->direction == what->direction &&
	       c->first == what->first && c->count == what->count &&
	       memcmp(&c->box, &what->box, sizeof c->box) == 0;
}

/* Choices are cached in the plan: examining every view in each iteration would take longer than
 * projecting a small slice. */
static tomos_status find_choice(tomos_backend *backend, const ProjectRequest *whole,
	const ProjectRequest *what, const CudaChoice **choice)
{
	const CudaPlan *kept;
	TRY(cuda_plan(backend, what->plan, &kept));
	for (int i = 0; i < CHOICES; i++)
		if (is_same(&kept->choices[i], what)) {
			*choice = &kept->choices[i];
			return TOMOS_OK;
		}
	CudaPlan *own = (CudaPlan *)kept;
	CudaChoice *fresh = &own->choices[own->next];
	own->next = (own->next + 1) % CHOICES;
	*fresh = (CudaChoice){.kernel = what->kernel,
		.direction = what->direction,
		.box = what->box,
		.first = what->first,
		.count = what->count};
	*choice = fresh;
	tomos_status status = choose(backend, whole, what, &fresh->notes, &fresh->row);
	fresh->used = status == TOMOS_OK;
	return status;
}

/* ---- epilogues ------------------------------------------------------------------------------- */

static bool overwrites(const CudaChoice *choice, const ProjectRequest *what)
{
	const CudaKernel *code = choice->row ? choice->row->code : NULL;
	return code && code->overwrites && code->overwrites(what, &choice->notes);
}

/* Whether the chosen kernel fuses the update; if it leaves that to a later row (FUSES_NEXT),
 * choice->row becomes that row. */
static CudaFusion find_fusion(tomos_backend *backend, const ProjectRequest *what,
	const FusedUpdate *step, CudaChoice *choice)
{
	CudaFusion fusion = FUSES_NEXT;
	for (const CudaRow *row = choice->row; row && row < rows + COUNT(rows); row++) {
		const Wanted same = {what, &choice->notes, row->name};
		if (row != choice->row && !fits(row, &same))
			continue;
		fusion = row->code->fuses ? row->code->fuses(backend, what, &choice->notes, step)
					  : FUSES_NOT;
		choice->row = row;
		if (fusion != FUSES_NEXT)
			break;
	}
	return fusion == FUSES_NEXT ? FUSES_NOT : fusion;
}

/* Clears the output if it shall be overwritten and the kernel can only accumulate; that of a
 * forward projection also where the kernel has a part of it. */
static tomos_status open_epilogue(tomos_backend *backend, const ProjectRequest *what, bool part,
	const CudaChoice *choice, CudaEpilogue *epilogue)
{
	const bool forward_part = part && what->direction == FORWARD;
	if (epilogue->kind != EPILOGUE_OVERWRITE || (!forward_part && overwrites(choice, what)))
		return TOMOS_OK;
	epilogue->kind = EPILOGUE_ACCUMULATE;
	return project_begin(backend, what);
}

/* A request, or the part of it that is run instead: `inner` is `whole` where crop is NULL. */
typedef struct {
	const ProjectRequest *whole;
	ProjectRequest inner;
	const CudaCrop *crop;
} Projecting;

static tomos_status run_inner(tomos_backend *backend, const ProjectRequest *what,
	const CudaChoice *choice, const CudaEpilogue *epilogue)
{
	backend->last_kernel = choice->row ? choice->row->name : NULL;
	if (choice->row)
		return choice->row->code->run(backend, what, &choice->notes, epilogue);
	return cuda_reference(backend, what);
}

static tomos_status run(tomos_backend *backend, const Projecting *p, const CudaChoice *choice,
	const CudaEpilogue *epilogue)
{
	if (!p->crop)
		return run_inner(backend, p->whole, choice, epilogue);
	TRY(cuda_crop_begin(backend, p->whole, &p->inner, p->crop));
	TRY(run_inner(backend, &p->inner, choice, epilogue));
	return cuda_crop_end(backend, p->whole, &p->inner, p->crop);
}

/* Runs a projection in the stream for projections (cuda_enter), and a fused update in the main
 * stream, in order with other operations on the voxels. */
static tomos_status run_in_turn(tomos_backend *backend, const Projecting *p,
	const CudaChoice *choice, const CudaEpilogue *epilogue)
{
	if (epilogue->kind == EPILOGUE_UPDATE)
		return run(backend, p, choice, epilogue);
	tomos_status status = cuda_enter(backend);
	if (status == TOMOS_OK)
		status = run(backend, p, choice, epilogue);
	tomos_status left = cuda_leave(backend);
	return status == TOMOS_OK ? left : status;
}

static tomos_status fuse_update(tomos_backend *backend, const ProjectRequest *what,
	const FusedUpdate *step, CudaChoice *choice, CudaEpilogue *epilogue, bool *done)
{
	CudaFusion fusion = find_fusion(backend, what, step, choice);
	*done = fusion != FUSES_NOT;
	epilogue->update = (CudaUpdate){.a = step->a,
		.low = step->low,
		.high = step->high,
		.volume = what->volume,
		.voxels = step->voxels,
		.average = step->average,
		.rays = step->rays,
		.least = step->least};
	if (fusion == FUSES_WITH_FACTORS)
		TRY(find_factors(
			backend, what, notes_of<HatSlices>(&choice->notes), &epilogue->update));
	return TOMOS_OK;
}

/* A request; at most one of `update` and `residual` is given. */
typedef struct {
	const ProjectRequest *what;
	const FusedUpdate *update;
	const FusedResidual *residual;
} Request;

static tomos_status dispatch_locked(tomos_backend *backend, const Request *r, bool *done)
{
	const ProjectRequest *what = r->what;
	CudaEpilogue epilogue = {.kind = r->update         ? EPILOGUE_UPDATE
					 : r->residual     ? EPILOGUE_RESIDUAL
					 : what->overwrite ? EPILOGUE_OVERWRITE
							   : EPILOGUE_ACCUMULATE};
	const CudaChoice *kept;
	Projecting p = {what, *what, NULL};
	TRY(cuda_use(backend));
	if (!r->residual && !(r->update && r->update->rays)) /* which are arrays of all pixels */
		TRY(cuda_crop(backend, what, &p.inner, &p.crop));
	TRY(find_choice(backend, what, &p.inner, &kept));
	CudaChoice choice = *kept;
	*done = true;
	if (r->update)
		TRY(fuse_update(backend, &p.inner, r->update, &choice, &epilogue, done));
	if (r->residual) {
		*done = overwrites(&choice, what);
		epilogue.residual = (CudaResidual){what->projections, *r->residual};
	}
	if (!*done)
		return TOMOS_OK;
	TRY(open_epilogue(backend, what, p.crop != NULL, &choice, &epilogue));
	return run_in_turn(backend, &p, &choice, &epilogue);
}

/* *done is false, and nothing has been computed, where no kernel can fuse the request. */
static tomos_status dispatch(tomos_backend *backend, const Request *r, bool *done)
{
	pthread_mutex_lock(&device_of(backend)->lock);
	tomos_status status = dispatch_locked(backend, r, done);
	pthread_mutex_unlock(&device_of(backend)->lock);
	return status;
}

static tomos_status cuda_project(tomos_backend *backend, const ProjectRequest *what)
{
	const Request request = {.what = what};
	bool done;
	return dispatch(backend, &request, &done);
}

static tomos_status cuda_back_update(
	tomos_backend *backend, const ProjectRequest *what, const FusedUpdate *step, bool *done)
{
	const Request request = {.what = what, .update = step};
	return dispatch(backend, &request, done);
}

static tomos_status cuda_forward_residual(tomos_backend *backend, const ProjectRequest *what,
	const FusedResidual *compare, bool *done)
{
	const Request request = {.what = what, .residual = compare};
	return dispatch(backend, &request, done);
}

const BackendProjector cuda_projector = {
	.apply = cuda_project,
	.apply_power = cuda_power,
	.pose = cuda_pose,
	.forward_residual = cuda_forward_residual,
	.back_update = cuda_back_update,
	.list_rows = cuda_list_rows,
	.candidates = cuda_candidates,
	.has_kernel = cuda_has_kernel,
};
