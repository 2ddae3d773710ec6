/* A raised flag ends all that takes long, soon; iterates stay whole, and are shown as they go. */
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "algo/problem.h"
#include "op/norm.h"

static tomos_cancel flag;

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

static void calls(void **state)
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

/* ---- a flag that goes up at any moment ------------------------------------------------------ */

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct {
	pthread_t thread;
	double after, raised; /* seconds to wait; when the flag went up */
} Timer;

static void *raise_later(void *user)
{
	Timer *timer = user;
	double end = now() + timer->after;
	while (now() < end)
		usleep(timer->after > 1e-2 ? 1000 : 1);
	timer->raised = now();
	tomos_cancel_raise(&flag);
	return NULL;
}

static void timer_start(Timer *timer, double after)
{
	timer->after = after;
	assert_int_equal(pthread_create(&timer->thread, NULL, raise_later, timer), 0);
}

static void timer_end(Timer *timer)
{
	pthread_join(timer->thread, NULL);
}

/* One call that takes seconds ends within a fraction of one, and the next call is right. */
static void one_projection(void **state)
{
	(void)state;
	Problem p = problem_make("cone", "joseph", 64, 2, 0);
	tomos_scan_options o = tomos_scan_defaults();
	const double axis = 4, detector = 6;
	tomos_geometry *scan;
	tomos_op *op;
	tomos_projector_options plain = tomos_projector_defaults();
	o.geometry = "cone";
	o.columns = 256, o.rows = 256, o.views = 500, o.pixel = 0.01;
	o.source_axis = &axis, o.source_axis_count = 1;
	o.source_detector = &detector, o.source_detector_count = 1;
	plain.plain = 1;
	OK(tomos_geometry_make(&scan, &o));
	OK(tomos_op_projector(&op, p.backend, &p.grid, scan, &plain));
	tomos_array y = problem_array(500, 256, 256);
	for (int way = 0; way < 2; way++) {
		Timer timer;
		tomos_cancel_clear(&flag);
		tomos_cancel_on(&flag);
		timer_start(&timer, 0.05);
		tomos_status status =
			way ? tomos_op_adjoint(op, &y, &p.x) : tomos_op_forward(op, &p.x, &y);
		double left = now();
		timer_end(&timer);
		tomos_cancel_on(NULL);
		assert_int_equal(status, TOMOS_CANCELLED);
		assert_true(left - timer.raised < 1);
	}
	OK(tomos_op_forward(p.op, &p.truth, &p.b));
	free(y.data);
	tomos_op_free(op);
	tomos_geometry_free(scan);
	problem_free(&p);
}

enum { STEPS = 6 };

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

/* Cancelled in the middle of an iteration, x is the iterate that the history counts, and the checkpoint
 * that of the same: with it the run ends with the bits of one that was never stopped. */
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

static int keep_iterate(void *user, const char *stage, int64_t done, int64_t total, double value)
{
	(void)stage, (void)value;
	float **iterates = user;
	if (total == STEPS && done > 0)
		memcpy(iterates[done], iterates[0], (size_t)(32 * 32) * sizeof(float));
	return 0;
}

static void cancel_method(Problem *p, const char *method)
{
	float *iterates[STEPS + 1];
	Lists lists;
	const tomos_progress progress = {keep_iterate, iterates};
	tomos_algebraic_options o = problem_options(&lists, STEPS);
	for (int i = 0; i <= STEPS; i++)
		iterates[i] = calloc((size_t)p->voxels, sizeof(float));
	tomos_array seen = tomos_array_of(iterates[0], 1, 32, 32);
	lists.history.iterate = &seen;
	problem_zero(p);
	OK(tomos_reconstruct(p->op, method, &p->b, &p->x, &o, &progress));
	for (int i = 0; i < (CASE_SLOW ? 2 : 12); i++)
		cancel_within(p, method, 5e-5 * i, iterates);
	for (int i = 0; i <= STEPS; i++)
		free(iterates[i]);
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

/* The projector of a problem, which is cancelled in a product of one's choice, counted from 1. */
typedef struct {
	const tomos_op *op;
	int calls, at;
} Counted;

static int counted_forward(void *user, const tomos_array *in, const tomos_array *out)
{
	Counted *c = user;
	return ++c->calls == c->at || tomos_op_forward(c->op, in, out) != TOMOS_OK;
}

static int counted_adjoint(void *user, const tomos_array *in, const tomos_array *out)
{
	Counted *c = user;
	return ++c->calls == c->at || tomos_op_adjoint(c->op, in, out) != TOMOS_OK;
}

static void cancel_product(Problem *p, const tomos_op *op, Counted *c, const char *method)
{
	float *iterates[STEPS + 1];
	Lists lists;
	const tomos_progress progress = {keep_iterate, iterates};
	tomos_algebraic_options o = problem_options(&lists, STEPS);
	for (int i = 0; i <= STEPS; i++)
		iterates[i] = calloc((size_t)p->voxels, sizeof(float));
	tomos_array seen = tomos_array_of(iterates[0], 1, 32, 32);
	lists.history.iterate = &seen;
	*c = (Counted){.op = p->op};
	problem_zero(p);
	OK(tomos_reconstruct(op, method, &p->b, &p->x, &o, &progress));
	*c = (Counted){.op = p->op}; /* once more, with the norm known */
	problem_zero(p);
	OK(tomos_reconstruct(op, method, &p->b, &p->x, &o, NULL));
	int all = c->calls;
	for (int at = all; at > all - 6; at--) {
		*c = (Counted){.op = p->op, .at = at};
		problem_zero(p);
		assert_int_equal(
			tomos_reconstruct(op, method, &p->b, &p->x, &o, NULL), TOMOS_CANCELLED);
		assert_true(lists.history.count > 0 && lists.history.count < STEPS);
		case_same(p->x.data, iterates[lists.history.count], p->voxels);
	}
	for (int i = 0; i <= STEPS; i++)
		free(iterates[i]);
}

/* In whichever product an iteration is cancelled, x is the iterate before it. */
static void any_product(void **state)
{
	(void)state;
	static const char *const methods[] = {
		"sirt", "cgls", "lsqr", "lsmr", "mlem", "fista", "pdhg"};
	Problem p = problem_make("parallel", "joseph", 32, 40, 0.01);
	Counted c = {.op = p.op};
	const tomos_custom calls = {sizeof calls, counted_forward, counted_adjoint, &c, NULL};
	tomos_op *op;
	const int64_t domain[3] = {1, 32, 32}, range[3] = {40, 1, 32};
	OK(tomos_op_custom(&op, p.backend, domain, range, &calls));
	for (int i = 0; i < COUNT(methods); i++) {
		c = (Counted){.op = p.op};
		cancel_product(&p, op, &c, methods[i]);
		tomos_op_free(op); /* with the norm that it keeps */
		OK(tomos_op_custom(&op, p.backend, domain, range, &calls));
	}
	tomos_op_free(op);
	problem_free(&p);
}

/* ---- what is neither a projection nor a method ---------------------------------------------- */

static void cut_files(const tomos_array *a)
{
	static const char *const names[] = {"cut.h5", "cut.npy", "cut.mhd", "cut.tiff", "cut/"};
	struct stat info;
	for (int i = 0; i < COUNT(names); i++) {
		tomos_file *file;
		tomos_cancel_clear(&flag);
		OK(tomos_file_create(&file, names[i], TOMOS_VOLUME, a->shape, NULL));
		tomos_cancel_raise(&flag);
		REJECTED(tomos_file_write(file, 0, a->shape[0], a->data), TOMOS_CANCELLED,
			"writing was cancelled");
		tomos_cancel_clear(&flag);
		OK(tomos_file_write(file, 0, a->shape[0], a->data));
		tomos_cancel_raise(&flag);
		assert_int_equal(tomos_file_commit(file), TOMOS_CANCELLED);
		tomos_file_close(file);
		assert_true(stat(names[i], &info) != 0);
	}
}

static void other_calls(void **state)
{
	(void)state;
	Problem p = problem_make("parallel", "joseph", 64, 20, 0);
	double angles[20];
	tomos_phantom *phantom;
	tomos_difference difference = {.bytes = sizeof difference};
	tomos_op *op;
	tomos_axis axis = {.bytes = sizeof axis};
	tomos_prep_options prep = tomos_prep_defaults();
	for (int i = 0; i < 20; i++)
		angles[i] = 3.14159265358979 * i / 20;
	prep.rings = "vo";
	OK(tomos_phantom_named(&phantom, "ball", NULL));
	int64_t live = mem_live();
	tomos_cancel_raise(&flag);
	tomos_cancel_on(&flag);
#define CUT(call) REJECTED(call, TOMOS_CANCELLED, "was cancelled")
	CUT(tomos_phantom_volume(phantom, &p.grid, 1, &p.x));
	CUT(tomos_phantom_project(phantom, p.scan, 1, &p.b));
	CUT(tomos_noise_gaussian(&p.b, 0.1, 1));
	CUT(tomos_noise_poisson(&p.b, 1e4, 1));
	CUT(tomos_compare(&p.x, &p.truth, &difference));
	CUT(tomos_array_check(&p.x, "x"));
	CUT(tomos_prepare(&p.b, NULL, &prep, &p.b, NULL, NULL));
	CUT(tomos_axis_find(&axis, p.backend, &p.b, angles, NULL, NULL));
	for (int i = 0; i < 2; i++) {
		tomos_matrix_options o = tomos_matrix_defaults();
		o.storage = i ? "scsr" : "csr";
		CUT(tomos_op_matrix(&op, p.backend, &p.grid, p.scan, NULL, &o));
	}
	cut_files(&p.truth);
	tomos_cancel_clear(&flag);
	OK(tomos_compare(&p.truth, &p.truth, &difference));
	tomos_cancel_on(NULL);
	assert_int_equal(mem_live(), live);
	tomos_phantom_free(phantom);
	problem_free(&p);
}

/* ---- the norm ------------------------------------------------------------------------------- */

static int count_norm(void *user, const char *stage, int64_t done, int64_t total, double value)
{
	(void)done, (void)total, (void)value;
	int *left = user;
	if (strcmp(stage, "norm") == 0)
		--*left;
	return *left == 0;
}

/* Few products, reported and cancelled; the same again at once; from above for steps. */
static void norm(void **state)
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

/* A norm of the user's is taken as it is; one that is too small is noticed by the steps, or the run ends
 * with a failure of its own. */
static void given_norm(void **state)
{
	(void)state;
	static const char *const methods[] = {"fista", "pdhg"};
	Problem p = problem_make("parallel", "joseph", 32, 40, 0);
	double exact;
	OK(tomos_op_norm(p.op, &exact, NULL));
	for (int i = 0; i < 2; i++) {
		Lists lists;
		int left = 1;
		const tomos_progress progress = {count_norm, &left};
		tomos_algebraic_options o = problem_options(&lists, 60);
		o.norm = exact;
		problem_zero(&p);
		OK(tomos_reconstruct(p.op, methods[i], &p.b, &p.x, &o, &progress));
		double best = lists.residual[59];
		o.norm = 0.5 * exact;
		problem_zero(&p);
		OK(tomos_reconstruct(p.op, methods[i], &p.b, &p.x, &o, NULL));
		assert_true(lists.residual[59] < 2 * best + 0.01);
		o.norm = 1e-6 * exact;
		problem_zero(&p);
		REJECTED(tomos_reconstruct(p.op, methods[i], &p.b, &p.x, &o, NULL), TOMOS_DIVERGED,
			"times that of the start; a norm above");
		o.norm = -1;
		REJECTED(tomos_reconstruct(p.op, methods[i], &p.b, &p.x, &o, NULL), TOMOS_BAD_VALUE,
			"norm -1: it must be above 0");
	}
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loops),
		cmocka_unit_test(calls),
		cmocka_unit_test(whole_iterates),
		cmocka_unit_test(iterates_are_shown),
		cmocka_unit_test(one_projection),
		cmocka_unit_test(any_moment),
		cmocka_unit_test(any_product),
		cmocka_unit_test(other_calls),
		cmocka_unit_test(norm),
		cmocka_unit_test(given_norm),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
