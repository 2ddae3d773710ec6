/* Helpers for tests that run every algebraic method. */
#ifndef TOMOS_TESTS_ALGO_RUN_HELP_H
#define TOMOS_TESTS_ALGO_RUN_HELP_H

#include <float.h>
#include <unistd.h>
#include "algo/problem.h"

static inline void each_method(Problem *p, void (*visit)(Problem *p, const char *method))
{
	char names[256], *rest = names;
	snprintf(names, sizeof names, "%s", tomos_method_names());
	for (char *name = strtok_r(names, "|", &rest); name; name = strtok_r(NULL, "|", &rest))
		visit(p, name);
}

typedef struct {
	int64_t after, calls;
} Stop;

static inline int stop_after(
	void *user, const char *stage, int64_t done, int64_t total, double value)
{
	Stop *stop = user;
	(void)value;
	stop->calls += strcmp(stage, "norm") != 0;
	if (strcmp(stage, "norm") == 0)
		assert_true(done == 0 && total == 0);
	return done >= stop->after;
}

/* A file of this process alone: programs that run at the same time share the folder. */
static inline const char *checkpoint_file(void)
{
	static char path[64];
	snprintf(path, sizeof path, "process%ld.checkpoint", (long)getpid());
	return path;
}

/* Where the backend does not repeat itself: LSMR reckons its residual by a recurrence that
 * multiplies the rounding, by far more than the volume has of it. */
static inline void same_history(const char *method, const double *one, const double *two)
{
	for (int i = 0; i < 9; i++)
		if (!(fabs(one[i] - two[i]) <= (test_repeats() ? 0 : 1e-2 * one[i])))
			fail_msg("%s, step %d: %g, then %g", method, i + 1, one[i], two[i]);
}

/* Cancelled, saved and gone on: the same bits as never stopped, and the same history. */
static inline void resume_method(Problem *p, const char *method)
{
	float *whole = malloc((size_t)p->voxels * sizeof *whole);
	Lists one, two;
	tomos_algebraic_options o = problem_options(&one, 9);
	o.truth = &p->truth;
	o.keep_best = 1;
	if (strcmp(method, "block") == 0)
		o.nesterov = 1;
	if (tomos_method_uses(method, "order"))
		o.order = "random";
	if (tomos_method_uses(method, "strength"))
		o.strength = 1e-3;
	problem_zero(p);
	OK(tomos_reconstruct(p->op, method, &p->b, &p->x, &o, NULL));
	memcpy(whole, p->x.data, (size_t)p->voxels * sizeof *whole);
	Stop stop = {4, 0};
	const tomos_progress progress = {stop_after, &stop};
	tomos_algebraic_options again = problem_options(&two, 9);
	o.history = again.history;
	o.checkpoint = checkpoint_file();
	o.every = 3;
	problem_zero(p);
	REJECTED(tomos_reconstruct(p->op, method, &p->b, &p->x, &o, &progress), TOMOS_CANCELLED,
		"4");
	memset(&two, 0, sizeof two);
	problem_options(&two, 9);
	o.resume = 1;
	problem_zero(p);
	OK(tomos_reconstruct(p->op, method, &p->b, &p->x, &o, NULL));
	case_same(p->x.data, whole, p->voxels);
	assert_int_equal(two.history.count, 9);
	assert_int_equal(two.history.best, one.history.best);
	same_history(method, one.residual, two.residual);
	same_history(method, one.error, two.error);
	unlink(checkpoint_file());
	free(whole);
}

static inline void resume(void **state)
{
	(void)state;
	Problem p = problem_make("fan", "joseph", 16, 12, 0.02);
	each_method(&p, resume_method);
	problem_free(&p);
}

static inline void names(void **state)
{
	(void)state;
	assert_true(choice_index(tomos_method_names(), "sirt") == 0);
	assert_true(choice_index(tomos_method_names(), "asd-pocs") > 0);
	assert_true(strlen(tomos_method_help("pdhg")) > 10);
	assert_string_equal(tomos_method_help("fdk"), "");
	assert_true(tomos_method_uses("cgls", "strength") && tomos_method_uses("cgls", "mask"));
	assert_false(tomos_method_uses("cgls", "minimum") || tomos_method_uses("none", "mask"));
}

#endif
