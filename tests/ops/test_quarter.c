/* Cone beam on full circles beside the shared text: where views come in half or quarter turns, and where they
 * do not. */
#include "backend/backend.h" /* first: cmocka makes a macro of fail() */
#include "ops/opened.h"

static int has_turns(void)
{
	return strncmp(test_backend(), "cuda", 4) == 0;
}

typedef struct {
	const char *what;
	int64_t n[3], views, columns, rows;
	double arc, axis, shift; /* axis: columns from the middle; shift: of the grid, in voxels */
	int turns;               /* of a circle that the views and the grid have */
} Setup;

static const Setup setups[] = {
	{"a full circle", {48, 48, 40}, 12, 60, 50, 360, 0, 0, 4},
	{"a full circle clockwise", {48, 48, 21}, 16, 60, 50, -360, 0, 0, 4},
	{"more than a block", {70, 70, 33}, 8, 80, 44, 360, 0, 0, 4},
	{"axis off the middle", {48, 48, 40}, 20, 60, 50, 360, 3.7, 0, 4},
	{"detector too small", {64, 64, 50}, 12, 30, 20, 360, 0, 0, 4},
	{"many views", {32, 32, 16}, 132, 40, 24, 360, 0, 0, 4},
	{"odd grid", {33, 33, 9}, 12, 60, 50, 360, 0, 0, 4},
	{"views that are no quarters", {48, 48, 40}, 18, 60, 50, 360, 0, 0, 2},
	{"grid that is no square", {40, 48, 20}, 12, 60, 50, -360, -2.3, 0, 2},
	{"odd grid that is no square", {47, 33, 20}, 8, 60, 50, 360, 0, 0, 2},
	{"odd number of views", {48, 48, 20}, 15, 60, 50, 360, 0, 0, 0},
	{"half a circle", {48, 48, 40}, 12, 60, 50, 180, 0, 0, 0},
	{"grid off the axis", {48, 48, 40}, 12, 60, 50, 360, 0, 0.25, 0},
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
	OK(tomos_grid_centred(&c.grid, s->n[0], s->n[1], s->n[2], 1));
	c.grid.first[0] += s->shift;
	c.voxels = s->n[0] * s->n[1] * s->n[2];
	c.pixels = s->views * s->rows * s->columns;
	snprintf(c.name, sizeof c.name, "%s", s->what);
	return c;
}

static bool has_choice(const Projecting *what, const char *name)
{
	KernelChoice list[MOST_CHOICES];
	int count = backend->type->choices ? backend->type->choices(backend, what, list) : 0;
	while (count > 0 && strcmp(list[count - 1].name, name) != 0)
		count--;
	return count > 0;
}

/* `turns`: those of the kernels that were there to be chosen. */
static float *back_project(
	const Case *c, bool plain, int weight, const Box *box, const float *y, int *turns)
{
	Plan plan;
	float *there[2];
	int64_t n[3];
	for (int a = 0; a < 3; a++)
		n[a] = box->high[a] - box->low[a];
	OK(plan_make(&plan, &c->grid, c->scan, &(KernelModel){.weight = weight}));
	plan.plain = plain;
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
	*turns = has_choice(&what, "quarter") ? 4 : has_choice(&what, "opposite") ? 2 : 0;
	backend->type->release(backend, there[0]);
	backend->type->release(backend, there[1]);
	plan_free(&plan);
	return result;
}

static void check(const Case *c, int weight, const Box *box, const float *y, int wanted)
{
	int64_t n = 1;
	int none, turns;
	for (int a = 0; a < 3; a++)
		n *= box->high[a] - box->low[a];
	float *exact = back_project(c, true, weight, box, y, &none);
	float *tuned = back_project(c, false, weight, box, y, &turns);
	double difference = case_difference(tuned, exact, n);
	if (!(difference <= 2e-6))
		fail_msg("%s, weight %d: differs by %g", c->name, weight, difference);
	if (none != 0 || turns != wanted)
		fail_msg("%s, weight %d: %d turns, %d wanted", c->name, weight, turns, wanted);
	free(exact), free(tuned);
}

static void turns_agree_with_the_shared_text(void **state)
{
	(void)state;
	for (int i = 0; i < SETUPS; i++) {
		Case c = setup_case(&setups[i]);
		float *y = case_data(&c, c.pixels);
		Box whole = {.high = {c.grid.n[0], c.grid.n[1], c.grid.n[2]}};
		for (int weight = WEIGHT_RAY; weight <= WEIGHT_NONE; weight++)
			check(&c, weight, &whole, y, has_turns() ? setups[i].turns : 0);
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
	check(&c, WEIGHT_RAY, &slab, y, has_turns() ? 4 : 0);
	check(&c, WEIGHT_DEPTH, &slab, y, has_turns() ? 4 : 0);
	check(&c, WEIGHT_DEPTH, &part, y, 0);
	free(y);
	tomos_geometry_free(c.scan);
}

/* With little memory it takes some views of each quarter at a time. */
static void little_memory(void **state)
{
	(void)state;
	Case c = setup_case(&setups[5]);
	float *y = case_data(&c, c.pixels);
	Box whole = {.high = {c.grid.n[0], c.grid.n[1], c.grid.n[2]}};
	tomos_backend *all = backend;
	OK(tomos_backend_open(&backend, test_backend()));
	if (backend->type->limit)
		backend->type->limit(backend, 500000, 0);
	check(&c, WEIGHT_RAY, &whole, y, has_turns() ? 4 : 0);
	tomos_backend_close(backend);
	backend = all;
	free(y);
	tomos_geometry_free(c.scan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(turns_agree_with_the_shared_text),
		cmocka_unit_test(boxes), cmocka_unit_test(little_memory)};
	return cmocka_run_group_tests(tests, open_backend, close_backend);
}
