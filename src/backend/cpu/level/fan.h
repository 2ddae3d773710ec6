/* In-slice fans: the detector columns on which LANES neighbouring pixels of a row fall.
 *
 * Along a row of pixels the column is a quotient of two linear functions: lane l is l step / (1 + l
 * bend) from the first lane. This is l step, computed exactly in fixed point as for parallel rays,
 * minus l^2 step bend / (1 + l bend), which is small.
 */
#ifndef TOMOS_BACKEND_CPU_LEVEL_FAN_H
#define TOMOS_BACKEND_CPU_LEVEL_FAN_H

#include <math.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/level/stretch.h"

/* Largest deviation from a straight line, in samples, that is supported. */
enum { MOST_CURVE = 64 };

/* A view at one pixel: columns per pixel along x, and the relative change of depth per pixel. */
typedef struct {
	double column, depth, step, bend;
} Look;

static inline Look look_from(const KernelView *k, double x, double y)
{
	Look look = {.depth = k->depth[0] * x + k->depth[1] * y + k->depth[3]};
	double nearer = 1 / look.depth;
	look.column = (k->column[0] * x + k->column[1] * y + k->column[3]) * nearer;
	look.step = (k->column[0] - look.column * k->depth[0]) * nearer;
	look.bend = k->depth[0] * nearer;
	return look;
}

/* Deviation of LANES pixels from a straight line, in samples; MOST_CURVE if it is too large. */
static inline double look_curve(const Look *look)
{
	double step = fabs(look->step), bend = LANES * fabs(look->bend);
	return look->depth > 0.01 && bend < 0.3 ? LANES * step * bend / (1 - bend) : HUGE_VAL;
}

/* Largest deviation and step of a view. Along a row of pixels the step is proportional to 1 /
 * depth^2, so it is largest at one end of the row. */
static inline double fan_curve(const Plan *plan, const KernelView *k, double *step)
{
	double curve = 0;
	*step = 0;
	for (int64_t y = 0; y < plan->grid.n[1]; y++)
		for (int end = 0; end < 2; end++) {
			Look look = look_from(
				k, end ? (double)(plan->grid.n[0] - 1 + LANES) : 0, (double)y);
			curve = fmax(curve, look_curve(&look));
			*step = fmax(*step, fabs(look.step));
		}
	return curve;
}

/* Pixels fall on columns first + at + fraction; `nearer` is one over their depth. */
typedef struct {
	int64_t first;
	vi at;
	vf fraction, nearer;
} Hits;

static inline Hits fan_hits(const Look *look)
{
	vf lane = vf_lane(), bend = lane * (float)look->bend, inverse = 1 / (1 + bend), fraction;
	Lanes lanes = lanes_of(look->step);
	int64_t p = position_of(look->column + lowest_lane(look->step));
	vi j = lanes_at(&lanes, p, &fraction);
	vf t = fraction - lane * (float)look->step * bend * inverse;
	vi whole = vf_truncate(t + MOST_CURVE) - MOST_CURVE;
	return (Hits){.first = p >> FRACTION_BITS,
		.at = j + whole,
		.fraction = t - vi_float(whole),
		.nearer = inverse * (float)(1 / look->depth)};
}

/* Weights of the pixels from (x, y) on. */
static inline vf fan_weights(
	const Plan *plan, const KernelView *k, const Hits *hits, double x, double y)
{
	if (plan->model.weight == WEIGHT_NONE)
		return 1 + (vf){0};
	vf square = hits->nearer * hits->nearer;
	if (plan->model.weight == WEIGHT_DEPTH)
		return square;
	vf dx = ((float)(x - k->src[0]) + vf_lane()) * (float)plan->whole.step[0];
	float dy = (float)((y - k->src[1]) * plan->whole.step[1]);
	return square * (float)k->mass * vf_sqrt(dx * dx + dy * dy);
}

#endif
