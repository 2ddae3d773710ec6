/* Transfers between host memory and a device through a ring of pinned pieces. */
#include "run/ring.h"
#include <stdatomic.h>

enum {
	PAGES = 2 << 20,        /* memory is taken in pages of this size */
	LEAST_PINNED = 33 << 20 /* smaller memory cannot be pinned */
};

static void touch_page(void *user, int64_t i)
{
	((volatile char *)user)[i * PAGES] = 0;
}

int64_t ring_bytes(int64_t piece, int slots)
{
	return max64(piece * slots, LEAST_PINNED);
}

/* Pages are taken by all threads first: pinning would take them one by one. A device that cannot
 * pin the memory copies from it all the same. */
tomos_status ring_open(
	Ring *r, tomos_backend *backend, CopyDirection direction, int64_t piece, int slots)
{
	int64_t bytes = ring_bytes(piece, slots);
	*r = (Ring){.backend = backend, .direction = direction, .piece = piece, .slots = slots};
	TRY(mem_alloc(&r->memory, bytes, 1, "memory for transfers"));
	parallel_for(bytes / PAGES, touch_page, r->memory);
	const BackendMemory *memory = backend->type->memory;
	r->pinned = memory->pin && memory->pin(backend, (float *)(void *)r->memory,
					   bytes / (int64_t)sizeof(float)) == TOMOS_OK;
	return TOMOS_OK;
}

static tomos_status slot_wait(Ring *r, int slot)
{
	if (!r->busy[slot])
		return TOMOS_OK;
	r->busy[slot] = false;
	return r->backend->type->memory->copy_end(
		r->backend, r->direction, slot, &r->seconds[slot]);
}

static tomos_status slot_copy(Ring *r, int slot, const RingJob *job, int64_t first, int64_t count)
{
	r->busy[slot] = true;
	return r->backend->type->memory->copy_begin(r->backend, r->direction, slot,
		job->device + first * job->bytes, r->memory + slot * r->piece, count * job->bytes);
}

void ring_close(Ring *r)
{
	if (!r->memory)
		return;
	for (int i = 0; i < r->slots; i++)
		(void)slot_wait(r, i);
	if (r->pinned)
		r->backend->type->memory->unpin(r->backend, (float *)(void *)r->memory);
	mem_free(r->memory);
	r->memory = NULL;
}

double ring_seconds(const Ring *r)
{
	double sum = 0;
	for (int i = 0; i < r->slots; i++)
		sum += r->seconds[i];
	return sum;
}

/* Items of a piece. */
static int64_t piece_items(const Ring *r, const RingJob *job)
{
	int64_t most = max64(1, r->piece / job->bytes), group = max64(1, job->group);
	return most > group ? most / group * group : most;
}

tomos_status ring_upload(Ring *r, const RingJob *job)
{
	int64_t most = piece_items(r, job);
	int slot = 0;
	for (int64_t first = 0; first < job->count; first += most, slot = (slot + 1) % r->slots) {
		int64_t count = min64(most, job->count - first);
		TRY(slot_wait(r, slot));
		TRY(job->task(job->user, first, count, r->memory + slot * r->piece));
		TRY(slot_copy(r, slot, job, first, count));
	}
	for (int i = 0; i < r->slots; i++)
		TRY(slot_wait(r, i));
	r->bytes += (double)job->count * (double)job->bytes;
	return TOMOS_OK;
}

/* ---- downloads ------------------------------------------------------------------------------- */

typedef struct {
	Ring *ring;
	const RingJob *job;
	int64_t most; /* items of a piece */
	_Atomic int64_t next;
} Download;

/* Begins to copy the next piece into a slot; *first: its first item, or -1 where none is left. */
static tomos_status take_piece(Download *d, int slot, int64_t *first)
{
	const RingJob *job = d->job;
	*first = atomic_fetch_add(&d->next, d->most);
	if (*first >= job->count) {
		*first = -1;
		return TOMOS_OK;
	}
	return slot_copy(d->ring, slot, job, *first, min64(d->most, job->count - *first));
}

/* A thread has two slots: the piece in one is written while the other is filled. */
static tomos_status download_pieces(void *user, int64_t worker)
{
	Download *d = user;
	const RingJob *job = d->job;
	int slot = 2 * (int)worker;
	int64_t first, after;
	TRY(take_piece(d, slot, &first));
	while (first >= 0) {
		TRY(take_piece(d, slot ^ 1, &after));
		TRY(slot_wait(d->ring, slot));
		TRY(job->task(job->user, first, min64(d->most, job->count - first),
			d->ring->memory + slot * d->ring->piece));
		first = after;
		slot ^= 1;
	}
	return TOMOS_OK;
}

tomos_status ring_download(Ring *r, const RingJob *job)
{
	Download d = {.ring = r, .job = job, .most = piece_items(r, job)};
	TRY(parallel_each(r->slots / 2, r->slots / 2, download_pieces, &d, "writing"));
	r->bytes += (double)job->count * (double)job->bytes;
	return TOMOS_OK;
}
