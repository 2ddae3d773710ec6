/* What the interposed calls share: which of them is to fail, counted over the whole process.
 *
 *   FAULT=KIND:N      the Nth call that KIND concerns fails. KIND is EIO (any file call), EACCES
 *                     (calls that name a file), ENOSPC (calls that write, from the Nth on), short
 *                     (reads and writes, which move half of the bytes) or memory (allocations)
 *   FAULT_UNDER=PATH  files whose absolute path begins so; relative paths always count
 *   FAULT_FROM=NAMES  memory: libraries and programs whose calls count, parts of their names,
 *                     separated by colons
 *   FAULT_LOG=PATH    gets the name of the call that failed, and the file it was about
 */
#ifndef TOMOS_TESTS_FAULTS_FAULT_CALLS_H
#define TOMOS_TESTS_FAULTS_FAULT_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef enum { FAULT_LOOKS, FAULT_NAMES, FAULT_READS, FAULT_WRITES, FAULT_MAKES } FaultCall;

/* Whether a call on that file is to fail; errno is set then. */
bool fault_file(const char *call, FaultCall kind, const char *path);
/* Whether a read or write is to transfer only half of its bytes. */
bool fault_short(const char *call, const char *path, size_t bytes);
/* Whether an allocation requested by the code at this address is to fail. */
bool fault_memory(const char *call, const void *from);
bool fault_concerns(const char *path);

/* The function that the interposed one replaces, looked up once. */
#define FAULT_NEXT(name) \
	static __typeof__(&name) next; \
	if (!next) { \
		void *found = fault_next(#name); \
		memcpy(&next, &found, sizeof found); \
	}
void *fault_next(const char *name);

#endif
