/* Common to all algebraic methods: vectors, and the operations around each iteration. */
#include "algo/iteration.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Residuals relative to the data below which the norm from A'A is mostly rounding error. */
#define NORMAL_RESOLVED 1e-3
#define GROWTH 1e3 /* growth of the residual from which on the iteration counts as divergent */

static tomos_status hold(
	Iteration *it, float **data, const Space *space, const char *what, bool state)
{
	*data = NULL;
	TRY(mem_grow(&it->held, it->held_count, &it->held_capacity, sizeof *it->held,
		"a list of vectors"));
	TRY(vector_new(data, space, what));
	it->held[it->held_count++] = (Held){.data = *data, .space = space, .state = state};
	return TOMOS_OK;
}

tomos_status iteration_vector(Iteration *it, float **data, const Space *space, const char *what)
{
	return hold(it, data, space, what, false);
}

tomos_status iteration_state(Iteration *it, float **data, const Space *space, const char *what)
{
	return hold(it, data, space, what, true);
}

void iteration_scalar(Iteration *it, double *scalar)
{
	it->scalars[it->scalar_count++] = scalar;
}

tomos_status iteration_ones(const Iteration *it, float *ones)
{
	TRY(vector_fill(it->X, 1, ones));
	return it->mask ? vector_mul(it->X, it->mask, ones) : TOMOS_OK;
}

tomos_status iteration_residual(const Iteration *it, float *r)
{
	TRY(op_forward(it->A, it->x, r));
	return vector_xpay(it->Y, it->b, -1, r);
}

tomos_status iteration_first_residual(const Iteration *it, const float *w, float *r, float *y)
{
	double largest;
	TRY(vector_max_abs(it->X, it->x, &largest));
	if (largest != 0)
		return op_residual(it->A, it->x, it->b, w, r, y);
	TRY(vector_fill(it->Y, 0, r));
	return w ? vector_residual(it->Y, it->b, w, r, y) : vector_xpay(it->Y, it->b, -1, r);
}

/* If 0 is not within the bounds, clamping would change voxels outside the mask. */
tomos_status iteration_step(const Iteration *it, float a, const float *w, const float *s, float *y)
{
	bool zero = it->low <= 0 && it->high >= 0;
	TRY(vector_axpy_clamp(it->X, a, w, s, it->low, it->high, y));
	return it->mask && !zero ? vector_mul(it->X, it->mask, y) : TOMOS_OK;
}

tomos_status iteration_bound(const Iteration *it, float *y)
{
	TRY(vector_clamp(it->X, it->low, it->high, y));
	return it->mask ? vector_mul(it->X, it->mask, y) : TOMOS_OK;
}

tomos_status iteration_norm(const Iteration *it, const NormVectors *vectors, double *norm)
{
	*norm = it->o->norm;
	return *norm > 0 ? TOMOS_OK : op_norm(it->A, NORM_FOR_STEPS, vectors, it->progress, norm);
}

int gradient_parts(const Iteration *it)
{
	return it->X->shape[0] > 1 && strcmp(it->o->penalty_within, "slices") != 0 ? 3 : 2;
}

tomos_status iteration_gradient(Iteration *it, const tomos_op **gradient)
{
	if (!it->gradient) {
		TRY(op_gradient(&it->gradient, it->X, gradient_parts(it)));
		it->field = it->gradient->range;
	}
	*gradient = it->gradient;
	return TOMOS_OK;
}

/* Allocates the best iterate, which is part of checkpoints. */
static tomos_status prepare_best(Iteration *it)
{
	it->least_error = HUGE_VAL;
	iteration_scalar(it, &it->least_error);
	iteration_scalar(it, &it->best_at);
	if (!it->o->keep_best)
		return TOMOS_OK;
	TRY(iteration_state(it, &it->best, it->X, "the best volume"));
	return vector_copy(it->X, it->x, it->best);
}

tomos_status iteration_start(Iteration *it)
{
	const tomos_algebraic_options *o = it->o;
	bool found = false;
	double largest;
	TRY(vector_max_abs(it->X, it->x, &largest));
	it->from_zero = largest == 0;
	TRY(prepare_best(it));
	TRY(stop_prepare(it));
	if (o->resume)
		TRY(checkpoint_read(it, &found));
	if (o->history)
		o->history->count = it->k;
	TRY(iteration_give_history(it));
	it->going = it->k < o->iterations && !it->stopped;
	if (it->stopped)
		it->ended = o->stop;
	if (found && it->old_x)
		TRY(vector_copy(it->X, it->x, it->old_x));
	if (found)
		it->saved = it->k;
	TRY(keep_state(it));
	return progress_report(it->progress, it->method, it->k, o->iterations, 0);
}

static tomos_status note_error(Iteration *it, double *error)
{
	*error = NAN;
	if (!it->truth.data)
		return TOMOS_OK;
	TRY(vector_distance(it->X, it->x, it->truth.data, error));
	*error /= it->truth_norm;
	if (!(*error < it->least_error))
		return TOMOS_OK;
	it->least_error = *error;
	it->best_at = (double)it->k;
	return it->best ? vector_copy(it->X, it->x, it->best) : TOMOS_OK;
}

tomos_status iteration_give_history(const Iteration *it)
{
	if (!it->history)
		return TOMOS_OK;
	return struct_give(it->history, it->o->history, "tomos_history");
}

static tomos_status note_history(const Iteration *it, double residual, double error)
{
	tomos_history *h = it->o->history;
	if (!h)
		return TOMOS_OK;
	h->count = it->k;
	h->best = (int64_t)it->best_at;
	if (it->k <= h->capacity && h->residual)
		h->residual[it->k - 1] = residual;
	if (it->k <= h->capacity && h->error)
		h->error[it->k - 1] = error;
	return iteration_give_history(it);
}

/* If the volume is on a GPU or in another order, the caller gets a copy. */
static tomos_status show_iterate(const Iteration *it)
{
	const tomos_array *seen = it->o->history ? it->o->history->iterate : NULL;
	if (!seen)
		return TOMOS_OK;
	if (seen->data == it->x)
		return vector_sync(it->X);
	return vector_download(it->X, it->x, seen);
}

/* Checkpoints are written every `every` iterations, at the end, and when the caller cancels. */
static tomos_status report(Iteration *it, double residual)
{
	const tomos_algebraic_options *o = it->o;
	tomos_status status = TOMOS_OK;
	if (!it->stopped)
		status = progress_report(it->progress, it->method, it->k, o->iterations, residual);
	bool due = it->k % o->every == 0 || !it->going || status != TOMOS_OK;
	if (it->stopped || status != TOMOS_OK)
		it->ended = it->stopped ? o->stop : "cancelled";
	if (o->checkpoint && *o->checkpoint && due)
		TRY(checkpoint_write(it));
	if (due)
		it->saved = it->k;
	return status;
}

/* Hint for the error message: the option that the user could change. */
static void step_option(const Iteration *it, char text[64])
{
	const tomos_algebraic_options *o = it->o;
	text[0] = 0;
	if (o->relaxation != 0 && tomos_method_uses(it->method, "relaxation"))
		snprintf(text, 64, "; a relaxation below %g may help", o->relaxation);
	if (o->norm != 0)
		snprintf(text, 64, "; a norm above %g may help", o->norm);
}

/* The residual is compared with that of the start if this is larger than the data. */
static tomos_status check_growth(Iteration *it, double norm)
{
	char hint[64];
	if (it->reference == 0)
		it->reference = fmax(it->b_norm, it->from_zero ? 0 : norm);
	if (isfinite(norm) && (norm <= GROWTH * it->reference || it->reference == 0))
		return TOMOS_OK;
	step_option(it, hint);
	if (!isfinite(norm))
		return fail(TOMOS_DIVERGED,
			"%s diverged: the residual is no longer finite after iteration %lld%s",
			it->method, (long long)it->k, hint);
	return fail(TOMOS_DIVERGED,
		"%s diverged: the residual after iteration %lld is %.3g times that of the start%s",
		it->method, (long long)it->k, norm / it->reference, hint);
}

static tomos_status iterated(Iteration *it, const float *r, double norm)
{
	double error, residual = it->b_norm > 0 ? norm / it->b_norm : norm;
	it->k++;
	TRY(check_growth(it, norm));
	TRY(note_error(it, &error));
	TRY(note_history(it, residual, error));
	TRY(stop_check(it, r, norm, &it->stopped));
	bool resolved = !it->normal || residual > NORMAL_RESOLVED;
	if (!resolved)
		it->ended = "accuracy";
	it->going = it->going && !it->stopped && resolved && it->k < it->o->iterations;
	TRY(show_iterate(it));
	TRY(keep_state(it));
	return report(it, residual);
}

tomos_status iteration_iterated(Iteration *it, const float *r)
{
	double norm;
	TRY(vector_norm(it->Y, r, &norm));
	return iterated(it, r, norm);
}

tomos_status iteration_iterated_norm(Iteration *it, double norm)
{
	if (!stop_needs_residual(it))
		return iterated(it, NULL, norm);
	if (!it->residual)
		TRY(iteration_vector(it, &it->residual, it->Y, "the residual"));
	TRY(iteration_residual(it, it->residual));
	return iteration_iterated(it, it->residual);
}
