/* The command under mpirun or srun: rank 0 prints; recon uses all ranks, and in other commands the
 * others wait. */
#include <stdio.h>
#include <stdlib.h>
#include "cli.h"

static tomos_comm *comm;
static _Atomic bool mute; /* another rank prints, or it is not known yet which one this is */

tomos_comm *ranks_comm(void)
{
	return comm;
}

bool ranks_print(void)
{
	return !mute;
}

/* The ranks of a machine share its cores. */
static void share_cores(void)
{
	int local;
	const char *given = getenv("TOMOS_THREADS");
	(void)tomos_comm_local(comm, &local);
	if (local > 1 && !(given && *given))
		(void)tomos_set_threads(tomos_threads() > local ? tomos_threads() / local : 1);
}

int ranks_begin(void)
{
	if (!tomos_comm_launched())
		return DONE;
	mute = true;
	tomos_status status = tomos_comm_open(&comm, NULL, NULL);
	mute = tomos_comm_rank(comm) != 0;
	if (status != TOMOS_OK)
		return failed("%s", tomos_message());
	if (!ranks_print() && !freopen("/dev/null", "w", stdout))
		return failed("/dev/null cannot be opened");
	share_cores();
	return DONE;
}

int ranks_end(int code)
{
	double codes = tomos_comm_rank(comm) == 0 ? code : 0;
	if (tomos_comm_size(comm) > 1 && tomos_comm_sum(comm, &codes, 1) == TOMOS_OK)
		code = code != DONE ? code : (int)codes;
	tomos_comm_close(comm);
	comm = NULL;
	return code;
}
