/* Planes of constant x: their samples are far apart in a file, and reading one of them brings its
 * neighbours along. So RUN planes are read at once and kept for the next requests. */
#include <stdlib.h>
#include <string.h>
#include "source.h"

enum { RUN = 16, LEAST = 4096, LARGEST = 512 * 512 }; /* planes; samples of one */
#define MOST_BYTES ((int64_t)512 << 20)

/* ---- planes that are kept -------------------------------------------------------------------- */

typedef enum block_state { EMPTY, LOADING, LOADED } block_state;

struct view_block {
	view_block *next;
	view_request box; /* first, count and step; RUN planes, fewer at the end of the rows */
	block_state state;
	float *planes; /* [x][z][y] */
	int64_t bytes, used;
};

static bool is_same(const view_request *a, const view_request *b)
{
	return a->level == b->level && memcmp(a->first, b->first, sizeof a->first) == 0 &&
	       memcmp(a->count, b->count, sizeof a->count) == 0 &&
	       memcmp(a->step, b->step, sizeof a->step) == 0;
}

static view_block *find_block(const view_columns *c, const view_request *box)
{
	view_block *b = c->blocks;
	while (b && (b->state == EMPTY || !is_same(&b->box, box)))
		b = b->next;
	return b;
}

static void empty(view_columns *c, view_block *b)
{
	free(b->planes);
	c->bytes -= b->bytes;
	b->planes = NULL;
	b->bytes = 0;
	b->state = EMPTY;
}

static view_block *least_used(const view_columns *c)
{
	view_block *found = NULL;
	for (view_block *b = c->blocks; b; b = b->next)
		if (b->state == LOADED && (!found || b->used < found->used))
			found = b;
	return found;
}

/* A block for the caller to fill, or NULL where others that are being read take all the memory. */
static view_block *new_block(view_columns *c, const view_request *box)
{
	int64_t bytes = box->count[0] * box->count[1] * box->count[2] * (int64_t)sizeof(float);
	for (view_block *old; c->bytes + bytes > MOST_BYTES && (old = least_used(c));)
		empty(c, old);
	view_block *b = c->blocks;
	while (b && b->state != EMPTY)
		b = b->next;
	if (c->bytes + bytes > MOST_BYTES || (!b && !(b = calloc(1, sizeof *b))))
		return NULL;
	if (!b->box.count[0]) { /* it is new */
		b->next = c->blocks;
		c->blocks = b;
	}
	b->box = *box;
	b->state = LOADING;
	b->bytes = bytes;
	c->bytes += bytes;
	return b;
}

void columns_free(view_columns *c)
{
	while (c->blocks) {
		view_block *b = c->blocks;
		c->blocks = b->next;
		free(b->planes);
		free(b);
	}
}

/* ---- reading --------------------------------------------------------------------------------- */

/* From samples of RUN neighbours to planes, in tiles that stay in the cache. */
static void transpose(const float *rows, int64_t count, int64_t wide, float *planes)
{
	for (int64_t start = 0; start < count; start += 256) {
		int64_t end = start + 256 < count ? start + 256 : count;
		for (int64_t x = 0; x < wide; x++)
			for (int64_t i = start; i < end; i++)
				planes[x * count + i] = rows[i * wide + x];
	}
}

static tomos_status load(view_source *s, view_block *b)
{
	int64_t count = b->box.count[0] * b->box.count[1], wide = b->box.count[2];
	float *rows = malloc((size_t)b->bytes);
	b->planes = malloc((size_t)b->bytes);
	tomos_status status = rows && b->planes ? file_box(s, &b->box, rows) : TOMOS_NO_MEMORY;
	if (status == TOMOS_OK)
		transpose(rows, count, wide, b->planes);
	free(rows);
	return status;
}

/* The block that has the plane, read by this or another request; NULL: *status says why, or it is
 * TOMOS_OK and the plane is to be read alone. Called and left with the lock. */
static view_block *get_block(view_source *s, const view_request *box, tomos_status *status)
{
	view_columns *c = &s->columns;
	view_block *b;
	*status = TOMOS_OK;
	while ((b = find_block(c, box)) && b->state == LOADING)
		pthread_cond_wait(&c->loaded, &c->lock);
	if (b || !(b = new_block(c, box)))
		return b;
	pthread_mutex_unlock(&c->lock);
	*status = load(s, b);
	pthread_mutex_lock(&c->lock);
	b->state = LOADED;
	if (*status != TOMOS_OK) {
		empty(c, b);
		b = NULL;
	}
	if (*status == TOMOS_NO_MEMORY) /* one plane may still fit */
		*status = TOMOS_OK;
	pthread_cond_broadcast(&c->loaded);
	return b;
}

bool columns_apply(const view_source *s, const view_request *r)
{
	int64_t count = r->count[0] * r->count[1];
	const int64_t *n = s->levels[r->level].shape;
	return r->count[2] == 1 && count >= LEAST && count <= LARGEST && r->first[2] >= 0 &&
	       r->first[2] < n[2];
}

tomos_status columns_read(view_source *s, const view_request *r, float *data)
{
	view_columns *c = &s->columns;
	int64_t count = r->count[0] * r->count[1], all = s->levels[r->level].shape[2];
	view_request box = *r;
	tomos_status status;
	box.first[2] -= box.first[2] % RUN;
	box.count[2] = all - box.first[2] < RUN ? all - box.first[2] : RUN;
	box.step[2] = 1;
	pthread_mutex_lock(&c->lock);
	view_block *b = get_block(s, &box, &status);
	if (b) {
		b->used = ++c->clock;
		memcpy(data, b->planes + (r->first[2] - box.first[2]) * count,
			(size_t)count * sizeof *data);
	}
	pthread_mutex_unlock(&c->lock);
	return b || status != TOMOS_OK ? status : file_box(s, r, data);
}
