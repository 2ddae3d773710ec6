/* Host side of footprint_slices.h: which requests it applies to, and launches. */
#include "backend/cuda/kernels/footprint_slices.h"

enum {
	MOST_SAMPLES = 99,        /* of a list */
	LEAST_SAMPLES = 5,        /* so that sums of parts fit into the lists' memory */
	LEAST_THREADS = 128,      /* of a block */
	NEAREST = 8,              /* pixels from the source to the box, at least */
	ENOUGH_THREADS = 1 << 18, /* on the GPU at once */
	MOST_PARTS = 8
};

typedef struct {
	HatSlices slices;
	int most;     /* samples of a list */
	double least; /* least depth of a pixel */
} Notes;

/* ---- which requests -------------------------------------------------------------------------- */

/* Ranges of depths and columns over the box and a pixel around it. */
typedef struct {
	double near, far, left, right;
} Extent;

static Extent extent_of(const ProjectRequest *what, const HatSlices *l, const KernelView *k)
{
	Extent e = {.near = 1e300, .far = 0, .left = 1e300, .right = -1e300};
	for (int corner = 0; corner < 4; corner++) {
		double at[3];
		at[l->s] = (double)what->box.low[l->s];
		at[l->a] = (double)(corner & 1 ? what->box.high[l->a] : what->box.low[l->a] - 1);
		at[l->b] = (double)(corner & 2 ? what->box.high[l->b] : what->box.low[l->b] - 1);
		double depth = k->depth[3], u = k->column[3];
		for (int a = 0; a < 3; a++) {
			depth += k->depth[a] * at[a];
			u += k->column[a] * at[a];
		}
		e.near = fmin(e.near, depth);
		e.far = fmax(e.far, depth);
		e.left = fmin(e.left, u / depth);
		e.right = fmax(e.right, u / depth);
	}
	return e;
}

/* Most samples of a list; 0: the source is not outside the box. Forward, neighbouring rays are at
 * most `apart` pixels apart where they cross a plane. Changes (x, y) of U - c D per pixel are affine
 * in c. */
static double samples_of(const ProjectRequest *what, const HatSlices *l, const KernelView *k)
{
	const double ua = k->column[l->a], ub = k->column[l->b], da = k->depth[l->a],
		     db = k->depth[l->b], square = da * da + db * db;
	const Extent e = extent_of(what, l, k);
	if (!(e.near > (int)NEAREST * (fabs(da) + fabs(db))))
		return 0;
	const double slack = square > 0 ? 1 + 2 * (fabs(da) + fabs(db)) / e.near : 1,
		     round = square > 0 ? 2 : 1.01;
	if (what->direction == FORWARD) {
		double c = square > 0 ? (ua * da + ub * db) / square : 0;
		c = fmin(fmax(c, e.left - 1), e.right + 1);
		const double least = hypot(ua - c * da, ub - c * db) / sqrt(2.);
		return slack * (4 * e.far / least + 2) + round;
	}
	const double left = fabs(ua - e.left * da) + fabs(ub - e.left * db),
		     right = fabs(ua - e.right * da) + fabs(ub - e.right * db);
	return slack * (2 * fmax(left, right) / e.near + 1) + round;
}

static bool slices_applies(const ProjectRequest *what, CudaNotes *notes)
{
	const Plan *plan = what->plan;
	const RayClass *rays = &plan->rays;
	Notes *n = notes_of<Notes>(notes);
	const int s = rays->all.axis;
	const bool parallel = rays->source == TOMOS_PARALLEL;
	const bool fans = rays->source == TOMOS_FAN_PER_ROW ||
			  (rays->source == TOMOS_POINT && plan->model.planar);
	double most = LEAST_SAMPLES;
	int64_t low, high;
	if (!rays->same_rows || !(parallel || (fans && s == 2)))
		return false;
	n->slices = HatSlices{.s = s,
		.a = s == 0 ? 1 : 0,
		.b = s == 2 ? 1 : 2,
		.first = rays->all.row,
		.sign = rays->all.sign};
	n->least = 1e300;
	slices_range(what, &n->slices, &low, &high);
	for (int64_t i = 0; i < what->count; i++) {
		const KernelView *k = &plan->views[what->first + i];
		const double samples = samples_of(what, &n->slices, k);
		if (!(samples > 0 && samples < (double)MOST_SAMPLES))
			return false;
		most = fmax(most, samples);
		n->least = fmin(n->least, extent_of(what, &n->slices, k).near);
	}
	n->most = (int)most | 1;
	const int64_t a = n->slices.a, b = n->slices.b;
	return high > low && what->count * plan->model.columns < 1 << 30 &&
	       (what->box.high[a] - what->box.low[a]) * (what->box.high[b] - what->box.low[b]) <
		       1 << 30;
}

/* ---- launches -------------------------------------------------------------------------------- */

typedef void (*SlicesKernel)(const Slices s);
static const SlicesKernel kernels[2][2][2] = {
	{{slices_forward<false, float>, slices_forward<false, float4>},
		{slices_forward<true, float>, slices_forward<true, float4>}},
	{{slices_back<false, float>, slices_back<false, float4>},
		{slices_back<true, float>, slices_back<true, float4>}}};

static int bytes_of(int threads, int most)
{
	return threads * (most * (int)sizeof(float4) + (int)sizeof(int2));
}

/* Threads of a block, and how they are divided. */
static int divide_threads(const ProjectRequest *what, Slices *s)
{
	const bool forward = what->direction == FORWARD;
	const int64_t fours =
		forward ? (int64_t)s->count * ((s->columns + 3) / 4)
			: (int64_t)((s->n[0] + 1) / 2) * ((s->n[1] + 1) / 2);
	int threads = MOST_THREADS;
	const int table = forward ? 0 : NEAR * (int)sizeof(NearView);
	while (threads > LEAST_THREADS && bytes_of(threads, s->most) + table > cuda_most_shared())
		threads /= 2;
	s->lanes = s->parts = s->wide = 1;
	while (s->lanes < s->quads)
		s->lanes *= 2;
	while (s->parts < MOST_PARTS && fours * s->lanes * s->parts * 2 <= ENOUGH_THREADS &&
		threads / (2 * s->parts * s->lanes) >= VIEWS)
		s->parts *= 2;
	s->groups = threads / (s->lanes * s->parts);
	while (s->wide * s->wide < s->groups)
		s->wide *= 2;
	return threads;
}

static tomos_status launch(tomos_backend *backend, const ProjectRequest *what, Slices *s, bool fan,
	bool four)
{
	const bool forward = what->direction == FORWARD;
	const SlicesKernel kernel = kernels[what->direction][fan][four];
	const int threads = divide_threads(what, s), high = s->groups / s->wide;
	const dim3 blocks = forward ? dim3(cuda_blocks(s->columns, s->groups / VIEWS * FOUR, 1 << 30),
					      cuda_blocks(s->count, VIEWS, 65535))
				    : dim3(cuda_blocks(s->n[0], 2 * s->wide, 1 << 30),
					      cuda_blocks(s->n[1], 2 * high, 65535));
	TRY(cuda_take_shared((const void *)kernel));
	kernel<<<blocks, threads, (size_t)bytes_of(threads, s->most), device_of(backend)->stream>>>(
		*s);
	CUDA_LAUNCHED("projecting slices");
	return TOMOS_OK;
}

static tomos_status run_slices(tomos_backend *backend, const ProjectRequest *what, const Notes *n,
	Slices s, int64_t slice, int64_t slices, const CudaEpilogue *epilogue)
{
	const bool forward = what->direction == FORWARD, four = slices > 1;
	const int unit = four ? FOUR : 1;
	Transposed x = transposed_volume(what, &n->slices, slice, slices, unit);
	Transposed y = transposed_views(what, &n->slices, slice, slices, unit);
	TRY(cuda_scratch(backend, SCRATCH_REORDERED, x.pitch * x.nj * x.nk, &x.inside, "slices"));
	TRY(cuda_scratch(
		backend, SCRATCH_ROWS, y.pitch * y.nj * y.nk, &y.inside, "rows of slices"));
	s.quads = (int)(x.pitch / unit);
	s.from = forward ? x.inside : y.inside;
	s.to = forward ? y.inside : x.inside;
	TRY(transpose_in(backend, forward ? &x : &y));
	TRY(launch(backend, what, &s, what->plan->rays.source != TOMOS_PARALLEL, four));
	return transpose_out(backend, forward ? &y : &x, epilogue);
}

static tomos_status slices_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	const Plan *plan = what->plan;
	const Notes n = *notes_of<Notes>(notes);
	const CudaPlan *kept;
	int64_t low, high;
	TRY(cuda_plan(backend, plan, &kept));
	Slices s = {.views = kept->views + what->first,
		.count = (int)what->count,
		.columns = (int)plan->model.columns,
		.axis = {n.slices.a, n.slices.b},
		.weight = plan->model.weight,
		.least = (float)(0.5 * n.least),
		.most = n.most};
	for (int a = 0; a < 3; a++) {
		s.low[a] = what->box.low[a];
		s.step[a] = plan->whole.step[a];
	}
	for (int i = 0; i < 2; i++)
		s.n[i] = (int)(what->box.high[s.axis[i]] - what->box.low[s.axis[i]]);
	const int64_t most =
		slices_at_once(backend, what, &n.slices, SlicesScratch{FOUR, 1, 1, 0});
	slices_range(what, &n.slices, &low, &high);
	for (int64_t at = low; at < high; at += most)
		TRY(run_slices(backend, what, &n, s, at, min64(most, high - at), epilogue));
	return TOMOS_OK;
}

static CudaFusion slices_fuse(const tomos_backend *, const ProjectRequest *what,
	const CudaNotes *notes, const FusedUpdate *step)
{
	return step->average || !slices_have_rows(what, notes_of<HatSlices>(notes)) ? FUSES_NEXT
										      : FUSES;
}

extern const CudaKernel cuda_footprint_forward_slices, cuda_footprint_back_slices;
const CudaKernel cuda_footprint_forward_slices = {
	slices_applies, slices_run, NULL, transpose_overwrites};
const CudaKernel cuda_footprint_back_slices = {
	slices_applies, slices_run, slices_fuse, transpose_overwrites};
