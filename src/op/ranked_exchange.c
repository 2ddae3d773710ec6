/* Detector rows that slabs exchange: which, through which memory, and the messages, which are sent
 * for some views while others are projected. */
#include <pthread.h>
#include <stdio.h>
#include "op/ranked_parts.h"

int rows_chunks(const Ranked *r, int64_t views, int slabs)
{
	return slabs == 1 ? 1 : (int)max64(1, min64(MOST_CHUNKS, views / r->chunk_views));
}

/* ---- lists ---------------------------------------------------------------------------------- */

static tomos_status add_stretch(Stretches *s, const Stretch *one)
{
	if (one->count == 0)
		return TOMOS_OK;
	TRY(mem_grow(&s->list, s->count, &s->capacity, sizeof *s->list, "rows of other ranks"));
	s->list[s->count++] = *one;
	s->rows += one->count;
	return TOMOS_OK;
}

/* What this slab and slab `other` exchange in a view. */
static tomos_status add_view(
	RowExchange *x, const Bands *b, int slab, int other, int64_t view, int64_t first)
{
	const RowBand own = bands_own(b, slab, view);
	const RowBand out = band_meet(bands_reach(b, slab, view), bands_own(b, other, view));
	const RowBand in = band_meet(bands_reach(b, other, view), own);
	const Stretch reached = {
		other, view, out.low - first, out.low - own.low, out.high - out.low};
	const Stretch owned = {other, view, in.low - first, in.low - own.low, in.high - in.low};
	TRY(add_stretch(&x->reached, &reached));
	return other == slab ? TOMOS_OK : add_stretch(&x->owned, &owned);
}

static void end_chunk(Stretches *s, int chunk)
{
	s->starts[chunk + 1] = (ChunkStart){s->count, s->rows};
}

tomos_status rows_find(RowExchange *x, const Bands *b, int slab, const int64_t *first)
{
	for (int c = 0; c < x->chunks; c++) {
		const ViewRange views = rows_chunk(x, c);
		for (int other = 0; other < b->slabs; other++)
			for (int64_t i = views.first; i < views.first + views.count; i++)
				TRY(add_view(x, b, slab, other, i, first[i]));
		end_chunk(&x->reached, c);
		end_chunk(&x->owned, c);
	}
	return TOMOS_OK;
}

bool rows_own(const Bands *b, const int64_t *first, int64_t rows)
{
	bool same = b->slabs == 1;
	for (int64_t i = 0; i < b->scan->count && same; i++) {
		const RowBand own = bands_own(b, 0, i), reach = bands_reach(b, 0, i);
		same = own.low == first[i] && own.high == first[i] + rows && reach.low <= own.low &&
		       reach.high >= own.high;
	}
	return same;
}

/* Those of view `from` of all stretches, for slab `slab`. */
static tomos_status copy_stretches(
	Stretches *part, const Stretches *whole, int slab, int64_t from, int64_t to)
{
	for (int64_t k = 0; k < whole->count; k++) {
		Stretch one = whole->list[k];
		if (one.view != from || one.slab != slab)
			continue;
		one.view = to;
		TRY(add_stretch(part, &one));
	}
	return TOMOS_OK;
}

tomos_status rows_part(RowExchange *x, const RowExchange *whole, const int64_t *views)
{
	for (int c = 0; c < x->chunks; c++) {
		const ViewRange part = rows_chunk(x, c);
		for (int slab = 0; slab < x->slabs; slab++)
			for (int64_t i = part.first; i < part.first + part.count; i++) {
				TRY(copy_stretches(
					&x->reached, &whole->reached, slab, views[i], i));
				TRY(copy_stretches(&x->owned, &whole->owned, slab, views[i], i));
			}
		end_chunk(&x->reached, c);
		end_chunk(&x->owned, c);
	}
	return TOMOS_OK;
}

tomos_status rows_buffers(RowExchange *x)
{
	TRY(mem_alloc(&x->reached.host, max64(1, x->reached.rows * x->columns), sizeof(float),
		"rows for other ranks"));
	TRY(mem_alloc(&x->owned.host, max64(1, x->owned.rows * x->columns), sizeof(float),
		"rows of other ranks"));
	return mem_alloc(&x->messages, 2 * x->slabs, sizeof *x->messages, "messages");
}

void rows_free(RowExchange *x)
{
	mem_free(x->reached.list);
	mem_free(x->reached.host);
	mem_free(x->owned.list);
	mem_free(x->owned.host);
	mem_free(x->messages);
}

/* ---- messages ------------------------------------------------------------------------------- */

/* One message for each slab with which rows of the chunk are exchanged. */
static int64_t list_messages(
	const RowExchange *x, const Stretches *s, int chunk, bool send, CommMessage *list)
{
	int64_t count = 0, before = s->starts[chunk].row;
	int slab = slab_number(&x->group), member = slab_member(&x->group), last = -1;
	for (int64_t i = s->starts[chunk].index; i < s->starts[chunk + 1].index; i++) {
		const Stretch *one = &s->list[i];
		int64_t bytes = one->count * x->columns * (int64_t)sizeof(float);
		if (one->slab != slab && one->slab == last)
			list[count - 1].bytes += bytes;
		else if (one->slab != slab)
			list[count++] = (CommMessage){one->slab * x->group.ranks + member, send,
				s->host + before * x->columns, bytes};
		last = one->slab;
		before += one->count;
	}
	return count;
}

static void *send_all(void *user)
{
	RowExchange *x = user;
	x->status = ranked_exchange(x->ranked, x->messages, x->count);
	if (x->status != TOMOS_OK) /* messages are those of a thread */
		snprintf(x->message, sizeof x->message, "%s", tomos_message());
	return NULL;
}

void rows_send(RowExchange *x, int chunk, bool forward)
{
	if (x->slabs == 1) /* on all ranks, of which some may not come here */
		return;
	x->count = list_messages(x, &x->reached, chunk, forward, x->messages);
	x->count += list_messages(x, &x->owned, chunk, !forward, x->messages + x->count);
	bool alone = x->ranked->waits || x->chunks == 1;
	x->begun = !alone && pthread_create(&x->thread, NULL, send_all, x) == 0;
	if (!x->begun)
		send_all(x);
}

tomos_status rows_wait(RowExchange *x)
{
	if (x->begun)
		pthread_join(x->thread, NULL);
	x->begun = false;
	return x->status == TOMOS_OK ? TOMOS_OK : fail(x->status, "%s", x->message);
}
