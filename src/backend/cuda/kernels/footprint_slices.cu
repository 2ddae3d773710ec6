/* Footprints of rays in slices (footprint_slices.h): which requests it applies to, and launches. */
#include "backend/cuda/kernels/footprint_back_slices.h"
#include "backend/cuda/kernels/footprint_forward_slices.h"

enum {
	MOST_SAMPLES = 99, /* of a list */
	LEAST_SAMPLES = 3,
	MARGIN = 4, /* of rows of one slice: columns around positions beyond the detector */
	LEAST_THREADS = 128,      /* of a block */
	NEAREST = 8,              /* pixels from the source to the box, at least */
	ENOUGH_THREADS = 1 << 18, /* on the GPU at once */
	FEW_SLICES = 2,           /* which are projected one by one */
	TOGETHER = 8,             /* forward: views of a block */
	LENGTH = 8                /* most pixels of a plane that a ray meets in one slice */
};

typedef struct {
	HatSlices slices;
	int most;      /* samples of a list */
	double length; /* most pixels of a plane that a ray meets, or columns of a pixel */
	double least;  /* least depth of a pixel */
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

/* Whether the source is outside the box. Sets `length` and `most` to what the view needs, if that
 * is more. Forward, neighbouring rays are `apart` pixels apart where they cross a plane, at most.
 * Changes of U - c D per pixel are affine in c. */
static bool view_applies(
	const ProjectRequest *what, const HatSlices *l, const KernelView *k, Notes *n)
{
	const double ua = k->column[l->a], ub = k->column[l->b], da = k->depth[l->a],
		     db = k->depth[l->b], square = da * da + db * db;
	const Extent e = extent_of(what, l, k);
	if (!(e.near > (int)NEAREST * (fabs(da) + fabs(db))))
		return false;
	const double slack = square > 0 ? 1 + 2 * (fabs(da) + fabs(db)) / e.near : 1;
	double length, most;
	if (what->direction == FORWARD) {
		double c = square > 0 ? (ua * da + ub * db) / square : 0;
		c = fmin(fmax(c, e.left - 1), e.right + 1);
		const double apart = e.far * sqrt(2.) / hypot(ua - c * da, ub - c * db);
		length = slack * (2 + apart);
		most = length + slack * (COLUMNS - 1) * apart;
	} else {
		const double left = fabs(ua - e.left * da) + fabs(ub - e.left * db),
			     right = fabs(ua - e.right * da) + fabs(ub - e.right * db);
		length = slack * fmax(left, right) / e.near + 1;
		most = length + slack * fmax(left, right) / e.near;
	}
	n->least = fmin(n->least, e.near);
	n->length = fmax(n->length, length);
	n->most = (int)fmax(n->most, fmin(most + (square > 0 ? 2 : 1.01), 1e6));
	return true;
}

/* Shared memory of the lists of a block. */
static int list_bytes(bool forward, int threads, int most)
{
	return threads * (forward ? member_bytes<COLUMNS>(most) : member_bytes<SQUARE>(most));
}

/* The same with the table of views that the back projection has. */
static bool lists_fit(bool forward, int threads, int most)
{
	const int table = forward ? 0 : NEAR * (int)sizeof(NearView);
	return list_bytes(forward, threads, most) + table <= cuda_most_shared();
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
	int64_t low, high;
	if (!rays->same_rows || !(parallel || (fans && s == 2)))
		return false;
	n->slices = HatSlices{.s = s,
		.a = s == 0 ? 1 : 0,
		.b = s == 2 ? 1 : 2,
		.first = rays->all.row,
		.sign = rays->all.sign};
	n->least = 1e300;
	n->length = 0;
	n->most = LEAST_SAMPLES;
	slices_range(what, &n->slices, &low, &high);
	for (int64_t i = 0; i < what->count; i++)
		if (!view_applies(what, &n->slices, &plan->views[what->first + i], n))
			return false;
	n->most |= 1;
	const int64_t a = n->slices.a, b = n->slices.b;
	return high > low && n->most <= MOST_SAMPLES && what->count <= 65535 &&
	       lists_fit(what->direction == FORWARD, LEAST_THREADS, n->most) &&
	       what->count * plan->model.columns < 1 << 30 &&
	       (what->box.high[a] - what->box.low[a]) * (what->box.high[b] - what->box.low[b]) <
		       1 << 30;
}

/* ---- launches -------------------------------------------------------------------------------- */

typedef void (*SlicesKernel)(const Slices s);
static const SlicesKernel kernels[2][2] = {
	{slices_forward<false>, slices_forward<true>}, {slices_back<false>, slices_back<true>}};

/* Threads of a block, and how they are divided. */
static int divide_threads(const ProjectRequest *what, Slices *s)
{
	const bool forward = what->direction == FORWARD;
	const int64_t groups = forward ? (int64_t)s->count * ((s->columns + COLUMNS - 1) / COLUMNS)
				       : (int64_t)((s->n[0] + 1) / 2) * ((s->n[1] + 1) / 2);
	int threads = MOST_THREADS;
	while (threads > LEAST_THREADS && !lists_fit(forward, threads, s->most))
		threads /= 2;
	s->lanes = s->parts = s->wide = 1;
	while (s->lanes < s->quads)
		s->lanes *= 2;
	while (s->parts < MOST_PARTS && groups * s->lanes * s->parts * 2 <= ENOUGH_THREADS &&
		threads / (2 * s->parts * s->lanes) >= TOGETHER && threads / (2 * s->parts) >= 32)
		s->parts *= 2; /* a warp has one part: its threads wait for each other */
	s->groups = threads / (s->lanes * s->parts);
	s->together = s->groups < TOGETHER ? s->groups : (int)TOGETHER;
	while (s->wide * s->wide < s->groups)
		s->wide *= 2;
	return threads;
}

static tomos_status launch(tomos_backend *backend, const ProjectRequest *what, Slices *s, bool fan)
{
	const bool forward = what->direction == FORWARD;
	const SlicesKernel kernel = kernels[what->direction][fan];
	const int threads = divide_threads(what, s), high = s->groups / s->wide;
	const dim3 blocks =
		forward ? dim3(cuda_blocks(s->columns, s->groups / s->together * COLUMNS, 1 << 30),
				  cuda_blocks(s->count, s->together, 65535))
			: dim3(cuda_blocks(s->n[0], 2 * s->wide, 1 << 30),
				  cuda_blocks(s->n[1], 2 * high, 65535));
	TRY(cuda_take_shared((const void *)kernel));
	kernel<<<blocks, threads, (size_t)list_bytes(forward, threads, s->most),
		device_of(backend)->stream>>>(*s);
	CUDA_LAUNCHED("projecting slices");
	return TOMOS_OK;
}

/* One slice. */
static tomos_status forward_slice(
	tomos_backend *backend, const ProjectRequest *what, Slices *s, bool fan, double length)
{
	auto kernel = fan ? (length < 4 ? slice_forward<true, 4> : slice_forward<true, LENGTH>)
			  : (length < 4 ? slice_forward<false, 4> : slice_forward<false, LENGTH>);
	float *transposed;
	TRY(cuda_scratch(backend, SCRATCH_LISTS, (int64_t)s->n[0] * s->n[1], &transposed,
		"a transposed slice"));
	const Transposed t = transposed_planes((float *)s->from, transposed, s->n[0], s->n[1], 1);
	TRY(transpose_in(backend, &t));
	s->transposed = transposed;
	unsigned parts = 1;
	while (parts < MOST_PARTS && what->count * s->columns * parts * 2 <= ENOUGH_THREADS * 2)
		parts *= 2;
	kernel<<<dim3(cuda_blocks(s->columns, WIDE, 1 << 30),
			 cuda_blocks(s->count, RAY_VIEWS, 65535)),
		dim3(WIDE, RAY_VIEWS, parts), 0, device_of(backend)->stream>>>(*s);
	CUDA_LAUNCHED("projecting a slice");
	return TOMOS_OK;
}

static tomos_status back_slice(tomos_backend *backend, const Slices *s, bool fan, double length)
{
	auto kernel = fan ? (length < 3 ? slice_back<true, true> : slice_back<true, false>)
			  : (length < 3 ? slice_back<false, true> : slice_back<false, false>);
	kernel<<<dim3(cuda_blocks(s->n[0], WIDE, 1 << 30), cuda_blocks(s->n[1], PIXELS, 65535)),
		dim3(WIDE, MOST_PARTS), 0, device_of(backend)->stream>>>(*s);
	CUDA_LAUNCHED("back projecting a slice");
	return TOMOS_OK;
}

/* The data of `outside` in the order of `inside`: themselves, if that is their order, or else a
 * transposed copy. */
static tomos_status reordered(tomos_backend *backend, const Transposed *t, const float **from)
{
	const bool same =
		t->slices == 1 && t->pitch == 1 && t->sj == 1 && t->sk == t->nj && t->margin == 0;
	*from = same ? t->outside : t->inside;
	return same ? TOMOS_OK : transpose_in(backend, t);
}

static tomos_status run_slices(tomos_backend *backend, const ProjectRequest *what, const Notes *n,
	Slices s, int64_t slice, int64_t slices, const CudaEpilogue *epilogue)
{
	const bool forward = what->direction == FORWARD,
		   four = slices > 1 || (forward && n->length > (double)LENGTH);
	const bool fan = what->plan->rays.source != TOMOS_PARALLEL;
	const int unit = four ? 4 : 1;
	Transposed x = transposed_volume(what, &n->slices, slice, slices, unit);
	Transposed y = transposed_views(what, &n->slices, slice, slices, unit);
	y.margin = s.margin = forward || four ? 0 : MARGIN;
	s.pitch = s.columns + 2 * s.margin;
	TRY(cuda_scratch(backend, SCRATCH_REORDERED, x.pitch * x.nj * x.nk, &x.inside, "slices"));
	TRY(cuda_scratch(
		backend, SCRATCH_ROWS, y.pitch * s.pitch * y.nk, &y.inside, "rows of slices"));
	s.quads = (int)(x.pitch / unit);
	s.to = forward ? y.inside : x.inside;
	TRY(reordered(backend, forward ? &x : &y, &s.from));
	if (four)
		TRY(launch(backend, what, &s, fan));
	else
		TRY(forward ? forward_slice(backend, what, &s, fan, n->length)
			    : back_slice(backend, &s, fan, n->length));
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
		.most = n.most,
		.beyond = n.length < 3 ? 2 : 2 + n.length};
	for (int a = 0; a < 3; a++) {
		s.low[a] = what->box.low[a];
		s.step[a] = plan->whole.step[a];
	}
	for (int i = 0; i < 2; i++) {
		s.n[i] = (int)(what->box.high[s.axis[i]] - what->box.low[s.axis[i]]);
		s.pixel[i] = (float)s.step[s.axis[i]];
	}
	slices_range(what, &n.slices, &low, &high);
	const int64_t most = high - low <= FEW_SLICES ? 1
						      : slices_at_once(backend, what, &n.slices,
								SlicesScratch{4, 1, 1, 0});
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
