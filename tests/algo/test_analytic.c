/* Filtered back projection and Feldkamp's method: values in absolute units for every kind of scan. */
#include "ops/cases.h"

typedef struct {
	const char *name, *geometry;
	double arc, off_axis; /* degrees; axis this fraction of the width off the middle */
	double limit;
} Scan;

static const Scan scans[] = {
	{"parallel 180", "parallel", 180, 0, 0.005},
	{"parallel 180, axis off", "parallel", 180, 0.04, 0.005},
	{"parallel 360", "parallel", 360, 0, 0.005},
	{"parallel 360, axis off", "parallel", 360, 0.03, 0.005},
	{"parallel half acquisition", "parallel", 360, 0.38, 0.01},
	{"fan full", "fan", 360, 0, 0.005},
	{"fan short", "fan", 220, 0, 0.005},
	{"fan overscan", "fan", 290, 0, 0.005},
	{"fan offset", "fan", 360, 0.3, 0.005},
	{"cone full", "cone", 360, 0, 0.005},
	{"cone short", "cone", 220, 0, 0.005},
	{"cone offset", "cone", 360, 0.3, 0.005}};

/* The object's radius is 0.3 of the width of the field seen on the better side. */
static double mean_error(const Scan *s, int64_t n, double pixel, double *spread)
{
	tomos_backend *backend;
	OK(tomos_backend_open(&backend, "cpu"));
	int parallel = strcmp(s->geometry, "parallel") == 0, cone = strcmp(s->geometry, "cone") == 0;
	double width = pixel * (double)n, source_axis = 3 * width, source_detector = 4.5 * width;
	double axis = 0.5 * (double)(n - 1) - s->off_axis * (double)n;
	tomos_scan_options o = tomos_scan_defaults();
	o.geometry = s->geometry;
	o.columns = n;
	o.rows = cone ? n / 2 : 1;
	o.pixel = pixel;
	o.views = n * 2;
	o.arc = s->arc * M_PI / 180;
	o.axis = &axis, o.axis_count = 1;
	if (!parallel) {
		o.source_axis = &source_axis, o.source_axis_count = 1;
		o.source_detector = &source_detector, o.source_detector_count = 1;
	}
	tomos_geometry *scan;
	OK(tomos_geometry_make(&scan, &o));
	double magnification = parallel ? 1 : 1.5;
	double reach = width / magnification * (0.5 + s->off_axis), radius = 0.7 * reach;
	double truth = 0.02 / pixel;
	tomos_ellipsoid ball = {.centre = {0.1 * radius, -0.06 * radius, 0},
		.axes = {radius, radius, cone ? 0.5 * radius : INFINITY}, .value = truth};
	tomos_phantom *phantom;
	OK(tomos_phantom_ellipsoids(&phantom, &ball, 1));
	tomos_grid grid;
	double voxel = 2.2 * radius / (double)n;
	OK(tomos_grid_centred(&grid, n, n, 1, voxel));
	int64_t views = tomos_geometry_count(scan), rows = tomos_geometry_rows(scan);
	float *b = malloc((size_t)(views * rows * n) * sizeof *b);
	float *x = malloc((size_t)(n * n) * sizeof *x);
	tomos_array ab = tomos_array_of(b, views, rows, n), ax = tomos_array_of(x, 1, n, n);
	OK(tomos_phantom_project(phantom, scan, 2, &ab));
	OK((parallel ? tomos_fbp : tomos_fdk)(backend, &grid, scan, &ab, &ax, NULL, NULL));
	double sum = 0, square = 0;
	int64_t count = 0;
	for (int64_t j = 0; j < n; j++)
		for (int64_t i = 0; i < n; i++) {
			double dx = grid.first[0] + (double)i * grid.step[0] - ball.centre[0];
			double dy = grid.first[1] + (double)j * grid.step[1] - ball.centre[1];
			if (hypot(dx, dy) > 0.85 * radius)
				continue;
			double e = x[j * n + i] / truth - 1;
			sum += e, square += e * e, count++;
		}
	*spread = sqrt(square / (double)count);
	free(b), free(x);
	tomos_phantom_free(phantom);
	tomos_geometry_free(scan);
	tomos_backend_close(backend);
	return sum / (double)count;
}

static void values(void **state)
{
	(void)state;
	static const struct {
		int64_t n;
		double pixel;
	} sizes[] = {{96, 1}, {97, 0.127}, {128, 0.5}};
	printf("mean inside a uniform disc, relative to the truth (and rms deviation)\n");
	for (size_t i = 0; i < sizeof scans / sizeof scans[0]; i++) {
		printf("  %-26s", scans[i].name);
		for (size_t k = 0; k < 3; k++) {
			double spread, error = mean_error(&scans[i], sizes[k].n, sizes[k].pixel, &spread);
			printf("  n %3lld: %+.4f (%.4f)", (long long)sizes[k].n, error, spread);
			if (!(fabs(error) <= scans[i].limit))
				fail_msg("%s, %lld columns of %g: mean off by %g, limit %g",
					scans[i].name, (long long)sizes[k].n, sizes[k].pixel, error,
					scans[i].limit);
			assert_true(spread < 5 * scans[i].limit);
		}
		printf("\n");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(values)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
