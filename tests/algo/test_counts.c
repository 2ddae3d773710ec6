/* Data stay on the device through a whole algorithm: what an iteration allocates, transfers and
 * waits for is counted. On backends that count. */
#include "algo/problem.h"

enum { ITERATIONS = 5 };

typedef struct {
	const tomos_backend *backend;
	BackendCounts after[ITERATIONS + 1];
	int64_t reductions[ITERATIONS + 1];
} Seen;

static int64_t reductions;

static int see(void *user, const char *stage, int64_t done, int64_t total, double value)
{
	Seen *seen = user;
	(void)stage;
	(void)total;
	(void)value;
	assert_true(done >= 0 && done <= ITERATIONS);
	seen->after[done] = seen->backend->type->memory->counts(seen->backend);
	seen->reductions[done] = reductions;
	return 0;
}

/* The backend's own reductions, counted on their way. */
static const BackendType *counted;

static tomos_status dot(tomos_backend *b, int64_t n, const float *x, const float *y, double *result)
{
	reductions++;
	return counted->vector->dot(b, n, x, y, result);
}

static tomos_status dots(tomos_backend *b, int64_t n, int count, const float *const *list,
	const float *x, double *results)
{
	reductions++;
	return counted->vector->dots(b, n, count, list, x, results);
}

static tomos_status distance(
	tomos_backend *b, int64_t n, const float *x, const float *y, double *result)
{
	reductions++;
	return counted->vector->distance(b, n, x, y, result);
}

static tomos_status largest(tomos_backend *b, int64_t n, const float *x, double *result)
{
	reductions++;
	return counted->vector->max_abs(b, n, x, result);
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

static void check(const Seen *seen, const char *method)
{
	const BackendCounts *first = &seen->after[1], *last = &seen->after[ITERATIONS];
	int64_t sums = seen->reductions[ITERATIONS] - seen->reductions[1];
	printf("  %-9s %4.1f sums per iteration\n", method, (double)sums / (ITERATIONS - 1));
	if (last->allocations != first->allocations || last->transfers != first->transfers ||
		last->waits - first->waits != sums)
		fail_msg("%s: %lld allocations, %lld transfers, %lld waits for %lld sums", method,
			(long long)(last->allocations - first->allocations),
			(long long)(last->transfers - first->transfers),
			(long long)(last->waits - first->waits), (long long)sums);
}

/* From the second iteration on nothing is allocated or transferred, and only sums are waited
 * for. */
static void nothing_moves(void **state)
{
	(void)state;
	Problem p = problem_make("fan", "joseph", 24, 20, 0.01);
	counted = p.backend->type;
	BackendCopy copy;
	backend_copy(&copy, counted);
	copy.vector.dot = dot, copy.vector.distance = distance, copy.vector.max_abs = largest;
	if (counted->vector->dots)
		copy.vector.dots = dots;
	p.backend->type = &copy.type;
	char names[256], *rest = names;
	snprintf(names, sizeof names, "%s", counted->memory->counts ? tomos_method_names() : "");
	for (char *name = strtok_r(names, "|", &rest); name; name = strtok_r(NULL, "|", &rest)) {
		Seen seen = count(&p, name);
		check(&seen, name);
	}
	p.backend->type = counted;
	problem_free(&p);
	if (!counted->memory->counts) {
		print_message("the %s backend does not count\n", test_backend());
		skip();
	}
}

#define TESTS(T) T(nothing_moves)
TEST_MAIN(TESTS, NULL, NULL)
