/* Parallel rays in free directions: the optimised kernel against the reference kernels, on whole
 * grids and boxes, at every instruction set; what it does not take; its memory. */
#include "backend/cpu/cpu.h" /* first: cmocka makes a macro of fail() */
#include "base/base.h"
#include "ops/cases.h"

static tomos_backend *best_level(void)
{
	tomos_backend *backend;
	OK(tomos_backend_open(&backend, "cpu"));
	return backend;
}

static tomos_status project(tomos_backend *backend, const ProjectRequest *what)
{
	backend->tuning.forced = "oblique"; /* also where another kernel is faster */
	return backend->type->projector->apply(backend, what);
}

/* Rays whose dominant axis is `axis`, on a detector rotated in its plane and not quite square. */
static tomos_view view_along(Case *c, int axis, double pixel)
{
	tomos_view view = {.src = {0}};
	double size[2];
	for (int a = 0; a < 3; a++) {
		view.src[a] = a == axis ? 1 : case_between(c, -0.95, 0.95);
		view.det[a] = case_between(c, -4, 4);
		view.u[a] = case_between(c, -1, 1);
	}
	double *u = view.u, *v = view.v, *d = view.src;
	double along = (u[0] * d[0] + u[1] * d[1] + u[2] * d[2]) /
		       (d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
	for (int a = 0; a < 3; a++)
		u[a] -= along * d[a] * case_between(c, 0.8, 1.2);
	for (int a = 0; a < 3; a++)
		v[a] = u[(a + 1) % 3] * d[(a + 2) % 3] - u[(a + 2) % 3] * d[(a + 1) % 3];
	size[0] = sqrt(u[0] * u[0] + u[1] * u[1] + u[2] * u[2]);
	size[1] = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
	for (int a = 0; a < 3; a++) {
		u[a] *= pixel / size[0];
		v[a] *= 0.9 * pixel / size[1];
	}
	return view;
}

typedef struct {
	Plan plan;
	int64_t voxels, pixels;
	float *x, *y;
} Problem;

static Problem problem_of(Case *c, const int64_t n[3], const tomos_view *views, int64_t count,
	int64_t rows, int64_t columns, int clamp)
{
	Problem p;
	tomos_grid grid;
	tomos_geometry *scan;
	OK(tomos_grid_centred(&grid, n[0], n[1], n[2], 1));
	OK(tomos_geometry_views(&scan, rows, columns, views, count));
	KernelModel model = {.clamp = clamp};
	OK(plan_make(&p.plan, &grid, scan, &model));
	tomos_geometry_free(scan);
	p.voxels = n[0] * n[1] * n[2];
	p.pixels = count * rows * columns;
	p.x = case_data(c, p.voxels);
	p.y = case_data(c, p.pixels);
	return p;
}

static void problem_free(Problem *p)
{
	plan_free(&p->plan);
	free(p->x), free(p->y);
}

static ProjectRequest request(const Problem *p, Direction direction, float *x, float *y)
{
	ProjectRequest what = {.plan = &p->plan, .kernel = KERNEL_joseph, .direction = direction};
	memcpy(what.box.high, p->plan.grid.n, sizeof what.box.high);
	what.count = p->plan.scan->count;
	what.volume = x;
	what.projections = y;
	return what;
}

/* Relative difference of one direction, optimised and plain; the results are zero before. */
static double difference(tomos_backend *backend, Problem *p, Direction direction)
{
	int64_t count = direction == FORWARD ? p->pixels : p->voxels;
	float *out[2];
	for (int plain = 0; plain < 2; plain++) {
		out[plain] = calloc((size_t)count, sizeof(float));
		ProjectRequest what = direction == FORWARD ? request(p, FORWARD, p->x, out[plain])
							   : request(p, ADJOINT, out[plain], p->y);
		p->plan.plain = plain;
		assert_non_null(cpu_find(backend->own, &what, "oblique"));
		OK(project(backend, &what));
	}
	double d = case_difference(out[0], out[1], count);
	free(out[0]), free(out[1]);
	return d;
}

static void compare(tomos_backend *backend, const int64_t n[3], int64_t rows, int64_t columns,
	double pixel, int clamp)
{
	Case c = {.state = (uint64_t)(n[0] + 31 * clamp)};
	for (int axis = 0; axis < 3; axis++) {
		tomos_view views[2] = {view_along(&c, axis, pixel), view_along(&c, axis, pixel)};
		Problem p = problem_of(&c, n, views, 2, rows, columns, clamp);
		double forward = difference(backend, &p, FORWARD);
		double adjoint = difference(backend, &p, ADJOINT);
		if (!(forward <= 2e-6 && adjoint <= 2e-6))
			fail_msg("%s, axis %d, clamp %d: forward differs by %g, adjoint by %g",
				tomos_backend_describe(backend), axis, clamp, forward, adjoint);
		problem_free(&p);
	}
}

/* Sizes that are no multiples of vectors, of fewer planes than lanes, of one voxel. */
static void like_the_reference(void **state)
{
	(void)state;
	static const int64_t sizes[][3] = {{33, 20, 41}, {5, 70, 3}, {1, 1, 1}, {16, 1, 64}};
	for (int l = 0; l < CPU_LEVELS; l++) {
		tomos_backend *backend = open_level("cpu", cpu_levels[l]);
		for (int i = 0; backend && i < 4; i++)
			for (int clamp = 0; clamp < 2; clamp++) {
				compare(backend, sizes[i], 23, 75, 0.8, clamp);
				compare(backend, sizes[i], 9, 5, 3.1, clamp);
			}
		tomos_backend_close(backend);
	}
}

/* Planes that are cut into strips, and more strips than are held at a time. */
static void in_pieces(void **state)
{
	(void)state;
	tomos_backend *backend = best_level();
	const int64_t n = case_slow() ? 90 : 170;
	compare(backend, (const int64_t[]){n, n, n}, n, n, 1, 0);
	compare(backend, (const int64_t[]){20, 400, 390}, 60, 90, 5, 1);
	compare(backend, (const int64_t[]){6, 2100, 140}, 30, 41, 20, 0);
	tomos_backend_close(backend);
}

/* Forward projections of the boxes add up to that of the grid; their back projections are parts of
 * its back projection. */
static void box_by_box(void **state)
{
	(void)state;
	tomos_backend *backend = best_level();
	Case c = {.state = 3};
	const int64_t n[3] = {30, 26, 37};
	for (int axis = 0; axis < 3; axis++)
		for (int clamp = 0; clamp < 2; clamp++) {
			tomos_view view = view_along(&c, axis, 0.9);
			Problem p = problem_of(&c, n, &view, 1, 40, 44, clamp);
			float *whole = calloc((size_t)p.pixels, sizeof(float));
			float *halves = calloc((size_t)p.pixels, sizeof(float));
			float *back = calloc((size_t)p.voxels, sizeof(float));
			float *parts_back = calloc((size_t)p.voxels, sizeof(float));
			ProjectRequest what = request(&p, FORWARD, p.x, whole);
			OK(project(backend, &what));
			what = request(&p, ADJOINT, back, p.y);
			OK(project(backend, &what));
			for (int64_t z = 0; z < n[2]; z += 19) {
				what = request(&p, FORWARD, p.x + z * n[0] * n[1], halves);
				what.box.low[2] = z;
				what.box.high[2] = min64(z + 19, n[2]);
				OK(project(backend, &what));
				what.direction = ADJOINT;
				what.volume = parts_back + z * n[0] * n[1];
				what.projections = p.y;
				OK(project(backend, &what));
			}
			assert_true(case_difference(whole, halves, p.pixels) < 1e-6);
			assert_true(case_difference(back, parts_back, p.voxels) < 1e-6);
			free(whole), free(halves), free(back), free(parts_back);
			problem_free(&p);
		}
	tomos_backend_close(backend);
}

/* The kernel `oblique` rejects point sources, and rays that are too far away for its positions. */
static void not_taken(void **state)
{
	(void)state;
	tomos_backend *backend = best_level();
	Case c = {.state = 5};
	tomos_view view = view_along(&c, 0, 1), far = view, point = view;
	far.det[1] = 3e6;
	point.src[0] = -500, point.src[3] = 1, point.det[0] = 500;
	const tomos_view lists[3][2] = {{view, view}, {view, far}, {view, point}};
	for (int i = 0; i < 3; i++) {
		Problem p = problem_of(&c, (const int64_t[]){9, 9, 9}, lists[i], 2, 9, 9, 0);
		ProjectRequest what = request(&p, FORWARD, p.x, p.y);
		assert_int_equal(cpu_find(backend->own, &what, "oblique") != NULL, i == 0);
		what.direction = ADJOINT;
		assert_int_equal(cpu_find(backend->own, &what, "oblique") != NULL, i == 0);
		problem_free(&p);
	}
	tomos_backend_close(backend);
}

static void every_allocation_fails(void **state)
{
	(void)state;
	tomos_backend *backend = best_level();
	Case c = {.state = 7};
	for (int axis = 0; axis < 3; axis += 2)
		for (int direction = FORWARD; direction <= ADJOINT; direction++) {
			tomos_view view = view_along(&c, axis, 1);
			Problem p =
				problem_of(&c, (const int64_t[]){20, 20, 20}, &view, 1, 9, 9, 0);
			ProjectRequest what = request(&p, (Direction)direction, p.x, p.y);
			int64_t before = mem_live(), failures = 0;
			tomos_status status = TOMOS_NO_MEMORY;
			for (; status != TOMOS_OK; failures++) {
				mem_fail_nth(failures + 1);
				status = project(backend, &what);
				mem_fail_nth(0);
				assert_int_equal(mem_live(), before);
				if (status != TOMOS_OK)
					assert_non_null(strstr(tomos_message(), "shifted planes"));
			}
			assert_true(failures > 1);
			problem_free(&p);
		}
	tomos_backend_close(backend);
}

#define TESTS(T) \
	T(like_the_reference), T(in_pieces), T(box_by_box), T(not_taken), T(every_allocation_fails)
TEST_MAIN(TESTS, NULL, NULL)
