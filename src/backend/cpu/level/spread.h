/* Gridding of non-uniform Fourier transforms: points on lines through the origin of a frequency
 * plane, and the cells around each of them. */
#ifndef TOMOS_BACKEND_CPU_LEVEL_SPREAD_H
#define TOMOS_BACKEND_CPU_LEVEL_SPREAD_H

#include "backend/fourier_window.h"

enum {
	SPREAD_LANES = 4,  /* complex numbers of a cell, or 1 */
	SPREAD_BEYOND = 12 /* cells beyond the first one of a point that may be read or written */
};

/* Points from .. to - 1 of a line: point m is at cell (m x, m y). The tile begins at cell `first`,
 * and its rows are `stride` floats apart. */
typedef struct {
	double x, y;
	int64_t from, to;
	int64_t first[2], stride;
} SpreadLine;

/* Point m of the detector's band is repeated at m + shift, with (m / (m + shift))^2 times its
 * value: linear interpolation has the transform sinc^2. Its phase is that of the origin of the
 * slices, which is between two columns. */
typedef struct {
	int64_t shift;
	float phase[2];
} SpreadAlias;

/* values[m] are the cells of the points; spread adds them to the tile, collect is the transpose. */
typedef struct {
	void (*spread)(const SpreadWindow *window, const SpreadLine *line, const float *values,
		float *tile);
	void (*collect)(const SpreadWindow *window, const SpreadLine *line, const float *tile,
		float *values);
	/* Values of `count` points of an alias: those of the detector's band, from point `from` of
	 * it on, times the factors of the interpolation and of the period of the detector. */
	void (*alias)(const SpreadAlias *alias, int lanes, int64_t from, int64_t count,
		const float *values, float *result);
} SpreadKernels;

#endif
