/* Updates of the voxels in one pass over them are those of a back projection and a step after it;
 * residuals in one pass over the projections are those of a forward projection and a difference. */
#include "op/op.h"
#include "ops/cases.h"

enum { CASES = 132, STACKS = 6, MOST_VIEWS = 4, STACK_VIEWS = 12 };
enum { FIRST_STACK = CASES + 2 * CASE_KINDS, FIRST_CONE = FIRST_STACK + STACKS };

/* Cone beam on full circles, and the kernels that are there for it, of which some compute sums of
 * mirror images. */
static const struct {
	const char *projector;
	int views;
	double source, detector; /* from the axis, from the source */
	double tilt;             /* of the axis about x, in degrees */
	const char *sums, *averages;
} cones[] = {{"voxel", STACK_VIEWS, 400, 600, 0, "voxel_back_circle_4", "voxel_back_cone"},
	{"voxel", 10, 400, 600, 0, "voxel_back_circle_2", "voxel_back_cone"},
	{"voxel", 9, 400, 600, 0, "voxel_back_cone", "voxel_back_cone"},
	{"voxel", 8, 60, 90, 0, "voxel_back_circle_4", "voxel_back_cone"},
	{"voxel", 9, 60, 180, 0, "voxel_back_upright", "voxel_back_upright"},
	{"joseph", STACK_VIEWS, 200, 300, 0, "joseph_back_cone", "joseph_back_cone"},
	{"voxel", STACK_VIEWS, 200, 300, 2, "voxel_back_mirrors", "voxel_back_any"},
	{"footprint", 9, 200, 300, 0, "footprint_back_upright", "none"},
	{"footprint", STACK_VIEWS, 200, 300, 2, "footprint_back_any", "none"}};

/* An array here, and the same in the backend's memory. */
typedef struct {
	float *here, *there;
	int64_t count;
} Data;

typedef struct {
	Case c;
	tomos_backend *backend;
	tomos_op *op, *part; /* the part: its first few views */
	Data x, y, rays, mask, now, sum, under, ones;
} Setting;

/* Slices across z, y or x, as many as kernels want that share weights between them. */
static Case stack_case(int number)
{
	Case c = {.state = (uint64_t)number, .name = "a larger stack"};
	double angles[STACK_VIEWS];
	for (int i = 0; i < STACK_VIEWS; i++)
		angles[i] = 0.05 + 0.26 * i;
	OK(tomos_geometry_parallel(&c.scan, 37, 45, 1, angles, STACK_VIEWS));
	OK(tomos_grid_centred(&c.grid, 40, 33, 37, 1));
	if (number % 3 > 0)
		case_turn(&c, number % 3 - 1);
	case_count(&c);
	return c;
}

static Case cone_case(int number)
{
	Case c = {.state = (uint64_t)number, .name = "a cone beam"};
	const int cone = number - FIRST_CONE;
	const int count = cones[cone].views;
	const double first = cones[cone].tilt > 0 ? 0 : 0.1;
	double angles[STACK_VIEWS] = {0};
	tomos_view views[STACK_VIEWS];
	for (int i = 0; i < count; i++)
		angles[i] = first + 6.283185307179586 * i / count;
	OK(tomos_geometry_cone(
		&c.scan, 50, 60, 1.5, cones[cone].source, cones[cone].detector, angles, count));
	memcpy(views, tomos_geometry_list(c.scan), (size_t)count * sizeof *views);
	for (int i = 0; i < count; i++)
		case_rotate_view(&views[i], 0, cones[cone].tilt);
	tomos_geometry_free(c.scan);
	OK(tomos_geometry_views(&c.scan, 50, 60, views, count));
	OK(tomos_grid_centred(&c.grid, 33, 33, 37, 1));
	case_count(&c);
	return c;
}

/* A slice that several tasks share, after the small ones of the list, and stacks after these. */
static Case any_case(int number)
{
	if (number < CASES)
		return case_make(number);
	if (number >= FIRST_CONE)
		return cone_case(number);
	if (number >= FIRST_STACK)
		return stack_case(number);
	Case c = {.state = (uint64_t)number, .name = "a larger slice"};
	double angles[7] = {0.1, 0.5, 0.9, 1.3, 1.7, 2.1, 2.5};
	OK(tomos_geometry_parallel(&c.scan, 1, 150, 0.9, angles, 7));
	OK(tomos_grid_centred(&c.grid, 131, 117, 1, 1));
	case_count(&c);
	return c;
}

static Data data_make(Setting *s, int64_t count)
{
	Data data = {.here = case_data(&s->c, count), .count = count};
	OK(s->backend->type->memory->alloc(s->backend, &data.there, count, "a test"));
	return data;
}

static void send(const Setting *s, const Data *data)
{
	tomos_array here = tomos_array_of(data->here, 1, 1, data->count);
	OK(s->backend->type->memory->upload(s->backend, data->there, &here));
}

static void fetch(const Setting *s, const Data *data)
{
	tomos_array here = tomos_array_of(data->here, 1, 1, data->count);
	OK(s->backend->type->memory->download(s->backend, data->there, &here));
}

static Setting setting_make(int number, int64_t views, tomos_backend *backend)
{
	static const int64_t list[STACK_VIEWS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
	Setting s = {.c = any_case(number), .backend = backend};
	Case *c = &s.c;
	tomos_projector_options o = tomos_projector_defaults();
	o.forward = number >= FIRST_CONE      ? cones[number - FIRST_CONE].projector
		    : number / CASE_KINDS % 2 ? "voxel"
					      : "joseph";
	OK(tomos_op_projector(&s.op, backend, &c->grid, c->scan, &o));
	OK(op_part(s.op, &s.part, list, min64(views, tomos_geometry_count(c->scan))));
	s.x = data_make(&s, c->voxels);
	s.y = data_make(&s, s.part->range.count);
	s.rays = data_make(&s, s.y.count);
	s.ones = data_make(&s, s.y.count);
	s.mask = data_make(&s, c->voxels);
	s.now = data_make(&s, c->voxels);
	s.sum = data_make(&s, c->voxels);
	s.under = data_make(&s, c->voxels);
	for (int64_t i = 0; i < s.y.count; i++) {
		s.rays.here[i] = number % 3 ? fabsf(s.rays.here[i]) : 1;
		s.ones.here[i] = 1;
	}
	for (int64_t i = 0; i < c->voxels; i++)
		s.mask.here[i] = s.mask.here[i] > 0;
	send(&s, &s.y), send(&s, &s.rays), send(&s, &s.ones), send(&s, &s.mask);
	return s;
}

static void setting_free(Setting *s)
{
	Data *all[] = {&s->x, &s->y, &s->rays, &s->mask, &s->now, &s->sum, &s->under, &s->ones};
	for (int i = 0; i < COUNT(all); i++) {
		s->backend->type->memory->release(s->backend, all[i]->there);
		free(all[i]->here);
	}
	tomos_op_free(s->part);
	tomos_op_free(s->op);
	tomos_geometry_free(s->c.scan);
}

/* Voxels that hardly any ray meets may be skipped by only one of the two computations. */
static void compare(const Setting *s, const tomos_op *op, const FusedUpdate *step, double *worst)
{
	float most = 0;
	OK(op_adjoint(op, s->y.there, s->sum.there));
	OK(op_adjoint(op, step->rays ? step->rays : s->ones.there, s->under.there));
	fetch(s, &s->sum), fetch(s, &s->under);
	for (int64_t i = 0; i < s->c.voxels; i++)
		most = fmaxf(most, s->under.here[i]);
	for (int64_t i = 0; i < s->c.voxels; i++) {
		double under = step->average ? s->under.here[i] : 1;
		if (step->average && under > 0 && under < 1e-3 * most)
			continue;
		double by = under > 0 ? s->sum.here[i] / under : 0;
		by *= step->voxels ? s->mask.here[i] : 1;
		double value = fmin(fmax(s->x.here[i] + step->a * by, step->low), step->high);
		double error = fabs(value - s->now.here[i]) / (1 + fabs(step->a * by));
		if (!(error < 1e-4))
			fail_msg("%s, voxel %lld: %g, not %g (weights %g of %g)", s->c.name,
				(long long)i, s->now.here[i], value, under, most);
		*worst = fmax(*worst, error);
	}
}

/* Whether the operator has the step; where it has not, nothing may have changed. */
static bool step_with(Setting *s, const tomos_op *op, const FusedUpdate *step, double *worst)
{
	bool done;
	Data x = {s->x.here, s->now.there, s->x.count};
	send(s, &x);
	OK(op_adjoint_update(op, s->y.there, step, s->now.there, &done));
	fetch(s, &s->now);
	if (done)
		compare(s, op, step, worst);
	else
		assert_memory_equal(s->now.here, s->x.here, (size_t)s->c.voxels * sizeof(float));
	return done;
}

/* Updates with weights of the voxels, which here are zeros and ones, and without. */
static bool plain_steps(Setting *s, double *worst)
{
	FusedUpdate step = {.a = 0.7F, .low = -INFINITY, .high = INFINITY};
	bool done = step_with(s, s->part, &step, worst);
	step.voxels = s->mask.there;
	step.high = 0.5F;
	step_with(s, s->part, &step, worst);
	return done;
}

/* Updates by averages; `device`: what can be done may depend on the weights of the rays. */
static bool all_steps(Setting *s, bool device, double *worst)
{
	FusedUpdate step = {.a = 0.7F, .low = -INFINITY, .high = INFINITY, .least = 1e-6F};
	tomos_op *weighted;
	step.average = true;
	bool done = step_with(s, s->part, &step, worst);
	step.rays = s->rays.there;
	step.low = 0;
	step.high = 0.8F;
	assert_true(step_with(s, s->part, &step, worst) == done || device);
	for (int64_t i = 0; i < s->c.voxels; i++)
		s->x.here[i] *= s->mask.here[i];
	OK(op_weighted(&weighted, s->part, s->rays.there, s->mask.there));
	assert_true(step_with(s, weighted, &step, worst) == done || device);
	step.rays = NULL;
	assert_true(step_with(s, weighted, &step, worst) == done || device);
	tomos_op_free(weighted);
	return done;
}

/* Previous contents of the result arrays must not matter. */
static void residual_is_difference(Setting *s, const tomos_op *op)
{
	Data x = {s->x.here, s->now.there, s->x.count}, sum = data_make(s, s->y.count);
	Data r = data_make(s, s->y.count), y = data_make(s, s->y.count);
	float most = 0;
	for (int64_t i = 0; i < r.count; i++)
		r.here[i] = NAN;
	send(s, &x), send(s, &r);
	OK(s->backend->type->vector->copy(s->backend, r.count, r.there, sum.there));
	OK(op_forward(op, x.there, sum.there));
	OK(op_residual(op, x.there, s->y.there, s->rays.there, r.there, y.there));
	fetch(s, &sum), fetch(s, &r), fetch(s, &y);
	for (int64_t i = 0; i < r.count; i++)
		most = fmaxf(most, fabsf(sum.here[i]));
	for (int64_t i = 0; i < r.count; i++) {
		double left = (double)s->y.here[i] - sum.here[i];
		assert_true(fabs(r.here[i] - left) <= 1e-6 * (most + fabsf(s->y.here[i])));
		assert_true(fabs(y.here[i] - (double)s->rays.here[i] * r.here[i]) <=
			    1e-6 * fabsf(r.here[i]));
	}
	Data *all[] = {&sum, &r, &y};
	for (int i = 0; i < COUNT(all); i++) {
		s->backend->type->memory->release(s->backend, all[i]->there);
		free(all[i]->here);
	}
}

/* On the processor, or on a device, where kernels for point sources have the step as well. */
static void try_cases(tomos_backend *backend, const char *name, bool device)
{
	double worst = 0;
	int done = 0;
	for (int i = 0; i < FIRST_STACK; i++) {
		Setting s = setting_make(i, 1 + i % MOST_VIEWS, backend);
		bool plain = plain_steps(&s, &worst), has = all_steps(&s, device, &worst);
		bool point = tomos_geometry_list(s.c.scan)[0].src[3] != 0;
		assert_true(device || has == plain);
		assert_false(has && point && !device);
		assert_true(has || i < CASES);
		if (i % 5 == 0)
			residual_is_difference(&s, s.part);
		done += has;
		setting_free(&s);
	}
	printf("  %s: %d in one pass, largest difference %.1e\n", name, done, worst);
	assert_true(done > CASES / 4);
}

static void one_pass_is_two(void **state)
{
	(void)state;
	for (int l = 0; l < CPU_LEVELS; l++) {
		tomos_backend *backend = open_level("cpu", cpu_levels[l]);
		if (backend)
			try_cases(backend, cpu_levels[l], false);
		tomos_backend_close(backend);
	}
}

/* The backend under test; where that is not a GPU, the test is skipped. */
static tomos_backend *gpu(void)
{
	tomos_backend *backend;
	if (strncmp(test_backend(), "cuda", 4) != 0) {
		print_message("the %s backend is not a GPU\n", test_backend());
		skip();
	}
	OK(tomos_backend_open(&backend, test_backend()));
	return backend;
}

/* The same on a device that has such steps, and with many views there. */
static void on_the_device(void **state)
{
	(void)state;
	tomos_backend *backend = gpu();
	double worst = 0;
	try_cases(backend, test_backend(), true);
	for (int i = FIRST_STACK; i < FIRST_CONE; i++) {
		Setting s = setting_make(i, STACK_VIEWS, backend);
		FusedUpdate step = {.a = 0.3F, .low = 0.1F, .high = 0.9F, .least = 1e-6F};
		assert_true(plain_steps(&s, &worst));
		step.average = true;
		assert_true(step_with(&s, s.part, &step, &worst));
		step.rays = s.rays.there;
		assert_false(step_with(&s, s.part, &step, &worst));
		residual_is_difference(&s, s.part);
		setting_free(&s);
	}
	printf("  stacks: largest difference %.1e\n", worst);
	tomos_backend_close(backend);
}

/* The kernel that updates, or "none". */
static const char *updated_by(Setting *s, bool average)
{
	FusedUpdate step = {.a = 0.3F, .low = 0.1F, .high = 0.9F, .average = average};
	bool done;
	OK(op_adjoint_update(s->part, s->y.there, &step, s->now.there, &done));
	return done ? s->backend->last_kernel : "none";
}

/* By the kernels meant; where memory holds some of the views at a time, bounds are kept after
 * the last of them, and averages are left alone. */
static void cone_beam(void **state)
{
	(void)state;
	tomos_backend *backend = gpu();
	double worst = 0;
	for (int i = 0; i < 2 * COUNT(cones); i++) {
		const int cone = i % COUNT(cones);
		const bool all = i < COUNT(cones),
			   averages = all && strcmp(cones[cone].averages, "none") != 0;
		if (!all)
			backend->type->memory->limit_scratch(backend, 20000, NULL);
		Setting s = setting_make(FIRST_CONE + cone, cones[cone].views, backend);
		assert_true(plain_steps(&s, &worst));
		assert_true(all_steps(&s, false, &worst) == averages);
		assert_string_equal(updated_by(&s, false), cones[cone].sums);
		assert_string_equal(updated_by(&s, true), all ? cones[cone].averages : "none");
		setting_free(&s);
	}
	printf("  cone beam: largest difference %.1e\n", worst);
	tomos_backend_close(backend);
}

/* With many views the fused step does not pay, and the operator declines it. */
static void not_with_many_views(void **state)
{
	(void)state;
	tomos_backend *backend = open_level("cpu", "base");
	Case c = any_case(CASES);
	tomos_op *op;
	float *x = case_data(&c, c.voxels), *y = case_data(&c, c.pixels), first = x[0];
	FusedUpdate step = {.a = 1, .high = 1};
	bool done = true;
	OK(tomos_op_projector(&op, backend, &c.grid, c.scan, NULL));
	OK(op_adjoint_update(op, y, &step, x, &done));
	assert_false(done);
	assert_true(x[0] == first);
	tomos_op_free(op);
	tomos_geometry_free(c.scan);
	tomos_backend_close(backend);
	free(x), free(y);
}

static void memory(void **state)
{
	(void)state;
	tomos_backend *backend = open_level("cpu", "base");
	Setting s = setting_make(CASES, 1, backend);
	FusedUpdate step = {.a = 1, .low = -1, .high = 1, .average = true};
	int64_t live = mem_live();
	bool done = false;
	for (int64_t nth = 1; !done; nth++) {
		mem_fail_nth(nth);
		tomos_status status =
			op_adjoint_update(s.part, s.y.there, &step, s.now.there, &done);
		mem_fail_nth(0);
		done = status == TOMOS_OK;
		assert_true(done || status == TOMOS_NO_MEMORY);
		assert_int_equal(mem_live(), live);
		assert_true(nth < 10);
	}
	setting_free(&s);
	tomos_backend_close(backend);
}

#define TESTS(T) \
	T(one_pass_is_two), T(on_the_device), T(cone_beam), T(not_with_many_views), T(memory)
TEST_MAIN(TESTS, NULL, NULL)
