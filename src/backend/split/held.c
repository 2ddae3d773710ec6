/* Arrays in the host's memory that go to the devices again and again: from the second time on they are
 * held in place, so that transfers need no copy. */
#include <unistd.h>
#include "backend/split/split.h"

enum { USES = 2 };
#define LEAST ((int64_t)1 << 20) /* floats: for less, copies are quicker */

static bool can_hold(const Split *s)
{
	return s->count > 0 && s->lanes[0].child && s->lanes[0].child->type->memory->pin;
}

/* Memory in place cannot be given to anybody else: half of the machine's may be so at most. */
static int64_t most_floats(void)
{
	int64_t pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	return pages > 0 && size > 0 ? pages / 2 * (size / (int64_t)sizeof(float)) : 0;
}

static bool pin(Split *s, tomos_backend *child, float *data, int64_t count)
{
	bool done = child->type->memory->pin && count <= most_floats() - s->held_floats &&
		    child->type->memory->pin(child, data, count) == TOMOS_OK;
	s->held_floats += done ? count : 0;
	return done;
}

static void unpin(Split *s, tomos_backend *child, float *data, int64_t count)
{
	child->type->memory->unpin(child, data);
	s->held_floats -= count;
}

bool child_pin(Split *s, tomos_backend *child, float *data, int64_t count)
{
	pthread_mutex_lock(&s->held_lock);
	bool done = pin(s, child, data, count);
	pthread_mutex_unlock(&s->held_lock);
	return done;
}

void child_unpin(Split *s, tomos_backend *child, float *data, int64_t count)
{
	pthread_mutex_lock(&s->held_lock);
	unpin(s, child, data, count);
	pthread_mutex_unlock(&s->held_lock);
}

static Held *find(Split *s, const float *data)
{
	for (int i = 0; i < MOST_HELD; i++)
		if (s->held[i].data && data >= s->held[i].data &&
			data < s->held[i].data + s->held[i].count)
			return &s->held[i];
	return NULL;
}

/* Whoever uses a part of an array that is there already holds all of it. */
static void note(Split *s, float *data, int64_t count)
{
	Held *held = find(s, data);
	if (held)
		held->holders++;
	for (int i = 0; i < MOST_HELD && !held; i++)
		if (!s->held[i].data) {
			held = &s->held[i];
			*held = (Held){.data = data, .count = count, .holders = 1};
		}
}

static void drop(Split *s, Held *held)
{
	if (held->in_place)
		unpin(s, s->lanes[0].child, held->data, held->count);
	*held = (Held){.data = NULL};
}

tomos_status split_pin(tomos_backend *backend, float *data, int64_t count)
{
	Split *s = split_of(backend);
	if (count < LEAST || !can_hold(s))
		return TOMOS_OK;
	pthread_mutex_lock(&s->held_lock);
	note(s, data, count);
	pthread_mutex_unlock(&s->held_lock);
	return TOMOS_OK;
}

void split_unpin(tomos_backend *backend, float *data)
{
	Split *s = split_of(backend);
	pthread_mutex_lock(&s->held_lock);
	Held *held = find(s, data);
	if (held && --held->holders == 0)
		drop(s, held);
	pthread_mutex_unlock(&s->held_lock);
}

void split_let_all_go(Split *s)
{
	for (int i = 0; i < MOST_HELD; i++)
		drop(s, &s->held[i]);
}

/* Where it cannot be held, transfers copy: that is no failure. */
bool split_use(Split *s, const float *data)
{
	pthread_mutex_lock(&s->held_lock);
	Held *held = find(s, data);
	if (held && !held->in_place && ++held->uses == USES)
		held->in_place = pin(s, s->lanes[0].child, held->data, held->count);
	bool in_place = held && held->in_place;
	pthread_mutex_unlock(&s->held_lock);
	return in_place;
}
