/* Projections of voxels with three different edges and steps of either sign in absolute values,
 * against closed form. */
#include "ops/cases.h"

typedef struct {
	const char *geometry;
	int flat;
	double tilt;
} Beam;

static const Beam beams[] = {{"parallel", 1, 0}, {"parallel", 0, 0}, {"fan", 1, 0}, {"cone", 0, 0},
	{"laminography", 0, 0.6}, {"helix", 0, 0}};

static tomos_geometry *make_scan(const Beam *b, int64_t pixels)
{
	tomos_geometry *scan;
	tomos_scan_options o = tomos_scan_defaults();
	double source_axis = 8, source_detector = 12, axis_row = 0.45 * (double)pixels;
	int point = choice_in("fan|cone|helix", b->geometry);
	o.geometry = b->geometry;
	o.columns = pixels;
	o.rows = b->flat ? 1 : pixels;
	o.pixel = 2.6 / (double)pixels * (point ? 1.5 : 1);
	o.pixel_height = 1.15 * o.pixel;
	o.views = 7;
	o.start = 0.13;
	o.tilt = b->tilt;
	o.pitch = strcmp(b->geometry, "helix") == 0 ? 0.3 : 0;
	if (!b->flat)
		o.axis_row = &axis_row, o.axis_row_count = 1;
	if (point) {
		o.source_axis = &source_axis, o.source_axis_count = 1;
		o.source_detector = &source_detector, o.source_detector_count = 1;
	}
	OK(tomos_geometry_make(&scan, &o));
	return scan;
}

/* About 2 wide each way. */
static tomos_grid make_grid(int flat, int turn)
{
	static const double steps[] = {0.031, 0.052, 0.078};
	tomos_grid grid;
	for (int a = 0; a < 3; a++) {
		double step = steps[(a + turn) % 3];
		grid.n[a] = flat && a == 2 ? 1 : (int64_t)(2.1 / step);
		grid.step[a] = (a + turn) % 2 ? -step : step;
		grid.first[a] = -0.5 * (double)(grid.n[a] - 1) * grid.step[a];
	}
	return grid;
}

/* The sum of all pixels, relative to the truth and less 1. */
static double sum_error(const Beam *b, const char *model, int turn)
{
	enum { PIXELS = 67 };
	int flat = b->flat;
	tomos_geometry *scan = make_scan(b, PIXELS);
	tomos_grid grid = make_grid(flat, turn);
	tomos_ellipsoid body = {.centre = {0.12, -0.08, flat ? 0 : 0.05},
		.axes = {0.75, 0.6, flat ? INFINITY : 0.7},
		.euler = {0.4, 0, 0},
		.value = 1.7};
	tomos_backend *backend;
	tomos_phantom *phantom;
	int64_t views = tomos_geometry_count(scan), rows = tomos_geometry_rows(scan);
	int64_t pixels = views * rows * PIXELS, voxels = grid.n[0] * grid.n[1] * grid.n[2];
	float *x = malloc((size_t)voxels * sizeof *x), *y = malloc((size_t)pixels * sizeof *y);
	float *truth = malloc((size_t)pixels * sizeof *truth);
	tomos_array volume = tomos_array_of(x, grid.n[2], grid.n[1], grid.n[0]);
	tomos_array data = tomos_array_of(truth, views, rows, PIXELS);
	OK(tomos_backend_open(&backend, test_backend()));
	OK(tomos_phantom_ellipsoids(&phantom, &body, 1));
	OK(tomos_phantom_volume(phantom, &grid, 4, &volume));
	OK(tomos_phantom_project(
		phantom, scan, choice_in("voxel|footprint", model) ? 4 : 1, &data));
	tomos_projector_options o = tomos_projector_defaults();
	o.forward = model;
	case_forward(backend, &grid, scan, &o, x, y);
	double sum = 0, wanted = 0;
	for (int64_t i = 0; i < pixels; i++)
		sum += y[i], wanted += truth[i];
	tomos_phantom_free(phantom);
	tomos_geometry_free(scan);
	tomos_backend_close(backend);
	free(x), free(y), free(truth);
	return sum / wanted - 1;
}

/* Models of whole voxels keep the mass of what they project; rays sample it. */
static void closed_form(void **state)
{
	(void)state;
	double worst[2] = {0};
	for (size_t b = 0; b < sizeof beams / sizeof beams[0]; b++)
		for (int m = 0; m < CASE_MODELS; m++)
			for (int turn = 0; turn < (CASE_SLOW ? 1 : 3); turn++) {
				int whole = choice_in("voxel|footprint", case_models[m]);
				double error = sum_error(&beams[b], case_models[m], turn);
				worst[whole] = fmax(worst[whole], fabs(error));
				if (!(fabs(error) < (whole ? 0.0015 : 0.006)))
					fail_msg("%s, %s, steps %d: sum off by %g",
						beams[b].geometry, case_models[m], turn, error);
			}
	printf("  sums off by at most %.5f, of rays %.5f\n", worst[1], worst[0]);
}

#define TESTS(T) T(closed_form)
TEST_MAIN(TESTS, NULL, NULL)
