/* Stacks of slices (or of fans) that are not as high as detector rows or lie between them, and
 * voxels wider than a pixel: a stack kernel projects onto a virtual detector (slices_plan), which
 * has one row per slice, and the weights along z are applied between its rows and those of the
 * scan.
 *
 * Back projection may need a hat function wider than the two columns that the stack kernels meet.
 * Among every n-th column it is n times narrower, so that each view becomes n virtual views of
 * every n-th column. Weights are products of those within a slice and those along z, so both steps
 * are exact.
 */
#include "backend/cuda/kernels/slices_resampled.h"

enum { MOST_EVERY = 8, WIDE = 128, EACH = 4 /* columns of a thread */ };

/* Kernels for the virtual stack; slice_... and fan_...: few slices. */
extern const CudaKernel cuda_slices_forward_wgmma_half, cuda_slices_forward_wgmma_split,
	cuda_slices_forward_l1, cuda_slices_back_wgmma_half, cuda_slices_back_wgmma_split,
	cuda_slices_back_mma, cuda_slices_back_shared, cuda_slices_back_l1,
	cuda_footprint_forward_slices, cuda_footprint_back_slices, cuda_fans_forward_l1,
	cuda_fans_back_shared, cuda_fan_forward, cuda_fan_back, cuda_slice_forward, cuda_slice_back;
enum { FORWARDS = 5, BACKS = 6, FANS = 2, FAST_FORWARDS = 2, FAST_BACKS = 4 };
static const CudaKernel *const footprints[2] = {
	&cuda_footprint_forward_slices, &cuda_footprint_back_slices};
static const CudaKernel *const fans[2][FANS] = {
	{&cuda_fans_forward_l1, &cuda_fan_forward}, {&cuda_fans_back_shared, &cuda_fan_back}};
static const CudaKernel *const forwards[FORWARDS] = {&cuda_slices_forward_wgmma_half,
	&cuda_slices_forward_wgmma_split, &cuda_slices_forward_l1, &cuda_slice_forward,
	&cuda_fan_forward};
static const CudaKernel *const backs[BACKS] = {&cuda_slices_back_wgmma_half,
	&cuda_slices_back_wgmma_split, &cuda_slices_back_mma, &cuda_slices_back_shared,
	&cuda_slices_back_l1, &cuda_slice_back};

typedef struct {
	int every;
} Resampled;

/* ---- the virtual stack ----------------------------------------------------------------------- */

/* Fans in slices, or in the one slice there is. */
static bool is_fan(const Plan *plan)
{
	const int source = plan->rays.source;
	return source == TOMOS_FAN_PER_ROW || (source == TOMOS_POINT && plan->model.planar);
}

/* The first kernel for the stack; fast: of those for tensor cores and shared memory. */
static const CudaKernel *stack_kernel(const ProjectRequest *stack, bool fast, CudaNotes *notes)
{
	const bool forward = stack->direction == FORWARD;
	const CudaKernel *const *list = forward ? forwards : backs;
	int count = forward ? (fast ? FAST_FORWARDS : FORWARDS) : fast ? FAST_BACKS : BACKS;
	if (stack->kernel == KERNEL_footprint) {
		list = &footprints[!forward];
		count = 1;
	} else if (is_fan(stack->plan)) {
		list = fans[!forward];
		count = FANS;
	}
	for (int i = 0; i < count; i++)
		if (list[i]->applies(stack, notes))
			return list[i];
	return NULL;
}

/* The request for `count` views from `first` on (of the request `what`), with the plan `slices`. */
static ProjectRequest stack_request(
	const ProjectRequest *what, const Plan *slices, int64_t first, int64_t count)
{
	ProjectRequest stack = *what;
	stack.plan = slices;
	stack.first = (what->first + first) * slices->every;
	stack.count = count * slices->every;
	return stack;
}

bool stack_has_kernel(const ProjectRequest *what, const Plan *slices, bool fast)
{
	CudaNotes notes;
	ProjectRequest stack = stack_request(what, slices, -what->first, what->plan->scan->count);
	return stack_kernel(&stack, fast, &notes) != NULL;
}

static bool has_kernel(const ProjectRequest *what, int every, bool fast)
{
	Plan *slices;
	if (slices_plan(&slices, what->plan, every) != TOMOS_OK)
		return false;
	const bool found = stack_has_kernel(what, slices, fast);
	slices_plan_free(slices);
	return found;
}

static int slices_axis(const RayClass *rays)
{
	return rays_are(rays, RAYS_IN_SLICE) ? rays->all.axis : 2;
}

/* Clears what the part of the stack is projected onto. Kernels that need this are for slices across
 * z. */
static tomos_status clear_part(
	tomos_backend *backend, const ProjectRequest *stack, const StackPart *part)
{
	const Box *box = &stack->box;
	const int64_t slice = (box->high[0] - box->low[0]) * (box->high[1] - box->low[1]);
	const bool forward = stack->direction == FORWARD;
	float *to =
		forward ? stack->projections : stack->volume + (part->low - box->low[2]) * slice;
	const int64_t each = forward ? stack->count * stack->plan->model.columns : slice;
	CUDA_TRY(cudaMemsetAsync(to, 0, (size_t)(part->slices * each) * sizeof *to,
			 device_of(backend)->stream),
		"projecting");
	return TOMOS_OK;
}

/* Whether the kernel writes all slices of the part. */
static bool overwrites(const CudaKernel *kernel, ProjectRequest stack, const StackPart *part,
	const CudaNotes *notes)
{
	const int axis = slices_axis(&stack.plan->rays);
	stack.box.low[axis] = part->low;
	stack.box.high[axis] = part->low + part->slices;
	return kernel->overwrites && kernel->overwrites(&stack, notes);
}

tomos_status stack_run(tomos_backend *backend, const ProjectRequest *what, const Plan *slices,
	const StackPart *part, float *projections, const CudaEpilogue *epilogue)
{
	static const CudaEpilogue accumulate = {.kind = EPILOGUE_ACCUMULATE};
	Plan plan = *slices;
	CudaNotes notes;
	plan.model.rows = part->slices;
	plan.rays.all.row = -part->low;
	ProjectRequest stack = stack_request(what, &plan, part->first, part->count);
	const CudaKernel *kernel = stack_kernel(&stack, false, &notes);
	stack.projections = projections;
	if (!kernel)
		return fail(TOMOS_NO_DEVICE, "no kernel for a stack of %lld slices",
			(long long)part->slices);
	if (epilogue->kind == EPILOGUE_OVERWRITE && !overwrites(kernel, stack, part, &notes)) {
		TRY(clear_part(backend, &stack, part));
		epilogue = &accumulate;
	}
	return kernel->run(backend, &stack, &notes, epilogue);
}

static int64_t slices_of(const ProjectRequest *what)
{
	const int axis = slices_axis(&what->plan->rays);
	return what->box.high[axis] - what->box.low[axis];
}

/* The first number of virtual views of a view for which a stack kernel applies: 0 if there is none
 * up to `most`. */
static int find_every(const ProjectRequest *what, int first, int most, bool fast)
{
	for (int every = first; every <= most; every++)
		if (has_kernel(what, every, fast))
			return every;
	return 0;
}

/* Fans and few slices. Every second, third ... column is for parallel rays and Joseph's method.
 * direct: slices are in line with rows; then kernels that apply without this are faster. */
static int few_every(const ProjectRequest *what, bool direct)
{
	const bool forward = what->direction == FORWARD;
	const bool voxels = what->kernel == KERNEL_voxel && is_fan(what->plan);
	if (voxels && forward) /* voxel_forward_upright */
		return 0;
	const int one = find_every(what, 1, 1, false);
	if (one > 0 || voxels || forward)
		return direct ? 0 : one;
	return find_every(what, 2, MOST_EVERY, false);
}

/* Stacks of many slices, parallel rays. */
static int stack_every(const ProjectRequest *what, bool in_slice)
{
	/* With more, slices_back_l1 is faster, where it applies. */
	const int voxels = in_slice && what->kernel == KERNEL_voxel ? 3 : (int)MOST_EVERY;
	const int most = what->direction == FORWARD ? 1 : voxels;
	const int fast = find_every(what, in_slice ? 2 : 1, most, true);
	return fast > 0 || in_slice ? fast : find_every(what, 1, 1, false);
}

static bool resampled_applies(const ProjectRequest *what, CudaNotes *notes)
{
	const Plan *plan = what->plan;
	const RayClass *rays = &plan->rays;
	const bool in_slice = rays_are(rays, RAYS_IN_SLICE), direct = in_slice && rays->same_rows;
	const bool footprint = what->kernel == KERNEL_footprint, fan = is_fan(plan);
	int *every = &notes_of<Resampled>(notes)->every;
	if (plan->every || (footprint && plan->model.planar) ||
		(!footprint && (plan->model.clamp || plan->model.nearest)) ||
		!(fan || rays->source == TOMOS_PARALLEL) ||
		!(in_slice || rays_are(rays, RAYS_LEVEL | RAYS_IN_SHEET)))
		return false;
	if (footprint)
		*every = !direct && has_kernel(what, 1, false);
	else if (fan || slices_of(what) < LEAST_STACK)
		*every = few_every(what, direct);
	else
		*every = stack_every(what, in_slice);
	return *every > 0;
}

/* ---- rows of slices and of the scan ---------------------------------------------------------- */

/* Projections of the scan [view][row][column], and of the stack [view][of every][slice][column /
 * every]. low: first slice. */
typedef struct {
	const KernelView *views;
	int64_t count, rows, columns, slices, low;
	int axis, every, kernel;
	bool planar; /* one slice, one row */
	float *scan, *stack;
} Between;

/* Heights of a view: slice n is at row f n + at, and the weight of a row at distance d is scale
 * times half - |d|, between 0 and top: hats of half width `half`, or the part of a slice in the
 * row. */
typedef struct {
	double f, at, half, top, scale;
} Heights;

static __host__ __device__ Heights heights_of(const Between &b, const KernelView *k)
{
	if (b.planar)
		return Heights{1, 0, 1, 1, 1};
	const double f = k->row[b.axis], at = k->row[3] + f * (double)b.low, high = fabs(f);
	if (b.kernel == KERNEL_footprint)
		return Heights{f, at, 0.5 * (1 + high), fmin(1., high), 1 / high};
	const double half = b.kernel == KERNEL_joseph ? high : 1;
	return Heights{f, at, half, half, 1 / half};
}

static __device__ float height_weight(const Heights &h, int64_t row, int64_t slice)
{
	const double far = h.half - fabs((double)row - h.f * (double)slice - h.at);
	return (float)(h.scale * fmax(fmin(far, h.top), 0.));
}

/* Adds to each row the slices that it meets; every: 1. */
static __global__ void __launch_bounds__(WIDE) rows_from_slices(const __grid_constant__ Between b)
{
	const int64_t column = (int64_t)blockIdx.x * WIDE * EACH + threadIdx.x, row = blockIdx.y;
	for (int64_t view = blockIdx.z; view < b.count; view += gridDim.z) {
		const Heights h = heights_of(b, &b.views[view]);
		const double middle = ((double)row - h.at) / h.f, reach = h.half / fabs(h.f);
		const int64_t first = (int64_t)fmin(fmax(floor(middle - reach) + 1, 0.), 1e9);
		const double last = fmin(ceil(middle + reach) - 1, (double)(b.slices - 1));
		const float *from = b.stack + view * b.slices * b.columns;
		float sum[EACH] = {0};
		for (int64_t n = first; (double)n <= last; n++) {
			const float weight = height_weight(h, row, n);
			for (int i = 0; i < EACH; i++)
				if (column + i * WIDE < b.columns)
					sum[i] = fmaf(weight,
						__ldg(from + n * b.columns + column + i * WIDE),
						sum[i]);
		}
		float *to = b.scan + (view * b.rows + row) * b.columns;
		for (int i = 0; i < EACH; i++)
			if (column + i * WIDE < b.columns)
				to[column + i * WIDE] += sum[i];
	}
}

/* The transpose: what each slice receives of the rows it meets. A block has every column of some
 * columns of the stack. */
static __global__ void __launch_bounds__(WIDE) slices_from_rows(const __grid_constant__ Between b)
{
	const int64_t wide = (b.columns + b.every - 1) / b.every, slice = blockIdx.y;
	const int64_t column = (int64_t)blockIdx.x * WIDE * EACH + threadIdx.x;
	for (int64_t view = blockIdx.z; view < b.count; view += gridDim.z) {
		const Heights h = heights_of(b, &b.views[view]);
		const double middle = h.f * (double)slice + h.at;
		const int64_t first = (int64_t)fmin(fmax(floor(middle - h.half) + 1, 0.), 1e9);
		const double last = fmin(ceil(middle + h.half) - 1, (double)(b.rows - 1));
		for (int part = 0; part < b.every; part++) {
			const int64_t from = column * b.every + part, step = WIDE * b.every;
			const float *scan = b.scan + view * b.rows * b.columns + from;
			float sum[EACH] = {0};
			for (int64_t row = first; (double)row <= last; row++) {
				const float weight = height_weight(h, row, slice);
				for (int i = 0; i < EACH; i++)
					if (from + i * step < b.columns)
						sum[i] = fmaf(weight,
							__ldg(scan + row * b.columns + i * step),
							sum[i]);
			}
			float *to = b.stack + ((view * b.every + part) * b.slices + slice) * wide +
				    column;
			for (int i = 0; i < EACH; i++)
				if (column + i * WIDE < wide)
					to[i * WIDE] = sum[i];
		}
	}
}

static tomos_status resample(tomos_backend *backend, const Between *b, bool forward)
{
	const int64_t columns = (b->columns + b->every - 1) / b->every;
	const dim3 blocks(cuda_blocks(columns, WIDE * EACH, 1 << 30),
		(unsigned)(forward ? b->rows : b->slices), cuda_blocks(b->count, 1, 65535));
	(forward ? rows_from_slices
		 : slices_from_rows)<<<blocks, WIDE, 0, device_of(backend)->stream>>>(*b);
	CUDA_LAUNCHED("interpolating between slices");
	return TOMOS_OK;
}

/* ---- a whole request ------------------------------------------------------------------------- */

/* The plan of the virtual stack, which is kept with the plan of the request. */
static tomos_status find_plan(
	tomos_backend *backend, const ProjectRequest *what, int every, const Plan **slices)
{
	const CudaPlan *kept;
	TRY(cuda_plan(backend, what->plan, &kept));
	Plan **place = &((CudaPlan *)kept)->slices[what->kernel == KERNEL_voxel][what->direction];
	if (*place && (*place)->every != every) {
		slices_plan_free(*place);
		*place = NULL;
	}
	if (!*place)
		TRY(slices_plan(place, what->plan, every));
	*slices = *place;
	return TOMOS_OK;
}

/* Slices and views that are processed together: all views, where that leaves enough slices, and
 * not more slices than the stack kernels take at once. */
typedef struct {
	int64_t slices, views;
} Pass;

static Pass pass_of(const tomos_backend *backend, const ProjectRequest *what)
{
	const int64_t columns = what->plan->model.columns + MOST_EVERY;
	const int64_t most = device_of(backend)->slices_most / columns;
	const int64_t slices = slices_of(what);
	const int64_t least = min64(slices, (int64_t)(2 * LEAST_STACK));
	const int64_t views = min64(max64(most / least, 1), what->count);
	const int64_t at_once = min64(max64(most / views, least), SLICES_AT_ONCE);
	const int64_t parts = (slices - 1) / at_once + 1;
	int64_t size = (slices + parts - 1) / parts;
	while (slices % size > 0 && slices % size < LEAST_STACK) /* which no kernel is for */
		size++;
	return Pass{size, views};
}

/* The slices from b->low on and the views from `first` on. */
static tomos_status run_pass(tomos_backend *backend, const ProjectRequest *what, const Plan *slices,
	Between *b, int64_t first, const CudaEpilogue *epilogue)
{
	static const CudaEpilogue overwrite = {.kind = EPILOGUE_OVERWRITE};
	const bool forward = what->direction == FORWARD;
	const StackPart part = {b->low, b->slices, first, b->count};
	if (!forward)
		TRY(resample(backend, b, false));
	TRY(stack_run(backend, what, slices, &part, b->stack, forward ? &overwrite : epilogue));
	return forward ? resample(backend, b, true) : TOMOS_OK;
}

/* Slices across z that some row meets in some view; all where that is less than a stack. */
static void seen_slices(const ProjectRequest *what, const Between *b, int64_t *low, int64_t *high)
{
	const double first = (double)what->box.low[2], end = (double)what->box.high[2];
	double one = end, two = first;
	for (int64_t i = 0; i < what->count; i++) { /* b->low is 0 */
		const Heights h = heights_of(*b, &what->plan->views[what->first + i]);
		const double p = (-h.half - h.at) / h.f,
			     q = ((double)b->rows - 1 + h.half - h.at) / h.f;
		one = fmin(one, floor(fmin(p, q)));
		two = fmax(two, ceil(fmax(p, q)) + 1);
	}
	*low = (int64_t)fmax(fmin(one, end - (double)LEAST_STACK), first);
	*high = (int64_t)fmin(fmax(two, (double)*low + (double)LEAST_STACK), end);
}

static tomos_status clear_slices(tomos_backend *backend, const ProjectRequest *what, int64_t slice,
	int64_t low, int64_t high)
{
	CUDA_TRY(cudaMemsetAsync(what->volume + (low - what->box.low[2]) * slice, 0,
			 (size_t)((high - low) * slice) * sizeof *what->volume,
			 device_of(backend)->stream),
		"back projecting");
	return TOMOS_OK;
}

/* Limits the request to slices that rows meet; sums of the others, where they are wanted, are 0. */
static tomos_status limit_slices(tomos_backend *backend, ProjectRequest *what, const Between *b,
	const CudaEpilogue *epilogue)
{
	const Box box = what->box;
	const int64_t slice = (box.high[0] - box.low[0]) * (box.high[1] - box.low[1]);
	int64_t low, high;
	if (b->axis != 2 || b->planar || epilogue->kind == EPILOGUE_UPDATE)
		return TOMOS_OK;
	seen_slices(what, b, &low, &high);
	if (what->direction != FORWARD && epilogue->kind == EPILOGUE_OVERWRITE) {
		TRY(clear_slices(backend, what, slice, box.low[2], low));
		TRY(clear_slices(backend, what, slice, high, box.high[2]));
	}
	what->volume += (low - box.low[2]) * slice;
	what->box.low[2] = low;
	what->box.high[2] = high;
	return TOMOS_OK;
}

static tomos_status run_limited(
	tomos_backend *backend, const ProjectRequest *what, Between b, const CudaEpilogue *epilogue)
{
	static const CudaEpilogue accumulate = {.kind = EPILOGUE_ACCUMULATE};
	const Pass pass = pass_of(backend, what);
	const CudaPlan *kept;
	const Plan *slices;
	TRY(cuda_plan(backend, what->plan, &kept));
	TRY(find_plan(backend, what, b.every, &slices));
	TRY(cuda_scratch(backend, SCRATCH_FACTORS,
		pass.views * b.every * pass.slices * slices->model.columns, &b.stack,
		"projections of slices"));
	for (int64_t z = what->box.low[b.axis]; z < what->box.high[b.axis]; z += pass.slices)
		for (int64_t first = 0; first < what->count; first += pass.views) {
			b.low = z;
			b.slices = min64(pass.slices, what->box.high[b.axis] - z);
			b.count = min64(pass.views, what->count - first);
			b.views = kept->views + what->first + first;
			b.scan = what->projections + first * b.rows * b.columns;
			TRY(run_pass(backend, what, slices, &b, first,
				first == 0 ? epilogue : &accumulate));
		}
	return TOMOS_OK;
}

static tomos_status resampled_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	const KernelModel *model = &what->plan->model;
	const Between b = {.rows = model->rows,
		.columns = model->columns,
		.axis = slices_axis(&what->plan->rays),
		.every = notes_of<Resampled>(notes)->every,
		.kernel = what->kernel,
		.planar = model->planar != 0};
	ProjectRequest limited = *what;
	TRY(limit_slices(backend, &limited, &b, epilogue));
	return run_limited(backend, &limited, b, epilogue);
}

static bool resampled_overwrites(const ProjectRequest *what, const CudaNotes *)
{
	return what->direction != FORWARD;
}

/* As the kernel of the virtual stack, if that gets all views at once. Averages of few slices are
 * left to the kernels for upright detectors. */
static CudaFusion resampled_fuses(const tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const FusedUpdate *step)
{
	CudaNotes inner;
	CudaFusion fusion = FUSES_NOT;
	Plan *slices;
	if (step->average)
		return slices_of(what) < LEAST_STACK ? FUSES_NEXT : FUSES_NOT;
	if (pass_of(backend, what).views < what->count ||
		slices_plan(&slices, what->plan, notes_of<Resampled>(notes)->every) != TOMOS_OK)
		return FUSES_NOT;
	const ProjectRequest stack = stack_request(what, slices, 0, what->count);
	const CudaKernel *kernel = stack_kernel(&stack, false, &inner);
	if (kernel && kernel->fuses)
		fusion = kernel->fuses(backend, &stack, &inner, step);
	slices_plan_free(slices);
	return fusion;
}

extern const CudaKernel cuda_slices_forward_resampled, cuda_slices_back_resampled;
const CudaKernel cuda_slices_forward_resampled = {
	resampled_applies, resampled_run, NULL, resampled_overwrites};
const CudaKernel cuda_slices_back_resampled = {
	resampled_applies, resampled_run, resampled_fuses, resampled_overwrites};
