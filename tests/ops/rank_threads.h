/* Ranks that are threads of one process, for tests of distributed operators without MPI. */
#ifndef TOMOS_TESTS_OPS_RANK_THREADS_H
#define TOMOS_TESTS_OPS_RANK_THREADS_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "comm/comm.h"

enum { MOST_RANKS = 8 };

typedef struct {
	pthread_barrier_t barrier;
	int size;
	const void *mine[MOST_RANKS];
	const CommMessage *lists[MOST_RANKS];
	int64_t counts[MOST_RANKS];
} RankThreads;

static inline tomos_status ranks_wait(tomos_comm *c)
{
	RankThreads *team = c->own;
	pthread_barrier_wait(&team->barrier);
	return TOMOS_OK;
}

static inline tomos_status ranks_gather(tomos_comm *c, const void *mine, int64_t bytes, void *all)
{
	RankThreads *team = c->own;
	team->mine[c->rank] = mine;
	ranks_wait(c);
	for (int i = 0; i < team->size; i++)
		memcpy((char *)all + i * bytes, team->mine[i], (size_t)bytes);
	return ranks_wait(c);
}

static inline tomos_status ranks_broadcast(tomos_comm *c, void *data, int64_t bytes)
{
	RankThreads *team = c->own;
	team->mine[c->rank] = data;
	ranks_wait(c);
	if (c->rank > 0)
		memcpy(data, team->mine[0], (size_t)bytes);
	return ranks_wait(c);
}

/* The message that rank `from` sends to this one, number `index` of them; NULL: there is none. */
static inline const CommMessage *ranks_find(
	const RankThreads *team, int from, int to, int64_t index)
{
	for (int64_t i = 0; i < team->counts[from]; i++) {
		const CommMessage *m = &team->lists[from][i];
		if (m->send && m->rank == to && index-- == 0)
			return m;
	}
	return NULL;
}

static inline tomos_status ranks_exchange(tomos_comm *c, const CommMessage *list, int64_t count)
{
	RankThreads *team = c->own;
	int64_t seen[MOST_RANKS] = {0};
	team->lists[c->rank] = list;
	team->counts[c->rank] = count;
	ranks_wait(c);
	for (int64_t i = 0; i < count; i++) {
		if (list[i].send)
			continue;
		const CommMessage *m =
			ranks_find(team, list[i].rank, c->rank, seen[list[i].rank]++);
		if (!m || m->bytes != list[i].bytes)
			abort(); /* the message is missing or has another length */
		memcpy(list[i].data, m->data, (size_t)m->bytes);
	}
	return ranks_wait(c);
}

static const CommType ranks_type = {.gather = ranks_gather,
	.broadcast = ranks_broadcast,
	.exchange = ranks_exchange,
	.wait = ranks_wait};

static int ranks_local = MOST_RANKS; /* ranks on a machine */
static double ranks_shared;          /* bytes that the last team has read in shared memory */
static int64_t ranks_fail;           /* which allocation of the next team fails; 0: none */

typedef tomos_status (*RankWork)(tomos_comm *comm, void *user);

typedef struct {
	RankWork work;
	void *user;
	tomos_comm comm;
	tomos_status status;
} Member;

static inline void *ranks_member(void *user)
{
	Member *m = user;
	m->status = m->work(&m->comm, m->user);
	return NULL;
}

/* Calls `work` in `size` threads, each a rank, with this status as the result of all of them.
 * Returns the bytes that were sent. */
static inline double ranks_run(int size, RankWork work, void *user, tomos_status status)
{
	RankThreads team = {.size = size};
	Member members[MOST_RANKS];
	pthread_t threads[MOST_RANKS];
	double sent = 0;
	pthread_barrier_init(&team.barrier, NULL, (unsigned)size);
	for (int i = 0; i < size; i++) {
		members[i] = (Member){work, user,
			{.type = &ranks_type,
				.rank = i,
				.size = size,
				.node = i / ranks_local * ranks_local,
				.own = &team},
			status};
		assert_int_equal(comm_ready(&members[i].comm), TOMOS_OK);
	}
	ranks_shared = 0;
	mem_fail_nth(ranks_fail);
	for (int i = 0; i < size; i++)
		pthread_create(&threads[i], NULL, ranks_member, &members[i]);
	for (int i = 0; i < size; i++) {
		pthread_join(threads[i], NULL);
		sent += members[i].comm.sent;
		ranks_shared += members[i].comm.shared;
		mem_free(members[i].comm.room);
		assert_int_equal(members[i].status, status);
	}
	pthread_barrier_destroy(&team.barrier);
	return sent;
}

#endif
