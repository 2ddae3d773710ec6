/* Measures the kernels that can execute a projection, with increasing numbers of views, and chooses
 * the fastest. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "backend/tune.h"

enum { BLOCK = 1 << 18 }; /* floats of an upload */
/* The first trial has 1 / FEWEST of the views, each further one GROWTH times as many. */
enum { FEWEST = 1024, GROWTH = 4 };
enum { AGAIN = 2 }; /* further runs of the last trial */

/* The projections that are measured, which reconstructions consist of. */
typedef struct {
	int kernel;
	Direction direction;
	PlanData data;
} Kind;

/* Rows with half-precision data follow the same row with floats. */
static const Kind kinds[] = {
	{KERNEL_voxel, ADJOINT, DATA_FLOAT},
	{KERNEL_voxel, ADJOINT, DATA_HALF},
	{KERNEL_joseph, FORWARD, DATA_FLOAT},
	{KERNEL_joseph, FORWARD, DATA_HALF},
	{KERNEL_joseph, ADJOINT, DATA_FLOAT},
	{KERNEL_joseph, ADJOINT, DATA_HALF},
	{KERNEL_voxel, FORWARD, DATA_FLOAT},
	{KERNEL_footprint, FORWARD, DATA_FLOAT},
	{KERNEL_footprint, ADJOINT, DATA_FLOAT},
};
enum { KINDS = COUNT(kinds) };

typedef struct {
	tomos_backend *backend;
	tomos_tune_options o;
	const tomos_progress *progress;
	Plan plan; /* of all views */
	float *volume, *projections;
	KernelCandidate candidates[KINDS][MAX_CANDIDATES];
	int counts[KINDS]; /* of the candidates */
	int64_t *picked;   /* views of a trial */
	double allotted;   /* seconds for each kernel */
	int64_t done, total;
	tomos_tuned *rows;
	int64_t count;
} Work;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- candidates ---------------------------------------------------------------------------- */

static ProjectRequest request(const Work *w, const Kind *kind, const Plan *plan)
{
	ProjectRequest what = {.plan = plan,
		.kernel = kind->kernel,
		.direction = kind->direction,
		.count = plan->scan->count,
		.volume = w->volume,
		.projections = w->projections};
	memcpy(what.box.high, plan->grid.n, sizeof what.box.high);
	return what;
}

static bool is_among(const char *name, const KernelCandidate *list, int count)
{
	for (int i = 0; i < count; i++)
		if (strcmp(list[i].name, name) == 0)
			return true;
	return false;
}

/* The kernels that may be chosen; of several with the same name the first. */
static int candidates_for(Work *w, const Kind *kind, const Plan *plan, KernelCandidate *list)
{
	const ProjectRequest what = request(w, kind, plan);
	KernelCandidate all[MAX_CANDIDATES];
	int found = w->backend->type->projector->candidates(w->backend, &what, all), count = 0;
	for (int i = 0; i < found; i++)
		if ((!all[i].coarse || w->o.allow_coarse) && !is_among(all[i].name, list, count))
			list[count++] = all[i];
	return count;
}

/* Half-precision data need not be measured if there is no kernel for them. */
static bool adds_nothing(const Work *w, int k)
{
	if (kinds[k].data != DATA_HALF)
		return false;
	for (int i = 0; i < w->counts[k]; i++)
		if (!is_among(w->candidates[k][i].name, w->candidates[k - 1], w->counts[k - 1]))
			return false;
	return true;
}

static tomos_status find_candidates(Work *w)
{
	for (int k = 0; k < KINDS; k++) {
		w->plan.data = kinds[k].data;
		w->counts[k] = candidates_for(w, &kinds[k], &w->plan, w->candidates[k]);
		if (adds_nothing(w, k))
			w->counts[k] = 0;
		w->total += w->counts[k];
	}
	if (w->total == 0)
		return fail(TOMOS_UNSUPPORTED,
			"no optimised kernel of the %s backend projects between this grid and this "
			"scan",
			w->backend->type->name);
	w->allotted = w->o.seconds / (double)w->total;
	return mem_alloc(&w->rows, w->total, sizeof *w->rows, "tuning results");
}

/* ---- trials ------------------------------------------------------------------------------- */

static tomos_status run_once(const Work *w, const ProjectRequest *what, double *time)
{
	const BackendType *type = w->backend->type;
	TRY(type->memory->sync(w->backend));
	double start = now();
	cancel_begin();
	TRY(cancel_end(type->projector->apply(w->backend, what), "tuning"));
	TRY(type->memory->sync(w->backend));
	*time = now() - start;
	return TOMOS_OK;
}

typedef struct {
	double least; /* seconds, of the runs with the most views */
	int64_t views;
	double spent;
} Trial;

/* The first run with a plan fills its cache; its time counts only if there is no time for another
 * run. */
static tomos_status run_trial(Work *w, const ProjectRequest *what, Trial *t)
{
	double time;
	TRY(run_once(w, what, &time));
	t->spent += time;
	t->least = time;
	t->views = what->count;
	bool last = what->count == w->plan.scan->count;
	for (int i = 0; i < (last ? 1 + AGAIN : 1) && t->spent + time < w->allotted; i++) {
		TRY(run_once(w, what, &time));
		t->spent += time;
		t->least = time < t->least ? time : t->least;
	}
	return TOMOS_OK;
}

/* Equally spaced views, so that all directions occur. */
static tomos_status trial_views(
	Work *w, const Kind *kind, const char *name, int64_t views, Trial *t)
{
	Plan part;
	KernelCandidate list[MAX_CANDIDATES];
	const int64_t all = w->plan.scan->count;
	for (int64_t i = 0; i < views; i++)
		w->picked[i] = (int64_t)((double)i * (double)all / (double)views);
	TRY(plan_part(&part, &w->plan, w->picked, views));
	const ProjectRequest what = request(w, kind, &part);
	tomos_status status = TOMOS_OK;
	if (is_among(name, list, candidates_for(w, kind, &part, list)))
		status = run_trial(w, &what, t);
	plan_free(&part);
	return status;
}

static tomos_status measure(Work *w, const Kind *kind, const char *name, double *rate)
{
	const int64_t all = w->plan.scan->count, *n = w->plan.grid.n;
	Trial t = {.least = 0};
	int64_t views = max64(1, all / FEWEST);
	for (;;) {
		TRY(trial_views(w, kind, name, views, &t));
		if (views == all || t.spent + GROWTH * 2 * t.least > w->allotted)
			break;
		views = min64(all, views * GROWTH);
	}
	double updates = (double)n[0] * (double)n[1] * (double)n[2] * (double)t.views;
	*rate = t.least > 0 ? updates / t.least : 0;
	return TOMOS_OK;
}

/* ---- all kernels ---------------------------------------------------------------------------- */

static void choose(tomos_tuned *rows, int64_t count)
{
	int64_t best = 0;
	for (int64_t i = 1; i < count; i++)
		best = rows[i].rate > rows[best].rate ? i : best;
	if (count > 0)
		rows[best].chosen = 1;
}

static tomos_status measure_one(Work *w, int k, const KernelCandidate *candidate)
{
	const ProjectRequest what = request(w, &kinds[k], &w->plan);
	tomos_tuned *row = &w->rows[w->count];
	TRY(progress_report(w->progress, candidate->name, w->done++, w->total, 0));
	tune_describe(&what, row);
	snprintf(row->kernel, sizeof row->kernel, "%s", candidate->name);
	row->coarse = candidate->coarse;
	w->backend->tuning.forced = candidate->name;
	tomos_status status = measure(w, &kinds[k], candidate->name, &row->rate);
	w->backend->tuning.forced = NULL;
	w->count += status == TOMOS_OK && row->rate > 0;
	return status;
}

static tomos_status measure_all(Work *w)
{
	for (int k = 0; k < KINDS; k++) {
		int64_t first = w->count;
		w->plan.data = kinds[k].data;
		for (int i = 0; i < w->counts[k]; i++)
			TRY(measure_one(w, k, &w->candidates[k][i]));
		choose(w->rows + first, w->count - first);
	}
	return progress_report(w->progress, "tuning", w->total, w->total, 0);
}

/* Pseudo-random numbers: with constant ones a device uses less power and runs faster. */
static tomos_status fill(const Work *w, float *data, int64_t count)
{
	float *block;
	uint32_t state = 1;
	TRY(mem_alloc(&block, BLOCK, sizeof *block, "numbers to measure with"));
	for (int64_t i = 0; i < BLOCK; i++) {
		state = state * 1664525U + 1013904223U;
		block[i] = (float)(state >> 8) * 0x1p-24F;
	}
	tomos_status status = TOMOS_OK;
	for (int64_t at = 0; at < count && status == TOMOS_OK; at += BLOCK) {
		tomos_array part = tomos_array_of(block, 1, 1, min64(BLOCK, count - at));
		status = w->backend->type->memory->upload(w->backend, data + at, &part);
	}
	if (status == TOMOS_OK)
		status = w->backend->type->memory->sync(w->backend);
	mem_free(block);
	return status;
}

static tomos_status prepare(Work *w, const tomos_grid *grid, const tomos_geometry *scan)
{
	const int64_t x[3] = {grid->n[2], grid->n[1], grid->n[0]};
	const int64_t y[3] = {scan->count, scan->rows, scan->columns};
	const KernelModel model = {.weight = WEIGHT_RAY};
	const BackendType *type = w->backend->type;
	int64_t voxels, pixels;
	TRY(shape_count(x, &voxels));
	TRY(shape_count(y, &pixels));
	TRY(plan_make(&w->plan, grid, scan, &model));
	TRY(find_candidates(w));
	TRY(mem_alloc(&w->picked, scan->count, sizeof *w->picked, "views"));
	TRY(type->memory->alloc(w->backend, &w->volume, voxels, "the volume"));
	TRY(type->memory->alloc(w->backend, &w->projections, pixels, "the projections"));
	TRY(fill(w, w->volume, voxels));
	return fill(w, w->projections, pixels);
}

static tomos_status check(const tomos_backend *backend, const tomos_tune_options *o)
{
	const char *kernel = getenv("TOMOS_KERNEL");
	if (!(o->seconds > 0))
		return fail(TOMOS_BAD_VALUE, "%g seconds to measure in: the time must be positive",
			o->seconds);
	if (!backend->type->projector->candidates)
		return fail(TOMOS_UNSUPPORTED,
			"%s has no kernels to choose among; the CPU and single CUDA GPUs have",
			backend->description);
	if (kernel && *kernel)
		return fail(TOMOS_BAD_VALUE,
			"TOMOS_KERNEL is '%s', which leaves nothing to choose; unset it", kernel);
	return TOMOS_OK;
}

tomos_status tomos_tune(tomos_tuned **list, int64_t *count, tomos_backend *backend,
	const tomos_grid *grid, const tomos_geometry *scan, const tomos_tune_options *options,
	const tomos_progress *progress)
{
	Work w = {.backend = backend, .o = tomos_tune_defaults(), .progress = progress};
	tomos_status status;
	*list = NULL;
	*count = 0;
	if (!backend || !grid || !scan)
		return fail(TOMOS_BAD_VALUE, "tuning needs a backend, a grid and a geometry");
	TRY(options_take(&w.o, options, "tune"));
	TRY(check(backend, &w.o));
	TRY(tomos_grid_check(grid));
	TRY_OR_DONE(prepare(&w, grid, scan));
	TRY_OR_DONE(measure_all(&w));
	TRY_OR_DONE(tune_add(backend, w.rows, w.count));
	*list = w.rows;
	*count = w.count;
	w.rows = NULL;
done:
	if (w.projections)
		backend->type->memory->release(backend, w.projections);
	if (w.volume)
		backend->type->memory->release(backend, w.volume);
	plan_free(&w.plan);
	mem_free(w.picked);
	mem_free(w.rows);
	return status;
}
