/* <A x, y> = <x, A' y> and A(a x + z) = a A x + A z, for every projector over every case. */
#include "ops/cases.h"

enum { CASES = 216 };

typedef struct {
	const char *model, *boundary, *interpolation;
	int plain;
} Model;

static const Model models[] = {{"joseph", "expand", "linear", 0}, {"joseph", "expand", "linear", 1},
	{"joseph", "clamp", "linear", 0}, {"line", "expand", "linear", 0},
	{"line-march", "expand", "linear", 0}, {"voxel", "expand", "linear", 0},
	{"voxel", "expand", "linear", 1}, {"voxel", "clamp", "linear", 0},
	{"voxel", "expand", "nearest", 0}, {"voxel", "clamp", "nearest", 0},
	{"footprint", "expand", "linear", 0}};

static double adjoint_error(Case *c, const Model *model, tomos_backend *backend, int *seen)
{
	tomos_projector_options o = tomos_projector_defaults();
	o.forward = model->model;
	o.boundary = model->boundary;
	o.voxel_interpolation = model->interpolation;
	o.plain = model->plain;
	tomos_op *op;
	OK(tomos_op_projector(&op, backend, &c->grid, c->scan, &o));
	assert_true(tomos_op_matched(op));
	float *x = case_data(c, c->voxels), *y = case_data(c, c->pixels);
	float *Ax = case_data(c, c->pixels), *Ay = case_data(c, c->voxels);
	tomos_array ax = case_volume(c, x), ay = case_projections(c, y);
	tomos_array aAx = case_projections(c, Ax), aAy = case_volume(c, Ay);
	OK(tomos_op_forward(op, &ax, &aAx));
	OK(tomos_op_adjoint(op, &ay, &aAy));
	double scale = sqrt(case_dot(Ax, Ax, c->pixels) * case_dot(y, y, c->pixels));
	double error = fabs(case_dot(Ax, y, c->pixels) - case_dot(x, Ay, c->voxels));
	*seen += scale > 0;
	tomos_op_free(op);
	free(x), free(y), free(Ax), free(Ay);
	return scale > 0 ? error / scale : error;
}

static void adjoints(void **state)
{
	(void)state;
	tomos_backend *backend;
	OK(tomos_backend_open(&backend, test_backend()));
	printf("adjoint error |<Ax,y> - <x,A'y>| / (||Ax|| ||y||), %d cases\n", CASES);
	for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
		double worst = 0;
		char where[sizeof((Case *)0)->name] = "";
		int seen = 0;
		for (int i = 0; i < CASES; i++) {
			Case c = case_make(i);
			double error = adjoint_error(&c, &models[m], backend, &seen);
			if (!(error <= (test_repeats() ? 1e-6 : 1e-5)))
				fail_msg("%s %s %s plain %d, %s: %g", models[m].model,
					models[m].boundary, models[m].interpolation,
					models[m].plain, c.name, error);
			if (error > worst)
				memcpy(where, c.name, sizeof where);
			worst = fmax(worst, error);
			tomos_geometry_free(c.scan);
		}
		printf("  %-10s %-6s %-7s %s worst %.1e (%s), %d cases not empty\n",
			models[m].model, models[m].boundary, models[m].interpolation,
			models[m].plain ? "plain" : "tuned", worst, where, seen);
		assert_true(seen > CASES * 3 / 4);
	}
	tomos_backend_close(backend);
}

#define TESTS(T) T(adjoints)
TEST_MAIN(TESTS, NULL, NULL)
