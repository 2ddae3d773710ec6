/* An operator with ray weights and a voxel mask: each function compared with its matrix. */
#include "op/op.h" /* first: cmocka makes a macro of fail() */
#include "ops/opened.h"

typedef struct {
	Case c;
	tomos_op *inner, *op;
	int64_t n, m;
	double *entries; /* [ray][voxel], weights and mask included */
	float *rays, *mask, *x, *y;
} Weighing;

static double *zeros(int64_t count)
{
	double *data = malloc((size_t)count * sizeof *data);
	for (int64_t i = 0; i < count; i++)
		data[i] = 0;
	return data;
}

/* The matrix row by row, from the operator without weights. */
static void fill_entries(Weighing *w)
{
	int64_t *index = malloc((size_t)w->inner->row_most * sizeof *index), count;
	float *weight = malloc((size_t)w->inner->row_most * sizeof *weight);
	w->entries = zeros(w->n * w->m);
	for (int64_t i = 0; i < w->m; i++) {
		OK(op_row(w->inner, i, index, weight, &count));
		for (int64_t k = 0; k < count; k++)
			w->entries[i * w->n + index[k]] =
				(double)weight[k] * (double)w->rays[i] * (double)w->mask[index[k]];
	}
	free(index), free(weight);
}

static Weighing weighing_make(int number)
{
	Weighing w = {.c = case_make(number)};
	tomos_projector_options o = tomos_projector_defaults();
	OK(tomos_op_projector(&w.inner, backend, &w.c.grid, w.c.scan, &o));
	w.n = w.c.voxels, w.m = w.c.pixels;
	w.rays = case_data(&w.c, w.m), w.mask = case_data(&w.c, w.n);
	w.x = case_data(&w.c, w.n), w.y = case_data(&w.c, w.m);
	for (int64_t i = 0; i < w.m; i++)
		w.rays[i] = fabsf(w.rays[i]) + 0.1f;
	for (int64_t i = 0; i < w.n; i++) {
		w.mask[i] = w.mask[i] > 0 ? 1 : 0;
		w.x[i] *= w.mask[i]; /* voxels that do not count are 0 */
	}
	fill_entries(&w);
	OK(op_weighted(&w.op, w.inner, w.rays, w.mask));
	return w;
}

static void weighing_free(Weighing *w)
{
	tomos_op_free(w->op);
	tomos_op_free(w->inner);
	tomos_geometry_free(w->c.scan);
	free(w->entries), free(w->rays), free(w->mask), free(w->x), free(w->y);
}

static double entry(const Weighing *w, int64_t i, int64_t j, int power)
{
	double a = w->entries[i * w->n + j];
	return a == 0 ? 0 : power == 0 ? 1 : power == 1 ? a : a * a;
}

/* What is compared may be 0 but for rounding. */
static void check_close(
	const Weighing *w, const char *verb, const float *got, const double *right, int64_t count)
{
	for (int64_t i = 0; i < count; i++)
		if (!(fabs((double)got[i] - right[i]) <= 1e-4 * (0.1 + fabs(right[i]))))
			fail_msg("%s, %s: [%lld] is %g, not %g", w->c.name, verb, (long long)i,
				(double)got[i], right[i]);
}

static tomos_status product(
	const tomos_op *op, bool adjoint, int power, const float *in, float *out)
{
	if (adjoint)
		return power == 1 ? op_adjoint(op, in, out) : op_power_adjoint(op, power, in, out);
	return power == 1 ? op_forward(op, in, out) : op_power(op, power, in, out);
}

static void check_product(const Weighing *w, bool adjoint, int power, const char *verb)
{
	int64_t count = adjoint ? w->n : w->m;
	const float *in = adjoint ? w->y : w->x;
	float *got = malloc((size_t)count * sizeof *got);
	double *right = zeros(count);
	for (int64_t i = 0; i < w->m; i++)
		for (int64_t j = 0; j < w->n; j++)
			right[adjoint ? j : i] +=
				entry(w, i, j, power) * (double)in[adjoint ? i : j];
	OK(product(w->op, adjoint, power, in, got));
	check_close(w, verb, got, right, count);
	free(got), free(right);
}

static void check_rows(const Weighing *w)
{
	int64_t *index = malloc((size_t)w->op->row_most * sizeof *index), count;
	float *weight = malloc((size_t)w->op->row_most * sizeof *weight);
	double *row = malloc((size_t)w->n * sizeof *row);
	float *got = malloc((size_t)w->n * sizeof *got);
	for (int64_t i = 0; i < w->m; i++) {
		OK(op_row(w->op, i, index, weight, &count));
		memset(got, 0, (size_t)w->n * sizeof *got);
		for (int64_t k = 0; k < count; k++) {
			assert_true(w->mask[index[k]] != 0);
			got[index[k]] = weight[k];
		}
		memcpy(row, w->entries + i * w->n, (size_t)w->n * sizeof *row);
		check_close(w, "row", got, row, w->n);
	}
	free(index), free(weight), free(row), free(got);
}

/* Some views in another order: the rays of each go with their weights. */
static void check_part(const Weighing *w)
{
	int64_t views = w->op->range.shape[0], one = w->m / views, list[2] = {views - 1, 0};
	tomos_op *part;
	OK(op_part(w->op, &part, list, 2));
	float *got = malloc((size_t)(2 * one) * sizeof *got);
	double *right = zeros(2 * one);
	for (int64_t i = 0; i < 2 * one; i++)
		for (int64_t j = 0; j < w->n; j++)
			right[i] += w->entries[(list[i / one] * one + i % one) * w->n + j] *
				    (double)w->x[j];
	OK(op_forward(part, w->x, got));
	check_close(w, "part", got, right, 2 * one);
	tomos_op_free(part);
	free(got), free(right);
}

static void verbs_are_the_matrix(void **state)
{
	(void)state;
	for (int i = 0; i < CASE_KINDS; i++) {
		Weighing w = weighing_make(i);
		check_product(&w, false, 1, "forward");
		check_product(&w, false, 0, "forward, power 0");
		check_product(&w, false, 2, "forward, power 2");
		check_product(&w, true, 1, "adjoint");
		check_product(&w, true, 0, "adjoint, power 0");
		check_product(&w, true, 2, "adjoint, power 2");
		check_rows(&w);
		check_part(&w);
		weighing_free(&w);
	}
}

#define TESTS(T) T(verbs_are_the_matrix)
TEST_MAIN(TESTS, open_backend, close_backend)
