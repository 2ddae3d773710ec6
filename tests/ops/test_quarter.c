/* Cone beam on circles beside the reference kernels: back projection where views come in half or
 * quarter turns and where they do not, and Joseph's adjoint. */
#include "backend/backend.h" /* first: cmocka makes a macro of fail() */
#include "op/op.h"
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
	double roll, slant;      /* of the detector, in degrees */
	double source;           /* distance from the axis; 0: 400 */
	double tilt;             /* of laminography, in degrees; 0: cone beam */
} Setup;

static const Setup setups[] = {
	{"a full circle", {48, 48, 40}, 12, 60, 50, 360, 0, 0, 4, 0, 0, 0, 0},
	{"a full circle clockwise", {48, 48, 21}, 16, 60, 50, -360, 0, 0, 4, 0, 0, 0, 0},
	{"more than a block", {70, 70, 33}, 8, 80, 44, 360, 0, 0, 4, 0, 0, 0, 0},
	{"axis off the middle", {48, 48, 40}, 20, 60, 50, 360, 3.7, 0, 4, 0, 0, 0, 0},
	{"detector too small", {64, 64, 50}, 12, 30, 20, 360, 0, 0, 4, 0, 0, 0, 0},
	{"many views", {32, 32, 16}, 132, 40, 24, 360, 0, 0, 4, 0, 0, 0, 0},
	{"odd grid", {33, 33, 9}, 12, 60, 50, 360, 0, 0, 4, 0, 0, 0, 0},
	{"views that are no quarters", {48, 48, 40}, 18, 60, 50, 360, 0, 0, 2, 0, 0, 0, 0},
	{"grid that is no square", {40, 48, 20}, 12, 60, 50, -360, -2.3, 0, 2, 0, 0, 0, 0},
	{"odd grid that is no square", {47, 33, 20}, 8, 60, 50, 360, 0, 0, 2, 0, 0, 0, 0},
	{"odd number of views", {48, 48, 20}, 15, 60, 50, 360, 0, 0, 0, 0, 0, 0, 0},
	{"half a circle", {48, 48, 40}, 12, 60, 50, 180, 0, 0, 0, 0, 0, 0, 0},
	{"grid off the axis", {48, 48, 40}, 12, 60, 50, 360, 0, 0.25, 0, 0, 0, 0, 0},
	{"near the source", {48, 48, 40}, 12, 60, 50, 360, 0, 0, 4, 0, 0, 110, 0},
	{"rolled", {48, 48, 40}, 12, 60, 50, 360, 0, 0, 4, 3, 0, 0, 0},
	{"rolled a lot clockwise", {40, 40, 33}, 16, 60, 50, -360, 2.2, 0, 4, 35, 0, 0, 0},
	{"slanted", {49, 49, 40}, 12, 60, 50, 360, 0, 0, 4, 0, 20, 0, 0},
	{"rolled and slanted, no quarters", {48, 32, 40}, 10, 60, 50, 360, 0, 0, 2, -5, 4, 0, 0},
	{"rolled and slanted, no halves", {48, 48, 40}, 11, 60, 50, 360, 0, 0, 0, -5, 4, 0, 0},
	{"slanted near the source", {48, 48, 40}, 12, 60, 50, 360, 0, 0, 4, 1, 12, 100, 0},
	{"rows downwards", {48, 48, 40}, 12, 60, 50, 360, 0, 0, 4, 180, 0, 0, 0},
};
/* Parallel rays, not for kernels that need a source. */
static const Setup oblique[] = {
	{"laminography, slanted", {48, 48, 20}, 12, 60, 50, 360, 0, 0, 4, 1, 4, 0, 30},
	{"laminography, odd grid", {33, 33, 9}, 20, 60, 50, -360, 2.2, 0, 4, 3, 0, 0, 20},
	{"laminography, rolled", {70, 70, 21}, 8, 90, 70, 360, 0, 0, 4, 5, 0, 0, 40},
	{"laminography, steep", {48, 48, 21}, 12, 60, 50, 360, 0, 0, 4, 0, 0, 0, 65},
	{"laminography, pairs", {47, 33, 20}, 10, 60, 50, 360, 0, 0, 2, 9, 0, 0, 30},
};
enum { SETUPS = sizeof setups / sizeof setups[0], OBLIQUE = sizeof oblique / sizeof oblique[0] };

static bool is_upright(const Setup *s)
{
	return s->roll == 0 && s->slant == 0 && s->source == 0;
}

/* Pixels of 1.5 are as large as voxels, seen from the source. */
static Case setup_case(const Setup *s, double pixel)
{
	Case c = {.state = 11};
	const double radians = 3.14159265358979323846 / 180;
	double axis = 0.5 * (double)(s->columns - 1) + s->axis;
	double source_axis = s->source > 0 ? s->source : 400, source_detector = 1.5 * source_axis;
	tomos_scan_options o = tomos_scan_defaults();
	o.geometry = s->tilt > 0 ? "laminography" : "cone";
	o.tilt = s->tilt * radians;
	o.rows = s->rows, o.columns = s->columns, o.views = s->views;
	o.pixel = pixel;
	o.start = 0.3;
	o.roll = s->roll * radians;
	o.slant = s->slant * radians;
	o.arc = s->arc * radians;
	o.axis = &axis, o.axis_count = 1;
	if (s->tilt == 0) {
		o.source_axis = &source_axis, o.source_axis_count = 1;
		o.source_detector = &source_detector, o.source_detector_count = 1;
	}
	case_place(&c, &o, s->n);
	c.grid.first[0] += s->shift;
	snprintf(c.name, sizeof c.name, "%s", s->what);
	return c;
}

static bool has_choice(const ProjectRequest *what, const char *name)
{
	KernelCandidate list[MAX_CANDIDATES];
	int count = backend->type->projector->candidates
			    ? backend->type->projector->candidates(backend, what, list)
			    : 0;
	while (count > 0 && strcmp(list[count - 1].name, name) != 0)
		count--;
	return count > 0;
}

typedef struct {
	const Case *c;
	int kernel, weight;
	Box box;
	const float *from;
	Direction direction;
} Request;

static ProjectRequest projecting(const Request *r, const Plan *plan, float *const there[2])
{
	return (ProjectRequest){.plan = plan,
		.kernel = r->kernel,
		.direction = r->direction,
		.box = r->box,
		.count = plan->scan->count,
		.volume = there[0],
		.projections = there[1]};
}

/* `turns`: those of the kernels that were there to be chosen; `ran`: the one that was. */
static float *project(const Request *r, bool plain, int *turns, const char **ran)
{
	Plan plan;
	float *there[2];
	const int64_t counts[2] = {box_count(&r->box), r->c->pixels};
	const int in = r->direction == ADJOINT ? 1 : 0, out = 1 - in;
	OK(plan_make(&plan, &r->c->grid, r->c->scan, &(KernelModel){.weight = r->weight}));
	plan.plain = plain;
	float *result = calloc((size_t)counts[out], sizeof *result);
	tomos_array to = tomos_array_of(result, 1, 1, counts[out]);
	tomos_array from = tomos_array_of((float *)r->from, 1, 1, counts[in]);
	for (int i = 0; i < 2; i++) {
		OK(backend->type->memory->alloc(backend, &there[i], counts[i], "data"));
		OK(backend->type->memory->upload(backend, there[i], i == in ? &from : &to));
	}
	ProjectRequest what = projecting(r, &plan, there);
	OK(backend->type->projector->apply(backend, &what));
	*ran = backend->last_kernel ? backend->last_kernel : "";
	OK(backend->type->memory->download(backend, there[out], &to));
	*turns = has_choice(&what, "voxel_back_circle_4")   ? 4
		 : has_choice(&what, "voxel_back_circle_2") ? 2
							    : 0;
	backend->type->memory->release(backend, there[0]);
	backend->type->memory->release(backend, there[1]);
	plan_free(&plan);
	return result;
}

static void check(const Request *r, int wanted, const char *kernel)
{
	int none, turns;
	const char *ran;
	float *exact = project(r, true, &none, &ran);
	float *tuned = project(r, false, &turns, &ran);
	double difference = case_difference(
		tuned, exact, r->direction == ADJOINT ? box_count(&r->box) : r->c->pixels);
	if (!(difference <= 2e-6))
		fail_msg("%s, weight %d: differs by %g", r->c->name, r->weight, difference);
	if (none != 0 || turns != wanted)
		fail_msg(
			"%s, weight %d: %d turns, %d wanted", r->c->name, r->weight, turns, wanted);
	if (has_turns() && kernel && strcmp(kernel, ran) != 0)
		fail_msg("%s: %s ran, not %s", r->c->name, ran, kernel);
	free(exact), free(tuned);
}

static Request whole_request(const Case *c, int kernel, const float *y)
{
	return (Request){.c = c,
		.kernel = kernel,
		.box = {.high = {c->grid.n[0], c->grid.n[1], c->grid.n[2]}},
		.from = y,
		.direction = ADJOINT};
}

static void check_weights(const Setup *s, Direction direction, int turns)
{
	Case c = setup_case(s, 1.5);
	float *from = case_data(&c, direction == FORWARD ? c.voxels : c.pixels);
	Request r = whole_request(&c, KERNEL_voxel, from);
	r.direction = direction;
	for (r.weight = WEIGHT_RAY; r.weight <= WEIGHT_NONE; r.weight++)
		check(&r, turns, NULL);
	free(from);
	tomos_geometry_free(c.scan);
}

static void rotated_views_agree_with_the_reference(void **state)
{
	(void)state;
	for (int i = 0; i < SETUPS; i += CASE_RACES ? 4 : 1)
		check_weights(&setups[i], ADJOINT, has_turns() ? setups[i].turns : 0);
}

/* Forward, tilted detectors on a full circle project four views at once. */
static void forward_agrees(void **state)
{
	(void)state;
	for (int i = 0; i < SETUPS; i += CASE_SLOW ? 4 : 1)
		check_weights(&setups[i], FORWARD, 0);
}

/* Rays that are nearer to each other than voxels, or farther apart. */
static void adjoint_agrees_with_the_reference(void **state)
{
	(void)state;
	static const double pixels[] = {1.5, 1.35, 2.1, 1.1, 0.6, 3.3};
	for (int i = 0; i < SETUPS; i += CASE_SLOW ? 4 : 1)
		for (int p = 0; p < (CASE_SLOW ? 2 : 6) && is_upright(&setups[i]); p++) {
			Case c = setup_case(&setups[i], pixels[p]);
			float *y = case_data(&c, c.pixels);
			Request r = whole_request(&c, KERNEL_joseph, y);
			/* Of many views, dense rays go to tiles. */
			check(&r, 0, setups[i].views < 24 ? "joseph_back_cone" : NULL);
			free(y);
			tomos_geometry_free(c.scan);
		}
}

/* With the kernel that projects all views of a set at once. */
static void check_set(const Request *r, const char *kernel)
{
	if (has_turns())
		setenv("TOMOS_KERNEL", kernel, 1);
	check(r, 0, kernel);
	unsetenv("TOMOS_KERNEL");
}

/* Joseph's rays, whose positions and weights serve all views of a set. */
static void sets_of_rays_agree(void **state)
{
	(void)state;
	static const double pixels[] = {1.5, 1.1, 3.3};
	for (int i = 0; i < SETUPS + OBLIQUE; i += CASE_SLOW ? 4 : 1)
		for (int p = 0; p < 3; p++) {
			const Setup *s = i < SETUPS ? &setups[i] : &oblique[i - SETUPS];
			if (s->turns == 0 || (s->roll == 0 && s->slant == 0 && s->tilt < 60))
				continue;
			Case c = setup_case(s, pixels[p]);
			float *from = case_data(&c, c.pixels > c.voxels ? c.pixels : c.voxels);
			Request r = whole_request(&c, KERNEL_joseph, from);
			check_set(&r, "joseph_back_circle_2");
			r.box.low[2] = 3, r.box.high[2] -= 1;
			r.direction = FORWARD;
			check_set(&r, "joseph_forward_circle_2");
			if (s->turns == 4)
				check_set(&r, "joseph_forward_circle_4");
			free(from);
			tomos_geometry_free(c.scan);
		}
}

/* Slabs are rotated as well, other boxes are not. */
static void boxes(void **state)
{
	(void)state;
	Case c = setup_case(&setups[0], 1.5);
	float *y = case_data(&c, c.pixels);
	const Box slab = {{0, 0, 7}, {48, 48, 30}}, part = {{0, 8, 0}, {48, 40, 40}};
	const int turns = has_turns() ? 4 : 0;
	check(&(Request){&c, KERNEL_voxel, WEIGHT_RAY, slab, y, ADJOINT}, turns, NULL);
	check(&(Request){&c, KERNEL_voxel, WEIGHT_DEPTH, slab, y, ADJOINT}, turns, NULL);
	check(&(Request){&c, KERNEL_voxel, WEIGHT_DEPTH, part, y, ADJOINT}, 0, NULL);
	check(&(Request){&c, KERNEL_joseph, WEIGHT_RAY, slab, y, ADJOINT}, 0, "joseph_back_cone");
	check(&(Request){&c, KERNEL_joseph, WEIGHT_RAY, part, y, ADJOINT}, 0, "joseph_back_cone");
	free(y);
	tomos_geometry_free(c.scan);
}

/* With little memory it takes some views of each quarter at a time, or some slices. */
static void little_memory(void **state)
{
	(void)state;
	tomos_backend *all = backend;
	OK(tomos_backend_open(&backend, test_backend()));
	if (backend->type->memory->limit_scratch)
		backend->type->memory->limit_scratch(backend, 100000, 0);
	for (int i = 0; i < SETUPS; i++) {
		if (setups[i].turns != 4)
			continue;
		Case c = setup_case(&setups[i], 1.5);
		float *from = case_data(&c, c.pixels > c.voxels ? c.pixels : c.voxels);
		Request voxel = whole_request(&c, KERNEL_voxel, from),
			joseph = whole_request(&c, KERNEL_joseph, from);
		check(&voxel, has_turns() ? 4 : 0, NULL);
		check(&joseph, 0, is_upright(&setups[i]) ? "joseph_back_cone" : NULL);
		voxel.direction = FORWARD;
		check(&voxel, 0, NULL);
		free(from);
		tomos_geometry_free(c.scan);
	}
	tomos_backend_close(backend);
	backend = all;
}

/* Sums of the rows of a projector, of which a quarter is computed where views come in quarter
 * turns. */
static void row_sums(void **state)
{
	(void)state;
	for (int i = 0; i < SETUPS; i++) {
		Case c = setup_case(&setups[i], 1.5);
		float *sums[2], *ones, *host = malloc(2 * (size_t)c.pixels * sizeof *host);
		tomos_op *op;
		double largest = 0;
		OK(tomos_op_projector(&op, backend, &c.grid, c.scan, NULL));
		OK(vector_new(&ones, &op->domain, "ones"));
		OK(vector_fill(&op->domain, 1, ones));
		for (int k = 0; k < 2; k++) {
			const tomos_array to = tomos_array_of(
				host + k * c.pixels, c.scan->count, c.scan->rows, c.scan->columns);
			OK(vector_new(&sums[k], &op->range, "sums"));
			OK(k ? op_row_sums(op, ones, sums[k]) : op_forward(op, ones, sums[k]));
			OK(vector_download(&op->range, sums[k], &to));
			vector_free(sums[k], &op->range);
		}
		for (int64_t j = 0; j < c.pixels; j++)
			largest = fmax(largest, fabsf(host[j]));
		for (int64_t j = 0; j < c.pixels; j++)
			assert_float_equal(host[j], host[j + c.pixels], 1e-5 * largest);
		vector_free(ones, &op->domain);
		tomos_op_free(op);
		tomos_geometry_free(c.scan);
		free(host);
	}
}

#define TESTS(T) \
	T(rotated_views_agree_with_the_reference), T(forward_agrees), \
		T(adjoint_agrees_with_the_reference), T(sets_of_rays_agree), T(boxes), \
		T(little_memory), T(row_sums)
TEST_MAIN(TESTS, open_backend, close_backend)
