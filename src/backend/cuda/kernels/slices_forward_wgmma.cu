/* Host side of slices_forward_tile.h: bundles, tiles and launches. */
#include "backend/cuda/kernels/slices_forward_wgmma.h"

static bool half_applies(const ProjectRequest *what, CudaNotes *notes)
{
	return what->plan->data == DATA_HALF && cuda_level() == 90 &&
	       tensor_slices(what, notes_of<HatSlices>(notes));
}

extern const CudaKernel cuda_slices_forward_l1;

/* Whether following rays (slices_forward_l1) is faster: few slices, and few views or a detector
 * that sees a part of the volume. The factors are picoseconds on an H200, of a voxel of 64 slices
 * in a view and of its conversion, and of a sample; only ratios matter. */
static bool rays_are_faster(const ProjectRequest *what, const HatSlices *l)
{
	const KernelModel *model = &what->plan->model;
	const double na = (double)(what->box.high[l->a] - what->box.low[l->a]),
		     nb = (double)(what->box.high[l->b] - what->box.low[l->b]),
		     slices = (double)(what->box.high[l->s] - what->box.low[l->s]);
	const double voxel = what->kernel == KERNEL_voxel ? 13.9 : 10.6;
	double rays = 0, voxels = 900 * na * nb;
	CudaNotes notes;
	for (int64_t i = 0; i < what->count; i++) {
		const HatView hat = hat_view(what->plan, what->first + i, l, what->kernel);
		const double across = fabs(hat.along ? hat.ea : hat.eb),
			     planes = hat.along ? nb : na,
			     seen = fmin((double)model->columns / across, hat.along ? na : nb);
		voxels += voxel * planes * seen;
		rays += voxel / 11 * slices * planes * (double)model->columns;
	}
	return rays < voxels * ceil(slices / 64) && cuda_slices_forward_l1.applies(what, &notes);
}

static bool split_applies(const ProjectRequest *what, CudaNotes *notes)
{
	HatSlices *slices = notes_of<HatSlices>(notes);
	return what->plan->data != DATA_HALF && cuda_level() == 90 && tensor_slices(what, slices) &&
	       !rays_are_faster(what, slices);
}

template <int SLICES, int PARTS, bool SPARSE>
static tomos_status launch(tomos_backend *backend, const Forward *s, int64_t groups)
{
	const int bytes = Layout<SLICES, PARTS>::BYTES, length = Layout<SLICES, PARTS>::LONG;
	CUDA_TRY(cudaFuncSetAttribute((const void *)group_forward<SLICES, PARTS, SPARSE>,
			 cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
		"asking for shared memory");
	int64_t tiles = (s->nv + length - 1) / length * (int64_t)s->tiles;
	dim3 blocks((unsigned)tiles, (unsigned)s->bundles, (unsigned)groups);
	group_forward<SLICES, PARTS, SPARSE>
		<<<blocks, Crew<SLICES, PARTS>::THREADS, bytes, device_of(backend)->stream>>>(*s);
	CUDA_LAUNCHED("projecting slices");
	return TOMOS_OK;
}

template <bool SPARSE>
static tomos_status launch_fitting(
	tomos_backend *backend, const Forward *s, const HalfSquares *squares, int parts)
{
	if (squares->chunks == 128 / (int)CHUNK)
		return parts == 1 ? launch<128, 1, SPARSE>(backend, s, squares->groups)
				  : launch<128, 2, SPARSE>(backend, s, squares->groups);
	return parts == 1 ? launch<64, 1, SPARSE>(backend, s, squares->groups)
			  : launch<64, 2, SPARSE>(backend, s, squares->groups);
}

/* Data common to all slices: bundles with rays along b, and along a. */
typedef struct {
	Forward along[2];
	bool sparse;
} Request;

static int squares_across(int64_t pixels)
{
	return (int)((pixels + SQUARE_SIDE - 1) / SQUARE_SIDE);
}

static tomos_status run_slices(tomos_backend *backend, const ProjectRequest *what,
	const HatSlices *l, const Request *r, const HatView *views, int64_t slice, int64_t slices,
	const CudaEpilogue *epilogue)
{
	Transposed x = transposed_volume(what, l, slice, slices, CHUNK);
	Transposed y = transposed_views(what, l, slice, slices, CHUNK);
	int parts = tensor_parts(what->plan), wide = slices > 64 ? 128 : 64;
	HalfSquares squares = {.nj = squares_across(x.nj),
		.nk = squares_across(x.nk),
		.groups = (slices + wide - 1) / wide,
		.chunks = wide / CHUNK};
	int64_t words =
		squares.groups * squares.nk * squares.nj * parts * squares.chunks * SQUARE_PIXELS;
	int ways = (r->along[0].bundles > 0) + (r->along[1].bundles > 0);
	int64_t sums = y.pitch * y.nj * y.nk;
	float *head;
	TRY(cuda_scratch(backend, SCRATCH_REORDERED,
		TENSOR_HEAD + ways * words * (WORD / (int)sizeof(float)), &head, "slices"));
	TRY(cuda_scratch(backend, SCRATCH_ROWS, sums, &y.inside, "rows of slices"));
	uint4 *data = (uint4 *)(head + TENSOR_HEAD);
	Halves to = {.parts = parts, .largest = (unsigned *)head};
	if (r->along[0].bundles)
		squares.along_j = data;
	if (r->along[1].bundles)
		squares.along_k = data + (ways - 1) * words;
	TRY(transpose_in_squares(backend, &x, &to, squares));
	CUDA_TRY(cudaMemsetAsync(
			 y.inside, 0, (size_t)sums * sizeof(float), device_of(backend)->stream),
		"clearing rows of slices");
	for (int i = 0; i < 2; i++) {
		Forward s = r->along[i];
		if (!s.bundles)
			continue;
		s.views = views;
		s.pitch = (int)y.pitch;
		s.data = i == 0 ? squares.along_j : squares.along_k;
		s.to = y.inside;
		TRY(r->sparse ? launch_fitting<true>(backend, &s, &squares, parts)
			      : launch_fitting<false>(backend, &s, &squares, parts));
	}
	y.largest = to.largest;
	return transpose_out(backend, &y, epilogue);
}

/* Range of tiles across the rays that covers the plane for every shift along the rays. */
static Course course_of(const Bundle *bundle, int nu, int nv)
{
	Course c = {
		.slope = bundle->slope, .first = (int)bundle->first, .items = (int)bundle->count};
	int end = shift_of(&c, nv - 1), most = end > 0 ? end : 0, least = end < 0 ? end : 0;
	c.low = -(most + WIDE - 1) / WIDE;
	c.tiles = (nu - least + WIDE - 1) / WIDE - c.low;
	return c;
}

/* Most columns that a tile meets: WIDE squares, which may be half a square off the line that the
 * rays follow, plus the deviation of rays from that line. */
static double span_of(const ProjectRequest *what, const HatSlices *l, const Bundles *bundles)
{
	double most = 0;
	for (int64_t i = 0; i < bundles->count; i++) {
		const Bundle *b = &bundles->list[i];
		double slope = ldexp((double)b->slope, -BUNDLE_SHIFT);
		for (int64_t k = 0; k < b->count * BUNDLE_VIEWS; k++) {
			int view = bundles->order[b->first * BUNDLE_VIEWS + k];
			if (view < 0)
				continue;
			const double *column = what->plan->views[what->first + view].column;
			double across = column[b->along_b ? l->a : l->b];
			double along = column[b->along_b ? l->b : l->a];
			double away = fabs(along + slope * across) * (double)LONGEST;
			double wide = fabs(across) * ((double)WIDE + 1 + fabs(slope));
			most = fmax(most, (double)SQUARE_SIDE * (wide + away));
		}
	}
	return most + 2 * fmax(l->width, 1) + 1;
}

/* Courses of all bundles with rays along one axis; they are contiguous in the list. */
static Forward find_courses(const ProjectRequest *what, const HatSlices *l, const Bundles *bundles,
	bool along_b, const Course *device, Course *courses)
{
	const Box *box = &what->box;
	int u = along_b ? l->a : l->b, v = along_b ? l->b : l->a;
	Forward s = {.along_b = along_b,
		.columns = (int)what->plan->model.columns,
		.low_u = box->low[u],
		.low_v = box->low[v],
		.nu = squares_across(box->high[u] - box->low[u]),
		.nv = squares_across(box->high[v] - box->low[v]),
		.groups = (int)ceil(span_of(what, l, bundles) / (double)GROUP)};
	for (int64_t i = 0; i < bundles->count; i++) {
		if (bundles->list[i].along_b != along_b)
			continue;
		if (!s.bundles++)
			s.courses = device + i;
		courses[i] = course_of(&bundles->list[i], s.nu, s.nv);
		s.tiles = courses[i].tiles > s.tiles ? courses[i].tiles : s.tiles;
	}
	return s;
}

/* Uploads the courses and, after them in the same buffer, the order of the views. */
static tomos_status send_courses(tomos_backend *backend, const ProjectRequest *what,
	const HatSlices *l, const Bundles *bundles, Course *courses, Request *r)
{
	cudaStream_t stream = device_of(backend)->stream;
	size_t bytes = (size_t)bundles->count * sizeof *courses;
	size_t order = (size_t)bundles->places * sizeof *bundles->order;
	float *device;
	TRY(cuda_scratch(backend, SCRATCH_LISTS, (int64_t)((bytes + order) / sizeof(float)),
		&device, "bundles of views"));
	int *device_order = (int *)((unsigned char *)device + bytes);
	for (int i = 0; i < 2; i++) {
		r->along[i] =
			find_courses(what, l, bundles, i == 0, (const Course *)device, courses);
		r->along[i].order = device_order;
	}
	CUDA_TRY(cudaMemcpyAsync(device, courses, bytes, cudaMemcpyHostToDevice, stream),
		"sending bundles of views");
	CUDA_TRY(cudaMemcpyAsync(
			 device_order, bundles->order, order, cudaMemcpyHostToDevice, stream),
		"sending bundles of views");
	return TOMOS_OK;
}

static tomos_status group_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	const HatSlices *l = notes_of<HatSlices>(notes);
	tomos_status status = TOMOS_OK;
	Course *courses = NULL;
	Bundles bundles;
	Request r = {.sparse = l->reach <= 1};
	auto run_part = [&r](tomos_backend *b, const ProjectRequest *w, const HatSlices *slices,
				const HatView *views, int64_t first, int64_t count,
				const CudaEpilogue *end) {
		return run_slices(b, w, slices, &r, views, first, count, end);
	};
	TRY_OR_DONE(bundles_make(&bundles, what, l));
	TRY_OR_DONE(mem_alloc(&courses, bundles.count, sizeof *courses, "bundles of views"));
	TRY_OR_DONE(send_courses(backend, what, l, &bundles, courses, &r));
	TRY_OR_DONE(
		slices_each(backend, what, notes, epilogue, SlicesScratch{64, 2, 1, 0}, run_part));
done:
	bundles_free(&bundles);
	mem_free(courses);
	return status;
}

extern const CudaKernel cuda_slices_forward_wgmma_half, cuda_slices_forward_wgmma_split;
const CudaKernel cuda_slices_forward_wgmma_half = {
	half_applies, group_run, NULL, transpose_overwrites};
const CudaKernel cuda_slices_forward_wgmma_split = {
	split_applies, group_run, NULL, transpose_overwrites};
