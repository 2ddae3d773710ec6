/* Allocations that fail on demand, selected by the library that requests them. */
#include "fault_calls.h"
#include <stdlib.h>

#define HERE __builtin_return_address(0)

void *malloc(size_t bytes)
{
	FAULT_NEXT(malloc)
	return fault_memory("malloc", HERE) ? NULL : next(bytes);
}

void *calloc(size_t count, size_t bytes)
{
	FAULT_NEXT(calloc)
	return fault_memory("calloc", HERE) ? NULL : next(count, bytes);
}

void *realloc(void *old, size_t bytes)
{
	FAULT_NEXT(realloc)
	return fault_memory("realloc", HERE) ? NULL : next(old, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
	FAULT_NEXT(aligned_alloc)
	return fault_memory("aligned_alloc", HERE) ? NULL : next(alignment, bytes);
}

char *strdup(const char *text)
{
	FAULT_NEXT(strdup)
	return fault_memory("strdup", HERE) ? NULL : next(text);
}
