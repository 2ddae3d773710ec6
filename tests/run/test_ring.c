/* Transfers through pinned pieces: every item arrives, whatever the sizes, and no piece is used
 * while it is being copied. */
#include "run/ring.h"
#include "io/io_help.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { MOST = 1 << 20 };

/* A device whose copies take place as late as they may: at copy_end. */
typedef struct {
	void *to;
	const void *from;
	int64_t bytes;
} Copy;

static Copy copies[2][COPY_SLOTS];
static unsigned char device[MOST], received[MOST];
static atomic_int failing; /* copies until one fails, on any thread; below 1: none does */

static tomos_status late_begin(
	tomos_backend *b, CopyDirection direction, int slot, void *there, void *host, int64_t bytes)
{
	bool up = direction == COPY_UPLOAD;
	(void)b;
	assert_null(copies[direction][slot].to);
	if (atomic_fetch_sub(&failing, 1) == 1)
		return fail(TOMOS_NO_DEVICE, "the copy fails");
	copies[direction][slot] = (Copy){up ? there : host, up ? host : there, bytes};
	return TOMOS_OK;
}

static tomos_status late_end(tomos_backend *b, CopyDirection direction, int slot, double *seconds)
{
	Copy *c = &copies[direction][slot];
	(void)b;
	if (c->to)
		memcpy(c->to, c->from, (size_t)c->bytes);
	*c = (Copy){NULL, NULL, 0};
	*seconds += 1;
	return TOMOS_OK;
}

static const BackendMemory memory = {.copy_begin = late_begin, .copy_end = late_end};
static const BackendType type = {.name = "late", .memory = &memory};
static tomos_backend backend = {.type = &type};

static unsigned char expected(int64_t i)
{
	return (unsigned char)(i * 37 % 251 + 1);
}

/* An item of `bytes` bytes; *user is that number. */
static tomos_status fill(void *user, int64_t first, int64_t count, char *host)
{
	int64_t bytes = *(const int64_t *)user;
	for (int64_t i = 0; i < count * bytes; i++)
		host[i] = (char)expected(first * bytes + i);
	return TOMOS_OK;
}

static tomos_status drain(void *user, int64_t first, int64_t count, char *host)
{
	int64_t bytes = *(const int64_t *)user;
	memcpy(received + first * bytes, host, (size_t)(count * bytes));
	return TOMOS_OK;
}

static const struct {
	int64_t count, bytes, group, piece;
	int slots;
} sizes[] = {{1, 1, 0, 1, 2}, {17, 100, 0, 1000, 4}, {1000, 7, 8, 64, 6}, {5, 4096, 3, 4096, 2},
	{64, 512, 16, 20000, 10}, {3, 90000, 0, 100000, 4}};

static void uploads(void **state)
{
	(void)state;
	for (int k = 0; k < COUNT(sizes); k++) {
		int64_t bytes = sizes[k].bytes;
		Ring ring;
		const RingJob job = {
			(char *)device, sizes[k].count, bytes, sizes[k].group, fill, &bytes};
		memset(device, 0, sizeof device);
		assert_ok(ring_open(&ring, &backend, COPY_UPLOAD, sizes[k].piece, sizes[k].slots));
		assert_ok(ring_upload(&ring, &job));
		for (int64_t i = 0; i < sizes[k].count * bytes; i++)
			assert_int_equal(device[i], expected(i));
		assert_int_equal(device[sizes[k].count * bytes], 0);
		assert_true(ring_seconds(&ring) >= 1);
		assert_true(ring.bytes == (double)(sizes[k].count * bytes));
		ring_close(&ring);
	}
	assert_int_equal(mem_live(), 0);
}

static void downloads(void **state)
{
	(void)state;
	for (int64_t i = 0; i < MOST; i++)
		device[i] = expected(i);
	for (int k = 0; k < COUNT(sizes); k++) {
		int64_t bytes = sizes[k].bytes, all = sizes[k].count * bytes;
		Ring ring;
		const RingJob job = {
			(char *)device, sizes[k].count, bytes, sizes[k].group, drain, &bytes};
		memset(received, 0, sizeof received);
		assert_ok(
			ring_open(&ring, &backend, COPY_DOWNLOAD, sizes[k].piece, sizes[k].slots));
		assert_ok(ring_download(&ring, &job));
		assert_memory_equal(received, device, (size_t)all);
		assert_int_equal(received[all], 0);
		ring_close(&ring);
	}
	assert_int_equal(mem_live(), 0);
}

static tomos_status fail_late(void *user, int64_t first, int64_t count, char *host)
{
	(void)user, (void)count, (void)host;
	return first < 40 ? TOMOS_OK : fail(TOMOS_IO, "item %lld fails", (long long)first);
}

/* A failure of a task or of a copy is reported, and closing waits for copies under way. */
static void failures(void **state)
{
	(void)state;
	int64_t bytes = 16;
	for (int k = 0; k < 4; k++) {
		Ring ring;
		bool up = k < 2, task = k % 2;
		RingJob job = {(char *)device, 100, bytes, 0, up ? fill : drain, &bytes};
		if (task)
			job.task = fail_late;
		failing = task ? 0 : 3;
		assert_ok(ring_open(
			&ring, &backend, up ? COPY_UPLOAD : COPY_DOWNLOAD, 10 * bytes, 4));
		tomos_status status = (up ? ring_upload : ring_download)(&ring, &job);
		assert_int_equal(status, task ? TOMOS_IO : TOMOS_NO_DEVICE);
		ring_close(&ring);
		for (int i = 0; i < COPY_SLOTS; i++)
			assert_null(copies[up ? COPY_UPLOAD : COPY_DOWNLOAD][i].to);
	}
	assert_int_equal(mem_live(), 0);
}

#define TESTS(T) T(uploads), T(downloads), T(failures)
TEST_MAIN(TESTS, NULL, NULL)
