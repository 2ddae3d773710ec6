/* Every row of kernels.def in both directions, from the shared texts, and the choice of a tuned one. */
#include "backend/cuda/loops.h"

static tomos_status project_chosen(
	tomos_backend *backend, const Projecting *what, const CudaChoice *choice)
{
	backend->ran = choice->tuned ? choice->tuned->name : NULL;
	if (choice->tuned)
		return choice->tuned->run(backend, what, &choice->notes);
	return run_loops(backend, what, 1);
}

bool cuda_fills(const CudaChoice *choice, const Projecting *what)
{
	const CudaTuned *tuned = choice->tuned;
	return tuned && tuned->fills && tuned->fills(what, &choice->notes);
}

/* What has to be cleared is so before others are waited for. */
static tomos_status project_locked(tomos_backend *backend, const Projecting *what)
{
	const CudaChoice *choice;
	Projecting own = *what;
	TRY(cuda_use(backend));
	TRY(cuda_choose(backend, what, &choice));
	own.anew = what->anew && cuda_fills(choice, what);
	if (!own.anew)
		TRY(project_begin(backend, what));
	tomos_status status = cuda_enter(backend);
	if (status == TOMOS_OK)
		status = project_chosen(backend, &own, choice);
	tomos_status left = cuda_leave(backend);
	return status == TOMOS_OK ? left : status;
}

tomos_status cuda_project(tomos_backend *backend, const Projecting *what)
{
	pthread_mutex_lock(&device_of(backend)->lock);
	tomos_status status = project_locked(backend, what);
	pthread_mutex_unlock(&device_of(backend)->lock);
	return status;
}
