/* Aligned memory: allocation with an error message, a count of live blocks, and failures on request
 * for tests. */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/base.h"

enum { ALIGNMENT = 64, HUGE_PAGE = 2 << 20, LARGE = 32 << 20 };

static _Atomic int64_t live_blocks;
static _Atomic int64_t fail_countdown; /* 0: never */

void mem_fail_nth(int64_t nth)
{
	fail_countdown = nth;
}

int64_t mem_live(void)
{
	return live_blocks;
}

static bool fails_on_demand(void)
{
	if (fail_countdown == 0)
		return false;
	return atomic_fetch_sub(&fail_countdown, 1) == 1;
}

bool size_mul(int64_t a, int64_t b, int64_t *product)
{
	return !__builtin_mul_overflow(a, b, product);
}

bool size_add(int64_t a, int64_t b, int64_t *sum)
{
	return !__builtin_add_overflow(a, b, sum);
}

tomos_status shape_count(const int64_t shape[3], int64_t *count)
{
	if (shape[0] < 1 || shape[1] < 1 || shape[2] < 1 || !size_mul(shape[0], shape[1], count) ||
		!size_mul(*count, shape[2], count) || *count > INT64_MAX / 16)
		return fail(TOMOS_BAD_VALUE, "a shape of %lld x %lld x %lld is empty or too large",
			(long long)shape[0], (long long)shape[1], (long long)shape[2]);
	return TOMOS_OK;
}

/* Requests huge pages for large arrays where the system leaves this to programs: the first access
 * to new memory then takes half the time. A hint, whose result is ignored. */
static void take_large_pages(char *memory, int64_t bytes)
{
#if defined MADV_HUGEPAGE
	size_t skipped = (HUGE_PAGE - (uintptr_t)memory % HUGE_PAGE) % HUGE_PAGE;
	if (bytes >= LARGE)
		madvise(memory + skipped, (size_t)bytes - skipped - ALIGNMENT, MADV_HUGEPAGE);
#else
	(void)memory, (void)bytes;
#endif
}

bool mem_populate(void *mapping, int64_t bytes)
{
	enum { POPULATE_WRITE = 23 }; /* MADV_POPULATE_WRITE, which older headers lack */
	return madvise(mapping, (size_t)bytes, POPULATE_WRITE) == 0;
}

tomos_status mem_alloc(void *pointer_out, int64_t count, size_t size, const char *what)
{
	int64_t bytes = 0;
	void *memory = NULL;
	if (count >= 0 && size_mul(count, (int64_t)size, &bytes) &&
		size_add(bytes, 2 * ALIGNMENT, &bytes) && !fails_on_demand())
		memory = aligned_alloc(ALIGNMENT, (size_t)bytes / ALIGNMENT * ALIGNMENT);
	memcpy(pointer_out, &memory, sizeof memory);
	if (!memory)
		return fail(TOMOS_NO_MEMORY, "no memory for %s: %lld x %zu bytes", what,
			(long long)count, size);
	take_large_pages(memory, bytes);
	live_blocks++;
	return TOMOS_OK;
}

tomos_status mem_zeroed(void *pointer_out, int64_t count, size_t size, const char *what)
{
	TRY(mem_alloc(pointer_out, count, size, what));
	void *memory;
	memcpy(&memory, pointer_out, sizeof memory);
	memset(memory, 0, (size_t)count * size);
	return TOMOS_OK;
}

tomos_status mem_grow(void *list, int64_t count, int64_t *capacity, size_t size, const char *what)
{
	if (count < *capacity)
		return TOMOS_OK;
	void *old, *larger;
	int64_t wanted = 2 * *capacity + 16;
	memcpy(&old, list, sizeof old);
	TRY(mem_alloc(&larger, wanted, size, what));
	if (old)
		memcpy(larger, old, (size_t)count * size);
	mem_free(old);
	memcpy(list, &larger, sizeof larger);
	*capacity = wanted;
	return TOMOS_OK;
}

tomos_status mem_text(char **out, const char *text)
{
	size_t length = strlen(text) + 1;
	TRY(mem_alloc(out, (int64_t)length, 1, "a text"));
	memcpy(*out, text, length);
	return TOMOS_OK;
}

tomos_status mem_printf(char **out, const char *format, ...)
{
	va_list list;
	va_start(list, format);
	int length = vsnprintf(NULL, 0, format, list);
	va_end(list);
	if (length < 0)
		return fail(TOMOS_BAD_VALUE, "a text cannot be formatted");
	TRY(mem_alloc(out, length + 1, 1, "a text"));
	va_start(list, format);
	vsnprintf(*out, (size_t)length + 1, format, list);
	va_end(list);
	return TOMOS_OK;
}

void mem_free(void *pointer)
{
	if (pointer)
		live_blocks--;
	free(pointer);
}
