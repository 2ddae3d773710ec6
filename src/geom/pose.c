/* Poses of views: rigid motions of source and detector together.
 *
 * A pose is a shift t and a rotation vector w, whose direction is the axis of a rotation R about
 * the origin and whose length is its angle: a point X of the view moves to R X + t. */
#include <math.h>
#include <string.h>
#include "geom/parts.h"

/* out = exp([w]) a, by Rodrigues' formula. */
static void rotate(double out[3], const double w[3], const double a[3])
{
	double angle = norm3(w), one[3], two[3];
	double half = 0.5 * angle, chord = half > 1e-8 ? sin(half) / half : 1;
	double first = angle > 1e-8 ? sin(angle) / angle : 1, second = 0.5 * chord * chord;
	cross3(one, w, a);
	cross3(two, w, one);
	for (int i = 0; i < 3; i++)
		out[i] = a[i] + first * one[i] + second * two[i];
}

static void turn_in_place(const double w[3], double a[3])
{
	double rotated[3];
	rotate(rotated, w, a);
	memcpy(a, rotated, sizeof rotated);
}

void view_move(tomos_view *view, const double pose[6])
{
	const double *w = pose + 3;
	turn_in_place(w, view->src);
	turn_in_place(w, view->det);
	turn_in_place(w, view->u);
	turn_in_place(w, view->v);
	add3(view->det, view->det, 1, pose);
	if (view_has_source(view))
		add3(view->src, view->src, 1, pose);
}

tomos_status tomos_geometry_move(
	tomos_geometry **moved, const tomos_geometry *scan, const double *poses)
{
	*moved = NULL;
	if (!scan || !poses)
		return fail(TOMOS_BAD_VALUE, "views are moved by a geometry and poses, six numbers "
					     "for each view");
	for (int64_t i = 0; i < 6 * scan->count; i++)
		if (!(fabs(poses[i]) <= LARGEST))
			return fail(TOMOS_BAD_VALUE,
				"view %lld: number %d of its pose is %g; it must be between %g and "
				"%g",
				(long long)(i / 6), (int)(i % 6), poses[i], -LARGEST, LARGEST);
	TRY(geom_new(moved, scan->rows, scan->columns, scan->count));
	memcpy((*moved)->views, scan->views, (size_t)scan->count * sizeof *scan->views);
	for (int64_t i = 0; i < scan->count; i++)
		view_move(&(*moved)->views[i], poses + 6 * i);
	return geom_seal(moved);
}

/* The left Jacobian of the rotation group, J = 1 + (1 - cos a) / a^2 [w] + (a - sin a) / a^3 [w]^2:
 * exp([w + dw]) = exp([J dw]) exp([w]) to first order. */
static void left_jacobian(double out[3], const double w[3], const double dw[3])
{
	double angle = norm3(w), square = angle * angle, one[3], two[3];
	bool small = angle < 1e-3; /* the series to the order of double */
	double half = 0.5 * angle, chord = half > 1e-8 ? sin(half) / half : 1;
	double second = small ? (1 - square / 20) / 6 : (angle - sin(angle)) / (square * angle);
	cross3(one, w, dw);
	cross3(two, w, one);
	for (int i = 0; i < 3; i++)
		out[i] = dw[i] + 0.5 * chord * chord * one[i] + second * two[i];
}

/* A change of the pose by d moves a point X of the moved view by d_t + (J d_w) x (X - t). */
tomos_status tomos_pose_change(const double *poses, int64_t count, double *matrices)
{
	if (!poses || !matrices || count < 1)
		return fail(TOMOS_BAD_VALUE, "changes of poses need poses and a place for a "
					     "matrix of 6 x 6 for each of them");
	for (int64_t v = 0; v < count; v++) {
		const double *t = poses + 6 * v, *w = t + 3;
		double *m = matrices + 36 * v;
		memset(m, 0, 36 * sizeof *m);
		for (int n = 0; n < 3; n++) {
			double unit[3] = {n == 0, n == 1, n == 2}, turn[3], arm[3];
			left_jacobian(turn, w, unit);
			cross3(arm, t, turn);
			m[7 * n] = 1;
			for (int i = 0; i < 3; i++) {
				m[6 * i + 3 + n] = arm[i];
				m[6 * (3 + i) + 3 + n] = turn[i];
			}
		}
	}
	return TOMOS_OK;
}
