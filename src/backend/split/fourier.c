/* The projector by Fourier transforms on several devices: slices in slabs that fit into a lane, and
 * the detector rows that they have.
 *
 * Slabs are for stacks of slices that have the same rows in all views. Other scans, the normal
 * operator, and slices whose transforms do not fit are computed by the CPU, in host memory.
 */
#include <math.h>
#include <string.h>
#include "backend/fourier_window.h"
#include "backend/split/split.h"
#include "base/fft.h"

enum { MOST_SLICES = 64 };

/* Objects of the lanes are for slabs of `slices`; `host`: the CPU's object, instead of them. */
typedef struct {
	FourierSpec spec; /* without views */
	int64_t row;      /* of slice 0 */
	int step, lanes;
	int64_t slices;
	Fourier *host, **of_lane;
} SplitFourier;

/* ---- opening --------------------------------------------------------------------------------- */

static bool same_rows(const FourierSpec *spec)
{
	bool same = fourier_own_rows(spec);
	for (int64_t i = 0; i < spec->count && same; i++)
		same = spec->views[i].row == spec->views[0].row &&
		       spec->views[i].step == spec->views[0].step;
	return same;
}

/* Floats of a lane for slabs and transforms. Of the scratch memory of kernels only the filter's is
 * in use beside them, at most a sixth. */
static int64_t lane_floats(const Split *s)
{
	return s->capacity + s->own - s->own / 4;
}

static int64_t slice_floats(const FourierSpec *spec)
{
	return spec->n[0] * spec->n[1] + spec->count * spec->columns;
}

/* Slices of a slab: an even number, as slices are transformed in pairs; 0: not even one pair fits,
 * with its transforms and what these take besides. */
static int64_t slab_slices(const Split *s, const FourierSpec *spec)
{
	double cells = (double)fourier_cells(spec, 0) * (double)fourier_cells(spec, 1);
	double points = (double)spec->count * (double)fft_length(fourier_period(spec));
	double room = (double)lane_floats(s) - 4 * (cells + points);
	int64_t fit = (int64_t)fmax(room, 0) / slice_floats(spec);
	int64_t share = parts_of(parts_of(spec->n[2], s->count), 2) * 2;
	return min64(min64(fit, MOST_SLICES) / 2 * 2, share);
}

/* The object of a lane: slice z of a slab has row z, or the rows are in the opposite order. */
static tomos_status open_lanes(const Split *s, SplitFourier *f, const FourierSpec *spec)
{
	FourierSpec slab = *spec;
	FourierView *views;
	tomos_status status = TOMOS_OK;
	TRY(mem_zeroed(&f->of_lane, s->count, sizeof *f->of_lane, "a projector"));
	TRY(mem_alloc(&views, spec->count, sizeof *views, "the views"));
	slab.views = views;
	slab.n[2] = slab.rows = f->slices;
	slab.memory = (lane_floats(s) - f->slices * slice_floats(spec)) * (int64_t)sizeof(float);
	for (int64_t i = 0; i < spec->count; i++) {
		views[i] = spec->views[i];
		views[i].row = f->step > 0 ? 0 : (double)(f->slices - 1);
	}
	for (f->lanes = 0; f->lanes < s->count && status == TOMOS_OK; f->lanes++) {
		tomos_backend *child = s->lanes[f->lanes].child;
		status = child->type->fourier->open(child, &f->of_lane[f->lanes], &slab);
	}
	mem_free(views);
	return status;
}

static void split_fourier_close(tomos_backend *backend, Fourier *fourier)
{
	SplitFourier *f = (SplitFourier *)fourier;
	const Split *s = split_of(backend);
	if (!f)
		return;
	cpu_backend.fourier->close(backend, f->host);
	for (int i = 0; i < f->lanes; i++)
		s->lanes[i].child->type->fourier->close(s->lanes[i].child, f->of_lane[i]);
	mem_free(f->of_lane);
	mem_free(f);
}

static tomos_status split_fourier_fill(
	tomos_backend *backend, SplitFourier *f, const FourierSpec *spec, bool normal)
{
	const Split *s = split_of(backend);
	f->spec = *spec;
	f->spec.views = NULL;
	if (!normal && s->lanes[0].child->type->fourier && same_rows(spec))
		f->slices = slab_slices(s, spec);
	if (f->slices == 0)
		return normal ? cpu_backend.fourier->open_normal(backend, &f->host, spec)
			      : cpu_backend.fourier->open(backend, &f->host, spec);
	f->row = (int64_t)spec->views[0].row;
	f->step = spec->views[0].step > 0 ? 1 : -1;
	return open_lanes(s, f, spec);
}

static tomos_status open_either(
	tomos_backend *backend, Fourier **fourier, const FourierSpec *spec, bool normal)
{
	SplitFourier *f;
	*fourier = NULL;
	TRY(mem_zeroed(&f, 1, sizeof *f, "a projector"));
	tomos_status status = split_fourier_fill(backend, f, spec, normal);
	if (status == TOMOS_OK)
		*fourier = (Fourier *)f;
	else
		split_fourier_close(backend, (Fourier *)f);
	return status;
}

static tomos_status split_fourier_open(
	tomos_backend *backend, Fourier **fourier, const FourierSpec *spec)
{
	return open_either(backend, fourier, spec, false);
}

static tomos_status split_normal_open(
	tomos_backend *backend, Fourier **normal, const FourierSpec *spec)
{
	return open_either(backend, normal, spec, true);
}

/* ---- slabs ----------------------------------------------------------------------------------- */

typedef struct {
	Split *split;
	const SplitFourier *f;
	Direction direction;
	float *volume, *projections;
} Slabs;

/* Rows of a slab: those of the scan from `first` on are the rows from `at` on of the lane. */
typedef struct {
	int64_t first, at, count;
} SlabRows;

static SlabRows rows_of(const SplitFourier *f, int64_t slice)
{
	int64_t low = f->row + f->step * slice - (f->step > 0 ? 0 : f->slices - 1);
	int64_t first = max64(low, 0), end = min64(low + f->slices, f->spec.rows);
	return (SlabRows){first, first - low, max64(end - first, 0)};
}

/* Between the rows of the scan and those of a slab, [view][row][column], in host memory. */
static void copy_rows(const Slabs *job, const SlabRows *rows, float *slab)
{
	const FourierSpec *spec = &job->f->spec;
	size_t bytes = (size_t)(rows->count * spec->columns) * sizeof *slab;
	for (int64_t i = 0; i < spec->count; i++) {
		float *outer = job->projections + (i * spec->rows + rows->first) * spec->columns;
		float *inner = slab + (i * job->f->slices + rows->at) * spec->columns;
		if (job->direction == FORWARD)
			memcpy(outer, inner, bytes);
		else
			memcpy(inner, outer, bytes);
	}
}

static tomos_status slab_item(LaneRun *run, void *user, Lane *lane, int64_t index)
{
	const Slabs *job = user;
	const SplitFourier *f = job->f;
	const FourierSpec *spec = &f->spec;
	const BackendType *type = lane->child->type;
	int64_t slice = index * f->slices, size = spec->n[0] * spec->n[1];
	int64_t pixels = spec->count * f->slices * spec->columns;
	const SlabRows rows = rows_of(f, slice);
	tomos_array voxels = tomos_array_of(job->volume + slice * size,
		min64(f->slices, spec->n[2] - slice), spec->n[1], spec->n[0]);
	(void)run;
	TRY(lane_reserve(lane, f->slices * size, pixels, f->slices * size + pixels));
	TRY(lane_sum(job->split, lane, pixels));
	tomos_array slab = tomos_array_of(lane->sum, spec->count, f->slices, spec->columns);
	if (job->direction == FORWARD) {
		TRY(type->vector->fill(lane->child, f->slices * size, 0, lane->out));
		TRY(type->memory->upload(lane->child, lane->out, &voxels));
	} else {
		memset(lane->sum, 0, (size_t)pixels * sizeof *lane->sum);
		copy_rows(job, &rows, lane->sum);
		TRY(type->memory->upload(lane->child, lane->in, &slab));
	}
	TRY(type->fourier->apply(lane->child, f->of_lane[lane - job->split->lanes], job->direction,
		lane->out, lane->in));
	if (job->direction == ADJOINT)
		return type->memory->download(lane->child, lane->out, &voxels);
	TRY(type->memory->download(lane->child, lane->in, &slab));
	copy_rows(job, &rows, lane->sum);
	return TOMOS_OK;
}

static tomos_status split_fourier_apply(tomos_backend *backend, Fourier *fourier,
	Direction direction, float *volume, float *projections)
{
	const SplitFourier *f = (const SplitFourier *)fourier;
	Split *s = split_of(backend);
	Slabs job = {s, f, direction, volume, projections};
	if (f->host) {
		backend_ran(backend, direction, "fourier on the CPU");
		return cpu_backend.fourier->apply(backend, f->host, direction, volume, projections);
	}
	if (direction == FORWARD)
		memset(projections, 0,
			(size_t)(f->spec.count * f->spec.rows * f->spec.columns) *
				sizeof *projections);
	pthread_mutex_lock(&s->lock);
	tomos_status status = split_run(s, parts_of(f->spec.n[2], f->slices), slab_item, &job);
	pthread_mutex_unlock(&s->lock);
	return status;
}

static tomos_status split_normal_apply(
	tomos_backend *backend, Fourier *normal, const float *volume, float *result)
{
	backend_ran(backend, FORWARD, "fourier_normal on the CPU");
	backend_ran(backend, ADJOINT, "fourier_normal on the CPU");
	return cpu_backend.fourier->apply_normal(
		backend, ((const SplitFourier *)normal)->host, volume, result);
}

const BackendFourier split_fourier = {split_fourier_open, split_fourier_close, split_fourier_apply,
	split_normal_open, split_normal_apply, false};
