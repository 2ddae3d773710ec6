/* Filtered back projection of scans whose source and detector move from view to view, and scans
 * that are rejected. */
#include "algo/angles_help.h"

/* ---- sources and detectors ------------------------------------------------------------------- */

typedef struct {
	const char *name, *geometry;
	double roll, slant, swivel;                           /* degrees */
	double axis_jitter, distance_jitter, detector_jitter; /* pixels; parts of the distances */
	double arc;
	int mirrored;
} Setup;

static const Setup setups[] = {
	{"parallel, axis moves", "parallel", 0, 0, 0, 3, 0, 0, 180, 0},
	{"parallel 360, axis moves", "parallel", 0, 0, 0, 3, 0, 0, 360, 0},
	{"parallel, rolled", "parallel", 4, 0, 0, 0, 0, 0, 180, 0},
	{"parallel, slanted and swivelled", "parallel", 0, 12, -9, 0, 0, 0, 180, 0},
	{"parallel, all turns", "parallel", -3, 8, 11, 1, 0, 0, 180, 0},
	{"parallel, columns mirrored", "parallel", 0, 0, 0, 0, 0, 0, 360, 1},
	{"fan, axis moves", "fan", 0, 0, 0, 3, 0, 0, 360, 0},
	{"fan, swivelled", "fan", 0, 0, 10, 0, 0, 0, 360, 0},
	{"fan short, columns mirrored", "fan", 0, 0, 0, 0, 0, 0, 230, 1},
	{"cone, axis moves", "cone", 0, 0, 0, 3, 0, 0, 360, 0},
	{"cone, source distance varies by 2 %", "cone", 0, 0, 0, 0, 0.02, 0, 360, 0},
	{"cone, both distances vary", "cone", 0, 0, 0, 2, 0.02, 0.02, 360, 0},
	{"cone short, both distances vary", "cone", 0, 0, 0, 1, 0.01, 0.01, 230, 0},
	{"cone, rolled", "cone", 5, 0, 0, 0, 0, 0, 360, 0},
	{"cone, slanted", "cone", 0, 10, 0, 0, 0, 0, 360, 0},
	{"cone, swivelled", "cone", 0, 0, -10, 0, 0, 0, 360, 0},
	{"cone, all turns, axis moves", "cone", 2, -7, 6, 2, 0, 0, 360, 0},
	{"cone short, all turns", "cone", -2, 5, 8, 0, 0, 0, 230, 0},
	{"cone, columns mirrored", "cone", 0, 0, 0, 0, 0, 0, 360, 1},
};

/* What moves moves smoothly, as on a machine, with a small random part. */
static void jitter(double *list, int64_t views, double middle, double amount, uint64_t seed)
{
	Case c = {.state = seed};
	for (int64_t i = 0; i < views; i++)
		list[i] = middle + amount * (0.8 * sin(6 * M_PI * (double)i / (double)views) +
						    0.2 * case_between(&c, -1, 1));
}

static Scene setup_make(const Setup *k, const Distances *d, tomos_scan_options o)
{
	static double axis[2 * N], source[2 * N], detector[2 * N];
	jitter(axis, o.views, 0.5 * (N - 1), k->axis_jitter, 1);
	jitter(source, o.views, d->source_axis, k->distance_jitter * d->source_axis, 2);
	jitter(detector, o.views, d->source_detector, k->detector_jitter * d->source_detector, 3);
	o.axis = axis, o.axis_count = o.views;
	if (o.source_axis) {
		o.source_axis = source, o.source_axis_count = o.views;
		o.source_detector = detector, o.source_detector_count = o.views;
	}
	o.roll = k->roll * M_PI / 180;
	o.slant = k->slant * M_PI / 180;
	o.swivel = k->swivel * M_PI / 180;
	return scene_make(&o);
}

static void mirror_columns(Scene *s)
{
	int64_t count = tomos_geometry_count(s->scan), rows = tomos_geometry_rows(s->scan);
	tomos_view *views = malloc((size_t)count * sizeof *views);
	memcpy(views, tomos_geometry_list(s->scan), (size_t)count * sizeof *views);
	for (int64_t i = 0; i < count; i++)
		for (int a = 0; a < 3; a++)
			views[i].u[a] = -views[i].u[a];
	tomos_geometry_free(s->scan);
	OK(tomos_geometry_views(&s->scan, rows, N, views, count));
	free(views);
	for (int64_t i = 0; i < count * rows; i++)
		for (int64_t c = 0; c < N / 2; c++) {
			float *row = s->data.data + i * N, left = row[c];
			row[c] = row[N - 1 - c];
			row[N - 1 - c] = left;
		}
}

/* The same object from the scan that nothing moved in. */
static void setups_are_corrected(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof setups / sizeof setups[0]; i += CASE_RACES ? 4 : 1) {
		const Setup *k = &setups[i];
		Distances d;
		tomos_scan_options o = scene_scan(k->geometry, N, 0.5, &d);
		o.arc = k->arc * M_PI / 180;
		o.rows = strcmp(k->geometry, "fan") == 0 ? 1 : N / 2;
		Scene plain = scene_make(&o), s = setup_make(k, &d, o);
		if (k->mirrored)
			mirror_columns(&s);
		scene_reconstruct(&plain, NULL);
		check(k->name, &s);
		double difference = case_difference(s.image.data, plain.image.data, N * N);
		printf("  %-44s differs by %.4f from the aligned\n", "", difference);
		assert_true(difference < (k->mirrored ? 1e-5 : CASE_SLOW ? 0.06 : 0.04));
		scene_free(&plain);
		scene_free(&s);
	}
}

/* An object wider than the detector: the mean of the middle, with the rows continued by their
 * edges. */
static double truncated_middle(double swivel)
{
	Distances d;
	tomos_scan_options o = scene_scan("fan", N, 1, &d);
	o.swivel = swivel;
	Scene s = scene_make(&o);
	tomos_ellipsoid wide = {.axes = {1.2 * scene_reach(&o), 1.2 * scene_reach(&o), INFINITY},
		.value = s.body.value};
	tomos_phantom *phantom;
	OK(tomos_phantom_ellipsoids(&phantom, &wide, 1));
	OK(tomos_phantom_project(phantom, s.scan, 1, &s.data));
	tomos_phantom_free(phantom);
	tomos_analytic_options how = tomos_analytic_defaults();
	how.padding = "edge";
	scene_reconstruct(&s, &how);
	double spread, error = scene_error(&s, &spread);
	scene_free(&s);
	return 1 + error;
}

/* Where a rotated detector does not reach, its edge goes on as that of an upright one does. */
static void turned_detectors_are_padded(void **state)
{
	(void)state;
	double upright = truncated_middle(0), rotated = truncated_middle(0.2);
	printf("  truncated, padded by the edge: %.4f of the truth, detector rotated %.4f\n",
		upright, rotated);
	assert_true(fabs(rotated / upright - 1) < 0.03);
}

/* ---- what is rejected ------------------------------------------------------------------------ */

static tomos_status try_scan(const tomos_geometry *scan)
{
	tomos_backend *backend;
	tomos_grid grid;
	OK(tomos_backend_open(&backend, test_backend()));
	OK(tomos_grid_centred(&grid, 4, 4, 1, 1));
	int64_t count = tomos_geometry_count(scan), rows = tomos_geometry_rows(scan);
	int64_t columns = tomos_geometry_columns(scan);
	float *b = calloc((size_t)(count * rows * columns), sizeof *b), x[16];
	tomos_array data = tomos_array_of(b, count, rows, columns),
		    image = tomos_array_of(x, 1, 4, 4);
	int64_t live = mem_live();
	tomos_status status = tomos_fbp(backend, &grid, scan, &data, &image, NULL, NULL);
	assert_int_equal(mem_live(), live);
	free(b);
	tomos_backend_close(backend);
	return status;
}

static tomos_status try_options(const tomos_scan_options *o)
{
	tomos_geometry *scan;
	OK(tomos_geometry_make(&scan, o));
	tomos_status status = try_scan(scan);
	tomos_geometry_free(scan);
	return status;
}

static const char algebraic[] = "use an algebraic method, for instance sirt";

static void other_scans_are_rejected(void **state)
{
	(void)state;
	Distances d;
	tomos_scan_options o = scene_scan("helix", 16, 1, &d);
	o.rows = 4, o.pitch = 3;
	REJECTED(try_options(&o), TOMOS_UNSUPPORTED,
		"view 1 has its source at another height: filtered back projection and fdk need a "
		"circle about the z axis");
	REJECTED(try_options(&o), TOMOS_UNSUPPORTED, algebraic);
	o = scene_scan("parallel", 16, 1, &d);
	o.geometry = "laminography", o.tilt = 0.5;
	REJECTED(try_options(&o), TOMOS_UNSUPPORTED, "view 0 has rays that leave the plane");
	o = scene_scan("parallel", 16, 1, &d);
	o.geometry = "lebedev", o.views = 7;
	REJECTED(try_options(&o), TOMOS_UNSUPPORTED, "has rays that leave the plane");
	REJECTED(try_options(&o), TOMOS_UNSUPPORTED, algebraic);
}

static void odd_views_are_rejected(void **state)
{
	(void)state;
	tomos_view views[3] = {{{0, 50, 0, 1}, {0, -50, 0}, {1, 0, 0}, {0, 0, 1}},
		{{0, -1, 0, 0}, {0, -50, 0}, {1, 0, 0}, {0, 0, 1}}};
	tomos_geometry *scan;
	OK(tomos_geometry_views(&scan, 1, 9, views, 2));
	REJECTED(try_scan(scan), TOMOS_UNSUPPORTED,
		"view 1 mixes parallel rays with a point source");
	tomos_geometry_free(scan);
	views[1] = (tomos_view){{0, 0, 0, 1}, {0, -50, 0}, {1, 0, 0}, {0, 0, 1}};
	OK(tomos_geometry_views(&scan, 1, 9, views, 2));
	REJECTED(try_scan(scan), TOMOS_UNSUPPORTED, "view 1 has its source on the axis");
	tomos_geometry_free(scan);
	views[1] = (tomos_view){{0, 50, 0, 1}, {0, 150, 0}, {1, 0, 0}, {0, 0, 1}};
	OK(tomos_geometry_views(&scan, 1, 9, views, 2));
	REJECTED(try_scan(scan), TOMOS_UNSUPPORTED, "view 1 has its detector behind the source");
	tomos_geometry_free(scan);
}

static void short_and_offset_scans_are_rejected(void **state)
{
	(void)state;
	Distances d;
	double off = 30, beside = -20;
	tomos_scan_options o = scene_scan("fan", 96, 1, &d);
	o.arc = M_PI;
	REJECTED(try_options(&o), TOMOS_UNSUPPORTED,
		"the scan covers 179.1 degrees; filtered back projection of this fan needs 192.5 "
		"(180 "
		"and the fan's angle)");
	REJECTED(try_options(&o), TOMOS_UNSUPPORTED, algebraic);
	o.arc = 230 * M_PI / 180;
	o.axis = &off, o.axis_count = 1;
	REJECTED(try_options(&o), TOMOS_UNSUPPORTED,
		"the detector is offset and the scan covers 228.8 "
		"degrees; filtered back projection with an offset detector needs a full turn");
	REJECTED(try_options(&o), TOMOS_UNSUPPORTED, algebraic);
	o.axis = &beside;
	o.arc = 2 * M_PI;
	REJECTED(try_options(&o), TOMOS_UNSUPPORTED,
		"the rotation axis falls 20 columns beside the detector");
	o = scene_scan("parallel", 96, 1, &d);
	o.axis = &beside, o.axis_count = 1;
	for (int turns = 1; turns <= 2; turns++) {
		o.arc = M_PI * turns;
		REJECTED(try_options(&o), TOMOS_UNSUPPORTED,
			"the rotation axis falls 20 columns beside the detector: the middle "
			"is in no view");
	}
}

#define TESTS(T) \
	T(setups_are_corrected), T(turned_detectors_are_padded), T(other_scans_are_rejected), \
		T(odd_views_are_rejected), T(short_and_offset_scans_are_rejected)
TEST_MAIN(TESTS, NULL, NULL)
