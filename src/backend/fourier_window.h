/* Window of the Fourier projector, with which points of the frequency plane are interpolated from
 * the cells around them. */
#ifndef TOMOS_BACKEND_FOURIER_WINDOW_H
#define TOMOS_BACKEND_FOURIER_WINDOW_H

#include "backend/fourier.h"
#include "kernel/fourier.h"

enum {
	SPREAD_LEAST = 4,  /* taps of a window */
	SPREAD_DEGREE = 15 /* highest of the polynomials */
};
#define SPREAD_DEGREE_OF(taps) ((taps) + 3)

/* Window of `taps` cells. Tap i at fraction f in [0, 1) is the polynomial in 2 f - 1 with the
 * coefficients polynomials[power][i]. */
typedef struct {
	int taps, degree;
	int lanes; /* CPU: of a cell, which is [2][lanes]: real parts, imaginary parts */
	float polynomials[SPREAD_DEGREE + 1][SPREAD_PITCH];
	double beta; /* width parameter */
} SpreadWindow;

/* The first cell of the window of a point at `position`. */
#define SPREAD_FIRST(window, position) ceil((position)-0.5 * (window)->taps)

/* Points of a line from .. to - 1. */
typedef struct {
	int32_t from, to;
} PointRange;

/* Cells along an axis. */
int64_t fourier_cells(const FourierSpec *spec, int axis);
/* For slices of n voxels and a plane of `size` cells. */
tomos_status window_make(
	SpreadWindow *window, const int64_t n[2], const int64_t size[2], double accuracy);
/* The first cell of point m, at m step; rounded in the same way on every device. */
double window_first(const SpreadWindow *window, double step, int64_t m);
/* One over the transform of the window at each of n voxels, the origin at n / 2. */
void window_scales(const SpreadWindow *window, int64_t n, int64_t size, float *scales);
/* The points m from -top to top, at m step, whose first cell is in low .. high - 1. */
PointRange window_points(
	const SpreadWindow *window, double step, int64_t top, double low, double high);

#endif
