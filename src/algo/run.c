/* What all algebraic methods share: their vectors, and what happens around each iteration. */
#include "algo/run.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define GROWTH 1e3 /* of the residual, from where on it is taken to grow without bound */

static tomos_status hold(Run *run, float **data, const Space *space, const char *what, bool state)
{
	*data = NULL;
	if (run->held_count == run->held_room) {
		Held *larger;
		int64_t room = 2 * run->held_room + 16;
		TRY(mem_alloc(&larger, room, sizeof *larger, "a list of vectors"));
		if (run->held)
			memcpy(larger, run->held, (size_t)run->held_count * sizeof *larger);
		mem_free(run->held);
		run->held = larger;
		run->held_room = room;
	}
	TRY(vector_new(data, space, what));
	run->held[run->held_count++] = (Held){.data = *data, .space = space, .state = state};
	return TOMOS_OK;
}

tomos_status run_vector(Run *run, float **data, const Space *space, const char *what)
{
	return hold(run, data, space, what, false);
}

tomos_status run_state(Run *run, float **data, const Space *space, const char *what)
{
	return hold(run, data, space, what, true);
}

void run_scalar(Run *run, double *scalar)
{
	run->scalars[run->scalar_count++] = scalar;
}

tomos_status run_ones(const Run *run, float *ones)
{
	TRY(vector_fill(run->X, 1, ones));
	return run->mask ? vector_mul(run->X, run->mask, ones) : TOMOS_OK;
}

tomos_status run_residual(const Run *run, float *r)
{
	TRY(op_forward(run->A, run->x, r));
	return vector_xpay(run->Y, run->b, -1, r);
}

/* Bounds that leave out 0 would fill what the mask leaves out. */
tomos_status run_step(const Run *run, float a, const float *w, const float *s, float *y)
{
	bool zero = run->low <= 0 && run->high >= 0;
	TRY(vector_step(run->X, a, w, s, run->low, run->high, y));
	return run->mask && !zero ? vector_mul(run->X, run->mask, y) : TOMOS_OK;
}

tomos_status run_bound(const Run *run, float *y)
{
	TRY(vector_clamp(run->X, run->low, run->high, y));
	return run->mask ? vector_mul(run->X, run->mask, y) : TOMOS_OK;
}

tomos_status run_norm(const Run *run, const NormRoom *room, double *norm)
{
	*norm = run->o->norm;
	return *norm > 0 ? TOMOS_OK : op_norm(run->A, NORM_FOR_STEPS, room, run->progress, norm);
}

tomos_status run_gradient(Run *run, const tomos_op **gradient)
{
	if (!run->gradient) {
		TRY(op_gradient(&run->gradient, run->X));
		run->field = run->gradient->range;
	}
	*gradient = run->gradient;
	return TOMOS_OK;
}

/* A best iterate of its own is kept, and saved with the rest. */
static tomos_status prepare_best(Run *run)
{
	run->least_error = HUGE_VAL;
	run_scalar(run, &run->least_error);
	run_scalar(run, &run->best_at);
	if (!run->o->keep_best)
		return TOMOS_OK;
	TRY(run_state(run, &run->best, run->X, "the best volume"));
	return vector_copy(run->X, run->x, run->best);
}

tomos_status run_start(Run *run)
{
	const tomos_algebraic_options *o = run->o;
	bool found = false;
	double largest;
	TRY(vector_largest(run->X, run->x, &largest));
	run->from_zero = largest == 0;
	TRY(prepare_best(run));
	TRY(stop_prepare(run));
	if (o->resume)
		TRY(checkpoint_read(run, &found));
	if (o->history)
		o->history->count = run->k;
	run->going = run->k < o->iterations && !run->stopped;
	if (run->stopped)
		run->ended = o->stop;
	if (found && run->old_x)
		TRY(vector_copy(run->X, run->x, run->old_x));
	if (found)
		run->saved = run->k;
	TRY(keep_state(run));
	return progress_report(run->progress, run->method, run->k, o->iterations, 0);
}

static tomos_status note_error(Run *run, double *error)
{
	*error = NAN;
	if (!run->truth.data)
		return TOMOS_OK;
	TRY(vector_distance(run->X, run->x, run->truth.data, error));
	*error /= run->truth_norm;
	if (!(*error < run->least_error))
		return TOMOS_OK;
	run->least_error = *error;
	run->best_at = (double)run->k;
	return run->best ? vector_copy(run->X, run->x, run->best) : TOMOS_OK;
}

static void note_history(const Run *run, double residual, double error)
{
	tomos_history *h = run->o->history;
	if (!h)
		return;
	h->count = run->k;
	h->best = (int64_t)run->best_at;
	if (run->k <= h->room && h->residual)
		h->residual[run->k - 1] = residual;
	if (run->k <= h->room && h->error)
		h->error[run->k - 1] = error;
}

/* If the volume is on a GPU or in another order, the caller gets a copy. */
static tomos_status show_iterate(const Run *run)
{
	const tomos_array *seen = run->o->history ? run->o->history->iterate : NULL;
	if (!seen)
		return TOMOS_OK;
	if (seen->data == run->x)
		return run->X->backend->type->sync(run->X->backend);
	return run->X->backend->type->get(run->X->backend, run->x, seen);
}

/* A checkpoint is due every so often, at the end, and when the caller cancels. */
static tomos_status report(Run *run, double residual)
{
	const tomos_algebraic_options *o = run->o;
	tomos_status status = TOMOS_OK;
	if (!run->stopped)
		status = progress_report(
			run->progress, run->method, run->k, o->iterations, residual);
	bool due = run->k % o->every == 0 || !run->going || status != TOMOS_OK;
	if (run->stopped || status != TOMOS_OK)
		run->ended = run->stopped ? o->stop : "cancelled";
	if (o->checkpoint && *o->checkpoint && due)
		TRY(checkpoint_write(run));
	if (due)
		run->saved = run->k;
	return status;
}

/* What the user could change about it. */
static void step_option(const Run *run, char text[64])
{
	const tomos_algebraic_options *o = run->o;
	text[0] = 0;
	if (o->relaxation != 0 && tomos_method_uses(run->method, "relaxation"))
		snprintf(text, 64, "; a relaxation below %g may help", o->relaxation);
	if (o->norm != 0)
		snprintf(text, 64, "; a norm above %g may help", o->norm);
}

/* A start far from the data has a right to a large residual. */
static tomos_status check_growth(Run *run, double norm)
{
	char hint[64];
	if (run->reference == 0)
		run->reference = fmax(run->b_norm, run->from_zero ? 0 : norm);
	if (isfinite(norm) && (norm <= GROWTH * run->reference || run->reference == 0))
		return TOMOS_OK;
	step_option(run, hint);
	if (!isfinite(norm))
		return fail(TOMOS_DIVERGED,
			"%s diverged: the residual is no longer finite after iteration %lld%s",
			run->method, (long long)run->k, hint);
	return fail(TOMOS_DIVERGED,
		"%s diverged: the residual after iteration %lld is %.3g times that of the start%s",
		run->method, (long long)run->k, norm / run->reference, hint);
}

static tomos_status iterated(Run *run, const float *r, double norm)
{
	double error, residual = run->b_norm > 0 ? norm / run->b_norm : norm;
	run->k++;
	TRY(check_growth(run, norm));
	TRY(note_error(run, &error));
	note_history(run, residual, error);
	TRY(stop_check(run, r, norm, &run->stopped));
	run->going = run->going && !run->stopped && run->k < run->o->iterations;
	TRY(show_iterate(run));
	TRY(keep_state(run));
	return report(run, residual);
}

tomos_status run_iterated(Run *run, const float *r)
{
	double norm;
	TRY(vector_norm(run->Y, r, &norm));
	return iterated(run, r, norm);
}

tomos_status run_iterated_norm(Run *run, double norm)
{
	if (!stop_needs_residual(run))
		return iterated(run, NULL, norm);
	if (!run->residual)
		TRY(run_vector(run, &run->residual, run->Y, "the residual"));
	TRY(run_residual(run, run->residual));
	return run_iterated(run, run->residual);
}
