/* A small scan with closed-form data and its truth: what tests of algebraic methods share. */
#ifndef TOMOS_TESTS_ALGO_PROBLEM_H
#define TOMOS_TESTS_ALGO_PROBLEM_H

#include "backend/backend.h"
#include "ops/cases.h"

typedef struct {
	tomos_backend *backend;
	tomos_geometry *scan;
	tomos_grid grid;
	tomos_op *op;
	tomos_array b, x, truth;
	int64_t voxels, pixels;
} Problem;

static const tomos_ellipsoid problem_bodies[] = {
	{.centre = {0, 0, 0}, .axes = {0.8, 0.7, 0.75}, .value = 1},
	{.centre = {0.25, 0.2, 0.1}, .axes = {0.25, 0.3, 0.3}, .value = 0.5},
	{.centre = {-0.3, -0.15, -0.1}, .axes = {0.2, 0.25, 0.3}, .value = -0.4}};

/* Before the tests of a program: too little work to share among threads. */
static inline int one_thread(void **state)
{
	(void)state;
	return tomos_set_threads(1);
}

static inline tomos_array problem_array(int64_t n0, int64_t n1, int64_t n2)
{
	return tomos_array_of(calloc((size_t)(n0 * n1 * n2), sizeof(float)), n0, n1, n2);
}

static inline void problem_scan(Problem *p, const char *geometry, int64_t n, int64_t views)
{
	bool cone = strcmp(geometry, "cone") == 0, point = strcmp(geometry, "parallel") != 0;
	const double axis = 4, detector = 6;
	tomos_scan_options o = tomos_scan_defaults();
	o.geometry = geometry;
	o.columns = n;
	o.rows = cone ? n : 1;
	o.views = views;
	o.pixel = 2.0 / (double)n * (point ? 1.55 : 1);
	if (point) {
		o.source_axis = &axis, o.source_axis_count = 1;
		o.source_detector = &detector, o.source_detector_count = 1;
	}
	OK(tomos_geometry_make(&p->scan, &o));
	OK(tomos_grid_centred(&p->grid, n, n, cone ? n : 1, 2.0 / (double)n));
}

/* n voxels and columns, "parallel", "fan" or "cone"; Gaussian noise of that level. */
static inline Problem problem_make(
	const char *geometry, const char *projector, int64_t n, int64_t views, double noise)
{
	Problem p;
	tomos_phantom *phantom;
	tomos_ellipsoid bodies[COUNT(problem_bodies)];
	memcpy(bodies, problem_bodies, sizeof bodies);
	for (int i = 0; strcmp(geometry, "cone") != 0 && i < COUNT(bodies); i++)
		bodies[i].axes[2] = INFINITY;
	OK(tomos_backend_open(&p.backend, test_backend()));
	problem_scan(&p, geometry, n, views);
	tomos_projector_options o = tomos_projector_defaults();
	o.forward = projector;
	OK(tomos_op_projector(&p.op, p.backend, &p.grid, p.scan, &o));
	int64_t rows = tomos_geometry_rows(p.scan);
	p.voxels = n * n * p.grid.n[2];
	p.pixels = views * rows * n;
	p.b = problem_array(views, rows, n);
	p.x = problem_array(p.grid.n[2], n, n);
	p.truth = problem_array(p.grid.n[2], n, n);
	OK(tomos_phantom_ellipsoids(&phantom, bodies, COUNT(bodies)));
	OK(tomos_phantom_project(phantom, p.scan, 3, &p.b));
	OK(tomos_phantom_volume(phantom, &p.grid, 4, &p.truth));
	OK(tomos_noise_gaussian(&p.b, noise, 1));
	tomos_phantom_free(phantom);
	return p;
}

static inline void problem_zero(Problem *p)
{
	memset(p->x.data, 0, (size_t)p->voxels * sizeof(float));
}

static inline double problem_error(const Problem *p)
{
	return case_difference(p->x.data, p->truth.data, p->voxels);
}

static inline void problem_free(Problem *p)
{
	free(p->b.data);
	free(p->x.data);
	free(p->truth.data);
	tomos_op_free(p->op);
	tomos_geometry_free(p->scan);
	tomos_backend_close(p->backend);
}

/* The options, with a history of that many iterations. */
enum { ROOM = 512 };
typedef struct {
	tomos_history history;
	double residual[ROOM], error[ROOM];
} Lists;

static inline tomos_algebraic_options problem_options(Lists *lists, int64_t iterations)
{
	tomos_algebraic_options o = tomos_algebraic_defaults();
	o.iterations = iterations;
	if (lists) {
		lists->history = (tomos_history){.bytes = sizeof lists->history,
			.residual = lists->residual,
			.error = lists->error,
			.capacity = ROOM};
		o.history = &lists->history;
	}
	return o;
}

#endif
