/* Upright detectors: detector columns are parallel to z. All rays of one detector column are in one
 * plane parallel to z, so that they cross a plane of voxels at the same (x, y) and differ in height
 * only. The source may be a point (cone beam, helix), one per row (fans) or at infinity (parallel
 * beam). */
#ifndef TOMOS_BACKEND_CPU_LEVEL_UPRIGHT_H
#define TOMOS_BACKEND_CPU_LEVEL_UPRIGHT_H

#include <math.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/level/doubles.h"
#include "backend/cpu/level/stretch.h"
#include "backend/cpu/level/transpose.h"

/* The rays of one detector column. In plane k across the dominant axis they are at base + k slope
 * along the other horizontal axis; the ray of row j is at height q + k q_k + j (r + k r_k). */
typedef struct {
	int axis;
	double base, slope, q, q_k, r, r_k;
	double source, direction; /* point source: along `axis`; planes behind it are skipped */
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

/* Several detector columns, or one several times, with the same axis; and where they cross planes:
 * `share` beyond voxel `left`, row j at height q + j climb. These are computed in SIMD lanes, as
 * for a single crossing they take as long as resampling some 100 rows. */
enum { SET = LANES / 2 };

typedef struct {
	vd base, slope, q, q_k, r, r_k, source, direction;
} Uprights;

typedef struct {
	vd left, share, q, climb;
	vl inside; /* the box along the other axis, and not behind the source */
} Crossings;

static inline Uprights upright_set(const Upright *up, const int stride)
{
	Uprights all;
	for (int i = 0; i < SET; i++) {
		const Upright *one = up + i * stride;
		all.base[i] = one->base, all.slope[i] = one->slope;
		all.q[i] = one->q, all.q_k[i] = one->q_k;
		all.r[i] = one->r, all.r_k[i] = one->r_k;
		all.source[i] = one->source, all.direction[i] = one->direction;
	}
	return all;
}

/* In planes k; coordinates are relative to the box. */
static inline Crossings upright_cross(const Uprights *up, vd k, const Box *box, int axis)
{
	const double low = (double)box->low[1 - axis], wide = (double)box->high[1 - axis] - low;
	vd at = up->base + k * up->slope - low;
	Crossings c = {.left = vd_floor(at)};
	c.share = at - c.left;
	c.q = up->q + k * up->q_k - (double)box->low[2];
	c.climb = up->r + k * up->r_k;
	c.inside =
		(vl)(at > -1.0) & (vl)(at < wide) & ~(vl)((k - up->source) * up->direction < 0.0);
	return c;
}

/* Multiplies the values of `count` rays of a detector column, from row `row` on, by their lengths
 * between two planes. Values up to a multiple of LANES are changed. */
static inline void upright_lengths(const Plan *plan, const KernelView *k, int64_t column,
	int64_t row, int64_t count, float *values)
{
	bool fixed = !KERNEL_HAS_SOURCE(k) || KERNEL_FANS(k); /* the same for all rows */
	double d[3], square = 0;
	for (int a = 0; a < 3; a++) {
		d[a] = k->src[a];
		if (KERNEL_HAS_SOURCE(k))
			d[a] = k->first[a] + (double)column * k->u[a] - k->src[a] +
			       (fixed ? 0 : (double)row * k->v[a]);
		if (a < 2)
			square += d[a] * plan->whole.step[a] * d[a] * plan->whole.step[a];
	}
	double most = fmax(fabs(d[0]), fabs(d[1])), scale = plan->whole.step[2] / most;
	float across = (float)(square / (most * most)), rise = (float)(d[2] * scale);
	float climb = fixed ? 0 : (float)(k->v[2] * scale);
	for (int64_t r = 0; r < count; r += LANES) {
		vf up = rise + ((float)r + vf_lane()) * climb;
		vf_store(values + r, vf_load(values + r) * vf_root(across + up * up));
	}
}

tomos_status LEVEL(upright_back)(const ProjectRequest *what);
int64_t LEVEL(upright_back_floats)(const ProjectRequest *what);

#endif
