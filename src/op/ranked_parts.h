/* Internal: the backend of vectors that are distributed over ranks. */
#ifndef TOMOS_OP_RANKED_PARTS_H
#define TOMOS_OP_RANKED_PARTS_H

#include <pthread.h>
#include "base/team.h"
#include "op/ranked.h"
#include "op/slab_group.h"

typedef struct {
	tomos_backend base; /* first: a pointer to it is one to the whole */
	BackendCopy copy;
	tomos_backend *inner;
	tomos_comm *comm;
	bool half;           /* rows are sent in half precision */
	double rounding[2];  /* squares: of its errors, and of the values that were sent */
	int64_t chunk_views; /* least number of views whose rows are sent at once */
	bool waits;          /* for each message before the next computation */
} Ranked;

static inline const Ranked *ranked_of(const tomos_backend *b)
{
	return (const Ranked *)(const void *)b;
}

static inline Ranked *ranked_change(tomos_backend *b)
{
	return (Ranked *)(void *)b;
}

/* The first row of the band in each view, and the number of its rows. */
int64_t ranked_band(const Bands *bands, int slab, int64_t *first);

enum { MOST_CHUNKS = 4, CHUNK_VIEWS = 16 };

/* Rows of a view that this slab and another have in common; numbered within what each stores. */
typedef struct {
	int slab;
	int64_t view;
	int64_t band, own; /* first row in the band of this slab, or among the rows it owns */
	int64_t count;
} Stretch;

/* The first stretch of a chunk of views, and the number of rows before it. */
typedef struct {
	int64_t index, row;
} ChunkStart;

typedef struct {
	Stretch *list; /* in the order of the chunks, and of the slabs in each */
	int64_t count, capacity;
	int64_t rows; /* of all */
	float *host;  /* for these rows */
	ChunkStart starts[MOST_CHUNKS + 1];
} Stretches;

typedef struct {
	Ranked *ranked;
	SlabGroup group; /* ranks of this slab */
	int slabs, chunks;
	bool own; /* there is one slab, whose band in every view is the rows that it owns */
	int64_t views, columns;
	Stretches reached; /* rows of the band, with the slabs that own them, this one included */
	Stretches owned;   /* rows that this slab owns and others reach */
	CommMessage *messages; /* of the chunk that is under way */
	int64_t count;
	pthread_t thread;
	bool begun;
	tomos_status status;
	char message[512];
} RowExchange;

typedef struct {
	int64_t first, count;
} ViewRange;

/* The views of a chunk. */
static inline ViewRange rows_chunk(const RowExchange *x, int chunk)
{
	int64_t first = x->views * chunk / x->chunks;
	return (ViewRange){first, x->views * (chunk + 1) / x->chunks - first};
}

/* Their number: each costs a pass over the slab. One slab sends no rows. */
int rows_chunks(const Ranked *r, int64_t views, int slabs);
/* Which rows are exchanged. rows_find: those of all views; the band of view i begins with row
 * first[i]. rows_part: those of some views of another exchange. */
tomos_status rows_find(RowExchange *x, const Bands *bands, int slab, const int64_t *first);
bool rows_own(const Bands *bands, const int64_t *first, int64_t rows);
tomos_status rows_part(RowExchange *x, const RowExchange *whole, const int64_t *views);
tomos_status rows_buffers(RowExchange *x);
void rows_free(RowExchange *x);
/* Rows of a chunk of the band to their owners (forward), or rows of this rank to those that need
 * them, in a thread of its own until rows_wait. No other message may be sent meanwhile. */
void rows_send(RowExchange *x, int chunk, bool forward);
tomos_status rows_wait(RowExchange *x);

/* Ranks of one machine that share the only slab, which owns all rows: the slab and the projections
 * of all of them in shared memory, and the team that projects them. */
typedef struct {
	SlabGroup group;
	const int64_t *edges; /* borrowed: which slices each rank has */
	int64_t view;         /* the first of this rank */
	Plan plan;            /* of all views */
	int kernels[2];       /* forward, back */
	Box box;
	CommShared *shared; /* NULL: there is no team */
	Team team;
	float *volume, *projections;
} TeamProjector;

/* The first members of `team` are set, those after the plan's views excepted. There is no team
 * where the kernels of the backend are not those of several processes. */
tomos_status team_open(
	TeamProjector *team, const Bands *bands, const KernelModel *model, bool plain);
void team_close(TeamProjector *team);
tomos_status team_forward(
	const TeamProjector *team, const tomos_op *op, int power, const float *x, float *y);
tomos_status team_adjoint(
	const TeamProjector *team, const tomos_op *op, int power, const float *y, float *x);
tomos_status team_row_sums(const TeamProjector *team, const tomos_op *op, const float *x, float *y);

/* comm_exchange of floats, in the precision that is set. */
tomos_status ranked_exchange(Ranked *r, const CommMessage *list, int64_t count);

#endif
