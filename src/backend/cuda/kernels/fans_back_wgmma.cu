/* Host side of fans_back_wgmma.h: which requests it applies to, and launches. */
#include "backend/cuda/kernels/fans_back_wgmma.h"

/* Below, a second pass over the volume takes more time than products save. */
enum { LEAST_VIEWS = 32 };

typedef struct {
	HatSlices slices;
	int wide;            /* columns that a block needs of a view, rounded up */
	int64_t first;       /* the first view, and the factors of weights from this view on */
	const float *scales; /* (group_run) */
} Notes;

static bool group_applies(const ProjectRequest *what, CudaNotes *notes)
{
	const Plan *plan = what->plan;
	const RayClass *rays = &plan->rays;
	Notes *n = notes_of<Notes>(notes);
	double most = 0;
	int64_t low, high;
	if (what->count < LEAST_VIEWS || plan->model.clamp || plan->model.nearest ||
		plan->model.planar || rays->source != TOMOS_FAN_PER_ROW || !rays->same_rows ||
		rays->all.axis != 2 || plan->model.columns > 1 << 20 || cuda_level() != 90 ||
		!tensor_describes())
		return false;
	n->slices =
		HatSlices{.s = 2, .a = 0, .b = 1, .first = rays->all.row, .sign = rays->all.sign};
	slices_range(what, &n->slices, &low, &high);
	for (int64_t i = 0; i < what->count; i++) {
		double columns = fan_columns(what, &plan->views[what->first + i], SIDE);
		if (!(columns > 0 && columns <= (double)MOST_WIDE))
			return false;
		most = fmax(most, columns);
	}
	n->wide = ((int)ceil(most) + STEP - 1) / STEP * STEP;
	return high - low >= TENSOR_LEAST_SLICES;
}

static Fans request_of(const ProjectRequest *what, const Notes *n, const CudaPlan *kept)
{
	const Plan *plan = what->plan;
	return Fans{.of = {.count = (int)what->count},
		.grid = plan->whole,
		.model = plan->model,
		.views = kept->views + what->first,
		.middle = {0.5 * (double)(what->box.low[0] + what->box.high[0] - 1),
			0.5 * (double)(what->box.low[1] + what->box.high[1] - 1)},
		.step = {(float)plan->whole.step[0], (float)plan->whole.step[1]},
		.wide = n->wide,
		.together = (int)min64(MOST_STAGE / view_bytes(n->wide), MOST_VIEWS)};
}

static tomos_status launch(tomos_backend *backend, const ProjectRequest *what,
	const HatSlices *slices, const TensorBack *request)
{
	const bool joseph = what->kernel == KERNEL_joseph;
	auto kernel = joseph ? fans_back<true> : fans_back<false>;
	const CudaPlan *kept;
	CUtensorMap map;
	TRY(cuda_plan(backend, what->plan, &kept));
	const Notes *n = (const Notes *)slices;
	Fans s = request_of(what, n, kept);
	s.of = *request;
	s.scales = n->scales + (what->first - n->first);
	const int bytes = STAGES_OF_RING * s.together * view_bytes(s.wide) + RING + 1024;
	const int64_t size[3] = {s.of.pitch, s.of.columns, (int64_t)PARTS * s.of.count};
	const int box[3] = {SLICES, s.wide, 1};
	if (!tensor_describe(&map, s.of.data, size, box))
		return fail(TOMOS_NO_DEVICE,
			"the driver cannot describe views of %d columns for bulk copies",
			s.of.columns);
	CUDA_TRY(cudaFuncSetAttribute(
			 (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
		"asking for shared memory");
	dim3 blocks(cluster_blocks((s.of.na + SIDE - 1) / SIDE, (s.of.nb + SIDE - 1) / SIDE), 1,
		cuda_blocks(s.of.pitch, SLICES, 65535));
	kernel<<<blocks, THREADS, bytes, device_of(backend)->stream>>>(s, map);
	CUDA_LAUNCHED("back projecting fans");
	return TOMOS_OK;
}

static tomos_status make_factors(
	tomos_backend *backend, const ProjectRequest *what, Notes *n, const float **factors)
{
	const int64_t columns = what->plan->model.columns;
	const dim3 blocks(cuda_blocks(columns, 128, 1 << 30), cuda_blocks(what->count, 1, 65535));
	const CudaPlan *kept;
	float *to;
	TRY(cuda_plan(backend, what->plan, &kept));
	TRY(cuda_scratch(
		backend, SCRATCH_LISTS, what->count * (columns + 1), &to, "factors of rays"));
	auto kernel = what->kernel == KERNEL_joseph ? fans_factors<true> : fans_factors<false>;
	kernel<<<blocks, 128, 0, device_of(backend)->stream>>>(
		request_of(what, n, kept), to, to + what->count * columns);
	CUDA_LAUNCHED("back projecting fans");
	*factors = to;
	n->first = what->first;
	n->scales = to + what->count * columns;
	return TOMOS_OK;
}

static tomos_status group_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	Notes n = *notes_of<Notes>(notes);
	const int64_t most =
		slices_at_once(backend, what, &n.slices, SlicesScratch{CHUNK, 1, 1, 0});
	TensorScale scale = {.parts = PARTS};
	int64_t low, high;
	TRY(make_factors(backend, what, &n, &scale.rays));
	slices_range(what, &n.slices, &low, &high);
	for (int64_t at = low; at < high; at += most)
		TRY(tensor_back_slices(backend, what, &n.slices, scale, at, min64(most, high - at),
			epilogue, launch));
	return TOMOS_OK;
}

/* Averages are left to the kernel for upright detectors. */
static CudaFusion group_fuses(const tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const FusedUpdate *step)
{
	return step->average ? FUSES_NEXT : tensor_fuses(backend, what, notes, step);
}

extern const CudaKernel cuda_fans_back_wgmma;
const CudaKernel cuda_fans_back_wgmma = {
	group_applies, group_run, group_fuses, transpose_overwrites};
