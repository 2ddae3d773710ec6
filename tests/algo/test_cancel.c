/* Cancelling: every long call returns soon after the flag is raised, and iterates stay complete. */
#include "algo/cancel_help.h"

static void raise_flag(void *user, int64_t index)
{
	(void)user;
	if (index == 10)
		tomos_cancel_raise(&flag);
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
	tomos_cancel_clear(&flag);
	tomos_cancel_on(&flag);
	parallel_for(100, count_visit, &visits);
	assert_int_equal(visits, 100);
	tomos_cancel_clear(&flag);
	visits = 0;
	cancel_begin();
	cancel_begin();
	parallel_for(100, count_visit, &visits);
	assert_int_equal(visits, 11);
	REJECTED(cancel_end(TOMOS_OK, "counting"), TOMOS_CANCELLED, "counting was cancelled");
	assert_int_equal(cancel_end(TOMOS_IO, "counting"), TOMOS_IO);
	tomos_cancel_on(NULL);
	cancel_begin();
	OK(cancel_end(TOMOS_OK, "counting"));
	OK(tomos_set_threads(0));
}

static int raise_after_three(
	void *user, const char *stage, int64_t done, int64_t total, double value)
{
	(void)user, (void)stage, (void)total, (void)value;
	(done == 3 ? tomos_cancel_raise : tomos_cancel_clear)(&flag);
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
	tomos_cancel_clear(&flag);
	tomos_cancel_on(&flag);
	REJECTED(tomos_sirt(p.op, &p.b, &p.x, &o, &progress), TOMOS_CANCELLED, "was cancelled");
	tomos_cancel_on(NULL);
	assert_int_equal(lists.history.count, 3);
	assert_memory_equal(p.x.data, p.truth.data, (size_t)p.voxels * sizeof(float));
	problem_free(&p);
}

typedef struct {
	Timer timer;
	bool started;
	double after;
} Moment;

static int start_timer(void *user, const char *stage, int64_t done, int64_t total, double value)
{
	(void)stage, (void)total, (void)value;
	Moment *m = user;
	if (done == 2 && !m->started) {
		m->started = true;
		timer_start(&m->timer, m->after);
	}
	return 0;
}

static const char saved[] = "test_cancel.checkpoint";

/* After a cancel in the middle of an iteration, x and the checkpoint are the last iterate that the
 * history counts, and a run resumed from it gives the same bits as one that was never cancelled. */
static void cancel_within(Problem *p, const char *method, double after, float *const *iterates)
{
	Lists lists;
	Moment m = {.after = after};
	const tomos_progress progress = {start_timer, &m};
	tomos_algebraic_options o = problem_options(&lists, STEPS);
	o.checkpoint = saved;
	problem_zero(p);
	tomos_cancel_clear(&flag);
	tomos_cancel_on(&flag);
	tomos_status status = tomos_reconstruct(p->op, method, &p->b, &p->x, &o, &progress);
	timer_end(&m.timer);
	tomos_cancel_on(NULL);
	assert_true(status == TOMOS_OK || status == TOMOS_CANCELLED);
	assert_true(lists.history.count >= 2);
	case_same(p->x.data, iterates[lists.history.count], p->voxels);
	o.resume = 1;
	problem_zero(p);
	OK(tomos_reconstruct(p->op, method, &p->b, &p->x, &o, NULL));
	case_same(p->x.data, iterates[STEPS], p->voxels);
	unlink(saved);
}

/* Cancelled in the first iteration, x is the start. */
static void cancel_first(Problem *p, const char *method, double after)
{
	Lists lists;
	Moment m = {0};
	tomos_algebraic_options o = problem_options(&lists, 1);
	problem_zero(p);
	tomos_cancel_clear(&flag);
	tomos_cancel_on(&flag);
	timer_start(&m.timer, after);
	tomos_status status = tomos_reconstruct(p->op, method, &p->b, &p->x, &o, NULL);
	timer_end(&m.timer);
	tomos_cancel_on(NULL);
	/* Methods that multiply start from a positive constant instead of 0. */
	bool multiplies = strcmp(method, "mlem") == 0 || strcmp(method, "osem") == 0;
	bool first = status == TOMOS_CANCELLED && lists.history.count == 0;
	for (int64_t i = 0; first && i < p->voxels; i++)
		if (p->x.data[i] != (multiplies ? p->x.data[0] : 0))
			fail_msg("%s, cancelled after %g s: x is %g", method, after,
				(double)p->x.data[i]);
}

static void cancel_method(Problem *p, const char *method)
{
	Iterates it;
	iterates_make(&it);
	problem_zero(p);
	OK(tomos_reconstruct(p->op, method, &p->b, &p->x, &it.options, &it.progress));
	for (int i = 0; i < (CASE_SLOW ? 2 : 12); i++)
		cancel_within(p, method, 5e-5 * i, it.list);
	for (int i = 0; i < (CASE_SLOW ? 2 : 24); i++)
		cancel_first(p, method, 3e-5 * i);
	iterates_free(&it);
}

static void any_moment(void **state)
{
	(void)state;
	char names[256], *rest = names;
	Problem p = problem_make("parallel", "joseph", 32, 40, 0.01);
	int64_t live = mem_live();
	snprintf(names, sizeof names, "%s", tomos_method_names());
	for (char *name; (name = strtok_r(rest, "|", &rest));)
		cancel_method(&p, name);
	if (strcmp(test_backend(), "cpu") == 0)
		assert_int_equal(mem_live(), live);
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
	REJECTED(tomos_sirt(p.op, &p.b, &p.x, &o, NULL), TOMOS_BAD_VALUE,
		"the shape of the iterate is 1 x 23 x 24");
	free(s.array.data);
	problem_free(&p);
}

#define TESTS(T) T(loops), T(calls), T(whole_iterates), T(iterates_are_shown), T(any_moment)
TEST_MAIN(TESTS, NULL, NULL)
