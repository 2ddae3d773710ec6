/* Sizes at their ends: one of everything, primes, powers of two and their neighbours, more than
 * 2^31 voxels and pixels, and boxes that are parts of a grid. */
#include "backend/backend.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"
#include <sys/mman.h>

static tomos_backend *backend;

static int open_backend(void **state)
{
	(void)state;
	return tomos_backend_open(&backend, "cpu") == TOMOS_OK ? 0 : -1;
}

static int close_backend(void **state)
{
	(void)state;
	tomos_backend_close(backend);
	return 0;
}

/* ---- small, prime and round sizes ------------------------------------------------------------ */

typedef struct {
	const char *geometry;
	int64_t n[3], rows, columns, views;
} Size;

static void make_size(Case *c, const Size *size)
{
	double source_axis = 4 * (double)(size->n[0] + size->n[1] + size->n[2]);
	double source_detector = 1.5 * source_axis;
	tomos_scan_options o = tomos_scan_defaults();
	*c = (Case){.state = 5};
	o.geometry = size->geometry;
	o.rows = size->rows;
	o.columns = size->columns;
	o.views = size->views;
	if (strcmp(size->geometry, "parallel") != 0) {
		o.source_axis = &source_axis, o.source_axis_count = 1;
		o.source_detector = &source_detector, o.source_detector_count = 1;
		o.pixel = 1.5;
	}
	o.start = 0.3;
	case_place(c, &o, size->n);
}

static void check_finite(const float *data, int64_t count)
{
	for (int64_t i = 0; i < count; i++)
		if (!isfinite(data[i]))
			fail_msg("value %lld is %g", (long long)i, data[i]);
}

static void check_adjoint(Case *c, const tomos_projector_options *o, const char *name)
{
	float *x = case_data(c, c->voxels), *y = case_data(c, c->pixels);
	float *Ax = case_data(c, c->pixels), *Ay = case_data(c, c->voxels);
	case_forward(backend, &c->grid, c->scan, o, x, Ax);
	case_adjoint(backend, &c->grid, c->scan, o, y, Ay);
	check_finite(Ax, c->pixels);
	check_finite(Ay, c->voxels);
	double scale = sqrt(case_dot(Ax, Ax, c->pixels) * case_dot(y, y, c->pixels));
	double error = fabs(case_dot(Ax, y, c->pixels) - case_dot(x, Ay, c->voxels));
	if (!(scale > 0 && error <= 1e-6 * scale))
		fail_msg("%s of %lld x %lld x %lld voxels, %s: %g of %g", o->forward,
			(long long)c->grid.n[0], (long long)c->grid.n[1], (long long)c->grid.n[2],
			name, error, scale);
	free(x), free(y), free(Ax), free(Ay);
}

static void check_size(const Size *size, int kinds)
{
	for (int m = 0; m < CASE_MODELS; m++)
		for (int plain = 0; plain < kinds; plain++) {
			Case c;
			tomos_projector_options o = tomos_projector_defaults();
			o.forward = case_models[m];
			o.plain = plain;
			make_size(&c, size);
			check_adjoint(&c, &o, size->geometry);
			tomos_geometry_free(c.scan);
		}
}

static void one_of_everything(void **state)
{
	(void)state;
	static const Size sizes[] = {{"parallel", {1, 1, 1}, 1, 1, 1}, {"fan", {1, 1, 1}, 1, 1, 1},
		{"cone", {1, 1, 1}, 1, 1, 1}, {"parallel", {1, 1, 1}, 3, 5, 4},
		{"cone", {1, 1, 1}, 3, 5, 4}, {"parallel", {9, 8, 1}, 1, 1, 5},
		{"fan", {9, 8, 1}, 1, 1, 5}, {"cone", {9, 8, 7}, 1, 1, 5},
		{"parallel", {9, 8, 7}, 6, 1, 1}, {"cone", {9, 8, 7}, 1, 12, 1},
		{"parallel", {1, 9, 7}, 6, 9, 3}, {"cone", {9, 1, 7}, 6, 9, 3},
		{"parallel", {9, 1, 1}, 1, 9, 3}, {"fan", {1, 9, 1}, 1, 9, 3},
		{"cone", {1, 1, 9}, 9, 3, 3}, {"parallel", {9, 9, 3}, 1, 13, 3}};
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		check_size(&sizes[i], 2);
}

static void primes(void **state)
{
	(void)state;
	static const Size sizes[] = {{"parallel", {53, 47, 1}, 1, 61, 11},
		{"fan", {47, 53, 1}, 1, 59, 11}, {"parallel", {37, 31, 13}, 13, 41, 7},
		{"parallel", {37, 31, 13}, 11, 41, 7}, {"cone", {31, 37, 17}, 19, 43, 7},
		{"cone", {13, 17, 67}, 71, 19, 5}};
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		check_size(&sizes[i], 2);
}

/* The square as most would project it, a narrow strip each way also by the reference kernels. */
static void around_2048(void **state)
{
	(void)state;
	for (int64_t n = case_slow() ? 2049 : 2047; n <= 2049; n++) {
		check_size(&(Size){"parallel", {n, CASE_SLOW ? 65 : n, 1}, 1, n, 1}, 1);
		check_size(&(Size){"parallel", {n, 33, 1}, 1, n, 2}, 2);
		check_size(&(Size){"fan", {33, n, 1}, 1, n, 2}, 2);
	}
	check_size(&(Size){"parallel", {5, 6, 2049}, 2049, 7, 1}, 2);
	check_size(&(Size){"cone", {5, 6, 2047}, 2048, 7, 1}, 2);
}

/* Rays that lie in the faces between voxels, up to rounding: line and line-march still have the
 * same weights, and so do forward and adjoint, which divides the grid into slabs. */
static void rays_in_faces(void **state)
{
	(void)state;
	static const Size sizes[] = {{"parallel", {34, 34, 1}, 1, 35, 8},
		{"fan", {34, 34, 1}, 1, 35, 8}, {"cone", {34, 34, 34}, 35, 35, 8},
		{"parallel", {34, 34, 34}, 35, 35, 8}};
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		Case c;
		float *f[2];
		make_size(&c, &sizes[i]);
		tomos_geometry_free(c.scan);
		double quarter = 1.57079632679489661923, angles[8], away = 200;
		for (int k = 0; k < 8; k++)
			angles[k] = k * quarter / 2;
		tomos_scan_options o = tomos_scan_defaults();
		o.geometry = sizes[i].geometry;
		o.rows = sizes[i].rows;
		o.columns = sizes[i].columns;
		o.angles = angles, o.angles_count = 8;
		double far = 2 * away;
		if (strcmp(o.geometry, "parallel") != 0) {
			o.source_axis = &away, o.source_axis_count = 1;
			o.source_detector = &far, o.source_detector_count = 1;
		}
		OK(tomos_geometry_make(&c.scan, &o));
		float *x = case_data(&c, c.voxels);
		for (int march = 0; march < 2; march++) {
			tomos_projector_options p = tomos_projector_defaults();
			p.forward = march ? "line-march" : "line";
			f[march] = case_data(&c, c.pixels);
			case_forward(backend, &c.grid, c.scan, &p, x, f[march]);
			check_adjoint(&c, &p, sizes[i].geometry);
		}
		double difference = case_difference(f[0], f[1], c.pixels);
		if (!(difference <= 1e-6))
			fail_msg("%s: line-march differs from line by %g", o.geometry, difference);
		free(x), free(f[0]), free(f[1]);
		tomos_geometry_free(c.scan);
	}
}

/* ---- requests: boxes of a grid, views of a scan ---------------------------------------------- */

static Plan plan_of(const tomos_grid *grid, const tomos_geometry *scan, int plain)
{
	Plan plan;
	OK(plan_make(&plan, grid, scan, &(KernelModel){.weight = WEIGHT_RAY}));
	plan.plain = plain;
	return plan;
}

static void request(const Plan *plan, int kernel, Direction direction, const Box *box,
	int64_t first, int64_t count, float *volume, float *projections)
{
	ProjectRequest what = {
		plan, kernel, direction, *box, first, count, volume, projections, false};
	OK(backend->type->projector->apply(backend, &what));
}

static Box box_of(const tomos_grid *grid)
{
	return (Box){.high = {grid->n[0], grid->n[1], grid->n[2]}};
}

static tomos_grid grid_of(const tomos_grid *grid, const Box *box)
{
	tomos_grid part = *grid;
	for (int a = 0; a < 3; a++) {
		part.n[a] = box->high[a] - box->low[a];
		part.first[a] += (double)box->low[a] * grid->step[a];
	}
	return part;
}

/* The box as part of its grid against the box as a grid of its own; the views from `first` on
 * against a scan of those views alone. */
static void check_request(const tomos_grid *grid, const tomos_geometry *scan, const Box *box,
	int64_t first, int64_t count, const char *name)
{
	Case c = {.state = 3};
	tomos_grid own = grid_of(grid, box);
	tomos_geometry *few;
	OK(tomos_geometry_views(&few, tomos_geometry_rows(scan), tomos_geometry_columns(scan),
		tomos_geometry_list(scan) + first, count));
	Box whole = box_of(&own);
	int64_t voxels = box_count(box), pixels = count * few->rows * few->columns;
	float *x = case_data(&c, voxels), *y = case_data(&c, pixels);
	size_t volume = (size_t)voxels * sizeof(float), stack = (size_t)pixels * sizeof(float);
	for (int k = 0; k < 2 * KERNEL_COUNT; k++) {
		Plan large = plan_of(grid, scan, k % 2), small = plan_of(&own, few, k % 2);
		float *f[2] = {calloc(1, stack), calloc(1, stack)};
		float *g[2] = {calloc(1, volume), calloc(1, volume)};
		request(&large, k / 2, FORWARD, box, first, count, x, f[0]);
		request(&small, k / 2, FORWARD, &whole, 0, count, x, f[1]);
		request(&large, k / 2, ADJOINT, box, first, count, g[0], y);
		request(&small, k / 2, ADJOINT, &whole, 0, count, g[1], y);
		double forward = case_difference(f[0], f[1], pixels);
		double adjoint = case_difference(g[0], g[1], voxels);
		if (!(forward <= 2e-6 && adjoint <= 2e-6) || case_dot(f[1], f[1], pixels) == 0)
			fail_msg("%s, %s %s: forward differs by %g, adjoint by %g",
				kernel_rows[k / 2].name, k % 2 ? "plain" : "tuned", name, forward,
				adjoint);
		free(f[0]), free(f[1]), free(g[0]), free(g[1]);
		plan_free(&large);
		plan_free(&small);
	}
	free(x), free(y);
	tomos_geometry_free(few);
}

/* Views that look at the last voxels of the grid. */
static tomos_geometry *far_scan(
	const tomos_grid *grid, const char *kind, int64_t rows, int64_t columns)
{
	tomos_geometry *near, *far;
	double source_axis = 300, source_detector = 450;
	tomos_scan_options o = tomos_scan_defaults();
	o.geometry = kind;
	o.rows = rows;
	o.columns = columns;
	o.views = 3;
	o.start = 0.2;
	if (strcmp(kind, "cone") == 0) {
		o.source_axis = &source_axis, o.source_axis_count = 1;
		o.source_detector = &source_detector, o.source_detector_count = 1;
	}
	OK(tomos_geometry_make(&near, &o));
	tomos_view views[3];
	memcpy(views, tomos_geometry_list(near), sizeof views);
	for (int i = 0; i < 3; i++)
		for (int a = 0; a < 3; a++) {
			double last = grid->first[a] + (double)(grid->n[a] - 1) * grid->step[a];
			views[i].det[a] += last;
			views[i].src[a] += views[i].src[3] != 0 ? last : 0;
		}
	OK(tomos_geometry_views(&far, rows, columns, views, 3));
	tomos_geometry_free(near);
	return far;
}

/* 2^32 voxels, of which thin slabs at the far end are at hand. */
static void slabs_of_a_large_grid(void **state)
{
	(void)state;
	tomos_grid grid;
	OK(tomos_grid_centred(&grid, 2048, 2048, 1024, 1));
	assert_true(grid.n[0] * grid.n[1] * grid.n[2] > INT64_C(1) << 31);
	static const Box boxes[] = {{{0, 2040, 1022}, {2048, 2048, 1024}},
		{{2040, 0, 1021}, {2048, 2048, 1022}}, {{2000, 2001, 1003}, {2048, 2048, 1024}}};
	for (int b = 0; b < 3; b++) {
		tomos_geometry *parallel = far_scan(&grid, "parallel", 24, 96);
		tomos_geometry *cone = far_scan(&grid, "cone", 24, 96);
		check_request(&grid, parallel, &boxes[b], 0, 3, "parallel");
		check_request(&grid, cone, &boxes[b], 1, 2, "cone");
		tomos_geometry_free(parallel);
		tomos_geometry_free(cone);
	}
}

/* Room for as many floats as one likes: pages exist once they are touched. */
static float *reserve(int64_t count)
{
	void *memory = mmap(NULL, (size_t)count * sizeof(float), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

/* The whole of 2^32 voxels as one array, of which the rays meet only a few: what they read and
 * write lies beyond 2^31 elements. */
static void rays_through_a_large_volume(void **state)
{
	(void)state;
	tomos_grid grid;
	OK(tomos_grid_centred(&grid, 2048, 2048, 1024, 1));
	Box whole = box_of(&grid), end = {{1984, 1984, 1000}, {2048, 2048, 1024}};
	tomos_grid own = grid_of(&grid, &end);
	Box all = box_of(&own);
	tomos_geometry *scan = far_scan(&grid, "cone", 3, 3);
	Case c = {.state = 8};
	int64_t voxels = box_count(&end), pixels = 3 * 3 * 3;
	float *x = case_data(&c, voxels), *y = case_data(&c, pixels), *back = case_data(&c, voxels);
	for (int k = 0; k < KERNEL_COUNT; k++) {
		if (kernel_rows[k].family != FAMILY_RAY)
			continue;
		float *volume = reserve(box_count(&whole));
		if (!volume) {
			printf("  no address space for 16 GiB: skipped\n");
			break;
		}
		Plan large = plan_of(&grid, scan, 1), small = plan_of(&own, scan, 1);
		float f[2][27] = {{0}};
		for (int64_t i = 0; i < voxels; i++) {
			int64_t z = i / (64 * 64) + 1000, y1 = i / 64 % 64 + 1984;
			volume[(z * 2048 + y1) * 2048 + 1984 + i % 64] = x[i];
		}
		request(&large, k, FORWARD, &whole, 0, 3, volume, f[0]);
		request(&small, k, FORWARD, &all, 0, 3, x, f[1]);
		assert_true(case_dot(f[1], f[1], pixels) > 0);
		assert_true(case_difference(f[0], f[1], pixels) <= 1e-6);
		memset(back, 0, (size_t)voxels * sizeof *back);
		request(&small, k, ADJOINT, &all, 0, 3, back, y);
		request(&large, k, ADJOINT, &whole, 0, 3, volume, y);
		double worst = 0;
		for (int64_t i = 0; i < voxels; i++) {
			int64_t z = i / (64 * 64) + 1000, y1 = i / 64 % 64 + 1984;
			float sum = volume[(z * 2048 + y1) * 2048 + 1984 + i % 64];
			worst = fmax(worst, fabs((double)sum - x[i] - back[i]));
		}
		if (!(worst <= 1e-5))
			fail_msg("%s: adjoint differs by %g", kernel_rows[k].name, worst);
		munmap(volume, (size_t)box_count(&whole) * sizeof *volume);
		plan_free(&large);
		plan_free(&small);
	}
	free(x), free(y), free(back);
	tomos_geometry_free(scan);
}

/* One view of 2^32 pixels, onto whose last corner a small box falls, against a small detector
 * there; forward from voxels, which touch only what they meet, and both kinds back. */
static void pixels_of_a_large_view(void **state)
{
	(void)state;
	const int64_t side = 65536, few = 24;
	tomos_view view[2] = {{{0.1, -1, 0.05, 0}, {0, 0, 0}, {1, 0.1, 0}, {0, 0.05, 1}}};
	view[1] = view[0];
	for (int a = 0; a < 3; a++) /* the small detector's last pixel is the large one's */
		view[1].det[a] += 0.5 * (double)(side - few) * (view[0].u[a] + view[0].v[a]);
	tomos_geometry *scans[2];
	OK(tomos_geometry_views(&scans[0], side, side, &view[0], 1));
	OK(tomos_geometry_views(&scans[1], few, few, &view[1], 1));
	tomos_grid grid;
	OK(tomos_grid_centred(&grid, 9, 8, 7, 1));
	for (int a = 0; a < 3; a++)
		grid.first[a] += view[1].det[a];
	Box box = box_of(&grid);
	Case c = {.state = 4};
	float *x = case_data(&c, box_count(&box)), *y = case_data(&c, few * few);
	float *large = reserve(side * side);
	for (int k = 0; large && k < KERNEL_COUNT; k++) {
		Plan plans[2] = {plan_of(&grid, scans[0], 1), plan_of(&grid, scans[1], 1)};
		float back[2][9 * 8 * 7] = {{0}}, f[24 * 24] = {0};
		float *corner = large + (side - few) * side + side - few;
		for (int64_t i = 0; i < few * few; i++)
			corner[i / few * side + i % few] = y[i];
		request(&plans[0], k, ADJOINT, &box, 0, 1, back[0], large);
		request(&plans[1], k, ADJOINT, &box, 0, 1, back[1], y);
		assert_true(case_dot(back[1], back[1], 9 * 8 * 7) > 0);
		assert_true(case_difference(back[0], back[1], 9 * 8 * 7) <= 1e-6);
		if (kernel_rows[k].family == FAMILY_VOXEL) {
			double worst = 0;
			request(&plans[0], k, FORWARD, &box, 0, 1, x, large);
			request(&plans[1], k, FORWARD, &box, 0, 1, x, f);
			for (int64_t i = 0; i < few * few; i++)
				worst = fmax(worst, fabs((double)corner[i / few * side + i % few] -
							    y[i] - f[i]));
			assert_true(case_dot(f, f, few * few) > 0);
			assert_true(worst <= 1e-4);
		}
		plan_free(&plans[0]);
		plan_free(&plans[1]);
	}
	if (large)
		munmap(large, (size_t)(side * side) * sizeof *large);
	else
		printf("  no address space for 16 GiB: skipped\n");
	free(x), free(y);
	tomos_geometry_free(scans[0]);
	tomos_geometry_free(scans[1]);
}

/* The last two of many views, whose pixels would lie beyond 2^31 in the whole stack. */
static void last_of_many_views(void **state)
{
	(void)state;
	enum { VIEWS = 70000, ROWS = 32, COLUMNS = 1024 };
	assert_true((int64_t)VIEWS * ROWS * COLUMNS > INT64_C(1) << 31);
	double *angles = malloc(VIEWS * sizeof *angles);
	for (int i = 0; i < VIEWS; i++)
		angles[i] = 1e-3 * i;
	tomos_geometry *scans[2];
	tomos_grid grid;
	OK(tomos_geometry_parallel(&scans[0], ROWS, COLUMNS, 1, angles, VIEWS));
	OK(tomos_geometry_cone(&scans[1], ROWS, COLUMNS, 1, 900, 1000, angles, VIEWS));
	OK(tomos_grid_centred(&grid, 60, 40, 32, 1));
	Box box = {{0, 0, 20}, {60, 40, 32}};
	check_request(&grid, scans[0], &box, VIEWS - 2, 2, "parallel");
	check_request(&grid, scans[1], &box, VIEWS - 2, 2, "cone");
	tomos_geometry_free(scans[0]);
	tomos_geometry_free(scans[1]);
	free(angles);
}

/* Slabs along an axis: forward projections add up to the whole, adjoints are its parts. */
static void check_split(Case *c, int axis, int kernel, int plain)
{
	Plan plan = plan_of(&c->grid, c->scan, plain);
	Box whole = box_of(&c->grid);
	int64_t views = c->scan->count;
	float *x = case_data(c, c->voxels), *y = case_data(c, c->pixels);
	float *f[2] = {
		calloc((size_t)c->pixels, sizeof(float)), calloc((size_t)c->pixels, sizeof(float))};
	float *g[2] = {
		calloc((size_t)c->voxels, sizeof(float)), calloc((size_t)c->voxels, sizeof(float))};
	int64_t row = axis == 2 ? c->grid.n[0] * c->grid.n[1] : c->grid.n[0];
	request(&plan, kernel, FORWARD, &whole, 0, views, x, f[0]);
	request(&plan, kernel, ADJOINT, &whole, 0, views, g[0], y);
	for (int64_t at = 0; at < c->grid.n[axis]; at += 3) {
		Box part = whole;
		part.low[axis] = at;
		part.high[axis] = min64(at + 3, c->grid.n[axis]);
		request(&plan, kernel, FORWARD, &part, 0, views, x + at * row, f[1]);
		request(&plan, kernel, ADJOINT, &part, 0, views, g[1] + at * row, y);
	}
	double forward = case_difference(f[1], f[0], c->pixels);
	double adjoint = case_difference(g[1], g[0], c->voxels);
	if (!(forward <= 1e-6 && adjoint <= 1e-6))
		fail_msg("%s %s, %s in slabs along %c: forward differs by %g, adjoint by %g",
			kernel_rows[kernel].name, plain ? "plain" : "tuned", c->name, "xyz"[axis],
			forward, adjoint);
	free(x), free(y), free(f[0]), free(f[1]), free(g[0]), free(g[1]);
	plan_free(&plan);
}

static void check_slabs(void)
{
	for (int i = 0; i < 54; i += CASE_RACES ? 5 : 1)
		for (int k = 0; k < 2 * KERNEL_COUNT; k++) {
			Case c = case_make(i);
			check_split(&c, c.grid.n[2] == 1 ? 1 : 2, k / 2, k % 2);
			tomos_geometry_free(c.scan);
		}
}

/* With the kernels of every instruction set. */
static void slabs_are_parts(void **state)
{
	(void)state;
	tomos_backend *best = backend;
	for (int l = 0; l < CPU_LEVELS; l++) {
		backend = open_level("cpu", cpu_levels[l]);
		if (backend)
			check_slabs();
		tomos_backend_close(backend);
	}
	backend = best;
}

#define TESTS(T) \
	T(one_of_everything), T(primes), T(around_2048), T(rays_in_faces), \
		T(slabs_of_a_large_grid), T(rays_through_a_large_volume), \
		T(pixels_of_a_large_view), T(last_of_many_views), T(slabs_are_parts)
TEST_MAIN(TESTS, open_backend, close_backend)
