/* How thick the next slab of a run is, by a model of its pipeline.
 *
 * Reading, computing and writing a slab of h slices take each a time a + b h, fitted to the slabs
 * that are done. Thin slabs at the start and at the end of a run leave the stages idle for a short
 * time only; thick ones between them pay the fixed time a less often. Of some ways to divide the
 * slices that are left, the one that the model ends first with is taken; it is asked again for
 * every slab.
 */
#include <math.h>
#include <string.h>
#include "run/thickness.h"

#define GAIN 0.003 /* of the time left, for which slabs are made thinner */

void stage_fit_add(StageFit *f, int64_t slices, double seconds)
{
	double h = (double)slices;
	f->count++;
	f->slices += h;
	f->squares += h * h;
	f->seconds += seconds;
	f->products += h * seconds;
}

/* Least squares, with a and b not negative. */
static void fit_line(const StageFit *f, double line[2])
{
	double n = f->count, spread = n * f->squares - f->slices * f->slices;
	double slope = spread > 0 ? (n * f->products - f->slices * f->seconds) / spread : 0;
	line[0] = line[1] = 0;
	if (n == 0)
		return;
	line[1] = slope;
	line[0] = (f->seconds - slope * f->slices) / n;
	if (spread <= 0 || line[0] < 0) {
		line[0] = 0;
		line[1] = f->seconds / f->slices;
	} else if (slope < 0) {
		line[0] = f->seconds / n;
		line[1] = 0;
	}
}

/* Slices of the next slab, if `thick` are wanted: no slab thinner than the limit is left over. */
static int64_t cut(const ThicknessLimits *limits, int64_t thick, int64_t left)
{
	thick = min64(limits->most, max64(limits->least, thick));
	if (left - thick < limits->least)
		thick = left <= limits->most ? left : left / 2;
	return thick < left ? thick / 2 * 2 : left; /* pairs of rows stay together */
}

typedef struct {
	int64_t plateau; /* thickness that slabs grow to, at most by a factor of two */
	bool taper;      /* the last ones become thinner */
} Division;

static int64_t divide(const ThicknessLimits *limits, Division d, int64_t last, int64_t left)
{
	int64_t thick = min64(d.plateau, 2 * last);
	if (d.taper)
		thick = min64(thick, left / 3 / limits->least * limits->least);
	return cut(limits, thick, left);
}

/* Times at which the stages of slabs end; of the last two slabs, as there are two buffers. */
typedef struct {
	double lines[3][2];
	double read, computed, written; /* of the last slab */
	double started[2], emptied[2];  /* computing of the last two began; their writing ended */
} Pipeline;

static double stage_time(const Pipeline *p, int stage, int64_t slices)
{
	return slices > 0 ? p->lines[stage][0] + p->lines[stage][1] * (double)slices : 0;
}

/* A slab, which has been read already if `there`. */
static void advance(Pipeline *p, int64_t slices, bool there)
{
	if (!there)
		p->read = fmax(p->read, p->started[0]) + stage_time(p, 0, slices);
	double start = fmax(fmax(p->computed, there ? 0 : p->read), p->emptied[0]);
	p->computed = start + stage_time(p, 1, slices);
	p->written = fmax(p->written, p->computed) + stage_time(p, 2, slices);
	p->started[0] = p->started[1];
	p->started[1] = start;
	p->emptied[0] = p->emptied[1];
	p->emptied[1] = p->written;
}

/* The time until everything is written, if the reading of the next slab begins now. */
static double duration(const ThicknessLimits *limits, const Pipeline *now, Division d,
	const int64_t last[3], int64_t left)
{
	Pipeline p = *now;
	p.written = p.emptied[1] = stage_time(&p, 2, last[0]);
	advance(&p, last[1], true);
	advance(&p, last[2], true);
	for (int64_t before = max64(last[2], limits->least); left > 0;) {
		before = divide(limits, d, before, left);
		advance(&p, before, false);
		left -= before;
	}
	return p.written;
}

int64_t next_thickness(
	const ThicknessLimits *limits, const StageFit fits[3], const int64_t last[3], int64_t left)
{
	Pipeline now = {.read = 0};
	Division best = {0, false};
	double shortest = HUGE_VAL;
	if (last[2] == 0 || fits[1].count == 0) /* 1, then 2 of the thinnest to fit a line to */
		return cut(limits, last[2] == limits->least ? 2 * last[2] : last[2], left);
	for (int i = 0; i < 3; i++)
		fit_line(&fits[i], now.lines[i]);
	double enough = 0;
	for (int i = 0; i < 3; i++)
		enough = fmax(enough, GAIN * stage_time(&now, i, left));
	for (int64_t thick = limits->most; thick > 0;
		thick = thick > limits->least ? max64(thick / 2, limits->least) : 0)
		for (int taper = 0; taper < 2; taper++) {
			const Division d = {thick, taper != 0};
			double time = duration(limits, &now, d, last, left);
			if (time < shortest - enough) {
				shortest = time;
				best = d;
			}
		}
	return divide(limits, best, max64(last[2], limits->least), left);
}
