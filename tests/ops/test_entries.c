/* Operators entry by entry: rows, parts, powers, weights, gradient, norm, blocks and orders of
 * views. */
#include "op/subset.h"
#include "ops/cases.h"

typedef struct {
	Case scene;
	tomos_backend *backend;
	tomos_op *op;
	float *x, *y;
	int64_t n, m;
} Small;

static Small small_make(int number, const char *model)
{
	Small s = {.scene = case_make(number)};
	tomos_projector_options o = tomos_projector_defaults();
	o.forward = model;
	s.n = s.scene.voxels;
	s.m = s.scene.pixels;
	OK(tomos_backend_open(&s.backend, "cpu"));
	OK(tomos_op_projector(&s.op, s.backend, &s.scene.grid, s.scene.scan, &o));
	s.x = case_data(&s.scene, s.n);
	s.y = case_data(&s.scene, s.m);
	return s;
}

static void small_free(Small *s)
{
	free(s->x);
	free(s->y);
	tomos_op_free(s->op);
	tomos_geometry_free(s->scene.scan);
	tomos_backend_close(s->backend);
}

static void rows(void **state)
{
	(void)state;
	static const char *const models[] = {"joseph", "line", "line-march"};
	for (int k = 0; k < CASE_KINDS * 3; k++) {
		Small s = small_make(k, models[k / CASE_KINDS]);
		float *wanted = malloc((size_t)s.m * sizeof *wanted);
		float *got = calloc((size_t)s.m, sizeof *got),
		      *squares = calloc((size_t)s.m, sizeof *got);
		float *weight = malloc((size_t)s.op->row_most * sizeof *weight);
		int64_t *index = malloc((size_t)s.op->row_most * sizeof *index), count, counted;
		OK(op_forward(s.op, s.x, wanted));
		for (int64_t i = 0; i < s.m; i++) {
			OK(op_row(s.op, i, index, weight, &count));
			OK(op_row(s.op, i, NULL, NULL, &counted));
			assert_true(count <= s.op->row_most && count == counted);
			double sum = 0, square = 0;
			for (int64_t j = 0; j < count; j++) {
				sum += (double)weight[j] * s.x[index[j]];
				square += (double)weight[j] * weight[j] * s.x[index[j]];
			}
			got[i] = (float)sum;
			squares[i] = (float)square;
		}
		assert_true(case_difference(got, wanted, s.m) < 1e-5);
		OK(op_power(s.op, 2, s.x, wanted));
		assert_true(case_difference(squares, wanted, s.m) < 1e-5);
		free(wanted);
		free(got);
		free(squares);
		free(weight);
		free(index);
		small_free(&s);
	}
}

/* y'(A^p x) = x'(A^p)'y for p = 0 and 2, all models. */
static void powers(void **state)
{
	(void)state;
	for (int k = 0; k < CASE_KINDS * CASE_MODELS; k++) {
		Small s = small_make(k, case_models[k / CASE_KINDS]);
		float *Ax = malloc((size_t)s.m * sizeof *Ax),
		      *Ay = malloc((size_t)s.n * sizeof *Ay);
		for (int power = 0; power <= 2; power += 2) {
			OK(op_power(s.op, power, s.x, Ax));
			OK(op_power_adjoint(s.op, power, s.y, Ay));
			double one = case_dot(Ax, s.y, s.m), two = case_dot(Ay, s.x, s.n);
			double size = sqrt(case_dot(Ax, Ax, s.m) * case_dot(s.y, s.y, s.m));
			assert_true(fabs(one - two) <= 1e-5 * size);
		}
		free(Ax);
		free(Ay);
		small_free(&s);
	}
}

static void parts(void **state)
{
	(void)state;
	for (int k = 0; k < CASE_KINDS; k++) {
		Small s = small_make(k, "joseph");
		int64_t views = s.op->range.shape[0], pixels = s.m / views;
		float *whole = malloc((size_t)s.m * sizeof *whole),
		      *some = malloc((size_t)s.m * sizeof *some);
		int64_t *list = malloc((size_t)views * sizeof *list), count = (views + 1) / 2;
		for (int64_t i = 0; i < count; i++)
			list[i] = views - 1 - 2 * i;
		tomos_op *part;
		OK(op_part(s.op, &part, list, count));
		OK(op_forward(s.op, s.x, whole));
		OK(op_forward(part, s.x, some));
		for (int64_t i = 0; i < count; i++)
			assert_true(case_difference(some + i * pixels, whole + list[i] * pixels,
					    pixels) < 1e-5);
		tomos_op_free(part);
		free(whole);
		free(some);
		free(list);
		small_free(&s);
	}
}

static void weighted(void **state)
{
	(void)state;
	Small s = small_make(1, "line");
	float *mask = malloc((size_t)s.n * sizeof *mask),
	      *rays = malloc((size_t)s.m * sizeof *rays);
	float *Ax = malloc((size_t)s.m * sizeof *Ax), *Ay = malloc((size_t)s.n * sizeof *Ay);
	for (int64_t i = 0; i < s.n; i++) {
		mask[i] = i % 3 != 0;
		s.x[i] *= mask[i];
	}
	for (int64_t i = 0; i < s.m; i++)
		rays[i] = (float)(i % 4);
	tomos_op *op, *part;
	OK(op_weighted(&op, s.op, rays, mask));
	OK(op_forward(op, s.x, Ax));
	OK(op_adjoint(op, s.y, Ay));
	assert_true(fabs(case_dot(Ax, s.y, s.m) / case_dot(Ay, s.x, s.n) - 1) < 1e-5);
	for (int64_t i = 0; i < s.n; i += 3)
		assert_true(Ay[i] == 0);
	const int64_t last = op->range.shape[0] - 1, pixels = s.m / op->range.shape[0];
	OK(op_part(op, &part, &last, 1));
	float *one = malloc((size_t)pixels * sizeof *one);
	OK(op_forward(part, s.x, one));
	assert_true(case_difference(one, Ax + last * pixels, pixels) < 1e-5);
	tomos_op_free(part);
	tomos_op_free(op);
	free(one);
	free(mask);
	free(rays);
	free(Ax);
	free(Ay);
	small_free(&s);
}

static void gradient(void **state)
{
	(void)state;
	static const int64_t shapes[][3] = {
		{1, 5, 7}, {4, 5, 6}, {3, 1, 1}, {1, 1, 9}, {6, 40, 50}};
	tomos_backend *backend;
	OK(tomos_backend_open(&backend, "cpu"));
	for (int k = 0; k < 2 * COUNT(shapes); k++) {
		const int64_t *n = shapes[k / 2];
		int parts_count = 2 + k % 2;
		int64_t count = n[0] * n[1] * n[2];
		Space space = {backend, {n[0], n[1], n[2]}, count, NULL};
		Case random = {.state = 5};
		float *x = case_data(&random, count), *p = case_data(&random, parts_count * count);
		float *g = malloc((size_t)(parts_count * count) * sizeof *g),
		      *s = malloc((size_t)count * sizeof *s);
		tomos_op *op;
		OK(op_gradient(&op, &space, parts_count));
		OK(op_forward(op, x, g));
		OK(op_adjoint(op, p, s));
		double one = case_dot(g, p, parts_count * count), two = case_dot(x, s, count);
		assert_true(fabs(one - two) < 1e-4);
		for (int64_t i = 0; i < count; i++)
			assert_true(g[i] == ((i + 1) % n[2] ? x[i + 1] - x[i] : 0));
		double norm;
		OK(tomos_op_norm(op, &norm, NULL));
		assert_true(norm * norm <= 4.0 * (double)parts_count * (1 + 1e-6));
		tomos_op_free(op);
		free(x);
		free(p);
		free(g);
		free(s);
	}
	tomos_backend_close(backend);
}

/* ||A v|| <= norm ||v|| for random v, and nearly so for the best of many steps. */
static void norm(void **state)
{
	(void)state;
	for (int k = 0; k < CASE_KINDS; k += CASE_SLOW ? 5 : 1) {
		Small s = small_make(k + 54, "joseph");
		double largest, length;
		OK(tomos_op_norm(s.op, &largest, NULL));
		for (int step = 0; step < 300; step++) {
			length = sqrt(case_dot(s.x, s.x, s.n));
			for (int64_t i = 0; length > 0 && i < s.n; i++)
				s.x[i] = (float)(s.x[i] / length);
			OK(op_forward(s.op, s.x, s.y));
			length = sqrt(case_dot(s.y, s.y, s.m));
			assert_true(length <= largest * 1.001);
			OK(op_adjoint(s.op, s.y, s.x));
		}
		assert_true(length >= largest * 0.99);
		small_free(&s);
	}
	double none;
	REJECTED(tomos_op_norm(NULL, &none, NULL), TOMOS_BAD_VALUE, "a norm needs an operator");
}

/* The counting of the thesis: c = ceil(p / blocks), p + blocks - blocks c blocks of c, the rest c -
 * 1. */
static void block_sizes(void **state)
{
	(void)state;
	for (int64_t views = 1; views < 60; views++)
		for (int64_t blocks = 1; blocks <= views; blocks++) {
			int64_t c = (views + blocks - 1) / blocks,
				larger = views + blocks - blocks * c;
			assert_int_equal(subset_first(views, blocks, 0), 0);
			assert_int_equal(subset_first(views, blocks, blocks), views);
			for (int64_t i = 0; i < blocks; i++)
				assert_int_equal(subset_first(views, blocks, i + 1) -
							 subset_first(views, blocks, i),
					i < larger ? c : c - 1);
		}
	assert_int_equal(subset_first(133, 10, 3), 42); /* 14, 14, 14, then 13 each */
	assert_int_equal(subset_first(133, 10, 4), 55);
}

static void orders(void **state)
{
	(void)state;
	int64_t list[300], other[300];
	bool seen[300];
	for (int64_t count = 1; count < 300; count += 7)
		for (int order = ORDER_SEQUENTIAL; order <= ORDER_MULTILEVEL; order++) {
			OK(order_list((ViewOrder)order, count, 4, list));
			memset(seen, 0, sizeof seen);
			for (int64_t i = 0; i < count; i++) {
				assert_true(list[i] >= 0 && list[i] < count && !seen[list[i]]);
				seen[list[i]] = true;
			}
		}
	static const int64_t eight[8] = {0, 4, 2, 6, 1, 5, 3, 7};
	OK(order_list(ORDER_MULTILEVEL, 8, 0, list));
	assert_memory_equal(list, eight, sizeof eight);
	OK(order_list(ORDER_GOLDEN, 100, 0, list));
	assert_true(list[1] == 61 && list[2] == 23 && list[3] == 85);
	OK(order_list(ORDER_RANDOM, 100, 1, list));
	OK(order_list(ORDER_RANDOM, 100, 1, other));
	assert_memory_equal(list, other, 100 * sizeof *list);
	OK(order_list(ORDER_RANDOM, 100, 2, other));
	assert_true(memcmp(list, other, 100 * sizeof *list) != 0);
}

/* Powers of two boxes are those of the whole, in both directions. */
static void powers_of_boxes(void **state)
{
	(void)state;
	for (int k = 0; k < CASE_KINDS * CASE_MODELS; k += CASE_RACES ? 4 : 1) {
		Small s = small_make(k, case_models[k / CASE_KINDS]);
		Plan plan;
		KernelModel model = {.weight = WEIGHT_RAY};
		OK(plan_make(&plan, &s.scene.grid, s.scene.scan, &model));
		int64_t n = plan.grid.n[1] / 2, row = plan.grid.n[0], slice = row * plan.grid.n[1];
		if (n == 0 || plan.grid.n[2] > 1) /* two boxes along y are then not contiguous */
			n = 0;
		float *wanted = calloc((size_t)s.n, sizeof *wanted);
		float *got = calloc((size_t)s.n, sizeof *got);
		int64_t cut = n ? n : plan.grid.n[2] / 2, stride = n ? row : slice;
		int axis = n ? 1 : 2;
		ProjectRequest what = {.plan = &plan,
			.kernel = k / CASE_KINDS,
			.direction = ADJOINT,
			.count = plan.scan->count,
			.volume = wanted,
			.projections = s.y};
		memcpy(what.box.high, plan.grid.n, sizeof what.box.high);
		OK(s.backend->type->projector->apply_power(s.backend, &what, 2));
		what.box.low[axis] = cut;
		what.volume = got + cut * stride;
		OK(s.backend->type->projector->apply_power(s.backend, &what, 2));
		what.box.low[axis] = 0, what.box.high[axis] = cut;
		what.volume = got;
		if (cut > 0)
			OK(s.backend->type->projector->apply_power(s.backend, &what, 2));
		assert_true(case_difference(got, wanted, s.n) < 1e-6);
		free(wanted);
		free(got);
		plan_free(&plan);
		small_free(&s);
	}
}

#define TESTS(T) \
	T(rows), T(powers), T(powers_of_boxes), T(parts), T(weighted), T(gradient), T(norm), \
		T(block_sizes), T(orders)
TEST_MAIN(TESTS, NULL, NULL)
