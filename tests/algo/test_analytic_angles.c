/* Filtered back projection of scans as they come: uneven, double and missing angles, sources and
 * detectors that stand differently in every view, and what is rejected. */
#include "algo/analytic.h" /* first: cmocka makes a macro of fail() */
#include "algo/scene.h"

enum { N = CASE_SLOW ? 64 : 96 };
#define MEAN (CASE_SLOW ? 0.002 : 0.0005) /* as test_analytic, with room for fewer columns */

static void check(const char *name, Scene *s)
{
	double spread, error;
	scene_reconstruct(s, NULL);
	error = scene_error(s, &spread);
	printf("  %-44s mean %+.5f, deviation %.4f\n", name, error, spread);
	if (!(fabs(error) <= MEAN && spread < 3 * MEAN))
		fail_msg("%s: mean off by %g, deviation %g", name, error, spread);
}

/* ---- angles ------------------------------------------------------------------------------- */

typedef struct {
	const char *name, *geometry;
	double arc; /* degrees; its end is a view where `inclusive` */
	int inclusive;
	double uneven; /* steps grow and shrink by this part along the arc */
	int drop;      /* every view of which the number is a multiple, 0: none */
	int shuffled;  /* and moved by whole turns, to negative angles as well */
	int random;    /* angles anywhere on the arc */
} Angles;

static const Angles angles[] = {
	{"parallel 180, both ends", "parallel", 180, 1, 0, 0, 0, 0},
	{"parallel 360, first = last", "parallel", 360, 1, 0, 0, 0, 0},
	{"parallel 180, uneven", "parallel", 180, 0, 0.7, 0, 0, 0},
	{"parallel 360, uneven", "parallel", 360, 0, 0.7, 0, 0, 0},
	{"parallel 180, single views missing", "parallel", 180, 0, 0, 23, 0, 0},
	{"parallel 180, shuffled, other turns", "parallel", 180, 0, 0, 0, 1, 0},
	{"parallel 270", "parallel", 270, 0, 0, 0, 0, 0},
	{"parallel 180, random", "parallel", 180, 0, 0, 0, 0, 1},
	{"parallel 168, a wedge missing", "parallel", 168, 0, 0, 0, 0, 0},
	{"fan 360, first = last", "fan", 360, 1, 0, 0, 0, 0},
	{"fan 360, uneven, views missing, shuffled", "fan", 360, 0, 0.7, 31, 1, 0},
	{"fan 360, random", "fan", 360, 0, 0, 0, 0, 1},
	{"fan 220, uneven", "fan", 220, 0, 0.5, 0, 0, 0},
	{"fan 220, both ends, shuffled", "fan", 220, 1, 0, 0, 1, 0},
	{"fan 350, single views missing", "fan", 350, 0, 0, 29, 0, 0},
	{"cone 360, first = last", "cone", 360, 1, 0, 0, 0, 0},
	{"cone 220, single views missing, shuffled", "cone", 220, 0, 0, 29, 1, 0},
};

static int64_t make_angles(const Angles *a, int64_t views, double *out)
{
	Case c = {.state = 11};
	int64_t count = 0;
	for (int64_t i = 0; i < views; i++) {
		double x = (double)i / (double)(a->inclusive ? views - 1 : views);
		x += a->uneven * sin(2 * M_PI * x) / (2 * M_PI);
		if (a->random)
			x = case_random(&c);
		if (a->drop && i % a->drop == 5)
			continue;
		out[count++] = a->arc * M_PI / 180 * x - 0.3;
	}
	for (int64_t i = count - 1; a->shuffled && i > 0; i--) {
		int64_t j = case_integer(&c, 0, i);
		double swapped = out[i];
		out[i] = out[j];
		out[j] = swapped + 2 * M_PI * (double)case_integer(&c, -3, 2);
	}
	return count;
}

static void angles_are_weighted(void **state)
{
	(void)state;
	double list[5 * N];
	for (size_t i = 0; i < sizeof angles / sizeof angles[0]; i += CASE_RACES ? 4 : 1) {
		Distances d;
		tomos_scan_options o = scene_scan(angles[i].geometry, N, 0.5, &d);
		o.views = 0;
		o.angles_count = make_angles(&angles[i], (angles[i].random ? 5 : 2) * N, list);
		o.angles = list;
		Scene s = scene_make(&o);
		check(angles[i].name, &s);
		scene_free(&s);
	}
}

/* A view more at an angle that is there already changes nothing, wherever in the list it is. */
static void double_views_change_nothing(void **state)
{
	(void)state;
	double once[N + 1];
	for (int i = 0; i < N; i++)
		once[i] = M_PI * i / N;
	once[N] = once[40] + 2 * M_PI;
	Distances d;
	tomos_scan_options o = scene_scan("parallel", N, 1, &d);
	o.views = 0, o.angles = once, o.angles_count = N;
	Scene a = scene_make(&o);
	o.angles_count = N + 1;
	Scene b = scene_make(&o);
	scene_reconstruct(&a, NULL);
	scene_reconstruct(&b, NULL);
	assert_true(case_difference(b.image.data, a.image.data, N * N) < 1e-5);
	scene_free(&a);
	scene_free(&b);
}

/* Three views of half a turn are a third of it each, not a full turn with a gap. */
static void few_views_share_evenly(void **state)
{
	(void)state;
	for (int64_t count = 1; count < 9; count++) {
		tomos_geometry *scan;
		Circle circle;
		double list[8];
		for (int64_t i = 0; i < count; i++)
			list[i] = M_PI * (double)i / (double)count + 0.1 * (double)count;
		OK(tomos_geometry_parallel(&scan, 1, 9, 1, list, count));
		OK(circle_make(&circle, scan));
		for (int64_t i = 0; i < count; i++)
			assert_true(
				fabs(circle_weight(&circle, i, 1) - M_PI / (double)count) < 1e-9);
		circle_free(&circle);
		tomos_geometry_free(scan);
	}
}

static void assert_cover(double arc, double source_axis, double covered, double needed)
{
	double list[60], got, wanted;
	tomos_geometry *scan;
	for (int i = 0; i < 60; i++)
		list[i] = arc * i / 60;
	if (source_axis > 0)
		OK(tomos_geometry_fan(&scan, 9, 1, source_axis, 2 * source_axis, list, 60));
	else
		OK(tomos_geometry_parallel(&scan, 1, 9, 1, list, 60));
	OK(tomos_geometry_cover(scan, &got, &wanted));
	assert_true(fabs(got - covered) < 1e-9 && fabs(wanted - needed) < 1e-9);
	tomos_geometry_free(scan);
}

static void cover_is_told(void **state)
{
	(void)state;
	double covered, needed;
	assert_cover(M_PI, 0, M_PI, M_PI);
	assert_cover(M_PI / 2, 0, M_PI / 2, M_PI);
	assert_cover(2 * M_PI, 0, 2 * M_PI, 2 * M_PI);
	assert_cover(2 * M_PI, 50, 2 * M_PI, 2 * M_PI);
	assert_int_equal(tomos_geometry_cover(NULL, &covered, &needed), TOMOS_BAD_VALUE);
	assert_non_null(strstr(tomos_message(), "the scan is missing"));
}

/* ---- redundant rays ------------------------------------------------------------------------ */

/* The ray of the view at *angle that passes the axis at *s, seen from the other end. */
static void turn_ray(double distance, double *angle, double *s)
{
	double source[2] = {-distance * sin(*angle), distance * cos(*angle)};
	double ray[2] = {*s * cos(*angle) - source[0], *s * sin(*angle) - source[1]};
	double along = -2 * (source[0] * ray[0] + source[1] * ray[1]) /
		       (ray[0] * ray[0] + ray[1] * ray[1]);
	double other[2] = {source[0] + along * ray[0], source[1] + along * ray[1]};
	*angle = atan2(-other[0], other[1]);
	double u[2] = {cos(*angle), sin(*angle)},
	       n[2] = {-other[0] / distance, -other[1] / distance};
	double depth = -(ray[0] * n[0] + ray[1] * n[1]); /* from there it goes the other way */
	*s = -distance * (ray[0] * u[0] + ray[1] * u[1]) / depth;
}

static double weight_at(Circle *circle, double angle, double s)
{
	circle->views[0].angle = angle;
	circle->views[0].share = 1;
	return circle_weight(circle, 0, s);
}

/* Both ends of a line that the scan has twice add up to 1; a line it has once counts 1. */
static void short_scans_count_every_line_once(void **state)
{
	(void)state;
	static const double arcs[] = {215, 230, 290, 340};
	Case c = {.state = 3};
	double worst = 0;
	int64_t twice = 0;
	for (int k = 0; k < 4; k++) {
		Distances d;
		tomos_scan_options o = scene_scan("fan", N, 1, &d);
		o.arc = arcs[k] * M_PI / 180;
		o.start = case_between(&c, -4, 4);
		tomos_geometry *scan;
		Circle circle;
		OK(tomos_geometry_make(&scan, &o));
		OK(circle_make(&circle, scan));
		assert_int_equal(circle.cover, COVER_SHORT);
		for (int i = 0; i < 20000; i++) {
			double angle = circle.start + circle.sweep * case_random(&c);
			double s = case_between(&c, -1, 1) * circle.far_side;
			double sum = weight_at(&circle, angle, s);
			turn_ray(d.source_axis, &angle, &s);
			double beta = fmod(angle - circle.start + 4 * M_PI, 2 * M_PI);
			twice += beta <= circle.sweep;
			if (beta <= circle.sweep)
				sum += weight_at(&circle, angle, s);
			worst = fmax(worst, fabs(sum - 1));
		}
		circle_free(&circle);
		tomos_geometry_free(scan);
	}
	printf("  short scans: |w + w' - 1| <= %.1e, %lld of 80000 lines seen twice\n", worst,
		(long long)twice);
	assert_true(worst < 1e-9 && twice > 1000);
}

static void offset_detectors_count_every_line_once(void **state)
{
	(void)state;
	static const char *const kinds[] = {"parallel", "fan"};
	static const double axes[] = {0, 5, 30.25, N / 2 - 1, N / 2 - 0.5, N / 2 + 9, N - 1};
	Case c = {.state = 4};
	for (int k = 0; k < 2; k++)
		for (int j = 0; j < 7; j++) {
			Distances d;
			tomos_scan_options o = scene_scan(kinds[k], N, 0.7, &d);
			o.arc = 2 * M_PI;
			o.axis = &axes[j], o.axis_count = 1;
			tomos_geometry *scan;
			Circle circle;
			OK(tomos_geometry_make(&scan, &o));
			OK(circle_make(&circle, scan));
			assert_int_equal(circle.cover, COVER_FULL_TURN);
			for (int i = 0; i < 2000; i++) {
				double angle = case_between(&c, 0, 6), s = case_between(&c, -1, 1);
				s *= i % 100 ? circle.far_side : 0;
				double there = weight_at(&circle, angle, s),
				       back = weight_at(&circle, angle, -s);
				assert_true(there >= 0 && there <= 1);
				assert_true(fabs(there + back - 1) < 1e-12);
				if (fabs(s) > circle.near_side && s * circle.far_sign < 0 &&
					circle.far_side - circle.near_side >
						2 * fabs(circle.views[0].spacing))
					assert_true(there == 0); /* where the detector is not */
			}
			circle_free(&circle);
			tomos_geometry_free(scan);
		}
}

/* Half acquisition at its extreme: the axis on the outermost columns. */
static void axis_on_the_edge(void **state)
{
	(void)state;
	static const double axes[] = {0, N - 1, 0.5};
	for (int i = 0; i < 3; i++) {
		Distances d;
		tomos_scan_options o = scene_scan("parallel", N, 1, &d);
		o.arc = 2 * M_PI, o.views = 6 * N;
		o.axis = &axes[i], o.axis_count = 1;
		Scene s = scene_make(&o);
		scene_reconstruct(&s, NULL);
		double spread, error = scene_error(&s, &spread);
		printf("  axis on column %-29g mean %+.5f, deviation %.4f\n", axes[i], error,
			spread);
		assert_true(fabs(error) <= MEAN && spread < 3 * MEAN);
		scene_free(&s);
	}
}

/* ---- sources and detectors ---------------------------------------------------------------- */

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

/* An object wider than the detector: the mean of the middle, with the rows continued by their edges. */
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

/* Where a turned detector does not reach, its edge goes on as that of an upright one does. */
static void turned_detectors_are_padded(void **state)
{
	(void)state;
	double upright = truncated_middle(0), turned = truncated_middle(0.2);
	printf("  truncated, padded by the edge: %.4f of the truth, detector turned %.4f\n",
		upright, turned);
	assert_true(fabs(turned / upright - 1) < 0.03);
}

/* ---- what is rejected ---------------------------------------------------------------------- */

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
	o.axis = &beside;
	o.arc = 2 * M_PI;
	REJECTED(try_options(&o), TOMOS_UNSUPPORTED,
		"the rotation axis falls 13.3333 beside the detector");
	o = scene_scan("parallel", 96, 1, &d);
	o.axis = &beside, o.axis_count = 1;
	for (int turns = 1; turns <= 2; turns++) {
		o.arc = M_PI * turns;
		REJECTED(try_options(&o), TOMOS_UNSUPPORTED,
			"the rotation axis falls 20 beside the detector: the middle is in no view");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(angles_are_weighted),
		cmocka_unit_test(double_views_change_nothing),
		cmocka_unit_test(few_views_share_evenly),
		cmocka_unit_test(cover_is_told),
		cmocka_unit_test(short_scans_count_every_line_once),
		cmocka_unit_test(offset_detectors_count_every_line_once),
		cmocka_unit_test(axis_on_the_edge),
		cmocka_unit_test(setups_are_corrected),
		cmocka_unit_test(turned_detectors_are_padded),
		cmocka_unit_test(other_scans_are_rejected),
		cmocka_unit_test(odd_views_are_rejected),
		cmocka_unit_test(short_and_offset_scans_are_rejected),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
