/* Large outputs in memory (tmpfs). There, the lock of a file limits writes to one thread's rate, of
 * which allocating pages is half. So threads that write copy to mappings, whose pages they allocate
 * at the same time; another thread allocates from the end of the file on, from when the output is
 * created. Without space for a page a mapping would end the process; allocating it first fails with
 * an error instead. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
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
	int64_t at; /* of the data */
	pthread_t thread;
	_Atomic bool ending;
	_Atomic int64_t from;    /* first byte allocated, of those up to the end */
	_Atomic int64_t written; /* end of the last bytes written */
};

static void *allocate(void *user)
{
	Reserve *s = user;
	while (s->from > s->written && !s->ending) {
		int64_t to = s->from, from = max64(s->at, to - STEP);
		if (fallocate(s->descriptor, 0, from, to - from) == 0)
			s->from = from;
		else if (errno != EINTR)
			break; /* no space: the threads that write get the error */
	}
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
	s->written = at;
	s->from = at + bytes;
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
	mem_free(s);
	*reserve = NULL;
}

/* Allocates the pages of a mapping at `at`, where the other thread has not. */
static bool has_pages(const Reserve *s, char *map, int64_t at, int64_t bytes)
{
#ifdef MADV_POPULATE_WRITE
	return at >= s->from || madvise(map, (size_t)bytes, MADV_POPULATE_WRITE) == 0;
#else
	(void)map;
	return at >= s->from || fallocate(s->descriptor, 0, at, bytes) == 0;
#endif
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
	int64_t before = at % sysconf(_SC_PAGESIZE), all = before + bytes; /* of whole pages */
	TRY(cancel_check("writing"));
	char *map = mmap(NULL, (size_t)all, PROT_READ | PROT_WRITE, MAP_SHARED,
		c->reserve->descriptor, at - before);
	bool there = map != MAP_FAILED && has_pages(c->reserve, map, at - before, all);
	if (there)
		memcpy(map + before, c->data + from, (size_t)bytes);
	if (map != MAP_FAILED)
		(void)munmap(map, (size_t)all);
	return there ? TOMOS_OK
		     : flat_write(c->reserve->descriptor, c->path, at, c->data + from, bytes);
}

tomos_status reserve_write(Reserve *reserve, const Runs *runs, int threads, const void *data)
{
	Copy c = {reserve, runs->path, runs->at, runs->bytes, data};
	int64_t end = runs->at + runs->bytes;
	if (!reserve || runs->count != 1)
		return flat_write_runs(runs, threads, data);
	if (reserve->written < end) /* of two threads that write, either may be the last */
		reserve->written = end;
	return parallel_each((c.bytes + TASK - 1) / TASK, threads, copy_bytes, &c, "writing");
}
