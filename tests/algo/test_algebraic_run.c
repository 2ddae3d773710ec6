/* Algebraic methods: stopping rules, cancelling, invalid input, failed allocations. */
#include "algo/run_help.h"

static void stop_rules(void **state)
{
	(void)state;
	static const char *const rules[] = {"change", "discrepancy", "ncp", "monotone"};
	static const char *const methods[] = {"sirt", "cgls", "lsqr", "sart"};
	Problem p = problem_make("parallel", "joseph", 48, 60, 0.05);
	for (int m = 0; m < COUNT(methods); m++)
		for (int i = 0; i < COUNT(rules); i++) {
			Lists lists;
			tomos_algebraic_options o = problem_options(&lists, 300);
			o.stop = rules[i];
			if (i == 0)
				o.tolerance = 2e-2;
			if (i == 1 || i == 3)
				o.noise_level = 0.05;
			o.truth = &p.truth;
			problem_zero(&p);
			OK(tomos_reconstruct(p.op, methods[m], &p.b, &p.x, &o, NULL));
			int64_t k = lists.history.count;
			printf("  %s, %s: %lld iterations, error %.4f, least %.4f after %lld\n",
				methods[m], rules[i], (long long)k, lists.error[k - 1],
				lists.error[lists.history.best - 1], (long long)lists.history.best);
			assert_true(k < 300);
			assert_string_equal(lists.history.ended, rules[i]);
			if (i == 1)
				assert_true(lists.residual[k - 1] <= 0.05 &&
					    (k == 1 || lists.residual[k - 2] > 0.05));
			if (m == 0) /* none of the rules is far from the best */
				assert_true(lists.error[k - 1] <
					    1.5 * lists.error[lists.history.best - 1]);
		}
	problem_free(&p);
}

static void semiconvergence(void **state)
{
	(void)state;
	Problem p = problem_make("parallel", "joseph", 32, 40, 0.1);
	Lists lists;
	tomos_algebraic_options o = problem_options(&lists, 40);
	o.truth = &p.truth;
	o.keep_best = 1;
	OK(tomos_cgls(p.op, &p.b, &p.x, &o, NULL));
	int64_t best = lists.history.best;
	assert_true(best > 1 && best < 40);
	for (int k = 0; k < 40; k++)
		assert_true(lists.error[k] >= lists.error[best - 1]);
	assert_true(lists.error[39] > 1.2 * lists.error[best - 1]);
	assert_true(fabs(problem_error(&p) - lists.error[best - 1]) < 1e-6);
	problem_free(&p);
}

/* A cancelled run returns the last whole iterate. */
static void cancel_method(Problem *p, const char *method)
{
	float *whole = malloc((size_t)p->voxels * sizeof *whole);
	Lists lists;
	tomos_algebraic_options o = problem_options(&lists, 3);
	problem_zero(p);
	OK(tomos_reconstruct(p->op, method, &p->b, &p->x, &o, NULL));
	memcpy(whole, p->x.data, (size_t)p->voxels * sizeof *whole);
	Stop stop = {3, 0};
	const tomos_progress progress = {stop_after, &stop};
	o.iterations = 10;
	problem_zero(p);
	REJECTED(tomos_reconstruct(p->op, method, &p->b, &p->x, &o, &progress), TOMOS_CANCELLED,
		"was cancelled after step 3 of 10");
	assert_int_equal(lists.history.count, 3);
	assert_string_equal(lists.history.ended, "cancelled");
	assert_int_equal(stop.calls, 4);
	case_same(p->x.data, whole, p->voxels);
	free(whole);
}

static void cancel(void **state)
{
	(void)state;
	Problem p = problem_make("parallel", "joseph", 16, 12, 0.02);
	each_method(&p, cancel_method);
	problem_free(&p);
}

static void nothing_to_start_from(void **state)
{
	(void)state;
	Problem p = problem_make("parallel", "joseph", 16, 12, 0.02);
	tomos_algebraic_options o = tomos_algebraic_defaults();
	float *zeros = calloc((size_t)(p.x.shape[0] * p.x.shape[1] * p.x.shape[2]), sizeof *zeros);
	tomos_array mask = tomos_array_of(zeros, p.x.shape[0], p.x.shape[1], p.x.shape[2]);
	o.mask = &mask;
	REJECTED(tomos_mlem(p.op, &p.b, &p.x, &o, NULL), TOMOS_BAD_VALUE,
		"mlem: no ray meets a voxel that is above 0 at the start");
	free(zeros);
	problem_free(&p);
}

#define TRIED(change, words) \
	do { \
		tomos_algebraic_options o = problem_options(NULL, 2); \
		change; \
		REJECTED(tomos_sirt(p.op, &p.b, &p.x, &o, NULL), TOMOS_BAD_VALUE, words); \
	} while (0)
static void rejections(void **state)
{
	(void)state;
	Problem p = problem_make("parallel", "joseph", 16, 12, 0);
	tomos_array wrong = problem_array(1, 2, 3), weights = problem_array(12, 1, 16);
	tomos_array empty = problem_array(1, 16, 16);
	TRIED(o.iterations = -1, "iterations -1: it must be from 0");
	TRIED(o.relaxation = 2, "relaxation 2: it must be between 0 and 2");
	TRIED(o.relaxation = NAN, "it must be between 0 and 2");
	TRIED((o.relaxation = -1, o.weights = "landweber"), "it must be a number above 0");
	TRIED((o.minimum = 2, o.maximum = 1), "minimum 2 is above maximum 1");
	TRIED(o.weights = "sert", "weights 'sert' is not known; did you mean 'sirt'?");
	TRIED(o.stop = "never", "stop 'never' is not known");
	TRIED(o.stop = "discrepancy", "stop 'discrepancy' needs a noise_level above 0");
	TRIED(o.stop = "monotone", "stop 'monotone' needs a noise_level above 0");
	TRIED(o.keep_best = 1, "keep_best has no effect without truth");
	TRIED(o.resume = 1, "resume has no effect without checkpoint");
	TRIED(o.every = 0, "every 0: it must be from 1");
	TRIED(o.inner = 0, "inner 0: it must be from 1");
	TRIED(o.blocks = -2, "blocks -2: it must be from 0 to 1000000000");
	TRIED(o.strength = -1, "strength -1: it must not be negative");
	TRIED(o.huber = 0, "huber 0: it must be above 0");
	TRIED(o.tolerance = -1, "tolerance -1");
	TRIED(o.noise_level = -1, "noise_level -1");
	TRIED(o.strength = 1, "sirt has no use for the option 'strength'");
	TRIED(o.order = "golden", "sirt has no use for the option 'order'");
	TRIED(o.nesterov = 1, "sirt has no use for the option 'nesterov'");
	TRIED(o.mask = &wrong, "the shape of the mask is 1 x 2 x 3, expected 1 x 16 x 16");
	TRIED(o.truth = &wrong, "the shape of the truth is 1 x 2 x 3");
	TRIED(o.truth = &empty, "the truth is 0 everywhere");
	TRIED(o.ray_weights = &wrong, "the shape of the weights of rays is 1 x 2 x 3");
	weights.data[20] = -3;
	TRIED(o.ray_weights = &weights,
		"the weight of ray [1][0][4] is -3; it must not be negative");
	REJECTED(tomos_reconstruct(p.op, "srit", &p.b, &p.x, NULL, NULL), TOMOS_BAD_VALUE,
		"method 'srit' is not known; did you mean 'sirt'?");
	REJECTED(tomos_reconstruct(NULL, "sirt", &p.b, &p.x, NULL, NULL), TOMOS_BAD_VALUE,
		"sirt: there is no operator");
	tomos_array same = tomos_array_of(p.x.data, 12, 1, 16);
	REJECTED(tomos_sirt(p.op, &same, &p.x, NULL, NULL), TOMOS_BAD_VALUE,
		"the projections and the volume are the same memory");
	REJECTED(tomos_sirt(p.op, NULL, &p.x, NULL, NULL), TOMOS_BAD_VALUE,
		"there is no array for the projections");
	tomos_algebraic_options o = problem_options(NULL, 2);
	o.blocks = 13;
	REJECTED(tomos_block(p.op, &p.b, &p.x, &o, NULL), TOMOS_BAD_VALUE,
		"13 blocks of 12 views: there must be 1 to 12");
	o = problem_options(NULL, 200);
	o.weights = "landweber";
	o.relaxation = 1e30;
	REJECTED(tomos_sirt(p.op, &p.b, &p.x, &o, NULL), TOMOS_DIVERGED, "sirt diverged");
	free(wrong.data);
	free(weights.data);
	free(empty.data);
	problem_free(&p);
}

static void operator_rejections(void **state)
{
	(void)state;
	static const char *const matched[] = {"cgls", "lsqr", "lsmr", "fista", "pdhg"};
	Problem p = problem_make("parallel", "voxel", 16, 12, 0);
	tomos_projector_options options = tomos_projector_defaults();
	tomos_op *op;
	double norm;
	options.back = "voxel";
	OK(tomos_op_projector(&op, p.backend, &p.grid, p.scan, &options));
	for (int i = 0; i < COUNT(matched); i++)
		REJECTED(tomos_reconstruct(op, matched[i], &p.b, &p.x, NULL, NULL),
			TOMOS_UNSUPPORTED,
			"needs a back projector that is the adjoint of the forward one");
	REJECTED(tomos_op_norm(op, &norm, NULL), TOMOS_UNSUPPORTED, "needs a matched pair");
	REJECTED(tomos_art(p.op, &p.b, &p.x, NULL, NULL), TOMOS_UNSUPPORTED,
		"cannot give single rows");
	OK(tomos_sart(op, &p.b, &p.x, NULL, NULL));
	tomos_op_free(op);
	problem_free(&p);
}

/* Every allocation fails in turn: the status says so, and nothing is left. */
static void memory_method(Problem *p, const char *method)
{
	tomos_array weights = problem_array(p->b.shape[0], 1, p->b.shape[2]);
	Lists lists;
	tomos_algebraic_options o = problem_options(&lists, 2);
	for (int64_t i = 0; i < p->pixels; i++)
		weights.data[i] = 1;
	o.ray_weights = &weights;
	o.mask = o.truth = &p->truth;
	o.keep_best = 1;
	o.stop = "ncp";
	o.checkpoint = checkpoint_file();
	o.every = 1;
	if (tomos_method_uses(method, "strength"))
		o.strength = 1e-3;
	if (tomos_method_uses(method, "nesterov"))
		o.nesterov = 1;
	/* What a backend keeps with an operator is there before the counting begins. */
	OK(tomos_reconstruct(p->op, method, &p->b, &p->x, &o, NULL));
	int64_t before = mem_live(), nth = 0;
	tomos_status status;
	do {
		problem_zero(p);
		mem_fail_nth(++nth);
		status = tomos_reconstruct(p->op, method, &p->b, &p->x, &o, NULL);
		mem_fail_nth(0);
		if (status != TOMOS_OK && status != TOMOS_NO_MEMORY)
			fail_msg(
				"%s, allocation %lld: %s", method, (long long)nth, tomos_message());
		if (mem_live() != before)
			fail_msg("%s, allocation %lld: %lld blocks are left", method,
				(long long)nth, (long long)(mem_live() - before));
	} while (status != TOMOS_OK);
	assert_true(nth > 10);
	unlink(checkpoint_file());
	free(weights.data);
}

static void memory(void **state)
{
	(void)state;
	Problem p = problem_make("parallel", "joseph", 10, 6, 0);
	each_method(&p, memory_method);
	problem_free(&p);
}

#define TESTS(T) \
	T(stop_rules), T(semiconvergence), T(cancel), T(nothing_to_start_from), T(rejections), \
		T(operator_rejections), T(memory), T(names)
TEST_MAIN(TESTS, NULL, NULL)
