/* Rows of the detector in the Fourier projector: transforms between rows and the spectra of views.
 */
#include <math.h>
#include <string.h>
#include "backend/cpu/cpu.h"
#include "backend/cpu/fourier.h"

/* The phasor e^(i m angle) of successive m, computed again every RENEWAL steps. */
typedef struct {
	double angle, c, s, step_c, step_s;
} Phasor;

enum { RENEWAL = 256 };

static void phasor_set(Phasor *r, double angle, int64_t m)
{
	*r = (Phasor){
		angle, cos(angle * (double)m), sin(angle * (double)m), cos(angle), sin(angle)};
}

static void phasor_next(Phasor *r)
{
	double c = r->c * r->step_c - r->s * r->step_s;
	r->s = r->c * r->step_s + r->s * r->step_c;
	r->c = c;
}

/* sin(x) / x with x = m angle, from its phasor. */
static double phasor_sinc(const Phasor *r, int64_t m)
{
	double x = r->angle * (double)m;
	return fabs(x) < 1e-4 ? 1 - x * x / 6 : r->s / x;
}

/* factor[m + top] = weight / period * response e^(2 pi i m offset / period) for the points of a
 * view. */
static void view_factors(const Fourier *f, const FourierView *view, float *factor)
{
	const double turn = 2 * M_PI / (double)f->period, unit = view->weight / (double)f->period;
	const bool line = f->spec.response == RESPONSE_LINE;
	Phasor phase = {0}, x = {0}, y = {0};
	for (int64_t m = -f->top; m <= f->top; m++, factor += 2) {
		if ((m + f->top) % RENEWAL == 0) {
			phasor_set(&phase, turn * view->column[2], m);
			phasor_set(&x, 0.5 * turn * (line ? view->column[0] : 1), m);
			phasor_set(&y, 0.5 * turn * (line ? view->column[1] : 1), m);
		}
		double size =
			unit * f->taper[m < 0 ? -m : m] * phasor_sinc(&x, m) * phasor_sinc(&y, m);
		factor[0] = (float)(size * phase.c);
		factor[1] = (float)(size * phase.s);
		phasor_next(&phase);
		phasor_next(&x);
		phasor_next(&y);
	}
}

/* Samples of the spectra of one view, in lanes from `lane` on, times the factors, to its values;
 * or the reverse, with the factors conjugated. */
static void move_spectrum(const Batch *b, int64_t view, int lane, const float *factor, float *data)
{
	const Fourier *f = b->f;
	const int lanes = fft_lanes(f->rows), pairs = f->pairs;
	float *value = f->values + view * (2 * f->top + 1) * 2 * pairs;
	for (int64_t m = -f->top; m <= f->top; m++, value += 2 * pairs, factor += 2) {
		int64_t at = fft_position(f->rows, m < 0 ? m + f->period : m);
		float *sample = data + at * 2 * lanes + lane, c = factor[0], s = factor[1];
		if (b->direction == ADJOINT)
			for (int i = 0; i < pairs; i++) {
				value[i] = sample[i] * c - sample[lanes + i] * s;
				value[pairs + i] = sample[i] * s + sample[lanes + i] * c;
			}
		else
			for (int i = 0; i < pairs; i++) {
				sample[i] = value[i] * c + value[pairs + i] * s;
				sample[lanes + i] = value[pairs + i] * c - value[i] * s;
			}
	}
}

/* The detector row of a slice in a view; NULL: it has none. */
static float *row_of(const Batch *b, int64_t view, int64_t slice)
{
	const FourierSpec *spec = &b->f->spec;
	if (slice < 0 || view >= spec->count)
		return NULL;
	int64_t row = spec->views[view].row + spec->views[view].sign * slice;
	if (row < 0 || row >= spec->rows)
		return NULL;
	return b->projections + (view * spec->rows + row) * spec->columns;
}

void fourier_rows(const Batch *b, int64_t index, float *scratch)
{
	const Fourier *f = b->f;
	const int lanes = fft_lanes(f->rows), group = lanes / f->pairs;
	float *factor = scratch + f->scratch_floats, *sink = factor + 2 * f->period;
	float *rows[2][FFT_MOST_LANES];
	for (int part = 0; part < 2; part++)
		for (int l = 0; l < lanes; l++)
			rows[part][l] =
				row_of(b, index * group + l / f->pairs, slice_of(b, l, part));
	memset(scratch, 0, (size_t)fft_floats(f->rows) * sizeof *scratch);
	for (int part = 0; b->direction == ADJOINT && part < 2; part++) {
		const float *from[FFT_MOST_LANES];
		for (int l = 0; l < lanes; l++)
			from[l] = rows[part][l] ? rows[part][l] : f->zeros;
		fft_gather(f->rows, from, 0, f->spec.columns, part, scratch);
	}
	if (b->direction == ADJOINT)
		fft_forward(f->rows, scratch);
	for (int g = 0; g < group && index * group + g < f->spec.count; g++) {
		view_factors(f, &f->views[index * group + g], factor);
		move_spectrum(b, index * group + g, g * f->pairs, factor, scratch);
	}
	if (b->direction == ADJOINT)
		return;
	fft_inverse(f->rows, scratch);
	for (int part = 0; part < 2; part++) {
		for (int l = 0; l < lanes; l++)
			rows[part][l] = rows[part][l] ? rows[part][l] : sink;
		fft_scatter(f->rows, scratch, 0, f->spec.columns, part, rows[part]);
	}
}

static void view_squares(const Batch *b, int64_t view, float *scratch)
{
	const Fourier *f = b->f;
	const int64_t points = 2 * f->top + 1;
	float *value = f->values + view * points * 2;
	view_factors(f, &f->views[view], scratch);
	for (int64_t m = 0; m < points; m++) {
		const float *factor = scratch + 2 * m;
		value[2 * m] = (float)f->period * (factor[0] * factor[0] + factor[1] * factor[1]);
		value[2 * m + 1] = 0;
	}
}

void fourier_squares(const Fourier *f)
{
	batch_run(&(Batch){.f = f}, f->spec.count, view_squares);
}
