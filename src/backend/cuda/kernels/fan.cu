/* Fans in one slice, or in a few slices one after the other, and stacks of them forward: choice of
 * the kernel and launches; see fan.h and fans_forward.h. */
#include "backend/cuda/kernels/fan_scatter.h"
#include "backend/cuda/kernels/fans_forward.h"
#include "backend/cuda/kernels/slices_resampled.h"

enum { TAPS = 6, ENOUGH_THREADS = 1 << 20 };
static const int taps_of[TAPS] = {2, 3, 4, 6, 10, 18};

typedef struct {
	HatSlices slices; /* of a stack */
	int taps;         /* number in taps_of */
	FanWeights weights;
	double least; /* least depth of a pixel */
	bool tiles;   /* every tile is seen within a window, in front of the source */
} Choice;

/* Ranges of depths, of columns, and of the larger change of U - c D per pixel, over the box and one
 * pixel around it. */
typedef struct {
	double near, far, left, right, low, high;
} Extent;

static void add_corners(const ProjectRequest *what, const KernelView *k, Extent *e)
{
	for (int corner = 0; corner < 4; corner++) {
		double x = (double)(corner & 1 ? what->box.high[0] : what->box.low[0] - 1);
		double y = (double)(corner & 2 ? what->box.high[1] : what->box.low[1] - 1);
		double z = (double)what->box.low[2];
		double depth = k->depth[0] * x + k->depth[1] * y + k->depth[2] * z + k->depth[3];
		double u = k->column[0] * x + k->column[1] * y + k->column[2] * z + k->column[3];
		e->near = fmin(e->near, depth);
		e->far = fmax(e->far, depth);
		e->left = fmin(e->left, u / depth);
		e->right = fmax(e->right, u / depth);
	}
}

/* The change is a convex function of the column c, linear between the columns where U - c D changes
 * with x only, with y only, or equally with both. */
static void add_changes(const KernelModel *model, const KernelView *k, Extent *e)
{
	const double *u = k->column, *d = k->depth;
	const double left = fmax(e->left, 0), right = fmin(e->right, (double)model->columns - 1);
	const double at[] = {left, right, u[0] / d[0], u[1] / d[1], (u[0] - u[1]) / (d[0] - d[1]),
		(u[0] + u[1]) / (d[0] + d[1])};
	for (int i = 0; i < COUNT(at) && left <= right; i++) {
		double c = fmin(fmax(at[i], left), right);
		double change = fmax(fabs(u[0] - c * d[0]), fabs(u[1] - c * d[1]));
		e->low = fmin(e->low, change);
		e->high = fmax(e->high, change);
	}
}

/* Whether the source is outside the box; reach: most pixels (forward) or columns (back) from a ray
 * to what it meets. */
static bool view_applies(
	const ProjectRequest *what, const KernelView *k, double *reach, double *least)
{
	Extent e = {.near = 1e300, .far = 0, .left = 1e300, .right = -1e300, .low = 1e300};
	add_corners(what, k, &e);
	if (!(e.near > 1e-3 * e.far))
		return false;
	e.left -= 1;
	e.right += 1;
	add_changes(&what->plan->model, k, &e);
	*least = fmin(*least, e.near);
	if (what->kernel == KERNEL_voxel && what->direction == FORWARD)
		*reach = fmax(*reach, e.far / e.low);
	if (what->kernel == KERNEL_joseph && what->direction != FORWARD)
		*reach = fmax(*reach, e.high / e.near);
	return true;
}

/* Whether all tiles of the box, which the last ones may exceed, are so in a view. */
static bool tiles_apply(const ProjectRequest *what, const KernelView *k)
{
	Extent e = {.near = 1e300, .far = 0, .left = 1e300, .right = -1e300, .low = 1e300};
	ProjectRequest whole = *what;
	double change = 0;
	for (int a = 0; a < 2; a++) {
		const int64_t low = what->box.low[a], side = what->box.high[a] - low;
		whole.box.high[a] = low + (side + TILE - 1) / TILE * TILE;
	}
	add_corners(&whole, k, &e);
	for (int i = 0; i < 2; i++) {
		const double c = i ? e.right : e.left;
		change = fmax(change,
			hypot(k->column[0] - c * k->depth[0], k->column[1] - c * k->depth[1]));
	}
	return e.near > 1e-3 * e.far &&
	       0.5 * sqrt(2.0) * (double)TILE * change / e.near < (double)(WINDOW / 2 - 3);
}

/* The largest error of a parabola through the lengths of three rays, relative to the length. */
static double parabola_error(const KernelGrid *grid, const KernelView *k)
{
	double to[2], u[2];
	for (int a = 0; a < 2; a++) {
		to[a] = (k->first[a] - k->src[a]) * grid->step[a];
		u[a] = k->u[a] * grid->step[a];
	}
	const double wide = hypot(u[0], u[1]), far = fabs(u[0] * to[1] - u[1] * to[0]) / wide;
	return 0.055 * pow(wide / far, 3);
}

static bool is_fan(const ProjectRequest *what)
{
	const int source = what->plan->rays.source;
	return source == TOMOS_FAN_PER_ROW || (source == TOMOS_POINT && what->plan->model.planar);
}

/* Parallel rays, forward: more pixels project between two columns than other kernels gather. */
static bool is_parallel(const ProjectRequest *what)
{
	HatSlices slices;
	return what->kernel == KERNEL_voxel && what->direction == FORWARD &&
	       hat_find(what, &slices) && !hat_slices(what, &slices);
}

static bool has_taps(const Choice *c)
{
	return c->slices.reach <= 0.499 * taps_of[c->taps];
}

/* Whether the rays are fans from outside the volume; chooses weights and taps. Parallel rays are
 * projected by tiles. */
static bool fans_choose(const ProjectRequest *what, Choice *c)
{
	const Plan *plan = what->plan;
	const RayClass *rays = &plan->rays;
	double reach = 0, error = 0;
	if (plan->model.clamp || plan->model.nearest || !rays->same_rows ||
		!(is_fan(what) || is_parallel(what)) || rays->all.axis != 2 ||
		what->count > 65535 || plan->model.columns > 1 << 22)
		return false;
	c->slices =
		HatSlices{.s = 2, .a = 0, .b = 1, .first = rays->all.row, .sign = rays->all.sign};
	c->least = 1e300;
	c->tiles = what->kernel == KERNEL_voxel && what->direction == FORWARD;
	for (int64_t i = 0; i < what->count; i++) {
		const KernelView *k = &plan->views[what->first + i];
		if (!view_applies(what, k, &reach, &c->least))
			return false;
		error = fmax(error, parabola_error(&plan->whole, k));
		c->tiles = c->tiles && tiles_apply(what, k);
	}
	if (!is_fan(what)) {
		c->weights = DEEP;
		return c->tiles;
	}
	c->weights = plan->model.weight != WEIGHT_RAY ? DEEP : error < 4e-7 ? PARABOLA : ROOT;
	c->slices.reach = reach;
	for (c->taps = 0; c->taps < TAPS - 1 && !has_taps(c);)
		c->taps++;
	return c->tiles || has_taps(c);
}

static bool fan_applies(const ProjectRequest *what, CudaNotes *notes)
{
	Choice *c = notes_of<Choice>(notes);
	int64_t low, high;
	if (!fans_choose(what, c))
		return false;
	slices_range(what, &c->slices, &low, &high);
	return what->plan->model.planar || high - low < LEAST_STACK;
}

static bool stack_applies(const ProjectRequest *what, CudaNotes *notes)
{
	Choice *c = notes_of<Choice>(notes);
	int64_t low, high;
	if (what->plan->model.planar || !is_fan(what) || !fans_choose(what, c))
		return false;
	slices_range(what, &c->slices, &low, &high);
	return high - low >= LEAST_STACK && has_taps(c);
}

typedef void (*FanKernel)(const Fan s);

#define FORWARD_ROW(T) \
	{ \
		fan_forward<T, DEEP>, fan_forward<T, PARABOLA>, fan_forward<T, ROOT> \
	}
static const FanKernel voxel_forward[TAPS][3] = {FORWARD_ROW(2), FORWARD_ROW(3), FORWARD_ROW(4),
	FORWARD_ROW(6), FORWARD_ROW(10), FORWARD_ROW(18)};
static const FanKernel joseph_back[TAPS] = {fan_back<2, false>, fan_back<3, false>,
	fan_back<4, false>, fan_back<6, false>, fan_back<10, false>, fan_back<18, false>};

/* ---- forward --------------------------------------------------------------------------------- */

static tomos_status run_forward(tomos_backend *backend, const ProjectRequest *what, const Choice *c,
	Fan *s, const float *slice)
{
	const bool joseph = what->kernel == KERNEL_joseph;
	const int64_t rays = s->count * s->model.columns;
	FanKernel kernel = joseph ? fan_forward<0, DEEP> : voxel_forward[c->taps][c->weights];
	unsigned parts = 1;
	while (parts < FAN_PARTS && rays * parts * 2 <= ENOUGH_THREADS)
		parts *= 2;
	s->border = joseph ? (int)BORDER : border_of(taps_of[c->taps]);
	const int n[2] = {s->na, s->nb};
	float *bordered[2];
	TRY(border_slice(backend, slice, n, s->border, 2 * s->border + joseph, joseph, bordered));
	s->samples = bordered[0];
	s->transposed = bordered[1];
	kernel<<<dim3(cuda_blocks(s->model.columns, WIDE, 1 << 30),
			 cuda_blocks(s->count, FAN_VIEWS, 65535)),
		dim3(WIDE, FAN_VIEWS, parts), 0, device_of(backend)->stream>>>(*s);
	CUDA_LAUNCHED("projecting a fan");
	return TOMOS_OK;
}

/* As many views per block as give every SM its blocks. */
static tomos_status scatter_slice(
	tomos_backend *backend, const Choice *c, Fan s, const float *slice)
{
	const CudaDevice *device = device_of(backend);
	const int64_t a = (s.na + TILE - 1) / TILE, b = (s.nb + TILE - 1) / TILE;
	const int64_t parts = max64(TILE_BLOCKS * device->sms / (a * b), 1);
	const int64_t views = min64(max64((s.count - 1) / parts + 1, TILE_WARPS), TILE_VIEWS);
	s.samples = slice;
	(c->weights == DEEP ? fan_scatter<false>
			    : fan_scatter<true>)<<<dim3((unsigned)a, (unsigned)b,
							   cuda_blocks(s.count, (int)views, 65535)),
		TILE_THREADS, 0, device->stream>>>(s, (int)views);
	CUDA_LAUNCHED("projecting a fan");
	return TOMOS_OK;
}

/* Processes a slice in boxes of as many lines as fit into scratch memory. */
static tomos_status forward_slice(tomos_backend *backend, const ProjectRequest *what,
	const Choice *c, const Fan *all, const float *slice)
{
	const int64_t border = 2 * border_of(taps_of[TAPS - 1]) + 1, lines = all->nb;
	const int64_t capacity = device_of(backend)->scratch_most / 2 - border * all->na;
	const int64_t most = max64(1, min64(capacity / (2 * all->na + border), lines));
	Fan s = *all;
	for (int64_t at = 0; at < lines; at += most) {
		s.grid.low[1] = all->grid.low[1] + at;
		s.nb = (int)min64(most, lines - at);
		TRY(run_forward(backend, what, c, &s, slice + at * s.na));
	}
	return TOMOS_OK;
}

/* ---- back ------------------------------------------------------------------------------------ */

static void launch_samples(
	cudaStream_t stream, const ProjectRequest *what, const Fan *s, const float *from, float *to)
{
	if (what->kernel == KERNEL_joseph) {
		fan_samples<<<dim3(cuda_blocks(s->pitch, 128, 1 << 30),
				      cuda_blocks(s->count, 1, 65535)),
			128, 0, stream>>>(*s, from, (float2 *)to);
		return;
	}
	const Border b = {.from = from,
		.to = to,
		.n = (int)s->model.columns,
		.first = -s->border,
		.pitch = s->pitch,
		.rows = s->count,
		.along = 1,
		.across = s->stride,
		.pairs = true};
	launch_border(stream, &b);
}

static tomos_status back_slice(tomos_backend *backend, const ProjectRequest *what, const Choice *c,
	Fan s, const float *rows, const CudaEpilogue *epilogue)
{
	cudaStream_t stream = device_of(backend)->stream;
	const KernelView *views = s.views;
	const bool joseph = what->kernel == KERNEL_joseph;
	FanKernel kernel = joseph               ? joseph_back[c->taps]
			   : c->weights == DEEP ? fan_back<0, false>
						: fan_back<0, true>;
	VoxelUpdate update;
	float *samples;
	s.border = joseph ? border_of(taps_of[c->taps]) : 2;
	s.pitch = (int)s.model.columns + 2 * s.border;
	const int64_t at_once = views_at_once(backend, what, 2 * s.pitch);
	TRY(update_open(backend, what, epilogue, &update));
	TRY(cuda_scratch(
		backend, SCRATCH_REORDERED, 2 * s.pitch * at_once, &samples, "rows with a border"));
	s.samples = samples;
	return views_each(&update, what->count, at_once,
		[&](int64_t first, int64_t count, const VoxelUpdate &part) {
			s.views = views + first;
			s.count = count;
			s.update = part;
			launch_samples(stream, what, &s, rows + first * s.stride, samples);
			CUDA_LAUNCHED("back projecting a fan");
			kernel<<<dim3(cuda_blocks(s.na, WIDE, 1 << 30),
					 cuda_blocks(s.nb, FAN_PIXELS, 65535)),
				dim3(WIDE, FAN_PARTS), 0, stream>>>(s);
			CUDA_LAUNCHED("back projecting a fan");
			return TOMOS_OK;
		});
}

/* ---- stacks ---------------------------------------------------------------------------------- */

typedef void (*StackKernel)(const FanStack s);

#define STACK_ROW(T) \
	{ \
		fans_forward<T, DEEP>, fans_forward<T, PARABOLA>, fans_forward<T, ROOT> \
	}
static const StackKernel stack_forward[TAPS][3] = {
	STACK_ROW(2), STACK_ROW(3), STACK_ROW(4), STACK_ROW(6), STACK_ROW(10), STACK_ROW(18)};

/* All but the slice. */
static tomos_status find_fan(
	tomos_backend *backend, const ProjectRequest *what, const Choice *c, Fan *s)
{
	const Plan *plan = what->plan;
	const KernelModel *model = &plan->model;
	const CudaPlan *kept;
	TRY(cuda_plan(backend, plan, &kept));
	*s = Fan{.grid = plan->whole,
		.model = *model,
		.views = kept->views + what->first,
		.count = what->count,
		.stride = model->rows * model->columns,
		.na = (int)(what->box.high[0] - what->box.low[0]),
		.nb = (int)(what->box.high[1] - what->box.low[1]),
		.least = (float)(0.5 * c->least)};
	memcpy(s->grid.low, what->box.low, sizeof s->grid.low);
	return TOMOS_OK;
}

static tomos_status run_stack(tomos_backend *backend, const ProjectRequest *what, const Choice *c,
	const Fan *fan, int64_t slices, const CudaEpilogue *epilogue)
{
	const bool joseph = what->kernel == KERNEL_joseph;
	const int64_t slice = fan->grid.low[2], unit = 4 * (joseph ? QUADS<0> : QUADS<1>);
	Transposed x = transposed_volume(what, &c->slices, slice, slices, unit),
		   y = transposed_views(what, &c->slices, slice, slices, unit);
	TRY(cuda_scratch(backend, SCRATCH_REORDERED, x.pitch * x.nj * x.nk, &x.inside, "slices"));
	TRY(cuda_scratch(
		backend, SCRATCH_ROWS, y.pitch * y.nj * y.nk, &y.inside, "rows of slices"));
	FanStack s = {.fan = *fan,
		.group = (int)(x.pitch / unit),
		.lanes = 1,
		.from = (const float4 *)x.inside,
		.to = (float4 *)y.inside};
	while (s.lanes < s.group)
		s.lanes *= 2;
	TRY(transpose_in(backend, &x));
	StackKernel kernel = joseph ? fans_forward<0, DEEP> : stack_forward[c->taps][c->weights];
	kernel<<<dim3(cuda_blocks(fan->model.columns, WIDE / s.lanes * FANS_WARPS, 1 << 30),
			 cuda_blocks(fan->count, FANS_VIEWS, 65535)),
		dim3(WIDE, FANS_VIEWS * FANS_WARPS), 0, device_of(backend)->stream>>>(s);
	CUDA_LAUNCHED("projecting fans");
	return transpose_out(backend, &y, epilogue);
}

static tomos_status stack_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	const Choice *c = notes_of<Choice>(notes);
	const int64_t most =
		slices_at_once(backend, what, &c->slices, SlicesScratch{4 * QUADS<1>, 1, 1, 0});
	int64_t low, high;
	Fan s;
	TRY(find_fan(backend, what, c, &s));
	slices_range(what, &c->slices, &low, &high);
	for (int64_t z = low; z < high; z += most) {
		s.row = c->slices.first + c->slices.sign * z;
		s.grid.low[2] = z;
		TRY(run_stack(backend, what, c, &s, min64(most, high - z), epilogue));
	}
	return TOMOS_OK;
}

/* ---- a whole request ------------------------------------------------------------------------- */

static tomos_status fan_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	const Plan *plan = what->plan;
	const KernelModel *model = &plan->model;
	const Choice *c = notes_of<Choice>(notes);
	Fan s;
	TRY(find_fan(backend, what, c, &s));
	for (int64_t z = what->box.low[2]; z < what->box.high[2]; z++) {
		s.row = model->planar ? 0 : plan->rays.all.row + plan->rays.all.sign * z;
		if (s.row < 0 || s.row >= model->rows)
			continue;
		s.grid.low[2] = z;
		float *slice = what->volume + (z - what->box.low[2]) * s.na * s.nb;
		float *rows = what->projections + s.row * model->columns;
		bool forward = what->direction == FORWARD;
		s.to = forward ? rows : slice;
		TRY(!forward       ? back_slice(backend, what, c, s, rows, epilogue)
			: c->tiles ? scatter_slice(backend, c, s, slice)
				   : forward_slice(backend, what, c, &s, slice));
	}
	return TOMOS_OK;
}

/* Slices without a row and averages are left to the kernels for upright detectors. */
static CudaFusion fan_fuses(const tomos_backend *, const ProjectRequest *what,
	const CudaNotes *notes, const FusedUpdate *step)
{
	const HatSlices *slices = &notes_of<Choice>(notes)->slices;
	const bool all = what->plan->model.planar || slices_have_rows(what, slices);
	return step->average || !all ? FUSES_NEXT : FUSES;
}

extern const CudaKernel cuda_fan_forward, cuda_fan_back, cuda_fans_forward_l1;
const CudaKernel cuda_fan_forward = {fan_applies, fan_run};
const CudaKernel cuda_fans_forward_l1 = {stack_applies, stack_run, NULL, transpose_overwrites};
const CudaKernel cuda_fan_back = {fan_applies, fan_run, fan_fuses};
