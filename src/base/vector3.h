/* Vectors with three components. */
#ifndef TOMOS_BASE_VECTOR3_H
#define TOMOS_BASE_VECTOR3_H

#include <math.h>

static inline double dot3(const double a[3], const double b[3])
{
	return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static inline double norm3(const double a[3])
{
	return sqrt(dot3(a, a));
}

/* out = a x b */
static inline void cross3(double out[3], const double a[3], const double b[3])
{
	out[0] = a[1] * b[2] - a[2] * b[1];
	out[1] = a[2] * b[0] - a[0] * b[2];
	out[2] = a[0] * b[1] - a[1] * b[0];
}

/* out = a + k b; out may be a */
static inline void add3(double out[3], const double a[3], double k, const double b[3])
{
	for (int i = 0; i < 3; i++)
		out[i] = a[i] + k * b[i];
}

#endif
