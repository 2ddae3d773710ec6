/* What the tests of geometry share. */
#ifndef TOMOS_TESTS_GEOM_CHECK_H
#define TOMOS_TESTS_GEOM_CHECK_H

#include "geom/geom.h" /* before cmocka, which has a macro of the name fail() */
#include "base/test_main.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define PI 3.14159265358979323846

/* The call is rejected with this status and a message that has this part. */
#define assert_rejected(call, wanted, part) \
	check_rejected((call), (wanted), (part), __FILE__, __LINE__)

static inline void check_rejected(
	tomos_status status, tomos_status wanted, const char *part, const char *file, int line)
{
	if (status != wanted || !strstr(tomos_message(), part)) {
		print_error("status '%s', message '%s', expected '%s', '%s'\n",
			tomos_status_name(status), tomos_message(), tomos_status_name(wanted),
			part);
		_fail(file, line);
	}
}

#define assert_near(a, b, tolerance) check_near((a), (b), (tolerance), __FILE__, __LINE__)

static inline void check_near(double a, double b, double tolerance, const char *file, int line)
{
	if (!(fabs(a - b) <= tolerance)) {
		print_error("%.17g and %.17g differ by more than %g\n", a, b, tolerance);
		_fail(file, line);
	}
}

static uint64_t random_state = 1;

/* Uniform in [low, high). */
static inline double uniform(double low, double high)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return low + (high - low) * (double)(random_state >> 11) * 0x1p-53;
}

static inline double determinant(const double a[3], const double b[3], const double c[3])
{
	return a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0]) +
	       a[2] * (b[0] * c[1] - b[1] * c[0]);
}

/* As `project_point`, where each row has a fan of its own:
 * point - src = b v + t (det - src) + t a u. */
static inline double project_by_fans(const tomos_geometry *scan, const tomos_view *w,
	const double point[3], double *column, double *row)
{
	double from[3], way[3];
	for (int i = 0; i < 3; i++) {
		from[i] = point[i] - w->src[i];
		way[i] = w->det[i] - w->src[i];
	}
	double all = determinant(w->u, w->v, way), t = determinant(w->u, w->v, from) / all;
	*column = determinant(from, w->v, way) / all / t +
		  (double)(tomos_geometry_columns(scan) - 1) / 2;
	*row = determinant(w->u, from, way) / all + (double)(tomos_geometry_rows(scan) - 1) / 2;
	return 1 - 1 / t;
}

/* Column and row of the projection of a point, by Cramer's rule: det + a u + b v - k ray = point.
 * Returns k: the point is beyond (> 0) or before (< 0) the detector along its ray. */
static inline double project_point(const tomos_geometry *scan, int64_t index, const double point[3],
	double *column, double *row)
{
	const tomos_view *w = &tomos_geometry_list(scan)[index];
	double ray[3], way[3];
	if (view_fans(w))
		return project_by_fans(scan, w, point, column, row);
	for (int i = 0; i < 3; i++) {
		ray[i] = w->src[3] != 0 ? point[i] - w->src[i] : w->src[i];
		way[i] = point[i] - w->det[i];
	}
	double all = determinant(w->u, w->v, ray);
	*column =
		determinant(way, w->v, ray) / all + (double)(tomos_geometry_columns(scan) - 1) / 2;
	*row = determinant(w->u, way, ray) / all + (double)(tomos_geometry_rows(scan) - 1) / 2;
	return determinant(w->u, w->v, way) / all;
}

static inline tomos_scan_options options(
	const char *kind, int64_t rows, int64_t columns, int64_t views)
{
	tomos_scan_options o = tomos_scan_defaults();
	o.geometry = kind;
	o.rows = rows;
	o.columns = columns;
	o.views = views;
	return o;
}

#endif
