/* Back projections of stacks by kernels chosen automatically or by name, against the reference
 * kernel. Backends without such names ignore them, which is tested too. */
#include "ops/stacks.h"

static int has_names(void)
{
	return strcmp(test_backend(), "cuda") == 0;
}

/* How far from the reference kernel a kernel may be, on random data; coarse ones must differ, or
 * another one ran. */
typedef struct {
	const char *name;
	int kernel;
	PlanData data;
	double least, most;
} Named;

#define EXACT 2e-6

static const Named kernels[] = {
	{"slices_back_l1", KERNEL_voxel, DATA_FLOAT, 0, EXACT},
	{"slices_back_l1", KERNEL_joseph, DATA_FLOAT, 0, EXACT},
	{"slices_back_shared", KERNEL_voxel, DATA_FLOAT, 0, EXACT},
	{"slices_back_shared", KERNEL_joseph, DATA_FLOAT, 0, EXACT},
	{"slices_back_shared_32", KERNEL_voxel, DATA_FLOAT, 0, EXACT},
	{"slices_back_shared_32", KERNEL_joseph, DATA_FLOAT, 0, EXACT},
	{"slices_back_shared_64", KERNEL_voxel, DATA_FLOAT, 0, EXACT},
	{"slices_back_shared_64", KERNEL_joseph, DATA_FLOAT, 0, EXACT},
	{"slices_back_shared_128", KERNEL_voxel, DATA_FLOAT, 0, EXACT},
	{"slices_back_shared_128", KERNEL_joseph, DATA_FLOAT, 0, EXACT},
	{"slices_back_texture_1", KERNEL_voxel, DATA_FLOAT, 1e-5, 5e-3},
	{"slices_back_texture_2", KERNEL_voxel, DATA_FLOAT, 1e-5, 5e-3},
	{"slices_back_texture_4h", KERNEL_voxel, DATA_HALF, 1e-5, 5e-3},
	{"slices_back_hybrid_1", KERNEL_voxel, DATA_FLOAT, 1e-5, 5e-3},
	{"slices_back_hybrid_2", KERNEL_voxel, DATA_FLOAT, 1e-5, 5e-3},
	{"slices_back_hybrid_3", KERNEL_voxel, DATA_FLOAT, 1e-5, 5e-3},
	{"slices_back_oversampled", KERNEL_voxel, DATA_FLOAT, 1e-3, 0.2},
};

static int kernel_count(void)
{
	return has_names() ? (int)(sizeof kernels / sizeof kernels[0]) : 1;
}

/* 1 if it was that kernel which ran. */
static int check_part(const Named *k, const Case *c, const Box *box, int64_t first, int64_t count)
{
	int64_t n = 1;
	Case random = *c;
	float *y = case_data(&random, c->pixels);
	for (int a = 0; a < 3; a++)
		n *= box->high[a] - box->low[a];
	float *exact = back_project(c, k->kernel, DATA_FLOAT, true, box, first, count, y);
	assert_null(backend->last_kernel);
	setenv("TOMOS_KERNEL", k->name, 1);
	float *named = back_project(c, k->kernel, k->data, false, box, first, count, y);
	unsetenv("TOMOS_KERNEL");
	int ran = backend->last_kernel && strcmp(backend->last_kernel, k->name) == 0;
	double difference = case_difference(named, exact, n);
	int seen = case_dot(exact, exact, n) > 0;
	double most = ran ? k->most : k->data == DATA_HALF ? 1e-3 : EXACT;
	double least = ran && seen ? k->least : 0;
	if (!(difference >= least && difference <= most))
		fail_msg("%s, %s: differs by %g, which is not within %g .. %g", k->name, c->name,
			difference, least, most);
	free(y), free(exact), free(named);
	return ran;
}

static void back_projections_agree(void **state)
{
	(void)state;
	for (int k = 0; k < kernel_count(); k++) {
		int ran = 0;
		for (int i = 0; i < SIZES; i++) {
			Case c = size_case(&sizes[i], i);
			Box whole = {.high = {c.grid.n[0], c.grid.n[1], c.grid.n[2]}};
			ran += check_part(&kernels[k], &c, &whole, 0, sizes[i].views);
			tomos_geometry_free(c.scan);
		}
		assert_true(has_names() ? ran > 0 : ran == 0);
	}
}

static void boxes_and_parts_of_views_agree(void **state)
{
	(void)state;
	const Box boxes[] = {
		{{0, 0, 1}, {43, 39, 98}}, {{7, 3, 0}, {40, 38, 70}}, {{42, 38, 0}, {43, 39, 100}}};
	Case c = size_case(&sizes[5], 5);
	for (int k = 0; k < kernel_count(); k++)
		for (int i = 0; i < 3; i++) {
			int ran = check_part(&kernels[k], &c, &boxes[i], 0, 21);
			ran += check_part(&kernels[k], &c, &boxes[i], 4, 9);
			ran += check_part(&kernels[k], &c, &boxes[i], 20, 1);
			assert_int_equal(ran, has_names() ? 3 : 0);
		}
	tomos_geometry_free(c.scan);
}

static void stacks_across_other_axes_agree(void **state)
{
	(void)state;
	for (int k = 0; k < kernel_count(); k++)
		for (int axis = 0; axis < 2; axis++) {
			Case c = size_case(&sizes[5], 5);
			case_turn(&c, axis);
			Box whole = {.high = {c.grid.n[0], c.grid.n[1], c.grid.n[2]}};
			int ran = check_part(&kernels[k], &c, &whole, 0, sizes[5].views);
			assert_int_equal(ran, has_names() ? 1 : 0);
			tomos_geometry_free(c.scan);
		}
}

static void a_limit_changes_nothing(void **state)
{
	(void)state;
	Case c = size_case(&sizes[5], 5);
	Box whole = {.high = {c.grid.n[0], c.grid.n[1], c.grid.n[2]}};
	for (int k = 0; k < kernel_count(); k++)
		for (int64_t most = 3; most < 100; most *= 4) {
			limit_slices(&c, most);
			int ran = check_part(&kernels[k], &c, &whole, 0, sizes[5].views);
			assert_int_equal(ran, has_names() ? 1 : 0);
		}
	limit_slices(&c, -1);
	tomos_geometry_free(c.scan);
}

/* What a kernel takes of a fresh GPU's memory, besides the volume and the views. */
static int64_t taken_by(const Named *k, const Case *c)
{
	Box whole = {.high = {c->grid.n[0], c->grid.n[1], c->grid.n[2]}};
	float *y = calloc((size_t)c->pixels, sizeof *y);
	setenv("TOMOS_KERNEL", k->name, 1);
	free(back_project(c, k->kernel, k->data, false, &whole, 0, 16, y));
	unsetenv("TOMOS_KERNEL");
	assert_string_equal(backend->last_kernel, k->name);
	free(y);
	return backend->type->memory->counts(backend).bytes -
	       (c->voxels + c->pixels) * (int64_t)sizeof *y;
}

/* A fifth of the limit is for filters, and may serve for lines that are made longer than they
 * are. */
static void a_limit_is_kept(void **state)
{
	(void)state;
	const Size size = {{128, 128, 128}, 128, 16, 1, 0};
	tomos_backend *shared = backend;
	if (!has_names())
		return;
	Case c = size_case(&size, 20);
	int64_t most = (c.voxels + c.pixels) / 8 * 5 / 4 * (int64_t)sizeof(float);
	for (int k = 0; k < kernel_count(); k++) {
		OK(tomos_backend_open(&backend, test_backend()));
		limit_slices(&c, 16);
		int64_t taken = taken_by(&kernels[k], &c);
		if (taken > most)
			fail_msg("%s took %lld bytes of %lld", kernels[k].name, (long long)taken,
				(long long)most);
		tomos_backend_close(backend);
	}
	backend = shared;
	tomos_geometry_free(c.scan);
}

/* Without a name, devices take one of those that are good to 1e-6; the CPU has one of its own. */
static void floats_stay_floats(void **state)
{
	(void)state;
	Case c = size_case(&sizes[5], 5);
	Box whole = {.high = {c.grid.n[0], c.grid.n[1], c.grid.n[2]}};
	float *y = case_data(&c, c.pixels);
	free(back_project(&c, KERNEL_voxel, DATA_FLOAT, false, &whole, 0, sizes[5].views, y));
	if (strcmp(test_backend(), "cpu") == 0)
		assert_string_equal(backend->last_kernel, "stack");
	else if (!backend->last_kernel ||
		 strcmp(backend->last_kernel, "slices_back_wgmma_split") != 0)
		assert_string_equal(
			backend->last_kernel, has_names() ? "slices_back_shared" : "slices_shared");
	free(y);
	tomos_geometry_free(c.scan);
}

/* Halves of the data would otherwise be met where they were not requested. */
static void four_halves_need_half_data(void **state)
{
	(void)state;
	Named k = {"slices_back_texture_4h", KERNEL_voxel, DATA_FLOAT, 0, 0};
	Case c = size_case(&sizes[5], 5);
	Box whole = {.high = {c.grid.n[0], c.grid.n[1], c.grid.n[2]}};
	assert_int_equal(check_part(&k, &c, &whole, 0, sizes[5].views), 0);
	tomos_geometry_free(c.scan);
}

static void other_names_are_rejected(void **state)
{
	(void)state;
	Case c = size_case(&sizes[0], 0);
	tomos_projector_options o = tomos_projector_defaults();
	tomos_op *op;
	float *x = calloc((size_t)c.voxels, sizeof *x), *y = calloc((size_t)c.pixels, sizeof *y);
	tomos_array volume = case_volume(&c, x), views = case_projections(&c, y);
	OK(tomos_op_projector(&op, backend, &c.grid, c.scan, &o));
	setenv("TOMOS_KERNEL", "stak", 1);
	if (strcmp(test_backend(), "opencl") == 0)
		OK(tomos_op_adjoint(op, &views, &volume));
	else
		REJECTED(tomos_op_adjoint(op, &views, &volume), TOMOS_BAD_VALUE,
			"TOMOS_KERNEL is 'stak', which is no kernel of this build");
	unsetenv("TOMOS_KERNEL");
	OK(tomos_op_adjoint(op, &views, &volume));
	free(x), free(y);
	tomos_op_free(op);
	tomos_geometry_free(c.scan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(back_projections_agree),
		cmocka_unit_test(boxes_and_parts_of_views_agree),
		cmocka_unit_test(stacks_across_other_axes_agree),
		cmocka_unit_test(a_limit_changes_nothing), cmocka_unit_test(a_limit_is_kept),
		cmocka_unit_test(floats_stay_floats), cmocka_unit_test(four_halves_need_half_data),
		cmocka_unit_test(other_names_are_rejected)};
	if (!has_names())
		print_message("the %s backend has no names for kernels: they must change nothing\n",
			test_backend());
	return cmocka_run_group_tests(tests, open_backend, close_backend);
}
