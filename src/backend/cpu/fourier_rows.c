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

/* Detector rows first .. last that a slice meets in a view; `own`: the row of this slice alone. */
typedef struct {
	const FourierView *view;
	double at;
	int64_t first, last;
	bool own;
	float *data; /* of the view */
} RowSpan;

static RowSpan span_of(const Batch *b, int64_t view, int64_t slice)
{
	const FourierSpec *spec = &b->f->spec;
	RowSpan span = {.last = -1};
	if (slice < 0 || view >= spec->count)
		return span;
	span.view = &spec->views[view];
	span.at = span.view->row + span.view->step * (double)slice;
	span.own = span.at == floor(span.at) && span.view->reach == 1;
	double reach = span.own ? 0 : span.view->reach, end = (double)(spec->rows - 1);
	if (!(span.at + reach >= 0 && span.at - reach <= end))
		return span;
	span.first = (int64_t)fmax(ceil(span.at - reach), 0);
	span.last = (int64_t)fmin(floor(span.at + reach), end);
	span.data = b->projections + view * spec->rows * spec->columns;
	return span;
}

/* Adds the rows of a span to the row of a slice (adjoint), or the reverse. */
static void add_rows(const Batch *b, const RowSpan *span, float *slice)
{
	const int64_t columns = b->f->spec.columns;
	for (int64_t row = span->first; row <= span->last; row++) {
		double weight = 1 - fabs((double)row - span->at) / span->view->reach;
		float *outer = span->data + row * columns, factor = (float)fmax(weight, 0);
		float *to = b->direction == ADJOINT ? slice : outer;
		const float *from = b->direction == ADJOINT ? outer : slice;
		for (int64_t c = 0; c < columns; c++)
			to[c] += factor * from[c];
	}
}

/* Where the rows of all lanes are loaded from or stored to. Slices without a row of their own have
 * one in `rows`, and those without any row use the one after these. */
static void find_rows(const Batch *b, const RowSpan *spans, float *rows, float **places)
{
	const Fourier *f = b->f;
	const int lanes = fft_lanes(f->rows);
	const int64_t columns = f->spec.columns;
	for (int l = 0; l < lanes; l++) {
		const RowSpan *span = &spans[l];
		places[l] = rows + l * columns;
		if (span->last < span->first)
			places[l] = b->direction == ADJOINT ? f->zeros : rows + lanes * columns;
		else if (span->own)
			places[l] = span->data + span->first * columns;
		else if (b->direction == ADJOINT) {
			memset(places[l], 0, (size_t)columns * sizeof *rows);
			add_rows(b, span, places[l]);
		}
	}
}

/* Loads or stores the rows of the slices in real or imaginary parts. */
static void move_rows(const Batch *b, int64_t index, int part, float *rows, float *scratch)
{
	const Fourier *f = b->f;
	const int lanes = fft_lanes(f->rows), group = lanes / f->pairs;
	RowSpan spans[FFT_MOST_LANES];
	float *places[FFT_MOST_LANES];
	for (int l = 0; l < lanes; l++)
		spans[l] = span_of(b, index * group + l / f->pairs, slice_of(b, l, part));
	find_rows(b, spans, rows, places);
	if (b->direction == ADJOINT) {
		fft_gather(f->rows, (const float **)places, 0, f->spec.columns, part, scratch);
		return;
	}
	fft_scatter(f->rows, scratch, 0, f->spec.columns, part, places);
	for (int l = 0; l < lanes; l++)
		if (!spans[l].own)
			add_rows(b, &spans[l], places[l]);
}

void fourier_rows(const Batch *b, int64_t index, float *scratch)
{
	const Fourier *f = b->f;
	const int group = group_of(f, f->rows);
	float *factor = scratch + f->scratch_floats, *rows = factor + 2 * (2 * f->top + 1);
	memset(scratch, 0, (size_t)fft_floats(f->rows) * sizeof *scratch);
	for (int part = 0; b->direction == ADJOINT && part < 2; part++)
		move_rows(b, index, part, rows, scratch);
	if (b->direction == ADJOINT)
		fft_forward(f->rows, scratch);
	for (int g = 0; g < group && index * group + g < f->spec.count; g++) {
		view_factors(f, &f->views[index * group + g], factor);
		move_spectrum(b, index * group + g, g * f->pairs, factor, scratch);
	}
	if (b->direction == ADJOINT)
		return;
	fft_inverse(f->rows, scratch);
	for (int part = 0; part < 2; part++)
		move_rows(b, index, part, rows, scratch);
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
