/* Communicators: one process, or the ranks of an MPI module. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "comm/comm.h"

/* ---- which module --------------------------------------------------------------------------- */

/* What launchers set, and the implementations that belong to them, the likelier first. */
static const struct {
	const char *variable, *first, *second;
} launchers[] = {
	{"OMPI_COMM_WORLD_SIZE", "openmpi", NULL},
	{"PMIX_RANK", "openmpi", "mpich"},
	{"PMI_RANK", "mpich", "openmpi"},
};

#define MODULES "openmpi|mpich"

static bool is_set(const char *variable)
{
	const char *value = getenv(variable);
	return value && *value;
}

static int launcher_index(void)
{
	int i = 0;
	while (i < COUNT(launchers) && !is_set(launchers[i].variable))
		i++;
	return i;
}

int tomos_comm_launched(void)
{
	const char *choice = getenv("TOMOS_MPI");
	const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
	if (choice && strcmp(choice, "none") == 0)
		return 0;
	return (choice && *choice) || launcher_index() < COUNT(launchers) ||
	       (tasks && strtol(tasks, NULL, 10) > 1);
}

/* ---- loading -------------------------------------------------------------------------------- */

static const CommHost host = {.version = TOMOS_VERSION,
	.set_message = module_set_message,
	.message = tomos_message,
	.zeroed = mem_zeroed,
	.release = mem_free};

/* The module stays open, as MPI cannot be started a second time. */
static tomos_status load_type(const char *name, const CommType **type)
{
	char what[64];
	snprintf(what, sizeof what, "MPI (%s)", name);
	return module_open(type, name, "tomos_comm_module", &host, what, TOMOS_UNSUPPORTED);
}

static tomos_status find_type(const char *name, const CommType **type)
{
	int i = launcher_index();
	if (name && *name && strcmp(name, "auto") != 0) {
		TRY(choice_find("MPI", MODULES, name, &i));
		return load_type(name, type);
	}
	if (i == COUNT(launchers))
		return fail(TOMOS_UNSUPPORTED,
			"several processes were started without MPI; with srun, use the option "
			"--mpi=pmix or --mpi=pmi2, whichever 'srun --mpi=list' has");
	tomos_status status = load_type(launchers[i].first, type);
	if (status != TOMOS_OK && launchers[i].second)
		status = load_type(launchers[i].second, type);
	return status;
}

/* ---- opening -------------------------------------------------------------------------------- */

tomos_status tomos_comm_open(tomos_comm **comm, const char *name, const void *handle)
{
	tomos_comm *made;
	const char *choice = name && *name ? name : getenv("TOMOS_MPI");
	*comm = NULL;
	TRY(mem_zeroed(&made, 1, sizeof *made, "a communicator"));
	made->size = made->local_size = 1;
	snprintf(made->description, sizeof made->description, "one process, without MPI");
	bool single = choice && strcmp(choice, "none") == 0;
	tomos_status status = TOMOS_OK;
	if (!single && (handle || tomos_comm_launched() || (name && *name)))
		status = find_type(choice, &made->type);
	if (status == TOMOS_OK && made->type)
		status = made->type->open(made, handle);
	bool opened = status == TOMOS_OK;
	if (status == TOMOS_OK)
		status = comm_ready(made);
	if (status == TOMOS_OK && made->local_size > 1)
		threads_share(made->cores);
	if (status == TOMOS_OK) {
		*comm = made;
	} else {
		made->type = opened ? made->type : NULL;
		tomos_comm_close(made);
	}
	return status;
}

tomos_status comm_ready(tomos_comm *comm)
{
	return mem_alloc(&comm->room, comm->size, ROOM, "what ranks report");
}

void tomos_comm_close(tomos_comm *comm)
{
	if (comm && comm->type)
		comm->type->close(comm);
	mem_free(comm ? comm->room : NULL);
	mem_free(comm);
}

int tomos_comm_rank(const tomos_comm *comm)
{
	return comm_rank(comm);
}

int tomos_comm_size(const tomos_comm *comm)
{
	return comm_size(comm);
}

int tomos_comm_local(const tomos_comm *comm, int *size)
{
	if (size)
		*size = comm ? comm->local_size : 1;
	return comm ? comm->local_rank : 0;
}

const char *tomos_comm_describe(const tomos_comm *comm)
{
	return comm ? comm->description : "one process, without MPI";
}

void tomos_comm_abort(tomos_comm *comm, int code)
{
	if (comm_size(comm) > 1)
		comm->type->abort(comm, code);
}

/* ---- collective calls ----------------------------------------------------------------------- */

tomos_status comm_gather(tomos_comm *c, const void *mine, int64_t bytes, void *all)
{
	if (comm_size(c) == 1) {
		memcpy(all, mine, (size_t)bytes);
		return TOMOS_OK;
	}
	c->gathered += (double)bytes * (c->size - 1);
	return c->type->gather(c, mine, bytes, all);
}

tomos_status comm_broadcast(tomos_comm *c, void *data, int64_t bytes)
{
	if (comm_size(c) == 1)
		return TOMOS_OK;
	c->gathered += c->rank == 0 ? (double)bytes * (c->size - 1) : 0;
	return c->type->broadcast(c, data, bytes);
}

tomos_status comm_exchange(tomos_comm *c, const CommMessage *list, int64_t count)
{
	if (comm_size(c) == 1)
		return TOMOS_OK;
	for (int64_t i = 0; i < count; i++)
		c->sent += list[i].send ? (double)list[i].bytes : 0;
	return c->type->exchange(c, list, count);
}

tomos_status comm_wait(tomos_comm *c)
{
	return comm_size(c) == 1 ? TOMOS_OK : c->type->wait(c);
}

void comm_look(tomos_comm *c)
{
	if (comm_size(c) > 1 && c->type->look)
		c->type->look(c);
}

tomos_status tomos_comm_wait(tomos_comm *comm)
{
	return comm_wait(comm);
}

typedef void (*Combine)(double *into, double value);

static void add(double *into, double value)
{
	*into += value;
}

static void take_larger(double *into, double value)
{
	if (!(*into >= value)) /* and what is not a number */
		*into = value;
}

/* In the order of the ranks, on every rank; as many numbers at a time as there is room for. */
static tomos_status reduce(tomos_comm *c, double *values, int count, Combine combine)
{
	enum { MOST = ROOM / sizeof(double) };
	for (int n; comm_size(c) > 1 && count > 0; count -= n, values += n) {
		const double *all = c->room;
		n = count < MOST ? count : MOST;
		TRY(comm_gather(c, values, n * (int64_t)sizeof *values, c->room));
		memcpy(values, all, (size_t)n * sizeof *values);
		for (int i = n; i < c->size * n; i++)
			combine(&values[i % n], all[i]);
	}
	return TOMOS_OK;
}

tomos_status comm_sum(tomos_comm *comm, double *values, int count)
{
	return reduce(comm, values, count, add);
}

tomos_status comm_largest(tomos_comm *comm, double *values, int count)
{
	return reduce(comm, values, count, take_larger);
}

tomos_status tomos_comm_sum(tomos_comm *comm, double *values, int64_t count)
{
	if (!values || count < 1 || count > 1 << 20)
		return fail(TOMOS_BAD_VALUE, "a sum of %lld numbers: 1 to %d are possible",
			(long long)count, 1 << 20);
	return comm_sum(comm, values, (int)count);
}

typedef struct {
	int32_t status;
	char message[ROOM - sizeof(int32_t)];
} Outcome;

static Outcome outcome_of(tomos_status status)
{
	Outcome mine = {.status = (int32_t)status};
	snprintf(
		mine.message, sizeof mine.message, "%s", status == TOMOS_OK ? "" : tomos_message());
	return mine;
}

/* That of the first rank that has failed. */
static tomos_status first_failure(const tomos_comm *c, const Outcome *all)
{
	int i = 0;
	while (i < c->size && all[i].status == TOMOS_OK)
		i++;
	if (i == c->size)
		return TOMOS_OK;
	tomos_status status = (tomos_status)all[i].status;
	return i == 0 ? fail(status, "%s", all[i].message)
		      : fail(status, "rank %d: %s", i, all[i].message);
}

tomos_status comm_agree(tomos_comm *c, tomos_status status)
{
	const Outcome mine = outcome_of(status);
	if (comm_size(c) == 1)
		return status;
	TRY(comm_gather(c, &mine, sizeof mine, c->room));
	return first_failure(c, c->room);
}

/* Seconds in which the others come to the same failure. */
#define PATIENCE 5

tomos_status comm_agree_or_abort(tomos_comm *c, tomos_status status)
{
	const Outcome mine = outcome_of(status);
	bool met = true;
	if (comm_size(c) == 1 || !c->type->meet)
		return comm_agree(c, status);
	tomos_status gathered = c->type->meet(
		c, &mine, sizeof mine, c->room, status == TOMOS_OK ? HUGE_VAL : PATIENCE, &met);
	if (gathered == TOMOS_OK && met)
		gathered = first_failure(c, c->room);
	else if (!met)
		tomos_comm_abort(c, 1);
	return gathered;
}
