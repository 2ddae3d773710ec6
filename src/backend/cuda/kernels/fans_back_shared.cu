/* Host side of fans_back_shared.h: which requests it applies to, and launches. */
#include "backend/cuda/kernels/fans_back_shared.h"

static bool fans_applies(const ProjectRequest *what, CudaNotes *notes)
{
	const Plan *plan = what->plan;
	const RayClass *rays = &plan->rays;
	Notes *n = notes_of<Notes>(notes);
	double most = 0;
	int64_t low, high;
	if (plan->model.clamp || plan->model.nearest || plan->model.planar ||
		rays->source != TOMOS_FAN_PER_ROW || !rays->same_rows || rays->all.axis != 2 ||
		what->count > 65535 || plan->model.columns > 1 << 22 ||
		!cuda_has_shared(bytes_of(STAGE_LINES, SLICES / 4)))
		return false;
	n->slices =
		HatSlices{.s = 2, .a = 0, .b = 1, .first = rays->all.row, .sign = rays->all.sign};
	slices_range(what, &n->slices, &low, &high);
	for (int64_t i = 0; i < what->count; i++) {
		double columns = fan_columns(what, &plan->views[what->first + i], SIDE);
		if (!(columns > 0 && columns + (double)USUAL <= (double)STAGE_LINES))
			return false;
		most = fmax(most, columns + (double)USUAL);
	}
	n->wide = (int)ceil(most);
	return high - low >= LEAST_STACK;
}

/* The rows of `slices` slices from `slice` on, in groups of SLICES. */
static tomos_status bring_rows(tomos_backend *backend, const ProjectRequest *what, const Notes *n,
	int64_t slice, int64_t slices, Fans *s)
{
	const int64_t columns = what->plan->model.columns, group = 4 * s->line;
	const int64_t lines = what->count * (columns + 2 * margin_of(n->wide));
	const Transposed x = transposed_volume(what, &n->slices, slice, slices, 4);
	float *from;
	TRY(cuda_scratch(backend, SCRATCH_ROWS, x.pitch * lines, &from, "rows of slices"));
	for (int64_t at = 0; at < slices; at += group) {
		Transposed y = transposed_views(
			what, &n->slices, slice + at, min64(group, slices - at), 4);
		y.inside = from + at * lines;
		y.margin = margin_of(n->wide);
		TRY(transpose_in(backend, &y));
	}
	s->quads = (int)(x.pitch / 4);
	s->from = (const float4 *)from;
	s->to = x.outside;
	s->slices = (int)slices;
	s->apart = x.si;
	return TOMOS_OK;
}

static tomos_status run_slices(tomos_backend *backend, const ProjectRequest *what, const Notes *n,
	Fans s, int64_t slice, int64_t slices, const CudaEpilogue *epilogue)
{
	const bool joseph = what->kernel == KERNEL_joseph;
	const int quads = slices <= SLICES / 2 ? 2 : 4;
	auto kernel = quads == 2 ? (joseph ? fans_back<true, 2> : fans_back<false, 2>)
				 : (joseph ? fans_back<true, 4> : fans_back<false, 4>);
	s.line = quads * LANES;
	s.epilogue = epilogue->kind;
	s.update = epilogue->update;
	TRY(bring_rows(backend, what, n, slice, slices, &s));
	TRY(cuda_take_shared((const void *)kernel));
	dim3 blocks(cuda_blocks(s.na, SIDE, 1 << 30), cuda_blocks(s.nb, SIDE, 65535),
		cuda_blocks(s.quads, s.line, 65535));
	kernel<<<blocks, THREADS, (size_t)bytes_of(stage_lines(&s), s.line),
		device_of(backend)->stream>>>(s);
	CUDA_LAUNCHED("back projecting fans");
	return TOMOS_OK;
}

static tomos_status make_rays(tomos_backend *backend, Fans *s)
{
	float *rays;
	TRY(cuda_scratch(
		backend, SCRATCH_LISTS, 2 * s->count * s->model.columns, &rays, "lengths of rays"));
	fans_rays<<<dim3(cuda_blocks(s->model.columns, 128, 1 << 30),
			    cuda_blocks(s->count, 1, 65535)),
		128, 0, device_of(backend)->stream>>>(*s, (float2 *)rays);
	CUDA_LAUNCHED("back projecting fans");
	s->rays = (const float2 *)rays;
	return TOMOS_OK;
}

static tomos_status fans_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	const Notes *n = notes_of<Notes>(notes);
	const Plan *plan = what->plan;
	const CudaPlan *kept;
	int64_t low, high;
	TRY(cuda_plan(backend, plan, &kept));
	Fans s = {.grid = plan->whole,
		.model = plan->model,
		.views = kept->views + what->first,
		.count = (int)what->count,
		.na = (int)(what->box.high[0] - what->box.low[0]),
		.nb = (int)(what->box.high[1] - what->box.low[1]),
		.low = {what->box.low[0], what->box.low[1]},
		.wide = n->wide,
		.together = (int)min64(STAGE_LINES / n->wide, MOST_VIEWS)};
	if (what->kernel == KERNEL_joseph)
		TRY(make_rays(backend, &s));
	const int64_t most = slices_at_once(
		backend, what, &n->slices, SlicesScratch{SLICES, 0, 1, margin_of(n->wide)});
	slices_range(what, &n->slices, &low, &high);
	for (int64_t at = low; at < high; at += most)
		TRY(run_slices(backend, what, n, s, at, min64(most, high - at), epilogue));
	return TOMOS_OK;
}

/* Averages are left to the kernel for upright detectors. */
static CudaFusion fans_fuses(const tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const FusedUpdate *step)
{
	return step->average ? FUSES_NEXT : transpose_fuses(backend, what, notes, step);
}

extern const CudaKernel cuda_fans_back_shared;
const CudaKernel cuda_fans_back_shared = {fans_applies, fans_run, fans_fuses, transpose_overwrites};
