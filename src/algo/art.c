/* ART, Kaczmarz's method: x += lambda (b_i - a_i'x) / ||a_i||^2 a_i, one ray after the other.
 *
 * S. Kaczmarz 1937; R. Gordon, R. Bender, G. T. Herman 1970; Nielsen 2014, algorithm 2.2. The rows of the
 * next rays are listed in parallel, then used one by one, in the same order for any number of threads.
 * Rays that meet only a corner of the volume would carry their whole misfit into a voxel or two, so
 * ||a_i||^2 is no less than a part of the largest.
 */
#include <math.h>
#include "algo/run.h"

#define LEAST 0.01

enum { BATCH = 64 };

typedef struct {
	Run *run;
	int64_t rays, pixels, most; /* most: entries of a row */
	int64_t *views, *list;      /* order of the views; of the rays, where it is random */
	int64_t *index, start;
	float *weight, *r;
	double least, lambda;
	int64_t ray[BATCH], count[BATCH];
	double square[BATCH];
	tomos_status status[BATCH];
} Art;

static int64_t ray_at(const Art *a, int64_t visit)
{
	return a->list ? a->list[visit]
		       : a->views[visit / a->pixels] * a->pixels + visit % a->pixels;
}

static void list_row(void *user, int64_t j)
{
	Art *a = user;
	a->ray[j] = ray_at(a, a->start + j);
	float *w = a->weight + j * a->most;
	a->status[j] = op_row(a->run->A, a->ray[j], a->index + j * a->most, w, &a->count[j]);
	a->square[j] = 0;
	for (int64_t k = 0; a->status[j] == TOMOS_OK && k < a->count[j]; k++)
		a->square[j] += (double)w[k] * w[k];
}

static tomos_status measure_row(Art *a, int64_t j)
{
	a->least = fmax(a->least, LEAST * a->square[j]);
	return TOMOS_OK;
}

static tomos_status use_row(Art *a, int64_t j)
{
	const Run *run = a->run;
	const int64_t *index = a->index + j * a->most, i = a->ray[j];
	const float *w = a->weight + j * a->most;
	double product;
	TRY(vector_gather(run->X, a->count[j], index, w, run->x, &product));
	a->r[i] = (float)(run->b[i] - product);
	if (!(a->square[j] > 0))
		return TOMOS_OK;
	float step = (float)(a->lambda * a->r[i] / fmax(a->square[j], a->least));
	return vector_scatter(run->X, a->count[j], index, w, step, run->low, run->high, run->x);
}

/* All rows in turn, listed in parallel. */
static tomos_status each_row(Art *a, tomos_status (*visit)(Art *a, int64_t j))
{
	for (a->start = 0; a->start < a->rays; a->start += BATCH) {
		int64_t count = min64(BATCH, a->rays - a->start);
		parallel_for(count, list_row, a);
		for (int64_t j = 0; j < count; j++) {
			TRY(a->status[j]);
			TRY(visit(a, j));
		}
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
	TRY(mem_alloc(&a->index, BATCH * a->most, sizeof *a->index, "rows"));
	TRY(mem_alloc(&a->weight, BATCH * a->most, sizeof *a->weight, "rows"));
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
	mem_free(art.index);
	mem_free(art.weight);
	return status;
}
