/* Host side of slices_back_wgmma.h: sorting of the views, and launches. */
#include "backend/cuda/kernels/slices_back_wgmma.h"
#include <stdlib.h>

/* ---- views in their order -------------------------------------------------------------------- */

/* Change of a view's column per pixel along a and b, and a measure that increases with the angle
 * of (a, b). */
typedef struct {
	double a, b, direction;
	int view;
} Slope;

static Slope slope_of(const ProjectRequest *what, const HatSlices *l, int64_t i)
{
	const double *column = what->plan->views[what->first + i].column;
	double a = column[l->a], b = column[l->b], all = fabs(a) + fabs(b);
	double part = all > 0 ? a / all : 0;
	return Slope{a, b, b < 0 ? part - 1 : 1 - part, (int)i};
}

static int by_turn(const void *one, const void *two)
{
	const Slope *p = (const Slope *)one, *q = (const Slope *)two;
	return p->direction < q->direction   ? -1
	       : p->direction > q->direction ? 1
					     : p->view - q->view;
}

/* Range of columns that each square meets, relative to the first column of the block. */
typedef struct {
	double low[SQUARES], high[SQUARES];
} Span;

static Span span_of(const Slope *v)
{
	double a = fabs(v->a), b = fabs(v->b);
	Span span;
	for (int i = 0; i < SQUARES; i++) {
		int past_a = v->a < 0 ? 1 - i % 2 : i % 2, past_b = v->b < 0 ? 1 - i / 2 : i / 2;
		span.low[i] = (int)SQUARE * (past_a * a + past_b * b);
		span.high[i] = span.low[i] + (SQUARE - 1) * (a + b);
	}
	return span;
}

/* Whether both views fit into the REACH columns of every square from a common first column on,
 * wherever their blocks start; if so, extends *span to both. */
static bool span_join(Span *span, const Span *other)
{
	Span both = *span;
	for (int i = 0; i < SQUARES; i++) {
		both.low[i] = fmin(span->low[i], other->low[i]);
		both.high[i] = fmax(span->high[i], other->high[i]);
		if (both.high[i] - both.low[i] + 3 > (double)REACH)
			return false;
	}
	*span = both;
	return true;
}

/* Writes the views in groups of TOGETHER that have a common first column in every square.
 * Incomplete groups are filled with ~view (no data). Returns the number of entries. */
static int64_t order_views(const Slope *slopes, int64_t count, int *order)
{
	int64_t entries = 0;
	Span span = {};
	for (int64_t i = 0; i < count; i++) {
		const Span own = span_of(&slopes[i]);
		if (entries % TOGETHER != 0 && !span_join(&span, &own))
			for (; entries % TOGETHER != 0; entries++)
				order[entries] = ~slopes[i - 1].view;
		if (entries % TOGETHER == 0)
			span = own;
		order[entries++] = slopes[i].view;
	}
	for (; entries % VIEWS != 0; entries++)
		order[entries] = ~slopes[count - 1].view;
	return entries;
}

/* Views are sorted by direction only if many groups would be incomplete: most scans are in
 * order. */
static tomos_status find_order(
	const ProjectRequest *what, const HatSlices *l, int **order, int64_t *entries)
{
	Slope *slopes;
	int64_t most = TOGETHER * what->count + VIEWS;
	TRY(mem_alloc(&slopes, what->count, sizeof *slopes, "the slopes of views"));
	tomos_status status = mem_alloc(order, most, sizeof **order, "the order of views");
	if (status == TOMOS_OK) {
		for (int64_t i = 0; i < what->count; i++)
			slopes[i] = slope_of(what, l, i);
		*entries = order_views(slopes, what->count, *order);
		if (*entries >= what->count + 2 * VIEWS) {
			qsort(slopes, (size_t)what->count, sizeof *slopes, by_turn);
			*entries = order_views(slopes, what->count, *order);
		}
	}
	mem_free(slopes);
	return status;
}

static tomos_status send_order(tomos_backend *backend, const ProjectRequest *what,
	const HatSlices *l, const int **device, int64_t *entries)
{
	int *here;
	float *space = NULL;
	TRY(find_order(what, l, &here, entries));
	tomos_status status =
		cuda_scratch(backend, SCRATCH_LISTS, *entries, &space, "the order of views");
	cudaError_t error = status == TOMOS_OK
				    ? cudaMemcpyAsync(space, here, (size_t)*entries * sizeof *here,
					      cudaMemcpyHostToDevice, device_of(backend)->stream)
				    : cudaSuccess;
	mem_free(here);
	TRY(status);
	CUDA_TRY(error, "sending the order of views");
	*device = (const int *)space;
	return TOMOS_OK;
}

/* ---- a whole request ------------------------------------------------------------------------- */

static bool fits(const ProjectRequest *what, HatSlices *l)
{
	return tensor_slices(what, l) && l->width <= 1 && cuda_level() == 90 &&
	       tensor_describes() && tensor_span(what, l, SQUARE, SQUARE) <= (double)REACH &&
	       tensor_span(what, l, SIDE, SIDE) <= (double)COLUMNS;
}

static bool half_applies(const ProjectRequest *what, CudaNotes *notes)
{
	return what->plan->data == DATA_HALF && fits(what, notes_of<HatSlices>(notes));
}

/* Floats are always processed as sums of two halves. */
static bool split_applies(const ProjectRequest *what, CudaNotes *notes)
{
	return what->plan->data != DATA_HALF && fits(what, notes_of<HatSlices>(notes));
}

template <int SLICES, int PARTS, int FINE>
static tomos_status launch(tomos_backend *backend, const Ordered *ordered)
{
	CUtensorMap map;
	const TensorBack *s = &ordered->of;
	const int bytes = Layout<SLICES, PARTS>::BYTES;
	const int64_t size[3] = {s->pitch, s->columns, (int64_t)PARTS * s->count};
	const int box[3] = {LINE / (int)sizeof(__half), COLUMNS, 1};
	if (!tensor_describe(&map, s->data, size, box))
		return fail(TOMOS_NO_DEVICE,
			"the driver cannot describe views of %d columns for bulk copies",
			s->columns);
	CUDA_TRY(cudaFuncSetAttribute((const void *)group_back<SLICES, PARTS, FINE>,
			 cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
		"asking for shared memory");
	dim3 blocks(cluster_blocks((s->na + SIDE - 1) / SIDE, (s->nb + SIDE - 1) / SIDE), 1,
		cuda_blocks(s->pitch, SLICES, 65535));
	group_back<SLICES, PARTS, FINE>
		<<<blocks, THREADS, bytes, device_of(backend)->stream>>>(*ordered, map);
	CUDA_LAUNCHED("projecting slices");
	return TOMOS_OK;
}

static tomos_status launch_fitting(tomos_backend *backend, const ProjectRequest *what,
	const HatSlices *slices, const TensorBack *request)
{
	Ordered s = {.of = *request};
	int64_t entries;
	TRY(send_order(backend, what, slices, &s.order, &entries));
	s.entries = (int)entries;
	return request->parts == 2   ? launch<64, 2, 2>(backend, &s)
	       : request->fine == 2  ? launch<64, 1, 2>(backend, &s)
	       : request->pitch > 64 ? launch<128, 1, 1>(backend, &s)
				     : launch<64, 1, 1>(backend, &s);
}

static tomos_status group_run(tomos_backend *backend, const ProjectRequest *what,
	const CudaNotes *notes, const CudaEpilogue *epilogue)
{
	return tensor_back_run(backend, what, notes, epilogue, launch_fitting);
}

extern const CudaKernel cuda_slices_back_wgmma_half, cuda_slices_back_wgmma_split;
const CudaKernel cuda_slices_back_wgmma_half = {
	half_applies, group_run, tensor_fuses, transpose_overwrites};
const CudaKernel cuda_slices_back_wgmma_split = {
	split_applies, group_run, tensor_fuses, transpose_overwrites};
