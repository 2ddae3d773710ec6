/* Views at random: sources near, far and among the voxels, detectors rotated about any axis, voxels
 * of 0.3 to 4 pixels, grids of one slice, of one voxel and of 130 in a line, rays that miss. At
 * every instruction set, optimised kernels agree with the reference kernels, and back projection is
 * the adjoint. */
#include "ops/cases.h"

enum { SCANS = 200 };

static double length(const double a[3])
{
	return sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]);
}

static void cross(double c[3], const double a[3], const double b[3])
{
	for (int i = 0; i < 3; i++)
		c[i] = a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3];
}

/* Rotates the detector by random angles of up to `most` about its own axes. */
static void rotate(Case *c, tomos_view *view, double most)
{
	double roll = case_between(c, -most, most), slant = case_between(c, -most, most), w[3];
	tomos_view old = *view;
	for (int a = 0; a < 3; a++) {
		view->u[a] = cos(roll) * old.u[a] + sin(roll) * old.v[a];
		view->v[a] = cos(roll) * old.v[a] - sin(roll) * old.u[a];
	}
	cross(w, view->u, view->v);
	for (int a = 0; a < 3; a++)
		view->v[a] =
			cos(slant) * view->v[a] + sin(slant) * w[a] * length(old.v) / length(w);
}

typedef struct {
	double near, far, tilt; /* distance of the source in grid sizes; largest rotation */
	int source;             /* a tomos_source; -1: parallel rays and point sources mixed */
	bool flat;              /* one slice, one row, all rays in the slice */
} Sort;

static const Sort sorts[] = {{2, 6, 0, TOMOS_POINT, false}, {1.1, 3, 0, TOMOS_POINT, false},
	{2, 6, 0.05, TOMOS_POINT, false}, {1, 4, 0.6, TOMOS_POINT, false},
	{0.2, 1, 0.3, TOMOS_POINT, false}, {2, 6, 3, TOMOS_POINT, false},
	{2, 6, 0, TOMOS_PARALLEL, false}, {2, 6, 0.4, TOMOS_PARALLEL, false},
	{2, 6, 0, TOMOS_FAN_PER_ROW, false}, {1.2, 4, 0, TOMOS_FAN_PER_ROW, false},
	{2, 6, 0.2, TOMOS_FAN_PER_ROW, false}, {1.5, 4, 0.1, -1, false},
	{1.1, 3, 0, TOMOS_POINT, true}, {0.3, 5, 0, TOMOS_FAN_PER_ROW, true}};
enum { SORTS = sizeof sorts / sizeof sorts[0] };

static tomos_view random_view(Case *c, const Sort *sort, double size, double pixel, double aspect)
{
	double angle = case_between(c, -4, 4),
	       source = size * case_between(c, sort->near, sort->far);
	double far = source + size * case_between(c, 0.6, 2), rise = sort->tilt * size;
	double scale = pixel * far / source, side[2] = {case_between(c, -0.3, 0.3) * size, 0};
	int kind = sort->source >= 0 ? sort->source : case_random(c) < 0.5 ? 0 : 1;
	tomos_view view = {.src = {-source * sin(angle), source * cos(angle)}};
	side[1] = case_between(c, -0.2, 0.2) * size * (sort->source == TOMOS_FAN_PER_ROW ? 0.1 : 1);
	side[1] = sort->flat ? 0 : side[1];
	view.det[0] = (far - source) * sin(angle) + side[0] * cos(angle);
	view.det[1] = -(far - source) * cos(angle) + side[0] * sin(angle);
	view.det[2] = side[1];
	view.u[0] = scale * cos(angle), view.u[1] = scale * sin(angle);
	view.v[2] = scale * aspect;
	view.src[2] = kind == TOMOS_POINT ? case_between(c, -rise, rise) : side[1];
	view.src[3] = kind;
	if (kind == TOMOS_PARALLEL) {
		view.src[0] = sin(angle), view.src[1] = -cos(angle);
		view.src[2] = case_between(c, -0.5, 0.5) * sort->tilt;
	}
	rotate(c, &view, sort->tilt);
	return view;
}

static Case random_scan(int number)
{
	Case c = {.state = (uint64_t)number * 104729 + 5};
	const Sort *sort = &sorts[number % SORTS];
	tomos_view views[9];
	double size = 0, ratio, aspect;
	for (int i = 0; i < 5; i++)
		case_random(&c);
	int64_t count = case_integer(&c, 1, 9), rows, columns;
	for (int a = 0; a < 3; a++) {
		c.grid.n[a] = case_random(&c) < 0.15 ? 1 : case_integer(&c, 3, a == 2 ? 24 : 40);
		if (number % 5 == 1) /* some kernels are for tall grids */
			c.grid.n[a] = case_integer(&c, a == 2 ? 32 : 3, a == 2 ? 48 : 16);
		if (number % 5 == 3) /* others divide long ones */
			c.grid.n[a] = case_integer(
				&c, number % 3 == a ? 65 : 3, number % 3 == a ? 130 : 16);
		c.grid.step[a] = case_between(&c, 0.7, 1.4);
		c.grid.first[a] = -0.5 * (double)(c.grid.n[a] - 1) * c.grid.step[a];
		size = fmax(size, (double)c.grid.n[a]);
	}
	c.grid.n[2] = sort->flat ? 1 : c.grid.n[2];
	c.grid.first[2] = -0.5 * (double)(c.grid.n[2] - 1) * c.grid.step[2];
	ratio = exp(case_between(&c, log(0.3), log(4)));
	aspect = case_between(&c, 0.6, 1.6);
	rows = sort->flat ? 1 : case_integer(&c, 1, 30), columns = case_integer(&c, 1, 60);
	for (int64_t i = 0; i < count; i++)
		views[i] = random_view(&c, sort, size, 1 / ratio, aspect);
	OK(tomos_geometry_views(&c.scan, rows, columns, views, count));
	case_count(&c);
	snprintf(c.name, sizeof c.name, "scan %d", number);
	return c;
}

typedef struct {
	double forward, back, adjoint;
} Errors;

static Errors errors_of(tomos_backend *backend, Case *c, const char *model)
{
	float *x = case_data(c, c->voxels), *y = case_data(c, c->pixels), *Ax[2], *Ay[2];
	tomos_projector_options o = tomos_projector_defaults();
	o.forward = model;
	for (o.plain = 0; o.plain < 2; o.plain++) {
		Ax[o.plain] = calloc((size_t)c->pixels, sizeof(float));
		Ay[o.plain] = calloc((size_t)c->voxels, sizeof(float));
		case_forward(backend, &c->grid, c->scan, &o, x, Ax[o.plain]);
		case_adjoint(backend, &c->grid, c->scan, &o, y, Ay[o.plain]);
	}
	Errors e = {case_largest_difference(Ax[0], Ax[1], c->pixels),
		case_largest_difference(Ay[0], Ay[1], c->voxels), 0};
	double norm = sqrt(case_dot(Ax[0], Ax[0], c->pixels) * case_dot(y, y, c->pixels));
	e.adjoint = fabs(case_dot(Ax[0], y, c->pixels) - case_dot(x, Ay[0], c->voxels));
	e.adjoint /= norm > 0 ? norm : 1;
	free(x), free(y), free(Ax[0]), free(Ax[1]), free(Ay[0]), free(Ay[1]);
	return e;
}

/* The number of scans that differ by more than the limit. */
static int check_model(tomos_backend *backend, const char *level, const char *model)
{
	int failed = 0;
	Errors worst = {0, 0, 0};
	double limit = test_repeats() ? 3e-6 : 1e-5;
	for (int i = 0; i < SCANS / (case_slow() ? 5 : 1); i++) {
		Case c = random_scan(i);
		Errors e = errors_of(backend, &c, model);
		if (!(e.forward <= limit && e.back <= limit && e.adjoint <= 0.3 * limit)) {
			print_error(
				"%s, %s, %s: forward differs by %g, back by %g, adjoint by %g\n",
				level, model, c.name, e.forward, e.back, e.adjoint);
			failed++;
		}
		worst.forward = fmax(worst.forward, e.forward);
		worst.back = fmax(worst.back, e.back);
		worst.adjoint = fmax(worst.adjoint, e.adjoint);
		tomos_geometry_free(c.scan);
	}
	printf("  %-6s %-9s: forward %.1e, back %.1e, adjoint %.1e\n", level, model, worst.forward,
		worst.back, worst.adjoint);
	return failed;
}

static void every_level(void **state)
{
	(void)state;
	static const char *const models[] = {"footprint", "joseph", "voxel"};
	int failed = 0;
	for (int l = 0; l < CPU_LEVELS; l++) {
		tomos_backend *backend = open_level(test_backend(), cpu_levels[l]);
		for (int m = 0; backend && m < 3; m++)
			failed += check_model(backend, cpu_levels[l], models[m]);
		tomos_backend_close(backend);
		if (!test_repeats()) /* a device does not have these levels */
			break;
	}
	assert_int_equal(failed, 0);
}

#define TESTS(T) T(every_level)
TEST_MAIN(TESTS, NULL, NULL)
