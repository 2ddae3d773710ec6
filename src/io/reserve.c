/* Large outputs in memory (tmpfs). There, the lock of a file limits writes to one thread's rate, of
 * which allocating pages is half. So threads that write copy to mappings, whose pages they allocate
 * at the same time, large ones where the kernel has them; another thread allocates from the end of
 * the file on, from when the output is created. Without space for a page a mapping would end the
 * process; allocating it first fails with an error instead. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "io/io.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

enum {
	LEAST = 1 << 20, /* bytes of an output; smaller ones take no time */
	STEP = 16 << 20, /* bytes allocated at a time, */
	TASK = 4 << 20,  /* and copied by one task: what is mapped counts as memory */
	LARGE = 2 << 20, /* bytes of a large page */
};
static const long tmpfs = 0x01021994; /* f_type of statfs(2) */

struct Reserve {
	int descriptor;
	int64_t at, end; /* of the data */
	pthread_t thread;
	_Atomic bool ending, large; /* large: pages of that size are tried */
	_Atomic int64_t from;       /* first byte allocated, of those up to the end */
	_Atomic int64_t written;    /* end of the last bytes written */
};

/* ---- pages ----------------------------------------------------------------------------------- */

/* At least [at, end) of a file of `size` bytes. */
bool view_open(View *v, int descriptor, int64_t at, int64_t end, int64_t size)
{
	v->from = at / LARGE * LARGE;
	v->bytes = min64((end + LARGE - 1) / LARGE * LARGE, size) - v->from;
	v->length = (size_t)(v->bytes + LARGE);
	v->region = mmap(NULL, v->length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (v->region == MAP_FAILED)
		return false;
	v->data = v->region + (LARGE - (uintptr_t)v->region % LARGE) % LARGE;
	const void *placed = mmap(v->data, (size_t)v->bytes, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_FIXED, descriptor, v->from);
	if (placed != MAP_FAILED)
		return true;
	(void)munmap(v->region, v->length);
	return false;
}

void view_close(const View *v)
{
	(void)munmap(v->region, v->length);
}

/* Large pages for all but the end of the file. The kernel makes them of pages that are there, so
 * one of each is allocated first. False: there will be none. Neighbours that are at work on the
 * same page are no reason for that. */
static bool make_large(const View *v)
{
	int64_t whole = v->bytes / LARGE * LARGE;
	for (int64_t i = 0; i < whole; i += LARGE)
		if (!mem_populate(v->data + i, 1))
			return false;
	return whole == 0 || madvise(v->data, (size_t)whole, MADV_COLLAPSE) == 0 ||
	       errno == EAGAIN || errno == EBUSY;
}

static bool is_in_memory(int descriptor)
{
	struct statfs system;
	return fstatfs(descriptor, &system) == 0 && system.f_type == tmpfs;
}

/* Pages of a mapping need a file of that size. Space is allocated at its end, as that cannot make
 * it smaller, whoever else writes. */
static bool has_size(int descriptor, int64_t bytes)
{
	struct stat info;
	return fstat(descriptor, &info) == 0 &&
	       (info.st_size >= bytes || fallocate(descriptor, 0, bytes - 1, 1) == 0);
}

bool path_in_memory(const char *path)
{
	struct statfs system;
	return statfs(path, &system) == 0 && system.f_type == tmpfs;
}

/* Small ones at the end of the file, and where neighbours were at work. */
bool large_pages(int descriptor, int64_t at, int64_t end, int64_t size)
{
	View v;
	if (!has_size(descriptor, size) || !view_open(&v, descriptor, at, end, size))
		return false;
	bool made = make_large(&v) && mem_populate(v.data, v.bytes);
	view_close(&v);
	return made;
}

/* ---- ahead of the threads that write --------------------------------------------------------- */

static void *allocate(void *user)
{
	Reserve *s = user;
	while (s->from > s->written && !s->ending) {
		int64_t to = s->from, from = max64(s->at, (to - STEP) / LARGE * LARGE);
		View view;
		if (s->large && view_open(&view, s->descriptor, from, to, s->end)) {
			s->large = make_large(&view);
			view_close(&view);
		}
		if (fallocate(s->descriptor, 0, from, to - from) == 0)
			s->from = from;
		else if (errno != EINTR)
			break; /* no space: the threads that write get the error */
	}
	return NULL;
}

tomos_status reserve_open(Reserve **reserve, int descriptor, int64_t at, int64_t bytes)
{
	Reserve *s;
	*reserve = NULL;
	if (bytes < LEAST || !is_in_memory(descriptor) || !has_size(descriptor, at + bytes))
		return TOMOS_OK;
	TRY(mem_zeroed(&s, 1, sizeof *s, "the space of an output"));
	s->descriptor = descriptor;
	s->at = at;
	s->written = at;
	s->end = at + bytes;
	s->from = at + bytes;
	s->large = true;
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

/* ---- writing --------------------------------------------------------------------------------- */

/* Allocates the pages of [at, end), where the other thread has not. */
static bool has_pages(Reserve *s, const View *v, int64_t at, int64_t end)
{
	int64_t page = sysconf(_SC_PAGESIZE), first = (at - v->from) / page * page;
	if (at >= s->from)
		return true;
	if (s->large)
		s->large = make_large(v);
	return mem_populate(v->data + first, end - v->from - first);
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
	Reserve *s = c->reserve;
	View view;
	TRY(cancel_check("writing"));
	bool mapped = view_open(&view, s->descriptor, at, at + bytes, s->end);
	bool there = mapped && has_pages(s, &view, at, at + bytes);
	if (there)
		memcpy(view.data + (at - view.from), c->data + from, (size_t)bytes);
	if (mapped)
		view_close(&view);
	return there ? TOMOS_OK : flat_write(s->descriptor, c->path, at, c->data + from, bytes);
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
