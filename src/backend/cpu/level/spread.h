/* Gridding of non-uniform Fourier transforms: points on lines through the origin of a frequency
 * plane, and the cells around each of them. */
#ifndef TOMOS_BACKEND_CPU_LEVEL_SPREAD_H
#define TOMOS_BACKEND_CPU_LEVEL_SPREAD_H

#include <stdint.h>

enum {
	SPREAD_LEAST = 4, /* taps of a window */
	SPREAD_MOST = 12,
	SPREAD_PITCH = 16,  /* floats of a row of the polynomials */
	SPREAD_DEGREE = 15, /* highest of the polynomials */
	SPREAD_LANES = 4,   /* complex numbers of a cell, or 1 */
	SPREAD_BEYOND = 12  /* cells beyond the first one of a point that may be read or written */
};

/* Window of `taps` cells. Tap i at fraction f in [0, 1) is the polynomial in 2 f - 1 with the
 * coefficients polynomials[power][i]. */
typedef struct {
	int taps, degree;
	int lanes; /* of a cell, which is [2][lanes]: real parts, imaginary parts */
	float polynomials[SPREAD_DEGREE + 1][SPREAD_PITCH];
} SpreadWindow;

/* Points from .. to - 1 of a line: point m is at cell (m x, m y). The tile begins at cell `first`,
 * and its rows are `stride` floats apart. */
typedef struct {
	double x, y;
	int64_t from, to;
	int64_t first[2], stride;
} SpreadLine;

/* The first cell of the window of a point at `position`. */
#define SPREAD_FIRST(window, position) ceil((position)-0.5 * (window)->taps)

/* values[m] are the cells of the points; spread adds them to the tile, collect is the transpose. */
typedef struct {
	void (*spread)(const SpreadWindow *window, const SpreadLine *line, const float *values,
		float *tile);
	void (*collect)(const SpreadWindow *window, const SpreadLine *line, const float *tile,
		float *values);
} SpreadKernels;

#endif
