/* Phase retrieval (prep/phase.c has the paper): two views are the real and imaginary part of a
 * frame, which is padded with its edge values, transformed, damped and transformed again. The
 * damping is real and even, so the views stay separate. */
#include <string.h>
#include "backend/opencl/prep.h"

/* Of two arrays for a pair of views. */
static int64_t pair_floats(const PrepFrame *f)
{
	return 2 * 2 * f->rows * f->columns;
}

static int64_t phase_batch(const PrepFrame *f, int64_t views)
{
	return prep_fit(PREP_BATCH, pair_floats(f), (views + 1) / 2);
}

static int64_t phase_floats(const PrepWork *w, const PrepData *d)
{
	PrepFrame frame;
	if (prep_phase_frame(&frame, w->spec.phase_strength, d->rows, d->columns) != TOMOS_OK)
		return 0;
	return pair_floats(&frame) * phase_batch(&frame, d->views);
}

static tomos_status take_transforms(tomos_backend *b, OpenclPrep *w, const PrepFrame *frame)
{
	if (memcmp(&w->frame, frame, sizeof *frame) == 0)
		return TOMOS_OK;
	opencl_fft_close(b, &w->along);
	opencl_fft_close(b, &w->across);
	memset(&w->frame, 0, sizeof w->frame);
	TRY(opencl_fft_open(b, &w->along, frame->columns));
	TRY(opencl_fft_open(b, &w->across, frame->rows));
	w->frame = *frame;
	return TOMOS_OK;
}

typedef struct {
	PrepShape n;
	int64_t first, count, pairs; /* views of this batch, and their pairs */
	OpenclPlace data, frames[2];
	int at; /* which of the arrays has the frames */
} Retrieval;

static tomos_status transpose(tomos_backend *b, Retrieval *p, int64_t rows, int64_t columns)
{
	const OpenclArg args[] = {ARG(rows), ARG(columns), ARG(p->pairs),
		ARG_PLACE(p->frames[p->at]), ARG_PLACE(p->frames[1 - p->at])};
	const int64_t size[3] = {columns, rows, p->pairs};
	p->at = 1 - p->at;
	return opencl_planes(b, TASK_waves_transpose, size, args, COUNT(args));
}

static tomos_status transform(tomos_backend *b, const OpenclFft *fft, Retrieval *p, int64_t rows)
{
	return opencl_fft_run(b, fft, p->pairs * rows, (OpenclPlace){NULL, 0}, p->frames, &p->at);
}

static tomos_status pad(tomos_backend *b, const OpenclPrep *w, Retrieval *p)
{
	const PrepFrame f = w->frame;
	const OpenclArg args[] = {ARG(f), ARG(p->n), ARG(p->first), ARG(p->pairs),
		ARG_PLACE(p->data), ARG_PLACE(p->frames[0])};
	const int64_t size[3] = {f.columns, f.rows, p->pairs};
	p->at = 0;
	return opencl_planes(b, TASK_waves_frames, size, args, COUNT(args));
}

static tomos_status damp(tomos_backend *b, const OpenclPrep *w, const Retrieval *p)
{
	const PrepFrame f = w->frame;
	const double strength = w->work.spec.phase_strength;
	const OpenclArg args[] = {
		ARG(f), ARG(strength), ARG(p->pairs), ARG_PLACE(p->frames[p->at])};
	const int64_t size[3] = {f.rows, f.columns, p->pairs};
	return opencl_planes(b, TASK_waves_damp, size, args, COUNT(args));
}

static tomos_status put(tomos_backend *b, const OpenclPrep *w, const Retrieval *p)
{
	const PrepFrame f = w->frame;
	const float least = w->work.spec.floor;
	const OpenclArg args[] = {ARG(f), ARG(p->n), ARG(p->first), ARG(p->count), ARG(least),
		ARG_PLACE(p->frames[p->at]), ARG_PLACE(p->data)};
	const int64_t size[3] = {p->n.columns, p->n.rows, p->count};
	return opencl_planes(b, TASK_waves_retrieved, size, args, COUNT(args));
}

static tomos_status run_batch(tomos_backend *b, const OpenclPrep *w, Retrieval *p)
{
	const PrepFrame *f = &w->frame;
	TRY(pad(b, w, p));
	TRY(transform(b, &w->along, p, f->rows));
	TRY(transpose(b, p, f->rows, f->columns));
	TRY(transform(b, &w->across, p, f->columns));
	TRY(damp(b, w, p));
	TRY(transform(b, &w->across, p, f->columns));
	TRY(transpose(b, p, f->columns, f->rows));
	TRY(transform(b, &w->along, p, f->rows));
	return put(b, w, p);
}

static tomos_status phase_run(tomos_backend *b, PrepWork *work, PrepData *d, float *scratch)
{
	OpenclPrep *w = (OpenclPrep *)work;
	PrepFrame frame;
	TRY(prep_phase_frame(&frame, work->spec.phase_strength, d->rows, d->columns));
	TRY(take_transforms(b, w, &frame));
	const int64_t batch = phase_batch(&frame, d->views);
	Retrieval p = {.n = prep_shape(d)};
	TRY(opencl_place(b, d->data, &p.data));
	TRY(opencl_place(b, scratch, &p.frames[0]));
	p.frames[1] = p.frames[0];
	p.frames[1].at += batch * pair_floats(&frame) / 2;
	for (p.first = 0; p.first < d->views; p.first += 2 * batch) {
		p.count = min64(2 * batch, d->views - p.first);
		p.pairs = (p.count + 1) / 2;
		TRY(run_batch(b, w, &p));
	}
	return TOMOS_OK;
}

const PrepStep opencl_prep_phase = {phase_floats, phase_run};
