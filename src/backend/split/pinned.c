/* Host arrays that are transferred repeatedly: at the second transfer they are pinned, so that no
 * copy is needed. */
#include <unistd.h>
#include "backend/split/split.h"

enum { USES = 2 };
#define LEAST ((int64_t)1 << 20) /* floats; smaller arrays are copied faster than pinned */

static bool can_pin(const Split *s)
{
	return s->count > 0 && s->lanes[0].child && s->lanes[0].child->type->memory->pin;
}

/* Pinned memory cannot be paged out: at most half of the machine's memory is pinned. */
static int64_t most_floats(void)
{
	int64_t pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	return pages > 0 && size > 0 ? pages / 2 * (size / (int64_t)sizeof(float)) : 0;
}

static bool pin(Split *s, tomos_backend *child, float *data, int64_t count)
{
	bool done = child->type->memory->pin && count <= most_floats() - s->pinned_floats &&
		    child->type->memory->pin(child, data, count) == TOMOS_OK;
	s->pinned_floats += done ? count : 0;
	return done;
}

static void unpin(Split *s, tomos_backend *child, float *data, int64_t count)
{
	child->type->memory->unpin(child, data);
	s->pinned_floats -= count;
}

bool child_pin(Split *s, tomos_backend *child, float *data, int64_t count)
{
	pthread_mutex_lock(&s->pin_lock);
	bool done = pin(s, child, data, count);
	pthread_mutex_unlock(&s->pin_lock);
	return done;
}

void child_unpin(Split *s, tomos_backend *child, float *data, int64_t count)
{
	pthread_mutex_lock(&s->pin_lock);
	unpin(s, child, data, count);
	pthread_mutex_unlock(&s->pin_lock);
}

static PinnedArray *find(Split *s, const float *data)
{
	for (int i = 0; i < MAX_PINNED; i++)
		if (s->arrays[i].data && data >= s->arrays[i].data &&
			data < s->arrays[i].data + s->arrays[i].count)
			return &s->arrays[i];
	return NULL;
}

/* A part of a registered array counts as a use of the whole array. */
static void note(Split *s, float *data, int64_t count)
{
	PinnedArray *array = find(s, data);
	if (array)
		array->users++;
	for (int i = 0; i < MAX_PINNED && !array; i++)
		if (!s->arrays[i].data) {
			array = &s->arrays[i];
			*array = (PinnedArray){.data = data, .count = count, .users = 1};
		}
}

static void drop(Split *s, PinnedArray *array)
{
	if (array->pinned)
		unpin(s, s->lanes[0].child, array->data, array->count);
	*array = (PinnedArray){.data = NULL};
}

tomos_status split_pin(tomos_backend *backend, float *data, int64_t count)
{
	Split *s = split_of(backend);
	if (count < LEAST || !can_pin(s))
		return TOMOS_OK;
	pthread_mutex_lock(&s->pin_lock);
	note(s, data, count);
	pthread_mutex_unlock(&s->pin_lock);
	return TOMOS_OK;
}

void split_unpin(tomos_backend *backend, float *data)
{
	Split *s = split_of(backend);
	pthread_mutex_lock(&s->pin_lock);
	PinnedArray *array = find(s, data);
	if (array && --array->users == 0)
		drop(s, array);
	pthread_mutex_unlock(&s->pin_lock);
}

void split_unpin_all(Split *s)
{
	for (int i = 0; i < MAX_PINNED; i++)
		drop(s, &s->arrays[i]);
}

/* An array that cannot be pinned is copied; that is not a failure. */
bool split_use(Split *s, const float *data)
{
	pthread_mutex_lock(&s->pin_lock);
	PinnedArray *array = find(s, data);
	if (array && !array->pinned && ++array->uses == USES)
		array->pinned = pin(s, s->lanes[0].child, array->data, array->count);
	bool pinned = array && array->pinned;
	pthread_mutex_unlock(&s->pin_lock);
	return pinned;
}
