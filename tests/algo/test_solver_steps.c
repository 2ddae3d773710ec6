/* One step of cgls, lsqr, lsmr, fista, pdhg and asd-pocs compared with the formulas, on a matrix of
 * 42 rays and 20 voxels. */
#include "algo/steps_help.h"

/* ---- cgls, lsqr, lsmr ------------------------------------------------------------------------ */

/* A' W A x + alpha x */
static void normal(const Dense *d, double alpha, const double *x, double *Hx)
{
	double y[RAYS];
	for (int i = 0; i < RAYS; i++)
		y[i] = d->w[i] * dense_row(d, i, x);
	dense_back(d, 0, RAYS, y, Hx);
	for (int j = 0; j < VOXELS; j++)
		Hx[j] += alpha * x[j];
}

/* An orthonormal basis of the Krylov space of H and g. */
static void krylov(const Dense *d, double alpha, const double *g, int count, double basis[][VOXELS])
{
	for (int k = 0; k < count; k++) {
		if (k == 0)
			memcpy(basis[0], g, sizeof basis[0]);
		else
			normal(d, alpha, basis[k - 1], basis[k]);
		for (int pass = 0; pass < 2; pass++)
			for (int l = 0; l < k; l++) {
				double dot = dense_dot(basis[k], basis[l], VOXELS);
				for (int j = 0; j < VOXELS; j++)
					basis[k][j] -= dot * basis[l][j];
			}
		double length = sqrt(dense_dot(basis[k], basis[k], VOXELS));
		for (int j = 0; j < VOXELS; j++)
			basis[k][j] /= length;
	}
}

/* Gauss' elimination of a positive matrix. */
static void solve(int n, double m[][4], double *right)
{
	for (int k = 0; k < n; k++)
		for (int i = k + 1; i < n; i++) {
			double factor = m[i][k] / m[k][k];
			for (int j = k; j < n; j++)
				m[i][j] -= factor * m[k][j];
			right[i] -= factor * right[k];
		}
	for (int k = n - 1; k >= 0; k--) {
		for (int j = k + 1; j < n; j++)
			right[k] -= m[k][j] * right[j];
		right[k] /= m[k][k];
	}
}

/* In the Krylov space of k steps CGLS and LSQR make the penalised residual least, LSMR the
 * gradient. */
static void least_in_krylov(Dense *d, int steps, bool of_gradient, double *x)
{
	double basis[4][VOXELS], H[4][VOXELS], g[VOXELS], m[4][4], right[4], alpha = d->o.strength;
	dense_begin(d, x);
	dense_gradient(d, x, g);
	krylov(d, alpha, g, steps, basis);
	for (int k = 0; k < steps; k++)
		normal(d, alpha, basis[k], H[k]);
	for (int k = 0; k < steps; k++) {
		for (int l = 0; l < steps; l++)
			m[k][l] = dense_dot(of_gradient ? H[k] : basis[k], H[l], VOXELS);
		right[k] = dense_dot(of_gradient ? H[k] : basis[k], g, VOXELS);
	}
	solve(steps, m, right);
	for (int k = 0; k < steps; k++)
		for (int j = 0; j < VOXELS; j++)
			x[j] += right[k] * basis[k][j];
}

static void krylov_methods(void **state)
{
	(void)state;
	static const char *const methods[] = {"cgls", "lsqr", "lsmr"};
	Dense d;
	for (int way = 0; way < WAYS; way += 2)
		for (int i = 0; i < 3 * 4 * 2; i++) {
			double x[VOXELS], alpha = i / 12 * 0.8;
			int steps = 1 + i / 3 % 4;
			char what[64];
			snprintf(what, sizeof what, "%s, %d steps, damping %g, way %d",
				methods[i % 3], steps, alpha, way);
			dense_way(&d, way);
			d.o.strength = alpha;
			dense_run(&d, methods[i % 3], steps);
			least_in_krylov(&d, steps, i % 3 == 2, x);
			dense_same(&d, what, x, 5 * ROUNDING);
			dense_free(&d);
		}
}

/* ---- fista, pdhg ----------------------------------------------------------------------------- */

static double soft(double x, double a)
{
	return copysign(fmax(fabs(x) - a, 0), x);
}

static double prox(const Dense *d, double x, double step, int j)
{
	double a = step * d->o.strength;
	if (strcmp(d->o.regulariser, "tikhonov") == 0)
		x /= 1 + a;
	if (strcmp(d->o.regulariser, "l1") == 0)
		x = soft(x, a);
	return dense_bound(d, x, j);
}

/* The step size, measured from the first step. It must be just within the theoretical bound. */
static double step_size(Dense *d, const char *method)
{
	double x[VOXELS], g[VOXELS], way = 0;
	tomos_algebraic_options o = d->o;
	d->o.minimum = -HUGE_VAL, d->o.maximum = HUGE_VAL;
	d->o.strength = 0, d->o.regulariser = "none";
	dense_run(d, method, 1);
	dense_begin(d, x);
	dense_gradient(d, x, g);
	for (int j = 0; j < VOXELS; j++)
		way += (d->image[j] - x[j]) * g[j];
	d->o = o;
	return way / dense_dot(g, g, VOXELS);
}

static void set_penalty(Dense *d, int penalty)
{
	static const char *const names[] = {"none", "tikhonov", "l1"};
	d->o.regulariser = names[penalty];
	d->o.strength = penalty == 0 ? 0 : 0.7;
}

static double largest(const Dense *d)
{
	Dense plain = *d;
	plain.o.weights = "landweber";
	return eigenvalue(&plain);
}

static void proximal_gradients(void **state)
{
	(void)state;
	Dense d;
	for (int i = 0; i < WAYS * 3; i++) {
		double x[VOXELS], old[VOXELS], g[VOXELS], t = 1;
		dense_way(&d, i / 3);
		set_penalty(&d, i % 3);
		double step = step_size(&d, "fista");
		assert_true(step * largest(&d) <= 1 && step * largest(&d) > 0.8);
		dense_run(&d, "fista", 6);
		dense_begin(&d, x);
		for (int j = 0; j < VOXELS; j++)
			x[j] = old[j] = dense_bound(&d, x[j], j);
		for (int k = 0; k < 6; k++) {
			double y[VOXELS], next = 0.5 * (1 + sqrt(1 + 4 * t * t));
			for (int j = 0; j < VOXELS; j++)
				y[j] = x[j] + (t - 1) / next * (x[j] - old[j]);
			dense_gradient(&d, y, g);
			memcpy(old, x, sizeof old);
			for (int j = 0; j < VOXELS; j++)
				x[j] = prox(&d, y[j] + step * g[j], step, j);
			t = next;
		}
		dense_same(&d, "fista", x, 5 * ROUNDING);
		dense_free(&d);
	}
}

/* y <- (y + s (A (2 x - old) - b)) / (1 + s), x <- prox(x - t A'y), s = 0.15; with y = 0 at first
 * the first step is s t / (1 + s) along the gradient. */
static void primal_dual(void **state)
{
	(void)state;
	Dense d;
	for (int i = 0; i < WAYS * 3; i++) {
		double x[VOXELS], old[VOXELS], y[RAYS] = {0}, s[VOXELS];
		const double sigma = 0.15;
		dense_way(&d, i / 3);
		set_penalty(&d, i % 3);
		double tau = step_size(&d, "pdhg") * (1 + sigma) / sigma;
		assert_true(tau * sigma * largest(&d) <= 1 && tau * sigma * largest(&d) > 0.8);
		dense_run(&d, "pdhg", 6);
		dense_begin(&d, x);
		for (int j = 0; j < VOXELS; j++)
			x[j] = old[j] = dense_bound(&d, x[j], j);
		for (int k = 0; k < 6; k++) {
			double lead[VOXELS];
			for (int j = 0; j < VOXELS; j++)
				lead[j] = 2 * x[j] - old[j];
			for (int n = 0; n < RAYS; n++) /* the root of w is in y */
				y[n] = (y[n] + sigma * sqrt(d.w[n]) *
						       (dense_row(&d, n, lead) - d.b[n])) /
				       (1 + sigma);
			double weighted[RAYS];
			for (int n = 0; n < RAYS; n++)
				weighted[n] = sqrt(d.w[n]) * y[n];
			dense_back(&d, 0, RAYS, weighted, s);
			memcpy(old, x, sizeof old);
			for (int j = 0; j < VOXELS; j++)
				x[j] = prox(&d, x[j] - tau * s[j], tau, j);
		}
		dense_same(&d, "pdhg", x, 5 * ROUNDING);
		dense_free(&d);
	}
}

/* ---- asd-pocs -------------------------------------------------------------------------------- */

/* The gradient of sum sqrt(dx^2 + dy^2 + least^2), with differences to the next voxel. */
static void tv_gradient(const double *x, double least, double *df)
{
	memset(df, 0, VOXELS * sizeof *df);
	for (int j = 0; j < VOXELS; j++) {
		double dx = j % SIDE < SIDE - 1 ? x[j + 1] - x[j] : 0;
		double dy = j / SIDE < ACROSS - 1 ? x[j + SIDE] - x[j] : 0;
		double length = sqrt(dx * dx + dy * dy + least * least);
		df[j] -= (dx + dy) / length;
		if (j % SIDE < SIDE - 1)
			df[j + 1] += dx / length;
		if (j / SIDE < ACROSS - 1)
			df[j + SIDE] += dy / length;
	}
}

static double distance(const double *a, const double *b)
{
	double sum = 0;
	for (int j = 0; j < VOXELS; j++)
		sum += (a[j] - b[j]) * (a[j] - b[j]);
	return sqrt(sum);
}

/* Steps of length dtvg against the gradient, computed again for each. */
static void descend(const Dense *d, double dtvg, double *x)
{
	for (int n = 0; n < d->o.inner; n++) {
		double df[VOXELS], most = 0, square = 0;
		for (int j = 0; j < VOXELS; j++)
			most = fmax(most, fabs(x[j]));
		tv_gradient(x, 1e-4 * most, df);
		for (int j = 0; j < VOXELS; j++)
			df[j] *= d->mask[j], square += df[j] * df[j];
		for (int j = 0; j < VOXELS; j++)
			x[j] -= dtvg * df[j] / sqrt(square);
	}
	for (int j = 0; j < VOXELS; j++)
		x[j] = dense_bound(d, x[j], j);
}

/* Sidky and Pan's loop with their constants: beta 1 (here 0.7) x 0.995, alpha 0.2 x 0.95 while the
 * data do not fit and the descent undoes more than 0.95 of the sweep. */
static void steepest_descent(void **state)
{
	(void)state;
	Dense d;
	for (int i = 0; i < 2 * WAYS; i++) {
		double x[VOXELS], dtvg = 0, beta = 0.7;
		bool fits = i / WAYS;
		int reduced = 0;
		dense_way(&d, i % WAYS);
		d.o.relaxation = beta;
		d.o.inner = 4;
		d.o.noise_level = fits ? 0.9 : 0;
		dense_run(&d, "asd-pocs", 5);
		dense_begin(&d, x);
		for (int k = 0; k < 5; k++) {
			double before[VOXELS], dp;
			memcpy(before, x, sizeof before);
			for (int view = 0; view < VIEWS; view++)
				update(&d, beta, view, view + 1, x);
			dp = distance(x, before);
			dtvg = k == 0 ? 0.2 * dp : dtvg;
			memcpy(before, x, sizeof before);
			descend(&d, dtvg, x);
			if (distance(x, before) > 0.95 * dp && !fits)
				dtvg *= 0.95, reduced++;
			beta *= 0.995;
		}
		printf("  asd-pocs, way %d: reduced %d times\n", i, reduced);
		dense_same(&d, "asd-pocs", x, 20 * ROUNDING);
		dense_free(&d);
	}
}

#define TESTS(T) T(krylov_methods), T(proximal_gradients), T(primal_dual), T(steepest_descent)
TEST_MAIN(TESTS, one_thread, NULL)
