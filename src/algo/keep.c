/* The last whole iterate: what a run that is cancelled within an iteration goes back to.
 *
 * Methods whose volume changes on the way call run_keep before it does. Where a checkpoint is named, the
 * rest of the state is kept as well, so that the checkpoint of a cancelled run is that of the iterate.
 */
#include <string.h>
#include "algo/run.h"

tomos_status run_keep(Run *run, float *into)
{
	if (into)
		run->kept = into;
	else if (!run->kept)
		TRY(run_vector(run, &run->kept, run->X, "the iterate before"));
	TRY(vector_copy(run->X, run->x, run->kept));
	run->changing = true;
	return TOMOS_OK;
}

static bool saves_state(const Run *run)
{
	return run->o->checkpoint && *run->o->checkpoint && cancel_asked();
}

tomos_status keep_state(Run *run)
{
	run->changing = false;
	if (!saves_state(run))
		return TOMOS_OK;
	for (int64_t i = 0; i < run->held_count; i++) {
		Held *held = &run->held[i];
		if (!held->state)
			continue;
		if (!held->copy)
			TRY(vector_new(&held->copy, held->space, "the state before"));
		TRY(vector_copy(held->space, held->data, held->copy));
	}
	for (int i = 0; i < run->scalar_count; i++)
		run->kept_scalars[i] = *run->scalars[i];
	run->state_kept = true;
	return TOMOS_OK;
}

/* By now the method has returned, and its own scalars are gone. */
static tomos_status restore_state(Run *run)
{
	for (int i = 0; i < run->scalar_count; i++)
		run->scalars[i] = &run->kept_scalars[i];
	for (int64_t i = 0; i < run->held_count; i++)
		if (run->held[i].state)
			TRY(vector_copy(run->held[i].space, run->held[i].copy, run->held[i].data));
	return run->k > 0 && run->k != run->saved ? checkpoint_write(run) : TOMOS_OK;
}

tomos_status keep_restore(Run *run)
{
	run->ended = "cancelled";
	if (run->changing)
		TRY(vector_copy(run->X, run->kept, run->x));
	run->changing = false;
	return run->state_kept ? restore_state(run) : TOMOS_OK;
}
