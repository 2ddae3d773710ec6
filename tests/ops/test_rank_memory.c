/* Memory that ranks of a machine share. The ranks are threads. */
#include "comm/comm.h" /* first: cmocka makes a macro of fail() */
#include "base/base_test.h"
#include "ops/rank_threads.h"
#include <unistd.h>

/* Each rank writes its number, and finds that of the other one of its pair. */
static tomos_status try_shared(tomos_comm *comm, void *user)
{
	const int64_t bytes = 4096 * (comm->rank + 1);
	const int first = comm->rank / 2 * 2;
	bool *shared = user;
	CommShared *s;
	TRY(comm_share(comm, 2, bytes, &s));
	shared[comm->rank] = s != NULL;
	if (!s)
		return TOMOS_OK;
	memset(s->parts[comm->rank - first].data, comm->rank + 1, (size_t)bytes);
	TRY(comm_wait(comm));
	bool right = true;
	for (int i = 0; i < 2; i++) {
		const char *data = s->parts[i].data;
		right = right && s->parts[i].bytes == 4096 * (first + i + 1) &&
			data[0] == first + i + 1 && data[s->parts[i].bytes - 1] == data[0];
	}
	TRY(comm_wait(comm));
	comm_share_free(s);
	return right ? TOMOS_OK : TOMOS_BAD_VALUE;
}

/* Memory of the first rank alone, to which each of them writes. */
static tomos_status try_common(tomos_comm *comm, void *user)
{
	enum { BYTES = 5 << 20 };
	CommShared *s;
	(void)user;
	TRY(comm_share(comm, comm->size, comm->rank == 0 ? BYTES : 0, &s));
	if (!s)
		return TOMOS_BAD_VALUE;
	char *data = s->parts[0].data;
	for (int64_t i = comm->rank; i < BYTES; i += comm->size)
		data[i] = (char)(i % 100);
	TRY(comm_wait(comm));
	bool right = s->parts[0].bytes == BYTES && s->parts[1].bytes == 0;
	for (int64_t i = 0; i < BYTES; i++)
		right = right && data[i] == (char)(i % 100);
	TRY(comm_wait(comm));
	comm_share_free(s);
	return right ? TOMOS_OK : TOMOS_BAD_VALUE;
}

static void one_rank_has_memory_for_all(void **state)
{
	(void)state;
	(void)ranks_run(3, try_common, NULL, TOMOS_OK);
}

static void ranks_of_a_machine_share_memory(void **state)
{
	bool shared[MOST_RANKS];
	(void)state;
	for (int local = 1; local <= 4; local++) {
		ranks_local = local;
		(void)ranks_run(4, try_shared, shared, TOMOS_OK);
		for (int i = 0; i < 4; i++)
			assert_true(shared[i] == (local % 2 == 0));
	}
	ranks_local = MOST_RANKS;
}

/* An allocation fails on one rank: all of them return, with its status. */
static void memory_fails_on_one_rank(void **state)
{
	enum { RANKS = 4, ALLOCATIONS = 3 };
	bool shared[MOST_RANKS];
	(void)state;
	alarm(60); /* others would wait for ever */
	for (int nth = 1; nth <= RANKS * ALLOCATIONS + 1; nth++) {
		int64_t live = mem_live();
		tomos_status expected = nth > RANKS * ALLOCATIONS ? TOMOS_OK : TOMOS_NO_MEMORY;
		ranks_fail = nth;
		(void)ranks_run(RANKS, try_shared, shared, expected);
		mem_fail_nth(0);
		assert_int_equal(mem_live(), live);
	}
	ranks_fail = 0;
	alarm(0);
}

#define TESTS(T) \
	T(ranks_of_a_machine_share_memory), T(one_rank_has_memory_for_all), \
		T(memory_fails_on_one_rank)
TEST_MAIN(TESTS, NULL, NULL)
