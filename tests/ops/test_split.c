/* Projections in pieces equal those in one piece: several children, little memory, both
 * distributions. */
#include "ops/split_cases.h"

static void problem_check(Problem *p, int devices, double more, SplitShare share)
{
	Case *c = &p->scene;
	tomos_backend *b = split_of_children(devices, memory_for(c, &p->o, more), share);
	/* NaN: previous contents must not matter, even in pixels whose rays miss the volume. */
	memset(p->got_y, 0xff, (size_t)c->pixels * sizeof(float));
	memset(p->got_x, 0xff, (size_t)c->voxels * sizeof(float));
	case_forward(b, &c->grid, c->scan, &p->o, p->x, p->got_y);
	case_adjoint(b, &c->grid, c->scan, &p->o, p->y, p->got_x);
	tomos_backend_close(b);
	double forward = case_difference(p->got_y, p->forward, c->pixels);
	double back = case_difference(p->got_x, p->back, c->voxels);
	if (!(forward <= rounding() && back <= rounding()))
		fail_msg("%s, %s, %s%s, %d devices, memory %g, share %d: %g forward, %g back",
			c->name, p->o.forward, p->o.boundary, p->o.plain ? ", plain" : "", devices,
			more, share, forward, back);
}

/* Every geometry with every projector, boundaries and optimised kernels in turn. */
static void as_one(void **state)
{
	(void)state;
	static const double more[] = {1, 3, 20, 1000};
	for (int number = 0; number < CASE_KINDS * CASE_MODELS; number += stride()) {
		Problem p = problem_make(number);
		for (int m = 0; m < 4; m++)
			problem_check(&p, 1 + (number + m) % MOST, more[m],
				(SplitShare)((number + m) % 3));
		problem_free(&p);
	}
}

/* The pieces follow from the memory alone, so the bits are the same for any number of devices. */
static void same_bits(void **state)
{
	(void)state;
	for (int number = 0; number < 2 * CASE_KINDS; number += step()) {
		Problem p = problem_make(number);
		const Case *c = &p.scene;
		for (int share = SHARE_AUTO; share <= SHARE_VOXELS; share++) {
			problem_check(&p, 1, 4, (SplitShare)share);
			memcpy(p.forward, p.got_y, (size_t)c->pixels * sizeof(float));
			memcpy(p.back, p.got_x, (size_t)c->voxels * sizeof(float));
			for (int devices = 2; devices <= MOST; devices++) {
				problem_check(&p, devices, 4, (SplitShare)share);
				assert_memory_equal(p.got_y, p.forward, c->pixels * sizeof(float));
				assert_memory_equal(p.got_x, p.back, c->voxels * sizeof(float));
			}
		}
		problem_free(&p);
	}
}

/* Projections of some views and some voxels, onto what is there; powers of the entries. */
static void parts_and_powers(void **state)
{
	(void)state;
	tomos_backend *plain;
	OK(tomos_backend_open(&plain, "cpu"));
	for (int number = 0; number < CASE_KINDS * CASE_MODELS; number += stride()) {
		Case c = case_make(number);
		Plan plan;
		KernelModel model = {.weight = WEIGHT_RAY};
		tomos_projector_options o = tomos_projector_defaults();
		OK(plan_make(&plan, &c.grid, c.scan, &model));
		float *x = case_data(&c, c.voxels), *y = case_data(&c, c.pixels);
		float *x2 = malloc((size_t)c.voxels * sizeof *x2);
		float *y2 = malloc((size_t)c.pixels * sizeof *y2);
		memcpy(x2, x, (size_t)c.voxels * sizeof *x);
		memcpy(y2, y, (size_t)c.pixels * sizeof *y);
		tomos_backend *b =
			split_of_children(2, memory_for(&c, &o, 2), (SplitShare)(number % 3));
		ProjectRequest what = {.plan = &plan,
			.kernel = number / CASE_KINDS,
			.direction = number % 2 ? ADJOINT : FORWARD,
			.first = plan.scan->count / 3,
			.volume = x,
			.projections = y};
		what.count = plan.scan->count - what.first;
		memcpy(what.box.high, plan.grid.n, sizeof what.box.high);
		for (int a = 0; a < 3; a++)
			what.box.low[a] = plan.grid.n[a] / 3;
		for (int power = -2; power <= 2; power += 2) {
			what.volume = x, what.projections = y;
			OK(power < 0 ? plain->type->projector->apply(plain, &what)
				     : plain->type->projector->apply_power(plain, &what, power));
			what.volume = x2, what.projections = y2;
			OK(power < 0 ? b->type->projector->apply(b, &what)
				     : b->type->projector->apply_power(b, &what, power));
			assert_true(case_difference(x2, x, c.voxels) < rounding());
			assert_true(case_difference(y2, y, c.pixels) < rounding());
		}
		free(x), free(y), free(x2), free(y2);
		plan_free(&plan);
		tomos_backend_close(b);
		tomos_geometry_free(c.scan);
	}
	tomos_backend_close(plain);
}

/* Updates of voxels by pieces as they come, between bounds, are the update by the whole. */
static void pieces_update(void **state)
{
	(void)state;
	int updates = 0;
	for (int number = 1; number < CASE_KINDS * CASE_MODELS; number += stride() + 4) {
		Problem p = problem_make(number);
		Case *c = &p.scene;
		Plan plan;
		bool done;
		OK(plan_make(&plan, &c->grid, c->scan, &(KernelModel){.weight = WEIGHT_RAY}));
		float *w = case_data(c, c->voxels);
		tomos_backend *b = split_of_children(2, memory_for(c, &p.o, 3), SHARE_VOXELS);
		ProjectRequest what = {.plan = &plan,
			.kernel = number / CASE_KINDS,
			.direction = ADJOINT,
			.count = plan.scan->count,
			.volume = p.got_x,
			.projections = p.y,
			.overwrite = true};
		memcpy(what.box.high, plan.grid.n, sizeof what.box.high);
		OK(b->type->projector->apply(b, &what));
		for (int64_t i = 0; i < c->voxels; i++)
			p.back[i] = fminf(fmaxf(p.x[i] + 0.1f * w[i] * p.got_x[i], 0.1f), 0.7f);
		FusedUpdate step = {.a = 0.1f, .low = 0.1f, .high = 0.7f, .voxels = w};
		what.volume = p.x;
		/* The cpu's own is at home in its levels alone. */
		assert_true(b->type->projector->back_update != cpu_backend.projector->back_update);
		OK(b->type->projector->back_update(b, &what, &step, &done));
		assert_true(done);
		assert_true(case_difference(p.x, p.back, c->voxels) < rounding());
		step.average = true;
		OK(b->type->projector->back_update(b, &what, &step, &done));
		assert_false(done);
		plan_free(&plan); /* before the backend, which has kept something with it */
		tomos_backend_close(b);
		free(w);
		problem_free(&p);
		updates++;
	}
	assert_true(updates > 2);
}

static void algorithms(void **state)
{
	(void)state;
	tomos_backend *plain;
	OK(tomos_backend_open(&plain, "cpu"));
	for (int round = 0; round < 12; round += case_slow() ? 7 : 1) {
		tomos_scan_options so = tomos_scan_defaults();
		const double axis = 60, detector = 90;
		so.geometry = round % 3 == 0 ? "parallel" : "cone";
		so.rows = 7, so.columns = 20, so.views = 12, so.pixel = 1.4;
		if (round % 3) {
			so.source_axis = &axis, so.source_axis_count = 1;
			so.source_detector = &detector, so.source_detector_count = 1;
		}
		so.roll = round % 3 == 2 ? 0.1 : 0; /* so that views are aligned first */
		Case c = case_make(0);
		tomos_geometry_free(c.scan);
		OK(tomos_geometry_make(&c.scan, &so));
		OK(tomos_grid_for(&c.grid, c.scan, NULL));
		case_count(&c);
		float *data = case_data(&c, c.pixels);
		float *wanted = calloc((size_t)c.voxels, sizeof *wanted);
		float *got = calloc((size_t)c.voxels, sizeof *got);
		tomos_array y = case_projections(&c, data), one = case_volume(&c, wanted),
			    two = case_volume(&c, got);
		/* Aligning needs whole views; a single row at a time, or several. */
		int64_t memory = memory_of(round % 3 == 2 ? 7 * 20 : 39 + round / 3 * 120);
		tomos_backend *b = split_of_children(1 + round % MOST, memory, SHARE_AUTO);
		tomos_analytic_options ao = tomos_analytic_defaults();
		ao.filter_taps = round >= 9 ? 5 : 0;
		OK((round % 3 ? tomos_fdk : tomos_fbp)(
			plain, &c.grid, c.scan, &y, &one, &ao, NULL));
		OK((round % 3 ? tomos_fdk : tomos_fbp)(b, &c.grid, c.scan, &y, &two, &ao, NULL));
		assert_true(case_difference(got, wanted, c.voxels) < rounding());
		tomos_op *A, *B;
		tomos_algebraic_options o = tomos_algebraic_defaults();
		o.iterations = 4;
		OK(tomos_op_projector(&A, plain, &c.grid, c.scan, NULL));
		OK(tomos_op_projector(&B, b, &c.grid, c.scan, NULL));
		static const char *const methods[] = {"sirt", "sart", "cgls", "art"};
		memset(wanted, 0, (size_t)c.voxels * sizeof *wanted);
		memset(got, 0, (size_t)c.voxels * sizeof *got);
		OK(tomos_reconstruct(A, methods[round / 3], &y, &one, &o, NULL));
		OK(tomos_reconstruct(B, methods[round / 3], &y, &two, &o, NULL));
		assert_true(case_difference(got, wanted, c.voxels) < 10 * rounding());
		tomos_op_free(A);
		tomos_op_free(B);
		tomos_backend_close(b);
		free(data), free(wanted), free(got);
		tomos_geometry_free(c.scan);
	}
	tomos_backend_close(plain);
}

/* ---- the model ------------------------------------------------------------------------------- */

static Schedule *schedule_of(const Plan *plan, Direction direction, SplitShare share)
{
	Split split = {
		.memory = 1 << 26, .capacity = 4 << 21, .in = {1 << 21, 1 << 21}, .share = share};
	ProjectRequest what = {.plan = plan,
		.kernel = KERNEL_joseph,
		.direction = direction,
		.count = plan->scan->count};
	Schedule *made;
	memcpy(what.box.high, plan->grid.n, sizeof what.box.high);
	OK(schedule_make(&made, &split, &what, false));
	return made;
}

static int adds(const Schedule *s)
{
	int count = 0;
	for (int64_t i = 0; i < s->item_count; i++)
		count += s->items[i].after >= 0 && s->items[i].steps > 0;
	return count;
}

/* Many views of few voxels from all sides: back, adding up small volumes is cheaper than sending
 * all views again; few views of many voxels: the other way round. */
static void model_chooses(void **state)
{
	(void)state;
	for (int many = 0; many < 2; many++) {
		tomos_scan_options so = tomos_scan_defaults();
		tomos_grid grid;
		tomos_geometry *scan;
		Plan plan;
		KernelModel model = {.weight = WEIGHT_RAY};
		so.geometry = "lebedev";
		so.rows = so.columns = many ? 96 : 16;
		so.views = many ? 601 : 7;
		so.pixel = many ? 0.3 : 10;
		OK(tomos_geometry_make(&scan, &so));
		OK(tomos_grid_centred(&grid, many ? 16 : 128, many ? 16 : 128, many ? 16 : 128, 1));
		OK(plan_make(&plan, &grid, scan, &model));
		for (int direction = FORWARD; direction <= ADJOINT; direction++) {
			Schedule *s[3];
			for (int share = SHARE_AUTO; share <= SHARE_VOXELS; share++)
				s[share] =
					schedule_of(&plan, (Direction)direction, (SplitShare)share);
			int partial = direction == ADJOINT ? many : !many;
			assert_int_equal(adds(s[SHARE_AUTO]) > 0, partial);
			assert_true(adds(s[direction == ADJOINT ? SHARE_VIEWS : SHARE_VOXELS]) > 0);
			assert_int_equal(
				adds(s[direction == ADJOINT ? SHARE_VOXELS : SHARE_VIEWS]), 0);
			for (int share = SHARE_VIEWS; share <= SHARE_VOXELS; share++)
				assert_true(s[SHARE_AUTO]->cost <= s[share]->cost);
			for (int share = SHARE_AUTO; share <= SHARE_VOXELS; share++)
				schedule_free(s[share]);
		}
		plan_free(&plan);
		tomos_geometry_free(scan);
	}
}

/* A cone beam in slabs: a slab needs its rows, so that little is sent twice. */
static void slabs_need_their_rows(void **state)
{
	(void)state;
	tomos_scan_options so = tomos_scan_defaults();
	tomos_grid grid;
	tomos_geometry *scan;
	Plan plan;
	KernelModel model = {.weight = WEIGHT_RAY};
	const double axis = 1000, detector = 1500;
	so.geometry = "cone";
	so.rows = so.columns = 256, so.views = 90;
	so.source_axis = &axis, so.source_axis_count = 1;
	so.source_detector = &detector, so.source_detector_count = 1;
	OK(tomos_geometry_make(&scan, &so));
	OK(tomos_grid_for(&grid, scan, NULL));
	OK(plan_make(&plan, &grid, scan, &model));
	int64_t once = 256 * 256 * 256 + 90 * 256 * 256;
	for (int direction = FORWARD; direction <= ADJOINT; direction++) {
		Schedule *s = schedule_of(&plan, (Direction)direction, SHARE_AUTO);
		assert_in_range(s->cost, once, 2 * once);
		schedule_free(s);
	}
	plan_free(&plan);
	tomos_geometry_free(scan);
}

/* Children of another kind do the work that any can do. */
static int on_devices(void)
{
	tomos_backend *backend;
	char name[16]; /* without devices, which the tests choose */
	snprintf(name, sizeof name, "%.*s", (int)strcspn(test_backend(), ":"), test_backend());
	const struct CMUnitTest tests[] = {cmocka_unit_test(as_one),
		cmocka_unit_test(parts_and_powers), cmocka_unit_test(pieces_update),
		cmocka_unit_test(algorithms)};
	if (tomos_backend_open(&backend, name) != TOMOS_OK) {
		print_message("%s\n", tomos_message());
		return 1;
	}
	children = backend->type;
	tomos_backend_close(backend);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
	if (!test_repeats())
		return on_devices();
	const struct CMUnitTest tests[] = {cmocka_unit_test(as_one), cmocka_unit_test(same_bits),
		cmocka_unit_test(parts_and_powers), cmocka_unit_test(pieces_update),
		cmocka_unit_test(algorithms), cmocka_unit_test(model_chooses),
		cmocka_unit_test(slabs_need_their_rows)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
