/* Cancelling within a projection, a product or the estimate of a norm. */
#include "algo/cancel_help.h"

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

/* The projector of a problem, which is cancelled in a product of one's choice, counted from 1. */
typedef struct {
	const tomos_op *op;
	int calls, at;
} Counted;

static bool cancelled_here(Counted *c)
{
	if (++c->calls == c->at)
		tomos_cancel_raise(&flag);
	return c->calls == c->at;
}

static int counted_forward(void *user, const tomos_array *in, const tomos_array *out)
{
	Counted *c = user;
	return cancelled_here(c) || tomos_op_forward(c->op, in, out) != TOMOS_OK;
}

static int counted_adjoint(void *user, const tomos_array *in, const tomos_array *out)
{
	Counted *c = user;
	return cancelled_here(c) || tomos_op_adjoint(c->op, in, out) != TOMOS_OK;
}

static void cancel_product(Problem *p, const tomos_op *op, Counted *c, const char *method)
{
	Iterates it;
	const tomos_history *history = &it.lists.history;
	iterates_make(&it);
	*c = (Counted){.op = p->op};
	problem_zero(p);
	OK(tomos_reconstruct(op, method, &p->b, &p->x, &it.options, &it.progress));
	*c = (Counted){.op = p->op}; /* once more, with the norm known */
	problem_zero(p);
	OK(tomos_reconstruct(op, method, &p->b, &p->x, &it.options, NULL));
	int all = c->calls;
	for (int at = all; at > all - 6; at--) {
		*c = (Counted){.op = p->op, .at = at};
		problem_zero(p);
		tomos_cancel_clear(&flag);
		tomos_cancel_on(&flag);
		tomos_status status =
			tomos_reconstruct(op, method, &p->b, &p->x, &it.options, NULL);
		tomos_cancel_on(NULL);
		assert_int_equal(status, TOMOS_CANCELLED);
		assert_true(history->count > 0 && history->count < STEPS);
		case_same(p->x.data, it.list[history->count], p->voxels);
	}
	iterates_free(&it);
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

/* ---- what is neither a projection nor a method ----------------------------------------------- */

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

/* A norm of the user's is taken as it is; one that is too small is noticed by the steps, or the run
 * ends with a failure of its own. */
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

#define TESTS(T) T(one_projection), T(any_product), T(other_calls), T(norm), T(given_norm)
TEST_MAIN(TESTS, NULL, NULL)
