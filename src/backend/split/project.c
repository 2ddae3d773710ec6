/* Projects piece by piece: each lane sends what a piece is made of, and fetches the piece. */
#include <string.h>
#include "backend/split/split.h"

enum { SCHEDULES = 8 }; /* kept with a plan */

typedef struct {
	const Projecting *what;
	Schedule *schedule;
	int power; /* PROJECT: none */
} Job;

enum { PROJECT = -1 };

/* ---- the caller's arrays ---------------------------------------------------------------------- */

static tomos_array voxels_of(const Job *job, const Step *step)
{
	const Box *all = &job->what->box, *box = &step->box;
	int64_t nx = all->high[0] - all->low[0], ny = all->high[1] - all->low[1];
	tomos_array a = {.shape = {box->high[2] - box->low[2], box->high[1] - box->low[1],
				 box->high[0] - box->low[0]},
		.stride = {nx * ny, nx, 1}};
	a.data = job->what->volume + (box->low[2] - all->low[2]) * nx * ny +
		 (box->low[1] - all->low[1]) * nx + box->low[0] - all->low[0];
	return a;
}

static tomos_array pixels_of(const Job *job, const Step *step)
{
	const KernelModel *model = &job->what->plan->model;
	const Window *w = &step->window;
	tomos_array a = {.shape = {step->count, w->high[1] - w->low[1], w->high[0] - w->low[0]},
		.stride = {model->rows * model->columns, model->columns, 1}};
	a.data = job->what->projections + (step->first - job->what->first) * a.stride[0] +
		 w->low[1] * model->columns + w->low[0];
	return a;
}

static bool all_zero(const tomos_array *a)
{
	for (int64_t i = 0; i < a->shape[0]; i++)
		for (int64_t j = 0; j < a->shape[1]; j++) {
			const float *row = a->data + i * a->stride[0] + j * a->stride[1];
			for (int64_t k = 0; k < a->shape[2]; k++)
				if (row[k] != 0)
					return false;
		}
	return true;
}

static void add_to(const tomos_array *a, const float *packed)
{
	for (int64_t i = 0; i < a->shape[0]; i++)
		for (int64_t j = 0; j < a->shape[1]; j++, packed += a->shape[2]) {
			float *row = a->data + i * a->stride[0] + j * a->stride[1];
			for (int64_t k = 0; k < a->shape[2]; k++)
				row[k] += packed[k];
		}
}

/* ---- an item ---------------------------------------------------------------------------------- */

/* What is there is added to; zeros are not sent. */
static tomos_status begin(Lane *lane, const tomos_array *result, int64_t count, bool partial)
{
	tomos_backend *child = lane->child;
	TRY(lane_out(lane, count));
	if (partial || all_zero(result))
		return child->type->fill(child, count, 0, lane->out);
	return child->type->put(child, lane->out, result);
}

static tomos_status end(
	Run *run, Lane *lane, const tomos_array *result, int64_t count, int64_t after)
{
	tomos_backend *child = lane->child;
	if (after < 0)
		return child->type->get(child, lane->out, result);
	TRY(lane_sum(lane, count));
	tomos_array sum =
		tomos_array_of(lane->sum, result->shape[0], result->shape[1], result->shape[2]);
	TRY(child->type->get(child, lane->out, &sum));
	if (!run_wait(run, after))
		return TOMOS_CANCELLED;
	add_to(result, lane->sum);
	return TOMOS_OK;
}

static tomos_status send(const Job *job, Lane *lane, int64_t index)
{
	const Schedule *s = job->schedule;
	const Step *step = &s->steps[index];
	bool forward = s->direction == FORWARD;
	tomos_array input = forward ? voxels_of(job, step) : pixels_of(job, step);
	if (lane->sent >= 0 && step_same_input(step, &s->steps[lane->sent], s->direction))
		return TOMOS_OK;
	lane->sent = -1;
	TRY(lane_in(lane, forward ? step_voxels(step) : step_pixels(step)));
	TRY(lane->child->type->put(lane->child, lane->in, &input));
	lane->sent = index;
	return TOMOS_OK;
}

static tomos_status project_step(const Job *job, Lane *lane, int64_t index)
{
	const Schedule *s = job->schedule;
	const Step *step = &s->steps[index];
	bool forward = s->direction == FORWARD;
	Plan *plan = &s->plans[step->plan];
	if (!plan->scan)
		TRY(plan_crop(plan, job->what->plan, step->first, step->count, &step->window));
	TRY(send(job, lane, index));
	Projecting what = {.plan = plan,
		.kernel = job->what->kernel,
		.direction = s->direction,
		.box = step->box,
		.count = step->count,
		.volume = forward ? lane->in : lane->out,
		.projections = forward ? lane->out : lane->in};
	if (job->power == PROJECT)
		return lane->child->type->project(lane->child, &what);
	return lane->child->type->power(lane->child, &what, job->power);
}

static void forget_plans(const Schedule *s, const Item *item)
{
	for (int64_t i = item->first; i < item->first + item->steps; i++)
		if (s->plans[s->steps[i].plan].scan)
			plan_free(&s->plans[s->steps[i].plan]);
}

static tomos_status project_item(Run *run, void *user, Lane *lane, int64_t index)
{
	const Job *job = user;
	const Schedule *s = job->schedule;
	const Item *item = &s->items[index];
	const Step *step = &s->steps[item->first];
	if (item->steps == 0) /* what comes after it waits for what comes before */
		return item->after < 0 || run_wait(run, item->after) ? TOMOS_OK : TOMOS_CANCELLED;
	bool forward = s->direction == FORWARD;
	tomos_array result = forward ? pixels_of(job, step) : voxels_of(job, step);
	int64_t count = forward ? step_pixels(step) : step_voxels(step);
	tomos_status status = begin(lane, &result, count, item->after >= 0);
	for (int64_t i = 0; status == TOMOS_OK && i < item->steps; i++)
		status = run_stopped(run) ? TOMOS_CANCELLED
					  : project_step(job, lane, item->first + i);
	if (status == TOMOS_OK)
		status = end(run, lane, &result, count, item->after);
	if (!s->keeps)
		forget_plans(s, item);
	return status;
}

/* ---- schedules, kept with the plan they are for ------------------------------------------------ */

static void kept_release(tomos_backend *owner, void *data)
{
	(void)owner;
	for (Schedule *s = data, *next; s; s = next) {
		next = s->next;
		schedule_free(s);
	}
}

static bool fits(const Schedule *s, const Projecting *what)
{
	bool solid = what->plan->model.clamp && kernel_rows[what->kernel].family == FAMILY_VOXEL;
	return s->direction == what->direction && s->solid == solid && s->first == what->first &&
	       s->count == what->count && memcmp(&s->box, &what->box, sizeof s->box) == 0;
}

/* The newest first; the oldest is dropped when there are too many. */
static void keep(PlanKeep *kept, Schedule *made)
{
	int count = 1;
	made->next = kept->data;
	kept->data = made;
	for (Schedule *s = made; s; s = s->next)
		if (++count > SCHEDULES) {
			kept_release(NULL, s->next);
			s->next = NULL;
		}
}

static tomos_status find_schedule(
	tomos_backend *backend, const Projecting *what, Schedule **schedule)
{
	PlanKeep *kept = what->plan->keep;
	if (kept->data && kept->owner != backend) {
		kept->release(kept->owner, kept->data);
		kept->data = NULL;
	}
	for (*schedule = kept->data; *schedule; *schedule = (*schedule)->next)
		if (fits(*schedule, what))
			return TOMOS_OK;
	TRY(schedule_make(schedule, split_of(backend), what));
	kept->owner = backend;
	kept->release = kept_release;
	keep(kept, *schedule);
	return TOMOS_OK;
}

static tomos_status project(tomos_backend *backend, const Projecting *what, int power)
{
	Split *split = split_of(backend);
	Job job = {.what = what, .power = power};
	pthread_mutex_lock(&split->lock);
	tomos_status status = find_schedule(backend, what, &job.schedule);
	if (status == TOMOS_OK)
		status = split_run(split, job.schedule->item_count, project_item, &job);
	pthread_mutex_unlock(&split->lock);
	return status;
}

tomos_status split_project(tomos_backend *backend, const Projecting *what)
{
	return project(backend, what, PROJECT);
}

tomos_status split_power(tomos_backend *backend, const Projecting *what, int power)
{
	return project(backend, what, power);
}
