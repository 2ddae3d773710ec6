/* Projects piece by piece: a lane uploads the input of a piece, projects, and downloads the
 * piece. */
#include <math.h>
#include <string.h>
#include "backend/split/split.h"

enum { SCHEDULES = 8 }; /* cached with a plan */

typedef struct {
	const ProjectRequest *what;
	Schedule *schedule;
	int power; /* power of the matrix entries; PROJECT: plain projection */
	/* For filtered back projection: */
	const SplitFilter *filter; /* NULL: none */
	const FilterView *views;
	const float *raw;
	const FusedUpdate *step; /* NULL: the result is stored, not used for an update */
	bool on_device;          /* the update is computed on the devices */
	const Split *split;
} Job;

enum { PROJECT = -1 };

/* ---- the caller's arrays --------------------------------------------------------------------- */

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

/* Pixels of the first set of views of a step, in the caller's array. */
static tomos_array pixels_of(const Job *job, const Step *step)
{
	const KernelModel *model = &job->what->plan->model;
	const Window *w = &step->window;
	tomos_array a = {
		.shape = {step->count / step->sets, w->high[1] - w->low[1], w->high[0] - w->low[0]},
		.stride = {model->rows * model->columns, model->columns, 1}};
	a.data = job->what->projections + (step->first - job->what->first) * a.stride[0] +
		 w->low[1] * model->columns + w->low[0];
	return a;
}

static tomos_array raw_of(const Job *job, const Step *step)
{
	int64_t rows = job->what->plan->model.rows, seen = job->filter->spec.seen;
	const Window *w = &step->window;
	tomos_array a = {.shape = {step->count / step->sets, w->high[1] - w->low[1], seen},
		.stride = {rows * seen, seen, 1}};
	a.data = (float *)job->raw + ((step->first - job->what->first) * rows + w->low[1]) * seen;
	return a;
}

static void clear(const tomos_array *a)
{
	for (int64_t i = 0; i < a->shape[0]; i++)
		for (int64_t j = 0; j < a->shape[1]; j++)
			memset(a->data + i * a->stride[0] + j * a->stride[1], 0,
				(size_t)a->shape[2] * sizeof(float));
}

typedef struct {
	const tomos_array *to;
	const float *packed;
} Adding;

static void add_plane(void *user, int64_t i)
{
	const Adding *adding = user;
	const tomos_array *a = adding->to;
	const float *packed = adding->packed + i * a->shape[1] * a->shape[2];
	for (int64_t j = 0; j < a->shape[1]; j++, packed += a->shape[2]) {
		float *row = a->data + i * a->stride[0] + j * a->stride[1];
		for (int64_t k = 0; k < a->shape[2]; k++)
			row[k] += packed[k];
	}
}

typedef struct {
	const tomos_array *to;
	const float *packed; /* NULL: zeros */
	const FusedUpdate *step;
	int64_t first; /* of the weights of voxels */
} Updating;

static void update_row(const Updating *s, float *x, const float *update, int64_t at, int64_t n)
{
	const FusedUpdate *step = s->step;
	const float *w = step->voxels ? step->voxels + at : NULL;
	for (int64_t k = 0; k < n; k++) {
		float by = !update ? 0 : w ? step->a * w[k] * update[k] : step->a * update[k];
		x[k] = fminf(fmaxf(x[k] + by, step->low), step->high);
	}
}

static void update_plane(void *user, int64_t i)
{
	const Updating *s = user;
	const tomos_array *a = s->to;
	for (int64_t j = 0; j < a->shape[1]; j++) {
		int64_t at = i * a->stride[0] + j * a->stride[1];
		const float *update =
			s->packed ? s->packed + (i * a->shape[1] + j) * a->shape[2] : NULL;
		update_row(s, a->data + at, update, s->first + at, a->shape[2]);
	}
}

static void update_piece(const Job *job, const tomos_array *to, const float *packed)
{
	Updating s = {to, packed, job->step, to->data - job->what->volume};
	parallel_for(to->shape[0], update_plane, &s);
}

/* ---- an item --------------------------------------------------------------------------------- */

/* Voxels per transfer; a multiple of 4, so that the weights behind them are aligned. */
static int64_t update_most(const Split *split)
{
	return split->in[ADJOINT] / 8 * 4;
}

/* The update on the device: voxels and their weights are uploaded into the memory of the input. */
static tomos_status update_on_device(
	const Job *job, Lane *lane, const tomos_array *x, int64_t count)
{
	const FusedUpdate *step = job->step;
	tomos_backend *child = lane->child;
	int64_t most = update_most(job->split), first = x->data - job->what->volume;
	float *old = lane->in, *w = step->voxels ? lane->in + most : NULL;
	lane->sent = -1;
	for (int64_t at = 0; at < count; at += most) {
		int64_t n = min64(most, count - at);
		tomos_array voxels = tomos_array_of(x->data + at, 1, 1, n);
		TRY(child->type->memory->upload(child, old, &voxels));
		if (w) {
			tomos_array weights =
				tomos_array_of((float *)step->voxels + first + at, 1, 1, n);
			TRY(child->type->memory->upload(child, w, &weights));
		}
		TRY(child->type->vector->axpy_clamp(
			child, n, step->a, w, lane->out + at, step->low, step->high, old));
		TRY(child->type->memory->download(child, old, &voxels));
	}
	return TOMOS_OK;
}

static tomos_status end(LaneRun *run, const Job *job, Lane *lane, const tomos_array *result,
	int64_t count, int64_t after)
{
	tomos_backend *child = lane->child;
	if (after < 0 && !job->step && !job->schedule->adds)
		return child->type->memory->download(child, lane->out, result);
	if (job->step && job->on_device)
		return update_on_device(job, lane, result, count);
	tomos_array sum =
		tomos_array_of(lane->sum, result->shape[0], result->shape[1], result->shape[2]);
	TRY(child->type->memory->download(child, lane->out, &sum));
	if (job->step) {
		update_piece(job, result, lane->sum);
		return TOMOS_OK;
	}
	if (after >= 0 && !run_wait(run, after))
		return TOMOS_CANCELLED;
	parallel_for(result->shape[0], add_plane, &(Adding){result, lane->sum});
	return TOMOS_OK;
}

typedef tomos_status Upload(tomos_backend *backend, float *data, const tomos_array *host);

/* Uploads all sets of views of a step; `set` is the first of them in the caller's array. */
static tomos_status send_sets(
	Lane *lane, const Step *step, tomos_array set, Upload *upload, float *to)
{
	const int64_t size = set.shape[0] * set.shape[1] * set.shape[2];
	for (int64_t i = 0; i < step->sets; i++) {
		TRY(upload(lane->child, to + i * size, &set));
		set.data += step->stride * set.stride[0];
	}
	return TOMOS_OK;
}

/* Copies the filter parameters and column weights of a step's views to contiguous memory of the
 * lane. */
static tomos_status pick_views(const Job *job, Lane *lane, const Step *step)
{
	const int64_t columns = job->filter->spec.columns;
	TRY(lane_views(lane, step->count, columns));
	for (int64_t i = 0; i < step->count; i++) {
		FilterView *view = &lane->views[i];
		float *weights = lane->weights + i * columns;
		*view = job->views[step_view(step, i) - job->what->first];
		memcpy(weights, view->column_weight, (size_t)columns * sizeof *weights);
		view->column_weight = weights;
		view->of.foot_row -= (double)step->window.low[1];
	}
	return TOMOS_OK;
}

/* Uploads the unfiltered views behind the filtered ones, so that upload and filtering overlap the
 * back projection of the previous step. */
static tomos_status send_raw(const Job *job, Lane *lane, const Step *step)
{
	tomos_backend *child = lane->child;
	const BackendType *type = child->type;
	bool overlap = type->memory->upload_overlapped && type->filter->apply_overlapped;
	tomos_array input = raw_of(job, step);
	float *raw = lane->in + job->schedule->in;
	TRY(pick_views(job, lane, step));
	TRY(send_sets(lane, step, input,
		overlap ? type->memory->upload_overlapped : type->memory->upload, raw));
	return (overlap ? type->filter->apply_overlapped : type->filter->apply)(child,
		job->filter->filters[lane - job->split->lanes], step->count, input.shape[1],
		lane->views, raw, lane->in);
}

static tomos_status send(const Job *job, Lane *lane, int64_t index)
{
	const Schedule *s = job->schedule;
	const Step *step = &s->steps[index];
	if (lane->sent >= 0 && step_same_input(step, &s->steps[lane->sent], s->direction))
		return TOMOS_OK;
	lane->sent = -1;
	if (job->filter) {
		TRY(send_raw(job, lane, step));
	} else if (s->direction == FORWARD) {
		tomos_array input = voxels_of(job, step);
		TRY(lane->child->type->memory->upload(lane->child, lane->in, &input));
	} else {
		TRY(send_sets(lane, step, pixels_of(job, step), lane->child->type->memory->upload,
			lane->in));
	}
	lane->sent = index;
	return TOMOS_OK;
}

static tomos_status make_plan(Plan *plan, const Plan *whole, const Step *step)
{
	int64_t *views;
	TRY(mem_alloc(&views, step->count, sizeof *views, "the views of a piece"));
	for (int64_t i = 0; i < step->count; i++)
		views[i] = step_view(step, i);
	tomos_status status = plan_crop(plan, whole, views, step->count, &step->window);
	mem_free(views);
	return status;
}

static tomos_status project_step(const Job *job, Lane *lane, int64_t index)
{
	const Schedule *s = job->schedule;
	const Step *step = &s->steps[index];
	bool forward = s->direction == FORWARD;
	Plan *plan = &s->plans[step->plan];
	if (!plan->scan)
		TRY(make_plan(plan, job->what->plan, step));
	TRY(send(job, lane, index));
	ProjectRequest what = {.plan = plan,
		.kernel = job->what->kernel,
		.direction = s->direction,
		.box = step->box,
		.count = step->count,
		.volume = forward ? lane->in : lane->out,
		.projections = forward ? lane->out : lane->in};
	if (job->power == PROJECT)
		return lane->child->type->projector->apply(lane->child, &what);
	return lane->child->type->projector->apply_power(lane->child, &what, job->power);
}

static void forget_plans(const Schedule *s, const Item *item)
{
	for (int64_t i = item->first; i < item->first + item->steps; i++)
		if (s->plans[s->steps[i].plan].scan)
			plan_free(&s->plans[s->steps[i].plan]);
}

/* Handles an item without steps: its result is 0. It must still wait for the item before it. */
static tomos_status skip(LaneRun *run, const Job *job, const Item *item, const tomos_array *result)
{
	if (item->after >= 0)
		return run_wait(run, item->after) ? TOMOS_OK : TOMOS_CANCELLED;
	if (job->step)
		update_piece(job, result, NULL);
	else if (job->what->overwrite)
		clear(result);
	return TOMOS_OK;
}

static tomos_status project_item(LaneRun *run, void *user, Lane *lane, int64_t index)
{
	const Job *job = user;
	const Schedule *s = job->schedule;
	const Item *item = &s->items[index];
	bool forward = s->direction == FORWARD;
	tomos_array result = forward ? pixels_of(job, &item->piece) : voxels_of(job, &item->piece);
	if (item->steps == 0)
		return skip(run, job, item, &result);
	int64_t count = forward ? step_pixels(&item->piece) : step_voxels(&item->piece);
	bool added =
		!job->what->overwrite && item->after < 0 && !s->adds; /* to the previous values */
	tomos_status status =
		added ? lane->child->type->memory->upload(lane->child, lane->out, &result)
		      : lane->child->type->vector->fill(lane->child, count, 0, lane->out);
	for (int64_t i = 0; status == TOMOS_OK && i < item->steps; i++)
		status = run_stopped(run) ? TOMOS_CANCELLED
					  : project_step(job, lane, item->first + i);
	if (status == TOMOS_OK)
		status = end(run, job, lane, &result, count, item->after);
	if (!s->keeps)
		forget_plans(s, item);
	return status;
}

/* ---- schedules, cached with their plan ------------------------------------------------------- */

static void kept_release(tomos_backend *owner, void *data)
{
	(void)owner;
	for (Schedule *s = data, *next; s; s = next) {
		next = s->next;
		schedule_free(s);
	}
}

static bool fits(const Schedule *s, const ProjectRequest *what, bool rows)
{
	bool solid = what->plan->model.clamp && kernel_rows[what->kernel].family == FAMILY_VOXEL;
	return s->direction == what->direction && s->kernel == what->kernel && s->solid == solid &&
	       s->rows == rows && s->first == what->first && s->count == what->count &&
	       memcmp(&s->box, &what->box, sizeof s->box) == 0;
}

/* Adds a schedule in front; the oldest is dropped when there are more than SCHEDULES. */
static void keep(PlanCache *kept, Schedule *made)
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
	tomos_backend *backend, const ProjectRequest *what, bool rows, Schedule **schedule)
{
	PlanCache *kept = what->plan->cache;
	if (kept->data && kept->owner != backend) {
		kept->release(kept->owner, kept->data);
		kept->data = NULL;
	}
	for (*schedule = kept->data; *schedule; *schedule = (*schedule)->next)
		if (fits(*schedule, what, rows))
			return TOMOS_OK;
	TRY(schedule_make(schedule, split_of(backend), what, rows));
	kept->owner = backend;
	kept->release = kept_release;
	keep(kept, *schedule);
	return TOMOS_OK;
}

/* Allocates for all pieces before the first one: a later allocation would stall the device. */
static tomos_status reserve_memory(Split *split, const Job *job)
{
	const Schedule *s = job->schedule;
	int64_t in = job->on_device ? split->in[ADJOINT] : s->rows ? 2 * s->in : s->in;
	int64_t most =
		s->rows ? split->capacity - split->in[ADJOINT] + split->in_rows : split->capacity;
	for (int i = 0; i < min64(split->count, s->item_count); i++) {
		TRY(lane_reserve(&split->lanes[i], s->out, in, most));
		if (s->sums || (job->step && !job->on_device))
			TRY(lane_sum(split, &split->lanes[i], s->out));
	}
	return TOMOS_OK;
}

/* Updates are computed on the devices if their arrays are pinned; else on the host, since the
 * voxels would have to be copied three times. */
static void use_arrays(Split *split, Job *job)
{
	const ProjectRequest *what = job->what;
	bool voxels = split_use(split, what->volume);
	split_use(split, job->raw ? job->raw : what->projections);
	if (job->step)
		job->on_device = (!job->step->voxels || split_use(split, job->step->voxels)) &&
				 voxels && update_most(split) > 0;
}

static tomos_status project(tomos_backend *backend, Job *job)
{
	Split *split = split_of(backend);
	job->split = split;
	pthread_mutex_lock(&split->lock);
	use_arrays(split, job);
	tomos_status status = find_schedule(backend, job->what, job->filter, &job->schedule);
	if (job->filter)
		split_limit(split, split->own_rows);
	if (status == TOMOS_OK)
		status = reserve_memory(split, job);
	if (status == TOMOS_OK && job->schedule->adds)
		status = project_begin(backend, job->what);
	if (status == TOMOS_OK)
		status = split_run(split, job->schedule->item_count, project_item, job);
	/* After a failure, overlapped uploads may still be running. */
	for (int i = 0; status != TOMOS_OK && i < split->count; i++)
		split->lanes[i].child->type->memory->sync(split->lanes[i].child);
	if (job->filter)
		split_limit(split, split->own);
	pthread_mutex_unlock(&split->lock);
	return status;
}

tomos_status split_project(tomos_backend *backend, const ProjectRequest *what)
{
	return project(backend, &(Job){.what = what, .power = PROJECT});
}

tomos_status split_power(tomos_backend *backend, const ProjectRequest *what, int power)
{
	return project(backend, &(Job){.what = what, .power = power});
}

/* Fused update. Supported only if pieces do not overlap: each piece then updates its own voxels
 * while others are transferred. */
tomos_status split_back_update(
	tomos_backend *backend, const ProjectRequest *what, const FusedUpdate *step, bool *done)
{
	*done = false;
	if (step->average)
		return TOMOS_OK;
	Schedule *schedule;
	Split *split = split_of(backend);
	pthread_mutex_lock(&split->lock);
	tomos_status status = find_schedule(backend, what, false, &schedule);
	for (int64_t i = 0; status == TOMOS_OK && i < schedule->item_count; i++)
		*done = (i == 0 || *done) && schedule->items[i].after < 0;
	pthread_mutex_unlock(&split->lock);
	if (status != TOMOS_OK || !*done)
		return status;
	return project(backend, &(Job){.what = what, .power = PROJECT, .step = step});
}

tomos_status split_filter_back_project(tomos_backend *backend, const Filter *filter,
	const FilterView *views, const float *in, const ProjectRequest *what)
{
	return project(backend, &(Job){.what = what,
					.power = PROJECT,
					.filter = (const SplitFilter *)filter,
					.views = views,
					.raw = in});
}
