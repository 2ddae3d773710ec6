/* In-slice rays in one slice, or in a few slices one after the other: choice of the kernel and
 * launches; see slice.h. */
#include "backend/cuda/kernels/slice.h"

typedef struct {
	HatSlices slices;
	Taps taps;
	int64_t first, last; /* back: first and last column onto which pixels project */
} Choice;

/* Range of columns onto which the pixels of the box project, and of blocks that extend beyond
 * it. */
static void column_range(const ProjectRequest *what, Choice *c)
{
	double first = 1e300, last = -1e300;
	for (int64_t i = 0; i < what->count; i++) {
		const KernelView *k = &what->plan->views[what->first + i];
		for (int corner = 0; corner < 4; corner++) {
			double x =
				(double)(corner & 1 ? what->box.high[0] + WIDE : what->box.low[0]);
			double y = (double)(corner & 2 ? what->box.high[1] + HIGH * PIXELS
						       : what->box.low[1]);
			double e = k->column[3] + k->column[0] * x + k->column[1] * y;
			first = fmin(first, e);
			last = fmax(last, e);
		}
	}
	c->first = (int64_t)floor(fmax(first, -1e15)) - BORDER;
	c->last = (int64_t)ceil(fmin(last, 1e15)) + BORDER;
}

static bool plane_applies(const ProjectRequest *what, CudaNotes *notes)
{
	Choice *c = notes_of<Choice>(notes);
	const KernelModel *model = &what->plan->model;
	int64_t low, high;
	if (!hat_slices(what, &c->slices) || c->slices.s != 2)
		return false;
	slices_range(what, &c->slices, &low, &high);
	if (!model->planar && high - low > MOST_SLICES)
		return false;
	bool forward = what->direction == FORWARD, voxel = what->kernel == KERNEL_voxel;
	bool narrow = what->kernel == KERNEL_joseph && c->slices.reach <= 1;
	c->taps = forward != voxel ? LINEAR : narrow ? TWO : c->slices.reach <= 1.5 ? THREE : FIVE;
	column_range(what, c);
	int64_t pitch = c->last - c->first + 1;
	return pitch <= 8 * (model->columns + 256) && pitch * what->count < 1 << 28 &&
	       c->first > -(1 << 30) && c->last < 1 << 30;
}

typedef void (*PlaneKernel)(const Plane s);
static const PlaneKernel kernels[2][2][4] = {
	{{plane_forward<HAT, LINEAR>, NULL, plane_forward<HAT, THREE>, plane_forward<HAT, FIVE>},
		{plane_back<HAT, LINEAR>, plane_back<HAT, TWO>, plane_back<HAT, THREE>,
			plane_back<HAT, FIVE>}},
	{{plane_forward<LINE, LINEAR>, NULL, NULL, NULL},
		{NULL, NULL, plane_back<LINE, THREE>, plane_back<LINE, FIVE>}}};

static const PlaneKernel few[2][4] = {
	{plane_forward_few<HAT, LINEAR>, NULL, plane_forward_few<HAT, THREE>,
		plane_forward_few<HAT, FIVE>},
	{plane_forward_few<LINE, LINEAR>, NULL, NULL, NULL}};

static Weights weights_of(const ProjectRequest *what)
{
	return what->kernel == KERNEL_voxel || what->kernel == KERNEL_joseph ? HAT : LINE;
}

static PlaneKernel kernel_of(const ProjectRequest *what, const Choice *c)
{
	return kernels[weights_of(what)][what->direction][c->taps];
}

static tomos_status run_forward(tomos_backend *backend, const ProjectRequest *what, const Choice *c,
	Plane *s, const float *slice)
{
	cudaStream_t stream = device_of(backend)->stream;
	const int n[2] = {s->na, s->nb};
	float *bordered[2];
	TRY(border_slice(backend, slice, n, BORDER, 2 * BORDER + 1, c->taps == LINEAR, bordered));
	s->samples = bordered[0];
	s->transposed = bordered[1];
	if (s->columns * what->count < FEW_RAYS)
		few[weights_of(what)]
		   [c->taps]<<<dim3(cuda_blocks(s->columns, WIDE, 1 << 30), (unsigned)what->count),
			   dim3(WIDE, PARTS), 0, stream>>>(*s);
	else
		kernel_of(what, c)<<<dim3(cuda_blocks(s->columns, WIDE * HIGH / GROUP, 1 << 30),
					     cuda_blocks(what->count, GROUP, 65535)),
			dim3(WIDE, HIGH), 0, stream>>>(*s);
	CUDA_LAUNCHED("projecting a slice");
	return TOMOS_OK;
}

static tomos_status run_back(tomos_backend *backend, const ProjectRequest *what, const Choice *c,
	Plane *s, const float *rows)
{
	cudaStream_t stream = device_of(backend)->stream;
	float *samples;
	TRY(cuda_scratch(backend, SCRATCH_REORDERED,
		(int64_t)floats_of(c->taps) * s->pitch * s->count, &samples, "rows with a border"));
	Border b = {.from = rows,
		.to = samples,
		.n = (int)s->columns,
		.first = (int)c->first,
		.pitch = s->pitch,
		.rows = s->count,
		.along = 1,
		.across = s->stride,
		.views = s->views,
		.pairs = c->taps == LINEAR};
	launch_border(stream, &b);
	s->samples = samples;
	kernel_of(what, c)<<<dim3(cuda_blocks(s->na, WIDE, 1 << 30),
				     cuda_blocks(s->nb, HIGH * PIXELS, 65535)),
		dim3(WIDE, HIGH), 0, stream>>>(*s);
	CUDA_LAUNCHED("projecting a slice");
	return TOMOS_OK;
}

/* Processes a slice in boxes of as many lines as fit into scratch memory. */
static tomos_status forward_slice(tomos_backend *backend, const ProjectRequest *what,
	const Choice *c, const Plane *all, const float *slice)
{
	int64_t border = 2 * BORDER + 1, floats = floats_of(c->taps), lines = all->nb;
	int64_t capacity = device_of(backend)->scratch_most / floats - border * all->na;
	int64_t most = max64(1, min64(capacity / (2 * all->na + border), lines));
	Plane s = *all;
	for (int64_t at = 0; at < lines; at += most) {
		s.low_b = all->low_b + at;
		s.nb = (int)min64(most, lines - at);
		TRY(run_forward(backend, what, c, &s, slice + at * s.na));
	}
	return TOMOS_OK;
}

/* Processes as many views at once as fit into scratch memory. */
static tomos_status back_slice(tomos_backend *backend, const ProjectRequest *what, const Choice *c,
	const Plane *all, const float *rows)
{
	Plane s = *all;
	s.first = c->first;
	s.pitch = (int)(c->last - c->first + 1);
	int64_t capacity = device_of(backend)->scratch_most / floats_of(c->taps);
	int64_t most = max64(1, min64(capacity / s.pitch, all->count));
	for (int64_t at = 0; at < all->count; at += most) {
		s.views = all->views + at;
		s.count = min64(most, all->count - at);
		TRY(run_back(backend, what, c, &s, rows + at * s.stride));
	}
	return TOMOS_OK;
}

static tomos_status plane_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	const KernelModel *model = &what->plan->model;
	const Choice c = *notes_of<Choice>(notes);
	Plane s = {.count = what->count,
		.columns = model->columns,
		.stride = model->rows * model->columns,
		.na = (int)(what->box.high[0] - what->box.low[0]),
		.nb = (int)(what->box.high[1] - what->box.low[1]),
		.low_a = what->box.low[0],
		.low_b = what->box.low[1]};
	s.fused = epilogue->kind == EPILOGUE_UPDATE;
	s.with = epilogue->update;
	TRY(hat_views(backend, what, &c.slices, &s.views));
	for (int64_t z = what->box.low[2]; z < what->box.high[2]; z++) {
		int64_t row = model->planar ? 0 : c.slices.first + c.slices.sign * z;
		if (row < 0 || row >= model->rows)
			continue;
		float *slice = what->volume + (z - what->box.low[2]) * s.na * s.nb;
		float *rows = what->projections + row * model->columns;
		bool forward = what->direction == FORWARD;
		s.to = forward ? rows : slice;
		TRY(forward ? forward_slice(backend, what, &c, &s, slice)
			    : back_slice(backend, what, &c, &s, rows));
	}
	return TOMOS_OK;
}

/* All views must fit into scratch memory at once. Factors are computed for hat functions only;
 * with many views, weights that are computed once and stored cost less. */
static CudaFusion slice_fuses(const tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const FusedUpdate *step)
{
	const Choice *c = notes_of<Choice>(notes);
	bool hat = what->kernel == KERNEL_voxel || what->kernel == KERNEL_joseph;
	int64_t floats = (c->last - c->first + 1) * what->count * floats_of(c->taps);
	if (!slices_have_rows(what, &c->slices) || floats > device_of(backend)->scratch_most ||
		(step->average && (step->rays || !hat || what->count > FEW_VIEWS)))
		return FUSES_NOT;
	return step->average ? FUSES_WITH_FACTORS : FUSES;
}

extern const CudaKernel cuda_slice_forward, cuda_slice_back;
const CudaKernel cuda_slice_forward = {plane_applies, plane_run};
const CudaKernel cuda_slice_back = {plane_applies, plane_run, slice_fuses};
