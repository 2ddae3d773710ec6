/* Data stay on the device through a whole algorithm: what an iteration allocates, transfers and waits for
 * is counted. On backends that count. */
#include "algo/problem.h"

enum { ITERATIONS = 5 };

typedef struct {
	const tomos_backend *backend;
	BackendCounts after[ITERATIONS + 1];
} Seen;

static int see(void *user, const char *stage, int64_t done, int64_t total, double value)
{
	Seen *seen = user;
	(void)stage;
	(void)total;
	(void)value;
	if (done >= 0 && done <= ITERATIONS)
		seen->after[done] = seen->backend->type->counts(seen->backend);
	return 0;
}

static Seen count(Problem *p, const char *method)
{
	Seen seen = {.backend = p->backend};
	const tomos_progress progress = {see, &seen};
	tomos_algebraic_options o = problem_options(NULL, ITERATIONS);
	if (tomos_method_uses(method, "strength"))
		o.strength = 1e-3;
	problem_zero(p);
	OK(tomos_reconstruct(p->op, method, &p->b, &p->x, &o, &progress));
	assert_true(seen.after[ITERATIONS].waits > 0);
	return seen;
}

static bool counts(const Problem *p)
{
	if (!p->backend->type->counts)
		print_message("the %s backend does not count\n", test_backend());
	return p->backend->type->counts;
}

/* From the second iteration on, nothing is allocated or transferred. */
static void nothing_moves(void **state)
{
	(void)state;
	Problem p = problem_make("fan", "joseph", 24, 20, 0.01);
	bool counted = counts(&p);
	char names[256], *rest = names;
	snprintf(names, sizeof names, "%s", tomos_method_names());
	for (char *name = strtok_r(names, "|", &rest); counted && name;
		name = strtok_r(NULL, "|", &rest)) {
		if (!problem_has(&p, name))
			continue;
		Seen seen = count(&p, name);
		const BackendCounts *second = &seen.after[1], *last = &seen.after[ITERATIONS];
		printf("  %-9s waits per iteration: %.1f\n", name,
			(double)(last->waits - second->waits) / (ITERATIONS - 1));
		if (last->allocations != second->allocations ||
			last->transfers != second->transfers)
			fail_msg("%s: %lld allocations and %lld transfers in iterations", name,
				(long long)(last->allocations - second->allocations),
				(long long)(last->transfers - second->transfers));
	}
	problem_free(&p);
	if (!counted)
		skip();
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_moves)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
