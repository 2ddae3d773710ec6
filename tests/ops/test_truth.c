/* Forward projections against closed form: the error falls with the voxel size as theory says.
 *
 * The scan stays, the voxels shrink. The objects have edges, so the volume is the voxels' averages
 * and what is left is how a model reads the voxels that an edge cuts:
 *
 * line, joseph (a ray's integral): a ray enters and leaves an object through O(1) cut voxels, each
 * of which it misreads by O(h), with a sign that depends on where in the voxel it passes; nothing
 * averages this away. Rays within h of a tangent run along sqrt(h) of edge and err by sqrt(h), but
 * are only a share h of all, which adds h sqrt(h)^2 to the square. So the L2 error is of order 1.
 *
 * voxel (each centre counts by the hat of its pixel; compared with the average of the rays under
 * that hat): the midpoint rule for a continuous, piecewise linear weight. It errs where the hat has
 * its kinks, by h^2 in all, and in cut voxels by the distance from centre to centroid, O(h) times
 * the hat's slope times O(h) of mass: order 2. With the nearest pixel the weight jumps (compared
 * with the average over the pixel), and voxels on the pixel's border count wholly or not at all: h
 * each, 1/h of them with signs as if by chance: order 1.5, and 1 where the border runs along the
 * lattice.
 *
 * footprint (the average over the pixel): voxels wholly over a pixel give all they have, so only
 * those count that both the pixel's border and the object's edge cut, O(1) of them with O(h^2) of
 * mass: order 2. In 3D the projection of a voxel is taken to be a product, which for oblique
 * views errs at the pixel's border, with signs that cancel; the order stays above 1.5.
 */
#include "ops/cases.h"

enum { TRUTH_RAY, TRUTH_HAT, TRUTH_PIXEL, TRUTHS };
enum { PIXELS = 23, MOST_SIZES = 4 };
#define HALF_WIDTH 1.15

typedef struct {
	const char *name;
	int flat;
	int64_t views;
	double tilt, magnification;
} Setting;

static const Setting settings[] = {{"parallel", 1, 9, 0, 1}, {"fan", 1, 9, 0, 1.5},
	{"cone", 0, 5, 0, 1.5}, {"laminography", 0, 5, 0.6, 1}, {"lebedev", 0, 7, 0, 1}};

enum { SETTINGS = sizeof settings / sizeof settings[0] };

typedef struct {
	const char *name, *interpolation;
	int truth;
	double low, high;   /* order in any one study, in which chance plays a part */
	double least, most; /* order on average */
} Model;

static const Model models[] = {
	{"joseph", "linear", TRUTH_RAY, 0.75, 1.25, 0.9, 1.1},
	{"line", "linear", TRUTH_RAY, 0.75, 1.25, 0.9, 1.1},
	{"line-march", "linear", TRUTH_RAY, 0.75, 1.25, 0.9, 1.1},
	{"voxel", "linear", TRUTH_HAT, 1.1, 3.2, 1.8, 2.3},
	{"voxel", "nearest", TRUTH_PIXEL, 0.8, 2.2, 1.3, 1.7},
	{"footprint", "linear", TRUTH_PIXEL, 1.5, 2.1, 1.6, 2.1},
};
enum { MODELS = sizeof models / sizeof models[0] };

static tomos_geometry *make_scan(const Setting *s)
{
	tomos_geometry *scan;
	tomos_scan_options o = tomos_scan_defaults();
	double source_axis = 6, source_detector = 6 * s->magnification, axis = 0.5 * PIXELS - 0.2;
	double axis_row = 0.5 * PIXELS - 0.37; /* off the faces of voxels */
	o.geometry = s->name;
	o.columns = PIXELS;
	o.rows = s->flat ? 1 : PIXELS;
	o.pixel = 2 * HALF_WIDTH / PIXELS * s->magnification;
	o.views = s->views;
	o.tilt = s->tilt;
	o.axis = &axis, o.axis_count = 1;
	if (!s->flat)
		o.axis_row = &axis_row, o.axis_row_count = 1;
	if (strcmp(s->name, "lebedev") != 0)
		o.start = 0.07;
	if (s->magnification != 1) {
		o.source_axis = &source_axis, o.source_axis_count = 1;
		o.source_detector = &source_detector, o.source_detector_count = 1;
	}
	OK(tomos_geometry_make(&scan, &o));
	return scan;
}

/* In one slice the objects are cylinders, so that they are the same at any thickness. */
static tomos_phantom *make_phantom(const char *name, int flat)
{
	tomos_phantom *phantom, *solid;
	tomos_phantom_options o = tomos_phantom_defaults();
	int64_t count;
	if (strcmp(name, "random") == 0)
		o.count = 6, o.seed = 5;
	OK(tomos_phantom_named(&solid, name, &o));
	const tomos_ellipsoid *list = tomos_phantom_list(solid, &count);
	tomos_ellipsoid *own = malloc((size_t)count * sizeof *own);
	for (int64_t i = 0; i < count; i++) {
		own[i] = list[i];
		if (strcmp(name, "ball") == 0) /* off the symmetry of grid and scan */
			own[i] = (tomos_ellipsoid){
				{0.043, -0.031, 0.057}, {0.9, 0.9, 0.9}, {0, 0, 0}, 1};
		if (flat) {
			own[i].axes[2] = INFINITY;
			own[i].euler[1] = own[i].euler[2] = 0;
		}
	}
	OK(tomos_phantom_ellipsoids(&phantom, own, count));
	tomos_phantom_free(solid);
	free(own);
	return phantom;
}

/* The same detector with pixels cut `cuts` times each way (rows of a flat scan are not), and one
 * pixel wider on every side. */
static tomos_geometry *cut_scan(const tomos_geometry *scan, int64_t cuts, int flat)
{
	tomos_geometry *fine;
	int64_t count = tomos_geometry_count(scan);
	tomos_view *views = malloc((size_t)count * sizeof *views);
	memcpy(views, tomos_geometry_list(scan), (size_t)count * sizeof *views);
	for (int64_t i = 0; i < count; i++)
		for (int a = 0; a < 3; a++) {
			views[i].u[a] /= (double)cuts;
			views[i].v[a] /= flat ? 1 : (double)cuts;
		}
	int64_t wide = (PIXELS + 2) * cuts;
	OK(tomos_geometry_views(&fine, flat ? 1 : wide, wide, views, count));
	free(views);
	return fine;
}

static double hat(int64_t pixel, int64_t fine, int64_t cuts)
{
	double where = ((double)fine + 0.5) / (double)cuts - 1.5;
	return fmax(0, 1 - fabs(where - (double)pixel)) / (double)cuts;
}

/* Averages along the last axis: `from` has `rows` lines of fine pixels, `to` lines of pixels. */
static void average_lines(const float *from, float *to, int64_t rows, int64_t stride, int64_t cuts,
	int64_t from_line, int64_t to_line)
{
	for (int64_t r = 0; r < rows; r++)
		for (int64_t c = 0; c < PIXELS; c++) {
			double sum = 0;
			for (int64_t f = c * cuts; f < (c + 3) * cuts; f++)
				sum += hat(c, f, cuts) * from[r * from_line + f * stride];
			to[r * to_line + c * stride] = (float)sum;
		}
}

/* Under the hat of linear interpolation, from closed form on a finer detector. */
static float *truth_under_hat(
	const tomos_phantom *phantom, const tomos_geometry *scan, int64_t cuts, int flat)
{
	tomos_geometry *fine = cut_scan(scan, cuts, flat);
	int64_t views = tomos_geometry_count(scan), wide = (PIXELS + 2) * cuts;
	int64_t rows = flat ? 1 : wide, out_rows = flat ? 1 : PIXELS;
	float *data = malloc((size_t)(views * rows * wide) * sizeof *data);
	float *half = malloc((size_t)(rows * PIXELS) * sizeof *half);
	float *truth = malloc((size_t)(views * out_rows * PIXELS) * sizeof *truth);
	tomos_array array = tomos_array_of(data, views, rows, wide);
	OK(tomos_phantom_project(phantom, fine, 1, &array));
	for (int64_t v = 0; v < views; v++) {
		float *out = truth + v * out_rows * PIXELS;
		average_lines(data + v * rows * wide, half, rows, 1, cuts, wide, PIXELS);
		if (flat)
			memcpy(out, half, PIXELS * sizeof *out);
		else
			average_lines(half, out, PIXELS, PIXELS, cuts, 1, 1);
	}
	free(data), free(half);
	tomos_geometry_free(fine);
	return truth;
}

static float *truth_of(const tomos_phantom *phantom, const tomos_geometry *scan, int64_t samples)
{
	int64_t shape[3] = {tomos_geometry_count(scan), tomos_geometry_rows(scan),
		tomos_geometry_columns(scan)};
	float *truth = malloc((size_t)(shape[0] * shape[1] * shape[2]) * sizeof *truth);
	tomos_array array = tomos_array_of(truth, shape[0], shape[1], shape[2]);
	OK(tomos_phantom_project(phantom, scan, samples, &array));
	return truth;
}

typedef struct {
	const Setting *setting;
	tomos_backend *backend;
	tomos_geometry *scan;
	tomos_phantom *phantom;
	float *truth[TRUTHS];
	int64_t pixels;
	int sizes;
	double error[MODELS][MOST_SIZES]; /* against the model's own truth */
	double area[MODELS];              /* pixels twice the voxel, against the pixel's average */
} Study;

static void project_size(Study *s, int size)
{
	int flat = s->setting->flat;
	int64_t n = (int64_t)PIXELS << size, nz = flat ? 1 : n;
	tomos_grid grid;
	OK(tomos_grid_centred(&grid, n, n, nz, 2 * HALF_WIDTH / (double)n));
	float *volume = malloc((size_t)(n * n * nz) * sizeof *volume);
	float *result = malloc((size_t)s->pixels * sizeof *result);
	tomos_array array = tomos_array_of(volume, nz, n, n);
	OK(tomos_phantom_volume(s->phantom, &grid, flat ? 16 : 7, &array));
	for (int m = 0; m < MODELS; m++) {
		tomos_projector_options o = tomos_projector_defaults();
		o.forward = models[m].name;
		o.voxel_interpolation = models[m].interpolation;
		case_fit(&o);
		case_forward(s->backend, &grid, s->scan, &o, volume, result);
		s->error[m][size] = case_difference(result, s->truth[models[m].truth], s->pixels);
		if (size == 1)
			s->area[m] = case_difference(result, s->truth[TRUTH_PIXEL], s->pixels);
	}
	free(volume), free(result);
}

static double study_order(const Study *s, int model)
{
	const double *error = s->error[model];
	return log2(error[0] / error[s->sizes - 1]) / (s->sizes - 1);
}

static void print_study(const Study *s, const char *phantom)
{
	printf("%s of %s\n  %-18s", s->setting->name, phantom, "voxels");
	for (int i = 0; i < s->sizes; i++)
		printf("%10d", PIXELS << i);
	printf("   order   pixel = 2 voxels, averaged\n");
	for (int m = 0; m < MODELS; m++) {
		printf("  %-10s %-7s", models[m].name, models[m].interpolation);
		for (int i = 0; i < s->sizes; i++)
			printf("  %.2e", s->error[m][i]);
		printf("  %6.2f   %.2e\n", study_order(s, m), s->area[m]);
	}
}

/* A single halving of the voxel size does not determine the order, but the error must fall. */
static void check_study(const Study *s)
{
	for (int m = 0; m < MODELS; m++) {
		double order = study_order(s, m);
		if (!(s->sizes == 2 ? order > 0.5
				    : order >= models[m].low && order <= models[m].high))
			fail_msg("%s %s of %s: order %.2f, not %.2f to %.2f", models[m].name,
				models[m].interpolation, s->setting->name, order, models[m].low,
				models[m].high);
		if (m < MODELS - 1 && !(s->area[MODELS - 1] < s->area[m]))
			fail_msg("%s %s: %g, footprint %g", models[m].name, s->setting->name,
				s->area[m], s->area[MODELS - 1]);
	}
}

static void study(
	const Setting *setting, const char *name, tomos_backend *backend, double orders[MODELS])
{
	int flat = setting->flat;
	Study s = {.setting = setting, .backend = backend};
	s.sizes = case_slow() ? (flat ? 3 : 2) : flat ? 4 : 3;
	s.scan = make_scan(setting);
	s.phantom = make_phantom(name, flat);
	s.pixels = tomos_geometry_count(s.scan) * tomos_geometry_rows(s.scan) * PIXELS;
	s.truth[TRUTH_RAY] = truth_of(s.phantom, s.scan, 1);
	s.truth[TRUTH_PIXEL] = truth_of(s.phantom, s.scan, flat ? 24 : 8);
	s.truth[TRUTH_HAT] = truth_under_hat(s.phantom, s.scan, flat ? 32 : 12, flat);
	for (int i = 0; i < s.sizes; i++)
		project_size(&s, i);
	print_study(&s, name);
	check_study(&s);
	for (int m = 0; m < MODELS; m++)
		orders[m] += study_order(&s, m) / (2 * SETTINGS);
	for (int i = 0; i < TRUTHS; i++)
		free(s.truth[i]);
	tomos_geometry_free(s.scan);
	tomos_phantom_free(s.phantom);
}

static void orders_of_theory(void **state)
{
	(void)state;
	tomos_backend *backend;
	double orders[MODELS] = {0};
	OK(tomos_backend_open(&backend, test_backend()));
	printf("relative L2 error of forward projections against closed form\n");
	for (int i = 0; i < SETTINGS; i++) {
		study(&settings[i], "ball", backend, orders);
		study(&settings[i], "random", backend, orders);
	}
	tomos_backend_close(backend);
	printf("orders on average\n");
	for (int m = 0; m < MODELS; m++) {
		printf("  %-10s %-7s  %.2f\n", models[m].name, models[m].interpolation, orders[m]);
		if (!case_slow() && !(orders[m] >= models[m].least && orders[m] <= models[m].most))
			fail_msg("%s %s: order %.2f, not %.1f to %.1f", models[m].name,
				models[m].interpolation, orders[m], models[m].least,
				models[m].most);
	}
}

#define TESTS(T) T(orders_of_theory)
TEST_MAIN(TESTS, NULL, NULL)
