/* Members of a team wait for each other by a counter in shared memory: they poll for a short time
 * and then sleep in the kernel until the last one has come. */
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "base/team.h"

enum {
	LOOKS = 4096, /* polls before a member sleeps */
	LOOKS_PER_YIELD = 32,
	LONGEST = 10000000 /* nanoseconds of sleep */
};

static _Thread_local const Team *here;

static void wake_all(const uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void sleep_while(const uint32_t *word, uint32_t value)
{
	const struct timespec most = {.tv_nsec = LONGEST};
	syscall(SYS_futex, word, FUTEX_WAIT, value, &most, NULL, 0);
}

static bool is_over(const TeamState *s, uint32_t round)
{
	return __atomic_load_n(&s->rounds, __ATOMIC_SEQ_CST) != round;
}

static void wait_for_round(const Team *team, uint32_t round)
{
	TeamState *s = team->state;
	for (int looks = 1; looks <= LOOKS && !is_over(s, round); looks++) {
		if (looks % LOOKS_PER_YIELD == 0)
			sched_yield();
#if defined __x86_64__
		else
			__builtin_ia32_pause();
#endif
	}
	if (is_over(s, round))
		return;
	__atomic_add_fetch(&s->sleepers, 1, __ATOMIC_SEQ_CST);
	while (!is_over(s, round)) {
		sleep_while(&s->rounds, round);
		if (team->idle)
			team->idle(team->user);
	}
	__atomic_sub_fetch(&s->sleepers, 1, __ATOMIC_SEQ_CST);
}

/* The last member prepares the next loop before the others go on. */
void team_wait(const Team *team)
{
	TeamState *s = team->state;
	uint32_t round = __atomic_load_n(&s->rounds, __ATOMIC_SEQ_CST);
	if (__atomic_add_fetch(&s->arrived, 1, __ATOMIC_SEQ_CST) < (uint32_t)team->members) {
		wait_for_round(team, round);
		return;
	}
	s->next = 0;
	s->arrived = 0;
	__atomic_store_n(&s->rounds, round + 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&s->sleepers, __ATOMIC_SEQ_CST) > 0)
		wake_all(&s->rounds);
}

void team_enter(const Team *team)
{
	here = team;
}

void team_leave(void)
{
	here = NULL;
}

const Team *team_here(void)
{
	return here;
}

tomos_status scratch_take(float **scratch, int64_t floats, const char *what)
{
	if (!here)
		return mem_alloc(scratch, floats, sizeof **scratch, what);
	*scratch = here->scratch;
	if (floats <= here->floats)
		return TOMOS_OK;
	return fail(TOMOS_NO_MEMORY, "no memory of all ranks for %s: %lld of %lld floats", what,
		(long long)here->floats, (long long)floats);
}

void scratch_give(float *scratch)
{
	if (!here)
		mem_free(scratch);
}
