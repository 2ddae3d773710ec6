/* Joseph's method for point sources: random cone beams and free sources, with detectors tilted in
 * any way, against the reference kernel and its own transpose, for every instruction set. */
#include "ops/cases.h"

enum { CASES = 200 };

static void cross(const double a[3], const double b[3], double c[3])
{
	for (int i = 0; i < 3; i++)
		c[i] = a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3];
}

/* Rotates p about the unit vector `axis`. */
static void rotate(double p[3], const double axis[3], double angle)
{
	double across[3], along = 0, from[3];
	memcpy(from, p, sizeof from);
	cross(axis, from, across);
	for (int i = 0; i < 3; i++)
		along += axis[i] * from[i];
	for (int i = 0; i < 3; i++)
		p[i] = from[i] * cos(angle) + across[i] * sin(angle) +
		       axis[i] * along * (1 - cos(angle));
}

/* Kinds: upright, rolled and slanted, any orientation, source within the volume. */
static void random_view(
	Case *c, int kind, double size, double distance, const double pixel[2], tomos_view *view)
{
	double angle = case_between(c, -7, 7), magnification = 1.02 + 3 * case_random(c);
	double ray[3] = {cos(angle), sin(angle), 0}, u[3] = {-sin(angle), cos(angle), 0};
	double v[3] = {0, 0, 1}, rise = case_between(c, -0.2, 0.2) * size;
	if (kind >= 2) {
		const double axis[3] = {u[0], u[1], 0};
		double tilt = case_between(c, -1.6, 1.6), roll = case_between(c, -3, 3);
		rotate(ray, axis, tilt), rotate(v, axis, tilt);
		rotate(u, ray, roll), rotate(v, ray, roll);
	}
	if (kind == 1) {
		double slant = case_between(c, -0.5, 0.5), roll = case_between(c, -0.2, 0.2);
		rotate(v, u, slant);
		rotate(u, ray, roll), rotate(v, ray, roll);
	}
	view->src[3] = 1;
	for (int a = 0; a < 3; a++) {
		view->src[a] = -distance * ray[a] + (a == 2 ? rise : 0);
		view->det[a] = (magnification - 1) * distance * ray[a] + 0.1 * size * u[a] +
			       (a == 2 ? rise : 0);
		view->u[a] = magnification * pixel[0] * u[a];
		view->v[a] = magnification * pixel[1] * v[a];
	}
}

static Case random_case(int number)
{
	Case c = {.state = (uint64_t)number * 104729 + 5};
	tomos_view views[3];
	int64_t most[3] = {90, 70, 60};
	double size = 0, pixel[2], ratio = pow(2, case_between(&c, -2, 1.7));
	case_random(&c);
	for (int a = 0; a < 3; a++) {
		c.grid.n[a] = case_integer(&c, 1, number % 5 ? most[a] : 20);
		c.grid.step[a] = number % 3 ? 1 : case_between(&c, 0.4, 2);
		c.grid.first[a] = -0.5 * (double)(c.grid.n[a] - 1) * c.grid.step[a];
		size = fmax(size, (double)c.grid.n[a] * c.grid.step[a]);
	}
	for (int i = 0; i < 2; i++)
		pixel[i] = ratio * (number % 3 == 1 ? case_between(&c, 0.5, 1.5) : 1);
	int kind = number % 4;
	double distance = size * (kind == 3 ? 0.4 : 1.1 + pow(50, case_random(&c)) - 1);
	int64_t rows = case_integer(&c, 1, 50), columns = case_integer(&c, 1, 50);
	for (int i = 0; i < 3; i++)
		random_view(&c, kind, size, distance, pixel, &views[i]);
	snprintf(c.name, sizeof c.name, "case %d", number);
	OK(tomos_geometry_views(&c.scan, rows, columns, views, 3));
	case_count(&c);
	return c;
}

/* A forward and an adjoint projection, to be freed by the caller. */
typedef struct {
	float *Ax, *Aty;
} Both;

static Both project(Case *c, tomos_backend *backend, int plain, const float *x, const float *y)
{
	tomos_projector_options o = tomos_projector_defaults();
	Both both = {malloc((size_t)c->pixels * sizeof(float)),
		malloc((size_t)c->voxels * sizeof(float))};
	o.forward = "joseph";
	o.plain = plain;
	case_forward(backend, &c->grid, c->scan, &o, x, both.Ax);
	if (!plain && test_repeats())
		assert_non_null(tomos_backend_kernel(backend));
	case_adjoint(backend, &c->grid, c->scan, &o, y, both.Aty);
	if (!plain && test_repeats())
		assert_non_null(tomos_backend_kernel(backend));
	return both;
}

static void check_case(int number, tomos_backend *backend, double worst[3])
{
	Case c = random_case(number);
	float *x = case_data(&c, c.voxels), *y = case_data(&c, c.pixels);
	Both fast = project(&c, backend, 0, x, y), plain = project(&c, backend, 1, x, y);
	double norms = sqrt(case_dot(fast.Ax, fast.Ax, c.pixels) * case_dot(y, y, c.pixels));
	double gap = case_dot(fast.Ax, y, c.pixels) - case_dot(x, fast.Aty, c.voxels);
	double found[3] = {case_largest_difference(fast.Ax, plain.Ax, c.pixels),
		case_largest_difference(fast.Aty, plain.Aty, c.voxels),
		norms > 0 ? fabs(gap) / norms : fabs(gap)};
	for (int i = 0; i < 3; i++) {
		if (!(found[i] < (test_repeats() ? 1.5e-6 : 1e-5)))
			fail_msg("%s: forward differs by %g, adjoint by %g, products by %g", c.name,
				found[0], found[1], found[2]);
		worst[i] = fmax(worst[i], found[i]);
	}
	free(x), free(y), free(fast.Ax), free(fast.Aty), free(plain.Ax), free(plain.Aty);
	tomos_geometry_free(c.scan);
}

static void every_level(void **state)
{
	(void)state;
	for (int l = 0; l < CPU_LEVELS; l++) {
		tomos_backend *backend = open_level(test_backend(), cpu_levels[l]);
		if (!backend)
			continue;
		double worst[3] = {0};
		for (int i = 0; i < CASES; i += case_slow() ? 13 : 1)
			check_case(i, backend, worst);
		printf("  %-6s: forward differs by %.1e, adjoint by %.1e, products by %.1e\n",
			cpu_levels[l], worst[0], worst[1], worst[2]);
		tomos_backend_close(backend);
	}
}

#define TESTS(T) T(every_level)
TEST_MAIN(TESTS, NULL, NULL)
