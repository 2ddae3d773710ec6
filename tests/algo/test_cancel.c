/* A raised flag ends projections and what is made of them, and nothing else; iterates shown as they go. */
#include "algo/problem.h"

static int flag;

static void raise_flag(void *user, int64_t index)
{
	(void)user;
	if (index == 10)
		__atomic_store_n(&flag, 1, __ATOMIC_RELAXED);
}

static void count_visit(void *user, int64_t index)
{
	raise_flag(NULL, index);
	__atomic_add_fetch((int *)user, 1, __ATOMIC_RELAXED);
}

/* Loops are cut short between begin and end alone, and only with a flag. */
static void loops(void **state)
{
	(void)state;
	int visits = 0;
	OK(tomos_set_threads(1));
	flag = 0;
	tomos_cancel_on(&flag);
	parallel_for(100, count_visit, &visits);
	assert_int_equal(visits, 100);
	flag = visits = 0;
	cancel_begin();
	cancel_begin();
	parallel_for(100, count_visit, &visits);
	assert_int_equal(visits, 11);
	REFUSED(cancel_end(TOMOS_OK, "counting"), TOMOS_CANCELLED, "counting was cancelled");
	assert_int_equal(cancel_end(TOMOS_IO, "counting"), TOMOS_IO);
	tomos_cancel_on(NULL);
	cancel_begin();
	OK(cancel_end(TOMOS_OK, "counting"));
	OK(tomos_set_threads(0));
}

static void calls(void **state)
{
	(void)state;
	Problem p = problem_make("parallel", "joseph", 24, 20, 0);
	double norm;
	OK(tomos_op_forward(p.op, &p.x, &p.b)); /* cards keep views from the first call on */
	int64_t live = mem_live();
	flag = 1;
	tomos_cancel_on(&flag);
	REFUSED(tomos_op_forward(p.op, &p.x, &p.b), TOMOS_CANCELLED, "a projection was cancelled");
	REFUSED(tomos_op_adjoint(p.op, &p.b, &p.x), TOMOS_CANCELLED, "a back projection was");
	REFUSED(tomos_op_norm(p.op, &norm), TOMOS_CANCELLED, "was cancelled");
	REFUSED(tomos_fbp(p.backend, &p.grid, p.scan, &p.b, &p.x, NULL, NULL), TOMOS_CANCELLED,
		"fbp was cancelled");
	REFUSED(tomos_sirt(p.op, &p.b, &p.x, NULL, NULL), TOMOS_CANCELLED, "was cancelled");
	flag = 0;
	OK(tomos_op_adjoint(p.op, &p.b, &p.x));
	flag = 1;
	tomos_cancel_on(NULL);
	OK(tomos_op_adjoint(p.op, &p.b, &p.x));
	assert_int_equal(mem_live(), live);
	problem_free(&p);
}

static int raise_after_three(
	void *user, const char *stage, int64_t done, int64_t total, double value)
{
	(void)user, (void)stage, (void)total, (void)value;
	__atomic_store_n(&flag, done == 3, __ATOMIC_RELAXED);
	return 0;
}

/* Stopped within an iteration, x is the iterate before it. */
static void whole_iterates(void **state)
{
	(void)state;
	Problem p = problem_make("parallel", "joseph", 24, 20, 0);
	tomos_progress progress = {raise_after_three, NULL};
	Lists lists;
	tomos_algebraic_options o = problem_options(&lists, 9);
	lists.history.iterate = &p.truth;
	flag = 0;
	tomos_cancel_on(&flag);
	REFUSED(tomos_sirt(p.op, &p.b, &p.x, &o, &progress), TOMOS_CANCELLED, "was cancelled");
	tomos_cancel_on(NULL);
	assert_int_equal(lists.history.count, 3);
	assert_memory_equal(p.x.data, p.truth.data, (size_t)p.voxels * sizeof(float));
	problem_free(&p);
}

typedef struct {
	double sums[8];
	tomos_array array;
} Seen;

static int see(void *user, const char *stage, int64_t done, int64_t total, double value)
{
	(void)stage, (void)total, (void)value;
	Seen *s = user;
	for (int64_t i = 0; done > 0 && i < s->array.shape[1] * s->array.shape[2]; i++)
		s->sums[done] += s->array.data[i * s->array.stride[2]];
	return 0;
}

static void iterates_are_shown(void **state)
{
	(void)state;
	Problem p = problem_make("parallel", "joseph", 24, 20, 0);
	Seen s = {.array = p.x};
	tomos_progress progress = {see, &s};
	Lists lists;
	tomos_algebraic_options o = problem_options(&lists, 3);
	s.array.data = calloc((size_t)p.voxels * 2, sizeof(float));
	for (int i = 0; i < 3; i++)
		s.array.stride[i] *= 2;
	lists.history.iterate = &s.array;
	OK(tomos_sirt(p.op, &p.b, &p.x, &o, &progress));
	double sum = 0;
	for (int64_t i = 0; i < p.voxels; i++)
		sum += p.x.data[i];
	assert_true(s.sums[1] > 0 && s.sums[1] != s.sums[3]);
	assert_true(fabs(sum - s.sums[3]) < 1e-6 * sum);
	s.array.shape[1]--;
	REFUSED(tomos_sirt(p.op, &p.b, &p.x, &o, NULL), TOMOS_BAD_VALUE,
		"the shape of the iterate is 1 x 23 x 24");
	free(s.array.data);
	problem_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loops),
		cmocka_unit_test(calls),
		cmocka_unit_test(whole_iterates),
		cmocka_unit_test(iterates_are_shown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
