/* Memory of slices of the levels of a Zarr file, and sums that wait for those of a neighbour. */
#include <string.h>
#include "io/zarr_parts.h"

/* Memory for floats of a slice of the level after this one. It is used again, since to take fresh
 * memory takes as long as to compute the means. */
tomos_status slice_take(ZarrWriter *w, int level, void *slice)
{
	const int64_t *n = w->levels[level + 1].array.shape;
	pthread_mutex_lock(&w->spare_lock);
	SpareSlice *spare = w->spares[level];
	if (spare)
		w->spares[level] = spare->next;
	pthread_mutex_unlock(&w->spare_lock);
	memcpy(slice, &spare, sizeof spare);
	if (spare)
		return TOMOS_OK;
	int64_t bytes = n[1] * n[2] * (int64_t)sizeof(float);
	return mem_alloc(slice, max64(bytes, sizeof *spare), 1, "a slice of a level");
}

void slice_give(ZarrWriter *w, int level, void *slice)
{
	SpareSlice *spare = slice;
	pthread_mutex_lock(&w->spare_lock);
	spare->next = w->spares[level];
	w->spares[level] = spare;
	pthread_mutex_unlock(&w->spare_lock);
}

/* ---- pending sums ---------------------------------------------------------------------------- */

void pending_free(ZarrWriter *w, PendingSums *pending)
{
	if (pending && pending->sums)
		slice_give(w, pending->level, pending->sums);
	mem_free(pending);
}

/* Takes the sums of a slice out of the list; NULL: they are not there. */
PendingSums *pending_take(ZarrWriter *w, int level, int64_t slice)
{
	for (PendingSums **at = &w->pending; *at; at = &(*at)->next)
		if ((*at)->level == level && (*at)->slice == slice) {
			PendingSums *pending = *at;
			*at = pending->next;
			w->pending_count--;
			return pending;
		}
	return NULL;
}

/* Adds one; the oldest one is dropped if there are too many. */
void pending_keep(ZarrWriter *w, PendingSums *pending)
{
	pending->next = w->pending;
	w->pending = pending;
	if (++w->pending_count <= w->pending_most)
		return;
	PendingSums **last = &w->pending;
	while ((*last)->next)
		last = &(*last)->next;
	pending_free(w, *last);
	*last = NULL;
	w->pending_count--;
}

tomos_status pending_new(ZarrWriter *w, int level, int64_t slice, PendingSums **pending)
{
	TRY(mem_zeroed(pending, 1, sizeof **pending, "sums of a slice"));
	(*pending)->level = level;
	(*pending)->slice = slice;
	tomos_status status = slice_take(w, level, &(*pending)->sums);
	if (status == TOMOS_OK)
		return TOMOS_OK;
	mem_free(*pending);
	*pending = NULL;
	return status;
}
