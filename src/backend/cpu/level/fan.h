/* In-slice fans: the detector columns to which LANES neighbouring pixels of a row project.
 *
 * The column is a quotient of two linear functions of the pixel index: lane l projects l step / (1
 * + l bend) columns from lane 0. This equals l step - l^2 step bend / (1 + l bend). The first term
 * is computed exactly in fixed point, as for parallel rays; the second one is small.
 */
#ifndef TOMOS_BACKEND_CPU_LEVEL_FAN_H
#define TOMOS_BACKEND_CPU_LEVEL_FAN_H

#include <math.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/level/stretch.h"

/* Largest supported deviation of the columns from a straight line, in columns. */
enum { MOST_CURVE = 64 };

/* Projection of one pixel in a view: its column U / D and its depth D (see KernelView), `step`:
 * columns per pixel along x, `bend`: relative change of depth per pixel along x. */
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

/* Bound on the deviation of the columns of LANES pixels from a straight line; infinite where the
 * approximation of fan_hits is not valid. */
static inline double look_curve(const Look *look)
{
	double step = fabs(look->step), bend = LANES * fabs(look->bend);
	return look->depth > 0.01 && bend < 0.3 ? LANES * step * bend / (1 - bend) : HUGE_VAL;
}

/* Largest deviation and, in `step`, largest columns per pixel in a view. Along a row of pixels the
 * step is proportional to 1 / depth^2, so that it is largest at one end of the row. */
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

/* LANES pixels project to columns first + at + fraction; `nearer` is 1 / depth. */
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

/* Voxel-driven weights (see WEIGHT_*) of LANES pixels from (x, y) on. */
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
	return square * (float)k->mass * vf_root(dx * dx + dy * dy);
}

#endif
