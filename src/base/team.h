/* Teams: processes on one machine that compute the loops of a kernel together, in memory that they
 * share, as the threads of one process would. */
#ifndef TOMOS_BASE_TEAM_H
#define TOMOS_BASE_TEAM_H

#include "base/base.h"

/* In shared memory; zeros at first. */
typedef struct {
	int64_t next;                       /* index of the loop that is under way */
	uint32_t arrived, sleepers, rounds; /* members that wait; how often all have waited */
} TeamState;

typedef struct {
	int members;
	TeamState *state;
	float *scratch; /* shared memory for what a kernel stores between its loops */
	int64_t floats;
	/* Called from time to time by a member that waits. */
	void (*idle)(void *user);
	void *user;
} Team;

/* Returns when all members have called it. */
void team_wait(const Team *team);
/* Between these calls parallel_for of this thread divides the indices among the threads of all
 * members, and waits for all of them. All members make the same calls, with arrays in shared
 * memory. */
void team_enter(const Team *team);
void team_leave(void);
/* The team of this thread; NULL: none. */
const Team *team_here(void);

/* parallel_for on at most `threads` threads of this process. A task learns the number of its thread
 * in the loop, below `threads`: for memory of which each thread needs some. */
void parallel_numbered(
	int64_t count, int threads, void (*task)(void *user, int64_t index), void *user);
int thread_number(void);

/* Memory that the tasks of several loops use: that of the team, or else of this process. */
tomos_status scratch_take(float **scratch, int64_t floats, const char *what);
void scratch_give(float *scratch);

#endif
