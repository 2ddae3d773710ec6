/* ART, Kaczmarz's method: x += lambda (b_i - a_i'x) / ||a_i||^2 a_i, one ray after the other.
 *
 * S. Kaczmarz 1937; R. Gordon, R. Bender, G. T. Herman 1970; Nielsen 2014, algorithm 2.2. While one thread
 * uses rows one by one, in the same order for any number of threads, the others list the next ones.
 * Rays that meet only a corner of the volume would carry their whole misfit into a voxel or two, so
 * ||a_i||^2 is no less than a part of the largest.
 */
#include <math.h>
#include "algo/run.h"

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
	float *r;
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

static tomos_status prepare(Art *a, Run *run)
{
	int order = choice_index(VIEW_ORDERS, run->o->order);
	int64_t none;
	*a = (Art){.run = run, .rays = run->Y->count, .most = run->A->row_most};
	a->pixels = run->Y->count / run->Y->shape[0];
	a->lambda = run->o->relaxation != 0 ? run->o->relaxation : 1;
	if (a->most == 0)
		return op_row(run->A, 0, NULL, NULL, &none); /* says why */
	TRY(mem_alloc(&a->views, run->Y->shape[0], sizeof *a->views, "the order of views"));
	TRY(order_list((ViewOrder)order, run->Y->shape[0], 0, a->views));
	if (order == ORDER_RANDOM)
		TRY(mem_alloc(&a->list, a->rays, sizeof *a->list, "the order of rays"));
	for (int i = 0; i < 2; i++) {
		Batch *batch = &a->batches[i];
		TRY(mem_alloc(&batch->index, BATCH * a->most, sizeof *batch->index, "rows"));
		TRY(mem_alloc(&batch->weight, BATCH * a->most, sizeof *batch->weight, "rows"));
	}
	return run_vector(run, &a->r, run->Y, "the residual");
}

static tomos_status iterate(Art *a, Run *run)
{
	TRY(prepare(a, run));
	shuffle(a);
	TRY(each_row(a, measure_row));
	TRY(run_start(run));
	while (run->going) {
		shuffle(a);
		TRY(each_row(a, use_row));
		TRY(run_iterated(run, a->r));
	}
	return TOMOS_OK;
}

tomos_status art_method(Run *run)
{
	Art art;
	tomos_status status = iterate(&art, run);
	mem_free(art.views);
	mem_free(art.list);
	for (int i = 0; i < 2; i++) {
		mem_free(art.batches[i].index);
		mem_free(art.batches[i].weight);
	}
	return status;
}
