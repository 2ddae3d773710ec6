/* Every allocation failing in turn: backends, projectors, projections, reconstructions say that
 * there is no memory, leak nothing, and work when asked again. */
#include "base/base.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"

typedef struct {
	tomos_backend *backend;
	tomos_op *op;
	Case *scene;
	tomos_projector_options options;
	tomos_array x, y;         /* strided or not, as the test has it */
	float *result, *expected; /* memory of what the step writes, and what it should be */
	int64_t size;
} Scene;

typedef tomos_status (*Step)(Scene *s);

/* Runs the step with its nth allocation failing, for n = 1, 2, ... until it succeeds; `undo` takes
 * back what a success has made. Returns how many failures there were. */
static int fail_in_turn(Scene *s, Step step, void (*undo)(Scene *s), const char *name)
{
	int failures = 0;
	for (;; failures++) {
		int64_t before = mem_live();
		mem_fail_nth(failures + 1);
		tomos_status status = step(s);
		mem_fail_nth(0);
		if (status == TOMOS_OK) {
			undo(s);
			assert_int_equal(mem_live(), before);
			return failures;
		}
		if (status != TOMOS_NO_MEMORY || !strstr(tomos_message(), "no memory for "))
			fail_msg("%s, allocation %d: %s, '%s'", name, failures + 1,
				tomos_status_name(status), tomos_message());
		if (mem_live() != before)
			fail_msg("%s, allocation %d: %lld blocks are left", name, failures + 1,
				(long long)(mem_live() - before));
		assert_true(failures < 1000);
	}
}

static tomos_status step_open(Scene *s)
{
	tomos_status status = tomos_backend_open(&s->backend, "cpu");
	assert_true((status == TOMOS_OK) == (s->backend != NULL));
	return status;
}

static void undo_open(Scene *s)
{
	tomos_backend_close(s->backend);
}

static void opening(void **state)
{
	(void)state;
	Scene s = {0};
	assert_true(fail_in_turn(&s, step_open, undo_open, "opening") >= 1);
}

static tomos_status step_make(Scene *s)
{
	tomos_status status = tomos_op_projector(
		&s->op, s->backend, &s->scene->grid, s->scene->scan, &s->options);
	assert_true((status == TOMOS_OK) == (s->op != NULL));
	return status;
}

static void undo_make(Scene *s)
{
	tomos_op_free(s->op);
}

static tomos_status step_forward(Scene *s)
{
	return tomos_op_forward(s->op, &s->x, &s->y);
}

static tomos_status step_adjoint(Scene *s)
{
	return tomos_op_adjoint(s->op, &s->y, &s->x);
}

static tomos_status step_sirt(Scene *s)
{
	tomos_algebraic_options o = tomos_algebraic_defaults();
	o.iterations = 2;
	for (int64_t i = 0; i < s->size; i++) /* from the same start each time */
		s->result[i] = 0.5F;
	return tomos_sirt(s->op, &s->y, &s->x, &o, NULL);
}

/* After all the failures the result is that of an operator without failures. */
static void check_result(Scene *s)
{
	assert_memory_equal(s->result, s->expected, (size_t)s->size * sizeof(float));
	for (int64_t i = 0; i < s->size; i++)
		s->result[i] = 0;
}

static int fail_verb(Scene *s, Step step, float *result, int64_t size, const char *name)
{
	s->result = result;
	s->size = size;
	s->expected = malloc((size_t)size * sizeof(float));
	OK(step(s));
	memcpy(s->expected, result, (size_t)size * sizeof(float));
	int failures = fail_in_turn(s, step, check_result, name);
	free(s->expected);
	return failures;
}

/* Reversed in memory, so that every array is copied. */
static tomos_array reversed(tomos_array a)
{
	a.data += a.shape[0] * a.shape[1] * a.shape[2] - 1;
	for (int i = 0; i < 3; i++)
		a.stride[i] = -a.stride[i];
	return a;
}

static void fail_scene(Case *c, const char *model, int plain)
{
	Scene s = {.scene = c, .options = tomos_projector_defaults()};
	s.options.forward = model;
	s.options.plain = plain;
	float *x = case_data(c, c->voxels), *y = case_data(c, c->pixels);
	OK(tomos_backend_open(&s.backend, "cpu"));
	assert_true(fail_in_turn(&s, step_make, undo_make, "making") >= 4);
	OK(step_make(&s));
	int failures[3] = {0};
	for (int rotated = 0; rotated < 2; rotated++) {
		s.x = case_volume(c, x);
		s.y = case_projections(c, y);
		if (rotated) {
			s.x = reversed(s.x);
			s.y = reversed(s.y);
		}
		failures[0] += fail_verb(&s, step_forward, y, c->pixels, "forward");
		failures[1] += fail_verb(&s, step_adjoint, x, c->voxels, "adjoint");
		for (int64_t i = 0; i < c->pixels; i++)
			y[i] = (float)case_between(c, 0, 1);
		failures[2] += fail_verb(&s, step_sirt, x, c->voxels, "sirt");
	}
	printf("  %-10s %s, %-22s failures: forward %d, adjoint %d, sirt %d\n", model,
		plain ? "plain" : "tuned", c->name, failures[0], failures[1], failures[2]);
	assert_true(failures[0] >= 2 && failures[1] >= 2 && failures[2] >= 10);
	tomos_op_free(s.op);
	tomos_backend_close(s.backend);
	free(x), free(y);
}

static void operators(void **state)
{
	(void)state;
	int64_t before = mem_live();
	for (int kind = 0; kind < CASE_KINDS; kind++)
		for (int m = 0; m < CASE_MODELS; m++) {
			Case c = case_make(kind + CASE_KINDS * 2);
			fail_scene(&c, case_models[m], 0);
			fail_scene(&c, case_models[m], 1);
			tomos_geometry_free(c.scan);
		}
	assert_int_equal(mem_live(), before);
}

#define TESTS(T) T(opening), T(operators)
TEST_MAIN(TESTS, NULL, NULL)
