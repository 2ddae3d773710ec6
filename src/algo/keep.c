/* A copy of the last complete iterate, which is the result of a run that is cancelled during an
 * iteration.
 *
 * Methods whose volume changes during an iteration call iteration_keep first. Short iterations are
 * always completed, and a volume of zeros is easily restored: neither needs a copy. With a
 * checkpoint file, the rest of the state is copied as well, so that the checkpoint of a cancelled
 * run belongs to that iterate.
 */
#include <string.h>
#include <time.h>
#include "algo/iteration.h"

#define SHORT 0.5 /* seconds: shorter iterations are completed before a cancellation */

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

tomos_status iteration_keep(Iteration *it, float *into)
{
	TRY(cancel_check(it->method));
	if (!into && it->defers && it->seconds > 0 && it->seconds < SHORT) {
		it->deferred = cancel_asked();
		tomos_cancel_on(NULL);
		it->began = now();
		return TOMOS_OK;
	}
	it->was_zero = !into && it->k == 0 && it->from_zero;
	if (into)
		it->kept = into;
	else if (!it->kept && !it->was_zero)
		TRY(iteration_vector(it, &it->kept, it->X, "the iterate before"));
	if (!it->was_zero)
		TRY(vector_copy(it->X, it->x, it->kept));
	it->changing = true;
	it->began = now(); /* without the copy, which short iterations do not need */
	return TOMOS_OK;
}

void keep_resume_cancel(Iteration *it)
{
	if (it->deferred)
		tomos_cancel_on(it->deferred);
	it->deferred = NULL;
}

static bool saves_state(const Iteration *it)
{
	return it->o->checkpoint && *it->o->checkpoint && cancel_asked();
}

tomos_status keep_state(Iteration *it)
{
	it->seconds = it->began > 0 ? now() - it->began : 0;
	it->changing = false;
	keep_resume_cancel(it);
	if (!saves_state(it))
		return TOMOS_OK;
	for (int64_t i = 0; i < it->held_count; i++) {
		Held *held = &it->held[i];
		if (!held->state)
			continue;
		if (!held->copy)
			TRY(vector_new(&held->copy, held->space, "the state before"));
		TRY(vector_copy(held->space, held->data, held->copy));
	}
	for (int i = 0; i < it->scalar_count; i++)
		it->kept_scalars[i] = *it->scalars[i];
	it->state_kept = true;
	return TOMOS_OK;
}

/* The method has returned, so its own scalars no longer exist. */
static tomos_status restore_state(Iteration *it)
{
	for (int i = 0; i < it->scalar_count; i++)
		it->scalars[i] = &it->kept_scalars[i];
	for (int64_t i = 0; i < it->held_count; i++)
		if (it->held[i].state)
			TRY(vector_copy(it->held[i].space, it->held[i].copy, it->held[i].data));
	return it->k > 0 && it->k != it->saved ? checkpoint_write(it) : TOMOS_OK;
}

tomos_status keep_restore(Iteration *it)
{
	it->ended = "cancelled";
	if (it->changing)
		TRY(it->was_zero ? vector_fill(it->X, 0, it->x)
				 : vector_copy(it->X, it->kept, it->x));
	it->changing = false;
	return it->state_kept ? restore_state(it) : TOMOS_OK;
}
