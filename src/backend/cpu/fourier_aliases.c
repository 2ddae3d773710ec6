/* Aliases in back projection by Fourier transforms on the CPU.
 *
 * Linear interpolation between columns is a convolution of samples with a triangle. Its spectrum is
 * that of the samples, which repeats with every cycle per column, times sinc^2: the band of the
 * detector, and aliases of it. These are a few per cent of an image, so that a short window is
 * accurate enough for them.
 */
#include <math.h>
#include <string.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/fourier.h"

#define ALIAS_ACCURACY 4e-3

enum { PART = 64 }; /* points whose values are computed together */

tomos_status aliases_open(Fourier *f)
{
	const int64_t size[2] = {f->axis[0].size, f->axis[1].size};
	Fourier *beyond;
	TRY(mem_alloc(&f->beyond, 1, sizeof *f->beyond, "a projector"));
	beyond = f->beyond;
	*beyond = *f;
	beyond->beyond = NULL;
	beyond->aliases = f->spec.aliases;
	for (int a = 0; a < 2; a++)
		beyond->axis[a].scale = NULL, beyond->axis[a].ranges = NULL;
	TRY(window_make(&beyond->window, f->spec.n, size, ALIAS_ACCURACY));
	for (int a = 0; a < 2; a++) {
		FourierAxis *axis = &beyond->axis[a];
		TRY(mem_alloc(&axis->scale, axis->n, sizeof *axis->scale, "the window"));
		window_scales(&beyond->window, axis->n, axis->size, axis->scale);
		TRY(axis_ranges(beyond, a));
	}
	return TOMOS_OK;
}

void aliases_close(Fourier *beyond)
{
	for (int a = 0; beyond && a < 2; a++) {
		mem_free(beyond->axis[a].scale);
		mem_free(beyond->axis[a].ranges);
	}
	mem_free(beyond);
}

/* The band of a point: the detector's own is band 0. */
static int64_t band_of(const Fourier *f, int64_t m)
{
	int64_t band = ((m < 0 ? -m : m) - f->top + f->period - 1) / f->period;
	return m < 0 ? -band : band;
}

/* Points of one band. */
static void band_points(const Fourier *f, SpreadLine line, int64_t band, int64_t view, float *tile)
{
	const float *values = f->values + (view * (2 * f->top + 1) + f->top) * 2 * f->pairs;
	const double phase = 2 * M_PI * fmod((double)band * f->views[view].column[2], 1);
	const SpreadAlias alias = {band * f->period, {(float)cos(phase), (float)sin(phase)}};
	float part[PART * 2 * SPREAD_LANES];
	for (int64_t end = line.to; line.from < end; line.from = line.to) {
		line.to = min64(end, line.from + PART);
		f->kernels->alias(&alias, f->pairs, line.from - alias.shift, line.to - line.from,
			values, part);
		f->kernels->spread(&f->window, &line, part - line.from * 2 * f->pairs, tile);
	}
}

/* Points of consecutive bands but the detector's own; whether there are any. */
static bool line_bands(const Fourier *f, SpreadLine line, int64_t view, float *tile)
{
	bool any = false;
	for (int64_t end = line.to; line.from < end; line.from = line.to) {
		int64_t band = band_of(f, line.from);
		/* With an even period, a point between two bands belongs to the one nearer
		 * to the origin. */
		int64_t last = band * f->period + f->top - (band < 0 && f->period % 2 == 0 ? 1 : 0);
		line.to = min64(end, last + 1);
		if (band != 0)
			band_points(f, line, band, view, tile);
		any = any || band != 0;
	}
	return any;
}

/* The period of the grid that a cell is in. */
static int64_t period_of(const FourierAxis *axis, double cell)
{
	return (int64_t)floor(cell / (double)axis->size);
}

bool alias_points(const Batch *b, const int64_t index[2], int64_t stride, int64_t view, float *data)
{
	const Fourier *f = b->f;
	const FourierAxis *x = &f->axis[0], *y = &f->axis[1];
	const PointRange *xs = x->ranges + (index[0] * f->spec.count + view) * 2 * x->periods;
	const PointRange *ys = y->ranges + (index[1] * f->spec.count + view) * 2 * y->periods;
	SpreadLine line = {step_of(f, 0, view), step_of(f, 1, view), .stride = stride};
	const double beyond = 0.5 * f->window.taps;
	bool any = false;
	for (int64_t i = 0; i < 2 * x->periods; i++) {
		if (xs[i].from >= xs[i].to)
			continue;
		/* The first cells of these points, but for rounding. */
		double a = xs[i].from * line.y - beyond, c = (xs[i].to - 1) * line.y - beyond;
		int64_t low = period_of(y, fmin(a, c)), high = period_of(y, fmax(a, c) + 1);
		for (int64_t j = low; j <= min64(high, y->periods - 1); j++) {
			const PointRange *met = &ys[j + y->periods];
			line.from = max64(xs[i].from, met->from);
			line.to = min64(xs[i].to, met->to);
			line.first[0] = x->edge[index[0]] + (i - x->periods) * x->size;
			line.first[1] = y->edge[index[1]] + j * y->size;
			any = line_bands(f, line, view, data) || any;
		}
	}
	return any;
}
