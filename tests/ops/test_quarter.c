/* Cone beam on full circles with half data beside floats: where the views come in quarter turns, and where
 * they do not. Backends that have no halves for it compute in floats, and that is tested there. */
#include "backend/backend.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"

static tomos_backend *backend;

static int open_backend(void **state)
{
	(void)state;
	if (tomos_backend_open(&backend, test_backend()) == TOMOS_OK)
		return 0;
	print_message("%s\n", tomos_message());
	return -1;
}

static int close_backend(void **state)
{
	(void)state;
	tomos_backend_close(backend);
	return 0;
}

static int has_half(void)
{
	return strncmp(test_backend(), "cuda", 4) == 0;
}

typedef struct {
	const char *what;
	int64_t n, nz, views, columns, rows;
	double arc, axis, shift; /* axis: columns from the middle; shift: of the grid, in voxels */
	int quarters;            /* the views have all that it takes */
} Setup;

static const Setup setups[] = {
	{"a full circle", 48, 40, 12, 60, 50, 360, 0, 0, 1},
	{"a full circle clockwise", 48, 21, 16, 60, 50, -360, 0, 0, 1},
	{"more than a block", 70, 33, 8, 80, 44, 360, 0, 0, 1},
	{"axis off the middle", 48, 40, 20, 60, 50, 360, 3.7, 0, 1},
	{"detector too small", 64, 50, 12, 30, 20, 360, 0, 0, 1},
	{"many views", 32, 16, 132, 40, 24, 360, 0, 0, 1},
	{"odd grid", 47, 40, 12, 60, 50, 360, 0, 0, 0},
	{"views that are no quarters", 48, 40, 18, 60, 50, 360, 0, 0, 0},
	{"half a circle", 48, 40, 12, 60, 50, 180, 0, 0, 0},
	{"grid off the axis", 48, 40, 12, 60, 50, 360, 0, 0.25, 0},
};
enum { SETUPS = sizeof setups / sizeof setups[0] };

static Case setup_case(const Setup *s)
{
	Case c = {.state = 11};
	const double radians = 3.14159265358979323846 / 180;
	double axis = 0.5 * (double)(s->columns - 1) + s->axis;
	double source_axis = 400, source_detector = 600;
	tomos_scan_options o = tomos_scan_defaults();
	o.geometry = "cone";
	o.rows = s->rows, o.columns = s->columns, o.views = s->views;
	o.pixel = 1.5;
	o.start = 0.3;
	o.arc = s->arc * radians;
	o.axis = &axis, o.axis_count = 1;
	o.source_axis = &source_axis, o.source_axis_count = 1;
	o.source_detector = &source_detector, o.source_detector_count = 1;
	OK(tomos_geometry_make(&c.scan, &o));
	OK(tomos_grid_centred(&c.grid, s->n, s->n, s->nz, 1));
	c.grid.first[0] += s->shift;
	c.voxels = s->n * s->n * s->nz;
	c.pixels = s->views * s->rows * s->columns;
	snprintf(c.name, sizeof c.name, "%s", s->what);
	return c;
}

static float *back_project(const Case *c, PlanData data, int weight, const Box *box, const float *y)
{
	Plan plan;
	float *there[2];
	int64_t n[3];
	for (int a = 0; a < 3; a++)
		n[a] = box->high[a] - box->low[a];
	OK(plan_make(&plan, &c->grid, c->scan, &(KernelModel){.weight = weight}));
	plan.data = data;
	float *result = calloc((size_t)(n[0] * n[1] * n[2]), sizeof *result);
	tomos_array x = tomos_array_of(result, n[2], n[1], n[0]);
	tomos_array from = tomos_array_of((float *)y, 1, 1, c->pixels);
	OK(backend->type->alloc(backend, &there[0], n[0] * n[1] * n[2], "a volume"));
	OK(backend->type->alloc(backend, &there[1], c->pixels, "views"));
	OK(backend->type->put(backend, there[0], &x));
	OK(backend->type->put(backend, there[1], &from));
	Projecting what = {.plan = &plan,
		.kernel = KERNEL_voxel,
		.direction = ADJOINT,
		.box = *box,
		.count = plan.scan->count,
		.volume = there[0],
		.projections = there[1]};
	OK(backend->type->project(backend, &what));
	OK(backend->type->get(backend, there[0], &x));
	backend->type->release(backend, there[0]);
	backend->type->release(backend, there[1]);
	plan_free(&plan);
	return result;
}

/* Rounding to halves takes 3e-4 of each value, at most 5e-4; it does so where it should, and there alone. */
static void check(const Case *c, int weight, const Box *box, const float *y, int halves)
{
	int64_t n = 1;
	for (int a = 0; a < 3; a++)
		n *= box->high[a] - box->low[a];
	float *exact = back_project(c, DATA_FLOAT, weight, box, y);
	float *half = back_project(c, DATA_HALF, weight, box, y);
	double difference = case_difference(half, exact, n);
	if (!(difference <= (halves ? 3e-4 : 1e-6)))
		fail_msg("%s, weight %d: halves differ by %g", c->name, weight, difference);
	if (halves && !(difference > 1e-6))
		fail_msg("%s, weight %d: there are no halves", c->name, weight);
	free(exact), free(half);
}

static void halves_agree_with_floats(void **state)
{
	(void)state;
	for (int i = 0; i < SETUPS; i++) {
		Case c = setup_case(&setups[i]);
		float *y = case_data(&c, c.pixels);
		Box whole = {.high = {c.grid.n[0], c.grid.n[1], c.grid.n[2]}};
		for (int weight = WEIGHT_RAY; weight <= WEIGHT_NONE; weight++)
			check(&c, weight, &whole, y, has_half() && setups[i].quarters);
		free(y);
		tomos_geometry_free(c.scan);
	}
}

/* Slabs are turned as well, other boxes are not. */
static void boxes(void **state)
{
	(void)state;
	Case c = setup_case(&setups[0]);
	float *y = case_data(&c, c.pixels);
	const Box slab = {{0, 0, 7}, {48, 48, 30}}, part = {{0, 8, 0}, {48, 40, 40}};
	check(&c, WEIGHT_RAY, &slab, y, has_half());
	check(&c, WEIGHT_DEPTH, &part, y, 0);
	free(y);
	tomos_geometry_free(c.scan);
}

/* Halves end at 65504 and 6e-8; data need not know. */
static void any_scale_will_do(void **state)
{
	(void)state;
	Case c = setup_case(&setups[3]);
	Box whole = {.high = {c.grid.n[0], c.grid.n[1], c.grid.n[2]}};
	float *y = case_data(&c, c.pixels), *scaled = malloc((size_t)c.pixels * sizeof *scaled);
	float *one = back_project(&c, DATA_HALF, WEIGHT_DEPTH, &whole, y);
	static const float scales[] = {0x1p-100F, 0x1p-20F, 0x1p20F, 0, 0x1p100F};
	for (int i = 0; i < 5; i++) {
		for (int64_t j = 0; j < c.pixels; j++)
			scaled[j] = scales[i] * y[j];
		float *other = back_project(&c, DATA_HALF, WEIGHT_DEPTH, &whole, scaled);
		for (int64_t j = 0; j < c.voxels; j++)
			other[j] -= scales[i] * one[j];
		assert_true(sqrt(case_dot(other, other, c.voxels)) <=
			    1e-6 * scales[i] * sqrt(case_dot(one, one, c.voxels)));
		free(other);
	}
	free(y), free(scaled), free(one);
	tomos_geometry_free(c.scan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(halves_agree_with_floats),
		cmocka_unit_test(boxes), cmocka_unit_test(any_scale_will_do)};
	if (!has_half())
		print_message("the %s backend has no halves: the option must change nothing\n",
			test_backend());
	return cmocka_run_group_tests(tests, open_backend, close_backend);
}
