/* Detectors that see a few slices of a tall volume in each view: kernels of upright rays, named by
 * TOMOS_KERNEL on every instruction set, beside the reference kernels; and names that are no
 * kernel's. */
#include "backend/backend.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"

typedef struct {
	const char *what, *geometry;
	int64_t n[3], rows, columns, views;
	double pixel, height, tilt, pitch, axis_row;
} Setup;

/* At a source distance of 60 and a magnification of 2, a pixel of 2 is as large as a voxel. */
static const Setup setups[] = {
	{"helix", "helix", {20, 17, 150}, 12, 24, 40, 2, 2, 0, 25, 0},
	{"helix downwards, low pixels", "helix", {17, 20, 90}, 16, 24, 40, 2, 0.7, 0, -12, 0},
	{"one row", "cone", {16, 16, 70}, 1, 20, 9, 2, 2, 0, 0, 0},
	{"above the middle", "cone", {18, 16, 100}, 9, 20, 9, 2, 3, 0, 0, -25},
	{"beside the volume", "cone", {12, 16, 40}, 5, 20, 7, 2, 2, 0, 0, 90},
	{"high pixels", "cone", {12, 16, 64}, 3, 20, 7, 2, 9, 0, 0, 1},
	{"laminography", "laminography", {30, 33, 80}, 11, 36, 9, 1, 1, 0.6, 0, 3},
	{"steep", "laminography", {20, 23, 70}, 11, 26, 9, 1, 1, 1.2, 0, -2},
};

static const struct {
	const char *projector, *kernel;
} kernels[] = {{"voxel", "column"}, {"footprint", "footprint_upright"}, {"joseph", "upright"},
	{"voxel", "patch"}, {"footprint", "footprint_any"}, {"joseph", "ray"}};

static Case setup_case(const Setup *s)
{
	static const double source_axis = 60, source_detector = 120;
	Case c = {.state = 3};
	const double axis_row = 0.5 * (double)(s->rows - 1) + s->axis_row;
	const bool parallel = strcmp(s->geometry, "laminography") == 0;
	tomos_scan_options o = tomos_scan_defaults();
	o.geometry = s->geometry;
	o.rows = s->rows, o.columns = s->columns, o.views = s->views;
	o.pixel = s->pixel, o.pixel_height = s->height;
	o.tilt = s->tilt, o.pitch = fabs(s->pitch);
	o.arc = s->pitch < 0 ? -12 : 12;
	o.axis_row = &axis_row, o.axis_row_count = 1;
	o.source_axis = parallel ? NULL : &source_axis, o.source_axis_count = !parallel;
	o.source_detector = parallel ? NULL : &source_detector, o.source_detector_count = !parallel;
	case_place(&c, &o, s->n);
	return c;
}

/* Whether the kernel ran; where it does not apply, another one does. */
static bool check_kernel(Case *c, tomos_backend *backend, const char *where, int k, bool adjoint)
{
	const int64_t in = adjoint ? c->pixels : c->voxels, out = adjoint ? c->voxels : c->pixels;
	float *from = case_data(c, in), *plain = case_data(c, out), *fast = case_data(c, out);
	tomos_projector_options o = tomos_projector_defaults();
	o.forward = kernels[k].projector;
	setenv("TOMOS_KERNEL", kernels[k].kernel, 1);
	case_apply(backend, &c->grid, c->scan, &o, adjoint, from, fast);
	const bool ran = strcmp(tomos_backend_kernel(backend), kernels[k].kernel) == 0;
	o.plain = 1;
	case_apply(backend, &c->grid, c->scan, &o, adjoint, from, plain);
	unsetenv("TOMOS_KERNEL");
	assert_string_equal(tomos_backend_kernel(backend), "");
	const double error = case_difference(fast, plain, out);
	if (!(error < 2e-6))
		fail_msg("%s, %s %s: off by %g", where, kernels[k].kernel,
			adjoint ? "back" : "forward", error);
	free(from), free(plain), free(fast);
	return ran;
}

static void values_are_those_of_the_reference(void **state)
{
	(void)state;
	for (int l = 0; l < CPU_LEVELS; l++) {
		tomos_backend *backend = open_level("cpu", cpu_levels[l]);
		int ran[6][2] = {{0}};
		for (size_t i = 0; backend && i < sizeof setups / sizeof setups[0]; i++) {
			Case c = setup_case(&setups[i]);
			for (int k = 0; k < 6; k++)
				for (int d = 0; d < 2; d++)
					ran[k][d] += check_kernel(
						&c, backend, setups[i].what, k, d != 0);
			tomos_geometry_free(c.scan);
		}
		for (int k = 0; backend && k < 6; k++)
			assert_true(ran[k][0] >= 3 && ran[k][1] >= 3);
		tomos_backend_close(backend);
	}
}

static void other_names_are_rejected(void **state)
{
	(void)state;
	Case c = setup_case(&setups[0]);
	float *x = case_data(&c, c.voxels), *y = case_data(&c, c.pixels);
	tomos_array volume = case_volume(&c, x), views = case_projections(&c, y);
	tomos_backend *backend;
	tomos_op *op;
	OK(tomos_backend_open(&backend, "cpu"));
	OK(tomos_op_projector(&op, backend, &c.grid, c.scan, NULL));
	setenv("TOMOS_KERNEL", "colum", 1);
	REJECTED(tomos_op_adjoint(op, &views, &volume), TOMOS_BAD_VALUE,
		"TOMOS_KERNEL is 'colum', which is no kernel of this build");
	setenv("TOMOS_KERNEL", "joseph_back_any", 1); /* of another backend */
	OK(tomos_op_adjoint(op, &views, &volume));
	assert_true(tomos_backend_kernel(backend)[0] != 0);
	unsetenv("TOMOS_KERNEL");
	tomos_op_free(op);
	tomos_backend_close(backend);
	tomos_geometry_free(c.scan);
	free(x), free(y);
}

#define TESTS(T) T(values_are_those_of_the_reference), T(other_names_are_rejected)
TEST_MAIN(TESTS, NULL, NULL)
