/* Preparation on devices: bad views, zingers and shifts. Views are copied in batches, because
 * kernels read neighbours that others have changed. */
#include "backend/device/prepare.h"

/* ---- bad views ------------------------------------------------------------------------------- */

static tomos_status bad_views_run(tomos_backend *b, PrepWork *w, PrepData *d, float *scratch)
{
	(void)scratch;
	return w->spec.bad_count == 0 ? TOMOS_OK : module_prepare.bridge(b, w, d);
}

static int64_t no_floats(const PrepWork *w, const PrepData *d)
{
	(void)w, (void)d;
	return 0;
}

const PrepStep prep_bad_views = {no_floats, bad_views_run};

/* ---- zingers --------------------------------------------------------------------------------- */

static int64_t views_batch(const PrepData *d)
{
	return prep_fit(module_prepare.batch, d->rows * d->columns, d->views);
}

static int64_t half_of(const PrepWork *w)
{
	return w->spec.zingers_time ? w->spec.zinger_size / 2 : 0;
}

/* A batch of views, with those that its windows reach. */
static int64_t zingers_floats(const PrepWork *w, const PrepData *d)
{
	return min64(views_batch(d) + 2 * half_of(w), d->views) * d->rows * d->columns;
}

/* Moves `count` floats to the front of a buffer, from `shift` on; in parts that do not overlap. */
static tomos_status move_front(tomos_backend *b, float *buffer, int64_t shift, int64_t count)
{
	for (int64_t at = 0; shift > 0 && at < count; at += shift)
		TRY(b->type->vector->copy(
			b, min64(shift, count - at), buffer + at + shift, buffer + at));
	return TOMOS_OK;
}

/* The copy has the views [first - half, first + batch + half); those at its end are needed again by
 * the next batch, after they were corrected. */
static tomos_status zingers_run(tomos_backend *b, PrepWork *w, PrepData *d, float *copy)
{
	const PrepSpec *s = &w->spec;
	const int64_t plane = d->rows * d->columns, batch = views_batch(d), half = half_of(w);
	int64_t from = 0, to = 0; /* views in the copy */
	for (int64_t first = 0; first < d->views; first += batch) {
		int64_t low = max64(first - half, 0), high = min64(first + batch + half, d->views);
		TRY(move_front(b, copy, (low - from) * plane, (to - low) * plane));
		to = max64(to, low);
		if (high > to)
			TRY(b->type->vector->copy(b, (high - to) * plane, d->data + to * plane,
				copy + (to - low) * plane));
		from = low;
		to = high;
		const PrepZingers z = {copy, from, first, min64(batch, d->views - first),
			s->zingers_space, s->zingers_time, (int)(s->zinger_size / 2),
			s->zinger_level, w->found + FOUND_ZINGERS};
		TRY(module_prepare.zingers(b, &z, d));
	}
	return TOMOS_OK;
}

const PrepStep prep_zingers = {zingers_floats, zingers_run};

/* ---- shifts ---------------------------------------------------------------------------------- */

static int64_t shift_floats(const PrepWork *w, const PrepData *d)
{
	(void)w;
	return views_batch(d) * d->rows * d->columns;
}

static tomos_status shift_run(tomos_backend *b, PrepWork *w, PrepData *d, float *scratch)
{
	const int64_t plane = d->rows * d->columns, batch = views_batch(d);
	for (int64_t first = 0; w->shifts && first < d->views; first += batch) {
		int64_t count = min64(batch, d->views - first);
		TRY(b->type->vector->copy(b, count * plane, d->data + first * plane, scratch));
		TRY(module_prepare.shift(b, w, scratch, first, count, d));
	}
	return TOMOS_OK;
}

const PrepStep prep_shift = {shift_floats, shift_run};
