/* tomos lambda: the relaxation parameter with the smallest error after a given number of
 * iterations.
 *
 * The training of P. C. Hansen and M. Saxild-Hansen, "AIR Tools: a MATLAB package of algebraic
 * iterative reconstruction methods", J. Comput. Appl. Math. 236 (2012): a phantom is scanned with
 * the same geometry and noise, and the parameter is bracketed by powers of two, then refined by
 * golden section.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "plot.h"

enum { MOST = 64 }; /* runs */
#define GOLDEN 0.61803398874989484820

typedef struct training {
	const settings *s;
	tomos_backend *backend;
	tomos_geometry *scan;
	tomos_grid grid;
	tomos_op *op;
	tomos_array truth, data, volume;
	double lambda[MOST], error[MOST]; /* runs so far */
	int64_t best[MOST];
	int runs;
} training;

/* Views from a scan file, or from the options of tomos project. */
static int training_views(const settings *s, tomos_geometry **scan)
{
	const extent object = {.radius = s->phantom.radius, .height = s->phantom.radius};
	tomos_file *file = NULL;
	tomos_file_info info = {0};
	int code;
	if (s->operand_count == 0)
		return s->views.views_file[0] ? load_views(s, 0, 0, scan)
					      : scan_make(s, &object, scan);
	DO(settings_reject(s, GROUP_scan, -1, "with a scan from a file"));
	DO(file_open(s, s->operands[0], &file, &info));
	if (s->views.views_file[0])
		DO(load_views_of(s, info.shape, scan));
	else if (info.has_geometry)
		DO(lib(tomos_file_geometry(file, scan)));
	else
		DO(failed("'%s' has no geometry; name one with --views-file", s->operands[0]));
done:
	tomos_file_close(file);
	return code;
}

/* The phantom fills the grid unless --radius is given. */
static int training_phantom(training *t, tomos_phantom **phantom)
{
	tomos_phantom_options o = t->s->phantom;
	const char *name = t->s->lambda.phantom;
	if (!name[0])
		name = t->grid.n[2] > 1 ? "shepp-logan-modified" : "shepp-logan-2d-modified";
	if (!settings_given(t->s, GROUP_phantom, "radius"))
		o.radius = 0.5 * fmin((double)t->grid.n[0] * fabs(t->grid.step[0]),
					 (double)t->grid.n[1] * fabs(t->grid.step[1]));
	return lib(tomos_phantom_named(phantom, name, &o));
}

static int training_noise(training *t)
{
	const noise_options *o = &t->s->noise;
	int code = DONE;
	if (o->photons != 0)
		code = lib(tomos_noise_poisson(&t->data, o->photons, (uint64_t)o->seed));
	if (code == DONE && o->noise != 0)
		code = lib(tomos_noise_gaussian(
			&t->data, o->noise, (uint64_t)o->seed + ((uint64_t)1 << 31)));
	return code;
}

static int training_prepare(training *t)
{
	tomos_phantom *phantom = NULL;
	int code;
	DO(training_views(t->s, &t->scan));
	DO(lib(tomos_grid_for(&t->grid, t->scan, &t->s->grid)));
	const int64_t x[3] = {t->grid.n[2], t->grid.n[1], t->grid.n[0]};
	const int64_t y[3] = {tomos_geometry_count(t->scan), tomos_geometry_rows(t->scan),
		tomos_geometry_columns(t->scan)};
	DO(array_new(&t->truth, x, "the phantom"));
	DO(array_new(&t->volume, x, "the volume"));
	DO(array_new(&t->data, y, "the projections"));
	DO(training_phantom(t, &phantom));
	DO(pieces_volume(phantom, &t->grid, 2, &t->truth));
	DO(pieces_phantom(phantom, t->scan, 2, &t->data));
	DO(training_noise(t));
	DO(lib(tomos_backend_open_with(&t->backend, t->s->backend.backend, &t->s->device)));
	DO(lib(tomos_op_projector(&t->op, t->backend, &t->grid, t->scan, &t->s->projector)));
done:
	tomos_phantom_free(phantom);
	return code;
}

static void training_free(training *t)
{
	array_free(&t->truth);
	array_free(&t->data);
	array_free(&t->volume);
	tomos_op_free(t->op);
	tomos_geometry_free(t->scan);
	tomos_backend_close(t->backend);
}

/* The smallest error of all iterations for one relaxation parameter; infinite if it diverges. */
static int train(training *t, double lambda, double *error)
{
	tomos_algebraic_options o = t->s->algebraic;
	tomos_history history = {.bytes = sizeof history};
	const int64_t *n = t->volume.shape;
	double *errors = malloc((size_t)(o.iterations + 1) * sizeof *errors);
	int code;
	if (!errors)
		return failed("no memory for the errors");
	history.error = errors;
	history.capacity = o.iterations;
	o.relaxation = lambda;
	o.truth = &t->truth;
	o.history = &history;
	memset(t->volume.data, 0, (size_t)(n[0] * n[1] * n[2]) * sizeof(float));
	tomos_status status = tomos_reconstruct(
		t->op, t->s->lambda.method, &t->data, &t->volume, &o, progress_silent());
	bool diverged = status == TOMOS_DIVERGED;
	DO(diverged ? DONE : lib(status));
	*error = diverged || history.best == 0 ? HUGE_VAL : errors[history.best - 1];
	if (t->runs < MOST) {
		t->lambda[t->runs] = lambda;
		t->best[t->runs] = history.best;
		t->error[t->runs++] = *error;
	}
	say("  %-10.5g  error %-10.5g  after %lld iteration%s\n", lambda, *error,
		(long long)history.best, history.best == 1 ? "" : "s");
done:
	free(errors);
	return code;
}

/* The largest relaxation parameter to try: with most weights all operators converge below 2; 0: the
 * limit depends on the norm of the operator. */
static double largest_relaxation(const settings *s)
{
	const char *weights = s->algebraic.weights;
	bool free_scale = strcmp(weights, "cimmino") == 0 || strcmp(weights, "landweber") == 0;
	return s->lambda.largest > 0 ? s->lambda.largest : free_scale ? 0 : 1.99;
}

/* Halves the parameter, starting with the largest: the minimum is between the neighbours of the
 * best. */
static int bracket(training *t, double largest, double *low, double *high)
{
	double least = HUGE_VAL, at = largest, error = HUGE_VAL;
	int code = DONE, worse = 0;
	for (double lambda = largest; code == DONE && worse < 3 && t->runs < 24; lambda /= 2) {
		code = train(t, lambda, &error);
		worse = error < least ? 0 : worse + (least < HUGE_VAL);
		at = error < least ? lambda : at;
		least = fmin(least, error);
	}
	*low = at / 2;
	*high = fmin(2 * at, largest);
	return code == DONE && least == HUGE_VAL ? failed("every relaxation diverges") : code;
}

static int narrow(training *t, double low, double high)
{
	double a = high - GOLDEN * (high - low), b = low + GOLDEN * (high - low), at_a, at_b;
	int code;
	DO(train(t, a, &at_a));
	DO(train(t, b, &at_b));
	while (high - low > t->s->lambda.precision * high && t->runs < MOST) {
		if (at_a <= at_b) {
			high = b, b = a, at_b = at_a;
			a = high - GOLDEN * (high - low);
			DO(train(t, a, &at_a));
		} else {
			low = a, a = b, at_a = at_b;
			b = low + GOLDEN * (high - low);
			DO(train(t, b, &at_b));
		}
	}
done:
	return code;
}

static void sort_runs(training *t)
{
	for (int i = 1; i < t->runs; i++)
		for (int j = i; j > 0 && t->lambda[j] < t->lambda[j - 1]; j--) {
			double lambda = t->lambda[j], error = t->error[j];
			int64_t best = t->best[j];
			t->lambda[j] = t->lambda[j - 1], t->error[j] = t->error[j - 1];
			t->best[j] = t->best[j - 1];
			t->lambda[j - 1] = lambda, t->error[j - 1] = error, t->best[j - 1] = best;
		}
}

static int training_report(training *t)
{
	int best = 0;
	sort_runs(t);
	for (int i = 1; i < t->runs; i++)
		best = t->error[i] < t->error[best] ? i : best;
	printf("relaxation %.4g: error %.5g after %lld iteration%s of %s\n", t->lambda[best],
		t->error[best], (long long)t->best[best], t->best[best] == 1 ? "" : "s",
		t->s->lambda.method);
	if (!t->s->lambda.plot[0])
		return DONE;
	const curve one = {"error", t->error, t->runs};
	const plot p = {.title = t->s->lambda.method,
		.curves = &one,
		.curve_count = 1,
		.places = t->lambda,
		.across = "relaxation λ",
		.up = "relative error"};
	return plot_write(t->s->lambda.plot, &p, &t->s->file);
}

int cmd_lambda(const settings *s)
{
	training t = {.s = s};
	double largest = largest_relaxation(s), low, high;
	int code;
	if (!tomos_method_uses(s->lambda.method, "relaxation"))
		return wrong_usage("--method %s has no relaxation", s->lambda.method);
	if (largest == 0)
		return wrong_usage("--weights %s have no bound; name one with --largest",
			s->algebraic.weights);
	if (s->algebraic.iterations < 1)
		return wrong_usage("--iterations: there must be one at least");
	DO(training_prepare(&t));
	say("%s, %lld iterations, on %s\n", s->lambda.method, (long long)s->algebraic.iterations,
		tomos_backend_describe(t.backend));
	DO(bracket(&t, largest, &low, &high));
	DO(narrow(&t, low, high));
	DO(training_report(&t));
done:
	training_free(&t);
	return code;
}
