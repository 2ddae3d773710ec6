/* Host side of voxel_forward_rolled.h: which requests it applies to, and launches. */
#include "backend/cuda/kernels/voxel_forward_rolled.h"

enum { LEAST_SLICES = 8, MOST_LAUNCHED = 65532 /* a multiple of GROUP */ };

typedef struct {
	int most; /* rows that a slice crosses at most */
} Notes;

static bool view_applies(const Plan *plan, int64_t view, Notes *n)
{
	const KernelView *k = &plan->views[view];
	if (!view_in_planes(plan, k))
		return false;
	const Course v = course_of(k, &plan->model, false);
	const int most = (int)(((double)plan->model.columns + 1) * fabs(v.rs)) + 2;
	n->most = most > n->most ? most : n->most;
	/* Up to two pixels between columns, and eight slices within half a pixel. */
	return v.si > 0.501 && v.si < 4 && fabs(v.rs) <= 0.5 && fabs(v.rn) >= 0.05 &&
	       (SLICES - 1) * fabs(v.sn) <= 0.5 * v.si;
}

static bool rolled_applies(const ProjectRequest *what, CudaNotes *notes)
{
	const Plan *plan = what->plan;
	Notes *n = notes_of<Notes>(notes);
	*n = Notes{0};
	if (plan->every || plan->model.clamp || plan->model.nearest || plan->model.planar ||
		plan->rays.source != TOMOS_PARALLEL || plan->data == DATA_HALF ||
		plan->model.columns > 1 << 22 || plan->model.rows < LEAST_SLICES ||
		what->box.high[2] - what->box.low[2] < LEAST_SLICES)
		return false;
	for (int64_t i = 0; i < what->count; i++)
		if (!view_applies(plan, what->first + i, n))
			return false;
	return true;
}

static tomos_status run_pass(tomos_backend *backend, const Rolled *s)
{
	cudaStream_t stream = device_of(backend)->stream;
	const int bytes = TILE * (int)(s->volume.slices | 1) * (int)sizeof(ColumnSum);
	const dim3 threads(TILE, HIGH);
	cell_sums<<<rolled_blocks(s->columns + 2, s->count, s->volume.eights),
		dim3(TILE, GROUP * ROWS), 0, stream>>>(*s);
	CUDA_LAUNCHED("projecting slices");
	slice_rows<<<dim3(cuda_blocks(s->columns, TILE, 1 << 30), (unsigned)s->count), threads,
		bytes, stream>>>(*s);
	CUDA_LAUNCHED("adding slices to rows");
	crossed_rows<<<dim3((unsigned)s->most, (unsigned)s->count,
			       cuda_blocks(s->volume.slices, TILE, MOST_LAUNCHED)),
		threads, 0, stream>>>(*s);
	CUDA_LAUNCHED("adding slices to rows");
	return TOMOS_OK;
}

static tomos_status run_slices(tomos_backend *backend, Rolled s)
{
	const int64_t view = WORDS * (s.columns + 2) * s.volume.eights * SLICES, all = s.count;
	const int64_t views = min64(rolled_views(backend, view, all), MOST_LAUNCHED);
	float *sums;
	TRY(cuda_scratch(backend, SCRATCH_ROWS, views * view, &sums, "rows of slices"));
	s.sums = (float4 *)sums;
	for (int64_t first = 0; first < all; first += views) {
		Rolled part = s;
		part.views += first;
		part.count = min64(views, all - first);
		part.to += first * s.rows * s.columns;
		TRY(run_pass(backend, &part));
	}
	return TOMOS_OK;
}

static tomos_status rolled_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *)
{
	const Plan *plan = what->plan;
	const Course *views;
	TRY(rolled_courses(backend, what, false, &views));
	const int64_t most = rolled_slices(backend, what), high = what->box.high[2];
	Rolled s = {.views = views,
		.count = what->count,
		.columns = plan->model.columns,
		.rows = plan->model.rows,
		.most = notes_of<Notes>(notes)->most,
		.to = what->projections};
	for (int64_t low = what->box.low[2]; low < high; low += most) {
		TRY(rolled_volume(backend, what, low, min64(most, high - low), &s.volume));
		TRY(run_slices(backend, s));
	}
	return TOMOS_OK;
}

extern const CudaKernel cuda_voxel_forward_rolled;
const CudaKernel cuda_voxel_forward_rolled = {rolled_applies, rolled_run};
