/* Upright detectors: all rays of one detector column are in one plane parallel to z, so they cross
 * a plane of voxels at the same place and differ in height only. Cone beam, fans, helix and
 * parallel beam with detector columns parallel to z. */
#ifndef TOMOS_BACKEND_CPU_LEVEL_UPRIGHT_H
#define TOMOS_BACKEND_CPU_LEVEL_UPRIGHT_H

#include <math.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/level/stretch.h"

/* The rays of one column in plane k of the dominant axis: at base + k slope along the other axis,
 * and row j at height q + k q_k + j (r + k r_k). */
typedef struct {
	int axis;
	double base, slope, q, q_k, r, r_k;
	double source,
		direction; /* of a point source, along the axis: planes behind it are skipped */
} Upright;

static inline Upright upright_column(const KernelView *k, double column)
{
	bool point = KERNEL_HAS_SOURCE(k);
	double pixel[2], d[2];
	for (int a = 0; a < 2; a++) {
		pixel[a] = k->first[a] + column * k->u[a];
		d[a] = point ? pixel[a] - k->src[a] : k->src[a];
	}
	Upright up = {.axis = fabs(d[0]) >= fabs(d[1]) ? 0 : 1};
	int a = up.axis, b = 1 - a;
	double rate = 1 / d[a];
	up.slope = d[b] * rate;
	up.base = pixel[b] - pixel[a] * up.slope;
	if (point) {
		up.source = k->src[a];
		up.direction = d[a];
	}
	if (point && !KERNEL_FANS(k)) {
		double rise = (k->first[2] - k->src[2]) * rate, climb = k->v[2] * rate;
		up.q = k->src[2] - k->src[a] * rise;
		up.q_k = rise;
		up.r = -k->src[a] * climb;
		up.r_k = climb;
	} else {
		up.q_k = (point ? k->first[2] - k->src[2] : k->src[2]) * rate;
		up.q = k->first[2] - pixel[a] * up.q_k;
		up.r = k->v[2];
	}
	return up;
}

static inline bool upright_behind(const Upright *up, double k)
{
	return (k - up->source) * up->direction < 0;
}

/* Length of a ray from one plane to the next. */
static inline double upright_step(const Plan *plan, const KernelView *k, double row, double column)
{
	double square = 0, most = 0;
	for (int a = 0; a < 3; a++) {
		double d = k->src[a];
		if (KERNEL_HAS_SOURCE(k))
			d = k->first[a] + column * k->u[a] - k->src[a] +
			    (KERNEL_FANS(k) ? 0 : row * k->v[a]);
		square += d * plan->whole.step[a] * d * plan->whole.step[a];
		if (a < 2 && fabs(d) > most)
			most = fabs(d);
	}
	return sqrt(square) / most;
}

#endif
