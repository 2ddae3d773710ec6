/* Kernels of full circles with views in sets 90 degrees apart, on every instruction set: beside the
 * reference kernels, as adjoints of each other, and with any number of threads. */
#include "backend/backend.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"

typedef struct {
	const char *what;
	int64_t n, slices, views, columns, rows;
	double pixel; /* 1.5: as large as a voxel, seen from the source */
	double source, roll, slant, swivel, axis, height;
	int backwards, mirrored;
} Setup;

static const Setup setups[] = {
	{"rolled", 32, 12, 64, 40, 20, 1.5, 300, 3, 0, 0, 0, 1, 0, 0},
	{"rolled, few views", 48, 20, 12, 60, 40, 1.5, 400, 3, 0, 0, 0, 1, 0, 0},
	{"upright", 40, 17, 8, 50, 30, 1.5, 300, 0, 0, 0, 0, 1, 0, 0},
	{"odd grid, rolled a lot, clockwise", 33, 9, 64, 40, 19, 1.5, 200, 35, 0, 0, 2, 1, 1, 0},
	{"slanted, mirrored, high voxels", 31, 7, 68, 40, 30, 1.4, 300, 0, 20, 0, 0, 2, 0, 1},
	{"several parts and tiles", 141, 3, 4, 150, 11, 1.5, 300, 2, 3, 4, 0, 1, 0, 0},
	{"several tiles", 71, 3, 64, 80, 9, 1.5, 300, 2, 3, 4, 0, 1, 0, 0},
	{"detector too small", 40, 12, 64, 17, 8, 1.5, 300, 4, -5, 0, 5.3, 1, 0, 0},
	{"steep rays", 20, 30, 64, 30, 40, 1.5, 40, -7, 65, 0, 0, 1, 0, 0},
	{"near the source", 24, 10, 64, 40, 20, 1.2, 19, 1, 12, 0, 0, 1, 0, 0},
	{"source in a corner", 32, 10, 4, 40, 30, 1.5, 19, 2, 0, 0, 0, 1, 0, 0},
	{"source near the centre", 9, 5, 64, 12, 9, 1.5, 1.4, 2, 0, 0, 0, 1, 0, 0},
	{"small pixels", 12, 7, 64, 40, 30, 0.6, 60, 5, 0, 3, 0, 1, 0, 0},
	{"smaller pixels", 24, 11, 8, 90, 70, 0.35, 100, 5, 0, 3, 0, 1, 0, 0},
	{"large pixels", 37, 16, 64, 14, 9, 5, 200, 0, -8, 0, 0.7, 0.5, 1, 1},
	{"one slice", 25, 1, 64, 33, 5, 1.5, 100, 3, 0, 0, 0, 1, 0, 0},
	{"three voxels", 3, 2, 64, 7, 5, 1.1, 30, 3, 0, 0, 0, 1, 0, 0},
	{"two voxels, one set", 2, 1, 4, 3, 3, 1.1, 30, 0, 9, 0, 0, 1, 0, 0},
	{"one voxel", 1, 1, 64, 3, 3, 1.1, 30, 2, 9, 0, 0, 1, 0, 0},
};
enum { SETUPS = sizeof setups / sizeof setups[0] };

static const struct {
	const char *projector, *kernel;
} kernels[] = {
	{"joseph", "ray_circle"}, {"voxel", "patch_circle"}, {"footprint", "footprint_circle"}};
enum { KERNELS = sizeof kernels / sizeof kernels[0] };

static Case setup_case(const Setup *s)
{
	Case c = {.state = 5};
	const double radians = 3.14159265358979323846 / 180;
	double axis = 0.5 * (double)(s->columns - 1) + s->axis, detector = 1.5 * s->source;
	tomos_scan_options o = tomos_scan_defaults();
	o.geometry = "cone";
	o.rows = s->rows, o.columns = s->columns, o.views = s->views;
	o.pixel = s->pixel;
	o.start = 0.3;
	o.arc = (s->backwards ? -360 : 360) * radians;
	o.roll = s->roll * radians, o.slant = s->slant * radians, o.swivel = s->swivel * radians;
	o.axis = &axis, o.axis_count = 1;
	o.source_axis = &s->source, o.source_axis_count = 1;
	o.source_detector = &detector, o.source_detector_count = 1;
	case_place(&c, &o, (const int64_t[3]){s->n, s->n, s->slices});
	c.grid.step[2] *= s->height, c.grid.first[2] *= s->height;
	if (s->mirrored)
		c.grid.step[0] *= -1, c.grid.first[0] *= -1;
	snprintf(c.name, sizeof c.name, "%s", s->what);
	return c;
}

typedef struct {
	float *Ax, *Ay;
} Products;

/* With few views, threads would have nothing to do in a forward projection of tiles. */
static int expected(const Case *c, const char *kernel, int direction)
{
	if (strcmp(kernel, "ray_circle") == 0)
		return 1;
	if (strcmp(kernel, "patch_circle") == 0 && strcmp(c->name, "upright") == 0)
		return 0;
	return direction == ADJOINT || c->scan->count >= 64;
}

/* kernel NULL: the reference kernel. */
static Products apply(const Case *c, tomos_backend *backend, const char *projector,
	const char *kernel, const float *x, const float *y)
{
	Products p = {
		calloc((size_t)c->pixels, sizeof(float)), calloc((size_t)c->voxels, sizeof(float))};
	tomos_projector_options o = tomos_projector_defaults();
	tomos_op *op;
	o.forward = projector;
	o.plain = !kernel;
	backend->tuning.forced = kernel;
	OK(tomos_op_projector(&op, backend, &c->grid, c->scan, &o));
	tomos_array ax = case_volume(c, (float *)x), ay = case_projections(c, (float *)y);
	tomos_array aAx = case_projections(c, p.Ax), aAy = case_volume(c, p.Ay);
	OK(tomos_op_forward(op, &ax, &aAx));
	OK(tomos_op_adjoint(op, &ay, &aAy));
	for (int d = 0; d < 2 && kernel; d++)
		if (expected(c, kernel, d) &&
			(!backend->kernel_of[d] || strcmp(backend->kernel_of[d], kernel) != 0))
			fail_msg("%s: %s ran, not %s", c->name, backend->kernel_of[d], kernel);
	backend->tuning.forced = NULL;
	tomos_op_free(op);
	return p;
}

static void products_free(Products p)
{
	free(p.Ax), free(p.Ay);
}

/* |<A x, y> - <x, A' y>| relative to the norms. */
static double mismatch(const Case *c, const Products *p, const float *x, const float *y)
{
	double ahead = case_dot(p->Ax, y, c->pixels), back = case_dot(x, p->Ay, c->voxels);
	double norms = sqrt(case_dot(p->Ax, p->Ax, c->pixels) * case_dot(y, y, c->pixels));
	return fabs(ahead - back) / (norms > 0 ? norms : 1);
}

typedef struct {
	Case c;
	float *x, *y;
	Products exact;
} Known;

static void check_level(
	const Known *known, int kernel, tomos_backend *backend, double worst[KERNELS][2])
{
	const Case *c = &known->c;
	const char *projector = kernels[kernel].projector;
	Products found = apply(c, backend, projector, kernels[kernel].kernel, known->x, known->y);
	double forward = case_difference(found.Ax, known->exact.Ax, c->pixels);
	double adjoint = case_difference(found.Ay, known->exact.Ay, c->voxels);
	double apart = mismatch(c, &found, known->x, known->y);
	if (!(forward <= 1e-6 && adjoint <= 1e-6 && apart <= 1e-6))
		fail_msg("%s, %s, %s: forward differs by %g, adjoint by %g, mismatch %g", projector,
			c->name, tomos_backend_describe(backend), forward, adjoint, apart);
	worst[kernel][0] = fmax(worst[kernel][0], fmax(forward, adjoint));
	worst[kernel][1] = fmax(worst[kernel][1], apart);
	products_free(found);
}

static void check_setup(
	const Setup *s, tomos_backend *const levels[CPU_LEVELS], double worst[KERNELS][2])
{
	Known known = {.c = setup_case(s)};
	Case *c = &known.c;
	known.x = case_data(c, c->voxels), known.y = case_data(c, c->pixels);
	for (int k = 0; k < KERNELS; k++) {
		known.exact = apply(c, levels[0], kernels[k].projector, NULL, known.x, known.y);
		for (int l = 0; l < CPU_LEVELS; l++)
			if (levels[l])
				check_level(&known, k, levels[l], worst);
		products_free(known.exact);
	}
	free(known.x), free(known.y);
	tomos_geometry_free(c->scan);
}

static void kernels_agree_with_the_reference(void **state)
{
	(void)state;
	tomos_backend *levels[CPU_LEVELS];
	double worst[KERNELS][2] = {{0}};
	for (int l = 0; l < CPU_LEVELS; l++)
		levels[l] = open_level("cpu", cpu_levels[l]);
	for (int i = 0; i < SETUPS; i += CASE_SLOW ? 3 : 1)
		check_setup(&setups[i], levels, worst);
	for (int k = 0; k < KERNELS; k++)
		printf("  %s: largest difference %.1e, mismatch %.1e\n", kernels[k].kernel,
			worst[k][0], worst[k][1]);
	for (int l = 0; l < CPU_LEVELS; l++)
		tomos_backend_close(levels[l]);
}

static void threads_do_not_matter(void **state)
{
	(void)state;
	tomos_backend *backend;
	OK(tomos_backend_open(&backend, "cpu"));
	for (int i = 0; i < SETUPS * KERNELS; i += CASE_RACES ? 8 : 1) {
		Case c = setup_case(&setups[i / KERNELS]);
		float *x = case_data(&c, c.voxels), *y = case_data(&c, c.pixels);
		Products p[3];
		for (int t = 0; t < 3; t++) {
			OK(tomos_set_threads((int[]){1, 2, 7}[t]));
			p[t] = apply(&c, backend, kernels[i % KERNELS].projector,
				kernels[i % KERNELS].kernel, x, y);
			case_same(p[0].Ax, p[t].Ax, c.pixels);
			case_same(p[0].Ay, p[t].Ay, c.voxels);
		}
		for (int t = 0; t < 3; t++)
			products_free(p[t]);
		free(x), free(y);
		tomos_geometry_free(c.scan);
	}
	OK(tomos_set_threads(0));
	tomos_backend_close(backend);
}

#define TESTS(T) T(kernels_agree_with_the_reference), T(threads_do_not_matter)
TEST_MAIN(TESTS, NULL, NULL)
