/* One kernel against another that must agree: optimised against reference kernels, marching against
 * columns, every instruction set, every number of threads. */
#include "ops/cases.h"

enum { CASES = 108 };

static void apply_to(Case *c, const tomos_projector_options *o, tomos_backend *backend,
	const float *x, const float *y, float *Ax, float *Ay)
{
	tomos_op *op;
	OK(tomos_op_projector(&op, backend, &c->grid, c->scan, o));
	tomos_array ax = case_volume(c, (float *)x), ay = case_projections(c, (float *)y);
	tomos_array aAx = case_projections(c, Ax), aAy = case_volume(c, Ay);
	OK(tomos_op_forward(op, &ax, &aAx));
	OK(tomos_op_adjoint(op, &ay, &aAy));
	tomos_op_free(op);
}

/* Both directions with options a on backend p against options b on backend q. */
static void compare(Case *c, const tomos_projector_options *a, tomos_backend *p,
	const tomos_projector_options *b, tomos_backend *q, double limit, double *worst)
{
	float *x = case_data(c, c->voxels), *y = case_data(c, c->pixels);
	float *f1 = case_data(c, c->pixels), *f2 = case_data(c, c->pixels);
	float *g1 = case_data(c, c->voxels), *g2 = case_data(c, c->voxels);
	apply_to(c, a, p, x, y, f1, g1);
	apply_to(c, b, q, x, y, f2, g2);
	double forward = case_difference(f1, f2, c->pixels);
	double adjoint = case_difference(g1, g2, c->voxels);
	if (!(forward <= limit && adjoint <= limit))
		fail_msg("%s %s: forward differs by %g, adjoint by %g, limit %g", a->forward,
			c->name, forward, adjoint, limit);
	*worst = fmax(*worst, fmax(forward, adjoint));
	free(x), free(y), free(f1), free(f2), free(g1), free(g2);
}

static void optimised_against_reference(void **state)
{
	(void)state;
	static const char *const projectors[] = {"joseph", "voxel", "footprint"};
	for (int l = 0; l < CPU_LEVELS; l++) {
		tomos_backend *backend = open_level(test_backend(), cpu_levels[l]);
		if (!backend)
			continue;
		double worst = 0;
		for (int i = 0; i < CASES; i++) {
			Case c = case_make(i);
			tomos_projector_options tuned = tomos_projector_defaults(), plain = tuned;
			tuned.forward = plain.forward = projectors[i / CASE_KINDS % 3];
			plain.plain = 1;
			compare(&c, &tuned, backend, &plain, backend, test_repeats() ? 3e-6 : 1e-5,
				&worst);
			tomos_geometry_free(c.scan);
		}
		printf("  optimised against reference kernels, %-6s: largest difference %.1e\n",
			cpu_levels[l], worst);
		tomos_backend_close(backend);
	}
}

static void levels_agree(void **state)
{
	(void)state;
	tomos_backend *base = open_level(test_backend(), "base"), *best = NULL;
	OK(tomos_backend_open(&best, "auto"));
	double worst = 0;
	for (int i = 0; i < CASES; i++) {
		Case c = case_make(i);
		tomos_projector_options o = tomos_projector_defaults();
		o.forward = case_models[i / CASE_KINDS % CASE_MODELS];
		compare(&c, &o, base, &o, best, 3e-6, &worst);
		tomos_geometry_free(c.scan);
	}
	printf("  base against %s: largest difference %.1e\n", tomos_backend_describe(best), worst);
	tomos_backend_close(base);
	tomos_backend_close(best);
}

static void marching_is_columns(void **state)
{
	(void)state;
	tomos_backend *backend;
	OK(tomos_backend_open(&backend, test_backend()));
	double worst = 0;
	for (int i = 0; i < CASES; i++) {
		Case c = case_make(i);
		tomos_projector_options column = tomos_projector_defaults(), march = column;
		column.forward = "line";
		march.forward = "line-march";
		column.plain = march.plain = 1;
		compare(&c, &column, backend, &march, backend, 1e-6, &worst);
		tomos_geometry_free(c.scan);
	}
	printf("  line by columns against marching: largest difference %.1e\n", worst);
	tomos_backend_close(backend);
}

static void threads_do_not_matter(void **state)
{
	(void)state;
	tomos_backend *backend;
	OK(tomos_backend_open(&backend, test_backend()));
	static const char *const models[] = {"joseph", "line", "voxel", "footprint"};
	for (int i = 0; i < CASES; i++) {
		Case c = case_make(i);
		tomos_projector_options o = tomos_projector_defaults();
		o.forward = models[i / CASE_KINDS % 4];
		float *x = case_data(&c, c.voxels), *y = case_data(&c, c.pixels);
		float *f[3], *g[3];
		for (int t = 0; t < 3; t++) {
			OK(tomos_set_threads((int[]){1, 2, 7}[t]));
			f[t] = case_data(&c, c.pixels);
			g[t] = case_data(&c, c.voxels);
			apply_to(&c, &o, backend, x, y, f[t], g[t]);
			case_same(f[0], f[t], c.pixels);
			case_same(g[0], g[t], c.voxels);
		}
		for (int t = 0; t < 3; t++)
			free(f[t]), free(g[t]);
		free(x), free(y);
		tomos_geometry_free(c.scan);
	}
	OK(tomos_set_threads(0));
	tomos_backend_close(backend);
}

#define TESTS(T) \
	T(optimised_against_reference), T(levels_agree), T(marching_is_columns), \
		T(threads_do_not_matter)
TEST_MAIN(TESTS, NULL, NULL)
