/* Filtered back projection of scans with uneven, repeated and missing angles, short scans and
 * offset detectors. */
#include "algo/angles_help.h"

/* ---- angles ---------------------------------------------------------------------------------- */

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

/* ---- redundant rays -------------------------------------------------------------------------- */

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

static Circle circle_of_cover(const tomos_scan_options *o, int cover)
{
	tomos_geometry *scan;
	Circle circle;
	OK(tomos_geometry_make(&scan, o));
	OK(circle_make(&circle, scan));
	assert_int_equal(circle.cover, cover);
	tomos_geometry_free(scan);
	return circle;
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
		Circle circle = circle_of_cover(&o, COVER_SHORT);
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
			Circle circle = circle_of_cover(&o, COVER_FULL_TURN);
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

#define TESTS(T) \
	T(angles_are_weighted), T(double_views_change_nothing), T(few_views_share_evenly), \
		T(cover_is_told), T(short_scans_count_every_line_once), \
		T(offset_detectors_count_every_line_once), T(axis_on_the_edge)
TEST_MAIN(TESTS, NULL, NULL)
