/* Large outputs in memory (tmpfs). There, the lock of a file limits writes to one thread's rate, of
 * which allocating pages is half. So a thread of its own allocates them, which begins when the
 * output is created, and threads that write copy to mappings of what is allocated. Without space
 * for a page a mapping would end the process; allocating it fails with an error instead. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>
#include "io/io.h"

enum {
	LEAST = 1 << 20, /* bytes of an output that this is worth it for */
	STEP = 64 << 20, /* bytes allocated at a time */
	TASK = 4 << 20,  /* bytes copied by one task */
};
static const long tmpfs = 0x01021994; /* f_type of statfs(2) */

struct Reserve {
	int descriptor;
	int64_t at, bytes;
	pthread_t thread;
	_Atomic bool ending;
	pthread_mutex_t lock;
	pthread_cond_t moved;
	int64_t ready; /* bytes allocated so far, from `at` on */
	bool done;     /* all, or there is no more space */
};

static void *allocate(void *user)
{
	Reserve *s = user;
	bool good = true;
	for (int64_t ready = 0; ready < s->bytes && good && !s->ending;) {
		int64_t step = min64(STEP, s->bytes - ready);
		good = fallocate(s->descriptor, 0, s->at + ready, step) == 0;
		if (!good && errno == EINTR) {
			good = true;
			continue;
		}
		ready += good ? step : 0;
		pthread_mutex_lock(&s->lock);
		s->ready = ready;
		pthread_cond_broadcast(&s->moved);
		pthread_mutex_unlock(&s->lock);
	}
	pthread_mutex_lock(&s->lock);
	s->done = true;
	pthread_cond_broadcast(&s->moved);
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

tomos_status reserve_open(Reserve **reserve, int descriptor, int64_t at, int64_t bytes)
{
	struct statfs system;
	Reserve *s;
	*reserve = NULL;
	if (bytes < LEAST || fstatfs(descriptor, &system) != 0 || system.f_type != tmpfs)
		return TOMOS_OK;
	TRY(mem_zeroed(&s, 1, sizeof *s, "the space of an output"));
	s->descriptor = descriptor;
	s->at = at;
	s->bytes = bytes;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->moved, NULL);
	if (pthread_create(&s->thread, NULL, allocate, s) == 0)
		*reserve = s;
	else
		mem_free(s);
	return TOMOS_OK;
}

void reserve_close(Reserve **reserve)
{
	Reserve *s = *reserve;
	if (!s)
		return;
	s->ending = true;
	pthread_join(s->thread, NULL);
	pthread_cond_destroy(&s->moved);
	pthread_mutex_destroy(&s->lock);
	mem_free(s);
	*reserve = NULL;
}

/* Waits until the file has space up to `end`; false: it has not, or the caller cancels. */
static bool wait_for(Reserve *s, int64_t end)
{
	pthread_mutex_lock(&s->lock);
	while (s->ready < end - s->at && !s->done && cancel_check("writing") == TOMOS_OK) {
		struct timespec soon;
		clock_gettime(CLOCK_REALTIME, &soon);
		soon.tv_nsec += 100000000;
		soon.tv_sec += soon.tv_nsec / 1000000000;
		soon.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&s->moved, &s->lock, &soon);
	}
	bool there = s->ready >= end - s->at;
	pthread_mutex_unlock(&s->lock);
	return there;
}

typedef struct {
	Reserve *reserve;
	const char *path;
	int64_t at, bytes;
	const char *data;
} Copy;

static tomos_status copy_bytes(void *user, int64_t i)
{
	const Copy *c = user;
	int64_t from = i * TASK, bytes = min64(TASK, c->bytes - from), at = c->at + from;
	int64_t before = at % sysconf(_SC_PAGESIZE); /* mappings begin with a page */
	TRY(cancel_check("writing"));
	char *map = mmap(NULL, (size_t)(before + bytes), PROT_READ | PROT_WRITE, MAP_SHARED,
		c->reserve->descriptor, at - before);
	if (map == MAP_FAILED)
		return flat_write(c->reserve->descriptor, c->path, at, c->data + from, bytes);
	memcpy(map + before, c->data + from, (size_t)bytes);
	(void)munmap(map, (size_t)(before + bytes));
	return TOMOS_OK;
}

tomos_status reserve_write(Reserve *reserve, const Runs *runs, int threads, const void *data)
{
	Copy c = {reserve, runs->path, runs->at, runs->bytes, data};
	if (!reserve || runs->count != 1 || !wait_for(reserve, runs->at + runs->bytes))
		return flat_write_runs(runs, threads, data);
	return parallel_each((c.bytes + TASK - 1) / TASK, threads, copy_bytes, &c, "writing");
}
