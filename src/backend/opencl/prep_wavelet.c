/* Ring removal by wavelets, on batches of sinograms, and by one offset per column
 * (prep/ring_wavelet.c and prep/ring_titarenko.c have the papers). */
#include <math.h>
#include "backend/opencl/prep.h"

#define REACH 4.0 /* widths after which the damping is negligible, as in prep/ring_wavelet.c */

/* ---- one offset per column ------------------------------------------------------------------- */

/* Means and offsets, in doubles. */
static int64_t titarenko_floats(const PrepWork *w, const PrepData *d)
{
	(void)w;
	return 4 * d->rows * d->columns;
}

static tomos_status titarenko_run(tomos_backend *b, PrepWork *w, PrepData *d, float *scratch)
{
	OpenclPlace data, pivots, means, offsets;
	const PrepShape n = prep_shape(d);
	TRY(opencl_place(b, d->data, &data));
	TRY(opencl_place(b, (const float *)(const void *)w->pivots, &pivots));
	TRY(opencl_place(b, scratch, &means));
	offsets = means;
	offsets.at += 2 * n.rows * n.columns;
	const OpenclArg mean[] = {ARG(n), ARG_PLACE(data), ARG_PLACE(means)};
	const OpenclArg solve[] = {ARG(n), ARG_PLACE(pivots), ARG_PLACE(means), ARG_PLACE(offsets)};
	const OpenclArg subtract[] = {ARG(n), ARG_PLACE(offsets), ARG_PLACE(data)};
	const int64_t plane[3] = {n.columns, n.rows, 1}, all[3] = {n.columns, n.rows, n.views};
	TRY(opencl_planes(b, TASK_waves_means, plane, mean, COUNT(mean)));
	TRY(opencl_line(b, TASK_waves_solve, n.rows, solve, COUNT(solve)));
	return opencl_planes(b, TASK_waves_subtract, all, subtract, COUNT(subtract));
}

const PrepStep opencl_prep_titarenko = {titarenko_floats, titarenko_run};

/* ---- wavelets -------------------------------------------------------------------------------- */

/* A batch: its images and a copy; sums of the damping, [sinogram][wave][column]; cosine and sine of
 * each view of a band. */
typedef struct {
	PrepImages m;
	PrepShape n;
	PrepTaps taps;
	double sigma;
	int levels;
	OpenclPlace data, image, copy, sums, circle;
} Batch;

static PrepPadded padded(const PrepSpec *s, const PrepData *d)
{
	return prep_padded(s, d, PREP_BATCH, d->rows);
}

static int64_t wavelet_floats(const PrepWork *w, const PrepData *d)
{
	return prep_padded_floats(padded(&w->spec, d), WAVES);
}

/* Between the sinograms and the padded images. */
static tomos_status pad(tomos_backend *b, const Batch *w)
{
	const OpenclArg args[] = {ARG(w->m), ARG(w->n), ARG_PLACE(w->data), ARG_PLACE(w->image)};
	const int64_t size[3] = {w->m.columns, w->m.views, w->m.count};
	return opencl_planes(b, TASK_waves_pad, size, args, COUNT(args));
}

static tomos_status crop(tomos_backend *b, const Batch *w)
{
	const OpenclArg args[] = {ARG(w->m), ARG(w->n), ARG_PLACE(w->image), ARG_PLACE(w->data)};
	const int64_t size[3] = {w->n.columns, w->n.views, w->m.count};
	return opencl_planes(b, TASK_waves_crop, size, args, COUNT(args));
}

/* One level along the columns (forth: from the image to its copy) and along the views (back to the
 * image), in the opposite order for the inverse. */
static tomos_status along(
	tomos_backend *b, const Batch *w, int task, int64_t views, int64_t columns)
{
	bool down = task == TASK_waves_along_views, from_image = down != (w->taps.forth != 0);
	const OpenclPlace *in = from_image ? &w->image : &w->copy;
	const OpenclPlace *out = from_image ? &w->copy : &w->image;
	const OpenclArg args[] = {
		ARG(w->taps), ARG(w->m), ARG(views), ARG(columns), ARG_PLACE(*in), ARG_PLACE(*out)};
	const int64_t size[3] = {
		down ? columns : columns / 2, down ? views / 2 : views, w->m.count};
	return opencl_planes(b, task, size, args, COUNT(args));
}

/* Some of the waves. */
static tomos_status damp_band(tomos_backend *b, const Batch *w, const PrepBand *band)
{
	const OpenclArg sum[] = {ARG(w->m), ARG(*band), ARG_PLACE(w->circle), ARG_PLACE(w->image),
		ARG_PLACE(w->sums)};
	const OpenclArg subtract[] = {ARG(w->m), ARG(*band), ARG_PLACE(w->circle),
		ARG_PLACE(w->sums), ARG_PLACE(w->image)};
	const int64_t sums[3] = {band->columns, band->count, w->m.count};
	const int64_t all[3] = {band->columns, band->views, w->m.count};
	TRY(opencl_planes(b, TASK_waves_wave_sums, sums, sum, COUNT(sum)));
	return opencl_planes(b, TASK_waves_subtract_waves, all, subtract, COUNT(subtract));
}

static tomos_status damp(tomos_backend *b, const Batch *w, int64_t views, int64_t columns)
{
	const double sigma = w->sigma;
	int64_t most = min64(views / 2, (int64_t)fmin(REACH * sigma, (double)views));
	const OpenclArg args[] = {ARG(views), ARG_PLACE(w->circle)};
	TRY(opencl_line(b, TASK_waves_circle, views, args, COUNT(args)));
	for (int64_t f = 0; f <= most; f += WAVES) {
		PrepBand band = {(int32_t)views, (int32_t)columns, (int32_t)f,
			(int32_t)min64(WAVES, most + 1 - f), {0}};
		for (int64_t k = f; k < f + band.count; k++)
			band.factor[k - f] =
				(float)(exp(-0.5 * (double)(k * k) / (sigma * sigma)) *
					(k == 0 || 2 * k == views ? 1 : 2) / (double)views);
		TRY(damp_band(b, w, &band));
	}
	return TOMOS_OK;
}

static tomos_status run_batch(tomos_backend *b, Batch *w)
{
	TRY(pad(b, w));
	w->taps.forth = 1;
	for (int k = 0; k < w->levels; k++) {
		int64_t views = w->m.views >> k, columns = w->m.columns >> k;
		TRY(along(b, w, TASK_waves_along_columns, views, columns));
		TRY(along(b, w, TASK_waves_along_views, views, columns));
		TRY(damp(b, w, views / 2, columns / 2));
	}
	w->taps.forth = 0;
	for (int k = w->levels - 1; k >= 0; k--) {
		int64_t views = w->m.views >> k, columns = w->m.columns >> k;
		TRY(along(b, w, TASK_waves_along_views, views, columns));
		TRY(along(b, w, TASK_waves_along_columns, views, columns));
	}
	return crop(b, w);
}

static tomos_status wavelet_run(tomos_backend *b, PrepWork *work, PrepData *d, float *scratch)
{
	const PrepSpec *s = &work->spec;
	const PrepPadded m = padded(s, d);
	Batch w = {.m = {.views = m.views, .columns = m.columns, .margin = m.margin},
		.n = prep_shape(d),
		.taps = {.taps = s->ring_taps},
		.sigma = s->ring_sigma,
		.levels = s->ring_levels};
	const int64_t batch = m.count, size = batch * w.m.views * w.m.columns;
	prep_taps(s, w.taps.low, w.taps.high);
	TRY(opencl_place(b, d->data, &w.data));
	TRY(opencl_place(b, scratch, &w.image));
	w.copy = w.sums = w.circle = w.image;
	w.copy.at += size;
	w.sums.at += 2 * size;
	w.circle.at += 2 * size + 2 * batch * WAVES * w.m.columns;
	for (w.m.first = 0; w.m.first < d->rows; w.m.first += batch) {
		w.m.count = min64(batch, d->rows - w.m.first);
		TRY(run_batch(b, &w));
	}
	return TOMOS_OK;
}

const PrepStep opencl_prep_wavelet = {wavelet_floats, wavelet_run};
