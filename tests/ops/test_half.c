/* Projections kept as halves, or as sums of two: stacks of all sizes beside floats. A backend
 * without such a path computes in floats whatever is asked for, and that is tested there. */
#include "ops/stacks.h"

/* Only GPUs multiply halves. */
static int has_half(void)
{
	return strncmp(test_backend(), "cuda", 4) == 0;
}

/* With the newest instructions of the GPU and with those of older ones; other backends have one
 * variant. */
static const char *const levels[] = {"", "80"};

static int level_count(void)
{
	return has_half() ? 2 : 1;
}

static void use_level(int i)
{
	setenv("TOMOS_CUDA", levels[i], 1);
}

static double worst_split[2]; /* back, forward */

/* Results with half and float data differ slightly: this shows that the requested format was
 * used. */
static void check_kind(
	const Case *c, Kind kind, const Box *box, int64_t first, int64_t count, bool must_differ)
{
	int64_t views = tomos_geometry_count(c->scan), n = 1;
	bool forward = kind.direction == FORWARD;
	Case random = *c;
	for (int a = 0; a < 3; a++)
		n *= box->high[a] - box->low[a];
	int64_t results = forward ? count * (c->pixels / views) : n;
	float *from = case_data(&random, forward ? n : c->pixels), *got[3];
	static const PlanData data[] = {DATA_FLOAT, DATA_HALF, DATA_SPLIT};
	for (int i = 0; i < 3; i++) {
		kind.data = data[i];
		kind.plain = data[i] == DATA_FLOAT; /* what the others are measured by */
		got[i] = project(c, kind, box, first, count, from);
	}
	double by_half = case_difference(got[1], got[0], results);
	double by_split = case_difference(got[2], got[0], results);
	double half = has_half() ? 1e-3 : 1e-5, split = has_half() ? 1e-6 : 1e-5;
	worst_split[forward] = fmax(worst_split[forward], by_split);
	if (!(by_half <= half && by_split <= split))
		fail_msg("%s: kernel %d, direction %d: halves differ by %g, sums of two by %g",
			c->name, kind.kernel, (int)kind.direction, by_half, by_split);
	if (has_half() && must_differ && case_dot(got[0], got[0], results) > 0)
		assert_true(by_half > 1e-5);
	for (int i = 0; i < 3; i++)
		free(got[i]);
	free(from);
}

/* Older GPUs have halves for back projections alone, and none where hats are wider than a
 * column. */
static void check_part(const Case *c, const Box *box, int64_t first, int64_t count, int steep)
{
	for (int i = 0; i < 4; i++) {
		Kind kind = {i % 2 ? KERNEL_joseph : KERNEL_voxel, i / 2 ? FORWARD : ADJOINT,
			DATA_FLOAT, false};
		check_kind(c, kind, box, first, count,
			!steep && kind.direction == ADJOINT && kind.kernel == KERNEL_voxel);
	}
}

static void back_projections_agree(void **state)
{
	(void)state;
	for (int level = 0; level < level_count(); level++)
		for (int i = 0; i < SIZES; i += CASE_RACES ? 3 : 1) {
			use_level(level);
			Case c = size_case(&sizes[i], i);
			Box whole = {.high = {c.grid.n[0], c.grid.n[1], c.grid.n[2]}};
			check_part(&c, &whole, 0, sizes[i].views, i == STEEP);
			tomos_geometry_free(c.scan);
		}
}

/* As many views as it takes for weights of one half each. */
static void many_views_agree(void **state)
{
	(void)state;
	static const Size many = {{21, 34, 70}, 41, 260, 1, 0.3};
	for (int level = 0; level < level_count(); level++) {
		use_level(level);
		Case c = size_case(&many, 1);
		const Box boxes[] = {{{0, 0, 0}, {21, 34, 70}}, {{3, 1, 40}, {20, 30, 70}}};
		check_part(&c, &boxes[0], 0, 260, 0);
		check_part(&c, &boxes[1], 7, 101, 0);
		tomos_geometry_free(c.scan);
	}
}

static void boxes_and_parts_of_views_agree(void **state)
{
	(void)state;
	for (int level = 0; level < level_count(); level++) {
		use_level(level);
		Case c = size_case(&sizes[4], 4);
		const Box boxes[] = {{{0, 0, 1}, {50, 49, 18}}, {{7, 3, 40}, {40, 48, 129}},
			{{49, 48, 0}, {50, 49, 130}}};
		for (int i = 0; i < (CASE_RACES ? 1 : 3); i++) {
			check_part(&c, &boxes[i], 0, 25, 0);
			check_part(&c, &boxes[i], 5, 9, 0);
			check_part(&c, &boxes[i], 14, 11, 0);
		}
		tomos_geometry_free(c.scan);
	}
}

static void stacks_across_other_axes_agree(void **state)
{
	(void)state;
	for (int axis = 0; axis < 2; axis++) {
		use_level(0);
		Case c = size_case(&sizes[2], 2);
		case_turn(&c, axis);
		Box whole = {.high = {c.grid.n[0], c.grid.n[1], c.grid.n[2]}};
		check_part(&c, &whole, 0, sizes[2].views, 0);
		tomos_geometry_free(c.scan);
	}
}

/* Batches smaller than the stack, than the best size of the kernels, and than their smallest
 * size. */
static void a_limit_changes_nothing(void **state)
{
	(void)state;
	static const int64_t limits[] = {70, 41, 3};
	if (!has_half())
		return;
	Case c = size_case(&sizes[4], 4);
	Box whole = {.high = {c.grid.n[0], c.grid.n[1], c.grid.n[2]}};
	for (int i = 0; i < 3 * level_count(); i++) {
		use_level(i / 3);
		limit_slices(&c, limits[i % 3]);
		check_part(&c, &whole, 0, sizes[4].views, 0);
	}
	limit_slices(&c, -1);
	tomos_geometry_free(c.scan);
}

/* Kernels may take neighbouring views together: here they are far apart in the list, some of them
 * the same, or far from all others. */
static void views_come_in_any_order(void **state)
{
	(void)state;
	enum { VIEWS = 45 };
	double angles[VIEWS];
	for (int i = 0; i < VIEWS; i++)
		angles[i] = i % 11 == 10 ? 2.1 : i % 11 == 9 ? 0.5 : 1 + fmod(0.618034 * i, 1);
	Case c = size_case(&(Size){{37, 40, 24}, 51, VIEWS, 1, 1.7}, 1);
	tomos_geometry_free(c.scan);
	OK(tomos_geometry_parallel(&c.scan, 24, 51, 1, angles, VIEWS));
	Box whole = {.high = {c.grid.n[0], c.grid.n[1], c.grid.n[2]}};
	for (int level = 0; level < level_count(); level++) {
		use_level(level);
		check_part(&c, &whole, 0, VIEWS, 0);
		check_part(&c, &whole, 7, 30, 0);
	}
	tomos_geometry_free(c.scan);
}

/* Half precision covers 6e-8 to 65504; data outside this range must work as well. */
static void any_scale_will_do(void **state)
{
	(void)state;
	use_level(0);
	Case c = size_case(&sizes[2], 2);
	Box whole = {.high = {c.grid.n[0], c.grid.n[1], c.grid.n[2]}};
	float *y = case_data(&c, c.pixels), *scaled = malloc((size_t)c.pixels * sizeof *scaled);
	float *one = back_project(&c, KERNEL_voxel, DATA_HALF, false, &whole, 0, sizes[2].views, y);
	static const float scales[] = {0x1p-100f, 0x1p-20f, 0x1p20f, 0x1p100f};
	for (int i = 0; i < 4; i++) {
		for (int64_t j = 0; j < c.pixels; j++)
			scaled[j] = scales[i] * y[j];
		float *other = back_project(
			&c, KERNEL_voxel, DATA_HALF, false, &whole, 0, sizes[2].views, scaled);
		for (int64_t j = 0; j < c.voxels; j++)
			other[j] /= scales[i];
		assert_true(case_difference(other, one, c.voxels) <= 1e-6);
		free(other);
	}
	free(y), free(scaled), free(one);
	tomos_geometry_free(c.scan);
}

static void nothing_gives_nothing(void **state)
{
	(void)state;
	use_level(0);
	Case c = size_case(&sizes[2], 2);
	Box whole = {.high = {c.grid.n[0], c.grid.n[1], c.grid.n[2]}};
	float *y = calloc((size_t)c.pixels, sizeof *y);
	float *x = back_project(&c, KERNEL_voxel, DATA_HALF, false, &whole, 0, sizes[2].views, y);
	for (int64_t i = 0; i < c.voxels; i++)
		assert_true(x[i] == 0);
	free(y), free(x);
	tomos_geometry_free(c.scan);
}

/* <A x, y> beside <x, A' y>. */
static void check_pair(const char *model, const char *data, double most)
{
	use_level(0);
	for (int i = 0; i < UNSEEN; i += CASE_RACES ? 3 : 1) {
		Case c = size_case(&sizes[i], i);
		tomos_projector_options o = tomos_projector_defaults();
		o.forward = model;
		o.data = data;
		float *x = case_data(&c, c.voxels), *y = case_data(&c, c.pixels);
		float *f = malloc((size_t)c.pixels * sizeof *f);
		float *g = malloc((size_t)c.voxels * sizeof *g);
		case_forward(backend, &c.grid, c.scan, &o, x, f);
		case_adjoint(backend, &c.grid, c.scan, &o, y, g);
		double one = case_dot(f, y, c.pixels), two = case_dot(x, g, c.voxels);
		double norms = sqrt(case_dot(f, f, c.pixels) * case_dot(y, y, c.pixels));
		if (!(fabs(one - two) <= most * norms))
			fail_msg("%s, %s of %s: %g and %g", c.name, model, data, one, two);
		free(x), free(y), free(f), free(g);
		tomos_geometry_free(c.scan);
	}
}

static void pairs_are_nearly_adjoint(void **state)
{
	(void)state;
	check_pair("voxel", "half", 2e-3);
	check_pair("joseph", "half", 2e-3);
	static const char *const kernels[] = {
		"", "slices_back_wgmma_split", "slices_forward_wgmma_split"};
	for (int i = 0; i < 3; i++) {
		setenv("TOMOS_KERNEL", kernels[i], 1);
		check_pair("voxel", "float", 1e-6);
		check_pair("joseph", "float", 1e-6);
	}
	unsetenv("TOMOS_KERNEL");
}

/* Filtered back projection of a head in the middle of which all slices lie. */
static void images_of_a_head_agree(void **state)
{
	(void)state;
	enum { N = CASE_SLOW ? 48 : 96, SLICES = 20, VIEWS = CASE_SLOW ? 90 : 180 };
	use_level(0);
	Case c = size_case(&(Size){{N, N, SLICES}, N, VIEWS, 1, 0}, 0);
	tomos_phantom *head;
	tomos_phantom_options p = tomos_phantom_defaults();
	p.radius = 0.5 * N;
	OK(tomos_phantom_named(&head, "shepp-logan", &p));
	float *y = calloc((size_t)c.pixels, sizeof *y), *images[2];
	tomos_array from = case_projections(&c, y);
	OK(tomos_phantom_project(head, c.scan, 1, &from));
	for (int i = 0; i < 2; i++) {
		tomos_analytic_options o = tomos_analytic_defaults();
		o.data = i ? "half" : "float";
		images[i] = calloc((size_t)c.voxels, sizeof *images[i]);
		tomos_array to = case_volume(&c, images[i]);
		OK(tomos_fbp(backend, &c.grid, c.scan, &from, &to, &o, NULL));
	}
	double difference = case_difference(images[1], images[0], c.voxels);
	if (!(difference <= 1e-4))
		fail_msg("images differ by %g", difference);
	assert_true(has_half() ? difference > 1e-7 : difference <= 1e-6);
	free(y), free(images[0]), free(images[1]);
	tomos_phantom_free(head);
	tomos_geometry_free(c.scan);
}

static void other_data_are_rejected(void **state)
{
	(void)state;
	Case c = size_case(&sizes[0], 0);
	tomos_projector_options o = tomos_projector_defaults();
	tomos_analytic_options a = tomos_analytic_defaults();
	tomos_op *op;
	float *x = calloc((size_t)c.voxels, sizeof *x), *y = calloc((size_t)c.pixels, sizeof *y);
	tomos_array to = case_volume(&c, x), from = case_projections(&c, y);
	o.data = a.data = "hal";
	REJECTED(tomos_op_projector(&op, backend, &c.grid, c.scan, &o), TOMOS_BAD_VALUE,
		"data 'hal' is not known; did you mean 'half'?");
	REJECTED(tomos_fbp(backend, &c.grid, c.scan, &from, &to, &a, NULL), TOMOS_BAD_VALUE,
		"data 'hal' is not known; did you mean 'half'?");
	free(x), free(y);
	tomos_geometry_free(c.scan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(back_projections_agree),
		cmocka_unit_test(many_views_agree),
		cmocka_unit_test(boxes_and_parts_of_views_agree),
		cmocka_unit_test(stacks_across_other_axes_agree),
		cmocka_unit_test(views_come_in_any_order),
		cmocka_unit_test(a_limit_changes_nothing), cmocka_unit_test(any_scale_will_do),
		cmocka_unit_test(nothing_gives_nothing), cmocka_unit_test(pairs_are_nearly_adjoint),
		cmocka_unit_test(images_of_a_head_agree),
		cmocka_unit_test(other_data_are_rejected)};
	if (!has_half())
		print_message("the %s backend has no halves: the option must change nothing\n",
			test_backend());
	int failed = cmocka_run_group_tests(tests, open_backend, close_backend);
	print_message("sums of two halves differ from floats by at most %.2g back, %.2g forward\n",
		worst_split[0], worst_split[1]);
	return failed;
}
