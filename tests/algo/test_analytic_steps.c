/* The steps of filtered back projection by hand: what each view and each ray counts for, on both
 * sides of every limit, and the values of single voxels from one view. */
#include "algo/analytic.h" /* first: cmocka makes a macro of fail() */
#include "ops/cases.h"

#define DEGREE (M_PI / 180)

/* ---- shares of the circle -------------------------------------------------------------------- */

/* Views about `step` degrees apart, but for one gap; the last one lies before it. */
static Circle with_gap(double source_axis, double arc, double step, double gap)
{
	double list[400];
	int64_t count = 1 + lround((arc - gap) / step);
	tomos_geometry *scan;
	Circle circle;
	for (int64_t i = 0; i < count; i++)
		list[i] = (arc - gap) * (double)i / (double)(count - 1) * DEGREE;
	if (source_axis > 0)
		OK(tomos_geometry_fan(&scan, 9, 1, source_axis, 2 * source_axis, list, count));
	else
		OK(tomos_geometry_parallel(&scan, 1, 9, 1, list, count));
	OK(circle_make(&circle, scan));
	tomos_geometry_free(scan);
	return circle;
}

/* The share of the first view, less that of one in the middle, in degrees. */
static double more_share(double source_axis, double arc, double step, double gap, Cover cover)
{
	Circle circle = with_gap(source_axis, arc, step, gap);
	double more = (circle.views[0].share - circle.views[9].share) / DEGREE;
	assert_int_equal(circle.cover, cover);
	circle_free(&circle);
	return more;
}

static void assert_near(double value, double wanted)
{
	if (!(fabs(value - wanted) < 1e-7 * fmax(1, fabs(wanted))))
		fail_msg("%.9g, not %.9g", value, wanted);
}

/* Views stand for half of what lies on either side, but for a hole of 15 degrees and eight
 * steps. */
static void gaps_are_shared_out(void **state)
{
	(void)state;
	assert_near(more_share(0, 180, 1, 14.9, COVER_HALF_TURN), 0.5 * (14.9 - 165.1 / 165));
	assert_near(more_share(0, 180, 1, 15.1, COVER_HALF_TURN), 0);
	assert_near(more_share(0, 180, 3, 23.5, COVER_HALF_TURN), 0.5 * (23.5 - 156.5 / 52));
	assert_near(more_share(0, 180, 3, 24.5, COVER_HALF_TURN), 0);
	assert_near(more_share(50, 360, 1, 14, COVER_SHORT), 6.5);
	assert_near(more_share(50, 360, 1, 20, COVER_SHORT), 0);
}

/* A turn is whole with a gap of five degrees or four steps. */
static void turns_are_whole(void **state)
{
	(void)state;
	assert_near(more_share(0, 360, 1, 4.9, COVER_FULL_TURN), 0.5 * (4.9 - 355.1 / 355));
	assert_near(more_share(50, 360, 1, 4.9, COVER_FULL_TURN), 0.5 * (4.9 - 355.1 / 355));
	more_share(0, 360, 1, 5.1, COVER_HALF_TURN);
	more_share(50, 360, 1, 5.1, COVER_SHORT);
	more_share(50, 360, 2, 7.9, COVER_FULL_TURN);
	more_share(50, 360, 2, 8.1, COVER_SHORT);
	more_share(0, 180, 1, 1, COVER_HALF_TURN);
}

/* What is covered and what is needed of it. */
static void cover_of_a_wedge(void **state)
{
	(void)state;
	tomos_geometry *scan;
	double list[90], covered, needed;
	for (int i = 0; i < 90; i++)
		list[i] = i * DEGREE;
	OK(tomos_geometry_parallel(&scan, 1, 9, 1, list, 90));
	OK(tomos_geometry_cover(scan, &covered, &needed));
	assert_near(covered, 90 * DEGREE);
	assert_near(needed, M_PI);
	tomos_geometry_free(scan);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static tomos_status try_circle(
	const char *geometry, double degrees, int64_t views, double axis, Circle *circle)
{
	tomos_scan_options o = tomos_scan_defaults();
	double near = 100, far = 150;
	tomos_geometry *scan;
	o.geometry = geometry;
	o.columns = 41, o.views = views;
	o.arc = degrees * DEGREE;
	o.axis = &axis, o.axis_count = 1;
	if (strcmp(geometry, "fan") == 0) {
		o.source_axis = &near, o.source_axis_count = 1;
		o.source_detector = &far, o.source_detector_count = 1;
	}
	OK(tomos_geometry_make(&scan, &o));
	tomos_status status = circle_make(circle, scan);
	tomos_geometry_free(scan);
	return status;
}

/* The fan of 41 columns of 1 at 150 opens 2 atan(20 / 150) = 15.19 degrees, from the middle of the
 * first pixel to that of the last; two steps less than 180 and that are allowed for. */
static void short_scans_are_long_enough(void **state)
{
	(void)state;
	Circle c;
	OK(try_circle("fan", 194.5, 195, 20, &c)); /* a sweep of 193.5, and 2 more */
	circle_free(&c);
	REJECTED(try_circle("fan", 194, 194, 20, &c), TOMOS_UNSUPPORTED,
		"the scan covers 193.0 degrees; filtered back projection of this fan needs 195.2");
	REJECTED(try_circle("fan", 230, 230, 13, &c), TOMOS_UNSUPPORTED,
		"the detector is offset and the scan covers");
	OK(try_circle("fan", 230, 230, 14, &c)); /* 14 of 26 columns: 0.54 */
	circle_free(&c);
}

static void axis_on_the_detector(void **state)
{
	(void)state;
	Circle c;
	OK(try_circle("parallel", 360, 90, -0.49, &c));
	circle_free(&c);
	REJECTED(try_circle("parallel", 360, 90, -0.51, &c), TOMOS_UNSUPPORTED,
		"the rotation axis falls 0.51 columns beside the detector");
}

/* ---- redundant rays -------------------------------------------------------------------------- */

/* Halves as far as half the common reach, then sin^2; under two columns of difference halves
 * everywhere. */
static void opposite_rays_share(void **state)
{
	(void)state;
	Circle c;
	OK(try_circle("parallel", 360, 90, 8, &c)); /* 8 columns before, 32 behind the axis */
	double share = 4 * DEGREE;
	assert_int_equal(c.cover, COVER_FULL_TURN);
	assert_near(c.near_side, 8);
	assert_near(c.far_side, 32);
	static const double at[][2] = {{0, 0.5}, {3.9, 0.5}, {6, 0.75}, {-6, 0.25}, {8, 1}, {-8, 0},
		{20, 1}, {-20, 0}, {5, 0.5 + 0.5 * 0.146446609406726}};
	for (size_t i = 0; i < sizeof at / sizeof at[0]; i++)
		assert_near(circle_weight(&c, 7, c.far_sign * at[i][0]), share * at[i][1]);
	circle_free(&c);
	OK(try_circle("parallel", 360, 90, 19.1, &c)); /* 1.8 columns of difference */
	assert_near(circle_weight(&c, 7, 19), 0.5 * share);
	circle_free(&c);
	OK(try_circle("parallel", 360, 90, 18.9, &c)); /* 2.2 */
	assert_true(fabs(circle_weight(&c, 7, 19) / share - 0.5) > 0.49);
	circle_free(&c);
}

/* Parker's weights by his formula where the scan is just as long as it has to be: with the fan's
 * half angle d = (sweep - pi) / 2, sin^2(pi/4 beta / (d - g)) at the beginning, 1, and sin^2 at the
 * end. */
static void parker(void **state)
{
	(void)state;
	Circle c;
	OK(try_circle("fan", 231, 231, 20, &c));
	double sweep = 230 * DEGREE, d = 0.5 * (sweep - M_PI), share = DEGREE;
	assert_near(c.sweep, sweep);
	for (int64_t i = 0; i < 231; i += 5)
		for (double s = -12; s <= 12; s += 3) {
			double beta = fmod((double)i * DEGREE, 2 * M_PI), g = atan(s / 100);
			double wanted =
				beta < 2 * (d - g) ? pow(sin(0.25 * M_PI * beta / (d - g)), 2)
				: beta <= M_PI - 2 * g
					? 1
					: pow(sin(0.25 * M_PI * (M_PI + 2 * d - beta) / (d + g)),
						  2);
			if (!(fabs(circle_weight(&c, i, s) / share - wanted) < 1e-9 || i == 0 ||
				    i == 230))
				fail_msg("view %d, s %g: %g, not %g", (int)i, s,
					circle_weight(&c, i, s) / share, wanted);
		}
	circle_free(&c);
}

/* ---- one view, one pixel --------------------------------------------------------------------- */

enum { COLUMNS = 33, LIT = 14 };

/* What one lit pixel of one view, which stands for half a turn, gives at x: pi times the kernel
 * over the pixel's width. Columns run along x, and LIT is at x = (LIT - 16) pixel. */
static double lit_at(double x, double pixel, const tomos_analytic_options *o)
{
	double angle = 0;
	float data[COLUMNS] = {0}, value;
	tomos_geometry *scan;
	tomos_backend *backend;
	tomos_grid grid = {{1, 1, 1}, {x, 0.3, 0}, {1, 1, 1}};
	tomos_array b = tomos_array_of(data, 1, 1, COLUMNS),
		    image = tomos_array_of(&value, 1, 1, 1);
	data[LIT] = 1;
	OK(tomos_geometry_parallel(&scan, 1, COLUMNS, pixel, &angle, 1));
	OK(tomos_backend_open(&backend, test_backend()));
	OK(tomos_fbp(backend, &grid, scan, &b, &image, o, NULL));
	tomos_geometry_free(scan);
	tomos_backend_close(backend);
	return value;
}

static double ramp_tap(int64_t n)
{
	return n == 0 ? 0.25 : n % 2 ? -1 / (M_PI * M_PI * (double)(n * n)) : 0;
}

/* Between columns i and i + 1, `share` of the way. */
static double between(int64_t i, double share)
{
	return (1 - share) * ramp_tap(i) + share * ramp_tap(i + 1);
}

static void assert_lit(double columns, double pixel, const tomos_analytic_options *o, double wanted)
{
	double value = lit_at((LIT - 16 + columns) * pixel, pixel, o);
	if (!(fabs(value * pixel / M_PI - wanted) < 1e-6))
		fail_msg("%g columns on, pixels of %g: %g, not %g", columns, pixel,
			value * pixel / M_PI, wanted);
}

static void taps_of_one_pixel(void **state)
{
	(void)state;
	static const double pixels[] = {1, 0.4};
	for (int k = 0; k < 2; k++) {
		tomos_analytic_options o = tomos_analytic_defaults();
		for (int64_t n = 0; n < 12; n++)
			assert_lit((double)n, pixels[k], &o, ramp_tap(n));
		assert_lit(0.3, pixels[k], &o, between(0, 0.3));
		assert_lit(-1.6, pixels[k], &o, between(1, 0.6));
		o.interpolation = "nearest";
		assert_lit(0.3, pixels[k], &o, ramp_tap(0));
		assert_lit(0.7, pixels[k], &o, ramp_tap(1));
		o.interpolation = "oversampled"; /* the nearest quarter */
		assert_lit(0.3, pixels[k], &o, between(0, 0.25));
		assert_lit(0.4, pixels[k], &o, between(0, 0.5));
		o.interpolation = "linear";
		o.filter_taps = 5; /* taps on either side */
		assert_lit(5, pixels[k], &o, ramp_tap(5));
		assert_lit(6.999, pixels[k], &o, 0);
		o.filter_taps = 0;
		o.filter = "none"; /* not over the pixel's width */
		assert_lit(0.25, pixels[k], &o, 0.75 * pixels[k]);
	}
}

/* The last column lit: what goes on beyond it, by the width of the row. */
static double edge_at(int64_t back, const char *padding)
{
	double angle = 0;
	float data[COLUMNS] = {0}, value;
	tomos_analytic_options o = tomos_analytic_defaults();
	tomos_geometry *scan;
	tomos_backend *backend;
	tomos_grid grid = {{1, 1, 1}, {(double)(16 - back), 0, 0}, {1, 1, 1}};
	tomos_array b = tomos_array_of(data, 1, 1, COLUMNS),
		    image = tomos_array_of(&value, 1, 1, 1);
	data[COLUMNS - 1] = 1;
	o.padding = padding;
	OK(tomos_geometry_parallel(&scan, 1, COLUMNS, 1, &angle, 1));
	OK(tomos_backend_open(&backend, test_backend()));
	OK(tomos_fbp(backend, &grid, scan, &b, &image, &o, NULL));
	tomos_geometry_free(scan);
	tomos_backend_close(backend);
	return value / M_PI;
}

static void rows_go_on(void **state)
{
	(void)state;
	for (int64_t back = 0; back < COLUMNS; back += 4) {
		double edge = 0, smooth = 0;
		for (int64_t n = 0; n <= COLUMNS; n++) {
			edge += ramp_tap(back + n);
			smooth += ramp_tap(back + n) *
				  pow(cos(0.5 * M_PI * (double)n / (COLUMNS + 1)), 2);
		}
		assert_true(fabs(edge_at(back, "zero") - ramp_tap(back)) < 1e-6);
		assert_true(fabs(edge_at(back, "edge") - edge) < 1e-6);
		assert_true(fabs(edge_at(back, "smooth") - smooth) < 1e-6);
	}
}

#define TESTS(T) \
	T(gaps_are_shared_out), T(turns_are_whole), T(cover_of_a_wedge), \
		T(short_scans_are_long_enough), T(axis_on_the_detector), T(opposite_rays_share), \
		T(parker), T(taps_of_one_pixel), T(rows_go_on)
TEST_MAIN(TESTS, NULL, NULL)
