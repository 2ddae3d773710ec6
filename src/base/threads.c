/* A pool of threads that distributes the indices of a loop.
 *
 * The order in which threads take indices is not defined. A task must write only data that belong
 * to its index, so that results do not depend on the number of threads. Idle threads poll for work
 * for a short time before they sleep, since waking them takes longer than many loops. A loop does
 * not wait for threads that have not taken part when all its indices are done.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/team.h"

enum {
	MAX_THREADS = 1024,
	LOOKS = 2048, /* polls before a thread sleeps, about 50 to 100 microseconds */
	LOOKS_PER_YIELD = 32,
};

typedef struct Loop Loop;

struct Loop {
	void (*task)(void *, int64_t);
	void *user;
	int64_t count;
	const tomos_cancel *cancel; /* the caller's flag, or NULL */
	bool watched;               /* the remaining indices are skipped when it is set */
	int64_t *next;              /* in the memory of the team, if there is one */
	Loop *after;                /* next loop in the list of open loops */
	int most;                   /* most workers that may take part */
	_Atomic int helpers;
	_Atomic int numbers; /* threads that have taken part */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the variables below */
static pthread_cond_t work_there = PTHREAD_COND_INITIALIZER;
static pthread_cond_t work_done = PTHREAD_COND_INITIALIZER;
static Loop *loops;                   /* open loops */
static _Atomic uint64_t round_number; /* number of loops so far */
static int workers, wanted_workers, sleeping_workers;
static _Atomic int threads_wanted;  /* 0: not set */
static _Atomic int core_share;      /* of this process among the ranks of a machine; 0: one rank */
static _Atomic int threads_default; /* 0: not known yet */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local const tomos_cancel *cancel_flag;
static _Thread_local int cancel_depth; /* nesting depth of cancel_begin */
static _Thread_local bool inside;      /* this thread executes a task */
static _Thread_local int number;       /* of this thread in the loop of the task */

/* The value of TOMOS_THREADS; 0: not set, or all cores; -1: not a number of threads. */
static long asked_threads(void)
{
	const char *text = getenv("TOMOS_THREADS");
	char *end;
	if (!text || !*text)
		return 0;
	long count = strtol(text, &end, 10);
	return end == text || *end || count < 0 || count > MAX_THREADS ? -1 : count;
}

/* Cores that this process may use: launchers and batch systems bind it to some of them. */
static long allowed_cores(void)
{
	cpu_set_t cores;
	if (sched_getaffinity(0, sizeof cores, &cores) == 0)
		return CPU_COUNT(&cores);
	return sysconf(_SC_NPROCESSORS_ONLN);
}

static int default_threads(void)
{
	long count = asked_threads();
	if (count < 1)
		count = core_share > 0 ? core_share : allowed_cores();
	return count < 1 ? 1 : count > MAX_THREADS ? MAX_THREADS : (int)count;
}

int tomos_cancel_raised(const tomos_cancel *flag)
{
	return flag && __atomic_load_n(&flag->raised, __ATOMIC_ACQUIRE) != 0;
}

void tomos_cancel_raise(tomos_cancel *flag)
{
	__atomic_store_n(&flag->raised, 1, __ATOMIC_RELEASE);
}

void tomos_cancel_clear(tomos_cancel *flag)
{
	__atomic_store_n(&flag->raised, 0, __ATOMIC_RELEASE);
}

/* Executes indices of a loop. Tasks observe the cancel flag of the loop's caller in every
 * thread. */
static void run_loop(Loop *loop)
{
	bool outer = inside;
	const tomos_cancel *flag = cancel_flag;
	int depth = cancel_depth, before = number;
	inside = true;
	number = loop->numbers++;
	cancel_flag = loop->cancel;
	cancel_depth = loop->watched;
	for (int64_t i; (i = __atomic_fetch_add(loop->next, 1, __ATOMIC_SEQ_CST)) < loop->count;)
		if (!cancel_seen())
			loop->task(loop->user, i);
	cancel_depth = depth;
	cancel_flag = flag;
	number = before;
	inside = outer;
}

/* Whether to poll again; pauses, and yields the core from time to time. */
static bool look_again(int looks)
{
	if (looks % LOOKS_PER_YIELD == LOOKS_PER_YIELD - 1)
		sched_yield();
#if defined __x86_64__
	else
		__builtin_ia32_pause();
#endif
	return looks < LOOKS;
}

/* With `lock` held: waits for a new loop; false if this thread is to end, since there are too
 * many. */
static bool next_round(uint64_t *seen)
{
	pthread_mutex_unlock(&lock);
	for (int looks = 0; round_number == *seen && look_again(looks);)
		looks++;
	pthread_mutex_lock(&lock);
	sleeping_workers++;
	while (round_number == *seen && workers <= wanted_workers)
		pthread_cond_wait(&work_there, &lock);
	sleeping_workers--;
	bool there = round_number != *seen;
	*seen = round_number;
	return there;
}

/* With `lock` held: the open loop with the fewest workers among those that accept another one. */
static Loop *loop_to_help(void)
{
	Loop *best = NULL;
	for (Loop *loop = loops; loop; loop = loop->after)
		if (loop->helpers < loop->most && (!best || loop->helpers < best->helpers))
			best = loop;
	return best;
}

/* With `lock` held: removes a loop without remaining indices from the list. */
static void loop_remove(const Loop *loop)
{
	for (Loop **at = &loops; *at; at = &(*at)->after)
		if (*at == loop) {
			*at = loop->after;
			return;
		}
}

static void *worker(void *argument)
{
	uint64_t seen = (uint64_t)(uintptr_t)argument;
	pthread_mutex_lock(&lock);
	for (;;) {
		Loop *loop = loop_to_help();
		if (!loop && next_round(&seen))
			continue;
		if (!loop)
			break;
		loop->helpers++;
		pthread_mutex_unlock(&lock);
		run_loop(loop);
		pthread_mutex_lock(&lock);
		loop_remove(loop);
		if (--loop->helpers == 0)
			pthread_cond_broadcast(&work_done);
	}
	workers--;
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* After fork only the calling thread is left in the child. */
static void forget_workers(void)
{
	pthread_mutex_init(&lock, NULL);
	pthread_cond_init(&work_there, NULL);
	pthread_cond_init(&work_done, NULL);
	loops = NULL;
	workers = sleeping_workers = 0;
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, forget_workers);
}

/* With `lock` held: starts workers up to the number wanted or possible. Surplus workers end when
 * they are idle. */
static void adjust_workers(int wanted)
{
	wanted_workers = wanted;
	while (workers < wanted) {
		pthread_t thread;
		pthread_attr_t attributes;
		pthread_attr_init(&attributes);
		pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
		int failed = pthread_create(
			&thread, &attributes, worker, (void *)(uintptr_t)round_number);
		pthread_attr_destroy(&attributes);
		if (failed)
			break;
		workers++;
	}
}

static void loop_begin(Loop *loop, int wanted)
{
	pthread_mutex_lock(&lock);
	adjust_workers(wanted);
	loop->after = loops;
	loops = loop;
	round_number++;
	bool asleep = sleeping_workers > 0;
	pthread_mutex_unlock(&lock);
	if (asleep)
		pthread_cond_broadcast(&work_there);
}

/* Closes a loop to further threads, and waits for those that take part. */
static void loop_end(Loop *loop)
{
	pthread_mutex_lock(&lock);
	loop_remove(loop);
	pthread_mutex_unlock(&lock);
	for (int looks = 0; loop->helpers > 0 && look_again(looks);)
		looks++;
	pthread_mutex_lock(&lock);
	while (loop->helpers > 0)
		pthread_cond_wait(&work_done, &lock);
	pthread_mutex_unlock(&lock);
}

/* Concurrent loops share the workers. */
static void share_loop(Loop *loop, int threads, int most)
{
	pthread_once(&once, watch_forks);
	loop->most = (int)min64(min64(threads, most), loop->count) - 1;
	loop_begin(loop, threads - 1);
	run_loop(loop);
	loop_end(loop);
}

/* A nested loop runs in its caller only. */
static void run_threads(int64_t count, int most, void (*task)(void *, int64_t), void *user)
{
	int64_t next = 0;
	const Team *team = inside ? NULL : team_here();
	Loop loop = {.task = task, .user = user, .count = count, .cancel = cancel_flag};
	loop.watched = cancel_depth > 0;
	loop.next = team ? &team->state->next : &next;
	int threads = tomos_threads();
	if (count < 2 || threads < 2 || most < 2 || inside)
		run_loop(&loop);
	else
		share_loop(&loop, threads, most);
	if (team)
		team_wait(team);
}

void parallel_for(int64_t count, void (*task)(void *, int64_t), void *user)
{
	run_threads(count, MAX_THREADS, task, user);
}

void parallel_numbered(int64_t count, int threads, void (*task)(void *, int64_t), void *user)
{
	run_threads(count, threads, task, user);
}

int thread_number(void)
{
	return number;
}

void tomos_cancel_on(const tomos_cancel *flag)
{
	cancel_flag = flag;
}

const tomos_cancel *cancel_asked(void)
{
	return cancel_flag;
}

const tomos_cancel *cancel_watched(void)
{
	return cancel_depth > 0 ? cancel_flag : NULL;
}

bool cancel_seen(void)
{
	return tomos_cancel_raised(cancel_watched());
}

void cancel_begin(void)
{
	cancel_depth++;
}

tomos_status cancel_end(tomos_status status, const char *what)
{
	cancel_depth--;
	if (status != TOMOS_OK || !tomos_cancel_raised(cancel_flag))
		return status;
	return fail(TOMOS_CANCELLED, "%s was cancelled", what);
}

tomos_status cancel_check(const char *what)
{
	cancel_begin();
	return cancel_end(TOMOS_OK, what);
}

tomos_status parallel_try(
	int64_t count, void (*task)(void *, int64_t), void *user, const char *what)
{
	cancel_begin();
	parallel_for(count, task, user);
	return cancel_end(TOMOS_OK, what);
}

/* ---- tasks that can fail --------------------------------------------------------------------- */

typedef struct {
	tomos_status (*task)(void *, int64_t);
	void *user;
	_Atomic bool failed;
	pthread_mutex_t guard; /* of the members below */
	tomos_status status;
	int64_t index; /* of the failure */
	char message[1024];
} Tasks;

/* Messages belong to threads: that of the failure is copied for the caller. */
static void keep_failure(Tasks *t, int64_t i, tomos_status status)
{
	pthread_mutex_lock(&t->guard);
	if (!t->failed || i < t->index) {
		t->index = i;
		t->status = status;
		snprintf(t->message, sizeof t->message, "%s", tomos_message());
	}
	t->failed = true;
	pthread_mutex_unlock(&t->guard);
}

static void try_task(void *user, int64_t i)
{
	Tasks *t = user;
	tomos_status status = t->failed ? TOMOS_OK : t->task(t->user, i);
	if (status != TOMOS_OK)
		keep_failure(t, i, status);
}

tomos_status parallel_each(int64_t count, int threads, tomos_status (*task)(void *, int64_t),
	void *user, const char *what)
{
	Tasks t = {.task = task, .user = user};
	pthread_mutex_init(&t.guard, NULL);
	cancel_begin();
	run_threads(count, threads, try_task, &t);
	tomos_status status = cancel_end(TOMOS_OK, what);
	pthread_mutex_destroy(&t.guard);
	return t.failed ? fail(t.status, "%s", t.message) : status;
}

/* ---- number of threads ----------------------------------------------------------------------- */

static tomos_status asked_check(void)
{
	if (asked_threads() >= 0)
		return TOMOS_OK;
	return fail(TOMOS_BAD_VALUE,
		"TOMOS_THREADS is '%s': it must be the number of threads, 0 (all cores) to %d",
		getenv("TOMOS_THREADS"), MAX_THREADS);
}

tomos_status threads_check(void)
{
	return threads_wanted > 0 ? TOMOS_OK : asked_check();
}

tomos_status tomos_set_threads(int threads)
{
	if (threads < 0 || threads > MAX_THREADS)
		return fail(TOMOS_BAD_VALUE, "%d threads: the number must be 0 (all cores) to %d",
			threads, MAX_THREADS);
	if (threads == 0)
		TRY(asked_check());
	threads_wanted = threads;
	threads_default = 0;
	return TOMOS_OK;
}

void threads_share(int cores)
{
	core_share = cores;
	threads_default = 0;
}

int tomos_threads(void)
{
	int count = threads_wanted > 0 ? threads_wanted : threads_default;
	if (count == 0)
		threads_default = count = default_threads();
	return count;
}
