/* ART, Kaczmarz's method: x += lambda (b_i - a_i'x) / ||a_i||^2 a_i, one ray after the other.
 *
 * S. Kaczmarz 1937; R. Gordon, R. Bender, G. T. Herman 1970; Nielsen 2014, algorithm 2.2. Some
 * matrices have sweeps of their own, and some backends do a view at a time, without bounds. Else,
 * while one thread uses rows one by one, in the same order for any number of threads, the others
 * list the next ones; backends that list rows in memory of their own do so by batches, and use them
 * in that order. Rays that meet only a corner of the volume would carry their whole misfit into a
 * voxel or two, so ||a_i||^2 is no less than a part of the largest.
 */
#include <math.h>
#include "algo/iteration.h"
#include "op/sweep.h"

#define LEAST 0.01

enum { BATCH = 64 };

/* A batch of matrix rows. */
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
	Iteration *it;
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
		op_row(a->it->A, batch->ray[j], batch->index + j * a->most, w, &batch->count[j]);
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
	const Iteration *it = a->it;
	const int64_t *index = batch->index + j * a->most, i = batch->ray[j];
	const float *w = batch->weight + j * a->most;
	double product;
	TRY(vector_gather(it->X, batch->count[j], index, w, it->x, &product));
	a->r[i] = (float)(it->b[i] - product);
	if (!(batch->square[j] > 0))
		return TOMOS_OK;
	float step = (float)(a->lambda * a->r[i] / fmax(batch->square[j], a->least));
	return vector_scatter(it->X, batch->count[j], index, w, step, it->low, it->high, it->x);
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

/* A random order that depends on the seed and the number of the sweep only. */
static void shuffle(Art *a)
{
	for (int64_t i = 0; a->list && i < a->rays; i++)
		a->list[i] = i;
	if (a->list)
		order_shuffle(a->list, a->rays, (uint64_t)a->it->o->seed, a->it->k);
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

static tomos_status prepare(Art *a, Iteration *it)
{
	int order = choice_index(VIEW_ORDERS, it->o->order);
	int64_t none;
	a->pixels = it->Y->count / it->Y->shape[0];
	a->lambda = it->o->relaxation != 0 ? it->o->relaxation : 1;
	if (a->most == 0)
		return op_row(it->A, 0, NULL, NULL, &none); /* says why */
	TRY(mem_alloc(&a->views, it->Y->shape[0], sizeof *a->views, "the order of views"));
	TRY(order_list((ViewOrder)order, it->Y->shape[0], 0, a->views));
	if (order == ORDER_RANDOM)
		TRY(mem_alloc(&a->list, a->rays, sizeof *a->list, "the order of rays"));
	return iteration_vector(it, &a->r, it->Y, "the residual");
}

/* ---- a sweep of the operator's own, or by rows ----------------------------------------------- */

static tomos_status sweep_squares(Art *a, float **squares)
{
	const Iteration *it = a->it;
	float *ones;
	double largest;
	TRY(iteration_vector(a->it, squares, it->Y, "the squares of rows"));
	TRY(vector_new(&ones, it->X, "ones"));
	tomos_status status = iteration_ones(it, ones);
	if (status == TOMOS_OK)
		status = op_power(it->A, 2, ones, *squares);
	vector_free(ones, it->X);
	TRY(status);
	TRY(vector_max_abs(it->Y, *squares, &largest));
	a->least = LEAST * largest;
	return TOMOS_OK;
}

/* Whether many rays of one view can be used at once, which bounds after each ray do not allow. */
static bool by_views(const Art *a)
{
	return !a->list && isinf(a->it->low) && isinf(a->it->high);
}

static tomos_status measure(Art *a)
{
	if (by_views(a))
		TRY(op_sweeper(a->it->A, &a->sweeper));
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
	Iteration *it = a->it;
	RowSweep rows = {a->views, it->Y->shape[0], it->b, a->factor, a->r};
	if (a->sweeper) {
		a->sweeper->sweep(a->sweeper, &rows, it->x);
		return cancel_check("a sweep");
	}
	shuffle(a);
	return each_row(a, use_row);
}

/* ---- rows that a backend lists --------------------------------------------------------------- */

/* The order of rays in this sweep, uploaded to the backend. */
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

static tomos_status iterate_there(Art *a, Iteration *it, Sweep *sweep)
{
	float *squares;
	TRY(sweep_squares(a, &squares));
	TRY(sweep_open(sweep, it->A));
	if (!a->list)
		TRY(send_order(a, sweep));
	TRY(iteration_start(it));
	while (it->going) {
		shuffle(a);
		TRY(iteration_keep(it, NULL));
		if (a->list)
			TRY(send_order(a, sweep));
		const KernelKaczmarz visits = {
			it->b, squares, a->r, it->x, a->lambda, a->least, it->low, it->high};
		TRY(sweep_run(sweep, &visits));
		TRY(iteration_iterated(it, a->r));
	}
	return TOMOS_OK;
}

/* ---- all rays of a view at once, on the backend ----------------------------------------- */

static tomos_status iterate_views(Art *a, Iteration *it, ViewSweep *sweep)
{
	int order = choice_index(VIEW_ORDERS, it->o->order);
	float *squares;
	TRY(sweep_squares(a, &squares));
	TRY(subsets_make(&it->subsets, it->A, it->Y->shape[0], (ViewOrder)order, 0));
	TRY(view_sweep_open(sweep, &it->subsets));
	TRY(iteration_start(it));
	while (it->going) {
		const KernelKaczmarz visits = {
			it->b, squares, a->r, it->x, a->lambda, a->least, it->low, it->high};
		TRY(iteration_keep(it, NULL));
		TRY(view_sweep_run(sweep, &visits));
		TRY(iteration_iterated(it, a->r));
	}
	return TOMOS_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static tomos_status iterate(Art *a, Iteration *it)
{
	TRY(measure(a));
	TRY(iteration_start(it));
	while (it->going) {
		TRY(iteration_keep(it, NULL));
		TRY(sweep_rays(a));
		TRY(iteration_iterated(it, a->r));
	}
	return TOMOS_OK;
}

tomos_status art_method(Iteration *it)
{
	Art art = {.it = it, .rays = it->Y->count, .most = it->A->row_most};
	Sweep sweep = {0};
	ViewSweep views = {0};
	tomos_status status = prepare(&art, it);
	if (status == TOMOS_OK)
		status = by_views(&art) && view_sweep_can(it->A) ? iterate_views(&art, it, &views)
			 : op_lists(it->A)                       ? iterate_there(&art, it, &sweep)
								 : iterate(&art, it);
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
