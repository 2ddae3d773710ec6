/* The command under mpirun or srun: rank 0 prints; recon uses all ranks, and in other commands the
 * others wait. */
#include <stdio.h>
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
