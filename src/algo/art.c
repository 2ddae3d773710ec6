/* ART, Kaczmarz's method: x += lambda (b_i - a_i'x) / ||a_i||^2 a_i, one ray after the other.
 *
 * S. Kaczmarz 1937; R. Gordon, R. Bender, G. T. Herman 1970; Nielsen 2014, algorithm 2.2. Some matrices
 * have sweeps of their own, and some backends do a view at a time, without bounds. Else, while one thread
 * uses rows one by one, in the same order for any number of threads, the others list the next ones;
 * backends that list rows in memory of their own do so by batches, and use them in that order.
 * Rays that meet only a corner of the volume would carry their whole misfit into a voxel or two, so
 * ||a_i||^2 is no less than a part of the largest.
 */
#include <math.h>
#include "algo/run.h"
#include "op/sweep.h"

#define LEAST 0.01

enum { BATCH = 64 };

/* Some rows, listed. */
typedef struct {
	int64_t start, rows; /* visits */
	int64_t *index;
	float *weight;
	int64_t ray[BATCH], count[BATCH];
	double square[BATCH];
	tomos_status status[BATCH];
} Batch;

typedef struct Art Art;

struct Art {
	Run *run;
	int64_t rays, pixels, most; /* most: entries of a row */
	int64_t *views, *list;      /* order of the views; of the rays, where it is random */
	float *r, *factor;          /* factor: of each ray, for the sweeper */
	RowSweeper *sweeper;        /* NULL: by rows */
	double least, lambda;
	Batch batches[2], *listed, *used; /* the one being listed; the one being used */
	tomos_status (*visit)(Art *a, const Batch *batch, int64_t j);
	tomos_status status; /* of the visits */
};

static int64_t ray_at(const Art *a, int64_t visit)
{
	return a->list ? a->list[visit]
		       : a->views[visit / a->pixels] * a->pixels + visit % a->pixels;
}

static void list_row(const Art *a, Batch *batch, int64_t j)
{
	float *w = batch->weight + j * a->most;
	batch->ray[j] = ray_at(a, batch->start + j);
	batch->status[j] =
		op_row(a->run->A, batch->ray[j], batch->index + j * a->most, w, &batch->count[j]);
	batch->square[j] = 0;
	for (int64_t k = 0; batch->status[j] == TOMOS_OK && k < batch->count[j]; k++)
		batch->square[j] += (double)w[k] * w[k];
}

static tomos_status measure_row(Art *a, const Batch *batch, int64_t j)
{
	a->least = fmax(a->least, LEAST * batch->square[j]);
	return TOMOS_OK;
}

static tomos_status use_row(Art *a, const Batch *batch, int64_t j)
{
	const Run *run = a->run;
	const int64_t *index = batch->index + j * a->most, i = batch->ray[j];
	const float *w = batch->weight + j * a->most;
	double product;
	TRY(vector_gather(run->X, batch->count[j], index, w, run->x, &product));
	a->r[i] = (float)(run->b[i] - product);
	if (!(batch->square[j] > 0))
		return TOMOS_OK;
	float step = (float)(a->lambda * a->r[i] / fmax(batch->square[j], a->least));
	return vector_scatter(run->X, batch->count[j], index, w, step, run->low, run->high, run->x);
}

static tomos_status use_batch(Art *a, const Batch *batch)
{
	for (int64_t j = 0; j < batch->rows; j++) {
		TRY(batch->status[j]);
		TRY(a->visit(a, batch, j));
	}
	return TOMOS_OK;
}

static void use_or_list(void *user, int64_t task)
{
	Art *a = user;
	if (task == 0)
		a->status = use_batch(a, a->used);
	else
		list_row(a, a->listed, task - 1);
}

/* All rows in turn; the last round only uses. */
static tomos_status each_row(Art *a, tomos_status (*visit)(Art *a, const Batch *batch, int64_t j))
{
	a->visit = visit;
	a->listed = &a->batches[0];
	a->used = &a->batches[1];
	a->used->rows = 0;
	for (int64_t start = 0; start < a->rays + BATCH; start += BATCH) {
		a->listed->start = start;
		a->listed->rows = max64(0, min64(BATCH, a->rays - start));
		TRY(cancel_check("a sweep"));
		parallel_for(1 + a->listed->rows, use_or_list, a);
		TRY(a->status);
		Batch *next = a->used;
		a->used = a->listed;
		a->listed = next;
	}
	return TOMOS_OK;
}

/* A fresh order from the same beginning, whatever the sweeps before. */
static void shuffle(Art *a)
{
	for (int64_t i = 0; a->list && i < a->rays; i++)
		a->list[i] = i;
	if (a->list)
		order_shuffle(a->list, a->rays, (uint64_t)a->run->o->seed, a->run->k);
}

static tomos_status take_batches(Art *a)
{
	for (int i = 0; i < 2; i++) {
		Batch *batch = &a->batches[i];
		TRY(mem_alloc(&batch->index, BATCH * a->most, sizeof *batch->index, "rows"));
		TRY(mem_alloc(&batch->weight, BATCH * a->most, sizeof *batch->weight, "rows"));
	}
	return TOMOS_OK;
}

static tomos_status prepare(Art *a, Run *run)
{
	int order = choice_index(VIEW_ORDERS, run->o->order);
	int64_t none;
	a->pixels = run->Y->count / run->Y->shape[0];
	a->lambda = run->o->relaxation != 0 ? run->o->relaxation : 1;
	if (a->most == 0)
		return op_row(run->A, 0, NULL, NULL, &none); /* says why */
	TRY(mem_alloc(&a->views, run->Y->shape[0], sizeof *a->views, "the order of views"));
	TRY(order_list((ViewOrder)order, run->Y->shape[0], 0, a->views));
	if (order == ORDER_RANDOM)
		TRY(mem_alloc(&a->list, a->rays, sizeof *a->list, "the order of rays"));
	return run_vector(run, &a->r, run->Y, "the residual");
}

/* ---- a sweep of the operator's own, or by rows ----------------------------------------------- */

static tomos_status sweep_squares(Art *a, float **squares)
{
	const Run *run = a->run;
	float *ones;
	double largest;
	TRY(run_vector(a->run, squares, run->Y, "the squares of rows"));
	TRY(vector_new(&ones, run->X, "ones"));
	tomos_status status = run_ones(run, ones);
	if (status == TOMOS_OK)
		status = op_power(run->A, 2, ones, *squares);
	vector_free(ones, run->X);
	TRY(status);
	TRY(vector_largest(run->Y, *squares, &largest));
	a->least = LEAST * largest;
	return TOMOS_OK;
}

/* Whether many rays of one view can be used at once, which bounds after each ray do not allow. */
static bool by_views(const Art *a)
{
	return !a->list && isinf(a->run->low) && isinf(a->run->high);
}

static tomos_status measure(Art *a)
{
	if (by_views(a))
		TRY(op_sweeper(a->run->A, &a->sweeper));
	if (!a->sweeper) {
		TRY(take_batches(a));
		shuffle(a);
		return each_row(a, measure_row);
	}
	TRY(sweep_squares(a, &a->factor));
	for (int64_t i = 0; i < a->rays; i++) {
		double square = fmax(a->factor[i], a->least);
		a->factor[i] = a->factor[i] > 0 ? (float)(a->lambda / square) : 0;
	}
	return TOMOS_OK;
}

static tomos_status sweep_rays(Art *a)
{
	Run *run = a->run;
	RowSweep rows = {a->views, run->Y->shape[0], run->b, a->factor, a->r};
	if (a->sweeper) {
		a->sweeper->sweep(a->sweeper, &rows, run->x);
		return cancel_check("a sweep");
	}
	shuffle(a);
	return each_row(a, use_row);
}

/* ---- rows that a backend lists --------------------------------------------------------------- */

/* The order of the sweep at hand, as the backend takes it. */
static tomos_status send_order(Art *a, Sweep *sweep)
{
	int64_t *rays;
	TRY(mem_alloc(&rays, a->rays, sizeof *rays, "the order of rays"));
	for (int64_t i = 0; i < a->rays; i++)
		rays[i] = ray_at(a, i);
	tomos_status status = sweep_order(sweep, rays);
	mem_free(rays);
	return status;
}

static tomos_status iterate_there(Art *a, Run *run, Sweep *sweep)
{
	float *squares;
	TRY(sweep_squares(a, &squares));
	TRY(sweep_open(sweep, run->A));
	if (!a->list)
		TRY(send_order(a, sweep));
	TRY(run_start(run));
	while (run->going) {
		shuffle(a);
		TRY(run_keep(run, NULL));
		if (a->list)
			TRY(send_order(a, sweep));
		const KernelVisits visits = {
			run->b, squares, a->r, run->x, a->lambda, a->least, run->low, run->high};
		TRY(sweep_run(sweep, &visits));
		TRY(run_iterated(run, a->r));
	}
	return TOMOS_OK;
}

/* ---- views that a backend settles -------------------------------------------------------------- */

static tomos_status iterate_views(Art *a, Run *run, ViewSweep *sweep)
{
	int order = choice_index(VIEW_ORDERS, run->o->order);
	float *squares;
	TRY(sweep_squares(a, &squares));
	TRY(subsets_make(&run->subsets, run->A, run->Y->shape[0], (ViewOrder)order, 0));
	TRY(view_sweep_open(sweep, &run->subsets));
	TRY(run_start(run));
	while (run->going) {
		const KernelVisits visits = {
			run->b, squares, a->r, run->x, a->lambda, a->least, run->low, run->high};
		TRY(run_keep(run, NULL));
		TRY(view_sweep_run(sweep, &visits));
		TRY(run_iterated(run, a->r));
	}
	return TOMOS_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static tomos_status iterate(Art *a, Run *run)
{
	TRY(measure(a));
	TRY(run_start(run));
	while (run->going) {
		TRY(run_keep(run, NULL));
		TRY(sweep_rays(a));
		TRY(run_iterated(run, a->r));
	}
	return TOMOS_OK;
}

tomos_status art_method(Run *run)
{
	Art art = {.run = run, .rays = run->Y->count, .most = run->A->row_most};
	Sweep sweep = {0};
	ViewSweep views = {0};
	tomos_status status = prepare(&art, run);
	if (status == TOMOS_OK)
		status = by_views(&art) && view_sweep_can(run->A) ? iterate_views(&art, run, &views)
			 : op_lists(run->A)                       ? iterate_there(&art, run, &sweep)
								  : iterate(&art, run);
	sweep_close(&sweep);
	view_sweep_close(&views);
	mem_free(art.views);
	mem_free(art.list);
	if (art.sweeper)
		art.sweeper->free(art.sweeper);
	for (int i = 0; i < 2; i++) {
		mem_free(art.batches[i].index);
		mem_free(art.batches[i].weight);
	}
	return status;
}
