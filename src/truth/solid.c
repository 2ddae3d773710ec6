/* The chord of a line in an ellipsoid or cylinder. */
#include <math.h>
#include "base/vector3.h"
#include "truth/truth.h"

/* The base point is first moved to the point of the line nearest to the centre, then to the nearest
 * point after the solid is mapped to the unit sphere. The distance h is then never a difference of
 * large numbers, which is accurate also for tangents. */
bool solid_chord(
	const Solid *s, const double point[3], const double direction[3], double *from, double *to)
{
	double w[3], o[3], d[3];
	for (int i = 0; i < 3; i++)
		w[i] = point[i] - s->centre[i];
	double nearest = -dot3(w, direction);
	for (int i = 0; i < 3; i++)
		w[i] += nearest * direction[i];
	if (dot3(w, w) > s->radius * s->radius)
		return false;
	for (int i = 0; i < 3; i++) {
		o[i] = dot3(s->to_unit[i], w);
		d[i] = dot3(s->to_unit[i], direction);
	}
	double speed2 = dot3(d, d);
	double shift = speed2 > 0 ? -dot3(o, d) / speed2 : 0;
	for (int i = 0; i < 3; i++)
		o[i] += shift * d[i];
	double h2 = dot3(o, o);
	if (!(h2 < 1))
		return false;
	double half = sqrt((1 - h2) / speed2); /* infinite along a cylinder */
	*from = nearest + shift - half;
	*to = nearest + shift + half;
	return true;
}
