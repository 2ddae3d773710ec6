/* Updates of the voxels in one pass over them are those of a back projection and a step after it. */
#include "op/op.h"
#include "ops/cases.h"

enum { CASES = 132, MOST_VIEWS = 4 };

typedef struct {
	Case c;
	tomos_op *op, *part; /* the part: its first few views */
	int64_t pixels;      /* of the part */
	float *x, *y, *rays, *mask, *now, *sum, *under;
} Setting;

static tomos_backend *level(const char *name)
{
	tomos_backend *backend = NULL;
	setenv("TOMOS_CPU", name, 1);
	if (tomos_backend_open(&backend, "cpu") != TOMOS_OK)
		backend = NULL;
	unsetenv("TOMOS_CPU");
	return backend;
}

/* A slice that several tasks share, after the small ones of the list. */
static Case any_case(int number)
{
	if (number < CASES)
		return case_make(number);
	Case c = {.state = (uint64_t)number, .name = "a larger slice"};
	double angles[7] = {0.1, 0.5, 0.9, 1.3, 1.7, 2.1, 2.5};
	OK(tomos_geometry_parallel(&c.scan, 1, 150, 0.9, angles, 7));
	OK(tomos_grid_centred(&c.grid, 131, 117, 1, 1));
	c.voxels = (int64_t)131 * 117;
	c.pixels = (int64_t)7 * 150;
	return c;
}

static Setting setting_make(int number, tomos_backend *backend)
{
	static const int64_t views[MOST_VIEWS] = {0, 1, 2, 3};
	Setting s = {.c = any_case(number)};
	Case *c = &s.c;
	tomos_projector_options o = tomos_projector_defaults();
	o.forward = number / CASE_KINDS % 2 ? "voxel" : "joseph";
	OK(tomos_op_projector(&s.op, backend, &c->grid, c->scan, &o));
	int64_t count = min64(1 + number % MOST_VIEWS, tomos_geometry_count(c->scan));
	OK(op_part(s.op, &s.part, views, count));
	s.pixels = s.part->range.count;
	s.x = case_data(c, c->voxels);
	s.y = case_data(c, s.pixels);
	s.rays = case_data(c, s.pixels);
	s.mask = case_data(c, c->voxels);
	s.now = case_data(c, c->voxels);
	s.sum = case_data(c, c->voxels);
	s.under = case_data(c, c->voxels);
	for (int64_t i = 0; i < s.pixels; i++)
		s.rays[i] = number % 3 ? fabsf(s.rays[i]) : 1;
	for (int64_t i = 0; i < c->voxels; i++)
		s.mask[i] = s.mask[i] > 0;
	return s;
}

static void setting_free(Setting *s)
{
	tomos_op_free(s->part);
	tomos_op_free(s->op);
	tomos_geometry_free(s->c.scan);
	free(s->x), free(s->y), free(s->rays), free(s->mask), free(s->now), free(s->sum);
	free(s->under);
}

/* Voxels that hardly any ray meets may be left out by one way and not by the other. */
static void compare(const Setting *s, const tomos_op *op, const BackStep *step, double *worst)
{
	float *ones = malloc((size_t)s->pixels * sizeof *ones), most = 0;
	for (int64_t i = 0; i < s->pixels; i++)
		ones[i] = 1;
	OK(op_adjoint(op, s->y, s->sum));
	OK(op_adjoint(op, step->rays ? step->rays : ones, s->under));
	for (int64_t i = 0; i < s->c.voxels; i++)
		most = fmaxf(most, s->under[i]);
	for (int64_t i = 0; i < s->c.voxels; i++) {
		double under = step->average ? s->under[i] : 1;
		if (step->average && under > 0 && under < 1e-3 * most)
			continue;
		double by = under > 0 ? s->sum[i] / under : 0;
		double value = fmin(fmax(s->x[i] + step->a * by, step->low), step->high);
		double error = fabs(value - s->now[i]) / (1 + fabs(step->a * by));
		if (!(error < 1e-4))
			fail_msg("%s, voxel %lld: %g, not %g (weights %g of %g)", s->c.name,
				(long long)i, s->now[i], value, under, most);
		*worst = fmax(*worst, error);
	}
	free(ones);
}

/* Whether the operator has the step; where it has not, nothing may have changed. */
static bool step_with(Setting *s, const tomos_op *op, const BackStep *step, double *worst)
{
	bool done;
	size_t bytes = (size_t)s->c.voxels * sizeof(float);
	memcpy(s->now, s->x, bytes);
	OK(op_adjoint_step(op, s->y, step, s->now, &done));
	if (done)
		compare(s, op, step, worst);
	else
		assert_memory_equal(s->now, s->x, bytes);
	return done;
}

static bool all_steps(Setting *s, double *worst)
{
	BackStep step = {.a = 0.7F, .low = -INFINITY, .high = INFINITY, .least = 1e-6F};
	tomos_op *weighted;
	bool done = step_with(s, s->part, &step, worst);
	step.average = true;
	assert_true(step_with(s, s->part, &step, worst) == done);
	step.rays = s->rays;
	step.low = 0;
	step.high = 0.8F;
	assert_true(step_with(s, s->part, &step, worst) == done);
	for (int64_t i = 0; i < s->c.voxels; i++)
		s->x[i] *= s->mask[i];
	OK(op_weighted(&weighted, s->part, s->rays, s->mask));
	assert_true(step_with(s, weighted, &step, worst) == done);
	step.rays = NULL;
	assert_true(step_with(s, weighted, &step, worst) == done);
	tomos_op_free(weighted);
	return done;
}

static void one_pass_is_two(void **state)
{
	(void)state;
	static const char *const levels[] = {"base", "avx2", "avx512", "neon"};
	for (int l = 0; l < COUNT(levels); l++) {
		tomos_backend *backend = level(levels[l]);
		if (!backend) {
			printf("  %s: not on this processor, skipped\n", levels[l]);
			continue;
		}
		double worst = 0;
		int done = 0;
		for (int i = 0; i < CASES + 2 * CASE_KINDS; i++) {
			Setting s = setting_make(i, backend);
			bool has = all_steps(&s, &worst);
			bool point = tomos_geometry_list(s.c.scan)[0].src[3] != 0;
			assert_false(has && point);
			assert_true(has || i < CASES);
			done += has;
			setting_free(&s);
		}
		printf("  %s: %d in one pass, largest difference %.1e\n", levels[l], done, worst);
		assert_true(done > CASES / 4);
		tomos_backend_close(backend);
	}
}

/* With many views it is not worth while, and nothing is done. */
static void not_with_many_views(void **state)
{
	(void)state;
	tomos_backend *backend = level("base");
	Case c = any_case(CASES);
	tomos_op *op;
	float *x = case_data(&c, c.voxels), *y = case_data(&c, c.pixels), first = x[0];
	BackStep step = {.a = 1, .high = 1};
	bool done = true;
	OK(tomos_op_projector(&op, backend, &c.grid, c.scan, NULL));
	OK(op_adjoint_step(op, y, &step, x, &done));
	assert_false(done);
	assert_true(x[0] == first);
	tomos_op_free(op);
	tomos_geometry_free(c.scan);
	tomos_backend_close(backend);
	free(x), free(y);
}

static void memory(void **state)
{
	(void)state;
	tomos_backend *backend = level("base");
	Setting s = setting_make(CASES, backend);
	BackStep step = {.a = 1, .low = -1, .high = 1, .average = true};
	int64_t live = mem_live();
	bool done = false;
	for (int64_t nth = 1; !done; nth++) {
		mem_fail_nth(nth);
		tomos_status status = op_adjoint_step(s.part, s.y, &step, s.now, &done);
		mem_fail_nth(0);
		done = status == TOMOS_OK;
		assert_true(done || status == TOMOS_NO_MEMORY);
		assert_int_equal(mem_live(), live);
		assert_true(nth < 10);
	}
	setting_free(&s);
	tomos_backend_close(backend);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(one_pass_is_two),
		cmocka_unit_test(not_with_many_views), cmocka_unit_test(memory)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
