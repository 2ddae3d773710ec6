/* Host side of joseph_back_rolled.h: which requests it applies to, and launches. */
#include "backend/cuda/kernels/joseph_back_rolled.h"

/* Largest shift, in columns, and its quotient by rho. */
#define MOST_SHIFT 0.45
#define EXTRAPOLATION 12.0

typedef struct {
	int64_t group; /* most slices of a group */
	double shift;  /* columns per slice */
} Notes;

/* A plan with two views for each, shifted by -rho and rho, as slice `middle` sees them. */
static tomos_status rolled_plan(Plan **slices, const Plan *whole, double middle, double rho)
{
	TRY(slices_plan(slices, whole, 2));
	Plan *plan = *slices;
	plan->model.columns = plan->scan->columns = whole->model.columns;
	for (int64_t i = 0; i < plan->scan->count; i++) {
		KernelView *k = &plan->views[i];
		*k = whole->views[i / 2];
		k->column[3] += k->column[2] * middle + (i % 2 ? -rho : rho);
		k->column[2] = 0;
	}
	return TOMOS_OK;
}

/* The plan of a group, kept with the plan of the request until another is needed. */
static tomos_status find_plan(tomos_backend *backend, const ProjectRequest *what, double middle,
	double rho, const Plan **slices)
{
	const CudaPlan *kept;
	TRY(cuda_plan(backend, what->plan, &kept));
	Plan **place = &((CudaPlan *)kept)->slices[0][ADJOINT];
	const KernelView *k = &what->plan->views[0];
	if (*place &&
		(*place)->views[0].column[3] != k->column[3] + (k->column[2] * middle + rho)) {
		slices_plan_free(*place);
		*place = NULL;
	}
	if (!*place)
		TRY(rolled_plan(place, what->plan, middle, rho));
	*slices = *place;
	return TOMOS_OK;
}

static double rho_of(const Notes *n)
{
	return n->shift * (0.5 * (double)(n->group - 1) + 1) / EXTRAPOLATION;
}

/* Whether the rays of a view stay in planes of constant z; adds to what is needed for them. */
static bool view_applies(const ProjectRequest *what, const KernelView *k, Notes *n)
{
	const double most = fmax(fabs(k->src[0]), fabs(k->src[1])), high = fabs(k->v[2]);
	const double way = (double)(what->plan->grid.n[0] + what->plan->grid.n[1]) +
			   fabs(k->first[0]) + fabs(k->first[1]);
	/* A row less than 1e-4 slices inside of the reach of a slice counts in the stack only, so
	 * that no more than two count; and the rows of a column skip a slice once at most. */
	if (!(fabs(k->src[2]) * way <= RAY_TOLERANCE * most) ||
		!(high >= 1 - 1e-4 && high <= 1 + 1 / (double)SLICES))
		return false;
	n->shift = fmax(n->shift, fabs(k->column[2]));
	return true;
}

/* Groups of equal size, as large as the shift allows. */
static bool find_group(const ProjectRequest *what, Notes *n)
{
	const int64_t slices = what->box.high[2] - what->box.low[2];
	const double allowed = 2 * (MOST_SHIFT / n->shift - 1) + 1;
	const int64_t most = allowed > (double)SLICES ? (int64_t)SLICES : (int64_t)allowed;
	if (!(allowed >= (double)LEAST_SLICES) || slices < LEAST_SLICES)
		return false;
	const int64_t parts = (slices - 1) / most + 1;
	n->group = (slices - 1) / parts + 1;
	return slices - (parts - 1) * n->group >= LEAST_SLICES;
}

static bool rolled_applies(const ProjectRequest *what, CudaNotes *notes)
{
	const Plan *plan = what->plan;
	Notes *n = notes_of<Notes>(notes);
	Plan *slices;
	*n = Notes{.shift = 1e-9};
	if (plan->every || plan->model.clamp || plan->model.nearest || plan->model.planar ||
		plan->rays.source != TOMOS_PARALLEL || what->count > 65535 ||
		plan->model.columns > 1 << 22 || plan->data == DATA_HALF)
		return false;
	for (int64_t i = 0; i < what->count; i++)
		if (!view_applies(what, &plan->views[what->first + i], n))
			return false;
	if (!find_group(what, n) || rolled_plan(&slices, plan, 0, 0) != TOMOS_OK)
		return false;
	const bool found = stack_has_kernel(what, slices, true);
	slices_plan_free(slices);
	return found;
}

static tomos_status launch_kinks(tomos_backend *backend, const Rolled *s)
{
	const int bytes = PIXELS * SLICES * (int)sizeof(float);
	TRY(cuda_take_shared((const void *)rolled_kinks));
	rolled_kinks<<<dim3(cuda_blocks(s->na + 2, SIDE, 1 << 30),
			       cuda_blocks(s->nb + 2, SIDE, 65535), 2),
		THREADS, bytes, device_of(backend)->stream>>>(*s);
	CUDA_LAUNCHED("back projecting rolled views");
	return TOMOS_OK;
}

/* Adds what the stack kernel left out to lines b .. b + lines - 1 of the volume; x: all of it. */
static tomos_status add_lines(
	tomos_backend *backend, Rolled s, Transposed x, int64_t b, int64_t lines)
{
	static const CudaEpilogue accumulate = {.kind = EPILOGUE_ACCUMULATE};
	s.low_b += b;
	s.nb = (int)lines;
	x.outside += b * x.sk;
	x.nk = lines;
	TRY(launch_kinks(backend, &s));
	rolled_bend<<<dim3(cuda_blocks(s.na, HIGH, 1 << 30), cuda_blocks(s.nb, 1, 65535)),
		dim3(SLICES, HIGH), 0, device_of(backend)->stream>>>(s, x.inside, x.pitch);
	CUDA_LAUNCHED("back projecting rolled views");
	return transpose_out(backend, &x, &accumulate);
}

/* The same for the whole volume, as many lines at a time as fit into scratch memory. */
static tomos_status add_volume(tomos_backend *backend, const ProjectRequest *what, Rolled s)
{
	const HatSlices l = {.s = 2, .a = 0, .b = 1, .sign = 1};
	Transposed x = transposed_volume(what, &l, s.low, s.slices, CHUNK);
	const int64_t wide = s.na + 2, line = (2 * wide + s.na) * SLICES;
	const int64_t most = min64(
		max64(device_of(backend)->slices_most / line - 4, (int64_t)SIDE), (int64_t)s.nb);
	TRY(cuda_scratch(backend, SCRATCH_ROWS, 2 * wide * (most + 2) * SLICES, &s.bends, "kinks"));
	TRY(cuda_scratch(backend, SCRATCH_REORDERED, x.pitch * x.nj * most, &x.inside, "slices"));
	for (int64_t b = 0; b < s.nb; b += most)
		TRY(add_lines(backend, s, x, b, min64(most, s.nb - b)));
	return TOMOS_OK;
}

static tomos_status run_part(tomos_backend *backend, const ProjectRequest *what, const Notes *n,
	Rolled s, const StackPart *part, const CudaEpilogue *epilogue)
{
	const Plan *slices;
	const HatSlices l = {.s = 2, .a = 0, .b = 1, .sign = 1};
	const int64_t stack = (2 * part->count * part->slices * s.columns + 3) / 4 * 4,
		      columns = part->count * s.columns;
	float *space;
	s.middle = (double)part->low + 0.5 * (double)(part->slices - 1);
	TRY(find_plan(backend, what, s.middle, rho_of(n), &slices));
	ProjectRequest doubled = *what;
	doubled.plan = slices;
	doubled.first = 2 * (what->first + part->first);
	TRY(hat_views(backend, &doubled, &l, &s.hats));
	TRY(cuda_scratch(backend, SCRATCH_FACTORS, stack + 2 * columns * (SLICES + 1), &space,
		"projections of slices"));
	s.views += part->first;
	s.count = part->count;
	s.scan += part->first * s.rows * s.columns;
	s.low = part->low;
	s.slices = (int)part->slices;
	s.rho = (float)rho_of(n);
	s.slope = (float)(0.5 / rho_of(n));
	s.stack = space;
	s.pairs = (float2 *)(space + stack);
	s.below = (Below *)(s.pairs + columns * SLICES);
	const dim3 blocks(cuda_blocks(s.columns, LANES, 1 << 30), (unsigned)s.count);
	rolled_spread<<<blocks, dim3(LANES, HIGH), 0, device_of(backend)->stream>>>(s);
	CUDA_LAUNCHED("back projecting rolled views");
	TRY(stack_run(backend, what, slices, part, s.stack, epilogue));
	return add_volume(backend, what, s);
}

/* Views of a pass: as many as fit into scratch memory. */
static int64_t views_of_pass(const tomos_backend *backend, const ProjectRequest *what)
{
	const int64_t view = what->plan->model.columns * (4 * SLICES + 2);
	const int64_t most = min64(device_of(backend)->slices_most / view,
		(int64_t)UINT32_MAX / SLICES / what->plan->model.columns);
	return min64(max64(most, 1), what->count);
}

static tomos_status rolled_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	static const CudaEpilogue accumulate = {.kind = EPILOGUE_ACCUMULATE};
	const Notes *n = notes_of<Notes>(notes);
	const int64_t views = views_of_pass(backend, what), high = what->box.high[2];
	const CudaPlan *kept;
	TRY(cuda_plan(backend, what->plan, &kept));
	const Rolled s = {.views = kept->views + what->first,
		.rows = what->plan->model.rows,
		.columns = what->plan->model.columns,
		.na = (int)(what->box.high[0] - what->box.low[0]),
		.nb = (int)(what->box.high[1] - what->box.low[1]),
		.low_a = what->box.low[0],
		.low_b = what->box.low[1],
		.scan = what->projections};
	for (int64_t z = what->box.low[2]; z < high; z += n->group)
		for (int64_t first = 0; first < what->count; first += views) {
			const StackPart part = {z, min64(n->group, high - z), first,
				min64(views, what->count - first)};
			TRY(run_part(
				backend, what, n, s, &part, first == 0 ? epilogue : &accumulate));
		}
	return TOMOS_OK;
}

static bool rolled_overwrites(const ProjectRequest *, const CudaNotes *)
{
	return true;
}

extern const CudaKernel cuda_joseph_back_rolled;
const CudaKernel cuda_joseph_back_rolled = {rolled_applies, rolled_run, NULL, rolled_overwrites};
