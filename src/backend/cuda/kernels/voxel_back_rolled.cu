/* Host side of voxel_back_rolled.h: which requests it applies to, and launches. */
#include "backend/cuda/kernels/voxel_back_rolled.h"

enum { MOST_LAUNCHED = 65535 };

/* Records of a pass, in floats. */
#define MOST_RECORDS ((int64_t)1 << 28)

typedef struct {
	int window; /* most records that a block meets */
	int more;   /* most rows that a slice crosses */
} Notes;

/* Whether the rays of a view stay in planes of constant z; adds to what is needed for them. */
static bool view_applies(const Plan *plan, int64_t view, Notes *n)
{
	const KernelView *k = &plan->views[view];
	if (!view_in_planes(plan, k))
		return false;
	const Course v = course_of(k, &plan->model, true);
	const double lanes = LANES, lines = LINES, pixels = PIXELS;
	const double across = v.si * pixels + fabs(v.sj) * lines + fabs(v.sn) * lanes;
	const double high = fabs(v.rn) * lanes + fabs(v.rs) * (lanes + 2) + 4;
	if (!(v.si <= 1) || !(fabs(v.rs) <= 0.5) || !(high <= (int)TILE_ROWS) || !(across < 1000))
		return false;
	const int window = (int)ceil(across * (1 + fabs(v.rs))) + 6,
		  more = (int)(((double)plan->model.columns + 1) * fabs(v.rs)) + 2;
	n->window = window > n->window ? window : n->window;
	n->more = more > n->more ? more : n->more;
	return true;
}

static int bytes_of(int window, int batch)
{
	return 2 * batch * window * RECORD * (int)sizeof(float);
}

enum { SEEN_BYTES = 2 * MOST_BATCH * sizeof(Seen) }; /* of shared memory, beside the records */

/* Whether enough lanes of the groups have a slice; else voxel_back_any is faster. */
static bool fills_lanes(int64_t slices)
{
	const int64_t lanes = (slices + LANES - 1) / LANES * LANES;
	return 2 * lanes <= 3 * slices;
}

static bool rolled_applies(const ProjectRequest *what, CudaNotes *notes)
{
	const Plan *plan = what->plan;
	Notes *n = notes_of<Notes>(notes);
	*n = Notes{0, 0};
	if (plan->every || plan->model.clamp || plan->model.nearest || plan->model.planar ||
		plan->rays.source != TOMOS_PARALLEL || plan->data == DATA_HALF ||
		plan->model.columns > 1 << 22 ||
		!fills_lanes(what->box.high[2] - what->box.low[2]) || !cuda_fits_launch(what))
		return false;
	for (int64_t i = 0; i < what->count; i++)
		if (!view_applies(plan, what->first + i, n))
			return false;
	return cuda_has_shared(bytes_of(n->window, 1) + SEEN_BYTES);
}

/* As many views as leave room for two blocks on an SM. */
static int batch_of(int window)
{
	int batch = MOST_BATCH;
	while (batch > 1 && (2 * bytes_of(window, batch) > 220 << 10 ||
				    !cuda_has_shared(bytes_of(window, batch) + SEEN_BYTES)))
		batch--;
	return batch;
}

static tomos_status run_views(tomos_backend *backend, Rolled s)
{
	cudaStream_t stream = device_of(backend)->stream;
	const dim3 parts(
		cuda_blocks(s.length, LANES, 1 << 30), (unsigned)s.count, (unsigned)s.groups);
	rolled_records<<<parts, dim3(LANES, HIGH), 0, stream>>>(s);
	CUDA_LAUNCHED("back projecting rolled views");
	for (s.along = 0; s.along < 2; s.along++) {
		const dim3 blocks(cuda_blocks(s.n[s.along], PIXELS, 1 << 30),
			cuda_blocks(s.n[1 - s.along], LINES, 65535), (unsigned)s.groups);
		rolled_lines<<<blocks, LANES * LINES, bytes_of(s.window, s.batch), stream>>>(s);
		CUDA_LAUNCHED("back projecting rolled views");
		s.add = true;
	}
	return TOMOS_OK;
}

/* Views of a pass: as many as fit into scratch memory. */
static int64_t views_of_pass(const tomos_backend *backend, const Rolled *s)
{
	const int64_t view = (int64_t)s->groups * s->length * RECORD;
	const int64_t most = min64(device_of(backend)->slices_most, MOST_RECORDS) / view;
	return min64(max64(most, 1), min64(s->count, MOST_LAUNCHED));
}

static tomos_status run_slices(
	tomos_backend *backend, const Transposed *x, Rolled s, const CudaEpilogue *epilogue)
{
	const int64_t views = views_of_pass(backend, &s), all = s.count;
	TRY(cuda_scratch(backend, SCRATCH_FACTORS, views * s.groups * s.length * RECORD, &s.records,
		"records of rolled views"));
	TRY(cuda_take_shared((const void *)rolled_lines));
	for (int64_t first = 0; first < all; first += views) {
		Rolled part = s;
		part.views += first;
		part.count = min64(views, all - first);
		part.scan += first * s.rows * s.columns;
		part.add = first > 0;
		TRY(run_views(backend, part));
	}
	return transpose_out(backend, x, epilogue);
}

static tomos_status rolled_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	const Notes *n = notes_of<Notes>(notes);
	const HatSlices l = {.s = 2, .a = 0, .b = 1, .sign = 1};
	const KernelModel *model = &what->plan->model;
	const Box *box = &what->box;
	const Course *views;
	TRY(rolled_courses(backend, what, true, &views));
	const int64_t most = slices_at_once(backend, what, &l, SlicesScratch{LANES, 1, 0, 0});
	Rolled s = {.views = views,
		.count = what->count,
		.rows = model->rows,
		.columns = model->columns,
		.n = {(int)(box->high[0] - box->low[0]), (int)(box->high[1] - box->low[1])},
		.low = {box->low[0], box->low[1]},
		.length = (int)model->columns + 2 * MARGIN + n->more + n->window,
		.window = n->window,
		.batch = batch_of(n->window),
		.scan = what->projections};
	for (int64_t z = box->low[2]; z < box->high[2]; z += most) {
		Transposed x = transposed_volume(what, &l, z, min64(most, box->high[2] - z), LANES);
		TRY(cuda_scratch(
			backend, SCRATCH_REORDERED, x.pitch * x.nj * x.nk, &x.inside, "slices"));
		s.low[2] = z;
		s.slices = (int)x.slices;
		s.groups = (int)(x.pitch / LANES);
		s.to = x.inside;
		TRY(run_slices(backend, &x, s, epilogue));
	}
	return TOMOS_OK;
}

static bool rolled_overwrites(const ProjectRequest *, const CudaNotes *)
{
	return true;
}

extern const CudaKernel cuda_voxel_back_rolled;
const CudaKernel cuda_voxel_back_rolled = {rolled_applies, rolled_run, NULL, rolled_overwrites};
