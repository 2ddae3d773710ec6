/* Helpers for tests of cancelling. */
#ifndef TOMOS_TESTS_ALGO_CANCEL_HELP_H
#define TOMOS_TESTS_ALGO_CANCEL_HELP_H

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>
#include "algo/problem.h"
#include "op/norm.h"

static tomos_cancel flag;

static inline void calls(void **state)
{
	(void)state;
	Problem p = problem_make("parallel", "joseph", 24, 20, 0);
	double norm;
	OK(tomos_op_forward(p.op, &p.x, &p.b)); /* GPUs keep the views from the first call on */
	int64_t live = mem_live();
	tomos_cancel_raise(&flag);
	tomos_cancel_on(&flag);
	REJECTED(tomos_op_forward(p.op, &p.x, &p.b), TOMOS_CANCELLED, "a projection was cancelled");
	REJECTED(tomos_op_adjoint(p.op, &p.b, &p.x), TOMOS_CANCELLED, "a back projection was");
	REJECTED(tomos_op_norm(p.op, &norm, NULL), TOMOS_CANCELLED, "was cancelled");
	REJECTED(tomos_fbp(p.backend, &p.grid, p.scan, &p.b, &p.x, NULL, NULL), TOMOS_CANCELLED,
		"fbp was cancelled");
	REJECTED(tomos_sirt(p.op, &p.b, &p.x, NULL, NULL), TOMOS_CANCELLED, "was cancelled");
	tomos_cancel_clear(&flag);
	OK(tomos_op_adjoint(p.op, &p.b, &p.x));
	tomos_cancel_raise(&flag);
	tomos_cancel_on(NULL);
	OK(tomos_op_adjoint(p.op, &p.b, &p.x));
	assert_int_equal(mem_live(), live);
	problem_free(&p);
}

/* ---- a flag that goes up at any moment ------------------------------------------------------- */

typedef struct {
	pthread_t thread;
	double after, raised; /* seconds to wait; when the flag went up */
} Timer;

static inline void *raise_later(void *user)
{
	Timer *timer = user;
	double end = now() + timer->after;
	while (now() < end)
		usleep(timer->after > 1e-2 ? 1000 : 1);
	timer->raised = now();
	tomos_cancel_raise(&flag);
	return NULL;
}

static inline void timer_start(Timer *timer, double after)
{
	timer->after = after;
	assert_int_equal(pthread_create(&timer->thread, NULL, raise_later, timer), 0);
}

static inline void timer_end(Timer *timer)
{
	pthread_join(timer->thread, NULL);
}

enum { STEPS = 6 };

static inline int keep_iterate(
	void *user, const char *stage, int64_t done, int64_t total, double value)
{
	(void)stage, (void)value;
	float **iterates = user;
	if (total == STEPS && done > 0)
		memcpy(iterates[done], iterates[0], (size_t)(32 * 32) * sizeof(float));
	return 0;
}

/* Options and progress of a run that keeps its iterates of 32 x 32 voxels; list[0] is the last. */
typedef struct {
	float *list[STEPS + 1];
	Lists lists;
	tomos_array seen;
	tomos_progress progress;
	tomos_algebraic_options options;
} Iterates;

static inline void iterates_make(Iterates *it)
{
	it->progress = (tomos_progress){keep_iterate, it->list};
	it->options = problem_options(&it->lists, STEPS);
	for (int i = 0; i <= STEPS; i++)
		it->list[i] = calloc(32 * 32, sizeof(float));
	it->seen = tomos_array_of(it->list[0], 1, 32, 32);
	it->lists.history.iterate = &it->seen;
}

static inline void iterates_free(Iterates *it)
{
	for (int i = 0; i <= STEPS; i++)
		free(it->list[i]);
}

/* ---- the norm -------------------------------------------------------------------------------- */

static inline int count_norm(
	void *user, const char *stage, int64_t done, int64_t total, double value)
{
	(void)done, (void)total, (void)value;
	int *left = user;
	if (strcmp(stage, "norm") == 0)
		--*left;
	return *left == 0;
}

/* Few products, reported and cancelled; the same again at once; from above for steps. */
static inline void norm(void **state)
{
	(void)state;
	Problem p = problem_make("cone", "joseph", 16, 24, 0);
	double exact, again, above;
	int left = 4;
	const tomos_progress progress = {count_norm, &left};
	REJECTED(tomos_op_norm(p.op, &exact, &progress), TOMOS_CANCELLED, "norm was cancelled");
	left = 1000;
	OK(tomos_op_norm(p.op, &exact, &progress));
	assert_in_range(1000 - left, 4, 40);
	left = 1;
	OK(tomos_op_norm(p.op, &again, &progress));
	assert_true(again == exact);
	left = 1000;
	OK(op_norm(p.op, NORM_FOR_STEPS, NULL, &progress, &above));
	assert_in_range(1000 - left, 3, 12);
	assert_true(above >= exact && above <= 1.02 * exact);
	double length = 0;
	for (int64_t i = 0; i < p.voxels; i++)
		p.x.data[i] = 1;
	for (int step = 0; step < (CASE_SLOW ? 50 : 400); step++) { /* the power method */
		OK(tomos_op_forward(p.op, &p.x, &p.b));
		length = sqrt(case_dot(p.b.data, p.b.data, p.pixels) /
			      case_dot(p.x.data, p.x.data, p.voxels));
		OK(tomos_op_adjoint(p.op, &p.b, &p.x));
		double scale = 1 / (length * length);
		for (int64_t i = 0; i < p.voxels; i++)
			p.x.data[i] = (float)(p.x.data[i] * scale);
	}
	assert_true(
		length <= exact * (1 + 1e-5) && length >= exact * (1 - (CASE_SLOW ? 1e-2 : 1e-4)));
	problem_free(&p);
}

#endif
