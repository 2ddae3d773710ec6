/* Derivatives with respect to poses: a task is a detector row of a view. */
#include "backend/cpu/cpu.h"

typedef struct {
	const CpuLevel *level;
	const ProjectRequest *what;
} PoseTask;

static void pose_task(void *user, int64_t index)
{
	const PoseTask *task = user;
	int64_t rows = task->what->plan->model.rows;
	if (!cancel_seen())
		task->level->pose_row(task->what, index / rows, index % rows);
}

tomos_status cpu_pose(tomos_backend *backend, const ProjectRequest *what)
{
	PoseTask task = {backend->own, what};
	const KernelModel *model = &what->plan->model;
	int64_t count = POSE_NUMBERS * what->count * model->rows * model->columns;
	if (backend->type != &cpu_backend) /* one that divides work between devices */
		TRY(cpu_level_choose(&task.level));
	TRY(cpu_vector.fill(backend, count, 0, what->projections));
	if (!what->plan->plain && task.level->ray_applies(what))
		return task.level->ray_pose(what);
	parallel_for(what->count * model->rows, pose_task, &task);
	return TOMOS_OK;
}
