/* Pinned memory between files and a device, used piece by piece: while one piece is read or
 * written, others are copied. */
#ifndef TOMOS_RUN_RING_H
#define TOMOS_RUN_RING_H

#include "backend/backend.h"

typedef struct {
	tomos_backend *backend;
	CopyDirection direction;
	char *memory; /* slots pieces of `piece` bytes; NULL: not open */
	int64_t piece;
	int slots;
	bool pinned, busy[COPY_SLOTS]; /* busy: a copy is under way */
	double seconds[COPY_SLOTS];    /* of the copies */
	double bytes;
} Ring;

/* Items of `bytes` bytes that follow each other in device memory; `task` reads or writes `count` of
 * them, from `first` on, in host memory. */
typedef struct {
	char *device;
	int64_t count, bytes;
	int64_t group; /* pieces are multiples of this number of items, where these fit */
	tomos_status (*task)(void *user, int64_t first, int64_t count, char *host);
	void *user;
} RingJob;

/* The memory that a ring takes. */
int64_t ring_bytes(int64_t piece, int slots);
tomos_status ring_open(
	Ring *ring, tomos_backend *backend, CopyDirection direction, int64_t piece, int slots);
void ring_close(Ring *ring); /* waits for copies that are under way */
/* The task runs in this thread, and may use others. All is on the device when it returns. */
tomos_status ring_upload(Ring *ring, const RingJob *job);
/* The task runs in several threads, one for every two slots. */
tomos_status ring_download(Ring *ring, const RingJob *job);
double ring_seconds(const Ring *ring);

#endif
