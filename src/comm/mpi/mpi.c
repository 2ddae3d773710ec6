/* Communicators on MPI, compiled once for each implementation. Waiting processes sleep, so that
 * ranks that share a core do not take it from those that compute. */
#include <mpi.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "comm/comm.h"

enum {
	/* Bytes of a piece of a message, and of the longest piece, as counts are of type int. MPI
	 * has few packets of a piece under way, so that with many pieces it waits less. */
	PIECE = 1 << 20,
	LONGEST_PIECE = 1 << 30,
	PIECES = 256,      /* of a message, unless they would get too long */
	LOOKS = 2000,      /* before a waiting process yields its core */
	LONGEST = 1000000, /* nanoseconds of sleep */
};

#define AWAKE 1e-3 /* seconds before a waiting process sleeps, */
#define DOZE 0.01  /* and time of each sleep, relative to that it has waited */

typedef struct {
	MPI_Comm world, aside; /* aside: for `meet` */
	bool started;          /* MPI was started here, and is to be ended here */
} Mpi;

static const CommHost *host;

static tomos_status failed(int code, const char *what)
{
	char reason[MPI_MAX_ERROR_STRING + 1] = "", message[sizeof reason + 64];
	int length;
	MPI_Error_string(code, reason, &length);
	snprintf(message, sizeof message, "MPI, %s: %s", what, reason);
	host->set_message(message);
	return TOMOS_IO;
}

#define TRY_MPI(call, what) \
	do { \
		int try_code = (call); \
		if (try_code != MPI_SUCCESS) \
			return failed(try_code, what); \
	} while (0)

/* Messages move on only when a process looks, so that sleep is short at first. */
static void pause_waiting(int64_t looks, double waited)
{
	if (looks < LOOKS)
		return;
	if (waited < AWAKE) {
		sched_yield();
		return;
	}
	double rest = 1e9 * DOZE * waited;
	const struct timespec time = {.tv_nsec = rest < LONGEST ? (long)rest : LONGEST};
	nanosleep(&time, NULL);
}

/* The number of requests that were complete when the time was over. */
static tomos_status wait_until(
	MPI_Request *list, int count, double end, int *complete, const char *what)
{
	int64_t looks = 0;
	double since = 0;
	for (*complete = 0; *complete < count; looks++) {
		int done = 0;
		TRY_MPI(MPI_Test(&list[*complete], &done, MPI_STATUS_IGNORE), what);
		*complete += done;
		if (done || looks < LOOKS) {
			looks = done ? 0 : looks;
			continue;
		}
		double now = MPI_Wtime();
		since = looks == LOOKS ? now : since;
		if (now > end)
			return TOMOS_OK;
		pause_waiting(looks, now - since);
	}
	return TOMOS_OK;
}

static tomos_status wait_for(MPI_Request *list, int count, const char *what)
{
	int complete;
	return wait_until(list, count, HUGE_VAL, &complete, what);
}

/* ---- opening -------------------------------------------------------------------------------- */

/* The first line of the library's own description, up to its first comma or line. */
static void describe(tomos_comm *comm)
{
	char text[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
	int length = 0;
	if (MPI_Get_library_version(text, &length) != MPI_SUCCESS)
		return;
	for (char *c = text; *c; c++)
		if (*c == '\t')
			*c = ' ';
	snprintf(comm->description, sizeof comm->description,
		"%.*s: rank %d of %d, %d of %d here, %d core%s", (int)strcspn(text, ",\n"), text,
		comm->rank, comm->size, comm->local_rank, comm->local_size, comm->cores,
		comm->cores == 1 ? "" : "s");
}

/* A core that several ranks may use counts for each of them in parts. */
static tomos_status find_cores(tomos_comm *comm, MPI_Comm local)
{
	int users[CPU_SETSIZE] = {0};
	double share = 1e-6; /* of rounding */
	cpu_set_t mine;
	CPU_ZERO(&mine);
	bool known = sched_getaffinity(0, sizeof mine, &mine) == 0;
	for (int i = 0; i < CPU_SETSIZE; i++)
		users[i] = CPU_ISSET(i, &mine) != 0;
	TRY_MPI(MPI_Allreduce(MPI_IN_PLACE, users, CPU_SETSIZE, MPI_INT, MPI_SUM, local),
		"the cores of ranks");
	for (int i = 0; i < CPU_SETSIZE; i++)
		share += CPU_ISSET(i, &mine) ? 1.0 / users[i] : 0;
	if (!known) /* more cores than a set has places for */
		share = (double)sysconf(_SC_NPROCESSORS_ONLN) / comm->local_size;
	comm->cores = share < 1 ? 1 : (int)share;
	return TOMOS_OK;
}

static tomos_status find_local(tomos_comm *comm, MPI_Comm world)
{
	MPI_Comm local;
	TRY_MPI(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, comm->rank, MPI_INFO_NULL, &local),
		"the ranks of a machine");
	TRY_MPI(MPI_Comm_rank(local, &comm->local_rank), "the ranks of a machine");
	TRY_MPI(MPI_Comm_size(local, &comm->local_size), "the ranks of a machine");
	comm->node = comm->rank;
	TRY_MPI(MPI_Bcast(&comm->node, 1, MPI_INT, 0, local), "the ranks of a machine");
	tomos_status status = find_cores(comm, local);
	TRY_MPI(MPI_Comm_free(&local), "the ranks of a machine");
	return status;
}

static tomos_status start(tomos_comm *comm, Mpi *own)
{
	int running = 0, level = MPI_THREAD_SINGLE;
	TRY_MPI(MPI_Initialized(&running), "start");
	if (!running)
		TRY_MPI(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level), "start");
	own->started = !running;
	TRY_MPI(MPI_Query_thread(&level), "start");
	comm->one_thread = level < MPI_THREAD_SERIALIZED;
	return TOMOS_OK;
}

static tomos_status take_world(tomos_comm *comm, Mpi *own, const void *handle)
{
	MPI_Comm given = MPI_COMM_WORLD;
	if (handle)
		memcpy(&given, handle, sizeof given);
	TRY_MPI(MPI_Comm_dup(given, &own->world), "a communicator");
	TRY_MPI(MPI_Comm_dup(given, &own->aside), "a communicator");
	TRY_MPI(MPI_Comm_set_errhandler(own->world, MPI_ERRORS_RETURN), "a communicator");
	TRY_MPI(MPI_Comm_set_errhandler(own->aside, MPI_ERRORS_RETURN), "a communicator");
	TRY_MPI(MPI_Comm_rank(own->world, &comm->rank), "the number of a rank");
	TRY_MPI(MPI_Comm_size(own->world, &comm->size), "the number of ranks");
	return find_local(comm, own->world);
}

static tomos_status mpi_open(tomos_comm *comm, const void *handle)
{
	Mpi *own;
	tomos_status status = host->zeroed(&own, 1, sizeof *own, "a communicator");
	if (status == TOMOS_OK)
		status = start(comm, own);
	if (status == TOMOS_OK)
		status = take_world(comm, own, handle);
	comm->own = own;
	describe(comm);
	return status;
}

static void mpi_close(tomos_comm *comm)
{
	Mpi *own = comm->own;
	int ended = 0;
	MPI_Finalized(&ended);
	if (!ended) {
		MPI_Comm_free(&own->aside);
		MPI_Comm_free(&own->world);
	}
	if (!ended && own->started)
		MPI_Finalize();
	host->release(own);
}

/* ---- messages ------------------------------------------------------------------------------- */

static tomos_status mpi_gather(tomos_comm *comm, const void *mine, int64_t bytes, void *all)
{
	const Mpi *own = comm->own;
	MPI_Request request;
	if (bytes > INT_MAX) {
		host->set_message("MPI: too many bytes are gathered at once");
		return TOMOS_BAD_VALUE;
	}
	TRY_MPI(MPI_Iallgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, own->world,
			&request),
		"a gather");
	return wait_for(&request, 1, "a gather");
}

static tomos_status mpi_broadcast(tomos_comm *comm, void *data, int64_t bytes)
{
	const Mpi *own = comm->own;
	for (int64_t at = 0; at < bytes; at += LONGEST_PIECE) {
		MPI_Request request;
		TRY_MPI(MPI_Ibcast((char *)data + at, (int)min64(LONGEST_PIECE, bytes - at),
				MPI_BYTE, 0, own->world, &request),
			"a broadcast");
		tomos_status status = wait_for(&request, 1, "a broadcast");
		if (status != TOMOS_OK)
			return status;
	}
	return TOMOS_OK;
}

static int64_t piece_of(int64_t bytes)
{
	return min64(LONGEST_PIECE, max64(PIECE, (bytes + PIECES - 1) / PIECES));
}

static tomos_status begin_message(
	const Mpi *own, const CommMessage *m, MPI_Request *list, int *used)
{
	int64_t piece = piece_of(m->bytes);
	for (int64_t at = 0; at < m->bytes; at += piece) {
		char *data = (char *)m->data + at;
		int bytes = (int)min64(piece, m->bytes - at);
		TRY_MPI(m->send ? MPI_Isend(data, bytes, MPI_BYTE, m->rank, 0, own->world,
					  &list[*used])
				: MPI_Irecv(data, bytes, MPI_BYTE, m->rank, 0, own->world,
					  &list[*used]),
			m->send ? "sending" : "receiving");
		*used += 1;
	}
	return TOMOS_OK;
}

static tomos_status mpi_exchange(tomos_comm *comm, const CommMessage *list, int64_t count)
{
	MPI_Request *requests;
	int64_t most = 0;
	int used = 0;
	for (int64_t i = 0; i < count; i++)
		most += (list[i].bytes + piece_of(list[i].bytes) - 1) / piece_of(list[i].bytes);
	if (most == 0)
		return TOMOS_OK;
	tomos_status status = host->zeroed(&requests, most, sizeof *requests, "messages");
	if (status != TOMOS_OK)
		return status;
	/* Receiving first: the messages then need no memory of MPI's own. */
	for (int send = 0; send < 2; send++)
		for (int64_t i = 0; i < count && status == TOMOS_OK; i++)
			if (list[i].send == (send == 1))
				status = begin_message(comm->own, &list[i], requests, &used);
	if (status == TOMOS_OK)
		status = wait_for(requests, used, "messages");
	host->release(requests);
	return status;
}

static tomos_status mpi_wait(tomos_comm *comm)
{
	const Mpi *own = comm->own;
	MPI_Request request;
	TRY_MPI(MPI_Ibarrier(own->world, &request), "waiting for all ranks");
	return wait_for(&request, 1, "waiting for all ranks");
}

static tomos_status mpi_meet(
	tomos_comm *comm, const void *mine, int64_t bytes, void *all, double seconds, bool *met)
{
	const Mpi *own = comm->own;
	MPI_Request request;
	int complete = 0;
	TRY_MPI(MPI_Iallgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, own->aside,
			&request),
		"what ranks report");
	tomos_status status =
		wait_until(&request, 1, MPI_Wtime() + seconds, &complete, "what ranks report");
	*met = complete == 1;
	return status;
}

static void mpi_abort(tomos_comm *comm, int code)
{
	const Mpi *own = comm->own;
	/* All processes end here, so that nothing else can report the failure. */
	fprintf(stderr, "tomos: rank %d of %d: %s\n", comm->rank, comm->size, host->message());
	fflush(stderr);
	MPI_Abort(own->world, code);
}

static void mpi_look(tomos_comm *comm)
{
	const Mpi *own = comm->own;
	int there;
	MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, own->aside, &there, MPI_STATUS_IGNORE);
}

static const CommType mpi_type = {mpi_open, mpi_close, mpi_gather, mpi_broadcast, mpi_exchange,
	mpi_wait, mpi_meet, mpi_abort, mpi_look};

__attribute__((visibility("default"))) ModuleEntry tomos_comm_module;

const void *tomos_comm_module(const void *given)
{
	const CommHost *library = given;
	if (strcmp(library->version, TOMOS_VERSION) != 0)
		return NULL;
	host = library;
	return &mpi_type;
}
