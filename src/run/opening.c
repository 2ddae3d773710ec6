/* Opens the backend of a run while its scan is opened: the driver of a GPU takes longer to start
 * than anything else before the first slab. */
#include <stdio.h>
#include "backend/open.h"
#include "run/run_parts.h"

static void *open_backend(void *user)
{
	Opening *o = user;
	const tomos_job *job = o->job;
	o->status = backend_open_in_turn(&o->backend, job->backend ? job->backend : "auto",
		tomos_comm_local(o->comm, NULL), job->device);
	if (o->status != TOMOS_OK) /* messages are those of a thread */
		snprintf(o->message, sizeof o->message, "%s", tomos_message());
	return NULL;
}

void opening_begin(Opening *o, const tomos_job *job, const tomos_comm *comm)
{
	o->job = job;
	o->comm = comm;
	o->begun = pthread_create(&o->thread, NULL, open_backend, o) == 0;
	if (!o->begun)
		open_backend(o);
}

static void opening_wait(Opening *o)
{
	if (o->begun)
		pthread_join(o->thread, NULL);
	o->begun = false;
}

tomos_status opening_end(Opening *o, tomos_backend **backend)
{
	opening_wait(o);
	*backend = o->backend;
	return o->status == TOMOS_OK ? TOMOS_OK : fail(o->status, "%s", o->message);
}

void opening_close(Opening *o)
{
	opening_wait(o);
	tomos_backend_close(o->backend);
}
