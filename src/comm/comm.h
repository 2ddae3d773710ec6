/* Ranks: processes that do one job together, started by mpirun, srun or the like.
 *
 * A communicator of one rank needs nothing; NULL is one. MPI is in modules (mpi/mpi.c, one for each
 * implementation), which are loaded when a launcher has started the process. Calls are collective:
 * every rank makes the same ones, in the same order, from one thread. Sums are computed in the
 * order of the ranks, so that they are the same in every run and on every rank.
 */
#ifndef TOMOS_COMM_COMM_H
#define TOMOS_COMM_COMM_H

#include "base/base.h"

/* A message to or from another rank. */
typedef struct {
	int rank;
	bool send;
	void *data;
	int64_t bytes;
} CommMessage;

typedef struct {
	/* handle: an MPI_Comm; NULL: all processes of the job. */
	tomos_status (*open)(tomos_comm *comm, const void *handle);
	void (*close)(tomos_comm *comm);
	/* `bytes` bytes of every rank, in the order of the ranks. */
	tomos_status (*gather)(tomos_comm *comm, const void *mine, int64_t bytes, void *all);
	tomos_status (*broadcast)(tomos_comm *comm, void *data, int64_t bytes); /* of rank 0 */
	/* Several messages between the same two ranks arrive in the order of their lists. */
	tomos_status (*exchange)(tomos_comm *comm, const CommMessage *list, int64_t count);
	tomos_status (*wait)(tomos_comm *comm); /* until all ranks have called it */
	/* A gather that other calls do not disturb, so that some ranks may wait in it while others
	 * communicate. *met false: after `seconds` not all had come. NULL: as `gather`. */
	tomos_status (*meet)(tomos_comm *comm, const void *mine, int64_t bytes, void *all,
		double seconds, bool *met);
	void (*abort)(tomos_comm *comm, int code);
	/* Moves messages on that were sent before; NULL: they move on alone. */
	void (*look)(tomos_comm *comm);
} CommType;

struct tomos_comm {
	const CommType *type;
	int rank, size;
	int local_rank, local_size; /* among the ranks on this machine */
	int cores;                  /* of this machine for this rank; 0: not known */
	int node;                   /* the first of these */
	bool one_thread;            /* only the thread that opened it may communicate */
	char description[160];
	double sent;     /* bytes of messages to other ranks */
	double shared;   /* bytes of other ranks that were read in memory that they share */
	double gathered; /* bytes of gathers and broadcasts that other ranks have received */
	void *room; /* ROOM bytes for each rank: a buffer for gathers, if memory is exhausted */
	void *own;
};

enum { ROOM = 512 };

/* Allocates what a communicator has besides its module. */
tomos_status comm_ready(tomos_comm *comm);

static inline int comm_rank(const tomos_comm *comm)
{
	return comm ? comm->rank : 0;
}

static inline int comm_size(const tomos_comm *comm)
{
	return comm ? comm->size : 1;
}

tomos_status comm_gather(tomos_comm *comm, const void *mine, int64_t bytes, void *all);
tomos_status comm_broadcast(tomos_comm *comm, void *data, int64_t bytes);
tomos_status comm_exchange(tomos_comm *comm, const CommMessage *list, int64_t count);
tomos_status comm_wait(tomos_comm *comm);
/* For a rank that waits for others in another way than by these calls: messages that it has sent
 * may move on only when it looks. */
void comm_look(tomos_comm *comm);
tomos_status comm_sum(tomos_comm *comm, double *values, int count);
tomos_status comm_largest(tomos_comm *comm, double *values, int count);
/* The status of the first rank that failed, with its message, on every rank. */
tomos_status comm_agree(tomos_comm *comm, tomos_status status);
/* The same after work in which ranks communicate. A rank that has failed alone, so that the others
 * wait for it there, ends the job. */
tomos_status comm_agree_or_abort(tomos_comm *comm, tomos_status status);

/* ---- memory of several ranks ---------------------------------------------------------------- */

typedef struct {
	void *data;
	int64_t bytes;
} CommPart;

/* Memory that each of several ranks offers to all of them. */
typedef struct {
	CommPart *parts;
	int count;
} CommShared;

/* Of every `count` ranks that follow each other; ranks may offer different numbers of bytes, or all
 * but the first none: its memory is then that of all, and allocated by them together.
 * *shared NULL, on all ranks: some of them are on different machines, or the system does not allow
 * it. */
tomos_status comm_share(tomos_comm *comm, int count, int64_t bytes, CommShared **shared);
void comm_share_free(CommShared *shared);

/* ---- modules -------------------------------------------------------------------------------- */

/* Functions of the library that modules call; they do not link with it. */
typedef struct {
	const char *version; /* of the library; a module must be of the same */
	void (*set_message)(const char *message);
	const char *(*message)(void);
	tomos_status (*zeroed)(void *pointer_out, int64_t count, size_t size, const char *what);
	void (*release)(void *pointer);
} CommHost;

#endif
