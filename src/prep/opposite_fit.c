/* Axis, swivel and distance of the detector by least squares on differences of opposite rays. */
#include <math.h>
#include <string.h>
#include "base/solve.h"
#include "prep/opposite.h"

enum { ITERATIONS = 24, MARGIN = 2, TERMS = 6, LINES = 6 };
/* Terms of a pair: difference, derivatives of the ray and of its opposite along the columns, and of
 * the opposite along the angle; derivatives of both along the rows. */
enum { DIFFERENCE, HERE, THERE, ANGLE, RISE_HERE, RISE_THERE };

typedef struct {
	double gram[NORMAL_BLOCKS][TERMS][TERMS]; /* sums of products of the terms */
	double energy[NORMAL_BLOCKS];             /* of the rays */
	int64_t views;
} PairSums;

typedef struct {
	const Opposite *sinogram;
	double distance, sign; /* in columns of the sinogram */
	double value[PAIR_COUNT];
	int64_t count;  /* of pairs */
	PairSums *sums; /* [pair] */
} Pairs;

/* Columns of the rays at x and -x of an upright detector, and the angle between the two. */
static void place(const Pairs *p, const double value[PAIR_COUNT], double x, double out[3])
{
	const double pose[POSE_COUNT] = {[POSE_AXIS] = value[PAIR_AXIS],
		[POSE_SWIVEL] = value[PAIR_SWIVEL],
		[POSE_SCALE] = 1};
	double distance = p->distance * value[PAIR_SCALE], pixel[2];
	for (int i = 0; i < 2; i++) {
		pose_pixel(pose, distance, 1, i ? -x : x, 0, pixel);
		out[i] = pixel[0];
	}
	out[2] = M_PI + 2 * p->sign * atan(x / distance);
}

/* Values and derivatives at a column that is not whole, for all views: [LINES / 2][view]. */
static void take_line(const Opposite *s, double column, float *value)
{
	double whole = floor(column);
	float w[4], d[4];
	int64_t views = s->views, first = ((int64_t)whole - 1) * views;
	const float *from = s->lines + first, *rise = s->rises + first;
	cubic_weights(column - whole, w, d);
	for (int64_t i = 0; i < views; i++) {
		float a = from[i], b = from[views + i], c = from[2 * views + i],
		      e = from[3 * views + i];
		value[i] = w[0] * a + w[1] * b + w[2] * c + w[3] * e;
		value[views + i] = d[0] * a + d[1] * b + d[2] * c + d[3] * e;
		value[2 * views + i] = w[0] * rise[i] + w[1] * rise[views + i] +
				       w[2] * rise[2 * views + i] + w[3] * rise[3 * views + i];
	}
}

static int64_t wrapped(const Opposite *s, int64_t i)
{
	return s->full ? (i % s->views + s->views) % s->views : i;
}

/* A full turn: sectors of half a turn, so that the views of a pair are in one of them; otherwise
 * parts of the views [first, end) that have pairs. */
static int64_t block_of(const Opposite *s, int64_t view, int64_t first, int64_t end)
{
	double turns = (double)view * s->step / M_PI;
	double part =
		s->full ? turns - floor(turns) : (double)(view - first) / (double)(end - first);
	return min64((int64_t)(part * NORMAL_BLOCKS), NORMAL_BLOCKS - 1);
}

static void add_pair(const Opposite *s, PairSums *sums, const float *lines, int64_t by, double part)
{
	const float *here = lines, *there = here + 3 * s->views;
	float w[4], d[4];
	int64_t first = s->full ? 0 : max64(MARGIN - by, MARGIN);
	int64_t end = s->full ? s->views : min64(s->views - MARGIN - 1 - by, s->views - MARGIN);
	cubic_weights(part, w, d);
	for (int64_t i = first; i < end; i++) {
		float value = 0, slope = 0, turn = 0, rise = 0;
		for (int64_t k = 0; k < 4; k++) {
			int64_t at = wrapped(s, i + by + k - 1);
			value += w[k] * there[at];
			slope += w[k] * there[s->views + at];
			rise += w[k] * there[2 * s->views + at];
			turn += d[k] * there[at];
		}
		const double term[TERMS] = {(double)(here[i] - value), (double)here[s->views + i],
			(double)slope, (double)turn, (double)here[2 * s->views + i], (double)rise};
		int64_t block = block_of(s, i, first, end);
		for (int a = 0; a < TERMS; a++)
			for (int b = 0; b <= a; b++)
				sums->gram[block][a][b] += term[a] * term[b];
		sums->energy[block] += (double)(here[i] * here[i] + value * value);
	}
	sums->views += max64(end - first, 0);
}

static double pair_x(int64_t pair)
{
	return (double)pair + 0.5;
}

static bool inside(const Opposite *s, double column)
{
	return column >= MARGIN && column < (double)(s->columns - 1 - MARGIN);
}

static void take_pair(const void *user, int64_t pair, float *scratch)
{
	Pairs *p = *(Pairs *const *)user;
	const Opposite *s = p->sinogram;
	double at[3], part;
	int64_t by;
	memset(&p->sums[pair], 0, sizeof p->sums[pair]);
	place(p, p->value, pair_x(pair), at);
	if (!inside(s, at[0]) || !inside(s, at[1]))
		return;
	take_line(s, at[0], scratch);
	take_line(s, at[1], scratch + 3 * s->views);
	for (int way = 0; way < 2; way++)
		if (opposite_shift(s, at[2], way, &by, &part))
			add_pair(s, &p->sums[pair], scratch, by, part);
}

/* ---- the equations --------------------------------------------------------------------------- */

/* Coefficients of the terms in the derivative of the difference by each value. */
static void derivatives(const Pairs *p, double x, double out[PAIR_COUNT][TERMS])
{
	static const double by[] = {1e-2, 1e-4, 1e-4};
	double at[3];
	memset(out, 0, PAIR_COUNT * sizeof *out);
	place(p, p->value, x, at);
	for (int side = 0; side < 2; side++) {
		double sign = side ? -1 : 1;
		out[PAIR_SLOPE][RISE_HERE + side] = sign * (at[side] - p->value[PAIR_AXIS]);
	}
	for (int k = 0; k < COUNT(by); k++) {
		double value[PAIR_COUNT], more[3], less[3];
		memcpy(value, p->value, sizeof value);
		value[k] += by[k];
		place(p, value, x, more);
		value[k] -= 2 * by[k];
		place(p, value, x, less);
		out[k][HERE] = (more[0] - less[0]) / (2 * by[k]);
		out[k][THERE] = -(more[1] - less[1]) / (2 * by[k]);
		out[k][ANGLE] = -(more[2] - less[2]) / (2 * by[k] * p->sinogram->step);
	}
}

static double form(const double a[TERMS], const double b[TERMS], double gram[TERMS][TERMS])
{
	double sum = 0;
	for (int i = 0; i < TERMS; i++)
		for (int j = 0; j < TERMS; j++)
			sum += a[i] * b[j] * (i >= j ? gram[i][j] : gram[j][i]);
	return sum;
}

static void add_equations(const Pairs *p, Normal blocks[NORMAL_BLOCKS])
{
	memset(blocks, 0, NORMAL_BLOCKS * sizeof *blocks);
	for (int64_t pair = 0; pair < p->count; pair++) {
		double d[PAIR_COUNT][TERMS],
			one[TERMS] = {1}; /* of the difference on the moved line */
		derivatives(p, pair_x(pair), d);
		for (int k = RISE_HERE; k <= RISE_THERE; k++)
			one[k] = p->value[PAIR_SLOPE] * d[PAIR_SLOPE][k];
		for (int b = 0; b < NORMAL_BLOCKS; b++) {
			double(*gram)[TERMS] = p->sums[pair].gram[b];
			for (int i = 0; i < PAIR_COUNT; i++) {
				blocks[b].g[i] += form(d[i], one, gram);
				for (int j = 0; j < PAIR_COUNT; j++)
					blocks[b].h[i][j] += form(d[i], d[j], gram);
			}
			blocks[b].squares += form(one, one, gram);
			blocks[b].energy += p->sums[pair].energy[b];
		}
	}
}

/* ---- the fit --------------------------------------------------------------------------------- */

/* The largest step of an iteration: columns, radians, parts of the distance, rows per column. */
static const double longest[PAIR_COUNT] = {2, 0.05, 0.05, 0.02};

static bool take_step(Pairs *p, const double step[NORMAL_MOST])
{
	double part = 1;
	bool small = true;
	for (int k = 0; k < PAIR_COUNT; k++)
		part = fmin(part, longest[k] / fmax(fabs(step[k]), 1e-30));
	for (int k = 0; k < PAIR_COUNT; k++) {
		p->value[k] += part * step[k];
		small = small && fabs(step[k]) < 2e-4 * longest[k];
	}
	return small;
}

/* Sum of squares of what a move by a column changes. */
static double slopes_energy(const Pairs *p)
{
	double sum = 0;
	for (int64_t pair = 0; pair < p->count; pair++)
		for (int b = 0; b < NORMAL_BLOCKS; b++) {
			double(*gram)[TERMS] = p->sums[pair].gram[b];
			sum += gram[HERE][HERE] + gram[THERE][THERE];
		}
	return sum;
}

/* How well the pairs agree, beside what noise makes them differ by. */
static void judge(const Pairs *p, const Normal blocks[NORMAL_BLOCKS], PairFit *fit)
{
	double slopes = 0.5 * slopes_energy(p), squares = 0, energy = 0, rays = 0;
	for (int64_t pair = 0; pair < p->count; pair++)
		rays += 2 * (double)p->sums[pair].views;
	for (int b = 0; b < NORMAL_BLOCKS; b++) {
		squares += blocks[b].squares;
		energy += blocks[b].energy;
		fit->blocks[b] = blocks[b].energy > 0 ? blocks[b].squares / blocks[b].energy : 0;
	}
	fit->apart = slopes > 0 ? sqrt(squares / slopes) : HUGE_VAL;
	fit->noise = slopes > 0 ? sqrt(rays * p->sinogram->noise / slopes) : HUGE_VAL;
	fit->share = rays > 0 ? energy / (rays * p->sinogram->energy) : 0;
	fit->residual = normal_residual(blocks);
}

static tomos_status iterate(Pairs *p, unsigned free, PairFit *fit)
{
	Normal blocks[NORMAL_BLOCKS];
	double step[NORMAL_MOST];
	for (int i = 0; i < ITERATIONS; i++) {
		Pairs *const self = p;
		TRY(pieces_each(p->count, LINES * p->sinogram->views, take_pair, &self));
		add_equations(p, blocks);
		fit->solved = normal_solve(blocks, free, step, fit->covariance);
		if (!fit->solved || take_step(p, step))
			break;
	}
	judge(p, blocks, fit);
	double common[NORMAL_MOST];
	normal_bound(blocks, free, slopes_energy(p), common);
	memcpy(fit->common, common, sizeof fit->common);
	return TOMOS_OK;
}

tomos_status opposite_fit(
	const Opposite *s, double distance, double sign, unsigned free, PairFit *fit)
{
	double bin = (double)s->bin;
	Pairs p = {.sinogram = s, .distance = distance / bin, .sign = sign, .count = s->columns};
	tomos_status status;
	memcpy(p.value, fit->value, sizeof p.value);
	p.value[PAIR_AXIS] = (p.value[PAIR_AXIS] + 0.5) / bin - 0.5;
	TRY(mem_alloc(&p.sums, p.count, sizeof *p.sums, "sums over pairs of rays"));
	TRY_OR_DONE(iterate(&p, free, fit));
	memcpy(fit->value, p.value, sizeof p.value);
	fit->value[PAIR_AXIS] = (p.value[PAIR_AXIS] + 0.5) * bin - 0.5;
	fit->value[PAIR_SLOPE] /= bin;
	for (int i = 0; i < NORMAL_MOST; i++) {
		fit->covariance[PAIR_AXIS][i] *= bin;
		fit->covariance[i][PAIR_AXIS] *= bin;
		fit->covariance[PAIR_SLOPE][i] /= bin;
		fit->covariance[i][PAIR_SLOPE] /= bin;
	}
done:
	mem_free(p.sums);
	return status;
}
